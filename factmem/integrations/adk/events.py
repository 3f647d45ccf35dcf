"""Conversion of ADK's events and genai's contents, and the identity of a run."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator, Sequence
from typing import Final

import attrs

from factmem.abc import MEMORY_ROLE, Message
from factmem.agent import MEMORY_NAME, TOOL_NAMES, AgentMemory, MemoryBlock, MemoryRun, RunIdentity
from factmem.agent.history import said
from factmem.errors import MissingPackageError
from factmem.media import media_of

try:
    from google.adk.events import Event
    from google.adk.sessions import Session
    from google.genai import types
except ModuleNotFoundError as _missing:
    raise MissingPackageError("google-adk", extra="adk") from _missing

__all__ = ["ContentFormat", "EventFormat", "MemoryContent", "run_for", "run_of", "text_of"]

_OWN_TOOLS: Final = frozenset({*TOOL_NAMES, "load_memory"})


class MemoryContent(types.Content):
    """The content of a memory block in a request, recognized by its type."""


class ContentFormat:
    """Histories of genai's `Content`, the messages of requests to models."""

    def messages(self, native: types.Content) -> Sequence[Message]:
        """See `HistoryFormat.messages`."""
        if isinstance(native, MemoryContent):
            return (Message(content=text_of(native), role=MEMORY_ROLE),)
        return list(_said(native, "assistant" if native.role == "model" else native.role or "user"))

    def calls(self, native: types.Content) -> bool:
        """See `HistoryFormat.calls`."""
        return any(part.function_call for part in native.parts or ())

    def memory(self, block: MemoryBlock) -> types.Content:
        """See `HistoryFormat.memory`."""
        return MemoryContent(role="user", parts=[types.Part(text=block.text)])

    def summary(self, text: str) -> types.Content:
        """See `HistoryFormat.summary`."""
        return types.Content(role="model", parts=[types.Part(text=text)])


class EventFormat:
    """Histories of ADK's events, the messages of sessions.

    Only the input of the runner counts as the user's. Messages that a workflow node passes to an agent under the
    user's name are repetitions or not the user's, and are left out. Results of memory's own tools are left out too.
    """

    def messages(self, native: Event) -> Sequence[Message]:
        """See `HistoryFormat.messages`."""
        if native.content is None or native.partial:
            return ()
        if isinstance(native.content, MemoryContent) or (native.custom_metadata or {}).get(MEMORY_NAME):
            return (Message(content=text_of(native.content), role=MEMORY_ROLE, id=native.id),)
        role = "user" if native.author == "user" else "assistant"
        messages = _said(native.content, role, name=native.author, id=native.id, when=native.timestamp)
        forwarded = role == "user" and native.node_info.path
        return [message for message in messages if message.role == "tool" or not forwarded]

    def calls(self, native: Event) -> bool:
        """See `HistoryFormat.calls`."""
        return bool(native.get_function_calls())

    def memory(self, block: MemoryBlock) -> Event:
        """See `HistoryFormat.memory`."""
        return Event(author="user", content=ContentFormat().memory(block), custom_metadata={MEMORY_NAME: True})

    def summary(self, text: str) -> Event:
        """See `HistoryFormat.summary`."""
        return Event(author="model", content=ContentFormat().summary(text))


def text_of(content: types.Content) -> str:
    """Return the text of a content, without the model's thoughts."""
    return "\n".join(part.text for part in content.parts or () if part.text and not part.thought)


def _said(
    content: types.Content, role: str, *, name: str | None = None, id: str | None = None, when: float | None = None
) -> Iterator[Message]:
    """Yield the text and the tool results of a content, without thoughts and calls."""
    said_at = None if when is None else dt.datetime.fromtimestamp(when, dt.UTC)
    parts = media_of(map(_bytes_of, filter(_is_media, content.parts or ())))
    speaker = name if role == "assistant" else None
    yield from said(text_of(content), role, parts, name=speaker, id=id, timestamp=said_at)
    for number, (tool, answer) in enumerate(_answers(content), start=1):
        if answer.strip() and tool not in _OWN_TOOLS:
            answer_id = None if id is None else f"{id}/{number}"
            yield Message(content=answer, role="tool", name=tool, id=answer_id, timestamp=said_at)


def _is_media(part: types.Part) -> bool:
    return bool(part.inline_data or part.file_data)


def _bytes_of(part: types.Part) -> tuple[bytes, str] | None:
    found = part.inline_data
    return None if found is None or not found.data else (found.data, found.mime_type or "")


def _answers(content: types.Content) -> Iterator[tuple[str | None, str]]:
    for part in content.parts or ():
        if (answered := part.function_response) is not None:
            response = answered.response or {}
            only = response.get("result") if response.keys() == {"result"} else response
            yield answered.name, only if isinstance(only, str) else json.dumps(only, ensure_ascii=False, default=str)
        elif (ran := part.code_execution_result) is not None:
            yield "code_execution", ran.output or ""


def run_for(memory: AgentMemory, app_name: str, user_id: str, session_id: str | None = None) -> MemoryRun:
    """Return a run for a user of an app; the app is the product if the configuration has no names."""
    run = memory.for_run(RunIdentity(user_id=str(user_id), session_id=None if session_id is None else str(session_id)))
    config = run.config
    if config.agent_name or config.feature_name or config.product_name:
        return run
    return attrs.evolve(run, config=attrs.evolve(config, product_name=app_name))


def run_of(memory: AgentMemory, session: Session) -> MemoryRun:
    """Return a run for a session and its user."""
    return run_for(memory, session.app_name, session.user_id, session.id)
