"""The MCP server, and serving over HTTP."""

from __future__ import annotations

import hmac
import inspect
import socket
from collections.abc import Callable, Iterable, Mapping
from functools import cache, partial
from types import MethodType
from typing import Any, Final

from mcp import MCPError
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp.server.mcpserver.tools import Tool
from mcp_types import INVALID_PARAMS, CallToolResult, GetPromptResult, InputRequiredResult, Resource, ToolAnnotations
from pydantic import ValidationError
from starlette.responses import Response

import factmem
from factmem.agent.plugin import AgentMemory
from factmem.errors import (
    FactMemError,
    InvalidDataError,
    OutOfViewError,
    ReadOnlyError,
    RecordNotFoundError,
    StoreUnavailableError,
)
from factmem.llm.local_models import root_logger_kept
from factmem.mcp.access import QUOTA, Access, ServedMemory
from factmem.mcp.resources import add_prompts, add_resources, scope_resources
from factmem.mcp.stdio import serve_stdio
from factmem.mcp.tools import Tools, concise_schema
from factmem.memory.screening import QuarantineQuota
from factmem.recall.scoring import RecallSettings
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.toml_tables import table
from factmem.validators import check_fraction

READING_TOOLS: Final = ("recall", "load", "list", "history", "info")
"""Tools that only read."""

WRITING_TOOLS: Final = ("remember", "save_fact", "update", "retract", "forget")
"""Tools that write; `forget` is offered only if erasing is allowed."""


def make_server(
    memory: ServedMemory,
    *,
    scopes: Iterable[MemoryScope | str] = (),
    subjects: Iterable[MemorySubject] = (),
    user_id: str | None = None,
    read_only: bool = False,
    trust: bool = False,
    allow_erase: bool = False,
    quota: QuarantineQuota = QUOTA,
    tools: Iterable[str] | None = None,
    settings: RecallSettings | None = None,
    min_score: float | None = None,
    name: str = "factmem",
) -> MCPServer[None]:
    """Return a server that gives MCP clients access to a memory.

    Args:
        memory: An open memory, which stays open; an agent's memory; or a function that returns a memory, which is
            open in its own thread while clients are connected. The limits of a view and of its viewer apply to
            clients.
        scopes: Scopes that clients are limited to, with their subtrees (default: all).
        subjects: Subjects that clients are limited to (default: all); facts they write are about the first one.
        user_id: User of an agent's memory.
        read_only: Whether only the tools that read are offered.
        trust: Whether facts written by clients are trusted like the user's own words, and clients may retract any
            fact. If False, these facts are quarantined, and clients can retract only facts written by clients alone.
        allow_erase: Whether `forget` is offered, which erases permanently. It needs ``trust``: clients name themselves,
            so that none can prove which facts are its own.
        quota: Limits of what clients leave in quarantine, in place of the memory's own. ``per_writer`` counts for each
            name that a client gives itself.
        tools: Names of the offered tools (default: all that are allowed).
        settings: Recall settings (default: those of the memory).
        min_score: Default minimum score of `recall`, from 0 to 1 (default: that of an agent's `Loading`, or 0).
        name: Name of the server.

    Raises:
        InvalidDataError: A tool is unknown or not allowed, erasing is allowed to clients that are not trusted, or the
            minimum score is out of range.
    """
    if allow_erase and not trust:
        raise InvalidDataError(
            "only trusted clients may erase: add trust=True (--trust), or leave allow_erase (--allow-erase) out"
        )
    if isinstance(memory, AgentMemory):
        settings = settings or memory.config.recall
        min_score = memory.config.loading.min_score if min_score is None else min_score
    least = 0.0 if min_score is None else min_score
    check_fraction(least, "min_score")
    offered = _offered(tools, read_only=read_only, allow_erase=allow_erase)
    access = Access(
        memory,
        scopes=scopes,
        subjects=subjects,
        user_id=user_id,
        read_only=read_only,
        trusted=trust,
        tools=offered,
        quota=quota,
    )
    made = Tools(access, settings=settings, min_score=least)
    with root_logger_kept():
        server = _FactMemServer(
            access,
            name,
            title="factmem",
            description="Typed facts that agents keep between conversations.",
            instructions=_instructions(access),
            version=factmem.__version__,
            lifespan=lambda _: access.open(),
            tools=[_described(tool).model_copy(update={"fn": MethodType(_TOOLS[tool][0], made)}) for tool in offered],
            log_level="WARNING",
        )
    add_resources(server, access, made)
    add_prompts(server, access, writable=not {"remember", "save_fact"}.isdisjoint(offered))
    return server


