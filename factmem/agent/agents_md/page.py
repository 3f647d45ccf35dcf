"""Pages of facts in Markdown: bullets and their escapes, and the changes of facts that edits of a page request."""

from __future__ import annotations

import difflib
import hashlib
import itertools
import json
import re
import unicodedata
from collections import defaultdict
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from factmem.abc import system_clock
from factmem.abc.clock import Clock
from factmem.agent.agents_md.comments import visible
from factmem.agent.rendering import written
from factmem.changes import Change, ChangeKind
from factmem.details import FactDetails, Origin
from factmem.detection.redaction import redact
from factmem.errors import FactMemError, InvalidDataError, StateConflictError
from factmem.facts import STATEMENT, Concept, FactType
from factmem.grouping import grouped
from factmem.hidden_characters import visible as hidden_shown
from factmem.memory.facade import Memory
from factmem.records import AssertionState, FactRecord, Place
from factmem.scopes import MemoryScope
from factmem.values import canonical_bytes, check_value, decode_value, encode_value

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


_SUFFIX: Final = re.compile(
    r"(?<!\s)\s*+\((?:private, )?(?:flagged, )?(?:[a-z]+ )?"
    r"said \d{4}-\d\d-\d\d(?:, from \d{4}-\d\d-\d\d)?(?:, until \d{4}-\d\d-\d\d)?\)\s*$"
)

_NAMED: Final = re.compile(r"\*\*(?P<keyword>[^\n*]+)\*\*:(?:\s+|$)(?P<value>.*)", re.DOTALL)


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
        """Digest that identifies the bullet without revealing its text."""
        data = f"{self.heading.strip()}\n{self.text.strip()}".encode(errors="surrogatepass")
        return hashlib.blake2b(data, digest_size=6).hexdigest()


@attrs.frozen(kw_only=True, eq=False)
class _Said:
    """The parsed content of a bullet.

    Attributes:
        bullet: The bullet.
        concept: Concept of the value; the built-in `STATEMENT` if the bullet names no known concept.
        value: The value.
    """

    bullet: Bullet
    concept: Concept[Any, Any]
    value: Any = attrs.field(repr=False)


def bullet_of(record: FactRecord[Any], heading: str) -> Bullet:
    """Render a fact as a bullet: its concept, value and dates on one line."""
    concept, fact = record.concept, record.fact
    value = one_line(_as_text(record.value, concept))
    named = "" if concept.is_statement else f"**{one_line(concept.keyword).replace('*', '&#42;')}**: "
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


def said_in(bullet: Bullet, concepts: Mapping[str, Concept[Any, Any]]) -> _Said:
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
        if not (worded := original(text)).strip():
            raise _blank(bullet.line)
        return _Said(bullet=bullet, concept=STATEMENT, value=_redacted(worded))
    wording = original(named["value"].strip())
    try:
        value = check_value(_value_in(wording, concept), concept.value_type)
    except FactMemError as error:
        raise InvalidDataError(f"line {bullet.line}: the value of {concept.keyword} is not legal: {error}") from None
    return _Said(bullet=bullet, concept=concept, value=_redacted(value))


def _same_value(concept: Concept[Any, Any], one: object, other: object) -> bool:
    return _identity(concept, one) == _identity(concept, other)


def _identity(concept: Concept[Any, Any], value: object) -> bytes:
    return canonical_bytes(encode_value(value, concept.value_type))


def _blank(line: int) -> InvalidDataError:
    return InvalidDataError(f"line {line}: the bullet is blank: write what to remember, or take it out")


def _redacted(value: Any) -> Any:
    return redact(value).text if type(value) is str else value


def _as_text(value: object, concept: Concept[Any, Any]) -> str:
    """Return a value as text, as JSON if the plain text would be parsed as another value."""
    plain = written(value, concept.value_type)
    try:
        if _same_value(concept, _value_in(plain, concept), value):
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


_TITLE: Final = "## What is known"
"""First line of a page."""

LONGEST_BULLET: Final = 4_000
"""Maximum length of a bullet, in characters; longer ones are left out of a page."""

_LEFT_OUT: Final = re.compile(r"_\d+ more are too long(?:,| or) too many[^_]*_")

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


