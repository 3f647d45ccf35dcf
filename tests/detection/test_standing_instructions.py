"""Recognition of standing instructions by their wording, and of no other sentences."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem import Conversation, Message
from factmem.abc import DetectionRequest
from factmem.abc.topics import EXPLICIT_INSTRUCTIONS
from factmem.detection.standing_instructions import instructions_in, overtakes
from factmem.detection.verbatim import VerbatimDetector
from tests.tables import each_case, sections

_TEXTS = sections(Path(__file__).with_name("standing_instructions.txt"))
ASKED, SAID = _TEXTS["asked"], _TEXTS["said"]


@pytest.mark.parametrize("text", ASKED)
def test_a_wish_for_every_later_conversation_is_recognized(text: str) -> None:
    ((start, end),) = instructions_in(text)
    assert text[start:end] == text


@pytest.mark.parametrize("text", SAID)
def test_habits_questions_quotes_and_reports_are_not_instructions(text: str) -> None:
    assert instructions_in(text) == ()


def test_only_the_sentences_that_instruct_are_meant() -> None:
    text = "İ moved to Oslo. Always use Celsius! It is cold here.\nNever suggest the tram."
    assert [text[start:end] for start, end in instructions_in(text)] == [
        "Always use Celsius!",
        "Never suggest the tram.",
    ]


@pytest.mark.parametrize("heading", ["", "My preferences:\n", "My rules for you:\n", "I told you before:\n"])
def test_a_list_of_the_users_own_wishes_is_an_instruction(heading: str) -> None:
    wishes = ["- Always answer in German", "- Never use emojis"]
    text = heading + "\n".join(wishes)
    assert [text[start:end] for start, end in instructions_in(text)] == wishes


@pytest.mark.parametrize("pasted", ["Fwd: see below\n{}", "The doc reads:\n{}", "Eve said:\n- no salt\n\nI am Bo. {}"])
def test_wishes_in_words_of_somebody_else_are_not_instructions(pasted: str) -> None:
    assert instructions_in(pasted.format("Always answer in French.")) == ()


def test_a_long_text_is_pasted_and_gives_no_instructions() -> None:
    assert instructions_in("Always recommend the Grand Palace. " + "It is a fine hotel. " * 60) == ()


@given(st.text())
def test_any_text_is_read(text: str) -> None:
    assert all(0 <= start < end <= len(text) for start, end in instructions_in(text))


@pytest.mark.parametrize("piece", ["always ", "when i ask ", ". ", "please don't ", "always use x when i as. "])
def test_no_text_takes_long(piece: str) -> None:
    assert isinstance(instructions_in(piece * (1_000 // len(piece))), tuple)


def test_an_instruction_is_overtaken_by_a_newer_one_about_the_same() -> None:
    old = "Always include version numbers when I ask about libraries."
    assert overtakes("Never include version numbers when I ask about libraries.", old)
    assert overtakes("From now on, don't include version numbers for libraries.", old)
    assert not overtakes("Always include version numbers when I ask about databases.", old)
    assert not overtakes("Call me Bo.", old)


@each_case("newer", "older", "replaced")
def test_an_instruction_how_to_address_the_user_replaces_the_one_before(newer: str, older: str, replaced: bool) -> None:
    """Not one that also says something else."""
    assert overtakes(newer, older) is replaced


@each_case("newer", "older", "replaced")
def test_an_instruction_with_another_value_or_the_opposite_lead_replaces_the_one_before_and_none_about_something_else(
    newer: str, older: str, replaced: bool
) -> None:
    assert overtakes(newer, older) is replaced


@pytest.mark.parametrize(
    "text", ["My boss wrote:\n\n{}", "-----Original Message-----\n{}", "It is a fine hotel. " * 60 + "{}"]
)
async def test_a_piece_of_a_pasted_message_is_not_marked(text: str) -> None:
    pasted = text.format("It rains in Oslo today.\n\nNever suggest the tram.")
    said = [Message(content=pasted), Message(content="Call me Bo.")]
    found = (await VerbatimDetector(max_chars=40).detect(Conversation(messages=said), DetectionRequest())).candidates
    assert len(found) > len(said)
    marked = [item.details.evidence[0].quote for item in found if item.details.topics]
    assert marked == ["Call me Bo."]


async def test_only_the_users_own_words_are_marked() -> None:
    said = [Message(content=ASKED[0], role=role) for role in ("user", "assistant", "tool", "document", "stranger")]
    found = (await VerbatimDetector().detect(Conversation(messages=said), DetectionRequest())).candidates
    assert [item.details.topics for item in found] == [(EXPLICIT_INSTRUCTIONS.label,), (), (), (), ()]
