"""The commands of a memory's life: ``rollback``, ``expire``, ``purge``."""

from __future__ import annotations

import datetime as dt
import json
import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from factmem.cli.arguments import ExactOption, ScopeOption, SubjectOption, from_day
from factmem.cli.changes import change_json, print_changes
from factmem.cli.command import command
from factmem.cli.erasing import note_pending
from factmem.cli.session import Session
from factmem.errors import InvalidDataError
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory import Erasure, Filters
    from factmem.recall import MetadataCondition

__all__ = ["add_to"]

_SHOWN_AT_MOST: Final = 20
_CONDITION: Final = re.compile(r"(?P<key>[^=<>!]+)(?P<sign>!=|=|>|<)(?P<value>.+)", re.DOTALL)


def add_to(app: typer.Typer) -> None:
    """Add these commands to the app."""
    command(app, "rollback")(rollback)
    command(app, "expire")(expire)
    command(app, "purge")(purge)


def _number(text: str) -> int:
    digits = text.removeprefix("r")
    if not (digits.isascii() and digits.isdigit()):
        raise typer.BadParameter(f"{text!r} is no revision, such as r12: see `factmem history`")
    return int(digits)


def _condition(text: str) -> MetadataCondition:
    from factmem.recall import MetadataCondition, MetadataOperator

    found = _CONDITION.fullmatch(text)
    if found is None:
        raise typer.BadParameter(f"{text!r} is no condition, such as tier=gold, score>5 or tier!=gold")
    operators = {">": MetadataOperator.GREATER_THAN, "<": MetadataOperator.LESS_THAN}
    sign = found["sign"]
    try:
        return MetadataCondition(
            found["key"].strip(),
            _value(found["value"]),
            operator=operators.get(sign, MetadataOperator.EQUAL),
            negate=sign == "!=",
        )
    except InvalidDataError as error:
        raise typer.BadParameter(str(error)) from None


def _value(text: str) -> Json:
    """JSON where it is some, else a text."""
    try:
        value: Json = json.loads(text)
    except (ValueError, RecursionError):
        return text.strip()
    return value


async def rollback(
    session: Session,
    revision: Annotated[int, typer.Argument(parser=_number, metavar="REVISION", help="Which, as `history` shows it.")],
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the audit trail.")] = None,
) -> None:
    """Make a record again what it was at a revision. A rollback can itself be rolled back."""
    async with session.memory(read_only=False) as memory:
        change = await memory.rollback(revision, reason=reason)
    session.show(change_json(change), lambda out: print_changes(out, (change,), "rolled back"))


async def expire(
    session: Session,
    revisions: Annotated[
        float | None, typer.Option(min=0, metavar="DAYS", help="Superseded revisions older than that, too.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Erase nothing, and tell what would be.")] = False,
) -> None:
    """Erase what has expired. It is invisible already; this removes its words from the store."""
    limit = None if revisions is None else _days(revisions)
    async with session.memory(read_only=dry_run) as memory:
        receipt = await memory.expire(revisions=limit, dry_run=dry_run)

    def render(out: Console) -> None:
        done = "Would erase" if dry_run else "Erased"
        out.print(f"{done} {receipt.expired} expired and {receipt.superseded} superseded revision(s).")

    session.show(
        {
            "expired": receipt.expired,
            "superseded": receipt.superseded,
            "pending": receipt.pending,
            "dry_run": dry_run,
        },
        render,
    )
    note_pending(session, pending=receipt.pending)


def _days(number: float) -> dt.timedelta:
    try:
        return dt.timedelta(days=number)
    except (OverflowError, ValueError):
        raise typer.BadParameter("so many days there are not") from None


async def purge(
    session: Session,
    scope: ScopeOption = None,
    exact: ExactOption = False,
    subject: SubjectOption = None,
    concept: Annotated[list[str] | None, typer.Option(metavar="KEYWORD", help="Of this concept.")] = None,
    category: Annotated[list[str] | None, typer.Option(metavar="NAME", help="With this category.")] = None,
    topic: Annotated[list[str] | None, typer.Option(metavar="NAME", help="With this topic.")] = None,
    source: Annotated[list[str] | None, typer.Option(metavar="NAME", help="From this source.")] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(metavar="CONDITION", help="KEY=VALUE, KEY!=VALUE, KEY>VALUE or KEY<VALUE; all must hold."),
    ] = None,
    before: Annotated[
        dt.datetime | None, typer.Option(parser=from_day, metavar="DATE", help="Said before then.")
    ] = None,
    max_importance: Annotated[
        float | None, typer.Option(min=0, max=1, metavar="NUMBER", help="At most so important.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Erase them; else they are only shown.")] = False,
) -> None:
    """Show the records that pass all filters, and erase them for good with --yes."""
    filters: Filters = {
        "scope": scope,
        "exact": exact,
        "subject": subject,
        "until": before,
        "max_importance": max_importance,
    }
    if metadata:
        filters["where"] = [[_condition(text) for text in metadata]]
    if concept:
        filters["concepts"] = concept
    if category:
        filters["categories"] = category
    if topic:
        filters["topics"] = topic
    if source:
        filters["sources"] = source
    async with session.memory(subject=subject, scope=scope, read_only=not yes) as memory:
        result = await memory.forget(dry_run=not yes, **filters)
    _show_purged(session, result)


def _show_purged(session: Session, result: Erasure) -> None:
    from factmem.cli.output import print_block, record_block, record_json

    def render(out: Console) -> None:
        if not result:
            out.print("Nothing fits.")
            return
        for record in result.records[:_SHOWN_AT_MOST]:
            print_block(out, " ×", record_block(record))
        if len(result) > _SHOWN_AT_MOST:
            out.print(f"… and {len(result) - _SHOWN_AT_MOST} more")
        if result.dry_run:
            out.print(f"{len(result)} record(s) fit; erase them with --yes.")
        else:
            out.print(f"Erased {len(result)} record(s), {result.erased} revision(s).")

    session.show(
        {
            "count": len(result),
            "dry_run": result.dry_run,
            "erased": result.erased,
            "pending": result.pending,
            "records": [record_json(record) for record in result.records],
        },
        render,
    )
    note_pending(session, pending=result.pending)
