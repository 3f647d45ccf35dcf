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
    """A known record as shown to a consolidator. It has no id: a verdict names it by its number.

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
        removal: Whether it asks to forget something instead of stating something.
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
        insert: Insert the statement as a record of its own. False requires a record that covers it afterwards: one that
            is updated, or one that is kept explicitly; otherwise the statement is inserted all the same. Ignored for a
            removal.
        known: Verdicts by number of the known record; records that are not named are kept. For a removal, delete the
            records that it means, and update those of which it means a part.
    """

    insert: bool = True
    known: Mapping[int, Verdict] = attrs.field(factory=dict)


@runtime_checkable
class Consolidator(Protocol):
    """Decides whether a new statement is inserted, and what happens to similar known records."""

    async def decide(self, novelty: Novelty) -> Verdicts:
        """Return the verdicts about a statement; may be called concurrently.

        The caller ignores verdicts on records that were not shown, and actions that partitions, origins or a policy
        do not allow: see `factmem.consolidation.planning.plan`.

        Raises:
            ModelError: The model failed.
        """
        ...
