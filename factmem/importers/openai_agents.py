"""OpenAI Agents: the database of ``SQLiteSession``."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, Final

from factmem.errors import InvalidDataError
from factmem.importers.contract import Found, ImportOptions, Problem, Row, Skipped, guarded
from factmem.importers.conversing import conversation
from factmem.importers.sources import Source

__all__ = ["read"]

_COLUMNS: Final = ("id", "session_id", "message_data", "created_at")


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield each session as a conversation. Calls of tools and reasoning are nobody's words.

    Raises:
        FileFormatError: It is not such a database.
    """
    rows = source.table("agent_messages", _COLUMNS, order="session_id, id")
    for session, items in groupby(rows, key=lambda row: row.data["session_id"]):
        messages: list[dict[str, Any]] = []
        where = f"session {session}"
        for row in items:
            try:
                message = _message(row)
            except InvalidDataError as error:
                yield Problem(row.where, error)
            else:
                messages += [] if message is None else [message]
        if not messages:
            yield Skipped("nothing was said in them")
            continue
        yield from guarded(where, _talk, str(session), messages, source.changed_at(), options)


def _talk(
    session: str, messages: Sequence[dict[str, Any]], changed_at: dt.datetime, options: ImportOptions
) -> list[Found]:
    talk = conversation(f"session {session}", messages, id=f"openai-agents/{session}")
    return [options.dialogue(talk, where=f"session {session}", changed_at=changed_at)]


def _message(row: Row) -> dict[str, Any] | None:
    try:
        item = Row.of(f"{row.where} message_data", json.loads(row.required("message_data")))
    except RecursionError:
        raise row.fault("the JSON is nested too deeply", "message_data") from None
    except ValueError:
        raise row.fault("not JSON", "message_data") from None
    said = {"id": item.text("id"), "timestamp": row.data.get("created_at")}
    match item.data:
        case {"role": str() as role}:
            return {**said, "role": role, "content": item.data.get("content") or ""}
        case {"type": "function_call_output", "output": str() as output}:
            return {**said, "role": "tool", "content": output}
        case _:
            return None
