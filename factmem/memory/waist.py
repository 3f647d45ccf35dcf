"""Remembering in a provider of four verbs: what is found goes through `save`, and what that cannot carry is counted."""

from __future__ import annotations

import abc
import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import anyio
import attrs
from anyio import to_thread

from factmem.abc import Candidate, Conversation, Detection, KeepsHistory, Message, Operation
from factmem.consolidation import changes
from factmem.detection import redact_conversation
from factmem.errors import CapabilityError, FactMemError, ModelError
from factmem.facts import STATEMENT
from factmem.fold import Current
from factmem.memory.errands import Errand, ErrandKind
from factmem.memory.outcomes import Remembered, Unrepresented
from factmem.memory.screening import Screening
from factmem.memory.settling import cited_message
from factmem.memory.waiting import MemoryWaiting
from factmem.observing import nested
from factmem.providers import NoMemory
from factmem.recall import RecallFilter, hydrate
from factmem.records import Assertion, AssertionState, FactDetails, Origin, Place, assertions_of
from factmem.values import canonical_bytes, encode_value

__all__ = ["MemoryWaist", "WaistWords", "waist_words"]

_log = logging.getLogger("factmem")


@attrs.frozen(kw_only=True)
class WaistWords:
    """Words for a provider of four verbs, before anything is found in them.

    Attributes:
        place: where their facts go, unless a fact names another subject or an analyst another scope.
        words: the words, as the verbatim detector finds them.
        errand: the reading they need; None to keep them as they are.
        conversation: the conversation they come from, secrets redacted.
        context: messages of it that were read before.
        dropped: messages of which nothing was kept, by reason.
    """

    place: Place
    words: tuple[Candidate, ...]
    errand: Errand | None
    conversation: Conversation
    context: frozenset[str] = frozenset()
    dropped: Detection = attrs.field(factory=Detection)


@attrs.frozen(kw_only=True)
class _Found:
    """The findings in words, with the parts that a provider of four verbs cannot keep."""

    place: Place
    facts: tuple[Candidate, ...]
    detection: Detection
    lost: Mapping[Unrepresented, int] = attrs.field(factory=dict)
    failure: str | None = None


class MemoryWaist(MemoryWaiting, abc.ABC):
    """Keeps what is remembered in a provider that has the four verbs only."""

    @property
    def _has_waist_only(self) -> bool:
        return not isinstance(self._writing.provider, KeepsHistory)

    def _check_representable(self, given: FactDetails) -> None:
        """Refuse what the caller asked for and the provider cannot keep.

        Raises:
            CapabilityError: there are any details, or the provider keeps nothing at all.
        """
        if isinstance(self._writing.provider, NoMemory):
            raise CapabilityError("NoMemory keeps nothing: open the memory on a store, such as sqlite-vec:facts.db")
        if given != FactDetails():
            raise CapabilityError(
                f"{type(self._writing.provider).__name__} has the four verbs only and cannot keep owner, source, "
                "importance, expiry or other details: leave them out, or use a provider that keeps history"
            )

    async def _kept_through_the_waist(self, told: Sequence[WaistWords]) -> list[Remembered]:
        """Read words, several at a time, and save what was found, in the order given."""
        found: list[_Found | None] = [None] * len(told)
        limit = anyio.Semaphore(self._writing.concurrency)

        async def read(number: int, item: WaistWords) -> None:
            async with limit:
                found[number] = await self._read_for_the_waist(item)

        async with anyio.create_task_group() as tasks:
            for number, item in enumerate(told):
                tasks.start_soon(read, number, item)
        return [
            await self._saved_through_the_waist(item, read)
            for item, read in zip(told, found, strict=True)
            if read is not None
        ]

    async def _read_for_the_waist(self, told: WaistWords) -> _Found:
        place, detection, failure = told.place, Detection(), None
        lost = Counter[Unrepresented]()
        try:
            match told.errand:
                case Errand(kind=ErrandKind.DETECT, request=request):
                    with nested(Operation.DETECT, records_in=len(told.conversation.messages)) as call:
                        wanted = attrs.evolve(request, in_use=await self._concepts_at(told))
                        detection = await self._writing.detector.detect(told.conversation, wanted)
                        call.gave(len(detection.candidates))
                case Errand(kind=ErrandKind.KEEP, infer=infer):
                    place, lost = await self._placed(told, infer)
                case _:
                    pass
        except FactMemError as error:
            failure = type(error).__name__
        except Exception as error:  # a detector or analyst of somebody's own may raise anything
            _log.warning("the detector or analyst failed: %s", type(error).__name__)
            failure = ModelError.__name__
        new = [item for item in detection.candidates if _message(item) is None or _message(item) not in told.context]
        facts = tuple({_identity(item): item for item in (*self._words_kept(told, failure), *new)}.values())
        return _Found(place=place, facts=facts, detection=detection, lost=lost, failure=failure)

    def _words_kept(self, told: WaistWords, failure: str | None) -> Sequence[Candidate]:
        """Return the words to keep as they are: all that no model read, or the user's beside their facts."""
        if failure is not None or told.errand is None or told.errand.kind is not ErrandKind.DETECT:
            return told.words
        return [item for item in told.words if self._writing.keep_words and item.details.origin is Origin.USER]

    async def _concepts_at(self, told: WaistWords) -> tuple[Any, ...]:
        assert told.errand is not None
        subjects = [told.place.subject, *told.errand.request.subjects]
        here = await self._visible(RecallFilter(scope=told.place.scope, exact=True, subjects=subjects))
        declared = self._reading.concepts
        found = {row.recorded.assertion.keyword: hydrate(row, declared).concept for row in here}
        found.pop(STATEMENT.keyword, None)
        return tuple((dict(declared) | found).values())

    async def _placed(self, told: WaistWords, infer: Sequence[str]) -> tuple[Place, Counter[Unrepresented]]:
        """Return the place that an analyst proposes; what else it finds out cannot be kept."""
        if not infer:
            return told.place, Counter()
        text = "\n\n".join(message.content for message in told.conversation.messages)
        analysis = await self._analysed_text(text, infer, await self.info())
        place = Place(told.place.subject, self._proposed(analysis.scope, told.place.scope))
        more = (analysis.categories, analysis.topics, analysis.entities, analysis.dates, analysis.importance)
        return place, Counter({Unrepresented.DETAILS: 1} if any(more) else {})

    async def _saved_through_the_waist(self, told: WaistWords, read: _Found) -> Remembered:
        lost, failure = Counter(read.lost), read.failure
        screening = Screening(self._writing.flagged)
        kept: list[tuple[Candidate, Place, tuple[Assertion, ...]]] = []
        for candidate in read.facts:
            place = Place(candidate.subject or read.place.subject, read.place.scope)
            said = tuple(map(screening.screened, assertions_of(candidate.fact, place, candidate.details)))
            if (why := _refusal(candidate, said)) is None:
                kept.append((candidate, place, said))
                lost.update(_lost_with(candidate, said))
            else:
                lost[why] += len(said)
        places = list({place.key: place for _, place, _ in kept}.values())
        before = await self._current_at(places)
        saved: list[Assertion] = []
        for candidate, place, said in kept:
            try:
                await self._writing.provider.save(self._dated(candidate.fact), place.subject, place.scope)
            except FactMemError as error:  # one fact that cannot be kept never costs the others
                failure = type(error).__name__
            else:
                saved.extend(said)
        after = await self._current_at(places)
        if self._writing.consolidator is not None and told.errand is not None and told.errand.consolidate:
            lost[Unrepresented.COMPARISON] += sum(said.keyword == STATEMENT.keyword for said in saved)
        slots = {(said.track, said.slot) for said in saved}
        mine = [row for row in after if (row.recorded.assertion.track, row.recorded.assertion.slot) in slots]
        concepts = self._reading.concepts
        dropped = read.detection.dropped or ({} if mine else told.dropped.dropped)
        return Remembered(
            records=tuple(hydrate(row, concepts) for row in mine),
            changes=tuple(await to_thread.run_sync(changes, before, after, concepts)),
            dropped=dropped,
            unrepresented=+lost,
            failure=failure,
        )

    async def _current_at(self, places: Iterable[Place]) -> list[Current]:
        found: list[Current] = []
        for place in places:
            found += await self._visible(RecallFilter(subject=place.subject, scope=place.scope, exact=True))
        return found


