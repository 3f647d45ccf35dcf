"""The contract of detectors: what turns messages into candidate facts, asked for by a request."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, runtime_checkable

import attrs

from factmem.details import FactDetails, Origin, Treatment
from factmem.errors import InvalidDataError
from factmem.facts import Concept, Fact, utc
from factmem.names import checked_name
from factmem.subjects import MemorySubject
from factmem.validators import count, instance_of

__all__ = [
    "EXPLICIT_INSTRUCTIONS",
    "KEY_CONVERSATION_DETAILS",
    "MANAGED_TOPICS",
    "MEMORY_ROLE",
    "PERSONAL_INFORMATION",
    "PREFERENCES",
    "Candidate",
    "Conversation",
    "Detection",
    "DetectionExample",
    "DetectionRequest",
    "Detector",
    "DropReason",
    "Message",
    "Topic",
]

MEMORY_ROLE: Final = "memory"
"""The role of text that factmem itself put into a prompt.

It is a typed marker, not a magic sentence: whoever turns a host's messages into a `Conversation` gives
this role to what a recall put in, and no detector takes it for something that was said.
"""

_INSTRUCTIONS: Final = frozenset({"system", "developer"})


def _said_at(moment: dt.datetime | None) -> dt.datetime | None:
    return None if moment is None else utc(moment)


def _storable(text: object) -> str:
    """Return a text with its lone surrogates, which no store can carry, replaced one by one."""
    if not isinstance(text, str):
        raise InvalidDataError(f"a message's texts must be strings, not {type(text).__name__}")
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join("\ufffd" if 0xD800 <= ord(char) <= 0xDFFF else char for char in text)
    return text


def _storable_or_none(text: object) -> str | None:
    return None if text is None else _storable(text)


@attrs.frozen(kw_only=True)
class Message:
    """One message of a conversation. Lone surrogates in its texts become U+FFFD.

    Attributes:
        content: the text.
        role: ``user``, ``assistant``, ``tool``, ``document``, ``system``, …, or `MEMORY_ROLE`.
        name: the speaker's name, if known.
        id: unique in its conversation.
        timestamp: when it was said, in UTC, if known.
        treatment: use that is made of it; None leaves that to its origin (see `factmem.detection.OriginPolicy`).
            Without a model, a message of CONTEXT is not kept.
        not_text: Number of parts without text that came with it: images, audio, files. They are not kept, and are
            counted as `DropReason.NOT_TEXT`.

    Raises:
        InvalidDataError: a text is no string, the time has no zone, the treatment is none, or ``not_text`` is no
            number from 0.
    """

    content: str = attrs.field(repr=False, converter=_storable)
    role: str = attrs.field(default="user", converter=_storable)
    name: str | None = attrs.field(default=None, converter=_storable_or_none)
    id: str | None = attrs.field(default=None, converter=_storable_or_none)
    timestamp: dt.datetime | None = attrs.field(default=None, converter=_said_at)
    treatment: Treatment | None = attrs.field(default=None, validator=instance_of(Treatment, type(None)))
    not_text: int = attrs.field(default=0, kw_only=True, validator=count)

    @property
    def origin(self) -> Origin:
        """The origin of the words; `Origin.UNKNOWN` for any role that is not a known one."""
        match self.role:
            case "user" | "human":
                return Origin.USER
            case "assistant" | "ai" | "model":
                return Origin.ASSISTANT
            case "tool" | "function":
                return Origin.TOOL
            case "document":
                return Origin.DOCUMENT
            case _:
                return Origin.UNKNOWN

    @property
    def detectable(self) -> bool:
        """Whether a detector may take facts from it: not from instructions, nor from what memory put in."""
        return self.role not in _INSTRUCTIONS and self.role != MEMORY_ROLE


def _messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    return tuple(messages)


@attrs.frozen(kw_only=True)
class Conversation:
    """Messages in the order they were said.

    Attributes:
        messages: the messages.
        id: the conversation's (session's) id; the same id is the same conversation.
        started_at: when it began, in UTC; stands in for messages without a time.
    """

    messages: tuple[Message, ...] = attrs.field(converter=_messages)
    id: str | None = attrs.field(default=None, converter=_storable_or_none)
    started_at: dt.datetime | None = attrs.field(default=None, converter=_said_at)

    @property
    def not_text(self) -> int:
        """Number of parts without text in the messages that a detector may take facts from."""
        return sum(message.not_text for message in self.messages if message.detectable)


def _label(instance: object, attribute: attrs.Attribute[str], value: str) -> None:
    checked_name(value, what="a topic's label")


@attrs.frozen
class Topic:
    """A topic of memories.

    Attributes:
        label: its name, unique in a request; it becomes the topic of the facts found.
        description: what belongs to it, for the model.

    Raises:
        InvalidNameError: the label is no legal name.
    """

    label: str = attrs.field(validator=_label)
    description: str = ""


PERSONAL_INFORMATION: Final = Topic(
    "personal information", "who the user is: name, family, home, work, health, birthdays, relationships"
)
PREFERENCES: Final = Topic("preferences", "what the user likes, dislikes, prefers, and how they want things done")
KEY_CONVERSATION_DETAILS: Final = Topic(
    "key conversation details", "decisions, plans, results, milestones and dates that later conversations build on"
)
EXPLICIT_INSTRUCTIONS: Final = Topic(
    "explicit instructions",
    "requests of the user to remember or to forget something, and wishes for every later conversation"
    " (always, never, from now on, when I ask about ...)",
)
MANAGED_TOPICS: Final = (PERSONAL_INFORMATION, PREFERENCES, KEY_CONVERSATION_DETAILS, EXPLICIT_INSTRUCTIONS)
"""The topics that need no description of one's own."""


