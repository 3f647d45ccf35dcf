"""Charts as numbers."""

from __future__ import annotations

import datetime as dt

from factmem.browse.charts import graph_of, marks_of
from factmem.browse.record_rows import ranked
from factmem.facts import Concept, SingleFact
from factmem.records import FactDetails, FactRecord
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

NOON = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)


def record(keyword: str, value: str, *, days: float = 0) -> FactRecord[str]:
    """Return a record of a concept."""
    said = NOON + dt.timedelta(days=days)
    return FactRecord(
        id=f"{keyword}-{value}",
        fact=SingleFact(Concept.single(keyword, ""), value, timestamp=said),
        subject=MemorySubject("user"),
        scope=MemoryScope.product("x"),
        details=FactDetails(),
        revision=1,
        recorded_at=said,
    )


def test_names_are_ranked_by_their_numbers_of_records() -> None:
    assert ranked({"b": 2, "c": 8, "a": 2}) == [("c", 8), ("a", 2), ("b", 2)]


def test_revisions_stand_on_the_timeline_where_they_were_said() -> None:
    def places(*days: float) -> list[float]:
        return [place for _, place in marks_of([record("seats", "1", days=day) for day in days])]

    assert places(0, 1, 4) == [0.0, 0.25, 1.0]
    assert places(0, 0, 0) == [0.0, 0.5, 1.0]
    assert places(0) == [0.0]
    assert places() == []


def test_a_graph_counts_what_it_does_not_draw() -> None:
    records = [record("tags", str(number)) for number in range(9)] + [record(f"c{number}", "x") for number in range(20)]
    graph = graph_of("user:maya", records)
    assert sum(node.ring == 1 for node in graph.nodes) == 12
    assert graph.left_out == 21 - 12
    assert [node.label for node in graph.nodes if node.record_id is None and node.ring == 2] == ["and 5 more"]
    assert len(graph_of("user:leo", []).nodes) == 1
