"""`AgentMemory`, and its installation into agent frameworks."""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextvars import ContextVar
from importlib.metadata import EntryPoint
from types import TracebackType
from typing import Any, Final, Self, TypeVar

import attrs

from factmem.abc import DetectionRequest
from factmem.abc.detector import Message
from factmem.agent.chat_history import DictFormat, Hearing, HistoryFormat, MessageFormat, spoken, with_block
from factmem.agent.config import NOBODY, AgentMemoryConfig, NoStoreWarning, RunIdentity
from factmem.agent.holders import MemoryHolder, OpenMemoryHolder, SavedHistory, ThreadMemoryHolder
from factmem.agent.run import MemoryRun
from factmem.entry_points import installed_entry_points
from factmem.error_hints import kind_of
from factmem.errors import CapabilityError, InvalidDataError, MissingPackageError
from factmem.facts import STATEMENT, Concept
from factmem.legal_names import folded_keyword
from factmem.memory.facade import Memory
from factmem.scopes import MemoryScope, ScopeKind
from factmem.subjects import MemorySubject
from factmem.validators import check_instance

NativeT = TypeVar("NativeT")
HostT = TypeVar("HostT")

ENTRY_POINT_GROUP: Final = "factmem.hosts"
"""Entry-point group of the integrations, of factmem and of third parties.

An entry point's name is the top module of a framework's classes (``pydantic_ai``, ``google.adk``). Its value is a
`HostIntegration`, which is imported when an object of that framework is first passed in.
"""


@attrs.frozen(kw_only=True)
class HostIntegration:
    """The connection of factmem with one framework.

    Attributes:
        install: Function that installs a memory into an agent, an app or a factory, and returns the result; None if
            the framework has none of these.
        history: Format of the framework's messages; None if it has none of its own.
    """

    install: Callable[[AgentMemory, Any], Any] | None = None
    history: HistoryFormat[Any] | None = None


def host_entry_points() -> dict[str, EntryPoint]:
    """Return the entry points of the installed integrations by framework module, without importing them."""
    return installed_entry_points(ENTRY_POINT_GROUP)


def host_of(thing: object) -> HostIntegration:
    """Return the integration of the framework that an object comes from.

    Args:
        thing: An agent, a message, a function or another object of a framework.

    Raises:
        CapabilityError: No integration knows the object.
        MissingPackageError: The integration needs a package that is not installed.
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
        f"no integration knows {type(thing).__module__}.{type(thing).__qualname__}; "
        f"there are integrations for {', '.join(known) or 'nothing'}; "
        f"another is added by an entry point of the group {ENTRY_POINT_GROUP}"
    )


def format_of(history: Sequence[Any]) -> HistoryFormat[Any]:
    """Return the format of the messages of a history, determined by the first one.

    Raises:
        InvalidDataError: The type of the messages is unknown.
        MissingPackageError: The integration needs a package that is not installed.
    """
    if isinstance(history, str | Mapping) or not isinstance(history, Iterable):
        raise InvalidDataError(f"a history is a list of messages, not {kind_of(history)}", path="$.history")
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
    """Yield the modules that define an object, its class and the ancestors of its class."""
    if not isinstance(thing, type) and (own := getattr(thing, "__module__", None)) and callable(thing):
        yield str(own)
    cls: type = thing if isinstance(thing, type) else type(thing)
    yield from (ancestor.__module__ for ancestor in cls.__mro__)


def _closest(module: str, known: Mapping[str, EntryPoint]) -> EntryPoint | None:
    """Return the entry point of a module or of its nearest parent package."""
    while module:
        if module in known:
            return known[module]
        module = module.rpartition(".")[0]
    return None


def _caller() -> int:
    """Return the `warnings.warn` level of the first caller outside of this package."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "factmem":
        level, frame = level + 1, frame.f_back
    return level


