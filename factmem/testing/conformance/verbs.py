"""Specs of the four verbs and the close: values, sets, types, reading, walls and the life of a store."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

import datetime as dt
import enum
import itertools
import unicodedata
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.lowlevel
import attrs
import pytest

from factmem.abc.capabilities import KeepsLog
from factmem.abc.provider import AgentMemoryProvider
from factmem.errors import ConceptConflictError, FactMemError, InvalidDataError, InvalidNameError, ProviderClosedError
from factmem.facts import ClockTime, Concept, Fact, FactType, SingleFact
from factmem.records import Recorded
from factmem.scopes import MemoryScope, ScopeKind
from factmem.store_findings import Severity
from factmem.subjects import MemorySubject
from factmem.testing.conformance.case import ProviderCase, Store, files_in
from factmem.testing.conformance.samples import (
    ADDRESS,
    CITY,
    COLOUR,
    LANGUAGES,
    PLANNER,
    SEATS,
    USER,
    Address,
    Colour,
    at,
    multiple,
    refused,
    single,
)
from factmem.testing.fakes import FakeClock, capabilities_of
from factmem.values import MAX_VALUE_BYTES

_FACTS: Final[list[SingleFact[Any]]] = [
    single(CITY, "Oslo"),
    single(CITY, '"quoted" \\ line\nbreak\ttab \u2028 % _ \' ; -- \x00 end'),
    single(CITY, "Zürich, 서울, القاهرة, 東京, 👩‍🚀"),
    single(SEATS, 2**70),
    single(SEATS, -1),
    single(Concept.single("ratio", "", float), 0.1),
    single(Concept.single("member", "", bool), value=True),
    single(COLOUR, Colour.GREEN),
    single(Concept.single("born", "", dt.date), dt.date(1990, 2, 28)),
    single(Concept.single("woken", "", dt.datetime), at(7)),
    single(ADDRESS, Address("Hauptstraße", 7)),
    single(ADDRESS, Address("Hauptstraße", 7, floor=3)),
    single(Concept.single("route", "", list[Address]), [Address("a", 1), Address("b", 2, floor=0)]),
    single(Concept.single("anything", "", object), {"a": [1, 2.5, None, {"b": False}]}),
]


class ValueSpecs(ProviderCase):
    """Specs of SINGLE concepts."""

    @pytest.mark.parametrize("fact", _FACTS, ids=lambda fact: f"{fact.concept.keyword}")
    async def test_a_value_reads_back_equal_and_of_its_type(self, store: Store, fact: SingleFact[Any]) -> None:
        await store.save(fact)
        loaded = await store.load(fact.concept)
        assert loaded is not None
        assert loaded == fact
        assert type(loaded.value) is type(fact.value)

    async def test_the_times_of_a_fact_read_back(self, store: Store) -> None:
        """Times are exact to the microsecond, and in UTC whatever their zone was."""
        tokyo = dt.timezone(dt.timedelta(hours=9))
        fact = SingleFact(
            CITY,
            "Oslo",
            timestamp=dt.datetime(2024, 3, 1, 8, 30, 15, 123456, tzinfo=tokyo),
            valid_from=dt.datetime(1999, 12, 31, 23, tzinfo=tokyo),
            valid_to=dt.datetime(2030, 1, 1, tzinfo=tokyo),
        )
        await store.save(fact)
        loaded = await store.load(CITY)
        assert loaded is not None
        assert loaded == fact
        assert loaded.timestamp.tzinfo is dt.UTC

    async def test_the_newest_timestamp_wins_whatever_the_order_of_arrival(self, store: Store) -> None:
        facts = [single(CITY, "oldest", 1), single(CITY, "middle", 2), single(CITY, "newest", 3)]
        for number, order in enumerate(itertools.permutations(facts)):
            subject = USER.individual(f"person {number}")
            for fact in order:
                await store.save(fact, subject)
            assert await store.load(CITY, subject) == facts[-1]

    async def test_a_then_b_then_a_again_ends_at_a(self, store: Store) -> None:
        for minute, city in enumerate(["A", "B", "A"]):
            await store.save(single(CITY, city, minute))
        assert await store.load(CITY) == single(CITY, "A", 2)

    async def test_of_equal_timestamps_the_later_save_wins_and_the_same_fact_again_changes_nothing(
        self, store: Store
    ) -> None:
        first, second = single(CITY, "first"), single(CITY, "second")
        for fact in (first, second, first):
            await store.save(fact)
        assert await store.value(CITY) == "second"

    async def test_what_is_said_last_is_current_although_the_clock_steps_back(self, tmp_path: Path) -> None:
        """And the times of recording grow with the sequence."""
        clock = FakeClock()
        provider = await self.open_provider_with_clock(tmp_path, clock)
        if provider is None:
            pytest.skip(f"{type(self).__name__} does not write open_provider_with_clock")
        async with Store(provider) as store:
            for number, minutes in enumerate((0, -60, 30, -5, 90)):
                clock.advance(dt.timedelta(minutes=minutes))
                await store.save(CITY.fact([f"city {number}"], timestamp=ClockTime.of(clock())))
                assert await store.value(CITY) == f"city {number}"
            log = await store.changes() if isinstance(provider, KeepsLog) else []
        times = [entry.recorded_at for entry in log if isinstance(entry, Recorded)]
        assert times == sorted(times)

    @pytest.mark.parametrize("text", ["x", "é", "👩", "\n"], ids=["ascii", "two bytes", "four bytes", "escaped"])
    async def test_a_value_near_the_limit_reads_back(self, store: Store, text: str) -> None:
        written = 2 if text == "\n" else len(text.encode())
        value = "v" + text * ((MAX_VALUE_BYTES - 3) // written)
        await store.save(single(CITY, value))
        assert await store.value(CITY) == value


class SetSpecs(ProviderCase):
    """Specs of MULTIPLE concepts."""

    async def test_saves_are_united_in_the_order_first_said(self, store: Store) -> None:
        await store.save(multiple(LANGUAGES, "Thai", "Ewe", minutes=1))
        await store.save(multiple(LANGUAGES, "Ewe", "Ainu", "Thai", minutes=2))
        assert await store.values(LANGUAGES) == ["Thai", "Ewe", "Ainu"]

    async def test_what_was_said_earlier_comes_first_though_it_arrived_later(self, store: Store) -> None:
        await store.save(multiple(LANGUAGES, "Ainu", minutes=3))
        await store.save(multiple(LANGUAGES, "Thai", minutes=1))
        await store.save(multiple(LANGUAGES, "Ewe", minutes=2))
        assert await store.values(LANGUAGES) == ["Thai", "Ewe", "Ainu"]

    async def test_a_loaded_set_has_the_newest_timestamp(self, store: Store) -> None:
        await store.save(multiple(LANGUAGES, "Thai", minutes=5))
        await store.save(multiple(LANGUAGES, "Ewe", minutes=1))
        assert await store.load(LANGUAGES) == multiple(LANGUAGES, "Ewe", "Thai", minutes=5)

    async def test_the_same_facts_again_change_nothing(self, store: Store) -> None:
        fact = multiple(LANGUAGES, "Thai", "Ewe")
        for _ in range(3):
            await store.save(fact)
        assert await store.load(LANGUAGES) == fact

    async def test_texts_equal_in_nfc_are_one_value(self, store: Store) -> None:
        """Both within one fact and over several."""
        composed, decomposed = (unicodedata.normalize(form, "Français") for form in ("NFC", "NFD"))
        await store.save(multiple(LANGUAGES, composed, decomposed, minutes=1))
        await store.save(multiple(LANGUAGES, decomposed, minutes=2))
        (value,) = await store.values(LANGUAGES)
        assert unicodedata.normalize("NFC", value) == composed

    async def test_one_and_one_point_zero_and_true_are_three_values(self, store: Store) -> None:
        concept = Concept.multiple("anything", "Whatever was said", object)
        await store.save(multiple(concept, 1, 1.0, True))
        await store.save(multiple(concept, True, 1.0, 1, minutes=1))
        assert [(type(value), value) for value in await store.values(concept)] == [(int, 1), (float, 1.0), (bool, True)]

    async def test_case_and_white_space_tell_values_apart(self, store: Store) -> None:
        values = ["thai", "Thai", " Thai", "Thai "]
        await store.save(multiple(LANGUAGES, *values))
        assert await store.values(LANGUAGES) == values

    async def test_values_of_a_class_are_united_too(self, store: Store) -> None:
        concept = Concept.multiple("homes", "Where the person has lived", Address)
        home, office = Address("Weg", 1), Address("Weg", 2, floor=4)
        await store.save(multiple(concept, home, office))
        await store.save(multiple(concept, Address("Weg", 1), minutes=1))
        assert await store.values(concept) == [home, office]

    async def test_many_values_come_back_in_order(self, store: Store) -> None:
        values = [f"language {number}" for number in range(300)]
        await store.save(multiple(LANGUAGES, *values))
        assert await store.values(LANGUAGES) == values


@attrs.frozen
class _AddressLater:
    """`Address` in a later version of an application: a field with a default was added."""

    street: str
    number: int
    floor: int | None = None
    country: str = "Norway"


@attrs.frozen
class _AddressOther:
    """`Address` with a field that the stored ones do not have and that has no default."""

    street: str
    number: int
    country: str


class _ColourLater(enum.Enum):
    RED = "red"
    GREEN = "green"
    BLUE = "blue"


_LATER: Final = Concept.single(ADDRESS.keyword, ADDRESS.description, _AddressLater)
_SEATS_AS_TEXT: Final = Concept.single(SEATS.keyword, SEATS.description)
_SEATS_AS_SET: Final = Concept.multiple(SEATS.keyword, SEATS.description, int)


class TypeSpecs(ProviderCase):
    """Specs of types: conflicts raise typed errors and leave the store unchanged; compatible types do not conflict."""

    async def test_another_fact_type_is_refused(self, store: Store) -> None:
        await store.save(single(SEATS, 12345, 1))
        with pytest.raises(ConceptConflictError, match=r"(?s)seats.*SINGLE.*MULTIPLE") as refusal:
            await store.save(multiple(_SEATS_AS_SET, 67890, minutes=2))
        assert "12345" not in str(refusal.value)
        assert "67890" not in str(refusal.value)
        assert await store.load_all() == [single(SEATS, 12345, 1)]

    async def test_another_value_type_is_refused(self, store: Store) -> None:
        await store.save(single(SEATS, 12345, 1))
        with pytest.raises(ConceptConflictError, match=r"(?s)seats.*int.*str") as refusal:
            await store.save(single(_SEATS_AS_TEXT, "a secret", 2))
        assert "secret" not in str(refusal.value)
        assert await store.load_all() == [single(SEATS, 12345, 1)]

    async def test_no_value_of_a_refused_fact_is_kept(self, store: Store) -> None:
        await store.save(multiple(LANGUAGES, "Thai"))
        numbers = Concept.multiple(LANGUAGES.keyword, LANGUAGES.description, int)
        await refused(ConceptConflictError, store.save(multiple(numbers, 1, 2, 3, minutes=1)))
        assert await store.values(LANGUAGES) == ["Thai"]

    @pytest.mark.parametrize("wrong", [_SEATS_AS_TEXT, _SEATS_AS_SET], ids=["value type", "fact type"])
    async def test_loading_as_another_type_is_refused(self, store: Store, wrong: Concept[Any, Any]) -> None:
        await store.save(single(SEATS, 4))
        await refused(ConceptConflictError, store.load(wrong))

    async def test_a_superseded_value_still_holds_the_type(self, store: Store) -> None:
        """History must stay readable with the present type."""
        for minute in range(3):
            await store.save(single(SEATS, minute, minute))
        await refused(ConceptConflictError, store.save(single(_SEATS_AS_TEXT, "four", 9)))

    async def test_a_field_added_with_a_default_is_compatible(self, store: Store) -> None:
        await store.save(single(ADDRESS, Address("Weg", 1), 1))
        assert await store.value(_LATER) == _AddressLater("Weg", 1, country="Norway")
        newer = single(_LATER, _AddressLater("Weg", 2, country="Chad"), 2)
        await store.save(newer)
        assert await store.load(_LATER) == newer

    async def test_a_field_added_without_a_default_is_not_compatible(self, store: Store) -> None:
        await store.save(single(ADDRESS, Address("Weg", 1), 1))
        other = Concept.single(ADDRESS.keyword, ADDRESS.description, _AddressOther)
        await refused(ConceptConflictError, store.save(single(other, _AddressOther("Weg", 2, "Chad"), 2)))
        await refused(ConceptConflictError, store.load(other))

    async def test_an_enum_that_gained_members_is_compatible(self, store: Store) -> None:
        later = Concept.single(COLOUR.keyword, COLOUR.description, _ColourLater)
        await store.save(single(COLOUR, Colour.GREEN, 1))
        assert await store.value(later) is _ColourLater.GREEN
        await store.save(single(later, _ColourLater.BLUE, 2))
        await refused(ConceptConflictError, store.load(COLOUR))

    async def test_undeclared_json_reads_every_type(self, store: Store) -> None:
        await store.save(single(ADDRESS, Address("Weg", 1)))
        undeclared = Concept.single(ADDRESS.keyword, "whatever it is", object)
        assert await store.value(undeclared) == {"street": "Weg", "number": 1, "floor": None}


class ReadingSpecs(ProviderCase):
    """Specs of `load_all` and `load_by_description`."""

    async def test_load_all_gives_one_fact_a_concept_in_the_order_first_said(self, store: Store) -> None:
        await store.save(single(SEATS, 4, 3))
        await store.save(multiple(LANGUAGES, "Thai", minutes=1))
        await store.save(single(CITY, "Oslo", 2))
        await store.save(multiple(LANGUAGES, "Ewe", minutes=4))
        await store.save(single(SEATS, 5, 5))
        facts = await store.load_all()
        assert [(fact.concept.keyword, fact.values) for fact in facts] == [
            ("languages", ("Thai", "Ewe")),
            ("city", ("Oslo",)),
            ("seats", (5,)),
        ]

    async def test_load_all_gives_the_concepts_as_they_were_saved(self, store: Store) -> None:
        for fact in (single(SEATS, 4), multiple(LANGUAGES, "Thai")):
            await store.save(fact)
        concepts = {fact.concept.keyword: fact.concept for fact in await store.load_all()}
        assert concepts == {"seats": SEATS, "languages": LANGUAGES}
        assert concepts["languages"].fact_type is FactType.MULTIPLE

    async def test_values_of_declared_classes_read_as_json(self, store: Store) -> None:
        """No class is looked up by name: a reader without the declared concept gets JSON."""
        await store.save(single(ADDRESS, Address("Weg", 1, floor=2), 1))
        await store.save(single(COLOUR, Colour.RED, 2))
        await store.save(single(Concept.single("born", "", dt.date), dt.date(1990, 1, 2), 3))
        values = [fact.values[0] for fact in await store.load_all()]
        assert values == [{"street": "Weg", "number": 1, "floor": 2}, "red", dt.date(1990, 1, 2)]

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            ("seats", ["seats"]),
            ("SEATS THE PLAN", ["seats"]),
            ("person", ["city", "languages"]),
            ("  where ", ["city", "address"]),
            ("lang", ["languages"]),
            ("Oslo", []),
            ("%", []),
            ("_", []),
            ("*", []),
            ("'", []),
        ],
    )
    async def test_a_text_is_found_in_description_or_keyword(self, store: Store, text: str, found: list[str]) -> None:
        """A substring matches regardless of case; values are not searched, and there are no wildcards."""
        await store.save(single(SEATS, 4, 1))
        await store.save(single(CITY, "Oslo", 2))
        await store.save(multiple(LANGUAGES, "Thai", "Ewe", minutes=3))
        await store.save(single(ADDRESS, Address("Oslo", 1), 4))
        facts = await store.find(text)
        assert [fact.concept.keyword for fact in facts] == found

    @pytest.mark.parametrize(
        ("written", "asked"),
        [
            ("Hauptstraße", "HAUPTSTRASSE"),
            ("ΣΊΣΥΦΟΣ", "σίσυφος"),
            ("Ｃｉｔｙ", "city"),
            ("Cafe\u0301", "café"),
            ("100%_sure", "%_s"),
            ("谁住在这里", "住在"),
            ('it\'s a "test"', 's a "t'),
        ],
    )
    async def test_both_texts_are_folded_alike(self, store: Store, written: str, asked: str) -> None:
        await store.save(single(Concept.single("other", "Something else"), "x"))
        await store.save(single(Concept.single("wanted", f"The {written} here"), "x"))
        facts = await store.find(asked)
        assert [fact.concept.keyword for fact in facts] == ["wanted"]

    async def test_a_found_fact_is_whole_and_current(self, store: Store) -> None:
        await store.save(single(CITY, "Rome", 1))
        await store.save(single(CITY, "Oslo", 2))
        await store.save(multiple(LANGUAGES, "Thai", "Ewe", minutes=3))
        found = await store.find("person")
        assert list(found) == [single(CITY, "Oslo", 2), multiple(LANGUAGES, "Thai", "Ewe", minutes=3)]

    @pytest.mark.parametrize("text", ["", "   ", "\n\t"])
    async def test_looking_for_nothing_is_an_error(self, store: Store, text: str) -> None:
        await refused(InvalidDataError, store.find(text))


_HOSTILE_NAMES: Final = (
    ".", "..", "...", "../..", "..\\..", "/", "//", "a/b", "a\\b", "/etc/passwd", "C:\\x", "~", "$HOME", "`id`",
    "%", "%2F", "%2e%2e", "%00", "100%", "_", "a_b", "axb", "*", "?", "'", "''", '"', "';--", "a b", " a", "a ", "a.",
    "a", "A", "ab", "CON", "con", "nul.txt", "-rf", "#x", "a:b", "a|b", "a@b", "a&b", "a=b", "[a]", "{a}", "<a>",
    "é", "e\u0301", "É", "ﬁ", "fi", "ß", "ss", "ı", "i", "I", "İ", "小明", "김철수", "علي", "עברית", "ไทย", "👩",
    "👩‍🚀", "\u200d", "\u202eabc", "\u00a0x", "None", "null",
    "default", "cross-product", "agent", "everything", "0", "00", "1e3",
    "n" * 512, "n" * 511, "N" * 512, "界" * 512, "👩" * 512,
)  # fmt: skip
"""Names that a careless store splits, conflates, or passes on to a file system or a query."""

_Where = tuple[MemorySubject, MemoryScope]

_ALPHA: Final = MemoryScope.product("alpha")
_ROOT: Final = MemoryScope.CROSS_PRODUCT


def _within(*tenants: str | None) -> list[_Where]:
    return [(USER, PLANNER.within(tenant)) for tenant in tenants]


def _in(*scopes: MemoryScope) -> list[_Where]:
    return [(USER, scope) for scope in scopes]


def _of(*subjects: MemorySubject) -> list[_Where]:
    return [(subject, PLANNER) for subject in subjects]


_KINDS: Final = [MemoryScope(kind, ("x",)) for kind in ScopeKind]
_PROJECT: Final = _ROOT / "project"
_WALLED: Final[dict[str, list[_Where]]] = {
    "tenants": _within(None, "acme", "Acme", "acme/eu", "None", "default", "null", "agent", ".."),
    # A key that joins the tenant to the path, or omits it in some branch, mixes some of these.
    "tenants and segments": _in(
        *dict.fromkeys(
            [
                scope.within(tenant)
                for tenant in (None, "acme", "@acme", "acme/product")
                for scope in (_ROOT, _ROOT / "x", *_KINDS, MemoryScope.product("x") / "y")
            ]
        ),
        _ROOT / "acme" / "x",
        _ROOT / "acme" / "product" / "x",
        _ROOT / "@acme" / "x",
        _ROOT / "%40acme" / "x",
    ),
    "kinds of one name": _in(*_KINDS),
    "parents and children": _in(_ALPHA, _ALPHA / "decisions", _ALPHA / "decisions" / "2024", _ALPHA / "2024"),
    "siblings of a common prefix": _in(
        _PROJECT / "a", _PROJECT / "ab", _PROJECT / "a" / "b", _PROJECT / "a b", _ROOT / "projecta"
    ),
    "slashes in a segment": _in(
        _ROOT / "a/b", _ROOT / "a" / "b", _ROOT / "a%2Fb", _ROOT / "a" / "/b", _ROOT / "a/" / "b"
    ),
    "cross-product and branches": _in(
        _ROOT, _ROOT / "agent", _ROOT / "agent" / "x", MemoryScope.agent("x"), _ROOT / "cross-product"
    ),
    "subjects": _of(USER, MemorySubject("User"), MemorySubject("users"), MemorySubject.EVERYTHING),
    # Reading a subject never reads an individual, nor the reverse, whatever their names are.
    "individuals": _of(
        USER,
        *(USER.individual(name) for name in ("alice", "bob", "user", "alice:bob")),
        *(MemorySubject(name) for name in ("user:alice", "alice", "user/alice")),
        MemorySubject("user:alice").individual("bob"),
    ),
    "hostile scopes": _in(*map(MemoryScope.product, _HOSTILE_NAMES)),
    "hostile children": _in(*(_ROOT / "x" / name for name in _HOSTILE_NAMES)),
    "hostile subjects": _of(*map(MemorySubject, _HOSTILE_NAMES)),
    "hostile individuals": _of(*map(USER.individual, _HOSTILE_NAMES)),
    "hostile tenants": _within(*_HOSTILE_NAMES),
}
"""Places that a careless store mixes."""


class WallSpecs(ProviderCase):
    """Specs of tenants, scopes, subjects and individuals, with hostile names."""

    @pytest.mark.parametrize("places", _WALLED.values(), ids=_WALLED.keys())
    async def test_places_are_walls(self, store: Store, places: Sequence[_Where]) -> None:
        """A place is empty while its neighbours have facts; then each has another value, on every read path."""
        numbered = list(enumerate(places))
        await _save_together(store, numbered[::2])
        for _, place in numbered[1::2]:
            assert await _read(store, place) == (None, [], []), place
        await _save_together(store, numbered[1::2])
        for number, place in numbered:
            fact = single(CITY, f"city {number}", number)
            assert await _read(store, place) == (fact, [fact], [fact]), place

    async def test_a_subject_is_known_by_its_name_alone(self, store: Store) -> None:
        """A subject with another description or priority is the same one."""
        await store.save(single(CITY, "Oslo"))
        same = MemorySubject("user", "described anew", priority_level=99)
        assert await store.load(CITY, same, PLANNER) == single(CITY, "Oslo")

    async def test_a_keyword_has_its_own_type_in_every_place(self, store: Store) -> None:
        other = Concept.multiple(CITY.keyword, "Cities", int)
        await store.save(single(CITY, "Oslo"))
        await store.save(multiple(other, 1, 2), USER, PLANNER / "child")
        await store.save(multiple(other, 3), USER, PLANNER.within("acme"))
        assert await store.load(CITY) == single(CITY, "Oslo")
        assert await store.load(other, USER, PLANNER / "child") == multiple(other, 1, 2)

    async def test_the_same_fact_at_names_that_look_alike_is_kept_in_each(self, store: Store) -> None:
        """Two names are the same only if they are equal; normal forms apply to values, never to names."""
        for composed, decomposed in [("é", "e\u0301"), ("\ufb01", "fi"), ("한", "\u1112\u1161\u11ab")]:
            for name in (composed, decomposed):
                await store.save(single(CITY, "Oslo"), MemorySubject(name), PLANNER)
                await store.save(single(CITY, "Oslo"), USER, MemoryScope.product(name))
                await store.save(single(Concept.single(name, "d"), "Oslo"))
            for name in (composed, decomposed):
                assert await store.load(CITY, MemorySubject(name), PLANNER) == single(CITY, "Oslo")
                assert await store.load(CITY, USER, MemoryScope.product(name)) == single(CITY, "Oslo")
                assert await store.load(Concept.single(name, "d"), USER, PLANNER) is not None

    async def test_hostile_keywords_are_keys_of_their_own(self, store: Store) -> None:
        facts = [single(Concept.single(name, "d", int), number, number) for number, name in enumerate(_HOSTILE_NAMES)]
        for fact in facts:
            await store.save(fact)
        assert await store.load_all() == facts
        for fact in facts:
            assert await store.load(fact.concept) == fact

    async def test_names_that_no_store_can_carry_never_reach_it(self, store: Store) -> None:
        for name in ("", " ", "a\x00b", "a\nb", "\ud800", "n" * 513):
            with pytest.raises(InvalidNameError):
                await store.save(single(CITY, "Oslo"), USER, MemoryScope.product(name))
            with pytest.raises(InvalidNameError):
                await store.save(single(CITY, "Oslo"), USER.individual(name), PLANNER)
        assert await store.load_all() == []


async def _save_together(store: Store, numbered: Sequence[tuple[int, _Where]]) -> None:
    async with anyio.create_task_group() as tasks:
        for number, place in numbered:
            tasks.start_soon(store.save, single(CITY, f"city {number}", number), *place)


async def _read(store: Store, place: _Where) -> tuple[Fact[Any] | None, list[Fact[Any]], list[Fact[Any]]]:
    return await store.load(CITY, *place), await store.load_all(*place), await store.find("city", *place)


def _numbered(number: int) -> SingleFact[Any]:
    return single(Concept.single(f"concept {number:03}", "One of many", int), number, number)


class LifecycleSpecs(ProviderCase):
    """Specs of opening, closing, cancelling and concurrency."""

    async def test_fifty_concurrent_saves_are_all_there(self, store: Store) -> None:
        facts = [_numbered(number) for number in range(50)]
        async with anyio.create_task_group() as tasks:
            for fact in facts:
                tasks.start_soon(store.save, fact)
        assert await store.load_all() == facts

    async def test_concurrent_saves_of_one_concept_lose_no_value(self, store: Store) -> None:
        async with anyio.create_task_group() as tasks:
            for number in range(30):
                tasks.start_soon(store.save, multiple(LANGUAGES, f"{number}", minutes=number))
        assert await store.values(LANGUAGES) == [f"{number}" for number in range(30)]

    async def test_a_load_beside_saves_never_sees_a_part_of_a_fact(self, store: Store) -> None:
        size, seen = 20, set[int]()
        done = anyio.Event()

        async def read() -> None:
            while not done.is_set():
                seen.add(len(await store.values(LANGUAGES)))
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(read)
            tasks.start_soon(read)
            for batch in range(10):
                values = [f"{batch} {number}" for number in range(size)]
                await store.save(multiple(LANGUAGES, *values, minutes=batch))
            done.set()
        assert {count % size for count in seen} <= {0}
        assert seen or not self.durable, "no other task ran: the saves block the event loop"

    async def test_a_cancelled_save_leaves_all_or_nothing_and_can_be_repeated(self, store: Store) -> None:
        """The cancellation comes after any number of turns of the event loop, or of milliseconds."""
        pauses = [*range(6), *(n / 1000 for n in range(1, 12, 2))]
        for number, pause in enumerate(pauses):
            subject = USER.individual(f"person {number}")
            fact = multiple(LANGUAGES, *(f"{index}" for index in range(20)))
            await _save_and_cancel(store, fact, subject, pause)
            left = await store.load(LANGUAGES, subject)
            assert left in (None, fact)
            for _ in range(2):
                await store.save(fact, subject)
                assert await store.load(LANGUAGES, subject) == fact

    async def test_a_cancelled_load_harms_nothing(self, store: Store) -> None:
        await store.save(single(CITY, "Oslo"))
        for _ in range(5):
            with anyio.CancelScope() as scope:
                scope.cancel()
                await store.load_all()
        assert await store.load_all() == [single(CITY, "Oslo")]

    @pytest.mark.parametrize("used", [True, False], ids=["used before", "never used"])
    async def test_use_after_closing_is_a_typed_error(self, store: Store, used: bool) -> None:
        """Closing again is harmless."""
        if used:
            await store.save(single(CITY, "Oslo"))
        await store.aclose()
        await store.aclose()
        verbs: list[Callable[[], Awaitable[object]]] = [
            lambda: store.save(single(CITY, "Rome")),
            lambda: store.load(CITY),
            lambda: store.load_all(),
            lambda: store.find("city"),
        ]
        for verb in verbs:
            await refused(ProviderClosedError, verb())

    async def test_leaving_the_context_closes(self, tmp_path: Path) -> None:
        async with Store(await self.open_provider(tmp_path)) as store:
            await store.save(single(CITY, "Oslo"))
        await refused(ProviderClosedError, store.load(CITY))

    async def test_saves_that_race_with_closing_are_kept_or_refused(self, store: Store, tmp_path: Path) -> None:
        """No foreign error leaks, and every acknowledged save is there after reopening."""
        kept: list[SingleFact[Any]] = []
        refused: list[FactMemError] = []

        async def save(fact: SingleFact[Any]) -> None:
            try:
                await store.save(fact)
            except FactMemError as error:
                refused.append(error)
            else:
                kept.append(fact)

        async with anyio.create_task_group() as tasks:
            for number in range(20):
                tasks.start_soon(save, _numbered(number))
            await anyio.lowlevel.checkpoint()
            tasks.start_soon(store.aclose)
        assert len(kept) + len(refused) == 20
        assert {type(error) for error in refused} <= {ProviderClosedError}
        if self.durable:
            async with Store(await self.open_provider(tmp_path)) as again:
                there = await again.load_all()
            assert [fact for fact in kept if fact not in there] == []

    async def test_everything_is_there_when_it_is_opened_again(self, store: Store, tmp_path: Path) -> None:
        facts: list[Fact[Any]] = [
            single(SEATS, 4, 1),
            multiple(LANGUAGES, "Thai", "Ewe", minutes=2),
            single(CITY, "Oslo", 3),
        ]
        for fact in [single(SEATS, 3), *facts]:
            await store.save(fact)
            await store.save(fact, USER, PLANNER.within("acme") / "child")
        async with await self.reopened(store, tmp_path) as again:
            assert await again.load_all() == facts
            assert await again.load_all(USER, PLANNER.within("acme") / "child") == facts
            await again.save(single(SEATS, 3))
            assert await again.load(SEATS) == single(SEATS, 4, 1)

    async def test_two_openings_of_one_store_see_each_other_s_saves(self, store: Store, tmp_path: Path) -> None:
        if not self.durable:
            pytest.skip(f"{type(store.provider).__name__} is not durable")
        async with Store(await self.open_provider(tmp_path)) as other:
            for minute in range(4):
                writer, reader = (store, other) if minute % 2 else (other, store)
                await writer.save(multiple(LANGUAGES, f"{minute}", minutes=minute))
                assert await reader.values(LANGUAGES) == [f"{n}" for n in range(minute + 1)]

    async def test_a_damaged_file_is_found_or_reads_as_after_a_crash(self, store: Store, tmp_path: Path) -> None:
        """A log may end early, and then lacks whole facts. What cannot be read is not written over either."""
        facts: list[Fact[Any]] = [single(SEATS, 4), multiple(LANGUAGES, "Thai", "Ewe", minutes=1)]
        for fact in facts:
            await store.save(fact)
        await (await self.reopened(store, tmp_path)).aclose()
        for path, content in files_in(tmp_path).items():
            half = len(content) // 2
            garbled = bytes(byte ^ 0xFF for byte in content[:half]) + content[half:]
            for damage, at_least in ((content[:half], 0), (garbled, len(facts))):
                path.write_bytes(damage)
                async with Store(await self.open_provider(tmp_path)) as damaged:
                    try:
                        read = await damaged.load_all()
                    except FactMemError:
                        await refused(FactMemError, damaged.save(single(CITY, "Oslo")))
                        assert path.read_bytes() == damage, path.name
                    else:
                        is_right = len(read) >= at_least and all(fact in facts for fact in read)
                        assert is_right or await _finds_a_fault(damaged.provider), path.name
                path.write_bytes(content)

    async def test_the_capabilities_are_those_it_promises(self, store: Store) -> None:
        if self.capabilities is None:
            pytest.skip(f"{type(self).__name__} names no capabilities that must be there")
        assert capabilities_of(store.provider) == list(self.capabilities)


async def _finds_a_fault(provider: AgentMemoryProvider) -> bool:
    if not isinstance(provider, KeepsLog):
        return False
    try:
        return any(finding.severity is not Severity.NOTE for finding in await provider.check())
    except FactMemError:
        return True


async def _save_and_cancel(store: Store, fact: Fact[Any], subject: MemorySubject, pause: float) -> None:
    """Cancel a save after a number of turns of the event loop (an integer) or of seconds (a fraction)."""
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(store.save, fact, subject)
        if isinstance(pause, int):
            for _ in range(pause):
                await anyio.lowlevel.checkpoint()
        else:
            await anyio.sleep(pause)
        tasks.cancel_scope.cancel()
