"""Details of a fact besides its value: origin, evidence, importance, owner, labels and metadata."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Iterable, Mapping
from typing import Any, Final, Self, TypeAlias, assert_never

import attrs

from factmem.error_hints import kind_of
from factmem.errors import InvalidDataError
from factmem.facts import utc
from factmem.legal_names import checked_name
from factmem.validators import check_instance, check_text, fraction, instance_of, named, positive, text, weight
from factmem.values import Json, canonical_bytes, encode_value

UNREVIEWED: Final = "unreviewed"
"""Flag of a flagged text that was kept instead of quarantined. See `FactDetails.unreviewed`."""


class Origin(enum.Enum):
    """Source of the words that a fact comes from. It decides what is believed, in every memory.

    The treatment of the words of an origin is a setting of a memory: a `Treatment` for each origin, in
    ``Memory(policies=Policies(origins=OriginPolicy(...)))``. See `factmem.detection.OriginPolicy`.
    """

    rank: int
    """Rank among origins: 2 for the user, 1 for the assistant, 0 for the others. A lower rank never overrides."""
    trusted: bool
    """Whether words of this origin are believed. Others are quarantined until they are accepted."""

    # Stores keep both in outlines: others need another `OUTLINE_VERSION` (factmem/recall/index/outline_codec.py).

    def __new__(cls, name: str, rank: int = 0) -> Self:
        """Return the origin of a name."""
        origin = object.__new__(cls)
        origin._value_, origin.rank, origin.trusted = name, rank, rank > 0
        return origin

    USER = "user", 2
    ASSISTANT = "assistant", 1
    TOOL = "tool"
    DOCUMENT = "document"
    UNKNOWN = "unknown"


class Treatment(enum.Enum):
    """Treatment of the words of a message.

    Attributes:
        FACTS: a model looks for facts in the words, and the facts are believed.
        QUARANTINED_FACTS: a model looks for facts in a separate question, and the facts are quarantined.
        STATEMENTS: the words are kept verbatim.
        CONTEXT: the words are shown to the model as context only, and are neither kept nor compared. A short answer of
            the user still keeps its question, see `Evidence.answers`.
        IGNORE: the words are neither kept nor shown.

    Without a model, words whose origin has one of the first four treatments are kept as statements.
    """

    FACTS = "facts"
    QUARANTINED_FACTS = "quarantined facts"
    STATEMENTS = "statements"
    CONTEXT = "context"
    IGNORE = "ignore"


def _check_box(instance: object, attribute: attrs.Attribute[Any], value: tuple[float, ...] | None) -> None:
    if value is not None and not (len(value) == 4 and all(0 <= side <= 1 for side in value)):
        raise InvalidDataError("a box in a medium is four shares from 0 to 1", path="$.box")


@attrs.frozen(kw_only=True)
class MediumPart:
    """The part of an image, a recording or a file from which words were read.

    Attributes:
        sha256: Hash of the medium's bytes, in hexadecimal.
        mime: MIME type.
        page: Page, from 1.
        box: Corners of a rectangle, as shares of width and height: left, top, right, bottom.
        start: Start of a span of time, in seconds.
        end: End of a span of time, in seconds.
    """

    sha256: str = attrs.field(validator=text)
    mime: str = attrs.field(validator=text)
    page: int | None = attrs.field(default=None, validator=attrs.validators.optional(positive))
    box: tuple[float, float, float, float] | None = attrs.field(default=None, validator=_check_box)
    start: float | None = attrs.field(default=None, validator=attrs.validators.optional(weight))
    end: float | None = attrs.field(default=None, validator=attrs.validators.optional(weight))


MessageKey: TypeAlias = tuple[str | None, str | None]
"""A message: the id of its conversation, and its own."""


@attrs.frozen(kw_only=True)
class Evidence:
    """The words that a fact comes from.

    Attributes:
        quote: the words, exactly as in the message; empty if the value was updated since, so that no words say it.
        message_id: the message's id, unique in its conversation.
        role: the speaker's role, as the conversation names it: ``user``, ``assistant``, ….
        speaker: the speaker's name, if known.
        conversation_id: the conversation (session) of the message.
        position: index of the message in the conversation, from 0.
        start: offset of the quote in the message's text, in characters.
        end: offset of the quote's end.
        medium: the part of an image, a recording or a file from which the words were read; None for spoken or written
            words.
        answers: the question to which these words are a short answer.
        corrects: the words that these words, a short correction, correct: the speaker's earlier ones, or those of the
            assistant just before; empty at the start of a conversation.
        day: the day of the words, as 2026-05-01, if they name a time relative to it ("today", "last night").
    """

    quote: str = attrs.field(repr=False)
    message_id: str | None = None
    role: str | None = None
    speaker: str | None = None
    conversation_id: str | None = None
    position: int | None = None
    start: int | None = None
    end: int | None = None
    medium: MediumPart | None = None
    answers: str | None = attrs.field(default=None, repr=False)
    corrects: str | None = attrs.field(default=None, repr=False)
    day: str | None = None

    def __attrs_post_init__(self) -> None:
        # All at once: evidence is made for every statement written or read.
        for name in _TEXTS:
            value = getattr(self, name)
            if not (type(value) is str and value.isascii()) and (value is not None or name == "quote"):
                check_text(value, path=f"$.{name}")
        for name, number in (("position", self.position), ("start", self.start), ("end", self.end)):
            if type(number) is not int and number is not None:
                check_instance(number, name, int, type(None))
        if self.medium is not None:
            check_instance(self.medium, "medium", MediumPart, type(None))

    @property
    def message(self) -> MessageKey:
        """The message that contains the words."""
        return (self.conversation_id, self.message_id)

    @property
    def before(self) -> str | None:
        """The earlier words that give these their meaning; None if these stand alone."""
        return self.corrects if self.answers is None else self.answers


_TEXTS: Final = ("quote", "message_id", "role", "speaker", "conversation_id", "answers", "corrects", "day")
"""Fields of `Evidence` that are texts."""


def _check_mapping(value: object, name: str) -> None:
    if type(value) is not dict and not isinstance(value, Mapping):
        raise InvalidDataError(f"{name} must be a mapping, not {kind_of(value)}", path=f"$.{name}")


def _metadata(value: Mapping[str, Any]) -> Mapping[str, Any]:
    _check_mapping(value, "metadata")
    if not (plain := dict(value)):
        return plain  # most facts have none, and details are built for every assertion read or written
    encoded = encode_value(plain, dict[str, Any])
    assert isinstance(encoded, dict)
    return encoded


def _expiry(moment: dt.datetime | None) -> dt.datetime | None:
    return None if moment is None else utc(moment, what="expires_at")


def _revision_expiry(moment: dt.datetime | None) -> dt.datetime | None:
    return None if moment is None else utc(moment, what="revision_expires_at")


def _evidence(items: Iterable[Evidence]) -> tuple[Evidence, ...]:
    given = items if type(items) is tuple else tuple(items) if isinstance(items, Iterable) else (items,)
    for item in given:
        if not isinstance(item, Evidence):
            raise InvalidDataError("evidence is given as a list of Evidence", path="$.evidence")
    return given


def _revision_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    _check_mapping(labels, "labels")
    for pair in labels.items():
        for label in pair:
            checked_name(label, what="a revision's label")
    return dict(labels)


def _labels(labels: Iterable[str]) -> tuple[str, ...]:
    if isinstance(labels, tuple) and not labels:
        return ()  # most facts have none
    if isinstance(labels, str) or not isinstance(labels, Iterable):
        raise InvalidDataError("categories, topics and flags are lists of strings, not a single thing")
    return tuple(dict.fromkeys(checked_name(label, what="a category, topic or flag") for label in labels))


@attrs.frozen(kw_only=True)
class FactDetails:
    """Details of a fact besides its value.

    Attributes:
        importance: from 0 to 1; raises the score in recall.
        categories: labels given by the caller.
        topics: topics found by a detector.
        source: name of the source of the fact; a filter, not a lock.
        owner: the only viewer who may see the fact; None for public facts.
        metadata: any other data, as JSON.
        evidence: the words that the fact comes from.
        origin: the source of those words.
        expires_at: time from which the fact is neither loaded nor recalled, in UTC.
        flags: reasons for suspicion, such as an instruction or hidden characters in the text.
        doubt: reason for the quarantine of a fact of trusted origin, in plain words; None if there is none.
        labels: labels of this revision, such as its run; the next revision does not inherit them.
        revision_expires_at: time from which this revision is erased once it is superseded, in UTC; by
            `TtlPolicy.revisions` if None. The next revision does not inherit this time.

    Raises:
        InvalidDataError: a number is out of range, a name is not legal, or the metadata is not JSON.
    """

    importance: float = attrs.field(default=0.5, validator=fraction)
    categories: tuple[str, ...] = attrs.field(default=(), converter=_labels)
    topics: tuple[str, ...] = attrs.field(default=(), converter=_labels)
    source: str | None = attrs.field(default=None, validator=text)
    owner: str | None = attrs.field(default=None, validator=named("an owner"))
    metadata: Mapping[str, Any] = attrs.field(factory=dict, converter=_metadata)
    evidence: tuple[Evidence, ...] = attrs.field(default=(), converter=_evidence)
    origin: Origin = attrs.field(default=Origin.USER, validator=instance_of(Origin))
    expires_at: dt.datetime | None = attrs.field(default=None, converter=_expiry)
    labels: Mapping[str, str] = attrs.field(factory=dict, converter=_revision_labels)
    flags: tuple[str, ...] = attrs.field(default=(), converter=_labels)
    revision_expires_at: dt.datetime | None = attrs.field(default=None, converter=_revision_expiry)
    doubt: str | None = attrs.field(default=None, validator=text)

    @property
    def believed(self) -> bool:
        """Whether the fact counts without approval: the user's words do, and the assistant's unless flagged."""
        return self.origin.trusted and (not self.flags or self.origin is Origin.USER)

    @property
    def unreviewed(self) -> bool:
        """Whether this is flagged text of an origin other than the user, kept unchanged by a key-value store.

        The store returns the text, but no prompt shows it until the user takes it over with
        ``update(id, origin=Origin.USER)``.
        """
        return UNREVIEWED in self.flags and self.origin is not Origin.USER


class MetadataMerge(enum.Enum):
    """Effect of an update on a record's metadata.

    Attributes:
        MERGE: unite both, key by key; the new value wins.
        OVERWRITE: replace the old metadata.
        REQUIRE_EXACT_MATCH: update only a record with exactly this metadata.

    The names come from Google's Memory Bank, which documents two defaults: MERGE for generating memories and OVERWRITE
    for ingesting events. Here the default is always MERGE, so an update never drops unknown metadata.
    """

    MERGE = "merge"
    OVERWRITE = "overwrite"
    REQUIRE_EXACT_MATCH = "require_exact_match"


def merged_metadata(
    before: Mapping[str, Json], brought: Mapping[str, Json], how: MetadataMerge
) -> Mapping[str, Json] | None:
    """Return the metadata of a record after an update, or None if the record must not be updated.

    Args:
        before: the record's metadata.
        brought: the metadata of the update.
        how: the rule that combines them.

    Raises:
        InvalidDataError: the update's metadata is not a mapping.
    """
    _check_mapping(brought, "metadata")
    match how:
        case MetadataMerge.MERGE:
            return {**before, **brought}
        case MetadataMerge.OVERWRITE:
            return brought
        case MetadataMerge.REQUIRE_EXACT_MATCH:
            return brought if canonical_bytes(before) == canonical_bytes(brought) else None
        case _:
            assert_never(how)
