"""`AgentMemory`, and the frameworks that it is installed into."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from importlib.metadata import EntryPoint, entry_points
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import attrs

from factmem.abc import DetectionRequest, Message
from factmem.agent.config import AgentMemoryConfig, NoStoreWarning, RunIdentity
from factmem.agent.history import DictFormat, HistoryFormat, MessageFormat, spoken, told
from factmem.agent.holding import Held, HeldInThread, HeldOpen, SavedHistory
from factmem.agent.run import MemoryRun
from factmem.errors import CapabilityError, InvalidDataError, MissingPackageError
from factmem.facts import Concept
from factmem.memory import Memory
from factmem.scopes import MemoryScope, ScopeKind
from factmem.subjects import MemorySubject

__all__ = [
    "ENTRY_POINT_GROUP",
    "AgentMemory",
    "HostIntegration",
    "format_of",
    "host_entry_points",
    "host_of",
    "install",
]

ENTRY_POINT_GROUP: Final = "factmem.hosts"
"""The entry-point group that frameworks are found in, ours and third parties'.

An entry point's name is the module that a framework's own classes come from (``pydantic_ai``,
``google.adk``); it names a `HostIntegration`, and is imported when something from there is handed in.
"""


@attrs.frozen(kw_only=True)
class HostIntegration:
    """What connects factmem with one framework.

    Attributes:
        install: puts memory into an agent, an app or a factory of the framework, and returns it. None if
            there is nothing to put it into.
        history: how the framework writes messages; None if it has none of its own.
    """

    install: Callable[[AgentMemory, Any], Any] | None = None
    history: HistoryFormat[Any] | None = None


def host_entry_points() -> dict[str, EntryPoint]:
    """Return the installed integrations by the module that they are for, without importing any of them."""
    return {point.name: point for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)}


def host_of(thing: object) -> HostIntegration:
    """Return what connects factmem with the framework that something comes from.

    Args:
        thing: an agent, a message, a function …

    Raises:
        CapabilityError: no integration knows it.
        MissingPackageError: the integration needs a package that is not installed.
    """
    known = host_entry_points()
    for module in _modules(thing):
        if (point := _closest(module, known)) is not None:
            try:
                found: HostIntegration = point.load()
            except ModuleNotFoundError as error:
                extra = point.module.rpartition(".")[2].replace("_", "-")
                raise MissingPackageError(error.name or module, extra=extra) from error
            return found
    raise CapabilityError(
        f"nothing is known about {type(thing).__module__}.{type(thing).__qualname__}; "
        f"there are integrations for {', '.join(known) or 'nothing'}"
    )


def format_of(history: Sequence[Any]) -> HistoryFormat[Any]:
    """Return how the messages of a history are written, by the first of them.

    Raises:
        InvalidDataError: they are of no kind that is known.
        MissingPackageError: the integration needs a package that is not installed.
    """
    match next(iter(history), None):
        case None | Message():
            return MessageFormat()
        case Mapping():
            return DictFormat()
        case first:
            try:
                found = host_of(first).history
            except CapabilityError:
                found = None
    if found is None:
        raise InvalidDataError(f"a history of {type(first).__name__} cannot be read: convert it to factmem.Message")
    return found


def _modules(thing: object) -> Iterator[str]:
    """The modules that a thing, or its class and what that derives from, were defined in."""
    if not isinstance(thing, type) and (own := getattr(thing, "__module__", None)) and callable(thing):
        yield str(own)
    cls: type = thing if isinstance(thing, type) else type(thing)
    yield from (ancestor.__module__ for ancestor in cls.__mro__)


def _closest(module: str, known: Mapping[str, EntryPoint]) -> EntryPoint | None:
    """The entry point for a module or for the nearest package that it lies in."""
    while module:
        if module in known:
            return known[module]
        module = module.rpartition(".")[0]
    return None


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


HostT = TypeVar("HostT")


def install(memory: type[AgentMemory] | AgentMemory, *, into: HostT, **settings: Any) -> HostT:
    """Put memory into an agent.

    ::

        agent = install(AgentMemory, into=agent, store="sqlite-vec:facts.db", agent_name="planner")

    What is returned is of the same kind as what was given, and is to be used in its place; what was given
    is left as it was wherever the framework allows for that. Which things memory can be put into, and how
    a run says whom it works for, is told by each integration in `factmem.integrations`.

    Args:
        memory: the memory, or the class, of which one is made from the settings.
        into: an agent, an app, a client or a factory of a framework that factmem or a third party has an
            integration for.
        settings: the fields of `AgentMemoryConfig`, if the class is given.

    Raises:
        CapabilityError: no integration knows what to do with it.
        MissingPackageError: the integration needs a package that is not installed; the text says how.
        InvalidDataError: a setting is not legal, or settings were given beside a memory that has its own.
    """
    integration = host_of(into)
    if integration.install is None:
        raise CapabilityError(f"memory cannot be put into a {type(into).__name__}: see factmem.integrations")
    installed: HostT = integration.install(_made(memory, settings), into)
    return installed


def _made(memory: type[AgentMemory] | AgentMemory, settings: dict[str, Any]) -> AgentMemory:
    if isinstance(memory, AgentMemory):
        if settings:
            raise InvalidDataError("this memory has its settings already: give them to its AgentMemoryConfig")
        return memory
    try:
        config = AgentMemoryConfig(**settings)
    except TypeError as error:
        raise InvalidDataError(f"a setting is unknown: {error}") from None
    return memory(config)
