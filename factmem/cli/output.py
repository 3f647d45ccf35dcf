"""Records, matches and changes as text for people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from factmem.browse.record_lines import headline, match_notes, record_block
from factmem.browse.texts import short_id, shown
from factmem.changes import Change
from factmem.records import FactRecord

if TYPE_CHECKING:
    from factmem.recall.results import DeepRecall, RecallMatch


class _Console(Console):
    """A console that raises `BrokenPipeError` when the reader went away."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    """Return a console; only terminals wrap lines, and NO_COLOR turns colours off."""
    stream = sys.stderr if stderr else sys.stdout
    return _Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=not stream.isatty())


def deep_block(found: DeepRecall) -> list[Text]:
    """Return the findings of deep recall besides its matches, as lines."""
    lines = [f"confidence {found.confidence:.2f}"]
    lines += [f"asked as well: {text}" for text in found.questions[1:]]
    lines += [f"looked in {path}" for path in found.scopes]
    lines += [f"still missing: {gap.missing}" for gap in found.gaps]
    return [Text(shown(line), style="dim") for line in lines]


def match_line(match: RecallMatch) -> Text:
    """Return a match as one line."""
    return headline(match.record).append(f"  id {short_id(match.record.id)}", style="not bold dim")


def match_block(match: RecallMatch, *, explain: bool) -> list[Text]:
    """Return a match as lines."""
    lines = [*record_block(match.record, with_id=False), *match_notes(match)]
    lines.append(Text(" · ".join([*match.reasons, f"id {short_id(match.record.id)}"]), style="dim"))
    if explain:
        parts = (f"{name} {part:.3f}" for name, part in match.parts.by_name().items())
        lines.append(Text("  ".join(parts), style="cyan"))
    return lines


def print_block(out: Console, label: str, lines: Sequence[Text]) -> None:
    """Print lines after a label, aligned with the first one."""
    first, *others = lines
    out.print(Text.assemble((f"{label}  ", "bold green"), first))
    for line in others:
        if out.is_terminal:
            out.print(Padding(line, (0, 0, 0, len(label) + 2)))
        else:
            out.print(Text(" " * (len(label) + 2)) + line)


def print_records(
    out: Console, records: Sequence[FactRecord[Any]], label: Callable[[FactRecord[Any]], str], *, empty: str = ""
) -> None:
    """Print records for people, each after a label, or a text if there are none."""
    if not records and empty:
        out.print(empty)
    for record in records:
        print_block(out, label(record), record_block(record))


def print_more(out: Console, next_page: str | None) -> None:
    """Print how to see the next page, if there is one."""
    if next_page is not None:
        out.print(f"There is more: --page {next_page}")


def print_changes(out: Console, changes: Iterable[Change], label: str | None = None) -> None:
    """Print changes for people.

    Args:
        out: Console to print to.
        changes: The changes.
        label: Label of each change (default: its kind).
    """
    for change in changes:
        print_block(out, label or change.kind.value, record_block(change.record))
