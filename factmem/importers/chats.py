"""Conversations of other systems: exports of ChatGPT and Claude, histories of LangChain, OpenAI Agents and pydantic-ai.

Each is read as messages with role and content, which `factmem ingest` reads as well. Calls of tools, reasoning and
hidden turns are nobody's words.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any, Final, TypeAlias

from factmem.importers.contract import Dialogue, Found, ImportOptions, Lost, Problem, Skipped
from factmem.importers.rows import UNDATED, Row, converted, guarded, parsed
from factmem.importers.sources import Source
from factmem.scopes import MemoryScope

Said: TypeAlias = tuple[str, dict[str, Any] | None]
"""A message, or None if it is nobody's words, with the id of its conversation."""


# -- Exports: one value is one conversation ---------------------------------------------------------------------------

_SHOWN: Final = frozenset({"text", "multimodal_text"})
"""Types of ChatGPT's content that somebody said. Others are code, its results, quotes of pages and settings."""

_ROLES: Final = {"human": "user", "user": "user", "assistant": "assistant"}


def read_chatgpt(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the conversations of a data export as they ended: the branch of the current node.

    Raises:
        FileFormatError: It is not such an export, or is unsafe.
    """
    for where, value in source.member_values(r"conversations(-\d+)?\.json"):
        yield from guarded(where, _chatgpt_talk, where, value, source, options)


def _chatgpt_talk(where: str, value: Any, source: Source, options: ImportOptions) -> Iterator[Found]:
    row = Row.of(where, value)
    nodes = row.inner("mapping").data
    messages = [message for node in _branch(row, nodes) if (message := _chatgpt_message(node)) is not None]
    every = [Row(f"{where}.mapping", node) for node in nodes.values() if isinstance(node, Mapping)]
    if left := sum(_chatgpt_message(node) is not None for node in every) - len(messages):
        yield Lost("messages of branches that were edited away", left)
    kinds = (node.inner("message").inner("content").text("content_type") for node in every)
    if instructed := sum(kind == "user_editable_context" for kind in kinds):
        yield Lost("custom instructions (they stand before each conversation)", instructed)
    yield from options.dialogue(
        messages,
        where=where,
        id=f"chatgpt/{row.text('id', 'conversation_id') or where}",
        changed_at=row.time("create_time") or source.changed_at(),
    )


def _branch(row: Row, nodes: Mapping[str, Any]) -> list[Row]:
    """Return the nodes from the root to the current one, or to the last leaf if none is."""
    leaves = [id for id, node in nodes.items() if isinstance(node, Mapping) and not node.get("children")]
    at = row.text("current_node") or next(reversed(leaves), None)
    branch: list[Row] = []
    while at is not None and at in nodes:
        if len(branch) > len(nodes):
            raise row.fault("the messages form a circle", "mapping")
        node = Row.of(f"{row.where}.mapping[{len(nodes) - len(branch)}]", nodes[at])
        branch.append(node)
        at = node.text("parent")
    return branch[::-1]


def _chatgpt_message(node: Row) -> dict[str, Any] | None:
    """Return a message as words of its speaker, or None if nobody said it to anybody."""
    message = node.inner("message")
    author, content = message.inner("author"), message.inner("content")
    hidden = message.inner("metadata").data.get("is_visually_hidden_from_conversation")
    if content.text("content_type") not in _SHOWN or hidden or message.data.get("recipient", "all") != "all":
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


def read_claude(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the conversations of a data export; those of a project lie in the scope of the product with its name.

    Raises:
        FileFormatError: It is not such an export, or is unsafe.
    """
    projects: dict[str, str] = {}
    for _, value in source.member_values(r"projects\.jsonl?", needed=False):
        match value:
            case {"uuid": str() as id, "name": str() as name} if name.strip():
                projects[id] = name
            case _:
                pass
    for where, value in source.member_values(r"conversations(-\d+)?\.jsonl?"):
        yield from guarded(where, _claude_talk, where, value, projects, source, options)
    for _ in source.member_values(r"memories\.jsonl?", needed=False):
        yield Lost("the memory list, whose layout is not documented")


def _claude_talk(
    where: str, value: Any, projects: Mapping[str, str], source: Source, options: ImportOptions
) -> Iterator[Found]:
    row = Row.of(where, value)
    rows = [*row.rows("chat_messages")]
    messages = [message for one in rows if (message := _claude_message(one))["content"]]
    if attached := sum(len(one.items("attachments")) for one in rows):
        yield Lost("texts of attachments", attached)
    project = row.text("project_uuid") or row.inner("project").text("uuid")
    yield from options.dialogue(
        messages,
        where=where,
        id=f"claude/{row.required('uuid')}",
        changed_at=row.time("created_at") or source.changed_at(),
        scope=MemoryScope.product(projects.get(project, project)) if project else None,
    )


def _claude_message(row: Row) -> dict[str, Any]:
    if (role := _ROLES.get(row.text("sender", "role") or "")) is None:
        raise row.fault("the sender is neither human nor assistant", "sender")
    # The plain text has notes in the place of tools and reasoning; the parts tell them from words.
    parts: list[Any] = [part for part in row.items("content") if isinstance(part, Mapping)]
    words = [part for part in parts if part.get("type") == "text" and part.get("text")]
    if not parts and (text := row.text("text")) is not None:
        words = [{"type": "text", "text": text}]
    words += [{"type": "file"} for _ in row.items("files")]
    return {"role": role, "id": row.text("uuid"), "timestamp": row.data.get("created_at"), "content": words}


# -- Histories: one row is one message --------------------------------------------------------------------------------

_TYPES: Final = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}
_COLUMNS: Final = ("id", "session_id", "message_data", "created_at")


