"""Dialogs: one question each, asked over a page. Enter or Ctrl+S answers it, Escape leaves everything as it is."""

from __future__ import annotations

import abc
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

import anyio
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label, Static

from factmem.browse.browser import Browser, Doomed, Draft, Narrowing, draft_of
from factmem.browse.past import Biography
from factmem.browse.record_rows import is_statement, shape_of, value_of
from factmem.browse.terminal.pictures import difference_line, plain
from factmem.browse.terminal.widgets import FIELD_TO_FIELD, Field, Lines, ProblemLine
from factmem.browse.texts import counted
from factmem.changes import Change
from factmem.errors import InvalidDataError, StateConflictError
from factmem.legal_names import checked_path
from factmem.records import FactRecord

__all__ = ["Dialog", "EditDialog", "ExportDialog", "ForgetDialog", "HelpDialog", "ReasonDialog"]

T = TypeVar("T")


class Dialog(ModalScreen[T | None], Generic[T]):
    """A question over a page. What it asks for is done while it is open, so that an error can be mended in it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Cancel"),
        Binding("ctrl+s", "answer", "Confirm"),
        *FIELD_TO_FIELD,
    ]

    def __init__(self, title: str, hint: str) -> None:
        super().__init__()
        self._title, self._hint = title, hint

    def compose(self) -> ComposeResult:
        """Lay out the title, the fields, a line for errors and the keys."""
        with VerticalScroll(classes="dialog", can_focus=False) as box:
            box.border_title = Content(self._title)
            box.border_subtitle = Content(self._hint)
            yield from self.fields()
            yield ProblemLine()

    @abc.abstractmethod
    def fields(self) -> ComposeResult:
        """Yield the fields."""

    @abc.abstractmethod
    async def perform(self) -> T:
        """Do what is asked for and return the result."""

    def action_answer(self) -> None:
        """Do what is asked for, once, and close the dialog; an error keeps it open."""
        if not self.query_one(".dialog").disabled:
            self.query_one(".dialog").disabled = True
            self._answer()

    @work
    async def _answer(self) -> None:
        problem = self.query_one(ProblemLine)
        problem.present(None)
        try:
            result = await self.perform()
        except Exception as error:  # every error becomes a sentence
            problem.present(error)
            self.query_one(".dialog").disabled = False
            self.set_focus(self._first_field())
        else:
            self.dismiss(result)

    def _first_field(self) -> Field | Lines | None:
        return next(iter(self.query(Field)), None)

    def action_leave(self) -> None:
        """Close the dialog; nothing is done. What has begun is seen to its end."""
        if not self.query_one(".dialog").disabled:
            self.dismiss(None)


def _field(label: str, value: str, *, id: str, placeholder: str = "") -> ComposeResult:
    with Horizontal(classes="field"):
        yield Label(label, markup=False)
        yield Field(value, id=id, placeholder=placeholder)


class ReasonDialog(Dialog[Sequence[Change]]):
    """A change of records, confirmed with an optional reason.

    Args:
        title: The question.
        rows: The records.
        change: Makes the change, given the reason; None for none.
    """

    def __init__(
        self, title: str, rows: Sequence[FactRecord[Any]], change: Callable[[str | None], Awaitable[Sequence[Change]]]
    ) -> None:
        super().__init__(title, "enter: yes · esc: no")
        self._rows, self._change = rows, change

    def fields(self) -> ComposeResult:
        """Yield the records and the field of the reason."""
        yield Static(_listed(self._rows), markup=False)
        yield from _field("Reason", "", id="reason", placeholder="optional, for the audit trail")

    async def perform(self) -> Sequence[Change]:
        """Make the change."""
        return await self._change(self.query_one("#reason", Field).value or None)


class EditDialog(Dialog[Change]):
    """New values of the fields of one record.

    Args:
        browser: The browser.
        page: All about the record.
    """

    _PLACEHOLDERS: ClassVar = {
        "scope": "",
        "importance": "from 0 to 1",
        "categories": "with commas between",
        "source": "where it came from",
    }

    def __init__(self, browser: Browser, page: Biography) -> None:
        super().__init__(
            f"Edit {plain(page.record.concept.keyword, 40)}", "ctrl+s: save · tab: next field · esc: cancel"
        )
        self._browser, self._page, self._shown = browser, page, draft_of(page.record).value

    def fields(self) -> ComposeResult:
        """Yield a field for each part that can be changed."""
        draft = draft_of(self._page.record)
        yield Static("", id="compared", markup=False)
        yield Label(f"Value ({plain(shape_of(self._page.record), 60)})", markup=False, classes="above")
        yield Lines(draft.value, id="value")
        for name, placeholder in self._PLACEHOLDERS.items():
            yield from _field(name.capitalize(), getattr(draft, name), id=name, placeholder=placeholder)

    def on_mount(self) -> None:
        """Note the value as the field has it, which may unite line ends."""
        self._shown = self.query_one("#value", Lines).text
        self.query_one("#compared").display = False

    def _first_field(self) -> Field | Lines | None:
        return self.query_one("#value", Lines)

    async def perform(self) -> Change:
        """Save what has changed; on top of a newer revision, show both and save nothing."""
        row = self._page.record
        try:
            return await self._browser.update(row.id, self._draft(), revision=row.revision)
        except StateConflictError:
            await self._compare()
            raise

    def _draft(self) -> Draft:
        value = self.query_one("#value", Lines).text
        texts = {name: self.query_one(f"#{name}", Field).value for name in self._PLACEHOLDERS}
        return Draft(value=draft_of(self._page.record).value if value == self._shown else value, **texts)

    async def _compare(self) -> None:
        """Show the newer revision beside the edit, and go on with both."""
        both = await self._browser.compared(self._page.record.id, self._draft(), revision=self._page.record.revision)
        if both.page.record.revision == self._page.record.revision:
            return
        self._page = both.page
        compared = self.query_one("#compared", Static)
        compared.update(Content("\n").join(map(difference_line, both.differences)))
        compared.display = True
        area = self.query_one("#value", Lines)
        area.text = draft_of(both.page.record).value
        self._shown = area.text
        area.text = both.draft.value
        for name in self._PLACEHOLDERS:
            self.query_one(f"#{name}", Field).value = getattr(both.draft, name)


class ForgetDialog(Dialog[Doomed]):
    """A dry run of erasing records, and the phrase that confirms it.

    Args:
        browser: The browser.
        doomed: The dry run.
        narrowing: Conditions on the records; None for those of `ids`.
        ids: The records.
    """

    AUTO_FOCUS: ClassVar[str | None] = "#phrase"

    def __init__(
        self, browser: Browser, doomed: Doomed, *, narrowing: Narrowing | None = None, ids: Sequence[str] = ()
    ) -> None:
        super().__init__(f"Erase {counted(len(doomed.records), 'record')} for good?", "enter: erase · esc: keep them")
        self._browser, self._doomed, self._narrowing, self._ids = browser, doomed, narrowing, ids

    def fields(self) -> ComposeResult:
        """Yield the records and the field of the phrase."""
        warning = (
            "Every revision goes, from every index and journal. This cannot be undone; to hide them, retract them."
        )
        yield Static(Content.styled(warning, "$text-error"), markup=False)
        with VerticalScroll(classes="doomed"):
            yield Static(_listed(self._doomed.records), markup=False)
        yield Static(Content.assemble("To confirm it, type: ", (self._doomed.phrase, "bold")), classes="above")
        yield from _field("", "", id="phrase")

    async def perform(self) -> Doomed:
        """Erase exactly the records shown."""
        typed = self.query_one("#phrase", Field).value
        return await self._browser.forget(self._narrowing, self._ids, typed=typed, seal=self._doomed.seal)


class ExportDialog(Dialog[tuple[int, Path]]):
    """The file to export to.

    Args:
        browser: The browser.
    """

    def __init__(self, browser: Browser) -> None:
        super().__init__("Export everything visible, with its history", "enter: write · esc: cancel")
        self._browser = browser

    def fields(self) -> ComposeResult:
        """Yield the field of the file's name."""
        yield from _field("File", "factmem-export.jsonl", id="file", placeholder="JSON Lines, readable for you alone")

    async def perform(self) -> tuple[int, Path]:
        """Write the file, unless there is one of its name."""
        path = checked_path(self.query_one("#file", Field).value.strip(), what="file")
        if await anyio.Path(path).exists():
            raise InvalidDataError("a file of this name exists already: choose another name")
        return await self._browser.memory.admin.export(path), path


class HelpDialog(ModalScreen[None]):
    """All keys and what they do.

    Args:
        text: The page.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,question_mark,q,enter", "leave", "Close")]

    def __init__(self, text: Content) -> None:
        super().__init__()
        self._text = text

    def compose(self) -> ComposeResult:
        """Lay out the page."""
        with VerticalScroll(classes="dialog help") as box:
            box.border_title = Content("Keys")
            box.border_subtitle = Content("esc: close")
            yield Static(self._text, markup=False)

    def action_leave(self) -> None:
        """Close the page."""
        self.dismiss(None)


def _listed(records: Sequence[FactRecord[Any]]) -> Content:
    names = (("" if is_statement(it) else f"{plain(it.concept.keyword, 60)}  ", it) for it in records[:20])
    lines = [f"• {name}{plain(value_of(record), 160)}" for name, record in names]
    if len(records) > len(lines):
        lines.append(f"and {len(records) - len(lines):,} more")
    return Content("\n".join(lines))
