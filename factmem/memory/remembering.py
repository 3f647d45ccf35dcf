"""Remembering: what is said is kept at once, and read by a model where there is one."""

from __future__ import annotations

import abc
import contextlib
import datetime as dt
import itertools
import logging
import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypedDict, Unpack

import attrs
from anyio import to_thread

from factmem.abc import Candidate, Conversation, Detection, DetectionRequest, DropReason, Message, Receipt
from factmem.consolidation import Newcomer, duplicates_in
from factmem.details import Treatment
from factmem.detection import OriginPolicy, VerbatimDetector
from factmem.errors import CapabilityError, InvalidDataError, StateConflictError
from factmem.memory.errands import Errand, ErrandKind
from factmem.memory.handover import Handover
from factmem.memory.journal import Unit, errand_id, handed_over
from factmem.memory.observed import observed
from factmem.memory.outcomes import Remembered
from factmem.memory.waist import MemoryWaist, waist_words
from factmem.memory.waiting import to_pending
from factmem.records import (
    Assertion,
    AssertionState,
    Change,
    ChangeKind,
    FactDetails,
    FactRecord,
    MetadataMerge,
    Place,
    Recorded,
    record_of,
)
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.values import Json

__all__ = ["About", "Handed", "MemoryRemembering", "Order", "settled", "warn_of_not_text"]

_log = logging.getLogger("factmem")

_EVERYTHING: Final = MemorySubject.EVERYTHING


class About(TypedDict, total=False):
    """What a caller may say about what is to be remembered.

    Attributes:
        subject: whom it is about; everything, if nobody is named.
        scope: where it holds; left out, an analyst is asked where a text belongs, and what nobody places
            lies in `MemoryScope.CROSS_PRODUCT`.
        importance: from 0 to 1; 0.5 if nobody says.
        categories: labels.
        source: where it came from.
        metadata: anything else, as JSON.
        expires_at: from when on it is forgotten.
        private: keep it for this memory's viewer alone.
        looking_for: what to look for in a conversation; by default all facts about the subject, those of the
            declared concepts first.
        consolidate: whether to compare what is found with what is known; it is, if nothing is said.
        origins: treatment of messages by their origin, other than this memory's.
    """

    subject: MemorySubject
    scope: MemoryScope | str | None
    importance: float | None
    categories: Sequence[str] | None
    source: str | None
    metadata: Mapping[str, Json] | None
    expires_at: dt.datetime | None
    private: bool
    looking_for: DetectionRequest | None
    consolidate: bool
    origins: OriginPolicy | None


@attrs.frozen(kw_only=True)
class Order:
    """What the caller said about everything that is handed over in one call."""

    place: Place
    given: FactDetails
    looking_for: DetectionRequest
    infer: tuple[str, ...] = ()
    consolidate: bool = True
    merge: MetadataMerge = MetadataMerge.MERGE
    origins: OriginPolicy | None = None


@attrs.frozen(kw_only=True)
class Handed:
    """What one conversation put into the store, and what of it is still to be read."""

    receipts: tuple[Receipt, ...]
    unit: Unit | None
    dropped: Mapping[DropReason, int] = attrs.field(factory=dict)
    not_text: int = 0
    twin: tuple[Receipt, ...] = ()