class _FactMemServer(MCPServer[None]):
    """A server whose errors name the next step, and reveal nothing that is hidden from the client."""

    def __init__(self, access: Access, name: str, **options: Any) -> None:
        super().__init__(name, **options)
        self._access = access
        self._arguments = {tool.name: set(tool.parameters["properties"]) for tool in options["tools"]}

    async def call_tool(
        self, name: str, arguments: dict[str, Any], context: Context[None, Any] | None = None
    ) -> CallToolResult | InputRequiredResult:
        known = self._arguments.get(name)
        if known is not None and (unknown := arguments.keys() - known):
            raise ToolError(f"{name} has no argument {_listed(unknown)}; it has {_listed(known)}")
        try:
            return await super().call_tool(name, arguments, context)
        except ToolError as error:
            if isinstance(error.__cause__, ValidationError):
                raise ToolError(f"{name} was given wrong arguments: {_wrong(error.__cause__)}") from None
            if (cause := _of_factmem(error)) is not None:
                raise ToolError(_message(cause)) from cause
            raise

    async def read_resource(self, uri: Any, context: Context[None, Any] | None = None) -> Any:
        try:
            return await super().read_resource(uri, context)
        except ResourceError as error:
            cause = _of_factmem(error)
            if isinstance(cause, RecordNotFoundError | InvalidDataError):
                raise ResourceNotFoundError(_message(cause)) from cause
            if cause is not None:
                raise ResourceError(_message(cause)) from cause
            raise

    async def get_prompt(
        self, name: str, arguments: dict[str, Any] | None = None, context: Context[None, Any] | None = None
    ) -> GetPromptResult | InputRequiredResult:
        try:
            return await super().get_prompt(name, arguments, context)
        except ValueError as error:
            cause = _of_factmem(error)
            message = _message(cause) if cause is not None else f"the prompt {name} is unknown or lacks an argument"
            raise MCPError(code=INVALID_PARAMS, message=message) from error

    async def run_stdio_async(self) -> None:
        """Serve over stdio. Lines that are not valid messages get an error response.

        See `MCPServer.run_stdio_async`.
        """
        session = self._lowlevel_server
        await serve_stdio(partial(session.run, initialization_options=session.create_initialization_options()))

    async def list_resources(self) -> list[Resource]:
        """List the resources, including one per scope in use."""
        try:
            return [*await super().list_resources(), *await scope_resources(self._access)]
        except FactMemError as error:
            raise MCPError(code=INVALID_PARAMS, message=_message(error)) from error


def _offered(tools: Iterable[str] | None, *, read_only: bool, allow_erase: bool) -> tuple[str, ...]:
    writing = () if read_only else WRITING_TOOLS if allow_erase else WRITING_TOOLS[:-1]
    allowed = (*READING_TOOLS, *writing)
    if tools is None:
        return allowed
    wanted = set(tools)
    if unknown := wanted - {*READING_TOOLS, *WRITING_TOOLS}:
        raise InvalidDataError(f"there is no tool {_listed(unknown)}; there are {', '.join(allowed)}")
    if refused := wanted - {*allowed}:
        why = "this server is read-only" if read_only else "erasing has to be allowed first (--allow-erase)"
        raise InvalidDataError(f"the tool {_listed(refused)} cannot be offered: {why}")
    return tuple(tool for tool in allowed if tool in wanted)


def _hints(*, reads: bool = False, destroys: bool = False, again: bool = False) -> ToolAnnotations:
    return ToolAnnotations(
        read_only_hint=reads, destructive_hint=destroys, idempotent_hint=reads or again, open_world_hint=False
    )


