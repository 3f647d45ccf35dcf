"""Ids as people read and type them: in full, or shortened to digits that only one of them has, as in git."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from factmem.browse.texts import shown
from factmem.errors import CapabilityError, RecordNotFoundError

if TYPE_CHECKING:
    from factmem.memory.facade import Memory

_FULL: Final = 32
"""Length of an id in full."""

_SHOWN: Final = 8
"""Length of a shortened id that is shown. In a small store half of it suffices."""

_SHORTEST: Final = 4
"""Minimum length of a shortened id that is typed."""

_COUNTED: Final = 12
"""Number of digits at the beginning of many ids that count the records of the store; the others are random."""

_MOST_NAMED: Final = 5


def short_id(id: str) -> str:
    """Return the digits of an id to show in a listing: the first ones that tell it from others."""
    return shown(_telling_end(id)[:_SHOWN])


def _telling_end(id: str) -> str:
    return id.rpartition("-")[2] if "-" in id else id[_COUNTED:] or id


async def full_ids(memory: Memory, texts: Iterable[str] | None) -> list[str]:
    """Return ids of visible records in full; see `lengthened`."""
    given = list(texts or ())
    return lengthened(given, await _visible_ids(memory) if any(map(_is_short, given)) else ())


def lengthened(texts: Iterable[str], known: Iterable[str]) -> list[str]:
    """Return ids in full; those that shorten none are returned as they are.

    A shortened id is what `short_id` shows or a part of it from the first digit on, or the beginning or end of the id.

    Args:
        texts: The ids as typed.
        known: The ids in full.

    Raises:
        RecordNotFoundError: A text shortens more than one id.
    """
    ids = sorted(set(known))
    return [_the_one(text, ids) if _is_short(text) else text for text in texts]


def _is_short(text: str) -> bool:
    return _SHORTEST <= len(text) < _FULL


async def _visible_ids(memory: Memory) -> set[str]:
    """Return the ids of all visible records, the retracted and quarantined ones included."""
    known = {record.id for record in await memory.list_records()}
    try:
        trail = await memory.admin.audit(limit=None)
    except CapabilityError:
        return known
    return known | {entry.record.id for entry in trail.entries if entry.record is not None}


def _the_one(text: str, ids: Iterable[str]) -> str:
    found = [id for id in ids if id.startswith(text) or id.endswith(text) or _telling_end(id).startswith(text)]
    if len(found) > 1:
        named = ", ".join(map(_telling_end, found[:_MOST_NAMED]))
        more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
        raise RecordNotFoundError(f"{text} shortens {len(found)} ids: give more digits of {named}{more}")
    return found[0] if found else text
