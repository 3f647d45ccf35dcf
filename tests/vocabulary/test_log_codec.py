"""Log entries are written as tagged, versioned JSON, and read strictly."""

from __future__ import annotations

import copy
import datetime as dt
import json
from typing import Any

import attrs
import pytest
from hypothesis import HealthCheck, given, settings

from factmem.codec import (
    FORMAT_VERSION,
    decode_assertion,
    decode_entry,
    decode_head,
    dump_entry,
    encode_entry,
    encode_head,
    encode_rest,
    load_entry,
)
from factmem.details import Evidence, FactDetails, Origin
from factmem.errors import CodecError, NewerVersionError
from factmem.facts import STATEMENT, Concept
from factmem.records import Assertion, LogEntry, Place, Recorded, assertions_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing import strategies
from factmem.testing.strategies import Mood, Pet
from tests.tables import cases, each_case

CASES = cases(__file__)

pytestmark = pytest.mark.slow

NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)


def sample() -> Recorded:
    """An entry in which every field is set."""
    place = Place(MemorySubject("user", "x", priority_level=3).individual("a"), MemoryScope.agent("p").within("t"))
    details = FactDetails(
        importance=0.25,
        categories=("c",),
        topics=("t",),
        source="s",
        owner="o",
        metadata={"k": [1, None]},
        evidence=(Evidence(quote="q", message_id="m", role="user", position=1, start=0, end=1),),
        origin=Origin.TOOL,
        expires_at=NOON,
        revision_expires_at=NOON,
        labels={"run": "7"},
        flags=("f",),
        doubt="d",
    )
    fact = Concept.multiple("pets", "d", Pet).fact([Pet("Rex", 3, Mood.BAD)], timestamp=NOON, valid_from=NOON)
    (assertion,) = assertions_of(fact, place, details, removed=True)
    assertion = attrs.evolve(assertion, job={"kind": "detect", "tries": [1, None]}, revises="r", revised=3, actor="x:y")
    return Recorded(assertion=assertion, id="i", record_id="r", seq=7, recorded_at=NOON)


def test_a_document_with_every_field_set_reads_back_whole() -> None:
    """This includes a job, the labels of a revision, and the state set by the job."""
    entry = sample()
    for item in (entry.assertion, entry.assertion.details):
        fields = attrs.asdict(item, recurse=False)
        assert [name for name, value in fields.items() if value in (None, {}, ())] in ([], ["valid_to"])
    assert load_entry(dump_entry(entry)) == entry
    assert encode_entry(entry)["assertion"]["errand"] == {"kind": "detect", "tries": [1, None]}
    assert encode_entry(entry)["assertion"]["state"] == entry.assertion.state.value


@given(strategies.log_entries())
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_an_entry_survives_its_document(entry: LogEntry) -> None:
    line = dump_entry(entry)
    assert b"\n" not in line
    assert load_entry(line) == entry
    assert dump_entry(load_entry(line)) == line
    assert decode_entry(encode_entry(entry)) == entry


@given(strategies.assertions())
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_an_assertion_survives_its_head_and_its_rest(assertion: Assertion) -> None:
    head, rest = (json.loads(json.dumps(part)) for part in (encode_head(assertion), encode_rest(assertion)))
    assert decode_assertion(decode_head(head), rest, assertion.timestamp) == assertion


@pytest.mark.parametrize("keyword", ["", "a\nb"])
def test_a_head_with_a_keyword_that_no_store_may_hold_is_refused(keyword: str) -> None:
    with pytest.raises(CodecError):
        decode_head({**encode_head(sample().assertion), "keyword": keyword})


@each_case("data", "details")
def test_a_malformed_rest_is_a_typed_error(data: object, details: object) -> None:
    (said,) = assertions_of(STATEMENT.fact(["x"], timestamp=NOON), sample().assertion.place)
    with pytest.raises(CodecError):
        decode_assertion(decode_head(encode_head(said)), {"data": data, "details": details}, NOON)


