"""HTML comments in Markdown, distinguished from code that looks like them."""

from __future__ import annotations

import bisect
import functools
import itertools
import re
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

Span = tuple[int, int]
"""Start and end of a part of a text, in characters."""

_LINE_END: Final = re.compile(r"\r\n?|\n")
_INLINE: Final = re.compile(r"\\[!-/:-@\[-`{-~]|`+|<!--")


@attrs.frozen(kw_only=True)
class ScannedText:
    """The comments of a text, and what hides its end.

    Attributes:
        comments: Closed comments, in order.
        unclosed: Offset of an unclosed comment that hides the rest of the text; None if there is none.
        unclosed_line: Its line number, from 1.
        open_fence: Offset of the line of a code fence that is open at the end of the text; None if there is none.
    """

    comments: tuple[Span, ...] = ()
    unclosed: int | None = None
    unclosed_line: int | None = None
    open_fence: int | None = None


def visible(text: str, scan: ScannedText | None = None) -> str:
    """Return a text without its HTML comments, except those in code (fenced, indented, inline).

    A line that holds only comments is removed whole. As in CommonMark, an unclosed comment at the start of a line
    hides the rest of the text; within a line it is plain text.

    Args:
        text: The text.
        scan: Its comments, where they are known.
    """
    kept, at = [], 0
    for start, end in _cuts(text, scan or scanned(text)):
        kept.append(text[at:start])
        at = end
    return "".join((*kept, text[at:]))


def _cuts(text: str, scan: ScannedText) -> list[Span]:
    """Return the spans to remove: comments, and whole lines that hold nothing else."""
    joined: list[Span] = []
    for start, end in scan.comments:
        if joined and not text[joined[-1][1] : start].strip(" \t"):
            joined[-1] = (joined[-1][0], end)
        else:
            joined.append((start, end))
    cuts = [_whole_lines(text, start, end) for start, end in joined]
    return cuts if scan.unclosed is None else [*cuts, (scan.unclosed, len(text))]


def _whole_lines(text: str, start: int, end: int) -> Span:
    first = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    ends = _LINE_END.search(text, end)
    after = ends.start() if ends else len(text)
    if text[first:start].strip(" \t") or text[end:after].strip(" \t"):
        return start, end
    return first, ends.end() if ends else len(text)


def scanned(text: str) -> ScannedText:
    """Find the comments of a Markdown text: its blocks of code are those of CommonMark."""
    lines = [0, *(found.end() for found in _LINE_END.finditer(text)), len(text)]
    tokens = _blocks().parse(text)
    code = {line for token in tokens if token.type in {"fence", "code_block"} for line in range(*token.map or ())}
    fences = [token for token in tokens if token.type == "fence"]
    open_fences = (lines[token.map[0]] for token in fences if token.map and _is_open(token, text, lines))
    comments, unclosed = _comments(text, [span for at, span in enumerate(itertools.pairwise(lines)) if at not in code])
    line = None if unclosed is None else bisect.bisect_right(lines, unclosed)
    return ScannedText(
        comments=tuple(comments), unclosed=unclosed, unclosed_line=line, open_fence=next(open_fences, None)
    )


@functools.cache
def _blocks() -> MarkdownIt:
    """Return a parser of blocks, which leaves the text in them as it is."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt("commonmark")
    parser.core.ruler.disable(["inline", "text_join"])
    return parser


def _is_open(fence: Token, text: str, lines: list[int]) -> bool:
    """Return whether a fence has no closing line, and nothing comes after it."""
    start, end = fence.map or (0, 0)
    last = text[lines[end - 1] : lines[end]].strip(" \t\r\n>")
    closed = end - start > 1 and last.startswith(fence.markup) and not last.strip(fence.markup[0])
    return not closed and not text[lines[end] :].strip()


def _comments(text: str, lines: list[Span]) -> tuple[list[Span], int | None]:
    """Return the comments that begin in some lines, and the offset of one that hides the rest of the text."""
    comments: list[Span] = []
    at, closes = 0, True
    for start, end in lines:
        at = max(at, start)
        while found := _INLINE.search(text, at, end):
            at = found.end()
            if found[0].startswith("`"):
                closing = re.compile(rf"(?<!`){found[0]}(?!`)").search(text, at, end)
                at = closing.end() if closing else at
            elif found[0] == "<!--":
                closed = text.find("-->", found.start() + 2) if closes else -1
                closes = closed >= 0
                if closes:
                    at = closed + 3
                    comments.append((found.start(), at))
                elif not text[start : found.start()].strip():
                    return comments, found.start()
    return comments, None
