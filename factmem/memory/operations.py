"""Keyword checks of every public async method of a class, and notification of observers about it."""

from __future__ import annotations

import functools
import inspect
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence, Sized
from pathlib import Path
from typing import Any, Final, TypeVar, assert_never, cast

from factmem.abc.capabilities import Append, Receipt, Statement, StateRequest
from factmem.abc.detector import Conversation, Message
from factmem.abc.observer import Effect, Operation
from factmem.changes import Change
from factmem.error_hints import unknown_keywords
from factmem.errors import FactMemError
from factmem.facts import MultipleFacts, SingleFact
from factmem.memory.backend import Part
from factmem.memory.context import Context
from factmem.observing import ObservedCall
from factmem.recall.results import RecallMatches
from factmem.records import AssertionState, FactRecord
from factmem.scopes import MemoryScope

ClassT = TypeVar("ClassT", bound=type)
MethodT = TypeVar("MethodT", bound=Callable[..., Any])

_HANDED_IN: Final[Mapping[Operation, str]] = {
    Operation.SAVE: "fact",
    Operation.SAVE_MANY: "facts",
    Operation.REMEMBER: "what",
    Operation.REMEMBER_MANY: "what",
    Operation.GENERATE: "source",
    Operation.INGEST_EVENTS: "events",
    Operation.UNDO: "changes",
    Operation.GET: "record_id",
    Operation.UPDATE: "record_id",
    Operation.READ: "units",
}
"""Argument whose items are counted, of operations without positional ids."""

_BY_PLACE: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


_NEW: Final[Mapping[AssertionState, Effect]] = {
    AssertionState.ACTIVE: Effect.LEARNT,
    AssertionState.QUARANTINED: Effect.QUARANTINED,
    AssertionState.PENDING: Effect.WAITING,
    AssertionState.FAILED: Effect.FAILED,
    AssertionState.RETRACTED: Effect.RETRACTED,
}
"""Effects of a new assertion, by its state; an import brings any of them."""

_NOW: Final[Mapping[AssertionState, Effect]] = {**_NEW, AssertionState.ACTIVE: Effect.RESTORED}
"""Effects of a change of state, by the state after it."""

_CHANGED: Final[Mapping[tuple[AssertionState | None, AssertionState], Effect]] = {
    **dict.fromkeys(((AssertionState.PENDING, after) for after in AssertionState), Effect.READ),
    (AssertionState.PENDING, AssertionState.FAILED): Effect.FAILED,
    **dict.fromkeys(((AssertionState.FAILED, after) for after in AssertionState), Effect.DISMISSED),
    (AssertionState.FAILED, AssertionState.PENDING): Effect.RETRIED,
    (AssertionState.QUARANTINED, AssertionState.ACTIVE): Effect.ACCEPTED,
    (AssertionState.QUARANTINED, AssertionState.RETRACTED): Effect.REJECTED,
}
"""Effects of a change of state that depend on the state before it as well."""


def observed(group: str = "") -> Callable[[ClassT], ClassT]:
    """Keep every public async method of a class in one event loop, check its keywords, and notify observers of it.

    Args:
        group: Prefix of the names of the operations.

    Raises:
        ValueError: `Operation` lacks the name of one of them.
    """

    def mark(cls: ClassT) -> ClassT:
        for name, method in list(vars(cls).items()):
            if not name.startswith("_") and inspect.iscoroutinefunction(method):
                setattr(cls, name, _notifying(method, Operation(group + name.rstrip("_"))))
        return cls

    return mark


def operation(which: Operation) -> Callable[[MethodT], MethodT]:
    """Keep a method of a `Part`, or a function of a memory, in one event loop, check its keywords, notify observers.

    Args:
        which: The operation.
    """
    return functools.partial(_notifying, which=which)


