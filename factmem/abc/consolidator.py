"""The contract of consolidators: what a new statement does to similar ones that are known."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Mapping
from typing import Protocol, runtime_checkable

import attrs

__all__ = ["Action", "Consolidator", "Known", "Novelty", "Verdict", "Verdicts"]


class Action(enum.Enum):
    """Actions on a known record."""

    KEEP = "keep"
    UPDATE = "update"
    DELETE = "delete"


@attrs.frozen(kw_only=True)
class Known:
    """A record that a consolidator is shown. It knows no id: only its number in the question.

    Attributes:
        text: what it says.
        said_at: when that was said, in UTC.
    """

    text: str = attrs.field(repr=False)
    said_at: dt.datetime


@attrs.frozen(kw_only=True)
class Novelty:
    """Something new, with the known records that are similar to it; all of the same walls.

    Attributes:
        text: what is new; of a removal, what is asked to be forgotten.
        said_at: when it was said, in UTC.
        removal: whether it asks to forget something instead of saying something.
        known: the similar records; a verdict names them by their place here, from 0.
    """

    text: str = attrs.field(repr=False)
    said_at: dt.datetime
    removal: bool = False
    known: tuple[Known, ...] = ()


@attrs.frozen(kw_only=True)
class Verdict:
    """The action on one known record.

    Attributes:
        action: keep, update or delete.
        text: what it says from now on, for an update.
        reason: why, for the audit trail.
    """

    action: Action
    text: str | None = attrs.field(default=None, repr=False)
    reason: str | None = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class Verdicts:
    """The verdicts about one candidate.

    Attributes:
        insert: whether it becomes a record of its own. False needs a record that says it afterwards: one that
            is updated, or one that is kept explicitly; otherwise it is inserted all the same. Of a
            removal it means nothing.
        known: what to do with which known record, by its number; those that are not named are kept. Of a
            removal, delete the records that are meant, and update those of which only a part is.
    """

    insert: bool = True
    known: Mapping[int, Verdict] = attrs.field(factory=dict)


@runtime_checkable
class Consolidator(Protocol):
    """Decides what is new and what becomes of what was known."""

    async def decide(self, novelty: Novelty) -> Verdicts:
        """Return what to do about a novelty; several may be asked about at a time.

        The caller ignores numbers that name nothing shown, and what the walls, the origins or a
        policy do not allow: see `factmem.consolidation.plan`.

        Raises:
            ModelError: the model failed.
        """
        ...
