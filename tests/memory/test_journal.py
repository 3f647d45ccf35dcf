"""The journal without a store: the jobs of pending messages, and the conversation rebuilt from them."""

from __future__ import annotations

import datetime as dt
import enum
import itertools
import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem import Concept, Conversation, FactDetails, MemoryScope, MemorySubject, Message, Origin
from factmem.abc import DetectionExample, DetectionRequest
from factmem.abc.topics import PREFERENCES
from factmem.details import MetadataMerge
from factmem.detection import utterances
from factmem.detection.redaction import redact_conversation
from factmem.detection.verbatim import VerbatimDetector
from factmem.errors import CodecError
from factmem.memory.journal import Job, JobKind, Trigger, job_from, job_json, rebuilt, units_in, waiting_for
from factmem.records import Assertion, AssertionState, Place, Recorded, statement_at
from factmem.values import encode_value
from tests.tables import each_case

NOW = dt.datetime(2026, 5, 4, 12, tzinfo=dt.UTC)
PLACE = Place(MemorySubject("user"), MemoryScope.product("alpha"))
DETECT = Job(id="one", kind=JobKind.DETECT)


class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


SEATS = Concept.single("seats", "how many fit in", value_type=int)
SIZES = Concept.multiple("sizes", "which are sold", value_type=Size)


def recorded(assertions: Sequence[Assertion]) -> list[Recorded]:
    numbers = itertools.count(1)
    return [
        Recorded(assertion=said, id=f"a{seq}", record_id=f"r{seq}", seq=seq, recorded_at=NOW)
        for said, seq in zip(assertions, numbers, strict=False)
    ]


async def kept(conversation: Conversation, job: Job = DETECT, max_chars: int = 10_000) -> list[Recorded]:
    detector = VerbatimDetector(max_chars=max_chars, clock=lambda: NOW)
    ((found, _),) = detector.read([conversation], FactDetails(importance=0.7))
    return recorded(waiting_for(job, [statement_at(PLACE, *quoted) for quoted in found]))


def test_a_job_reads_back_as_it_was_written() -> None:
    example = DetectionExample(
        conversation=Conversation(messages=[Message(content="Tea, please.", timestamp=NOW)]),
        memories=(("The user drinks tea.", (PREFERENCES.label,)),),
        facts=[SEATS.fact([12], timestamp=NOW)],
    )
    job = Job(
        id="two",
        kind=JobKind.DETECT,
        consolidate=False,
        infer=("scope",),
        request=DetectionRequest(
            subjects=[MemorySubject("user", "who is talked with", priority_level=3).individual("alice")],
            concepts=[SEATS, SIZES],
            open=True,
            topics=[PREFERENCES],
            examples=[example],
        ),
        merge=MetadataMerge.OVERWRITE,
        trigger=Trigger(count=3, idle=dt.timedelta(minutes=2), overlap=1),
    )
    document = json.loads(json.dumps(job_json(job)))
    assert job_from(document, {"seats": SEATS, "sizes": SIZES}) == job


def test_a_concept_that_is_not_declared_any_more_is_read_by_its_shape() -> None:
    job = Job(id="one", kind=JobKind.DETECT, request=DetectionRequest(concepts=[SEATS, SIZES]))
    seats, sizes = job_from(job_json(job), {}).request.concepts
    assert (seats.keyword, seats.value_type) == ("seats", int)
    assert sizes.shape == {"enum": ["small", "large"]}


def test_the_examples_of_a_concept_outlive_the_process() -> None:
    size = Concept.single("size", "which one", Size, examples=[("The big one.", Size.LARGE)])
    job = Job(id="one", kind=JobKind.DETECT, request=DetectionRequest(concepts=[size]))
    (read,) = job_from(json.loads(json.dumps(job_json(job))), {}).request.concepts
    assert [(said, encode_value(value, read.value_type)) for said, value in read.examples] == [
        ("The big one.", "large")
    ]


def test_what_is_in_use_is_looked_up_anew_and_not_kept() -> None:
    job = Job(id="one", kind=JobKind.DETECT, request=DetectionRequest(open=True, in_use=[SEATS]))
    assert job_from(job_json(job), {}).request.in_use == ()


@pytest.mark.parametrize(
    ("stored", "read"),
    [
        ({"interval": 86_399_999_913_600.0}, Trigger(interval=dt.timedelta(days=36_525))),
        ({"interval": 86_400_000_000_000.0}, Trigger(interval=dt.timedelta(days=36_525))),
        ({"count": 2, "overlap": 5}, Trigger(count=2, overlap=1)),
    ],
    ids=str,
)
def test_a_trigger_that_an_earlier_version_accepted_is_cut_to_its_limit(stored: dict[str, Any], read: Trigger) -> None:
    """Its messages are read all the same."""
    job = Job(id="one", kind=JobKind.DETECT, trigger=Trigger(count=2))
    assert job_from({**job_json(job), "trigger": stored}, {}).trigger == read


@each_case("document")
def test_a_job_that_is_none_is_a_typed_error(document: dict[str, object]) -> None:
    with pytest.raises(CodecError, match="job"):
        job_from(document, {})


async def test_words_of_the_same_job_are_read_together_and_in_the_order_said() -> None:
    late, early = (
        Message(content=text, timestamp=NOW + dt.timedelta(hours=hour))
        for text, hour in (("Second.", 2), ("First.", 1))
    )
    words = await kept(Conversation(messages=[late, early], id="c"))
    (unit,) = units_in(words, {word.id: AssertionState.PENDING for word in words}, {})
    assert [word.assertion.data for word in unit.words] == ["First.", "Second."]
    assert units_in(words, {word.id: AssertionState.RETRACTED for word in words}, {}) == []


TEXTS = st.lists(
    st.sampled_from(
        ["The hall has 40 seats. ", "\n\nA paragraph, ", "and it goes on; ", "日本語です。", "x" * 30 + " "]
    ),
    min_size=1,
    max_size=8,
).map("".join)
ROLES = st.sampled_from(["user", "assistant", "tool", "document"])


@given(said=st.lists(st.tuples(ROLES, TEXTS), min_size=1, max_size=5), max_chars=st.sampled_from([20, 60, 10_000]))
def test_a_conversation_is_put_together_again_from_its_words(said: list[tuple[str, str]], max_chars: int) -> None:
    """Every piece of a long message returns to its position, in a message with its speaker and time."""
    conversation = Conversation(
        messages=[Message(content=text, role=role, name="Ann", timestamp=NOW) for role, text in said], id="c"
    )
    ((found, _),) = VerbatimDetector(max_chars=max_chars, clock=lambda: NOW).read([conversation])
    words = recorded(waiting_for(DETECT, [statement_at(PLACE, *quoted) for quoted in found]))
    before = {item.message_id: item for item in utterances(redact_conversation(conversation), NOW)}
    after = {item.message_id: item for item in utterances(rebuilt(words), NOW)}
    assert before.keys() == after.keys()
    for word in words:
        evidence = word.assertion.details.evidence[0]
        again = after[evidence.message_id or ""]
        assert again.text[evidence.start : evidence.end] == evidence.quote
        assert (again.role, again.speaker, again.timestamp) == (evidence.role, "Ann", NOW)
        assert again.origin is not Origin.UNKNOWN
