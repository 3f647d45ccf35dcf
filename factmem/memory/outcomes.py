"""What became of what was handed over."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import attrs

from factmem.abc import DropReason
from factmem.records import Change, FactRecord

__all__ = ["Remembered"]


@attrs.frozen(kw_only=True)
class Remembered:
    """What became of words, or of facts, that were handed over. Iterating gives the records.

    Attributes:
        records: what is known of them now, as it stands in the store; none if there was nothing to remember.
        changes: what that changed; none if all of it was known.
        dropped: how many findings of the model were dropped, by why. Of words of which nothing was kept, for they
            are nothing but secrets: how many messages.
        failure: the name of the error that kept the model from reading it, or None. The words are kept
            as they were said, and can be read again: see `Memory.dead_letters`.
    """

    records: tuple[FactRecord[Any], ...] = ()
    changes: tuple[Change, ...] = ()
    dropped: Mapping[DropReason, int] = attrs.field(factory=dict)
    failure: str | None = None

    def __iter__(self) -> Iterator[FactRecord[Any]]:
        return iter(self.records)

    def __len__(self) -> int:
        return len(self.records)
