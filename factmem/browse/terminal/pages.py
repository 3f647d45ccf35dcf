"""The pages: the memory, a record, a subject, the inbox, and what an agent would get; and the dialogs over them."""

from __future__ import annotations

import abc
import asyncio
import itertools
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Any, ClassVar, Final, Generic, TypeVar

import anyio
from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container, Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.message import Message
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import DataTable, Footer, Label, OptionList, Static, TabbedContent, TabPane, Tree
from textual.widgets.option_list import Option
from textual.worker import Worker, WorkerState

from factmem.browse.browser import AgentQuestion, Browser, Draft, InboxPage, Narrowing, Overview, draft_of
from factmem.browse.past import Biography
from factmem.browse.record_rows import is_current, shape_of, value_of
from factmem.browse.terminal import pictures
from factmem.browse.terminal.pictures import plain
from factmem.browse.terminal.widgets import (
    FIELD_TO_FIELD,
    Field,
    Lines,
    Place,
    PlaceTree,
    Preview,
    ProblemLine,
    RecordTable,
    sentence_of,
)
from factmem.browse.texts import accepted, counted
from factmem.changes import Change
from factmem.errors import InvalidDataError, StateConflictError
from factmem.legal_names import checked_path
from factmem.memory.dead_letters import DeadLetter
from factmem.memory.filters import RecordPage
from factmem.recall.results import RecallMatches
from factmem.records import AssertionState, FactRecord

T = TypeVar("T")

_PAUSE: Final = 0.25
"""Seconds after the last key until a search begins."""

_PAGE: Final = 50
_MOST_LISTED: Final = 2_000
"""Maximum number of rows of one listing: conditions narrow it further."""

_CHANGING: Final = frozenset(
    {"edit", "retract", "undo", "forget", "forget_all", "accept", "reject", "retry", "keep_words", "return_to"}
)
"""Actions that write, which a read-only memory does not offer."""


_ON_RECORDS: Final[Sequence[BindingType]] = (
    Binding("s", "subject", "Subject"),
    Binding("e", "edit", "Edit"),
    Binding("r", "retract", "Retract"),
    Binding("u", "undo", "Undo"),
    Binding("f", "forget", "Forget"),
)
"""Keys of the pages of records, which each page puts where they belong in its footer."""

_FOR_GOOD: Final = (
    "Every revision goes, from every index and journal. This cannot be undone; to hide them, retract them."
)

_TO_RESULTS: Final = Binding("enter", "results", show=False, priority=True)
"""The key that leads from a field to the records. It has priority, so that the next key is a command already."""


class Changed(Message):
    """Posted after a change of the memory by a person, so that every page is read again."""


class Page(Screen[None]):
    """A screen that shows one page of a browser and reads it again when the memory changes.

    Args:
        browser: The browser.
        title: Title of the page.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "back", "Back")]

    def __init__(self, browser: Browser, title: str) -> None:
        super().__init__()
        self.browser = browser
        self.stale: bool = False
        self._title = title

    def compose(self) -> ComposeResult:
        """Lay out the heading, the page, a line for an error and the keys."""
        with Horizontal(classes="heading"):
            yield Label(Content.assemble(("factmem", "bold"), f"  {self._title}"), classes="title")
            yield Label(pictures.opened_line(self.browser.opened), classes="opened")
        yield from self.body()
        yield ProblemLine()
        yield Footer(show_command_palette=False, compact=True)

    @abc.abstractmethod
    def body(self) -> ComposeResult:
        """Yield the widgets of the page."""

    @abc.abstractmethod
    async def load(self) -> None:
        """Read the page and show it."""

    def on_mount(self) -> None:
        """Read the page."""
        self.reload()

    def on_screen_resume(self) -> None:
        """Read the page again if the memory has changed meanwhile."""
        if self.stale:
            self.reload()

    def reload(self, after: float = 0) -> None:
        """Read the page again; a reading that is under way is given up.

        Args:
            after: Seconds to wait for yet another call.
        """
        self.stale = False
        self._load(after)

    @work(exclusive=True, group="load")
    async def _load(self, after: float) -> None:
        await asyncio.sleep(after)
        problem = None
        try:
            await self.load()
        except Exception as error:  # every error becomes a sentence on the page
            problem = error
        for line in self.query(ProblemLine):  # none on a page that has been left meanwhile
            line.present(problem)

    def on_worker_state_changed(self, event: Worker.StateChanged) -> None:
        """Show the error of an action as a sentence."""
        if event.worker.error is not None and event.state is WorkerState.ERROR:
            self.notify(sentence_of(event.worker.error), severity="error", markup=False, timeout=10)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer no action that writes if the memory is read-only."""
        return not (self.browser.opened.read_only and action in _CHANGING)

    def action_back(self) -> None:
        """Return to the page before."""
        self.app.pop_screen()

    def say(self, text: str) -> None:
        """Show a short message, and have all pages read again."""
        self.notify(text, markup=False)
        self.post_message(Changed())


