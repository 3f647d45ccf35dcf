"""Evidence: what is plainly said is believed, and what is not waits with its reason."""

from __future__ import annotations

import base64
import dataclasses
import datetime as dt
import enum
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, Literal

import attrs
import pydantic
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.abc import Candidate, Detection, DetectionRequest
from factmem.abc.detector import Conversation, Doubt, DropReason, Message
from factmem.abc.topics import Topic
from factmem.details import FactDetails
from factmem.detection import InstructorDetector
from factmem.detection.evidence import doubt_of, doubt_of_request, is_said
from factmem.detection.plain_statements import Citation
from factmem.detection.words import ReadableText, words_of
from factmem.facts import STATEMENT, Concept
from factmem.subjects import MemorySubject
from factmem.testing import ScriptedModel
from factmem.values import decode_value
from tests.narrowing import not_none
from tests.tables import cases, each_case, rows, type_named

CASES = cases(__file__)

CITY: Final = Concept.single("city", "City where the user lives")
EMPLOYER: Final = Concept.single("employer", "Where the user works")
AGE: Final = Concept.single("age", "The user's age in years", int)
SMOKES: Final = Concept.single("smokes", "Whether the user smokes", bool)
NOWHERE: Final = "a name, a number or a date that nobody said"


class Diet(enum.Enum):
    VEGAN = "vegan"
    VEGETARIAN = "vegetarian"


@attrs.frozen
class Home:
    street: str
    city: str


class Severity(enum.Enum):
    MILD = "mild"
    SEVERE = "severe"


@dataclasses.dataclass(frozen=True)
class Allergy:
    to: str
    severity: Severity = Severity.MILD
    since: int = 2000
    tags: list[str] = dataclasses.field(default_factory=list)


@attrs.frozen
class AttrsAllergy:
    to: str
    severity: Severity = Severity.MILD


class PydanticAllergy(pydantic.BaseModel):
    to: str
    severity: Severity = Severity.MILD


KINDS: Final[dict[str, Any]] = {
    **{kind.__name__: kind for kind in (bool, bytes, float, int, str, Decimal, Diet, Home)},
    **{kind.__name__: kind for kind in (dt.date, dt.datetime, dt.time, dt.timedelta)},
    "list[str]": list[str],
    "theme": Literal["dark", "light"],
}


def fact(value: Any, concept: list[str]) -> tuple[Any, Concept[Any, Any]]:
    """Return the value and the concept of a case: JSON; and a keyword, a description and the name of a type."""
    keyword, description, kind = concept
    about = STATEMENT if keyword == STATEMENT.keyword else Concept.single(keyword, description, KINDS[kind])
    return decode_value(value, KINDS[kind]), about


def doubted(askable: bool | None) -> Detection:
    """Return a detection of one fact, with a doubt unless `askable` is None."""
    doubt = None if askable is None else Doubt("said in a list", askable=askable)
    fact = CITY.fact(["Oslo"], timestamp=dt.datetime(2024, 5, 8, tzinfo=dt.UTC))
    return Detection(candidates=[Candidate(fact=fact, details=FactDetails(), doubt=doubt)])


def judged(
    text: str,
    value: Any,
    concept: Concept[Any, Any] = CITY,
    quote: str = "",
    asked: str = "",
    subject: str = "user",
    later: str = "",
    said_on: dt.date | None = None,
) -> Doubt | None:
    start = text.index(quote)
    span = (start, start + len(quote or text))
    names = frozenset(word.text for word in words_of(subject))
    before = (asked,) if asked else ()
    citation = Citation(
        text=ReadableText(text), quote=span, asked=asked, earlier=before, later=later, names=names, said_on=said_on
    )
    return doubt_of(value, concept, citation)


def reason(text: str, value: Any, concept: Concept[Any, Any] = CITY, **options: Any) -> str | None:
    doubt = judged(text, value, concept, **options)
    return None if doubt is None else doubt.reason


_TEXTS: Final = rows(Path(__file__).with_name("evidence.txt"))
PLAIN: Final = {language: (text, value) for language, text, value in _TEXTS["plain"]}
AGES: Final = {parts[0]: parts[1] for parts in _TEXTS["ages"]}


@pytest.mark.parametrize("language", PLAIN)
def test_a_plain_statement_is_believed_in_every_language(language: str) -> None:
    text, value = PLAIN[language]
    assert judged(text, value) is None


@pytest.mark.parametrize("parts", _TEXTS["company"])
def test_company_a_change_and_an_aside_leave_a_statement_plain(parts: tuple[str, ...]) -> None:
    text, *believed = parts
    places = ("Bremen", "Sevilla", "杭州", "神戸", "Oslo")
    said = next(iter(believed), next((place for place in places if place in text), ""))
    assert (reason(text, said) is None) is bool(believed)


