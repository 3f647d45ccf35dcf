"""Log entries as JSON documents: tagged, versioned, readable, and strict when read.

A document is an object with ``"v"`` (the format's version) and ``"kind"`` (``assertion``, ``state``,
``tombstone``); fields that hold their default are left out. It names no class and no module.
"""

from __future__ import annotations

import datetime as dt
import functools
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from factmem.errors import CodecError, FactMemError, NewerVersionError
from factmem.facts import check_interval, utc
from factmem.names import checked_name
from factmem.records import (
    Assertion,
    Evidence,
    FactDetails,
    LogEntry,
    Place,
    Recorded,
    StateChange,
    Tombstone,
)
from factmem.scopes import MemoryScope
from factmem.structuring import explain_structure_error, in_detail
from factmem.subjects import MemorySubject
from factmem.values import (
    check_json,
    check_text,
    check_value,
    decode_value,
    type_of,
)

if TYPE_CHECKING:
    from cattrs import Converter

__all__ = ["FORMAT_VERSION", "MAX_SEQ", "decode_entry", "dump_entry", "encode_entry", "load_entry"]

FORMAT_VERSION: Final = 1
"""The version of the documents that this factmem writes, and the newest it reads."""

MAX_SEQ: Final = 2**63 - 1
"""The largest sequence number that a store gives."""

_KINDS: Final[dict[str, type[Any]]] = {"assertion": Recorded, "state": StateChange, "tombstone": Tombstone}
_KIND_OF: Final = {cls: kind for kind, cls in _KINDS.items()}


def encode_entry(entry: LogEntry) -> dict[str, Any]:
    """Write a log entry as a JSON object."""
    return {"v": FORMAT_VERSION, "kind": _KIND_OF[type(entry)], **_converter(detailed=False).unstructure(entry)}


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
    if version > FORMAT_VERSION:
        raise NewerVersionError(
            f"the document is of version {version}, newer than {FORMAT_VERSION}: upgrade factmem to read it", path="$.v"
        )
    if kind not in _KINDS:
        raise CodecError("the document is of an unknown kind", path="$.kind")
    try:
        entry: LogEntry = _converter(detailed=False).structure(fields, _KINDS[kind])
    except Exception as error:  # validators raise factmem's own, and cattrs whatever it meets
        detailed = in_detail(error, fields, lambda: _converter(detailed=True).structure(fields, _KINDS[kind]))
        path, reason = explain_structure_error(detailed)
        raise CodecError(f"the document is malformed: {reason}", path=path) from None
    if not 1 <= entry.seq <= MAX_SEQ:
        raise CodecError("the document has a number that no store gives", path="$.seq")
    if isinstance(entry, Recorded):
        _check_assertion(entry.assertion)
    return entry


def _check_assertion(assertion: Assertion) -> None:
    """What a store must never have held must not be read from one either: it would fail far from here."""
    try:
        check_json(assertion.data, path="$.assertion.data")
        check_json(assertion.shape, path="$.assertion.shape")
        check_json(assertion.errand, path="$.assertion.errand")
        checked_name(assertion.keyword, what="a concept's keyword")
        check_interval(assertion.valid_from, assertion.valid_to)
        value_type = type_of(assertion.shape)
        if not assertion.removed:  # a removal need not say a value
            check_value(decode_value(assertion.data, value_type), value_type)
    except FactMemError as error:
        raise CodecError(f"the document is malformed: {error}") from None


def dump_entry(entry: LogEntry) -> bytes:
    """Write a log entry as one line of UTF-8 JSON, without the line's end."""
    return json.dumps(encode_entry(entry), ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def load_entry(line: bytes | str) -> LogEntry:
    """Read a log entry from one line of JSON.

    Raises:
        NewerVersionError: a newer factmem wrote it.
        CodecError: it is no JSON object, or malformed.
    """
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        raise CodecError("not a factmem document: it is no JSON") from None
    if not isinstance(document, dict):
        raise CodecError("not a factmem document: it is no JSON object")
    return decode_entry(document)


def _moment(text: Any, _: Any) -> dt.datetime:
    if not isinstance(text, str):
        raise CodecError("expected the text of a time")
    try:
        return utc(dt.datetime.fromisoformat(text))
    except ValueError:
        raise CodecError("the text is no time with a zone") from None


def _place(data: Any, _: Any) -> Place:
    match data:
        case {"subject": {"name": str(), **rest} as subject, "scope": str() as scope, **tenant} if not (
            set(tenant) - {"tenant"} or set(rest) - {"prompt_description", "priority_level", "individual_name"}
        ):
            return _same_place(scope, _optional_text(tenant.get("tenant")), **subject)
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


def _optional_text(data: object) -> str | None:
    return None if data is None else _text(data, str)


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
    conv.register_structure_hook_func(lambda typ: typ == tuple[str, ...], _texts)
    for scalar in (int, bool):
        conv.register_structure_hook(scalar, _exact)
    conv.register_structure_hook(float, lambda data, _: float(data) if type(data) is int else _exact(data, float))
    conv.register_structure_hook(dt.datetime, _moment)
    conv.register_unstructure_hook(dt.datetime, dt.datetime.isoformat)
    conv.register_structure_hook(Place, _place)
    conv.register_unstructure_hook(Place, _written_place)
    for cls in (Evidence, FactDetails, Assertion):
        _register(conv, cls)
    # A stored state must not depend on a default that may move.
    always = override(omit_if_default=False)
    written = make_dict_unstructure_fn(Assertion, conv, _cattrs_omit_if_default=True, state=always, details=always)

    def stated(said: Assertion) -> dict[str, Any]:
        document: dict[str, Any] = written(said)
        if not document["details"]:  # to compare them with a default would make one each time
            del document["details"]
        return document

    conv.register_unstructure_hook(Assertion, stated)
    for cls in _KIND_OF:
        _register(conv, cls)
    return conv


def _register(conv: Converter, cls: type[Any]) -> None:
    from cattrs.gen import make_dict_structure_fn, make_dict_unstructure_fn

    conv.register_unstructure_hook(cls, make_dict_unstructure_fn(cls, conv, _cattrs_omit_if_default=True))
    conv.register_structure_hook(cls, make_dict_structure_fn(cls, conv, _cattrs_forbid_extra_keys=True))
