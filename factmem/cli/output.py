"""Records, matches and changes as JSON and as text for people."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from factmem.browse.record_rows import cited
from factmem.browse.texts import shown, value_text
from factmem.changes import Change
from factmem.cli.ids import short_id
from factmem.details import Evidence, Origin
from factmem.facts import STATEMENT
from factmem.json_form import value_json
from factmem.records import AssertionState, FactRecord
from factmem.subjects import MemorySubject
from factmem.values import Json

if TYPE_CHECKING:
    from factmem.recall.results import DeepRecall, RecallMatch

_LONGEST_ON_A_TERMINAL: Final = 2_000
"""Maximum length of a value on a terminal, in characters."""


class _Console(Console):
    """A console that raises `BrokenPipeError` when the reader went away."""

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError


def console(*, stderr: bool = False) -> Console:
    """Return a console; only terminals wrap lines, and NO_COLOR turns colours off."""
    stream = sys.stderr if stderr else sys.stdout
    return _Console(file=stream, highlight=False, markup=False, emoji=False, soft_wrap=not stream.isatty())


def value_shown(value: Json) -> str:
    """Return a value as one line, shortened on a terminal."""
    text = value_text(value)
    if len(text) <= _LONGEST_ON_A_TERMINAL or not _on_a_terminal():
        return shown(text)
    return f"{shown(text[:_LONGEST_ON_A_TERMINAL])} … ({len(text):,} characters; --json shows all)"


def _on_a_terminal() -> bool:
    return sys.stdout.isatty()


def deep_block(found: DeepRecall) -> list[Text]:
    """Return the findings of deep recall besides its matches, as lines."""
    lines = [f"confidence {found.confidence:.2f}"]
    lines += [f"asked as well: {text}" for text in found.questions[1:]]
    lines += [f"looked in {path}" for path in found.scopes]
    lines += [f"still missing: {gap.missing}" for gap in found.gaps]
    return [Text(shown(line), style="dim") for line in lines]


def record_block(record: FactRecord[Any], *, with_id: bool = True, all_evidence: bool = False) -> list[Text]:
    """Return a record as lines: its value, its place and its evidence."""
    lines = [_headline(record), Text(" · ".join(_where(record)), style="dim")]
    if record.quarantine_reason:
        lines.append(Text(shown(f"waits: {record.quarantine_reason}"), style="yellow"))
    value = value_json(record)
    cited = record.evidence if all_evidence else record.evidence[:3]
    lines += [_source(item, value=value) for item in cited]
    if len(record.evidence) > len(cited):
        lines.append(Text(f"… and said {len(record.evidence) - len(cited)} times more", style="dim"))
    if with_id:
        lines.append(Text(f"id {short_id(record.id)}", style="dim"))
    return lines


def match_line(match: RecallMatch) -> Text:
    """Return a match as one line."""
    return _headline(match.record).append(f"  id {short_id(match.record.id)}", style="not bold dim")


def match_block(match: RecallMatch, *, explain: bool = False) -> list[Text]:
    """Return a match as lines."""
    lines = record_block(match.record, with_id=False)
    if match.newer is not None:
        value = value_shown(value_json(match.newer))
        lines.append(Text(f"newer: {value} ({match.newer.timestamp:%Y-%m-%d})", style="yellow"))
    if match.retracted:
        lines.append(Text("retracted: a fact from this message was taken back", style="yellow"))
    for record in match.earlier:
        value = value_shown(value_json(record))
        lines.append(Text(f"{record.timestamp:%Y-%m-%d}, {record.state.value}: {value}", style="dim"))
    lines.append(Text(" · ".join([*match.reasons, f"id {short_id(match.record.id)}"]), style="dim"))
    if explain:
        parts = [f"{name} {part:.3f}" for name, part in attrs.asdict(match.parts).items() if part is not None]
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


def _headline(record: FactRecord[Any]) -> Text:
    value = value_shown(value_json(record))
    if record.concept.keyword == STATEMENT.keyword:
        line = Text(value, style="bold")
    else:
        line = Text.assemble((f"{shown(record.concept.keyword)} = ", "bold"), (value, "bold"))
    if record.details.origin is Origin.ASSISTANT:
        line = Text("the assistant said: ", style="italic") + line
    if record.state is not AssertionState.ACTIVE:
        line.append(f"  ({record.state.value})", style="yellow")
    return line


def _where(record: FactRecord[Any]) -> list[str]:
    details = record.details
    return [
        f"{record.timestamp:%Y-%m-%d %H:%M} UTC",
        *([shown(f"about {record.subject}")] if record.subject != MemorySubject.EVERYTHING else []),
        shown(f"in {record.scope}"),
        *(["private"] if record.private else []),
        *([f"flagged: {', '.join(details.flags)}"] if details.flags and not record.quarantine_reason else []),
        *([shown(f"from {details.source}")] if details.source else []),
        *([shown(", ".join(details.categories))] if details.categories else []),
    ]


def _source(evidence: Evidence, *, value: Json) -> Text:
    """Return the speaker and the place of evidence, with the quote if it differs from the value."""
    speaker, place = cited(evidence)
    line = Text(", ".join(filter(None, [f"— {speaker or 'someone'}", place])), style="dim")
    return line if evidence.quote == value else Text.assemble((f"“{value_shown(evidence.quote)}” ", "italic"), line)


def print_records(
    out: Console,
    records: Sequence[FactRecord[Any]],
    label: Callable[[FactRecord[Any]], str] = lambda record: "•",
    *,
    empty: str = "",
) -> None:
    """Print records for people, each after a label, or a text if there are none."""
    if not records and empty:
        out.print(empty)
    for record in records:
        print_block(out, label(record), record_block(record))


def print_changes(out: Console, changes: Iterable[Change], label: str | None = None) -> None:
    """Print changes for people.

    Args:
        out: Console to print to.
        changes: The changes.
        label: Label of each change (default: its kind).
    """
    for change in changes:
        print_block(out, label or change.kind.value, record_block(change.record))
