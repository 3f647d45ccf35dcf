"""Images, audio and files in messages: not kept, but counted for every kind of input."""

from __future__ import annotations

from typing import Any

import pytest

from factmem import AgentMemoryProvider, Background, Conversation, InMemoryProvider, Memory, Message
from factmem.abc.detector import DropReason
from factmem.errors import InvalidDataError
from factmem.memory import Trigger
from factmem.memory.background import SubmissionFinished
from factmem.testing import HashEmbedder, ScriptedModel
from tests.memory.shelves import Shelf
from tests.memory.telling import opened, said, well
from tests.tables import each_case

PHOTO = Message(content="I live in Oslo.", id="m1", not_text=2)
VOICE = Message(content="", id="m2", not_text=1)
SYSTEM = Message(content="Be kind.", role="system", id="m3", not_text=4)
TALK = Conversation(messages=(PHOTO, VOICE, SYSTEM), id="talk")
COUNTED = {DropReason.NOT_TEXT: 3}


@pytest.fixture(params=["words", "model", "four verbs", "four verbs and a model"])
def memory(request: pytest.FixtureRequest) -> Memory:
    provider: AgentMemoryProvider = Shelf() if "verbs" in request.param else InMemoryProvider()
    model = ScriptedModel(well) if "model" in request.param else None
    if "verbs" in request.param:
        return Memory(provider, model=model, embedder=HashEmbedder(), background=Background(attempts=1))
    return opened(provider, model)


async def test_remember_reports_left_out_parts(memory: Memory, caplog: pytest.LogCaptureFixture) -> None:
    """There is one warning, without any text; instructions are not read, so their parts do not count."""
    outcome = await memory.remember(TALK)
    assert outcome.dropped == COUNTED
    (warning,) = caplog.messages
    assert "images" in warning
    assert "Oslo" not in warning
    assert (await memory.remember(VOICE)).dropped == {DropReason.NOT_TEXT: 1}
    assert len(await memory.list_records()) == 1


@each_case("part", "kept", "dropped")
async def test_a_part_of_unknown_type_is_counted(
    part: dict[str, str], kept: list[str], dropped: dict[str, int]
) -> None:
    async with Memory("memory:", embedder=HashEmbedder()) as memory:
        outcome = await memory.remember({"role": "user", "content": [part]})
        assert [record.value for record in outcome] == kept
        assert {reason.name: count for reason, count in outcome.dropped.items()} == dropped


async def test_a_submission_reports_left_out_parts(memory: Memory) -> None:
    async with memory:
        submission = await memory.remember_many([TALK, "We booked 12 seats."])
        outcomes = await submission.wait()
        assert [outcome.dropped for outcome in outcomes] == [COUNTED, {}]
        assert submission.dropped == COUNTED
        assert (await memory.generate([Message(content="It rains.", not_text=1)])).dropped == {DropReason.NOT_TEXT: 1}


async def test_events_are_counted_once(memory: Memory) -> None:
    """This includes events without any text, which are not stored."""
    async with memory:
        submission = await memory.inbox.ingest_events("chat", TALK.messages)
        await submission.wait()
        assert submission.dropped == COUNTED
        again = await memory.inbox.ingest_events("chat", [*TALK.messages, Message(content="", id="m4", not_text=1)])
        assert again.dropped == {DropReason.NOT_TEXT: 1}
        assert (await memory.inbox.ingest_events("chat", TALK.messages)).dropped == {}


async def test_events_that_wait_are_counted_at_once_and_in_their_outcome() -> None:
    heard: list[Any] = []
    async with opened(InMemoryProvider(), ScriptedModel(well), on_event=heard.append) as memory:
        submission = await memory.inbox.ingest_events("chat", TALK.messages, trigger=Trigger(count=5))
        assert (submission.dropped, submission.outcomes) == (COUNTED, ())
        await memory.inbox.flush()
        (outcome,) = await submission.wait()
        assert (outcome.dropped, submission.dropped, said(outcome.records)) == (COUNTED, COUNTED, ["Oslo"])
    assert [event.outcome.dropped for event in heard if isinstance(event, SubmissionFinished)] == [COUNTED]


@pytest.mark.parametrize("number", [-1, True, 1.5, "1"])
def test_a_number_of_parts_is_a_number(number: Any) -> None:
    with pytest.raises(InvalidDataError, match="not_text"):
        Message(content="", not_text=number)