@pytest.mark.parametrize("language", AGES)
def test_numbers_are_read_in_figures_and_words(language: str) -> None:
    assert judged(AGES[language], 34, AGE) is None
    assert judged(AGES[language], 35, AGE) is not None


@pytest.mark.parametrize(("text", "value"), _TEXTS["denials"])
def test_denials_the_past_and_other_people_wait_in_every_language(text: str, value: str) -> None:
    assert not_none(judged(text, value)).askable


@each_case("text", "why")
def test_a_cue_or_a_structure_is_the_reason_of_waiting(text: str, why: str) -> None:
    assert reason(text, "Oslo", quote="Oslo") == why


@each_case("text", "value", "concept")
def test_a_value_of_any_type_is_found_in_its_canonical_form(text: str, value: Any, concept: list[str]) -> None:
    assert judged(text, *fact(value, concept)) is None


@each_case("text", "value", "concept")
def test_another_sense_unit_or_part_is_not_plain(text: str, value: Any, concept: list[str]) -> None:
    quote = "I'm 41" if "I'm 41" in text else ""
    assert judged(text, *fact(value, concept), quote=quote) is not None


@each_case("text", "value", "concept", "askable")
def test_what_nobody_said_is_never_asked(text: str, value: Any, concept: list[str], askable: bool) -> None:
    doubt = judged(text, *fact(value, concept))
    assert doubt is not None
    assert doubt.askable is askable
    assert (doubt.reason == NOWHERE) is not askable


@each_case("asked", "text", "value", "concept", "believed")
def test_an_answer_says_what_was_asked_just_before(
    asked: str, text: str, value: Any, concept: list[str], believed: bool
) -> None:
    assert (judged(text, *fact(value, concept), asked=asked) is None) is believed


@pytest.mark.parametrize("parts", _TEXTS["after somebody else"])
def test_what_is_left_out_after_words_about_somebody_else_is_not_the_speaker(parts: tuple[str, ...]) -> None:
    asked, text, value, *believed = parts
    assert (reason(text, value, asked=asked) is None) is bool(believed)


@each_case("subject", "text", "value", "believed")
def test_a_fact_about_a_thing_names_it(subject: str, text: str, value: int, believed: bool) -> None:
    seats = Concept.single("seats", "How many seats there are", int)
    assert (judged(text, value, seats, subject=subject) is None) is believed


def test_a_concept_of_dislikes_is_said_with_dislike() -> None:
    dislikes = Concept.multiple("dislikes", "What the user dislikes")
    assert judged("I hate coriander.", "coriander", dislikes) is None


@each_case("text", "plain")
def test_only_a_plain_request_forgets(text: str, plain: bool) -> None:
    citation = Citation(text=ReadableText(text), quote=(0, len(text)))
    doubt = doubt_of_request(citation)
    assert (doubt is None) is plain
    assert doubt is None or doubt.askable
    assert is_said("Oslo", CITY, citation) is ("Oslo" in text)


@pytest.mark.parametrize("parts", _TEXTS["forgotten"])
def test_a_wish_forgets_only_what_it_asks_for(parts: tuple[str, ...]) -> None:
    text, value, *plain = parts
    citation = Citation(text=ReadableText(text), quote=(0, len(text)))
    assert (doubt_of_request(citation, CITY, value) is None) is bool(plain)


@each_case("text", "plain")
def test_all_values_of_a_concept_are_forgotten_at_once_only_where_it_is_named(text: str, plain: bool) -> None:
    citation = Citation(text=ReadableText(text), quote=(0, len(text)))
    assert (doubt_of_request(citation, CITY) is None) is plain


def doubt_of_over(text: str, value: str, **options: Any) -> Doubt | None:
    concept = EMPLOYER if value == "Acme" else CITY
    named = frozenset({"user"})
    citation = Citation(text=ReadableText(text), quote=(0, len(text)), names=named, **options)
    return doubt_of(value, concept, citation, ended=True)


@pytest.mark.parametrize(("text", "value"), _TEXTS["over"])
def test_what_is_plainly_over_is_ended_in_every_language(text: str, value: str) -> None:
    assert doubt_of_over(text, value) is None


@pytest.mark.parametrize(("text", "value"), _TEXTS["not over"])
def test_an_end_that_is_not_plainly_said_waits(text: str, value: str) -> None:
    assert not_none(doubt_of_over(text, value)).askable


