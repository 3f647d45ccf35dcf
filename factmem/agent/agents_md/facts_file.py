"""The block of facts in an AGENTS.md file, synchronized in both directions."""

from __future__ import annotations

import codecs
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import attrs
from anyio import to_thread

from factmem.abc import system_clock
from factmem.abc.clock import Clock
from factmem.agent.agents_md.comments import Span, scanned
from factmem.agent.agents_md.files import Content, decoded, expanded, read_file, replace_file
from factmem.agent.agents_md.page import Edits, Page, applied, bullets_in, page_of, reconciled
from factmem.agent.rendering import belongs_in_file
from factmem.changes import Change
from factmem.details import Origin
from factmem.errors import CodecError, InvalidDataError, StateConflictError
from factmem.facts import Concept
from factmem.memory.facade import Memory
from factmem.records import FactRecord, Place
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.validators import instance_of

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
        start: Start offset, in characters.
        end: End offset.
        text: Text between the markers.
        shown: Ids of the records that were written into it, each with the digest of its bullet.
    """

    start: int
    end: int
    text: str = attrs.field(repr=False)
    shown: tuple[tuple[str, str], ...] = ()


def block_in(text: str, name: str) -> Block | None:
    """Return the managed block of a text, or None if it has none. Markers in code are ignored.

    Args:
        text: The text.
        name: Name of the file, for the error.

    Raises:
        CodecError: A marker is missing, duplicate or damaged, or an open fence or comment hides the markers.
    """
    scan = scanned(text)
    begins = [span for span in scan.comments if _BEGIN.fullmatch(text, *span)]
    ends = [span for span in scan.comments if text.startswith("<!-- factmem:end", span[0])]
    if not begins and not ends:
        hidden = min((at for at in (scan.unclosed, scan.open_fence) if at is not None), default=None)
        if hidden is not None and _ANY_MARKER.search(text, hidden):
            line = text.count("\n", 0, hidden) + 1
            raise CodecError(f"{name}: line {line} opens code or a comment that hides the block of facts: close it")
        return None
    if len(begins) != 1 or len(ends) != 1 or begins[0] > ends[0]:
        raise CodecError(
            f"{name}: the markers of the block of facts do not match: there must be one factmem:begin and, after it, "
            "one factmem:end. Restore the missing marker, or remove the rest of the block"
        )
    return _block(text, name, begins[0], ends[0])


def _block(text: str, name: str, begin: Span, end: Span) -> Block:
    found = _END.fullmatch(text, *end)
    if found is None:
        raise CodecError(f"{name}: the factmem:end marker is damaged: restore it, or remove the block")
    pairs = (item.rpartition(":") for item in found["shown"].split())
    shown = tuple((unquote(id), digest) for id, _, digest in pairs)
    return Block(start=begin[0], end=end[1], text=text[begin[1] : end[0]], shown=shown)


def written_into(text: str, block: Block | None, page: Page) -> str:
    """Return a text with its block replaced by a page, or with a new block; all other text stays unchanged.

    A new block is appended, or prepended if an open fence or comment at the end would hide it.
    """
    newline = "\r\n" if "\r\n" in text else "\n"
    index = "".join(f" {quote(id, safe='')}:{bullet.digest}" for id, bullet in page.shown)
    made = f"{_OPENING}\n{page.text}<!-- factmem:end{index} -->".replace("\n", newline)
    if block is not None:
        return text[: block.start] + made + text[block.end :]
    if not text:
        return made + newline
    gap = "" if text.endswith(("\n\n", "\r\n\r\n")) else newline if text.endswith(("\n", "\r")) else newline * 2
    below = text + gap + made + newline
    begins = {start for start, _ in scanned(below).comments}
    is_hidden = scanned(text).open_fence is not None or len(text + gap) not in begins
    return made + newline * 2 + text if is_hidden else below


@attrs.frozen
class _State:
    """The current file, and the current records."""

    path: Path
    content: Content | None
    text: str = attrs.field(repr=False)
    block: Block | None
    records: dict[str, FactRecord[Any]] = attrs.field(repr=False)
    page: Page


@attrs.frozen
class AgentsMdFacts:
    """Facts in a managed block of an AGENTS.md file, as bullets that people and agents read and edit.

        facts = AgentsMdFacts(memory, "AGENTS.md", subjects=[USER], scope="/product/alpha")
        await facts.sync()

    The block is delimited by two HTML comments; the second one lists the records of the bullets. Text outside of the
    block is never changed. An edited bullet updates its record, a removed one retracts it, and a new one adds a fact
    of the concept that it names (``- **city**: Rome``), or else a statement. The dates in bullets are output only.

    Attributes:
        memory: The memory, or a view that limits the facts shown and changed.
        path: Path of the file; ``~`` is expanded. A missing file is created.
        subjects: Subjects of the facts; bullets before any heading are about the first one.
        scope: Scope of the facts, including its subtree, and of added facts (default: all of the memory).
        concepts: Concepts that a new bullet may name, beside those in use.
        origin: Origin of the file's text. Anybody who can write the file can add to it, so it is unknown by default:
            additions and edits are quarantined, and retractions are refused. ``Origin.USER`` is for a file that only
            the user edits. ``Origin.ASSISTANT`` is for one that only an agent edits: what the user said is refused.
        private: Whether added facts are private to the memory's viewer.
        limit: Maximum number of facts shown, newest first.
        follow_links: Whether the file may be a symbolic link.
        clock: Clock for the timestamps of added facts.
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
    origin: Origin = attrs.field(default=Origin.UNKNOWN, validator=instance_of(Origin), kw_only=True)
    private: bool = attrs.field(default=False, kw_only=True)
    limit: int = attrs.field(default=200, kw_only=True)
    follow_links: bool = attrs.field(default=False, kw_only=True)
    clock: Clock = attrs.field(default=system_clock, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not self.subjects:
            raise InvalidDataError("say whom the facts are about", path="$.subjects")

    async def sync(self) -> tuple[Change, ...]:
        """Apply the file's edits to memory, then update the block; return the changes in memory.

        Raises:
            InvalidDataError: An edit changes or removes what the file's origin may not.
            StateConflictError: An edited record has changed in memory too, and nothing was done. Or the file was
                written in the meantime: it stays as it is, and the edits read before are in memory.
            InvalidDataError: The block cannot be parsed; the message names the line.
            CodecError: The file is not UTF-8, or the markers of the block are damaged.
            MemoryFileError: The file cannot be read or written.
        """
        state = await self._state()
        changes = await self._applied(state)
        if changes:
            state = attrs.evolve(state, **await self._known())
        await self._write(state)
        return changes

    async def read_back(self) -> tuple[Change, ...]:
        """Apply the file's edits to memory, without writing the file; see `sync`.

        Edits that were applied before change nothing.
        """
        return await self._applied(await self._state())

    async def write(self) -> None:
        """Write the current facts into the block; see `sync`.

        Raises:
            StateConflictError: The block has edits that were not read back, which would be lost.
        """
        state = await self._state()
        if await to_thread.run_sync(self._edits, state):
            raise StateConflictError(f"{state.path}: facts were edited here: read them back first, or sync")
        await self._write(state)

    async def _state(self) -> _State:
        path = expanded(self.path)
        content = await to_thread.run_sync(lambda: read_file(path, follow_links=self.follow_links))
        text = "" if content is None else decoded(content.data, str(path))
        block = await to_thread.run_sync(block_in, text, str(path))
        return _State(path, content, text, block, **await self._known())

    async def _known(self) -> dict[str, Any]:
        known = await self.memory.view(reviewed=True).list_records(scope=self.scope, subjects=self.subjects)
        scope = MemoryScope.parse(self.scope) if isinstance(self.scope, str) else self.scope
        homes = [Place(subject, scope or MemoryScope.CROSS_PRODUCT) for subject in self.subjects]

        def shown() -> Page:
            records = list(filter(belongs_in_file, known))
            return page_of(records, homes, limit=self.limit, more=len(known) - len(records))

        page = await to_thread.run_sync(shown)
        return {"records": {record.id: record for record in known}, "page": page}

    async def _applied(self, state: _State) -> tuple[Change, ...]:
        edits = await to_thread.run_sync(self._edits, state)
        return await applied(
            self.memory,
            edits,
            origin=self.origin,
            source=str(state.path),
            private=self.private,
            clock=self.clock,
        )

    def _edits(self, state: _State) -> Edits:
        if state.block is None:
            return Edits()
        concepts = {concept.keyword: concept for concept in self.concepts}
        first_line = state.text.count("\n", 0, state.block.start) + 1
        try:
            return reconciled(
                state.block.shown,
                bullets_in(state.block.text, state.page.places, first_line=first_line),
                page=state.page,
                records=state.records,
                concepts=concepts,
            )
        except (InvalidDataError, StateConflictError) as error:
            raise type(error)(f"{state.path}: {error}") from None

    async def _write(self, state: _State) -> None:
        text = written_into(state.text, state.block, state.page)
        if text == state.text:
            return
        before = state.content
        data = text.encode()
        if before is not None and before.data.startswith(codecs.BOM_UTF8):
            data = codecs.BOM_UTF8 + data
        await to_thread.run_sync(lambda: replace_file(state.path, data, before, follow_links=self.follow_links))
