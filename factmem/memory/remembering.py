"""Rememberer: words are kept at once as they were said, and read by models, at once or in the background."""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import logging
import uuid
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias, TypedDict

import attrs
from anyio import to_thread

from factmem.abc import DetectionRequest
from factmem.abc.capabilities import Receipt
from factmem.abc.detector import Conversation, DropReason, Message
from factmem.abc.topics import MANAGED_TOPICS
from factmem.changes import Change, ChangeKind
from factmem.consolidation.candidates import CandidateAssertion
from factmem.consolidation.duplicates import duplicates_in
from factmem.conversations import conversations_of
from factmem.details import FactDetails, MetadataMerge, Origin, Treatment
from factmem.detection import OriginPolicy
from factmem.detection.redaction import redact
from factmem.detection.short_answers import BEFORE, Turn, is_short, meant
from factmem.detection.utterances import CLOCK_STEP
from factmem.detection.verbatim import Quoted, VerbatimDetector
from factmem.error_hints import kind_of
from factmem.errors import CapabilityError, InvalidDataError, RecordNotFoundError, StateConflictError
from factmem.facts import STATEMENT, Fact, MultipleFacts, SingleFact
from factmem.fold import by_record
from factmem.legal_names import folded_keyword
from factmem.memory.background import Remembered, Submission
from factmem.memory.journal import Job, JobKind, Unit, detailed, in_order, job_id, read_again, waiting_for
from factmem.memory.media import MediaInbox
from factmem.memory.model_reader import INFERRED
from factmem.memory.pipeline import PipelinePart
from factmem.memory.profiles import united
from factmem.memory.screening import heard_as, off_loop
from factmem.memory.taint import REPEATS, Heard, repetitions
from factmem.memory.ttl import after
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
    as_kept_apart,
    assertions_of,
    record_of,
    statement_at,
)
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.validators import changed, check_instance, instance_of
from factmem.values import Json

_log = logging.getLogger("factmem")

_OFTEN: Final = 200
"""Number of characters up to which a text may be said again in the same words."""

_FEW_MESSAGES: Final = 10
"""Number of messages whose characters are counted."""

_LEVELS: Final = 4
"""Mappings in one another that may be other types than dicts: a session, its events, their contents, the parts."""


def _topics(topics: Sequence[str]) -> tuple[str, ...]:
    return FactDetails(topics=topics).topics  # checked there, like those of any fact


Words: TypeAlias = "str | Message | Conversation | Sequence[Message] | Mapping[str, Any] | Sequence[Mapping[str, Any]]"
"""Words to remember: a text, a message, a conversation, or messages as dicts with ``role`` and ``content``.

The dicts may also be the contents and events of Google's APIs; see `factmem.conversations.read_conversations`.
"""


@attrs.frozen
class ReadyFact:
    """A fact that needs no reading, with its topics.

    Attributes:
        fact: The fact; a text is a statement, said now.
        topics: Its topics, such as the labels of `MANAGED_TOPICS`.

    Raises:
        InvalidDataError: It is neither a fact nor a text, or a topic is not legal.
    """

    fact: Fact[Any] | str = attrs.field(repr=False, validator=instance_of(SingleFact, MultipleFacts, str))
    topics: Sequence[str] = attrs.field(default=(), converter=_topics, kw_only=True)

    def said(self, now: dt.datetime) -> Fact[Any]:
        """Return the fact, or the statement that a text is."""
        return STATEMENT.fact([self.fact], timestamp=now) if isinstance(self.fact, str) else self.fact


