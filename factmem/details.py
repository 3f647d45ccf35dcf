"""What is known about a fact besides its value: whose words it comes from, which, and how to weigh and find it."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Iterable, Mapping
from typing import Any, Final

import attrs

from factmem.errors import InvalidDataError
from factmem.facts import utc
from factmem.names import checked_name
from factmem.validators import fraction, instance_of, text
from factmem.values import Json, canonical_bytes, encode_value

__all__ = ["UNREVIEWED", "Evidence", "FactDetails", "MetadataMerge", "Origin", "Treatment", "merged_metadata"]

UNREVIEWED: Final = "unreviewed"
"""The flag beside the others on a flagged text that was kept and not quarantined; see `FactDetails.unreviewed`."""


class Origin(enum.Enum):
    """Whose words a fact comes from; it decides what is believed."""

    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"
    DOCUMENT = "document"
    UNKNOWN = "unknown"

    @property
    def trusted(self) -> bool:
        """Whether words of this origin are kept; the others are quarantined until let in."""
        return self in (Origin.USER, Origin.ASSISTANT)


class Treatment(enum.Enum):
    """Use that is made of the words of a message.

    FACTS: a model reads them for facts, which are believed. QUARANTINED_FACTS: a model reads them for facts in a
    question of their own, and the facts are quarantined. STATEMENTS: they are kept as they were said. CONTEXT: a
    model is shown them so that it understands the other messages; they are neither kept nor read for facts, nor
    compared with anything. IGNORE: they are neither kept nor shown.

    Without a model, the words of a message whose origin has one of the first four treatments are kept as statements.
    """

    FACTS = "facts"
    QUARANTINED_FACTS = "quarantined facts"
    STATEMENTS = "statements"
    CONTEXT = "context"
    IGNORE = "ignore"


@attrs.frozen(kw_only=True)
class Evidence:
    """The words a fact came from.

    Attributes:
        quote: the words, exactly as they stand in the message.
        message_id: the message's id, unique in its conversation.
        role: the role of who said it, as the conversation names it: ``user``, ``assistant``, ….
        speaker: the name of who said it, if it is known.
        conversation_id: the conversation (session) that the message belongs to.
        position: the message's place in the conversation, from 0.
        start: where in the message's text the quote starts, in characters.
        end: where it ends.
    """

    quote: str = attrs.field(repr=False, validator=text)
    message_id: str | None = attrs.field(default=None, validator=text)
    role: str | None = attrs.field(default=None, validator=text)
    speaker: str | None = attrs.field(default=None, validator=text)
    conversation_id: str | None = attrs.field(default=None, validator=text)
    position: int | None = attrs.field(default=None, validator=instance_of(int, type(None)))
    start: int | None = attrs.field(default=None, validator=instance_of(int, type(None)))
    end: int | None = attrs.field(default=None, validator=instance_of(int, type(None)))


def _owner(instance: object, attribute: attrs.Attribute[str | None], value: str | None) -> None:
    if value is not None:
        checked_name(value, what="an owner")


def _check_mapping(value: object) -> None:
    if not isinstance(value, Mapping):
        raise InvalidDataError(f"metadata is a mapping, not a {type(value).__name__}", path="$.metadata")


def _metadata(value: Mapping[str, Any]) -> Mapping[str, Any]:
    _check_mapping(value)
    if not (plain := dict(value)):
        return plain  # most facts have none, and details are built for every assertion read or written
    encoded = encode_value(plain, dict[str, Any])
    assert isinstance(encoded, dict)
    return encoded


def _optional_utc(moment: dt.datetime | None) -> dt.datetime | None:
    return None if moment is None else utc(moment, what="expires_at")


def _evidence(items: Iterable[Evidence]) -> tuple[Evidence, ...]:
    given = tuple(items) if isinstance(items, Iterable) else (items,)
    if not all(isinstance(item, Evidence) for item in given):
        raise InvalidDataError("evidence is given as a list of Evidence", path="$.evidence")
    return given


def _revision_labels(labels: Mapping[str, str]) -> Mapping[str, str]:
    _check_mapping(labels)
    for label in (item for pair in labels.items() for item in pair):
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
    """What is known about a fact besides its value.

    Attributes:
        importance: from 0 to 1; weighs in recall.
        categories: labels given by the caller.
        topics: what it touches, as a detector found.
        source: where it came from; a filter, not a lock.
        owner: who alone may see it; None for public.
        metadata: anything else, as JSON.
        evidence: the words it came from.
        origin: whose words those are.
        expires_at: from when on it is neither loaded nor recalled, in UTC.
        flags: why it may not be what it seems: it reads like an instruction, say, or hides characters.
        labels: of this revision, such as which run made it; they are not handed on to the next one.

    Raises:
        InvalidDataError: a number is out of range, a name is not legal, or the metadata is no JSON.
    """

    importance: float = attrs.field(default=0.5, validator=fraction)
    categories: tuple[str, ...] = attrs.field(default=(), converter=_labels)
    topics: tuple[str, ...] = attrs.field(default=(), converter=_labels)
    source: str | None = attrs.field(default=None, validator=text)
    owner: str | None = attrs.field(default=None, validator=_owner)
    metadata: Mapping[str, Any] = attrs.field(factory=dict, converter=_metadata)
    evidence: tuple[Evidence, ...] = attrs.field(default=(), converter=_evidence)
    origin: Origin = attrs.field(default=Origin.USER, validator=instance_of(Origin))
    expires_at: dt.datetime | None = attrs.field(default=None, converter=_optional_utc)
    labels: Mapping[str, str] = attrs.field(factory=dict, converter=_revision_labels)
    flags: tuple[str, ...] = attrs.field(default=(), converter=_labels)

    @property
    def believed(self) -> bool:
        """Whether it counts without anybody's leave: the user's words do, the assistant's unless they are flagged."""
        return self.origin.trusted and (not self.flags or self.origin is Origin.USER)

    @property
    def unreviewed(self) -> bool:
        """Whether this is flagged text of somebody other than the user, which a key-value store kept as it was given.

        The store returns it. No prompt shows it until the user takes it over: ``update(id, origin=Origin.USER)``.
        """
        return UNREVIEWED in self.flags and self.origin is not Origin.USER


class MetadataMerge(enum.Enum):
    """What becomes of a record's metadata when an update brings some.

    MERGE unites them, key by key; where both have a key, the new value stands. OVERWRITE puts the new in
    place of the old. REQUIRE_EXACT_MATCH lets only a record with exactly this metadata be updated.

    Google's Memory Bank, whose words these are, names two defaults: its page on generating memories MERGE,
    its page on ingesting events OVERWRITE. Here it is MERGE everywhere: an update that knows nothing of
    what others noted must not lose it, and to drop it is one word more.
    """

    MERGE = "merge"
    OVERWRITE = "overwrite"
    REQUIRE_EXACT_MATCH = "require_exact_match"


def merged_metadata(
    before: Mapping[str, Json], brought: Mapping[str, Json], how: MetadataMerge
) -> Mapping[str, Json] | None:
    """Return the metadata of a record after an update, or None if it must not be updated.

    Args:
        before: the record's metadata.
        brought: what the update brings.
        how: what becomes of the two.

    Raises:
        InvalidDataError: what the update brings is no mapping.
    """
    _check_mapping(brought)
    match how:
        case MetadataMerge.MERGE:
            return {**before, **brought}
        case MetadataMerge.OVERWRITE:
            return brought
        case MetadataMerge.REQUIRE_EXACT_MATCH:
            return brought if canonical_bytes(before) == canonical_bytes(brought) else None
