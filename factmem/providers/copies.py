"""Checks of the parts of a log that `CopiesLogs.put_log_part` takes, for all providers."""

from __future__ import annotations

import itertools

from factmem.abc import LogPart
from factmem.errors import InvalidDataError, StateConflictError
from factmem.records import Recorded

__all__ = ["check_part", "misfit"]


def check_part(part: LogPart, tenant: str | None, copied: int | None) -> None:
    """Raise unless a part continues an unfinished copy, and its entries are the tenant's, in order.

    Args:
        part: The part.
        tenant: The tenant.
        copied: See `CopiesLogs.copied`.

    Raises:
        StateConflictError: The copy was not begun, or is not complete up to where the part begins.
        InvalidDataError: An entry is another tenant's, or its number does not grow or is not in the part.
    """
    if copied is None:
        raise StateConflictError("this copy was not begun, or is finished; nothing was written: begin it again")
    if copied != part.since:
        raise StateConflictError(
            f"the copy is complete up to number {copied}, not {part.since}: another process writes to the target; "
            "nothing was written: wait for it, then move again"
        )
    numbers = [part.since, *(entry.seq for entry in part.entries)]
    if any(later <= earlier for earlier, later in itertools.pairwise(numbers)) or numbers[-1] > part.until:
        raise misfit()
    said = (entry.assertion for entry in part.entries if isinstance(entry, Recorded))
    if any(assertion.place.scope.tenant != tenant for assertion in said):
        raise misfit()


def misfit() -> InvalidDataError:
    """Return the error of entries that do not fit together."""
    return InvalidDataError(
        "the entries of the log do not fit together; nothing of this part was written: run `factmem check` on the "
        "store that they come from"
    )
