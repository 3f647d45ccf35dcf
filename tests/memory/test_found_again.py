"""Submissions found again by their ids: in this process and in the next one, read, failed or waiting."""

from __future__ import annotations

from typing import Any

import pytest

from factmem import AgentMemoryProvider, InMemoryProvider, Memory, Message
from factmem.abc import DetectionRequest
from factmem.errors import (
    CapabilityError,
    InvalidDataError,
    ModelUnavailableError,
    OutOfViewError,
    ReadOnlyError,
    RecordNotFoundError,
)
from factmem.memory import Trigger
from factmem.memory.submitted import ReadyFact, StoredSession
from factmem.testing import ScriptedModel
from tests.memory.shelves import Shelf
from tests.memory.telling import BEGAN, SEATS, USER, Gated, opened, said, talk, until, well

OSLO, PETS = talk("I live in Oslo.", id="a"), talk("I have a cat.", "I have a dog.", id="b")


def away(prompt: Any, answer: Any) -> Any:
    return ModelUnavailableError("not now")


async def values(memory: Memory, *ids: str) -> list[list[Any]]:
    return [said(outcome.records) for outcome in await (await memory.inbox.resume(*ids)).wait()]


async def test_what_is_read_is_found_in_this_process_and_in_the_next(provider: AgentMemoryProvider) -> None:
    """The outcome has the records of today: neither changes, nor what was retracted since."""
    async with opened(provider, ScriptedModel(well)) as memory:
        submission = await memory.remember_many([OSLO, PETS], subject=USER)
        first, second = submission.ids
        await submission.wait()
        assert await values(memory, second, first) == [["cat", "dog"], ["Oslo"]]
    async with opened(provider, ScriptedModel(well)) as memory:
        found = await memory.inbox.resume(first)
        assert (found.ids, found.pending) == ((first,), 0)
        (outcome,) = await found.wait()
        assert (said(outcome.records), outcome.changes, outcome.failure) == (["Oslo"], (), None)
        await memory.retract(outcome.records[0].id)
        assert await values(memory, first) == [[]]


async def test_what_waits_is_read_and_never_twice(provider: AgentMemoryProvider) -> None:
    model = Gated()
    async with opened(provider, model) as memory:
        (id,) = (await memory.remember_many([OSLO], subject=USER)).ids
        await until(lambda: model.under_way == 1)
        found = await memory.inbox.resume(id)
        assert found.pending == 1
        model.gate.set()
        (outcome,) = await found.wait()
        assert [change.record.value for change in outcome.changes] == ["Oslo"]
    assert model.asked == 1


async def test_what_failed_is_found_with_its_failure() -> None:
    provider = InMemoryProvider()
    async with opened(provider, ScriptedModel(away)) as memory:
        submission = await memory.remember_many([OSLO], subject=USER)
        await submission.wait()
        (outcome,) = await (await memory.inbox.resume(*submission.ids)).wait()
        assert (outcome.failure, said(outcome.records)) == ("ModelUnavailableError", ["I live in Oslo."])


async def test_words_without_a_model_and_ready_facts_are_found_too(provider: AgentMemoryProvider) -> None:
    async with opened(provider) as memory:
        submission = await memory.remember_many(["Ana likes tea.", "Bo has a boat.", "Ana likes tea."])
        assert len(set(submission.ids)) == 3
        tea, boat, _ = submission.ids
        facts = [ReadyFact("It rains."), ReadyFact(SEATS.fact([12], timestamp=BEGAN))]
        ready = (await memory.generate(facts)).ids
    async with opened(provider) as memory:
        assert await values(memory, boat, tea) == [["Bo has a boat."], ["Ana likes tea."]]
        assert sorted(map(str, (await values(memory, *ready))[0])) == ["12", "It rains."]


async def test_a_stream_is_found_while_it_waits_for_its_trigger() -> None:
    provider = InMemoryProvider()
    async with opened(provider, ScriptedModel(well)) as memory:
        event = Message(content="I live in Oslo.", id="e1", timestamp=BEGAN)
        await memory.inbox.ingest_events("chat", [event], trigger=Trigger(count=9), subject=USER)
    async with opened(provider, ScriptedModel(well)) as memory:
        (id,) = (await memory.inbox.ingest_events("chat", [event], trigger=Trigger(count=9), subject=USER)).ids
        found = await memory.inbox.resume(id)
        assert found.pending == 1
        with pytest.raises(InvalidDataError, match="alone"):
            await memory.inbox.resume(id, *(await memory.remember_many([PETS], subject=USER)).ids)
        await memory.inbox.flush()
        assert [said(outcome.records) for outcome in await found.wait()] == [["Oslo"]]


async def test_a_further_reading_of_a_session_is_not_found() -> None:
    provider = InMemoryProvider()
    async with opened(provider) as memory:
        await memory.remember(OSLO, subject=USER)
    async with opened(provider, ScriptedModel(well)) as memory:
        submission = await memory.generate(StoredSession(id="a"), subject=USER)
        with pytest.raises(RecordNotFoundError, match=r"Submission\.ids"):
            await memory.inbox.resume(*submission.ids)


async def test_what_lies_behind_a_wall_is_not_found() -> None:
    provider = InMemoryProvider()
    model = Gated()
    async with opened(provider, model) as memory:
        (own,) = (await memory.remember_many([OSLO], subject=USER, private=True)).ids
        (beta,) = (await memory.remember_many([PETS], subject=USER, scope="/product/beta")).ids
        request = DetectionRequest(subjects=[USER.individual("bob"), USER])
        (bobs,) = (await memory.remember_many([talk("I live in Bern.", id="c")], subject=USER, looking_for=request)).ids
        for view, id in (
            (memory.view(viewer="bob"), own),
            (memory.scope("/product/alpha"), beta),
            (memory.view(subjects=["user:alice"]), beta),
        ):
            with pytest.raises(RecordNotFoundError):
                await view.inbox.resume(id)
        with pytest.raises(OutOfViewError):
            await memory.view(subjects=[USER]).inbox.resume(bobs)
        with pytest.raises(ReadOnlyError):
            await memory.view(scopes=["/product/beta"], read_only=True).inbox.resume(beta)
        with pytest.raises(RecordNotFoundError):
            await memory.inbox.resume(own, "0" * 32)
        model.gate.set()


async def test_a_provider_of_four_verbs_keeps_no_submissions() -> None:
    async with opened(Shelf()) as memory:
        submission = await memory.remember_many([OSLO])
        with pytest.raises(CapabilityError):
            await memory.inbox.resume(*submission.ids)
