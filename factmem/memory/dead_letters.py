"""Dead letters: words that a model could not read. They are kept as they were said, and can be read again."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import attrs

from factmem.errors import RecordNotFoundError
from factmem.memory.journal import Unit
from factmem.memory.observed import observed
from factmem.memory.outcomes import Remembered
from factmem.memory.viewing import Reading
from factmem.records import FactRecord

__all__ = ["DeadLetter", "DeadLetters"]


@attrs.frozen(kw_only=True)
class DeadLetter:
    """Words that could not be read.

    Attributes:
        id: the id of the hand-over.
        records: the words, as they are kept.
        failure: the name of the error that kept them from being read.
        failed_at: when it was given up, in UTC.
    """

    id: str
    records: tuple[FactRecord[Any], ...]
    failure: str
    failed_at: dt.datetime


@observed("dead_letters.")
@attrs.frozen(kw_only=True)
class DeadLetters:
    """Words that could not be read. See `Memory.dead_letters`."""

    _letters: Callable[[], Awaitable[Sequence[tuple[DeadLetter, Unit]]]] = attrs.field(alias="letters")
    _retry: Callable[[Unit], Awaitable[Remembered]] = attrs.field(alias="retry")
    _dismiss: Callable[[Unit], Awaitable[None]] = attrs.field(alias="dismiss")
    _reading: Reading = attrs.field(alias="reading")

    async def list(self) -> tuple[DeadLetter, ...]:
        """Return them, in the order handed over."""
        return tuple(letter for letter, _ in await self._letters())

    async def retry(self, *ids: str) -> tuple[Remembered, ...]:
        """Read them again, now; all of them if no id is given. What fails again stays a dead letter.

        Raises:
            RecordNotFoundError: an id names no dead letter; none was read.
            ReadOnlyError: the memory is read-only.
        """
        return tuple([await self._retry(unit) for unit in await self._chosen(ids)])

    async def dismiss(self, *ids: str) -> None:
        """Give up on reading them: the words stay as they were said, like any other statement.

        Raises:
            RecordNotFoundError: an id names no dead letter.
            ReadOnlyError: the memory is read-only.
        """
        for unit in await self._chosen(ids):
            await self._dismiss(unit)

    async def _chosen(self, ids: Sequence[str]) -> Sequence[Unit]:
        letters = {letter.id: unit for letter, unit in await self._letters()}
        if missing := set(ids) - letters.keys():
            raise RecordNotFoundError(f"{len(missing)} of the ids name no dead letter: see list()")
        return [letters[id] for id in ids or letters]
