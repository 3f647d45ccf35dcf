"""Each provider compared with a plain list in memory, over generated steps."""

from __future__ import annotations

import pytest

from tests.conftest import Promise
from tests.models.provider_machine import ProviderMachine
from tests.models.stores import STORES, Store
from tests.models.walking import walked

pytestmark = pytest.mark.slow


@pytest.mark.timeout(14_400)
@pytest.mark.parametrize("store", STORES, ids=lambda store: store.name)
def test_a_provider_never_differs_from_a_plain_list(store: Store, big: bool, promise: Promise) -> None:
    steps = walked(ProviderMachine, store, steps=100_000 if big else 100)
    promise(f"stateful model, {store.name}", f"{steps:,} steps: 0 differences")
