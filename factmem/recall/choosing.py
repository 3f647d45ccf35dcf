"""Which of several facts of one concept an agent sees."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from factmem.facts import STATEMENT, FactType
from factmem.fold import Current
from factmem.recall.corpus import Corpus
from factmem.recall.filters import RecallFilter
from factmem.records import Assertion, Recorded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["chosen", "selected", "strength"]


def strength(said: Assertion) -> tuple[int, bool, tuple[int, int], float]:
    """Sort key of the level a fact stands on, strongest first.

    The stronger subject wins; then what is the viewer's own over what is public; then the narrower
    scope, a child before its parent; then the newer timestamp.
    """
    subject, scope = said.place.subject, said.place.scope
    return (
        subject.priority_level,
        said.details.owner is None,
        scope.narrowness,
        -_seconds(said.timestamp),
    )


def _seconds(moment: dt.datetime) -> float:
    return (moment - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)).total_seconds()


def selected(corpus: Corpus, viewer: str | None, wanted: RecallFilter) -> NDArray[np.bool_]:
    """Return which rows count, of shape (rows,): what the viewer may see and the filter keeps."""
    import numpy as np

    of_tracks = np.fromiter(map(wanted.track_test(), corpus.tracks), np.bool_, len(corpus.tracks))
    keep: NDArray[np.bool_] = corpus.visible(viewer) & of_tracks[corpus.track_numbers]
    if wanted.looks_at_records:
        _narrow(keep, corpus, wanted.record_test())
    if wanted.strongest:
        free = np.fromiter((said.keyword == STATEMENT.keyword for said in corpus.tracks), np.bool_, len(corpus.tracks))
        typed = np.flatnonzero(keep & ~free[corpus.track_numbers])
        standing = {row.recorded.id for row in chosen(corpus.rows[number] for number in typed.tolist())}
        keep[typed] = [corpus.rows[number].recorded.id in standing for number in typed.tolist()]
    return keep


def _narrow(keep: NDArray[np.bool_], corpus: Corpus, test: Callable[[Recorded], bool]) -> None:
    """Put a mask out where a test fails, in place."""
    import numpy as np

    candidates = np.flatnonzero(keep)
    keep[candidates] = [test(corpus.rows[number].recorded) for number in candidates.tolist()]


def chosen(current: Iterable[Current]) -> Sequence[Current]:
    """Return, of each concept, the one value of a SINGLE or the values of a MULTIPLE on the strongest level.

    A level is a subject's priority, an owner and a scope; the values of all places on the chosen
    level are united, an equal value of two places once.
    """
    by_concept: dict[str, list[Current]] = {}
    for item in current:
        by_concept.setdefault(item.recorded.assertion.keyword, []).append(item)
    return [kept for items in by_concept.values() for kept in _strongest(items)]


def _strongest(items: Sequence[Current]) -> list[Current]:
    ordered = sorted(items, key=lambda item: strength(item.recorded.assertion))
    first = ordered[0].recorded.assertion
    if first.fact_type is FactType.SINGLE:
        return [ordered[0]]
    united: dict[bytes, Current] = {}
    for item in sorted(items, key=lambda item: item.first_said):
        said = item.recorded.assertion
        if said.fact_type is FactType.MULTIPLE and strength(said)[:3] == strength(first)[:3]:
            united.setdefault(said.slot, item)
    return list(united.values())
