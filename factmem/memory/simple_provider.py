"""Writes to a provider with the four verbs only: what it cannot represent is refused, or counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import attrs
from anyio import to_thread

from factmem.abc.detector import DropReason
from factmem.changes import changes_between
from factmem.consolidation.candidates import CandidateAssertion
from factmem.errors import CapabilityError, FactMemError
from factmem.facts import STATEMENT, Concept
from factmem.fold import Current
from factmem.memory.background import Remembered, Unrepresented
from factmem.memory.journal import Job, Unit
from factmem.memory.writer import WritingPart
from factmem.providers.memory import NoMemory
from factmem.recall import RecallFilter
from factmem.recall.index.source import outside_log
from factmem.recall.results import hydrate
from factmem.records import Assertion, AssertionState, FactDetails, Origin, Place
from factmem.shown_records import shown_record

__all__ = ["FourVerbs", "unit_of"]


class FourVerbs(WritingPart):
    """Writes to a provider that has the four verbs only: nothing can wait there."""

    def check_representable(self, given: FactDetails) -> None:
        """Refuse details that the provider cannot keep.

        Raises:
            CapabilityError: There are any details, or the provider keeps nothing at all.
        """
        if isinstance(self._backend.provider, NoMemory):
            raise CapabilityError("NoMemory keeps nothing: open the memory on a store, such as sqlite-vec:facts.db")
        if given != FactDetails():
            raise CapabilityError(
                f"{type(self._backend.provider).__name__} has the four verbs only and cannot keep owner, source, "
                "importance, expiry or other details: leave them out, or use a provider that keeps history"
            )

    async def keep(
        self,
        found: Iterable[CandidateAssertion],
        job: Job,
        *,
        dropped: Mapping[DropReason, int] | None = None,
        failure: str | None = None,
    ) -> Remembered:
        """Save findings one by one: one that cannot be kept does not prevent the others.

        Args:
            found: Findings, and words to keep beside them.
            job: Job that they were found for.
            dropped: Number of findings that are not used, by reason.
            failure: Name of the error that kept the words from being read, if any.
        """
        screening = await self._writer.screening()
        lost: Counter[Unrepresented] = Counter()
        kept: dict[bytes, Assertion] = {}
        for item in found:
            screened = screening.screened(item.assertion)
            if item.forgets:
                lost[Unrepresented.REMOVAL] += 1
            elif screened.state is AssertionState.QUARANTINED:
                lost[Unrepresented.QUARANTINE] += 1
            elif screened.details.origin is not Origin.USER:
                lost[Unrepresented.ORIGIN] += 1
            elif screened.state is not AssertionState.RETRACTED:
                kept[item.assertion.fingerprint] = screened
        for said in kept.values():
            lost[Unrepresented.EVIDENCE] += bool(said.details.evidence)
            lost[Unrepresented.DETAILS] += attrs.evolve(said.details, evidence=()) != FactDetails()
        concepts = {**{concept.keyword: concept for concept in job.request.concepts}, **self._context.concepts}
        places = list({said.place.key: said.place for said in kept.values()}.values())
        before = await self._current_at(places)
        slots = set()
        for said in kept.values():
            try:
                await self._save(said, concepts)
            except FactMemError as error:
                failure = type(error).__name__
            else:
                slots.add((said.track, said.slot))
                compared = job.consolidate and self._backend.consolidator is not None
                lost[Unrepresented.COMPARISON] += compared and said.keyword == STATEMENT.keyword
        after = await self._current_at(places)
        mine = [row for row in after if (row.recorded.assertion.track, row.recorded.assertion.slot) in slots]
        return Remembered(
            records=tuple(hydrate(row, self._context.concepts) for row in mine),
            changes=tuple(await to_thread.run_sync(changes_between, before, after, self._context.concepts)),
            dropped=dropped or {},
            unrepresented=+lost,
            failure=failure,
        )

    async def _save(self, said: Assertion, concepts: Mapping[str, Concept[Any, Any]]) -> None:
        fact = shown_record(outside_log(said), concepts).fact
        await self._backend.provider.save(self._writer.dated(fact), said.place.subject, said.place.scope)

    async def _current_at(self, places: Iterable[Place]) -> list[Current]:
        found: list[Current] = []
        for place in places:
            found += await self._reader.visible(RecallFilter(subject=place.subject, scope=place.scope, exact=True))
        return found


def unit_of(said: Sequence[Assertion], job: Job) -> Unit:
    """Return words that no log holds as a unit to read."""
    return Unit(job=job, words=tuple(map(outside_log, said)), waiting=False)