def page_of(records: Iterable[FactRecord[Any]], homes: Sequence[Place], *, limit: int = 500, more: int = 0) -> Page:
    """Render facts as a page.

    Args:
        records: The facts, best first.
        homes: Places to which facts may be added even if they hold none yet; the first one always has a heading.
        limit: Maximum number of facts shown.
        more: Number of facts beside these, which count as left out.
    """
    records = list(records)
    places = _headings([*homes, *sorted({record.place for record in records}, key=_order)])
    headings = {place.key: heading for heading, place in places.items()}
    made = ((record, bullet_of(record, headings[record.place.key])) for record in records)
    fitting = list(itertools.islice((pair for pair in made if len(pair[1].text) <= LONGEST_BULLET), limit))
    fitting.sort(key=lambda pair: _position(pair[0]))
    shown = tuple((record.id, bullet) for record, bullet in fitting)
    left_out = len(records) - len(fitting) + more
    filled = {bullet.heading for _, bullet in shown}
    written = [heading for heading in places if heading in filled or heading == next(iter(places))]
    text = "\n".join(_lines(written, shown, left_out)) + "\n"
    return Page(text=text, shown=shown, places=places, left_out=left_out)


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
    heading, found = next(iter(places), ""), list[Bullet]()
    skipped = 0
    for number, line in enumerate(re.split(r"\r\n?|\n", visible(text)), start=first_line):
        if not line.strip():
            skipped += 1
            continue
        blank, skipped = skipped, 0
        if line.strip() == _TITLE or _LEFT_OUT.fullmatch(line.strip()):
            continue
        if head := _HEADING.fullmatch(line):
            heading = _known_heading(head["text"].strip(), places, number)
        elif new := _BULLET.fullmatch(line):
            found.append(Bullet(heading=_known_heading(heading, places, number), text=new["text"], line=number))
        elif _BLANK_BULLET.fullmatch(line):
            raise _blank(number)
        elif line[0] in " \t" and found and found[-1].heading == heading:
            more = "\n" * (blank + 1) + line.expandtabs(4).removeprefix("  ")
            found[-1] = attrs.evolve(found[-1], text=found[-1].text + more)
        else:
            raise InvalidDataError(f"line {number} is neither a bullet nor a heading: write '- ' before what is known")
    return found


def _known_heading(heading: str, places: Mapping[str, Place], line: int) -> str:
    if heading not in places:
        known = ", ".join(f"'### {place}'" for place in places)
        where = f"under this heading; there are {known}" if places else "here: name a scope for what is added"
        raise InvalidDataError(f"line {line}: nothing is kept {where}")
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


def _lines(headings: Sequence[str], shown: Sequence[tuple[str, Bullet]], left_out: int) -> Iterator[str]:
    yield _TITLE
    for heading in headings:
        yield ""
        yield f"### {heading}"
        if under := [bullet.text for _, bullet in shown if bullet.heading == heading]:
            yield ""
            yield from (f"- {text}" for text in under)
    if left_out:
        yield ""
        yield f"_{left_out} more are too long, too many, flagged or small talk, and not shown here._"


def _order(place: Place) -> tuple[int, str, tuple[int, int], str]:
    return (place.subject.priority_level, str(place.subject), place.scope.narrowness, str(place.scope))


def _position(record: FactRecord[Any]) -> tuple[object, ...]:
    free = record.is_statement
    return (*_order(record.place), free, record.concept.keyword, record.timestamp, record.revision)


_MOST_COMPARED: Final = 2_500
"""Maximum number of pairs of bullets compared by their words; beyond it, values are paired in order."""

_ALIKE: Final = 0.4

_WORD: Final = re.compile(r"\w+|[^\w\s]")


@attrs.frozen(kw_only=True)
class Edits:
    """The requested changes.

    Attributes:
        revised: Records with their new values.
        retracted: Records to retract.
        added: New values, each with its place.
    """

    revised: tuple[tuple[FactRecord[Any], Any], ...] = attrs.field(default=(), repr=False)
    retracted: tuple[FactRecord[Any], ...] = ()
    added: tuple[tuple[Place, _Said], ...] = ()

    def __bool__(self) -> bool:
        return bool(self.revised or self.retracted or self.added)


