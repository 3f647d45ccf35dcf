"""Text layers of PDF files, read in a process of their own.

A PDF may come from anybody, and the best of parsers can be kept busy or be made to fill the memory. So this file is
also a program: it reads a PDF from standard input and writes its pages as JSON, under limits that the system enforces.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Final

import anyio
from anyio.abc import Process

_MEMORY: Final = 1 << 30
"""Bytes of memory that the process may take."""

_TOO_MANY_PAGES, _TOO_MUCH_TEXT, _UNREADABLE, _LOCKED = 3, 4, 5, 6
_REASONS: Final = {
    _TOO_MANY_PAGES: "it has more pages than MediaSettings.max_pages",
    _TOO_MUCH_TEXT: "it holds more text than MediaSettings.max_chars",
    _UNREADABLE: "it is damaged",
    _LOCKED: "it needs a password",
}


class PdfError(Exception):
    """Raised when a PDF cannot be read within its limits; the message says why and holds none of its text."""


def reads_pdf() -> bool:
    """Return whether the package that reads PDF files is installed."""
    return find_spec("pypdf") is not None


async def pdf_pages(data: bytes, *, max_pages: int, max_chars: int, seconds: float) -> Sequence[str]:
    """Return the text of each page of a PDF; empty for a page without a text layer.

    Args:
        data: The file.
        max_pages: Maximum number of pages.
        max_chars: Maximum number of characters of all pages.
        seconds: Time limit of the process.

    Raises:
        PdfError: The file is damaged, locked, or exceeds a limit.
    """
    command = [sys.executable, "-P", __file__, str(max_pages), str(max_chars), str(int(seconds) + 1)]
    try:
        with anyio.fail_after(seconds):
            code, output = await _run(command, data)
    except TimeoutError:
        raise PdfError(f"it could not be read within {seconds:g} s") from None
    if code:
        raise PdfError(_REASONS.get(code, "reading it takes more memory or time than is allowed"))
    pages: list[str] = json.loads(output)
    return pages


async def _run(command: Sequence[str], data: bytes) -> tuple[int, bytes]:
    """Run a command; return its exit code and its output.

    Its start is shielded, unlike that of `anyio.run_process`: asyncio leaves a process that is cancelled while it
    starts behind, with its pipes open.
    """
    process: Process | None = None
    with anyio.CancelScope(shield=True):
        process = await anyio.open_process(command, stderr=subprocess.DEVNULL)
    assert process is not None
    output = bytearray()
    async with process, anyio.create_task_group() as group:
        group.start_soon(_feed, process, data)
        assert process.stdout is not None
        async for part in process.stdout:
            output += part
        await process.wait()
    return process.returncode or 0, bytes(output)


async def _feed(process: Process, data: bytes) -> None:
    assert process.stdin is not None
    with suppress(anyio.BrokenResourceError, ConnectionError):  # it ended before it had read all
        await process.stdin.send(data)
    await process.stdin.aclose()


def _limit(seconds: int) -> None:
    try:
        import resource
    except ImportError:  # no such limits on Windows: there the time limit remains
        return
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY, _MEMORY))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))


def _main(max_pages: int, max_chars: int, seconds: int) -> int:
    import io
    import logging

    _limit(seconds)
    logging.disable()
    from pypdf import PdfReader

    try:
        reader = PdfReader(io.BytesIO(sys.stdin.buffer.read()))
        if reader.is_encrypted and not reader.decrypt(""):
            return _LOCKED
        if len(reader.pages) > max_pages:
            return _TOO_MANY_PAGES
        pages, length = [], 0
        for page in reader.pages:
            pages.append(page.extract_text().strip())
            length += len(pages[-1])
            if length > max_chars:
                return _TOO_MUCH_TEXT
    except (Exception, RecursionError):  # a parser of hostile files may raise anything
        return _UNREADABLE
    sys.stdout.write(json.dumps(pages))
    return 0


if __name__ == "__main__":
    sys.exit(_main(*map(int, sys.argv[1:4])))
