"""Widgets: fields, the table of records, the tree of places, and the line that shows an error as a sentence."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final

import attrs
from rich.highlighter import Highlighter
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import Binding, BindingsMap, BindingType
from textual.message import Message
from textual.widgets import DataTable, Input, Static, TextArea, Tree
from textual.widgets.tree import TreeNode

from factmem.browse.browser import Narrowing, Overview
from factmem.browse.record_rows import is_general, largest, ranked, value_of
from factmem.browse.terminal.pictures import bar, plain, preview_of
from factmem.browse.texts import masked, shown
from factmem.errors import FactMemError
from factmem.memory.scope_tree import ScopeInfo, ScopeTree
from factmem.recall.results import RecallMatch
from factmem.records import AssertionState, FactRecord


def sentence_of(error: BaseException) -> str:
    """Return an error as a sentence: what factmem says of it, or where the browser itself went wrong.

    An error of the browser's own is named by its type and place alone, because its message may hold a fact.
    """
    if isinstance(error, FactMemError):
        text = shown(str(error))
    elif isinstance(error, OSError):
        text = f"that failed: {shown(error.strerror or type(error).__name__)}"
    else:
        last = traceback.extract_tb(error.__traceback__)[-1:]
        where = f" at {last[0].name}:{last[0].lineno}" if last else ""
        text = f"this is a fault of factmem itself ({type(error).__name__}{where}): please report it"
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."


class ProblemLine(Static):
    """A line for the error of a page or a dialog; hidden while there is none."""

    def __init__(self) -> None:
        super().__init__("", markup=False)
        self.display = False

    def present(self, error: BaseException | None) -> None:
        """Show an error; None hides the line."""
        self.update("" if error is None else sentence_of(error))
        self.display = error is not None


FIELD_TO_FIELD: Final = (
    Binding("tab", "app.focus_next", show=False, priority=True),
    Binding("shift+tab", "app.focus_previous", show=False, priority=True),
)
"""Keys between the fields of a page."""


class Field(Input):
    """A field of one line; in a dialog, Enter answers it.

    Args:
        value: The text at first.
        id: Name of the field on its page.
        placeholder: Shown while the field is empty.
        whole_number: Whether only digits can be typed.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("enter,ctrl+s", "screen.answer", show=False)]
    _KEYS: ClassVar = BindingsMap([*BINDINGS, *Input.BINDINGS])

    def __init__(self, value: str = "", *, id: str, placeholder: str = "", whole_number: bool = False) -> None:
        super().__init__(
            value,
            id=id,
            placeholder=placeholder,
            type="integer" if whole_number else "text",
            highlighter=_Visible(),
            compact=True,
            select_on_focus=False,
        )

    async def on_key(self, event: events.Key) -> None:
        """Obey a key before the next one is read."""
        await _obey(self, self._KEYS, event)


class Lines(TextArea):
    """A field of several lines.

    Args:
        text: The text at first.
        id: Name of the field on its page.
    """

    BINDINGS: ClassVar[list[BindingType]] = [Binding("ctrl+s", "screen.answer", show=False)]
    _KEYS: ClassVar = BindingsMap([*BINDINGS, *TextArea.BINDINGS])

    def __init__(self, text: str, *, id: str) -> None:
        super().__init__(text, id=id, compact=True, highlight_cursor_line=False)

    def get_line(self, line_index: int) -> Text:
        """Return a line with its hidden characters visible."""
        return Text(masked(self.document.get_line(line_index)), end="", no_wrap=True)

    async def on_key(self, event: events.Key) -> None:
        """Obey a key before the next one is read."""
        await _obey(self, self._KEYS, event)


async def _obey(field: Input | TextArea, keys: BindingsMap, event: events.Key) -> None:
    """Run the action of a key that is the field's own; a disabled field takes no keys.

    Textual inserts a character when the field reads it, but hands every other key on to the app first. Fast typing, or
    slow drawing, then turns "End, Backspace, 5" into "5, End, Backspace"; see
    https://github.com/Textualize/textual/issues/6605. So a field runs the actions of its own keys itself, and keys that
    leave a field have priority: the app obeys them before it hands the next key to anybody.
    """
    if field.is_disabled:  # the key was pressed after the one that answered the dialog
        event.prevent_default()
    elif bound := keys.key_to_bindings.get(event.key):
        event.stop()
        event.prevent_default()
        await field.app.run_action(bound[0].action, field)


