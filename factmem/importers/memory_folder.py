"""Folders of notes that an agent keeps, such as ``/memories`` of Anthropic's memory tool or of Deep Agents."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from factmem.errors import FileFormatError, InvalidDataError
from factmem.importers.contract import Found, ImportOptions, Lost, Problem, Skipped, scope_at
from factmem.importers.sources import Source
from factmem.records import FactDetails, Origin

__all__ = ["read"]

_NOTES: Final = (".md", ".txt")
_HEADING: Final = re.compile(r"#{1,6}\s+(.+?)\s*#*")
_BULLET: Final = re.compile(r"(?:[-*+]|\d{1,9}[.)])\s+(.+)")
_FENCE: Final = re.compile(r"(```|~~~)")


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield each bullet and paragraph as a statement of the assistant: headings are categories, folders are scopes.

    Raises:
        FileFormatError: There are too many files, or too deep.
    """
    for path in source.walk() if source.is_folder else (source.path,):
        if isinstance(path, Problem):
            yield path
            continue
        where = source.place(path)
        try:
            if path.suffix.lower() in _NOTES:
                lines = _lines(source.whole(path))
            elif path.suffix.lower() == ".json":
                lines = _leaves(source.whole(path), where)
            else:
                yield Skipped("they are neither notes (.md, .txt) nor .json")
                continue
            yield from _statements(lines, path, source, options)
        except InvalidDataError as error:
            yield Problem(where, error)


def _statements(
    lines: Iterator[tuple[str, str | None]], path: Path, source: Source, options: ImportOptions
) -> Iterator[Found]:
    folders = Path(source.place(path)).parts[:-1]
    scope = scope_at(folders, options.scope)
    found = 0
    for found, (text, heading) in enumerate(lines, 1):
        yield options.statement(
            text,
            timestamp=options.dated or source.changed_at(path),
            where=f"{source.place(path)} statement {found}",
            key=f"{source.place(path)}/{found}",
            scope=scope,
            details=FactDetails(
                categories=(heading,) if heading else (),
                metadata={"file": source.place(path)},
                origin=Origin.ASSISTANT,
            ),
        )
    if found and options.dated is None:
        yield Lost("dates of notes (they are dated by their files; --date sets another date)")


def _lines(text: str) -> Iterator[tuple[str, str | None]]:
    """Yield the bullets and paragraphs of a note with the headings above them, but not what is fenced as code."""
    heading: str | None = None
    said: list[str] = []
    fenced = False
    for line in [*text.splitlines(), ""]:
        bare = line.strip()
        fence, title, bullet = _FENCE.match(bare), _HEADING.fullmatch(bare), _BULLET.fullmatch(bare)
        starts = not bare or fence or title or bullet
        if starts and said and not fenced:
            yield " ".join(said), heading
            said = []
        if fence:
            fenced = not fenced
        elif fenced or not bare or set(bare) <= {"-"}:
            continue
        elif title:
            heading = title[1][:500]
        else:
            said.append(bullet[1] if bullet else bare)


def _leaves(text: str, where: str) -> Iterator[tuple[str, str | None]]:
    """Yield the texts of a JSON file, with the outermost keys that they lie under."""
    try:
        value = json.loads(text)
    except RecursionError:
        raise FileFormatError("the JSON is nested too deeply", path=where) from None
    except ValueError:
        raise FileFormatError("not JSON: correct the file, or remove it", path=where) from None
    yield from _texts(value, None)


def _texts(value: Any, key: str | None, depth: int = 32) -> Iterator[tuple[str, str | None]]:
    if depth == 0:
        raise FileFormatError("the JSON is nested too deeply")
    match value:
        case str() as text if text.strip():
            yield text, key
        case list() as items:
            for item in items:
                yield from _texts(item, key, depth - 1)
        case Mapping() as items:
            for name, item in items.items():
                yield from _texts(item, key or name, depth - 1)
        case _:
            pass
