"""Contract of detectors: conversations in, candidate facts out."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol, runtime_checkable

import attrs

from factmem.abc.topics import Topic
from factmem.details import FactDetails, MediumPart, Origin, Treatment
from factmem.errors import InvalidDataError
from factmem.facts import Concept, Fact, MultipleFacts, SingleFact, check_distinct, utc
from factmem.media import Medium
from factmem.subjects import MemorySubject
from factmem.validators import count, instance_of, listed, mended, one_or_more

MEMORY_ROLE: Final = "memory"
"""Role of text that factmem itself put into a prompt.

The role is a typed marker, not a magic sentence: code that converts a host's messages to a `Conversation` gives this
role to recalled text, and no detector takes facts from such text.
"""

_INSTRUCTIONS: Final = frozenset({"system", "developer"})


def _storable(text: object) -> str:
    if not isinstance(text, str):
        raise InvalidDataError(f"a message's texts must be strings, not {type(text).__name__}")
    return mended(text)


def _media(media: Iterable[Medium]) -> tuple[Medium, ...]:
    return listed("media", media, Medium)


@attrs.frozen(kw_only=True)
class Message:
    """One message of a conversation. Lone surrogates in its texts become U+FFFD.

    Attributes:
        content: Text of the message.
        role: ``user``, ``assistant``, ``tool``, ``document``, ``system``, …, or `MEMORY_ROLE`.
        name: Name of the speaker, if known.
        id: Id, unique in its conversation.
        timestamp: Time when it was said, in UTC, if known.
        treatment: Treatment of the message; None for the treatment of its origin (see
            `factmem.detection.OriginPolicy`). Without a model, a message of CONTEXT is not kept.
        media: Attached images, sound, videos and files. Readable content is kept as messages of the role ``document``;
            other media are counted as `DropReason.NOT_TEXT`.
        not_text: Number of attached parts without text whose bytes are missing, counted in the same way.
        medium: Part of a medium from which the text was read; None for spoken or written words.

    Raises:
        InvalidDataError: A text is not a string, the time has no zone, the treatment or a medium is of another type, or
            ``not_text`` is negative or no integer.
    """

    content: str = attrs.field(repr=False, converter=_storable)
    role: str = attrs.field(default="user", converter=_storable)
    name: str | None = attrs.field(default=None, converter=attrs.converters.optional(_storable))
    id: str | None = attrs.field(default=None, converter=attrs.converters.optional(_storable))
    timestamp: dt.datetime | None = attrs.field(default=None, converter=attrs.converters.optional(utc))
    treatment: Treatment | None = attrs.field(default=None, validator=instance_of(Treatment, type(None)))
    media: tuple[Medium, ...] = attrs.field(default=(), converter=_media)
    not_text: int = attrs.field(default=0, validator=count)
    medium: MediumPart | None = attrs.field(default=None, validator=instance_of(MediumPart, type(None)))

    @property
    def origin(self) -> Origin:
        """Origin of the message; `Origin.UNKNOWN` for an unknown role."""
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
        """Whether a detector may take facts from the message: not from instructions or recalled text."""
        return self.role not in _INSTRUCTIONS and self.role != MEMORY_ROLE


def _messages(messages: Iterable[Message]) -> tuple[Message, ...]:
    return listed("messages", messages, Message)


@attrs.frozen(kw_only=True)
class Conversation:
    """Messages in the order they were said.

    Attributes:
        messages: Messages.
        id: Id of the conversation (session); messages with the same id belong to one conversation.
        started_at: Start of the conversation, in UTC; used for messages without a time.
    """

    messages: tuple[Message, ...] = attrs.field(converter=_messages)
    id: str | None = attrs.field(default=None, converter=attrs.converters.optional(_storable))
    started_at: dt.datetime | None = attrs.field(default=None, converter=attrs.converters.optional(utc))

    @property
    def not_text(self) -> int:
        """Number of parts without text in the messages that a detector may take facts from."""
        return sum([it.not_text + len(it.media) for it in self.messages if (it.not_text or it.media) and it.detectable])


def _facts(facts: Iterable[Fact[Any]]) -> tuple[Fact[Any], ...]:
    return listed("facts", facts, SingleFact, MultipleFacts)


@attrs.frozen(kw_only=True)
class DetectionExample:
    """A conversation with the expected findings; a negative example if there are none.

    Attributes:
        conversation: Conversation.
        memories: Sentences to be found, each with the labels of its topics.
        facts: Facts to be found, of requested concepts or of others.
    """

    conversation: Conversation
    memories: tuple[tuple[str, tuple[str, ...]], ...] = ()
    facts: tuple[Fact[Any], ...] = attrs.field(default=(), converter=_facts)


def _subjects(subjects: MemorySubject | Iterable[MemorySubject]) -> tuple[MemorySubject, ...]:
    return one_or_more("subjects", subjects, MemorySubject)


def _concepts(concepts: Concept[Any, Any] | Iterable[Concept[Any, Any]]) -> tuple[Concept[Any, Any], ...]:
    return one_or_more("concepts", concepts, Concept)


def _topics(topics: Topic | Iterable[Topic]) -> tuple[Topic, ...]:
    return one_or_more("topics", topics, Topic)


def _in_use(concepts: Iterable[Concept[Any, Any]]) -> tuple[Concept[Any, Any], ...]:
    return listed("in_use", concepts, Concept)


def _examples(examples: Iterable[DetectionExample]) -> tuple[DetectionExample, ...]:
    return listed("examples", examples, DetectionExample)


@attrs.frozen(kw_only=True)
class DetectionRequest:
    """A request to detect facts. Without topics or concepts, a detector looks for any facts.

    Pass a request with each call. (Google's Memory Bank keeps such settings beside the bank and selects them by the
    ``scope_keys`` of a memory; its guide requires exactly the scope's keys, its SDK a subset of them. Here, nothing is
    selected implicitly.)

    Attributes:
        subjects: Subjects that facts may be about, one or several; the first is the default.
        concepts: Concepts to look for, one or several.
        open: Look for other facts about the subjects as well.
        in_use: Concepts in use at the place, the likeliest first; an open search reuses them, with their types, instead
            of new keywords.
        topics: Topics of memories, one or several, found as sentences.
        examples: Few-shot examples; the model sees them last.

    Raises:
        InvalidDataError: There is no subject, two concepts or topics have one name, or one is of another type.
    """

    subjects: tuple[MemorySubject, ...] = attrs.field(default=(MemorySubject.EVERYTHING,), converter=_subjects)
    concepts: tuple[Concept[Any, Any], ...] = attrs.field(default=(), converter=_concepts)
    open: bool = False
    in_use: tuple[Concept[Any, Any], ...] = attrs.field(default=(), converter=_in_use)
    topics: tuple[Topic, ...] = attrs.field(default=(), converter=_topics)
    examples: tuple[DetectionExample, ...] = attrs.field(default=(), converter=_examples)

    def __attrs_post_init__(self) -> None:
        if not self.subjects:
            raise InvalidDataError("name the possible subjects of the facts, or leave subjects out", path="$.subjects")
        for what, names in (
            ("concepts", [concept.keyword for concept in self.concepts]),
            ("topics", [topic.label for topic in self.topics]),
        ):
            if len(set(names)) < len(names):
                raise InvalidDataError(f"two {what} of a request have one name: rename one", path=f"$.{what}")
        check_distinct(self.concepts)

    @property
    def searches_openly(self) -> bool:
        """Whether to look for facts of any concept: if requested, or if nothing else is."""
        return self.open or not (self.concepts or self.topics)

    @property
    def aims(self) -> frozenset[str]:
        """Names of the concepts, topics and subjects, for comparison."""
        named = (
            ("subject", (str(subject) for subject in self.subjects)),
            ("concept", (concept.keyword for concept in self.concepts)),
            ("topic", (topic.label for topic in self.topics)),
            ("open", ("",) if self.searches_openly else ()),
        )
        return frozenset(f"{kind}:{name}" for kind, names in named for name in names)


class DropReason(enum.Enum):
    """Reason for dropping a candidate, or a part of a message before detection."""

    QUOTE_NOT_FOUND = "its quote stands in no message"
    NOT_THE_USERS_WORDS = "its quote is not what the user said"
    INVALID_VALUE = "its value is not of the concept's type, or blank"
    MALFORMED = "it is not of the form that was asked for"
    UNKNOWN_SUBJECT = "its subject was not asked for"
    UNKNOWN_CONCEPT = "its concept was not asked for, or its keyword is not legal"
    UNKNOWN_TOPIC = "its topic was not asked for"
    ONLY_SECRETS = "its words are nothing but secrets, which are not kept"
    OFF_THE_RECORD = "the user asks not to keep its words"
    DUPLICATE = "it says what another text of the same batch says"
    NOT_TEXT = "images, audio, files or parts of an unknown type, which are not kept"
    TOO_MANY = "the model's answer holds more than the text can tell"
    NOT_CONFIRMED = "a verifier says that its words do not state it"
    REFUSED_BEFORE = "the same value was refused in the inbox"
    WAITING_ALREADY = "the same value waits in the inbox already"
    NOT_CURRENT = "it ends, or asks to forget, what is not known"
    OTHER_TYPE = "its place holds another type under its keyword"
    NOT_APPROVED = "to forget all that it asks for needs an approval"


@attrs.frozen
class Doubt:
    """Reason for not believing a candidate at once.

    Attributes:
        reason: Reason in plain words, such as "said in a list", without any value; becomes a flag of the fact.
        askable: Whether a verifier may remove the doubt. A name, number or date that is neither in the message nor in
            the message before it is never verified.
    """

    reason: str
    askable: bool


@attrs.frozen(kw_only=True)
class Candidate:
    """A fact found by a detector, not yet applied.

    Attributes:
        fact: Fact.
        details: Evidence, origin, importance and so on.
        subject: Subject of the fact; None for that of the words.
        removed: Whether the fact removes its values. For a statement, the text is the request to forget.
        ended: Whether the values were true, but are no longer from the fact's timestamp on. Unlike with a removed fact,
            the words stay.
        cleared: Concept whose values ended, or are to be forgotten, if any. The fact holds the words for it: a
            statement means every value, a fact with the concept's keyword the values with these words in a field.
        quarantined: Whether the fact is quarantined until accepted. Facts of an untrusted origin are quarantined,
            unless the detector is configured otherwise.
        doubt: Reason for not believing the fact at once, although its origin is trusted; None if it is plainly said.
            The fact is quarantined with the reason, unless a verifier removes the doubt.
    """

    fact: Fact[Any]
    details: FactDetails
    subject: MemorySubject | None = None
    removed: bool = False
    ended: bool = False
    cleared: Concept[Any, Any] | None = None
    quarantined: bool = attrs.field(
        default=attrs.Factory(lambda candidate: not candidate.details.origin.trusted, takes_self=True)
    )
    doubt: Doubt | None = None


def _candidates(candidates: Iterable[Candidate]) -> tuple[Candidate, ...]:
    return listed("candidates", candidates, Candidate)


@attrs.frozen(kw_only=True)
class Detection:
    """Result of a detection.

    Attributes:
        candidates: Facts found, in the order of the conversation.
        dropped: Number of candidates dropped, by reason.
    """

    candidates: tuple[Candidate, ...] = attrs.field(default=(), converter=_candidates)
    dropped: Mapping[DropReason, int] = attrs.field(factory=dict)


@runtime_checkable
class Detector(Protocol):
    """Finds facts in conversations."""

    async def detect(self, conversation: Conversation, request: DetectionRequest) -> Detection:
        """Return the facts found, each with evidence that quotes a message; the result may be empty.

        Quotes and their offsets refer to the message's text after redaction. Messages that are not `Message.detectable`
        yield nothing. Messages without a time get the time of the caller's clock. The timestamp of a fact is the time
        of its words; a value said several times is returned several times.

        Raises:
            ModelError: A model was asked and failed; facts found otherwise are not returned.
        """
        ...
