"""The words of HTML: what stands between its tags, line by line, without scripts, styles, comments and addresses."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

Line = tuple[str, tuple[int, int], int]
"""Words, the first line of their source, from 0, and the one behind the last, and the level of a heading or 0."""

_TAG: Final = re.compile(r"<(?P<closes>/?)(?P<name>[a-z][a-z0-9-]*)", re.IGNORECASE)
_HEADINGS: Final = ("h1", "h2", "h3", "h4", "h5", "h6")
_ROWS: Final = ("table", "tr")
_CELLS: Final = ("td", "th")
_HIDDEN: Final = ("script", "style")


def html_lines(source: str) -> Iterator[Line]:
    """Yield the lines of words: headings, paragraphs, items, and rows of tables with their cells separated by " | ".

    Args:
        source: The HTML, which may be damaged.
    """
    cells, start, line, level, hidden = [list[str]()], 0, 0, 0, False
    for token in _tags().parseInline(source.rstrip())[0].children or []:
        if token.type != "html_inline":
            is_break = token.type in ("softbreak", "hardbreak")
            line += is_break
            if not hidden:
                cells[-1].append(" " if is_break else token.content)
            continue
        tag = _TAG.match(token.content)
        name, closes = (tag["name"].lower(), bool(tag["closes"])) if tag else ("", False)
        if name in _HIDDEN:
            hidden = not closes
        elif name in _CELLS:
            cells.append([])
        elif name in _begin_lines() and len(cells) > 1 and name not in _ROWS:  # within a cell
            cells[-1].append(" ")
        elif name in _begin_lines():
            if words := _joined(cells):
                yield words, (start, line + 1), level
            cells, start = [[]], line
            if name in _HEADINGS:
                level = 0 if closes else int(name[1])
        line += token.content.count("\n")
    if words := _joined(cells):
        yield words, (start, line + 1), level


def breaks_line(tag: str) -> bool:
    """Return whether the source of a tag is a line break."""
    found = _TAG.match(tag)
    return found is not None and found["name"].lower() == "br"


def _joined(cells: list[list[str]]) -> str:
    return " | ".join(filter(None, (" ".join("".join(cell).split()) for cell in cells)))


@functools.cache
def _tags() -> MarkdownIt:
    """Return a parser of tags and references to characters; unlike that of the standard library, it is linear."""
    from markdown_it import MarkdownIt

    return MarkdownIt("zero", {"html": True}).enable(["newline", "entity", "html_inline"])


@functools.cache
def _begin_lines() -> frozenset[str]:
    from markdown_it.common.html_blocks import block_names

    return frozenset({*block_names, "br", "pre"})
