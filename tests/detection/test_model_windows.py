"""Long conversations are read in windows that fit the model, and returned as one result."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable
from html import unescape
from typing import Any

import anyio
import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from factmem.abc import DetectionRequest, Prompt
from factmem.abc.detector import Conversation, Message
from factmem.detection import InstructorDetector
from factmem.detection.quotes import QuotedWords
from factmem.detection.statements import says_something
from factmem.detection.utterances import utterances
from factmem.detection.windows import Window
from factmem.errors import ModelAnswerError, ModelUnavailableError
from factmem.facts import Concept
from factmem.testing import ScriptedModel

NOW = dt.datetime(2024, 5, 8, 12, tzinfo=dt.UTC)
NUMBER = Concept.multiple("number", "A number that is named", int)
REQUEST = DetectionRequest(concepts=[NUMBER])


def windows(contents: list[str], max_chars: int, *, roles: str = "user") -> list[Window]:
    messages = [Message(content=content, role=role) for content, role in zip(contents, roles.split("|"), strict=False)]
    messages += [Message(content=content) for content in contents[len(messages) :]]
    conversation = Conversation(messages=messages, started_at=NOW)
    return Window.of((item, item.origin.value == "user") for item in utterances(conversation, NOW)).split(max_chars)


def numbers_in(prompt: Prompt, answer: type[BaseModel]) -> dict[str, Any]:
    """Answer as a good model does: every number in a message to take facts from."""
    messages = re.findall(r'<message number="(\d+)" take_facts="yes"[^>]*>(.*?)</message>', prompt.content, re.DOTALL)
    found = [
        {"quote": quote[0], "message": int(number), "values": [int(quote[1])]}
        for number, text in messages
        for quote in re.finditer(r"number (\d+)", unescape(text))
    ]
    return {"number": found}


@given(st.lists(st.text("ab .<&\n", max_size=90), max_size=8), st.integers(200, 700))
def test_every_message_is_asked_about_once_and_windows_fit(contents: list[str], max_chars: int) -> None:
    parted = windows(contents, max_chars)
    own = [item for window in parted for item in window.excerpts if not item.carried]
    assert [item.utterance.position for item in own] == sorted(
        position for position, content in enumerate(contents) for _ in range(says_something(content))
    )
    assert all(len(window.rendered()) <= max_chars or len(window.excerpts) == 1 for window in parted)


def test_a_long_message_is_cut_and_every_piece_knows_its_place() -> None:
    text = " ".join(f"This is sentence {number} of <many>." for number in range(60))
    pieces = [item for window in windows([text], 600) for item in window.excerpts if not item.carried]
    assert len(pieces) > 3
    assert " ".join(item.words.text for item in pieces) == text
    evidence = next(found for item in pieces for found in item.cite(QuotedWords("sentence 41  of <many>")))
    assert text[evidence.start : evidence.end] == evidence.quote == "sentence 41 of <many>"


def test_a_window_starts_with_the_message_before_it_as_context() -> None:
    first, second = windows(["x" * 250, "How many?", "12 " + "y" * 250], 500, roles="user|assistant|user")
    assert [item.utterance.position for item in first.excerpts] == [0, 1]
    assert [(item.utterance.position, item.carried) for item in second.excerpts] == [(1, True), (2, False)]
    assert 'take_facts="no"' in second.rendered().splitlines()[0]


async def test_facts_of_all_windows_come_in_the_order_of_the_conversation() -> None:
    said = [Message(content=f"Here is number {number}. {'so ' * 40}") for number in range(12)]
    model = ScriptedModel(numbers_in)
    conversation = Conversation(messages=said, started_at=NOW)
    detection = await InstructorDetector(model, max_chars=900).detect(conversation, REQUEST)
    assert len(model.prompts) > 3
    assert [item.fact.values for item in detection.candidates] == [(number,) for number in range(12)]
    assert [item.details.evidence[0].position for item in detection.candidates] == list(range(12))


async def test_what_a_window_finds_in_the_message_before_it_is_left_to_the_window_before(
    read: Callable[..., Any],
) -> None:
    said = ["first " * 150, "It is number 7", "last " * 180]
    in_first = {"number": [{"quote": "number 7", "message": 2, "values": [7]}]}
    in_last = {"number": [{"quote": "It is number 7", "message": 1, "values": [77]}]}
    reading = await read(said, REQUEST, ("first", in_first), ("last", in_last), max_chars=2_000)
    assert all("It is number 7" in prompt.content for prompt in reading.prompts)
    assert [item.fact.values for item in reading.detection.candidates] == [(7,)]
    assert reading.detection.dropped == {}


async def test_the_same_thing_said_in_one_message_is_there_once_and_in_two_twice(read: Callable[..., Any]) -> None:
    quoted = [{"quote": quote, "message": 1, "values": [7]} for quote in ("number 7", "7 it is", "7")]
    again = {"quote": "So 7", "message": 2, "values": [7]}
    reading = await read(["It is number 7. 7 it is!", "So 7."], REQUEST, {"number": [*quoted, again]})
    assert [item.details.evidence[0].quote for item in reading.detection.candidates] == ["number 7", "So 7"]


@pytest.mark.parametrize("error", [ModelUnavailableError("no"), ModelAnswerError("no")])
async def test_one_failing_window_fails_the_whole(error: Exception) -> None:
    """A partial result would look like a complete one."""
    said = [Message(content=f"number {number} {'so ' * 100}") for number in range(6)]

    def script(prompt: Prompt, answer: type[BaseModel]) -> dict[str, Any] | Exception:
        return error if "number 3 " in prompt.content else numbers_in(prompt, answer)

    detector = InstructorDetector(ScriptedModel(script), max_chars=1_000)
    with pytest.raises(type(error)):
        await detector.detect(Conversation(messages=said), REQUEST)


@attrs.define
class CountingModel:
    """A model that counts the questions in progress."""

    max_chars: int = 1_000
    asked: int = 0
    under_way: int = 0
    most: int = 0

    async def ask(self, prompt: Prompt, answer: Any) -> Any:
        self.asked += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        await anyio.wait_all_tasks_blocked()
        self.under_way -= 1
        return answer()


@pytest.mark.parametrize("concurrency", [1, 3])
async def test_windows_are_asked_about_in_parallel_up_to_the_limit(concurrency: int) -> None:
    model = CountingModel()
    said = [Message(content=f"{number} {'so ' * 150}") for number in range(8)]
    await InstructorDetector(model, concurrency=concurrency).detect(Conversation(messages=said), REQUEST)
    assert model.asked >= 4
    assert model.most == concurrency


async def test_order_and_times_reach_the_model(read: Callable[..., Any]) -> None:
    said = [
        Message(content="Tomorrow then.", timestamp=dt.datetime(2023, 1, 2, 10, tzinfo=dt.UTC), name="Ann"),
        Message(content="Fine.", role="assistant", timestamp=dt.datetime(2023, 1, 3, 9, 5, tzinfo=dt.UTC)),
    ]
    (prompt,) = (await read(said, REQUEST, {})).prompts
    lines = [line for line in prompt.content.splitlines() if line.startswith("<message")]
    ann = '<message number="1" take_facts="yes" role="user" speaker="Ann" said="2023-01-02 10:00 UTC, Monday">'
    other = '<message number="2" take_facts="no" role="assistant" said="2023-01-03 09:05 UTC, Tuesday">'
    assert lines == [f"{ann}Tomorrow then.</message>", f"{other}Fine.</message>"]


async def test_the_list_of_keywords_in_use_leaves_room_for_the_conversation(read: Callable[..., Any]) -> None:
    """Keywords left out of the list keep their types if the model names them."""
    in_use = [Concept.single(f"keyword_{number}", "x" * 50, int) for number in range(500)]
    answer = {"facts": [{"quote": "so it is", "message": 1, "keyword": "keyword_499", "value": "5"}]}
    reading = await read(["so it is: 5"], DetectionRequest(in_use=in_use), answer, max_chars=3_000)
    assert len(reading.prompts[0].content) < 3_000
    assert reading.detection.candidates[0].fact == in_use[499].fact(
        [5], timestamp=reading.detection.candidates[0].fact.timestamp
    )
