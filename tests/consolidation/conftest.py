"""A store with records behind several walls, and consolidators with scripted answers."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import pytest

from factmem import STATEMENT, Concept, InMemoryProvider, MemoryScope, MemorySubject
from factmem.abc import Consolidator
from factmem.abc.capabilities import Append, Receipt, StateRequest
from factmem.abc.consolidator import Action, Novelty, Verdict, Verdicts
from factmem.changes import Change, changes_between
from factmem.consolidation import ConsolidationPolicy
from factmem.consolidation.candidates import CandidateAssertion
from factmem.consolidation.planning import Plan, plan
from factmem.details import FactDetails
from factmem.fold import Current, Moment, fold, states_of
from factmem.records import Assertion, AssertionState, LogEntry, Place, Recorded, assertions_of
from factmem.testing import FakeClock, HashEmbedder

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

START: Final = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)
USER: Final = MemorySubject("user", "the user")
SCOPE: Final = MemoryScope.parse("/project/alpha").within("acme")


@attrs.define
class ScriptedConsolidator:
    """A consolidator that returns scripted verdicts and records the questions."""

    answer: Callable[[Novelty], Verdicts]
    asked: list[Novelty] = attrs.field(factory=list, init=False)

    async def decide(self, novelty: Novelty) -> Verdicts:
        self.asked.append(novelty)
        return self.answer(novelty)


@attrs.define
class World:
    """An in-memory store with everything needed to plan and apply."""

    provider: InMemoryProvider
    policy: ConsolidationPolicy = attrs.field(factory=lambda: ConsolidationPolicy(threshold=0.5))
    embedder: HashEmbedder = attrs.field(factory=HashEmbedder)
    flags: Callable[[str], Sequence[str]] = lambda text: ()

    def answering(self, answer: Callable[[Novelty], Verdicts]) -> ScriptedConsolidator:
        """Return a consolidator with these answers."""
        return ScriptedConsolidator(answer)

    def always(self, *actions: Action, insert: bool = True, text: str | None = None) -> ScriptedConsolidator:
        """Return a consolidator that always answers the same: one action per number, from 0."""
        known = {
            number: Verdict(action=action, text=text if action is Action.UPDATE else None)
            for number, action in enumerate(actions)
        }
        return ScriptedConsolidator(lambda novelty: Verdicts(insert=insert, known=known))

    def says(self, text: str, *, minute: int = 0, place: Place | None = None, **details: Any) -> Assertion:
        """Return a statement, some minutes after the start."""
        fact = STATEMENT.fact([text], timestamp=START + dt.timedelta(minutes=minute))
        return assertions_of(fact, place or Place(USER, SCOPE), FactDetails(**details))[0]

    def typed(self, keyword: str, value: str, *, minute: int = 0, removed: bool = False, **details: Any) -> Assertion:
        """Return a SINGLE fact."""
        fact = Concept.single(keyword, keyword).fact([value], timestamp=START + dt.timedelta(minutes=minute))
        return assertions_of(fact, Place(USER, SCOPE), FactDetails(**details), removed=removed)[0]

    async def vectors(self, assertions: Sequence[Assertion]) -> list[NDArray[np.float32]]:
        await self.provider.use_embedder(await self.embedder.identity())
        return list(await self.embedder.embed([str(said.data) for said in assertions])) if assertions else []

    async def save(self, *assertions: Assertion) -> list[Recorded]:
        """Append assertions with their embeddings."""
        pairs = zip(assertions, await self.vectors(assertions), strict=True)
        receipts = await self.provider.append([Append(assertion=said, vector=vector) for said, vector in pairs])
        return [receipt.recorded for receipt in receipts]

    async def candidates(self, *assertions: Assertion, removal: bool = False) -> list[CandidateAssertion]:
        pairs = zip(assertions, await self.vectors(assertions), strict=True)
        return [CandidateAssertion(said, vector, removal=removal) for said, vector in pairs]

    async def log(self, tenant: str | None = "acme") -> Sequence[LogEntry]:
        return await self.provider.changes(tenant)

    async def current(self, tenant: str | None = "acme") -> list[Current]:
        """Return the current records of every owner, scope and subject of a tenant."""
        return fold(await self.log(tenant), Moment(now=START + dt.timedelta(days=1)))

    async def texts(self, tenant: str | None = "acme") -> list[str]:
        return [str(current.recorded.assertion.data) for current in await self.current(tenant)]

    async def known(self) -> list[tuple[Current, NDArray[np.float32] | None]]:
        """Return the records of every tenant and owner: keeping to the walls is the planner's task."""
        current = [item for tenant in ("acme", "other", None) for item in await self.current(tenant)]
        vectors = await self.vectors([item.recorded.assertion for item in current])
        return list(zip(current, vectors, strict=True))

    async def whole_log(self) -> list[LogEntry]:
        """Return the log of every tenant, by sequence number."""
        log = [entry for tenant in ("acme", "other", None) for entry in await self.log(tenant)]
        return sorted(log, key=lambda entry: entry.seq)

    async def plan(
        self,
        candidates: Sequence[CandidateAssertion],
        consolidator: Consolidator | None = None,
        *,
        leave_out: frozenset[str] = frozenset(),
    ) -> Plan:
        known, log = await self.known(), await self.whole_log()
        return await plan(candidates, known, consolidator, self.policy, log=log, leave_out=leave_out, flags=self.flags)

    async def consolidate(
        self, candidates: Sequence[CandidateAssertion], consolidator: Consolidator | None = None
    ) -> tuple[Plan, list[Change]]:
        """Plan, apply the plan in one transaction, and return the changes."""
        before = await self.current()
        planned = await self.plan(candidates, consolidator)
        await self.provider.append(planned.statements)
        return planned, changes_between(before, await self.current())

    async def take_back(self, planned: Plan, receipts: Sequence[Receipt]) -> None:
        """Undo a plan by changes of state alone: retract new assertions and restore retracted ones."""
        new = [receipt.recorded for receipt in receipts if receipt.new]
        gone = [item for item in planned.statements if isinstance(item, StateRequest)]
        await self.provider.append(
            [
                *(StateRequest.of(recorded, AssertionState.RETRACTED) for recorded in new),
                *(attrs.evolve(item, state=_expected(item), expected=None) for item in gone),
            ]
        )

    async def restore_everything(self) -> None:
        """Restore every retracted assertion."""
        log = await self.whole_log()
        states = states_of(log)
        await self.provider.append(
            [
                StateRequest.of(entry, AssertionState.ACTIVE)
                for entry in log
                if isinstance(entry, Recorded) and states[entry.id] is AssertionState.RETRACTED
            ]
        )


def _expected(request: StateRequest) -> AssertionState:
    assert request.expected is not None
    return request.expected


@pytest.fixture
def world() -> World:
    """An empty store. A cosine of .5 counts as similar, because the test embedder counts words."""
    return World(InMemoryProvider(clock=FakeClock(START, step=dt.timedelta(seconds=1))))
