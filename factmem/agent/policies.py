"""When memory is loaded and saved, how much of it, and what happens when that fails."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from factmem.abc import DetectionRequest, Message
from factmem.agent.identity import RunIdentity
from factmem.detection import OriginPolicy
from factmem.errors import InvalidDataError
from factmem.facts import Concept
from factmem.memory import Trigger
from factmem.memory.checks import listed
from factmem.records import FactRecord, Origin
from factmem.scopes import MemoryScope, ScopeKind
from factmem.validators import fraction, instance_of, positive

if TYPE_CHECKING:
    from factmem.agent.saving import SavedHistory

__all__ = [
    "AfterLoad",
    "AfterSave",
    "BeforeLoad",
    "BeforeSave",
    "FailurePolicy",
    "Hooks",
    "Loading",
    "Saving",
    "SavingTime",
    "UserPolicy",
    "estimated_tokens",
]


class FailurePolicy(enum.Enum):
    """What happens when memory fails during a run."""

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


def _concepts(concepts: Iterable[Concept[Any, Any]] | None) -> tuple[Concept[Any, Any], ...] | None:
    return None if concepts is None else listed("concepts", concepts, Concept)


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
        concepts: only facts of these concepts (`factmem.STATEMENT` for free statements); of all if None.
        budget: number of tokens that the whole block may take.
        limit: maximum number of facts.
        min_score: leave out what scores less for the conversation at hand, from 0 to 1; see `RecallMatch.score`.
            Standing instructions are always told. The tool `recall_memory` leaves out the same.
        instruction_share: share of the budget for standing instructions, newest first.
        fact_share: share of the budget for typed facts while there are statements as well.
        assistant_share: share of the budget for statements of the assistant; 0 leaves them out.
        statement_share: share of the budget for a single statement; a longer one is cut at a word.
        messages: so many of the user's latest messages say what the conversation is about.
        count_tokens: counts the tokens of a text.
        overtaken: whether statements are told that a newer record overtakes, or whose fact was retracted (see
            `RecallMatch.newer` and `RecallMatch.retracted`); else the newer record is told in their place.
        on_failure: what happens when nothing can be loaded.

    Raises:
        InvalidDataError: a number is out of range.
    """

    concepts: tuple[Concept[Any, Any], ...] | None = attrs.field(default=None, converter=_concepts)
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
    """What is learnt from a run, and where it is kept.

    Attributes:
        when: when the history is handed over. It is on disk at once, and read in the background.
        looking_for: what to look for: concepts, topics, or anything (``open``). By default all facts about
            the user, those of the agent's concepts first.
        scope: where what is found holds, as a scope, a kind or a path; the narrowest scope of the agent that has a
            name if None.
        private: whether it is kept for the user alone. Needs a `RunIdentity.user_id`.
        tool_results: whether what tools answered is handed over as well, into quarantine; else it is left out.
        trigger: when what was handed over is read: at once, with six earlier messages for context, or by
            count, idle time or interval.
        origins: treatment of the messages by their origin; that of the memory if None. By default a model reads the
            user's words for facts and is shown the assistant's as context; without a model both are kept. For example
            ``OriginPolicy(assistant=Treatment.STATEMENTS)`` keeps what the assistant said with a model as well.
        tool_origin: whose words `save_memory` keeps. Origin.ASSISTANT keeps what the model wrote as its own
            statement, Origin.UNKNOWN quarantines it until somebody lets it in, and Origin.USER believes it
            like the user's own words: only for models that no tool or page can talk into it.
        on_failure: what happens when the history cannot be handed over. What a model could not read later
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
    """What a program wants to be asked or told around loading and saving. An error in a hook is the run's error.

    Attributes:
        before_load: is shown the conversation; nothing is loaded if it returns False.
        after_load: is shown the facts, best first, and returns those that the agent is told.
        before_save: is shown the messages that are about to be handed over, and returns those that are; it
            may leave out some, or change them.
        after_save: is shown what was handed over, once it is on disk.
    """

    before_load: BeforeLoad | None = None
    after_load: AfterLoad | None = None
    before_save: BeforeSave | None = None
    after_save: AfterSave | None = None
