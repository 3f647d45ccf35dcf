"""Letta: agent files (``.af``), with their memory blocks and last messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final

from factmem.errors import FileFormatError
from factmem.importers.contract import Found, ImportOptions, Lost, individual
from factmem.importers.rows import Fields, Row, converted
from factmem.importers.sources import Source
from factmem.records import Origin
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

__all__ = ["read"]

_SAYING: Final = "send_message"
"""The tool by which agents of earlier versions speak; the text of such a message is what the agent thought."""

_LINE: Final = Fields(origin=Origin.ASSISTANT)


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield each line of the blocks as a statement of the agent, and the messages as a conversation.

    Raises:
        FileFormatError: It is not an agent file.
    """
    file = source.document(source.needed("agent.af"))
    agents = [*file.rows("agents")] if "agents" in file.data else [file]
    if not any(key in file.data for key in ("agents", "core_memory", "messages")):
        raise FileFormatError(f"{source.path} holds no agents: is it an agent file of Letta?")
    blocks = {block.text("id"): block for block in file.rows("blocks")}
    yield from converted(agents, lambda agent: _agent(agent, blocks, source, options))
    for key, what in (("tools", "tools"), ("files", "files"), ("sources", "sources of files")):
        if count := len(file.items(key)):
            yield Lost(what, count)


def _agent(agent: Row, blocks: Mapping[str | None, Row], source: Source, options: ImportOptions) -> Iterator[Found]:
    name = agent.text("name") or "letta"
    own = [blocks[id] for id in agent.texts("block_ids") if id in blocks] or [*agent.rows("core_memory")]
    yield from converted(own, lambda block: _block(block, name, source, options))
    yield Lost("archival memory, which an agent file does not hold")
    said = [message for row in agent.rows("messages") if (message := _message(row)) is not None]
    if said:
        yield Lost("messages before the last ones, which an agent file does not hold")
        yield from options.dialogue(
            said,
            where=agent.where,
            id=f"letta/{agent.text('id') or name}",
            changed_at=source.changed_at(),
            scope=MemoryScope.agent(name),
        )


def _block(block: Row, agent: str, source: Source, options: ImportOptions) -> Iterator[Found]:
    label = block.required("label")
    lines = [line.strip() for line in (block.text("value") or "").splitlines() if line.strip()]
    for number, line in enumerate(lines, 1):
        yield from _LINE.found(
            Row(f"{block.where}.value line {number}", {}),
            options,
            values=(line,),
            undated=source.changed_at(),
            key=f"{agent}/{label}/{number}",
            subject=_subject(label, agent, options),
            scope=MemoryScope.agent(agent),
            categories=(label,),
        )


def _subject(label: str, agent: str, options: ImportOptions) -> MemorySubject:
    match label:
        case "human":
            return options.subject if options.subject != MemorySubject.EVERYTHING else MemorySubject("user")
        case "persona":
            return individual(agent, of="agent")
        case _:
            return options.subject


def _message(row: Row) -> dict[str, Any] | None:
    """Return a message as words of its speaker, or None if nobody said it."""
    role = row.text("role")
    spoken = [text for call in row.rows("tool_calls") if (text := _sent(call)) is not None]
    if role == "assistant" and spoken:
        content: Any = "\n".join(spoken)
    elif role in ("user", "assistant") and not row.items("tool_calls"):
        content = row.data.get("content", row.data.get("text"))
    else:
        return None
    if role == "user":
        content = _unwrapped(content)
    return None if content is None else {"role": role, "content": content, "timestamp": row.data.get("created_at")}


def _sent(call: Row) -> str | None:
    function = call.inner("function").data
    if function.get("name") != _SAYING:
        return None
    try:
        arguments = json.loads(str(function.get("arguments")))
    except (ValueError, RecursionError):
        return None
    return str(arguments["message"]) if isinstance(arguments, dict) and "message" in arguments else None


def _unwrapped(content: Any) -> Any:
    """Return the words of a user, which Letta wraps in JSON; None for an event that nobody said."""
    parts = content if isinstance(content, list) else [{"type": "text", "text": content}]
    match parts:
        case [{"text": str() as text}]:
            pass
        case _:
            return content
    try:
        event = json.loads(text)
    except (ValueError, RecursionError):
        return text
    match event:
        case {"type": "user_message", "message": str() as message}:
            return message
        case {"type": str()}:
            return None
        case _:
            return text
