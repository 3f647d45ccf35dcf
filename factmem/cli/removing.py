"""The commands that take back: ``forget`` erases, ``retract`` can be undone by ``restore``."""

from __future__ import annotations

import datetime as dt
from typing import Annotated

import typer

from factmem.cli.arguments import ExactOption, ScopeOption, SubjectOption, from_day
from factmem.cli.changes import show_changes
from factmem.cli.command import command
from factmem.cli.erasing import ask_before_erasing, erased_json, meant, note_pending, print_erased
from factmem.cli.session import Session

__all__ = ["add_to"]


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
    from factmem.memory import Erasure

    async with session.memory(subject=subject, scope=scope, read_only=False) as memory:
        doomed = await meant(
            memory,
            ids,
            scope=scope,
            exact=exact,
            subject=subject,
            concept=concept,
            category=category,
            source=source,
            before=before,
        )
        if doomed and not yes:
            ask_before_erasing(session, doomed)
        named = [record.id for record in doomed]
        receipt = await memory.forget(*named) if named else Erasure(records=())
    session.show(erased_json(doomed, receipt), lambda out: print_erased(out, doomed, receipt))
    note_pending(session, pending=receipt.pending)


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
