"""The commands that erase records for good: `forget`, `erase`, `expire` and `purge`."""

from __future__ import annotations

import datetime as dt
import signal
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from factmem.cli.ids import full_ids
from factmem.cli.options import BeforeOption, Selection, YesOption, condition, stdin_or_text
from factmem.cli.output import console, print_block, record_block, record_json
from factmem.cli.session import FAILED, Session
from factmem.errors import InvalidDataError, RecordNotFoundError, StateConflictError
from factmem.records import FactRecord
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory import Erasure, ErasureReport, ExpiryReceipt, Filters, Memory

__all__ = ["erase", "expire", "forget", "purge"]

_SHOWN_AT_MOST: Final = 20
_ANY: Final = Selection()


_SomeIdsArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]", help="Ids of the records, in full or shortened.")
]


async def forget(
    session: Session,
    ids: _SomeIdsArgument = None,
    selection: Selection = _ANY,
    before: BeforeOption = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show the records, and erase nothing.")] = False,
    yes: YesOption = False,
) -> None:
    """Erase records for good, with all their history; all given filters must hold."""
    from factmem.memory import Erasure

    async with session.memory(subject=selection.subject, scope=selection.scope, read_only=dry_run) as memory:
        chosen = await full_ids(memory, ids)
        if dry_run:
            _show_selected(
                session, await _doomed(session, memory, chosen, selection, before), "erase them without --dry-run"
            )
            return
        doomed = await _confirmed(session, memory, chosen, selection, before, yes=yes)
        named = [record.id for record in doomed]
        receipt = await memory.forget(*named) if named else Erasure(records=())
    session.show(_erased_json(doomed, receipt), lambda out: _print_erased(out, doomed, receipt))
    _note_pending(session, pending=receipt.pending)


async def erase(
    session: Session,
    ids: _SomeIdsArgument = None,
    selection: Selection = _ANY,
    before: BeforeOption = None,
    verify: Annotated[
        bool, typer.Option("--verify", help="Search the files of the store for traces; fail if there are any.")
    ] = False,
    text: Annotated[
        list[str] | None,
        typer.Option(parser=stdin_or_text, metavar="TEXT", help="Text to search for as well; - reads stdin."),
    ] = None,
    yes: YesOption = False,
) -> None:
    """Erase records like `forget`, and prove it with --verify; without a filter, finish pending erasures."""
    from factmem.memory import Erasure, verify_erased
    from factmem.providers import open_provider

    if text and not verify:
        raise InvalidDataError("--text needs --verify: add it")
    selective = bool(ids or selection.given or before)
    async with (
        open_provider(session.address) as provider,
        session.memory(provider=provider, subject=selection.subject, scope=selection.scope, read_only=False) as memory,
    ):
        chosen = await full_ids(memory, ids)
        doomed = (
            await _confirmed(session, memory, chosen, selection, before, yes=yes) if selective else Erasure(records=())
        )
        named = [record.id for record in doomed]
        traces = await memory.traces(*named, texts=text or ()) if verify else None
        receipt = await (memory.forget(*named) if named else memory.expire())
        report = await verify_erased(provider, traces) if traces is not None else None
    _show(session, doomed, receipt, report, selective=selective)
    if report is not None and not report.clean:
        raise typer.Exit(FAILED)


async def _confirmed(
    session: Session,
    memory: Memory,
    ids: Sequence[str],
    selection: Selection,
    before: dt.datetime | None,
    *,
    yes: bool,
) -> Erasure:
    """Return the records to erase, after the person has seen them and said yes.

    Raises:
        RecordNotFoundError: An id names no visible record.
        StateConflictError: By the time of the answer, other records or revisions would be erased.
        typer.Exit: The answer is not yes.
    """
    doomed = await _doomed(session, memory, ids, selection, before)
    if doomed and not yes:
        _ask(session, doomed)
        if _seen(await _doomed(session, memory, ids, selection, before)) != _seen(doomed):
            raise StateConflictError("something else would be erased by now: look again; nothing was erased")
    return doomed


