"""Generating memories from a conversation, a stored session or facts that are ready: a long-running operation."""

from __future__ import annotations

import abc
import datetime as dt
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import attrs

from factmem.abc import MANAGED_TOPICS, Candidate, Conversation, Detection, DetectionRequest, Message
from factmem.detection import OriginPolicy
from factmem.errors import InvalidDataError, RecordNotFoundError
from factmem.facts import STATEMENT, Fact, MultipleFacts, SingleFact
from factmem.memory.errands import Errand, ErrandKind
from factmem.memory.handover import Handover
from factmem.memory.journal import Unit, in_order
from factmem.memory.observed import observed
from factmem.memory.remembering import About, Handed, MemoryRemembering, Order, settled
from factmem.memory.waist import waist_words
from factmem.recall import LogPart
from factmem.records import FactDetails, MetadataMerge, Recorded
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.values import Json

__all__ = ["MemoryGenerating", "StoredSession"]


@attrs.frozen(kw_only=True)
class StoredSession:
    """A conversation that is in the store already, or a part of it.

    Attributes:
        id: the conversation's id.
        since: only what was said at this time or later.
        until: only what was said before this time.
    """

    id: str
    since: dt.datetime | None = None
    until: dt.datetime | None = None


@observed()
class MemoryGenerating(MemoryRemembering, abc.ABC):
    """Takes in what is to be understood, with everything that a memory bank can be told about it."""

    async def generate(
        self,
        source: Conversation | Sequence[Message] | Sequence[Fact[Any]] | StoredSession,
        *,
        subject: MemorySubject = MemorySubject.EVERYTHING,
        scope: MemoryScope | str | None = None,
        looking_for: DetectionRequest | None = None,
        consolidate: bool = True,
        metadata: Mapping[str, Json] | None = None,
        merge: MetadataMerge = MetadataMerge.MERGE,
        labels: Mapping[str, str] | None = None,
        expires_at: dt.datetime | None = None,
        private: bool = False,
        origins: OriginPolicy | None = None,
    ) -> Handover:
        """Generate memories; to wait for them is up to the caller: ``await (await memory.generate(…)).wait()``.

        When this returns, the source is on disk. Any number of ready facts is taken. Every memory says what
        became of it: CREATED, UPDATED (with the previous revision) or DELETED.

        Args:
            source: messages, ready facts, or a session that is in the store.
            subject: whom they are about.
            scope: where they hold; see `Memory.save`.
            looking_for: what to look for in messages; by default memories about `MANAGED_TOPICS`.
            consolidate: whether to compare what is found with what is known; if not, all of it is created.
            metadata: of every memory that this creates or updates.
            merge: how that joins the metadata of a record that is updated. Google's pages contradict
                each other on the default (MERGE on one, OVERWRITE on another); merging loses nothing.
            labels: of every revision that this makes.
            expires_at: from when on they are forgotten; else as this memory's `TtlPolicy` says.
            private: keep them for this memory's viewer alone.
            origins: treatment of messages by their origin, other than this memory's.

        Raises:
            CapabilityError: the memory was not opened with ``async with``; or the provider has the four verbs only, and
                a stored session or a detail is asked for, which it cannot keep.
            InvalidDataError: the source is empty, or of a kind that cannot be read.
            RecordNotFoundError: the store holds no such session that the viewer may see.
            ReadOnlyError: this memory is read-only.
        """
        self._worker.check_running()
        wish = looking_for or DetectionRequest(subjects=(subject,), topics=MANAGED_TOPICS)
        about = About(
            subject=subject,
            scope=scope,
            metadata=metadata,
            expires_at=expires_at,
            private=private,
            looking_for=wish,
            consolidate=consolidate,
            origins=origins,
        )
        order = self._ordered(about)
        order = attrs.evolve(order, given=attrs.evolve(order.given, labels=labels or {}), merge=merge)
        match source:
            case StoredSession():
                return await self._submitted([await self._session(source, order)])
            case Conversation():
                return await self._handed_over([source], order)
            case [Message(), *_]:
                return await self._handed_over([_conversation(source)], order)
            case [SingleFact() | MultipleFacts(), *_] if self._has_waist_only:
                return await self._ready_through_the_waist(source, order)
            case [SingleFact() | MultipleFacts(), *_]:
                return await self._submitted([await self._ready(source, order)])
            case _:
                raise InvalidDataError(
                    "there is nothing to generate from: give a Conversation, messages, facts or a StoredSession"
                )

    async def _ready(self, facts: Sequence[Any], order: Order) -> Handed:
        candidates = self._candidates(facts)
        errand = Errand(
            id=uuid.uuid4().hex, kind=ErrandKind.CONSOLIDATE, consolidate=order.consolidate, merge=order.merge
        )
        (handed,) = await self._journalled([candidates], [errand], order, [[]])
        return handed

    async def _ready_through_the_waist(self, facts: Sequence[Any], order: Order) -> Handover:
        self._check_representable(self._lasting(order.given))
        found = Detection(candidates=self._candidates(facts))
        words = waist_words(Conversation(messages=()), found, order.place, None)
        return settled(await self._kept_through_the_waist([words]))

    def _candidates(self, facts: Sequence[Any]) -> list[Candidate]:
        for fact in facts:
            if not isinstance(fact, SingleFact | MultipleFacts):
                raise InvalidDataError(f"cannot generate from facts and a {type(fact).__name__} together")
        return [Candidate(fact=self._dated(fact), details=FactDetails()) for fact in facts]

    async def _session(self, session: StoredSession, order: Order) -> Handed:
        """Words that are in the store already, to be read again whatever became of them."""
        self._history()
        words = await self._words_of(session, order)
        if not words:
            raise RecordNotFoundError("the store holds no such session that the viewer may see at this place")
        errand = self._errand(Conversation(messages=()), order)
        return Handed(
            receipts=(),
            unit=Unit(errand=errand, words=in_order(words), waiting=False) if errand else None,
        )

    async def _words_of(self, session: StoredSession, order: Order) -> list[Recorded]:
        """What the viewer may see of the words of a conversation that lie where an order says."""
        return await self._visible_log(LogPart(conversations=[session.id]), lambda entry: _is_of(session, entry, order))


def _conversation(messages: Sequence[Any]) -> Conversation:
    for message in messages:
        if not isinstance(message, Message):
            raise InvalidDataError(f"cannot generate from messages and a {type(message).__name__} together")
    return Conversation(messages=messages)


def _is_of(session: StoredSession, entry: Recorded, order: Order) -> bool:
    said = entry.assertion
    evidence = said.details.evidence
    # What tells most entries apart comes first: every one that was ever recorded is looked at.
    return (
        bool(evidence)
        and evidence[0].conversation_id == session.id
        and said.keyword == STATEMENT.keyword
        and evidence[0].quote == said.data
        and said.details.owner == order.given.owner
        and said.place.key == order.place.key
        and (session.since is None or said.timestamp >= session.since)
        and (session.until is None or said.timestamp < session.until)
    )
