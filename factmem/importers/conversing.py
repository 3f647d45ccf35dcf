"""Conversations of other systems, in the form that `factmem ingest` reads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import attrs

from factmem.abc import Conversation
from factmem.detection import conversations_of

__all__ = ["conversation"]


def conversation(where: str, messages: Sequence[dict[str, Any]], *, id: str | None) -> Conversation:
    """Return messages with role and content as a conversation.

    Args:
        where: Its place in the source, for errors.
        messages: The messages; see `factmem.detection.read_conversations`.
        id: Its id.

    Raises:
        ConversationFormatError: A message has no known form.
    """
    (found,) = conversations_of([(where, {"messages": list(messages)})])
    return attrs.evolve(found, id=id)
