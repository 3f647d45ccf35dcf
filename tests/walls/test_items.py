"""The items of LangGraph's stores are behind the same walls, separated by namespace, organization and owner."""

from __future__ import annotations

import pytest
from langgraph.store.base import GetOp, ListNamespacesOp, PutOp, SearchOp

from factmem import InMemoryProvider, Memory
from factmem.integrations.langgraph import FactMemStore
from tests.walls.leaves import text_of
from tests.walls.ways import EMBEDDER

NAMESPACES = (("a",), ("ab",), ("a", "x"), ("a/x",))


@pytest.mark.parametrize(("organization", "viewer"), [("acme", None), ("acme2", None), (None, "maya")])
async def test_a_store_shows_its_own_items_only(organization: str | None, viewer: str | None) -> None:
    """Two stores on one provider have items of the same names.

    Each finds its own, with prefixes matched label by label.
    """
    provider = InMemoryProvider()
    for name in ("acme", "acme2", None):
        async with Memory(provider, organization=name, embedder=EMBEDDER) as memory:
            puts = [PutOp(space, "tea", {"said": f"green {name} {'-'.join(space)}"}) for space in NAMESPACES]
            await FactMemStore(memory).abatch(puts)
    async with Memory(provider, organization=organization, viewer=viewer, embedder=EMBEDDER) as memory:
        store = FactMemStore(memory)
        everything = await store.abatch(
            [SearchOp((), query="green tea"), ListNamespacesOp(), *(GetOp(space, "tea") for space in NAMESPACES)]
        )
        text = text_of(everything)
        assert [f"green {organization} {'-'.join(space)}" in text for space in NAMESPACES] == [True] * 4
        assert [name for name in ("acme", "acme2", None) if f"green {name} " in text] == [organization]
        (found,) = await store.abatch([SearchOp(("a",), query="green tea")])
        below = [space for space in NAMESPACES if f"{organization} {'-'.join(space)}'" in f"{found}"]
        assert below == [("a",), ("a", "x")]
