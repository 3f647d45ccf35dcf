"""What an agent's memory is made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, TypeAlias

import attrs

from factmem.abc import AgentMemoryProvider, Embedder, KeepsHistory, LanguageModel, MemoryObserver
from factmem.agent.policies import Hooks, Loading, Saving, UserPolicy
from factmem.errors import CapabilityError, InvalidDataError
from factmem.facts import Concept
from factmem.llm import language_model
from factmem.memory import Memory
from factmem.memory.checks import check_parts, check_store, listed, observers_in
from factmem.providers import NoMemory
from factmem.providers.registry import check_address
from factmem.recall import RecallSettings
from factmem.scopes import MemoryScope, MemoryScopesProfile, ScopeKind
from factmem.subjects import MemorySubject
from factmem.validators import instance_of

__all__ = ["USER", "AgentMemoryConfig", "NoStoreWarning", "Store"]

Store: TypeAlias = "str | AgentMemoryProvider | Memory | Callable[[], Memory]"

USER: Final = MemorySubject("user", "the person whom the agent talks with", priority_level=1)
"""Whom facts are about if nothing else is said."""


class NoStoreWarning(UserWarning):
    """An agent's memory was given no store, so that it keeps nothing."""


def _subjects(subjects: Iterable[MemorySubject]) -> tuple[MemorySubject, ...]:
    return listed("subjects", subjects, MemorySubject)


def _concepts(concepts: Iterable[Concept[Any, Any]]) -> tuple[Concept[Any, Any], ...]:
    return listed("concepts", concepts, Concept)


def _users(users: UserPolicy | str) -> UserPolicy:
    try:
        return UserPolicy(users)
    except ValueError:
        known = " or ".join(repr(policy.value) for policy in UserPolicy)
        raise InvalidDataError(f"users is {known}", path="$.users") from None


def _check_store(instance: object, attribute: attrs.Attribute[Any], store: object) -> None:
    match store:
        case None | Memory():
            return
        case str():
            check_address(store)
        case type() if not issubclass(store, Memory):
            raise InvalidDataError(f"the store is the class {store.__name__}: give an instance of it", path="$.store")
        case _ if not callable(store):
            check_store(store)