@given(strategies.assertions())
@settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
def test_an_entry_keeps_its_identity(assertion: Any) -> None:
    """The document preserves every part of an assertion's and a record's identity."""
    recorded = Recorded(assertion=assertion, id="i", record_id="r", seq=1, recorded_at=NOON)
    read = load_entry(dump_entry(recorded))
    assert isinstance(read, Recorded)
    assert read.assertion.fingerprint == assertion.fingerprint
    assert (read.assertion.track, read.assertion.slot) == (assertion.track, assertion.slot)


def test_a_document_names_no_class_and_no_module() -> None:
    """Moving a class therefore breaks no store."""
    written = dump_entry(sample()).decode()
    for name in ("Pet", "Mood", "factmem", "Recorded", "Assertion", "__"):
        assert name not in written
    assert json.loads(written)["kind"] == "assertion"
    assert json.loads(written)["v"] == FORMAT_VERSION


def test_a_document_is_readable() -> None:
    """Text of any script is unescaped, and default fields are omitted."""
    place = Place(MemorySubject("用户"), MemoryScope.product("أ"))
    (assertion,) = assertions_of(Concept.single("city", "d").fact(["Žižkov"], timestamp=NOON), place)
    written = dump_entry(Recorded(assertion=assertion, id="i", record_id="r", seq=1, recorded_at=NOON)).decode()
    assert "用户" in written
    assert "Žižkov" in written
    assert "valid_from" not in written
    assert "null" not in written


@pytest.mark.parametrize("version", [FORMAT_VERSION + 1, 10**9])
def test_a_newer_document_is_refused_by_name(version: int) -> None:
    document = {**encode_entry(sample()), "v": version}
    with pytest.raises(NewerVersionError):
        decode_entry(document)


@pytest.mark.parametrize("version", [0, -1, True, "1", 1.0, None])
def test_what_is_no_version_is_refused(version: object) -> None:
    with pytest.raises(CodecError):
        decode_entry({**encode_entry(sample()), "v": version})


@pytest.mark.parametrize(
    ("path", "value"),
    [
        *CASES["a malformed document is a typed error"],
        pytest.param(("assertion", "data"), 10**5000, id="too long an integer"),
    ],
)
def test_a_malformed_document_is_a_typed_error(path: tuple[str, ...], value: object) -> None:
    document: dict[str, Any] = copy.deepcopy(encode_entry(sample()))
    inner = document
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    with pytest.raises(CodecError):
        decode_entry(document)


def test_an_error_says_where_in_the_document() -> None:
    document: dict[str, Any] = copy.deepcopy(encode_entry(sample()))
    document["assertion"]["details"]["evidence"][0]["position"] = "first"
    with pytest.raises(CodecError) as error:
        decode_entry(document)
    assert error.value.path == "$.assertion.details.evidence[0].position"


@pytest.mark.parametrize("field", ["id", "record_id", "seq", "recorded_at", "assertion"])
def test_a_missing_field_is_named(field: str) -> None:
    document = encode_entry(sample())
    del document[field]
    with pytest.raises(CodecError, match=field):
        decode_entry(document)


@pytest.mark.parametrize(
    "evidence",
    [
        Evidence(quote="Zürich", message_id="m1", start=4, end=10),
        Evidence(quote="Zürich", start=4, end=99),
        Evidence(quote="Zürich", conversation_id="c"),
        Evidence(quote="I moved to Zürich", start=0, end=17),
    ],
)
def test_a_quote_that_is_the_value_is_written_once(evidence: Evidence) -> None:
    concept = Concept.single("city", "Where the person lives")
    place = Place(MemorySubject("user"), MemoryScope.agent("planner"))
    (said,) = assertions_of(concept.fact(["Zürich"], timestamp=NOON), place, FactDetails(evidence=(evidence,)))
    recorded = Recorded(assertion=said, id="i", record_id="r", seq=1, recorded_at=NOON)
    line = dump_entry(recorded)
    assert load_entry(line) == recorded
    assert line.decode().count("Zürich") == (1 if evidence.quote == "Zürich" else 2)
