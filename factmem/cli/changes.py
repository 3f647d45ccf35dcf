"""How changes look: as JSON, and to people."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from factmem.cli.session import Session
from factmem.records import Change
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["change_json", "print_changes", "show_changes"]


def change_json(change: Change) -> dict[str, Json]:
    """Return a change as JSON."""
    from factmem.cli.output import record_json

    return {
        "kind": change.kind.value,
        "record": record_json(change.record),
        "previous": record_json(change.previous) if change.previous else None,
    }


def print_changes(out: Console, changes: Iterable[Change], label: str | None = None) -> None:
    """Print changes for people.

    Args:
        out: where to.
        changes: the changes.
        label: what was done to each; else what kind of change it is.
    """
    from factmem.cli.output import print_block, record_block

    for change in changes:
        print_block(out, label or change.kind.value, record_block(change.record))


def show_changes(session: Session, changes: tuple[Change, ...], label: str) -> None:
    """Tell of what was done to some records.

    Args:
        session: the run that tells.
        changes: what was done.
        label: its name for people.
    """
    session.show(
        [change_json(change) for change in changes],
        lambda out: print_changes(out, changes, label),
    )
