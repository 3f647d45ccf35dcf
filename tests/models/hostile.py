"""Strategies for places and values: a few that often coincide, and some unusual ones."""

from __future__ import annotations

import datetime as dt
import unicodedata
from typing import Any, Final

import attrs
from hypothesis import strategies as st

from factmem.facts import STATEMENT
from factmem.records import Place
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing import strategies
from tests.models.plain_values import TYPES, Mood, MoreMoods, Pet

BASE: Final = dt.datetime(2024, 5, 1, 12, tzinfo=dt.UTC)
TENANTS: Final = (None, "acme")
OWNERS: Final = (None, None, None, "alice", "bob")

_CAFE: Final = unicodedata.normalize("NFC", "café")
_CAFE_APART: Final = unicodedata.normalize("NFD", "café")
_USER: Final = MemorySubject("user", "The user", priority_level=1)
_PLANNER: Final = MemoryScope.agent("planner")

_TEXTS: Final = (
    "Oslo", "oslo", " Oslo", "1", "true", "null", _CAFE, _CAFE_APART, "\u2126", "\u03a9", "a\x00b", "a\nb", "a\u2028b",
    '"; DROP TABLE assertions; --', "[1]", "\ufeff", "\U0001f469\u200d\U0001f680", "\u202egnp", "x" * 20_000,
    "\u6f22" * 5_000,
)  # fmt: skip
_JSON: Final[tuple[Any, ...]] = (
    1, 1.0, True, 0, 0.0, -0.0, False, None, "1", "", [], {}, [[]], [1], [1.0], [True], {"a": 1, "b": 2},
    {"b": 2, "a": 1}, {_CAFE: 1}, {_CAFE_APART: 1}, {_CAFE: 1, _CAFE_APART: 2}, {_CAFE_APART: 2, _CAFE: 1}, 2**70,
    1e300, 10**300, 5e-324, [[[[[[[["deep"]]]]]]]], {"": {"": {}}}, "x" * 20_000,
)  # fmt: skip
_OF_KIND: Final[dict[str, st.SearchStrategy[Any]]] = {
    "text": st.sampled_from(_TEXTS) | strategies.texts(min_size=1).filter(str.strip),
    "json": st.sampled_from(_JSON) | strategies.json_values(),
    "whole": st.sampled_from([0, 1, -1, 2**63, 10**40]) | st.integers(),
    "perhaps whole": st.sampled_from([0, 1, None]),
    "number": st.sampled_from([0.0, -0.0, 1.0, 0.1, 1e308, 5e-324]),
    "day": st.dates(dt.date(1999, 12, 30), dt.date(2000, 1, 2)) | st.just(dt.date(1, 1, 1)),
    "mood": st.sampled_from(Mood),
    "more moods": st.sampled_from(MoreMoods),
    "pet": st.builds(Pet, st.sampled_from(["Rex", _CAFE, _CAFE_APART, ""]), st.sampled_from([None, 0, 1])),
}
_KEYWORDS: Final = (
    ("city", "text", False), ("languages", "text", True), ("seats", "whole", False), ("things", "json", True),
    ("thing", "json", False), ("moods", "mood", True), ("pets", "pet", True), ("share", "number", True),
    ("born", "day", False), (_CAFE, "text", False), (_CAFE_APART, "perhaps whole", True),
    (STATEMENT.keyword, "text", True),
)  # fmt: skip


def at(minutes: int) -> dt.datetime:
    """Return a time some minutes after the beginning."""
    return BASE + dt.timedelta(minutes=minutes)


def times() -> st.SearchStrategy[dt.datetime]:
    """Times that often coincide, the first and last possible ones, and one a microsecond away."""
    odd = [dt.datetime(1, 1, 1, tzinfo=dt.UTC), dt.datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=dt.UTC)]
    return st.integers(0, 5).map(at) | st.sampled_from([*odd, at(2) + dt.timedelta(microseconds=1)])


def values(kind: str) -> st.SearchStrategy[Any]:
    """Values of a type."""
    return _OF_KIND[kind]


@attrs.frozen
class World:
    """The places and keywords of one run.

    Attributes:
        places: the places, without their tenant.
        keywords: each with its usual type, and whether it usually has many values.
    """

    places: tuple[Place, ...]
    keywords: tuple[tuple[str, str, bool], ...]


_PLACES: Final = (
    Place(_USER, _PLANNER),
    Place(_USER, _PLANNER / "x"),
    Place(_USER.individual("alice"), _PLANNER),
    Place(_USER.individual("bob"), _PLANNER),
    Place(MemorySubject("user:alice"), _PLANNER),
    Place(MemorySubject.EVERYTHING, MemoryScope.CROSS_PRODUCT),
    Place(_USER, MemoryScope.CROSS_PRODUCT / "a/b"),
    Place(_USER, MemoryScope.CROSS_PRODUCT / "a" / "b"),
    Place(_USER, MemoryScope.product(_CAFE)),
    Place(_USER, MemoryScope.product(_CAFE_APART)),
    Place(_USER, MemoryScope.product("..")),
)


@st.composite
def worlds(draw: st.DrawFn) -> World:
    """A few places and keywords, hostile ones among them."""
    places = draw(st.lists(st.sampled_from(_PLACES), min_size=1, max_size=2, unique=True))
    strange = draw(st.lists(st.builds(Place, strategies.subjects(), strategies.scopes()), max_size=1))
    keywords = draw(st.lists(st.sampled_from(_KEYWORDS), min_size=1, max_size=3, unique=True))
    named = draw(st.lists(st.tuples(strategies.names(), st.sampled_from(sorted(TYPES)), st.booleans()), max_size=1))
    return World((*places, *strange), (*keywords, *named))
