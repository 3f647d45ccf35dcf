"""Specs of `KeepsLog`: the log, states, quarantine, details, changes and recorded times."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import anyio
import anyio.lowlevel
import attrs
import pytest

from factmem.abc.capabilities import Append, Statement, StateRequest
from factmem.details import Evidence, Origin
from factmem.errors import ConceptConflictError, RecordNotFoundError, StateConflictError
from factmem.facts import Concept
from factmem.records import Assertion, AssertionState, LogEntry, Place, Recorded, StateChange, Tombstone
from factmem.testing.conformance.case import (
    ACTIVE,
    FAILED,
    PENDING,
    QUARANTINED,
    RETRACTED,
    ProviderCase,
    Store,
    request,
)
from factmem.testing.conformance.samples import (
    ADDRESS,
    CITY,
    LANGUAGES,
    PLANNER,
    SEATS,
    USER,
    Address,
    at,
    multiple,
    refused,
    said,
    single,
)

_HERE = Place(USER, PLANNER)


class HistorySpecs(ProviderCase):
    """Specs of `append` and `entries`."""

    async def test_an_appended_assertion_reads_back_whole(self, store: Store) -> None:
        assertion = said(ADDRESS, Address("Weg", 1), scope=PLANNER / "child")
        recorded = await store.only(assertion)
        assert recorded.assertion == assertion
        assert list(await store.keeper.entries(assertion.place)) == [recorded]

    async def test_entries_are_of_exactly_one_place_by_sequence_number(self, store: Store) -> None:
        scopes = (PLANNER, PLANNER / "x", PLANNER.within("acme"))
        places = [Place(subject, scope) for subject in (USER, USER.individual("a")) for scope in scopes]
        for minute in range(12):
            place = places[minute % 6]
            assert len(await store.keeper.entries(place)) == minute // 6
            await store.keep(said(SEATS, minute, -minute, subject=place.subject, scope=place.scope))
        for number, place in enumerate(places):
            entries = [entry for entry in await store.keeper.entries(place) if isinstance(entry, Recorded)]
            assert [entry.assertion.data for entry in entries] == [number, number + 6]
            assert entries[0].seq < entries[1].seq

    async def test_entries_of_a_keyword_come_with_their_changes_of_state(self, store: Store) -> None:
        seats = await store.only(said(SEATS, 4))
        city = await store.only(said(CITY, "Oslo"))
        for recorded in (city, seats):
            await store.append(request(recorded, RETRACTED, reason="said so"))
        seats_log = await store.log("seats")
        assert seats_log[:-1] == [seats]
        change = seats_log[1]
        assert isinstance(change, StateChange)
        assert change.assertion_id == seats.id
        assert (change.state, change.reason) == (RETRACTED, "said so")
        assert len(await store.log()) == 4

    async def test_sequence_numbers_grow_and_times_of_recording_are_set(self, store: Store) -> None:
        recorded = [
            receipt.recorded
            for minute in range(3)
            for receipt in await store.keep(said(SEATS, minute, -minute), said(CITY, f"{minute}", minute))
        ]
        numbers = [entry.seq for entry in recorded]
        assert numbers == sorted(set(numbers))
        assert numbers[0] >= 1
        times = [entry.recorded_at for entry in recorded]
        assert times == sorted(times)
        assert all(time.utcoffset() is not None for time in times)
        assert len({entry.id for entry in recorded}) == len(recorded)

    async def test_receipts_are_those_of_the_assertions_in_order(self, store: Store) -> None:
        assert list(await store.append()) == []
        first = await store.only(said(CITY, "Oslo"))
        statements: list[Statement] = [
            Append(assertion=said(SEATS, 1)),
            request(first, RETRACTED),
            Append(assertion=said(SEATS, 2)),
        ]
        receipts = await store.append(*statements)
        assert [(receipt.recorded.assertion.data, receipt.new) for receipt in receipts] == [(1, True), (2, True)]

    async def test_the_same_assertion_again_is_the_same_record_and_writes_nothing(self, store: Store) -> None:
        """In the same transaction too."""
        receipts = [*await store.keep(said(CITY, "Oslo"), said(CITY, "Oslo")), *await store.keep(said(CITY, "Oslo"))]
        assert [receipt.new for receipt in receipts] == [True, False, False]
        assert [receipt.recorded for receipt in receipts] == await store.log() * 3
        assert await store.version() == receipts[0].recorded.seq

    async def test_a_refused_assertion_takes_the_whole_transaction_with_it(self, store: Store) -> None:
        await store.keep(said(SEATS, 4))
        together = said(CITY, "Oslo"), said(_AS_TEXT, "four", 1), said(LANGUAGES, "Thai")
        await refused(ConceptConflictError, store.keep(*together))
        assert [fact.concept.keyword for fact in await store.load_all()] == ["seats"]
        assert len(await store.log()) == 1

    async def test_a_conflict_within_one_transaction_is_refused(self, store: Store) -> None:
        await refused(ConceptConflictError, store.keep(said(SEATS, 4), said(_AS_TEXT, "four", 1)))
        assert await store.log() == []

    async def test_a_change_of_state_of_nothing_takes_the_whole_transaction_with_it(self, store: Store) -> None:
        unknown = StateRequest(assertion_id="no such assertion", tenant=None, state=RETRACTED)
        await refused(RecordNotFoundError, store.append(Append(assertion=said(CITY, "Oslo")), unknown))
        assert await store.log() == []

    async def test_a_record_keeps_its_id_while_its_value_changes(self, store: Store) -> None:
        said_so = [said(SEATS, 1, 1), said(SEATS, 2, 2), said(SEATS, 1, 3), said(SEATS, 1, 9, removed=True)]
        receipts = [receipt for assertion in said_so for receipt in await store.keep(assertion)]
        assert len({receipt.recorded.record_id for receipt in receipts}) == 1
        assert [receipt.joins for receipt in receipts] == [False, True, True, True]

    async def test_each_value_of_a_multiple_is_a_record_of_its_own(self, store: Store) -> None:
        thai, ewe = await store.keep(said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe"))
        again = await store.only(said(LANGUAGES, "Thai", 5))
        assert thai.recorded.record_id == again.record_id != ewe.recorded.record_id

    async def test_an_update_by_id_replaces_a_value_of_a_multiple_and_keeps_the_id(self, store: Store) -> None:
        thai, _ = await store.keep(said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe"))
        updated = await store.only(said(LANGUAGES, "Lao", 1, revises=thai.recorded.record_id))
        assert updated.record_id == thai.recorded.record_id
        assert sorted(await store.values(LANGUAGES)) == ["Ewe", "Lao"]
        again = await store.only(said(LANGUAGES, "Lao", 2))
        assert again.record_id == thai.recorded.record_id

    async def test_retracting_brings_back_the_value_before_and_can_be_undone(self, store: Store) -> None:
        await store.only(said(CITY, "Rome", 1))
        newest = await store.only(said(CITY, "Oslo", 2))
        await store.change(newest, RETRACTED)
        assert await store.value(CITY) == "Rome"
        await store.change(newest, ACTIVE)
        assert await store.value(CITY) == "Oslo"

    async def test_retracting_a_value_of_a_multiple_leaves_the_others(self, store: Store) -> None:
        receipts = await store.keep(*(said(LANGUAGES, value) for value in ("Thai", "Ewe", "Lao")))
        await store.change(receipts[1].recorded, RETRACTED)
        assert await store.values(LANGUAGES) == ["Thai", "Lao"]

    async def test_a_removal_is_dated(self, store: Store) -> None:
        """A removal removes earlier values, and no later ones."""
        await store.keep(said(CITY, "Oslo", 5))
        await store.keep(said(CITY, "Oslo", 3, removed=True))
        assert await store.value(CITY) == "Oslo"
        await store.keep(said(CITY, "Oslo", 7, removed=True))
        assert await store.value(CITY) is None
        await store.keep(said(CITY, "Rome", 9))
        assert await store.value(CITY) == "Rome"

    async def test_a_removal_takes_one_value_of_a_multiple(self, store: Store) -> None:
        await store.keep(said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe"))
        await store.keep(said(LANGUAGES, "Thai", 1, removed=True))
        assert await store.values(LANGUAGES) == ["Ewe"]
        await store.keep(said(LANGUAGES, "Thai", 2))
        assert sorted(await store.values(LANGUAGES)) == ["Ewe", "Thai"]


_JOB = {"kind": "detect", "words": ["Ørsted", "", "漢字"], "tries": 2, "share": 0.5, "of": None, "by": {"x": True}}


class StateSpecs(ProviderCase):
    """Specs of changes of state that expect a state, and of words that wait for a model."""

    async def test_a_change_from_the_expected_state_is_made(self, store: Store) -> None:
        recorded = await store.only(said(CITY, "Oslo"))
        await store.change(recorded, RETRACTED, expected=ACTIVE)
        assert await store.value(CITY) is None
        await store.change(recorded, ACTIVE, expected=RETRACTED)
        assert await store.value(CITY) == "Oslo"
        assert _states(await store.log()) == [RETRACTED, ACTIVE]

    @pytest.mark.parametrize("expected", [state for state in AssertionState if state is not ACTIVE])
    async def test_a_change_from_another_state_than_expected_is_refused_and_nothing_is_written(
        self, store: Store, expected: AssertionState
    ) -> None:
        recorded = await store.only(said(CITY, "xylophone"))
        before = await store.log()
        first, last = Append(assertion=said(SEATS, 1)), Append(assertion=said(SEATS, 2, 2))
        with pytest.raises(StateConflictError, match=f"active.*{expected.value}") as refusal:
            await store.append(first, request(recorded, RETRACTED, expected=expected), last)
        assert "xylophone" not in str(refusal.value)
        assert await store.log() == before
        assert await store.value(CITY) == "xylophone"

    async def test_the_expected_state_is_the_newest_one(self, store: Store) -> None:
        recorded = await store.only(said(CITY, "Oslo", origin=Origin.DOCUMENT))
        for state in (RETRACTED, QUARANTINED, ACTIVE, FAILED):
            await store.change(recorded, state)
        await refused(StateConflictError, store.change(recorded, RETRACTED, expected=QUARANTINED))
        await store.change(recorded, RETRACTED, expected=FAILED)

    async def test_statements_earlier_in_a_transaction_count_for_what_is_expected(self, store: Store) -> None:
        recorded = await store.only(said(CITY, "Oslo"))
        there = request(recorded, RETRACTED, expected=ACTIVE)
        back = request(recorded, ACTIVE, expected=RETRACTED)
        await store.append(there, back, there, back)
        assert _states(await store.log()) == [RETRACTED, ACTIVE] * 2
        await refused(StateConflictError, store.append(there, there))
        assert _states(await store.log()) == [RETRACTED, ACTIVE] * 2

    async def test_a_change_of_nothing_is_not_found_whatever_is_expected(self, store: Store) -> None:
        unknown = StateRequest(assertion_id="nothing", tenant=None, state=ACTIVE, expected=PENDING)
        await refused(RecordNotFoundError, store.append(unknown))

    async def test_of_several_who_expect_the_same_state_one_succeeds(self, store: Store) -> None:
        """The others write nothing, and do not block concurrent requests for other states."""
        words = await store.only(_waiting(said(CITY, "Oslo")))
        won, lost = list[int](), list[int]()

        async def take_up(number: int) -> None:
            found = Append(assertion=said(SEATS, number, number))
            try:
                await store.append(request(words, RETRACTED, expected=PENDING), found)
            except StateConflictError:
                lost.append(number)
            else:
                won.append(number)

        async with anyio.create_task_group() as tasks:
            for number in range(8):
                tasks.start_soon(take_up, number)
                tasks.start_soon(store.keep, said(CITY, "Rome", 100 + number))
        assert len(won) == 1
        assert len(lost) == 7
        log = await store.log()
        assert [entry.assertion.data for entry in _recorded(log) if entry.assertion.keyword == "seats"] == won
        assert len([entry for entry in _recorded(log) if entry.assertion.data == "Rome"]) == 8
        assert _states(log) == [RETRACTED]

    @pytest.mark.parametrize("state", [PENDING, FAILED])
    async def test_words_that_wait_or_failed_are_loaded_as_they_stand_if_their_origin_is_trusted(
        self, store: Store, state: AssertionState
    ) -> None:
        await store.keep(attrs.evolve(said(CITY, "Oslo"), state=state))
        stray = attrs.evolve(said(SEATS, 4, origin=Origin.TOOL), state=state)
        untrusted = await store.only(stray)
        assert await store.value(CITY) == "Oslo"
        assert await store.value(SEATS) is None
        await store.change(untrusted, ACTIVE, expected=state)
        assert await store.value(SEATS) == 4

    @pytest.mark.parametrize("state", [state for state in AssertionState if state is not AssertionState.SUPERSEDED])
    async def test_every_state_reads_back(self, store: Store, state: AssertionState) -> None:
        """Both as the state of an appended assertion, and after a change of state."""
        recorded = await store.only(attrs.evolve(said(CITY, "Oslo"), state=state))
        assert recorded.assertion.state is state
        await store.change(recorded, state, expected=state)
        log = await store.log()
        assert [entry.assertion.state for entry in _recorded(log)] == [state]
        assert _states(log) == [state]

    async def test_a_job_stays_with_its_words_and_makes_them_wait(self, store: Store) -> None:
        assertion = _waiting(said(CITY, "Oslo"))
        assert assertion.state is PENDING
        recorded = await store.only(assertion)
        assert recorded.assertion == assertion
        (read,) = _recorded(await store.log())
        assert read.assertion.job == _JOB
        assert read == recorded


def _waiting(assertion: Assertion) -> Assertion:
    return attrs.evolve(assertion, job=_JOB, state=PENDING)


def _states(log: Sequence[LogEntry]) -> list[AssertionState]:
    return [entry.state for entry in log if isinstance(entry, StateChange)]


def _recorded(log: Sequence[LogEntry]) -> list[Recorded]:
    return [entry for entry in log if isinstance(entry, Recorded)]


_AS_TEXT: Final = Concept.single(SEATS.keyword, "Planted as text")
_AS_SET: Final = Concept.multiple(SEATS.keyword, "Planted as a set", int)
_PLANTS: Final[list[tuple[Concept[Any, Any], object]]] = [(_AS_TEXT, "four"), (_AS_SET, 44)]
_other_types = pytest.mark.parametrize(("concept", "value"), _PLANTS, ids=["value type", "fact type"])


class QuarantineSpecs(ProviderCase):
    """Specs of the quarantine: an untrusted assertion cannot block the user's own facts by its type."""

    @_other_types
    async def test_the_quarantined_does_not_set_the_type_of_its_track(
        self, store: Store, concept: Concept[Any, Any], value: object
    ) -> None:
        await store.keep(_planted(concept, value))
        await store.save(single(SEATS, 4, 1))
        assert await store.load_all() == [single(SEATS, 4, 1)]
        assert await store.find("seats") == [single(SEATS, 4, 1)]

    @_other_types
    async def test_the_quarantined_is_not_held_to_the_type_of_its_track_and_disturbs_nothing_there(
        self, store: Store, concept: Concept[Any, Any], value: object
    ) -> None:
        await store.save(single(SEATS, 4, 1))
        planted = await store.only(_planted(concept, value, 9))
        assert planted.assertion.state is QUARANTINED
        assert await store.value(SEATS) == 4
        await store.save(single(SEATS, 5, 2))
        assert await store.load_all() == [single(SEATS, 5, 2)]
        await refused(ConceptConflictError, store.keep(said(concept, value, 3)))

    @_other_types
    async def test_letting_in_another_type_is_refused_and_nothing_is_written(
        self, store: Store, concept: Concept[Any, Any], value: object
    ) -> None:
        await store.save(single(SEATS, 4, 1))
        planted = await store.only(_planted(concept, value, 9))
        before = await store.log()
        with pytest.raises(ConceptConflictError, match="seats"):
            await store.append(Append(assertion=said(CITY, "Oslo")), request(planted, ACTIVE))
        assert await store.log() == before
        assert await store.value(SEATS) == 4

    async def test_what_is_accepted_sets_the_type_of_a_track_that_has_none(self, store: Store) -> None:
        planted = await store.only(_planted(_AS_TEXT, "four"))
        await store.change(planted, ACTIVE)
        assert await store.value(_AS_TEXT) == "four"
        await refused(ConceptConflictError, store.save(single(SEATS, 4, 1)))

    async def test_of_two_types_in_quarantine_the_first_accepted_holds(self, store: Store) -> None:
        text, number = await store.only(_planted(_AS_TEXT, "four")), await store.only(_planted(SEATS, 4, 1))
        await store.change(number, ACTIVE)
        await refused(ConceptConflictError, store.change(text, ACTIVE))
        assert await store.value(SEATS) == 4

    async def test_what_was_retracted_before_it_was_accepted_is_checked_when_it_is(self, store: Store) -> None:
        planted = await store.only(_planted(_AS_TEXT, "four"))
        await store.change(planted, RETRACTED)
        await store.save(single(SEATS, 4, 1))
        await refused(ConceptConflictError, store.change(planted, ACTIVE))
        assert await store.value(SEATS) == 4

    async def test_what_was_once_accepted_holds_the_type_whatever_becomes_of_it(self, store: Store) -> None:
        """History must stay readable with the present type, and a retracted assertion can be restored."""
        planted = await store.only(_planted(_AS_TEXT, "four"))
        await store.change(planted, ACTIVE)
        for state in (RETRACTED, QUARANTINED):
            await store.append(request(planted, state))
            await refused(ConceptConflictError, store.save(single(SEATS, 4, 1)))
        await store.change(planted, ACTIVE)
        assert await store.value(_AS_TEXT) == "four"

    async def test_the_type_accepted_earlier_in_a_transaction_counts(self, store: Store) -> None:
        planted, number = await store.only(_planted(_AS_TEXT, "four")), Append(assertion=said(SEATS, 4, 1))
        in_either_order: list[list[Statement]] = [
            [request(planted, ACTIVE), number],
            [number, request(planted, ACTIVE)],
        ]
        for statements in in_either_order:
            await refused(ConceptConflictError, store.append(*statements))
        assert len(await store.log()) == 1
        await store.append(number)
        assert await store.value(SEATS) == 4

    async def test_untrusted_words_that_wait_set_no_type_either(self, store: Store) -> None:
        for minute, state in enumerate((PENDING, FAILED, RETRACTED)):
            await store.keep(attrs.evolve(_planted(_AS_TEXT, "four", minute), state=state))
        await store.save(single(SEATS, 4, 5))
        assert await store.value(SEATS) == 4

    async def test_trusted_words_that_wait_hold_their_type(self, store: Store) -> None:
        await store.keep(attrs.evolve(said(_AS_TEXT, "four"), state=PENDING))
        await refused(ConceptConflictError, store.save(single(SEATS, 4, 1)))

    async def test_who_is_accepted_is_remembered_over_reopening(self, store: Store, tmp_path: Path) -> None:
        city = await store.only(said(Concept.single("city", "As a number", int), 7, origin=Origin.TOOL))
        planted = await store.only(_planted(_AS_TEXT, "four"))
        await store.change(planted, ACTIVE)
        async with await self.reopened(store, tmp_path) as again:
            await refused(ConceptConflictError, again.save(single(SEATS, 4, 1)))
            await again.save(single(CITY, "Oslo", 1))
            await refused(ConceptConflictError, again.change(city, ACTIVE))

    async def test_erasing_all_that_was_accepted_frees_the_type_of_a_track(self, store: Store) -> None:
        """A quarantined assertion of another type does not prevent that."""
        first = await store.only(said(SEATS, 4))
        stays = await store.only(_planted(_AS_SET, 44, 1))
        await store.erase(assertions=[first.id])
        await store.save(single(_AS_TEXT, "four", 2))
        await refused(ConceptConflictError, store.change(stays, ACTIVE))
        assert await store.value(_AS_TEXT) == "four"


