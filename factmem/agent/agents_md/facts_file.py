"""The block of facts in an AGENTS.md file, synchronized in both directions."""

from __future__ import annotations

import codecs
import contextlib
import itertools
import os
import re
from collections.abc import Hashable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, unquote

import attrs
from anyio import to_thread

from factmem.abc import system_clock
from factmem.abc.clock import Clock
from factmem.agent.agents_md.comments import Span, scanned
from factmem.agent.agents_md.files import Content, decoded, expanded, read_file, replace_file
from factmem.agent.agents_md.page import Bullet, Edits, Page, applied, bullets_in, page_of, reconciled, unmatched
from factmem.agent.rendering import belongs_in_file
from factmem.changes import Change
from factmem.details import Origin
from factmem.errors import CodecError, InvalidDataError, RecordNotFoundError, StateConflictError
from factmem.facts import Concept
from factmem.memory.facade import Memory, homes_of
from factmem.memory.filters import RecordPage
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

_ATTEMPTS: Final = 10
"""Number of times that a file is read which others keep writing."""


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


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Name the file in errors about its edits."""
    try:
        yield
    except (InvalidDataError, StateConflictError) as error:
        raise type(error)(f"{path}: {error}") from None


@attrs.frozen
class _File:
    """The file as it was read."""

    path: Path
    content: Content | None
    text: str = attrs.field(repr=False)
    block: Block | None


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
        scope: Scope of the facts, including its subtree, and of added facts (default: all that the memory shows; added
            facts go to a view's own scope, or else to ``MemoryScope.CROSS_PRODUCT``).
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
            raise InvalidDataError("name the subjects of the facts, such as subjects=[USER]", path="$.subjects")

    async def sync(self) -> tuple[Change, ...]:
        """Apply the file's edits to memory, then update the block; return the changes in memory.

        If somebody else changes the file or its records in the meantime, it is read again, a few times.

        Raises:
            InvalidDataError: An edit changes or removes what the file's origin may not.
            StateConflictError: An edited record has changed in memory too, and nothing was done. Or others keep
                writing the file: it stays as it is, and the edits read before are in memory.
            InvalidDataError: The block cannot be parsed; the message names the line.
            OutOfViewError: The scope or a subject lies outside of the memory's view.
            CodecError: The file is not UTF-8, or the markers of the block are damaged.
            MemoryFileError: The file cannot be read or written.
        """
        made: dict[Hashable, Sequence[Change]] = {}
        for attempt in range(1, _ATTEMPTS + 1):
            file, page = await self._read(), await self._page()
            edits = await self._edits(file, page)
            try:
                if edits:
                    await self._applied(file, edits, made)
                    page = await self._page()
                await self._write(file, page)
                break
            except (RecordNotFoundError, StateConflictError):  # another sync changed the records or the file
                if attempt == _ATTEMPTS:
                    raise
        return tuple(itertools.chain.from_iterable(made.values()))

    async def read_back(self) -> tuple[Change, ...]:
        """Apply the file's edits to memory, without writing the file; see `sync`.

        Edits that were applied before change nothing.
        """
        file, page = await self._read(), await self._page()
        return await self._applied(file, await self._edits(file, page), {})

    async def write(self) -> None:
        """Write the current facts into the block; see `sync`.

        Raises:
            StateConflictError: The block has edits that were not read back, which would be lost.
        """
        file, page = await self._read(), await self._page()
        if await self._edits(file, page):
            raise StateConflictError(f"{file.path}: facts were edited here: read them back first, or sync")
        await self._write(file, page)

    async def _read(self) -> _File:
        path = expanded(self.path)
        content = await to_thread.run_sync(lambda: read_file(path, follow_links=self.follow_links))
        text = "" if content is None else decoded(content.data, str(path))
        return _File(path, content, text, await to_thread.run_sync(block_in, text, str(path)))

    async def _records(self, limit: int | None = None) -> RecordPage:
        return await self.memory.view(reviewed=True).list_records(limit=limit, scope=self.scope, subjects=self.subjects)

    async def _page(self) -> Page:
        """Return the page of the current facts. Of many facts, only the newest are read, if those are enough."""
        reviewed = self.memory.view(reviewed=True)
        known = await reviewed.admin.info(self.scope, subjects=self.subjects)
        scopes = dict.fromkeys((*homes_of(self.memory, self.scope), *known.scopes))
        homes = [Place(subject, scope) for scope in scopes for subject in self.subjects]

        def page_with(records: RecordPage) -> Page:
            shown = list(filter(belongs_in_file, records))
            return page_of(shown, homes, limit=self.limit, more=max(known.records, len(records)) - len(shown))

        newest = await self._records(2 * self.limit)
        page = await to_thread.run_sync(page_with, newest)
        if newest.next_page is None or len(page.shown) == self.limit:
            return page
        return await to_thread.run_sync(page_with, await self._records())

    async def _applied(self, file: _File, edits: Edits, made: dict[Hashable, Sequence[Change]]) -> tuple[Change, ...]:
        with _named(file.path):
            return await applied(
                self.memory,
                edits,
                origin=self.origin,
                source=str(file.path),
                private=self.private,
                clock=self.clock,
                made=made,
            )

    async def _edits(self, file: _File, page: Page) -> Edits:
        block = file.block
        if block is None:
            return Edits()
        first_line = file.text.count("\n", 0, block.start) + 1
        with _named(file.path):
            bullets = await to_thread.run_sync(lambda: bullets_in(block.text, page.places, first_line=first_line))
            if not any(unmatched(block.shown, bullets)):
                return Edits()
            return await to_thread.run_sync(self._compared, block, bullets, page, await self._records())

    def _compared(
        self, block: Block, bullets: Sequence[Bullet], page: Page, records: Iterable[FactRecord[Any]]
    ) -> Edits:
        return reconciled(
            block.shown,
            bullets,
            page=page,
            records={record.id: record for record in records},
            concepts={concept.keyword: concept for concept in self.concepts},
        )

    async def _write(self, file: _File, page: Page) -> None:
        text = await to_thread.run_sync(written_into, file.text, file.block, page)
        if text == file.text:
            return
        before = file.content
        data = text.encode()
        if before is not None and before.data.startswith(codecs.BOM_UTF8):
            data = codecs.BOM_UTF8 + data
        await to_thread.run_sync(lambda: replace_file(file.path, data, before, follow_links=self.follow_links))
