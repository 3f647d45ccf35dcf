"""Documents, values and shapes that factmem did not write."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from typing import Any

import pytest

from factmem.codec import decode_entry, dump_entry, encode_entry, load_entry
from factmem.errors import CodecError, FactMemError, InvalidDataError
from factmem.facts import Concept
from factmem.fold import Moment, fold, revisions
from factmem.records import FactRecord, LogEntry, Recorded, record_of
from factmem.shapes import accepts, shape_of, type_of
from factmem.values import canonical_bytes, check_json, check_value, decode_value, encode_value
from tests.conftest import Promise
from tests.malformed.feeding import fed, peak_memory
from tests.malformed.mutating import deep, hostile, mutated_json, torn_json
from tests.malformed.samples import DOCUMENTS, NOW, TYPES

_LOADED: list[Any] = [json.loads(json.dumps(document)) for document in DOCUMENTS]
_BIG = pytest.mark.timeout(14_400)


@_BIG
def test_a_document_is_refused_or_good_for_everything(big: bool, promise: Promise) -> None:
    """Every accepted entry can be written, folded and shown, so that no later step fails."""

    def feed(rng: random.Random) -> None:
        document = rng.choice(_LOADED)
        if rng.random() < 0.5:
            entry = load_entry(torn_json(rng, document))
        else:
            mutated = mutated_json(rng, document)
            entry = decode_entry(mutated if isinstance(mutated, dict) else {"v": mutated})
        _use(entry)

    promise("malformed documents", fed("documents", 350_000 if big else 1_500, feed))


def _use(entry: LogEntry) -> None:
    with contextlib.suppress(CodecError):  # a text of half a megabyte is legal, and stored in two parts
        assert load_entry(dump_entry(entry)) == entry
    assert decode_entry(json.loads(json.dumps(encode_entry(entry)))) == entry
    moment = Moment(now=NOW)
    fold([entry], moment)
    revisions([entry], moment)
    if isinstance(entry, Recorded) and not entry.assertion.removed:
        try:
            shown: FactRecord[Any] = record_of(entry)
        except FactMemError as error:
            raise AssertionError("it was read but cannot be shown") from error
        assert repr(shown)


@_BIG
def test_a_value_is_refused_or_reads_back(big: bool, promise: Promise) -> None:
    def feed(rng: random.Random) -> None:
        value_type, value = rng.choice(TYPES)
        data: Any = hostile(rng) if rng.random() < 0.5 else mutated_json(rng, [encode_value(value, value_type)])
        if isinstance(data, list) and len(data) == 1:
            (data,) = data
        read = decode_value(data, value_type)
        checked = check_value(read, value_type)
        concept: Concept[Any, Any] = Concept.single("k", "", value_type)
        fact = concept.fact([checked], timestamp=NOW)
        assert fact == fact
        assert repr(fact)
        canonical_bytes(encode_value(checked, value_type))

    promise("malformed values", fed("values", 300_000 if big else 700, feed))


def _only(items: Any) -> Any:
    return items[0] if isinstance(items, list) and len(items) == 1 else items


@_BIG
def test_a_shape_is_refused_or_gives_a_type(big: bool, promise: Promise) -> None:
    shapes: list[Any] = [shape_of(value_type) for value_type, _ in TYPES]

    def feed(rng: random.Random) -> None:
        first, second = (_only(mutated_json(rng, [rng.choice(shapes)])) for _ in range(2))
        types = [type_of(first), type_of(second)]
        accepts(first, second)
        accepts(second, first)
        for value_type in types:
            shape_of(value_type)
            with contextlib.suppress(FactMemError):
                decode_value(hostile(rng), value_type)

    promise("malformed shapes", fed("shapes", 250_000 if big else 500, feed))


@pytest.mark.parametrize("between", [lambda shape: shape, lambda shape: {"list": shape}], ids=["at once", "in lists"])
def test_unions_in_unions_are_compared_in_bearable_time(between: Callable[[Any], Any]) -> None:
    """Each of two options is compared with each of two others, on sixty levels."""
    one: Any = "int"
    other: Any = "str"
    for _ in range(60):
        one, other = {"union": [between(one), between(one)]}, {"union": [between(other), between(other)]}
    fed("unions", 1, lambda _: accepts(one, other) or accepts(other, one))
    assert not accepts(one, other)


def test_long_enumerations_are_compared_in_bearable_time() -> None:
    one, other = ({"enum": [f"{prefix}{number}" for number in range(100_000)]} for prefix in "ab")
    fed("enumerations", 1, lambda _: accepts(one, other))
    assert not accepts(one, other)
    assert accepts(one, {"enum": [*one["enum"], "c"]})


def test_deep_documents_are_refused() -> None:
    for levels in (65, 1_000, 100_000):
        for named in (False, True):
            with pytest.raises(CodecError):
                load_entry(b'{"v":1,"kind":"assertion","a":' + _written_deep(levels, named=named) + b"}")
    with pytest.raises(FactMemError):
        encode_value(deep(500), object)


def _written_deep(levels: int, *, named: bool) -> bytes:
    return (b'{"a":' * levels + b"1" + b"}" * levels) if named else b"[" * levels + b"]" * levels


def test_a_long_list_of_wrong_items_is_refused_without_gathering_what_is_wrong_with_each() -> None:
    """Half a million errors with their tracebacks took 16 seconds and 700 megabytes."""
    wrong: Any = [0] * 450_000
    document = {**_LOADED[0], "assertion": {**_LOADED[0]["assertion"], "shape": {"list": "str"}, "data": wrong}}
    evidence = {**_LOADED[0]["assertion"], "details": {"evidence": [{"a": 1}] * 100_000}}
    before = peak_memory()
    for refused in (document, {**_LOADED[0], "assertion": evidence}):
        with pytest.raises(CodecError):
            decode_entry(refused)
    with pytest.raises(InvalidDataError):
        decode_value(wrong, list[str])
    assert peak_memory() - before < 200_000_000


def test_the_message_is_short_however_long_the_names_in_a_document_are() -> None:
    with pytest.raises(InvalidDataError) as error:
        check_json({"k" * 900_000: [[float("nan")]]})
    assert len(str(error.value)) < 500
    fed("long names", 1, lambda _: check_json({"k" * 900_000: [0] * 60_000}))
