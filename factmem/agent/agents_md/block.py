"""The managed block: where facts stand in a file that people write, and what was shown there."""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import quote, unquote

import attrs

from factmem.agent.agents_md.comments import Comment, scanned
from factmem.agent.agents_md.page import Page
from factmem.errors import CodecError

__all__ = ["Block", "block_in", "written_into"]

_BEGIN: Final = re.compile(r"<!-- factmem:begin\b[^\n]*-->")
_END: Final = re.compile(r"<!-- factmem:end(?P<shown>(?:[ \t]+[^\s:>]+:[0-9a-f]{12})*)[ \t]*-->")
_ANY_MARKER: Final = re.compile(r"^[ \t]*<!-- factmem:(?:begin|end)\b", re.MULTILINE)
_OPENING: Final = (
    "<!-- factmem:begin: facts are kept here. Edit, add and remove bullets; anything else in here is lost -->"
)


@attrs.frozen(kw_only=True)
class Block:
    """A managed block in a text.

    Attributes:
        start: where it begins, in characters.
        end: where it ends.
        text: what stands between its markers.
        shown: the ids of the records that were written into it, each with the digest of its bullet.
    """

    start: int
    end: int
    text: str = attrs.field(repr=False)
    shown: tuple[tuple[str, str], ...] = ()


def block_in(text: str, name: str) -> Block | None:
    """Find the managed block of a text; None if it has none. Markers in code are no markers.

    Args:
        text: the text.
        name: the file's name, for the error.

    Raises:
        CodecError: a marker is missing, doubled or damaged, or an open fence or comment hides them.
    """
    scan = scanned(text)
    begins = [comment for comment in scan.comments if _BEGIN.fullmatch(text, comment.start, comment.end)]
    ends = [comment for comment in scan.comments if text.startswith("<!-- factmem:end", comment.start)]
    if not begins and not ends:
        hidden = min((at for at in (scan.unclosed, scan.open_fence) if at is not None), default=None)
        if hidden is not None and _ANY_MARKER.search(text, hidden):
            line = text.count("\n", 0, hidden) + 1
            raise CodecError(f"{name}: line {line} opens code or a comment that hides the block of facts: close it")
        return None
    if len(begins) != 1 or len(ends) != 1 or begins[0].start > ends[0].start:
        raise CodecError(
            f"{name}: the markers of the block of facts do not match: there must be one factmem:begin and, after it, "
            "one factmem:end. Put back what was taken out, or take the rest of the block out"
        )
    return _block(text, name, begins[0], ends[0])


def _block(text: str, name: str, begin: Comment, end: Comment) -> Block:
    found = _END.fullmatch(text, end.start, end.end)
    if found is None:
        raise CodecError(f"{name}: the factmem:end marker is damaged: put it back as it was, or take the block out")
    pairs = (item.rpartition(":") for item in found["shown"].split())
    shown = tuple((unquote(id), digest) for id, _, digest in pairs)
    return Block(start=begin.start, end=end.end, text=text[begin.end : end.start], shown=shown)


def written_into(text: str, block: Block | None, page: Page) -> str:
    """Return a text with a page in the place of its block, or with a new one; all around it stays as it is.

    A new block comes last, unless an open fence or comment would hide it there: then it comes first.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    index = "".join(f" {quote(id, safe='')}:{bullet.digest}" for id, bullet in page.shown)
    made = f"{_OPENING}\n{page.text}<!-- factmem:end{index} -->".replace("\n", newline)
    if block is not None:
        return text[: block.start] + made + text[block.end :]
    scan = scanned(text)
    if any(at is not None for at in (scan.unclosed, scan.open_fence, scan.dangling)):
        return made + newline * 2 + text
    if not text:
        return made + newline
    gap = "" if text.endswith(("\n\n", "\r\n\r\n")) else newline if text.endswith(("\n", "\r")) else newline * 2
    return text + gap + made + newline
