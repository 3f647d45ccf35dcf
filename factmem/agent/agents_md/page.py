"""Pages of facts in Markdown: bullets and their escapes."""

from __future__ import annotations

import datetime as dt
import hashlib
import itertools
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs

from factmem.agent.agents_md.comments import visible
from factmem.agent.rendering import written
from factmem.detection.redaction import redact
from factmem.errors import FactMemError, InvalidDataError
from factmem.facts import STATEMENT, Concept
from factmem.hidden_characters import visible as hidden_shown
from factmem.records import FactRecord, Origin, Place
from factmem.scopes import MemoryScope
from factmem.values import canonical_bytes, decode_value, encode_value

__all__ = [
    "LONGEST_BULLET",
    "TITLE",
    "Bullet",
    "Page",
    "Said",
    "bullet_of",
    "bullets_in",
    "digest",
    "one_line",
    "original",
    "page_of",
    "said_in",
    "same_value",
]

_LOOKS_ESCAPED: Final = re.compile(r"&(?=(?:amp|lt|gt|#\d{1,7});)")

_ESCAPED: Final = re.compile(r"&(?:(?P<name>amp|lt|gt)|#(?P<code>\d{1,7}));|<br\s*/?>")

_NAMES: Final = {"amp": "&", "lt": "<", "gt": ">"}

_OPENS_BLOCK: Final = ("```", "~~~", "**")

_SEPARATORS: Final = frozenset("\u2028\u2029")

_SURROGATES: Final = range(0xD800, 0xE000)


def one_line(text: str) -> str:
    """Encode a text as one line without line ends, comments, tags, fences and hidden characters.

    Plain text stays unchanged. `original` decodes the line.
    """
    text = _LOOKS_ESCAPED.sub("&amp;", text).replace("<", "&lt;").replace("-->", "--&gt;").replace("\n", "<br>")
    text = hidden_shown("".join(_coded(char) if _breaks(char) else char for char in text))
    if text[:1].isspace() or text.startswith(_OPENS_BLOCK):
        text = _coded(text[0]) + text[1:]
    return text[:-1] + _coded(text[-1]) if text[-1:].isspace() else text


def original(line: str) -> str:
    """Decode a line to its text; anything that is not an escape stays unchanged."""
    return _ESCAPED.sub(_decoded, line)


def _decoded(found: re.Match[str]) -> str:
    if name := found["name"]:
        return _NAMES[name]
    if code := found["code"]:
        legal = int(code) < 0x110000 and int(code) not in _SURROGATES
        return chr(int(code)) if legal else found[0]
    return "\n"


def _coded(char: str) -> str:
    return f"&#{ord(char)};"


def _breaks(char: str) -> bool:
    return char in _SEPARATORS or unicodedata.category(char) == "Cc"


T = TypeVar("T")

_SUFFIX: Final = re.compile(
    r"(?<!\s)\s*+\((?:private, )?(?:flagged, )?(?:[a-z]+ )?"
    r"said \d{4}-\d\d-\d\d(?:, from \d{4}-\d\d-\d\d)?(?:, until \d{4}-\d\d-\d\d)?\)\s*$"
)

_NAMED: Final = re.compile(r"\*\*(?P<keyword>[^\n*]+)\*\*:(?:\s+|$)(?P<value>.*)", re.DOTALL)

_ANY_TIME: Final = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)


@attrs.frozen(kw_only=True)
class Bullet:
    """A bullet of a page.

    Attributes:
        heading: Heading above it.
        text: Text without the list marker.
        line: Line number, from 1.
    """

    heading: str
    text: str = attrs.field(repr=False)
    line: int = attrs.field(default=0, eq=False)

    @property
    def digest(self) -> str:
        """Digest that identifies the bullet."""
        return digest(self.heading, self.text)


@attrs.frozen(kw_only=True)
class Said:
    """The parsed content of a bullet.

    Attributes:
        concept: Concept of the value; the built-in `STATEMENT` if the bullet names no known concept.
        value: The value.
    """

    concept: Concept[Any, Any]
    value: Any = attrs.field(repr=False)


def digest(heading: str, text: str) -> str:
    """Return a digest that identifies a bullet without revealing its text."""
    data = f"{heading.strip()}\n{text.strip()}".encode(errors="surrogatepass")
    return hashlib.blake2b(data, digest_size=6).hexdigest()


