"""The command that makes sure: ``erase`` forgets, finishes what is pending, and searches the files for what is left."""

from __future__ import annotations

import datetime as dt
import signal
import sys
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from factmem.cli.arguments import ExactOption, ScopeOption, SubjectOption, from_day, said_text
from factmem.cli.command import FAILED, command
from factmem.cli.session import Session
from factmem.errors import InvalidDataError, RecordNotFoundError
from factmem.records import FactRecord
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory import Erasure, ErasureReport, ExpiryReceipt, Memory
    from factmem.subjects import MemorySubject

__all__ = ["add_to", "ask_before_erasing", "check_known", "erased_json", "meant", "note_pending", "print_erased"]

_SHOWN_AT_MOST: Final = 20


def add_to(app: typer.Typer) -> None:
    """Add this command to the app."""
    command(app, "erase")(erase)


async def erase(
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
    verify: Annotated[
        bool, typer.Option("--verify", help="Search every file of the store for what was erased; fail if it is there.")
    ] = False,
    text: Annotated[
        list[str] | None,
        typer.Option(parser=said_text, metavar="TEXT", help="Search for these words as well; - is stdin."),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Erase records as `forget` does and prove it with --verify; with none given, finish what erasures left."""
    from factmem.memory import verify_erased
    from factmem.providers import open_provider

    if text and not verify:
        raise InvalidDataError("words to search for need --verify")
    chosen = (ids, scope, exact, subject, concept, category, source, before)
    async with (
        open_provider(session.address) as provider,
        session.memory(provider=provider, subject=subject, scope=scope, read_only=False) as memory,
    ):
        doomed: list[FactRecord[Any]] = []
        if any(chosen):
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
        traces = await memory.traces(*named, texts=text or ()) if verify else None
        receipt = await (memory.forget(*named) if named else memory.expire())
        report = await verify_erased(provider, traces) if traces is not None else None
    _show(session, doomed, receipt, report, picky=any(chosen))
    if report is not None and not report.clean:
        raise typer.Exit(FAILED)


async def meant(
    memory: Memory,
    ids: Collection[str] | None,
    *,
    scope: str | None,
    exact: bool,
    subject: MemorySubject | None,
    concept: Collection[str] | None,
    category: Collection[str] | None,
    source: Collection[str] | None,
    before: dt.datetime | None,
) -> list[FactRecord[Any]]:
    """Return the records that the options select; ids that name nothing are refused before anything is erased."""
    doomed = await memory.forget(
        *(ids or ()),
        scope=scope,
        exact=exact,
        subject=subject,
        concepts=concept or None,
        categories=category or None,
        sources=source or None,
        until=before,
        dry_run=True,
    )
    await check_known(memory, ids or (), doomed)
    return list(doomed)


async def check_known(memory: Memory, ids: Collection[str], doomed: Iterable[FactRecord[Any]]) -> None:
    """Refuse ids that name nothing, before anything is erased.

    Args:
        memory: where they are looked for.
        ids: what was named.
        doomed: what was found of it, with whatever else was said.

    Raises:
        RecordNotFoundError: an id names no record that the viewer may see.
    """
    if missing := set(ids) - {record.id for record in doomed}:
        missing -= {record.id for record in await memory.forget(*missing, dry_run=True)}
    if missing:
        raise RecordNotFoundError(
            f"{len(missing)} of the ids name no record that is visible, or it was erased before; nothing was erased now"
        )


def ask_before_erasing(session: Session, doomed: Sequence[FactRecord[Any]]) -> None:
    """Show what will be erased and ask; without an answer nothing is.

    Raises:
        typer.Exit: the answer is no.
    """
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


def erased_json(doomed: Sequence[FactRecord[Any]], receipt: Erasure | ExpiryReceipt) -> dict[str, Json]:
    """Return what an erasure did as JSON."""
    ids: list[Json] = [record.id for record in doomed]
    return {"records": len(doomed), "erased": receipt.erased, "pending": receipt.pending, "ids": ids}


def print_erased(out: Console, doomed: Sequence[FactRecord[Any]], receipt: Erasure | ExpiryReceipt) -> None:
    """Print what an erasure did."""
    done = f"Erased {len(doomed)} record(s), {receipt.erased} revision(s)."
    out.print(done if doomed else "Nothing fits; nothing erased.")


def note_pending(session: Session, *, pending: bool) -> None:
    """Tell people on stderr that old bytes are left and how to be rid of them, if there are any."""
    if pending:
        print(
            "factmem: another process still holds old bytes of this store, or the disk is full. When that is over, "
            f"finish with  {session.command_line('erase')}",
            file=sys.stderr,
        )


def _show(
    session: Session,
    doomed: Sequence[FactRecord[Any]],
    receipt: Erasure | ExpiryReceipt,
    report: ErasureReport | None,
    *,
    picky: bool,
) -> None:
    data = erased_json(doomed, receipt)
    if report is not None:
        data["verified"] = _report_json(report)

    def render(out: Console) -> None:
        if picky or doomed:
            print_erased(out, doomed, receipt)
        elif not receipt.pending:
            out.print("Nothing is left of what was erased before." if report is None else "Nothing is pending.")
        if report is not None:
            _print_report(out, report, session)

    session.show(data, render)
    note_pending(session, pending=receipt.pending)


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
        out.print(f"{report.too_short} word(s) or name(s) are too short to be told apart, and were not searched for.")
    if report.said_by:
        shown, more = report.said_by[:_SHOWN_AT_MOST], len(report.said_by) - _SHOWN_AT_MOST
        out.print(f"{len(report.said_by)} other record(s) say some of it as well; to erase them, too:")
        out.print(f"  {session.command_line('erase', '--verify', *shown)}", soft_wrap=True)
        if more > 0:
            out.print(f"The other {more} will be told then.")
