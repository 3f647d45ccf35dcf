"""Facts as bullets that people read and edit, and bullets as facts."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar

import attrs

from factmem.agent.agents_md.escapes import one_line, original
from factmem.agent.rendering import written
from factmem.detection import redact
from factmem.errors import FactMemError, InvalidDataError
from factmem.facts import STATEMENT, Concept
from factmem.records import FactRecord, Origin
from factmem.values import canonical_bytes, decode_value, encode_value

__all__ = ["Bullet", "Said", "bullet_of", "digest", "said_in", "same_value"]

T = TypeVar("T")

_SUFFIX: Final = re.compile(
    r"\s*\((?:private, )?(?:flagged, )?(?:[a-z]+ )?"
    r"said \d{4}-\d\d-\d\d(?:, from \d{4}-\d\d-\d\d)?(?:, until \d{4}-\d\d-\d\d)?\)\s*$"
)
_NAMED: Final = re.compile(r"\*\*(?P<keyword>[^\n*]+)\*\*:(?:\s+|$)(?P<value>.*)", re.DOTALL)
_ANY_TIME: Final = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


@attrs.frozen(kw_only=True)
class Bullet:
    """A bullet as it stands in a page.

    Attributes:
        heading: what it stands under.
        text: what it says, without the mark of the list.
        line: the number of its line, from 1.
    """

    heading: str
    text: str = attrs.field(repr=False)
    line: int = attrs.field(default=0, eq=False)

    @property
    def digest(self) -> str:
        """The identity of the bullet among all bullets."""
        return digest(self.heading, self.text)


@attrs.frozen(kw_only=True)
class Said:
    """The statement of a bullet.

    Attributes:
        concept: of what; the built-in `STATEMENT` if it names no concept that is known.
        value: the value.
    """

    concept: Concept[Any, Any]
    value: Any = attrs.field(repr=False)


def digest(heading: str, text: str) -> str:
    """Return what tells a bullet from every other one, without a word of it."""
    data = f"{heading.strip()}\n{text.strip()}".encode(errors="surrogatepass")
    return hashlib.blake2b(data, digest_size=6).hexdigest()


def bullet_of(record: FactRecord[Any], heading: str) -> Bullet:
    """Return a fact as a bullet: its concept, its value, and when it was said, on one line."""
    concept, fact = record.concept, record.fact
    value = one_line(_as_text(record.value, concept))
    named = "" if concept.keyword == STATEMENT.keyword else f"**{one_line(concept.keyword).replace('*', '&#42;')}**: "
    origin = record.details.origin
    times = [
        ("private, " if record.private else "")
        + ("flagged, " if record.details.flags else "")
        + ("" if origin is Origin.USER else f"{origin.value} "),
        f"said {fact.timestamp.date().isoformat()}",
        f", from {fact.valid_from.date().isoformat()}" if fact.valid_from else "",
        f", until {fact.valid_to.date().isoformat()}" if fact.valid_to else "",
    ]
    return Bullet(heading=heading, text=f"{named}{value} ({''.join(times)})")


def said_in(bullet: Bullet, concepts: Mapping[str, Concept[Any, Any]]) -> Said:
    """Return what a bullet says, secrets redacted.

    Args:
        bullet: the bullet. The dates in it are for people, and are passed over.
        concepts: those that a bullet may name, by keyword; what names no other is a statement.

    Raises:
        InvalidDataError: it says nothing, or not a value of the concept's type. The text names the line.
    """
    text = _SUFFIX.sub("", bullet.text).strip()
    named = _NAMED.match(text)
    concept = concepts.get(original(named["keyword"])) if named else None
    if named is None or concept is None:
        return Said(concept=STATEMENT, value=_redacted(_worded(text, bullet)))
    wording = original(named["value"].strip())
    try:
        return Said(concept=concept, value=_redacted(_checked(_value_in(wording, concept), concept)))
    except FactMemError as error:
        raise InvalidDataError(f"line {bullet.line}: the value of {concept.keyword} is not legal: {error}") from None


def same_value(concept: Concept[Any, Any], one: object, other: object) -> bool:
    """Whether two values of a concept are equal."""
    return _identity(concept, one) == _identity(concept, other)


def _identity(concept: Concept[Any, Any], value: object) -> bytes:
    return canonical_bytes(encode_value(value, concept.value_type))


def _worded(text: str, bullet: Bullet) -> str:
    if not (worded := original(text)).strip():
        raise InvalidDataError(f"line {bullet.line}: the bullet is blank: write what to remember, or take it out")
    return worded


def _redacted(value: Any) -> Any:
    return redact(value).text if type(value) is str else value


def _checked(value: T, concept: Concept[T, Any]) -> T:
    checked: T = concept.fact([value], timestamp=_ANY_TIME).values[0]
    return checked


def _as_text(value: object, concept: Concept[Any, Any]) -> str:
    """A value as people write it; in JSON's quotes, where it would be read as something else without them."""
    plain = written(value, concept.value_type)
    try:
        if same_value(concept, _value_in(plain, concept), value):
            return plain
    except FactMemError:
        pass
    return json.dumps(encode_value(value, concept.value_type), ensure_ascii=False)


def _value_in(text: str, concept: Concept[Any, Any]) -> Any:
    """The value that a text stands for: itself, or what it is as JSON, or as the text of a date and the like."""
    if concept.value_type is str:
        return text
    try:
        data = json.loads(text)
    except (ValueError, RecursionError):
        return decode_value(text, concept.value_type)
    try:
        return decode_value(data, concept.value_type)
    except InvalidDataError as error:
        try:
            return decode_value(text, concept.value_type)
        except InvalidDataError:
            raise error from None
