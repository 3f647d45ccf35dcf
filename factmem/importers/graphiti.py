r"""Graphiti and Zep: the edges of the graph as JSON or JSON Lines, with nodes and episodes beside them.

There is no official export file. To write one where Graphiti runs::

    edges = await EntityEdge.get_by_group_ids(graphiti.driver, ["acme"])
    Path("edges.jsonl").write_text("".join(edge.model_dump_json() + "\n" for edge in edges), "utf-8")

``nodes.jsonl`` (of ``EntityNode``) names the subjects, and ``episodes.jsonl`` (of ``EpisodicNode``) holds the words
that facts come from. All three may also stand in one file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import attrs

from factmem.errors import FileFormatError
from factmem.facts import Concept
from factmem.importers.contract import Found, ImportOptions, Lost, scope_at
from factmem.importers.rows import Fields, Row, converted
from factmem.importers.sources import Source
from factmem.records import AssertionState, Evidence
from factmem.subjects import MemorySubject

__all__ = ["read"]

_FILES: Final = ("nodes", "episodes", "edges")
_LISTS: Final = ("nodes", "episodes", "edges", "facts")
_EPISODE_CHARS: Final = 32 * 1024 * 1024
"""Characters of episodes that are held to look for the words of facts."""

_EDGE: Final = Fields(
    value="fact",
    id="uuid",
    said="reference_time created_at",
    recorded="created_at",
    valid_from="valid_at",
    valid_to="invalid_at",
)


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the edges as facts about the node that they start from.

    Raises:
        FileFormatError: The folder holds no edges, or a file cannot be read.
    """
    graph = _Graph(options)
    files = {kind: source.file(f"{kind}.jsonl", f"{kind}.json") for kind in _FILES}
    if files["edges"] is None:
        raise FileFormatError(f"{source.path} holds no edges.jsonl: write the edges of EntityEdge.get_by_group_ids()")
    paths = [path for path in dict.fromkeys(files.values()) if path is not None]
    # Edges name nodes and episodes that may stand behind them, or in other files.
    for path in paths:
        for row in source.rows(path, *_LISTS):
            if isinstance(row, Row):
                graph.learn(row)
    for path in paths:
        yield from converted(source.rows(path, *_LISTS), graph.facts)


@attrs.define
class _Graph:
    """The nodes and episodes, by id."""

    options: ImportOptions
    nodes: dict[str, tuple[str, str]] = attrs.field(factory=dict)
    episodes: dict[str, str] = attrs.field(factory=dict)
    held: int = 0

    def learn(self, row: Row) -> None:
        """Remember a node or an episode. A malformed one is left to `facts` to report."""
        match row.data:
            case {"fact": _}:
                pass
            case {"uuid": str() as id, "content": str() as content} if self.held + len(content) <= _EPISODE_CHARS:
                self.episodes[id] = content
                self.held += len(content)
            case {"uuid": str() as id, "name": str() as name, "labels": list() as labels}:
                kinds = [label for label in labels if isinstance(label, str) and label != "Entity"]
                self.nodes[id] = (kinds[0].lower() if kinds else "entity", name)
            case _:
                pass

    def facts(self, row: Row) -> Iterator[Found]:
        """Yield the fact of an edge, or what a node or an episode has that is lost."""
        match row.data:
            case {"fact": _}:
                yield from self._fact(row)
            case {"content": _}:
                yield Lost("episodes as such (the words of a fact that stand in one are its evidence)")
            case {"labels": _} | {"summary": _}:
                if row.text("summary"):
                    yield Lost("summaries of nodes")
            case _:
                raise row.fault("neither an edge with a fact, nor a node, nor an episode")

    def _fact(self, row: Row) -> Iterator[Found]:
        group, target = row.text("group_id"), self.nodes.get(row.text("target_node_uuid") or "")
        yield from _EDGE.found(
            row,
            self.options,
            concept=Concept.multiple((row.text("name") or "relates to").lower(), "A relation in a graph of Graphiti"),
            subject=self._subject(row),
            scope=scope_at(("customer", group), self.options.scope) if group else None,
            state=AssertionState.ACTIVE if row.time("expired_at") is None else AssertionState.RETRACTED,
            metadata=dict(row.inner("attributes").data) | ({"target": target[1]} if target else {}),
            evidence=tuple(self._evidence(row, row.text("fact") or "")),
        )

    def _subject(self, row: Row) -> MemorySubject | None:
        node = self.nodes.get(row.text("source_node_uuid") or "")
        return None if node is None else MemorySubject(node[0]).individual(node[1])

    def _evidence(self, row: Row, text: str) -> Iterator[Evidence]:
        for id in row.texts("episodes"):
            if (start := self.episodes.get(id, "").find(text)) >= 0:
                yield Evidence(quote=text, message_id=id, start=start, end=start + len(text))
