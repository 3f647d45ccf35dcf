"""LangGraph: the store's table in SQLite, a dump of it from PostgreSQL, or the items of ``search()`` as JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from factmem.errors import InvalidDataError
from factmem.facts import STATEMENT, Concept
from factmem.importers.contract import Found, ImportOptions, Problem, individual, scope_at
from factmem.importers.rows import Fields, Row, converted, parsed
from factmem.importers.sources import Source
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

__all__ = ["read"]

_COLUMNS: Final = ("prefix", "key", "value", "created_at", "updated_at")
_TEXTS: Final = ("content", "text", "memory", "fact", "data")
"""Fields of a value that hold its words, the first one first."""

_ITEM: Final = Fields(
    said="updated_at created_at",
    recorded="created_at",
    expires_at="expires_at",
    overwritten="earlier values, which the store had overwritten",
)

_COPY: Final = re.compile(r"COPY (?:\w+\.)?store \(([\w, ]+)\) FROM stdin;\s*")
_ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", "v": "\v"}


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield the items: those with words as statements, others as values under their keys.

    Raises:
        FileFormatError: It is none of these.
        InvalidDataError: The template of the namespace is not legal.
    """
    namespaces = _Namespaces.of(options.namespace)
    path = source.needed("store.db", "items.json", "items.jsonl", "store.sql")
    if source.is_database(path):
        rows: Iterator[Row | Problem] = source.table("store", _COLUMNS, order="prefix, key", path=path)
    elif path.suffix == ".sql":
        rows = _dumped(source)
    else:
        rows = source.rows(path, "items")
    yield from converted(rows, lambda row: _item(row, namespaces, options))


def _dumped(source: Source) -> Iterator[Row]:
    """Yield the rows of the table in a dump of pg_dump."""
    columns: list[str] | None = None
    with source.text() as text:
        for where, line in source.lines(text):
            if columns is None:
                if begin := _COPY.fullmatch(line):
                    columns = begin[1].split(", ")
            elif line.rstrip("\n") == "\\.":
                columns = None
            else:
                fields = [_unescaped(field) for field in line.rstrip("\n").split("\t")]
                if len(fields) != len(columns):
                    fields = []
                yield Row(where, dict(zip(columns, fields, strict=False)))


def _unescaped(field: str) -> str | None:
    if field == "\\N":
        return None
    return re.sub(r"\\(.)", lambda found: _ESCAPES.get(found[1], found[1]), field)


@attrs.frozen
class _Namespaces:
    """The meaning of the segments of a namespace.

    SQLite and PostgreSQL join the segments with dots, so that a name with a dot looks like two names, unless a template
    with a single name in it says otherwise.
    """

    segments: tuple[str, ...] | None
    joined: re.Pattern[str] | None = None

    @classmethod
    def of(cls, template: str | None) -> _Namespaces:
        if template is None:
            return cls(None)
        segments = tuple(segment.strip() for segment in template.split(","))
        named = [segment for segment in segments if segment.startswith("{")]
        if not all(segments) or not all(re.fullmatch(r"\{\w+\}", segment) for segment in named):
            raise InvalidDataError(
                "a template of a namespace is a list of names and {placeholders}, such as memories,{user}"
            )
        name = "(.+)" if len(named) == 1 else r"([^.]+)"
        patterns = [name if segment in named else re.escape(segment) for segment in segments]
        return cls(segments, re.compile(r"\.".join(patterns)))

    def split(self, row: Row) -> tuple[str, ...]:
        """Return the segments of a row's namespace.

        Raises:
            FileFormatError: They do not fit the template.
        """
        if (namespace := row.data.get("namespace")) is not None:
            found = row.texts("namespace") if isinstance(namespace, list) else (row.required("namespace"),)
            if self.segments is None or self._fits(found):
                return found
        elif self.joined is None or self.segments is None:
            return tuple(row.required("prefix").split("."))
        elif fitting := self.joined.fullmatch(row.required("prefix")):
            names = iter(fitting.groups())
            return tuple(next(names) if segment.startswith("{") else segment for segment in self.segments)
        raise row.fault("the namespace does not fit the template")

    def _fits(self, found: Sequence[str]) -> bool:
        template = self.segments or ()
        return len(found) == len(template) and all(
            expected.startswith("{") or expected == segment for expected, segment in zip(template, found, strict=True)
        )

    def place(self, found: Sequence[str], options: ImportOptions) -> tuple[MemorySubject, MemoryScope]:
        """Return the subject and the scope that a namespace stands for."""
        if self.segments is None:
            return options.subject, scope_at(found, options.scope)
        subject, path = options.subject, []
        for meaning, name in zip(self.segments, found, strict=True):
            match meaning.strip("{}") if meaning.startswith("{") else None:
                case None:
                    pass
                case "user":
                    subject = individual(name)
                case kind:
                    path += [kind, name]
        return subject, scope_at(path, options.scope)


def _item(row: Row, namespaces: _Namespaces, options: ImportOptions) -> Iterator[Found]:
    key, value = row.required("key"), _value(row)
    segments = namespaces.split(row)
    subject, scope = namespaces.place(segments, options)
    text, others = _words(value)
    yield from _ITEM.found(
        row,
        options,
        concept=Concept.single(key, "", object) if text is None else STATEMENT,
        values=(value if text is None else text,),
        key="/".join((*segments, key)),
        subject=subject,
        scope=scope,
        metadata={"key": key, **others} if text else {},
    )


def _value(row: Row) -> Any:
    value = row.data.get("value")
    if isinstance(value, str | bytes) and "namespace" not in row.data:  # a column of JSON
        value = parsed(value, f"{row.where}.value")
    if value is None:
        raise row.fault("the item has no value")
    return value


def _words(value: Any) -> tuple[str | None, Mapping[str, Any]]:
    """Return the words of a value, and its other fields."""
    if isinstance(value, str):
        return (value if value.strip() else None), {}
    if not isinstance(value, Mapping):
        return None, {}
    for key in _TEXTS:
        match value.get(key):
            case str() as text if text.strip():
                return text, {name: item for name, item in value.items() if name != key}
            case {"content": str() as text} if text.strip():  # LangMem wraps what it extracts
                return text, {name: item for name, item in value.items() if name != key}
            case _:
                continue
    return None, {}
