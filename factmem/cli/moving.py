"""The command that copies a store into another one: `move`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import attrs
import typer

from factmem.browse.texts import shown
from factmem.cli.options import checked_address
from factmem.cli.progress import counted, progress
from factmem.cli.session import Session
from factmem.errors import InvalidDataError

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory import MoveReceipt

__all__ = ["move"]


async def move(
    session: Session,
    source: Annotated[str, typer.Argument(callback=checked_address, help="Address of the store to copy.")],
    target: Annotated[str, typer.Argument(callback=checked_address, help="Address of the store to copy it into.")],
) -> None:
    """Copy a whole store, with its history, into an empty store of any kind, and compare the two.

    The source is only read, and kept. If a move is interrupted, run the same command again; until it is finished, the
    target cannot be used. Run it again later to copy what was written to the source meanwhile. With --organization,
    only that tenant is copied. Keys of encrypted stores are named in the addresses: encrypted:facts?key_env=NAME.
    """
    from factmem.memory import move as move_store
    from factmem.providers import open_provider, without_secrets

    if source == target:
        raise InvalidDataError("the source and the target are the same address: name another target")
    organizations = None if session.organization is None else [session.organization]
    async with open_provider(source) as here, open_provider(target) as there:
        with progress("moving", quiet=session.as_json) as advance:
            receipt = await move_store(
                here, there, organizations=organizations, progress=lambda done, of: advance(done / of if of else 1)
            )
    data = attrs.asdict(receipt) | {"arrived": receipt.arrived, "source": source, "target": target}
    session.show(data, lambda out: _print_receipt(out, receipt, target))
    if receipt.behind:
        again = session.command_line("move", without_secrets(source), without_secrets(target))
        session.note(
            f"{receipt.behind} entries were written to the source too late to be included: stop its writers, and run  "
            f"{again}  again"
        )


def _print_receipt(out: Console, receipt: MoveReceipt, target: str) -> None:
    from factmem.providers import without_secrets

    for tenant in receipt.tenants:
        name = "" if tenant.tenant is None else f"{tenant.tenant}: "
        vectors = counted(tenant.vectors, "vector")
        out.print(shown(f"{name}{tenant.entries} entries and {vectors} in both stores, {tenant.digest[:16]}"))
    if receipt.arrived:
        out.print(shown(f"{receipt.arrived} entries were copied to {without_secrets(target)}"))
    else:
        out.print(shown(f"{without_secrets(target)} has everything already: nothing was written"))
