"""Whom an agent works for in one run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import attrs

from factmem.names import checked_name
from factmem.validators import instance_of

__all__ = ["RunIdentity"]


def _optional_name(instance: object, attribute: attrs.Attribute[str | None], value: str | None) -> None:
    if value is not None:
        checked_name(value, what=f"a run's {attribute.name}")


@attrs.frozen(kw_only=True)
class RunIdentity:
    """Whom an agent works for in one run, and what its memory may do there.

    The user is who facts are about (`AgentMemoryConfig.user`, narrowed to this one), and who owns what
    is kept privately. One installed agent serves any number of users, none of whom ever sees what
    another one said.

    Attributes:
        user_id: the user; None where there is only one.
        session_id: the conversation. The same id is the same conversation, however often its history is
            handed in; without one, a conversation is known by how it began.
        load: whether the agent is told what is known.
        save: whether facts are learnt from the run.

    Raises:
        InvalidNameError: an id is blank, too long or holds control characters.
    """

    user_id: str | None = attrs.field(default=None, validator=_optional_name)
    session_id: str | None = attrs.field(default=None, validator=_optional_name)
    load: bool = attrs.field(default=True, validator=instance_of(bool))
    save: bool = attrs.field(default=True, validator=instance_of(bool))

    @classmethod
    def named_by(cls, context: Any) -> RunIdentity:
        """Return whom a host's own run context names: its ``user_id`` and ``session_id``, as attributes or keys.

        Args:
            context: whatever the program hands to the run; None names nobody. Ids that are no text become text.
        """
        return cls(user_id=_named(context, "user_id"), session_id=_named(context, "session_id"))

    def or_else(self, other: RunIdentity) -> RunIdentity:
        """Return this identity, with what it leaves open taken from another one; either may forbid."""
        return RunIdentity(
            user_id=self.user_id if self.user_id is not None else other.user_id,
            session_id=self.session_id if self.session_id is not None else other.session_id,
            load=self.load and other.load,
            save=self.save and other.save,
        )


def _named(context: Any, name: str) -> str | None:
    found = context.get(name) if isinstance(context, Mapping) else getattr(context, name, None)
    return None if found is None else str(found)