@observed()
class MemoryRemembering(MemoryWaist, abc.ABC):
    """Takes in what is said."""

    async def remember(
        self,
        what: str | Message | Conversation,
        **about: Unpack[About],
    ) -> Remembered:
        """Keep what was said, secrets redacted.

        A text is a memory itself. Without a model it is kept word for word; with one, what the caller
        leaves out of scope, categories and importance is found out, and similar memories are updated or
        retracted. A message or a conversation is searched for facts by the detector; without a model it
        is kept word for word. Words of a tool, a document or an unknown origin are quarantined.

        Words without a letter, a digit or an emoji are nothing to remember, and words that are nothing but secrets
        are not kept: nothing comes of either, and of the secrets `Remembered.dropped` tells. Images, audio and files
        in messages are not kept either; they are counted there too, and a log line warns of them.

        What is handed in twice is there once. When this returns it is on disk; if the model failed, then
        as it was said, and `Remembered.failure` says so. If this is cancelled meanwhile, the words may be kept
        already; they are read when they are handed in again, or by whoever opens the store next.

        Args:
            what: a text (said by the user, now), a message or a whole conversation.
            about: whom it is about, where it holds and so on; see `About`.

        A provider with the four verbs only keeps typed facts and statements by `AgentMemoryProvider.save`. What it
        cannot keep is counted in `Remembered.unrepresented`.

        Raises:
            CapabilityError: the provider has the four verbs only, and an owner, a source, metadata or another detail
                is given, which it cannot keep.
            InvalidDataError: there is nothing to remember, or it was said in the future.
            ReadOnlyError: this memory is read-only.
            TypeError: something is said that `About` does not know.
        """
        order = self._ordered(about)
        if self._has_waist_only:
            (outcome,) = await self._through_the_waist([what], order)
            return outcome
        (handed,) = await self._hand_over([what], order)
        outcome = await (self._outcome(handed) if handed.unit is None else self._read_now(handed.unit))
        return outcome.without(DropReason.NOT_TEXT, handed.not_text)

    async def remember_many(
        self,
        what: Iterable[str | Message | Conversation],
        **about: Unpack[About],
    ) -> Handover:
        """Hand over many texts, messages or conversations; see `remember` for what becomes of each.

        When this returns, all of it is on disk, in one transaction, and can be loaded and recalled as it was said;
        it is read in the background. Whatever is not read when the process ends, the next one reads that
        opens the store with a model. A provider with the four verbs only has nowhere to keep words that wait: there
        everything is read before this returns.

        Texts of one call that say the same are kept once: those of which the embeddings are at least as close as
        `ConsolidationPolicy.duplicate`. `Remembered.dropped` counts the others. Messages and conversations are evidence
        of who said what and when, and all of them stay; so do all texts with ``consolidate=False``, or while the
        embedder is away.

        Args:
            what: texts, messages or conversations.
            about: whom they are about, where they hold and so on; see `About`.

        Raises:
            CapabilityError: the memory was not opened with ``async with``, or a detail is given that the provider
                cannot keep; see `remember`.
            InvalidDataError: it is no list, or one of them says nothing or was said in the future; nothing was kept.
            ReadOnlyError: this memory is read-only.
            TypeError: something is said that `About` does not know.
        """
        self._worker.check_running()
        order = self._ordered(about)
        if isinstance(what, str) or not isinstance(what, Iterable):
            raise InvalidDataError("remember_many takes a list: give [what], or use remember")
        return await self._handed_over(list(what), order)

    async def extract(self, text: str) -> tuple[str, ...]:
        """Return the atomic statements that a text makes, each understandable by itself. Nothing is stored.

        A text that says nothing costs no call of a model.

        Raises:
            CapabilityError: this memory has no analyst to ask.
            ModelError: the model failed.
        """
        if not text.strip():
            return ()
        if self._writing.analyst is None:
            raise CapabilityError("to take a text apart needs a model: open the memory with model= or analyst=")
        return tuple(await self._writing.analyst.extract(text))

    @property
    def _reads_words(self) -> bool:
        """Whether there is anyone to read what an earlier process left, and leave to write what is found."""
        writing = self._writing
        anyone = writing.analyst or writing.consolidator or not isinstance(writing.detector, VerbatimDetector)
        return bool(anyone) and not writing.read_only

    def _ordered(self, about: About) -> Order:
        self._check_writable()
        if unknown := about.keys() - About.__annotations__.keys():
            raise TypeError(f"nothing is known as {', '.join(sorted(unknown))}: say {', '.join(About.__annotations__)}")
        importance, scope, subject = about.get("importance"), about.get("scope"), about.get("subject", _EVERYTHING)
        given = FactDetails(
            importance=0.5 if importance is None else importance,
            categories=about.get("categories") or (),
            source=about.get("source"),
            metadata=about.get("metadata") or {},
            expires_at=about.get("expires_at"),
        )
        return Order(
            place=Place(subject, self._scope(scope)),
            given=self._owned_details(given, private=about.get("private", False)),
            looking_for=self._looking_for(about.get("looking_for"), subject),
            infer=tuple(name for name in ("scope", "categories", "importance") if about.get(name) is None),
            consolidate=about.get("consolidate", True),
            origins=about.get("origins"),
        )

    def _looking_for(self, request: DetectionRequest | None, subject: MemorySubject) -> DetectionRequest:
        if request is None:
            return DetectionRequest(subjects=(subject,), concepts=self._reading.concepts.values(), open=True)
        if not isinstance(request, DetectionRequest):
            raise InvalidDataError(
                f"looking_for is a DetectionRequest(concepts=[…]), not a {type(request).__name__}", path="$.looking_for"
            )
        if request.subjects == (_EVERYTHING,):
            return attrs.evolve(request, subjects=(subject,))
        return request

    async def _handed_over(self, what: Sequence[str | Message | Conversation], order: Order) -> Handover:
        """Hand words over to be read in the background; where nothing can wait, read them now."""
        if self._has_waist_only:
            return settled(await self._through_the_waist(what, order))
        return await self._submitted(await self._hand_over(what, order))

    async def _through_the_waist(self, what: Sequence[str | Message | Conversation], order: Order) -> list[Remembered]:
        self._check_representable(self._lasting(order.given))
        now = self._reading.clock()
        words, not_text = [], []
        for item in what:
            conversation = _conversation(item, now)
            not_text.append(conversation.not_text)
            found = await self._words(conversation)
            self._in_time(found.candidates)
            words.append(waist_words(conversation, found, order.place, self._errand(item, order)))
        warn_of_not_text(sum(not_text))
        outcomes = await self._kept_through_the_waist(words)
        return [
            outcome.without(DropReason.NOT_TEXT, number) for outcome, number in zip(outcomes, not_text, strict=True)
        ]

    async def _hand_over(self, what: Sequence[str | Message | Conversation], order: Order) -> list[Handed]:
        """Put words into the store, in one transaction."""
        now = self._reading.clock()
        errands = [self._errand(item, order) for item in what]
        said = [_conversation(item, now) for item in what]
        words = [
            self._as_kept(item, conversation, errand, order)
            for item, conversation, errand in zip(what, said, errands, strict=True)
        ]
        found = [await self._words(conversation) for conversation, _ in words]
        texts = [number for number, item in enumerate(what) if isinstance(item, str) and errands[number] is None]
        handed = await self._journalled(
            [self._in_time(each.candidates) for each in found],
            errands,
            order,
            [treatments for _, treatments in words],
            texts=texts if order.consolidate else (),
        )
        warn_of_not_text(sum(conversation.not_text for conversation in said))
        return [
            attrs.evolve(item, dropped={**each.dropped, **item.dropped}, not_text=conversation.not_text)
            for item, each, conversation in zip(handed, found, said, strict=True)
        ]

    async def _journalled(
        self,
        found: Sequence[Sequence[Candidate]],
        errands: Sequence[Errand | None],
        order: Order,
        treatments: Sequence[Sequence[Treatment | None]],
        *,
        texts: Sequence[int] = (),
    ) -> list[Handed]:
        """Put what was found into the store, in one transaction.

        Args:
            found: The candidates of each thing that was handed over.
            errands: The errand of each.
            order: The details that the caller gave.
            treatments: The treatment of each message of each.
            texts: Positions of the plain texts that no model reads: those that say the same are kept once.
        """
        given = [order.given if errand else self._lasting(order.given, None) for errand in errands]
        assertions = [
            handed_over(each, order.place, details, errand, treated)
            for each, details, errand, treated in zip(found, given, errands, treatments, strict=True)
        ]
        assertions, twins, vectors = await self._distinct(assertions, texts)
        receipts = await self._receipts([said for each in assertions for said in each], vectors=vectors)
        unread = {receipt.recorded.id: receipt.recorded for receipt in receipts if receipt.new}
        if len(unread) < len(receipts):
            unread |= await self._left_unread({receipt.recorded.id for receipt in receipts})
        handed, at = [], 0
        for said, errand in zip(assertions, errands, strict=True):
            mine = tuple(receipts[at : at + len(said)])
            at += len(said)
            words = [
                word
                for receipt in mine
                if (word := unread.pop(receipt.recorded.id, None)) is not None and word.assertion.errand is not None
            ]
            handed.append(Handed(receipts=mine, unit=_unit(words, mine, errand)))
        for again, first in twins.items():
            handed[again] = Handed(
                receipts=(), unit=None, dropped={DropReason.DUPLICATE: 1}, twin=handed[first].receipts
            )
        return handed

    async def _distinct(
        self, assertions: Sequence[list[Assertion]], texts: Sequence[int]
    ) -> tuple[list[list[Assertion]], dict[int, int], list[Any] | None]:
        """Leave out texts that say what an earlier one of the batch says; without the embedder, none.

        Returns:
            What is left of each, the position of the first by that of each that was left out, and the vectors.
        """
        kept = list(assertions)
        alone = [number for number in texts if len(kept[number]) == 1]
        if len(alone) < 2:
            return kept, {}, None
        vectors = await self._vectors([said for each in kept for said in each])
        starts = list(itertools.accumulate((len(each) for each in kept), initial=0))
        newcomers = [Newcomer(assertion=kept[number][0], vector=vectors[starts[number]]) for number in alone]
        if any(newcomer.vector is None for newcomer in newcomers):
            return kept, {}, list(vectors)
        found = await to_thread.run_sync(duplicates_in, newcomers, self._writing.consolidation)
        twins = {alone[again]: alone[first] for again, first in found.items()}
        for number in twins:
            kept[number] = []
        left = [vectors[starts[number] + place] for number, each in enumerate(kept) for place in range(len(each))]
        return kept, twins, left

    def _errand(self, what: object, order: Order) -> Errand | None:
        """What is to be done with words; nothing, where no model has anything to say to them."""
        writing = self._writing
        infer = order.infer if writing.analyst is not None else ()
        consolidate = order.consolidate and writing.consolidator is not None
        kind = ErrandKind.KEEP if isinstance(what, str) else ErrandKind.DETECT
        if kind is ErrandKind.KEEP and not infer and not consolidate:
            return None
        if kind is ErrandKind.DETECT and isinstance(writing.detector, VerbatimDetector):
            return None
        request = order.looking_for if kind is ErrandKind.DETECT else DetectionRequest()
        return Errand(
            id=uuid.uuid4().hex,
            kind=kind,
            consolidate=consolidate,
            infer=infer if kind is ErrandKind.KEEP else (),
            request=request,
            merge=order.merge,
        )

    def _as_kept(
        self, what: object, conversation: Conversation, errand: Errand | None, order: Order
    ) -> tuple[Conversation, list[Treatment | None]]:
        """Return a conversation as it is kept for now, and the treatment of each message that is kept with it.

        Without anyone to read it, words that are to be shown only are dropped if the message itself says so; by its
        origin they are kept. A text is a memory itself, whatever the policy.
        """
        if isinstance(what, str):
            return conversation, []
        origins, reads = order.origins or self._writing.origins, errand is not None
        dropped = (Treatment.IGNORE,) if reads else (Treatment.IGNORE, Treatment.CONTEXT)
        messages, treatments = [], []
        for message in conversation.messages:
            treatment = origins.treatment(message) if reads else message.treatment or _kept(origins.of(message.origin))
            ignored = Treatment.IGNORE if treatment in dropped else None
            messages.append(attrs.evolve(message, treatment=ignored))
            said = order.origins is not None or treatment is Treatment.CONTEXT
            treatments.append(treatment if said else message.treatment)
        return attrs.evolve(conversation, messages=messages), treatments

    async def _words(self, conversation: Conversation) -> Detection:
        detector = self._writing.detector
        verbatim = detector if isinstance(detector, VerbatimDetector) else VerbatimDetector(clock=self._reading.clock)
        return await verbatim.detect(conversation, DetectionRequest())

    def _in_time(self, found: Sequence[Candidate]) -> list[Candidate]:
        return [attrs.evolve(candidate, fact=self._dated(candidate.fact)) for candidate in found]

    async def _left_unread(self, ids: Collection[str]) -> dict[str, Recorded]:
        """Return which words nobody has read since they were handed over before, and nobody is reading now."""
        busy = self._worker.busy  # looked at before and after: what ends meanwhile is not left
        failed = [entry for entry in await self._entries_in((AssertionState.FAILED,)) if entry.id in ids]
        if failed:
            with contextlib.suppress(StateConflictError):  # somebody else lets them be read again
                await self._commit([to_pending(recorded) for recorded in failed])
        waiting = await self._entries_in((AssertionState.PENDING,))
        busy |= self._worker.busy
        return {entry.id: entry for entry in waiting if entry.id in ids and entry.id not in busy}

    async def _outcome(self, handed: Handed) -> Remembered:
        """What became of words that need no reading: kept as they are, or read before."""
        if any(receipt.recorded.assertion.errand is not None for receipt in handed.receipts):
            return await self._standing([receipt.recorded for receipt in handed.receipts])
        records: dict[str, FactRecord[Any]] = {
            receipt.recorded.id: record_of(receipt.recorded, state=receipt.recorded.assertion.state)
            for receipt in (*handed.receipts, *handed.twin)
        }
        created = (
            Change(kind=ChangeKind.CREATED, record=records[receipt.recorded.id])
            for receipt in handed.receipts
            if receipt.new and receipt.recorded.assertion.counts(receipt.recorded.assertion.state)
        )
        dropped = handed.dropped if handed.twin or not records else {}
        return Remembered(records=tuple(records.values()), changes=tuple(created), dropped=dropped)

    async def _submitted(self, handed: Sequence[Handed]) -> Handover:
        ids = [item.unit.errand.id if item.unit else uuid.uuid4().hex for item in handed]
        handover = Handover(ids)
        for id, item in zip(ids, handed, strict=True):
            handover.drop(DropReason.NOT_TEXT, item.not_text, id)
            if item.unit is None:
                handover.settle(id, await self._outcome(item))
        self._worker.submit(self._unit_reader, [item.unit for item in handed if item.unit is not None], handover)
        return handover


