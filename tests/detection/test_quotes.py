"""Quotes: the words that a model quotes are located, and without a model words are kept as they stand."""

from __future__ import annotations

import datetime as dt
import unicodedata
from collections.abc import Callable, Sequence
from typing import Any

import attrs
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from factmem.abc import Candidate, DetectionRequest, Detector
from factmem.abc.detector import MEMORY_ROLE, Conversation, DropReason, Message
from factmem.details import Evidence, Origin
from factmem.detection.quotes import QuotableText
from factmem.detection.statements import says_something
from factmem.detection.verbatim import LONGEST_STATEMENT, VerbatimDetector
from factmem.errors import InvalidDataError
from factmem.facts import STATEMENT, Concept
from tests.tables import each_case

SEATS = DetectionRequest(concepts=[Concept.single("seats", "How many seats", int)])


def folded(text: str) -> str:
    """Return a text without case, and with "3" for "³": a quote may differ in these."""
    return unicodedata.normalize("NFKD", text).casefold()


def quoted(text: str, quote: str) -> str | None:
    found = QuotableText(text).find(quote)
    return None if found is None else text[slice(*found)]


@each_case("text", "quote", "words")
def test_a_quote_is_found_as_it_stands_there(text: str, quote: str, words: str) -> None:
    assert quoted(text, quote) == words


@each_case("text", "quote")
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


@each_case("item", "message")
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


# The detector that needs no model.


NOW = dt.datetime(2024, 5, 8, 12, tzinfo=dt.UTC)
BEGAN = dt.datetime(2023, 1, 2, 9, tzinfo=dt.UTC)


def found(*messages: Message, id: str | None = "c", started_at: dt.datetime | None = BEGAN) -> Sequence[Candidate]:
    return candidates_in(Conversation(messages=messages, id=id, started_at=started_at), 1_000, NOW)


def candidates_in(conversation: Conversation, max_chars: int, now: dt.datetime) -> list[Candidate]:
    ((found, _),) = VerbatimDetector(max_chars=max_chars, clock=lambda: now).read([conversation])
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


@each_case("role", "origin")
def test_the_role_sets_the_origin(role: str, origin: str) -> None:
    (candidate,) = found(Message(content="The sky is blue.", role=role))
    assert candidate.details.origin is Origin[origin]


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
