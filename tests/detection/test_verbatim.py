"""The detector that needs no model."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.abc import Candidate, DetectionRequest, Detector
from factmem.abc.detector import MEMORY_ROLE, Conversation, Message
from factmem.details import Evidence, Origin
from factmem.detection.verbatim import LONGEST_STATEMENT, VerbatimDetector
from factmem.errors import InvalidDataError
from factmem.facts import STATEMENT

NOW = dt.datetime(2024, 5, 8, 12, tzinfo=dt.UTC)
BEGAN = dt.datetime(2023, 1, 2, 9, tzinfo=dt.UTC)


def found(*messages: Message, id: str | None = "c", started_at: dt.datetime | None = BEGAN) -> Sequence[Candidate]:
    return candidates_in(Conversation(messages=messages, id=id, started_at=started_at), 1_000, NOW)


def candidates_in(conversation: Conversation, max_chars: int, now: dt.datetime) -> list[Candidate]:
    found, _ = VerbatimDetector(max_chars=max_chars, clock=lambda: now).read(conversation)
    return [quoted.candidate() for quoted in found]


def words(candidates: Sequence[Candidate]) -> list[str]:
    return [candidate.fact.values[0] for candidate in candidates]


async def test_each_message_is_one_statement_with_its_speaker_time_and_place() -> None:
    detector: Detector = VerbatimDetector()
    when = dt.datetime(2023, 1, 2, 10, tzinfo=dt.UTC)
    said = Message(content=" I moved to Lisbon. ", name="Ann", id="m7", timestamp=when)
    (candidate,) = (await detector.detect(Conversation(messages=(said,), id="c"), DetectionRequest())).candidates
    assert candidate.fact == STATEMENT.fact(["I moved to Lisbon."], timestamp=when)
    assert candidate.details.origin is Origin.USER
    assert candidate.details.evidence == (
        Evidence(
            quote="I moved to Lisbon.",
            message_id="m7",
            role="user",
            speaker="Ann",
            conversation_id="c",
            position=0,
            start=1,
            end=19,
        ),
    )


@pytest.mark.parametrize(
    ("role", "origin"),
    [
        ("user", Origin.USER),
        ("assistant", Origin.ASSISTANT),
        ("tool", Origin.TOOL),
        ("document", Origin.DOCUMENT),
        ("stranger", Origin.UNKNOWN),
    ],
)
def test_the_role_sets_the_origin(role: str, origin: Origin) -> None:
    (candidate,) = found(Message(content="The sky is blue.", role=role))
    assert candidate.details.origin is origin


@pytest.mark.parametrize("origin", Origin)
def test_every_origin_is_a_role_of_messages(origin: Origin) -> None:
    """Hosts give words of an origin to a detector as messages of the role with its name."""
    assert Message(content="The sky is blue.", role=origin.value).origin is origin


@pytest.mark.parametrize("role", ["system", "developer", MEMORY_ROLE])
def test_instructions_and_rendered_blocks_are_left_out(role: str) -> None:
    assert words(found(Message(content="You are kind.", role=role), Message(content="I am Ann."))) == ["I am Ann."]


@pytest.mark.parametrize("content", ["", " \n\t", "...", "?!", "→→"])
def test_what_says_nothing_gives_nothing(content: str) -> None:
    assert found(Message(content=content)) == []


def test_a_message_without_a_time_follows_the_beginning_in_milliseconds() -> None:
    times = [candidate.fact.timestamp for candidate in found(Message(content="one"), Message(content="two"))]
    assert times == [BEGAN, BEGAN + dt.timedelta(milliseconds=1)]


def test_a_conversation_without_any_time_takes_the_clock_in_order_and_never_the_future() -> None:
    first, second = found(Message(content="one"), Message(content="two"), started_at=None)
    assert NOW - dt.timedelta(seconds=1) < first.fact.timestamp < second.fact.timestamp < NOW


async def test_the_detectors_own_clock_is_the_one_that_is_asked() -> None:
    said = Conversation(messages=(Message(content="one"),))
    (candidate,) = (await VerbatimDetector(clock=lambda: NOW).detect(said, DetectionRequest())).candidates
    assert abs(candidate.fact.timestamp - NOW) < dt.timedelta(seconds=1)


def test_a_message_without_an_id_takes_its_position_among_all_messages() -> None:
    candidates = found(
        Message(content="be kind", role="system"), Message(content="one"), Message(content="two", id="x")
    )
    cited = [candidate.details.evidence[0] for candidate in candidates]
    assert [(evidence.message_id, evidence.position) for evidence in cited] == [("1", 1), ("x", 2)]


def test_a_conversation_without_an_id_takes_one_from_its_content() -> None:
    def derived(*contents: str) -> str | None:
        candidates = found(*(Message(content=content) for content in contents), id=None)
        return candidates[0].details.evidence[0].conversation_id

    assert derived("one", "two") == derived("one", "two")
    assert derived("one", "two") != derived("one", "three")


def test_an_id_derived_from_content_does_not_depend_on_the_secrets_in_it() -> None:
    ids = {
        found(Message(content=f"my PIN is {pin}"), id=None)[0].details.evidence[0].conversation_id
        for pin in ("4821", "1357")
    }
    assert len(ids) == 1


def test_secrets_are_in_neither_value_nor_quote_and_offsets_count_in_the_redacted_text() -> None:
    (candidate,) = found(Message(content="my password is blue77cat and my cat is Tom"))
    text = "my password is [redacted: password] and my cat is Tom"
    evidence = candidate.details.evidence[0]
    assert (candidate.fact.values[0], evidence.quote, evidence.start, evidence.end) == (text, text, 0, len(text))


async def test_a_long_message_is_cut_and_each_piece_cites_its_own_words() -> None:
    text = "I have a dog called Rex.\n\nMy sister lives in Oslo."
    said = Conversation(messages=(Message(content=text),))
    candidates = (await VerbatimDetector(max_chars=30).detect(said, DetectionRequest())).candidates
    assert words(candidates) == ["I have a dog called Rex.", "My sister lives in Oslo."]
    for candidate in candidates:
        (evidence,) = candidate.details.evidence
        assert text[evidence.start : evidence.end] == evidence.quote == candidate.fact.values[0]


def test_a_lone_surrogate_does_not_stop_a_conversation() -> None:
    assert words(found(Message(content="broken \ud800 text"))) == ["broken \ufffd text"]


@pytest.mark.parametrize("max_chars", [0, -1, True, 1.5, LONGEST_STATEMENT + 1])
def test_a_senseless_length_is_refused(max_chars: Any) -> None:
    with pytest.raises(InvalidDataError, match="max_chars"):
        VerbatimDetector(max_chars=max_chars)


MESSAGES = st.builds(
    Message, content=st.text(max_size=80), role=st.sampled_from(["user", "assistant", "system", "tool", MEMORY_ROLE])
)


@given(st.lists(MESSAGES, max_size=5), st.integers(1, 50))
def test_every_quote_stands_in_a_message_and_the_same_conversation_gives_the_same(
    messages: list[Message], max_chars: int
) -> None:
    conversation = Conversation(messages=tuple(messages), started_at=BEGAN)
    candidates = candidates_in(conversation, max_chars, NOW)
    assert candidates == candidates_in(attrs.evolve(conversation), max_chars, NOW + dt.timedelta(days=1))
    for candidate in candidates:
        (evidence,) = candidate.details.evidence
        assert evidence.position is not None
        assert evidence.quote in messages[evidence.position].content
