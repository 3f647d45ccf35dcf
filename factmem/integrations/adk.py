"""Google's Agent Development Kit: memory for an app or a runner, a memory service, and histories of events.

Memory can be installed into an `App` or a `Runner`; the result is a copy with an additional `FactMemPlugin`. A
`Runner` without a memory service also gets one, with the minimum score of `Loading` if that is set. The identity of a
run is the user and the id of its session. If the configuration names no agent, feature or product, facts are saved in
``/product/<app_name>``.

    app = install(AgentMemory, into=App(name="fair", root_agent=agent), store="facts.db")
    runner = Runner(app=app, session_service=InMemorySessionService())

Memory tools for the model come from `memory_tools`, or from ADK itself: `load_memory` and `preload_memory` query the
runner's memory service. In ``run_live``, ADK passes no requests to plugins: conversations are saved, but nothing is
loaded.
"""

from __future__ import annotations

import copy
import datetime as dt
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

import anyio
import attrs

from factmem.abc.detector import MEMORY_ROLE, Message
from factmem.agent.chat_history import MEMORY_NAME, said, spoken, with_block
from factmem.agent.config import AgentMemoryConfig, RunIdentity
from factmem.agent.plugin import AgentMemory, HostIntegration
from factmem.agent.rendering import MemoryBlock, as_text
from factmem.agent.run import TOOL_NAMES, MemoryRun, MemoryTools
from factmem.details import FactDetails, Origin
from factmem.detection.redaction import redact
from factmem.error_hints import kind_of
from factmem.errors import CapabilityError, InvalidDataError, MissingPackageError, RecordNotFoundError
from factmem.facts import STATEMENT, MultipleFacts
from factmem.media.parts import media_of
from factmem.memory.facade import Memory
from factmem.records import AssertionState, FactRecord
from factmem.validators import check_fraction, check_instance

with MissingPackageError.if_missing("google-adk", extra="adk"):
    from google.adk.agents.callback_context import CallbackContext
    from google.adk.agents.invocation_context import InvocationContext
    from google.adk.apps import App
    from google.adk.cli.service_registry import get_service_registry
    from google.adk.events import Event
    from google.adk.memory import BaseMemoryService
    from google.adk.memory.base_memory_service import SearchMemoryResponse
    from google.adk.memory.memory_entry import MemoryEntry
    from google.adk.models.llm_request import LlmRequest
    from google.adk.models.llm_response import LlmResponse
    from google.adk.plugins.base_plugin import BasePlugin
    from google.adk.runners import Runner
    from google.adk.sessions import Session
    from google.adk.tools.base_tool import BaseTool
    from google.adk.tools.function_tool import FunctionTool
    from google.adk.tools.tool_context import ToolContext
    from google.genai import types

_OWN_TOOLS: Final = frozenset({*TOOL_NAMES, "load_memory"})


class MemoryContent(types.Content):
    """The content of a memory block in a request, recognized by its type."""


class ContentFormat:
    """Histories of genai's `Content`, the messages of requests to models."""

    def messages(self, native: types.Content) -> Sequence[Message]:
        """See `HistoryFormat.messages`."""
        if isinstance(native, MemoryContent):
            return (Message(content=_text_of(native), role=MEMORY_ROLE),)
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
            return (Message(content=_text_of(native.content), role=MEMORY_ROLE, id=native.id),)
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


def _text_of(content: types.Content) -> str:
    """Return the text of a content, without the model's thoughts."""
    return "\n".join(part.text for part in content.parts or () if part.text and not part.thought)


def _said(
    content: types.Content, role: str, *, name: str | None = None, id: str | None = None, when: float | None = None
) -> Iterator[Message]:
    """Yield the text and the tool results of a content, without thoughts and calls."""
    said_at = None if when is None else dt.datetime.fromtimestamp(when, dt.UTC)
    parts = media_of(_bytes_of(part) for part in content.parts or () if part.inline_data or part.file_data)
    speaker = name if role == "assistant" else None
    yield from said(_text_of(content), role, parts, name=speaker, id=id, timestamp=said_at)
    for number, (tool, answer) in enumerate(_answers(content), start=1):
        if answer.strip() and tool not in _OWN_TOOLS:
            answer_id = None if id is None else f"{id}/{number}"
            yield Message(content=answer, role="tool", name=tool, id=answer_id, timestamp=said_at)


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


