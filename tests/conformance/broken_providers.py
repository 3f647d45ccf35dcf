"""Providers that each break one promise, for `test_kit.py`: every class here must fail the kit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from factmem.abc import EraseReceipt, Receipt, Statement, StateRequest
from factmem.facts import Concept, Fact, FactT, SingleFact
from factmem.providers import InMemoryProvider
from factmem.records import LogEntry, Place, Recorded, StateChange
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


class FoldsCase(InMemoryProvider):
    async def save(self, fact: Fact[Any], subject: MemorySubject, scope: MemoryScope) -> None:
        await super().save(fact, MemorySubject(subject.name.casefold()), scope)

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> Sequence[Fact[Any]]:
        return await super().load_all(MemorySubject(subject.name.casefold()), scope)


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
        return [entry for entry in self._log if entry.seq > since]


class ErasesAnyone(InMemoryProvider):
    async def erase(self, record_ids: Sequence[str], *, tenant: str | None) -> EraseReceipt:
        gone = 0
        for each in {entry.assertion.place.scope.tenant for entry in self._log if isinstance(entry, Recorded)}:
            gone += (await super().erase(record_ids, tenant=each)).erased
        return EraseReceipt(erased=gone)


class KeepsAnyVector(InMemoryProvider):
    async def put_vectors(self, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        await super().put_vectors({seq: np.nan_to_num(vector) for seq, vector in vectors.items()})


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


BROKEN = [kind for kind in list(globals().values()) if isinstance(kind, type) and InMemoryProvider in kind.__bases__]


def _conformance(broken: type[InMemoryProvider]) -> type[ProviderConformance]:
    async def open_provider(self: ProviderConformance, directory: Path) -> InMemoryProvider:
        return broken()

    return type(f"Test{broken.__name__}", (ProviderConformance,), {"open_provider": open_provider})


globals().update({f"Test{broken.__name__}": _conformance(broken) for broken in BROKEN})
