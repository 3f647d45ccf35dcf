"""The commands that copy whole stores: `backup`, `restore` and `move`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from factmem.browse.texts import counted, shown
from factmem.cli.options import checked_address
from factmem.cli.progress import progress
from factmem.cli.session import Session
from factmem.errors import InvalidDataError
from factmem.json_form import attributes
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory.moves import MoveReceipt
    from factmem.providers.backups import Backup

__all__ = ["backup", "move", "restore"]


async def backup(
    session: Session,
    folder: Path,
) -> None:
    """Make a verified backup of the whole store, with all organizations, while others may use it.

    The backup of an encrypted store is encrypted, and needs the same key. A PostgreSQL database has tools of its own.

    Options:
        folder: Folder of the backup, which must not exist yet.
    """
    from factmem.providers import back_up
    from factmem.providers.registry import open_provider

    async with open_provider(session.address) as provider:
        with progress("backing up", quiet=session.as_json) as advance:
            made = await back_up(provider, folder, progress=advance)
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
    folder: Path,
    replace: bool = False,
    dry_run: bool = False,
) -> None:
    """Verify a backup, and replace the store with it.

    A damaged backup is refused, and the store stays as it is. An interrupted restore is finished by the same command.
    End the programs that use the store first. To bring back a single record, use `undo` or `rollback`.

    Options:
        folder: Folder that `backup` made.
        replace: Restore over a store; its files are kept under another name.
        dry_run: Verify the backup, and write nothing.
    """
    from factmem.providers.backups import read_backup, restore_backup
    from factmem.providers.registry import open_provider

    if dry_run:
        found = await read_backup(folder)
        session.show_line(
            _backup_json(found) | {"backup": str(folder)},
            shown(f"{folder} is whole: {_size(found)}, of the kind {found.kind}, made {_when(found)}"),
        )
        return
    async with open_provider(session.address) as provider:
        with progress("restoring", quiet=session.as_json) as advance:
            done = await restore_backup(folder, provider, replace=replace, progress=advance)
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
    return attributes(backup, "kind", "made_at", "digest") | {"files": len(backup.files), "bytes": backup.size}


def _print(out: Console, line: str, hint: str | None) -> None:
    out.print(shown(line))
    if hint:
        out.print(hint, style="dim", soft_wrap=True)


def _size(backup: Backup) -> str:
    return f"{counted(len(backup.files), 'file')}, {backup.size / 1e6:,.1f} MB"


def _when(backup: Backup) -> str:
    return f"{backup.made_at:%Y-%m-%d %H:%M} UTC"


async def move(
    session: Session,
    source: Annotated[str, typer.Argument(callback=checked_address)],
    target: Annotated[str, typer.Argument(callback=checked_address)],
) -> None:
    """Copy a whole store, with its history, into an empty store of any kind, and compare the two.

    The source is only read, and kept. If a move is interrupted, run the same command again; until it is finished, the
    target cannot be used. Run it again later to copy what was written to the source meanwhile. With --organization,
    only that tenant is copied. Keys of encrypted stores are named in the addresses: encrypted:facts?key_env=NAME.

    Options:
        source: Address of the store to copy.
        target: Address of the store to copy it into.
    """
    from factmem.memory.moves import move as move_store
    from factmem.providers.registry import open_provider, without_secrets

    if source == target:
        raise InvalidDataError("the source and the target are the same address: name another target")
    organizations = None if session.organization is None else [session.organization]
    async with open_provider(source) as here, open_provider(target) as there:
        with progress("moving", quiet=session.as_json) as advance:
            receipt = await move_store(here, there, organizations=organizations, progress=advance)
    data = attrs.asdict(receipt) | {"arrived": receipt.arrived, "source": source, "target": target}
    session.show(data, lambda out: _print_receipt(out, receipt, target))
    if receipt.behind:
        again = session.command_line("move", without_secrets(source), without_secrets(target))
        session.note(
            f"{receipt.behind} entries were written to the source too late to be included: stop its writers, and run  "
            f"{again}  again"
        )


def _print_receipt(out: Console, receipt: MoveReceipt, target: str) -> None:
    from factmem.providers.registry import without_secrets

    for tenant in receipt.tenants:
        name = "" if tenant.tenant is None else f"{tenant.tenant}: "
        vectors = counted(tenant.vectors, "vector")
        out.print(shown(f"{name}{tenant.entries} entries and {vectors} in both stores, {tenant.digest[:16]}"))
    if receipt.arrived:
        out.print(shown(f"{receipt.arrived} entries were copied to {without_secrets(target)}"))
    else:
        out.print(shown(f"{without_secrets(target)} has everything already: nothing was written"))
