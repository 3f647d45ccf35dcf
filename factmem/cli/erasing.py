"""The command `forget`, which erases records for good."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from factmem.browse.texts import counted
from factmem.cli.ids import full_ids
from factmem.cli.options import Selection, SomeIdsArgument, from_day, stdin_or_text
from factmem.cli.output import console, print_records
from factmem.cli.session import FAILED, Session, ending_at_once
from factmem.errors import CapabilityError, InvalidDataError, RecordNotFoundError, StateConflictError
from factmem.json_form import attributes, record_json
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory.eraser import Erasure
    from factmem.memory.erasure_proof import ErasureReport
    from factmem.memory.facade import Memory
    from factmem.memory.filters import Filters
    from factmem.memory.ttl import ExpiryReceipt

_SHOWN_AT_MOST = 20
_LOOKED_FOR = "looked for in the records alone: give a longer one to search the files for."
_HELD = "some of it as well, such as private facts of another user."


async def forget(
    session: Session,
    ids: SomeIdsArgument = None,
    selection: Selection = Selection(),
    before: Annotated[dt.datetime | None, typer.Option(parser=from_day, metavar="DATE")] = None,
    max_importance: Annotated[float | None, typer.Option(min=0, max=1, metavar="NUMBER")] = None,
    everything: Annotated[bool, typer.Option("--all")] = False,
    expired: bool = False,
    revisions: Annotated[float | None, typer.Option(min=0, metavar="DAYS")] = None,
    verify: bool = False,
    text: Annotated[list[str] | None, typer.Option(parser=stdin_or_text, metavar="TEXT")] = None,
    dry_run: bool = False,
    yes: Annotated[bool, typer.Option("--yes", "-y")] = False,
) -> None:
    """Erase records for good, with all their history; all given filters must hold.

    With --verify alone, no records are erased: pending erasures are finished, and the files are searched for --text.

    Options:
        before: Only records said before this date.
        max_importance: Only records of at most this importance.
        everything: With --user, erase the user's private facts and the public facts about them; with --viewer,
            everything that the viewer may see; otherwise everything, with the private facts of all users.
        expired: Erase expired records, of all users unless one is named, and finish pending erasures.
        revisions: With --expired, also erase superseded revisions older than this.
        verify: Search the files of the store for traces; fail if any are found.
        text: With --verify, search for this text; - reads stdin.
        dry_run: Show what would be erased, and erase nothing.
        yes: Erase without asking.
    """
    from factmem.abc.capabilities import KeepsFiles
    from factmem.memory import verify_erased

    ends = [moment for moment in (before, selection.until) if moment is not None]
    filters: Filters = {
        **selection.filters(), "until": min(ends, default=None), "max_importance": max_importance
    }  # fmt: skip
    selected = bool(ids or selection.given or before or max_importance is not None)
    chosen = selected or everything
    all_users = (everything or expired) and session.reader is None
    contradictions = {
        "--text needs --verify: add it": text and not verify,
        "--revisions needs --expired: add it": revisions is not None and not expired,
        "name records and filters, or give --all or --expired: not both": selected + everything + expired > 1,
        "--verify searches after the erasure: leave out --dry-run": verify and dry_run,
        "--verify has nothing to search for: name records, or the words with --text": verify and not (chosen or text),
    }
    for sentence, there in contradictions.items():
        if there:
            raise InvalidDataError(sentence)
    async with (
        session.provider() as provider,
        session.memory(
            provider=provider, subject=selection.subject, scope=selection.scope, read_only=dry_run
        ) as memory,
    ):
        if verify and not isinstance(provider, KeepsFiles):
            raise CapabilityError(
                f"{session.shown_address} keeps no files that could be searched: leave out --verify; nothing was erased"
            )
        traces = doomed = None
        if expired or (verify and not chosen):
            traces = await memory.admin.traces(texts=text, all_users=all_users) if text else None
            receipt: Erasure | ExpiryReceipt = await memory.admin.expire(
                revisions=_days(revisions), all_users=all_users, dry_run=dry_run
            )
        else:
            erase: Callable[..., Awaitable[Erasure]]
            if everything:
                erase = partial(memory.admin.reset, all_users=all_users)
                doomed = await erase(dry_run=True)
            else:
                doomed = await _doomed(session, memory, await full_ids(memory, ids), filters)
                erase = partial(memory.forget, *(record.id for record in doomed), speakers=filters.get("speakers"))
            if dry_run:
                _show_selected(session, doomed)
                return
            if doomed and not yes:
                await _confirm(session, doomed, partial(erase, dry_run=True))
            if verify and (doomed or text):
                named = (record.id for record in doomed)
                traces = await memory.admin.traces(
                    *named, texts=text or (), speakers=filters.get("speakers"), all_users=all_users
                )
            doomed = receipt = await erase() if doomed else doomed
        report = await verify_erased(provider, traces) if traces is not None else None
    _show(session, doomed, receipt, report, dry_run=dry_run)
    if report is not None and not report.clean:
        raise typer.Exit(FAILED)


def _days(number: float | None) -> dt.timedelta | None:
    try:
        return None if number is None else dt.timedelta(days=number)
    except (OverflowError, ValueError):
        raise typer.BadParameter("--revisions is too large: name fewer days") from None


async def _doomed(session: Session, memory: Memory, ids: Sequence[str], filters: Filters) -> Erasure:
    """Return what would be erased.

    Raises:
        RecordNotFoundError: An id names no record that the viewer may see.
    """
    doomed = await memory.forget(*ids, dry_run=True, **filters)
    if missing := set(ids) - {record.id for record in doomed}:
        missing -= {record.id for record in await memory.forget(*missing, dry_run=True)}
    if missing:
        raise RecordNotFoundError(
            f"{len(missing)} of the ids name no visible record, or an erased one; nothing erased: see list_records()"
        )
    if not doomed:
        scope = filters.get("scope")
        await session.note_if_empty(memory, scope=None if scope is None else str(scope))
    return doomed


async def _confirm(session: Session, doomed: Erasure, again: Callable[[], Awaitable[Erasure]]) -> None:
    """Show the records and ask whether to erase them.

    Args:
        session: The session.
        doomed: What would be erased.
        again: Returns the same, by the time of the answer.

    Raises:
        StateConflictError: By the time of the answer, newer revisions would be erased; or, with --json, the answer is
            not yes.
        typer.Exit: The answer is not yes.
    """
    _print_some(console(stderr=True), doomed)
    answer = _answer(f"Erase {_counted(doomed)} for good? [y/N]: ")
    if not answer:
        session.note("\nNo answer: add --yes to erase without being asked.")
    if answer.strip().lower() not in ("y", "yes"):
        if session.as_json:
            print(file=sys.stderr)
            raise StateConflictError("nothing was erased: add --yes")
        session.note("Nothing was erased.")
        raise typer.Exit(FAILED)
    if _seen(await again()) != _seen(doomed):
        raise StateConflictError("the records to erase have changed: look again; nothing was erased")


def _seen(doomed: Erasure) -> set[tuple[str, int]]:
    return {(record.id, record.revision) for record in doomed}


def _answer(question: str) -> str:
    """Ask on stderr and return the line that was typed; empty at the end of stdin."""
    with ending_at_once():
        print(question, end="", file=sys.stderr, flush=True)
        return sys.stdin.readline()


def _print_some(out: Console, doomed: Erasure) -> None:
    records = (*doomed.records, *doomed.words)
    print_records(out, records[:_SHOWN_AT_MOST], lambda record: " ×")
    if len(records) > _SHOWN_AT_MOST:
        out.print(f"… and {len(records) - _SHOWN_AT_MOST} more")


def _counted(doomed: Erasure) -> str:
    facts = len({record.id for record in doomed.words if not record.is_statement})  # each with all its revisions
    words = len({record.id for record in doomed.words if record.is_statement})
    beside = f" and the words of {counted(words, 'message')}" if words else ""
    beside += f" and {counted(facts, 'fact')} found in words" if facts else ""
    return f"{counted(len(doomed), 'record')}{beside}"


def _show_selected(session: Session, doomed: Erasure) -> None:
    def render(out: Console) -> None:
        _print_some(out, doomed)
        out.print(f"Would erase {_counted(doomed)}; erase without --dry-run." if doomed else "Nothing matches.")

    records, words = ([record_json(record) for record in group] for group in (doomed.records, doomed.words))
    selected = {"count": len(doomed), "dry_run": True, "erased": 0, "pending": False}
    session.show({**selected, "records": records, "words": words}, render)


def _show(
    session: Session,
    doomed: Erasure | None,
    receipt: Erasure | ExpiryReceipt,
    report: ErasureReport | None,
    *,
    dry_run: bool,
) -> None:
    """Show the outcome of an erasure; without records, of what had expired."""
    if doomed is None:
        data = attributes(receipt, "expired", "superseded", "erased", "pending") | {"dry_run": dry_run}
        done = "{} {expired} expired and {superseded} superseded revisions."
        line = done.format("Would erase" if dry_run else "Erased", **data)
    else:
        ids: list[Json] = [record.id for record in doomed]
        data = {"records": len(doomed), "erased": receipt.erased, "pending": receipt.pending, "ids": ids}
        done = f"Erased {counted(len(doomed), 'record')}, {counted(receipt.erased, 'revision')}."
        line = done if doomed else "Nothing matches; nothing was erased."
    if report is not None:
        files: list[Json] = [
            {"path": str(file.path), "bytes": file.size, **attributes(file, "words", "names", "marks", "vectors")}
            for file in report.files
        ]
        verified = attributes(report, "clean", "searched", "left_out", "too_short", "unsearched")
        data["verified"] = {**verified, **attributes(report, "said_by", "said_elsewhere"), "files": files}

    def render(out: Console) -> None:
        out.print(line)
        if report is not None:
            _print_report(out, report, session)

    session.show(data, render)
    if receipt.pending:
        print(
            "factmem: another process still holds old bytes of this store, or the disk is full. When that is over, "
            f"finish with  {session.command_line('forget', '--expired')}",
            file=sys.stderr,
        )


def _print_report(out: Console, report: ErasureReport, session: Session) -> None:
    size = sum(file.size for file in report.files)
    out.print(
        f"Searched {counted(len(report.files), 'file')}, {size:,} bytes, for {counted(report.searched, 'piece')} of it."
    )
    for file in report.files:
        if file.found or file.names:
            out.print(
                f"  {file.path}: {file.words} of words, {file.vectors} of vectors, {counted(file.marks, 'id')}, "
                f"{file.names} of names"
            )
    if not any(file.found for file in report.files):
        out.print("Nothing of it was found." if report.searched else "Nothing is proved of the files.")
    for number, one, many, what in (
        (report.too_short, "word or name is", "words or names are", "too short to search for."),
        (report.unsearched, "text was", "texts were", _LOOKED_FOR),
        (report.said_elsewhere, "record that is not shown here holds", "records that are not shown here hold", _HELD),
    ):
        if number:
            out.print(f"{counted(number, one, many)} {what}")
    if report.said_by:
        shown, more = report.said_by[:_SHOWN_AT_MOST], len(report.said_by) - _SHOWN_AT_MOST
        others = counted(len(report.said_by), "other record holds", "other records hold")
        out.print(f"{others} some of it as well; erase with:")
        out.print(f"  {session.command_line('forget', '--verify', *shown)}", soft_wrap=True)
        if more > 0:
            out.print(f"The other {more} are listed then.")