def reconciled(
    shown: Iterable[tuple[str, str]],
    bullets: Sequence[Bullet],
    *,
    page: Page,
    records: Mapping[str, FactRecord[Any]],
    concepts: Mapping[str, Concept[Any, Any]],
) -> Edits:
    """Return the changes that an edited page requests.

    An unchanged bullet changes nothing. An edited bullet revises its record: typed facts are matched by concept,
    statements by similarity. A missing bullet retracts its record. A new bullet adds a fact of the concept that it
    names, or else a statement. Changes that are in memory already are skipped, so edits may be read twice.

    Args:
        shown: Record ids and bullet digests of the page as it was rendered.
        bullets: Bullets of the edited page.
        page: The page as it would be rendered now.
        records: Current records by id.
        concepts: Concepts that a new bullet may name, beside those in use.

    Raises:
        InvalidDataError: A bullet has no legal value, or gives a second value of a concept with a single value.
        StateConflictError: An edited record has changed in the meantime.
    """
    return _Reconciliation(page, records, concepts).of(shown, bullets)


@attrs.frozen(eq=False)
class _Old:
    """A record whose bullet is not on the page any more.

    Attributes:
        record: The record.
        shown_as: Digest of the bullet that it was rendered as.
    """

    record: FactRecord[Any]
    shown_as: str


class _Reconciliation:
    """One comparison of a page as it was rendered with its edited bullets."""

    def __init__(
        self, page: Page, records: Mapping[str, FactRecord[Any]], concepts: Mapping[str, Concept[Any, Any]]
    ) -> None:
        self.page = page
        self.records = records
        self.concepts = {**{item.concept.keyword: item.concept for item in records.values()}, **concepts}
        self.headings = {place.key: heading for heading, place in page.places.items()}

    def of(self, shown: Iterable[tuple[str, str]], bullets: Sequence[Bullet]) -> Edits:
        touched, fresh = unmatched(shown, bullets)
        olds: dict[tuple[str, str], list[_Old]] = defaultdict(list)  # by heading and keyword
        news: dict[tuple[str, str], list[_Said]] = defaultdict(list)
        for id, digest in dict.fromkeys(touched):
            if (record := self.records.get(id)) is not None:
                olds[self._heading(record), record.concept.keyword].append(_Old(record, digest))
        for bullet in fresh:
            said = said_in(bullet, self.concepts)
            news[bullet.heading, said.concept.keyword].append(said)
        revised, gone, new = list[tuple[FactRecord[Any], Any]](), list[FactRecord[Any]](), list[_Said]()
        for key in dict.fromkeys((*olds, *news)):
            pairs = _paired(olds[key], news[key])
            for old, edited in pairs.items():
                if not _same_value(old.record.concept, old.record.value, edited.value):
                    revised.append((self._unchanged(old), edited.value))
            gone += [self._unchanged(old) for old in olds[key] if old not in pairs]
            taken = [edited.bullet for edited in pairs.values()]
            new += [said for said in news[key] if said.bullet not in taken]
        added = list[tuple[Place, _Said]]()
        for said in new:
            if not self._is_known(said, gone, added):
                added.append((self.page.places[said.bullet.heading], said))
        return Edits(revised=tuple(revised), retracted=tuple(gone), added=tuple(added))

    def _heading(self, record: FactRecord[Any]) -> str:
        return self.headings.get(record.place.key, "")

    def _unchanged(self, old: _Old) -> FactRecord[Any]:
        """Return a record, after checking that it is unchanged since it was rendered."""
        record = old.record
        if bullet_of(record, self._heading(record)).digest != old.shown_as:
            raise StateConflictError(
                f"what is known of {record.concept.keyword} was changed by somebody else as well: "
                "revert your edit of it, read the page again, and edit the new text"
            )
        return record

    def _is_known(self, item: _Said, gone: Iterable[FactRecord[Any]], added: Iterable[tuple[Place, _Said]]) -> bool:
        """Return whether a value is at its place already, or is about to be added."""
        place, concept = self.page.places[item.bullet.heading], item.concept
        lost = {record.id for record in gone}
        left = [record for record in self.records.values() if record.id not in lost]
        known = [(record.place, record.concept, record.value) for record in left]
        known += [(there, said.concept, said.value) for there, said in added]
        values = [value for there, of, value in known if there.key == place.key and of.keyword == concept.keyword]
        if any(_same_value(concept, value, item.value) for value in values):
            return True
        if values and concept.fact_type is FactType.SINGLE:
            raise InvalidDataError(
                f"line {item.bullet.line}: {concept.keyword} has one value, and another bullet gives it: edit that one"
            )
        return False


