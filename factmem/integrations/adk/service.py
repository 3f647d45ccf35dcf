"""A memory service for ADK, and its address for ADK's command line."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit

from factmem.agent import AgentMemory, AgentMemoryConfig, MemoryRun, spoken
from factmem.agent.rendering import written
from factmem.detection import redact
from factmem.errors import InvalidDataError, MissingPackageError, RecordNotFoundError
from factmem.facts import STATEMENT, MultipleFacts
from factmem.integrations.adk.events import EventFormat, run_for, run_of, text_of
from factmem.memory import Memory
from factmem.records import AssertionState, FactDetails, FactRecord, Origin
from factmem.validators import check_fraction

try:
    from google.adk.cli.service_registry import get_service_registry
    from google.adk.events import Event
    from google.adk.memory import BaseMemoryService
    from google.adk.memory.base_memory_service import SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.sessions import Session
    from google.genai import types
except ModuleNotFoundError as _missing:
    raise MissingPackageError("google-adk", extra="adk") from _missing

__all__ = ["MIN_SCORE", "FactMemMemoryService", "memory_service", "register_memory_service"]

MIN_SCORE: Final = 0.1
"""Default minimum score of a search; unrelated text scores less, at least in small stores."""

_Found: TypeAlias = tuple[FactRecord[Any], float | None]

_NO_SESSION: Final = "events-without-a-session"
_EVENTS_KEYS: Final = frozenset({"wait_for_completion"})
_ENTRIES_KEYS: Final = frozenset({"enable_consolidation", "metadata", "categories", "expires_at"})


class FactMemMemoryService(BaseMemoryService):
    """A memory service for ADK, whose entries have ids and can be deleted.

    The memory's configuration determines the scope of facts; if it has no names, ``app_name`` is the product. A
    session may be added repeatedly; each of its events is processed once, and deleted entries do not come back.

    Angle brackets in an entry's text are escaped, since ADK's own tools put entries into prompts unchanged.

    Args:
        memory: The memory.
        top_k: Maximum number of entries that a search returns.
        min_score: Minimum score of a search, from 0 to 1; see `RecallMatch.score`. At the default, an entry shares a
            word with the query, or has a similar meaning. With 0, a search always returns ``top_k`` entries if there
            are as many.

    Raises:
        InvalidDataError: The minimum score is out of range.
    """

    def __init__(self, memory: AgentMemory, *, top_k: int = 10, min_score: float = MIN_SCORE) -> None:
        check_fraction(min_score, "min_score")
        self.memory: Final = memory
        self.top_k: Final = top_k
        self.min_score: Final = min_score

    async def add_session_to_memory(self, session: Session) -> None:
        """Submit a session's new events. They are on disk when this returns, and processed in the background."""
        await run_of(self.memory, session).save(spoken(EventFormat(), session.events))

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Submit events; those submitted before are skipped.

        Args:
            app_name: The app.
            user_id: The user.
            events: The events.
            session_id: Id of the session of the events.
            custom_metadata: ``wait_for_completion``: whether to wait until the events are processed.

        Raises:
            InvalidDataError: The metadata has an unknown key.
        """
        asked = _asked(custom_metadata, _EVENTS_KEYS)
        run = run_for(self.memory, app_name, user_id, session_id or _NO_SESSION)
        saved = await run.save(spoken(EventFormat(), events))
        if saved is not None and asked.get("wait_for_completion"):
            await saved.wait()

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, object] | None = None,
    ) -> None:
        """Save memories verbatim, with secrets redacted. Duplicates are saved once.

        Args:
            app_name: The app.
            user_id: The user, who is the subject of the memories.
            memories: The memories. Besides the id given by factmem, `delete_memory` accepts an entry's own ``id``.
            custom_metadata: ``enable_consolidation``: whether to compare the memories with known facts, and wait for
                the result; ``metadata``, ``categories`` and ``expires_at`` (a datetime) of every memory.

        Raises:
            InvalidDataError: A memory has no text or no ISO time, or the metadata has an unknown key; or memories
                were quarantined, because their origin is not the user and they read like an instruction or hide
                something.
        """
        asked = _asked(custom_metadata, _ENTRIES_KEYS)
        run = run_for(self.memory, app_name, user_id)
        await run.held.use(partial(_kept, run=run, entries=memories, asked=asked))

    async def search_memory(
        self, *, app_name: str, user_id: str, query: str, top_k: int | None = None
    ) -> SearchMemoryResponse:
        """Return the entries visible to a user's agent that match a query, best first; the newest for a blank query.

        Args:
            app_name: The app.
            user_id: The user.
            query: The query.
            top_k: Maximum number of entries (default: that of the service).
        """
        run = run_for(self.memory, app_name, user_id)
        limit = top_k or self.top_k
        records = await run.held.use(partial(_found, run=run, query=query, limit=limit, min_score=self.min_score))
        return SearchMemoryResponse(memories=[_entry(record) for record in records])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str | None = None) -> None:
        """Retract a memory. It does not come back when its session is added again; `Memory.restore` brings it back.

        `Memory.forget` erases the words as well. It keeps no trace of them, so events that are added again after that
        are new.

        Args:
            app_name: The app.
            user_id: The user.
            memory_id: Id of the entry.

        Raises:
            RecordNotFoundError: No memory visible to this user's agent has this id.
        """
        run = run_for(self.memory, app_name, user_id)
        await run.held.use(partial(_retracted, run=run, id=memory_id))


def _asked(given: Mapping[str, object] | None, known: frozenset[str]) -> Mapping[str, Any]:
    asked = dict(given or {})
    if unknown := asked.keys() - known:
        raise InvalidDataError(f"custom_metadata has {', '.join(sorted(unknown))}: say {', '.join(sorted(known))}")
    for switch in ("enable_consolidation", "wait_for_completion"):
        if not isinstance(asked.get(switch, False), bool):
            raise InvalidDataError(f"custom_metadata[{switch!r}] must be True or False")
    return asked


async def _kept(memory: Memory, *, run: MemoryRun, entries: Sequence[MemoryEntry], asked: Mapping[str, Any]) -> None:
    view, config, quarantined = run.written_by_model(memory), run.config, 0
    for entry in entries:
        fact = MultipleFacts(STATEMENT, (redact(_entry_text(entry)).text,), timestamp=_entry_time(entry))
        metadata = {**(asked.get("metadata") or {}), **entry.custom_metadata}
        if entry.id is not None:
            metadata["memory_id"] = entry.id
        of_user = entry.author in (None, "user") and entry.content.role != "model"
        place: dict[str, Any] = {"subject": run.user, "scope": config.home, "private": config.saving.private}
        if asked.get("enable_consolidation") and of_user:
            submission = await view.generate([fact], metadata=metadata, expires_at=asked.get("expires_at"), **place)
            await submission.wait()
        else:
            details = FactDetails(
                metadata=metadata,
                categories=tuple(asked.get("categories") or ()),
                expires_at=asked.get("expires_at"),
                origin=Origin.USER if of_user else Origin.ASSISTANT,
            )
            kept = await view.save(fact, details=details, **place)
            quarantined += any(record.state is AssertionState.QUARANTINED for record in kept)
    if quarantined:
        raise InvalidDataError(
            f"{quarantined} of {len(entries)} memories wait in quarantine, because they read like an instruction or "
            "hide something: accept them with memory.quarantine.accept(), and do not add them again"
        )


def _entry_text(entry: MemoryEntry) -> str:
    if not (text := text_of(entry.content)).strip():
        raise InvalidDataError("a memory has no text", path="$.memories")
    return text


def _entry_time(entry: MemoryEntry) -> dt.datetime:
    try:
        moment = dt.datetime.fromisoformat(entry.timestamp) if entry.timestamp else dt.datetime.now(dt.UTC)
    except ValueError:
        raise InvalidDataError("a memory's timestamp is not an ISO 8601 time", path="$.memories") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


async def _found(memory: Memory, *, run: MemoryRun, query: str, limit: int, min_score: float) -> list[_Found]:
    view, subjects = run.view(memory).view(reviewed=True), (run.user, *run.config.subjects)
    if query.strip():
        matches = await view.recall(
            query, limit=limit, min_score=min_score, settings=run.config.recall, strongest=True, subjects=subjects
        )
        return [(match.record, match.score) for match in matches]
    return [(record, None) for record in await view.list_records(limit=limit, strongest=True, subjects=subjects)]


def _entry(found: _Found) -> MemoryEntry:
    record, score = found
    origin, keyword = record.details.origin, record.concept.keyword
    value = written(record.value, record.concept.value_type)
    text = value if keyword == STATEMENT.keyword else f"{keyword}: {value}"
    shown = {"about": str(record.subject), "scope": str(record.scope), "concept": keyword}
    if score is not None:
        shown["score"] = f"{score:.3f}"
    return MemoryEntry(
        id=record.id,
        content=types.Content(
            role="user" if origin is Origin.USER else "model",
            parts=[types.Part(text=text.replace("<", "&lt;").replace(">", "&gt;"))],
        ),
        author=origin.value,
        timestamp=record.timestamp.isoformat(),
        custom_metadata={
            **record.details.metadata,
            **{name: item for name, item in shown.items() if item is not None},
        },
    )


async def _retracted(memory: Memory, *, run: MemoryRun, id: str | None) -> None:
    view, subjects = run.view(memory), (run.user, *run.config.subjects)
    found = await view.list_records(record_ids=[id or ""], subjects=subjects)
    found = found or await view.list_records(metadata={"memory_id": id}, subjects=subjects)
    if not id or not found:
        raise RecordNotFoundError("no memory that this user's agent may see has this id: search_memory returns ids")
    await view.retract(*(record.id for record in found), reason="delete_memory")


_ADDRESS_SETTINGS: Final = frozenset({"agent_name", "feature_name", "product_name", "organization_name", "model"})


def memory_service(uri: str, **_: Any) -> FactMemMemoryService:
    """Return a memory service for an address.

    For example, ``factmem://sqlite-vec:facts.db?product_name=fair&top_k=20&min_score=0.3``.

    Args:
        uri: The scheme, the store's address and, as a query, the names of `AgentMemoryConfig`, ``model``, ``top_k``
            and ``min_score``.

    Raises:
        InvalidDataError: The query has an unknown key, or a number is out of range.
    """
    parsed = urlsplit(uri)
    settings: dict[str, Any] = dict(parse_qsl(parsed.query))
    top_k, min_score = settings.pop("top_k", "10"), settings.pop("min_score", str(MIN_SCORE))
    if unknown := settings.keys() - _ADDRESS_SETTINGS:
        named, known = ", ".join(sorted(unknown)), ", ".join(sorted(_ADDRESS_SETTINGS))
        raise InvalidDataError(f"the address has {named}: say {known}")
    if not top_k.isdecimal() or not int(top_k):
        raise InvalidDataError("top_k in the address must be a whole number from 1")
    try:
        least = float(min_score)
    except ValueError:
        raise InvalidDataError("min_score in the address must be a number from 0 to 1") from None
    config = AgentMemoryConfig(store=unquote(parsed.netloc + parsed.path), **settings)
    return FactMemMemoryService(AgentMemory(config), top_k=int(top_k), min_score=least)


def register_memory_service(scheme: str = "factmem") -> None:
    """Register the memory service for ``adk web --memory_service_uri factmem://…``.

    Call this function in the ``services.py`` beside the agents.

    Args:
        scheme: Scheme of the address.
    """
    get_service_registry().register_memory_service(scheme, memory_service)