class RecordsPage(Page):
    """A page of records that people can open and change."""

    def chosen(self) -> Sequence[FactRecord[Any]]:
        """Return the records that an action is for: the marked rows; without any, the row under the cursor."""
        return self.query_one(RecordTable).chosen

    def _first(self) -> FactRecord[Any] | None:
        return next(iter(self.chosen()), None)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave Enter to everything but fields."""
        if action == "results":
            return isinstance(self.focused, Field)
        return super().check_action(action, parameters)

    def action_results(self) -> None:
        """Move from a field to the records."""
        self.set_focus(self.query_one(RecordTable))

    @on(DataTable.RowSelected)
    @on(Tree.NodeSelected, "#by-concept")
    def _selected(self) -> None:
        if (row := self._first()) is not None:
            self.app.push_screen(RecordScreen(self.browser, row.id))

    def action_turn(self) -> None:
        """Open the next tab of the page."""
        tabs = self.query_one(TabbedContent)
        panes = [str(pane.id) for pane in tabs.query(TabPane)]
        tabs.active = panes[(panes.index(tabs.active) + 1) % len(panes)]
        self.set_focus(tabs.get_pane(tabs.active).query_one("*"))

    def action_subject(self) -> None:
        """Show the subject of the record."""
        if (row := self._first()) is not None:
            self.app.push_screen(SubjectScreen(self.browser, str(row.subject)))

    @work(exit_on_error=False)
    async def action_edit(self) -> None:
        """Edit the record."""
        if (row := self._first()) is None:
            return
        page = await self.browser.record(row.id)
        if not is_current(page.record) or page.unaccepted:
            self.notify("Only a current record can be edited: undo its retraction first.", severity="warning")
            return
        done = await self.app.push_screen_wait(_EditDialog(self.browser, page))
        if done is not None:
            self.moved(done.record.id)
            self.say("Saved. The revision before stays in its history.")

    def moved(self, id: str) -> None:
        """Take note that a record has another id now."""

    def action_retract(self) -> None:
        """Retract the records, or bring retracted ones back."""
        rows = self.chosen()
        ids = [row.id for row in rows]
        if rows and all(row.state is AssertionState.RETRACTED for row in rows):
            self._change(rows, "Bring back", "Brought back", lambda why: self.browser.memory.restore(*ids, reason=why))
        elif rows:
            self._change(rows, "Retract", "Retracted", lambda why: self.browser.memory.retract(*ids, reason=why))

    def action_undo(self) -> None:
        """Undo the last change of the record; undone twice, it is made again."""
        if (row := self._first()) is not None:
            self._change(
                [row], "Undo the last change of", "Undid the last change of",
                lambda why: self.browser.memory.undo([row.id], reason=why),
            )  # fmt: skip

    @work(exit_on_error=False)
    async def _change(
        self,
        rows: Sequence[FactRecord[Any]],
        verb: str,
        past: str,
        change: Callable[[str | None], Awaitable[Sequence[Change]]],
    ) -> None:
        """Ask for a reason, make a change, and say so."""
        reason = Field(id="reason", placeholder="optional, for the audit trail")
        title = f"{verb} {counted(len(rows), 'record')}?"
        fields = [Static(_listed(rows), markup=False), _labelled("Reason", reason)]
        dialog = _Dialog(title, "enter: yes · esc: no", fields, lambda: change(reason.value or None))
        if (done := await self.app.push_screen_wait(dialog)) is not None:
            self.say(pictures.outcome_of(past, done))

    def action_forget(self) -> None:
        """Erase the records, after a dry run and a typed confirmation."""
        if ids := [row.id for row in self.chosen()]:
            self.forget(None, ids)

    @work(exit_on_error=False)
    async def forget(self, narrowing: Narrowing | None, ids: Sequence[str]) -> None:
        """Erase records, after a dry run and a typed confirmation.

        Args:
            narrowing: Conditions on the records; None for those of `ids`.
            ids: The records.
        """
        preview = await self.browser.erasure_preview(narrowing, ids)
        if not preview.records:
            self.notify("There is nothing to erase.", severity="warning")
            return
        number, phrase = counted(len(preview.records), "record"), Field(id="phrase")
        fields = [
            Static(Content.styled(_FOR_GOOD, "$text-error"), markup=False),
            VerticalScroll(Static(_listed(preview.records), markup=False), classes="doomed"),
            Static(Content.assemble("To confirm it, type: ", (preview.phrase, "bold")), classes="above"),
            _labelled("", phrase),
        ]
        dialog = _Dialog(
            f"Erase {number} for good?", "enter: erase · esc: keep them", fields,
            lambda: self.browser.forget(narrowing, ids, typed=phrase.value, seal=preview.seal),
        )  # fmt: skip
        if (done := await self.app.push_screen_wait(dialog)) is not None:
            self.say(f"Erased {counted(len(done.records), 'record')} for good.")
            self.erased()

    def erased(self) -> None:
        """Take note that the records are gone."""


class MemoryScreen(RecordsPage):
    """The first page: the tree of places, the search, the records and the one under the cursor.

    Args:
        browser: The browser.
    """

    AUTO_FOCUS: ClassVar[str | None] = "#rows"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "search", "Find", key_display="/", priority=True),
        _TO_RESULTS,
        Binding("i", "inbox", "Inbox"),
        Binding("a", "agent", "Agent"),
        *_ON_RECORDS,
        Binding("x", "export", "Export", show=False),
        Binding("F", "forget_all", "Forget all listed", show=False),
        Binding("p", "places", "Places", show=False),
        Binding("escape", "clear", "Clear", show=False),
    ]

    def __init__(self, browser: Browser) -> None:
        super().__init__(browser, "")
        self._narrowing = Narrowing()
        self._next_page: str | None = None
        self._listed: list[FactRecord[Any]] = []

    def body(self) -> ComposeResult:
        """Yield the tree, the search, the table and the preview."""
        with Container(id="memory"):
            with Horizontal(id="browse"):
                yield PlaceTree(id="places")
                with Vertical(id="found"):
                    yield Field(id="query", placeholder="Search: press / and ask")
                    yield Static("", id="conditions", markup=False)
                    yield RecordTable(id="rows")
            with VerticalScroll(id="beside", can_focus=False):
                yield Preview(id="preview")

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leave "/" to the search, where it is a character."""
        if action == "search" and isinstance(self.focused, Field):
            return False
        return super().check_action(action, parameters)

    @property
    def table(self) -> RecordTable:
        """The table of records."""
        return self.query_one("#rows", RecordTable)

    @property
    def _query(self) -> str:
        return self.query_one("#query", Field).value.strip()

    async def load(self) -> None:
        """Read the tree, and the results of the search or the newest records."""
        overview = await self.browser.overview()
        self.query_one(PlaceTree).present(overview, self._narrowing)
        self._head(overview)
        if self._query:
            found = await self.browser.search(self._query, self._narrowing)
            self._next_page, self._listed = None, []
            self.table.present(found)
            self._say_listed(found, len(found))
        else:
            size = max(_PAGE, min(len(self._listed), _MOST_LISTED))
            self._list(await self.browser.listing(self._narrowing, size=size), [])
        self.query_one(Preview).present(self.table.current)

    def _list(self, page: RecordPage, before: Sequence[FactRecord[Any]]) -> None:
        self._next_page, self._listed = page.next_page, [*before, *page]
        self.table.present(self._listed)
        self._say_listed(None, len(self._listed))

    def _say_listed(self, found: RecallMatches | None, loaded: int) -> None:
        line = pictures.conditions_of(self._narrowing, found, loaded, more=self._next_page is not None)
        self.query_one("#conditions", Static).update(line)

    def _head(self, overview: Overview) -> None:
        waiting = overview.waiting + overview.unread
        note = Content.styled(f"  {counted(waiting, 'item')} in the inbox (i)", "$text-warning") if waiting else ""
        count = f"  {counted(overview.info.records, 'record')}"
        self.query_one(".title", Label).update(Content.assemble(("factmem", "bold"), count, note))

    @on(RecordTable.Ended)
    def _ended(self) -> None:
        if self._next_page is not None and len(self._listed) < _MOST_LISTED:
            self._read_on(self._next_page)

    @work(exit_on_error=False)
    async def _read_on(self, token: str) -> None:
        page = await self.browser.listing(self._narrowing, page=token, size=_PAGE)
        if token == self._next_page:  # no other listing has begun meanwhile
            self._list(page, self._listed)

    @on(DataTable.RowHighlighted, "#rows")
    def _highlighted(self) -> None:
        self.query_one(Preview).present(self.table.current)

    @on(Tree.NodeSelected)
    def _place_selected(self, event: Tree.NodeSelected[Place]) -> None:
        if event.node.data is not None:
            self._narrow(event.node.data.narrowed(self._narrowing))

    def _narrow(self, narrowing: Narrowing) -> None:
        self._narrowing, self._listed, self._next_page = narrowing, [], None
        self.table.to_top()
        self.reload()

    @on(Field.Changed, "#query")
    def _typed(self) -> None:
        self._listed, self._next_page = [], None
        self.table.to_top()
        self.reload(after=_PAUSE)

    def action_search(self) -> None:
        """Move to the search. The key has priority, so that keys that follow it fast belong to the search already."""
        self.set_focus(self.query_one("#query", Field))

    def action_places(self) -> None:
        """Move to the tree of places."""
        self.set_focus(self.query_one(PlaceTree))

    def action_clear(self) -> None:
        """Leave the search; from the table, clear the query, then the conditions."""
        query = self.query_one("#query", Field)
        if not self.table.has_focus:
            self.set_focus(self.table)
        elif query.value:
            query.value = ""
        elif self._narrowing.given:
            self._narrow(Narrowing())

    def action_inbox(self) -> None:
        """Show what waits for a decision."""
        self.app.push_screen(InboxScreen(self.browser))

    def action_agent(self) -> None:
        """Show what an agent would get for the query."""
        self.app.push_screen(AgentScreen(self.browser, self._query))

    def action_forget_all(self) -> None:
        """Erase everything under the present conditions, after a dry run and a typed confirmation."""
        if self._query or not self._narrowing.given:
            text = "Choose a scope, subject, concept or category in the tree first, and clear the search."
            self.notify(text, severity="warning")
        else:
            self.forget(self._narrowing, [])

    @work(exit_on_error=False)
    async def action_export(self) -> None:
        """Write everything visible to a file."""
        name = Field("factmem-export.jsonl", id="file", placeholder="JSON Lines, readable for you alone")

        async def write() -> str:
            path = checked_path(name.value.strip(), what="file")
            if await anyio.Path(path).exists():
                raise InvalidDataError("a file of this name exists already: choose another name")
            number = await self.browser.memory.admin.export(path)
            return f"Wrote {counted(number, 'assertion')} to {plain(str(path))}."

        title = "Export everything visible, with its history"
        dialog = _Dialog(title, "enter: write · esc: cancel", [_labelled("File", name)], write)
        if (done := await self.app.push_screen_wait(dialog)) is not None:
            self.notify(done, markup=False)


