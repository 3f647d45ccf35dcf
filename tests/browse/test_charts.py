"""Charts as numbers."""

from __future__ import annotations

import datetime as dt

from factmem.browse.charts import graph_of, marks_of, tallies_of
from factmem.browse.rows import RecordRow
from factmem.records import AssertionState, Origin

NOON = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)


def row(keyword: str, value: str, *, days: float = 0) -> RecordRow:
    """Return a row of a concept."""
    said = NOON + dt.timedelta(days=days)
    return RecordRow(
        id=f"{keyword}-{value}",
        keyword=keyword,
        statement=False,
        value=value,
        shape="str",
        subject="user",
        general=False,
        scope="/product/x",
        said_at=said,
        recorded_at=said,
        revision=1,
        state=AssertionState.ACTIVE,
        origin=Origin.USER,
        importance=0.5,
        private=False,
    )


def test_tallies_are_sorted_and_share_the_largest() -> None:
    tallies = tallies_of({"b": 2, "c": 8, "a": 2})
    assert [(tally.name, tally.share) for tally in tallies] == [("c", 1.0), ("a", 0.25), ("b", 0.25)]
    assert tallies_of({}) == ()


def test_revisions_stand_on_the_timeline_where_they_were_said() -> None:
    marks = marks_of([row("seats", "1"), row("seats", "2", days=1), row("seats", "3", days=4)])
    assert [mark.position for mark in marks] == [0.0, 0.25, 1.0]
    together = marks_of([row("seats", "1"), row("seats", "2"), row("seats", "3")])
    assert [mark.position for mark in together] == [0.0, 0.5, 1.0]
    assert [mark.position for mark in marks_of([row("seats", "1")])] == [0.0]
    assert marks_of([]) == ()


def test_a_graph_counts_what_it_does_not_draw() -> None:
    rows = [row("tags", str(number)) for number in range(9)] + [row(f"c{number}", "x") for number in range(20)]
    graph = graph_of("user:maya", rows)
    assert sum(node.ring == 1 for node in graph.nodes) == 12
    assert graph.left_out == 21 - 12
    assert [node.label for node in graph.nodes if node.record_id is None and node.ring == 2] == ["and 5 more"]
    assert len(graph_of("user:leo", []).nodes) == 1
