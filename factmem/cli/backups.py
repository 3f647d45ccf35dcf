"""The commands that keep copies of whole stores: `backup` and `restore`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from factmem.browse.texts import shown
from factmem.cli.progress import counted, progress
from factmem.cli.session import Session
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.providers import Backup

__all__ = ["backup", "restore"]


async def backup(
    session: Session,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder of the backup, which must not exist yet.")],
) -> None:
    """Make a verified backup of the whole store, with all organizations, while others may use it.

    The backup of an encrypted store is encrypted, and needs the same key. A PostgreSQL database has tools of its own.
    """
    from factmem.providers import back_up, open_provider

    async with open_provider(session.address) as provider:
        with progress("backing up", quiet=session.as_json) as advance:
            made = await back_up(provider, folder, progress=lambda done, of: advance(done / of if of else 1))
    back = session.command_line("restore", str(folder))
    session.show(
        _backup_json(made) | {"store": session.shown_address, "backup": str(folder)},
        lambda out: _print(
            out,
            f"{session.shown_address} was backed up to {folder}: {_size(made)}, verified",
            f"bring it back with  {back}",
        ),
    )


async def restore(
    session: Session,
    folder: Annotated[Path, typer.Argument(metavar="FOLDER", help="Folder that `backup` made.")],
    replace: Annotated[
        bool, typer.Option("--replace", help="Restore over a store; its files are kept under another name.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Verify the backup, and write nothing.")] = False,
) -> None:
    """Verify a backup, and replace the store with it.

    A damaged backup is refused, and the store stays as it is. An interrupted restore is finished by the same command.
    End the programs that use the store first. To bring back a single record, use `undo` or `rollback`.
    """
    from factmem.providers import open_provider, read_backup, restore_backup

    if dry_run:
        found = await read_backup(folder)
        session.show_line(
            _backup_json(found) | {"backup": str(folder)},
            shown(f"{folder} is whole: {_size(found)}, of the kind {found.kind}, made {_when(found)}"),
        )
        return
    async with open_provider(session.address) as provider:
        with progress("restoring", quiet=session.as_json) as advance:
            done = await restore_backup(
                folder, provider, replace=replace, progress=lambda done, of: advance(done / of if of else 1)
            )
    kept = None if done.kept is None else str(done.kept)
    session.show(
        _backup_json(done.backup) | {"store": session.shown_address, "backup": str(folder), "kept": kept},
        lambda out: _print(
            out,
            f"{session.shown_address} is as it was when the backup was made, {_when(done.backup)}",
            kept and f"the replaced store is kept: {kept}",
        ),
    )


def _backup_json(backup: Backup) -> dict[str, Json]:
    return {
        "kind": backup.kind,
        "made_at": backup.made_at.isoformat(),
        "files": len(backup.files),
        "bytes": backup.size,
        "digest": backup.digest,
    }


def _print(out: Console, line: str, hint: str | None) -> None:
    out.print(shown(line))
    if hint:
        out.print(hint, style="dim", soft_wrap=True)


def _size(backup: Backup) -> str:
    return f"{counted(len(backup.files), 'file')}, {backup.size / 1e6:,.1f} MB"


def _when(backup: Backup) -> str:
    return f"{backup.made_at:%Y-%m-%d %H:%M} UTC"
