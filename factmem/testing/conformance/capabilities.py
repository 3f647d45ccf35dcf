"""Specs of the capabilities beside the log: vectors, erasure, accesses, copies and the check of a store."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import anyio
import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from factmem.abc.capabilities import Access, Append, EmbedderIdentity, KeepsFiles, LogPart
from factmem.codec import dump_entry
from factmem.details import Origin
from factmem.errors import (
    EmbedderMismatchError,
    InvalidDataError,
    InvalidVectorError,
    RecordNotFoundError,
    StateConflictError,
)
from factmem.facts import Concept
from factmem.providers.memory import InMemoryProvider
from factmem.records import LogEntry, Recorded, StateChange, Tombstone
from factmem.store_findings import FindingKind, Severity
from factmem.testing.conformance.case import (
    ACTIVE,
    PENDING,
    QUARANTINED,
    RETRACTED,
    ProviderCase,
    Store,
    files_in,
    request,
)
from factmem.testing.conformance.samples import (
    CITY,
    LANGUAGES,
    PLANNER,
    SEATS,
    USER,
    at,
    multiple,
    refused,
    said,
    single,
)

_ONE = EmbedderIdentity(name="one", dimension=4)
_TWO = EmbedderIdentity(name="two", dimension=3)
_WRONG: dict[str, list[Any]] = {
    "nan": [1, float("nan"), 0, 0],
    "infinite": [1, float("inf"), 0, 0],
    "zero": [0, 0, 0, 0],
    "too short": [1, 2, 3],
    "too long": [1, 2, 3, 4, 5],
    "empty": [],
    "a matrix": [[1, 0], [0, 1]],
}


def _vector(*numbers: Any) -> NDArray[np.float32]:
    return np.array(numbers, dtype=np.float32)


def _unit(vector: NDArray[np.float32]) -> NDArray[np.float32]:
    return (vector / np.linalg.norm(vector)).astype(np.float32)


class VectorSpecs(ProviderCase):
    """Specs of embeddings."""

    @pytest.fixture
    async def bound(self, store: Store) -> Store:
        """The provider under test, bound to an embedder."""
        await store.keeper.use_embedder(_ONE)
        return store

    async def test_a_store_is_bound_to_no_embedder_at_first(self, store: Store) -> None:
        assert await store.keeper.embedder() is None
        await store.keeper.use_embedder(_ONE)
        assert await store.keeper.embedder() == _ONE

    async def test_vectors_read_back_as_directions(self, bound: Store) -> None:
        """Vectors have length 1, whatever their length was, in the order of their numbers."""
        first, second = await bound.keep(said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe"))
        long, short = _vector(3, 0, 4, 0), _vector(0, 1e-3, 0, 0)
        await bound.keeper.put_vectors(None, {second.recorded.seq: short, first.recorded.seq: long})
        numbers, rows = await bound.keeper.vectors(None)
        assert list(numbers) == [first.recorded.seq, second.recorded.seq]
        assert rows.dtype == np.float32
        np.testing.assert_allclose(rows, [_unit(long), _unit(short)], atol=1e-6)

    async def test_a_vector_can_come_with_its_assertion(self, bound: Store) -> None:
        (receipt,) = await bound.append(Append(assertion=said(LANGUAGES, "Thai"), vector=_vector(0, 0, 2, 0)))
        numbers, rows = await bound.keeper.vectors(None)
        assert list(numbers) == [receipt.recorded.seq]
        np.testing.assert_allclose(rows, [[0, 0, 1, 0]], atol=1e-6)

    async def test_there_may_be_no_vectors(self, bound: Store) -> None:
        await bound.only(said(LANGUAGES, "Thai"))
        numbers, rows = await bound.keeper.vectors(None)
        assert list(numbers) == []
        assert rows.shape == (0, 4)

    @pytest.mark.parametrize("wrong", _WRONG.values(), ids=_WRONG.keys())
    async def test_an_unfit_vector_is_refused_with_its_companions(self, bound: Store, wrong: list[Any]) -> None:
        first, second = said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe")
        fit, unfit = _vector(1, 0, 0, 0), _vector(*wrong)
        both = [Append(assertion=first, vector=fit), Append(assertion=second, vector=unfit)]
        await refused(InvalidVectorError, bound.append(*both))
        assert await bound.log() == []
        known = [receipt.recorded.seq for receipt in await bound.keep(first, second)]
        await refused(InvalidVectorError, bound.keeper.put_vectors(None, dict(zip(known, (fit, unfit), strict=True))))
        assert await bound.embedded() == []

    async def test_a_vector_before_any_embedder_is_refused(self, store: Store) -> None:
        """A vector without an embedder's identity is refused, not dropped."""
        known, row = await store.only(said(LANGUAGES, "Thai")), _vector(1, 0, 0, 0)
        await refused(InvalidVectorError, store.keeper.put_vectors(None, {known.seq: row}))
        await refused(InvalidVectorError, store.append(Append(assertion=said(LANGUAGES, "Ewe"), vector=row)))
        assert await store.log() == [known]
        assert await store.embedded() == []

    async def test_vectors_of_unknown_numbers_are_passed_over(self, bound: Store) -> None:
        known = await bound.only(said(LANGUAGES, "Thai"))
        await bound.keeper.put_vectors(None, {known.seq: _vector(1, 0, 0, 0), 10**6: _vector(1, 0, 0, 0)})
        assert await bound.embedded() == [known.seq]

    async def test_vectors_are_of_one_tenant_and_go_on_after_any_number(self, bound: Store) -> None:
        mine = [await _embedded(bound, f"{number}") for number in range(3)]
        theirs = await _embedded(bound, "x", tenant="acme")
        assert await bound.embedded() == mine
        assert await bound.embedded("acme") == [theirs]
        assert await bound.embedded(None, mine[0]) == mine[1:]
        assert await bound.embedded(None, mine[-1]) == []

    async def test_vectors_are_put_for_one_tenant(self, bound: Store) -> None:
        """The same number of another tenant is another assertion."""
        (here,) = await bound.keep(said(LANGUAGES, "Thai"))
        (there,) = await bound.keep(said(LANGUAGES, "Thai", scope=PLANNER.within("acme")))
        assert here.recorded.seq == there.recorded.seq
        await bound.keeper.put_vectors("acme", {there.recorded.seq: _vector(1, 0, 0, 0)})
        assert await bound.embedded() == []
        assert await bound.embedded("acme") == [there.recorded.seq]

    async def test_another_embedder_is_refused(self, bound: Store) -> None:
        seq = await _embedded(bound, "Thai")
        same_width = EmbedderIdentity(name="three", dimension=4)
        for other in (_TWO, same_width):
            await refused(EmbedderMismatchError, bound.keeper.use_embedder(other))
        await bound.keeper.use_embedder(_ONE)
        assert await bound.keeper.embedder() == _ONE
        assert await bound.embedded() == [seq]

    async def test_replacing_the_embedder_drops_the_vectors_and_nothing_else(self, bound: Store) -> None:
        seq = await _embedded(bound, "Thai")
        await bound.keeper.use_embedder(_TWO, replace=True)
        assert await bound.keeper.embedder() == _TWO
        numbers, rows = await bound.keeper.vectors(None)
        assert list(numbers) == []
        assert rows.shape == (0, 3)
        assert len(await bound.log()) == 1
        await bound.keeper.put_vectors(None, {seq: _vector(0, 1, 0)})
        np.testing.assert_allclose((await bound.keeper.vectors(None))[1], [[0, 1, 0]], atol=1e-6)
        await bound.keeper.use_embedder(_TWO, replace=True)
        assert await bound.embedded() == [], "the same one may be wanted to begin anew"

    async def test_vectors_are_there_when_it_is_opened_again(self, bound: Store, tmp_path: Path) -> None:
        seq = await _embedded(bound, "Thai", (1, 2, 3, 4))
        async with await self.reopened(bound, tmp_path) as again:
            assert await again.keeper.embedder() == _ONE
            numbers, rows = await again.keeper.vectors(None)
            assert list(numbers) == [seq]
            np.testing.assert_allclose(rows, [_unit(_vector(1, 2, 3, 4))], atol=1e-6)

    async def test_two_openings_see_each_other_s_states_vectors_and_erasures(
        self, store: Store, tmp_path: Path
    ) -> None:
        if not self.durable:
            pytest.skip(f"{type(store.provider).__name__} is not durable")
        await store.keeper.use_embedder(_ONE)
        thai, ewe = (receipt.recorded for receipt in await store.keep(said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe")))
        async with Store(await self.open_provider(tmp_path)) as other:
            assert await other.changes() == [thai, ewe]
            await other.keeper.put_vectors(None, {ewe.seq: _vector(1, 0, 0, 0)})
            await other.change(thai, RETRACTED)
            assert (await store.embedded(), await store.values(LANGUAGES)) == ([ewe.seq], ["Ewe"])
            erased = [(await opening.erase([ewe.record_id])).erased for opening in (store, other)]
            assert (erased, await other.embedded(), await other.values(LANGUAGES)) == ([1, 0], [], [])
            await other.keeper.use_embedder(_TWO, replace=True)
            await other.keep(said(LANGUAGES, "Ewe"))
            assert (await store.keeper.embedder(), await store.values(LANGUAGES)) == (_TWO, ["Ewe"])
            assert await other.changes() == await store.changes()


async def _embedded(store: Store, value: str, vector: Sequence[float] = (1, 0, 0, 0), tenant: str | None = None) -> int:
    """Append a value with a vector; return its sequence number."""
    assertion = said(LANGUAGES, value, scope=PLANNER.within(tenant))
    (receipt,) = await store.append(Append(assertion=assertion, vector=_vector(*vector)))
    return receipt.recorded.seq


class ErasureSpecs(ProviderCase):
    """Specs of the erasure of records and of single revisions."""

    async def test_an_erased_record_is_on_no_read_path(self, store: Store) -> None:
        """All revisions and changes of state of the record are erased; the values of others stay."""
        first = await store.only(said(CITY, "Rome", 1))
        await store.only(said(CITY, "Oslo", 2))
        await store.change(first, RETRACTED)
        await store.only(said(SEATS, 4))
        receipt = await store.erase([first.record_id])
        assert receipt.erased == 2
        # A server writes its log over at its leisure.
        assert not (receipt.pending and isinstance(store.provider, KeepsFiles))
        assert await store.load(CITY) is None
        assert [fact.concept.keyword for fact in await store.load_all()] == ["seats"]
        assert await store.find("city") == []
        log = await store.log()
        assert not any(word in repr(log) for word in ("Rome", "Oslo", first.record_id))

    async def test_an_update_of_what_was_erased_meanwhile_writes_nothing(self, store: Store) -> None:
        """A whole transaction is refused, even if the rest of the record's place still exists."""
        thai, _ = await store.keep(said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe"))
        updated = said(LANGUAGES, "Lao", 1, revises=thai.recorded.record_id)
        follows = thai.recorded.seq
        await store.append(Append(assertion=updated, follows=follows))
        await store.erase([thai.recorded.record_id])
        version = await store.version()
        again = said(LANGUAGES, "Sami", 2, revises=thai.recorded.record_id)
        with pytest.raises(RecordNotFoundError, match="erased meanwhile"):
            await store.append(Append(assertion=said(SEATS, 4)), Append(assertion=again, follows=follows))
        assert (await store.version(), await store.values(LANGUAGES)) == (version, ["Ewe"])
        await store.append(Append(assertion=again))
        assert sorted(await store.values(LANGUAGES)) == ["Ewe", "Sami"]

    async def test_what_is_left_is_a_tombstone_of_id_and_number(self, store: Store) -> None:
        erased = [await store.only(said(CITY, city, minute)) for minute, city in enumerate(["Rome", "Oslo"])]
        kept = await store.only(said(SEATS, 4))
        before = await store.version()
        await store.erase([erased[0].record_id])
        everything = await store.changes()
        stones = [entry for entry in everything if isinstance(entry, Tombstone)]
        assert [entry for entry in everything if not isinstance(entry, Tombstone)] == [kept]
        assert {stone.assertion_id for stone in stones} == {entry.id for entry in erased}
        assert all(set(attrs.asdict(stone)) == {"assertion_id", "seq"} for stone in stones)
        assert await store.changes(None, before) == stones
        assert await store.version() == stones[-1].seq > before

    async def test_ids_of_another_tenant_and_of_nothing_are_passed_over(self, store: Store) -> None:
        mine = await store.only(said(CITY, "Oslo"))
        before = await store.version()
        records, assertions = [mine.record_id, "no such record"], [mine.id, "no such assertion"]
        assert (await store.erase(records, tenant="acme", assertions=assertions)).erased == 0
        assert (await store.erase([])).erased == 0
        assert await store.value(CITY) == "Oslo"
        assert await store.version() == before
        assert await store.changes("acme") == []

    async def test_another_tenant_sees_no_tombstone(self, store: Store) -> None:
        theirs = await store.only(said(CITY, "Oslo", scope=PLANNER.within("acme")))
        await store.erase([theirs.record_id], tenant="acme")
        assert await store.changes() == []
        assert [type(entry) for entry in await store.changes("acme")] == [Tombstone]

    async def test_erasing_twice_finds_nothing_the_second_time(self, store: Store) -> None:
        recorded = await store.only(said(CITY, "Oslo"))
        assert (await store.erase([recorded.record_id] * 2)).erased == 1
        assert (await store.erase([recorded.record_id])).erased == 0

    async def test_the_erased_can_be_said_again(self, store: Store) -> None:
        """The fact is a new one: the store remembers neither the old one nor its type."""
        recorded = await store.only(said(CITY, "Oslo"))
        await store.erase([recorded.record_id])
        (again,) = await store.keep(said(CITY, "Oslo"))
        assert again.new
        assert again.recorded.id != recorded.id
        assert await store.value(CITY) == "Oslo"
        await store.erase([again.recorded.record_id])
        number = Concept.single("city", "As a number", int)
        await store.keep(said(number, 7))
        assert await store.value(number) == 7

    async def test_the_state_of_the_erased_cannot_be_changed(self, store: Store) -> None:
        recorded = await store.only(said(CITY, "Oslo"))
        await store.erase([recorded.record_id])
        await refused(RecordNotFoundError, store.change(recorded, ACTIVE))

    async def test_one_assertion_can_be_erased_and_its_record_keeps_its_id_and_the_others(self, store: Store) -> None:
        old, new = await store.only(said(CITY, "Rome", 1)), await store.only(said(CITY, "Oslo", 2))
        await store.change(old, RETRACTED)
        assert (await store.erase(assertions=[old.id, old.id])).erased == 1
        assert await store.log() == [new]
        stone = (await store.changes())[-1]
        assert isinstance(stone, Tombstone)
        assert stone.assertion_id == old.id
        assert await store.value(CITY) == "Oslo"
        again = await store.only(said(CITY, "Bonn", 3))
        assert again.record_id == new.record_id

    async def test_erasing_the_newest_assertion_brings_back_the_value_before(self, store: Store) -> None:
        await store.only(said(CITY, "Rome", 1))
        newest = await store.only(said(CITY, "Oslo", 2))
        await store.erase(assertions=[newest.id])
        assert await store.value(CITY) == "Rome"
        (again,) = await store.keep(said(CITY, "Oslo", 2))
        assert again.new

    async def test_a_record_that_loses_its_last_assertion_loses_its_id(self, store: Store) -> None:
        recorded = [await store.only(said(CITY, city, minute)) for minute, city in enumerate(["Rome", "Oslo"])]
        await store.erase(assertions=[entry.id for entry in recorded])
        assert await store.load(CITY) is None
        again = await store.only(said(CITY, "Rome"))
        assert again.record_id != recorded[0].record_id

    async def test_records_and_single_assertions_can_be_erased_together(self, store: Store) -> None:
        """An id that is named twice is erased once, and an id of one kind does not name the other."""
        first, second = [await store.only(said(CITY, city, minute)) for minute, city in enumerate(["Rome", "Oslo"])]
        (thai, _) = await store.keep(said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe"))
        assert (await store.erase([first.id], assertions=[first.record_id])).erased == 0
        receipt = await store.erase([thai.recorded.record_id], assertions=[thai.recorded.id, second.id])
        assert receipt.erased == 2
        assert await store.value(CITY) == "Rome"
        assert await store.values(LANGUAGES) == ["Ewe"]

    async def test_vectors_are_erased_too_and_those_of_others_stay(self, store: Store) -> None:
        await store.keeper.use_embedder(_ONE)
        row = _vector(1, 0, 0, 0)
        statements = [Append(assertion=said(CITY, f"{minute}", minute), vector=row) for minute in range(2)]
        old, new = [receipt.recorded for receipt in await store.append(*statements)]
        await store.erase(assertions=[old.id])
        assert await store.embedded() == [new.seq]
        await store.erase([new.record_id])
        await store.keeper.put_vectors(None, {new.seq: row})
        assert await store.embedded() == []

    @pytest.mark.parametrize("singly", [False, True], ids=["the record", "its one revision"])
    async def test_the_words_are_in_no_file_of_the_store(self, store: Store, tmp_path: Path, singly: bool) -> None:
        secret = "xylophone-quartz-0451"
        assertion = attrs.evolve(said(CITY, secret, metadata={"also": secret}), job={"words": secret})
        recorded = await store.only(assertion)
        await store.append(request(recorded, RETRACTED, reason=secret))
        await store.only(said(SEATS, 4))
        records, assertions = ([], [recorded.id]) if singly else ([recorded.record_id], [])
        assert (await store.erase(records, assertions=assertions)).erased == 1
        assert not _files_with(tmp_path, secret)
        async with await self.reopened(store, tmp_path) as again:
            assert await again.load(CITY) is None
            assert await again.value(SEATS) == 4
        assert not _files_with(tmp_path, secret)


def _files_with(directory: Path, word: str) -> list[Path]:
    return [path for path, content in files_in(directory).items() if word.encode() in content]


class AccessSpecs(ProviderCase):
    """Specs of access counts."""

    async def test_of_what_was_never_recalled_nothing_is_known(self, store: Store) -> None:
        record = (await store.only(said(SEATS, 4))).record_id
        assert await store.keeper.accesses(None, [record]) == {}
        await store.keeper.add_accesses(None, {})
        assert await store.keeper.accesses(None, []) == {}

    async def test_what_is_added_sums_up_and_the_latest_time_stands(self, store: Store) -> None:
        """Counts add up in any order."""
        seats, tea = [(await store.only(item)).record_id for item in (said(SEATS, 4), said(LANGUAGES, "Thai"))]
        await store.keeper.add_accesses(None, {seats: Access(count=2, last=at(9)), tea: Access(count=1, last=at(1))})
        await store.keeper.add_accesses(None, {seats: Access(count=3, last=at(5))})
        expected = {seats: Access(count=5, last=at(9)), tea: Access(count=1, last=at(1))}
        assert await store.keeper.accesses(None, [seats, tea]) == expected
        assert await store.keeper.accesses(None, [tea]) == {tea: expected[tea]}

    async def test_it_belongs_to_the_tenant_of_the_record(self, store: Store) -> None:
        """Another tenant neither adds to a count nor reads it; ids that name no record are ignored."""
        record = (await store.only(said(SEATS, 4, scope=PLANNER.within("acme")))).record_id
        await store.keeper.add_accesses(
            "acme", {record: Access(count=1, last=at()), "nobody": Access(count=5, last=at())}
        )
        await store.keeper.add_accesses(None, {record: Access(count=9, last=at(9))})
        assert await store.keeper.accesses("acme", [record, "nobody"]) == {record: Access(count=1, last=at())}
        assert await store.keeper.accesses(None, [record, "nobody"]) == {}
        assert await store.keeper.accesses("other", [record]) == {}

    async def test_it_is_no_entry_of_the_log(self, store: Store) -> None:
        record = (await store.only(said(SEATS, 4))).record_id
        version, log = await store.version(), await store.changes()
        await store.keeper.add_accesses(None, {record: Access(count=1, last=at())})
        assert (await store.version(), await store.changes()) == (version, log)

    async def test_it_goes_with_the_record(self, store: Store) -> None:
        """It stays while the record has an assertion; an erased one does not come back when one is written later."""
        gone, left = [(await store.only(said(LANGUAGES, name))).record_id for name in ("Thai", "Ewe")]
        revision = await store.only(said(LANGUAGES, "Ewe", 1))
        counts = {gone: Access(count=1, last=at()), left: Access(count=2, last=at())}
        await store.keeper.add_accesses(None, counts)
        await store.erase([gone], assertions=[revision.id])
        await store.keeper.add_accesses(None, counts)
        assert await store.keeper.accesses(None, [gone, left]) == {left: Access(count=4, last=at())}

    async def test_it_is_there_when_the_store_is_opened_again(self, store: Store, tmp_path: Path) -> None:
        record = (await store.only(said(SEATS, 4))).record_id
        await store.keeper.add_accesses(None, {record: Access(count=3, last=at())})
        async with await self.reopened(store, tmp_path) as again:
            assert await again.keeper.accesses(None, [record]) == {record: Access(count=3, last=at())}


_ACME = PLANNER.within("acme")
_FLAT = EmbedderIdentity(name="flat", dimension=2)


async def _filled(store: Store) -> Store:
    """Write a log with changes of state, tombstones, owners and vectors, for two tenants."""
    await store.keeper.use_embedder(_FLAT)
    rows = np.cos(np.arange(6, dtype=np.float32)).reshape(3, 2)  # divided by their lengths twice, they change
    assertions = [said(LANGUAGES, f"{number}", number) for number in range(3)]
    receipts = await store.append(
        *(Append(assertion=item, vector=row) for item, row in zip(assertions, rows, strict=True))
    )
    first, second, third = (receipt.recorded for receipt in receipts)
    await store.append(request(second, RETRACTED, reason="why", actor="me"))
    await store.erase(assertions=[third.id])
    await store.only(said(CITY, "Zürich 東京", owner="alice", subject=USER.individual("a")))
    await store.only(said(LANGUAGES, "Ewe", 9, revises=first.record_id))
    of_another_type = said(Concept.single("languages", "How many", int), 3, 30)
    await store.only(attrs.evolve(of_another_type, state=QUARANTINED))
    await store.only(said(SEATS, 4, scope=_ACME))
    return store


async def _put(source: Store, target: Store, tenant: str | None, *, limit: int = 2) -> None:
    while True:
        copied = await target.keeper.copied(tenant)
        assert copied is not None
        part = await source.keeper.log_part(tenant, copied, limit=limit)
        if part.until == part.since:
            return
        await target.keeper.put_log_part(tenant, part)


def _written(log: Sequence[LogEntry]) -> list[bytes]:
    return [dump_entry(entry) for entry in log]


def _recorded(part: LogPart) -> list[Recorded]:
    return [entry for entry in part.entries if isinstance(entry, Recorded)]


def _bytes(vectors: Iterable[tuple[int, NDArray[np.float32]]]) -> dict[int, bytes]:
    return {seq: row.tobytes() for seq, row in vectors}


async def _log(store: Store, tenant: str | None = None) -> LogPart:
    return await store.keeper.log_part(tenant, limit=1_000_000)


async def _is_empty(store: Store, tenant: str | None = None) -> bool:
    return (await store.keeper.copied(tenant), [*(await _log(store, tenant)).entries]) == (0, [])


class CopySpecs(ProviderCase):
    """Specs of copies of logs; the other store is one in memory."""

    async def test_tenants_are_those_with_a_log(self, store: Store) -> None:
        assert list(await store.keeper.tenants()) == []
        await _filled(store)
        assert list(await store.keeper.tenants()) == [None, "acme"]

    @pytest.mark.parametrize("limit", [1, 3, 100])
    async def test_parts_make_up_the_log(self, store: Store, limit: int) -> None:
        await _filled(store)
        entries: list[LogEntry] = []
        since = 0
        while (part := await store.keeper.log_part(None, since, limit=limit)).until > since:
            assert len(part.entries) <= limit
            assert part.since == since
            assert part.vectors.keys() <= {entry.seq for entry in part.entries}
            entries += part.entries
            since = part.until
        assert _written(entries) == _written(await store.changes())
        assert since == await store.version()

    async def test_parts_hold_the_vectors_as_they_are(self, store: Store) -> None:
        await _filled(store)
        seqs, rows = await store.keeper.vectors(None)
        await store.keeper.put_vectors(None, dict(zip(seqs, rows, strict=True)))
        found = (await _log(store)).vectors
        assert len(seqs) == 2
        assert _bytes(found.items()) == _bytes(zip(seqs, rows, strict=True))

    @pytest.mark.parametrize("limit", [1, 100])
    @pytest.mark.parametrize("arriving", [True, False], ids=["into the provider", "out of the provider"])
    async def test_a_copy_is_the_log_and_goes_on_as_it_would(self, store: Store, limit: int, arriving: bool) -> None:
        """Ids, numbers, times, states and vectors are the same, and both stores take the same writes."""
        other = Store(InMemoryProvider())
        source, target = (other, store) if arriving else (store, other)
        await _filled(source)
        await target.keeper.use_embedder(_FLAT)
        await target.keeper.begin_copy([None, "acme"])
        for tenant in (None, "acme"):
            await _put(source, target, tenant, limit=limit)
            here, there = await _log(source, tenant), await _log(target, tenant)
            assert _written(there.entries) == _written(here.entries)
            assert there.until == here.until == await target.version(tenant)
            assert _bytes(there.vectors.items()) == _bytes(here.vectors.items())
        await target.keeper.end_copy([None, "acme"])
        assert await target.values(LANGUAGES) == ["Ewe"]
        recorded = _recorded(await _log(target))
        first, second, *_ = recorded
        assert [receipt.new for receipt in await target.keep(first.assertion)] == [False]
        version = await target.version()
        await target.change(second, ACTIVE, expected=RETRACTED)
        assert sorted(await target.values(LANGUAGES)) == ["1", "Ewe"]
        again = await target.only(said(LANGUAGES, "Lao", 10, revises=second.record_id))
        assert (again.seq, again.record_id) == (version + 2, second.record_id)
        assert again.recorded_at >= recorded[-1].recorded_at
        assert (await target.erase([first.record_id])).erased == 2
        assert (await target.erase(assertions=[second.id])).erased == 1
        assert await target.values(LANGUAGES) == ["Lao"]

    async def test_a_tombstone_erases_what_an_earlier_part_brought(self, store: Store) -> None:
        source = await _filled(Store(InMemoryProvider()))
        await store.keeper.use_embedder(_FLAT)
        await store.keeper.begin_copy([None])
        await _put(source, store, None)
        gone = _recorded(await _log(source))[:2]
        counts = {entry.record_id: Access(count=1, last=at()) for entry in gone}
        await store.keeper.add_accesses(None, counts)
        await source.erase(assertions=[entry.id for entry in gone])
        await source.only(said(LANGUAGES, "Lao", 20))
        await _put(source, store, None)
        assert _written((await _log(store)).entries) == _written((await _log(source)).entries)
        assert await store.embedded() == []
        # The record of the first has another assertion.
        assert list(await store.keeper.accesses(None, list(counts))) == [gone[0].record_id]
        assert not any(entry in gone for entry in await store.log())

    async def test_a_copy_is_unfinished_until_it_is_ended(self, store: Store, tmp_path: Path) -> None:
        """Also when it is opened again, and for tenants of which nothing has arrived yet."""
        source = Store(InMemoryProvider())
        await source.only(said(SEATS, 4, scope=_ACME))
        assert await store.keeper.copied("acme") is None
        await store.keeper.begin_copy(["acme", "later"])
        assert [await store.keeper.copied(tenant) for tenant in ("acme", "later", None)] == [0, 0, None]
        await _put(source, store, "acme")
        await store.keeper.begin_copy(["acme"])
        assert await store.keeper.copied("acme") == 1
        assert list(await store.keeper.tenants()) == ["acme", "later"]
        if self.durable:
            store = await self.reopened(store, tmp_path)
        assert (await store.keeper.copied("acme"), await store.keeper.copied("later")) == (1, 0)
        await store.keeper.end_copy(["acme", "later"])
        await store.keeper.end_copy(["acme"])
        assert (await store.keeper.copied("acme"), await store.keeper.copied("later")) == (None, None)
        assert list(await store.keeper.tenants()) == ["acme"]
        await store.aclose()

    async def test_an_unfinished_copy_is_found_by_a_check(self, store: Store) -> None:
        await store.keeper.begin_copy(["acme"])
        assert [found.kind for found in await store.keeper.check()] == [FindingKind.UNFINISHED]
        await store.keeper.end_copy(["acme"])
        assert not any(found.kind is FindingKind.UNFINISHED for found in await store.keeper.check())

    async def test_a_part_that_does_not_continue_the_copy_is_refused(self, store: Store) -> None:
        """The copy was not begun, the part came before, an earlier one is missing, or somebody else wrote."""
        source = Store(InMemoryProvider())
        recorded = [await source.only(said(SEATS, number, number)) for number in range(4)]
        one, two = await source.keeper.log_part(None, limit=1), await source.keeper.log_part(None, 1, limit=1)
        await refused(StateConflictError, store.keeper.put_log_part(None, one))
        await store.keeper.begin_copy([None])
        await refused(StateConflictError, store.keeper.put_log_part(None, two))
        await store.keeper.put_log_part(None, one)
        await refused(StateConflictError, store.keeper.put_log_part(None, one))
        assert list((await _log(store)).entries) == recorded[:1]
        await store.save(said_fact := CITY.fact(["Oslo"], timestamp=at()))
        await refused(StateConflictError, store.keeper.put_log_part(None, two))
        assert await store.value(CITY) == said_fact.values[0]

    @pytest.mark.parametrize("order", ["falling", "beyond", "of another tenant"])
    async def test_entries_that_do_not_fit_together_are_refused(self, store: Store, order: str) -> None:
        source = Store(InMemoryProvider())
        for number in range(3):
            await source.only(said(SEATS, number, number))
        part = await _log(source)
        odd = {
            "falling": attrs.evolve(part, entries=list(reversed(part.entries))),
            "beyond": attrs.evolve(part, until=2),
            "of another tenant": part,
        }
        tenant = "acme" if order == "of another tenant" else None
        await store.keeper.begin_copy([None, "acme"])
        await refused(InvalidDataError, store.keeper.put_log_part(tenant, odd[order]))
        assert await _is_empty(store)
        assert await _is_empty(store, "acme")

    async def test_a_change_of_state_of_nothing_is_refused_with_its_part(self, store: Store) -> None:
        source = Store(InMemoryProvider())
        await source.only(said(SEATS, 4))
        part = await _log(source)
        astray = StateChange(assertion_id="0" * 32, state=RETRACTED, seq=2, recorded_at=at())
        await store.keeper.begin_copy([None])
        part = attrs.evolve(part, entries=[*part.entries, astray], until=2)
        await refused(InvalidDataError, store.keeper.put_log_part(None, part))
        assert await _is_empty(store)

    async def test_a_log_of_tombstones_and_a_gap_at_its_end_are_copied(self, store: Store) -> None:
        entries = [Tombstone(assertion_id="ab" * 16, seq=3), Tombstone(assertion_id="of another store", seq=5)]
        await store.keeper.begin_copy([None])
        await store.keeper.put_log_part(None, LogPart(since=0, until=9, entries=entries))
        await store.keeper.end_copy([None])
        assert await store.changes() == entries
        assert (await store.version(), list(await store.keeper.tenants())) == (9, [None])
        assert (await store.only(said(SEATS, 4))).seq == 10

    async def test_accesses_are_counted_for_copied_records(self, store: Store) -> None:
        source = Store(InMemoryProvider())
        record_id = (await source.only(said(SEATS, 4))).record_id
        await store.keeper.begin_copy([None])
        await _put(source, store, None)
        await store.keeper.add_accesses(None, {record_id: Access(count=2, last=at())})
        assert await store.keeper.accesses(None, [record_id]) == {record_id: Access(count=2, last=at())}


class CheckSpecs(ProviderCase):
    """Specs of the check of a store."""

    async def test_a_sound_store_has_no_findings(self, store: Store) -> None:
        gone = await store.only(said(CITY, "Oslo"))
        await store.save(single(SEATS, 4))
        await store.save(multiple(LANGUAGES, "Thai", "Ewe"), USER, PLANNER.within("acme"))
        erased = await store.erase([gone.record_id])
        left = [FindingKind.PENDING_ERASURE] if erased.pending else []
        assert [finding.kind for finding in await store.keeper.check()] == left

    async def test_what_waits_and_what_is_not_believed_is_counted_and_no_fault(self, store: Store) -> None:
        planted = said(CITY, "Oslo")
        await store.keep(
            attrs.evolve(planted, state=QUARANTINED, details=attrs.evolve(planted.details, origin=Origin.TOOL))
        )
        await store.keep(attrs.evolve(said(SEATS, 4), job={"id": "1"}, state=PENDING))
        found = {finding.kind: finding for finding in await store.keeper.check()}
        assert found.keys() == {FindingKind.QUARANTINED, FindingKind.WAITING}
        assert {finding.severity for finding in found.values()} == {Severity.NOTE}

    async def test_a_check_changes_nothing_and_shows_its_progress(self, store: Store) -> None:
        await store.keep(said(CITY, "Oslo"))
        before = await _contents(store)
        told: list[tuple[int, int]] = []
        await store.keeper.check(progress=lambda done, of: told.append((done, of)))
        assert await _contents(store) == before
        assert told
        assert all(0 < done <= of for done, of in told)


async def _contents(store: Store) -> dict[Path, bytes]:
    """Return the files of a store; SQLite's shared memory is not part of it."""
    if not isinstance(store.provider, KeepsFiles):
        return {}
    paths = [path for path in await store.provider.files() if not path.name.endswith("-shm")]
    return {path: await anyio.Path(path).read_bytes() for path in paths}
