"""Contract of consolidators: actions on known records, given a similar new statement."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import attrs


class Action(enum.Enum):
    """Action on a known record."""

    KEEP = "keep"
    UPDATE = "update"
    DELETE = "delete"


@attrs.frozen(kw_only=True)
class Known:
    """A known record as shown to a consolidator. A verdict names it by its number, not by an id.

    Attributes:
        text: Text of the record.
        said_at: Time when it was said, in UTC.
    """

    text: str = attrs.field(repr=False)
    said_at: dt.datetime


@attrs.frozen(kw_only=True)
class Novelty:
    """A new statement with the similar known records, all of the same partition.

    Attributes:
        text: Text of the statement; of a removal, the text to forget.
        said_at: Time when it was said, in UTC.
        removal: Whether the statement asks to forget something.
        known: Similar records; a verdict names them by their position, from 0.
    """

    text: str = attrs.field(repr=False)
    said_at: dt.datetime
    removal: bool = False
    known: tuple[Known, ...] = ()


@attrs.frozen(kw_only=True)
class Verdict:
    """Action on one known record.

    Attributes:
        action: Keep, update or delete.
        text: New text of the record, for an update.
        reason: Reason, for the audit trail.
    """

    action: Action
    text: str | None = attrs.field(default=None, repr=False)
    reason: str | None = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class Verdicts:
    """Verdicts about one new statement.

    Attributes:
        insert: Insert the statement as a new record. False requires an updated or explicitly kept record that covers
            the statement; otherwise it is inserted all the same. Ignored for a removal.
        known: Verdicts by number of the known record; other records are kept. For a removal, delete the records to
            forget, and update those of which only a part is to be forgotten.
    """

    insert: bool = True
    known: Mapping[int, Verdict] = attrs.field(factory=dict)


@runtime_checkable
class Consolidator(Protocol):
    """Decides whether a new statement is inserted, and what happens to similar known records."""

    async def decide(self, novelty: Novelty) -> Verdicts:
        """Return the verdicts about a statement; may be called concurrently.

        The caller ignores verdicts on unknown records, and actions that partitions, origins or a policy forbid: see
        `factmem.consolidation.planning.plan`.

        Raises:
            ModelError: The model failed.
        """
        ...
