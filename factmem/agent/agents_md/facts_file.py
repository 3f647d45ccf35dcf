"""The block of facts in an AGENTS.md file, kept up to date in both directions."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import attrs
from anyio import to_thread

from factmem.abc import Clock, system_clock
from factmem.agent.agents_md.comments import Comment, scanned
from factmem.agent.agents_md.edits import Edits, Hand, applied, reconciled
from factmem.agent.agents_md.files import Content, decoded, expanded, read_file, replace_file
from factmem.agent.agents_md.page import Page, bullets_in, page_of
from factmem.errors import CodecError, InvalidDataError, StateConflictError
from factmem.facts import Concept
from factmem.memory import Memory
from factmem.records import Change, FactRecord, Origin, Place
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

__all__ = ["AgentsMdFacts", "Block", "block_in", "written_into"]

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
        start: Where it begins, in characters.
        end: Where it ends.
        text: What stands between its markers.
        shown: The ids of the records that were written into it, each with the digest of its bullet.
    """

    start: int
    end: int
    text: str = attrs.field(repr=False)
    shown: tuple[tuple[str, str], ...] = ()


def block_in(text: str, name: str) -> Block | None:
    """Find the managed block of a text; None if it has none. Markers in code are no markers.

    Args:
        text: The text.
        name: The file's name, for the error.

    Raises:
        CodecError: A marker is missing, doubled or damaged, or an open fence or comment hides them.
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


_BOM: Final = b"\xef\xbb\xbf"


@attrs.frozen
class _Standing:
    """A file as it stands, and what is known."""

    path: Path
    content: Content | None
    text: str = attrs.field(repr=False)
    block: Block | None
    records: dict[str, FactRecord[Any]] = attrs.field(repr=False)
    page: Page


@attrs.frozen
class AgentsMdFacts:
    """Facts in a managed block of an AGENTS.md, as bullets that people and agents read and edit.

    ::

        facts = AgentsMdFacts(memory, "AGENTS.md", subjects=[USER], scope="/product/alpha")
        await facts.sync()

    The block stands between two HTML comments, the second of which says which records the bullets are.
    Not a byte of the file outside of it is touched. A bullet that was edited updates its record, one that
    was taken out retracts it, and a new one becomes a fact of the concept that it names
    (``- **city**: Rome``), or else a statement. The dates in bullets are told, not read.

    Attributes:
        memory: The memory, or a view of it: nothing else is shown or changed.
        path: The file; ``~`` is expanded. It is made if it is not there.
        subjects: Whom the facts are about; what stands before any heading is about the first of them.
        scope: Where they hold, the subtree included; also where something may be added. All of the
            memory if None.
        concepts: Those that a new bullet may name, beside those in use.
        origin: Whose words the file's are. What one that is not trusted adds or edits goes into
            quarantine, and nothing can be taken out.
        private: Whether what is added is for the memory's viewer alone.
        limit: How many facts are shown, the newest first.
        follow_links: Whether the file may be a symbolic link.
        clock: The present.
    """

    memory: Memory
    path: str | os.PathLike[str]
    subjects: Sequence[MemorySubject] = attrs.field(
        default=(MemorySubject.EVERYTHING,), converter=tuple[MemorySubject, ...], kw_only=True
    )
    scope: MemoryScope | str | None = attrs.field(default=None, kw_only=True)
    concepts: Sequence[Concept[Any, Any]] = attrs.field(
        default=(), converter=tuple[Concept[Any, Any], ...], kw_only=True
    )
    origin: Origin = attrs.field(default=Origin.USER, kw_only=True)
    private: bool = attrs.field(default=False, kw_only=True)
    limit: int = attrs.field(default=200, kw_only=True)
    follow_links: bool = attrs.field(default=False, kw_only=True)
    clock: Clock = attrs.field(default=system_clock, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not self.subjects:
            raise InvalidDataError("say whom the facts are about", path="$.subjects")

    async def sync(self) -> tuple[Change, ...]:
        """Read back what was edited, then write the block as it is then; return what was changed in memory.

        Raises:
            StateConflictError: What was edited has changed in memory as well, and nothing was done; or the
                file was written meanwhile, and is as it was left; what was read back is in memory.
            InvalidDataError: The block holds something that cannot be read back; the text names the line.
            CodecError: The file is not UTF-8, or the markers of the block are damaged.
            MemoryFileError: The file cannot be read or written.
        """
        standing = await self._standing()
        changes = await self._applied(standing)
        if changes:
            standing = attrs.evolve(standing, **await self._known())
        await self._write(standing)
        return changes

    async def read_back(self) -> tuple[Change, ...]:
        """Change in memory what was edited in the file, and leave the file as it is; see `sync`.

        Edits that were read back before change nothing.
        """
        return await self._applied(await self._standing())

    async def write(self) -> None:
        """Write the block as memory has it; see `sync`.

        Raises:
            StateConflictError: The block has edits that were not read back, which would be lost.
        """
        standing = await self._standing()
        if await to_thread.run_sync(self._edits, standing):
            raise StateConflictError(f"{standing.path}: facts were edited here: read them back first, or sync")
        await self._write(standing)

    async def _standing(self) -> _Standing:
        path = expanded(self.path)
        content = await to_thread.run_sync(lambda: read_file(path, follow_links=self.follow_links))
        text = "" if content is None else decoded(content.data, str(path))
        block = await to_thread.run_sync(block_in, text, str(path))
        return _Standing(path, content, text, block, **await self._known())

    async def _known(self) -> dict[str, Any]:
        records = await self.memory.reviewed().list_records(scope=self.scope, subjects=self.subjects)
        scope = MemoryScope.parse(self.scope) if isinstance(self.scope, str) else self.scope
        homes = [Place(subject, scope or MemoryScope.CROSS_PRODUCT) for subject in self.subjects]
        page = await to_thread.run_sync(lambda: page_of(records, homes, limit=self.limit))
        return {"records": {record.id: record for record in records}, "page": page}

    async def _applied(self, standing: _Standing) -> tuple[Change, ...]:
        hand = Hand(origin=self.origin, source=str(standing.path), private=self.private, clock=self.clock)
        edits = await to_thread.run_sync(self._edits, standing)
        return await applied(self.memory, edits, hand)

    def _edits(self, standing: _Standing) -> Edits:
        if standing.block is None:
            return Edits()
        concepts = {concept.keyword: concept for concept in self.concepts}
        first_line = standing.text.count("\n", 0, standing.block.start) + 1
        try:
            return reconciled(
                standing.block.shown,
                bullets_in(standing.block.text, standing.page.places, first_line=first_line),
                page=standing.page,
                records=standing.records,
                concepts=concepts,
            )
        except (InvalidDataError, StateConflictError) as error:
            raise type(error)(f"{standing.path}: {error}") from None

    async def _write(self, standing: _Standing) -> None:
        text = written_into(standing.text, standing.block, standing.page)
        if text == standing.text:
            return
        before = standing.content
        data = text.encode()
        if before is not None and before.data.startswith(_BOM):
            data = _BOM + data
        await to_thread.run_sync(lambda: replace_file(standing.path, data, before, follow_links=self.follow_links))
