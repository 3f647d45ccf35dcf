"""Records, results and their past as styled lines, for the command line and for the browser in the terminal.

Every text of a memory passes through `shown`, so that a terminal obeys nothing in it; `Text` reads no markup.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, Final

from rich.text import Text

from factmem.browse.record_rows import cited, details_of, is_general, shape_of
from factmem.browse.texts import moment, short_id, shown
from factmem.details import Evidence, Origin
from factmem.json_form import value_json
from factmem.records import AssertionState, FactRecord
from factmem.values import Json, value_text

if TYPE_CHECKING:
    from factmem.memory.audit import AuditEntry
    from factmem.recall.results import RecallMatch

_LONGEST_ON_A_TERMINAL: Final = 2_000
"""Maximum length of a value on a terminal, in characters."""


def _value_shown(value: Json, longest: int = _LONGEST_ON_A_TERMINAL) -> str:
    """Return a value as one line, shortened on a terminal."""
    text = value_text(value)
    if len(text) <= longest or not _on_a_terminal():
        return shown(text)
    return f"{shown(text[:longest])} … ({len(text):,} characters; --json shows all)"


def _on_a_terminal() -> bool:
    return sys.stdout.isatty()


def record_block(
    record: FactRecord[Any], *, with_id: bool = True, all_evidence: bool = False, longest: int = _LONGEST_ON_A_TERMINAL
) -> list[Text]:
    """Return a record as lines: its value, of a number of characters at most, its place and its evidence."""
    lines = [headline(record, longest), Text(" · ".join(_where(record)), style="dim")]
    if record.quarantine_reason:
        lines.append(Text(shown(f"waits: {record.quarantine_reason}"), style="yellow"))
    if record.ended_at is not None:
        lines.append(Text(shown(f"until {moment(record.ended_at)} UTC: {record.end_reason}"), style="dim"))
    value = value_json(record)
    cited = record.evidence if all_evidence else record.evidence[:3]
    lines += [_source(item, value=value) for item in cited]
    if len(record.evidence) > len(cited):
        lines.append(Text(f"… and said {len(record.evidence) - len(cited)} times more", style="dim"))
    if with_id:
        lines.append(Text(f"id {short_id(record.id)}", style="dim"))
    return lines


def headline(record: FactRecord[Any], longest: int = _LONGEST_ON_A_TERMINAL) -> Text:
    """Return a record's value as a line, with its keyword, who said it, and its state where they say something."""
    line = Text(_value_shown(value_json(record), longest), style="bold")
    if not record.is_statement:
        line = Text(f"{shown(record.concept.keyword)} = ", style="bold") + line
    if record.details.origin is Origin.ASSISTANT:
        line = Text("the assistant said: ", style="italic") + line
    if record.state is not AssertionState.ACTIVE:
        line.append(f"  ({record.state.value})", style="yellow")
    return line


def _where(record: FactRecord[Any]) -> list[str]:
    details = record.details
    return [
        f"{record.timestamp:%Y-%m-%d %H:%M} UTC",
        *([] if is_general(record) else [shown(f"about {record.subject}")]),
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
    return (
        line if evidence.quote in ("", value) else Text.assemble((f"“{_value_shown(evidence.quote)}” ", "italic"), line)
    )


def match_notes(match: RecallMatch) -> list[Text]:
    """Return what followed or preceded the value of a match, as lines."""
    lines: list[Text] = []
    if match.newer is not None:
        value = _value_shown(value_json(match.newer))
        lines.append(Text(f"newer: {value} ({match.newer.timestamp:%Y-%m-%d})", style="yellow"))
    if match.retracted:
        lines.append(Text("retracted: a fact from this message was taken back", style="yellow"))
    for record in match.earlier:
        value = _value_shown(value_json(record))
        lines.append(Text(f"{record.timestamp:%Y-%m-%d}, {record.state.value}: {value}", style="dim"))
    return lines


def detail_lines(record: FactRecord[Any]) -> list[Text]:
    """Return the details of a record that its block leaves out, one a line."""
    listed = {"description": shown(record.concept.description), "type": shape_of(record), **details_of(record)}
    return [Text.assemble((f"{name:<12}", "dim"), text) for name, text in listed.items() if text]


def trail_line(entry: AuditEntry) -> Text:
    """Return an action on a record as a line: when, what, by whom and why, as far as it is known."""
    when = f"{entry.at:%Y-%m-%d %H:%M:%S} UTC · " if entry.at else ""
    what = f"r{entry.record.revision} {entry.action.value}" if entry.record else entry.action.value
    by = f" · by {shown(entry.actor)}" if entry.actor else ""
    why = f" · because: {shown(entry.reason)}" if entry.reason else ""
    return Text.assemble(when, (what, "bold"), by, why)
