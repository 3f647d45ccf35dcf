"""The command `import`: a file that `export` wrote, or the memories of another system."""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import attrs
import typer

from factmem.browse.texts import counted, shown
from factmem.cli.options import OriginNameOption, ScopeOption, SubjectOption, from_day, key_in
from factmem.cli.progress import progress
from factmem.cli.session import FAILED, STDIN, Session
from factmem.errors import InvalidDataError
from factmem.importers.systems import SYSTEMS, Reading, read_system
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.importers.moving import ImportReport

__all__ = ["import_"]

_OWN = "factmem"
_OWNERS_SHOWN = 5


def _column(text: str) -> tuple[str, str]:
    field, sign, column = text.partition("=")
    if not sign or not field.strip() or not column:
        raise typer.BadParameter(f"{text!r} is not a column such as value=text")
    return field.strip(), column


@attrs.frozen(kw_only=True)
class MovingOptions:
    """The options of an import from another system.

    Attributes:
        subject: Subject of rows that name none.
        scope: Scope of rows that name none.
        source: Name of the source, to filter by.
        private: Visible only to the user that a fact is about, else to the viewer.
        column: Column of a csv or jsonl file, such as value=text.
        namespace: Meaning of langgraph's namespaces, such as memories,{user}.
        key_env: Environment variable with the key of koog's files.
        with_deleted: Keep what was deleted in mem0 as retracted history.
        date: Date of undated rows (default: the file's last change).
        dry_run: Read everything, and write nothing.
    """

    subject: SubjectOption = None
    scope: ScopeOption = None
    source: OriginNameOption = None
    private: bool = False
    column: Annotated[list[str] | None, typer.Option(metavar="FIELD=COLUMN")] = None
    namespace: Annotated[str | None, typer.Option(metavar="TEMPLATE")] = None
    key_env: Annotated[str | None, typer.Option(metavar="NAME")] = None
    with_deleted: bool = False
    date: Annotated[dt.datetime | None, typer.Option(parser=from_day, metavar="DATE")] = None
    dry_run: bool = False

    def opened(self, system: str, path: Path, subject: MemorySubject, session: Session) -> Reading:
        """Open the source with these options.

        Raises:
            FactMemError: See `read_system`.
        """
        from factmem.importers import ImportOptions

        scope = MemoryScope.CROSS_PRODUCT if self.scope is None else MemoryScope.parse(self.scope)
        options = ImportOptions(
            subject=subject,
            scope=scope,
            source=self.source,
            private=self.private or session.user is not None,
            owner=session.reader,
            columns=dict(_column(text) for text in self.column or ()),
            namespace=self.namespace,
            key=key_in(self.key_env),
            with_deleted=self.with_deleted,
            dated=self.date,
        )
        return read_system(system, path, options)


async def import_(
    session: Session,
    path: Path,
    system: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="SYSTEM",
            help=f"System that wrote it: {', '.join((_OWN, *SYSTEMS))}.",
            autocompletion=lambda incomplete: [name for name in (_OWN, *SYSTEMS) if name.startswith(incomplete)],
        ),
    ] = _OWN,
    trust: bool = False,
    moving: MovingOptions = MovingOptions(),
) -> None:
    """Import a file that `export` wrote, or move in from another system; doing it twice adds nothing.

    Of a file that `export` wrote, everything is quarantined without --trust; of another system, what neither the user
    nor the assistant is known to have said. Conversations are ingested, with --model by a language model.

    Options:
        path: File or folder; - reads stdin (own format only).
        trust: Trust it, such as your own backup (default: quarantine what nobody is known to have said).
    """
    if system == _OWN:
        await _own(session, path, moving, trust=trust)
    elif path == STDIN:
        raise InvalidDataError("only factmem's own format can be read from stdin: name a file")
    else:
        await _move(session, system, path, moving, trust=trust)


async def _own(session: Session, file: Path, moving: MovingOptions, *, trust: bool) -> None:
    if moving != MovingOptions():
        raise InvalidDataError("these options are for other systems: name one with --from, or leave them out")
    source: Path | IO[str] = sys.stdin if file == STDIN else file
    async with session.memory(read_only=False) as memory:
        receipt = await memory.admin.import_(source, trust=trust)
    new = counted(receipt.imported, "new assertion")
    private = f" and {receipt.private:,} private to others" if receipt.private else ""
    text = f"{new}{private} in {session.shown_address}, {receipt.quarantined:,} waiting in quarantine"
    if receipt.accepted:
        text += f", {receipt.accepted} accepted"
    session.show_line({**attrs.asdict(receipt), "file": str(file)}, text)
    session.note_quarantined(receipt.quarantined)


async def _move(session: Session, system: str, path: Path, moving: MovingOptions, *, trust: bool) -> None:
    from factmem.importers import move_in
    from factmem.importers.moving import preview

    with progress(path.name, quiet=session.as_json) as advance:
        if moving.dry_run:
            subject = moving.subject or MemorySubject.EVERYTHING  # the store, which would know it better, is not opened
            report = await preview(moving.opened(system, path, subject, session), progress=advance)
        else:
            asking = SYSTEMS[system].words if system in SYSTEMS else False
            async with session.memory(read_only=False, asking=asking) as memory:
                subject = await session.subject_in(memory, moving.subject)
                reading = moving.opened(system, path, subject, session)
                report = await move_in(memory, reading, trust=trust, progress=advance)
    data: dict[str, Json] = {
        "store": session.shown_address,
        "system": system,
        "path": str(path),
        "dry_run": moving.dry_run,
    }
    session.show(data | report.to_json(), lambda out: _print(out, session, system, report, dry_run=moving.dry_run))
    session.note_quarantined(report.quarantined, report.owners[:_OWNERS_SHOWN])
    if report.errors:
        raise typer.Exit(FAILED)


def _print(out: Console, session: Session, system: str, report: ImportReport, *, dry_run: bool) -> None:
    if dry_run:
        found = [(report.imported, "assertion"), (report.conversations, "conversation")]
        listed = " and ".join(counted(*one) for one in found if one[0]) or "nothing"
        out.print(f"{system}: {listed} to import; nothing was written")
    else:
        talks = f"{counted(report.conversations, 'conversation')}, " if report.conversations else ""
        accepted = f", {report.accepted} accepted" if report.accepted else ""
        changes = [(report.updated, "updated"), (report.retracted, "retracted")]
        changed = "".join(f", {counted(number, 'record')} {done}" for number, done in changes if number)
        out.print(
            f"{talks}{counted(report.imported, 'new assertion')} in {session.shown_address}, "
            f"{report.known} known before, {report.quarantined} waiting in quarantine{accepted}{changed}"
        )
    for label, counts in (("skipped", report.skipped), ("lost", report.lost)):
        for what, count in counts.items():
            out.print(f"{label}: {counted(count, 'row')}: {shown(what)}")
    for line in _problems(report):
        out.print(line, style="red")


def _problems(report: ImportReport) -> Iterator[str]:
    for problem in report.problems:
        message = str(problem.error)
        yield shown(f"error: {message}" if problem.where in message else f"error: {problem.where}: {message}")
    if report.errors > len(report.problems):
        yield f"and {report.errors - len(report.problems)} more errors"
