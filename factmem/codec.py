"""Log entries as JSON documents: tagged, versioned, readable, and strict when read.

A document is an object with ``"v"`` (the version of the format) and ``"kind"`` (``assertion``, ``state``,
``tombstone``). Fields that hold their default are left out. No document names a class or a module.

Version 2 writes evidence whose quote is the value itself as ``"verbatim": true`` instead of repeating the text, and
without an ``"end"`` that follows from ``"start"``. In version 3, evidence may have ``"answers"``, ``"corrects"`` and
``"day"``. Documents of earlier versions are read as they are.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from factmem.details import Evidence, FactDetails, MediumPart, Origin
from factmem.errors import CodecError, FactMemError, NewerVersionError
from factmem.facts import FactType, check_interval, utc
from factmem.legal_names import checked_name
from factmem.records import Assertion, AssertionState, LogEntry, Place, Recorded, StateChange, Tombstone
from factmem.scopes import MemoryScope
from factmem.shapes import type_of
from factmem.structuring import explain_structure_error, in_detail
from factmem.subjects import MemorySubject
from factmem.validators import changed, check_text
from factmem.values import check_json, check_value, decode_value

if TYPE_CHECKING:
    from cattrs import Converter

FORMAT_VERSION: Final = 3
"""Version of the documents that this factmem writes, and the newest that it reads.

The other formats, such as tables, logs and files of keys, have versions of their own: docs/pages/reference/formats.md
lists them. A new version of a store needs one of the version before in tests/providers/stores.
"""

MAX_SEQ: Final = 2**63 - 1
"""Largest sequence number of a store."""

_HEAD_TYPES: Final[Mapping[str, Any]] = {
    "place": Place,
    "keyword": str,
    "description": str,
    "fact_type": FactType,
    "shape": Any,
    "state": AssertionState,
}

HEAD_FIELDS: Final = tuple(_HEAD_TYPES)
"""Fields of an assertion that many assertions of a store share."""

_JOB_KEY: Final = "errand"
"""Key of an assertion's job in a document. It is the word of the first version, so that every version reads it."""

_KINDS: Final[dict[str, type[Any]]] = {"assertion": Recorded, "state": StateChange, "tombstone": Tombstone}
_KIND_OF: Final = {cls: kind for kind, cls in _KINDS.items()}


def encode_entry(entry: LogEntry) -> dict[str, Any]:
    """Return a log entry as a JSON object."""
    return {"v": FORMAT_VERSION, "kind": _KIND_OF[type(entry)], **_converter(detailed=False).unstructure(entry)}


def encode_head(assertion: Assertion) -> dict[str, Any]:
    """Return the part of an assertion's document that many assertions share, with the version of the format."""
    convert = _converter(detailed=False).unstructure
    return {
        "v": FORMAT_VERSION,
        **{name: convert(getattr(assertion, name)) for name in HEAD_FIELDS if name != "shape"},
        "shape": assertion.shape,
    }


def encode_rest(assertion: Assertion) -> dict[str, Any]:
    """Return the part of an assertion's document that `encode_head` leaves out, without the timestamp."""
    return _rest_writer()(assertion)


def decode_entry(document: Mapping[str, Any]) -> LogEntry:
    """Read a log entry from a JSON object.

    Raises:
        NewerVersionError: a newer factmem wrote it.
        CodecError: it is malformed; the path says where.
    """
    match document:
        case {"v": int() as version, "kind": str() as kind, **fields} if type(version) is int and version >= 1:
            pass
        case _:
            raise CodecError("not a factmem document: it has no version and kind")
    _check_version(version)
    if kind not in _KINDS:
        raise CodecError("the document is of an unknown kind", path="$.kind")
    cls = _KINDS[kind]
    entry: LogEntry = _structured(fields, lambda given, detailed: _converter(detailed=detailed).structure(given, cls))
    if not 1 <= entry.seq <= MAX_SEQ:
        raise CodecError("the document has a number that no store gives", path="$.seq")
    if isinstance(entry, Recorded):
        _check_head(entry.assertion.keyword, entry.assertion.shape)
        _check_rest(entry.assertion)
    return entry


