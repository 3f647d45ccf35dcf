"""Write the fixture stores that `test_old_stores` opens: one per provider, with everything a store can hold.

    python tests/providers/stores/make_stores.py NAME

Run it with the factmem whose format the stores should have. It writes ``NAME.zip`` beside itself: the files of each
provider in a folder of its own, and ``expected.json`` with the log entries, vectors and access counts of each.
"""

from __future__ import annotations

import base64
import datetime as dt
import json
import os
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import anyio
import attrs
import numpy as np

from factmem import Memory
from factmem.abc.capabilities import Access, Append, StateRequest
from factmem.codec import encode_entry
from factmem.details import Evidence, FactDetails, Origin
from factmem.facts import Concept, Fact
from factmem.providers.registry import open_provider
from factmem.recall import CallableEmbedder
from factmem.records import Assertion, AssertionState, Place, Recorded, assertions_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

ADDRESSES: Final = {
    "sqlite-vec": "sqlite-vec:{folder}/facts.db",
    "file": "file:{folder}/facts",
    "encrypted": "encrypted:{folder}/facts?key_env=FACTMEM_FIXTURE_KEY",
    "encrypted-sqlite": "encrypted-sqlite:{folder}/facts.db?key_env=FACTMEM_FIXTURE_KEY",
}
KEY: Final = base64.b64encode(bytes(range(32))).decode()
TENANTS: Final = (None, "acme")

NOON: Final = dt.datetime(2026, 3, 4, 12, tzinfo=dt.UTC)
ALICE: Final = MemorySubject("user", "the person who asks", priority_level=7, individual_name="Alice")
USER: Final = MemorySubject("user", "the person who asks", priority_level=7)
PROJECT: Final = MemoryScope.parse("/product/alpha/feature/search")
CITY: Final = Concept.single("city", "Where the person lives")
SEATS: Final = Concept.single("seats", "How many seats the plan has", int)
LIKES: Final = Concept.multiple("likes", "What the person likes")


def said(fact: Fact[Any], scope: MemoryScope, subject: MemorySubject = ALICE, **details: Any) -> Assertion:
    (assertion,) = assertions_of(fact, Place(subject, scope), FactDetails(**details))
    return assertion


def appended() -> Iterator[Append]:
    """Return assertions of several places, tenants, owners and origins, in every shape that the codec supports."""
    quote = Evidence(
        quote="tea", conversation_id="c1", message_id="m1", role="user", speaker="Alice", position=3, start=0, end=3
    )
    longer = Evidence(quote="I like tea, and Zürich", conversation_id="c1", message_id="m2", position=4)
    yield Append(
        assertion=said(CITY.fact(["Bern"], timestamp=NOON), PROJECT, importance=0.9, metadata={"n": 1, "deep": [None]}),
        vector=np.array([1, 2, 2, 0], np.float32),
    )
    yield Append(
        assertion=said(LIKES.fact(["tea"], timestamp=NOON), PROJECT, evidence=(quote, longer), categories=("drinks",)),
        vector=np.array([0, 0, 0, 5], np.float32),
    )
    yield Append(
        assertion=said(
            CITY.fact(
                ["Zürich 🏔"], timestamp=NOON + dt.timedelta(days=1), valid_from=NOON, valid_to=NOON.replace(year=2030)
            ),
            PROJECT,
            evidence=(longer,),
        )
    )
    yield Append(assertion=said(SEATS.fact([4], timestamp=NOON), MemoryScope.agent("planner"), USER, owner="alice"))
    yield Append(
        assertion=said(
            LIKES.fact(["cake"], timestamp=NOON), PROJECT, origin=Origin.TOOL, expires_at=NOON.replace(year=2031)
        )
    )
    yield Append(assertion=said(LIKES.fact(["coffee"], timestamp=NOON), PROJECT.within("acme"), USER))
    yield Append(assertion=said(LIKES.fact(["gin"], timestamp=NOON), PROJECT.within("acme"), USER, source="notes"))
    waiting = said(LIKES.fact(["words that wait"], timestamp=NOON), MemoryScope.CROSS_PRODUCT)
    yield Append(
        assertion=attrs.evolve(
            waiting, job={"kind": "detect", "tries": 0}, state=AssertionState.PENDING, actor="cli:ada"
        )
    )


def embedder() -> CallableEmbedder:
    return CallableEmbedder(lambda texts: [[1.0, 0.0, 0.0, 0.0]] * len(texts), name="fixture", dimension=4)


async def fill(address: str) -> dict[str, Any]:
    async with open_provider(address) as opened:
        provider: Any = opened
        await provider.use_embedder(await embedder().identity())
        receipts = [(await provider.append([item]))[0].recorded for item in appended()]
        city, tea, _, _, cake, coffee, gin, waiting = receipts
        update = said(LIKES.fact(["green tea"], timestamp=NOON + dt.timedelta(hours=1)), PROJECT)
        await provider.append([Append(assertion=attrs.evolve(update, revises=tea.record_id, revised=tea.seq))])
        await provider.append(
            [
                StateRequest.of(cake, state=AssertionState.ACTIVE, reason="accepted", actor="cli:ada"),
                StateRequest.of(coffee, state=AssertionState.RETRACTED, reason="not any more"),
                StateRequest.of(waiting, state=AssertionState.FAILED, expected=AssertionState.PENDING),
            ]
        )
        await provider.put_vectors(None, {coffee.seq: np.array([0, 3, 0, 4], np.float32)})
        await provider.add_accesses(None, {city.record_id: Access(count=3, last=NOON)})
        await provider.erase([gin.record_id], tenant="acme")
    # Outlines of recall, and an access, which is written when the memory is closed.
    async with Memory(address, embedder=embedder(), clock=lambda: NOON + dt.timedelta(days=30)) as memory:
        await memory.recall("Which tea?")
    async with open_provider(address) as opened:
        return await contents(opened)


async def contents(provider: Any) -> dict[str, Any]:
    """Return the whole content of a store, as JSON."""
    found: dict[str, Any] = {"version": await provider.version(None), "tenants": {}}
    for tenant in TENANTS:
        log = await provider.changes(tenant)
        seqs, rows = await provider.vectors(tenant)
        records = sorted({entry.record_id for entry in log if isinstance(entry, Recorded)})
        counted = await provider.accesses(tenant, records)
        found["tenants"][tenant or ""] = {
            "log": [encode_entry(entry) for entry in log],
            "vectors": {str(seq): row.tolist() for seq, row in zip(seqs, rows, strict=True)},
            "accesses": {id: [item.count, item.last.isoformat()] for id, item in counted.items()},
        }
    return found


def main(name: str) -> None:
    os.environ["FACTMEM_FIXTURE_KEY"] = KEY
    with tempfile.TemporaryDirectory() as folder:
        expected = {}
        for provider, address in ADDRESSES.items():
            place = Path(folder, provider)
            place.mkdir()
            expected[provider] = anyio.run(fill, address.format(folder=place))
        with zipfile.ZipFile(Path(__file__).with_name(f"{name}.zip"), "w", zipfile.ZIP_DEFLATED) as packed:
            for path in sorted(Path(folder).rglob("*")):
                if path.is_file():
                    packed.write(path, path.relative_to(folder))
            packed.writestr("expected.json", json.dumps(expected, ensure_ascii=False, indent=1))


if __name__ == "__main__":
    main(sys.argv[1])