def _seen(doomed: Erasure) -> set[tuple[str, int]]:
    return {(record.id, record.revision) for record in doomed}


async def _doomed(
    session: Session, memory: Memory, ids: Sequence[str], selection: Selection, before: dt.datetime | None
) -> Erasure:
    """Return what would be erased.

    Raises:
        RecordNotFoundError: An id names no visible record.
    """
    filters: Filters = {**selection.filters(), "until": before}
    doomed = await memory.forget(*ids, dry_run=True, **filters)
    await _check_known(memory, ids, doomed)
    if not doomed:
        await session.note_if_empty(memory, scope=selection.scope)
    return doomed


async def _check_known(memory: Memory, ids: Collection[str], doomed: Iterable[FactRecord[Any]]) -> None:
    """Refuse unknown ids before anything is erased.

    Raises:
        RecordNotFoundError: An id names no record that the viewer may see.
    """
    if missing := set(ids) - {record.id for record in doomed}:
        missing -= {record.id for record in await memory.forget(*missing, dry_run=True)}
    if missing:
        raise RecordNotFoundError(
            f"{len(missing)} of the ids name no visible record, or an erased one; nothing was erased now"
        )


def _ask(session: Session, doomed: Erasure) -> None:
    """Show the records and ask whether to erase them.

    Raises:
        typer.Exit: The answer is not yes.
    """
    _print_some(console(stderr=True), doomed)
    answer = _answer(f"Erase {len(doomed)} record(s) for good? [y/N]: ")
    if not answer:
        session.note("\nNo answer: add --yes to erase without being asked.")
    if answer.strip().lower() not in ("y", "yes"):
        session.note("Nothing was erased.")
        raise typer.Exit(FAILED)


def _print_some(out: Console, doomed: Erasure) -> None:
    for record in doomed.records[:_SHOWN_AT_MOST]:
        print_block(out, " ×", record_block(record))
    if len(doomed) > _SHOWN_AT_MOST:
        out.print(f"… and {len(doomed) - _SHOWN_AT_MOST} more")


def _answer(question: str) -> str:
    """Ask on stderr and return the line that was typed; empty at the end of stdin."""
    # With the event loop's handler, Ctrl-C would not interrupt the wait for the line.
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        print(question, end="", file=sys.stderr, flush=True)
        return sys.stdin.readline()
    finally:
        signal.signal(signal.SIGINT, handler)


def _erased_json(doomed: Erasure, receipt: Erasure | ExpiryReceipt) -> dict[str, Json]:
    """Return the outcome of an erasure as JSON."""
    ids: list[Json] = [record.id for record in doomed]
    return {"records": len(doomed), "erased": receipt.erased, "pending": receipt.pending, "ids": ids}


def _print_erased(out: Console, doomed: Erasure, receipt: Erasure | ExpiryReceipt) -> None:
    """Print the outcome of an erasure."""
    done = f"Erased {len(doomed)} record(s), {receipt.erased} revision(s)."
    out.print(done if doomed else "Nothing matches; nothing was erased.")


def _note_pending(session: Session, *, pending: bool) -> None:
    """Print a note to stderr if old bytes are left in the store."""
    if pending:
        print(
            "factmem: another process still holds old bytes of this store, or the disk is full. When that is over, "
            f"finish with  {session.command_line('erase')}",
            file=sys.stderr,
        )


def _show(
    session: Session,
    doomed: Erasure,
    receipt: Erasure | ExpiryReceipt,
    report: ErasureReport | None,
    *,
    selective: bool,
) -> None:
    data = _erased_json(doomed, receipt)
    if report is not None:
        data["verified"] = _report_json(report)

    def render(out: Console) -> None:
        if selective or doomed:
            _print_erased(out, doomed, receipt)
        elif not receipt.pending:
            out.print("Nothing is left of earlier erasures." if report is None else "Nothing is pending.")
        if report is not None:
            _print_report(out, report, session)

    session.show(data, render)
    _note_pending(session, pending=receipt.pending)


