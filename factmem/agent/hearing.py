"""Hearing: what runs of an agent have heard in their conversations, for what their model writes down."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final

import attrs

from factmem.abc import Message
from factmem.agent.config import RunIdentity
from factmem.agent.history import conversation_id, identified
from factmem.details import Treatment

__all__ = ["Hearing"]

_MOST_CONVERSATIONS: Final = 100
"""Maximum number of conversations that are kept in mind; the one that was silent for longest is dropped."""

_MOST_OF_A_USER: Final = 8
"""Maximum number of conversations that may be the one of a run without a session."""

_MOST_CHARACTERS: Final = 1_000_000
"""Maximum length of a conversation that is kept in mind, in characters; its oldest messages are dropped."""


@attrs.frozen(eq=False)
class Hearing:
    """The latest conversations of an agent's runs in this process, by user and conversation.

    Hosts pass the history to each request of a model, so that everything is heard before the model can repeat it with
    a tool; messages that a host leaves out of a later request were heard nevertheless. Safe to use from any thread.
    """

    _conversations: dict[tuple[str | None, str], dict[str, Message]] = attrs.field(factory=dict, init=False, repr=False)
    _changing: threading.Lock = attrs.field(factory=threading.Lock, init=False, repr=False)

    def hear(self, identity: RunIdentity, history: Sequence[Message]) -> None:
        """Keep in mind a history as it is so far.

        Args:
            identity: The identity of the run.
            history: The messages.
        """
        key = identity.user_id, conversation_id(identity, history)
        with self._changing:
            known = self._conversations.pop(key, {})
            new = {message.id or "": message for message in identified(history)}
            self._conversations[key] = _latest({**{id: said for id, said in known.items() if id not in new}, **new})
            while len(self._conversations) > _MOST_CONVERSATIONS:
                del self._conversations[next(iter(self._conversations))]

    def heard(self, identity: RunIdentity) -> list[Message]:
        """Return the conversation of a run, in order; without a session, the latest conversations of its user.

        Args:
            identity: The identity of the run.
        """
        user, session = identity.user_id, identity.session_id
        with self._changing:
            conversations = [
                said
                for (whose, conversation), said in self._conversations.items()
                if whose == user and session in (None, conversation)
            ]
            return [message for said in conversations[-_MOST_OF_A_USER:] for message in said.values()]

    def left_out(self, identity: RunIdentity, history: Sequence[Message]) -> list[Message]:
        """Return the untrusted messages of a conversation that its history does not show any more, to be compared only.

        Args:
            identity: The identity of the run.
            history: The messages.
        """
        key = identity.user_id, conversation_id(identity, history)
        shown = {message.id for message in identified(history)}
        with self._changing:
            known = list(self._conversations.get(key, {}).items())
        return [
            attrs.evolve(message, id=id, treatment=Treatment.IGNORE, media=(), not_text=0)
            for id, message in known
            if id not in shown and not message.origin.trusted and message.detectable
        ]


def _latest(said: dict[str, Message]) -> dict[str, Message]:
    """Return the latest messages that are not too long together."""
    room = _MOST_CHARACTERS
    kept = []
    for id, message in reversed(said.items()):
        room -= len(message.content)
        if room < 0:
            break
        kept.append((id, message))
    return dict(reversed(kept))
