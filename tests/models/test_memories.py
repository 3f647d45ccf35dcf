"""A `Memory` over each store compared with a plain list, over generated steps."""

from __future__ import annotations

import pytest

from tests.conftest import Promise
from tests.models.memory_machine import MemoryMachine
from tests.models.stores import STORES, Store
from tests.models.walking import walked

pytestmark = pytest.mark.slow


@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("store", STORES, ids=lambda store: store.name)
def test_a_memory_never_differs_from_a_plain_list(store: Store, big: bool, promise: Promise) -> None:
    steps = walked(MemoryMachine, store, steps=10_000 if big else 80)
    promise(f"stateful model of the memory, {store.name}", f"{steps:,} steps: 0 differences")