def _run_for(memory: AgentMemory, app_name: str, user_id: str, session_id: str | None = None) -> MemoryRun:
    """Return a run for a user of an app; the app is the product if the configuration has no names."""
    session = None if session_id is None else str(session_id)
    return memory.for_run(RunIdentity(user_id=str(user_id), session_id=session), product=app_name)


def _run_of(memory: AgentMemory, session: Session) -> MemoryRun:
    """Return a run for a session and its user."""
    return _run_for(memory, session.app_name, session.user_id, session.id)


MIN_SCORE: Final = 0.1
"""Default minimum score of a search; unrelated text scores less, at least in small stores."""

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
        InvalidDataError: The memory is not an `AgentMemory`, or the minimum score is out of range.
    """

    def __init__(self, memory: AgentMemory, *, top_k: int = 10, min_score: float = MIN_SCORE) -> None:
        check_instance(memory, "memory", AgentMemory)
        check_fraction(min_score, "min_score")
        self.memory: Final = memory
        self.top_k: Final = top_k
        self.min_score: Final = min_score

    async def add_session_to_memory(self, session: Session) -> None:
        """Submit a session's new events. They are on disk when this returns, and processed in the background."""
        await _run_of(self.memory, session).save(spoken(EventFormat(), session.events))

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
        run = _run_for(self.memory, app_name, user_id, session_id or _NO_SESSION)
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
        run = _run_for(self.memory, app_name, user_id)
        await run.held.use(lambda memory: _keep(run, memory, memories, asked))

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
        run = _run_for(self.memory, app_name, user_id)
        limit = top_k or self.top_k
        found = await run.held.use(lambda memory: _found(run, memory, query, limit, self.min_score))
        return SearchMemoryResponse(memories=found)

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
        run = _run_for(self.memory, app_name, user_id)
        await run.held.use(lambda memory: _retract(run, memory, memory_id))


def _asked(given: Mapping[str, object] | None, known: frozenset[str]) -> Mapping[str, Any]:
    asked = dict(given or {})
    if unknown := asked.keys() - known:
        raise InvalidDataError(f"custom_metadata has {', '.join(sorted(unknown))}: say {', '.join(sorted(known))}")
    for switch in ("enable_consolidation", "wait_for_completion"):
        if not isinstance(asked.get(switch, False), bool):
            raise InvalidDataError(f"custom_metadata[{switch!r}] must be True or False")
    return asked


async def _keep(run: MemoryRun, memory: Memory, entries: Sequence[MemoryEntry], asked: Mapping[str, Any]) -> None:
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
    if not (text := _text_of(entry.content)).strip():
        raise InvalidDataError("a memory has no text", path="$.memories")
    return text


def _entry_time(entry: MemoryEntry) -> dt.datetime:
    try:
        moment = dt.datetime.fromisoformat(entry.timestamp) if entry.timestamp else dt.datetime.now(dt.UTC)
    except ValueError:
        raise InvalidDataError("a memory's timestamp is not an ISO 8601 time", path="$.memories") from None
    return moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)


async def _found(run: MemoryRun, memory: Memory, query: str, limit: int, min_score: float) -> list[MemoryEntry]:
    view, subjects = run.view(memory).view(reviewed=True), (run.user, *run.config.subjects)
    if query.strip():
        matches = await view.recall(
            query, limit=limit, min_score=min_score, settings=run.config.recall, strongest=True, subjects=subjects
        )
        return [_entry(match.record, match.score) for match in matches]
    return [_entry(record) for record in await view.list_records(limit=limit, strongest=True, subjects=subjects)]


def _entry(record: FactRecord[Any], score: float | None = None) -> MemoryEntry:
    origin, keyword = record.details.origin, record.concept.keyword
    shown = {"about": str(record.subject), "scope": str(record.scope), "concept": keyword}
    if score is not None:
        shown["score"] = f"{score:.3f}"
    return MemoryEntry(
        id=record.id,
        content=types.Content(
            role="user" if origin is Origin.USER else "model",
            parts=[types.Part(text=as_text(record).replace("<", "&lt;").replace(">", "&gt;"))],
        ),
        author=origin.value,
        timestamp=record.timestamp.isoformat(),
        custom_metadata={**record.details.metadata, **shown},
    )


async def _retract(run: MemoryRun, memory: Memory, id: str | None) -> None:
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


_KEY: Final = "factmem"
_in_tool: ContextVar[bool] = ContextVar("factmem_adk_in_tool", default=False)


