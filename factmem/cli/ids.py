"""Ids of records as people type them: in full, or as many digits as only one of them has, as in git."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from factmem.errors import CapabilityError, RecordNotFoundError

if TYPE_CHECKING:
    from factmem.memory import Memory

__all__ = ["full_ids"]

_FULL: Final = 32
"""Length of an id in full."""

_SHORTEST: Final = 4
"""Minimum length of a shortened id."""

_COUNTED: Final = 12
"""Number of digits at the beginning of some ids that count the records of the store; the others are random."""


async def full_ids(memory: Memory, texts: Iterable[str] | None) -> list[str]:
    """Return ids in full; those that begin no visible id are returned as they are.

    A shortened id is the beginning of the id, or of its digits after the twelfth.

    Raises:
        RecordNotFoundError: More than one visible record has an id that begins so.
    """
    given = list(texts or ())
    if not any(map(_is_short, given)):
        return given
    known = await _visible_ids(memory)
    return [_the_one(text, known) if _is_short(text) else text for text in given]


def _is_short(text: str) -> bool:
    return _SHORTEST <= len(text) < _FULL


async def _visible_ids(memory: Memory) -> set[str]:
    """Return the ids of all visible records, the retracted and quarantined ones included."""
    known = {record.id for record in await memory.list_records()}
    try:
        trail = await memory.audit(limit=None)
    except CapabilityError:
        return known
    return known | {entry.record.id for entry in trail.entries if entry.record is not None}


def _the_one(text: str, known: Iterable[str]) -> str:
    found = sorted(id for id in known if id.startswith(text) or id[_COUNTED:].startswith(text))
    if len(found) > 1:
        raise RecordNotFoundError(f"{len(found)} records have an id that begins with {text}: add more of its digits")
    return found[0] if found else text
