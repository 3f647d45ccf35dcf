"""What an agent's memory is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import attrs

from factmem.abc import AgentMemoryProvider, Embedder, LanguageModel, MemoryObserver
from factmem.agent.policies import Hooks, Loading, Saving
from factmem.errors import InvalidDataError
from factmem.facts import Concept
from factmem.llm import language_model
from factmem.memory import Memory
from factmem.providers import NoMemory
from factmem.scopes import MemoryScope, MemoryScopesProfile, ScopeKind
from factmem.subjects import MemorySubject

__all__ = ["USER", "AgentMemoryConfig", "Store"]

Store: TypeAlias = "str | AgentMemoryProvider | Memory | Callable[[], Memory]"

USER: Final = MemorySubject("user", "the person whom the agent talks with", priority_level=1)
"""Whom facts are about if nothing else is said."""


def _subjects(subjects: Iterable[MemorySubject]) -> tuple[MemorySubject, ...]:
    return tuple(subjects)


def _observers(observers: Iterable[MemoryObserver]) -> tuple[MemoryObserver, ...]:
    return tuple(observers)


def _concepts(concepts: Iterable[Concept[Any, Any]]) -> tuple[Concept[Any, Any], ...]:
    return tuple(concepts)


@attrs.frozen(kw_only=True)
class AgentMemoryConfig:
    """What an agent's memory is made of.

    The names say in which scopes the agent takes part: a kind without a name is neither read nor written.

    Attributes:
        store: where facts are kept: an address (``"sqlite-vec:facts.db"``), a provider, or a function that
            makes a `Memory`, each of which gets an event loop and a thread of its own; or an open `Memory`,
            which is used in the loop that it was opened in and closed by whoever opened it. Nothing is kept
            by default.
        agent_name: opens ``/agent/<name>``.
        feature_name: opens ``/feature/<name>``.
        product_name: opens ``/product/<name>``.
        organization_name: the tenant, which no other organisation ever sees into. Of an open `Memory` it
            is the memory's own.
        cross_product: whether what holds for every product of the organisation takes part; not what lies
            below that, such as ``/customer/acme``.
        user: the subject that the user of a run is an individual of; what is learnt is about them.
        subjects: whom else the agent is told facts about.
        concepts: the typed facts that matter to the agent: they are looked for first, and read with their types.
        model: reads what is said: an address for `factmem.language_model`, or a model; without one the
            words are kept as they were said.
        embedder: makes the vectors; the offline default if None.
        loading: what the agent is told.
        saving: what is learnt from it.
        hooks: what the program is asked and told meanwhile.
        observers: are told of every operation of the memory that is made for this; see `Memory`.

    Raises:
        InvalidDataError: saving goes to a scope that the agent takes no part in.
        InvalidNameError: a name is not legal.
    """

    store: Store = "none:"
    agent_name: str | None = None
    feature_name: str | None = None
    product_name: str | None = None
    organization_name: str | None = None
    cross_product: bool = True
    user: MemorySubject = USER
    subjects: tuple[MemorySubject, ...] = attrs.field(default=(MemorySubject.EVERYTHING,), converter=_subjects)
    concepts: tuple[Concept[Any, Any], ...] = attrs.field(default=(), converter=_concepts)
    model: LanguageModel | str | None = None
    embedder: Embedder | None = None
    loading: Loading = attrs.field(factory=Loading)
    saving: Saving = attrs.field(factory=Saving)
    hooks: Hooks = attrs.field(factory=Hooks)
    observers: tuple[MemoryObserver, ...] = attrs.field(default=(), converter=_observers)

    def __attrs_post_init__(self) -> None:
        if not self.scopes:
            raise InvalidDataError("the agent takes part in no scope: give it a name, or leave cross_product on")
        if not any(scope == self.home or (scope.path and scope.contains(self.home)) for scope in self.scopes):
            raise InvalidDataError(
                "what is learnt would go to a scope that the agent takes no part in", path="$.saving"
            )

    @property
    def profile(self) -> MemoryScopesProfile:
        """The names under which the agent takes part in memory."""
        return MemoryScopesProfile(
            agent_name=self.agent_name,
            feature_name=self.feature_name,
            product_name=self.product_name,
            organization_name=self.organization_name,
            cross_product=self.cross_product,
        )

    @property
    def scopes(self) -> tuple[MemoryScope, ...]:
        """The scopes that the agent takes part in, narrowest first."""
        return tuple(scope.within(None) for scope in self.profile.scopes())

    @property
    def home(self) -> MemoryScope:
        """The scope that what is learnt is kept in."""
        wanted = self.saving.scope
        match wanted:
            case MemoryScope():
                return wanted
            case ScopeKind():
                found = self.profile.scope_of(wanted)
                if found is None:
                    raise InvalidDataError(f"the agent has no {wanted.value} name to save under", path="$.saving.scope")
                return found.within(None)
            case None:
                return self.scopes[0]

    @property
    def keeps_nothing(self) -> bool:
        """Whether there is no store, so that there is nothing to load and nothing is saved."""
        return self.store == "none:" or isinstance(self.store, NoMemory)

    def make_memory(self) -> Memory:
        """Make the memory that is kept in a thread of its own.

        Raises:
            InvalidDataError: the store is an open memory.
        """
        if isinstance(self.store, Memory):
            raise InvalidDataError("the store is a memory already")
        if callable(self.store):
            return self.store()
        return Memory(
            self.store,
            organization=self.organization_name,
            concepts=self.concepts,
            subjects=(self.user, *self.subjects),
            scopes=self.scopes,
            embedder=self.embedder,
            model=language_model(self.model) if isinstance(self.model, str) else self.model,
            observers=self.observers,
        )
