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
_HIDDEN: Final = re.compile(
    r"<(?:!(?=--)|(?P<name>script|style)\b).*?(?:(?(name)</(?P=name)\s*>|-->)|(?P<open>\Z))", re.DOTALL | re.IGNORECASE
)
"""A comment, script or style, up to its end or that of the source."""

ENDS: Final = ("-->", "</script", "</style")
"""Ends of what is hidden."""


def html_lines(source: str) -> Iterator[Line]:
    """Yield the lines of words: headings, paragraphs, items, and rows of tables with their cells separated by " | ".

    Args:
        source: The HTML, which may be damaged.
    """
    shown = _HIDDEN.sub(lambda hidden: "\n" * hidden[0].count("\n"), source.rstrip())
    cells, start, line, level = [list[str]()], 0, 0, 0
    for token in _tags().parseInline(shown)[0].children or []:
        if token.type != "html_inline":
            is_break = token.type in ("softbreak", "hardbreak")
            line += is_break
            cells[-1].append(" " if is_break else token.content)
            continue
        tag = _TAG.match(token.content)
        name, closes = (tag["name"].lower(), bool(tag["closes"])) if tag else ("", False)
        in_cell = len(cells) > 1 and name not in _ROWS
        if name in _CELLS:
            cells.append([])
        elif name in _begin_lines() and (in_cell or (level and name == "br")):
            cells[-1].append(" ")
        elif name in _begin_lines():
            if words := _joined(cells):
                yield words, (start, line + 1), level
                level = 0  # also if the heading is not closed
            cells, start = [[]], line
            if name in _HEADINGS:
                level = 0 if closes else int(name[1])
        line += token.content.count("\n")
    if words := _joined(cells):
        yield words, (start, line + 1), level


def left_open(source: str) -> str | None:
    """Return which of `ENDS` is missing at the end of HTML, or None."""
    for hidden in _HIDDEN.finditer(source):
        if hidden["open"] is not None:
            return f"</{hidden['name'].lower()}" if hidden["name"] else "-->"
    return None


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