def test_nobody_is_asked_about_an_end_that_another_speaker_tells() -> None:
    assert not not_none(doubt_of_over("I no longer work at Acme.", "Acme", of_another=True)).askable


VALUES: Final[list[tuple[Any, Concept[Any, Any]]]] = [
    ("Oslo", CITY),
    (34, AGE),
    (False, SMOKES),
    (Diet.VEGAN, Concept.single("diet", "The user's diet", Diet)),
    (dt.datetime(2024, 5, 8, 12), Concept.single("meeting", "When they meet", dt.datetime)),
    (dt.timedelta(hours=1), Concept.single("commute", "How long it takes", dt.timedelta)),
    (["a", "34"], Concept.single("list", "A list", list[str])),
    ("The user lives in Oslo and smokes.", STATEMENT),
]


PIECES: Final = "I live in Oslo not if 34 and my don't . , ? ! : ( ) - 住 在 、 я не 8 May 2024 hour"


@given(
    st.lists(st.sampled_from([*PIECES.split(), '"', "\n", "  "]), min_size=1, max_size=14),
    st.sampled_from(VALUES),
    st.sampled_from(["user", "everything", "venue"]),
    st.data(),
)
def test_no_words_make_the_judge_fail(
    words: list[str], value: tuple[Any, Concept[Any, Any]], subject: str, data: st.DataObject
) -> None:
    text = " ".join(words)
    start = data.draw(st.integers(0, len(text) - 1))
    quote = (start, data.draw(st.integers(start + 1, len(text))))
    citation = Citation(text=ReadableText(text), quote=quote, asked="Where?", names=frozenset({subject}))
    assert doubt_of(*value, citation) is None or text
    assert doubt_of_request(citation, value[1]) is None or text


# Through the detector


async def _read(text: str, request: DetectionRequest, answer: dict[str, Any]) -> Detection:
    detector = InstructorDetector(ScriptedModel(lambda prompt, model: answer))
    messages = [Message(content="Nothing much.", role="assistant"), Message(content=text)]
    return await detector.detect(Conversation(messages=messages), request)


@pytest.mark.parametrize("value", ["Bergen", "Oslo"])
async def test_what_is_not_plain_waits_and_is_not_dropped(value: str) -> None:
    item = {"quote": "live in Oslo", "message": 2, "value": value}
    found = await _read("I do not live in Oslo.", DetectionRequest(concepts=[CITY]), {"city": [item]})
    (candidate,) = found.candidates
    assert candidate.doubt is not None
    assert (candidate.quarantined, found.dropped) == (False, {})


@each_case("quote", "message", "why")
async def test_words_that_are_not_the_speakers_are_dropped(quote: str, message: int, why: str) -> None:
    item = {"quote": quote, "message": message, "value": "Oslo"}
    found = await _read("I live in Oslo.", DetectionRequest(concepts=[CITY]), {"city": [item]})
    assert (found.candidates, found.dropped) == ((), {DropReason[why]: 1})


async def test_values_of_one_finding_are_judged_one_by_one() -> None:
    hobby = Concept.multiple("hobby", "What they like to do")
    item = {"quote": "I play chess and might try go", "message": 2, "values": ["chess", "go", "Arson"]}
    found = await _read("I play chess and might try go.", DetectionRequest(concepts=[hobby]), {"hobby": [item]})
    held = {value: item.doubt and item.doubt.askable for item in found.candidates for value in item.fact.values}
    assert held == {"chess": None, "go": True, "Arson": False}


async def test_a_finding_is_judged_by_its_own_subject() -> None:
    subjects = [MemorySubject("user"), MemorySubject("daughter")]
    item = {"quote": "My daughter is 5", "message": 2, "value": 5}
    answer = {"age": [{**item, "about": "user"}, {**item, "about": "daughter"}]}
    request = DetectionRequest(concepts=[Concept.single("age", "Age in years", int)], subjects=subjects)
    found = await _read("My daughter is 5.", request, answer)
    assert {str(item.subject): item.doubt is None for item in found.candidates} == {"user": False, "daughter": True}


async def test_a_quote_that_occurs_twice_is_judged_where_it_holds() -> None:
    text = "My aunt says that I live in Oslo. She is right! Today I live in Oslo."
    item = {"quote": "I live in Oslo", "message": 2, "value": "Oslo"}
    found = await _read(text, DetectionRequest(concepts=[CITY]), {"city": [item]})
    assert [item.doubt for item in found.candidates] == [None]


