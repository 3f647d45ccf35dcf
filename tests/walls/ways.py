"""Definitions of the ways to call a path: the call, the facts it may show, and the caller."""

from __future__ import annotations

import enum
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import attrs

from factmem import FactMemError, Memory, MemoryScope, MemorySubject
from factmem.testing import HashEmbedder
from tests.walls.greedy_analyst import GREEDY_ANALYST
from tests.walls.leaves import Leaf, leaves, text_of
from tests.walls.stores import FilledStore
from tests.walls.worlds import SCOPES, SUBJECTS, Caller, Fate, Plant

T = TypeVar("T")
EMBEDDER: Final = HashEmbedder(64)


class Shows(enum.Enum):
    """Kinds of facts that a path is meant to show, among those its caller may see."""

    NOW = "what is current"
    EVER = "also what was current once"
    KEPT = "also what is kept apart"
    APART = "what is quarantined"
    REJECTED = "what was rejected"
    LETTERS = "what could not be read"
    NOTHING = "no fact at all"

    def of(self, fate: Fate) -> bool:
        """Return whether facts of a fate are among them."""
        match self:
            case Shows.NOW:
                return fate.stands
            case Shows.EVER:
                return not fate.apart
            case Shows.KEPT:
                return True
            case Shows.APART:
                return fate is Fate.QUARANTINED
            case Shows.REJECTED:
                return fate is Fate.REJECTED
            case Shows.LETTERS:
                return fate is Fate.FAILED
            case Shows.NOTHING:
                return False


@attrs.frozen(kw_only=True)
class Asked:
    """Context of one call of a path: the caller, and the arguments.

    Attributes:
        filled: the world in its store.
        caller: the caller.
        memory: the memory of that caller.
        reader: the object to read: the memory, or an earlier moment of it.
        scope: a scope that the caller reaches.
        subject: a subject.
        some: a few of all plants.
        near: plants in places to which the caller may write, of any owner and organization.
        query: words to search for, including other owners'.
        client: a client of an MCP server of the memory, or the command line, for the paths that lead through one.
    """

    filled: FilledStore
    caller: Caller
    memory: Memory
    reader: Memory
    scope: MemoryScope
    subject: MemorySubject
    some: Sequence[Plant]
    near: Sequence[Plant]
    query: str
    client: Any = None

    @classmethod
    def of(cls, filled: FilledStore, caller: Caller, chance: random.Random, memory: Memory) -> Asked:
        """Choose the arguments."""
        seen = [plant for plant in filled.world.seen_from(caller) if plant.fate.stands]
        scopes = [scope for scope in SCOPES if caller.reaches(scope.within(caller.tenant))]
        scopes += [scope.within(None) for scope in (*caller.roots, *caller.exact)]
        scope, subject = chance.choice(scopes), chance.choice(list(filter(caller.reads, SUBJECTS)))
        # A read that names another individual shows what is public about that one.
        named = [plant for plant in seen if caller.reads(plant.subject)]
        if named and chance.random() < 0.7:
            somewhere = chance.choice(named)
            scope, subject = somewhere.scope.within(None), plain(somewhere.subject)
        some = chance.sample(filled.world.plants, min(6, len(filled.world.plants)))
        near = [
            plant for plant in filled.world.plants if caller.reaches(unnamed_scope(plant.scope).within(caller.tenant))
        ]
        return cls(
            filled=filled,
            caller=caller,
            memory=memory,
            reader=memory,
            scope=scope,
            subject=subject,
            some=some,
            near=chance.sample(near, min(2, len(near))),
            query=" ".join(plant.value for plant in some[:2]),
        )

    @property
    def ids(self) -> list[str]:
        """Return the ids of a few records anywhere, and one unknown id."""
        return [*(self.filled.records[plant.token] for plant in self.some), "0" * 32]

    def unsaid(self, text: str) -> str:
        """Return a text without the names of scopes that the caller itself passed, which reveal nothing."""
        for scope in (self.scope, *self.caller.roots, *self.caller.exact):
            for segment in scope.path:
                text = text.replace(segment, "") if segment.startswith("scope-") else text
        return text

    def may_see(self, way: Way) -> list[Plant]:
        """Return the plants that the caller may see on a path."""
        seen = self.filled.world.plants if way.engine else self.filled.world.seen_from(self.caller)
        return [plant for plant in seen if way.shows.of(plant.fate)]


Call: TypeAlias = Callable[[Asked], Awaitable[object]]


