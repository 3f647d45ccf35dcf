"""Parsing of a model's answer: wrapping around a document is removed, truncated documents are rejected."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.llm.messages import NoJSONError, json_in
from tests.tables import cases, each_case

CASES = cases(__file__)

pytestmark = pytest.mark.slow

_SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
_VALUES = st.recursive(_SCALARS, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
_OBJECTS = st.dictionaries(st.text(), _VALUES, max_size=4)
_DOCUMENTS = _OBJECTS | st.lists(_VALUES, max_size=4)


@given(_DOCUMENTS)
def test_a_bare_document_is_read_as_it_is(document: Any) -> None:
    assert json_in(json.dumps(document)) == document


@given(_OBJECTS, st.sampled_from([None, 2]))
def test_what_stands_around_an_object_is_taken_off(document: Any, indent: int | None) -> None:
    """Fences, prose before and after, thoughts, and a document encoded as a JSON string."""
    text = json.dumps(document, indent=indent)
    assert json_in(f"```json\n{text}\n```") == document
    assert json_in(f"Sure (see [1])! Here is what {{you}} wanted: {text}\nAnything else?") == document
    assert json_in(f'<think>Perhaps {{"a": 1}}?</think>\n{text}') == document
    assert json_in(json.dumps(text)) == document


@given(_DOCUMENTS, st.data())
def test_a_document_that_is_cut_off_is_never_read_in_part(document: Any, data: st.DataObject) -> None:
    """A complete part, such as the first of several facts, is not the answer."""
    text = json.dumps(document)
    cut = text[: data.draw(st.integers(0, len(text) - 1))]
    for said in (cut, f"```json\n{cut}", f"Here it is: {cut}", json.dumps(text)[: len(cut)]):
        with pytest.raises(NoJSONError):
            json_in(said)


@each_case("said", "document")
def test_slips_of_notation_are_read_as_they_are_meant(said: str, document: Any) -> None:
    assert json_in(said) == document


@given(_OBJECTS, st.data())
def test_a_python_literal_or_json5_that_is_cut_off_is_refused(document: Any, data: st.DataObject) -> None:
    for text in (repr(document), json.dumps(document).replace("]", ",]").replace("}", ", /* } */ }")):
        with pytest.raises(NoJSONError):
            json_in(text[: data.draw(st.integers(0, len(text) - 1))])


@pytest.mark.parametrize(
    "said",
    [
        *CASES["what is no single whole document is refused"],
        "[" * 100_000,
        '{"a":' * 100_000,
        '{"a": 1, ' + "/* " * 100_000 + "}",
        '{"a": 1, "' + '\\"' * 100_000 + "}",
    ],
)
def test_what_is_no_single_whole_document_is_refused(said: str) -> None:
    with pytest.raises(NoJSONError):
        json_in(said)
