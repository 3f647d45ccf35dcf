"""The settings of an agent's memory, and the identity of a run."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from factmem.abc import (
    AgentMemoryProvider,
    DetectionRequest,
    Embedder,
    KeepsHistory,
    LanguageModel,
    MemoryObserver,
    Message,
)
from factmem.detection import OriginPolicy
from factmem.errors import CapabilityError, InvalidDataError
from factmem.facts import Concept
from factmem.llm import language_model
from factmem.memory import Memory, Trigger
from factmem.memory.checks import check_parts, check_store, listed, observers_in
from factmem.names import checked_name
from factmem.providers import NoMemory
from factmem.providers.registry import check_address
from factmem.recall import RecallSettings
from factmem.records import FactRecord, Origin
from factmem.scopes import MemoryScope, MemoryScopesProfile, ScopeKind
from factmem.subjects import MemorySubject
from factmem.validators import fraction, instance_of, positive

if TYPE_CHECKING:
    from factmem.agent.holding import SavedHistory

__all__ = [
    "USER",
    "AfterLoad",
    "AfterSave",
    "AgentMemoryConfig",
    "BeforeLoad",
    "BeforeSave",
    "FailurePolicy",
    "Hooks",
    "Loading",
    "NoStoreWarning",
    "RunIdentity",
    "Saving",
    "SavingTime",
    "Store",
    "UserPolicy",
    "estimated_tokens",
]


def _optional_name(instance: object, attribute: attrs.Attribute[str | None], value: str | None) -> None:
    if value is not None:
        checked_name(value, what=f"a run's {attribute.name}")


@attrs.frozen(kw_only=True)
class RunIdentity:
    """The user and the session of one run, and what the memory may do in it.

    The user is who facts are about (`AgentMemoryConfig.user`, narrowed to this one), and who owns what
    is kept privately. One installed agent serves any number of users, none of whom ever sees what
    another one said.

    Attributes:
        user_id: The user; None where there is only one.
        session_id: The conversation. The same id is the same conversation, however often its history is
            handed in; without one, a conversation is known by how it began.
        load: Whether the agent is told what is known.
        save: Whether facts are learnt from the run.

    Raises:
        InvalidNameError: An id is blank, too long or holds control characters.
    """

    user_id: str | None = attrs.field(default=None, validator=_optional_name)
    session_id: str | None = attrs.field(default=None, validator=_optional_name)
    load: bool = attrs.field(default=True, validator=instance_of(bool))
    save: bool = attrs.field(default=True, validator=instance_of(bool))

    @classmethod
    def named_by(cls, context: Any) -> RunIdentity:
        """Return whom a host's own run context names: its ``user_id`` and ``session_id``, as attributes or keys.

        Args:
            context: Whatever the program hands to the run; None names nobody. Ids that are no text become text.
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


class FailurePolicy(enum.Enum):
    """Treatment of errors of the memory during a run."""

    RAISE = "raise"
    """The error reaches the agent."""

    LOG = "log"
    """It is logged, without any word of what was said, and the run goes on without memory."""


class SavingTime(enum.Enum):
    """When facts are learnt from a conversation."""

    AFTER_RUN = "after_run"
    """After each run that ended well."""

    MANUALLY = "manually"
    """When the program says so."""


class UserPolicy(enum.Enum):
    """Policy for a run without a user."""

    REQUIRED = "required"
    """It raises `MissingUserError`: one user's facts never mix with another's."""

    SHARED = "shared"
    """It joins all other runs without a user in one memory. For a single user, or where everybody may know all."""


