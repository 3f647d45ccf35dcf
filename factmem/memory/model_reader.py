"""Reading of words by models: a detector finds facts in a unit, or an analyst completes its details."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Iterator, Mapping, Sequence, Set
from functools import partial
from typing import Any, Final, TypeVar, assert_never

import attrs
from anyio import to_thread

from factmem.abc import Candidate
from factmem.abc.analyst import Analysis, AnalysisRequest
from factmem.abc.detector import Conversation, DropReason
from factmem.abc.observer import Operation
from factmem.abc.topics import EXPLICIT_INSTRUCTIONS
from factmem.consolidation.candidates import CandidateAssertion
from factmem.details import Evidence, FactDetails, Origin, Treatment
from factmem.detection import OriginPolicy
from factmem.detection.candidates import place_of
from factmem.detection.quotes import covers
from factmem.detection.standing_instructions import instructions_in
from factmem.errors import FactMemError, InvalidDataError, ModelError, StateConflictError
from factmem.facts import STATEMENT, Concept, Fact
from factmem.fold import Current
from factmem.legal_names import is_legal_name
from factmem.llm.asking import bounded_gather
from factmem.memory.journal import (
    JobKind,
    Unit,
    detailed,
    in_order,
    message_of,
    rebuilt,
    settled_state,
    treatment_of,
    wishing,
)
from factmem.memory.known_values import ItemChanges, ends_of, means
from factmem.memory.reader import Reader, in_time
from factmem.memory.scope_tree import ScopeInfo
from factmem.memory.taint import REPEATS
from factmem.memory.verification import Verification, is_doubted
from factmem.memory.writer import WritingPart
from factmem.observing import nested
from factmem.recall import RecallFilter
from factmem.recall.index.selection import LogPart
from factmem.recall.index.source import outside_log
from factmem.recall.results import hydrate
from factmem.records import Assertion, AssertionState, Place, Recorded, assertions_of, shown_record
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

INFERRED: Final = ("scope", "categories", "importance")
"""Details that an analyst infers where the caller gives none."""

_DEEPEST_PROPOSAL: Final = 32
"""Maximum depth of a scope that a model proposes."""

_ANY_USER: Final = MemorySubject(Origin.USER.value)
ItemT = TypeVar("ItemT")
FoundT = TypeVar("FoundT")

_ANYBODY: Final = {_ANY_USER.key, MemorySubject.EVERYTHING.key}


@attrs.frozen(kw_only=True)
class ReadUnit:
    """A unit of words that was read, before anything of it is applied.

    Attributes:
        unit: The words.
        candidates: Assertions that were found, without their embeddings.
        dropped: Number of findings that are not used, by reason.
        rejected: Values in quarantine that the user asks to forget.
        wishes: Wishes to forget that are believed, as they were found.
    """

    unit: Unit
    candidates: tuple[CandidateAssertion, ...]
    dropped: Mapping[DropReason, int] = attrs.field(factory=dict)
    rejected: tuple[Recorded, ...] = ()
    wishes: tuple[Candidate, ...] = ()


@attrs.frozen(eq=False)
class _Heard:
    """Findings of a detector in a unit, before they are compared with what is known.

    Attributes:
        unit: The unit.
        conversation: The unit as the detector saw it, with its context.
        read: The candidates.
        dropped: Number of findings that are not used, by reason.
    """

    unit: Unit
    conversation: Conversation
    read: Sequence[Candidate]
    dropped: Counter[DropReason]


class ModelReader(WritingPart):
    """Lets models read units of words. It writes nothing."""

    async def read_all(
        self, units: Sequence[Unit], earlier: Callable[[], Awaitable[None]]
    ) -> list[ReadUnit | FactMemError]:
        """Read units, all of one owner, side by side; return what each holds, or the error.

        Args:
            units: The units, in the order submitted.
            earlier: Waits for the attempts of this process that began before this one: a wish to forget means what they
                find, too.
        """
        in_use = await Reader(self._context, self._backend).info() if any(unit.job.infer for unit in units) else None
        found = await self._each(units, lambda unit: self._read(unit, in_use))
        heard = [item for item in found if isinstance(item, _Heard)]
        if any(candidate.removed for item in heard for candidate in item.read):
            await earlier()

        async def checked(item: _Heard | ReadUnit | FactMemError) -> ReadUnit | FactMemError:
            return await self._checked(item, heard) if isinstance(item, _Heard) else item

        return await self._each(found, checked)

    async def _each(
        self, items: Sequence[ItemT], read: Callable[[ItemT], Awaitable[FoundT]]
    ) -> list[FoundT | FactMemError]:
        """Call a function with each item, side by side; return what each call returns, or its error."""

        async def guarded(item: ItemT) -> FoundT | FactMemError:
            try:
                return await read(item)
            except FactMemError as error:
                return error
            except Exception as error:  # a custom detector may raise any error
                return ModelError(f"the detector or analyst failed: {type(error).__name__}")

        return await bounded_gather([partial(guarded, item) for item in items], self._backend.concurrency)

    async def _check_unread(self, unit: Unit) -> None:
        """Ask nothing about words that another process has read since they were found waiting.

        Raises:
            StateConflictError: It has.
        """
        if unit.waiting and await self._reader.everybody.left_waiting(unit.words) != unit.words:
            raise StateConflictError("another process has read the words meanwhile")

    async def _read(self, unit: Unit, in_use: ScopeInfo | None) -> _Heard | ReadUnit:
        self._backend.worker.spent.check()
        await self._check_unread(unit)
        match unit.job.kind:
            case JobKind.DETECT:
                return await self._heard(unit)
            case JobKind.KEEP:
                return await self._analysed(unit, in_use)
            case JobKind.CONSOLIDATE:
                return ReadUnit(unit=unit, candidates=tuple(map(read_words, unit.words)))
            case JobKind.FORGET:
                return self._wished(unit)

    async def _heard(self, unit: Unit) -> _Heard:
        conversation = await to_thread.run_sync(rebuilt, in_order((*unit.context, *unit.words)), self._treated(unit))
        here = await self._here(unit)
        subjects = _with_speakers(unit.job.request.subjects, (*unit.context, *unit.words))
        in_use = self._in_use({subject.key for subject in (*subjects, unit.place.subject)}, here)
        request = attrs.evolve(unit.job.request, in_use=in_use, subjects=subjects)
        with nested(Operation.DETECT, records_in=len(conversation.messages)) as call:
            detection = await self._backend.detector.detect(conversation, request)
            call.record_result(len(detection.candidates))
        words = unit.details
        shown = {message_of(item.assertion.details) for item in (*unit.context, *unit.words)}
        dropped = Counter(detection.dropped)
        cited = [message_of(candidate.details) for candidate in detection.candidates]
        dropped[DropReason.QUOTE_NOT_FOUND] += sum(message not in shown for message in cited)
        read = [item for item, message in zip(detection.candidates, cited, strict=True) if message in words]
        speakers = [words[message_of(item.details)].evidence[0].speaker for item in read]
        read = await in_time(lambda: list(_of_speakers(read, speakers, unit, here)), len(here))
        return _Heard(unit, conversation, read, dropped)

    def _wished(self, unit: Unit) -> _Heard:
        """Return the wishes to forget of a unit, which were found before, with values of the declared concepts."""
        declared = self._context.concepts
        wishes = [
            attrs.evolve(wish, fact=shown_record(outside_log(said), declared).fact, cleared=cleared)
            for wish in unit.job.wishes
            for cleared in [wish.cleared and declared.get(wish.cleared.keyword, wish.cleared)]
            for said in assertions_of(wish.fact, unit.place)
        ]
        return _Heard(unit, Conversation(messages=()), wishes, Counter())

    async def _here(self, unit: Unit) -> Sequence[Current]:
        """Return the current records of the scope of a unit."""
        reviewed = Reader(attrs.evolve(self._context.everybody, reviewed=True), self._backend)
        return await reviewed.visible(RecallFilter(scope=unit.place.scope, exact=True))

    async def _checked(self, heard: _Heard, batch: Sequence[_Heard]) -> ReadUnit:
        """Compare the candidates of a unit with what is known, and with those of the units before it in its batch."""
        unit, words, dropped = heard.unit, heard.unit.details, heard.dropped
        here = await self._here(unit)
        rejected = await self._rejected(heard.read, unit)
        found = await in_time(lambda: list(self._with_known_values(heard, batch, here)), len(here))

        def asserted(candidate: Candidate) -> tuple[Assertion, ...]:
            return self._asserted(candidate, unit, words[message_of(candidate.details)])

        doubtful = [item for item in found if is_doubted(item) and not _repeats(words[message_of(item.details)])]
        current = [row.recorded.assertion for row in here]
        verification = Verification(self._context, self._backend)
        left, unconfirmed = await verification.verified(doubtful, asserted, heard.conversation, current)
        certain = [item for item in found if item not in doubtful]
        items = ItemChanges()
        in_order_said = [
            items.changed(item, _track_of(item, unit), partial(self._known, item, unit, here))
            for item in sorted((*certain, *left), key=place_of)  # of one message, the last value wins
        ]
        said = [CandidateAssertion(it, removal=item.removed) for item in in_order_said for it in asserted(item)]
        if not self._context.policies.keep_words:
            kept = [item.assertion.details for item in said if _instructs(item.assertion.details)]
            quotes = [quote for details in kept for quote in details.evidence]
            standing = (it for it in self._standing(unit) if not covers(quotes, it.details.evidence[0]))
            said += map(CandidateAssertion, standing)
        counted = dict(+(dropped + unconfirmed))
        believed = _evidence_believed(certain, doubtful, left)
        wishes = tuple(it for it in heard.read if it.removed and it.details.evidence in believed)
        return ReadUnit(unit=unit, candidates=tuple(said), dropped=counted, rejected=rejected, wishes=wishes)

    def _standing(self, unit: Unit) -> Iterator[Assertion]:
        """Yield the user's standing instructions in the words of a unit, which outlast the words."""
        for item in unit.words:
            said, details = item.assertion, item.assertion.details
            if not (holds_facts(item, self._context.policies.origins) and _instructs(details)):
                continue
            (words,) = details.evidence
            for start, end in instructions_in(words.quote):
                at = words.start or 0
                quote = attrs.evolve(words, quote=words.quote[start:end], start=at + start, end=at + end)
                fact = STATEMENT.fact([quote.quote], timestamp=said.timestamp)
                for standing in assertions_of(fact, said.place, attrs.evolve(details, evidence=(quote,))):
                    yield attrs.evolve(standing, state=settled_state(item), actor=said.actor)

    def _treated(self, unit: Unit) -> Callable[[Recorded], Treatment | None]:
        """Return the treatment of a unit's words as a function; earlier ones are context, if a model may see them."""
        origins = self._context.policies.origins

        def treated(recorded: Recorded) -> Treatment | None:
            own, origin = treatment_of(recorded), recorded.assertion.details.origin
            if _repeats(recorded.assertion.details):
                return _doubted(own or origins.of(origin)) if recorded.id in unit.ids else Treatment.IGNORE
            if recorded.id in unit.ids:
                return own
            return Treatment.CONTEXT if origins.shows(own or origins.of(origin), origin) else Treatment.IGNORE

        return treated

    def _asserted(self, candidate: Candidate, unit: Unit, words: FactDetails) -> tuple[Assertion, ...]:
        place = Place(candidate.subject or unit.place.subject, unit.place.scope)
        evidence = tuple(_cited(item, words.evidence[0]) for item in candidate.details.evidence)
        repeated = _repeats(words)  # flags of words that are not believed are those of the facts found in them
        flags = (*candidate.details.flags, *words.flags) if repeated else candidate.details.flags
        found = attrs.evolve(candidate.details, evidence=evidence, flags=flags)
        doubt = None if candidate.doubt is None else candidate.doubt.reason
        if doubt is not None and candidate.ended:
            doubt = f"would end this: {doubt}"
        details = attrs.evolve(detailed(unit.given_for(words), found), doubt=doubt)
        fact = self._writer.dated(candidate.fact)
        quarantined = candidate.quarantined or repeated or candidate.doubt is not None
        # The words of a request to forget are not themselves removed.
        removed = candidate.ended or (candidate.removed and not fact.concept.is_statement)
        state = AssertionState.QUARANTINED if quarantined else AssertionState.ACTIVE
        job = wishing(unit.job, [candidate]) if candidate.removed and quarantined else None
        return tuple(
            attrs.evolve(said, state=state, job=job, actor=unit.words[0].assertion.actor)
            for said in assertions_of(fact, place, details, removed=removed)
        )

    async def _rejected(self, found: Iterable[Candidate], unit: Unit) -> tuple[Recorded, ...]:
        """Return the values in quarantine that the user plainly asks to forget."""
        wishes = [item for item in found if item.removed and item.doubt is None and not item.quarantined]
        if not wishes:
            return ()
        meant = RecallFilter(keywords={_keyword(wish) for wish in wishes})
        part = LogPart(states=[AssertionState.QUARANTINED], kept=meant)
        waiting = await self._reader.everybody.quarantined(part)
        tracks = [(wish, _track_of(wish, unit)) for wish in wishes]

        def named() -> tuple[Recorded, ...]:
            return tuple(
                entry
                for entry, _ in waiting
                if any(
                    entry.id not in unit.ids
                    and entry.assertion.track == track
                    and means(wish, shown_record(entry, self._context.concepts).fact)
                    for wish, track in tracks
                )
            )

        return await in_time(named, len(waiting))

    def _with_known_values(
        self, heard: _Heard, batch: Sequence[_Heard], here: Sequence[Current]
    ) -> Iterator[Candidate]:
        """Yield candidates, with an end of each known value in the place of one that means it; see `ends_of`.

        A wish to forget a value is treated like an end. Known are the current values of the unit's owner at its place,
        and those that its own words, and the units before it in its batch, state before. Ends that name no value, and
        mean none, are counted.
        """
        before = batch[: batch.index(heard)]
        for item in heard.read:
            if not (item.ended or (item.removed and _keyword(item) != STATEMENT.keyword)):
                yield item
                continue
            track = _track_of(item, heard.unit)
            told = [
                it
                for earlier in before
                for it in earlier.read
                if it.fact.timestamp <= item.fact.timestamp and _track_of(it, earlier.unit) == track
            ]
            told += [it for it in heard.read if _ends_before(it, item) and _track_of(it, heard.unit) == track]
            known = self._known(item, heard.unit, here)
            known += [it.fact for it in told if not (it.ended or it.removed or _is_of_another(item, it.details))]
            ends = ends_of(item, known)
            heard.dropped[DropReason.NOT_CURRENT] += not ends
            yield from ends

    def _known(self, item: Candidate, unit: Unit, here: Sequence[Current]) -> list[Fact[Any]]:
        """Return the current values on the track of a candidate; those that another speaker said are not taken back."""
        track = _track_of(item, unit)
        rows = (row for row in here if row.recorded.assertion.track == track)
        return [hydrate(row, self._context.concepts).fact for row in rows if not _is_of_another(item, row.details)]

    async def _analysed(self, unit: Unit, in_use: ScopeInfo | None) -> ReadUnit:
        analysis = await self._analysis(unit, in_use)
        place = Place(unit.place.subject, self._proposed(analysis.scope, unit.place.scope))
        said = [
            attrs.evolve(item.assertion, place=place, details=_analysed_details(analysis, item.assertion.details))
            for item in map(read_words, unit.words)
        ]
        return ReadUnit(unit=unit, candidates=tuple(map(CandidateAssertion, said)))

    async def _analysis(self, unit: Unit, in_use: ScopeInfo | None) -> Analysis:
        """Return the parts of an analysis of a unit's words that its job asks for, and no others."""
        analyst, infer = self._backend.analyst, unit.job.infer
        if not infer or analyst is None or in_use is None:
            return Analysis()
        text = "\n\n".join(item.assertion.details.evidence[0].quote for item in unit.words)
        asked = {name: name in infer for name in INFERRED}
        request = AnalysisRequest(
            **asked, scopes_in_use=tuple(map(str, in_use.scopes)), categories_in_use=tuple(in_use.categories)
        )
        with nested(Operation.ANALYSE, records_in=1):
            analysis = await analyst.analyse(text, request)
        nothing = Analysis()
        return attrs.evolve(analysis, **{name: getattr(nothing, name) for name in INFERRED if not asked[name]})

    def _proposed(self, path: str | None, otherwise: MemoryScope) -> MemoryScope:
        """Return the scope that a model proposes; the given one if the proposed path is illegal or too deep."""
        if not path or ".." in path.split("/") or path.count("/") > _DEEPEST_PROPOSAL:
            return otherwise
        try:
            return self._context.target(path)
        except InvalidDataError:
            return otherwise

    def _in_use(
        self, subjects: Collection[tuple[str, str | None]], here: Sequence[Current]
    ) -> tuple[Concept[Any, Any], ...]:
        """Return the declared concepts, and those of records about some subjects, which a detector is shown."""
        said = ((row, row.recorded.assertion) for row in here)
        newest = {it.keyword: row for row, it in said if it.place.subject.key in subjects}
        newest.pop(STATEMENT.keyword, None)
        declared = self._context.concepts
        found = {keyword: hydrate(row, declared).concept for keyword, row in newest.items()}
        return tuple((dict(declared) | found).values())