class RecordScreen(RecordsPage):
    """All about one record: its value, its evidence, its revisions and the actions on it.

    Args:
        browser: The browser.
        id: Id of the record.
    """

    AUTO_FOCUS: ClassVar[str | None] = "#revisions"
    BINDINGS: ClassVar[list[BindingType]] = [*_ON_RECORDS, Binding("b", "return_to", "Roll back")]

    def __init__(self, browser: Browser, id: str) -> None:
        super().__init__(browser, "Record")
        self._record_id = id
        self._page: Biography | None = None

    def body(self) -> ComposeResult:
        """Yield the record, its revisions and its trail."""
        with Container(id="record"):
            with VerticalScroll(id="body-pane"):
                yield Static("", id="record-body", markup=False)
            with VerticalScroll(id="past", can_focus=False):
                yield Label("Revisions", classes="section")
                yield Static("", id="axis", markup=False)
                yield OptionList(id="revisions", markup=False, compact=True)
                yield Label("Done to it", classes="section")
                yield Static("", id="trail", markup=False)

    def chosen(self) -> Sequence[FactRecord[Any]]:
        """Return the record."""
        return () if self._page is None else (self._page.record,)

    def moved(self, id: str) -> None:
        """Show the record under its new id."""
        self._record_id = id

    def erased(self) -> None:
        """Leave the page of a record that is gone."""
        self.action_back()

    async def load(self) -> None:
        """Read the record."""
        page = self._page = await self.browser.record(self._record_id)
        self.query_one("#record-body", Static).update(pictures.body_of(page))
        self.query_one("#axis", Static).update(pictures.axis_of(page.revisions, 30))
        self.query_one("#trail", Static).update(pictures.trail_of(page.trail))
        lines = [*map(pictures.revision_line, page.revisions)]
        _refill(self.query_one("#revisions", OptionList), lines, len(lines))
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer for a quarantined record none of the actions on accepted ones."""
        unaccepted = self._page is not None and self._page.unaccepted
        return not (unaccepted and action in _CHANGING) and super().check_action(action, parameters)

    @on(OptionList.OptionSelected, "#revisions")
    def action_return_to(self) -> None:
        """Return the record to the revision under the cursor."""
        at = self.query_one("#revisions", OptionList).highlighted
        if self._page is None or at is None or self.check_action("return_to", ()) is False:
            return
        row = self._page.revisions[at]
        if is_current(row):
            self.notify("This is the present revision: choose another one to return to.", severity="warning")
            return

        async def change(why: str | None) -> Sequence[Change]:
            return [await self.browser.memory.rollback(row.revision, reason=why)]

        self._change([row], f"Return to revision {row.revision} of", "Rolled back", change)


class SubjectScreen(RecordsPage):
    """The facts of one subject, as a table and as a tree of its concepts.

    Args:
        browser: The browser.
        subject: The subject, with the individual after a colon.
    """

    AUTO_FOCUS: ClassVar[str | None] = "#rows"
    BINDINGS: ClassVar[list[BindingType]] = [Binding("g", "turn", "Table/tree"), *_ON_RECORDS]

    def __init__(self, browser: Browser, subject: str) -> None:
        super().__init__(browser, f"About {plain(subject, 60)}")
        self._subject = subject

    def body(self) -> ComposeResult:
        """Yield both views."""
        yield Static("", id="subject-head", markup=False)
        with TabbedContent(id="views"):
            with TabPane("Table", id="as-table"):
                yield RecordTable(id="rows")
            with TabPane("Tree", id="as-tree"):
                yield Tree[FactRecord[Any]](Text(plain(self._subject, 60)), id="by-concept")

    @property
    def _tree(self) -> Tree[FactRecord[Any]]:
        return self.query_one("#by-concept", Tree)

    def chosen(self) -> Sequence[FactRecord[Any]]:
        """Return the marked rows of the table or the one under the cursor, or the value under it in the tree."""
        if self.query_one(TabbedContent).active == "as-table":
            return self.query_one(RecordTable).chosen
        node = self._tree.cursor_node
        return () if node is None or node.data is None else (node.data,)

    async def load(self) -> None:
        """Read the subject."""
        page = await self.browser.subject(self._subject)
        left = page.records - len(page.facts)
        more = f", {left:,} of them not shown here: narrow the first page" if left > 0 else ""
        text = f"{plain(page.description)}  {counted(page.records, 'record')}{more}".strip()
        self.query_one("#subject-head", Static).update(text)
        self.query_one(RecordTable).present(page.facts)
        tree, at = self._tree, self._tree.cursor_line
        tree.clear()
        for keyword, records in itertools.groupby(page.facts, key=lambda record: record.concept.keyword):
            concept = tree.root.add(Text(plain(keyword, 60), "bold"))
            for record in records:
                concept.add_leaf(Text(plain(value_of(record), 300)), record)
        tree.root.expand_all()
        tree.call_after_refresh(lambda: tree.move_cursor_to_line(max(0, min(at, tree.last_line))))


class InboxScreen(RecordsPage):
    """Statements in quarantine, rejected ones, and texts that a language model could not read.

    Args:
        browser: The browser.
    """

    AUTO_FOCUS: ClassVar[str | None] = "#waiting-rows"
    _LISTS: ClassVar = {"waiting": "Waiting", "rejected": "Rejected", "letters": "Not read"}
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("a", "accept", "Accept"),
        Binding("r", "reject", "Reject"),
        Binding("y", "retry", "Read again"),
        Binding("w", "keep_words", "Keep words"),
        Binding("f", "forget", "Forget"),
        Binding("s", "subject", "Subject"),
        Binding("g", "turn", "Next list"),
    ]

    def __init__(self, browser: Browser) -> None:
        super().__init__(browser, "Inbox")
        self._inbox: InboxPage | None = None

    def body(self) -> ComposeResult:
        """Yield the three lists and the preview."""
        with TabbedContent(id="lists"):
            for name, label in self._LISTS.items():
                with TabPane(label, id=name):
                    rows = f"{name}-rows"
                    yield OptionList(id=rows, markup=False) if name == "letters" else RecordTable(id=rows)
        with VerticalScroll(id="beside", can_focus=False):
            yield Preview(id="preview")

    @property
    def _tab(self) -> str:
        return self.query_one(TabbedContent).active

    def chosen(self) -> Sequence[FactRecord[Any]]:
        """Return the marked records of the list that is open, or the one under the cursor."""
        return () if self._tab == "letters" else self.query_one(f"#{self._tab}-rows", RecordTable).chosen

    def _letter(self) -> DeadLetter | None:
        at = self.query_one("#letters-rows", OptionList).highlighted
        return None if self._inbox is None or self._tab != "letters" or at is None else self._inbox.letters[at]

    async def load(self) -> None:
        """Read the lists."""
        page = self._inbox = await self.browser.inbox()
        self.query_one("#waiting-rows", RecordTable).present(page.waiting)
        self.query_one("#rejected-rows", RecordTable).present(page.rejected)
        _refill(self.query_one("#letters-rows", OptionList), list(map(pictures.letter_line, page.letters)))
        counts = (len(page.waiting) + page.left_out, len(page.rejected), len(page.letters))
        for (name, label), count in zip(self._LISTS.items(), counts, strict=True):
            self.query_one(TabbedContent).get_tab(name).label = Content(f"{label} {count:,}")
        self._look()

    @on(DataTable.RowHighlighted)
    @on(TabbedContent.TabActivated)
    def _look(self) -> None:
        self.query_one(Preview).present(next(iter(self.chosen()), None))
        self.query_one("#beside").display = self._tab != "letters"
        self.refresh_bindings()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Offer what can be done with the list that is open."""
        fitting = {
            "accept": ("waiting", "rejected"),
            "reject": ("waiting",),
            "retry": ("letters",),
            "keep_words": ("letters",),
        }
        if action in fitting and self._tab not in fitting[action]:
            return False
        return super().check_action(action, parameters)

    def action_accept(self) -> None:
        """Accept the records: they count from now on."""
        self._decide(accepted, self.browser.memory.inbox.quarantine.accept)

    def action_reject(self) -> None:
        """Reject the records: they stay apart."""
        self._decide(partial(pictures.outcome_of, "Rejected"), self.browser.memory.inbox.quarantine.reject)

    @work(exit_on_error=False)
    async def _decide(
        self, told: Callable[[Sequence[Change]], str], decide: Callable[..., Awaitable[Sequence[Change]]]
    ) -> None:
        if ids := [row.id for row in self.chosen()]:
            self.say(told(await decide(*ids)))

    @work(exit_on_error=False)
    async def action_retry(self) -> None:
        """Have the language model read the words again."""
        if (letter := self._letter()) is not None:
            self.notify("The language model reads the words again.")
            self.say(pictures.outcome_of("Read the words again, and changed", await self.browser.retry([letter.id])))

    @work(exit_on_error=False)
    async def action_keep_words(self) -> None:
        """Keep the words as they were said, and try no more."""
        if (letter := self._letter()) is not None:
            await self.browser.memory.inbox.dead_letters.dismiss(letter.id)
            self.say("The words are kept as they were said.")


