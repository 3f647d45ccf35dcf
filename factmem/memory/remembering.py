"""Rememberer: words are kept at once as they were said, and read by models, at once or in the background."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import logging
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import attrs
from anyio import to_thread

from factmem.abc import DetectionRequest
from factmem.abc.capabilities import Receipt
from factmem.abc.detector import Conversation, DropReason, Message
from factmem.abc.topics import MANAGED_TOPICS
from factmem.changes import Change, ChangeKind
from factmem.consolidation.candidates import CandidateAssertion, duplicates_in
from factmem.details import FactDetails, MetadataMerge, Treatment
from factmem.detection import OriginPolicy
from factmem.detection.redaction import OFF_THE_RECORD, redact, redact_conversation
from factmem.detection.utterances import CLOCK_STEP
from factmem.detection.verbatim import Quoted, VerbatimDetector
from factmem.error_hints import kind_of
from factmem.errors import CapabilityError, InvalidDataError, RecordNotFoundError, StateConflictError
from factmem.facts import ClockTime, Fact, MultipleFacts, SingleFact
from factmem.fold import by_record
from factmem.legal_names import folded_keyword
from factmem.memory.background import Remembered, Submission
from factmem.memory.journal import Job, JobKind, Unit, detailed, in_order, job_id, read_again, waiting_for
from factmem.memory.media import MediaInbox
from factmem.memory.model_reader import INFERRED
from factmem.memory.pipeline import PipelinePart
from factmem.memory.profiles import united
from factmem.memory.screening import off_loop
from factmem.memory.submitted import About, ReadyFact, StoredSession, Words, conversation_from, spoken
from factmem.memory.talk import depends_on_others, in_talk
from factmem.memory.ttl import after
from factmem.memory.writer import record_in
from factmem.providers.memory import NoMemory
from factmem.recall.index.selection import LogPart
from factmem.recall.index.source import outside_log
from factmem.recall.text.times import moves_with_its_day
from factmem.records import (
    Assertion,
    AssertionState,
    FactRecord,
    Place,
    Recorded,
    assertions_of,
    statement_at,
)
from factmem.subjects import MemorySubject
from factmem.validators import changed, check_instance

_log = logging.getLogger("factmem")

_OFTEN: Final = 200
"""Number of characters up to which a text may be said again in the same words."""

_DETAILS: Final = ("importance", "categories", "source", "metadata", "expires_at", "labels")
"""Names in `About` of fields of `FactDetails`."""

_FEW_MESSAGES: Final = 10
"""Number of messages whose characters are counted."""


@attrs.frozen(kw_only=True)
class Taken:
    """A submitted item on its way into the store.

    Attributes:
        conversation: The item as a conversation.
        is_text: Whether it was a plain text, which is a memory itself.
        job: Job that it waits for; None if no model reads it.
        words: Its statements, secrets redacted.
        treatments: Treatment of each of its messages that is kept.
        dropped: Number of its messages that were dropped, by reason.
        left_out: See `Journalled`.
        assertions: The assertions that keep it until it is read, or for good.
    """

    conversation: Conversation = attrs.field(factory=lambda: Conversation(messages=()))
    is_text: bool = False
    job: Job | None
    words: Sequence[Quoted] = ()
    treatments: Sequence[Treatment | None] = ()
    dropped: Mapping[DropReason, int] = attrs.field(factory=dict)
    left_out: Mapping[DropReason, int] = attrs.field(factory=dict)
    assertions: Sequence[Assertion] = ()


@attrs.frozen(kw_only=True)
class Journalled:
    """An item in the store, on its way to a model if one is to read it.

    Attributes:
        id: Id by which the item is found again: that of its job, or of its first words without one.
        receipts: Receipts of what was appended.
        unit: What is still to be read of it; None if nothing is.
        outcome: Returns the outcome of its words as they are kept, if no model is to read them.
        left_out: Number of parts of its messages that are not kept, whatever is found in the rest, by reason.
    """

    id: str = ""
    receipts: Sequence[Receipt] = ()
    unit: Unit | None = None
    outcome: Callable[[], Remembered] = Remembered
    left_out: Mapping[DropReason, int] = attrs.field(factory=dict)

    @property
    def skipped(self) -> int:
        """Number of its messages that were in the store before, and are not to be read again."""
        if all(receipt.new for receipt in self.receipts):
            return 0
        unread = [*self.unit.words] if self.unit else []
        fresh = [*unread, *(receipt.recorded for receipt in self.receipts if receipt.new)]
        return len({_heard_in(receipt.recorded) for receipt in self.receipts}.difference(map(_heard_in, fresh)))

    @property
    def was_to_be_read(self) -> bool:
        """Whether the words were submitted for a model to read, now or before."""
        return any(receipt.recorded.assertion.job is not None for receipt in self.receipts)


def _as_said(
    receipts: Sequence[Receipt],
    states: Mapping[str, AssertionState],
    changes: Mapping[str, Change],
    dropped: Mapping[DropReason, int],
) -> Remembered:
    """Return the outcome of words that are kept as they are.

    Args:
        receipts: Their receipts.
        states: Present states, by id, of words that were in the store before.
        changes: Changes of records that words join, by record id.
        dropped: Number of messages that were dropped, by reason, if nothing was kept.
    """
    records: dict[str, FactRecord[Any]] = {
        recorded.id: record_in(recorded, None, states.get(recorded.id, recorded.assertion.state))
        for recorded in (receipt.recorded for receipt in receipts)
    }
    made = [
        changes.get(receipt.recorded.record_id)
        if receipt.joins
        else Change(kind=ChangeKind.CREATED, record=records[receipt.recorded.id])
        for receipt in receipts
        if receipt.new and _counts(receipt)
    ]
    return Remembered(
        records=tuple(records.values()), changes=tuple(filter(None, made)), dropped={} if receipts else dropped
    )


def _counted(item: Taken, dropped: Mapping[DropReason, int]) -> Taken:
    """Return an item with its numbers of dropped messages, apart from those that hold words off the record."""
    unsaved = f"[redacted: {OFF_THE_RECORD}]"
    clean = redact_conversation(item.conversation).messages if dropped else ()
    part = {it.details.evidence[0].position for it in item.words if unsaved in it.details.evidence[0].quote}
    whole = {at for at, message in enumerate(clean) if unsaved in message.content} - part
    return attrs.evolve(
        item,
        dropped=dict(Counter(dropped) - Counter({DropReason.ONLY_SECRETS: len(whole)})),
        left_out={
            DropReason.NOT_TEXT: item.conversation.not_text,
            DropReason.OFF_THE_RECORD: len(part) + len(whole),
        },
    )


def _as_twin(of: Journalled) -> Remembered:
    """Return the outcome of a text that is not kept beside another one of its batch."""
    return Remembered(records=of.outcome().records, dropped={DropReason.DUPLICATE: 1})


def _treated(
    conversation: Conversation, origins: OriginPolicy, *, reads: bool, own: bool
) -> tuple[Conversation, list[Treatment | None]]:
    """Return a conversation in the form to keep, and the treatment of each message that is kept with it.

    Without a reader, messages of CONTEXT are dropped if the message itself says so; by its origin they are kept.

    Args:
        conversation: The conversation.
        origins: Treatment of messages by their origin.
        reads: Whether a model will read it.
        own: Whether the call gives the policy, which is stored with the words then.
    """
    dropped = (Treatment.IGNORE,) if reads else (Treatment.IGNORE, Treatment.CONTEXT)
    messages: list[Message] = []
    treatments: list[Treatment | None] = []
    for message in conversation.messages:
        treatment = (
            origins.treatment(message) if reads else message.treatment or _without_model(origins.of(message.origin))
        )
        ignored = Treatment.IGNORE if treatment in dropped else None
        messages.append(message if message.treatment is ignored else attrs.evolve(message, treatment=ignored))
        treatments.append(treatment if own or treatment is Treatment.CONTEXT else message.treatment)
    if tuple(messages) == conversation.messages:
        return conversation, treatments
    return attrs.evolve(conversation, messages=messages), treatments


def _vouched(said: Assertion, treatments: Sequence[Treatment | None]) -> Assertion:
    """Return what stands in a medium as current, if the user points to it; there is no model to find facts in it."""
    first = said.details.evidence[0]
    if first.medium is None or first.position is None or treatments[first.position] is not Treatment.FACTS:
        return said
    return attrs.evolve(said, state=AssertionState.ACTIVE)


def _without_model(treatment: Treatment) -> Treatment:
    """Return the treatment of words of an origin without a model."""
    return treatment if treatment is Treatment.IGNORE else Treatment.STATEMENTS


_EVERYTHING: Final = MemorySubject.EVERYTHING

_AS_SAID: Final = Job(id="", kind=JobKind.KEEP, consolidate=False)
"""Job of words that no model reads."""


@attrs.frozen(kw_only=True)
class Order:
    """Checked details of one call, with a job for conversations, of which those of texts and ready facts are made."""

    place: Place
    given: FactDetails
    job: Job
    origins: OriginPolicy | None


class Rememberer(PipelinePart):
    """Takes in texts, messages, conversations, and facts to consolidate."""

    async def remember(self, what: Words, about: About) -> Remembered:
        """See `Memory.remember`."""
        order = self.ordered(about)
        first, *others = (await self.submit(await self._store([what], order), now=True)).outcomes
        return first.with_others(others)

    async def remember_many(self, what: Iterable[Words], about: About) -> Submission:
        """See `Memory.remember_many`."""
        self._backend.worker.check_running()
        order = self.ordered(about)
        if isinstance(what, str) or not isinstance(what, Iterable):
            raise InvalidDataError("remember_many takes a list: give [what], or use remember")
        return await self.store_and_submit(list(what), order)

    async def generate(
        self, source: Words | Sequence[str] | Sequence[Fact[Any] | ReadyFact] | StoredSession, about: About
    ) -> Submission:
        """See `Memory.generate`."""
        self._backend.worker.check_running()
        if about.get("looking_for") is None and self._backend.reads_words:
            subjects = (self._context.about(about.get("subject")),)
            about = {**about, "looking_for": DetectionRequest(subjects=subjects, topics=MANAGED_TOPICS)}
        order = self.ordered(about)
        match source:
            case StoredSession():
                return await self.submit([await self._session(source, order)])
            case [SingleFact() | MultipleFacts() | ReadyFact(), *_]:
                return await self.submit([await self._ready(source, order)])
            case [] | None:
                raise InvalidDataError(
                    "there is nothing to generate from: give words, messages, facts or a StoredSession"
                )
            case _:
                return await self.store_and_submit([spoken(source, self._context.said_now)], order)

    def ordered(self, about: About) -> Order:
        """Return checked details of a submission.

        Raises:
            InvalidDataError: A detail is out of range or of another type.
        """
        self._context.check_writable()
        subject, scope = self._context.about(about.get("subject")), about.get("scope")
        ttl, lasts = about.get("ttl"), about.get("revision_ttl")
        details: dict[str, Any] = {name: item for name, item in about.items() if name in _DETAILS and item is not None}
        given = FactDetails(
            **{"importance": self._context.policies.default_importance, **details},
            revision_expires_at=None if lasts is None else after(self._context.clock(), lasts, "revision_ttl"),
        )
        given = given if ttl is None else self._writer.lasting(given, ttl)
        given = self._context.owned(given, private=about.get("private"))
        if self._backend.four_verbs_only:
            if isinstance(self._backend.provider, NoMemory):
                raise CapabilityError("NoMemory keeps nothing: open the memory on a store, such as sqlite-vec:facts.db")
            self._writer.check_representable(self._writer.lasting(given))
        return Order(
            place=self._context.place(subject, scope),
            given=given,
            job=Job(
                id="",
                kind=JobKind.DETECT,
                request=self._looking_for(about.get("looking_for"), subject),
                infer=tuple(name for name in INFERRED if about.get(name) is None),
                consolidate=about.get("consolidate", True),
                merge=about.get("merge", MetadataMerge.MERGE),
                expiry_given=self._writer.lasting(given) is given,
            ),
            origins=about.get("origins"),
        )

    def _looking_for(self, request: DetectionRequest | None, subject: MemorySubject) -> DetectionRequest:
        """Return what to look for; a request without a model would silently find nothing.

        Raises:
            CapabilityError: There is no model.
            InvalidDataError: It is not a request.
        """
        if request is None:
            return DetectionRequest(subjects=(subject,), concepts=self._context.concepts.values(), open=True)
        check_instance(request, "looking_for", DetectionRequest, hint="give DetectionRequest(concepts=[…])")
        if not self._backend.reads_words:
            raise CapabilityError("looking_for takes a model: open the memory with model=, or leave it out")
        if request.subjects == (_EVERYTHING,):
            request = attrs.evolve(request, subjects=(subject,))
        request = attrs.evolve(request, subjects=map(self._context.of_user, request.subjects))
        for wanted in request.subjects:
            self._context.named(wanted)
        asked = {folded_keyword(concept.keyword) for concept in request.concepts}
        declared = self._context.concepts if request.open else united(self._context.profiles)
        more = [concept for concept in declared.values() if folded_keyword(concept.keyword) not in asked]
        if not more:
            return request
        return attrs.evolve(request, concepts=(*request.concepts, *more), open=request.searches_openly)

    async def store_and_submit(self, what: Sequence[Words], order: Order) -> Submission:
        """Submit words to be read in the background; read them now if nothing can wait."""
        return await self.submit(await self._store(what, order))

    async def _store(self, what: Sequence[Words], order: Order) -> list[Journalled]:
        """Put words into the store, in one transaction; behind them the words that were read from their media.

        Each without a time is later than the one before it, in whatever order they are read.
        """
        now, plain = self._context.said_now, all(isinstance(item, str | Message | Conversation) for item in what)
        times = [ClockTime.of(now + place * CLOCK_STEP) for place in range(len(what))]
        said = await off_loop(lambda: list(map(conversation_from, what, times)), 0 if plain else None)
        bare, words = await self.without_media(await self._dated_as_before(said, order), order)
        texts = [isinstance(item, str) for item in what]
        taken = [
            Taken(conversation=item, is_text=is_text, job=self.job(order, is_text=is_text))
            for item, is_text in (*zip(bare, texts, strict=True), *((item, False) for item in words))
        ]
        stored = await self.stored(taken, order)
        warn_of_not_text(sum(item.left_out[DropReason.NOT_TEXT] for item in stored))
        return stored

    async def _dated_as_before(self, said: Sequence[Conversation], order: Order) -> list[Conversation]:
        """Return conversations with the stored times of those messages that the store has.

        Only a message without a time is dated, one of the same conversation and place, with the same id and text.
        """
        undated = {item.id for item in said if item.id is not None and _is_undated(item)}
        if not undated or self._backend.four_verbs_only:
            return list(said)
        known: dict[str | None, dict[tuple[str | None, str], dt.datetime]] = defaultdict(dict)
        for entry in await self._reader.everybody.recorded(LogPart(conversations=undated)):
            words = entry.assertion.details.evidence[0]
            if _is_of(StoredSession(id=words.conversation_id or ""), entry, order):
                known[words.conversation_id][words.message_id, words.quote] = entry.assertion.timestamp
        return [_dated(item, known[item.id]) if item.id in known else item for item in said]

    async def without_media(
        self, said: Sequence[Conversation], order: Order, *, lenient: bool = False
    ) -> tuple[Sequence[Conversation], Sequence[Conversation]]:
        """Return conversations without their media, and the words that were read from these; see `MediaInbox`."""
        if self._backend.four_verbs_only:  # words of media belong into quarantine
            return said, ()
        inbox = MediaInbox(self._context.everybody, self._backend)
        return await inbox.separated(said, order.place, order.given.owner, lenient=lenient)

    async def stored(
        self,
        items: Sequence[Taken],
        order: Order,
        *,
        heard: Conversation | None = None,
        context: tuple[Recorded, ...] = (),
    ) -> list[Journalled]:
        """Append items to the store, in one transaction.

        Args:
            items: The items.
            order: Details of the call.
            heard: All that is at hand of the conversation that they come from, if that is more.
            context: Earlier words that a model is shown, if the store cannot look them up.
        """
        length = _length_of(items)
        read, policies = await off_loop(partial(self._read, items, order), length), self._context.policies
        for at, said in enumerate(read):
            if any(depends_on_others(quoted.details) for quoted in said.words):
                talk, origins = heard or said.conversation, order.origins or policies.origins
                before = [] if talk.id is None else await self.words_of(StoredSession(id=talk.id), order)
                words = await in_talk(said.words, talk, before, origins=origins, flagged=policies.flagged)
                read[at] = attrs.evolve(said, words=words)
        return await self._journalled(await off_loop(partial(self._keep, read, order), length), order, context)

    def _read(self, items: Sequence[Taken], order: Order) -> list[Taken]:
        """Return items with their statements. A text is a memory itself, whatever the policy."""
        origins, own = order.origins or self._context.policies.origins, order.origins is not None
        kept = [
            (item.conversation, list[Treatment | None]())
            if item.is_text
            else _treated(item.conversation, origins, reads=item.job is not None, own=own)
            for item in items
        ]
        found = self._verbatim.read([conversation for conversation, _ in kept], self._writer.lasting(order.given))
        return [
            _counted(attrs.evolve(item, words=words, treatments=treatments), dropped)
            for item, (words, dropped), (_, treatments) in zip(items, found, kept, strict=True)
        ]

    def _keep(self, read: Sequence[Taken], order: Order) -> list[Taken]:
        """Return items with the assertions that keep them."""
        legal, now = self._writer.legal_time, self._context.clock()
        kept = []
        for item in read:
            timed = [(quoted.details, legal(quoted.timestamp, now)) for quoted in item.words]
            said = [statement_at(order.place, _of_its_day(details, at), at) for details, at in timed]
            if item.job is None:
                said = [_vouched(it, item.treatments) for it in said]
            else:
                said = waiting_for(item.job, said, item.treatments)
            kept.append(attrs.evolve(item, assertions=said))
        return kept

    async def _journalled(
        self, kept: Sequence[Taken], order: Order, context: tuple[Recorded, ...] = ()
    ) -> list[Journalled]:
        """Append words or facts to the store, in one transaction. One with the four verbs only holds nothing unread."""
        if self._backend.four_verbs_only:
            return [_outside(each, context) for each in kept]
        twins, vectors = await self._distinct(kept) if order.job.consolidate else ({}, None)
        kept = [attrs.evolve(each, assertions=()) if at in twins else each for at, each in enumerate(kept)]
        said = [(assertion, item.job) for item in kept for assertion in item.assertions]
        receipts = await self._writer.append([assertion for assertion, _ in said], vectors=vectors)
        unread = {receipt.recorded.id: receipt.recorded for receipt in receipts if receipt.new}
        if len(unread) < len(receipts):
            unread |= await self._left_unread({receipt.recorded.id for receipt in receipts})
            known = zip(receipts, said, strict=True)
            unread |= await self.read_again([(receipt.recorded, job) for receipt, (_, job) in known if not receipt.new])
        as_said = [receipt for receipt in receipts if receipt.recorded.assertion.job is None]
        states = await self._writer.states_of_repeated(as_said)
        joined = [receipt.recorded for receipt in as_said if receipt.joins and _counts(receipt)]
        changes = {it.record.id: it for it in await self._pipeline.changes_by(joined)} if joined else {}
        rest = iter(receipts)
        stored = []
        for item in kept:
            mine = tuple(itertools.islice(rest, len(item.assertions)))
            found = (unread.pop(receipt.recorded.id, None) for receipt in mine)
            words = [word for word in found if word is not None and word.assertion.job is not None]
            unit, outcome = _unit(words, mine, item.job), partial(_as_said, mine, states, changes, item.dropped)
            stored.append(
                Journalled(id=_id_of(unit, mine), receipts=mine, unit=unit, outcome=outcome, left_out=item.left_out)
            )
        for again, first in twins.items():
            outcome = partial(_as_twin, stored[first])
            stored[again] = attrs.evolve(stored[again], id=stored[first].id, outcome=outcome)
        return stored

    async def read_again(self, words: Sequence[tuple[Recorded, Job | None]]) -> dict[str, Recorded]:
        """Let words that were submitted before wait once more, if they are to be read for something else.

        Args:
            words: The words, each with the job that they are submitted with now.

        Returns:
            The waiting revisions by the ids of the words.
        """
        wanted = [
            (recorded, job)
            for recorded, job in words
            if job is not None and job.kind is JobKind.DETECT and recorded.assertion.job is not None
        ]
        if not wanted:
            return {}
        log = await self._reader.everybody.log(
            LogPart(record_ids={recorded.record_id for recorded, _ in wanted}, related=True)
        )
        logs = by_record(log)
        revisions = {
            recorded.id: revision
            for recorded, job in wanted
            if (revision := read_again(recorded, job, logs.get(recorded.record_id, ()))) is not None
        }
        receipts = await self._writer.append(list(revisions.values()))
        return {id: receipt.recorded for id, receipt in zip(revisions, receipts, strict=True)}

    async def _distinct(self, kept: Sequence[Taken]) -> tuple[dict[int, int], list[Any] | None]:
        """Find the plain texts that say the same as an earlier one of the batch; none if the embedder fails.

        Returns:
            The position of the first by that of each duplicate, and the vectors of the assertions of all others.
        """
        alone = [at for at, it in enumerate(kept) if it.is_text and it.job is None and len(it.assertions) == 1]
        if len(alone) < 2:
            return {}, None
        vectors = iter(await self._writer.vectors([said for each in kept for said in each.assertions]))
        of_items = [list(itertools.islice(vectors, len(each.assertions))) for each in kept]
        candidates = [CandidateAssertion(kept[number].assertions[0], of_items[number][0]) for number in alone]
        twins: dict[int, int] = {}
        if all(candidate.vector is not None for candidate in candidates):
            found = await to_thread.run_sync(duplicates_in, candidates, self._context.policies.consolidation)
            twins = {alone[again]: alone[first] for again, first in found.items()}
        return twins, [vector for at, each in enumerate(of_items) if at not in twins for vector in each]

    def job(self, order: Order, *, is_text: bool = False) -> Job | None:
        """Return the job for a conversation or a plain text; None if no model has to read it."""
        backend = self._backend
        consolidate = order.job.consolidate and backend.consolidator is not None
        infer = order.job.infer if is_text and backend.analyst is not None else ()
        read = infer or consolidate if is_text else not isinstance(backend.detector, VerbatimDetector)
        if not read:
            return None
        job = attrs.evolve(order.job, id=uuid.uuid4().hex, infer=infer, consolidate=consolidate)
        return attrs.evolve(job, kind=JobKind.KEEP, request=DetectionRequest()) if is_text else job

    @property
    def _verbatim(self) -> VerbatimDetector:
        detector = self._backend.detector
        return detector if isinstance(detector, VerbatimDetector) else VerbatimDetector(clock=self._context.clock)

    async def _left_unread(self, ids: Collection[str]) -> dict[str, Recorded]:
        """Return the words that nobody has read since an earlier submission, and nobody is reading now."""
        busy = self._backend.worker.busy  # check before and after: jobs that end meanwhile are not left
        reader = self._reader.everybody
        part = LogPart(states=(AssertionState.FAILED,))
        failed = await reader.recorded(part, lambda entry: entry.id in ids)
        if failed:
            with contextlib.suppress(StateConflictError):  # another caller lets them be read again
                await self._pipeline.await_again(failed)
        waiting = await reader.recorded(LogPart(states=(AssertionState.PENDING,)), lambda entry: entry.id in ids)
        busy |= self._backend.worker.busy
        return {entry.id: entry for entry in waiting if entry.id not in busy}

    async def submit(self, stored: Sequence[Journalled], *, now: bool = False) -> Submission:
        """Submit journalled words to the worker; read them now if the caller waits, or nothing can wait."""
        items = dict(zip(_ids_of(stored), stored, strict=True))
        submission, units = Submission(list(items)), {id: item.unit for id, item in items.items() if item.unit}
        submission.skip(sum(item.skipped for item in stored))
        if now or self._backend.four_verbs_only:
            for id, outcome in zip(units, await self._pipeline.read_now(list(units.values())), strict=True):
                submission.settle(id, outcome)
        for id, item in items.items():
            for reason, number in item.left_out.items():
                submission.drop(reason, number, id)
            if item.unit is None:
                recorded = [receipt.recorded for receipt in item.receipts if item.was_to_be_read]
                submission.settle(id, await self._pipeline.present_outcome(recorded) if recorded else item.outcome)
        if submission.pending:
            self._backend.worker.submit(self._pipeline, list(units.values()), submission)
        return submission

    async def _ready(self, facts: Sequence[Any], order: Order) -> Journalled:
        for fact in facts:
            if not isinstance(fact, SingleFact | MultipleFacts | ReadyFact):
                raise InvalidDataError(f"cannot generate from facts and {kind_of(fact)} together")
        job = attrs.evolve(
            order.job, id=uuid.uuid4().hex, kind=JobKind.CONSOLIDATE, infer=(), request=DetectionRequest()
        )
        said = [
            assertion
            for ready in (fact if isinstance(fact, ReadyFact) else ReadyFact(fact) for fact in facts)
            for assertion in assertions_of(
                self._writer.dated(ready.said(self._context.said_now)),
                order.place,
                detailed(order.given, FactDetails(topics=tuple(ready.topics))),
            )
        ]
        (stored,) = await self._journalled([Taken(job=job, assertions=waiting_for(job, said))], order)
        return stored

    async def _session(self, session: StoredSession, order: Order) -> Journalled:
        """Return the words of a stored session, to be read again in any state."""
        self._backend.log()
        kept_at = Place(
            self._context.named(session.subject) or order.place.subject,
            self._context.anchored(session.scope) or order.place.scope,
        )
        words = await self.words_of(session, attrs.evolve(order, place=kept_at))
        if not words:
            raise RecordNotFoundError(
                "the store holds no such session that the viewer may see at this place: "
                "StoredSession(id, subject=…, scope=…) names the place that it was kept at"
            )
        job = self.job(order)
        unit = (
            Unit(job=job, words=in_order(words), waiting=False, target=order.place, caller=order.given) if job else None
        )
        return Journalled(id=_id_of(unit), unit=unit)

    async def words_of(self, session: StoredSession, order: Order) -> list[Recorded]:
        """Return the visible words of a conversation at the place of an order."""
        return await self._reader.everybody.recorded(
            LogPart(conversations=[session.id]), lambda entry: _is_of(session, entry, order)
        )


def _is_undated(said: Conversation) -> bool:
    """Return whether a conversation has messages without a time."""
    return said.started_at is None and any(message.timestamp is None for message in said.messages)


def _dated(said: Conversation, times: Mapping[tuple[str | None, str], dt.datetime]) -> Conversation:
    """Return a conversation with the times of messages without one, by their ids and texts."""
    messages = [
        message
        if message.timestamp is not None
        else attrs.evolve(message, timestamp=times.get((message.id or str(place), redact(message.content).text)))
        for place, message in enumerate(said.messages)
    ]
    return attrs.evolve(said, messages=messages)


def warn_of_not_text(number: int) -> None:
    """Log that messages came with images, audio or files, if any did."""
    if number:
        _log.warning(
            "images, audio, files and unknown parts of messages were not read; `dropped` counts them under NOT_TEXT"
        )


def _ids_of(stored: Sequence[Journalled]) -> list[str]:
    """Return an id of each item; the same words twice have one id by which they are found again."""
    ids: dict[str, None] = {}
    for item in stored:
        ids[uuid.uuid4().hex if not item.id or item.id in ids else item.id] = None
    return list(ids)


def _id_of(unit: Unit | None, receipts: Sequence[Receipt] = ()) -> str:
    """Return the id by which an item is found again; an empty one if nothing is kept of it."""
    if unit is not None:
        return unit.job.id
    return next((job_id(receipt.recorded) or receipt.recorded.id for receipt in receipts), "")


def _length_of(items: Sequence[Taken]) -> int | None:
    """Return the number of characters of a few texts or messages; None for more, which take long to count."""
    messages = itertools.chain.from_iterable(item.conversation.messages for item in items)
    few = list(itertools.islice(messages, _FEW_MESSAGES + 1))
    return sum(len(message.content) for message in few) if len(few) <= _FEW_MESSAGES else None


def _unit(words: Sequence[Recorded], receipts: Sequence[Receipt], job: Job | None) -> Unit | None:
    """Return the pending unit, reusing the job id of an earlier submission."""
    if job is None or not words:
        return None
    if not any(receipt.new for receipt in receipts):
        job = attrs.evolve(job, id=job_id(words[-1]) or job.id)
    return Unit(job=job, words=tuple(words))


def _outside(item: Taken, context: tuple[Recorded, ...]) -> Journalled:
    """Return an item that no log holds; its words are read all the same."""
    words = tuple(map(outside_log, item.assertions))
    unit = Unit(job=item.job or _AS_SAID, words=words, context=context, waiting=False) if words else None
    outcome = partial(_as_said, (), {}, {}, item.dropped)
    return Journalled(id=_id_of(unit), unit=unit, outcome=outcome, left_out=item.left_out)


def _counts(receipt: Receipt) -> bool:
    return receipt.recorded.assertion.counts(receipt.recorded.assertion.state)


def _heard_in(recorded: Recorded) -> tuple[object, ...]:
    """Return the message that words were heard in."""
    return next(((*item.message, item.position) for item in recorded.assertion.details.evidence), ())


def _of_its_day(details: FactDetails, said_at: dt.datetime) -> FactDetails:
    """Return the details of a statement whose words keep their day if they name a time relative to it.

    A long text, which is hardly said twice, and a fact of several quotes are left as they are.
    """
    evidence = details.evidence
    if not (len(evidence) == 1 and len(evidence[0].quote) <= _OFTEN and moves_with_its_day(evidence[0].quote)):
        return details
    return changed(details, evidence=(changed(evidence[0], day=said_at.date().isoformat()),))


def _is_of(session: StoredSession, entry: Recorded, order: Order) -> bool:
    said = entry.assertion
    evidence = said.details.evidence
    # The most selective test comes first: every entry ever recorded is checked.
    return (
        bool(evidence)
        and evidence[0].conversation_id == session.id
        and said.is_statement
        and evidence[0].quote == said.data
        and said.details.owner == order.given.owner
        and said.place.key == order.place.key
        and (session.since is None or said.timestamp >= session.since)
        and (session.until is None or said.timestamp < session.until)
    )
