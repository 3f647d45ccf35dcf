"""When memory is loaded and saved, how much of it, and what happens when that fails."""

from __future__ import annotations

import enum
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import attrs

from factmem.abc import DetectionRequest, Message
from factmem.agent.identity import RunIdentity
from factmem.errors import InvalidDataError
from factmem.facts import Concept
from factmem.memory import Trigger
from factmem.records import FactRecord, Origin
from factmem.scopes import MemoryScope, ScopeKind
from factmem.validators import instance_of

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


def estimated_tokens(text: str) -> int:
    """Return about how many tokens a text is: a quarter of its UTF-8 bytes, rounded up.

    That is the rule of thumb of most vendors for English, and errs on the safe side for other scripts.
    Give `Loading.count_tokens` a tokenizer's own count where the budget is tight.
    """
    return -(-len(text.encode()) // 4)


def _positive(instance: object, attribute: attrs.Attribute[int], value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidDataError(f"{attribute.name} must be a whole number from 1", path=f"$.{attribute.name}")


def _concepts(concepts: Iterable[Concept[Any, Any]] | None) -> tuple[Concept[Any, Any], ...] | None:
    return None if concepts is None else tuple(concepts)


@attrs.frozen(kw_only=True)
class Loading:
    """What an agent is told of what is known.

    Attributes:
        concepts: only facts of these concepts (`factmem.STATEMENT` for free statements); of all if None.
        budget: how many tokens the whole block may take. The facts that are best for the conversation at
            hand are told first; what does not fit is left out.
        limit: how many facts at the most.
        messages: so many of the user's latest messages say what the conversation is about.
        count_tokens: counts the tokens of a text.
        on_failure: what happens when nothing can be loaded.
    """

    concepts: tuple[Concept[Any, Any], ...] | None = attrs.field(default=None, converter=_concepts)
    budget: int = attrs.field(default=1_000, validator=_positive)
    limit: int = attrs.field(default=50, validator=_positive)
    messages: int = attrs.field(default=3, validator=_positive)
    count_tokens: Callable[[str], int] = estimated_tokens
    on_failure: FailurePolicy = attrs.field(default=FailurePolicy.RAISE, validator=instance_of(FailurePolicy))


_TRIGGER = Trigger(overlap=6)


@attrs.frozen(kw_only=True)
class Saving:
    """What is learnt from a run, and where it is kept.

    Attributes:
        when: when the history is handed over. It is on disk at once, and read in the background.
        looking_for: what to look for: concepts, topics, or anything (``open``). By default all facts about
            the user, those of the agent's concepts first.
        scope: where what is found holds; the narrowest scope of the agent that has a name if None.
        private: whether it is kept for the user alone. Needs a `RunIdentity.user_id`.
        tool_results: whether what tools answered is handed over as well, into quarantine; else it is left out.
        trigger: when what was handed over is read: at once, with six earlier messages for context, or by
            count, idle time or interval.
        tool_origin: whose words `save_memory` keeps. Origin.ASSISTANT keeps what the model wrote as its own
            statement, Origin.UNKNOWN quarantines it until somebody lets it in, and Origin.USER believes it
            like the user's own words: only for models that no tool or page can talk into it.
        on_failure: what happens when the history cannot be handed over. What a model could not read later
            is in the store's dead letters.
    """

    when: SavingTime = attrs.field(default=SavingTime.AFTER_RUN, validator=instance_of(SavingTime))
    looking_for: DetectionRequest | None = None
    scope: MemoryScope | ScopeKind | None = None
    private: bool = attrs.field(default=False, validator=instance_of(bool))
    tool_results: bool = attrs.field(default=False, validator=instance_of(bool))
    trigger: Trigger = _TRIGGER
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
