"""Notes that an agent keeps: folders such as ``/memories`` of Anthropic's memory tool or of Deep Agents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from factmem.errors import FileFormatError
from factmem.importers.contract import Found, ImportOptions, Problem, Skipped, scope_at
from factmem.importers.documents import blocks, is_document
from factmem.importers.rows import Fields, Row, guarded, parsed
from factmem.importers.sources import Source
from factmem.records import Origin

__all__ = ["read"]

_NOTE: Final = Fields(origin=Origin.ASSISTANT)
_LONGEST_LABEL: Final = 500


def read(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield each list item and paragraph as a statement of the assistant: headings are categories, folders are scopes.

    Raises:
        FileFormatError: There are too many files, or too deep.
    """
    for path in source.walk():
        if isinstance(path, Problem):
            yield path
        else:
            yield from guarded(source.place(path), _statements, path, source, options)


def _statements(path: Path, source: Source, options: ImportOptions) -> Iterator[Found]:
    place = source.place(path)
    if is_document(path):
        lines: Iterator[tuple[str, tuple[str, ...]]] = (
            (words, headings[-1:]) for words, _, headings in blocks(source.whole(path), code=False)
        )
    elif path.suffix.lower() == ".json":
        lines = _texts(parsed(source.whole(path), place))
    else:
        yield Skipped("they are neither notes (.md, .txt) nor .json")
        return
    for number, (text, headings) in enumerate(lines, 1):
        yield from _NOTE.found(
            Row(f"{place} statement {number}", {}),
            options,
            values=(text,),
            key=f"{place}/{number}",
            scope=scope_at(Path(place).parts[:-1], options.scope),
            undated=source.changed_at(path),
            categories=[heading[:_LONGEST_LABEL] for heading in headings],
            metadata={"file": place},
        )


def _texts(value: Any, keys: tuple[str, ...] = (), depth: int = 32) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the texts of a value of JSON, with the outermost keys that they lie under."""
    if depth == 0:
        raise FileFormatError("the JSON is nested too deeply")
    match value:
        case str() as text if text.strip():
            yield text, keys
        case list() as items:
            for item in items:
                yield from _texts(item, keys, depth - 1)
        case Mapping() as items:
            for name, item in items.items():
                yield from _texts(item, keys or (name,), depth - 1)
        case _:
            pass
