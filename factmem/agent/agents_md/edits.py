"""Changes of facts requested by edits of a page, and their application."""

from __future__ import annotations

import difflib
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import attrs

from factmem.abc import system_clock
from factmem.abc.clock import Clock
from factmem.agent.agents_md.page import Bullet, Page, Said, bullet_of, said_in, same_value
from factmem.changes import Change, ChangeKind
from factmem.errors import InvalidDataError, StateConflictError
from factmem.facts import STATEMENT, Concept, FactType
from factmem.memory.facade import Memory
from factmem.records import FactDetails, FactRecord, Origin, Place

__all__ = ["Edits", "applied", "reconciled"]

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
    added: tuple[tuple[Place, Said], ...] = ()

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
        touched, fresh = _unmatched(shown, bullets)
        groups: dict[tuple[str, str], tuple[list[tuple[str, str]], list[tuple[Bullet, Said]]]]
        groups = defaultdict(lambda: ([], []))
        for id, digest in touched:
            if (record := self.records.get(id)) is not None:
                groups[self._heading(record), record.concept.keyword][0].append((id, digest))
        for bullet in fresh:
            said = said_in(bullet, self.concepts)
            groups[bullet.heading, said.concept.keyword][1].append((bullet, said))
        revised, gone, new = list[tuple[FactRecord[Any], Any]](), list[str](), list[tuple[Bullet, Said]]()
        for olds, news in groups.values():
            pairs = self._paired(olds, news)
            revised += [self._revision(old, said) for old, (_, said) in pairs if not self._is_same(old, said)]
            gone += [self._unchanged(old) for old in olds if old not in [pair[0] for pair in pairs]]
            new += [item for item in news if item not in [pair[1] for pair in pairs]]
        added = list[tuple[Place, Said]]()
        for bullet, said in new:
            if not self._is_known(bullet, said, gone, added):
                added.append((self.page.places[bullet.heading], said))
        return Edits(revised=tuple(revised), retracted=tuple(self.records[id] for id in gone), added=tuple(added))

    def _heading(self, record: FactRecord[Any]) -> str:
        return self.headings[Place(record.subject, record.scope).key]

    def _is_same(self, old: tuple[str, str], said: Said) -> bool:
        record = self.records[old[0]]
        return same_value(record.concept, record.value, said.value)

    def _revision(self, old: tuple[str, str], said: Said) -> tuple[FactRecord[Any], Any]:
        return self.records[self._unchanged(old)], said.value

    def _unchanged(self, old: tuple[str, str]) -> str:
        """Return the id of a record, after checking that it is unchanged since it was rendered."""
        id, shown_as = old
        record = self.records[id]
        if bullet_of(record, self._heading(record)).digest != shown_as:
            raise StateConflictError(
                f"what is known of {record.concept.keyword} was changed by somebody else as well: "
                "revert your edit of it, read the page again, and edit the new text"
            )
        return id

    def _paired(
        self, olds: Sequence[tuple[str, str]], news: Sequence[tuple[Bullet, Said]]
    ) -> list[tuple[tuple[str, str], tuple[Bullet, Said]]]:
        """Pair new bullets with the records that they edit, all of one concept and place."""
        free = bool(news) and news[0][1].concept.keyword == STATEMENT.keyword
        if len(olds) * len(news) > _MOST_COMPARED:
            return [] if free else list(zip(olds, news, strict=False))
        alike = [(self._likeness(old, new), old, number) for old in olds for number, new in enumerate(news)]
        pairs: dict[tuple[str, str], int] = {}
        for likeness, old, number in sorted(alike, key=lambda item: -item[0]):
            if likeness >= _ALIKE and old not in pairs and number not in pairs.values():
                pairs[old] = number
        rest = [number for number in range(len(news)) if number not in pairs.values()]
        unpaired = [old for old in olds if old not in pairs]
        # A value in place of another one is an edit; a sentence in place of another one need not be.
        if len(rest) == len(unpaired) and not free:
            pairs.update(zip(unpaired, rest, strict=True))
        return [(old, news[number]) for old, number in pairs.items()]

    def _likeness(self, old: tuple[str, str], new: tuple[Bullet, Said]) -> float:
        """Return the similarity of two values by their words, from 0 to 1."""
        one, other = (_WORD.findall(str(value)) for value in (self.records[old[0]].value, new[1].value))
        return difflib.SequenceMatcher(None, one, other, autojunk=False).ratio()

    def _is_known(self, bullet: Bullet, said: Said, gone: Sequence[str], added: Sequence[tuple[Place, Said]]) -> bool:
        """Return whether a value is at its place already, or is about to be added."""
        place, concept = self.page.places[bullet.heading], said.concept
        values = [
            record.value
            for record in self.records.values()
            if record.id not in gone
            and record.concept.keyword == concept.keyword
            and Place(record.subject, record.scope).key == place.key
        ]
        values += [
            other.value for there, other in added if there.key == place.key and other.concept.keyword == concept.keyword
        ]
        if any(same_value(concept, value, said.value) for value in values):
            return True
        if values and concept.fact_type is FactType.SINGLE:
            raise InvalidDataError(
                f"line {bullet.line}: {concept.keyword} has one value, and another bullet gives it: edit that one"
            )
        return False


def _unmatched(
    shown: Iterable[tuple[str, str]], bullets: Sequence[Bullet]
) -> tuple[list[tuple[str, str]], list[Bullet]]:
    """Return the records and the bullets that are left once unchanged bullets are matched."""
    waiting: dict[str, list[str]] = defaultdict(list)
    for id, digest in shown:
        waiting[digest].append(id)
    fresh = []
    for bullet in bullets:
        if ids := waiting.get(bullet.digest):
            ids.pop(0)
        else:
            fresh.append(bullet)
    return [(id, digest) for digest, ids in waiting.items() for id in ids], fresh


async def applied(
    memory: Memory,
    edits: Edits,
    *,
    origin: Origin,
    source: str,
    private: bool,
    clock: Clock = system_clock,
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

    Returns:
        The changes made. A record in the state QUARANTINED has no effect until it is released.

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
    changes = [
        await memory.update(record.id, value=value, source=source, origin=origin) for record, value in edits.revised
    ]
    if edits.retracted:
        changes += await memory.retract(*(record.id for record in edits.retracted), reason=f"taken out of {source}")
    for place, said in edits.added:
        fact = said.concept.fact([said.value], timestamp=clock())
        details = FactDetails(origin=origin, source=source)
        records = await memory.save(fact, subject=place.subject, scope=place.scope, details=details, private=private)
        changes += [Change(kind=ChangeKind.CREATED, record=record) for record in records]
    return tuple(changes)