def _talks(
    said: Iterable[Said | Problem | Skipped], system: str, where: str, changed_at: dt.datetime, options: ImportOptions
) -> Iterator[Found]:
    """Yield the conversations of messages, of which those of one conversation follow each other.

    Args:
        said: The messages.
        system: Name of the system.
        where: Place of the messages, and the id of a conversation without an id.
        changed_at: Time of undated conversations.
        options: Choices of the person who imports.
    """
    current, messages = None, list[dict[str, Any]]()
    for item in chain(said, [(None, None)]):
        if isinstance(item, Problem | Skipped):
            yield item
            continue
        id, message = item
        if id != current:
            if current is not None:
                place = where if current == where else f"{where} {current}"
                yield from guarded(
                    place, options.dialogue, messages, where=place, id=f"{system}/{current}", changed_at=changed_at
                )
            current, messages = id, []
        messages += [] if message is None else [message]


def _histories(
    source: Source, system: str, read: Callable[[str, Row], Iterable[Said]], options: ImportOptions, *keys: str
) -> Iterator[Found]:
    """Yield the conversations of files of messages, each of which is one unless its messages name others."""
    for path in source.walk(".json"):
        if isinstance(path, Problem):
            yield path
            continue
        place = source.place(path)
        said = converted(source.rows(path, *keys), partial(read, place))
        yield from _talks(said, system, place, source.changed_at(path), options)


def read_langchain(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield a conversation for each file that ``messages_to_dict`` or ``dumpd`` wrote; LangChain keeps no times.

    Raises:
        FileFormatError: A file cannot be read.
    """
    for item in _histories(source, "langchain", _langchain_message, options, "messages"):
        if isinstance(item, Dialogue) and options.dated is None:
            yield Lost(UNDATED)
        yield item


def _langchain_message(id: str, row: Row) -> list[Said]:
    match row.data:
        case {"lc": _, "id": [*_, str() as name], "kwargs": dict() as kwargs}:  # as dumpd() writes it
            row = Row(row.where, {"type": name, "data": kwargs})
    data = row.inner("data") if "data" in row.data else row
    kind = (row.text("type") or "").removesuffix("MessageChunk").removesuffix("Message").lower()
    role = data.text("role") if kind == "chat" else _TYPES.get(kind)
    if role is None:
        raise row.fault("the message has an unknown type", "type")
    content = data.data.get("content") or ""
    return [(id, {"role": role, "id": data.text("id"), "name": data.text("name"), "content": content})]


def read_openai_agents(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield each session of the database of ``SQLiteSession`` as a conversation.

    Raises:
        FileFormatError: It is not such a database.
    """
    rows = source.table("agent_messages", _COLUMNS, order="session_id, id")
    said = converted(rows, _openai_message)
    yield from _talks(said, "openai-agents", "session", source.changed_at(), options)


def _openai_message(row: Row) -> list[Said]:
    session, where = str(row.data["session_id"]), f"{row.where} message_data"
    item = Row.of(where, parsed(row.required("message_data"), where))
    match item.data:
        case {"role": str() as role}:
            content = item.data.get("content") or ""
        case {"type": "function_call_output", "output": str() as content}:
            role = "tool"
        case _:
            return [(session, None)]
    message = {"role": role, "content": content, "id": item.text("id"), "timestamp": row.data.get("created_at")}
    return [(session, message)]


def read_pydantic_ai(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield each conversation of each file that ``all_messages_json()`` or `ModelMessagesTypeAdapter` wrote.

    Raises:
        FileFormatError: A file cannot be read.
    """
    yield from _histories(source, "pydantic-ai", _pydantic_messages, options)


def _pydantic_messages(unnamed: str, row: Row) -> Iterator[Said]:
    id = row.text("conversation_id") or unnamed
    for part in row.rows("parts"):
        content: Any = part.data.get("content")
        match row.text("kind"), part.text("part_kind"):
            case "request", "user-prompt":
                role = "user"
                content = [_part(item) for item in content] if isinstance(content, list) else content
            case "request", "system-prompt":
                role = "system"
            case "request", "tool-return":
                role = "tool"
                content = content if isinstance(content, str) else ""
            case "response", "text":
                role = "assistant"
            case "request" | "response", _:
                continue
            case _:
                raise row.fault("neither a request nor a response", "kind")
        said_at = part.data.get("timestamp") or row.data.get("timestamp")
        yield id, {"role": role, "content": content, "timestamp": said_at} if content else None


def _part(part: Any) -> Any:
    """Return a part of ChatGPT's or pydantic-ai's as models' APIs write it."""
    match part:
        case {"content_type": _, "text": str() as text}:
            return {"type": "text", "text": text}
        case {"content_type": str() as kind} | {"kind": str() as kind}:
            return {"type": kind}
        case _:
            return part
