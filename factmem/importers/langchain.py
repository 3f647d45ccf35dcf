"""LangChain: histories as ``messages_to_dict`` writes them, such as the files of ``FileChatMessageHistory``."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from factmem.importers.contract import Found, ImportOptions, Lost, Problem, Row, Skipped, converted, guarded
from factmem.importers.conversing import conversation
from factmem.importers.sources import Source

__all__ = ["read"]

_ROLES: Final = {"human": "user", "ai": "assistant", "system": "system", "tool": "tool", "function": "tool"}


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield a conversation for each file; LangChain keeps no times.

    Raises:
        FileFormatError: A file cannot be read.
    """
    for path in source.walk() if source.is_folder else (source.path,):
        if isinstance(path, Problem):
            yield path
        elif not source.is_folder or path.suffix == ".json":
            yield from _history(path, source, options)


def _history(path: Path, source: Source, options: ImportOptions) -> Iterator[Found]:
    where = source.place(path)
    messages: list[dict[str, Any]] = []

    def collect(row: Row) -> Iterator[Found]:
        message = _message(row)
        if message is not None:
            messages.append(message)
        yield from ()

    yield from converted(source.rows(path, "messages"), collect)
    if not any(message["content"] for message in messages):
        yield Skipped("nothing was said in them")
        return
    if options.dated is None:
        yield Lost("times of messages (they are dated by the file; --date sets another date)", len(messages))
    yield from guarded(where, _talk, where, messages, source.changed_at(path), options)


def _talk(
    where: str, messages: Sequence[dict[str, Any]], changed_at: dt.datetime, options: ImportOptions
) -> list[Found]:
    talk = conversation(where, messages, id=f"langchain/{where}")
    return [options.dialogue(talk, where=where, changed_at=changed_at)]


def _message(row: Row) -> dict[str, Any] | None:
    data = Row(f"{row.where}.data", row.mapping("data")) if "data" in row.data else row
    kind = (row.text("type") or "").removesuffix("MessageChunk").removesuffix("Message").lower()
    role = data.text("role") if kind == "chat" else _ROLES.get(kind)
    if role is None:
        raise row.fault("the message has an unknown type", "type")
    return {"role": role, "id": data.text("id"), "name": data.text("name"), "content": data.data.get("content") or ""}
