"""`AgentMemory`: the plugin that puts memory into an agent."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextvars import ContextVar
from types import TracebackType
from typing import Any, Final, Self, TypeVar

from factmem.abc import DetectionRequest
from factmem.agent.config import AgentMemoryConfig, NoStoreWarning
from factmem.agent.history import spoken, told
from factmem.agent.holding import Held, HeldInThread, HeldOpen
from factmem.agent.hosts import format_of
from factmem.agent.identity import RunIdentity
from factmem.agent.run import MemoryRun
from factmem.agent.saving import SavedHistory
from factmem.facts import Concept
from factmem.memory import Memory
from factmem.scopes import MemoryScope, ScopeKind
from factmem.subjects import MemorySubject

__all__ = ["AgentMemory"]

NativeT = TypeVar("NativeT")


def _caller() -> int:
    """Return the `warnings.warn` level of the first caller outside of this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "factmem":
        level, frame = level + 1, frame.f_back
    return level


_NOBODY: Final = RunIdentity()


class AgentMemory:
    """Memory for an agent: it is told what is known, and what it hears is learnt from.

    ::

        memory = AgentMemory(AgentMemoryConfig(store="sqlite-vec:facts.db", agent_name="planner"))
        agent = install(memory, into=agent)
        with memory.run(user_id="alice", session_id="monday"):
            ...

    By itself it does nothing to an agent: `factmem.agent.install` does, or the nodes of a graph, or the
    program calls the three methods below. The prompt, the model and the history of the agent stay as
    they are: what it is told goes into requests only.

    A memory that it opens itself lives in a thread of its own, from the first use to the end of the
    process or `aclose`, which finishes reading first. Whatever is handed over survives either.

    Args:
        config: what it is made of. Without a store it keeps nothing, and a `NoStoreWarning` says so.
    """

    def __init__(self, config: AgentMemoryConfig | None = None) -> None:
        self.config: Final = config or AgentMemoryConfig()
        if self.config.store is None:
            warnings.warn(
                "this agent's memory was given no store and keeps nothing: give it one, such as "
                'store="sqlite-vec:facts.db", or store="none:" if that is meant',
                NoStoreWarning,
                stacklevel=_caller(),
            )
        self._running: ContextVar[RunIdentity] = ContextVar("factmem_run", default=_NOBODY)
        store = self.config.store
        self._held: Held = HeldOpen(store) if isinstance(store, Memory) else HeldInThread(self.config.make_memory)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Finish reading what was handed over, and close the store; an open `Memory` that was given stays open."""
        await self._held.aclose()

    def close(self) -> None:
        """The same as `aclose`, where there is no event loop."""
        self._held.close()

    @contextlib.contextmanager
    def run(
        self, user_id: str | None = None, session_id: str | None = None, *, load: bool = True, save: bool = True
    ) -> Iterator[MemoryRun]:
        """Say whom the agent works for, for all that happens within; it goes before what the host says.

        Args:
            user_id: the user; needed unless `AgentMemoryConfig.users` is ``"shared"``.
            session_id: the conversation.
            load: whether the agent is told what is known.
            save: whether facts are learnt from it.

        Raises:
            InvalidNameError: an id is not legal.
        """
        identity = RunIdentity(user_id=user_id, session_id=session_id, load=load, save=save)
        token = self._running.set(identity)
        try:
            yield self.for_run()
        finally:
            self._running.reset(token)

    def for_run(self, identity: RunIdentity = _NOBODY) -> MemoryRun:
        """Return one run of the agent.

        Args:
            identity: whom it works for, as the host says; what `run` said goes before it.
        """
        return MemoryRun(config=self.config, identity=self._running.get().or_else(identity), held=self._held)

    async def load_facts_to_agent(
        self,
        history: Sequence[NativeT],
        concepts: Iterable[Concept[Any, Any] | str],
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope | str] | None = None,
        identity: RunIdentity = _NOBODY,
    ) -> list[NativeT]:
        """Return a history that tells what is known of some concepts, before the user's last message.

        The messages are those of the history itself. One more is added, of the host's own kind, marked
        so that it is told from the others; what an earlier call added is taken out.

        Args:
            history: messages of one of the supported frameworks, dicts as the APIs of OpenAI have them, or
                `factmem.Message`.
            concepts: which concepts, or keywords.
            subjects: about whom; the user and the agent's subjects if None.
            scopes: where; in all scopes that the agent takes part in if None.
            identity: whom the agent works for.

        Raises:
            InvalidDataError: the history is of no kind that is known.
            FactMemError: nothing could be loaded, and the policy is `FailurePolicy.RAISE`.
        """
        form = format_of(history)
        block = await self.for_run(identity).load(
            spoken(form, history), concepts=concepts, subjects=subjects, scopes=scopes
        )
        return told(form, history, block)

    async def load_all_facts_to_agent(
        self,
        history: Sequence[NativeT],
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope | str] | None = None,
        identity: RunIdentity = _NOBODY,
    ) -> list[NativeT]:
        """Return a history that tells what is known, whatever the concept; see `load_facts_to_agent`.

        Args:
            history: the messages.
            subjects: about whom.
            scopes: where.
            identity: whom the agent works for.
        """
        form = format_of(history)
        block = await self.for_run(identity).load(spoken(form, history), subjects=subjects, scopes=scopes)
        return told(form, history, block)

    async def save_facts_from_history(
        self,
        history: Sequence[Any],
        *,
        looking_for: DetectionRequest | None = None,
        scope: MemoryScope | ScopeKind | str | None = None,
        identity: RunIdentity = _NOBODY,
    ) -> SavedHistory | None:
        """Hand a history over to be learnt from; see `MemoryRun.save`.

        Args:
            history: the messages; see `load_facts_to_agent`.
            looking_for: which concepts or topics; as `Saving.looking_for` says if None.
            scope: where to keep what is found; see `AgentMemoryConfig.scope_of`.
            identity: whom the agent works for.

        Raises:
            InvalidDataError: the history is of no kind that is known, or the agent takes no part in the scope.
            MissingUserError: nobody says who the user is.
            FactMemError: it could not be handed over, and the policy is `FailurePolicy.RAISE`.
        """
        run = self.for_run(identity)
        return await run.save(spoken(format_of(history), history), looking_for=looking_for, scope=scope)