def estimated_tokens(text: str) -> int:
    """Return about how many tokens a text is: a quarter of its UTF-8 bytes, rounded up.

    That is the rule of thumb of most vendors for English, and errs on the safe side for other scripts.
    Give `Loading.count_tokens` a tokenizer's own count where the budget is tight.
    """
    return -(-len(text.encode()) // 4)


def _concepts(concepts: Iterable[Concept[Any, Any]]) -> tuple[Concept[Any, Any], ...]:
    return listed("concepts", concepts, Concept)


def _scope(scope: MemoryScope | ScopeKind | str | None) -> MemoryScope | ScopeKind | None:
    parsed = MemoryScope.parse(scope) if isinstance(scope, str) else scope
    if not isinstance(parsed, MemoryScope | ScopeKind | None):
        raise InvalidDataError(
            f"a scope to save in is a MemoryScope, a ScopeKind or a path, not a {type(scope).__name__}", path="$.scope"
        )
    return parsed


@attrs.frozen(kw_only=True)
class Loading:
    """Selection of the facts that a prompt shows.

    The block shows, in this order: standing instructions of the user, whatever the conversation is about; typed facts;
    the user's statements, but for those whose fact it shows; statements of the assistant. Of each kind, those that are
    best for the conversation at hand are chosen first; what does not fit is left out. The shares are parts of the
    budget, from 0 to 1. What one kind does not need is left to the others, but for the assistant's share.

    Attributes:
        concepts: Only facts of these concepts (`factmem.STATEMENT` for free statements); of all if None.
        budget: Number of tokens that the whole block may take.
        limit: Maximum number of facts.
        min_score: Leave out what scores less for the conversation at hand, from 0 to 1; see `RecallMatch.score`.
            Standing instructions are always told. The tool `recall_memory` leaves out the same.
        instruction_share: Share of the budget for standing instructions, newest first.
        fact_share: Share of the budget for typed facts while there are statements as well.
        assistant_share: Share of the budget for statements of the assistant; 0 leaves them out.
        statement_share: Share of the budget for a single statement; a longer one is cut at a word.
        messages: So many of the user's latest messages say what the conversation is about.
        count_tokens: Counts the tokens of a text.
        overtaken: Whether statements are told that a newer record overtakes, or whose fact was retracted (see
            `RecallMatch.newer` and `RecallMatch.retracted`); else the newer record is told in their place.
        on_failure: What happens when nothing can be loaded.

    Raises:
        InvalidDataError: A number is out of range.
    """

    concepts: tuple[Concept[Any, Any], ...] | None = attrs.field(
        default=None, converter=attrs.converters.optional(_concepts)
    )
    budget: int = attrs.field(default=1_000, validator=positive)
    limit: int = attrs.field(default=50, validator=positive)
    min_score: float = attrs.field(default=0.0, validator=fraction)
    instruction_share: float = attrs.field(default=0.2, validator=fraction)
    fact_share: float = attrs.field(default=0.75, validator=fraction)
    assistant_share: float = attrs.field(default=0.1, validator=fraction)
    statement_share: float = attrs.field(default=0.1, validator=fraction)
    messages: int = attrs.field(default=3, validator=positive)
    count_tokens: Callable[[str], int] = estimated_tokens
    overtaken: bool = attrs.field(default=False, validator=instance_of(bool))
    on_failure: FailurePolicy = attrs.field(default=FailurePolicy.RAISE, validator=instance_of(FailurePolicy))


_TRIGGER = Trigger(overlap=6)


@attrs.frozen(kw_only=True)
class Saving:
    """Settings of saving: what is detected in a run, and where it is kept.

    Attributes:
        when: When the history is handed over. It is on disk at once, and read in the background.
        looking_for: What to look for: concepts, topics, or anything (``open``). By default all facts about
            the user, those of the agent's concepts first.
        scope: Where what is found holds, as a scope, a kind or a path; the narrowest scope of the agent that has a
            name if None.
        private: Whether it is kept for the user alone. Needs a `RunIdentity.user_id`.
        tool_results: Whether what tools answered is handed over as well, into quarantine; else it is left out.
        trigger: When what was handed over is read: at once, with six earlier messages for context, or by
            count, idle time or interval.
        origins: Treatment of the messages by their origin; that of the memory if None. By default a model reads the
            user's words for facts and is shown the assistant's as context; without a model both are kept. For example
            ``OriginPolicy(assistant=Treatment.STATEMENTS)`` keeps what the assistant said with a model as well.
        tool_origin: Whose words `save_memory` keeps. Origin.ASSISTANT keeps what the model wrote as its own
            statement, Origin.UNKNOWN quarantines it until somebody lets it in, and Origin.USER believes it
            like the user's own words: only for models that no tool or page can talk into it.
        on_failure: What happens when the history cannot be handed over. What a model could not read later
            is in the store's dead letters.
    """

    when: SavingTime = attrs.field(default=SavingTime.AFTER_RUN, validator=instance_of(SavingTime))
    looking_for: DetectionRequest | None = None
    scope: MemoryScope | ScopeKind | None = attrs.field(default=None, converter=_scope)
    private: bool = attrs.field(default=False, validator=instance_of(bool))
    tool_results: bool = attrs.field(default=False, validator=instance_of(bool))
    trigger: Trigger = _TRIGGER
    origins: OriginPolicy | None = attrs.field(default=None, validator=instance_of(OriginPolicy, type(None)))
    tool_origin: Origin = attrs.field(default=Origin.ASSISTANT, validator=instance_of(Origin))
    on_failure: FailurePolicy = attrs.field(default=FailurePolicy.LOG, validator=instance_of(FailurePolicy))


BeforeLoad: TypeAlias = Callable[[RunIdentity, Sequence[Message]], Awaitable[bool]]

AfterLoad: TypeAlias = Callable[[RunIdentity, Sequence[FactRecord[Any]]], Awaitable[Sequence[FactRecord[Any]]]]

BeforeSave: TypeAlias = Callable[[RunIdentity, Sequence[Message]], Awaitable[Sequence[Message]]]

AfterSave: TypeAlias = "Callable[[RunIdentity, SavedHistory], Awaitable[None]]"


@attrs.frozen(kw_only=True)
class Hooks:
    """Functions that are called before and after loading and saving. An error in a hook fails the run.

    Attributes:
        before_load: Is shown the conversation; nothing is loaded if it returns False.
        after_load: Is shown the facts, best first, and returns those that the agent is told.
        before_save: Is shown the messages that are about to be handed over, and returns those that are; it
            may leave out some, or change them.
        after_save: Is shown what was handed over, once it is on disk.
    """

    before_load: BeforeLoad | None = None
    after_load: AfterLoad | None = None
    before_save: BeforeSave | None = None
    after_save: AfterSave | None = None


Store: TypeAlias = "str | AgentMemoryProvider | Memory | Callable[[], Memory]"

USER: Final = MemorySubject("user", "the person whom the agent talks with", priority_level=1)
"""Default subject of facts."""


class NoStoreWarning(UserWarning):
    """An agent's memory was given no store, so that it keeps nothing."""


def _subjects(subjects: Iterable[MemorySubject]) -> tuple[MemorySubject, ...]:
    return listed("subjects", subjects, MemorySubject)


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
    """The settings of an agent's memory.

    The names say in which scopes the agent takes part: a kind without a name is neither read nor written.

    Attributes:
        store: Where facts are kept: an address (``"sqlite-vec:facts.db"``), a provider, or a function that
            makes a `Memory`, each of which gets an event loop and a thread of its own; or an open `Memory`,
            which is used in the loop that it was opened in and closed by whoever opened it. Without one nothing
            is kept, and `AgentMemory` warns of it; ``"none:"`` says so on purpose.
        agent_name: Opens ``/agent/<name>``.
        feature_name: Opens ``/feature/<name>``.
        product_name: Opens ``/product/<name>``.
        organization_name: The tenant, which no other organisation ever sees into. Of an open `Memory` it
            is the memory's own.
        cross_product: Whether what holds for every product of the organisation takes part; not what lies
            below that, such as ``/customer/acme``.
        user: The subject that the user of a run is an individual of; what is learnt is about them. One that is an
            individual already (``USER.individual("ada")``) is the user of every run that names none.
        users: Whether each run must name its user (``"required"``), or those that name none share one memory
            (``"shared"``).
        subjects: Whom else the agent is told facts about.
        concepts: The typed facts that matter to the agent: they are looked for first, and read with their types.
        model: Reads what is said: an address for `factmem.language_model`, or a model; without one the
            words are kept as they were said.
        keep_words: Keep the user's words recallable beside the facts that a model finds in them; see `Memory`. Without
            it, only facts and statements about the topics asked for are recalled. Of an open `Memory` it is the
            memory's own.
        embedder: Makes the vectors; the offline default if None.
        embedder_timeout: See `Memory`.
        recall: The weights of recall, for all that the agent, its tools and its host look up; those of the store
            if None, which are the defaults unless it is a `Memory` that has others.
        loading: What the agent is told.
        saving: What is learnt from it.
        hooks: What the program is asked and told meanwhile.
        observers: Are told of every operation of the memory that is made for this; see `Memory`.

    Raises:
        InvalidDataError: A setting is of another type than it says here, or saving goes to a scope that the agent
            takes no part in.
        InvalidNameError: A name is not legal.
        UnknownProviderError: The store's address names no installed provider, or options that it does not have.
        CapabilityError: The store is a provider with the four verbs only, and is to keep private facts or words
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
            wanted: A scope that the agent takes part in or one below it, or a kind that it has a name for.
            path: The setting that it comes from, for the error.

        Raises:
            InvalidNameError: The path is not legal.
            InvalidDataError: The agent takes no part in it.
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
            InvalidDataError: The store is an open memory, or a function that makes something else.
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