class _Visible(Highlighter):
    """Shows hidden characters of a field as such."""

    def __call__(self, text: str | Text) -> Text:
        """Return a text of the same length without hidden characters."""
        plain_text = text if isinstance(text, str) else text.plain
        return Text(masked(plain_text), no_wrap=True, overflow="ignore", end="")

    def highlight(self, text: Text) -> None:
        """Highlight nothing."""


_MOST_NAMES: Final = 100
"""Maximum number of names of one kind: the rest is counted."""

_FLEXIBLE: Final = "Fact"
_COLUMNS: Final[Sequence[tuple[str, int, int]]] = (
    ("", 1, 0),
    ("Score", 11, 0),
    (_FLEXIBLE, 0, 0),
    ("About", 16, 64),
    ("Scope", 22, 100),
    ("Said", 10, 40),
)
"""The columns: their labels, their widths, and the width of the table from which on they are shown, all in cells."""


class RecordTable(DataTable[Text]):
    """A table of records whose columns fit its width; Space marks rows for the next action, and * all of them.

    Attributes:
        items: All rows, in their order.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *DataTable.BINDINGS,
        Binding("space", "mark", "Mark", show=False),
        Binding("asterisk", "mark_all", "Mark all", show=False),
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
    ]

    class Ended(Message):
        """Posted when the cursor reaches the last row."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, cursor_type="row", zebra_stripes=True, cursor_foreground_priority="renderable")
        self.items: tuple[FactRecord[Any] | RecallMatch, ...] = ()
        self._marked: set[str] = set()

    @property
    def current(self) -> FactRecord[Any] | RecallMatch | None:
        """The row under the cursor."""
        return self.items[self.cursor_row] if 0 <= self.cursor_row < len(self.items) else None

    @property
    def chosen(self) -> tuple[FactRecord[Any], ...]:
        """The marked rows; without any, the row under the cursor."""
        rows = tuple(map(_row_of, self.items))
        marked = tuple(row for row in rows if row.id in self._marked)
        return marked or (() if self.current is None else (_row_of(self.current),))

    def present(self, items: Sequence[FactRecord[Any] | RecallMatch]) -> None:
        """Show records or results; the cursor and the marks stay at the records they are at."""
        at, before = self.cursor_row, self.current
        self.items = tuple(items)
        ids = [_row_of(item).id for item in self.items]
        self._marked &= set(ids)
        if before is not None and _row_of(before).id in ids:
            at = ids.index(_row_of(before).id)
        self._draw(min(at, len(ids) - 1))

    def to_top(self) -> None:
        """Forget the rows, the cursor and the marks, since other records follow; until then no action finds any."""
        self.items = ()
        self._marked.clear()
        self.move_cursor(row=0)

    def action_mark(self) -> None:
        """Mark the row under the cursor, or take its mark away, and go on to the next one."""
        if self.current is not None:
            self._marked ^= {_row_of(self.current).id}
            self._draw(min(self.cursor_row + 1, len(self.items) - 1))

    def action_mark_all(self) -> None:
        """Mark all rows, or take all marks away if all are marked."""
        ids = {_row_of(item).id for item in self.items}
        self._marked = set() if self._marked == ids else ids
        self._draw(self.cursor_row)

    def on_resize(self, event: events.Resize) -> None:
        """Fit the columns to the new width."""
        self._draw(self.cursor_row)

    def on_data_table_row_highlighted(self, event: DataTable.RowHighlighted) -> None:
        """Say so if the cursor is at the end."""
        if self.items and event.cursor_row == len(self.items) - 1:
            self.post_message(self.Ended())

    def _draw(self, cursor: int) -> None:
        room = self.size.width
        if not room:
            return
        scored = any(isinstance(item, RecallMatch) for item in self.items)
        shown = [item for item in _COLUMNS if room >= item[2] and (scored or item[0] != "Score")]
        rest = room - sum(width for _, width, _ in shown) - 2 * len(shown) - self.styles.scrollbar_size_vertical
        with self.prevent(DataTable.RowHighlighted):
            self.clear(columns=True)
            for label, width, _ in shown:
                self.add_column(label, width=width or max(12, rest))
            for item in self.items:
                cells = self._cells(item)
                self.add_row(*[cells[label] for label, _, _ in shown])
        self.move_cursor(row=max(0, cursor))

    def _cells(self, item: FactRecord[Any] | RecallMatch) -> Mapping[str, Text]:
        row = _row_of(item)
        over = row.state in (AssertionState.RETRACTED, AssertionState.SUPERSEDED)
        fact = _cell("").append(plain(value_of(row), 300), "dim strike" if over else "")
        if not row.is_statement:
            fact = (
                _cell("").append(plain(row.concept.keyword, 60), self._tint("primary")).append("  ").append_text(fact)
            )
        notes = [name for name, there in (("private", row.private), (row.state.value, over)) if there]
        notes += [plain(row.quarantine_reason, 60)] if row.quarantine_reason else []
        fact.append("".join(f"  {note}" for note in notes), "dim italic")
        score = item.score if isinstance(item, RecallMatch) else 0.0
        return {
            "": _cell("✓" if row.id in self._marked else " ", "bold"),
            "Score": _cell("").append(bar(score, 6), self._tint()).append(f" {score:4.2f}"),
            _FLEXIBLE: fact,
            "About": _cell("" if is_general(row) else plain(str(row.subject), 60), "dim"),
            "Scope": _cell(plain(str(row.scope), 120), "dim"),
            "Said": _cell(f"{row.timestamp:%Y-%m-%d}", "dim"),
        }

    def _tint(self, name: str = "accent") -> str:
        return self.app.theme_variables[name]