@attrs.frozen
class Way:
    """One way to call a path.

    Attributes:
        call: calls the path, and returns its whole answer.
        shows: the kinds of facts it is meant to show.
        only: filter of the facts requested; all by default.
        whole: whether it must show all of them.
        engine: whether it is a part of the engine, without viewer and view: only ``only`` limits it.
    """

    call: Call
    shows: Shows = attrs.field(default=Shows.NOW)
    only: Callable[[Plant, Asked], bool] = attrs.field(default=lambda plant, asked: True, kw_only=True)
    whole: bool = attrs.field(default=False, kw_only=True)
    engine: bool = attrs.field(default=False, kw_only=True)


def plain(subject: MemorySubject) -> MemorySubject:
    """Return the same subject without a description."""
    return next(one for one in SUBJECTS if one.key == subject.key)


def unnamed_scope(scope: MemoryScope) -> MemoryScope:
    """Return the same scope, or the one above it if a plant named the scope."""
    named = bool(scope.path) and scope.path[-1].startswith("scope-")
    return (scope.parent or scope if named else scope).within(None)


def _ways(ways: Iterable[Way]) -> tuple[Way, ...]:
    return tuple(ways)


@attrs.frozen
class Reads:
    """A path that shows stored facts, and the ways to call it."""

    ways: tuple[Way, ...] = attrs.field(converter=_ways)


@attrs.frozen
class Writes:
    """A path that changes stored facts. Its result is searched as well."""

    ways: tuple[Way, ...] = attrs.field(converter=_ways)


@attrs.frozen
class Neither:
    """A path that shows no stored fact, or none beyond those of another path in these lists.

    Attributes:
        because: the reason.
    """

    because: str


Door: TypeAlias = Reads | Writes | Neither


@attrs.frozen
class Step:
    """One way of one path, with its caller."""

    path: str
    way: Way
    asked: Asked


def memory_at(caller: Caller, filled: FilledStore, **options: Any) -> Memory:
    """Return the memory of a caller."""
    given: dict[str, Any] = {"embedder": EMBEDDER, "clock": filled.clock, "question_analyst": GREEDY_ANALYST}
    memory = Memory(filled.provider, organization=caller.tenant, viewer=caller.viewer, **(given | options))
    return viewed(memory, caller)


def viewed(memory: Memory, caller: Caller) -> Memory:
    """Return a caller's view of a memory."""
    memory = memory.view(reviewed=True) if caller.reviewed else memory
    memory = memory.view(viewer=caller.viewer, individual=caller.individual) if caller.individual else memory
    memory = memory.view(subjects=caller.subjects) if caller.subjects else memory
    if not (caller.roots or caller.exact):
        return memory
    return memory.view(scopes=caller.roots, exact=caller.exact)


@contextmanager
def logged_messages() -> Iterator[list[str]]:
    """Collect all log messages of any level."""
    told: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(f"{record.getMessage()} {record.exc_info}")

    log, listener = logging.getLogger("factmem"), Listener(logging.DEBUG)
    level = log.level
    log.addHandler(listener)
    log.setLevel(logging.DEBUG)
    try:
        yield told
    finally:
        log.removeHandler(listener)
        log.setLevel(level)


async def answer_of(way: Way, asked: Asked) -> list[Leaf]:
    """Call a way, and return its result or error, and all log messages."""
    with logged_messages() as logged:
        try:
            answer: object = await way.call(asked)
        except FactMemError as error:
            answer = error
    return [*leaves(answer), *leaves(logged, "$log")]


async def outcome(made: Callable[[], Awaitable[object]]) -> object:
    """Return the result of a call, or the error that it raises."""
    try:
        return await made()
    except FactMemError as error:
        return error


async def each(items: Iterable[T], done: Callable[[T], Awaitable[object]]) -> list[object]:
    """Return the result of a call for each item, or the error that it raises."""
    return [await outcome(partial(done, item)) for item in items]


def leaked(told: Sequence[Leaf], way: Way, asked: Asked) -> tuple[list[Plant], list[Plant], list[Plant]]:
    """Return the plants shown wrongly, those missing wrongly, and those shown rightly."""
    text = asked.unsaid(text_of([leaf for _, leaf in told]) + " ".join(path for path, _ in told))
    shown = [plant for plant in asked.filled.world.plants if plant.token in text]
    may = {plant.token for plant in asked.may_see(way) if way.only(plant, asked)}
    # Expired facts are erased as soon as a memory is opened.
    missing = [
        plant
        for plant in asked.filled.world.plants
        if plant.token in may and plant not in shown and plant.fate is not Fate.EXPIRED
    ]
    wrong = [plant for plant in shown if plant.token not in may]
    return wrong, missing if way.whole else [], [plant for plant in shown if plant.token in may]