def _planted(concept: Concept[Any, Any], value: object, minutes: float = 0) -> Assertion:
    return said(concept, value, minutes, origin=Origin.DOCUMENT)


_LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_FAR_AHEAD = dt.datetime(2999, 1, 1, tzinfo=dt.UTC)


class DetailSpecs(ProviderCase):
    """Specs of the details of assertions, and of their effect on the four verbs."""

    async def test_private_facts_are_not_seen_by_the_four_verbs(self, store: Store) -> None:
        await store.keep(said(CITY, "Oslo", owner="alice"), said(LANGUAGES, "Thai", owner="alice"))
        assert await store.load(CITY) is None
        assert await store.load(LANGUAGES) is None
        assert await store.load_all() == []
        assert await store.find("person") == []

    async def test_private_never_supersedes_public_nor_the_reverse(self, store: Store) -> None:
        public, private = said(CITY, "Oslo", 1), said(CITY, "Rome", 2, owner="alice")
        await store.keep(public, private, said(CITY, "Rome", 3, owner="alice", removed=True))
        assert await store.value(CITY) == "Oslo"

    async def test_private_values_are_not_merged_with_public_ones(self, store: Store) -> None:
        """An equal value of another owner is another record."""
        await store.keep(said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe", owner="alice"))
        public, private, other = await store.keep(
            said(LANGUAGES, "Lao"), said(LANGUAGES, "Lao", owner="alice"), said(LANGUAGES, "Lao", owner="bob")
        )
        assert await store.values(LANGUAGES) == ["Thai", "Lao"]
        assert len({receipt.recorded.record_id for receipt in (public, private, other)}) == 3
        assert all(receipt.new for receipt in (public, private, other))

    async def test_a_keyword_has_its_own_type_for_every_owner(self, store: Store) -> None:
        """A private fact must not be revealed, not even by the type of its keyword."""
        await store.keep(said(Concept.multiple("seats", "Rows", str), "row 4", owner="alice"))
        await store.keep(said(SEATS, 4))
        assert await store.value(SEATS) == 4

    @pytest.mark.parametrize("origin", [Origin.TOOL, Origin.DOCUMENT, Origin.UNKNOWN])
    async def test_untrusted_words_are_not_loaded_until_accepted(self, store: Store, origin: Origin) -> None:
        await store.keep(said(CITY, "Oslo", 1))
        stray = await store.only(said(CITY, "Rome", 2, origin=origin))
        untold = await store.only(said(SEATS, 4, origin=origin))
        assert await store.value(CITY) == "Oslo"
        assert [fact.concept.keyword for fact in await store.load_all()] == ["city"]
        assert await store.find("seats") == []
        await store.append(request(stray, ACTIVE), request(untold, ACTIVE))
        assert await store.value(CITY) == "Rome"
        assert await store.value(SEATS) == 4

    @pytest.mark.parametrize("origin", [Origin.USER, Origin.ASSISTANT])
    async def test_trusted_words_are_loaded_at_once(self, store: Store, origin: Origin) -> None:
        await store.keep(said(CITY, "Oslo", origin=origin))
        assert await store.value(CITY) == "Oslo"

    async def test_words_of_the_assistant_neither_replace_nor_remove_those_of_the_user(self, store: Store) -> None:
        """Trust orders before time, in whatever order they arrive."""
        assistant = Origin.ASSISTANT
        await store.keep(said(CITY, "Oslo", 1), said(LANGUAGES, "Thai", 1))
        await store.keep(said(CITY, "Rome", 2, origin=assistant), said(LANGUAGES, "Lao", 2, origin=assistant))
        gone = [said(concept, value, 3, origin=assistant) for concept, value in ((CITY, "Rome"), (LANGUAGES, "Thai"))]
        await store.keep(*(attrs.evolve(item, removed=True) for item in gone))
        await store.keep(said(SEATS, 5, 2, origin=assistant))
        await store.keep(said(SEATS, 4, 1))
        assert await store.value(CITY) == "Oslo"
        assert await store.values(LANGUAGES) == ["Thai", "Lao"]
        assert await store.value(SEATS) == 4
        assert len(await store.log()) == 8

    async def test_expired_facts_are_not_loaded(self, store: Store) -> None:
        await store.keep(said(CITY, "Oslo", 1), said(CITY, "Rome", 2, expires_at=_LONG_AGO))
        await store.keep(said(SEATS, 4, expires_at=_FAR_AHEAD))
        await store.keep(said(LANGUAGES, "Thai", expires_at=_LONG_AGO), said(LANGUAGES, "Ewe"))
        assert await store.value(CITY) == "Oslo"
        assert await store.value(SEATS) == 4
        assert await store.values(LANGUAGES) == ["Ewe"]

    async def test_evidence_metadata_and_labels_read_back(self, store: Store) -> None:
        quote = Evidence(
            quote="I live in Oslo 🇳🇴",
            message_id="m1",
            role="user",
            speaker="Ann",
            conversation_id="c/1",
            position=3,
            start=0,
            end=15,
        )
        assertion = said(
            CITY,
            "Oslo",
            importance=0.875,
            categories=("home", "ホーム"),
            topics=("travel",),
            source="crm://contacts/7?x=1",
            owner="ann:smith",
            metadata={"nested": {"list": [1, 2.5, None, True, "x"]}, "": "empty key"},
            evidence=(quote, Evidence(quote="Oslo is home")),
            origin=Origin.ASSISTANT,
            expires_at=at(60),
        )
        await store.keep(assertion)
        (read,) = await store.log()
        assert getattr(read, "assertion", None) == assertion

    async def test_the_same_words_of_another_message_are_another_assertion(self, store: Store) -> None:
        first = await store.only(said(CITY, "Oslo", evidence=[Evidence(quote="Oslo", message_id="m1")]))
        second = await store.only(said(CITY, "Oslo", evidence=[Evidence(quote="Oslo", message_id="m2")]))
        assert first.id != second.id
        assert first.record_id == second.record_id


_ACME = PLANNER.within("acme")


def _check_whole(log: list[LogEntry]) -> None:
    """Check that a log holds transactions of four assertions whole, without the erased one of each."""
    assert [entry.seq for entry in log] == sorted({entry.seq for entry in log})
    texts = [str(entry.assertion.data) for entry in log if isinstance(entry, Recorded)]
    counts = Counter(text.split(".")[0] for text in texts)
    erased = sum(isinstance(entry, Tombstone) for entry in log)
    assert set(counts.values()) <= {3, 4}
    assert sum(count == 3 for count in counts.values()) == erased


class FeedSpecs(ProviderCase):
    """Specs of the change feed."""

    async def test_the_version_grows_with_every_write(self, store: Store) -> None:
        versions = [await store.version()]
        recorded = await store.only(said(CITY, "Oslo"))
        versions.append(await store.version())
        await store.change(recorded, RETRACTED)
        versions.append(await store.version())
        await store.save(multiple(LANGUAGES, "Thai", "Ewe"))
        versions.append(await store.version())
        assert versions == sorted(set(versions))
        assert versions[1] == recorded.seq

    async def test_sequence_numbers_are_the_tenants_own(self, store: Store) -> None:
        """A tenant's numbers tell nothing of what others write."""
        for number in range(3):
            await store.only(said(SEATS, number, number))
        here = await store.version()
        assert await store.version("acme") == 0
        there = [await store.only(said(SEATS, number, number, scope=_ACME)) for number in range(2)]
        together = await store.keep(said(CITY, "Oslo"), said(CITY, "Rome", scope=_ACME))
        assert [entry.seq for entry in there] == [1, 2]
        assert [receipt.recorded.seq for receipt in together] == [here + 1, 3]
        assert (await store.version(), await store.version("acme")) == (here + 1, 3)

    async def test_a_change_of_state_is_of_its_tenant(self, store: Store) -> None:
        """Another tenant's assertion is as unknown as one that never was."""
        here = await store.only(said(CITY, "Oslo"))
        await store.only(said(CITY, "Rome", scope=_ACME))
        foreign = attrs.evolve(request(here, RETRACTED), tenant="acme")
        await refused(RecordNotFoundError, store.append(foreign))
        assert await store.changes() == [here]

    async def test_changes_are_complete_and_in_order(self, store: Store) -> None:
        recorded = [
            await store.only(said(SEATS, number, -number, scope=PLANNER / f"{number % 2}")) for number in range(6)
        ]
        await store.change(recorded[2], RETRACTED)
        changes = await store.changes()
        assert changes[:-1] == recorded
        assert isinstance(changes[-1], StateChange)
        numbers = [entry.seq for entry in changes]
        assert numbers == sorted(set(numbers))
        assert numbers[-1] == await store.version()

    async def test_changes_go_on_after_any_number(self, store: Store) -> None:
        for number in range(5):
            await store.only(said(SEATS, number, number))
        everything = await store.changes()
        for read, entry in enumerate(everything, start=1):
            assert await store.changes(None, entry.seq) == everything[read:]
        assert await store.changes(None, 10**9) == []

    async def test_changes_are_of_one_tenant(self, store: Store) -> None:
        """Changes of state belong to one tenant as well."""
        here = await store.only(said(CITY, "Oslo"))
        there = await store.only(said(CITY, "Rome", scope=_ACME))
        await store.change(there, RETRACTED)
        assert await store.changes() == [here]
        acme = await store.changes("acme")
        assert acme[0] == there
        assert [type(entry) for entry in acme] == [Recorded, StateChange]
        assert await store.changes("acm") == []
        assert await store.changes("None") == []

    async def test_changes_are_one_state_of_the_store_while_others_write_and_erase(self, store: Store) -> None:
        """Whole transactions, nothing of what was erased, and no gap for one who goes on from the last number."""
        batches = [[said(LANGUAGES, f"{batch}.{number}", batch) for number in range(4)] for batch in range(12)]
        seen: dict[int, LogEntry] = {}
        done = anyio.Event()

        async def write() -> None:
            for batch in batches:
                receipts = await store.keep(*batch)
                await store.erase(assertions=[receipts[0].recorded.id])
                await store.only(said(CITY, "Rome", batches.index(batch), scope=_ACME))
            done.set()

        async def follow() -> None:
            while not done.is_set():
                _check_whole(await store.changes())
                seen.update({entry.seq: entry for entry in await store.changes(None, max(seen, default=0))})
                await anyio.lowlevel.checkpoint()

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(write)
            tasks.start_soon(follow)
        seen.update({entry.seq: entry for entry in await store.changes(None, max(seen, default=0))})
        gone = {entry.assertion_id for entry in seen.values() if isinstance(entry, Tombstone)}
        left = [entry for entry in seen.values() if not (isinstance(entry, Recorded) and entry.id in gone)]
        assert left == await store.changes()

    async def test_a_transaction_is_one_version(self, store: Store) -> None:
        receipts = await store.keep(*(said(LANGUAGES, f"{number}") for number in range(4)))
        assert await store.changes() == [receipt.recorded for receipt in receipts]
        assert await store.version() == receipts[-1].recorded.seq

    async def test_the_log_is_the_same_when_it_is_opened_again(self, store: Store, tmp_path: Path) -> None:
        """Its states are those that changes expect, with jobs and labels."""
        recorded = await store.only(said(CITY, "Oslo", owner="alice", importance=0.25))
        await store.append(request(recorded, RETRACTED, reason="why"))
        waiting = await store.only(_waiting(said(CITY, "Oslo", labels={"run": "7"})))
        failed = await store.only(attrs.evolve(said(SEATS, 4), state=FAILED))
        await store.only(said(SEATS, 4, scope=_ACME))
        logs = [await store.changes(tenant) for tenant in (None, "acme")]
        entries, version = await store.log(), await store.version()
        async with await self.reopened(store, tmp_path) as again:
            assert [await again.changes(tenant) for tenant in (None, "acme")] == logs
            assert (await again.log(), await again.version()) == (entries, version)
            await refused(StateConflictError, again.change(waiting, RETRACTED, expected=ACTIVE))
            await again.change(waiting, RETRACTED, expected=PENDING)
            await again.change(failed, PENDING, expected=FAILED)
            assert _states(await again.log()) == [RETRACTED, RETRACTED, PENDING]
            assert (await again.only(said(SEATS, 5, 1))).seq > version