class AgentScreen(RecordsPage):
    """The block that an agent would get for a question, word for word, and the records in it.

    Args:
        browser: The browser.
        question: The question to begin with.
    """

    AUTO_FOCUS: ClassVar[str | None] = "#question"
    BINDINGS: ClassVar[list[BindingType]] = [_TO_RESULTS, *FIELD_TO_FIELD, *_ON_RECORDS]
    _FIELDS: ClassVar = (("user", "User"), ("agent", "Agent"), ("feature", "Feature"), ("product", "Product"))

    def __init__(self, browser: Browser, question: str = "") -> None:
        super().__init__(browser, "What would the agent get?")
        self._asked = AgentQuestion(question=question, user=browser.opened.user)

    def body(self) -> ComposeResult:
        """Yield the form, the block and the records."""
        asked = self._asked
        yield Field(asked.question, id="question", placeholder="Question of the user")
        with Horizontal(id="names"):
            for name, label in self._FIELDS:
                yield Label(label)
                yield Field(getattr(asked, name), id=name, placeholder="none")
            yield Label("Tokens")
            yield Field(str(asked.budget), id="budget", whole_number=True)
        with Container(id="agent-view"):
            with VerticalScroll(id="block-pane"):
                yield Static("", id="block", markup=False)
            yield RecordTable(id="rows")

    async def load(self) -> None:
        """Read the block."""
        names = ("question", "budget", *(name for name, _ in self._FIELDS))
        found = await self.browser.agent_block(
            AgentQuestion(**{name: self.query_one(f"#{name}", Field).value for name in names})
        )
        self.query_one("#block", Static).update(pictures.block_of(found))
        self.query_one(RecordTable).present(found.block.records)

    @on(Field.Changed)
    def _typed(self) -> None:
        self.reload(after=_PAUSE)


