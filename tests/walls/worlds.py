"""Random worlds: facts on every side of every wall, each with a token of its own in all of its words."""

from __future__ import annotations

import datetime as dt
import enum
import itertools
import random
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import attrs

from factmem import STATEMENT, Concept, Evidence, FactDetails, MemoryScope, MemorySubject, Origin
from factmem.details import UNREVIEWED

BEGAN: Final = dt.datetime(2024, 3, 2, 9, tzinfo=dt.UTC)
NOW: Final = BEGAN + dt.timedelta(days=30)
USER: Final = MemorySubject("user", "who speaks", priority_level=1)

TENANTS: Final = (None, "acme", "acme2")
OWNERS: Final = (None, None, "maya", "maya2", "noah")
SUBJECTS: Final = (USER, USER.individual("maya"), USER.individual("maya2"), MemorySubject.EVERYTHING)
_PATHS: Final = (
    *("/product/a", "/product/ab", "/product/a/x", "/product/ab/x"),
    *("/agent/a", "/cross-product", "/project/a", "/project/ab"),
)
SCOPES: Final = (*map(MemoryScope.parse, _PATHS), MemoryScope.product("a%2Fx"), MemoryScope.product("a/x"))
"""Names with a common beginning, children, the same name in other branches, and names that resemble paths."""

SHARED: Final = Concept.single("home", "Where somebody lives")
MANY: Final = Concept.multiple("pets", "Animals that somebody keeps")
KEYWORDS: Final = (SHARED.keyword, MANY.keyword, STATEMENT.keyword)
_WORDS: Final = [
    *("the", "cat", "sat", "by", "an", "old", "red", "door", "in", "a", "quiet", "green", "house", "near"),
    *("some", "blue", "water"),
]


class Fate(enum.Enum):
    """Fate of a planted fact."""

    CURRENT = "it stands as it was said"
    ACCEPTED = "it was quarantined and accepted"
    SUPERSEDED = "something newer was said"
    REVISED = "it was updated by its id"
    RETRACTED = "it was taken back"
    EXPIRED = "its time is over"
    QUARANTINED = "it was never accepted"
    REJECTED = "it was rejected"
    PENDING = "it waits for a model"
    FAILED = "a model could not read it"

    @property
    def stands(self) -> bool:
        """Return whether it is current, so that a read of the present finds it."""
        return self in (Fate.CURRENT, Fate.ACCEPTED, Fate.PENDING, Fate.FAILED)

    @property
    def apart(self) -> bool:
        """Return whether it has never been trusted so far."""
        return self in (Fate.QUARANTINED, Fate.REJECTED)


@attrs.frozen(kw_only=True)
class Plant:
    """A planted fact.

    Attributes:
        token: a text in its value and in all of its details.
        concept: its concept.
        subject: its subject.
        scope: its scope, including the tenant.
        owner: its owner; None if it is public.
        fate: its later fate.
        said: its time.
        words: the words of its value besides the token.
        talk: the conversation it is from.
        successor: the fact that replaced it.
        unreviewed: whether it is a tool's flagged text that is kept unreviewed.
    """

    token: str
    concept: Concept[Any, Any]
    subject: MemorySubject
    scope: MemoryScope
    owner: str | None
    fate: Fate
    said: dt.datetime
    words: str
    talk: str
    successor: Plant | None = None
    unreviewed: bool = False

    @property
    def value(self) -> str:
        """Return the text of the planted fact."""
        return f"{self.words} {self.token}"

    @property
    def details(self) -> FactDetails:
        """Return the other details of the planted fact, all of which contain the token."""
        evidence = Evidence(
            quote=self.value,
            message_id=f"m-{len(self.words) % 3}",
            speaker=f"speaker-{self.token}",
            conversation_id=self.talk,
            position=len(self.words),
            start=0,
            end=len(self.value),
        )
        tool = self.fate.apart or self.fate is Fate.ACCEPTED
        return FactDetails(
            importance=0.1 + len(self.words) % 9 / 10,
            categories=(f"category-{self.token}", "everywhere"),
            topics=(f"topic-{self.token}",),
            source=f"source-{self.token}",
            owner=self.owner,
            metadata={"note": f"note-{self.token}"},
            evidence=(evidence,),
            origin=Origin.TOOL if tool else Origin.USER,
            flags=(UNREVIEWED,) if self.unreviewed else (),
            expires_at=NOW - dt.timedelta(days=1) if self.fate is Fate.EXPIRED else None,
            labels={"run": f"run-{self.token}"},
        )


