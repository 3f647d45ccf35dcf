"""The commands for a single text: ``remember`` keeps it, ``extract`` takes it apart."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from factmem.cli.arguments import PrivateOption, ScopeOption, SubjectOption, TextArgument, TtlOption, metadata
from factmem.cli.changes import change_json, print_changes
from factmem.cli.command import FAILED, command, report
from factmem.cli.session import Session, known_subject
from factmem.cli.tally import Tally
from factmem.cli.watching import Watch
from factmem.providers import NoMemory
from factmem.records import Change, ChangeKind
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory import Memory, Remembered

__all__ = ["add_to"]

MetadataOption = Annotated[
    list[str] | None, typer.Option(metavar="KEY=VALUE", help="Anything else; the value may be JSON. May be repeated.")
]


def add_to(app: typer.Typer) -> None:
    """Add these commands to the app."""
    command(app, "remember")(remember)
    command(app, "extract")(extract)


async def remember(
    session: Session,
    text: TextArgument,
    subject: SubjectOption = None,
    scope: ScopeOption = None,
    importance: Annotated[float | None, typer.Option(min=0, max=1, help="Weighs in recall.")] = None,
    category: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A label; may be repeated.")] = None,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="Where it comes from, to filter by.")] = None,
    metadata: MetadataOption = None,
    ttl: TtlOption = None,
    private: PrivateOption = False,
    consolidate: Annotated[
        bool, typer.Option("--consolidate/--no-consolidate", help="Compare it with what is known.")
    ] = True,
) -> None:
    """Keep a text as a memory, secrets redacted.

    With a language model (--model), what is not said of scope, categories and importance is found out,
    and similar memories are updated or taken back.
    """
    session.check_private(private)
    watch = Watch(session)
    async with session.memory(
        subject=subject, scope=scope, read_only=False, asking=True, on_event=watch.hear
    ) as memory:
        handover = await memory.remember_many(
            [text],
            subject=await known_subject(memory, subject),
            scope=scope,
            importance=importance,
            categories=category,
            source=source,
            metadata=_pairs(metadata),
            expires_at=dt.datetime.now(dt.UTC) + ttl if ttl else None,
            private=private,
            consolidate=consolidate,
        )
        watch.expect(handover)
        with watch.saying_what_waits():
            await watch.wait()
        (outcome,) = handover.outcomes
        told = attrs.evolve(outcome, changes=await _against_what_was_known(memory, outcome.changes))
    session.show(_remembered_json(told), lambda out: _print_remembered(out, told))
    if (unread := watch.failure(Tally.of([told]), "text")) is not None:
        report(unread, as_json=session.as_json)
        raise typer.Exit(FAILED)


async def _against_what_was_known(memory: Memory, changes: Sequence[Change]) -> tuple[Change, ...]:
    """Return changes in which what was known before, and is said again, is an update and nothing new."""
    new = [change.record for change in changes if change.kind is ChangeKind.CREATED and change.previous is None]
    if not new:
        return tuple(changes)
    before = memory.as_of(min(record.timestamp for record in new) - dt.timedelta(microseconds=1))
    known = {record.id: record for record in await before.list_records(record_ids=[record.id for record in new])}
    return tuple(
        attrs.evolve(change, kind=ChangeKind.UPDATED, previous=known[change.record.id])
        if change.record in new and change.record.id in known
        else change
        for change in changes
    )


def _pairs(texts: list[str] | None) -> dict[str, Json]:
    return dict(metadata(text) for text in texts or ())


def _remembered_json(told: Remembered) -> dict[str, Json]:
    from factmem.cli.output import record_json

    return {
        "records": [record_json(record) for record in told.records],
        "changes": [change_json(change) for change in told.changes],
        "dropped": Tally.of([told]).to_json()["dropped"],
        "failure": told.failure,
    }


def _print_remembered(out: Console, told: Remembered) -> None:
    from factmem.cli.output import print_block, record_block

    print_changes(out, told.changes)
    changed = {change.record.id for change in told.changes}
    for record in told.records:
        if record.id not in changed:
            print_block(out, "kept" if told.failure else "known", record_block(record))


async def extract(session: Session, text: TextArgument = "-") -> None:
    """Print the atomic statements that a text makes, one a line; nothing is stored. Needs a language model."""
    session.check_model("taking a text apart")
    async with session.memory(provider=NoMemory(), asking=True) as memory:
        statements = await memory.extract(text)

    def render(out: Console) -> None:
        from factmem.cli.output import shown

        for statement in statements:
            out.print(shown(statement))

    session.show(list(statements), render)