@attrs.frozen(kw_only=True)
class AgentMemoryConfig:
    """What an agent's memory is made of.

    The names say in which scopes the agent takes part: a kind without a name is neither read nor written.

    Attributes:
        store: where facts are kept: an address (``"sqlite-vec:facts.db"``), a provider, or a function that
            makes a `Memory`, each of which gets an event loop and a thread of its own; or an open `Memory`,
            which is used in the loop that it was opened in and closed by whoever opened it. Without one nothing
            is kept, and `AgentMemory` warns of it; ``"none:"`` says so on purpose.
        agent_name: opens ``/agent/<name>``.
        feature_name: opens ``/feature/<name>``.
        product_name: opens ``/product/<name>``.
        organization_name: the tenant, which no other organisation ever sees into. Of an open `Memory` it
            is the memory's own.
        cross_product: whether what holds for every product of the organisation takes part; not what lies
            below that, such as ``/customer/acme``.
        user: the subject that the user of a run is an individual of; what is learnt is about them. One that is an
            individual already (``USER.individual("ada")``) is the user of every run that names none.
        users: whether each run must name its user (``"required"``), or those that name none share one memory
            (``"shared"``).
        subjects: whom else the agent is told facts about.
        concepts: the typed facts that matter to the agent: they are looked for first, and read with their types.
        model: reads what is said: an address for `factmem.language_model`, or a model; without one the
            words are kept as they were said.
        keep_words: keep the user's words recallable beside the facts that a model finds in them; see `Memory`. Without
            it, only facts and statements about the topics asked for are recalled. Of an open `Memory` it is the
            memory's own.
        embedder: makes the vectors; the offline default if None.
        embedder_timeout: see `Memory`.
        recall: the weights of recall, for all that the agent, its tools and its host look up; those of the store
            if None, which are the defaults unless it is a `Memory` that has others.
        loading: what the agent is told.
        saving: what is learnt from it.
        hooks: what the program is asked and told meanwhile.
        observers: are told of every operation of the memory that is made for this; see `Memory`.

    Raises:
        InvalidDataError: a setting is of another type than it says here, or saving goes to a scope that the agent
            takes no part in.
        InvalidNameError: a name is not legal.
        UnknownProviderError: the store's address names no installed provider, or options that it does not have.
        CapabilityError: the store is a provider with the four verbs only, and is to keep private facts or words
            that wait.
    """

    store: Store | None = attrs.field(default=None, validator=_check_store)
    agent_name: str | None = None
    feature_name: str | None = None
    product_name: str | None = None
    organization_name: str | None = None
    cross_product: bool = True
    user: MemorySubject = attrs.field(default=USER, validator=instance_of(MemorySubject))
    users: UserPolicy = attrs.field(default=UserPolicy.REQUIRED, converter=_users)
    subjects: tuple[MemorySubject, ...] = attrs.field(default=(MemorySubject.EVERYTHING,), converter=_subjects)
    concepts: tuple[Concept[Any, Any], ...] = attrs.field(default=(), converter=_concepts)
    model: LanguageModel | str | None = None
    keep_words: bool = attrs.field(default=True, validator=instance_of(bool))
    embedder: Embedder | None = None
    embedder_timeout: float | None = 30.0
    recall: RecallSettings | None = attrs.field(default=None, validator=instance_of(RecallSettings, type(None)))
    loading: Loading = attrs.field(factory=Loading, validator=instance_of(Loading))
    saving: Saving = attrs.field(factory=Saving, validator=instance_of(Saving))
    hooks: Hooks = attrs.field(factory=Hooks, validator=instance_of(Hooks))
    observers: tuple[MemoryObserver, ...] = attrs.field(default=(), converter=observers_in)

    def __attrs_post_init__(self) -> None:
        if not self.scopes:
            raise InvalidDataError("the agent takes part in no scope: give it a name, or leave cross_product on")
        check_parts(embedder=self.embedder, model=None if isinstance(self.model, str) else self.model)
        self._check_waist()
        _ = self.home

    def _check_waist(self) -> None:
        """Refuse what a provider with the four verbs only cannot keep."""
        store = self.store
        if self.keeps_nothing or not isinstance(store, AgentMemoryProvider) or isinstance(store, KeepsHistory):
            return
        if self.saving.private or not self.saving.trigger.immediate:
            raise CapabilityError(
                f"{type(store).__name__} has the four verbs only: it keeps no private facts and no words that wait. "
                "Leave private and a trigger's count and times out of Saving, or use a provider that keeps history"
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
        return self.scopes[0] if self.saving.scope is None else self.scope_of(self.saving.scope, path="$.saving.scope")

    def scope_of(self, wanted: MemoryScope | ScopeKind | str, *, path: str = "$.scope") -> MemoryScope:
        """Return a scope of the agent by its path, or by its kind.

        Args:
            wanted: a scope that the agent takes part in or one below it, or a kind that it has a name for.
            path: the setting that it comes from, for the error.

        Raises:
            InvalidNameError: the path is not legal.
            InvalidDataError: the agent takes no part in it.
        """
        if isinstance(wanted, ScopeKind):
            found = self.profile.scope_of(wanted)
            if found is None:
                raise InvalidDataError(f"the agent takes no part in a scope of kind {wanted.value}: name it", path=path)
            return found.within(None)
        scope = MemoryScope.parse(wanted) if isinstance(wanted, str) else wanted
        if not isinstance(scope, MemoryScope):
            raise InvalidDataError(
                f"a scope is a MemoryScope, a ScopeKind or a path, not a {type(wanted).__name__}", path=path
            )
        if scope.tenant not in (None, self.organization_name) or not self._takes_part(scope.within(None)):
            shown = ", ".join(map(str, self.scopes))
            raise InvalidDataError(f"the agent takes no part in {scope.within(None)}, only in {shown}", path=path)
        return scope.within(None)

    def _takes_part(self, wanted: MemoryScope) -> bool:
        return any(scope == wanted or (scope.path and scope.contains(wanted)) for scope in self.scopes)

    @property
    def keeps_nothing(self) -> bool:
        """Whether there is no store, so that there is nothing to load and nothing is saved."""
        return self.store in (None, "none:") or isinstance(self.store, NoMemory)

    def make_memory(self) -> Memory:
        """Make the memory that is kept in a thread of its own.

        Raises:
            InvalidDataError: the store is an open memory, or a function that makes something else.
        """
        if isinstance(self.store, Memory):
            raise InvalidDataError("the store is a memory already")
        if callable(self.store):
            made = self.store()
            if not isinstance(made, Memory):
                raise InvalidDataError(
                    f"the store is a function that makes a {type(made).__name__}, not a Memory", path="$.store"
                )
            return made
        return Memory(
            "none:" if self.store is None else self.store,
            organization=self.organization_name,
            concepts=self.concepts,
            subjects=(self.user, *self.subjects),
            scopes=tuple(dict.fromkeys((*self.scopes, self.home))),
            embedder=self.embedder,
            embedder_timeout=self.embedder_timeout,
            model=language_model(self.model) if isinstance(self.model, str) else self.model,
            keep_words=self.keep_words,
            origins=self.saving.origins,
            observers=self.observers,
            settings=self.recall,
        )