@pytest.mark.parametrize(("value", "askable"), CASES["the keys of a map have to be said"], ids=str)
async def test_the_keys_of_a_map_have_to_be_said(value: Any, askable: bool | None) -> None:
    text = "I take 400 mg of ibuprofen at night."
    concept = Concept.single("doses", "Dose of each drug in mg", object)
    found = await _read(text, DetectionRequest(concepts=[concept]), {"doses": [{"quote": text, "value": value}]})
    assert [item.doubt and item.doubt.askable for item in found.candidates] == [askable]


@pytest.mark.parametrize("kind", [Allergy, AttrsAllergy, PydanticAllergy])
@each_case("said", "severity", "askable")
async def test_a_field_that_a_model_gave_has_to_be_said_even_if_it_is_the_default(
    kind: type[Any], said: str, severity: str | None, askable: bool | None
) -> None:
    concept = Concept.multiple("allergy", "An allergy of the user", kind)
    value = {"to": "nuts"} | ({} if severity is None else {"severity": severity})
    item = {"quote": said.removesuffix("."), "values": [value]}
    found = await _read(said, DetectionRequest(concepts=[concept]), {"allergy": [item]})
    assert [item.doubt and item.doubt.askable for item in found.candidates] == [askable]


async def test_a_default_that_a_model_gave_is_not_taken_for_its_invention() -> None:
    said, concept = "I have an allergy to nuts.", Concept.multiple("allergy", "An allergy of the user", Allergy)
    answer = {"allergy": [{"quote": said, "values": [{"to": "nuts", "since": 2000}, {"to": "nuts", "since": 1999}]}]}
    found = await _read(said, DetectionRequest(concepts=[concept]), answer)
    assert [item.doubt and item.doubt.askable for item in found.candidates] == [True, False]


@each_case("value", "value_type")
@pytest.mark.parametrize("said", ["My term has 1 end, tomorrow", "My term has no end", "My term had an end yesterday"])
async def test_no_value_makes_a_reading_fail(said: str, value: Any, value_type: str) -> None:
    term = Concept.single("term", "When the term ends", type_named(value_type, globals()))
    answer = {"city": [{"quote": "I live in Oslo", "value": "Oslo"}], "term": [{"quote": said, "value": value}]}
    found = await _read(f"I live in Oslo. {said}.", DetectionRequest(concepts=[CITY, term]), answer)
    city, other = found.candidates
    assert city.doubt is None
    assert other.doubt is not None


async def test_bytes_are_answered_in_base64() -> None:
    code = Concept.single("code", "Their code", bytes)
    item = {"quote": "My code is blue.", "message": 2, "value": base64.b64encode(b"blue").decode()}
    found = await _read("My code is blue.", DetectionRequest(concepts=[code]), {"code": [item]})
    assert [item.doubt for item in found.candidates] == [None]


async def test_secrets_in_a_models_answer_are_redacted() -> None:
    text = "The network in the office is called Falcon, and hunter2x9 opens it."
    cited = {"quote": text, "message": 2}
    wifi = {**cited, "keyword": "wifi_password", "description": "its password", "value": "hunter2x9"}
    memory = {**cited, "memory": "The password of Falcon in the office is hunter2x9.", "topics": ["all"]}
    request = DetectionRequest(open=True, topics=[Topic("all")])
    found = await _read(text, request, {"facts": [wifi], "memories": [memory]})
    assert found.dropped == {DropReason.ONLY_SECRETS: 1}
    assert [value for item in found.candidates for value in item.fact.values] == [
        "The password of Falcon in the office is [redacted: password]."
    ]


@each_case("text", "value", "concept")
def test_forms_of_a_value_and_of_its_concept_are_plain(text: str, value: Any, concept: list[str]) -> None:
    assert reason(text, *fact(value, concept)) is None


def test_a_word_that_ends_like_a_denial_denies_nothing() -> None:
    assert reason("أنا أعيش في الإسكندرية.", "الإسكندرية") is None


def test_a_number_that_a_language_cannot_spell_is_read_in_figures() -> None:
    for text in ("Mój budżet to 32000.", "मेरा बजट 32000 है।", "私の予算は32000です。"):
        judged(text, 32_000, Concept.single("budget", "Their budget", int))


@each_case("text", "value", "concept", "believed")
def test_numbers_and_times_in_words_are_whole(text: str, value: Any, concept: list[str], believed: bool) -> None:
    said = Citation(
        text=ReadableText(text), quote=(0, len(text)), names=frozenset({"user"}), said_on=dt.date(2024, 5, 8)
    )
    assert (doubt_of(*fact(value, concept), said) is None) is believed