def _notifying(method: MethodT, which: Operation) -> MethodT:
    signature = inspect.signature(method)
    _, *by_place = (name for name, item in signature.parameters.items() if item.kind in _BY_PLACE)
    counted = _HANDED_IN.get(which)
    many = any(item.kind is item.VAR_POSITIONAL for item in signature.parameters.values())
    keywords = _keywords(method, signature)

    @functools.wraps(method)
    async def notifying(self: Part, *args: Any, **kwargs: Any) -> Any:
        if not kwargs.keys() <= keywords.keys():
            raise unknown_keywords(method.__name__, kwargs, keywords)
        self._backend.enter_loop()
        observation = self._context.observation
        if observation is None:
            return await method(self, *args, **kwargs)
        named = {**kwargs, **dict(zip(by_place, args, strict=False))}
        call = ObservedCall(
            observation,
            which,
            scope=_path(self._context, named.get("scope")),
            records_in=len(args) if many else _number_of(named.get(counted)) if counted else None,
            arguments=_arguments(signature, self, args, kwargs) if observation.content else None,
        )
        with call:
            result = await method(self, *args, **kwargs)
            call.record_result(_number_of(result), result)
            return result

    setattr(notifying, "operation", which)  # noqa: B010 - read by tests
    return cast("MethodT", notifying)


def _keywords(method: Callable[..., Any], signature: inspect.Signature) -> dict[str, None]:
    """Return the names of the keyword arguments of a method, with those that ``**filters: Unpack[Filters]`` holds."""
    names: dict[str, None] = {}
    for name, item in list(signature.parameters.items())[1:]:
        if item.kind is item.VAR_KEYWORD:
            typed = method.__globals__[item.annotation.removeprefix("Unpack[").removesuffix("]")]
            names |= dict.fromkeys(typed.__annotations__)
        elif item.kind is not item.VAR_POSITIONAL:
            names[name] = None
    return names


def effects_of(statements: Sequence[Statement], receipts: Sequence[Receipt]) -> Counter[Effect]:
    """Count the effects of a transaction.

    Args:
        statements: Its statements.
        receipts: The receipts of its new assertions.
    """
    new = iter(receipts)
    effects: Counter[Effect] = Counter()
    for statement in statements:
        match statement:
            case Append(assertion=said):
                if next(new).new:
                    effects[Effect.REMOVED if said.removed else _NEW[said.state]] += 1
            case StateRequest(expected=before, state=after):
                effects[_CHANGED.get((before, after)) or _NOW[after]] += 1
            case _:
                assert_never(statement)
    return effects


def _path(context: Context, scope: object) -> str | None:
    """Return the path of an operation's scope; illegal ones are left to the operation."""
    if isinstance(scope, str):
        try:
            scope = MemoryScope.subtree(scope)
        except FactMemError:
            return None
    if scope is None:
        scope = context.view.only
    return str(scope.within(None)) if isinstance(scope, MemoryScope) else None


def _arguments(
    signature: inspect.Signature, self: object, args: Collection[Any], kwargs: Mapping[str, Any]
) -> Mapping[str, Any]:
    try:
        bound = signature.bind(self, *args, **kwargs).arguments
    except TypeError:  # the method raises this itself
        return {}
    return {name: value for number, (name, value) in enumerate(bound.items()) if number}


def _number_of(thing: object) -> int | None:
    """Return the number of things in an argument or a result, if it can be counted."""
    match thing:
        case bool() | Path() | None:
            return None
        case int():
            return thing
        case SingleFact() | MultipleFacts():
            return len(thing.values)
        case Conversation():
            return len(thing.messages)
        case str() | FactRecord() | Change() | Message():
            return 1
        case list() if thing and isinstance(thing[0], RecallMatches):
            return sum(map(len, thing))
        case Sized():
            return len(thing)
    parts = (getattr(thing, name, None) for name in ("records", "matches", "entries", "erased", "imported", "ids"))
    return next((number for part in parts if (number := _number_of(part)) is not None), None)