def holds_facts(recorded: Recorded, origins: OriginPolicy) -> bool:
    """Return whether words are the user's, and are read for facts.

    Args:
        recorded: The words.
        origins: The treatment of words that have none of their own.
    """
    treatment = treatment_of(recorded) or origins.user
    return recorded.assertion.details.origin is Origin.USER and treatment is Treatment.FACTS


def _evidence_believed(
    certain: Iterable[Candidate], doubtful: Sequence[Candidate], left: Iterable[Candidate]
) -> Set[tuple[Evidence, ...]]:
    """Return the evidence of which all that it is cited for is believed.

    Args:
        certain: Candidates that were not asked about.
        doubtful: Candidates that were asked about.
        left: Those that were not denied, without a doubt if they were confirmed.
    """
    cited = Counter(item.details.evidence for item in doubtful for _ in item.fact.values)
    cited.subtract(item.details.evidence for item in left if item.doubt is None for _ in item.fact.values)
    doubted = {evidence for evidence, number in cited.items() if number > 0}
    doubted |= {item.details.evidence for item in certain if item.quarantined or item.doubt is not None}
    return {item.details.evidence for item in (*certain, *doubtful)} - doubted


def _with_speakers(subjects: Sequence[MemorySubject], words: Iterable[Recorded]) -> tuple[MemorySubject, ...]:
    """Return subjects, and with them the users who speak under a name where one subject may be any user."""
    details = (item.assertion.details for item in words)
    names = dict.fromkeys(found.evidence[0].speaker for found in details if found.origin is Origin.USER)
    anybody = next((item for item in subjects if item.key in _ANYBODY), None)
    if anybody is None:
        return tuple(subjects)
    user = anybody if anybody.key == _ANY_USER.key else _ANY_USER
    speakers = [user.individual(name) for name in names if name and is_legal_name(name)]
    known = {item.key for item in subjects}
    return (*subjects, *(item for item in speakers if item.key not in known))


