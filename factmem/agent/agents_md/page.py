"""A page of facts: bullets under headings that say whom they are about and where they hold."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from factmem.agent.agents_md.bullets import Bullet, bullet_of
from factmem.agent.agents_md.comments import visible
from factmem.agent.agents_md.escapes import one_line
from factmem.errors import InvalidDataError
from factmem.facts import STATEMENT
from factmem.records import FactRecord, Place
from factmem.scopes import MemoryScope

__all__ = ["LONGEST_BULLET", "TITLE", "Page", "bullets_in", "page_of"]

TITLE: Final = "## What is known"
"""The first line of a page."""
LONGEST_BULLET: Final = 4_000
"""Characters of the longest bullet that a page shows."""

_LEFT_OUT: Final = re.compile(r"_\d+ more are too long or too many to be shown here\._")
_BULLET: Final = re.compile(r" {0,1}[-*+][ \t]+(?P<text>.*)")
_BLANK_BULLET: Final = re.compile(r" {0,1}[-*+][ \t]*$")
_HEADING: Final = re.compile(r"#{1,6}[ \t]+(?P<text>.*)")


@attrs.frozen(kw_only=True)
class Page:
    """A page, and what its bullets stand for.

    Attributes:
        text: the page, as Markdown.
        shown: the records' ids in the order of the bullets, each with its bullet.
        places: where what is added under a heading goes, by heading; the first one is for what stands
            before any heading.
        left_out: how many facts are not shown.
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
        records: the facts, best first.
        homes: where something may be added although nothing is known there yet; the first one always has
            a heading.
        limit: how many facts to show at the most.
        longest: how many characters of Markdown a fact may take; longer ones are left out.
        more: how many facts there are beside these.
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
    """Return the bullets of a page that somebody may have edited.

    A line that is indented goes on with the bullet above it.

    Args:
        text: the page.
        places: the headings that it may have; see `Page.places`.
        first_line: the number of its first line, for errors.

    Raises:
        InvalidDataError: a line is neither a bullet nor one of these headings. The text names the line.
    """
    heading, found = next(iter(places)), list[Bullet]()
    skipped = 0
    for number, line in enumerate(re.split(r"\r\n?|\n", visible(text).text), start=first_line):
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
    """A heading for each place; where two would have the same, the second one is numbered."""
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
