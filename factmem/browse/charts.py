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

_MEANINGS: Final = {
    "similarity": "words and meaning together",
    "lexical": "words that agree",
    "semantic": "meaning that agrees",
    "named": "the query names the speaker, subject or concept",
    "other": "about others than the query asks about",
    "dated": "closeness to a time in the query",
    "reranked": "score of the reranker",
    "cosine": "raw closeness of the embeddings",
    "recency": "1 for now, halved with each half-life",
    "importance": "importance of the record",
}
_MOST_CONCEPTS: Final = 12
_MOST_VALUES: Final = 4
"""Maximum number of values drawn for one concept; the rest is counted."""


@attrs.frozen(kw_only=True)
class GraphNode:
    """One node of a graph: the subject, a concept, or a value.

    Attributes:
        label: Its text.
        ring: 0 for the subject in the middle, 1 for a concept, 2 for a value.
        x: Its place from left (-1) to right (1).
        y: Its place from top (-1) to bottom (1).
        record_id: The record of a value; None for the others, and for a count of further values.
    """

    label: str
    ring: int
    x: float
    y: float
    record_id: str | None = None


@attrs.frozen(kw_only=True)
class Graph:
    """The facts of one subject as a tree around it.

    Attributes:
        nodes: The subject first, then each concept before its values.
        edges: The lines between them, each with both its ends.
        left_out: Number of concepts that are not drawn.
    """

    nodes: tuple[GraphNode, ...]
    edges: tuple[tuple[GraphNode, GraphNode], ...]
    left_out: int = 0


def bars_of(parts: ScoreParts) -> list[tuple[str, float, str]]:
    """Return the parts of a score as bars: their names, their sizes from 0 to 1, and what they mean in a few words."""
    return [(name, min(1.0, max(0.0, share)), _MEANINGS[name]) for name, share in parts.by_name().items()]


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
    middle = GraphNode(label=subject, ring=0, x=0.0, y=0.0)
    nodes, edges = [middle], []
    leaves = [_leaves(values) for _, values in drawn]
    turn = 2 * math.pi / max(1, sum(map(len, leaves)))
    angle = -math.pi / 2
    for (keyword, _), labels in zip(drawn, leaves, strict=True):
        towards = angle + turn * (len(labels) - 1) / 2
        concept = GraphNode(label=keyword, ring=1, x=0.48 * math.cos(towards), y=0.48 * math.sin(towards))
        nodes.append(concept)
        edges.append((middle, concept))
        for label, id in labels:
            leaf = GraphNode(label=label, ring=2, x=math.cos(angle), y=math.sin(angle), record_id=id)
            nodes.append(leaf)
            edges.append((concept, leaf))
            angle += turn
    return Graph(nodes=tuple(nodes), edges=tuple(edges), left_out=len(by_concept) - len(drawn))


def _leaves(values: Sequence[FactRecord[Any]]) -> list[tuple[str, str | None]]:
    """Return the labels and ids of the values of one concept; the last one counts those that are not drawn."""
    named: list[tuple[str, str | None]] = [(value_of(it), it.id) for it in values[:_MOST_VALUES]]
    rest = len(values) - len(named)
    return [*named, (f"and {rest} more", None)] if rest else named