class AgentMemory:
    """Memory for an agent: known facts are added to its requests, and its conversations are saved.

        memory = AgentMemory(AgentMemoryConfig(store="facts.db", agent_name="planner"))
        agent = install(memory, into=agent)
        with memory.run(user_id="alice", session_id="monday"):
            ...

    Use it with `factmem.agent.install`, with the nodes of a graph, or through the three methods below. The agent's
    prompt, model and history stay unchanged: facts go into requests only.

    A memory opened by this class runs in its own thread, from the first use until `aclose` or the exit of the process.
    `aclose` first processes pending submissions, which also survive the exit.

    Args:
        config: The settings. Without a store nothing is saved, and a `NoStoreWarning` is issued.

    Raises:
        InvalidDataError: The config is not an `AgentMemoryConfig`.
    """

    def __init__(self, config: AgentMemoryConfig | None = None) -> None:
        write = 'write AgentMemory(AgentMemoryConfig(store="facts.db"))'
        check_instance(config, "config", AgentMemoryConfig, type(None), hint=write)
        self.config: AgentMemoryConfig = config or AgentMemoryConfig()
        if self.config.store is None:
            warnings.warn(
                "this agent's memory was given no store and keeps nothing: give it one, such as "
                'store="facts.db", or store="none:" if that is meant',
                NoStoreWarning,
                stacklevel=_caller(),
            )
        self._running: ContextVar[RunIdentity] = ContextVar("factmem_run", default=NOBODY)
        store = self.config.store
        self._hearing: Final = Hearing()
        self._held: MemoryHolder = (
            OpenMemoryHolder(store)
            if isinstance(store, Memory)
            else ThreadMemoryHolder(lambda: self.config.make_memory())
        )

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Process pending submissions, and close the store; a `Memory` that the program opened stays open.

        Cancelled, such as by `anyio.move_on_after`, it closes at once and leaves the rest to the next process.
        """
        await self._held.aclose()

    def close(self) -> None:
        """Close like `aclose`, without an event loop."""
        self._held.close()

    @contextlib.contextmanager
    def run(
        self, user_id: str | None = None, session_id: str | None = None, *, load: bool = True, save: bool = True
    ) -> Iterator[MemoryRun]:
        """Set the identity of the runs within the block; it takes precedence over the host's.

        A block within another one takes over the ids that it does not name, and loads and saves only if that one does,
        unless it is for another user.

        Args:
            user_id: The user; required unless `AgentMemoryConfig.users` is ``"shared"``.
            session_id: The conversation.
            load: Whether known facts are added to requests.
            save: Whether the conversation is saved.

        Raises:
            InvalidNameError: An id is not legal.
        """
        identity, outer = RunIdentity(user_id=user_id, session_id=session_id, load=load, save=save), self._running.get()
        if user_id is None or outer.user_id in (None, user_id):
            identity = identity.or_else(outer)
        token = self._running.set(identity)
        try:
            yield self.for_run()
        finally:
            self._running.reset(token)

    def declare(self, concepts: Iterable[Concept[Any, Any] | str]) -> None:
        """Add concepts to `AgentMemoryConfig.concepts`, which are looked for first, with their types.

        Of concepts with alike keywords, the first is kept. Load nodes declare their concepts here.

        Args:
            concepts: The concepts; keywords, which have no type, are ignored.
        """
        known = {folded_keyword(concept.keyword): concept for concept in (STATEMENT, *self.config.concepts)}
        for concept in concepts:
            if isinstance(concept, Concept):
                known.setdefault(folded_keyword(concept.keyword), concept)
        _, *declared = known.values()
        if len(declared) > len(self.config.concepts):
            self.config = attrs.evolve(self.config, concepts=declared)

    def for_run(self, identity: RunIdentity = NOBODY, *, product: str | None = None) -> MemoryRun:
        """Return one run of the agent.

        Args:
            identity: The identity according to the host; the identity of `run` takes precedence.
            product: The product of the facts, if the settings name no agent, feature or product.
        """
        config = self.config
        if product is not None and not (config.agent_name or config.feature_name or config.product_name):
            config = attrs.evolve(config, product_name=product)
        return MemoryRun(
            config=config,
            identity=self._running.get().or_else(self.config.identified(identity)),
            held=self._held,
            hearing=self._hearing,
        )

    async def load_facts_to_agent(
        self,
        history: Sequence[NativeT],
        concepts: Concept[Any, Any] | Iterable[Concept[Any, Any] | str] | None,
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope | str] | None = None,
        identity: RunIdentity = NOBODY,
    ) -> list[NativeT]:
        """Return a history with the known facts of some concepts, before the user's last message.

        One marked message of the host's own type is added; the message of an earlier call is removed.

        Args:
            history: Messages of a supported framework, dicts as in the APIs of OpenAI, or `factmem.Message`.
            concepts: A concept or its keyword, or several; None for all of `Loading.concepts`.
            subjects: The subjects (default: the user and the agent's subjects).
            scopes: The scopes (default: all scopes of the agent).
            identity: The identity of the run.

        Raises:
            InvalidDataError: The type of the messages is unknown.
            FactMemError: Nothing could be loaded, and the policy is `FailurePolicy.RAISE`.
        """
        form = format_of(history)
        block = await self.for_run(identity).load(
            spoken(form, history), concepts=concepts, subjects=subjects, scopes=scopes
        )
        return with_block(form, history, block)

    async def load_all_facts_to_agent(
        self,
        history: Sequence[NativeT],
        *,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope | str] | None = None,
        identity: RunIdentity = NOBODY,
    ) -> list[NativeT]:
        """Return a history with the known facts of all concepts; see `load_facts_to_agent`.

        Args:
            history: The messages.
            subjects: The subjects.
            scopes: The scopes.
            identity: The identity of the run.
        """
        return await self.load_facts_to_agent(history, None, subjects=subjects, scopes=scopes, identity=identity)

    async def save_facts_from_history(
        self,
        history: Sequence[Any],
        *,
        looking_for: DetectionRequest | None = None,
        scope: MemoryScope | ScopeKind | str | None = None,
        identity: RunIdentity = NOBODY,
    ) -> SavedHistory | None:
        """Submit a history for detection; see `MemoryRun.save`.

        Args:
            history: The messages; see `load_facts_to_agent`.
            looking_for: Concepts or topics (default: `Saving.looking_for`).
            scope: Scope of the facts; see `AgentMemoryConfig.scope_of`.
            identity: The identity of the run.

        Raises:
            InvalidDataError: The type of the messages is unknown, or the scope is not one of the agent's.
            MissingUserError: The user is unknown.
            FactMemError: The submission failed, and the policy is `FailurePolicy.RAISE`.
        """
        run = self.for_run(identity)
        return await run.save(spoken(format_of(history), history), looking_for=looking_for, scope=scope)


def install(memory: type[AgentMemory] | AgentMemory, *, into: HostT, **settings: Any) -> HostT:
    """Install memory into an agent.

        agent = install(AgentMemory, into=agent, store="facts.db", agent_name="planner")

    Use the result in place of the argument. The result has the same type, and the argument stays unchanged if the
    framework allows it. Each module of `factmem.integrations` documents the objects that it accepts, and where a run
    names its user.

    Args:
        memory: The memory, or the class to instantiate with the settings.
        into: An agent, an app, a client or a factory of a framework with an integration.
        settings: Fields of `AgentMemoryConfig`, with the class only.

    Raises:
        CapabilityError: No integration can install memory into the object.
        MissingPackageError: The integration needs a package that is not installed.
        InvalidDataError: A setting is invalid, or settings were passed with an instance.
    """
    integration = host_of(into)
    if integration.install is None:
        raise CapabilityError(f"memory cannot be installed into {kind_of(into)}: see factmem.integrations")
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