def _paired(olds: Sequence[_Old], news: Sequence[_Said]) -> dict[_Old, _Said]:
    """Pair new bullets with the records that they edit, all of one concept and place."""
    free = bool(news) and news[0].concept.is_statement
    if len(olds) * len(news) > _MOST_COMPARED:
        return {} if free else dict(zip(olds, news, strict=False))
    alike = [(_likeness(old, new), old, new) for old in olds for new in news]
    pairs: dict[_Old, _Said] = {}
    for likeness, old, new in sorted(alike, key=lambda item: -item[0]):
        if likeness >= _ALIKE and old not in pairs and new not in pairs.values():
            pairs[old] = new
    rest = [new for new in news if new not in pairs.values()]
    unpaired = [old for old in olds if old not in pairs]
    # A value in place of another one is an edit; a sentence in place of another one need not be.
    if len(rest) == len(unpaired) and not free:
        pairs.update(zip(unpaired, rest, strict=True))
    return pairs


def _likeness(old: _Old, new: _Said) -> float:
    """Return the similarity of two values by their words, from 0 to 1."""
    one, other = (_WORD.findall(str(value)) for value in (old.record.value, new.value))
    return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()


def unmatched(
    shown: Iterable[tuple[str, str]], bullets: Sequence[Bullet]
) -> tuple[list[tuple[str, str]], list[Bullet]]:
    """Return the records and the bullets that are left once unchanged bullets are matched."""
    waiting, fresh = grouped(shown, lambda pair: pair[1]), list[Bullet]()
    for bullet in bullets:
        if alike := waiting.get(bullet.digest):
            alike.pop(0)
        else:
            fresh.append(bullet)
    return [*itertools.chain.from_iterable(waiting.values())], fresh


async def applied(
    memory: Memory,
    edits: Edits,
    *,
    origin: Origin,
    source: str,
    private: bool,
    clock: Clock = system_clock,
    made: dict[Hashable, Sequence[Change]] | None = None,
) -> tuple[Change, ...]:
    """Apply edits to a memory.

    Args:
        memory: The memory, or the view of it that the page was rendered from.
        edits: The changes.
        origin: Origin of the edits; those of an untrusted origin are quarantined, and no record of a higher one is
            changed.
        source: Source of the edits.
        private: Whether added facts are private to the memory's viewer.
        clock: Clock for the timestamps of added facts.
        made: Changes of earlier calls by their edits, which are not repeated; those of this call are added.

    Returns:
        The changes made, with those earlier ones. A record in the state QUARANTINED has no effect until it is released.

    Raises:
        InvalidDataError: The edits retract facts, and their origin is not trusted; or they change or retract facts of a
            higher origin. Nothing was changed.
        FactMemError: As in `Memory.update`, `Memory.retract` and `Memory.save`; earlier changes are kept.
    """
    if edits.retracted and not origin.trusted:
        raise InvalidDataError(
            "known facts cannot be removed here: leave the bullet, and add what is right, or open a file that only "
            "the user edits with origin=Origin.USER"
        )
    touched = (*(record for record, _ in edits.revised), *edits.retracted)
    if origin.trusted and any(record.trust > origin.rank for record in touched):
        raise InvalidDataError(
            "this changes what the user said, and only the user's own words do that: leave the bullet as it is, and "
            "add what you found out as a sentence in a bullet of its own"
        )
    made = {} if made is None else made
    for record, value in edits.revised:
        edit: Hashable = record.id, _identity(record.concept, value)
        if edit not in made:
            made[edit] = [await memory.update(record.id, value=value, source=source, origin=origin)]
    if lost := tuple(record.id for record in edits.retracted):
        made[lost] = await memory.retract(*lost, reason=f"taken out of {source}")
    for place, said in edits.added:
        edit = place.key, said.concept.keyword, _identity(said.concept, said.value)
        if edit in made:
            continue
        fact = said.concept.fact([said.value], timestamp=clock())
        details = FactDetails(origin=origin, source=source)
        records = await memory.save(fact, subject=place.subject, scope=place.scope, details=details, private=private)
        waits = AssertionState.QUARANTINED
        made[edit] = [
            Change(kind=ChangeKind.UNCHANGED if record.state is waits else ChangeKind.CREATED, record=record)
            for record in records
        ]
    return tuple(itertools.chain.from_iterable(made.values()))