def _of_speakers(
    found: Sequence[Candidate], speakers: Sequence[str | None], unit: Unit, here: Iterable[Current]
) -> Iterator[Candidate]:
    """Yield candidates of typed facts about the user as ones about their speakers, who have a name.

    What is known of the user stays there, unless somebody else said it, or the speaker is asked for as a subject.
    """
    owner, asked = unit.given.owner, {item.key for item in unit.job.request.subjects}
    known: dict[str, tuple[MemorySubject, set[str | None]]] = {}
    for row in here:
        said = row.recorded.assertion
        if said.place.subject.key in _ANYBODY and said.details.owner == owner and not said.is_statement:
            known[said.keyword] = said.place.subject, {item.speaker for item in row.details.evidence}
    for item, name in zip(found, speakers, strict=True):
        subject, keyword = item.subject, _keyword(item)
        if subject is not None and name and is_legal_name(name) and keyword != STATEMENT.keyword:
            own = subject.individual(name) if subject.key == _ANY_USER.key else subject
            general, said_by = known.get(keyword, (own, {name}))
            mine = own.individual_name == name and own.key not in asked and said_by <= {name, None}
            yield attrs.evolve(item, subject=general if mine else own)
        else:
            yield item


def _is_of_another(item: Candidate, details: FactDetails) -> bool:
    """Return whether a candidate is a wish to forget what only speakers of another name said."""
    speaker = item.details.evidence[0].speaker
    named = item.removed and speaker is not None
    speakers = {it.speaker for it in details.evidence}
    return named and bool(speakers) and {speaker, None}.isdisjoint(speakers)


