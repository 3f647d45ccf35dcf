"""The real command and the real browser of the tests: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
import re
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.async_api import Browser


_FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def missing() -> str | None:
    """Return what has to be installed to run a browser; None for nothing."""
    if importlib.util.find_spec("playwright") is None:
        return "Playwright: pip install playwright"
    if _path() is None:
        return "Chromium: apt-get install chromium"
    return None


def _path() -> str | None:
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@contextlib.asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """Start the browser, with a new profile and without a window."""
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=_path(), headless=True, args=list(_FLAGS))
        try:
            yield browser
        finally:
            await browser.close()


@contextlib.asynccontextmanager
async def pages_of(store: Path, *words: str) -> AsyncIterator[str]:
    """Run `factmem browse` on a store, in the folder of the store, and yield the address to open.

    It is ended as Ctrl-C does it, which must succeed.
    """
    command = [sys.executable, "-m", "factmem", "--store", store.name, "browse", "--web", "--no-open", *words]
    env = {name: value for name, value in os.environ.items() if not name.startswith("FACTMEM_")}
    process = await asyncio.create_subprocess_exec(
        *command, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env=env, cwd=store.parent
    )
    assert process.stdout is not None
    try:
        line = (await asyncio.wait_for(process.stdout.readline(), 60)).decode()
        found = re.search(r"http://\S+", line)
        assert found, line
        yield found[0]
    finally:
        process.send_signal(signal.SIGINT)
        assert await asyncio.wait_for(process.wait(), 60) == 0
