"""Remembering in a provider with the four verbs only: findings are saved, details that it cannot keep are counted."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any

import attrs
from anyio import to_thread

from factmem.abc import Candidate, Detection
from factmem.abc.detector import Conversation, Message
from factmem.abc.observer import Operation
from factmem.abc.topics import EXPLICIT_INSTRUCTIONS
from factmem.changes import changes_between
from factmem.detection.redaction import redact_conversation
from factmem.errors import CapabilityError, FactMemError, ModelError
from factmem.facts import STATEMENT
from factmem.fold import Current
from factmem.llm.asking import bounded_gather
from factmem.memory.background import Remembered, Unrepresented
from factmem.memory.journal import Job, JobKind, cited_message
from factmem.memory.pipeline import PipelinePart, concepts_in
from factmem.observing import nested
from factmem.providers.memory import NoMemory
from factmem.recall import RecallFilter
from factmem.recall.results import hydrate
from factmem.records import Assertion, AssertionState, FactDetails, Origin, Place, assertions_of
from factmem.values import canonical_bytes, encode_value

__all__ = ["FourVerbs", "Submitted", "submitted"]

_log = logging.getLogger("factmem")


@attrs.frozen(kw_only=True)
class Submitted:
    """Words for a provider with the four verbs only, before detection.

    Attributes:
        place: Place of their facts, unless a fact names another subject or an analyst another scope.
        words: Words, as the verbatim detector finds them.
        job: Job of reading them; None to keep them as they are.
        conversation: Conversation that they come from, secrets redacted.
        context: Messages of it that were read before.
        dropped: Number of messages of which nothing was kept, by reason.
    """

    place: Place
    words: tuple[Candidate, ...]
    job: Job | None
    conversation: Conversation
    context: frozenset[str] = frozenset()
    dropped: Detection = attrs.field(factory=Detection)


@attrs.frozen(kw_only=True)
class _Found:
    """Findings in words, with the number of details that the provider cannot keep."""

    place: Place
    facts: tuple[Candidate, ...]
    detection: Detection
    lost: Mapping[Unrepresented, int] = attrs.field(factory=dict)
    failure: str | None = None


class FourVerbs(PipelinePart):
    """Remembers in a provider that has the four verbs only: nothing can wait there, so everything is read at once."""

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

    async def remember(self, items: Sequence[Submitted]) -> list[Remembered]:
        """Read words concurrently, and save the findings in the given order."""
        found = await bounded_gather([partial(self._read, item) for item in items], self._backend.concurrency)
        return [await self._saved(item, read) for item, read in zip(items, found, strict=True)]

    async def _read(self, item: Submitted) -> _Found:
        place, detection, failure = item.place, Detection(), None
        lost = Counter[Unrepresented]()
        try:
            match item.job:
                case Job(kind=JobKind.DETECT, request=request):
                    with nested(Operation.DETECT, records_in=len(item.conversation.messages)) as call:
                        wanted = attrs.evolve(request, in_use=await self._concepts_at(item))
                        detection = await self._backend.detector.detect(item.conversation, wanted)
                        call.record_result(len(detection.candidates))
                case Job(kind=JobKind.KEEP, infer=infer):
                    place, lost = await self._placed(item, infer)
                case _:
                    pass
        except FactMemError as error:
            failure = type(error).__name__
        except Exception as error:  # a custom detector or analyst may raise any error
            _log.warning("the detector or analyst failed: %s", type(error).__name__)
            failure = ModelError.__name__
        new = [
            found for found in detection.candidates if _message(found) is None or _message(found) not in item.context
        ]
        facts = tuple({_identity(each): each for each in (*self._words_kept(item, failure), *new)}.values())
        return _Found(place=place, facts=facts, detection=detection, lost=lost, failure=failure)

    def _words_kept(self, item: Submitted, failure: str | None) -> Sequence[Candidate]:
        """Return the words to keep as they are: those that no model read, or the user's words beside their facts."""
        if failure is not None or item.job is None or item.job.kind is not JobKind.DETECT:
            return item.words
        return [
            word
            for word in item.words
            if word.details.origin is Origin.USER
            and (self._context.policies.keep_words or EXPLICIT_INSTRUCTIONS.label in word.details.topics)
        ]

    async def _concepts_at(self, item: Submitted) -> tuple[Any, ...]:
        assert item.job is not None
        subjects = [item.place.subject, *item.job.request.subjects]
        here = await self._reader.visible(RecallFilter(scope=item.place.scope, exact=True, subjects=subjects))
        return concepts_in(here, self._context.concepts)

    async def _placed(self, item: Submitted, infer: Sequence[str]) -> tuple[Place, Counter[Unrepresented]]:
        """Return the place that an analyst proposes, and the number of other findings, which cannot be kept."""
        if not infer:
            return item.place, Counter()
        text = "\n\n".join(message.content for message in item.conversation.messages)
        analysis = await self._pipeline.analysed(text, infer, await self._reader.info())
        place = Place(item.place.subject, self._pipeline.proposed(analysis.scope, item.place.scope))
        more = (analysis.categories, analysis.topics, analysis.entities, analysis.dates, analysis.importance)
        return place, Counter({Unrepresented.DETAILS: 1} if any(more) else {})

    async def _saved(self, item: Submitted, read: _Found) -> Remembered:
        lost, failure = Counter(read.lost), read.failure
        screening = await self._writer.screening()
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
                await self._backend.provider.save(self._writer.dated(candidate.fact), place.subject, place.scope)
            except FactMemError as error:  # one fact that cannot be kept must not prevent the others
                failure = type(error).__name__
            else:
                saved.extend(said)
        after = await self._current_at(places)
        if self._backend.consolidator is not None and item.job is not None and item.job.consolidate:
            lost[Unrepresented.COMPARISON] += sum(said.keyword == STATEMENT.keyword for said in saved)
        slots = {(said.track, said.slot) for said in saved}
        mine = [row for row in after if (row.recorded.assertion.track, row.recorded.assertion.slot) in slots]
        concepts = self._context.concepts
        dropped = read.detection.dropped or ({} if mine else item.dropped.dropped)
        return Remembered(
            records=tuple(hydrate(row, concepts) for row in mine),
            changes=tuple(await to_thread.run_sync(changes_between, before, after, concepts)),
            dropped=dropped,
            unrepresented=+lost,
            failure=failure,
        )

    async def _current_at(self, places: Iterable[Place]) -> list[Current]:
        found: list[Current] = []
        for place in places:
            found += await self._reader.visible(RecallFilter(subject=place.subject, scope=place.scope, exact=True))
        return found


