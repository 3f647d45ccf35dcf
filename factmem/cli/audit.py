"""The command `audit`: the history of the store."""

from __future__ import annotations

import datetime as dt
import enum
from typing import TYPE_CHECKING, Annotated, Final

import attrs
import typer
from rich.text import Text

from factmem.browse.texts import shown
from factmem.cli.ids import full_ids
from factmem.cli.options import PageOption, Selection, from_day, through_day
from factmem.cli.output import print_block, record_block, record_json
from factmem.cli.session import Session
from factmem.details import Origin
from factmem.records import AssertionState
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory import AuditEntry, AuditPage

__all__ = ["audit", "entry_json"]

_PAGE_SIZE: Final = 50
_ANY: Final = Selection()


class _Action(enum.StrEnum):
    """The choices of ``--action``; see `factmem.memory.AuditAction`."""

    RECORDED = "recorded"
    SET_ASIDE = "set-aside"
    SUBMITTED = "submitted"
    READ = "read"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    RETRACTED = "retracted"
    RESTORED = "restored"
    ERASED = "erased"


async def audit(
    session: Session,
    ids: Annotated[list[str] | None, typer.Argument(metavar="[ID]", help="Ids of records (default: all).")] = None,
    selection: Selection = _ANY,
    origin: Annotated[list[Origin] | None, typer.Option(help="Only words of this origin. May be repeated.")] = None,
    action: Annotated[list[_Action] | None, typer.Option(help="Only this action. May be repeated.")] = None,
    actor: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only actions of this actor: cli, mcp, import, cli:ada, …")
    ] = None,
    flagged: Annotated[bool, typer.Option("--flagged", help="Only records that read like instructions.")] = False,
    since: Annotated[
        dt.datetime | None, typer.Option(parser=from_day, metavar="DATE", help="Only entries of this date or later.")
    ] = None,
    until: Annotated[
        dt.datetime | None,
        typer.Option(parser=through_day, metavar="DATE", help="Only entries up to this date, inclusive."),
    ] = None,
    oldest_first: Annotated[bool, typer.Option("--oldest-first", help="Oldest first.")] = False,
    limit: Annotated[int, typer.Option(min=1, metavar="NUMBER", help="Entries per page.")] = _PAGE_SIZE,
    page: PageOption = None,
) -> None:
    """Show when records were made, changed or erased, by whom and from which source, newest first."""
    from factmem.memory import AuditAction

    async with session.memory(subject=selection.subject, scope=selection.scope) as memory:
        found = await memory.audit(
            *await full_ids(memory, ids),
            actions=[AuditAction[item.name] for item in action or ()],
            actors=actor or (),
            origins=origin or (),
            flagged=True if flagged else None,
            happened_since=since,
            happened_until=None if until is None else until + dt.timedelta(microseconds=1),
            descending=not oldest_first,
            limit=limit,
            page=page,
            **selection.filters(),
        )
        if not found.entries:
            await session.note_if_empty(memory, scope=selection.scope)
    data: dict[str, Json] = {"entries": [entry_json(entry) for entry in found.entries], "next_page": found.next_page}
    session.show(data, lambda out: _print_trail(out, found))


def entry_json(entry: AuditEntry) -> dict[str, Json]:
    """Return an action as JSON."""
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
    if not found.entries:
        out.print("Nothing matches.")
    for entry in found.entries:
        print_block(out, f"#{entry.seq}", _lines(entry))
    if found.next_page is not None:
        out.print(f"There is more: --page {found.next_page}")


def _lines(entry: AuditEntry) -> list[Text]:
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