@attrs.define
class _Loaded:
    """The memory block of an invocation, loaded by its first request."""

    lock: anyio.Lock = attrs.Factory(anyio.Lock)
    block: MemoryBlock | None = None

    async def load(self, run: MemoryRun, session: Session) -> MemoryBlock:
        async with self.lock:
            self.block = await run.load(spoken(EventFormat(), session.events), known=self.block)
            return self.block


class FactMemPlugin(BasePlugin):
    """Plugin that loads known facts into the requests of an app's agents, and submits each invocation's new events.

    An agent that runs as a tool (`AgentTool`) loads facts too, but its conversation is not saved, since a model speaks
    there as the user. With `FailurePolicy.RAISE`, an error ends the run; ADK wraps it in a RuntimeError.

    Args:
        memory: The memory.
        name: Name of the plugin in the app.
    """

    def __init__(self, memory: AgentMemory, *, name: str = "factmem") -> None:
        super().__init__(name=name)
        self.memory: Final = memory

    async def before_model_callback(
        self, *, callback_context: CallbackContext, llm_request: LlmRequest
    ) -> LlmResponse | None:
        """Add the memory block before the user's last message in a request."""
        loaded: _Loaded = callback_context.custom_metadata.setdefault(_KEY, _Loaded())
        session = callback_context.session
        block = await loaded.load(_run_of(self.memory, session), session)
        llm_request.contents = with_block(ContentFormat(), llm_request.contents, block)
        return None

    async def before_tool_callback(
        self, *, tool: BaseTool, tool_args: dict[str, Any], tool_context: ToolContext
    ) -> dict[str, Any] | None:
        """Mark the context of the tool call, so that runs within it are not saved."""
        _in_tool.set(True)
        return None

    async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
        """Submit the session's new events."""
        if not _in_tool.get():
            session = invocation_context.session
            await _run_of(self.memory, session).finish(spoken(EventFormat(), session.events))


def memory_tools(memory: AgentMemory) -> list[BaseTool]:
    """Return `recall_memory`, `save_memory` and `forget_memory` for ``LlmAgent(tools=…)``.

    Args:
        memory: The memory; the tools see the facts that are visible to the user of the run.
    """

    def tools(context: ToolContext) -> MemoryTools:
        run = _run_of(memory, context.session)
        run.hear(spoken(EventFormat(), context.session.events))
        return run.tools

    async def recall_memory(query: str, tool_context: ToolContext, limit: int = 5) -> str:
        return await tools(tool_context).recall_memory(query, limit)

    async def save_memory(text: str, tool_context: ToolContext) -> str:
        return await tools(tool_context).save_memory(text)

    async def forget_memory(memory_ids: list[str], tool_context: ToolContext, reason: str = "") -> str:
        return await tools(tool_context).forget_memory(memory_ids, reason)

    made: list[Callable[..., Any]] = [recall_memory, save_memory, forget_memory]
    for tool in made:
        tool.__doc__ = getattr(MemoryTools, tool.__name__).__doc__
    return [FunctionTool(tool) for tool in made]


def _installed(memory: AgentMemory, host: Any) -> App | Runner:
    match host:
        case App():
            return _with_plugin(host, FactMemPlugin(memory))
        case Runner():
            return _with_runner(host, memory)
        case _:
            raise CapabilityError(
                f"memory cannot be installed into {kind_of(host)}: put the agent into an App, and install it into that"
            )


def _with_plugin(app: App, plugin: FactMemPlugin) -> App:
    if any(isinstance(other, FactMemPlugin) for other in app.plugins):
        raise InvalidDataError("this app has a memory already")
    return app.model_copy(update={"plugins": [*app.plugins, plugin]})


def _with_runner(runner: Runner, memory: AgentMemory) -> Runner:
    plugin = FactMemPlugin(memory)
    other = copy.copy(runner)
    other.app = _with_plugin(runner.app, plugin)
    other.plugin_manager = copy.copy(runner.plugin_manager)
    other.plugin_manager.plugins = [*runner.plugin_manager.plugins, plugin]
    least = memory.config.loading.min_score or MIN_SCORE
    other.memory_service = runner.memory_service or FactMemMemoryService(memory, min_score=least)
    return other


integration: Final = HostIntegration(install=_installed, history=EventFormat())
genai: Final = HostIntegration(history=ContentFormat())
