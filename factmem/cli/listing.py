"""The commands that list records and show one of them: `list` and `show`."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from factmem.browse.past import Biography, biography_of
from factmem.browse.texts import shown, value_text
from factmem.cli.ids import full_ids
from factmem.cli.options import PageOption, Selection, SinceOption, UntilOption
from factmem.cli.session import Session
from factmem.records import FactRecord
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from factmem.memory import AuditEntry, Filters, RecordPage

__all__ = ["list_", "show"]

_PAGE_SIZE: Final = 20
_ANY: Final = Selection()


class OrderName(enum.StrEnum):
    """The choices of ``--order``; see `factmem.memory.RecordOrder`."""

    SAID = "said"
    RECORDED = "recorded"
    IMPORTANCE = "importance"


async def list_(
    session: Session,
    selection: Selection = _ANY,
    since: SinceOption = None,
    until: UntilOption = None,
    order: Annotated[OrderName, typer.Option(help="Key to sort by.")] = OrderName.SAID,
    reverse: Annotated[bool, typer.Option("--reverse", "-r", help="Oldest or least important first.")] = False,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="Records per page.")] = _PAGE_SIZE,
    page: PageOption = None,
) -> None:
    """List the current records, newest first; all given filters must hold."""
    from factmem.memory import RecordOrder

    filters: Filters = {**selection.filters(), "since": since, "until": until}
    async with session.memory(subject=selection.subject, scope=selection.scope) as memory:
        found = await memory.list_records(
            limit=limit, page=page, order_by=RecordOrder(order.value), descending=not reverse, **filters
        )
        if not found:
            await session.note_if_empty(memory, scope=selection.scope)
    from factmem.cli.output import record_json

    session.show(
        {"records": [record_json(record) for record in found], "next_page": found.next_page},
        lambda out: _print_page(out, found),
    )


def _print_page(out: Console, found: RecordPage) -> None:
    from factmem.cli.output import print_block, record_block

    if not found:
        out.print("No record matches.")
    for record in found:
        print_block(out, "•", record_block(record))
    if found.next_page is not None:
        out.print(f"There is more: --page {found.next_page}")


async def show(
    session: Session,
    id: Annotated[str, typer.Argument(metavar="ID", help="Id of the record, in full or shortened.")],
) -> None:
    """Show one record: its value, details and evidence, its revisions, and who changed it when."""
    async with session.memory() as memory:
        (full,) = await full_ids(memory, [id])
        found = await biography_of(memory, full)
    from factmem.cli.audit import entry_json
    from factmem.cli.output import record_json

    session.show(
        {
            "record": record_json(found.record),
            "description": found.record.concept.description,
            "revisions": [record_json(record) for record in found.revisions],
            "trail": [entry_json(entry) for entry in found.trail],
        },
        lambda out: _print_biography(out, found),
    )


def _print_biography(out: Console, found: Biography) -> None:
    from factmem.cli.output import print_block, record_block

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
    from rich.text import Text

    details = record.details
    listed = {
        "id": record.id,
        "description": record.concept.description,
        "type": value_text(record.concept.shape),
        "importance": f"{details.importance:g}",
        "origin": details.origin.value,
        "topics": ", ".join(details.topics),
        "metadata": _listed(details.metadata),
        "labels": _listed(details.labels),
        "valid from": _day(record.fact.valid_from),
        "valid to": _day(record.fact.valid_to),
        "expires": _day(details.expires_at),
    }
    return [Text.assemble((f"{name:<12}", "dim"), shown(text)) for name, text in listed.items() if text]


def _listed(items: Mapping[str, Json]) -> str:

    return ", ".join(f"{key}={value_text(value)}" for key, value in items.items())


def _day(moment: dt.datetime | None) -> str:
    return f"{moment:%Y-%m-%d %H:%M}" if moment else ""


def _happened(entry: AuditEntry) -> str:

    when = f"{entry.at:%Y-%m-%d %H:%M:%S}" if entry.at else ""
    who = f"by {entry.actor}" if entry.actor else ""
    why = f"because: {entry.reason}" if entry.reason else ""
    what = f"r{entry.record.revision} {entry.action.value}" if entry.record else entry.action.value
    return " · ".join(filter(None, (when, what, shown(who), shown(why))))
