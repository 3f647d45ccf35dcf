"""Providers that each break one promise, for `test_kit.py`: every class here must fail the kit."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from factmem.abc.capabilities import Append, EraseReceipt, LogPart, Receipt, Statement, StateRequest
from factmem.facts import Concept, Fact, FactT, SingleFact
from factmem.providers.memory import InMemoryProvider
from factmem.providers.write_plans import check_writable
from factmem.records import AssertionState, LogEntry, Place, Recorded, StateChange
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing import ProviderConformance


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


class OldestWins(InMemoryProvider):
    async def save(self, fact: Fact[Any], subject: MemorySubject, scope: MemoryScope) -> None:
        known = await self.load(fact.concept, subject, scope) if isinstance(fact, SingleFact) else None
        if known is None:
            await super().save(fact, subject, scope)


class LastToArriveWins(InMemoryProvider):
    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        now = self._clock()
        return await super().append([self._dated(statement, now) for statement in statements])

    @staticmethod
    def _dated(statement: Statement, now: Any) -> Statement:
        if isinstance(statement, StateRequest):
            return statement
        return attrs.evolve(statement, assertion=attrs.evolve(statement.assertion, timestamp=now))


class OneTenant(InMemoryProvider):
    async def save(self, fact: Fact[Any], subject: MemorySubject, scope: MemoryScope) -> None:
        await super().save(fact, subject, scope.within(None))

    async def load(self, concept: Concept[Any, FactT], subject: MemorySubject, scope: MemoryScope) -> FactT | None:
        return await super().load(concept, subject, scope.within(None))


class TenantIsASegment(InMemoryProvider):
    """A provider whose path joins the tenant and the scope without a separator."""

    @staticmethod
    def _joined(scope: MemoryScope) -> MemoryScope:
        path = "/".join(filter(None, [scope.tenant or "", str(scope.within(None)).strip("/")]))
        return MemoryScope.CROSS_PRODUCT / path

    async def save(self, fact: Fact[Any], subject: MemorySubject, scope: MemoryScope) -> None:
        await super().save(fact, subject, self._joined(scope))

    async def load(self, concept: Concept[Any, FactT], subject: MemorySubject, scope: MemoryScope) -> FactT | None:
        return await super().load(concept, subject, self._joined(scope))

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> Sequence[Fact[Any]]:
        return await super().load_all(subject, self._joined(scope))


class FoldsCase(InMemoryProvider):
    async def save(self, fact: Fact[Any], subject: MemorySubject, scope: MemoryScope) -> None:
        await super().save(fact, MemorySubject(subject.name.casefold()), scope)

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> Sequence[Fact[Any]]:
        return await super().load_all(MemorySubject(subject.name.casefold()), scope)


class Inherits(InMemoryProvider):
    async def entries(self, place: Place, keyword: str | None = None) -> Sequence[LogEntry]:
        log, parent = await super().entries(place, keyword), place.scope.parent
        return log if log or parent is None else await super().entries(Place(place.subject, parent), keyword)


class ShowsPrivate(InMemoryProvider):
    async def entries(self, place: Place, keyword: str | None = None) -> Sequence[LogEntry]:
        log = await super().entries(place, keyword)
        return [_public(entry) if isinstance(entry, Recorded) else entry for entry in log]


def _public(entry: Recorded) -> Recorded:
    details = attrs.evolve(entry.assertion.details, owner=None)
    return attrs.evolve(entry, assertion=attrs.evolve(entry.assertion, details=details))


class HalfTransactions(InMemoryProvider):
    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        return [
            receipt for statement in statements for receipt in await super(HalfTransactions, self).append([statement])
        ]


class NeverClosed(InMemoryProvider):
    async def aclose(self) -> None:
        pass


class LeaksErrors(InMemoryProvider):
    def _check_open(self) -> None:
        if self._closed:
            raise RuntimeError("closed")


class ForgetsStates(InMemoryProvider):
    async def entries(self, place: Place, keyword: str | None = None) -> Sequence[LogEntry]:
        return [entry for entry in await super().entries(place, keyword) if not isinstance(entry, StateChange)]


class FeedsEveryone(InMemoryProvider):
    async def changes(self, tenant: str | None, since: int = 0) -> Sequence[LogEntry]:
        logs = itertools.chain.from_iterable(self._logs.values())
        return [entry for entry in logs if entry.seq > since]


class ErasesAnyone(InMemoryProvider):
    async def erase(
        self, record_ids: Sequence[str], *, tenant: str | None, assertion_ids: Sequence[str] = ()
    ) -> EraseReceipt:
        gone = 0
        for each in list(self._logs):
            gone += (await super().erase(record_ids, tenant=each, assertion_ids=assertion_ids)).erased
        return EraseReceipt(erased=gone)


class ErasesOnlyWhole(InMemoryProvider):
    async def erase(
        self, record_ids: Sequence[str], *, tenant: str | None, assertion_ids: Sequence[str] = ()
    ) -> EraseReceipt:
        known = self._recorded(tenant)
        return await super().erase(
            [*record_ids, *(entry.record_id for entry in known if entry.id in assertion_ids)], tenant=tenant
        )


class CountsByRevision(InMemoryProvider):
    async def erase(
        self, record_ids: Sequence[str], *, tenant: str | None, assertion_ids: Sequence[str] = ()
    ) -> EraseReceipt:
        for entry in self._recorded(tenant):
            if entry.id in assertion_ids:
                self._accesses.pop((tenant, entry.record_id), None)
        return await super().erase(record_ids, tenant=tenant, assertion_ids=assertion_ids)


class KeepsCountsOfCopies(InMemoryProvider):
    async def put_log_part(self, tenant: str | None, part: LogPart) -> None:
        counts = dict(self._accesses)
        await super().put_log_part(tenant, part)
        self._accesses |= counts


class DividesCopiesAgain(InMemoryProvider):
    async def put_log_part(self, tenant: str | None, part: LogPart) -> None:
        vectors = {seq: row / np.linalg.norm(row) for seq, row in part.vectors.items()}
        await super().put_log_part(tenant, attrs.evolve(part, vectors=vectors))


class JoinsNothing(InMemoryProvider):
    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        return [attrs.evolve(receipt, joins=False) for receipt in await super().append(statements)]


class ExpectsNothing(InMemoryProvider):
    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        return await super().append(
            [attrs.evolve(item, expected=None) if isinstance(item, StateRequest) else item for item in statements]
        )


class ExpectsAtTheStart(InMemoryProvider):
    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        unchecked = list[Statement]()
        for item in statements:
            if isinstance(item, StateRequest):
                self._index.begin()
                try:
                    self._index.change(item, 0, self._steady)
                finally:
                    self._index.roll_back()
                unchecked.append(attrs.evolve(item, expected=None))
            else:
                unchecked.append(item)
        return await super().append(unchecked)


class QuarantinedTypesHold(InMemoryProvider):
    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        said = [item.assertion for item in statements if isinstance(item, Append)]
        for entry in itertools.chain.from_iterable(self._logs.values()):
            for new in said:
                if isinstance(entry, Recorded) and entry.assertion.track == new.track:
                    check_writable(new, entry.assertion.fact_type, [entry.assertion.shape])
        return await super().append(statements)


class LetsAnythingIn(InMemoryProvider):
    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        receipts = await super().append([item for item in statements if isinstance(item, Append)])
        for item in statements:
            if isinstance(item, StateRequest):
                self._seqs[item.tenant] += 1
                change = StateChange(
                    assertion_id=item.assertion_id,
                    state=item.state,
                    seq=self._seqs[item.tenant],
                    recorded_at=self._clock(),
                )
                self._index.add(change)
                self._log_of(item.tenant).append(change)
        return receipts


class WaitsForNothing(InMemoryProvider):
    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        return await super().append([self._settled(item) for item in statements])

    @staticmethod
    def _settled(item: Statement) -> Statement:
        if isinstance(item, StateRequest) or item.assertion.job is None:
            return item
        return attrs.evolve(item, assertion=attrs.evolve(item.assertion, job=None, state=AssertionState.ACTIVE))


class BelievesWhatWaits(InMemoryProvider):
    async def entries(self, place: Place, keyword: str | None = None) -> Sequence[LogEntry]:
        log = await super().entries(place, keyword)
        return [self._believed(entry) if isinstance(entry, Recorded) else entry for entry in log]

    @staticmethod
    def _believed(entry: Recorded) -> Recorded:
        if entry.assertion.state not in (AssertionState.PENDING, AssertionState.FAILED):
            return entry
        return attrs.evolve(entry, assertion=attrs.evolve(entry.assertion, state=AssertionState.ACTIVE))


class KeepsAnyVector(InMemoryProvider):
    async def put_vectors(self, tenant: str | None, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        await super().put_vectors(tenant, {seq: np.nan_to_num(vector) for seq, vector in vectors.items()})


class NewIds(InMemoryProvider):
    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        return [
            attrs.evolve(receipt, recorded=attrs.evolve(receipt.recorded, record_id=receipt.recorded.id))
            for receipt in await super().append(statements)
        ]


class SearchesValues(InMemoryProvider):
    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> Sequence[Fact[Any]]:
        found = await super().load_by_description(description, subject, scope)
        everything = await self.load_all(subject, scope)
        return [*found, *(fact for fact in everything if description in str(fact.values))]


BREAKS: Mapping[type[InMemoryProvider], tuple[str, ...]] = {
    OldestWins: ("a_then_b_then_a_again_ends_at_a",),
    LastToArriveWins: ("the_newest_timestamp_wins_whatever_the_order_of_arrival",),
    OneTenant: ("places_are_walls",),
    TenantIsASegment: ("a_found_fact_is_whole_and_current",),
    FoldsCase: ("places_are_walls",),
    Inherits: ("places_are_walls", "entries_are_of_exactly_one_place"),
    ShowsPrivate: ("private_facts_are_not_seen_by_the_four_verbs",),
    HalfTransactions: ("a_refused_assertion_takes_the_whole_transaction_with_it",),
    NeverClosed: ("leaving_the_context_closes",),
    LeaksErrors: ("use_after_closing_is_a_typed_error",),
    ForgetsStates: ("a_change_from_the_expected_state_is_made",),
    FeedsEveryone: ("changes_are_of_one_tenant",),
    ErasesAnyone: ("ids_of_another_tenant_and_of_nothing_are_passed_over",),
    ErasesOnlyWhole: ("one_assertion_can_be_erased",),
    CountsByRevision: ("it_goes_with_the_record",),
    KeepsCountsOfCopies: ("a_tombstone_erases_what_an_earlier_part_brought",),
    DividesCopiesAgain: ("a_copy_is_the_log_and_goes_on_as_it_would",),
    JoinsNothing: ("a_record_keeps_its_id_while_its_value_changes",),
    ExpectsNothing: ("the_expected_state_is_the_newest_one",),
    ExpectsAtTheStart: ("statements_earlier_in_a_transaction_count_for_what_is_expected",),
    QuarantinedTypesHold: ("of_two_types_in_quarantine_the_first_accepted_holds",),
    LetsAnythingIn: ("a_change_of_nothing_is_not_found",),
    WaitsForNothing: ("a_job_stays_with_its_words_and_makes_them_wait",),
    BelievesWhatWaits: ("words_that_wait_or_failed_are_loaded_as_they_stand",),
    KeepsAnyVector: ("an_unfit_vector_is_refused_with_its_companions",),
    NewIds: ("a_record_keeps_its_id_while_its_value_changes",),
    SearchesValues: ("a_text_is_found_in_description_or_keyword",),
}
"""Parts of the names of the specs that each provider fails; some have several parameters, of which one fails."""


def _conformance(broken: type[InMemoryProvider]) -> type[ProviderConformance]:
    async def open_provider(self: ProviderConformance, directory: Path) -> InMemoryProvider:
        return broken()

    return type(f"Test{broken.__name__}", (ProviderConformance,), {"open_provider": open_provider})


globals().update({f"Test{broken.__name__}": _conformance(broken) for broken in BREAKS})
