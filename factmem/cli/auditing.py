"""The command that shows what happened: ``audit``."""

from __future__ import annotations

import datetime as dt
import enum
from typing import TYPE_CHECKING, Annotated, Final

import attrs
import typer

from factmem.cli.arguments import ExactOption, ScopeOption, SubjectOption, from_day, through_day
from factmem.cli.command import command
from factmem.cli.session import Session
from factmem.details import Origin
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from factmem.memory import AuditEntry, AuditPage, Filters

__all__ = ["add_to"]

_A_PAGE: Final = 50


class _Happened(enum.StrEnum):
    """What ``--action`` takes; see `factmem.memory.AuditAction`, which is not loaded for a command's help."""

    RECORDED = "recorded"
    SET_ASIDE = "set-aside"
    HANDED_OVER = "handed-over"
    READ = "read"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    LET_IN = "let-in"
    TURNED_AWAY = "turned-away"
    RETRACTED = "retracted"
    RESTORED = "restored"
    ERASED = "erased"


def add_to(app: typer.Typer) -> None:
    """Add this command to the app."""
    command(app, "audit")(audit)


async def audit(
    session: Session,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]", help="Only of these records; else of all.")] = None,
    scope: ScopeOption = None,
    exact: ExactOption = False,
    subject: SubjectOption = None,
    concept: Annotated[list[str] | None, typer.Option(metavar="KEYWORD", help="Of this concept.")] = None,
    source: Annotated[list[str] | None, typer.Option(metavar="NAME", help="From this source.")] = None,
    origin: Annotated[list[Origin] | None, typer.Option(help="Of words of this origin.")] = None,
    action: Annotated[list[_Happened] | None, typer.Option(help="Only this. May be repeated.")] = None,
    actor: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only what this one did: cli, mcp, import, cli:ada, …")
    ] = None,
    flagged: Annotated[bool, typer.Option("--flagged", help="Only of what reads like an instruction.")] = False,
    since: Annotated[dt.datetime | None, typer.Option(parser=from_day, metavar="DATE", help="From then on.")] = None,
    until: Annotated[dt.datetime | None, typer.Option(parser=through_day, metavar="DATE", help="Up to then.")] = None,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="In the order it happened.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="NUMBER", help="How much on a page.")] = _A_PAGE,
    page: Annotated[str | None, typer.Option(metavar="PAGE", help="The page, as the one before names it.")] = None,
) -> None:
    """Show which fact came from where and when, and who let it in; newest first."""
    from factmem.memory import AuditAction

    filters: Filters = {}
    if scope is not None:
        filters |= {"scope": scope, "exact": exact}
    if subject is not None:
        filters["subject"] = subject
    if concept:
        filters["concepts"] = concept
    if source:
        filters["sources"] = source
    async with session.memory(subject=subject, scope=scope) as memory:
        found = await memory.audit(
            *(ids or ()),
            actions=[AuditAction[item.name] for item in action or ()],
            actors=actor or (),
            origins=origin or (),
            flagged=True if flagged else None,
            happened_since=since,
            happened_until=None if until is None else until + dt.timedelta(microseconds=1),
            descending=not oldest_first,
            size=limit,
            page=page,
            **filters,
        )
        if not found.entries:
            await session.note_if_empty(memory)
    data: dict[str, Json] = {"entries": [_entry_json(entry) for entry in found.entries], "next_page": found.next_page}
    session.show(data, lambda out: _print_trail(out, found))


def _entry_json(entry: AuditEntry) -> dict[str, Json]:
    from factmem.cli.output import record_json

    return {
        "action": entry.action.value,
        "seq": entry.seq,
        "at": entry.at.isoformat() if entry.at else None,
        "actor": entry.actor,
        "reason": entry.reason,
        "assertion_id": entry.assertion_id,
        "removed": entry.removed,
        "record": None if entry.record is None else record_json(entry.record),
    }


def _print_trail(out: Console, found: AuditPage) -> None:
    from factmem.cli.output import print_block

    if not found.entries:
        out.print("Nothing fits.")
    for entry in found.entries:
        print_block(out, f"#{entry.seq}", _lines(entry))
    if found.next_page is not None:
        out.print(f"There is more: --page {found.next_page}")


def _lines(entry: AuditEntry) -> list[Text]:
    from rich.text import Text

    from factmem.cli.output import record_block, shown
    from factmem.records import AssertionState

    when = [f"{entry.at:%Y-%m-%d %H:%M:%S}"] if entry.at else []
    who = [shown(f"by {entry.actor}")] if entry.actor else []
    why = [shown(f"because: {entry.reason}")] if entry.reason else []
    happened = Text.assemble((entry.action.value, "bold yellow"), " · " if when or who or why else "")
    happened.append(" · ".join([*when, *who, *why]))
    if entry.record is None:
        return [happened, Text(shown(f"assertion {entry.assertion_id}"), style="dim")]
    block = record_block(attrs.evolve(entry.record, state=AssertionState.ACTIVE))
    origin = Text(f"origin {entry.record.details.origin.value}", style="dim")
    said = Text("no longer: ", style="italic") + block[0] if entry.removed else block[0]
    return [happened, said, origin, *block[1:]]
