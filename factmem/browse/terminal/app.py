"""The application: its look, its keys, and how it follows what other processes write."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
import time
from typing import ClassVar, Final

from textual import events, work
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.theme import Theme
from textual.widgets import Static

from factmem.browse.browser import Browser
from factmem.browse.terminal.pages import Changed, MemoryScreen, Page
from factmem.browse.terminal.widgets import sentence_of
from factmem.browse.texts import shown
from factmem.errors import CapabilityError, FactMemError
from factmem.toml_tables import table

_LIGHT, _DARK = (
    Theme(name=f"factmem-{light}", dark=light == "dark", **colours)
    for light, colours in table("browse/terminal/themes").items()
)

_PATIENCE: Final = 20
"""A look for changes takes at most one part in so many of a processor."""


class TerminalBrowser(App[None]):
    """The browser of a memory in the terminal.

    Args:
        browser: The pages.
        mark: Mark of the memory as it was before; what has changed since is shown. None for as it is at first sight.
        every: Minimum number of seconds between two looks for changes of other processes.
    """

    TITLE: str | None = "factmem"
    ENABLE_COMMAND_PALETTE: ClassVar[bool] = False
    HORIZONTAL_BREAKPOINTS: list[tuple[int, str]] | None = [(0, "-slim"), (56, "-narrow"), (120, "-wide")]  # noqa: RUF012 - as Textual declares it
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "turn_light", "Dark / light", show=False),
        Binding("question_mark", "show_help", "Help", key_display="?"),
        Binding("q", "quit", "Quit"),
    ]

    def __init__(self, browser: Browser, *, mark: str | None = None, every: float = 1.0) -> None:
        super().__init__(css_path="terminal.tcss")
        self.fault: FactMemError | None = None
        self._browser, self._mark, self._every = browser, mark, every
        self.register_theme(_DARK)
        self.register_theme(_LIGHT)
        self.theme = _LIGHT.name if _is_light(os.environ.get("COLORFGBG", "")) else _DARK.name

    def on_mount(self) -> None:
        """Show the first page and begin to follow changes."""
        self.begin_capture_print(self, stdout=False)
        self.push_screen(MemoryScreen(self._browser))
        if note := self._browser.opened.note:
            self.notify(shown(note), severity="warning", markup=False, timeout=20)
        self._follow()

    def on_print(self, event: events.Print) -> None:
        """Show a warning that something prints meanwhile."""
        if event.text.strip():
            self.notify(event.text.strip(), severity="warning", markup=False)

    @work
    async def _follow(self) -> None:
        """Have the pages read again whenever the memory is another one than it was."""
        failed = False
        while True:
            began = time.process_time()
            try:
                now = await self._browser.mark()
            except Exception as error:  # every error becomes a sentence, once
                if not failed:
                    self.notify(sentence_of(error), severity="error", markup=False, timeout=10)
                failed = True
            else:
                if failed or self._mark not in (None, now):
                    self._reload()
                self._mark, failed = now, False
            await asyncio.sleep(max(self._every, _PATIENCE * (time.process_time() - began)))

    def on_changed(self, event: Changed) -> None:
        """Have the pages read again."""
        self._reload()

    def _reload(self) -> None:
        """Have the visible page read again, and the ones below it when they are returned to."""
        pages = [screen for screen in self.screen_stack if isinstance(screen, Page)]
        for page in pages:
            page.stale = True
        if pages:
            pages[-1].reload()

    def action_turn_light(self) -> None:
        """Change between dark and light."""
        self.theme = _DARK.name if self.theme == _LIGHT.name else _LIGHT.name
        self._reload()

    def action_show_help(self) -> None:
        """Show all keys."""
        if not isinstance(self.screen, ModalScreen):
            self.push_screen(_Help())

    def _fatal_error(self) -> None:
        """Leave with a sentence: Textual's own report shows the values of local variables, so facts."""
        error = sys.exc_info()[1] or self._exception
        self.fault = FactMemError(sentence_of(error) if error else "The browser has failed.")
        self._close_messages_no_wait()


class _Help(ModalScreen[None]):
    """All keys and what they do."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "leave", "Close")]

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog help") as box:
            box.border_title = Content("Keys")
            box.border_subtitle = Content("esc: close")
            yield Static(help_page(), markup=False)

    def action_leave(self) -> None:
        self.dismiss(None)


async def run(browser: Browser) -> None:
    """Show a memory in the terminal until the person quits.

    Args:
        browser: The pages.

    Raises:
        CapabilityError: The process has no terminal.
        FactMemError: The memory cannot be read, or the browser itself has failed.
    """
    app = TerminalBrowser(browser, mark=await browser.mark())
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise CapabilityError("the browser needs a terminal: run it in one, or use --web")
    await app.run_async()
    if app.fault is not None:
        raise app.fault


def _is_light(colours: str) -> bool:
    """Return whether a terminal's ``COLORFGBG`` names a light background."""
    return colours.rpartition(";")[2] in ("7", "15")


def help_page() -> Content:
    """Return the page of all keys."""
    lines = []
    for title, keys in table("browse/terminal/keys").items():
        lines.append(Content.styled(title, "bold $text-accent"))
        for key, text in keys.items():
            first, *others = textwrap.wrap(text, 51)
            lines.append(Content.assemble((f"  {key:<14} ", "bold"), first))
            lines += [Content(" " * 17 + other) for other in others]
        lines.append(Content(""))
    return Content("\n").join(lines[:-1])