@attrs.define(eq=False, kw_only=True)
class Taken:
    """One submitted item, on its way into the store and from there to a model.

    Attributes:
        conversation: The item as a conversation.
        is_text: Whether it was a plain text, which is a memory itself.
        job: Job that it waits for; None if no model reads it.
        words: Its statements.
        dropped: Number of its messages that were dropped, by reason.
        treatments: Treatment of each message that is kept with it.
        compared: Whether it is kept once only, if others of its batch say the same.
        assertions: What keeps it until it is read, or for good.
        receipts: Receipts of these, once they are in the store.
        unit: What is still to be read of it; None if nothing is.
        twin: Receipts of the words of the same batch that stand for these.
        states: Present states, by id, of words that were in the store before.
        changes: Changes of records that its words join, by record id.
    """

    conversation: Conversation = attrs.field(factory=lambda: Conversation(messages=()))
    is_text: bool = False
    job: Job | None
    words: Sequence[Quoted] = ()
    dropped: Mapping[DropReason, int] = attrs.field(factory=dict)
    treatments: Sequence[Treatment | None] = ()
    compared: bool = False
    assertions: Sequence[Assertion] = ()
    receipts: Sequence[Receipt] = ()
    unit: Unit | None = None
    twin: Sequence[Receipt] = ()
    states: Mapping[str, AssertionState] = attrs.field(factory=dict)
    changes: Mapping[str, Change] = attrs.field(factory=dict)

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

    def outcome(self) -> Remembered:
        """Return the outcome of words that are kept as they are."""
        records: dict[str, FactRecord[Any]] = {
            recorded.id: _as_kept(recorded, self.states.get(recorded.id, recorded.assertion.state))
            for recorded in (receipt.recorded for receipt in (*self.receipts, *self.twin))
        }
        new = [receipt for receipt in self.receipts if receipt.new and _counts(receipt)]
        changes = [
            self.changes.get(receipt.recorded.record_id)
            if receipt.joins
            else Change(kind=ChangeKind.CREATED, record=records[receipt.recorded.id])
            for receipt in new
        ]
        outcome = Remembered(
            records=tuple(records.values()),
            changes=tuple(change for change in changes if change is not None),
            dropped={} if self.receipts else self.dropped,
        )
        return outcome.without(DropReason.DUPLICATE, 1 if self.twin else 0)


