"""The commands that serve the memory to people and to MCP clients: `browse` and `mcp`."""

from __future__ import annotations

import html
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factmem.cli.options import Scoring, Walls
from factmem.cli.session import Session, ending_at_once
from factmem.private_files import create_file

if TYPE_CHECKING:
    from factmem.browse.browser import Browser


async def browse(
    session: Session,
    web: bool = False,
    walls: Walls = Walls(),
    port: Annotated[int | None, typer.Option(min=0, max=65535, metavar="NUMBER")] = None,
    open_page: Annotated[bool | None, typer.Option("--open/--no-open")] = None,
) -> None:
    """Browse the memory: search, view facts and their history, correct, accept, undo and forget; needs `browse`.

    In the terminal, ? shows all keys, and q quits. The web page is for this machine alone, and its address works once.
    Ctrl-C ends it.

    Options:
        web: Serve a local web page (default: in the terminal).
        port: Port of the web page (default: a free one).
        open_page: Open the web page in a browser (default: only when run from a terminal).
    """
    from factmem.browse.browser import Browser, Opened

    if not web and (port is not None or open_page is not None):
        raise typer.BadParameter("--port and --open are for the web page: add --web")
    scopes, subjects = walls.scope or (), walls.subjects or ()
    async with session.memory(**walls.opening()) as memory:
        opened = Opened(
            store=session.shown_address,
            viewer=session.reader or "",
            walls=(*scopes, *map(str, subjects)),
            user=session.user or "",
            read_only=walls.read_only,
            has_model=session.model is not None,
            note="; ".join(await session.unknown_scopes(memory, scopes)),
        )
        view = memory.view(scopes=scopes, read_only=walls.read_only) if scopes else memory
        browser = Browser(view.view(subjects=subjects) if subjects else view, opened)
        if web:
            await _serve(session, browser, port=port or 0, open_page=open_page)
        else:
            from factmem.browse.terminal.app import run

            await run(browser)


async def _serve(session: Session, browser: Browser, *, port: int, open_page: bool | None) -> None:
    from factmem.browse.web.serving import serve

    await browser.mark()  # an unreadable store is reported before there is a page
    opens = sys.stdout.isatty() if open_page is None else open_page

    with tempfile.TemporaryDirectory(prefix="factmem-", ignore_cleanup_errors=True) as folder:

        def announce(url: str) -> None:
            session.show_line({"url": url}, f"factmem shows {session.shown_address} at  {url}")
            session.note("Ctrl-C ends it.")
            sys.stdout.flush()
            if opens and (open_page or _has_window()):
                webbrowser.open(_redirect(Path(folder), url).as_uri())

        await serve(browser, port=port, on_ready=announce)


def _redirect(folder: Path, url: str) -> Path:
    """Write a page for this user alone that leads to an address: on a command line every local user could read it."""
    path = folder / "open.html"
    page = f'<!doctype html><title>factmem</title><meta http-equiv="refresh" content="0; url={html.escape(url)}">'
    with create_file(path) as file:
        file.write(page.encode())
    return path


def _has_window() -> bool:
    """Return whether a browser would open in a window of its own, not in this terminal."""
    try:
        found: Any = webbrowser.get()
    except webbrowser.Error:
        return False
    return type(found) is not webbrowser.GenericBrowser


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
    walls: Walls = Walls(),
    tools: Annotated[str | None, typer.Option(metavar="A,B")] = None,
    trust: bool = False,
    allow_erase: bool = False,
    max_waiting: Annotated[int | None, typer.Option(metavar="N", min=1)] = None,
    max_waiting_per_client: Annotated[int | None, typer.Option(metavar="N", min=1)] = None,
    scoring: Scoring = Scoring(),
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
            with ending_at_once():
                await server.run_stdio_async()
        else:
            host, port = address
            await serve_http(server, host=host, port=port, token=token, on_ready=_announce)


def _announce(url: str) -> None:
    print(f"factmem serves MCP at {url}", file=sys.stderr, flush=True)