@each_case("text", "value", "believed")
def test_a_denial_reaches_what_it_denies(text: str, value: str, believed: bool) -> None:
    language = Concept.single("language", "A language that they speak")
    assert (judged(text, value, language) is None) is believed


@each_case("asked", "text", "value", "believed")
def test_a_yes_or_a_no_answers_one_question(asked: str, text: str, value: bool, believed: bool) -> None:
    assert (judged(text, value, SMOKES, asked=asked) is None) is believed


@each_case("later", "believed")
def test_the_next_message_may_take_back_what_was_said(later: str, believed: bool) -> None:
    assert (judged("I live in Oslo.", "Oslo", later=later) is None) is believed


BloodType = enum.Enum("BloodType", {"A_POSITIVE": "A+", "A_NEGATIVE": "A-"})


def test_members_that_differ_in_a_sign_are_told_apart() -> None:
    blood = Concept.single("blood_type", "Blood type of the user", BloodType)
    said = "My blood type is A+."
    assert judged(said, BloodType.A_POSITIVE, blood) is None
    assert judged(said, BloodType.A_NEGATIVE, blood) is not None


async def test_a_detector_reads_the_next_message_of_the_same_speaker() -> None:
    said = [
        Message(content="I live in Oslo."),
        Message(content="Noted.", role="assistant"),
        Message(content="Sorry, I meant Bergen."),
    ]
    answer = {"city": [{"quote": "I live in Oslo", "message": 1, "value": "Oslo"}]}
    detector = InstructorDetector(ScriptedModel(lambda prompt, model: answer))
    found = await detector.detect(Conversation(messages=said), DetectionRequest(concepts=[CITY]))
    assert [item.doubt is not None for item in found.candidates] == [True]


MONDAY: Final = dt.date(2026, 3, 2)
EXAM: Final = Concept.single("exam_date", "Day of the exam", dt.date)


@each_case("text", "day", "believed")
def test_a_day_said_in_part_is_the_next_one(text: str, day: str, believed: bool) -> None:
    value = dt.date.fromisoformat(day)
    assert (judged(text, value, EXAM, said_on=MONDAY) is None) is believed
    assert judged(text, value, EXAM) is not None, "without the day of the message, nobody can tell"


@pytest.mark.parametrize(
    ("text", "believed"), [(text, name == "named") for name in ("named", "not named") for (text,) in _TEXTS[name]]
)
def test_somebody_is_named_with_a_relation_or_meant_by_a_pronoun(text: str, believed: bool) -> None:
    assert (judged(text, "Oslo", subject="Eva") is None) is believed


@each_case("text")
def test_a_relative_or_a_superior_is_named_where_the_concept_is_about_them(text: str) -> None:
    assert reason(text, "Eva", Concept.single("boss", "Boss of the user")) is None
    assert reason(text, "Eva", Concept.single("name", "Name of the user")) is not None


AISLE_OR_WINDOW: Final[Any] = Literal["window", "aisle"]
SEAT: Final = Concept.single("seat", "Seat that the user prefers", AISLE_OR_WINDOW)


@each_case("asked", "text", "believed")
def test_what_the_assistant_offers_is_chosen_in_a_word(asked: str, text: str, believed: bool) -> None:
    assert (judged(text, "aisle", SEAT, asked=asked) is None) is believed


@each_case("text", "value", "concept")
def test_a_part_a_difference_and_a_name_are_not_plain(text: str, value: Any, concept: list[str]) -> None:
    assert judged(text, *fact(value, concept)) is not None


def test_a_sentence_may_end_with_a_number() -> None:
    assert judged("I'm 34. Is that too old to learn the violin?", 34, AGE, quote="I'm 34") is None


@each_case("text")
def test_an_ordinal_numbers_what_the_concept_is_about(text: str) -> None:
    floor = Concept.single("floor", "Floor (Stock) on which the user lives", int)
    assert judged(text, 5, floor) is None
    assert judged(text, 4, floor) is not None
    assert judged(text, 5, Concept.single("children", "How many children the user has", int)) is not None


@each_case("text", "quote", "believed")
def test_what_stands_beside_a_statement_speaks_against_it_only_where_it_is_about_it(
    text: str, quote: str, believed: bool
) -> None:
    assert (judged(text, "Oslo", CITY, quote=quote) is None) is believed


@pytest.mark.parametrize(("text", "believed"), [("39. so 40 then?", True), ("1. 39\n2. 40", False)])
def test_a_number_with_a_full_stop_alone_is_no_list(text: str, believed: bool) -> None:
    size = Concept.single("shoe_size", "Shoe size (EU)", int)
    assert (judged(text, 39, size, quote="39", asked="What EU size do you wear?") is None) is believed