# -- Dialogs ----------------------------------------------------------------------------------------------------------


class _Dialog(ModalScreen[T | None], Generic[T]):
    """A question over a page. What it asks for is done while it is open, so that an error can be mended in it.

    Args:
        title: The question.
        hint: The keys that answer it.
        fields: The widgets.
        perform: Does what is asked for; its result is that of the dialog.
    """

    AUTO_FOCUS: ClassVar[str | None] = "Field, Lines"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", "Cancel"),
        Binding("ctrl+s", "answer", "Confirm"),
        *FIELD_TO_FIELD,
    ]

    def __init__(self, title: str, hint: str, fields: Sequence[Widget], perform: Callable[[], Awaitable[T]]) -> None:
        super().__init__()
        self._title, self._hint, self._fields, self._perform = title, hint, fields, perform

    def compose(self) -> ComposeResult:
        """Lay out the title, the fields, a line for errors and the keys."""
        with VerticalScroll(classes="dialog", can_focus=False) as box:
            box.border_title = Content(self._title)
            box.border_subtitle = Content(self._hint)
            yield from self._fields
            yield ProblemLine()

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
            result = await self._perform()
        except Exception as error:  # every error becomes a sentence
            problem.present(error)
            self.query_one(".dialog").disabled = False
            self.set_focus(self.query("Field, Lines").first())
        else:
            self.dismiss(result)

    def action_leave(self) -> None:
        """Close the dialog; nothing is done. What has begun is seen to its end."""
        if not self.query_one(".dialog").disabled:
            self.dismiss(None)