_TOOLS: Final[Mapping[str, tuple[Callable[..., Any], str, ToolAnnotations]]] = {
    "recall": (Tools.recall, "Recall facts", _hints(reads=True)),
    "load": (Tools.load, "Look up a concept", _hints(reads=True)),
    "list": (Tools.list_facts, "List facts", _hints(reads=True)),
    "history": (Tools.history, "Show the history of a concept", _hints(reads=True)),
    "info": (Tools.info, "What is there to know", _hints(reads=True)),
    "remember": (Tools.remember, "Remember a statement", _hints()),
    "save_fact": (Tools.save_fact, "Save a typed fact", _hints()),
    "update": (Tools.update, "Update a fact", _hints(destroys=True)),
    "retract": (Tools.retract, "Take facts back", _hints(destroys=True, again=True)),
    "forget": (Tools.forget, "Erase facts for good", _hints(destroys=True, again=True)),
}


@cache
def _described(name: str) -> Tool:
    """Describe a tool, once for all servers of a process: its schemas take most of the time of making one."""
    function, title, annotations = _TOOLS[name]
    tool = Tool.from_function(
        MethodType(function, object()),
        name=name,
        title=title,
        description=inspect.getdoc(function),
        annotations=annotations,
    )
    tool.parameters = concise_schema(name, tool.parameters)
    # Answers are structured, and speak for themselves: their schemas would be three quarters of all descriptions.
    tool.fn_metadata.output_schema = {"type": "object"}
    return tool


def _instructions(access: Access) -> str:
    prompts = table("mcp/prompts")
    limit = "read_only" if access.read_only else "untrusted"
    limited = access.read_only or not access.trusted
    return f"{prompts['instructions']} {prompts[limit]}" if limited else prompts["instructions"]


def _message(error: FactMemError) -> str:
    match error:
        case ReadOnlyError():
            return "this memory is open for reading only: nothing was changed"
        case OutOfViewError():
            return "the scope lies outside of what this server shows, or is not said: `info` lists the scopes"
        case _:
            return str(error)


def _of_factmem(error: BaseException | None) -> FactMemError | None:
    while error is not None and not isinstance(error, FactMemError):
        error = error.__cause__
    return error


def _wrong(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return "; ".join(f"{'.'.join(map(str, item['loc']))}: {item['msg']}" for item in found[:5])


def _listed(names: Iterable[str]) -> str:
    return ", ".join(name if len(name) < 50 else f"{name[:50]}…" for name in sorted(names)[:20])


_LOCAL: Final = frozenset({"127.0.0.1", "::1", "localhost"})


async def serve_http(
    server: MCPServer[Any],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve over streamable HTTP until the process gets a signal to stop.

    On a local address, requests with another host name are refused, which protects against web pages. Any other
    address requires a token.

    Args:
        server: The server.
        host: Address to listen on.
        port: Port to listen on; 0 for any free port.
        token: Token that every request must carry, as ``Authorization: Bearer <token>``.
        on_ready: Function called with the URL once clients can connect.

    Raises:
        InvalidDataError: The address is not local, and there is no token.
        StoreUnavailableError: The port is taken, or the address does not belong to this machine.
    """
    import uvicorn

    if host not in _LOCAL and not token:
        raise InvalidDataError(
            f"at {host} others could read the memory: listen at 127.0.0.1, or set a token with FACTMEM_MCP_TOKEN"
        )
    app: Any = server.streamable_http_app(host=host)
    listening = _listening(host, port)
    config = uvicorn.Config(
        _with_token(app, token) if token else app, log_config=None, access_log=False, timeout_graceful_shutdown=3
    )
    if on_ready is not None:
        shown = f"[{host}]" if ":" in host else host
        on_ready(f"http://{shown}:{listening.getsockname()[1]}/mcp")
    await uvicorn.Server(config).serve(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise StoreUnavailableError(f"cannot listen on {host}:{port} ({error.strerror}): name another") from None


def _with_token(app: Any, token: str) -> Any:
    """Return an ASGI app that rejects requests without the token."""
    expected = f"Bearer {token}".encode()

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        given = dict(scope.get("headers", ())).get(b"authorization", b"")
        admitted = scope["type"] == "lifespan" or hmac.compare_digest(given, expected)
        answer = app if admitted else Response(status_code=401, headers={"www-authenticate": "Bearer"})
        await answer(scope, receive, send)

    return guarded