@attrs.frozen(kw_only=True)
class Caller:
    """A caller of a memory: its organization, viewer and view.

    Attributes:
        tenant: the organization whose memory it is.
        viewer: the viewer.
        roots: scopes of the view, including their children; without these and ``exact``, these are all scopes.
        exact: scopes of the view, excluding their children.
        subjects: subjects of the view; empty for all.
        individual: the individual whose public facts are read, beside those of other kinds of subjects; None for all.
        reviewed: whether unreviewed records are left out.
    """

    tenant: str | None
    viewer: str | None
    roots: tuple[MemoryScope, ...] = ()
    exact: tuple[MemoryScope, ...] = ()
    subjects: tuple[MemorySubject, ...] = ()
    individual: MemorySubject | None = None
    reviewed: bool = False

    @property
    def confined(self) -> bool:
        """Whether it is a view."""
        return bool(self.roots or self.exact or self.subjects or self.individual)

    def sees(self, plant: Plant) -> bool:
        """Return whether no wall hides a plant from the caller. It is independent of the library's own definition."""
        if self.reviewed and plant.unreviewed:
            return False
        if self.subjects and plant.subject.key not in [subject.key for subject in self.subjects]:
            return False
        if plant.owner is None and not self.reads(plant.subject):
            return False
        return self.tenant == plant.scope.tenant and plant.owner in (None, self.viewer) and self.reaches(plant.scope)

    def reads(self, subject: MemorySubject) -> bool:
        """Return whether reads show what is public about a subject that they do not name."""
        others = self.individual is not None and subject.individual_name is not None
        return not others or subject.key == (self.individual and self.individual.key)

    def reaches(self, scope: MemoryScope) -> bool:
        """Return whether a scope is in the view."""
        if not (self.roots or self.exact):
            return True
        return any(scope.segments == one.segments for one in self.exact) or any(below(scope, one) for one in self.roots)


def below(scope: MemoryScope, root: MemoryScope) -> bool:
    """Return whether a scope equals another or is below it, segment by segment."""
    return all(
        mine == theirs for mine, theirs in itertools.zip_longest(scope.segments[: len(root.segments)], root.segments)
    )


@attrs.frozen
class World:
    """Planted facts, in the order said."""

    plants: tuple[Plant, ...]

    def seen_from(self, caller: Caller) -> list[Plant]:
        """Return the plants that a caller may see."""
        return [plant for plant in self.plants if caller.sees(plant)]

    def hidden_from(self, caller: Caller) -> list[Plant]:
        """Return the plants that a caller may not see."""
        return [plant for plant in self.plants if not caller.sees(plant)]

    def without(self, plants: Iterable[Plant]) -> World:
        """Return the same world without some plants."""
        gone = {plant.token for plant in plants}
        return World(tuple(plant for plant in self.plants if plant.token not in gone))

    def with_unreviewed(self, chance: random.Random) -> World:
        """Return the same world, with some of the tools' texts flagged and unreviewed."""
        return World(
            tuple(
                attrs.evolve(plant, unreviewed=plant.fate is Fate.ACCEPTED and chance.random() < 0.5)
                for plant in self.plants
            )
        )