def _labelled(label: str, field: Field) -> Widget:
    return Horizontal(Label(label, markup=False), field, classes="field")


class _EditDialog(_Dialog[Change]):
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
        draft, keyword = draft_of(page.record), plain(page.record.concept.keyword, 40)
        self._browser, self._page, self._shown = browser, page, draft.value
        self._compared = Static("", id="compared", markup=False)
        self._value = Lines(draft.value, id="value")
        self._texts = {
            name: Field(getattr(draft, name), id=name, placeholder=hint) for name, hint in self._PLACEHOLDERS.items()
        }
        fields = [
            self._compared,
            Label(f"Value ({plain(shape_of(page.record), 60)})", markup=False, classes="above"),
            self._value,
            *(_labelled(name.capitalize(), field) for name, field in self._texts.items()),
        ]
        super().__init__(f"Edit {keyword}", "ctrl+s: save · tab: next field · esc: cancel", fields, self._save)

    def on_mount(self) -> None:
        """Note the value as the field has it, which may unite line ends."""
        self._shown = self._value.text
        self._compared.display = False

    async def _save(self) -> Change:
        """Save what has changed; on top of a newer revision, show both and save nothing."""
        row = self._page.record
        try:
            return await self._browser.update(row.id, self._draft(), revision=row.revision)
        except StateConflictError:
            await self._compare()
            raise

    def _draft(self) -> Draft:
        texts = {name: field.value for name, field in self._texts.items()}
        value = self._value.text
        return Draft(value=draft_of(self._page.record).value if value == self._shown else value, **texts)

    async def _compare(self) -> None:
        """Show the newer revision beside the edit, and go on with both."""
        both = await self._browser.compared(self._page.record.id, self._draft(), revision=self._page.record.revision)
        if both.page.record.revision == self._page.record.revision:
            return
        self._page = both.page
        self._compared.update(Content("\n").join(map(pictures.difference_line, both.differences)))
        self._compared.display = True
        self._value.text = draft_of(both.page.record).value
        self._shown = self._value.text
        self._value.text = both.draft.value
        for name, field in self._texts.items():
            field.value = getattr(both.draft, name)


def _listed(records: Sequence[FactRecord[Any]]) -> Content:
    names = (("" if it.is_statement else f"{plain(it.concept.keyword, 60)}  ", it) for it in records[:20])
    lines = [f"• {name}{plain(value_of(record), 160)}" for name, record in names]
    if len(records) > len(lines):
        lines.append(f"and {len(records) - len(lines):,} more")
    return Content("\n".join(lines))


def _refill(options: OptionList, lines: Sequence[Content], cursor: int = 0) -> None:
    """Replace the lines of a list; the cursor stays at its number, or begins at the one given."""
    at = cursor if options.highlighted is None else options.highlighted
    options.clear_options()
    options.add_options(map(Option, lines))
    if lines:
        options.highlighted = min(at, len(lines) - 1)