def submitted(
    conversation: Conversation,
    words: Detection,
    place: Place,
    job: Job | None,
    context: Sequence[Message] = (),
) -> Submitted:
    """Return words for a provider with the four verbs only.

    Args:
        conversation: Conversation to read.
        words: Its words, as the verbatim detector finds them.
        place: Place of their facts.
        job: Job of reading them, if any.
        context: Messages that were read before, shown to the detector as context.
    """
    return Submitted(
        place=place,
        words=words.candidates,
        job=job,
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
    """Return the reason why a finding cannot be kept at all; None if it can."""
    if candidate.removed or candidate.cleared is not None:
        return Unrepresented.REMOVAL
    if candidate.quarantined or any(item.state is AssertionState.QUARANTINED for item in said):
        return Unrepresented.QUARANTINE
    if candidate.details.origin is not Origin.USER:
        return Unrepresented.ORIGIN
    return None


def _lost_with(candidate: Candidate, said: Sequence[Assertion]) -> Counter[Unrepresented]:
    """Return the details that are lost when a finding is kept, counted."""
    lost = Counter[Unrepresented]()
    if candidate.details.evidence:
        lost[Unrepresented.EVIDENCE] = len(said)
    bare = attrs.evolve(candidate.details, evidence=())
    if bare != FactDetails() or any(item.details.flags for item in said):
        lost[Unrepresented.DETAILS] = len(said)
    return lost
