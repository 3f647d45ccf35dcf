"""The command `mcp`: an MCP server over the store."""

from __future__ import annotations

import contextlib
import signal
import sys
from collections.abc import Iterator
from typing import Annotated, Final

import typer

from factmem.cli.options import Scoring, Walls
from factmem.cli.session import Session

__all__ = ["mcp"]

_SCORING: Final = Scoring()
_WALLS: Final = Walls()


def _address(text: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if not port.isascii() or not port.isdecimal() or int(port) > 65_535:
        raise typer.BadParameter(f"--http {text!r} is not HOST:PORT, such as 127.0.0.1:8000 or :8000")
    return host.strip("[]") or "127.0.0.1", int(port)


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


async def mcp(
    session: Session,
    http: Annotated[str | None, typer.Option(metavar="HOST:PORT")] = None,
    walls: Walls = _WALLS,
    tools: Annotated[str | None, typer.Option(metavar="A,B")] = None,
    trust: bool = False,
    allow_erase: bool = False,
    max_waiting: Annotated[int | None, typer.Option(metavar="N", min=1)] = None,
    max_waiting_per_client: Annotated[int | None, typer.Option(metavar="N", min=1)] = None,
    scoring: Scoring = _SCORING,
    token: Annotated[str | None, typer.Option(envvar="FACTMEM_MCP_TOKEN", metavar="TEXT")] = None,
) -> None:
    """Serve the memory to MCP clients such as Claude Desktop, VS Code and Cursor; needs the extra `mcp`.

    Options:
        http: Serve over streamable HTTP (default: stdio).
        tools: Offer only these tools.
        trust: Trust what clients write and retract (default: quarantine it).
        allow_erase: Offer the tool `forget`, which erases for good; needs --trust.
        max_waiting: Maximum number of statements in quarantine (default: 1000).
        max_waiting_per_client: Maximum number of statements in quarantine from one client (default: 200).
        token: Bearer token that HTTP clients must send.
    """
    from factmem.mcp import make_server
    from factmem.mcp.access import QUOTA
    from factmem.mcp.server import serve_http
    from factmem.memory.screening import QuarantineQuota

    address = None if http is None else _address(http)
    settings = scoring.settings()
    async with session.memory(**walls.opening()) as memory:
        server = make_server(
            memory,
            scopes=walls.scope or (),
            subjects=walls.subjects or (),
            read_only=walls.read_only,
            trust=trust,
            allow_erase=allow_erase,
            quota=QuarantineQuota(
                total=max_waiting or QUOTA.total, per_writer=max_waiting_per_client or QUOTA.per_writer
            ),
            tools=None if tools is None else _names(tools),
            settings=settings,
            min_score=scoring.min_score,
        )
        if address is None:
            with _ending_at_once():
                await server.run_stdio_async()
        else:
            host, port = address
            await serve_http(server, host=host, port=port, token=token, on_ready=_announce)


@contextlib.contextmanager
def _ending_at_once() -> Iterator[None]:
    """Let Ctrl-C end the process at once, because the thread that reads stdin cannot be woken."""
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _announce(url: str) -> None:
    print(f"factmem serves MCP at {url}", file=sys.stderr, flush=True)