def _row_of(item: FactRecord[Any] | RecallMatch) -> FactRecord[Any]:
    return item.record if isinstance(item, RecallMatch) else item


def _cell(text: str, style: str = "") -> Text:
    return Text(text, style, no_wrap=True, overflow="ellipsis", end="")


class Preview(Static):
    """The record under the cursor, in short."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._item: FactRecord[Any] | RecallMatch | None = None

    def present(self, item: FactRecord[Any] | RecallMatch | None) -> None:
        """Show a record or a result; None for nothing."""
        self._item = item
        self.update(preview_of(item, self.content_size.width))

    def on_resize(self, event: events.Resize) -> None:
        """Draw it anew for the new width."""
        self.present(self._item)


@attrs.frozen
class Place:
    """A node of the tree of places: one condition on records.

    Attributes:
        kind: Field of `Narrowing`; empty for none.
        name: Value of the field; empty for a heading.
        records: Number of records there; None for a heading.
        branch: The scopes below a scope.
    """

    kind: str
    name: str = ""
    records: int | None = attrs.field(default=None, eq=False)
    branch: ScopeTree | None = attrs.field(default=None, eq=False)

    def narrowed(self, narrowing: Narrowing) -> Narrowing:
        """Return conditions with this one, or without it if they have it already; a heading drops its kind."""
        if not self.kind:
            return Narrowing()
        there = getattr(narrowing, self.kind) == self.name
        changes: dict[str, Any] = {self.kind: "" if there else self.name}
        return attrs.evolve(narrowing, **changes)


_HEADINGS: Final = (("scope", "Scopes"), ("subject", "Subjects"), ("keyword", "Concepts"), ("category", "Categories"))


class PlaceTree(Tree[Place]):
    """The scopes, subjects, concepts and categories of a memory, with their numbers of records.

    Nodes are made when the node above them is opened, so that a memory of many scopes opens as fast as one of few.
    """

    BINDINGS: ClassVar[list[BindingType]] = [
        *Tree.BINDINGS,
        Binding("right", "open", show=False),
        Binding("left", "shut", show=False),
        Binding("j", "cursor_down", show=False),
        Binding("k", "cursor_up", show=False),
    ]

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(Text("Everything"), Place(""), id=id)
        self.guide_depth = 2
        self.auto_expand = False
        self.root.expand()
        self._opened: set[Place] = {Place(""), Place("scope")}
        self._narrowing = Narrowing()
        self._presented: tuple[ScopeInfo, ScopeTree, Narrowing] | None = None

    def present(self, overview: Overview, narrowing: Narrowing) -> None:
        """Show the places of a memory and which of them are conditions; open nodes and the cursor stay."""
        if (overview.info, overview.tree, narrowing) == self._presented:
            return
        self._presented, self._narrowing = (overview.info, overview.tree, narrowing), narrowing
        at = self.cursor_line
        with self.prevent(Tree.NodeExpanded, Tree.NodeCollapsed):
            self.clear()
            self.root.data = Place("", records=overview.info.records)
            self._add_scopes(self._heading("scope", "Scopes"), overview.tree)
            for (kind, label), counts in zip(
                _HEADINGS[1:], (overview.info.subjects, overview.info.keywords, overview.info.categories), strict=True
            ):
                if counts:
                    self._add_names(self._heading(kind, label), kind, ranked(counts))
        self.call_after_refresh(lambda: self.move_cursor_to_line(max(0, min(at, self.last_line))))

    def _heading(self, kind: str, label: str) -> TreeNode[Place]:
        place = Place(kind)
        return self.root.add(Text(label, "bold"), place, expand=place in self._opened)

    def _add_names(self, node: TreeNode[Place], kind: str, counts: Sequence[tuple[str, int]]) -> None:
        for name, number in counts[:_MOST_NAMES]:
            node.add_leaf(Text(plain(name, 60)), Place(kind, name, number))
        _count_rest(node, len(counts) - _MOST_NAMES)

    def _add_scopes(self, node: TreeNode[Place], branch: ScopeTree) -> None:
        shown = largest(branch)
        for child in shown:
            place = Place("scope", str(child.scope), child.records, child)
            opened = place in self._opened and bool(child.children)
            added = node.add(Text(plain(child.name, 60)), place, expand=opened, allow_expand=bool(child.children))
            if opened:
                self._add_scopes(added, child)
        _count_rest(node, len(branch.children) - len(shown))

    def on_tree_node_expanded(self, event: Tree.NodeExpanded[Place]) -> None:
        """Make the nodes below a scope that is opened."""
        if (place := event.node.data) is not None:
            self._opened.add(place)
            if place.branch is not None and not event.node.children:
                self._add_scopes(event.node, place.branch)

    def on_tree_node_collapsed(self, event: Tree.NodeCollapsed[Place]) -> None:
        """Remember that a node is shut."""
        if event.node.data is not None:
            self._opened.discard(event.node.data)

    def action_open(self) -> None:
        """Open the node under the cursor."""
        if self.cursor_node is not None and self.cursor_node.allow_expand:
            self.cursor_node.expand()

    def action_shut(self) -> None:
        """Shut the node under the cursor, or go to the one above it."""
        node = self.cursor_node
        if node is not None and node.is_expanded and node.allow_expand:
            node.collapse()
        elif node is not None and node.parent is not None:
            self.move_cursor(node.parent)

    def render_label(self, node: TreeNode[Place], base_style: Style, style: Style) -> Text:
        """Return the label of a node with its number of records; conditions are marked."""
        label = super().render_label(node, base_style, style)
        place = node.data
        if place is not None and place.name and place.kind and getattr(self._narrowing, place.kind) == place.name:
            label.stylize("reverse")
        if place is None or place.records is None:
            return label
        return label.append(f" {place.records:,}", style + Style(dim=True))


def _count_rest(node: TreeNode[Place], left_out: int) -> None:
    if left_out > 0:
        node.add_leaf(Text(f"and {left_out:,} more: search for them", "dim italic"))
