"""Pages as styled text: bars, timelines and records, drawn from plain data.

Every text of a memory passes through `plain`, so that nothing in it is obeyed: neither markup, which `Content` and
`Text` do not read, nor control characters, which a terminal would.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final

from rich.text import Text
from textual.content import Content

from factmem.browse.browser import FIELDS, AgentBlock, Difference, Narrowing, Opened
from factmem.browse.charts import bars_of, marks_of
from factmem.browse.past import Biography
from factmem.browse.record_lines import detail_lines, match_notes, record_block, trail_line
from factmem.browse.record_rows import is_current, value_of
from factmem.browse.texts import counted, masked, moment, shown
from factmem.changes import Change
from factmem.memory.audit import AuditEntry
from factmem.memory.dead_letters import DeadLetter
from factmem.recall.results import RecallMatch, RecallMatches
from factmem.records import AssertionState, FactRecord

_MUTED: Final = "$foreground 60%"
_NEW_LINE: Final = Content("\n")
_NAME: Final = "bold $text-primary"
_LONGEST: Final = 20_000
"""Maximum number of characters of one text on a page: a longer one is cut, and the export has all of it."""

_WIDE: Final = 66
"""Width in cells from which on the meanings of a score's parts are shown."""

_EIGHTHS: Final = " ▏▎▍▌▋▊▉"
_STATE_MARKS: Final = {
    AssertionState.ACTIVE: ("●", "$text-success"),
    AssertionState.SUPERSEDED: ("○", _MUTED),
    AssertionState.RETRACTED: ("×", "$text-error"),
    AssertionState.QUARANTINED: ("?", "$text-warning"),
}


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
    names = [(word, getattr(narrowing, field)) for field, word in FIELDS.items()]
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


def preview_of(item: FactRecord[Any] | RecallMatch | None, width: int) -> Content:
    """Return the short form of a record, with the parts of its score if a search found it.

    Args:
        item: The record or the result; None for nothing.
        width: Number of cells in a line.
    """
    match item:
        case None:
            return Content.styled("Nothing is selected.", _MUTED)
        case RecallMatch() as hit:
            block = _styled(record_block(hit.record, with_id=False))
            notes = [_styled([note]) for note in match_notes(hit)]
            return _NEW_LINE.join([block, *_scored(hit, width), *notes])
        case record:
            return _styled(record_block(record, with_id=False))


def _scored(hit: RecallMatch, width: int) -> Iterable[Content]:
    """Yield a score and its parts as bars, with their meanings if there is room."""
    because = f"because: {', '.join(hit.reasons) or 'nothing in particular'}"
    yield Content.assemble(
        ("score      ", "bold"), (bar(hit.score, 10), "$accent on $boost"), (f" {hit.score:4.2f}  ", "bold"), because
    )
    for name, share, meaning in bars_of(hit.parts):
        cells = (bar(share, 10), "$primary on $boost")
        yield Content.assemble(
            f"{name:<10} ", cells, f" {share:4.2f}", (f"  {meaning}" if width >= _WIDE else "", _MUTED)
        )


def body_of(page: Biography) -> Content:
    """Return the upper part of a record's page: its value, its evidence and its details."""
    block = record_block(page.record, with_id=False, all_evidence=True, longest=_LONGEST)
    return _styled([*block, Text(""), *detail_lines(page.record)])


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
    end = f", until {moment(row.ended_at)}: {plain(row.end_reason or '')}" if row.ended_at else ""
    return Content.assemble(
        (f"{dot} ", style), f"{moment(row.timestamp)}  ",
        (plain(value_of(row), 200), "bold" if is_current(row) else ""),
        (f"  {row.state.value}, revision {row.revision}{end}", _MUTED),
    )  # fmt: skip


def trail_of(trail: Iterable[AuditEntry]) -> Content:
    """Return the actions on a record, one a line."""
    return _styled(map(trail_line, trail))


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


def block_of(found: AgentBlock) -> Content:
    """Return what an agent would get: the block as the model reads it, and a line on its size."""
    looked = Content.styled(f"in {', '.join(plain(scope, 80) for scope in found.scopes)}", _MUTED)
    if not found.block.text:
        return Content.assemble(("nothing: no fact is known that the agent would get\n", "bold"), looked)
    text = masked(found.block.text)
    cut = "" if len(text) <= _LONGEST else f"\n… and {counted(len(text) - _LONGEST, 'character')} more"
    left = f" · {counted(found.block.left_out, 'record')} did not fit" if found.block.left_out else ""
    size = f"{counted(len(found.block.records), 'record')}, about {counted(found.tokens, 'token')}{left}"
    return Content.assemble((size, "bold $text-success"), " ", looked, "\n\n", text[:_LONGEST], (cut, _MUTED))


def outcome_of(verb: str, done: Sequence[Change]) -> str:
    """Return a sentence on changes that were made, without any value."""
    return f"{verb} {counted(len(done), 'record')}." if done else "Nothing changed."


def _styled(lines: Iterable[Text]) -> Content:
    return _NEW_LINE.join(map(Content.from_rich_text, lines))
