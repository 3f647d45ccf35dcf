"""The commands that carry a memory elsewhere: ``export``, ``import``, ``reembed``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import attrs
import typer

from factmem.cli.command import command
from factmem.cli.session import Session
from factmem.errors import InvalidDataError, StoreUnavailableError
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Add these commands to the app."""
    command(app, "export")(export)
    command(app, "import")(import_)
    command(app, "reembed")(reembed)


async def export(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="Where to, as JSON Lines; - is stdout.")],
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
) -> None:
    """Write everything that the viewer may see, with its history, to a file."""
    to_stdout = file == Path("-")
    if not force and not to_stdout and file.exists():
        raise InvalidDataError(f"{file} is there already: name another file, or add --force to replace it")
    target: Path | IO[str] = sys.stdout if to_stdout else file
    async with session.memory() as memory:
        try:
            lines = await memory.export(target)
        except StoreUnavailableError as error:
            if isinstance(error.__cause__, BrokenPipeError):
                raise error.__cause__ from None
            raise
        await session.note_if_empty(memory)
    if to_stdout:
        session.note(f"exported {lines} assertion(s)")
    else:
        _show_count(session, {"exported": lines, "file": str(file)}, f"exported {lines} assertion(s) to {file}")


async def import_(
    session: Session,
    file: Annotated[Path, typer.Argument(metavar="FILE", help="What `export` wrote; - is stdin.")],
    trust: Annotated[
        bool, typer.Option("--trust", help="Believe it, such as a backup of your own; else it waits in quarantine.")
    ] = False,
) -> None:
    """Take in what `export` wrote; what is there already stays as it is."""
    source: Path | IO[str] = sys.stdin if file == Path("-") else file
    async with session.memory(read_only=False) as memory:
        receipt = await memory.import_(source, trust=trust)
    text = f"{receipt.imported} new assertion(s) in {session.address}, {receipt.quarantined} waiting in quarantine"
    if receipt.let_in:
        text += f", {receipt.let_in} let in"
    _show_count(session, {**attrs.asdict(receipt), "file": str(file)}, text)
    if receipt.quarantined:
        session.note(f"What waits is listed by  {session.command_line('quarantine', 'list')}")


async def reembed(session: Session) -> None:
    """Bind the store to the embedder in use and make every vector anew."""
    async with session.memory(read_only=False) as memory:
        count = await memory.reembed()
    _show_count(session, {"reembedded": count}, f"embedded {count} record(s) anew")


def _show_count(session: Session, data: dict[str, Json], text: str) -> None:
    def render(out: Console) -> None:
        out.print(text)

    session.show(data, render)