def _kept(
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


def conversation_from(what: Words, now: dt.datetime) -> Conversation:
    """Return submitted words as a conversation.

    Raises:
        InvalidDataError: They are of another type, blank, or malformed.
    """
    match what:
        case Conversation():
            return what
        case Message():
            return Conversation(messages=(what,), started_at=what.timestamp or now)
        case str():
            if not what.strip():
                raise InvalidDataError("there is nothing to remember in a blank text")
            return Conversation(messages=(Message(content=what, timestamp=now),), started_at=now)
        case [Message() as first, *_]:
            return attrs.evolve(_conversation_of(what), started_at=first.timestamp or now)
        case [first, *_] if _is_record(first):
            return _read([_plain(item) for item in what])
        case _ if _is_record(what):
            return _read(_plain(what))
        case _:
            raise InvalidDataError(
                f"cannot remember {kind_of(what)}: give a text, a Message, a Conversation, or message dicts"
            )


def spoken(source: Any, now: dt.datetime) -> Conversation:
    """Return words as a conversation; see `conversation_from`. Each text of a list is a message of the user.

    Raises:
        InvalidDataError: They are of another type, blank, or malformed.
    """
    match source:
        case [str(), *_]:
            return _read([_plain(item) for item in source])
        case _:
            return conversation_from(source, now)


def _conversation_of(messages: Sequence[Any]) -> Conversation:
    """Return messages as a conversation.

    Raises:
        InvalidDataError: One of them is something else.
    """
    for message in messages:
        if not isinstance(message, Message):
            raise InvalidDataError(f"cannot generate from messages and {kind_of(message)} together")
    return Conversation(messages=messages)


def _is_record(item: object) -> bool:
    """Return whether an item is a mapping, or a pydantic model such as the contents of Google's SDK."""
    return isinstance(item, Mapping) or hasattr(type(item), "model_dump")


def _plain(item: Any, levels: int = _LEVELS) -> Any:
    """Return mappings and pydantic models as dicts, down to some levels, and anything else as it is."""
    if levels == 0:
        return item
    match item:
        case Mapping():
            return {key: _plain(value, levels - 1) for key, value in item.items()}
        case list() | tuple():
            return [_plain(value, levels) for value in item]
        case _:
            return item.model_dump(exclude_none=True) if _is_record(item) else item


def _read(value: object) -> Conversation:
    match list(conversations_of([("$", value)])):
        case [conversation]:
            return conversation
        case several:
            raise InvalidDataError(f"expected one conversation, got {len(several)}: pass them one by one")


_EVERYTHING: Final = MemorySubject.EVERYTHING

_AS_SAID: Final = Job(id="", kind=JobKind.KEEP, consolidate=False)
"""Job of words that no model reads."""


class About(TypedDict, total=False):
    """Details of words that are to be remembered.

    Attributes:
        subject: Subject of the words, such as ``"user:alice"``; everything by default.
        scope: Scope that they hold in. Without one, the analyst proposes a scope for a text, and everything else goes
            to `MemoryScope.CROSS_PRODUCT`.
        importance: From 0 to 1; this memory's default if left out.
        categories: Labels.
        source: Source of the words.
        metadata: Other details, as JSON.
        expires_at: Time of expiry; by this memory's `TtlPolicy` if left out.
        ttl: The same, counted from now.
        private: Keep them for this memory's viewer alone.
        looking_for: Facts to look for in a conversation; by default all facts about the subject, those of the declared
            concepts first.
        consolidate: Compare findings with known records, as is the default.
        origins: Treatment of messages by their origin, instead of this memory's.
        labels: Labels of every new revision; see `FactDetails.labels`.
        merge: Treatment of the metadata of a record that is updated; it is merged by default. (Google's pages
            contradict each other on the default: MERGE on one, OVERWRITE on another. Merging loses nothing.)
        revision_ttl: Time after which every new revision is erased once it is superseded; by this memory's
            `TtlPolicy.revisions` if left out.
    """

    subject: MemorySubject | str | None
    scope: MemoryScope | str | None
    importance: float | None
    categories: Sequence[str] | None
    source: str | None
    metadata: Mapping[str, Json] | None
    expires_at: dt.datetime | None
    ttl: dt.timedelta | None
    private: bool | None
    looking_for: DetectionRequest | None
    consolidate: bool
    origins: OriginPolicy | None
    labels: Mapping[str, str] | None
    merge: MetadataMerge
    revision_ttl: dt.timedelta | None


@attrs.frozen(kw_only=True)
class Order:
    """Checked details of one call, with a job for conversations, of which those of texts and ready facts are made."""

    place: Place
    given: FactDetails
    job: Job
    origins: OriginPolicy | None


@attrs.frozen(kw_only=True)
class StoredSession:
    """A conversation that is in the store already, or a part of it.

    Attributes:
        id: Id of the conversation.
        since: Only messages at this time or later.
        until: Only messages before this time.
        subject: Subject that the conversation was kept about; that of the memories if None.
        scope: Scope that it was kept in; that of the memories if None.
    """

    id: str
    since: dt.datetime | None = None
    until: dt.datetime | None = None
    subject: MemorySubject | str | None = None
    scope: MemoryScope | str | None = None


class Rememberer(PipelinePart):
    """Takes in texts, messages, conversations, and facts to consolidate."""

    async def remember(self, what: Words, about: About) -> Remembered:
        """See `Memory.remember`."""
        order = self.ordered(about)
        outcomes = await self._read_now(await self._store([what], order))
        return outcomes[0].with_others(outcomes[1:])

    async def _read_now(self, stored: Sequence[Taken]) -> list[Remembered]:
        read = iter(await self._pipeline.read_now([item.unit for item in stored if item.unit is not None]))
        outcomes = [await self._read_before(item) if item.unit is None else next(read) for item in stored]
        not_text = [item.conversation.not_text for item in stored]
        return [
            outcome.without(DropReason.NOT_TEXT, number) for outcome, number in zip(outcomes, not_text, strict=True)
        ]

    async def remember_many(self, what: Iterable[Words], about: About) -> Submission:
        """See `Memory.remember_many`."""
        self._backend.worker.check_running()
        order = self.ordered(about)
        if isinstance(what, str) or not isinstance(what, Iterable):
            raise InvalidDataError("remember_many takes a list: give [what], or use remember")
        return await self.store_and_submit(list(what), order)

    async def generate(
        self,
        source: Words | Sequence[str] | Sequence[Fact[Any] | ReadyFact] | StoredSession,
        about: About,
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
        importance, scope, private = about.get("importance"), about.get("scope"), about.get("private")
        ttl, revision_ttl = about.get("ttl"), about.get("revision_ttl")
        subject = self._context.about(about.get("subject"))
        given = FactDetails(
            importance=self._context.policies.default_importance if importance is None else importance,
            categories=about.get("categories") or (),
            source=about.get("source"),
            metadata=about.get("metadata") or {},
            expires_at=about.get("expires_at"),
            labels=about.get("labels") or {},
            revision_expires_at=(
                None if revision_ttl is None else after(self._context.clock(), revision_ttl, "revision_ttl")
            ),
        )
        given = self._context.owned(given if ttl is None else self._writer.lasting(given, ttl), private=private)
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

    async def _store(self, what: Sequence[Words], order: Order) -> list[Taken]:
        """Put words into the store, in one transaction; behind them the words that were read from their media.

        Each without a time is later than the one before it, in whatever order they are read.
        """
        now, plain = self._context.said_now, all(isinstance(item, str | Message | Conversation) for item in what)
        times = [now + place * CLOCK_STEP for place in range(len(what))]
        said = await off_loop(lambda: list(map(conversation_from, what, times)), 0 if plain else None)
        bare, words = await self.without_media(await self._dated_as_before(said, order), order)
        texts = [isinstance(item, str) for item in what]
        taken = [
            Taken(conversation=item, is_text=is_text, job=self.job(order, is_text=is_text))
            for item, is_text in (*zip(bare, texts, strict=True), *((item, False) for item in words))
        ]
        stored = await self.journalled(await self.taken_in(taken, order))
        warn_of_not_text(sum(item.conversation.not_text for item in stored))
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

    async def taken_in(self, items: Sequence[Taken], order: Order, *, heard: Conversation | None = None) -> list[Taken]:
        """Return items with the assertions that keep them.

        Args:
            items: The items, each with its conversation and the job that it waits for.
            order: Details of the call.
            heard: All that is at hand of the conversation that they come from, if that is more.
        """
        length = _length_of(items)
        for item in await off_loop(partial(self._read, items, order), length):
            await self._in_conversation(item, heard, order)
        await off_loop(partial(self._keep, items, order), length)
        return list(items)

    def _read(self, items: Sequence[Taken], order: Order) -> list[Taken]:
        """Add the statements of items, secrets redacted, and return the items that depend on what was said before.

        These are the ones with statements of the assistant, and short ones of the user. A text is a memory itself,
        whatever the policy.
        """
        detector, given = self._verbatim, self._writer.lasting(order.given)
        origins = order.origins or self._context.policies.origins
        kept = [item.conversation for item in items]
        for at, item in enumerate(items):
            unread = item.job is None
            if not item.is_text:
                kept[at], item.treatments = _kept(kept[at], origins, reads=not unread, own=order.origins is not None)
            item.compared = item.is_text and unread and order.job.consolidate
        for item, read in zip(items, detector.read(kept, given), strict=True):
            item.words, item.dropped = read
        return [item for item in items if any(_needs_others(quoted.details) for quoted in item.words)]

    def _keep(self, items: Sequence[Taken], order: Order) -> None:
        """Add the assertions that keep items."""
        legal, now = self._writer.legal_time, self._context.clock()
        for item in items:
            timed = [(quoted.details, legal(quoted.timestamp, now)) for quoted in item.words]
            said = [statement_at(order.place, _of_its_day(details, at), at) for details, at in timed]
            if item.job is None:
                item.assertions = [_vouched(it, item.treatments) for it in said]
            else:
                item.assertions = waiting_for(item.job, said, item.treatments)

    async def journalled(self, taken: Sequence[Taken]) -> list[Taken]:
        """Append words or facts to the store, in one transaction. One with the four verbs only holds nothing unread."""
        if self._backend.four_verbs_only:
            for item in taken:
                item.unit = _unit_outside(item)
            return list(taken)
        twins, vectors = await self._distinct(taken)
        said = [(assertion, item.job) for item in taken for assertion in item.assertions]
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
        for item in taken:
            item.receipts = tuple(itertools.islice(rest, len(item.assertions)))
            item.states, item.changes = states, changes
            words = [
                word
                for receipt in item.receipts
                if (word := unread.pop(receipt.recorded.id, None)) is not None and word.assertion.job is not None
            ]
            item.unit = _unit(words, item.receipts, item.job)
        for again, first in twins.items():
            taken[again].twin = taken[first].receipts
        return list(taken)

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

    async def _distinct(self, taken: Sequence[Taken]) -> tuple[dict[int, int], list[Any] | None]:
        """Drop the assertions of plain texts that duplicate an earlier one of the batch; none if the embedder fails.

        Returns:
            The position of the first by that of each duplicate, and the vectors of the assertions that are left.
        """
        alone = [number for number, item in enumerate(taken) if item.compared and len(item.assertions) == 1]
        if len(alone) < 2:
            return {}, None
        vectors = iter(await self._writer.vectors([said for item in taken for said in item.assertions]))
        of_items = [list(itertools.islice(vectors, len(item.assertions))) for item in taken]
        candidates = [CandidateAssertion(taken[number].assertions[0], of_items[number][0]) for number in alone]
        twins: dict[int, int] = {}
        if all(candidate.vector is not None for candidate in candidates):
            found = await to_thread.run_sync(duplicates_in, candidates, self._context.policies.consolidation)
            twins = {alone[again]: alone[first] for again, first in found.items()}
        for at in twins:
            taken[at].assertions = ()
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

    async def _in_conversation(self, taken: Taken, heard: Conversation | None, order: Order) -> None:
        """Add to an item the parts that depend on other messages.

        Words that the assistant only repeats get a flag, which quarantines them. Short answers and corrections of the
        user get the words that they answer or correct.

        Args:
            taken: The item.
            heard: All of the conversation that is at hand, if that is more.
            order: Details of the call, with the treatment of messages.
        """
        conversation = heard or taken.conversation
        messages = {message.id or str(place): message for place, message in enumerate(conversation.messages)}
        before = [] if conversation.id is None else await self.words_of(StoredSession(id=conversation.id), order)
        earlier = [item for item in in_order(before) if item.assertion.details.evidence[0].message_id not in messages]
        policies = self._context.policies
        origins = order.origins or policies.origins
        listened = partial(heard_as, origins=origins, flagged=policies.flagged)
        talk = [*map(_heard_before, earlier), *map(listened, messages.values())]
        repeated = await off_loop(partial(repetitions, talk), sum(len(said.text) for said in talk))
        cited = [item.assertion.details.evidence[0] for item in earlier]
        ids = [*(words.message_id or "" for words in cited), *messages]
        speakers = [*(words.speaker for words in cited), *(message.name for message in messages.values())]
        doubted = {id for id, message in messages.items() if origins.treatment(message) is Treatment.IGNORE}
        doubted |= {ids[at] for at, said in enumerate(talk) if at in repeated or not said.trusted}
        turns = [
            Turn(said.origin, speaker, "" if id in doubted else said.text)
            for id, speaker, said in zip(ids, speakers, talk, strict=True)
        ]
        places, flags = {id: at for at, id in enumerate(ids)}, {ids[at]: REPEATS[of] for at, of in repeated.items()}
        taken.words = [
            it._replace(details=_flagged(_with_meaning(it.details, turns, places), flags)) for it in taken.words
        ]

    async def _left_unread(self, ids: Collection[str]) -> dict[str, Recorded]:
        """Return the words that nobody has read since an earlier submission, and nobody is reading now."""
        busy = self._backend.worker.busy  # check before and after: jobs that end meanwhile are not left
        reader = self._reader.everybody
        failed = [entry for entry in await reader.recorded_in((AssertionState.FAILED,)) if entry.id in ids]
        if failed:
            with contextlib.suppress(StateConflictError):  # another caller lets them be read again
                await self._pipeline.await_again(failed)
        waiting = await reader.recorded_in((AssertionState.PENDING,))
        busy |= self._backend.worker.busy
        return {entry.id: entry for entry in waiting if entry.id in ids and entry.id not in busy}

    async def _read_before(self, stored: Taken) -> Remembered:
        """Return the outcome of words that are kept as they are, or were read after an earlier submission."""
        if not stored.was_to_be_read:
            return stored.outcome()
        return await self._pipeline.present_outcome([receipt.recorded for receipt in stored.receipts])

    async def submit(self, stored: Sequence[Taken]) -> Submission:
        """Submit journalled words to the worker; read them now if nothing can wait."""
        ids = _ids_of(stored)
        submission = Submission(ids)
        submission.skip(sum(item.skipped for item in stored))
        if self._backend.four_verbs_only:
            for id, outcome in zip(ids, await self._read_now(stored), strict=True):
                submission.settle(id, outcome)
            return submission
        for id, item in zip(ids, stored, strict=True):
            submission.drop(DropReason.NOT_TEXT, item.conversation.not_text, id)
            if item.unit is None:
                submission.settle(id, await self._read_before(item) if item.was_to_be_read else item.outcome)
        self._backend.worker.submit(self._pipeline, [item.unit for item in stored if item.unit is not None], submission)
        return submission

    async def _ready(self, facts: Sequence[Any], order: Order) -> Taken:
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
        (stored,) = await self.journalled([Taken(assertions=waiting_for(job, said), job=job)])
        return stored

    async def _session(self, session: StoredSession, order: Order) -> Taken:
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
        return Taken(job=job, unit=unit)

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


def _ids_of(stored: Sequence[Taken]) -> list[str]:
    """Return an id of each item, by which it is found again: that of its job, or of its first words without one."""
    ids: dict[str, None] = {}
    for item in stored:
        first = next(iter(item.receipts or item.twin), None)
        if item.unit is not None:
            id = item.unit.job.id
        else:
            id = "" if first is None else job_id(first.recorded) or first.recorded.id
        ids[uuid.uuid4().hex if not id or id in ids else id] = None  # the same words twice have one id that is found
    return list(ids)


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


def _unit_outside(item: Taken) -> Unit | None:
    """Return words that no log holds as a unit to read."""
    if not item.assertions:
        return None
    return Unit(job=item.job or _AS_SAID, words=tuple(map(outside_log, item.assertions)), waiting=False)


def _heard_before(entry: Recorded) -> Heard:
    """Return stored words of a conversation. Those in quarantine are not believed."""
    said = entry.assertion
    trusted = said.details.believed and said.state is not AssertionState.QUARANTINED
    return Heard(said.details.evidence[0].quote, said.details.origin, trusted=trusted)


def _counts(receipt: Receipt) -> bool:
    return receipt.recorded.assertion.counts(receipt.recorded.assertion.state)


def _heard_in(recorded: Recorded) -> tuple[object, ...]:
    """Return the message that words were heard in."""
    return next(((*item.message, item.position) for item in recorded.assertion.details.evidence), ())


def _as_kept(recorded: Recorded, state: AssertionState) -> FactRecord[Any]:
    if state is AssertionState.QUARANTINED:
        return as_kept_apart(recorded, state, {})
    return record_of(recorded, state=state)


def _needs_others(details: FactDetails) -> bool:
    """Return whether a statement depends on what was said before: one of the assistant, and a short one of the user."""
    return details.origin is Origin.ASSISTANT or _may_mean_more(details)


def _may_mean_more(details: FactDetails) -> bool:
    """Return whether a statement is a message of the user that may need what was said before it to be understood."""
    words = details.evidence[0]
    return details.origin is Origin.USER and not words.start and words.medium is None and is_short(words.quote)


def _with_meaning(details: FactDetails, turns: Sequence[Turn], places: Mapping[str, int]) -> FactDetails:
    """Return the details of a statement with the words that it answers or corrects, if there are any before it.

    Args:
        details: The details.
        turns: The messages of its conversation.
        places: Their places by message id.
    """
    if not _may_mean_more(details):
        return details
    words, *others = details.evidence
    at = places[words.message_id or ""]
    return attrs.evolve(details, evidence=(meant(words, turns[max(at - BEFORE, 0) : at]), *others))


def _of_its_day(details: FactDetails, said_at: dt.datetime) -> FactDetails:
    """Return the details of a statement whose words keep their day if they name a time relative to it.

    A long text, which is hardly said twice, and a fact of several quotes are left as they are.
    """
    evidence = details.evidence
    if not (len(evidence) == 1 and len(evidence[0].quote) <= _OFTEN and moves_with_its_day(evidence[0].quote)):
        return details
    return changed(details, evidence=(changed(evidence[0], day=said_at.date().isoformat()),))


def _flagged(details: FactDetails, flags: Mapping[str, str]) -> FactDetails:
    """Return the details of a statement with the flag of its message, if that has one and is the assistant's."""
    flag = flags.get(details.evidence[0].message_id or "")
    if flag is None or details.origin is not Origin.ASSISTANT:
        return details
    return attrs.evolve(details, flags=(*details.flags, flag))


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