def decode_head(document: object) -> Mapping[str, Any]:
    """Read what `encode_head` returned, for `decode_assertion`.

    Raises:
        NewerVersionError: a newer factmem wrote it.
        CodecError: it is malformed.
    """
    match document:
        case {"v": int() as version, **fields}:
            _check_version(version)
        case _:
            raise CodecError("the head of an assertion has no version")
    if fields.keys() != _HEAD_TYPES.keys():
        raise CodecError("the head of an assertion lacks a field, or has one too many")
    convert = _converter(detailed=False).structure
    try:
        head = {name: convert(fields[name], typ) for name, typ in _HEAD_TYPES.items()}
    except Exception:  # validators raise factmem's own errors, cattrs any other
        raise CodecError("the head of an assertion is malformed") from None
    _check_head(head["keyword"], head["shape"])
    return head


def decode_assertion(head: Mapping[str, Any], rest: Mapping[str, Any], timestamp: dt.datetime) -> Assertion:
    """Read an assertion.

    Args:
        head: what `decode_head` returned.
        rest: what `encode_rest` returned.
        timestamp: its timestamp.

    Raises:
        CodecError: the rest is malformed; the path says where.
    """
    fields = {**rest, **head, "timestamp": timestamp}
    assertion: Assertion = _structured(fields, lambda given, detailed: _rest_reader(detailed=detailed)(given))
    _check_rest(assertion)
    return assertion


def _check_version(version: int) -> None:
    if version > FORMAT_VERSION:
        raise NewerVersionError(
            f"the document is of version {version}, newer than {FORMAT_VERSION}: upgrade factmem to read it", path="$.v"
        )


def _structured(fields: Mapping[str, Any], read: Callable[[Mapping[str, Any], bool], Any]) -> Any:
    """Structure fields.

    Args:
        fields: The fields.
        read: Structures them; if the second argument is true, its errors say where.

    Raises:
        CodecError: They are malformed; the path says where.
    """
    try:
        return read(fields, False)
    except Exception as error:  # validators raise factmem's own errors, cattrs any other
        detailed = in_detail(error, fields, lambda: read(fields, True))
        path, reason = explain_structure_error(detailed)
        raise CodecError(f"the document is malformed: {reason}", path=path) from None


def _check_head(keyword: str, shape: Any) -> None:
    """Refuse a keyword or a shape that no store may hold: read here, it would fail far from here."""
    try:
        check_json(shape, path="$.assertion.shape")
        checked_name(keyword, what="a concept's keyword")
        type_of(shape)
    except FactMemError as error:
        raise CodecError(f"the document is malformed: {error}") from None


def _check_rest(said: Assertion) -> None:
    """Refuse a value, a job or an interval that no store may hold."""
    try:
        if said.job is not None:
            check_json(said.job, path=f"$.assertion.{_JOB_KEY}")
        if said.valid_from is not None:
            check_interval(said.valid_from, said.valid_to)
        if said.removed or type(said.data) is not str:  # a text is checked as the value that it is
            check_json(said.data, path="$.assertion.data")
        if not said.removed:  # a removal need not say a value
            value_type = str if said.shape == "str" else type_of(said.shape)
            value = said.data if type(said.data) is value_type is str else decode_value(said.data, value_type)
            check_value(value, value_type)
    except FactMemError as error:
        raise CodecError(f"the document is malformed: {error}") from None


