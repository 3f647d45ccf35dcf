"""The commands that take back: ``forget`` erases, ``retract`` can be undone by ``restore``."""

from __future__ import annotations

import datetime as dt
import signal
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factmem.cli.arguments import ExactOption, ScopeOption, SubjectOption, from_day
from factmem.cli.changes import show_changes
from factmem.cli.command import FAILED, command
from factmem.cli.session import Session
from factmem.records import FactRecord

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.abc import EraseReceipt

__all__ = ["add_to"]

_SHOWN_AT_MOST = 20


def add_to(app: typer.Typer) -> None:
    """Add these commands to the app."""
    command(app, "forget")(forget)
    command(app, "retract")(retract)
    command(app, "restore")(restore)


IdsArgument = Annotated[list[str], typer.Argument(metavar="ID", help="Records, by the ids that recall shows.")]


async def forget(
    session: Session,
    ids: Annotated[list[str] | None, typer.Argument(metavar="ID", help="These records.")] = None,
    scope: ScopeOption = None,
    exact: ExactOption = False,
    subject: SubjectOption = None,
    concept: Annotated[list[str] | None, typer.Option(metavar="KEYWORD", help="Of this concept.")] = None,
    category: Annotated[list[str] | None, typer.Option(metavar="NAME", help="With this category.")] = None,
    source: Annotated[list[str] | None, typer.Option(metavar="NAME", help="From this source.")] = None,
    before: Annotated[
        dt.datetime | None, typer.Option(parser=from_day, metavar="DATE", help="Said before then.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Erase records for good, with all their history. What is given combines: all of it must hold."""
    async with session.memory(subject=subject, scope=scope, read_only=False) as memory:
        doomed = await memory.would_forget(
            *(ids or ()),
            scope=scope,
            exact=exact,
            subject=subject,
            concepts=concept or (),
            categories=category or (),
            sources=source or (),
            before=before,
        )
        if doomed and not yes:
            _ask(session, doomed)
        named = [record.id for record in doomed] or ids or []
        receipt = await memory.forget(*named) if named else None
    _show_erased(session, doomed, receipt)


def _ask(session: Session, doomed: list[FactRecord[Any]]) -> None:
    """Show what will be erased and ask; without an answer nothing is."""
    from factmem.cli.output import console, print_block, record_block

    out = console(stderr=True)
    for record in doomed[:_SHOWN_AT_MOST]:
        print_block(out, " ×", record_block(record))
    if len(doomed) > _SHOWN_AT_MOST:
        out.print(f"… and {len(doomed) - _SHOWN_AT_MOST} more")
    answer = _answer(f"Erase {len(doomed)} record(s) for good? [y/N]: ")
    if not answer:
        session.note("\nNobody answered: add --yes to erase without being asked.")
    if answer.strip().lower() not in ("y", "yes"):
        session.note("Nothing was erased.")
        raise typer.Exit(FAILED)


def _answer(question: str) -> str:
    """Ask on stderr and return the line that was typed; empty if nobody is there."""
    # The event loop's own handler would only take note of Ctrl-C and go on waiting for the line.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        print(question, end="", file=sys.stderr, flush=True)
        return sys.stdin.readline()
    finally:
        signal.signal(signal.SIGINT, handler)


def _show_erased(session: Session, doomed: list[FactRecord[Any]], receipt: EraseReceipt | None) -> None:
    erased, pending = (receipt.erased, receipt.pending) if receipt else (0, False)

    def render(out: Console) -> None:
        out.print(
            f"Erased {len(doomed)} record(s), {erased} revision(s)." if doomed else "Nothing fits; nothing erased."
        )

    session.show({"records": len(doomed), "erased": erased, "pending": pending, "ids": [r.id for r in doomed]}, render)
    if pending:
        again = doomed[0].id if doomed else "ID"
        print(
            "factmem: another process still holds old bytes of this store. When it has closed, finish with  "
            f"factmem forget --yes {again}",
            file=sys.stderr,
        )


async def retract(
    session: Session,
    ids: IdsArgument,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the audit trail.")] = None,
) -> None:
    """Take records back: they are no longer loaded or recalled, and `restore` brings them back."""
    async with session.memory(read_only=False) as memory:
        changes = await memory.retract(*ids, reason=reason)
    show_changes(session, changes, "retracted")


async def restore(
    session: Session,
    ids: IdsArgument,
    reason: Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the audit trail.")] = None,
) -> None:
    """Bring retracted records back."""
    async with session.memory(read_only=False) as memory:
        changes = await memory.restore(*ids, reason=reason)
    show_changes(session, changes, "restored")
