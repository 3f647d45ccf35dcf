"""Location of the words that a model quotes."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from factmem.abc import DetectionRequest
from factmem.abc.detector import DropReason, Message
from factmem.detection.statements import says_something
from factmem.detection.utterances import QuotableText
from factmem.facts import Concept

SEATS = DetectionRequest(concepts=[Concept.single("seats", "How many seats", int)])


def folded(text: str) -> str:
    """Return a text without case, and with "3" for "³": a quote may differ in these."""
    return unicodedata.normalize("NFKD", text).casefold()


def quoted(text: str, quote: str) -> str | None:
    found = QuotableText(text).find(quote)
    return None if found is None else text[slice(*found)]


@pytest.mark.parametrize(
    ("text", "quote", "words"),
    [
        ("I live in Oslo.", "I live in Oslo", "I live in Oslo"),
        ("I  live\n\tin Oslo", " I live in Oslo ", "I  live\n\tin Oslo"),
        ("I live in Oslo", "i LIVE in oslo", "I live in Oslo"),
        ("She said “don’t” – twice", 'said "don\'t" - twice', "said “don’t” – twice"),
        ("I live in Oslo", '"I live in Oslo…"', "I live in Oslo"),
        ("Q&A <now>", "Q&amp;A &lt;now&gt;", "Q&A <now>"),
        ("un cafe\u0301 noir", "CAF\u00c9 noir", "cafe\u0301 noir"),
        ("die Straße hier", "STRASSE", "Straße"),
        ("我住在東京。", "住在東京", "住在東京"),
        ("teaching tea", "tea", "tea"),
        ("teaching Tea", "TEA", "Tea"),
    ],
)
def test_a_quote_is_found_as_it_stands_there(text: str, quote: str, words: str) -> None:
    assert quoted(text, quote) == words


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("I live in Oslo", "I lived in Oslo"),
        ("I live in Oslo", "I live in  Rome"),
        ("I live in Oslo", ""),
        ("I live in Oslo.", "."),
        ("", "Oslo"),
        ("my password is [redacted: password]", "[redacted: password]"),
        ("Straße X", "RAS X"),
    ],
)
def test_other_words_are_not_found(text: str, quote: str) -> None:
    assert quoted(text, quote) is None


def test_of_several_places_one_between_words_is_taken() -> None:
    assert QuotableText("I like teaching and tea.").find("tea") == (20, 23)


# Combining accents belong to the letter before them, which cutting them off would change.
LETTERS = st.characters(exclude_categories=["Cs", "Cc", "Mn", "Mc", "Me"])
TEXTS = st.text(LETTERS | st.sampled_from(" \n\t“’—&<ßİéx"), min_size=1, max_size=60)
SPACES = st.sampled_from([" ", "\n", " \t ", "\u00a0"])


@given(st.data(), TEXTS)
def test_any_part_of_a_message_is_found_however_its_spaces_are_mangled(data: st.DataObject, text: str) -> None:
    start = data.draw(st.integers(0, len(text) - 1))
    part = text[start : data.draw(st.integers(start + 1, len(text)))].strip()
    assume(says_something(part))
    words = part.split()
    mangled = "".join(word + data.draw(SPACES) for word in words)
    found = QuotableText(text).find(mangled)
    assert found is not None
    assert folded(text[slice(*found)]).split() == folded(" ".join(words)).split()


@given(TEXTS, TEXTS)
def test_what_is_found_has_the_letters_of_the_quote(text: str, quote: str) -> None:
    """No other word matches the quoted one, regardless of the tolerance."""
    found = QuotableText(text).find(quote)
    if found is not None:
        kept = "".join(char for char in folded(text[slice(*found)]) if char.isascii() and char.isalnum())
        wanted = "".join(char for char in folded(quote) if char.isascii() and char.isalnum())
        assert kept in (wanted, wanted.replace("amp", "").replace("lt", "").replace("gt", ""))


@pytest.mark.parametrize(
    ("item", "message"),
    [
        ({"quote": "12 seats", "message": 2}, 1),
        ({"quote": "12 seats", "message": 1}, 1),
        ({"quote": "12 seats", "message": None}, 1),
        ({"quote": "12 seats", "message": 99}, 1),
        ({"quote": "we need seats", "message": "[1]"}, 0),
        ({"quote": "12 seats", "message": -1}, 1),
    ],
)
async def test_a_wrong_number_is_put_right_if_only_one_message_has_the_words(
    read: Callable[..., Any], item: dict[str, Any], message: int
) -> None:
    reading = await read(["We need seats, 12", "I take 12 seats"], SEATS, {"seats": [{**item, "value": 12}]})
    (candidate,) = reading.detection.candidates
    (evidence,) = candidate.details.evidence
    assert (evidence.position, candidate.fact.timestamp.microsecond) == (message, 1000 * message)


@pytest.mark.parametrize(
    ("said", "quote", "reason"),
    [
        (["12 seats", "12 seats again", "no"], "12 seats", DropReason.QUOTE_NOT_FOUND),
        (["so", "or so", "no"], "13 seats", DropReason.QUOTE_NOT_FOUND),
        (["so", Message(content="12 seats then", role="assistant"), "no"], "12 seats", DropReason.NOT_THE_USERS_WORDS),
    ],
)
async def test_words_that_cannot_be_shown_are_dropped_and_counted(
    read: Callable[..., Any], said: list[Message | str], quote: str, reason: DropReason
) -> None:
    answer = {"seats": [{"quote": quote, "message": 3, "value": 12}]}
    reading = await read(said, SEATS, answer)
    assert [item.fact.concept.keyword for item in reading.detection.candidates if item.fact.concept.keyword] in (
        [],
        ["statement"],
    )
    assert reading.detection.dropped == {reason: 1}
