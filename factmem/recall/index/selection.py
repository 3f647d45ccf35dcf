"""Selection of rows: filters, the choice of the strongest facts, and parts of a log.

Conditions on tracks (scope, subject, place, keyword) are evaluated once for each distinct head; the others on the rows
that are left.
"""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, assert_never

import attrs
import numpy as np

from factmem.abc.outlines import number_of_id
from factmem.facts import microseconds
from factmem.legal_names import composed
from factmem.recall.conditions import Between, Condition, Facet, OneOf, RecallFilter, Satisfies
from factmem.recall.index.column_fold import affected, takes_part
from factmem.recall.index.columns import FEW, Columns, among
from factmem.recall.index.corpus import Corpus, Mask, Rows
from factmem.recall.index.names_in_query import subject_names, subject_text
from factmem.recall.index.outline_codec import (
    ASSISTANT,
    JOB,
    LIMITED,
    MULTIPLE,
    NEVER,
    STATES,
    TELLS,
    TRUST_FROM,
    read_head,
)
from factmem.recall.strongest import Contenders, levels, strongest
from factmem.recall.text.analysis import plain
from factmem.records import AssertionState
from factmem.scopes import MemoryScope, ScopeKind
from factmem.short_work import may_wait
from factmem.views import Sight, View

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from factmem.recall.index.source import Library


def selected(corpus: Corpus, sight: Sight, wanted: RecallFilter) -> Rows:
    """Return the records that the caller sees and the filter keeps, in no order."""
    corpus = corpus.shown(sight)
    rows = kept_rows(corpus, sight, wanted)
    return corpus.seen(sight).rows if rows is None else rows


def kept_rows(corpus: Corpus, sight: Sight, wanted: RecallFilter) -> Rows | None:
    """Return the records that the caller sees and the filter keeps, ascending; None for all visible ones."""
    if wanted.empty and not wanted.strongest:
        return None
    heads, seen = _heads_of(corpus.columns, wanted), corpus.seen(sight)
    if heads is None or seen.few is not None:
        rows = seen.rows
        rows = rows if heads is None else rows[heads[corpus.heads[rows]]]
    else:
        held = heads[corpus.heads]
        rows = np.flatnonzero(held if seen.mask is None else held & seen.mask)
    rows = _passing(corpus.columns, rows, wanted, corpus.documents)
    return _strongest(corpus, rows, sight.view) if wanted.strongest else rows


_AT_A_TIME: Final = 2_000
"""Number of documents that are read at a time for conditions on texts."""


def _heads_of(columns: Columns, wanted: RecallFilter) -> Mask | None:
    """Return which heads pass the conditions on tracks; None if there are none."""
    if any(isinstance(condition, OneOf) and len(condition.values) > FEW for condition in wanted.conditions):
        may_wait()
    of = columns.all_of_heads()
    tests = [_holds_of_heads(columns, of, condition) for condition in wanted.conditions]
    on_tracks = [held for held in tests if held is not None]
    return np.logical_and.reduce(on_tracks) if on_tracks else None


def _holds_of_heads(columns: Columns, of: Mapping[str, NDArray[Any]], condition: Condition) -> Mask | None:
    """Return which heads meet a condition; None if it is not on tracks."""
    if isinstance(condition, Between):
        return None
    held: Mask
    match condition.facet:
        case Facet.SCOPE:
            if len(columns.scopes) > FEW:
                may_wait()
            scopes = [condition.holds(columns.scope(number)) for number in range(len(columns.scopes))]
            return np.array(scopes, np.bool_)[of["scope"]]
        case Facet.PLACE:
            held = _at_places(columns, of, condition.values)
        case Facet.SUBJECT:
            held = among(of["subject"], columns.numbers_of(condition.values))
        case Facet.KEYWORD:
            numbers = [number for folded in condition.values for number in columns.keywords.alike(folded)]
            held = among(of["keyword"], numbers)
        case Facet.SPEAKER:
            if len(columns.heads) > FEW:
                may_wait()
            names = (read_head(text).speaker for text in columns.heads.texts)
            speakers = (condition.holds(name and composed(name)) for name in names)
            return np.fromiter(speakers, np.bool_, len(of["scope"]))
        case Facet.RECORD_ID | Facet.CATEGORY | Facet.TOPIC | Facet.SOURCE | Facet.METADATA | Facet.TEXT:
            return None
        case _:
            assert_never(condition.facet)
    return np.not_equal(held, condition.negate)


