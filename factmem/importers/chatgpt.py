"""ChatGPT: the data export, as the zip archive, its folder, or conversations.json alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from factmem.importers.contract import Found, ImportOptions, Lost, Row, Skipped, guarded
from factmem.importers.conversing import conversation
from factmem.importers.sources import Source

__all__ = ["read"]

_FILES: Final = r"conversations(-\d+)?\.json"
_WORDS: Final = frozenset({"text", "multimodal_text"})
"""Types of content that somebody said. Others are code, its results, quotes of pages, reasoning and settings."""


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the conversations as they ended: the branch of the current node. The memory list is in no export.

    Raises:
        FileFormatError: It is not such an export, or is unsafe.
    """
    for where, value in source.member_values(_FILES):
        yield from guarded(where, _talk, where, value, source, options)


def _talk(where: str, value: Any, source: Source, options: ImportOptions) -> Iterator[Found]:
    row = Row.of(where, value)
    nodes = row.mapping("mapping")
    branch = _branch(row, nodes)
    messages = [message for node in branch if (message := _message(node)) is not None]
    others = [
        node
        for id, value in nodes.items()
        if isinstance(value, Mapping) and _message(node := Row(f"{row.where}.mapping", value)) is not None
    ]
    if left := len(others) - len(messages):
        yield Lost("messages of branches that were edited away", left)
    if not messages:
        yield Skipped("nothing was said in them")
        return
    yield options.dialogue(
        conversation(row.where, messages, id=f"chatgpt/{row.text('id', 'conversation_id') or row.where}"),
        where=row.where,
        changed_at=row.time("create_time") or source.changed_at(),
    )


def _branch(row: Row, nodes: Mapping[str, Any]) -> list[Row]:
    """Return the nodes from the root to the current one."""
    at = row.text("current_node") or _newest(nodes)
    branch: list[Row] = []
    while at is not None and at in nodes:
        if len(branch) > len(nodes):
            raise row.fault("the messages form a circle", "mapping")
        node = Row.of(f"{row.where}.mapping[{len(nodes) - len(branch)}]", nodes[at])
        branch.append(node)
        at = node.text("parent")
    return branch[::-1]


def _newest(nodes: Mapping[str, Any]) -> str | None:
    """Return the last node without children, for a conversation that names no current one."""
    leaves = [id for id, node in nodes.items() if isinstance(node, Mapping) and not node.get("children")]
    return leaves[-1] if leaves else None


def _message(node: Row) -> dict[str, Any] | None:
    """Return a message as words of its speaker, or None if nobody said it to anybody."""
    message = Row(f"{node.where}.message", node.mapping("message"))
    author = Row(f"{message.where}.author", message.mapping("author"))
    content = Row(f"{message.where}.content", message.mapping("content"))
    hidden = message.mapping("metadata").get("is_visually_hidden_from_conversation")
    if content.text("content_type") not in _WORDS or hidden or message.data.get("recipient", "all") != "all":
        return None
    parts = [_part(part) for part in content.items("parts")]
    if author.text("role") not in ("user", "assistant", "tool") or not any(parts):
        return None
    return {
        "role": author.text("role"),
        "name": author.text("name"),
        "id": message.text("id"),
        "timestamp": message.data.get("create_time"),
        "content": parts,
    }


def _part(part: Any) -> Any:
    """Return a part as models' APIs write it."""
    match part:
        case {"content_type": _, "text": str() as text}:
            return {"type": "text", "text": text}
        case {"content_type": str() as kind}:
            return {"type": kind}
        case _:
            return part