@attrs.frozen(kw_only=True)
class DetectionExample:
    """A conversation with the memories that it gives; with none it is a negative example.

    Attributes:
        conversation: what was said.
        memories: the sentences to be found, each with the labels of its topics.
    """

    conversation: Conversation
    memories: tuple[tuple[str, tuple[str, ...]], ...] = ()


def _tuple(items: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(items)


def _checked(name: str, items: Iterable[Any], typ: type[Any]) -> tuple[Any, ...]:
    found = tuple(items)
    for number, item in enumerate(found):
        if not isinstance(item, typ):
            kind = f"the class {item.__name__}" if isinstance(item, type) else f"a {type(item).__name__}"
            raise InvalidDataError(f"{name} takes {typ.__name__}, not {kind}", path=f"$.{name}[{number}]")
    return found


def _subjects(subjects: Iterable[MemorySubject]) -> tuple[MemorySubject, ...]:
    return _checked("subjects", subjects, MemorySubject)


def _concepts(concepts: Iterable[Concept[Any, Any]]) -> tuple[Concept[Any, Any], ...]:
    return _checked("concepts", concepts, Concept)


def _topics(topics: Iterable[Topic]) -> tuple[Topic, ...]:
    return _checked("topics", topics, Topic)


@attrs.frozen(kw_only=True)
class DetectionRequest:
    """A request to detect facts. Without topics or concepts, a detector chooses by itself.

    It comes with the call that it is for. (Google's Memory Bank keeps such things beside the bank and picks
    them by the ``scope_keys`` of a memory; its guide wants these to be exactly the scope's keys, its SDK
    wants them among the scope's. Here nothing is picked behind the caller's back, so neither is needed.)

    Attributes:
        subjects: whom the facts may be about; the first one if nothing else is clear.
        concepts: look for facts of these concepts.
        open: look for other facts about the subjects as well.
        in_use: concepts in use at the place, the likeliest first; an open search takes them up, with their types,
            instead of new keywords.
        topics: look for memories, as sentences, about these topics.
        examples: few-shot examples for the topics.

    Raises:
        InvalidDataError: there is no subject, two concepts or topics have one name, or one is of another type.
    """

    subjects: tuple[MemorySubject, ...] = attrs.field(default=(MemorySubject.EVERYTHING,), converter=_subjects)
    concepts: tuple[Concept[Any, Any], ...] = attrs.field(default=(), converter=_concepts)
    open: bool = False
    in_use: tuple[Concept[Any, Any], ...] = attrs.field(default=(), converter=_tuple)
    topics: tuple[Topic, ...] = attrs.field(default=(), converter=_topics)
    examples: tuple[DetectionExample, ...] = attrs.field(default=(), converter=_tuple)

    def __attrs_post_init__(self) -> None:
        if not self.subjects:
            raise InvalidDataError("say whom the facts may be about", path="$.subjects")
        for what, names in (
            ("concepts", [concept.keyword for concept in self.concepts]),
            ("topics", [topic.label for topic in self.topics]),
        ):
            if len(set(names)) < len(names):
                raise InvalidDataError(f"two {what} of a request have the same name", path=f"$.{what}")

    @property
    def searches_openly(self) -> bool:
        """Whether facts of any concept are looked for: if that is asked for, or nothing else is."""
        return self.open or not (self.concepts or self.topics)


class DropReason(enum.Enum):
    """Why a candidate was dropped, or words that could have been one."""

    QUOTE_NOT_FOUND = "its quote stands in no message"
    NOT_THE_USERS_WORDS = "its quote is not what the user said"
    INVALID_VALUE = "its value is not of the concept's type, or blank"
    MALFORMED = "it is not of the form that was asked for"
    UNKNOWN_SUBJECT = "its subject was not asked for"
    UNKNOWN_CONCEPT = "its concept was not asked for, or its keyword is not legal"
    UNKNOWN_TOPIC = "its topic was not asked for"
    ONLY_SECRETS = "its words are nothing but secrets, which are not kept"
    DUPLICATE = "it says what another text of the same batch says"
    NOT_TEXT = "images, audio or files, which are not kept"
    REPEATED_EXAMPLE = "it is what a worked example says, not what its quote says"


@attrs.frozen(kw_only=True)
class Candidate:
    """A fact that a detector found and nothing has been done with yet.

    Attributes:
        fact: the fact.
        details: its evidence, origin, importance and so on.
        subject: whom it is about; None for whom the caller asked about.
        removed: it says that the values are no more. Of a statement: what is asked to be forgotten, in words.
        cleared: of a removed statement: the concept of which every value is asked to be forgotten, if it is one.
        quarantined: whether it is not to be believed until it is let in; what is of an untrusted origin is not,
            unless whoever set the detector up says otherwise.
    """

    fact: Fact[Any]
    details: FactDetails
    subject: MemorySubject | None = None
    removed: bool = False
    cleared: Concept[Any, Any] | None = None
    quarantined: bool = attrs.field(
        default=attrs.Factory(lambda candidate: not candidate.details.origin.trusted, takes_self=True)
    )


@attrs.frozen(kw_only=True)
class Detection:
    """The facts that a detector found.

    Attributes:
        candidates: the facts, in the order of the conversation.
        dropped: how many more there would have been, by why they were dropped.
    """

    candidates: tuple[Candidate, ...] = attrs.field(default=(), converter=_tuple)
    dropped: Mapping[DropReason, int] = attrs.field(factory=dict)


@runtime_checkable
class Detector(Protocol):
    """Finds facts in conversations."""

    async def detect(self, conversation: Conversation, request: DetectionRequest) -> Detection:
        """Return the facts found, each with evidence whose quote stands in a message; none is a normal answer.

        The quote stands in the message's text after redaction, which its offsets count in. Messages that
        are not `Message.detectable` give none. Messages without any time at all take the caller's clock.
        A fact's timestamp is when its words were said; a value that was said several times is there several times.

        Raises:
            ModelError: a model was asked and failed; nothing is returned of what was found besides.
        """
        ...
