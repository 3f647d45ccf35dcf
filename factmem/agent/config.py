"""The settings of an agent's memory, and the identity of a run."""

from __future__ import annotations

import enum
import functools
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import attrs

from factmem.abc import DetectionRequest, MemoryObserver, Reranker
from factmem.abc.capabilities import KeepsLog
from factmem.abc.detector import Message
from factmem.abc.embedder import Embedder
from factmem.abc.media import MediaReader
from factmem.abc.model import LanguageModel
from factmem.abc.provider import AgentMemoryProvider
from factmem.details import Origin
from factmem.detection import OriginPolicy
from factmem.error_hints import hinted, kind_of
from factmem.errors import CapabilityError, InvalidDataError
from factmem.facts import Concept, check_distinct
from factmem.llm.host_models import ForeignModel, as_language_model
from factmem.memory import Trigger
from factmem.memory.argument_checks import check_parts, check_store, observers_in
from factmem.memory.background import Background
from factmem.memory.context import Policies
from factmem.memory.facade import Memory
from factmem.memory.profiles import ProfileSchema, schemas_of
from factmem.providers.memory import NoMemory
from factmem.providers.registry import check_address
from factmem.recall.adopted_embedders import as_embedder
from factmem.recall.scoring import RecallSettings
from factmem.records import FactRecord
from factmem.reranking.rerankers import ForeignReranker
from factmem.scopes import MemoryScope, ScopeKind
from factmem.subjects import MemorySubject
from factmem.validators import check_instance, fraction, instance_of, listed, named, positive

if TYPE_CHECKING:
    from factmem.agent.holders import SavedHistory


@attrs.frozen(kw_only=True)
class RunIdentity:
    """The user and the session of one run, and whether the run loads and saves.

    The user is the subject of facts (`AgentMemoryConfig.user`, narrowed to this individual) and the owner of private
    facts. One installed agent serves any number of users, and no user ever sees the facts of another.

    Attributes:
        user_id: Id of the user; None if there is only one.
        session_id: Id of the conversation. Histories with the same id are one conversation; without an id, a
            conversation is identified by its first message.
        load: Whether known facts are added to requests.
        save: Whether the conversation is saved.
        host: The host's own object of the run, for `AgentMemoryConfig.user_id`.

    Raises:
        InvalidNameError: An id is blank, too long or holds control characters.
    """

    user_id: str | None = attrs.field(default=None, validator=named("a run's user_id"))
    session_id: str | None = attrs.field(default=None, validator=named("a run's session_id"))
    load: bool = attrs.field(default=True, validator=instance_of(bool))
    save: bool = attrs.field(default=True, validator=instance_of(bool))
    host: Any = attrs.field(default=None, eq=False, repr=False)

    @classmethod
    def named_by(cls, context: Any, *, host: Any = None) -> RunIdentity:
        """Return the identity in a host's run context: its ``user_id`` and ``session_id``, as attributes or keys.

        Args:
            context: The program's context of the run; None if it has none. Ids are converted to strings.
            host: The host's own object of the run (default: the context).
        """
        return cls(
            user_id=_text(named_in(context, "user_id")),
            session_id=_text(named_in(context, "session_id")),
            host=context if host is None else host,
        )

    def or_else(self, other: RunIdentity) -> RunIdentity:
        """Return this identity, with missing ids from another identity; both can disable loading and saving."""
        return RunIdentity(
            user_id=self.user_id if self.user_id is not None else other.user_id,
            session_id=self.session_id if self.session_id is not None else other.session_id,
            load=self.load and other.load,
            save=self.save and other.save,
            host=other.host if self.host is None else self.host,
        )


NOBODY: Final = RunIdentity()
"""Identity of a run that names nobody."""


def named_in(source: Any, name: str) -> Any:
    """Return an attribute of an object, or an item of a mapping; None if there is none."""
    return source.get(name) if isinstance(source, Mapping) else getattr(source, name, None)


def _text(id: object) -> str | None:
    return None if id is None else str(id)


UserId: TypeAlias = "str | Callable[[Any], object]"
"""Place of the id of a run's user in the host's object: a path of attributes and keys, or a function of that object."""


class FailurePolicy(enum.Enum):
    """Treatment of errors of the memory during a run; mistakes in settings and arguments are raised in any case.

    Attributes:
        RAISE: Raise the error in the agent's run.
        LOG: Log the error, without any content of the conversation, and continue without memory.
    """

    RAISE = "raise"
    LOG = "log"