def _at_places(columns: Columns, of: Mapping[str, NDArray[Any]], places: Iterable[tuple[Any, ...]]) -> Mask:
    mask = np.zeros(len(of["scope"]), np.bool_)
    for tenant, (kind, *path), subject in places:
        scope = columns.scopes.find(str(MemoryScope(ScopeKind(kind), tuple(path))))
        about = columns.subjects.find(subject_text(*subject))
        if tenant == columns.tenant and scope is not None and about is not None:
            mask |= (of["scope"] == scope) & (of["subject"] == about)
    return mask


def _passing(columns: Columns, rows: Rows, wanted: RecallFilter, documents: Library) -> Rows:
    """Return the rows of the columns, of some, that pass the conditions that are not on tracks.

    Only a condition on texts reads documents, some at a time.
    """
    for condition in wanted.conditions:
        held = _holds_of_rows(columns, rows, condition, documents)
        rows = rows if held is None else rows[held]
    return rows


_TAGS: Final = {Facet.CATEGORY: "categories", Facet.TOPIC: "topics", Facet.SOURCE: "sources"}


def _holds_of_rows(columns: Columns, rows: Rows, condition: Condition, documents: Library) -> Mask | None:
    """Return which rows meet a condition; None if it is on tracks."""
    held: Any
    match condition.facet:
        case Facet.CATEGORY | Facet.TOPIC | Facet.SOURCE as facet:
            held = columns.labels_with(_TAGS[facet], condition.values)[columns["labels"][rows]] != condition.negate
        case Facet.RECORD_ID:
            found = columns.find("record", map(number_of_id, condition.values))
            held = among(rows, found) != condition.negate
        case Facet.SAID_AT:
            held = _in_microseconds(condition).holds(columns["said_at"][rows])
        case Facet.RECORDED_AT:
            held = _in_microseconds(condition).holds(columns["recorded_at"][rows])
        case Facet.IMPORTANCE:
            held = condition.holds(columns["importance"][rows])
        case Facet.TELLS:
            held = condition.holds(columns["tells"][rows] & TELLS != 0)
        case Facet.OF_ASSISTANT:
            held = condition.holds((columns["signs"][rows] & ASSISTANT) != 0)
        case Facet.METADATA:
            may_wait()
            held = [condition.holds(json.loads(columns.metadata.get(row, "{}"))) for row in rows.tolist()]
        case Facet.TEXT:
            may_wait()
            held = _texts_pass(rows.tolist(), condition, documents)
        case Facet.SCOPE | Facet.SUBJECT | Facet.PLACE | Facet.KEYWORD | Facet.SPEAKER:
            return None
        case _:
            assert_never(condition.facet)
    return np.asarray(held, np.bool_)


def _texts_pass(rows: Sequence[int], condition: Satisfies, documents: Library) -> list[bool]:
    passed: list[bool] = []
    for start in range(0, len(rows), _AT_A_TIME):
        read = documents.read(rows[start : start + _AT_A_TIME])
        passed += [item is not None and condition.holds(plain(item.assertion.data)) for item in read]
    return passed


def _in_microseconds(condition: Between) -> Between:
    least, below, most = (
        bound if bound is None else microseconds(bound) for bound in (condition.least, condition.below, condition.most)
    )
    return Between(condition.facet, least, below=below, most=most)


def _strongest(corpus: Corpus, rows: Rows, view: View) -> Rows:
    """Keep the strongest of the typed facts; see `factmem.recall.strongest.strongest`."""
    may_wait()
    columns = corpus.columns
    free = columns.are_statements(rows)
    if free.all():
        return rows
    typed = rows[~free]
    firsts = corpus.layout.firsts[typed]
    typed = typed[np.lexsort((columns["seq"][firsts], columns["said_at"][firsts]))]
    return rows[free | among(rows, typed[strongest(_contenders(columns, typed, view))])]


