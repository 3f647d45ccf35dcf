"""Pages as styled text: bars, timelines, graphs and records, drawn from plain data.

Every text of a memory passes through `plain`, so that nothing in it is obeyed: neither markup, which `Content` and
`Text` do not read, nor control characters, which a terminal would.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from rich.cells import cell_len
from textual.content import Content

from factmem.browse.browser import Difference, Narrowing, Opened, Told
from factmem.browse.charts import Graph, GraphNode, bars_of, marks_of
from factmem.browse.past import Biography
from factmem.browse.record_rows import (
    Quote,
    details_of,
    is_current,
    is_general,
    is_statement,
    quotes_of,
    shape_of,
    value_of,
)
from factmem.browse.texts import counted, masked, moment, shown
from factmem.changes import Change
from factmem.details import Origin
from factmem.facts import FactType
from factmem.memory.audit import AuditEntry
from factmem.memory.dead_letters import DeadLetter
from factmem.recall.results import RecallMatch, RecallMatches
from factmem.records import AssertionState, FactRecord

_MUTED: Final = "$foreground 60%"
_NAME: Final = "bold $text-primary"
_HEAD: Final = "bold $text-accent"
_LONGEST: Final = 20_000
"""Maximum number of characters of one text on a page: a longer one is cut, and the export has all of it."""

_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_STATE_MARKS: Final = {
    AssertionState.ACTIVE: ("●", "$text-success"),
    AssertionState.SUPERSEDED: ("○", _MUTED),
    AssertionState.RETRACTED: ("×", "$text-error"),
    AssertionState.QUARANTINED: ("?", "$text-warning"),
}
_OVER: Final = (AssertionState.RETRACTED, AssertionState.SUPERSEDED)


def plain(text: str, most: int = 500) -> str:
    """Return a text as one harmless line of at most so many characters.

    Args:
        text: A text of the memory.
        most: Maximum number of characters.
    """
    line = shown(text[: 8 * most])
    return line if len(line) <= most and len(text) <= 8 * most else f"{line[: most - 1]}…"


def bar(share: float, width: int) -> str:
    """Return a share from 0 to 1 as a bar of so many cells."""
    eighths = round(min(1.0, max(0.0, share)) * width * 8)
    full, rest = divmod(eighths, 8)
    return ("█" * full + (_EIGHTHS[rest] if rest else "")).ljust(width)


def bar_lines(bars: Sequence[tuple[str, float, str]], width: int) -> Content:
    """Return the parts of a score as bars: with their meaning if there is room, else in two columns."""
    meant = width >= 66
    lines: list[Content] = []
    for name, share, meaning in bars:
        cells = (bar(share, 10), "$primary on $boost")
        lines.append(
            Content.assemble(f"{name:<10} ", cells, f" {share:4.2f}", (f"  {meaning}" if meant else "", _MUTED))
        )
    if meant or width < 56:
        return _lines(lines)
    half = (len(lines) + 1) // 2
    pairs = zip(lines[:half], [*lines[half:], *[Content("")] * (2 * half - len(lines))], strict=True)
    return _lines(Content.assemble(left, "   ", right) for left, right in pairs)


def opened_line(opened: Opened) -> Content:
    """Return the opening of a memory as one line."""
    named = [
        ("user", opened.user),
        ("viewer", "" if opened.user else opened.viewer),
        *[("in", w) for w in opened.walls],
    ]
    parts = [plain(opened.store, 60), *[f"{what} {plain(name, 40)}" for what, name in named if name]]
    line = Content(" · ".join(filter(None, parts)))
    return Content.assemble(line, (" · read-only", "bold $text-warning")) if opened.read_only else line


def conditions_of(narrowing: Narrowing, found: RecallMatches | None, loaded: int, *, more: bool) -> Content:
    """Return one line on what is listed: the query, the conditions, and the number of rows.

    Args:
        narrowing: The conditions.
        found: The results of a search; None for a listing.
        loaded: Number of rows shown.
        more: Whether further rows follow.
    """
    names = [
        ("scope", narrowing.scope),
        ("about", narrowing.subject),
        ("concept", narrowing.keyword),
        ("category", narrowing.category),
        ("source", narrowing.source),
    ]
    parts = [Content.assemble((f"{what} ", _MUTED), (plain(name, 60), "bold")) for what, name in names if name]
    if found is None:
        parts.insert(0, Content(f"{counted(loaded, 'record')}{' and more' if more else ''}, newest first"))
    elif found and not found.answers:
        parts.insert(0, Content.styled("Nothing answers this. Nearest:", "$text-warning"))
    else:
        parts.insert(0, Content(counted(loaded, "match", "matches") + ", best first" if loaded else "no match"))
    if found is not None and found.failure:
        parts.append(Content.styled(plain(found.failure), "$text-warning"))
    return Content(" · ").join(parts)


def preview_of(shown_item: FactRecord[Any] | RecallMatch | None, width: int) -> Content:
    """Return the short form of a record, with the parts of its score if a search found it.

    Args:
        shown_item: The record or the result; None for nothing.
        width: Number of cells in a line.
    """
    if shown_item is None:
        return Content.styled("Nothing is selected.", _MUTED)
    row = shown_item.record if isinstance(shown_item, RecallMatch) else shown_item
    lines = [_titled(row, 600), _placed(row)]
    if isinstance(shown_item, RecallMatch):
        lines += _scored(shown_item, width)
    lines += [_quoted(quote, 300) for quote in quotes_of(row) if not quote.repeats or quote.speaker]
    lines += _marked(row)
    return _lines(lines)


def _scored(hit: RecallMatch, width: int) -> Iterator[Content]:
    because = (f"because: {', '.join(hit.reasons) or 'nothing in particular'}", _MUTED)
    score = Content.assemble(
        ("score      ", "bold"), (bar(hit.score, 10), "$accent on $boost"), (f" {hit.score:4.2f}", "bold")
    )
    yield from [Content.assemble(score, "  ", because)] if width >= 66 else [score, Content.assemble(because)]
    yield bar_lines(bars_of(hit.parts), width)
    if hit.newer is not None:
        yield Content.assemble(("overtaken by ", "$text-warning"), _titled(hit.newer, 200))
    if hit.retracted:
        yield Content.styled("a fact found in the same words was retracted", "$text-warning")
    for row in hit.earlier[:3]:
        yield Content.assemble(("before: ", _MUTED), plain(value_of(row), 200), (f"  {moment(row.timestamp)}", _MUTED))


def _titled(row: FactRecord[Any], most: int) -> Content:
    value = (plain(value_of(row), most), "dim strike" if row.state in _OVER else "bold")
    return (
        Content.assemble(value)
        if is_statement(row)
        else Content.assemble((plain(row.concept.keyword, 80), _NAME), "  ", value)
    )


def _placed(row: FactRecord[Any]) -> Content:
    parts = [] if is_general(row) else [f"about {plain(str(row.subject), 80)}"]
    parts += [f"in {plain(str(row.scope), 120)}", moment(row.timestamp)]
    parts += [] if row.details.origin is Origin.USER else [f"from {row.details.origin.value}"]
    return Content.styled(" · ".join(parts), _MUTED)


def _quoted(quote: Quote, most: int) -> Content:
    said = quote.speaker or "said"
    return Content.assemble((f"{plain(said, 80)}: ", _MUTED), ("“" + plain(quote.text, most) + "”", "italic"))


def _marked(row: FactRecord[Any]) -> Iterator[Content]:
    if row.quarantine_reason:
        yield Content.styled(f"? waits: {plain(row.quarantine_reason)}", "$text-warning")
    elif not is_current(row):
        mark, style = _STATE_MARKS.get(row.state, ("·", _MUTED))
        yield Content.styled(f"{mark} {row.state.value}", style)
    if row.details.flags and not row.quarantine_reason:
        yield Content.styled(f"suspicious: {plain(', '.join(row.details.flags))}", "$text-warning")
    if row.private:
        yield Content.styled("private: its owner alone sees it", "$text-accent")


def body_of(page: Biography, width: int) -> Content:
    """Return the upper part of a record's page: its value, its evidence and its details.

    Args:
        page: All about the record.
        width: Number of cells in a line.
    """
    row = page.record
    head = Content(plain(row.concept.keyword, 200) if not is_statement(row) else "statement").stylize(_NAME)
    kind = "one value at a time" if row.concept.fact_type is FactType.SINGLE else "one of its values"
    said = row.concept.description if row.concept.description != row.concept.keyword else ""
    about = Content.styled("  ".join(filter(None, [plain(said), f"({plain(shape_of(row), 80)}, {kind})"])), _MUTED)
    value = Content(plain(value_of(row), _LONGEST)).stylize("strike" if row.state in _OVER else "bold")
    details = {
        "about": "" if is_general(row) else str(row.subject),
        "scope": str(row.scope),
        "said": f"{moment(row.timestamp)} UTC",
        "source": row.details.source or "",
        "categories": ", ".join(row.details.categories),
        **details_of(row),
    }
    cells = [Content.assemble((f"{name:<12}", _MUTED), plain(text)) for name, text in details.items() if text]
    evidence = [line for quote in quotes_of(row) for line in _evidence(quote)]
    return _lines([
        Content.assemble(head, "  ", about), value, *_marked(row), Content(""),
        Content("Evidence").stylize(_HEAD), *(evidence or [Content.styled("no words are kept with it", _MUTED)]),
        Content(""), Content("Details").stylize(_HEAD), *_paired(cells, (width - 2) // 2),
    ])  # fmt: skip


def _paired(cells: Sequence[Content], width: int) -> Iterator[Content]:
    """Yield cells two a line, where both fit in so many cells each."""
    waiting: Content | None = None
    for cell in cells:
        if waiting is not None and cell.cell_length <= width:
            yield Content.assemble(waiting, " " * (width - waiting.cell_length + 2), cell)
            waiting = None
            continue
        if waiting is not None:
            yield waiting
        waiting = cell if cell.cell_length <= width else None
        if waiting is None:
            yield cell
    if waiting is not None:
        yield waiting


def _evidence(quote: Quote) -> Iterator[Content]:
    yield _quoted(quote, _LONGEST)
    if quote.place:
        yield Content.styled(f"  {plain(quote.place)}", _MUTED)


def axis_of(revisions: Sequence[FactRecord[Any]], width: int) -> Content:
    """Return the revisions on a line from the first to the last one.

    Args:
        revisions: The revisions, oldest first.
        width: Number of cells of the line.
    """
    if len(revisions) < 2:
        return Content("")
    cells = [("─", _MUTED)] * width
    for record, position in marks_of(revisions):
        cells[round(position * (width - 1))] = _STATE_MARKS.get(record.state, ("·", _MUTED))
    first, last = (f"{revisions[end].timestamp:%Y-%m-%d}" for end in (0, -1))
    return Content.assemble((f"{first} ", _MUTED), *cells, (f" {last}", _MUTED))


def revision_line(row: FactRecord[Any]) -> Content:
    """Return one revision as a line."""
    dot, style = _STATE_MARKS.get(row.state, ("·", _MUTED))
    return Content.assemble(
        (f"{dot} ", style), f"{moment(row.timestamp)}  ",
        (plain(value_of(row), 200), "bold" if is_current(row) else ""),
        (f"  {row.state.value}, revision {row.revision}", _MUTED),
    )  # fmt: skip


def trail_of(trail: Iterable[AuditEntry]) -> Content:
    """Return the actions on a record, one a line."""
    return _lines(_action(entry) for entry in trail)


def _action(entry: AuditEntry) -> Content:
    by = f"  by {plain(entry.actor, 80)}" if entry.actor else ""
    why = f"  because: {plain(entry.reason)}" if entry.reason else ""
    value = "" if entry.record is None else plain(value_of(entry.record), 200)
    return Content.assemble(
        (f"{moment(entry.at) or 'time unknown':<16}  ", _MUTED), (f"{entry.action.value:<10}", "bold"),
        f" {value}", (f"{by}{why}", _MUTED),
    )  # fmt: skip


def graph_lines(graph: Graph) -> list[tuple[Content, str | None]]:
    """Return a graph as lines from its subject on the left over its concepts to its values on the right.

    Args:
        graph: The graph.

    Returns:
        Each line with the record of its value; None where there is none.
    """
    middle, *others = graph.nodes
    branches: list[tuple[GraphNode, list[GraphNode]]] = []
    for node in others:
        if node.ring == 1:
            branches.append((node, []))
        else:
            branches[-1][1].append(node)
    root = f"( {plain(middle.label, 24)} )"
    names = [plain(node.label, 24) for node, _ in branches]
    widest = max(map(cell_len, names), default=0)
    starts = list(itertools.accumulate([len(values) for _, values in branches], initial=0))
    last = starts[-2] if branches else 0
    lines: list[tuple[Content, str | None]] = []
    for name, start, (_, values) in zip(names, starts, branches, strict=False):
        for place, leaf in enumerate(values):
            at = start + place
            joined = at == last // 2
            stem = _joint(up=0 < at <= last, down=at < last, left=joined, right=not place)
            arm = "── " if not place else " " * (widest + 4)
            rest = "─" * (widest - cell_len(name)) if not place else ""
            fork = _joint(up=place > 0, down=place < len(values) - 1, left=not place, right=True)
            line = Content.assemble(
                (f"{root} ─" if joined else " " * (cell_len(root) + 2), "bold $text-accent"),
                (f"{stem}{arm}", _MUTED),
                (name if not place else "", _NAME),
                (f" {rest}{fork}─ " if not place else f"{fork}─ ", _MUTED),
                (plain(leaf.label, 300), "bold" if leaf.record_id else _MUTED),
            )
            lines.append((line, leaf.record_id))
    if graph.left_out:
        lines.append((Content.styled(f"and {counted(graph.left_out, 'concept')} more in the table", _MUTED), None))
    return lines


def _joint(*, up: bool, down: bool, left: bool, right: bool) -> str:
    """Return the character where lines in these directions meet."""
    return " ╶╴─╷┌┐┬╵└┘┴│├┤┼"[8 * up + 4 * down + 2 * left + right]


def difference_line(field: Difference) -> Content:
    """Return the texts of one field before a change of somebody else, after it, and in the form."""
    texts = {" was ": field.was, " is now ": field.now, " yours ": field.yours}
    parts = [part for label, text in texts.items() for part in ((label, _MUTED), (plain(text, 200) or "—", "bold"))]
    return Content.assemble((f"{field.name}:", _NAME), *parts)


def letter_line(letter: DeadLetter) -> Content:
    """Return a dead letter as two lines: its words, and why they could not be read."""
    words = plain(" ".join(map(value_of, letter.records[:20])), 300) or "no words are kept"
    return Content.assemble(
        (words, "bold"), (f"\n  {plain(letter.failure)} · tried {moment(letter.failed_at)}", _MUTED)
    )


def block_of(told: Told | None) -> Content:
    """Return what an agent would get: the block as the model reads it, and a line on its size."""
    if told is None:
        return Content("")
    looked = Content.styled(f"in {', '.join(plain(scope, 80) for scope in told.scopes)}", _MUTED)
    if not told.block.text:
        return Content.assemble(("nothing: no fact is known that the agent would get\n", "bold"), looked)
    text = masked(told.block.text)
    cut = "" if len(text) <= _LONGEST else f"\n… and {counted(len(text) - _LONGEST, 'character')} more"
    left = f" · {counted(told.block.left_out, 'record')} did not fit" if told.block.left_out else ""
    size = f"{counted(len(told.block.records), 'record')}, about {counted(told.tokens, 'token')}{left}"
    return Content.assemble((size, "bold $text-success"), " ", looked, "\n\n", text[:_LONGEST], (cut, _MUTED))


def outcome_of(verb: str, done: Sequence[Change]) -> str:
    """Return a sentence on changes that were made, without any value."""
    return f"{verb} {counted(len(done), 'record')}." if done else "Nothing changed."


def _lines(lines: Iterable[Content]) -> Content:
    return Content("\n").join(lines)
