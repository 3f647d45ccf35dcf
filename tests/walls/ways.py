"""Definitions of walks: how a path is walked, what may be seen on it, and who asks."""

from __future__ import annotations

import enum
import logging
import random
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

import attrs

from factmem import Memory, MemoryScope, MemorySubject
from factmem.errors import FactMemError
from factmem.testing import HashEmbedder
from tests.walls.curious import CURIOUS
from tests.walls.leaves import Leaf, leaves, text_of
from tests.walls.stores import Grown
from tests.walls.worlds import SCOPES, SUBJECTS, Fate, Plant, Seat

__all__ = [
    "Asked",
    "Door",
    "Neither",
    "Reads",
    "Shows",
    "Step",
    "Way",
    "Writes",
    "leaked",
    "memory_at",
    "plain",
    "remarks",
    "walked",
]

T = TypeVar("T")
EMBEDDER: Final = HashEmbedder(64)


class Shows(enum.Enum):
    """Kinds of facts that a path is there to show, among those its seat may see."""

    NOW = "what is current"
    EVER = "also what was current once"
    KEPT = "also what is kept apart"
    APART = "what is quarantined"
    REJECTED = "what was turned away"
    LETTERS = "what could not be read"
    NOTHING = "no fact at all"

    def of(self, fate: Fate) -> bool:
        """Whether what had such a fate is among it."""
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
    """Context of one walk along a path: who asks, and for what.

    Attributes:
        grown: the world, in its store.
        seat: where it is looked from.
        memory: the memory, as that seat has it.
        reader: what reading is asked of: the memory, or an earlier moment of it.
        scope: a scope that the seat reaches.
        subject: somebody.
        some: what was planted anywhere, a few of all.
        near: what was planted where the seat may write, by whomever in whichever organization.
        query: words to look for, those of somebody else among them.
        client: a client of an MCP server of the memory, or the command line, for the paths that lead through one.
    """

    grown: Grown
    seat: Seat
    memory: Memory
    reader: Memory
    scope: MemoryScope
    subject: MemorySubject
    some: Sequence[Plant]
    near: Sequence[Plant]
    query: str
    client: Any = None

    @classmethod
    def of(cls, grown: Grown, seat: Seat, chance: random.Random, memory: Memory) -> Asked:
        """Choose what is asked for."""
        seen = [plant for plant in grown.world.seen_from(seat) if plant.fate.stands]
        scopes = [scope for scope in SCOPES if seat.reaches(scope.within(seat.tenant))]
        scopes += [scope.within(None) for scope in (*seat.roots, *seat.exact)]
        scope, subject = chance.choice(scopes), chance.choice(SUBJECTS)
        if seen and chance.random() < 0.7:
            somewhere = chance.choice(seen)
            scope, subject = somewhere.scope.within(None), plain(somewhere.subject)
        some = chance.sample(grown.world.plants, min(6, len(grown.world.plants)))
        near = [plant for plant in grown.world.plants if seat.reaches(unnamed_scope(plant.scope).within(seat.tenant))]
        return cls(
            grown=grown,
            seat=seat,
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
        """The ids of a few records anywhere, and one that nothing has."""
        return [*(self.grown.records[plant.token] for plant in self.some), "0" * 32]

    def unsaid(self, text: str) -> str:
        """Return a text without the names of scopes that the seat itself named: it is told nothing by those."""
        for scope in (self.scope, *self.seat.roots, *self.seat.exact):
            for segment in scope.path:
                text = text.replace(segment, "") if segment.startswith("scope-") else text
        return text

    def may_see(self, way: Way) -> list[Plant]:
        """Return what the seat may see on a path."""
        seen = self.grown.world.plants if way.engine else self.grown.world.seen_from(self.seat)
        return [plant for plant in seen if way.shows.of(plant.fate)]


Call: TypeAlias = Callable[[Asked], Awaitable[object]]


@attrs.frozen
class Way:
    """One way to walk a path.

    Attributes:
        call: walks it, and returns all that is told on it.
        shows: what it is there to show.
        only: what of that it was asked for; all of it, if nothing else is said.
        whole: whether it must show all of that.
        engine: whether it knows no viewer and no view, for the engine is made of it: nothing but ``only`` confines it.
    """

    call: Call
    shows: Shows = attrs.field(default=Shows.NOW)
    only: Callable[[Plant, Asked], bool] = attrs.field(default=lambda plant, asked: True, kw_only=True)
    whole: bool = attrs.field(default=False, kw_only=True)
    engine: bool = attrs.field(default=False, kw_only=True)


def plain(subject: MemorySubject) -> MemorySubject:
    """The same subject, described by nobody."""
    return next(one for one in SUBJECTS if one.key == subject.key)


def unnamed_scope(scope: MemoryScope) -> MemoryScope:
    """The same scope, or the one above it if that was named by what was planted there."""
    named = bool(scope.path) and scope.path[-1].startswith("scope-")
    return (scope.parent or scope if named else scope).within(None)


def _ways(ways: Iterable[Way]) -> tuple[Way, ...]:
    return tuple(ways)


@attrs.frozen
class Reads:
    """A path that shows what is kept, and the ways to walk it."""

    ways: tuple[Way, ...] = attrs.field(converter=_ways)


@attrs.frozen
class Writes:
    """A path that changes what is kept. What it hands back is looked at as well."""

    ways: tuple[Way, ...] = attrs.field(converter=_ways)


@attrs.frozen
class Neither:
    """A path that shows nothing of what is kept, or nothing that another path in these lists does not show.

    Attributes:
        because: why that is so.
    """

    because: str


Door: TypeAlias = Reads | Writes | Neither


@attrs.frozen
class Step:
    """One way of one path, and who walks it."""

    path: str
    way: Way
    asked: Asked


def memory_at(seat: Seat, grown: Grown, **options: Any) -> Memory:
    """Return the memory that a seat has."""
    given: dict[str, Any] = {"embedder": EMBEDDER, "clock": grown.clock, "question_analyst": CURIOUS}
    memory = Memory(grown.provider, organization=seat.tenant, viewer=seat.viewer, **(given | options))
    return viewed(memory, seat)


def viewed(memory: Memory, seat: Seat) -> Memory:
    """Return a seat's view of a memory."""
    memory = memory.reviewed() if seat.reviewed else memory
    memory = memory.about(seat.subjects) if seat.subjects else memory
    if not (seat.roots or seat.exact):
        return memory
    return memory.slice(seat.roots, exact=seat.exact, read_only=False)


@contextmanager
def remarks() -> Iterator[list[str]]:
    """Gather what is logged meanwhile, by anybody and however unimportant."""
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


async def walked(way: Way, asked: Asked) -> list[Leaf]:
    """Walk a way, and return all that is told: what is returned or raised, and what is logged."""
    with remarks() as logged:
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
    """Return what of a world was told and must not be; what was not and must be; and what was, and may be."""
    text = asked.unsaid(text_of([leaf for _, leaf in told]) + " ".join(path for path, _ in told))
    shown = [plant for plant in asked.grown.world.plants if plant.token in text]
    may = {plant.token for plant in asked.may_see(way) if way.only(plant, asked)}
    # What has expired is erased as soon as a memory is opened.
    missing = [
        plant
        for plant in asked.grown.world.plants
        if plant.token in may and plant not in shown and plant.fate is not Fate.EXPIRED
    ]
    wrong = [plant for plant in shown if plant.token not in may]
    return wrong, missing if way.whole else [], [plant for plant in shown if plant.token in may]
