"""The commands for what is no fact yet: ``resume``, ``dead-letters …``, ``quarantine …``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factmem.cli.changes import change_json, print_changes, show_changes
from factmem.cli.command import FAILED, command, report
from factmem.cli.session import Session
from factmem.cli.tally import Tally, counted
from factmem.cli.understanding import tallied
from factmem.cli.watching import Watch, progress
from factmem.errors import ModelError
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory import DeadLetter, Remembered
    from factmem.records import FactRecord

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Add these commands to the app."""
    command(app, "resume")(resume)
    letters = _group("dead-letters", "Words that a language model could not read; they are kept as they were said.")
    command(letters, "list")(list_letters)
    command(letters, "retry")(retry)
    command(letters, "dismiss")(dismiss)
    app.add_typer(letters)
    apart = _group("quarantine", "What came from an untrusted mouth, until you let it in or turn it away.")
    command(apart, "list")(list_quarantined)
    command(apart, "accept")(accept)
    command(apart, "reject")(reject)
    app.add_typer(apart)


def _group(name: str, help: str) -> typer.Typer:
    return typer.Typer(name=name, help=help, no_args_is_help=True, pretty_exceptions_enable=False)


LettersArgument = Annotated[list[str], typer.Argument(metavar="ID", help="Which, by the ids that `list` shows.")]
SomeLettersArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]", help="Which, by the ids that `list` shows; else all.")
]
RecordsArgument = Annotated[list[str], typer.Argument(metavar="ID", help="Records, by the ids that `list` shows.")]
ReasonOption = Annotated[str | None, typer.Option(metavar="TEXT", help="Why, for the audit trail.")]


async def resume(session: Session) -> None:
    """Have a language model read what an earlier process left unread."""
    session.check_model("reading what waits")
    watch = Watch(session)
    async with session.memory(read_only=False, asking=True, on_event=watch.hear) as memory:
        with watch.saying_what_waits():
            handover = await memory.resume()
            watch.expect(handover)
            await watch.wait()
    tally = tallied([handover])

    def render(out: Console) -> None:
        out.print(f"{counted(len(handover.ids), 'hand-over')} read: {tally}" if handover.ids else "Nothing waits.")
        for line in tally.lines:
            out.print(line)

    session.show({"resumed": len(handover.ids), **tally.to_json()}, render)
    if (unread := watch.failure(tally, "hand-over")) is not None:
        report(unread, as_json=session.as_json)
        raise typer.Exit(FAILED)


async def list_letters(session: Session) -> None:
    """Show the words that could not be read, and why."""
    async with session.memory() as memory:
        letters = await memory.dead_letters.list()
    session.show([_letter_json(letter) for letter in letters], lambda out: _print_letters(out, letters))


def _letter_json(letter: DeadLetter) -> dict[str, Json]:
    from factmem.cli.output import record_json

    return {
        "id": letter.id,
        "failure": letter.failure,
        "failed_at": letter.failed_at.isoformat(),
        "records": [record_json(record) for record in letter.records],
    }


def _print_letters(out: Console, letters: Sequence[DeadLetter]) -> None:
    from rich.text import Text

    from factmem.cli.output import print_block, record_block

    if not letters:
        out.print("There are no dead letters.")
    for letter in letters:
        why = Text(f"{letter.failure} · {letter.failed_at:%Y-%m-%d %H:%M} · id {letter.id}", style="yellow")
        said = [line for record in letter.records for line in record_block(record, with_id=False)]
        print_block(out, "unread", [why, *said])


async def retry(session: Session, ids: SomeLettersArgument = None) -> None:
    """Have dead letters read again. What fails again stays a dead letter."""
    session.check_model("reading dead letters again")
    results: list[Remembered] = []
    async with session.memory(read_only=False, asking=True) as memory:
        chosen = list(dict.fromkeys(ids or [letter.id for letter in await memory.dead_letters.list()]))
        with progress("reading", quiet=session.as_json) as advance:
            for id in chosen:
                results += await memory.dead_letters.retry(id)
                advance(len(results) / len(chosen))
    tally = Tally.of(results)

    def render(out: Console) -> None:
        out.print(f"{counted(len(results), 'dead letter')} tried: {tally}" if results else "There are no dead letters.")
        for result in results:
            print_changes(out, result.changes)

    changes: list[Json] = [change_json(change) for result in results for change in result.changes]
    session.show({"retried": len(results), **tally.to_json(), "changes": changes}, render)
    _tell_of_failures(session, results)


def _tell_of_failures(session: Session, results: Sequence[Remembered]) -> None:
    failures = [result.failure for result in results if result.failure is not None]
    if failures:
        names = ", ".join(dict.fromkeys(failures))
        unread = ModelError(f"{counted(len(failures), 'dead letter')} could not be read again ({names}): try later")
        report(unread, as_json=session.as_json)
        raise typer.Exit(FAILED)


async def dismiss(session: Session, ids: LettersArgument) -> None:
    """Let words stay as they were said, and give up on having them read."""
    async with session.memory(read_only=False) as memory:
        await memory.dead_letters.dismiss(*ids)
    count = len(set(ids))
    session.show({"dismissed": count}, lambda out: out.print(f"{counted(count, 'dead letter')} dismissed"))


async def list_quarantined(session: Session) -> None:
    """Show what is kept apart: neither loaded nor recalled."""
    async with session.memory() as memory:
        records = await memory.quarantine.list()
    from factmem.cli.output import record_json

    session.show([record_json(record) for record in records], lambda out: _print_quarantined(out, records))


def _print_quarantined(out: Console, records: Sequence[FactRecord[Any]]) -> None:
    from factmem.cli.output import print_block, record_block

    if not records:
        out.print("Nothing is quarantined.")
    for record in records:
        print_block(out, record.details.origin.value, record_block(record))


async def accept(session: Session, ids: RecordsArgument, reason: ReasonOption = None) -> None:
    """Let quarantined records in: from now on they are facts like any other."""
    async with session.memory(read_only=False) as memory:
        changes = await memory.quarantine.accept(*ids, reason=reason)
    show_changes(session, changes, "accepted")


async def reject(session: Session, ids: RecordsArgument, reason: ReasonOption = None) -> None:
    """Turn quarantined records away; `forget` erases them."""
    async with session.memory(read_only=False) as memory:
        changes = await memory.quarantine.reject(*ids, reason=reason)
    show_changes(session, changes, "rejected")
