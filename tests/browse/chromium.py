"""The real browser of the tests: Debian's Chromium, driven by Playwright."""

from __future__ import annotations

import contextlib
import importlib.util
import shutil
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from playwright.async_api import Browser

__all__ = ["chromium", "missing"]

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