def waist_words(
    conversation: Conversation,
    words: Detection,
    place: Place,
    errand: Errand | None,
    context: Sequence[Message] = (),
) -> WaistWords:
    """Return words for a provider of four verbs.

    Args:
        conversation: the conversation to read.
        words: its words, as the verbatim detector finds them.
        place: where their facts go.
        errand: the reading they need, if any.
        context: messages that were read before, shown to the detector again.
    """
    return WaistWords(
        place=place,
        words=words.candidates,
        errand=errand,
        conversation=redact_conversation(attrs.evolve(conversation, messages=(*context, *conversation.messages))),
        context=frozenset(message.id for message in context if message.id is not None),
        dropped=words,
    )


def _message(candidate: Candidate) -> str | None:
    return cited_message(candidate.details.evidence[0])[1] if candidate.details.evidence else None


def _identity(candidate: Candidate) -> tuple[object, ...]:
    """Return the identity of a finding: its message and its value."""
    fact = candidate.fact
    data = [encode_value(value, fact.concept.value_type) for value in fact.values]
    subject = candidate.subject.key if candidate.subject else None
    return (_message(candidate), fact.concept.keyword, canonical_bytes(data), subject, candidate.removed)


def _refusal(candidate: Candidate, said: Sequence[Assertion]) -> Unrepresented | None:
    """Return why a finding cannot be kept at all; None if it can."""
    if candidate.removed or candidate.cleared is not None:
        return Unrepresented.REMOVAL
    if candidate.quarantined or any(item.state is AssertionState.QUARANTINED for item in said):
        return Unrepresented.QUARANTINE
    if candidate.details.origin is not Origin.USER:
        return Unrepresented.ORIGIN
    return None


def _lost_with(candidate: Candidate, said: Sequence[Assertion]) -> Counter[Unrepresented]:
    """Return what a finding that is kept loses."""
    lost = Counter[Unrepresented]()
    if candidate.details.evidence:
        lost[Unrepresented.EVIDENCE] = len(said)
    bare = attrs.evolve(candidate.details, evidence=())
    if bare != FactDetails() or any(item.details.flags for item in said):
        lost[Unrepresented.DETAILS] = len(said)
    return lost
