"""pydantic-ai: messages as ``all_messages_json()`` or `ModelMessagesTypeAdapter` writes them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from factmem.importers.contract import Found, ImportOptions, Problem, Row, Skipped, converted, guarded
from factmem.importers.conversing import conversation
from factmem.importers.sources import Source

__all__ = ["read"]


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield each conversation of each file. Calls of tools and reasoning are nobody's words.

    Raises:
        FileFormatError: A file cannot be read.
    """
    for path in source.walk() if source.is_folder else (source.path,):
        if isinstance(path, Problem):
            yield path
        elif not source.is_folder or path.suffix == ".json":
            yield from _file(path, source, options)


def _file(path: Path, source: Source, options: ImportOptions) -> Iterator[Found]:
    messages: list[tuple[str, dict[str, Any]]] = []
    unnamed = source.place(path)

    def collect(row: Row) -> Iterator[Found]:
        id = row.text("conversation_id") or unnamed
        messages.extend((id, message) for message in _messages(row))
        yield from ()

    yield from converted(source.rows(path), collect)
    if not messages:
        yield Skipped("nothing was said in them")
    for id, said in groupby(messages, key=lambda pair: pair[0]):
        where = f"{unnamed} {id}"
        yield from guarded(where, _talk, where, id, [message for _, message in said], source.changed_at(path), options)


def _talk(
    where: str, id: str, messages: Sequence[dict[str, Any]], changed_at: dt.datetime, options: ImportOptions
) -> list[Found]:
    talk = conversation(where, messages, id=f"pydantic-ai/{id}")
    return [options.dialogue(talk, where=where, changed_at=changed_at)]


def _messages(row: Row) -> Iterator[dict[str, Any]]:
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
        if content:
            said_at = part.data.get("timestamp") or row.data.get("timestamp")
            yield {"role": role, "content": content, "timestamp": said_at}


def _part(item: Any) -> Any:
    match item:
        case {"kind": str() as kind}:
            return {"type": kind}
        case _:
            return item