def _ends_before(one: Candidate, other: Candidate) -> bool:
    """Return whether the quote of a candidate ends before that of another one begins."""
    message, start = place_of(other)
    end = one.details.evidence[0].end or 0
    return place_of(one)[0] < message or (place_of(one)[0] == message and end <= start)


def _instructs(details: FactDetails) -> bool:
    """Return whether words hold a standing instruction."""
    return EXPLICIT_INSTRUCTIONS.label in details.topics


def read_words(recorded: Recorded) -> CandidateAssertion:
    """Return words that do not wait any more. An expiry that the policy gave them is that of what is read."""
    said = recorded.assertion
    given = said.job is None or said.job.get("expiry_given", True)
    details = said.details if given else attrs.evolve(said.details, expires_at=None)
    return CandidateAssertion(attrs.evolve(said, details=details, job=None, state=settled_state(recorded)))


def _analysed_details(analysis: Analysis, given: FactDetails) -> FactDetails:
    """Return the caller's details, completed by the analysis, also key by key of the metadata."""
    found = {"entities": analysis.entities, "dates": analysis.dates}
    metadata = {name: list(items) for name, items in found.items() if items} | dict(given.metadata)
    return attrs.evolve(
        given,
        categories=given.categories or analysis.categories,
        topics=given.topics or analysis.topics,
        importance=given.importance if analysis.importance is None else analysis.importance,
        metadata=metadata,
    )


