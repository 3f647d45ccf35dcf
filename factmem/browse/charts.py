"""Charts as numbers: bars of a score, marks on a timeline, the graph of a subject. Browsers only draw them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from typing import Any, Final

import attrs

from factmem.browse.record_rows import value_of
from factmem.recall.results import ScoreParts
from factmem.records import FactRecord
from factmem.toml_tables import table

_MOST_CONCEPTS: Final = 12
_MOST_VALUES: Final = 4
"""Maximum number of values drawn for one concept; the rest is counted."""


@attrs.frozen(kw_only=True)
class GraphNode:
    """One node of a graph: the subject, a concept, or a value.

    Attributes:
        label: Its text.
        x: Its place from left (-1) to right (1).
        y: Its place from top (-1) to bottom (1).
        parent: The node that it is joined to; None for the subject in the middle.
        record_id: The record of a value; None for the others, and for a count of further values.
    """

    label: str
    x: float
    y: float
    parent: GraphNode | None = None
    record_id: str | None = None

    @property
    def ring(self) -> int:
        """0 for the subject, 1 for a concept, 2 for a value."""
        return 0 if self.parent is None else self.parent.ring + 1


@attrs.frozen(kw_only=True)
class Graph:
    """The facts of one subject as a tree around it.

    Attributes:
        nodes: The subject first, then each concept before its values.
        left_out: Number of concepts that are not drawn.
    """

    nodes: tuple[GraphNode, ...]
    left_out: int = 0


def bars_of(parts: ScoreParts) -> list[tuple[str, float, str]]:
    """Return the parts of a score as bars: their names, their sizes from 0 to 1, and what they mean in a few words."""
    meanings = table("browse/score_parts")
    return [(name, min(1.0, max(0.0, share)), meanings[name]) for name, share in parts.by_name().items()]


def marks_of(revisions: Sequence[FactRecord[Any]]) -> tuple[tuple[FactRecord[Any], float], ...]:
    """Return the revisions of a record with their places on a timeline from 0 to 1, oldest first.

    They are equally spaced if all were said at one time.
    """
    times = [record.timestamp for record in revisions]
    if not times:
        return ()
    span = max(times) - min(times)
    if span <= dt.timedelta():
        steps = max(1, len(times) - 1)
        return tuple((record, number / steps) for number, record in enumerate(revisions))
    return tuple((record, (record.timestamp - min(times)) / span) for record in revisions)


def graph_of(subject: str, records: Sequence[FactRecord[Any]]) -> Graph:
    """Return the facts of a subject as a graph: concepts around it, and values around each concept.

    Args:
        subject: Name of the subject.
        records: Its facts, the most important first; those of the first concepts are drawn.
    """
    by_concept: dict[str, list[FactRecord[Any]]] = {}
    for record in records:
        by_concept.setdefault(record.concept.keyword, []).append(record)
    drawn = list(by_concept.items())[:_MOST_CONCEPTS]
    middle = GraphNode(label=subject, x=0.0, y=0.0)
    nodes = [middle]
    leaves = [_leaves(values) for _, values in drawn]
    turn = 2 * math.pi / max(1, sum(map(len, leaves)))
    angle = -math.pi / 2
    for (keyword, _), labels in zip(drawn, leaves, strict=True):
        towards = angle + turn * (len(labels) - 1) / 2
        concept = GraphNode(label=keyword, x=0.48 * math.cos(towards), y=0.48 * math.sin(towards), parent=middle)
        nodes.append(concept)
        for label, id in labels:
            nodes.append(GraphNode(label=label, x=math.cos(angle), y=math.sin(angle), parent=concept, record_id=id))
            angle += turn
    return Graph(nodes=tuple(nodes), left_out=len(by_concept) - len(drawn))


def _leaves(values: Sequence[FactRecord[Any]]) -> list[tuple[str, str | None]]:
    """Return the labels and ids of the values of one concept; the last one counts those that are not drawn."""
    named: list[tuple[str, str | None]] = [(value_of(it), it.id) for it in values[:_MOST_VALUES]]
    rest = len(values) - len(named)
    return [*named, (f"and {rest} more", None)] if rest else named
