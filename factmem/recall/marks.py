"""Marks on results: statements that a newer record overtakes, and statements whose fact was retracted.

Marks come from the corpus of the search, so they are of its moment, and from records that the caller may see:

- A later statement of the same matter overtakes a statement, and scores higher; see `factmem.recall.index.overtaking`.
- A fact found in the same message has another value by now.
- A fact found in the same message was retracted or removed. Nothing is written for this: restoring the fact removes the
  mark.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs
import numpy as np

from factmem.details import Evidence
from factmem.facts import STATEMENT, Concept, microseconds
from factmem.recall.conditions import Facet, RecallFilter
from factmem.recall.index.column_fold import of_one_record, takes_part
from factmem.recall.index.columns import among
from factmem.recall.index.corpus import Corpus
from factmem.recall.index.outline_codec import REMOVED
from factmem.recall.index.overtaking import Updated
from factmem.recall.results import RecallMatch, hydrate
from factmem.records import FactRecord, Recorded
from factmem.views import Sight

if TYPE_CHECKING:
    from numpy.typing import NDArray

_Message: TypeAlias = tuple[str, str]

_OF_PLACES: Final = (Facet.SCOPE, Facet.SUBJECT, Facet.PLACE)
"""Conditions of a filter that bound what is read for marks."""


def marked(
    corpus: Corpus,
    matches: Sequence[RecallMatch],
    *,
    sight: Sight,
    wanted: RecallFilter,
    concepts: Mapping[str, Concept[Any, Any]],
) -> list[RecallMatch]:
    """Return the results, each with `RecallMatch.newer` and `RecallMatch.retracted` set.

    This may block; see `factmem.short_work`.

    Args:
        corpus: The corpus of the search.
        matches: The results.
        sight: What the caller may see.
        wanted: The filter of the search, of which the places bound what is read.
        concepts: The declared concepts by keyword.
    """
    marks = _Marks(corpus.shown(sight), sight, wanted)
    if not (len(marks.overtaken.older) or len(marks.corpus.retired)):
        return list(matches)
    rows = _rows(marks.corpus, [match.record for match in matches])
    if not (marks.newest(rows) or marks.retired_near(rows)):
        return list(matches)
    found = zip(rows.tolist(), [match.record for match in matches], strict=True)
    said = {row: of.evidence for row, of in found if row >= 0 and of.is_statement and isinstance(of.value, str)}
    drawn, later = marks.drawn(said), marks.later([*said])
    marked = [*matches]
    for place, row in enumerate(rows.tolist()):
        if row in drawn or row in later:
            changed, retracted = drawn.get(row, (None, False))
            newer = later.get(row) if changed is None else changed
            marked[place] = attrs.evolve(marked[place], newer=marks.shown(newer, concepts), retracted=retracted)
    return marked


def rows_of_marks(corpus: Corpus, rows: NDArray[np.intp], *, sight: Sight, wanted: RecallFilter) -> list[int]:
    """Return the rows that `marked` may read for some results.

    Args:
        corpus: See `marked`.
        rows: The results.
        sight: See `marked`.
        wanted: See `marked`.
    """
    return _Marks(corpus.shown(sight), sight, wanted).may_read(rows)


def still_true(matches: Sequence[RecallMatch]) -> list[FactRecord[Any]]:
    """Return the records that still hold: overtaken ones replaced by the newer record, retracted ones left out.

    Args:
        matches: The results, best first; the records keep this order. A typed fact takes the place of a statement only
            where the results hold no value of its concept.
    """
    gone = {match.record.id for match in matches if match.retracted or match.newer is not None}
    keywords = {match.record.concept.keyword for match in matches} - {STATEMENT.keyword}
    kept: dict[str, FactRecord[Any]] = {}
    for match in matches:
        if match.newer is not None:
            if match.newer.id not in gone and match.newer.concept.keyword not in keywords:
                kept.setdefault(match.newer.id, match.newer)
        elif not match.retracted:
            kept.setdefault(match.record.id, match.record)
    return list(kept.values())


def _rows(corpus: Corpus, records: Sequence[FactRecord[Any]]) -> NDArray[np.intp]:
    """Return the rows of records; -1 for those that are not in the corpus."""
    revisions = np.array([record.revision for record in records], np.int64)
    seqs = corpus.columns["seq"][: len(corpus.counts)]
    if not len(seqs):
        return np.full(len(records), -1)
    rows = seqs.searchsorted(revisions)
    return np.where(seqs.take(rows, mode="clip") == revisions, rows, -1)


@attrs.frozen(eq=False)
class _Marks:
    """Search for records that overtake results, among records that the caller may see; see `marked`."""

    corpus: Corpus
    sight: Sight
    wanted: RecallFilter

    @functools.cached_property
    def overtaken(self) -> Updated:
        """The statements that others overtake, of those that the caller sees."""
        return self.corpus.seen(self.sight).overtaken

    def may_read(self, rows: NDArray[np.intp]) -> list[int]:
        """Return all rows that marking some results may read. The values that are read decide which ones."""
        columns = self.corpus.columns
        said = rows[columns.are_statements(rows)].tolist()
        later = list(dict.fromkeys(self.newest(said).values()))
        gone = self.retired_near(np.array([*said, *later], np.intp))
        if not gone:
            return later
        records = (of_one_record(columns, row, len(self.corpus.counts)) for row in gone)
        present = [row for row in map(self._standing, records) if row is not None]
        spoken = [row for row in (*said, *later) if columns["conversation"][row]]
        beside = [row for statement in spoken for row in self._beside(statement)]
        return list(dict.fromkeys([*later, *gone, *present, *beside]))

    def shown(self, row: int | None, concepts: Mapping[str, Concept[Any, Any]]) -> FactRecord[Any] | None:
        """Return the record of a row, if there is one."""
        if row is None:
            return None
        (current,) = self.corpus.currents(np.array([row], np.intp))
        return None if current is None else hydrate(current, concepts)

    def later(self, rows: Sequence[int]) -> dict[int, int]:
        """Return the newest statement that overtakes each of some, by rows, unless it was retracted."""
        found = self.newest(rows)
        read = self._read(list(dict.fromkeys(found.values()))) if found else {}
        drawn = self.drawn({row: item.assertion.details.evidence for row, item in read.items()})
        return {row: by for row, by in found.items() if by in read and not drawn.get(by, (None, False))[1]}

    def newest(self, rows: Sequence[int] | NDArray[np.intp]) -> dict[int, int]:
        """Return the newest statement that overtakes each of some rows, by rows; only for those that have one."""
        overtaken = self.overtaken
        found = among(overtaken.older, np.array(rows, np.intp))
        return dict(zip(overtaken.older[found].tolist(), overtaken.newer[found].tolist(), strict=True))

    def drawn(self, said: Mapping[int, Sequence[Evidence]]) -> dict[int, tuple[int | None, bool]]:
        """Return the fate of the facts found in the messages of statements, by their rows.

        The fate is the fact's present row, if its value changed since and nothing of the message still holds, and
        whether a fact was retracted.

        Args:
            said: The evidence of the statements, by their rows.
        """
        near = self.retired_near(np.array([*said], np.intp))
        if not near:
            return {}
        gone = {row: item for row, item in self._read(near).items() if _found(item)}
        by_message: dict[_Message, list[int]] = {}
        for row, item in gone.items():
            for message in _messages(item.assertion.details.evidence):
                by_message.setdefault(message, []).append(row)
        found: dict[int, tuple[int | None, bool]] = {}
        for row, evidence in said.items():
            messages = _messages(evidence)
            facts = [fact for message in messages for fact in by_message.get(message, ()) if fact != row]
            fates = [self._fate(fact, messages, row) for fact in facts]
            news = [new for new, _ in fates if new is not None]
            taken = any(retracted for _, retracted in fates)
            if news and self._holds(row, messages):
                news = []  # part of the message still holds
            if taken or news:
                found[row] = (max(news, default=None), taken)
        return found

    def retired_near(self, rows: NDArray[np.intp]) -> list[int]:
        """Return the rows that are no longer current, from about the same messages as some others."""
        columns, retired = self.corpus.columns, self.corpus.retired
        if not len(retired) or not len(rows):
            return []
        near = np.isin(columns["conversation"][retired], columns["conversation"][rows])
        near &= np.isin(columns["position"][retired], columns["position"][rows])
        return retired[near].tolist()

    def _beside(self, row: int) -> list[int]:
        """Return the other rows that count, from the same place in the conversation."""
        columns, size = self.corpus.columns, len(self.corpus.counts)
        same = columns["conversation"][:size] == columns["conversation"][row]
        same &= columns["position"][:size] == columns["position"][row]
        same &= self.corpus.counts
        same[row] = False
        return np.flatnonzero(same).tolist()

    def _holds(self, row: int, messages: Collection[_Message]) -> bool:
        """Return whether a fact found in one of a statement's messages is current."""
        current, read = self.corpus.layout.current, self._read(self._beside(row))
        return any(_found(item) and current[fact] and _cites(item, messages) for fact, item in read.items())

    def _fate(self, row: int, messages: Collection[_Message], result: int) -> tuple[int | None, bool]:
        """Return the row that replaced a fact, if it may be shown, and whether the fact was retracted."""
        columns, counts = self.corpus.columns, self.corpus.counts
        rivals = of_one_record(columns, row, len(counts))
        standing = self._standing(rivals)
        now = None if standing is None else self.corpus.documents.read([standing])[0]
        if standing is not None and (
            now is None or columns["value"][standing] == columns["value"][row] or _cites(now, messages)
        ):
            return None, False
        if not counts[row]:  # it was taken back if it counted once, and has not expired
            counted = takes_part(columns["first_state"][row], columns["flags"][row])
            return None, bool(counted and columns["expires_at"][row] > microseconds(self.corpus.moment.present))
        if now is not None:
            return (standing if standing != result and self._sees(now) else None), False
        removed = counts[rivals] & ((columns["flags"][rivals] & REMOVED) != 0)
        return None, bool(removed.any())

    def _standing(self, rows: NDArray[np.intp]) -> int | None:
        """Return the current row among those of one record, if there is one."""
        standing = rows[self.corpus.layout.current[rows]]
        return int(standing[0]) if len(standing) else None

    def _read(self, rows: Sequence[int]) -> dict[int, Recorded]:
        """Read the rows that the caller may see, at the filter's places."""
        read = zip(rows, self.corpus.documents.read(rows), strict=True)
        return {row: item for row, item in read if item is not None and self._sees(item)}

    def _sees(self, item: Recorded) -> bool:
        return self.sight.sees(item.assertion) and self.wanted.keeps(item, _OF_PLACES)


def _found(item: Recorded) -> bool:
    """Return whether an assertion is a fact found in a text, and not the text itself."""
    said = item.assertion
    return not said.is_statement or all(quote.quote != said.data for quote in said.details.evidence)


def _cites(item: Recorded, messages: Collection[_Message]) -> bool:
    """Return whether an assertion cites one of some messages."""
    return not set(messages).isdisjoint(_messages(item.assertion.details.evidence))


def _messages(evidence: Sequence[Evidence]) -> list[_Message]:
    """Return the conversations and messages that evidence cites, if it names both."""
    return [
        (item.conversation_id, item.message_id)
        for item in evidence
        if item.conversation_id is not None and item.message_id is not None
    ]
