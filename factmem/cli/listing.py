"""The commands that list records, show one of them, and list what happened: `list`, `show` and `audit`."""

from __future__ import annotations

import datetime as dt
import enum
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import attrs
import typer
from rich.text import Text

from factmem.browse.past import Biography, biography_of
from factmem.browse.record_rows import details_of, shape_of
from factmem.browse.texts import shown
from factmem.cli.ids import full_ids
from factmem.cli.options import PageOption, Selection, SomeIdsArgument
from factmem.cli.output import print_block, print_records, record_block
from factmem.cli.session import Session
from factmem.details import Origin
from factmem.json_form import attributes, record_json
from factmem.records import AssertionState, FactRecord
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory.audit import AuditEntry, AuditPage
    from factmem.memory.filters import RecordPage

__all__ = ["audit", "list_", "show"]

_PAGE_SIZE: Final = 20
_TRAIL_SIZE: Final = 50


class _Action(enum.StrEnum):
    """The choices of ``--action``; see `factmem.memory.audit.AuditAction`."""

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


async def list_(
    session: Session,
    selection: Selection = Selection(),
    order: Literal["said", "recorded", "importance"] = "said",
    reverse: Annotated[bool, typer.Option("--reverse", "-r")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1)] = _PAGE_SIZE,
    page: PageOption = None,
) -> None:
    """List the current records, newest first; all given filters must hold.

    Options:
        order: Key to sort by.
        reverse: Oldest or least important first.
        limit: Records per page.
    """
    from factmem.memory.filters import RecordOrder

    async with session.memory(subject=selection.subject, scope=selection.scope) as memory:
        found = await memory.list_records(
            limit=limit, page=page, order_by=RecordOrder(order), descending=not reverse, **selection.filters()
        )
        if not found:
            await session.note_if_empty(memory, scope=selection.scope)

    session.show(
        {"records": [record_json(record) for record in found], "next_page": found.next_page},
        lambda out: _print_page(out, found),
    )


def _print_page(out: Console, found: RecordPage) -> None:

    print_records(out, found, empty="No record matches.")
    if found.next_page is not None:
        out.print(f"There is more: --page {found.next_page}")


async def show(
    session: Session,
    id: str,
) -> None:
    """Show one record: its value, details and evidence, its revisions, and who changed it when.

    Options:
        id: Id of the record, in full or shortened.
    """
    async with session.memory() as memory:
        (full,) = await full_ids(memory, [id])
        found = await biography_of(memory, full)

    session.show(
        {
            "record": record_json(found.record),
            "description": found.record.concept.description,
            "revisions": [record_json(record) for record in found.revisions],
            "trail": [attributes(entry) for entry in found.trail],
        },
        lambda out: _print_biography(out, found),
    )


def _print_biography(out: Console, found: Biography) -> None:

    print_block(out, "record", record_block(found.record, with_id=False, all_evidence=True))
    for line in _details(found.record):
        out.print(line)
    if len(found.revisions) > 1:
        out.print("\nrevisions")
        for record in found.revisions:
            print_block(out, f"  r{record.revision}", record_block(record, with_id=False))
    out.print("\nhistory")
    for entry in found.trail:
        out.print(f"  {_happened(entry)}")


def _details(record: FactRecord[Any]) -> list[Text]:
    listed = {
        "description": shown(record.concept.description),
        "type": shape_of(record),
        **details_of(record),
    }
    return [Text.assemble((f"{name:<12}", "dim"), text) for name, text in listed.items() if text]


def _happened(entry: AuditEntry) -> str:
    when = f"{entry.at:%Y-%m-%d %H:%M:%S} UTC" if entry.at else ""
    who = f"by {entry.actor}" if entry.actor else ""
    why = f"because: {entry.reason}" if entry.reason else ""
    what = f"r{entry.record.revision} {entry.action.value}" if entry.record else entry.action.value
    return " · ".join(filter(None, (when, what, shown(who), shown(why))))


async def audit(
    session: Session,
    ids: SomeIdsArgument = None,
    selection: Selection = Selection(),
    origin: list[Origin] | None = None,
    action: list[_Action] | None = None,
    actor: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    flagged: bool = False,
    oldest_first: bool = False,
    limit: Annotated[int, typer.Option(min=1, metavar="NUMBER")] = _TRAIL_SIZE,
    page: PageOption = None,
) -> None:
    """Show when records were made, changed or erased, by whom and from which source, newest first.

    Options:
        origin: Only words of this origin.
        action: Only this action.
        actor: Only actions of this actor: cli, mcp, import, cli:ada, …
        flagged: Only records that read like instructions.
        oldest_first: Oldest first.
        limit: Entries per page.
    """
    from factmem.memory.audit import AuditAction

    filters = selection.filters()
    happened_since, until = filters.pop("since"), filters.pop("until")
    async with session.memory(subject=selection.subject, scope=selection.scope) as memory:
        found = await memory.admin.audit(
            *await full_ids(memory, ids),
            actions=[AuditAction[item.name] for item in action or ()],
            actors=actor or (),
            origins=origin or (),
            flagged=True if flagged else None,
            happened_since=happened_since,
            happened_until=None if until is None else until + dt.timedelta(microseconds=1),
            descending=not oldest_first,
            limit=limit,
            page=page,
            **filters,
        )
        if not found.entries:
            await session.note_if_empty(memory, scope=selection.scope)
    data: dict[str, Json] = {"entries": [attributes(entry) for entry in found.entries], "next_page": found.next_page}
    session.show(data, lambda out: _print_trail(out, found))


def _print_trail(out: Console, found: AuditPage) -> None:
    if not found.entries:
        out.print("Nothing matches.")
    for entry in found.entries:
        print_block(out, f"#{entry.seq}", _entry_block(entry))
    if found.next_page is not None:
        out.print(f"There is more: --page {found.next_page}")


def _entry_block(entry: AuditEntry) -> list[Text]:
    when = [f"{entry.at:%Y-%m-%d %H:%M:%S} UTC"] if entry.at else []
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
