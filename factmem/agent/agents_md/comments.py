"""HTML comments in Markdown, distinguished from code that looks like them."""

from __future__ import annotations

import re
from typing import Final

import attrs

__all__ = ["Comment", "ScannedText", "Visible", "scanned", "visible"]

_FENCE: Final = re.compile(r"(?P<run>`{3,}|~{3,})(?P<info>[^\r\n]*)")
_ITEM: Final = re.compile(r"(?:[-+*]|\d{1,9}[.)])[ \t]+(?=\S)")
_HEADING: Final = re.compile(r"#{1,6}(?:[ \t]|$)")
_LINE_END: Final = re.compile(r"\r\n?|\n")
_INLINE: Final = re.compile(r"\\[!-/:-@\[-`{-~]|`+|<!--")
_TAB: Final = 4


@attrs.frozen
class Comment:
    """The span of a comment, in characters."""

    start: int
    end: int


@attrs.frozen(kw_only=True)
class ScannedText:
    """The comments and anomalies of a text.

    Attributes:
        comments: Closed comments, in order.
        unclosed: Offset of an unclosed comment that hides the rest of the text; None if there is none.
        open_fence: Offset of a code fence that is open at the end of the text; None if there is none.
        dangling: Offset of an opening marker that would start a comment if it were closed; None if there is none.
    """

    comments: tuple[Comment, ...] = ()
    unclosed: int | None = None
    open_fence: int | None = None
    dangling: int | None = None


@attrs.frozen(kw_only=True)
class Visible:
    """A text without its comments.

    Attributes:
        text: The remaining text.
        unclosed_line: Line number, from 1, of an unclosed comment that hides the rest; None if there is none.
    """

    text: str
    unclosed_line: int | None = None


def visible(text: str) -> Visible:
    """Return a text without its HTML comments, except those in code (fenced, indented, inline).

    A line that holds only comments is removed whole. As in CommonMark, an unclosed comment at the start of a line
    hides the rest of the text; within a line it is plain text.
    """
    scan = scanned(text)
    kept, at = [], 0
    for start, end in _cuts(text, scan):
        kept.append(text[at:start])
        at = end
    kept.append(text[at:])
    unclosed = None if scan.unclosed is None else len(_LINE_END.findall(text, 0, scan.unclosed)) + 1
    return Visible(text="".join(kept), unclosed_line=unclosed)


def scanned(text: str) -> ScannedText:
    """Find the comments of a Markdown text."""
    scanner = _Scanner(text)
    scanner.run()
    return ScannedText(
        comments=tuple(scanner.comments),
        unclosed=scanner.unclosed,
        open_fence=scanner.fence_at,
        dangling=scanner.dangling,
    )


def _cuts(text: str, scan: ScannedText) -> list[tuple[int, int]]:
    """Return the spans to remove: comments, and whole lines that hold nothing else."""
    joined: list[tuple[int, int]] = []
    for comment in scan.comments:
        if joined and not text[joined[-1][1] : comment.start].strip(" \t"):
            joined[-1] = (joined[-1][0], comment.end)
        else:
            joined.append((comment.start, comment.end))
    cuts = [_whole_lines(text, start, end) for start, end in joined]
    return cuts if scan.unclosed is None else [*cuts, (scan.unclosed, len(text))]


def _whole_lines(text: str, start: int, end: int) -> tuple[int, int]:
    first = max(text.rfind("\n", 0, start), text.rfind("\r", 0, start)) + 1
    ends = _LINE_END.search(text, end)
    after = ends.start() if ends else len(text)
    if text[first:start].strip(" \t") or text[end:after].strip(" \t"):
        return start, end
    return first, ends.end() if ends else len(text)


class _Scanner:
    """Line scanner for the parts of CommonMark's block structure that affect comments.

    Block quotes are read as plain lines; a fence inside one is not recognized.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.comments: list[Comment] = []
        self.unclosed: int | None = None
        self.dangling: int | None = None
        self.fence_at: int | None = None
        self._fence = ""
        self._fence_offset = 0
        self._items: list[int] = []
        self._paragraph = False
        self._closes = True

    def run(self) -> None:
        """Scan the whole text."""
        at = 0
        while at < len(self.text) and self.unclosed is None:
            at = self._line(at)

    def _line(self, at: int) -> int:
        """Scan one line, including multi-line comments that start in it; return the start of the next line."""
        end = self._end_of_line(at)
        line = self.text[at:end]
        if self.fence_at is not None and self._in_fence(line):
            return end
        if not line.strip():
            self._paragraph = False
            return end
        indent = _indent(line)
        body = len(line) - len(line.lstrip(" \t"))
        if not self._paragraph:
            while self._items and indent < self._items[-1]:
                self._items.pop()
            if indent >= self._offset + _TAB:
                return end
        while (item := _ITEM.match(line, body)) and indent < self._offset + _TAB:
            while self._items and indent < self._items[-1]:
                self._items.pop()
            indent += _width(item[0])
            self._items.append(indent)
            body = item.end()
            self._paragraph = False
        if indent < self._offset + _TAB and self._opens_fence(line, body, at):
            return end
        self._paragraph = not _HEADING.match(line, body)
        return self._inline(at, at + body, end)

    @property
    def _offset(self) -> int:
        return self._items[-1] if self._items else 0

    def _end_of_line(self, at: int) -> int:
        found = _LINE_END.search(self.text, at)
        return found.end() if found else len(self.text)

    def _in_fence(self, line: str) -> bool:
        """Return whether a line belongs to the open fence, as code or as its end."""
        content = line.strip()
        if content and _indent(line) < self._fence_offset:  # the list item that holds the fence is over
            self._end_fence()
            return False
        closes = content and not content.strip(self._fence[0]) and len(content) >= len(self._fence)
        if closes and _indent(line) < self._fence_offset + _TAB:
            self._end_fence()
        return True

    def _end_fence(self) -> None:
        self.fence_at, self._paragraph = None, False

    def _opens_fence(self, line: str, body: int, at: int) -> bool:
        found = _FENCE.match(line, body)
        if found is None or (found["run"][0] == "`" and "`" in found["info"]):
            return False
        self._fence, self._fence_offset, self.fence_at = found["run"], self._offset, at + body
        return True

    def _inline(self, line_start: int, at: int, end: int) -> int:
        """Find the comments in a line; return the end of the line in which the last one ends."""
        while found := _INLINE.search(self.text, at, end):
            at = found.end()
            if found[0].startswith("`"):
                closing = re.compile(rf"(?<!`){found[0]}(?!`)").search(self.text, at, end)
                at = closing.end() if closing else at
            elif found[0] == "<!--":
                closed = self.text.find("-->", found.start() + 2) if self._closes else -1
                self._closes = closed >= 0
                if closed >= 0:
                    at = closed + 3
                    self.comments.append(Comment(found.start(), at))
                    if at >= end:
                        end = self._end_of_line(at)
                elif not self.text[line_start : found.start()].strip():
                    self.unclosed = found.start()
                    return len(self.text)
                else:
                    self.dangling = found.start()
        return end


def _indent(line: str) -> int:
    return _width(line[: len(line) - len(line.lstrip(" \t"))])


def _width(blank: str) -> int:
    return len(blank.expandtabs(_TAB))
