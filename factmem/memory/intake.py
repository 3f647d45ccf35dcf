"""Intake: words in any form become the assertions that keep them as they were said.

It does no I/O, and takes time: a batch is taken in by one call, in a worker thread.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import attrs

from factmem.abc import Candidate, Conversation, Detection, DropReason, Message
from factmem.conversations import conversations_of
from factmem.details import Treatment
from factmem.detection import OriginPolicy, VerbatimDetector
from factmem.errors import InvalidDataError
from factmem.facts import STATEMENT, Fact, MultipleFacts, SingleFact
from factmem.memory.journal import Job, detailed, words_to_keep
from factmem.records import Assertion, AssertionState, FactDetails, Origin, Place
from factmem.validators import instance_of

__all__ = ["Found", "Intake", "ReadyFact", "Taken", "Words", "conversation_from", "spoken"]

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

    def candidate(self, now: dt.datetime) -> Candidate:
        """Return it as a candidate for consolidation."""
        fact = STATEMENT.fact([self.fact], timestamp=now) if isinstance(self.fact, str) else self.fact
        return Candidate(fact=fact, details=FactDetails(topics=tuple(self.topics)))


@attrs.frozen(kw_only=True)
class Found:
    """One submitted item, and the statements in it.

    Those of the assistant are compared with the conversation before they are kept.

    Attributes:
        conversation: The item as a conversation.
        words: Its statements.
        treatments: Treatment of each message that is kept with it.
        job: Job that it waits for; None if no model reads it.
        is_text: Whether it is a plain text.
    """

    conversation: Conversation
    words: Detection
    treatments: Sequence[Treatment | None]
    job: Job | None
    is_text: bool

    @property
    def of_assistant(self) -> bool:
        """Whether there are statements of the assistant."""
        return any(candidate.details.origin is Origin.ASSISTANT for candidate in self.words.candidates)


@attrs.frozen(kw_only=True)
class Taken:
    """One submitted item, ready to be stored.

    Attributes:
        assertions: What keeps it until it is read, or for good.
        job: Job that it waits for; None if no model reads it.
        compared: Whether it is a plain text that is kept once only, if others of its batch say the same.
        dropped: Number of parts that are not kept, by reason.
        not_text: Number of images, audio and files that came with it.
    """

    assertions: Sequence[Assertion]
    job: Job | None
    compared: bool = False
    dropped: Mapping[DropReason, int] = attrs.field(factory=dict)
    not_text: int = 0


@attrs.frozen(kw_only=True)
class Intake:
    """The settings of one submission, for all of its items.

    Attributes:
        place: Place of the words.
        waiting: Details of the caller, for words that wait for a model.
        lasting: The same with their expiry, for words that are kept as they are.
        origins: Treatment of messages by their origin.
        keeps_treatments: Whether the treatments are stored with the words, because the call gave the policy.
        compares: Whether plain texts that say the same are kept once.
        dated: Returns a fact with a legal timestamp, or raises.
        verbatim: Finds the statements.
        now: The present.
    """

    place: Place
    waiting: FactDetails
    lasting: FactDetails
    origins: OriginPolicy
    keeps_treatments: bool
    compares: bool
    dated: Callable[[Fact[Any]], Fact[Any]]
    verbatim: VerbatimDetector
    now: dt.datetime

    def read(self, items: Iterable[tuple[Words, Job | None]]) -> list[Taken | Found]:
        """Return words of any form, each with the job that it waits for; as `Found` if the assistant says some."""
        found = (self._found(what, job) for what, job in items)
        return [item if item.of_assistant else self._taken(item) for item in found]

    def taken(self, found: Iterable[Found]) -> list[Taken]:
        """Return the assertions that keep statements."""
        return [self._taken(item) for item in found]

    def facts(self, candidates: Sequence[Candidate], job: Job) -> Taken:
        """Take in facts that are ready, to be compared with known records."""
        given = [attrs.evolve(item, details=detailed(self.waiting, item.details)) for item in candidates]
        return Taken(assertions=words_to_keep(given, self.place, job), job=job)

    def _found(self, what: Words, job: Job | None) -> Found:
        conversation = conversation_from(what, self.now)
        treatments: Sequence[Treatment | None] = ()
        kept = conversation
        if not isinstance(what, str):  # a text is a memory itself, whatever the policy
            kept, treatments = self._kept(conversation, reads=job is not None)
        words = self.verbatim.read(kept, self.lasting if job is None else self.waiting)
        return Found(
            conversation=conversation, words=words, treatments=treatments, job=job, is_text=isinstance(what, str)
        )

    def _taken(self, found: Found) -> Taken:
        in_time = (self._in_time(candidate) for candidate in found.words.candidates)
        assertions = words_to_keep(in_time, self.place, found.job, found.treatments)
        return Taken(
            assertions=assertions if found.job else [_vouched(said, found.treatments) for said in assertions],
            job=found.job,
            compared=self.compares and found.job is None and found.is_text,
            dropped=found.words.dropped,
            not_text=found.conversation.not_text,
        )

    def _in_time(self, candidate: Candidate) -> Candidate:
        fact = self.dated(candidate.fact)
        return candidate if fact is candidate.fact else attrs.evolve(candidate, fact=fact)

    def _kept(self, conversation: Conversation, *, reads: bool) -> tuple[Conversation, list[Treatment | None]]:
        """Return a conversation in the form to keep, and the treatment of each message that is kept with it.

        Without a reader, messages of CONTEXT are dropped if the message itself says so; by its origin they are kept.
        """
        dropped = (Treatment.IGNORE,) if reads else (Treatment.IGNORE, Treatment.CONTEXT)
        messages: list[Message] = []
        treatments: list[Treatment | None] = []
        for message in conversation.messages:
            treatment = (
                self.origins.treatment(message)
                if reads
                else message.treatment or _without_model(self.origins.of(message.origin))
            )
            ignored = Treatment.IGNORE if treatment in dropped else None
            messages.append(message if message.treatment is ignored else attrs.evolve(message, treatment=ignored))
            said = self.keeps_treatments or treatment is Treatment.CONTEXT
            treatments.append(treatment if said else message.treatment)
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
                f"cannot remember a {type(what).__name__}: give a text, a Message, a Conversation, or message dicts"
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
            raise InvalidDataError(f"cannot generate from messages and a {type(message).__name__} together")
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