class SavingTime(enum.Enum):
    """Time at which a conversation is submitted.

    Attributes:
        AFTER_RUN: After each successful run.
        MANUALLY: Only when the program submits it.
    """

    AFTER_RUN = "after_run"
    MANUALLY = "manually"


class UserPolicy(enum.Enum):
    """Policy for a run without a user.

    Attributes:
        REQUIRED: Raise `MissingUserError`, so that the facts of users never mix.
        SHARED: Share one memory among runs without a user: for a single user, or users who may see each other's facts.
    """

    REQUIRED = "required"
    SHARED = "shared"


def estimated_tokens(text: str) -> int:
    """Return an estimate of a text's number of tokens: a quarter of its UTF-8 bytes, rounded up.

    Most vendors give this rule of thumb for English; for other scripts, the estimate is too high rather than too low.
    If the budget is tight, set `Loading.count_tokens` to a tokenizer's count.
    """
    return -(-len(text.encode()) // 4)


def _concepts(concepts: Iterable[Concept[Any, Any]]) -> tuple[Concept[Any, Any], ...]:
    several = listed("concepts", concepts, Concept)
    check_distinct(several)
    return several


def _scope(scope: MemoryScope | ScopeKind | str | None) -> MemoryScope | ScopeKind | None:
    parsed = MemoryScope.parse(scope) if isinstance(scope, str) else scope
    check_instance(parsed, "scope", MemoryScope, ScopeKind, str, type(None))
    return parsed


def _takes(*names: str) -> Callable[[object, attrs.Attribute[Any], object], None]:
    """Return a validator that accepts functions of some arguments, and None if that is the default."""

    def validate(instance: object, attribute: attrs.Attribute[Any], value: object) -> None:
        fits = value is None and attribute.default is None
        if callable(value):
            try:
                inspect.signature(value).bind(*names)
                fits = True
            except ValueError:  # a function without a signature, such as one written in C
                fits = True
            except TypeError:
                pass
        if not fits:
            given = "this one takes others" if callable(value) else f"this is {kind_of(value)}"
            raise InvalidDataError(
                f"{attribute.name} is a function of ({', '.join(names)}): {given}", path=f"$.{attribute.name}"
            )

    return validate


@hinted
@attrs.frozen(kw_only=True)
class Loading:
    """Selection of the facts in a memory block.

    The block holds, in this order: standing instructions of the user, regardless of the conversation; typed facts;
    the user's statements, except those whose fact is in the block; statements of the assistant. Within each kind, the
    best facts for the current conversation are chosen first. Facts that do not fit are left out.

    The shares are parts of the budget, from 0 to 1. The unused part of a share goes to the other kinds, except that
    the assistant's share is never exceeded. If the user asks for the assistant's words ("What did you suggest?"),
    these are chosen before the user's, and their share is at least a half.

    Attributes:
        concepts: Concepts of the facts, with `factmem.STATEMENT` for free statements (default: all).
        budget: Maximum number of tokens of the whole block.
        limit: Maximum number of facts.
        min_score: Minimum score for the current conversation, from 0 to 1; see `RecallMatch.score`. Standing
            instructions are exempt. The tool `recall_memory` applies the same minimum. With 0, the best facts are shown
            for any request, even if no fact answers it ("Plan my weekend."); with 0.2 or 0.3, only facts that answer
            the request.
        instruction_share: Share of the budget for standing instructions, newest first. Further ones are shown if the
            typed facts leave room, before any statement.
        fact_share: Share of the budget for typed facts if there are also statements.
        assistant_share: Share of the budget for statements of the assistant; 0 leaves them out.
        statement_share: Share of the budget for the words of a single statement; a longer one is shortened at a word
            boundary.
        messages: Number of the user's latest messages that form the query. If these messages ask and order nothing and
            have no content word, such as "Hi!" and "Thanks!", a block of all concepts holds no statements, only
            standing instructions and the typed facts of the agent's concepts (of all concepts, if the agent has none).
        count_tokens: Function that counts the tokens of a text.
        overtaken: Whether to render statements that a newer record overtakes, or whose fact was retracted (see
            `RecallMatch.newer` and `RecallMatch.retracted`), instead of the newer record only.
        on_failure: Treatment of errors while loading.

    Raises:
        InvalidDataError: A number is out of range.
    """

    concepts: tuple[Concept[Any, Any], ...] | None = attrs.field(
        default=None, converter=attrs.converters.optional(_concepts)
    )
    budget: int = attrs.field(default=1_000, validator=positive)
    limit: int = attrs.field(default=50, validator=positive)
    min_score: float = attrs.field(default=0.0, validator=fraction)
    instruction_share: float = attrs.field(default=0.5, validator=fraction)
    fact_share: float = attrs.field(default=0.75, validator=fraction)
    assistant_share: float = attrs.field(default=0.1, validator=fraction)
    statement_share: float = attrs.field(default=0.1, validator=fraction)
    messages: int = attrs.field(default=3, validator=positive)
    count_tokens: Callable[[str], int] = attrs.field(default=estimated_tokens, validator=_takes("text"))
    overtaken: bool = attrs.field(default=False, validator=instance_of(bool))
    on_failure: FailurePolicy = attrs.field(default=FailurePolicy.LOG, validator=instance_of(FailurePolicy))


_TRIGGER = Trigger(overlap=6)


@hinted
@attrs.frozen(kw_only=True)
class Saving:
    """Settings of saving: the facts to look for in a run, and their scope.

    Attributes:
        when: Time of the submission. A submission is on disk at once, and processed in the background.
        looking_for: Concepts or topics to look for, or any facts (``open``). By default all facts about the user, those
            of the agent's concepts first.
        scope: Scope of the facts, as a scope, a kind or a path (default: the narrowest named scope of the agent).
        private: Whether facts are private to the user; requires a `RunIdentity.user_id`.
        tool_results: Whether tool results are also submitted; their facts are quarantined.
        trigger: Time at which a submission is processed: at once, with six earlier messages for context (the
            default), or by count, idle time or interval.
        origins: Treatment of messages by origin (default: that of the memory). By default a model detects facts in
            the user's messages, with the assistant's as context; without a model the messages of both are kept. For
            example, ``OriginPolicy(assistant=Treatment.STATEMENTS)`` keeps the assistant's messages with a model too.
        tool_origin: Origin of a model's actions with its tools: statements saved by `save_memory`, edits of files, and
            `forget_memory`, which never retracts records of a higher origin. ``Origin.ASSISTANT`` keeps statements as
            the model's own. ``Origin.UNKNOWN`` quarantines them until a reviewer accepts them. ``Origin.USER`` trusts
            them like the user's own words; use it only for models that no tool result or page can manipulate.
        on_failure: Treatment of failed submissions. Units that fail later are in the store's dead letters.
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

    @property
    def after_run(self) -> bool:
        """Whether each successful run is submitted."""
        return self.when is SavingTime.AFTER_RUN


_Records: TypeAlias = Sequence[FactRecord[Any]]
_Messages: TypeAlias = Sequence[Message]

BeforeLoad: TypeAlias = Callable[[RunIdentity, _Messages], bool | Awaitable[bool]]
"""Function of the run and the conversation that returns whether to load."""

AfterLoad: TypeAlias = Callable[[RunIdentity, _Records], _Records | Awaitable[_Records]]
"""Function of the run and the facts found that returns the facts to render."""

BeforeSave: TypeAlias = Callable[[RunIdentity, _Messages], _Messages | Awaitable[_Messages]]
"""Function of the run and the messages that returns the messages to submit."""

AfterSave: TypeAlias = "Callable[[RunIdentity, SavedHistory], Awaitable[None] | None]"
"""Function of the run and the submission."""


@hinted
@attrs.frozen(kw_only=True)
class Hooks:
    """Functions called before and after loading and saving. An error in a hook fails the run.

    A hook takes two arguments, of which the first is the `RunIdentity`. A hook may be async; a plain function runs in a
    worker thread.

        async def without_cards(identity: RunIdentity, messages: Sequence[Message]) -> Sequence[Message]:
            return [message for message in messages if "card" not in message.content]

        config = AgentMemoryConfig(store="facts.db", hooks=Hooks(before_save=without_cards))

    Attributes:
        before_load: Function of the conversation; nothing is loaded if it returns False.
        after_load: Function of the facts, best first; returns the facts to render.
        before_save: Function of the messages to submit; returns them, with some dropped or changed.
        after_save: Function of the submission, called once it is on disk.

    Raises:
        InvalidDataError: A hook does not take two arguments.
    """

    before_load: BeforeLoad | None = attrs.field(default=None, validator=_takes("identity", "messages"))
    after_load: AfterLoad | None = attrs.field(default=None, validator=_takes("identity", "records"))
    before_save: BeforeSave | None = attrs.field(default=None, validator=_takes("identity", "messages"))
    after_save: AfterSave | None = attrs.field(default=None, validator=_takes("identity", "submission"))


Store: TypeAlias = "str | AgentMemoryProvider | Memory | Callable[[], Memory]"

USER: Final = MemorySubject("user", "the person whom the agent talks with", priority_level=1)
"""Default subject of facts."""


_OF_MEMORY: Final = {
    "organization_name": "organization",
    "profiles": "profiles",
    "model": "model",
    "policies": "policies",
    "embedder": "embedder",
    "embedder_timeout": "embedder_timeout",
    "reranker": "reranker",
    "media_reader": "media_reader",
    "background": "background",
    "observers": "observers",
}
"""Settings that only a memory made from the config uses, and their names as arguments of `Memory`."""


class NoStoreWarning(UserWarning):
    """An agent's memory has no store, so nothing is saved."""


def _subjects(subjects: Iterable[MemorySubject]) -> tuple[MemorySubject, ...]:
    """Return subjects, with EVERYTHING among them: the facts of a project are about nobody in particular."""
    return tuple(dict.fromkeys((*listed("subjects", subjects, MemorySubject), MemorySubject.EVERYTHING)))


def _user(given: MemorySubject | UserId) -> MemorySubject:
    return cast("MemorySubject", given)  # the place of an id is put where it belongs when it is checked


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


@hinted
@attrs.frozen(kw_only=True)
class AgentMemoryConfig:
    """The settings of an agent's memory.

    The names determine the agent's scopes: a kind without a name is neither read nor written.

    Attributes:
        store: An address (``"facts.db"``), a provider, or a function that returns a `Memory`, for a memory with its own
            event loop and thread; or an open `Memory`, which is used in its own event loop and closed by the program.
            With a `Memory` of the program, passed or made by the function, settings marked with * are refused: they are
            arguments of that `Memory`. Without a store nothing is saved, and `AgentMemory` issues a warning;
            ``"none:"`` suppresses the warning.
        agent_name: Name of the scope ``/agent/<name>``.
        feature_name: Name of the scope ``/feature/<name>``.
        product_name: Name of the scope ``/product/<name>``.
        organization_name: * Name of the tenant, which is isolated from all other organizations.
        cross_product: Whether the agent uses facts for every product of the organization, without narrower scopes such
            as ``/customer/acme``.
        user: Subject of the saved facts; the user of a run is an individual of this subject. An individual
            (``USER.individual("ada")``) is the user of every run that names no user. A path or a function sets
            ``user_id``.
        users: Policy for runs without a user: each run must name its user (``"required"``), or runs without one
            share one memory (``"shared"``).
        user_id: Where the host keeps the id of a run's user, if not in ``user_id`` of the run's context: a path of
            attributes and keys (``"deps.user.id"``, ``"context.uid"``, ``"configurable.langgraph_auth_user_id"``), or a
            function, of the object that the host's integration names. factmem then looks nowhere else, except in
            `AgentMemory.run`. With the default subject, ``user`` accepts the same values.
        subjects: Further subjects whose facts are loaded, besides the user, `MemorySubject.EVERYTHING`, and subjects
            that a request names; individuals (``door:garage``) that it names only if their subject (``door``) is listed
            here. The loading methods and nodes take other subjects for one call. All users share a
            subject without an individual, such as ``boss``: facts about one user's boss are shown to every other user,
            unless they are private (`Saving.private`).
        concepts: Typed facts of interest, which are looked for first and read with their types.
        profiles: * Profiles that every detection fills; see `Memory`.
        model: * Language model that detects facts, in any form that `Memory` takes. Without one, messages are kept
            verbatim.
        policies: * Rules for everything that is saved; see `Memory`.
        embedder: * Embedder of the facts, in any form that `Memory` takes (default: the offline embedder).
        embedder_timeout: * Timeout of the embedder in seconds; see `Memory`.
        reranker: * Reranker of the best records of each recall, in any form that `Memory` takes.
        media_reader: * Reader of images, sound and video in messages, or the address of a model; see `Memory`.
        background: * Settings of background reading, such as a `Budget`; see `Memory`.
        recall: Recall settings for the agent, its tools and its host (default: those of the `Memory`).
        loading: Settings of loading.
        saving: Settings of saving.
        hooks: Functions called before and after loading and saving.
        observers: * Observers of every operation of the memory; see `Memory`.

    Raises:
        InvalidDataError: A setting has the wrong type or no effect, or `Saving.scope` is not one of the agent's scopes.
        InvalidNameError: A name is not legal.
        UnknownProviderError: The store's address names no installed provider, or unknown options.
        CapabilityError: The settings need private facts or delayed processing, and the provider has the four verbs
            only.
    """

    store: Store | None = attrs.field(default=None, validator=_check_store)
    agent_name: str | None = attrs.field(default=None, validator=named("agent_name"))
    feature_name: str | None = attrs.field(default=None, validator=named("feature_name"))
    product_name: str | None = attrs.field(default=None, validator=named("product_name"))
    organization_name: str | None = attrs.field(default=None, validator=named("organization_name"))
    cross_product: bool = attrs.field(default=True, validator=instance_of(bool))
    user: MemorySubject = attrs.field(default=USER, converter=_user)
    user_id: UserId | None = None
    users: UserPolicy = attrs.field(default=UserPolicy.REQUIRED, converter=_users)
    subjects: tuple[MemorySubject, ...] = attrs.field(default=(), converter=_subjects)
    concepts: tuple[Concept[Any, Any], ...] = attrs.field(default=(), converter=_concepts)
    profiles: tuple[ProfileSchema[Any], ...] = attrs.field(default=(), converter=schemas_of)
    model: LanguageModel | None = attrs.field(default=None, converter=as_language_model)
    policies: Policies = attrs.field(factory=Policies, validator=instance_of(Policies))
    embedder: Embedder | None = attrs.field(default=None, converter=as_embedder)
    embedder_timeout: float | None = 30.0
    reranker: Reranker | ForeignReranker | ForeignModel | LanguageModel | str | None = None
    media_reader: MediaReader | str | None = None
    background: Background = attrs.field(factory=Background, validator=instance_of(Background))
    recall: RecallSettings | None = attrs.field(default=None, validator=instance_of(RecallSettings, type(None)))
    loading: Loading = attrs.field(factory=Loading, validator=instance_of(Loading))
    saving: Saving = attrs.field(factory=Saving, validator=instance_of(Saving))
    hooks: Hooks = attrs.field(factory=Hooks, validator=instance_of(Hooks))
    observers: tuple[MemoryObserver, ...] = attrs.field(default=(), converter=observers_in)

    def __attrs_post_init__(self) -> None:
        if not self.scopes:
            raise InvalidDataError("the agent has no scope: give it a name, or leave cross_product on")
        check_parts(embedder=self.embedder, model=self.model)
        self._check_user_id()
        self._check_effective()
        self._check_provider()
        _ = self.home

    def _check_user_id(self) -> None:
        if not isinstance(self.user, MemorySubject):
            object.__setattr__(self, "user_id", self.user)
            object.__setattr__(self, "user", USER)
        where = self.user_id
        if isinstance(where, str) and not ("." in where and all(where.split("."))):
            raise InvalidDataError(
                'give the place of the user\'s id as a path such as "deps.user.id", or one person as '
                'USER.individual("ada")',
                path="$.user",
            )
        if where is not None and not isinstance(where, str) and not callable(where):
            raise InvalidDataError(
                'a user is a MemorySubject, a path such as "deps.user.id", or a function of the host\'s run, '
                f"not {kind_of(where)}",
                path="$.user",
            )

    def identified(self, identity: RunIdentity) -> RunIdentity:
        """Return an identity with the user that `user_id` finds in the host's object, without that object.

        Args:
            identity: The identity according to the host.

        Raises:
            InvalidNameError: The id is not legal.
        """
        host, found = identity.host, identity.user_id
        if host is None:
            return identity
        if isinstance(self.user_id, str):
            found = _text(functools.reduce(named_in, self.user_id.split("."), host))
        elif self.user_id is not None:
            found = _text(self.user_id(host))
        return attrs.evolve(identity, user_id=found, host=None)

    def _check_effective(self) -> None:
        """Refuse settings that a Memory of the program's own would leave without effect."""
        if not (isinstance(self.store, Memory) or callable(self.store)):
            return
        usual = AgentMemoryConfig()
        given = [name for name in _OF_MEMORY if getattr(self, name) != getattr(usual, name)]
        if given:
            raise InvalidDataError(
                f"{', '.join(given)} of AgentMemoryConfig would have no effect, since the program makes the Memory: "
                f"give {', '.join(_OF_MEMORY[name] for name in given)} to Memory(…), or give AgentMemoryConfig an "
                "address or a provider as its store",
                path=f"$.{given[0]}",
            )

    def _check_provider(self) -> None:
        """Check that a provider with the four verbs only can keep what the settings require."""
        store = self.store
        if self.keeps_nothing or not isinstance(store, AgentMemoryProvider) or isinstance(store, KeepsLog):
            return
        if self.saving.private or not self.saving.trigger.immediate:
            raise CapabilityError(
                f"{type(store).__name__} has the four verbs only: it keeps no private facts and no words that wait. "
                "Leave private and a trigger's count and times out of Saving, or use a provider that keeps history"
            )

    @property
    def scopes(self) -> tuple[MemoryScope, ...]:
        """The agent's scopes, narrowest first."""
        named = (
            (MemoryScope.agent, self.agent_name),
            (MemoryScope.feature, self.feature_name),
            (MemoryScope.product, self.product_name),
        )
        own = tuple(scope(name) for scope, name in named if name is not None)
        return (*own, MemoryScope.CROSS_PRODUCT) if self.cross_product else own

    @property
    def home(self) -> MemoryScope:
        """Scope of the saved facts."""
        return self.scopes[0] if self.saving.scope is None else self.scope_of(self.saving.scope, path="$.saving.scope")

    def scope_of(self, wanted: MemoryScope | ScopeKind | str, *, path: str = "$.scope") -> MemoryScope:
        """Return a scope of the agent by its path or its kind.

        Args:
            wanted: One of the agent's scopes, a scope below one, or a kind for which the agent has a name.
            path: Path of the setting, for the error.

        Raises:
            InvalidNameError: The path is not legal.
            InvalidDataError: The scope is not one of the agent's.
        """
        if isinstance(wanted, ScopeKind):
            found = next((scope for scope in self.scopes if scope.kind is wanted), None)
            if found is None:
                raise InvalidDataError(f"the agent takes no part in a scope of kind {wanted.value}: name it", path=path)
            return found
        scope = MemoryScope.parse(wanted) if isinstance(wanted, str) else wanted
        if not isinstance(scope, MemoryScope):
            raise InvalidDataError(f"a scope is a MemoryScope, a ScopeKind or a path, not {kind_of(wanted)}", path=path)
        if scope.tenant not in (None, self.organization_name) or not self._takes_part(scope.within(None)):
            shown = ", ".join(map(str, self.scopes))
            raise InvalidDataError(f"the agent takes no part in {scope.within(None)}: use {shown}", path=path)
        return scope.within(None)

    def _takes_part(self, wanted: MemoryScope) -> bool:
        return any(scope == wanted or (scope.path and scope.contains(wanted)) for scope in self.scopes)

    @property
    def keeps_nothing(self) -> bool:
        """Whether there is no store, so that nothing is loaded or saved."""
        return self.store in (None, "none:") or isinstance(self.store, NoMemory)

    def make_memory(self) -> Memory:
        """Return a new memory for use in its own thread.

        Raises:
            InvalidDataError: The store is an open memory, or a function that returns something else.
        """
        if isinstance(self.store, Memory):
            raise InvalidDataError("the store is a memory already")
        if callable(self.store):
            made = self.store()
            if not isinstance(made, Memory):
                raise InvalidDataError(
                    f"the store is a function that makes {kind_of(made)}, not a Memory", path="$.store"
                )
            return made
        settings = {argument: getattr(self, name) for name, argument in _OF_MEMORY.items()}
        settings["policies"] = attrs.evolve(self.policies, origins=self.saving.origins or self.policies.origins)
        return Memory(
            "none:" if self.store is None else self.store,
            concepts=self.concepts,
            subjects=(self.user, *self.subjects),
            scopes=tuple(dict.fromkeys((*self.scopes, self.home))),
            settings=self.recall,
            **settings,
        )