def _report_json(report: ErasureReport) -> dict[str, Json]:
    files: list[Json] = [
        {
            "path": str(file.path),
            "bytes": file.size,
            "words": file.words,
            "names": file.names,
            "marks": file.marks,
            "vectors": file.vectors,
        }
        for file in report.files
    ]
    said_by: list[Json] = [*report.said_by]
    return {
        "clean": report.clean,
        "searched": report.searched,
        "left_out": report.left_out,
        "too_short": report.too_short,
        "said_by": said_by,
        "files": files,
    }


def _print_report(out: Console, report: ErasureReport, session: Session) -> None:
    size = sum(file.size for file in report.files)
    out.print(f"Searched {len(report.files)} file(s), {size:,} bytes, for {report.searched} piece(s) of it.")
    for file in report.files:
        if file.found or file.names:
            out.print(
                f"  {file.path}: {file.words} of words, {file.vectors} of vectors, {file.marks} id(s), "
                f"{file.names} of names"
            )
    if not any(file.found for file in report.files):
        out.print("Nothing of it was found.")
    if report.too_short:
        out.print(f"{report.too_short} word(s) or name(s) are too short to search for.")
    if report.said_by:
        shown, more = report.said_by[:_SHOWN_AT_MOST], len(report.said_by) - _SHOWN_AT_MOST
        out.print(f"{len(report.said_by)} other record(s) hold some of it as well; erase them with:")
        out.print(f"  {session.command_line('erase', '--verify', *shown)}", soft_wrap=True)
        if more > 0:
            out.print(f"The other {more} are listed then.")


async def expire(
    session: Session,
    revisions: Annotated[
        float | None, typer.Option(min=0, metavar="DAYS", help="Erase superseded revisions older than this as well.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Show what would be erased, and erase nothing.")] = False,
) -> None:
    """Erase expired records, which are invisible already, from the store."""
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
    _note_pending(session, pending=receipt.pending)


def _days(number: float) -> dt.timedelta:
    try:
        return dt.timedelta(days=number)
    except (OverflowError, ValueError):
        raise typer.BadParameter("--revisions is too large: name fewer days") from None


async def purge(
    session: Session,
    selection: Selection = _ANY,
    topic: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only records with this topic.")] = None,
    metadata: Annotated[
        list[str] | None,
        typer.Option(metavar="CONDITION", help="KEY=VALUE, KEY!=VALUE, KEY>VALUE or KEY<VALUE. May be repeated."),
    ] = None,
    before: BeforeOption = None,
    max_importance: Annotated[
        float | None, typer.Option(min=0, max=1, metavar="NUMBER", help="Only records of at most this importance.")
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Erase the records instead of showing them.")] = False,
) -> None:
    """Show the records that pass all filters; with --yes, erase them for good."""
    filters: Filters = {**selection.filters(), "until": before, "max_importance": max_importance}
    if metadata:
        filters["where"] = [[condition(text) for text in metadata]]
    if topic:
        filters["topics"] = topic
    async with session.memory(subject=selection.subject, scope=selection.scope, read_only=not yes) as memory:
        result = await memory.forget(dry_run=not yes, **filters)
        if not result:
            await session.note_if_empty(memory, scope=selection.scope)
    _show_selected(session, result, "erase them with --yes")


def _show_selected(session: Session, result: Erasure, hint: str) -> None:
    """Show what a selection has erased; after a dry run, what it would erase, and how."""

    def render(out: Console) -> None:
        if not result:
            out.print("Nothing matches.")
            return
        _print_some(out, result)
        if result.dry_run:
            out.print(f"{len(result)} record(s) match; {hint}.")
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
    _note_pending(session, pending=result.pending)