def warn_of_not_text(number: int) -> None:
    """Log that messages came with images, audio or files, if any did."""
    if number:
        _log.warning("images, audio and files in messages are not kept; `dropped` counts them under NOT_TEXT")


def settled(outcomes: Sequence[Remembered]) -> Handover:
    """Return a hand-over of which everything was read already."""
    handover = Handover([uuid.uuid4().hex for _ in outcomes])
    for id, outcome in zip(handover.ids, outcomes, strict=True):
        handover.settle(id, outcome)
    return handover


def _kept(treatment: Treatment) -> Treatment:
    """Return what becomes of words of an origin without a model."""
    return treatment if treatment is Treatment.IGNORE else Treatment.STATEMENTS


def _unit(words: Sequence[Recorded], receipts: Sequence[Receipt], errand: Errand | None) -> Unit | None:
    """What is to be read of what was handed over; what was handed over before goes by the name it has there."""
    if errand is None or not words:
        return None
    if not any(receipt.new for receipt in receipts):
        errand = attrs.evolve(errand, id=errand_id(words[-1]) or errand.id)
    return Unit(errand=errand, words=tuple(words))


def _conversation(what: str | Message | Conversation, now: dt.datetime) -> Conversation:
    match what:
        case Conversation():
            return what
        case Message():
            return Conversation(messages=(what,), started_at=what.timestamp or now)
        case str():
            if not what.strip():
                raise InvalidDataError("there is nothing to remember in a blank text")
            return Conversation(messages=(Message(content=what, timestamp=now),), started_at=now)
        case _:
            raise InvalidDataError(f"cannot remember a {type(what).__name__}: give a text, a Message or a Conversation")