def bullet_of(record: FactRecord[Any], heading: str) -> Bullet:
    """Render a fact as a bullet: its concept, value and dates on one line."""
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
    """Parse a bullet, with secrets redacted.

    Args:
        bullet: The bullet. Its dates are for people, and are ignored.
        concepts: Concepts that a bullet may name, by keyword; a bullet that names none is a statement.

    Raises:
        InvalidDataError: The bullet is blank, or its value does not have the concept's type. The message names the
            line.
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
    """Return whether two values of a concept are equal."""
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
    """Return a value as text, as JSON if the plain text would be parsed as another value."""
    plain = written(value, concept.value_type)
    try:
        if same_value(concept, _value_in(plain, concept), value):
            return plain
    except FactMemError:
        pass
    return json.dumps(encode_value(value, concept.value_type), ensure_ascii=False)


def _value_in(text: str, concept: Concept[Any, Any]) -> Any:
    """Parse a value: a string unchanged, any other type from JSON or from plain text, such as a date."""
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


TITLE: Final = "## What is known"
"""First line of a page."""

LONGEST_BULLET: Final = 4_000
"""Maximum length of a bullet, in characters; longer ones are left out of a page."""

_LEFT_OUT: Final = re.compile(r"_\d+ more are too long or too many to be shown here\._")

_BULLET: Final = re.compile(r" {0,1}[-*+][ \t]+(?P<text>.*)")

_BLANK_BULLET: Final = re.compile(r" {0,1}[-*+][ \t]*$")

_HEADING: Final = re.compile(r"#{1,6}[ \t]+(?P<text>.*)")


@attrs.frozen(kw_only=True)
class Page:
    """A rendered page.

    Attributes:
        text: The page, as Markdown.
        shown: Record ids and their bullets, in the order of the bullets.
        places: Places by heading, for facts added under that heading; the first one also for bullets before any
            heading.
        left_out: Number of facts that are not shown.
    """

    text: str = attrs.field(repr=False)
    shown: tuple[tuple[str, Bullet], ...] = attrs.field(repr=False)
    places: Mapping[str, Place]
    left_out: int = 0


def page_of(
    records: Iterable[FactRecord[Any]],
    homes: Sequence[Place],
    *,
    limit: int = 500,
    longest: int = LONGEST_BULLET,
    more: int = 0,
) -> Page:
    """Render facts as a page.

    Args:
        records: The facts, best first.
        homes: Places to which facts may be added even if they hold none yet; the first one always has a heading.
        limit: Maximum number of facts shown.
        longest: Maximum length of a bullet, in characters of Markdown; longer ones are left out.
        more: Number of facts beside these, which count as left out.
    """
    records = list(records)
    places = _headings([*homes, *sorted({_place(record) for record in records}, key=_order)])
    headings = {place.key: heading for heading, place in places.items()}
    made = ((record, bullet_of(record, headings[_place(record).key])) for record in records)
    fitting = list(itertools.islice((pair for pair in made if len(pair[1].text) <= longest), limit))
    fitting.sort(key=lambda pair: _position(pair[0]))
    shown = tuple((record.id, bullet) for record, bullet in fitting)
    left_out = len(records) - len(fitting) + more
    filled = {bullet.heading for _, bullet in shown}
    written = [heading for heading in places if heading in filled or heading == next(iter(places))]
    return Page(text=_text(written, shown, left_out), shown=shown, places=places, left_out=left_out)


def bullets_in(text: str, places: Mapping[str, Place], *, first_line: int = 1) -> list[Bullet]:
    """Parse the bullets of a page, which may have been edited.

    An indented line continues the bullet above it.

    Args:
        text: The page.
        places: Places by heading; see `Page.places`.
        first_line: Number of the page's first line, for errors.

    Raises:
        InvalidDataError: A line is neither a bullet nor one of these headings. The message names the line.
    """
    heading, found = next(iter(places)), list[Bullet]()
    skipped = 0
    for number, line in enumerate(re.split(r"\r\n?|\n", visible(text)), start=first_line):
        if not line.strip():
            skipped += 1
            continue
        blank, skipped = skipped, 0
        if line.strip() == TITLE or _LEFT_OUT.fullmatch(line.strip()):
            continue
        if head := _HEADING.fullmatch(line):
            heading = _known_heading(head["text"].strip(), places, number)
        elif new := _BULLET.fullmatch(line):
            found.append(Bullet(heading=heading, text=new["text"], line=number))
        elif _BLANK_BULLET.fullmatch(line):
            raise InvalidDataError(f"line {number}: the bullet is blank: write what to remember, or take it out")
        elif line[0] in " \t" and found and found[-1].heading == heading:
            more = "\n" * (blank + 1) + line.expandtabs(4).removeprefix("  ")
            found[-1] = attrs.evolve(found[-1], text=found[-1].text + more)
        else:
            raise InvalidDataError(f"line {number} is neither a bullet nor a heading: write '- ' before what is known")
    return found


def _known_heading(heading: str, places: Mapping[str, Place], line: int) -> str:
    if heading not in places:
        known = ", ".join(f"'### {place}'" for place in places)
        raise InvalidDataError(f"line {line}: nothing is kept under this heading; there are {known}")
    return heading


def _headings(places: Iterable[Place]) -> dict[str, Place]:
    """Return a unique heading for each place; duplicates are numbered."""
    found: dict[str, Place] = {}
    known = set()
    for place in places:
        if place.key in known:
            continue
        known.add(place.key)
        heading = name = _heading(place)
        number = 2
        while heading in found:
            heading, number = f"{name} #{number}", number + 1
        found[heading] = place
    return found


def _heading(place: Place) -> str:
    scope = place.scope.within(None)
    where = "" if scope == MemoryScope.CROSS_PRODUCT else f" in {scope}"
    return one_line(f"{place.subject}{where}").strip()


def _text(headings: Sequence[str], shown: Sequence[tuple[str, Bullet]], left_out: int) -> str:
    return "\n".join(_lines(headings, shown, left_out)) + "\n"


def _lines(headings: Sequence[str], shown: Sequence[tuple[str, Bullet]], left_out: int) -> Iterator[str]:
    yield TITLE
    for heading in headings:
        yield ""
        yield f"### {heading}"
        if under := [bullet.text for _, bullet in shown if bullet.heading == heading]:
            yield ""
            yield from (f"- {text}" for text in under)
    if left_out:
        yield ""
        yield f"_{left_out} more are too long or too many to be shown here._"


def _place(record: FactRecord[Any]) -> Place:
    return Place(record.subject, record.scope)


def _order(place: Place) -> tuple[int, str, tuple[int, int], str]:
    return (place.subject.priority_level, str(place.subject), place.scope.narrowness, str(place.scope))


def _position(record: FactRecord[Any]) -> tuple[object, ...]:
    free = record.concept.keyword == STATEMENT.keyword
    return (*_order(_place(record)), free, record.concept.keyword, record.timestamp, record.revision)
