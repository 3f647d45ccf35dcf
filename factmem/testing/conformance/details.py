"""Specs of `KeepsHistory`: owners, origins, expiry, and other details of a fact."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

import datetime as dt

import attrs
import pytest

from factmem.abc import AgentMemoryProvider, KeepsHistory, StateRequest
from factmem.facts import Concept
from factmem.records import AssertionState, Evidence, Origin, Place
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import (
    CITY,
    LANGUAGES,
    PLANNER,
    SEATS,
    USER,
    at,
    keep,
    loaded_value,
    loaded_values,
    only,
    said,
)

__all__ = ["DetailSpecs"]

_LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)
_FAR_AHEAD = dt.datetime(2999, 1, 1, tzinfo=dt.UTC)


class DetailSpecs(ProviderCase):
    """Specs of the details of assertions, and of their effect on the four verbs."""

    async def test_private_facts_are_not_seen_by_the_four_verbs(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        await keep(history, said(CITY, "Oslo", owner="alice"), said(LANGUAGES, "Thai", owner="alice"))
        assert await provider.load(CITY, USER, PLANNER) is None
        assert await provider.load(LANGUAGES, USER, PLANNER) is None
        assert list(await provider.load_all(USER, PLANNER)) == []
        assert list(await provider.load_by_description("person", USER, PLANNER)) == []

    async def test_private_never_supersedes_public_nor_the_reverse(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        public, private = said(CITY, "Oslo", 1), said(CITY, "Rome", 2, owner="alice")
        await keep(history, public, private, said(CITY, "Rome", 3, owner="alice", removed=True))
        assert await loaded_value(provider, CITY) == "Oslo"

    async def test_private_values_are_not_merged_with_public_ones(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        """An equal value of another owner is another record."""
        await keep(history, said(LANGUAGES, "Thai"), said(LANGUAGES, "Ewe", owner="alice"))
        public, private, other = await keep(
            history,
            said(LANGUAGES, "Lao"),
            said(LANGUAGES, "Lao", owner="alice"),
            said(LANGUAGES, "Lao", owner="bob"),
        )
        assert await loaded_values(provider, LANGUAGES) == ["Thai", "Lao"]
        assert len({receipt.recorded.record_id for receipt in (public, private, other)}) == 3
        assert all(receipt.new for receipt in (public, private, other))

    async def test_a_keyword_has_its_own_type_for_every_owner(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        """A private fact must not be revealed, not even by the type of its keyword."""
        await keep(history, said(Concept.multiple("seats", "Rows", str), "row 4", owner="alice"))
        await keep(history, said(SEATS, 4))
        assert await loaded_value(provider, SEATS) == 4

    @pytest.mark.parametrize("origin", [Origin.TOOL, Origin.DOCUMENT, Origin.UNKNOWN])
    async def test_untrusted_words_are_not_loaded_until_accepted(
        self, provider: AgentMemoryProvider, history: KeepsHistory, origin: Origin
    ) -> None:
        await keep(history, said(CITY, "Oslo", 1))
        stray = await only(history, said(CITY, "Rome", 2, origin=origin))
        untold = await only(history, said(SEATS, 4, origin=origin))
        assert await loaded_value(provider, CITY) == "Oslo"
        assert [fact.concept.keyword for fact in await provider.load_all(USER, PLANNER)] == ["city"]
        assert list(await provider.load_by_description("seats", USER, PLANNER)) == []
        accepted = [StateRequest.of(entry, state=AssertionState.ACTIVE) for entry in (stray, untold)]
        await history.append(accepted)
        assert await loaded_value(provider, CITY) == "Rome"
        assert await loaded_value(provider, SEATS) == 4

    @pytest.mark.parametrize("origin", [Origin.USER, Origin.ASSISTANT])
    async def test_trusted_words_are_loaded_at_once(
        self, provider: AgentMemoryProvider, history: KeepsHistory, origin: Origin
    ) -> None:
        await keep(history, said(CITY, "Oslo", origin=origin))
        assert await loaded_value(provider, CITY) == "Oslo"

    async def test_words_of_the_assistant_neither_replace_nor_remove_those_of_the_user(
        self, provider: AgentMemoryProvider, history: KeepsHistory
    ) -> None:
        """Trust orders before time, in whatever order they arrive."""
        assistant = Origin.ASSISTANT
        await keep(history, said(CITY, "Oslo", 1), said(LANGUAGES, "Thai", 1))
        await keep(history, said(CITY, "Rome", 2, origin=assistant), said(LANGUAGES, "Lao", 2, origin=assistant))
        gone = [said(concept, value, 3, origin=assistant) for concept, value in ((CITY, "Rome"), (LANGUAGES, "Thai"))]
        await keep(history, *(attrs.evolve(item, removed=True) for item in gone))
        await keep(history, said(SEATS, 5, 2, origin=assistant))
        await keep(history, said(SEATS, 4, 1))
        assert await loaded_value(provider, CITY) == "Oslo"
        assert await loaded_values(provider, LANGUAGES) == ["Thai", "Lao"]
        assert await loaded_value(provider, SEATS) == 4
        assert len(await history.entries(Place(USER, PLANNER))) == 8

    async def test_expired_facts_are_not_loaded(self, provider: AgentMemoryProvider, history: KeepsHistory) -> None:
        await keep(history, said(CITY, "Oslo", 1), said(CITY, "Rome", 2, expires_at=_LONG_AGO))
        await keep(history, said(SEATS, 4, expires_at=_FAR_AHEAD))
        await keep(history, said(LANGUAGES, "Thai", expires_at=_LONG_AGO), said(LANGUAGES, "Ewe"))
        assert await loaded_value(provider, CITY) == "Oslo"
        assert await loaded_value(provider, SEATS) == 4
        assert await loaded_values(provider, LANGUAGES) == ["Ewe"]

    async def test_evidence_metadata_and_labels_read_back(self, history: KeepsHistory) -> None:
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
        await keep(history, assertion)
        (read,) = await history.entries(Place(USER, PLANNER))
        assert getattr(read, "assertion", None) == assertion

    async def test_the_same_words_of_another_message_are_another_assertion(self, history: KeepsHistory) -> None:
        first = await only(history, said(CITY, "Oslo", evidence=[Evidence(quote="Oslo", message_id="m1")]))
        second = await only(history, said(CITY, "Oslo", evidence=[Evidence(quote="Oslo", message_id="m2")]))
        assert first.id != second.id
        assert first.record_id == second.record_id