def _contenders(columns: Columns, rows: NDArray[Any], view: View) -> Contenders:
    heads, of_rows = np.unique(columns["head"][rows], return_inverse=True)
    names = ("keyword", "subject", "priority", "scope")
    keywords, subjects, priorities, scopes = (columns.of_heads(name)[heads] for name in names)
    concepts, own = np.array(columns.keywords.kinds, np.intp)[keywords], columns.numbers_of(view.individuals or ())
    level = levels(
        concepts.tolist(),
        among(subjects, own).tolist(),
        [subject_names(columns.subjects.texts[subject])[0] for subject in subjects.tolist()],
        priorities.tolist(),
        list(map(columns.scope, scopes.tolist())),
    )
    subject, flags = columns.of_rows("subject", rows), columns["flags"][rows]
    return Contenders(
        concept=concepts[of_rows],
        level=level[of_rows],
        subject=subject,
        individual=columns.individuals()[subject],
        trust=flags >> TRUST_FROM,
        said_at=columns["said_at"][rows],
        several=(flags & MULTIPLE) != 0,
        value=columns["value"][rows],
    )


@attrs.frozen(kw_only=True)
class LogPart:
    """A selection of a log: the assertions that meet all of these conditions, with their changes of state.

    Attributes:
        ids: Ids of assertions.
        record_ids: Ids of records.
        seqs: Sequence numbers.
        conversations: Ids of conversations that the assertions cite.
        states: Present states.
        jobs: Only assertions with a job: they wait for a model, or once did.
        apart: Only assertions that did not count when they were recorded, such as quarantined ones.
        expired: Only assertions expired at this time.
        limited: Only assertions with a `FactDetails.revision_expires_at`.
        kept: A filter that they pass.
        related: Add all assertions that affect the current state of the selected records.
        sight: Only assertions whose place and owner a caller may see, those that `related` adds included.
    """

    ids: Collection[str] | None = None
    record_ids: Collection[str] | None = None
    seqs: Collection[int] | None = None
    conversations: Collection[str] | None = None
    states: Collection[AssertionState] | None = None
    jobs: bool = False
    apart: bool = False
    expired: dt.datetime | None = None
    limited: bool = False
    kept: RecallFilter | None = None
    related: bool = False
    sight: Sight | None = None


def rows_of(columns: Columns, part: LogPart, documents: Library) -> NDArray[np.intp]:
    """Return the rows of a part of a log, ascending."""
    rows = _named(columns, part)
    if part.states is not None:
        rows = rows[among(columns["state"][rows], [STATES.index(state) for state in part.states])]
    if part.jobs:
        rows = rows[(columns["flags"][rows] & JOB) != 0]
    if part.apart:
        rows = rows[~takes_part(columns["first_state"][rows], columns["flags"][rows])]
    if part.expired is not None:
        rows = rows[columns["expires_at"][rows] <= microseconds(part.expired)]
    if part.limited:
        rows = rows[(columns["signs"][rows] & LIMITED) != 0]
    if part.kept is not None:
        heads = _heads_of(columns, part.kept)
        rows = rows if heads is None else rows[heads[columns["head"][rows]]]
        rows = _passing(columns, rows, part.kept, documents)
    if part.related:
        rows = affected(columns, rows)
    return rows if part.sight is None else rows[columns.visible_heads(part.sight)[columns["head"][rows]]]


def _named(columns: Columns, part: LogPart) -> NDArray[np.intp]:
    named: list[Any] = []
    for name, ids in (("id", part.ids), ("record", part.record_ids)):
        if ids is not None:
            named.append(columns.find(name, map(number_of_id, ids)))
    if part.seqs is not None:
        named.append(np.flatnonzero(among(columns["seq"], [seq for seq in part.seqs if 0 < seq < NEVER])))
    if part.conversations is not None:
        named.append(columns.said_in(part.conversations))
    rows = np.arange(len(columns)) if not named else named[0]
    for others in named[1:]:
        rows = rows[among(rows, others)]
    return rows