def world(chance: random.Random, *, size: int = 36) -> World:
    """Make a world.

    Args:
        chance: source of randomness.
        size: approximate number of plants.
    """
    tokens = (f"q{number:04x}z" for number in itertools.count(chance.randrange(1, 4096) * 8))
    times = (BEGAN + dt.timedelta(minutes=number) for number in itertools.count())
    taken: set[tuple[object, ...]] = set()
    scopes = [SCOPES[0], *chance.sample(SCOPES[1:], 4)]
    plants: list[Plant] = []
    while len(plants) < size:
        plants += _planted(chance, scopes, tokens, times, taken)
    return World(tuple(plants))


def _planted(
    chance: random.Random,
    scopes: Sequence[MemoryScope],
    tokens: Iterator[str],
    times: Iterator[dt.datetime],
    taken: set[tuple[object, ...]],
) -> list[Plant]:
    """Return a plant, with its successor if its fate needs one."""
    token, fate = next(tokens), chance.choice(_FATES)
    followed = fate in (Fate.SUPERSEDED, Fate.REVISED)
    scope = chance.choice(scopes).within(chance.choice(TENANTS))
    scope = scope / f"scope-{token}" if chance.random() < 0.25 and not followed else scope
    subject, owner = chance.choice(SUBJECTS), chance.choice(OWNERS)
    concept = _concept(chance, fate, token)
    if concept is SHARED:
        slot = (scope, subject.key, owner)
        concept = _own(token) if slot in taken or followed else concept
        taken.add(slot)
    plant = _plant(
        token,
        Plant(
            token="",
            concept=attrs.evolve(concept, keyword=f"thing-{len(taken)}-{chance.random()}") if followed else concept,
            subject=subject,
            scope=scope,
            owner=owner,
            fate=fate,
            said=next(times),
            words=" ".join(chance.sample(_WORDS, chance.randrange(1, 7))),
            talk=chance.choice(("talk-1", "talk-2", "talk-3")),
        ),
    )
    if not followed:
        return [plant]
    later = attrs.evolve(plant, fate=Fate.CURRENT, said=next(times), words=f"now {plant.words}")
    later = _plant(next(tokens), later)
    return [attrs.evolve(plant, successor=later), later]


def _plant(token: str, like: Plant) -> Plant:
    """Make a plant with a token of its own in all of its words."""
    return attrs.evolve(
        like,
        token=token,
        concept=attrs.evolve(like.concept, description=f"what {token} is about"),
        subject=attrs.evolve(like.subject, prompt_description=f"who is {token}"),
    )


def _own(token: str) -> Concept[Any, Any]:
    return Concept.single(f"key-{token}", "")


def _concept(chance: random.Random, fate: Fate, token: str) -> Concept[Any, Any]:
    """Return a keyword that many places share, or a unique one; pending words are statements."""
    if fate in (Fate.PENDING, Fate.FAILED):
        return STATEMENT
    if fate in (Fate.SUPERSEDED, Fate.REVISED):
        return _own(token)
    return chance.choice((SHARED, MANY, STATEMENT, _own(token)))


_FATES: Final = (*(Fate.CURRENT,) * 6, *Fate)


def callers(chance: random.Random, world: World, count: int) -> Sequence[Caller]:
    """Choose callers that can see some facts, with and without a view."""
    return [_caller(chance, chance.choice(world.plants)) for _ in range(count)]


def _caller(chance: random.Random, plant: Plant) -> Caller:
    tenant, viewer = plant.scope.tenant, plant.owner or chance.choice(OWNERS)
    some = [scope.within(tenant) for scope in chance.sample(SCOPES, chance.randrange(1, 5))]
    (about,) = (subject for subject in SUBJECTS if subject.key == plant.subject.key)
    match chance.randrange(7):
        case 0:
            return Caller(tenant=tenant, viewer=viewer, roots=(plant.scope,))
        case 1:
            return Caller(tenant=tenant, viewer=viewer, roots=tuple(some), exact=(plant.scope,))
        case 2:
            return Caller(tenant=tenant, viewer=viewer, subjects=(about, chance.choice(SUBJECTS)))
        case 3:
            return Caller(tenant=tenant, viewer=viewer, exact=(*some, plant.scope), subjects=(about,))
        case _:
            return Caller(tenant=tenant, viewer=viewer)