def _cited(quote: Evidence, words: Evidence) -> Evidence:
    """Return the quote of a finding with what is known of the words that it is from."""
    cited = attrs.evolve(quote, position=words.position)
    whole = quote.quote == words.quote
    return attrs.evolve(cited, answers=words.answers, corrects=words.corrects, day=words.day) if whole else cited


def _repeats(details: FactDetails) -> bool:
    """Return whether words only repeat what nobody vouches for."""
    return any(flag in REPEATS.values() for flag in details.flags)


def _doubted(treatment: Treatment) -> Treatment:
    """Return the treatment of words that are not believed: no model is shown them beside others."""
    match treatment:
        case Treatment.FACTS | Treatment.QUARANTINED_FACTS:
            return Treatment.QUARANTINED_FACTS
        case Treatment.STATEMENTS:
            return Treatment.STATEMENTS
        case Treatment.CONTEXT | Treatment.IGNORE:
            return Treatment.IGNORE
        case _:
            assert_never(treatment)


def _keyword(candidate: Candidate) -> str:
    """Return the keyword of the concept that a candidate means."""
    return (candidate.cleared or candidate.fact.concept).keyword


def _track_of(candidate: Candidate, unit: Unit) -> tuple[object, ...]:
    """Return the `Assertion.track` of what a candidate of a unit ends or removes."""
    place = Place(candidate.subject or unit.place.subject, unit.place.scope)
    return *place.key, unit.given.owner, _keyword(candidate)
