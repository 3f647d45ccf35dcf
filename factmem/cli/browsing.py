"""The command `browse`: look at the memory, and change it, in the terminal or in a web browser."""

from __future__ import annotations

import html
import sys
import tempfile
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from factmem.cli.options import Walls
from factmem.cli.session import Session
from factmem.private_files import create_file

if TYPE_CHECKING:
    from factmem.browse.browser import Browser

__all__ = ["browse"]

_WALLS: Final = Walls()


async def browse(
    session: Session,
    web: bool = False,
    walls: Walls = _WALLS,
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