def dump_entry(entry: LogEntry) -> bytes:
    """Return a log entry as one line of UTF-8 JSON, without a line end."""
    return json.dumps(encode_entry(entry), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def load_entry(line: bytes | str) -> LogEntry:
    """Read a log entry from one line of JSON.

    Raises:
        NewerVersionError: a newer factmem wrote it.
        CodecError: it is not a JSON object, or malformed.
    """
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise CodecError("not a factmem document: it is not valid JSON") from None
    if not isinstance(document, dict):
        raise CodecError("not a factmem document: it is not a JSON object")
    return decode_entry(document)


def _moment(text: Any, _: Any) -> dt.datetime:
    if not isinstance(text, str):
        raise CodecError("expected the text of a time")
    try:
        return utc(dt.datetime.fromisoformat(text))
    except ValueError:
        raise CodecError("not an ISO 8601 time with a UTC offset") from None


def _place(data: Any, _: Any) -> Place:
    match data:
        case {"subject": {"name": str(), **rest} as subject, "scope": str() as scope, **tenant} if not (
            set(tenant) - {"tenant"} or set(rest) - {"prompt_description", "priority_level", "individual_name"}
        ):
            return _same_place(scope, _optional_text(tenant.get("tenant"), str), **subject)
        case _:
            raise CodecError("expected a place: a subject with a name, and a scope's path")


# A store has few places and many assertions: to read each place once halves the time, and the memory.
# Typed, so that a 1 never stands in for a True.
@functools.lru_cache(maxsize=4096, typed=True)
def _same_place(scope: str, tenant: str | None, **subject: Any) -> Place:
    return Place(MemorySubject(**subject), MemoryScope.parse(scope).within(tenant))


def _written_place(place: Place) -> dict[str, Any]:
    subject = place.subject
    about = {
        "name": subject.name,
        "prompt_description": subject.prompt_description,
        "priority_level": subject.priority_level,
        "individual_name": subject.individual_name,
    }
    tenant = {} if place.scope.tenant is None else {"tenant": place.scope.tenant}
    return {
        "subject": {name: value for name, value in about.items() if value not in (None, "")},
        "scope": str(place.scope.within(None)),
        **tenant,
    }


def _optional_text(data: Any, _: Any) -> str | None:
    return None if data is None else _text(data, str)


def _optional_whole(data: Any, _: Any) -> int | None:
    return None if data is None else _exact(data, int)


def _text(data: Any, _: Any) -> str:
    if type(data) is str and data.isascii():
        return data  # nearly all there is
    check_text(data, path="$")
    return str(data)


def _texts(data: Any, _: Any) -> tuple[str, ...]:
    return tuple(_text(item, str) for item in _exact(data, list))


def _exact(data: Any, typ: Any) -> Any:
    if type(data) is not typ:
        raise CodecError(f"expected {typ.__name__}, found {type(data).__name__}")
    return data


@functools.cache
def _converter(*, detailed: bool) -> Converter:
    from cattrs import Converter
    from cattrs.gen import make_dict_unstructure_fn, override

    conv = Converter(detailed_validation=detailed)
    conv.register_structure_hook(str, _text)
    conv.register_structure_hook(str | None, _optional_text)
    conv.register_structure_hook_func(lambda typ: typ == tuple[str, ...], _texts)
    for scalar in (int, bool):
        conv.register_structure_hook(scalar, _exact)
    conv.register_structure_hook(int | None, _optional_whole)
    conv.register_structure_hook(float, lambda data, _: float(data) if type(data) is int else _exact(data, float))
    conv.register_structure_hook(dt.datetime, _moment)
    conv.register_unstructure_hook(dt.datetime, dt.datetime.isoformat)
    as_it_is = conv.get_unstructure_hook(str)
    conv.register_unstructure_hook_func(lambda typ: typ in (str | None, int | None), as_it_is)  # else, one more call
    conv.register_structure_hook(Place, _place)
    conv.register_unstructure_hook(Place, _written_place)
    for cls in (MediumPart, Evidence, FactDetails):
        _register(conv, cls)
    if not detailed:  # the general way says where a fault is
        read_details = conv.get_structure_hook(FactDetails)
        conv.register_structure_hook(Evidence, lambda item, _: _evidence(conv, item))
        conv.register_structure_hook(FactDetails, lambda item, _: _details(conv, read_details, item))
    job = override(rename=_JOB_KEY)
    _register(conv, Assertion, job=job)
    read = conv.get_structure_hook(Assertion)
    conv.register_structure_hook(Assertion, lambda document, _: read(_with_quotes(document), Assertion))
    # A stored state must not depend on a default that may move.
    always = override(omit_if_default=False)
    written = make_dict_unstructure_fn(
        Assertion, conv, _cattrs_omit_if_default=True, state=always, details=always, job=job
    )
    conv.register_unstructure_hook(Assertion, lambda said: _without_repeats(written(said), said))
    for cls in _KIND_OF:
        _register(conv, cls)
    return conv


@functools.cache
def _rest_reader(*, detailed: bool) -> Callable[[Mapping[str, Any]], Assertion]:
    """Return a function that structures the fields of an assertion but for those that are given as they are."""
    from cattrs.gen import make_dict_structure_fn, override

    given = override(struct_hook=lambda value, _: value)
    fields: dict[str, Any] = dict.fromkeys((*HEAD_FIELDS, "timestamp"), given)
    read = make_dict_structure_fn(
        Assertion,
        _converter(detailed=detailed),
        _cattrs_forbid_extra_keys=True,
        job=override(rename=_JOB_KEY),
        **fields,
    )
    details = _converter(detailed=False).get_structure_hook(FactDetails)

    def read_rest(document: Mapping[str, Any]) -> Assertion:
        document = _with_quotes(document)
        if detailed or document.keys() != _USUAL:
            return read(document, Assertion)
        return Assertion(**{**document, "details": details(document["details"], FactDetails)})

    return read_rest


_USUAL: Final = {*HEAD_FIELDS, "timestamp", "data", "details"}
"""Fields of a statement: hardly any assertion has others."""


@functools.cache
def _rest_writer() -> Callable[[Assertion], dict[str, Any]]:
    from cattrs.gen import make_dict_unstructure_fn, override

    elsewhere: dict[str, Any] = {name: override(omit=True) for name in (*HEAD_FIELDS, "timestamp")}
    written = make_dict_unstructure_fn(
        Assertion,
        _converter(detailed=False),
        _cattrs_omit_if_default=True,
        details=override(omit_if_default=False),
        job=override(rename=_JOB_KEY),
        **elsewhere,
    )
    return lambda said: _without_repeats(written(said), said)


def _without_repeats(document: dict[str, Any], said: Assertion) -> dict[str, Any]:
    """Leave out empty details, and quotes that are the value."""
    if not document["details"]:  # comparing them with a default would make one each time
        del document["details"]
    elif type(said.data) is str:
        for item in document["details"].get("evidence", ()):
            if item.get("quote") == said.data and ("start" in item) == ("end" in item):
                del item["quote"]
                item["verbatim"] = True
                if item.get("end") == item.get("start", 0) + len(said.data):
                    del item["end"]
    return document


def _with_quotes(document: Any) -> Any:
    """Return the document of an assertion with the quotes that are its value written out."""
    match document:
        case {"data": str() as data, "details": {"evidence": [*evidence]} as details}:
            written = [_with_quote(item, data) for item in evidence]
            return {**document, "details": {**details, "evidence": written}}
        case _:
            return document


def _with_quote(item: Any, data: str) -> Any:
    if not isinstance(item, dict) or item.get("verbatim") is not True or "quote" in item:
        return item
    written = {"quote": data, **item}
    del written["verbatim"]
    start = item.get("start")
    if isinstance(start, int) and "end" not in item:
        written["end"] = start + len(data)
    return written


def _evidence(conv: Converter, item: Any) -> Evidence:
    """Structure evidence, which checks its texts and numbers itself."""
    if type(item) is not dict or bool in map(type, item.values()):
        raise CodecError("expected an object of texts and whole numbers")
    medium = item.get("medium")
    return Evidence(**(item if medium is None else {**item, "medium": conv.structure(medium, MediumPart)}))


_ORIGINS: Final = {origin.value: origin for origin in Origin}
_PLAIN: Final = FactDetails()


def _details(conv: Converter, read: Callable[[Any, Any], FactDetails], item: Any) -> FactDetails:
    """Structure details. Most have nothing but evidence, an origin and an importance."""
    match item:
        case {"evidence": list() as evidence, **rest} if rest.keys() <= {"origin", "importance"}:
            importance = rest.get("importance", _PLAIN.importance)
            origin = _ORIGINS.get(rest["origin"]) if "origin" in rest else _PLAIN.origin
            if origin is not None and type(importance) is float and 0 <= importance <= 1:
                cited = tuple([_evidence(conv, each) for each in evidence])
                return changed(_PLAIN, evidence=cited, origin=origin, importance=importance, metadata={}, labels={})
        case _:
            pass
    return read(item, FactDetails)


def _register(conv: Converter, cls: type[Any], **fields: Any) -> None:
    from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

    conv.register_unstructure_hook(cls, make_dict_unstructure_fn(cls, conv, _cattrs_omit_if_default=True, **fields))
    conv.register_structure_hook(cls, make_dict_structure_fn(cls, conv, _cattrs_forbid_extra_keys=True, **fields))
