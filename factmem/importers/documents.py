"""Documents: Markdown and plain text as passages, each a statement that can show its file, heading and lines.

What a document says is of the origin `Origin.DOCUMENT`: it waits in quarantine until it is accepted. No language model
reads it. Markdown is parsed by markdown-it-py.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
from anyio import to_thread

from factmem.details import Evidence, FactDetails, Origin
from factmem.detection.redaction import redact
from factmem.detection.statements import statement_spans
from factmem.facts import STATEMENT, MultipleFacts
from factmem.importers.contract import ImportOptions
from factmem.importers.sources import Source
from factmem.memory.audit import AuditAction
from factmem.memory.exports import ImportReceipt
from factmem.memory.facade import Memory
from factmem.memory.filters import Filters
from factmem.records import FactRecord, Recorded
from factmem.values import Json

if TYPE_CHECKING:
    from markdown_it.token import Token

MARKDOWN: Final = (".md", ".markdown")
PLAIN_TEXT: Final = (".txt", ".text")
"""Suffixes of the files that are read as documents."""

_MOST_CHARS: Final = 2_000
"""Approximate maximum length of a passage; a longer one is split at its sentences."""

_DOCUMENT: Final = "document"
_GONE: Final = "it is not in the document any more"


@attrs.frozen(kw_only=True)
class DocumentPassage:
    """One paragraph, list item, table or code block of a document.

    Attributes:
        text: Its words without the marks of Markdown.
        quote: The part of the document that it comes from.
        start: Offset of the quote in the document, in characters.
        heading: Headings above it, from the highest, joined by " > "; None above the first one.
        line: Number of its first line, from 1.
    """

    text: str = attrs.field(repr=False)
    quote: str = attrs.field(repr=False)
    start: int
    heading: str | None
    line: int

    @property
    def statement(self) -> str:
        """The text below its headings, so that it can be found and understood by itself."""
        return self.text if self.heading is None else f"{self.heading}: {self.text}"


@attrs.frozen(kw_only=True)
class DocumentReport:
    """The outcome of `ingest_document`.

    Attributes:
        document: Path of the document, as it was given.
        passages: Number of passages in it.
        new: Number of passages that were not in the store.
        quarantined: Number of passages that wait in quarantine.
        accepted: Number of passages that waited before, and were accepted.
        gone: Number of passages of an earlier version that were retracted or rejected.
        redacted: Number of secrets that are not kept.
    """

    document: str
    passages: int = 0
    new: int = 0
    quarantined: int = 0
    accepted: int = 0
    gone: int = 0
    redacted: int = 0


def is_document(path: Path) -> bool:
    """Return whether a file is read as a document, by its suffix."""
    return path.suffix.lower() in (*MARKDOWN, *PLAIN_TEXT)


def passages_in(text: str, *, markdown: bool) -> Iterator[DocumentPassage]:
    """Yield the passages of a document in their order; of Markdown, comments and the front matter are left out.

    Args:
        text: The document, with its lines separated by line feeds.
        markdown: Whether it is Markdown; otherwise it is paragraphs between blank lines.
    """
    starts = [0, *itertools.accumulate(len(line) + 1 for line in text.split("\n"))]
    for plain, (first, last), headings in blocks(text) if markdown else _paragraphs(text):
        start, end = starts[first], starts[last]
        source = text[start:end]
        heading = " > ".join(headings) or None
        if len(plain) <= _MOST_CHARS:
            quote = source.strip()
            at = start + source.find(quote)
            yield DocumentPassage(text=plain, quote=quote, start=at, heading=heading, line=first + 1)
            continue
        for begin, stop in statement_spans(source, _MOST_CHARS):
            line = bisect.bisect_right(starts, start + begin)
            piece = source[begin:stop]
            yield DocumentPassage(text=piece, quote=piece, start=start + begin, heading=heading, line=line)


async def ingest_document(
    memory: Memory, path: Path | str, *, options: ImportOptions | None = None, trust: bool = False
) -> DocumentReport:
    """Keep the passages of a Markdown or text file as statements of a document, secrets redacted.

    The same file adds nothing. Of a file that was changed, new passages are added, and those that it does not hold any
    more are retracted, unless another document holds them as well. A file is known by its absolute path, which is in
    the metadata of a passage, with heading and line; the path as given is its source, and its words with their offsets
    are in the evidence.

    ::

        report = await ingest_document(memory, "handbook.md", trust=True)

    Args:
        memory: The memory.
        path: The file; every suffix but those of `MARKDOWN` is plain text.
        options: Subject, scope, source and owner of the passages; see `ImportOptions`.
        trust: Let the passages in, also those that wait in quarantine since an earlier call.

    Raises:
        FileFormatError: The file is missing, too large, or no text.
        InvalidDataError: It was changed in the future.
        CapabilityError: The provider has the four verbs only.
        ReadOnlyError: The memory is read-only.
    """
    path, options = Path(path), options or ImportOptions()
    options = attrs.evolve(options, source=options.source or path.as_posix())
    document, entries, redacted = await to_thread.run_sync(_entries, path, options)
    before = await _Known.of(memory, document, options)
    wanted = {entry.assertion.data for entry in entries}
    new = [entry for entry in entries if entry.assertion.data not in before.values]
    receipt = ImportReceipt(imported=0, quarantined=0)
    if new:
        receipt = await memory.admin.import_(await _said_again(memory, document, new, options), trust=trust)
    gone = await before.remove(memory, {value for value in before.values if value not in wanted})
    waiting = [record for value, record in before.waiting.items() if value in wanted]
    if trust and waiting:
        await memory.inbox.quarantine.accept(
            *(record.id for record in waiting), reason="ingested as a trusted document"
        )
    return DocumentReport(
        document=path.as_posix(),
        passages=len(entries),
        new=receipt.imported,
        quarantined=receipt.quarantined + (0 if trust else len(waiting)),
        accepted=receipt.accepted + (len(waiting) if trust else 0),
        gone=gone,
        redacted=redacted,
    )


async def _said_again(
    memory: Memory, document: str, new: Sequence[Recorded], options: ImportOptions
) -> Sequence[Recorded]:
    """Return new passages; those that an earlier version lost are said now, for they may stand as they stood then."""
    trail = await memory.admin.audit(
        actions=[AuditAction.RETRACTED, AuditAction.REJECTED],
        metadata={_DOCUMENT: document},
        subject=options.subject,
        scope=options.scope,
        exact=True,
        limit=None,
    )
    reasons: dict[Any, str | None] = {}
    for entry in trail.entries:  # newest first
        if entry.record is not None:
            reasons.setdefault(entry.record.value, entry.reason)
    return [
        attrs.evolve(entry, assertion=attrs.evolve(entry.assertion, timestamp=options.now))
        if reasons.get(entry.assertion.data) == _GONE
        else entry
        for entry in new
    ]


def _entries(path: Path, options: ImportOptions) -> tuple[str, Sequence[Recorded], int]:
    """Return the identity of a document, its passages, and the number of secrets in it.

    Its identity is its absolute path, since its name alone may be that of many.
    """
    source = Source(path)
    clean = redact(source.whole(path))
    name, timestamp = path.resolve().as_posix(), options.dated or source.changed_at()
    entries: dict[Any, Recorded] = {}
    for number, passage in enumerate(passages_in(clean.text, markdown=path.suffix.lower() in MARKDOWN)):
        quoted = Evidence(
            quote=passage.quote,
            role=_DOCUMENT,
            conversation_id=name,
            message_id=f"line {passage.line}",
            position=number,
            start=passage.start,
            end=passage.start + len(passage.quote),
        )
        where: dict[str, Json] = {_DOCUMENT: name, "line": passage.line}
        if passage.heading is not None:
            where["heading"] = passage.heading
        (entry,) = options.entries(
            MultipleFacts(STATEMENT, (passage.statement,), timestamp=timestamp),
            where=f"{path.as_posix()} line {passage.line}",
            key=f"{name}/{number}",
            details=FactDetails(origin=Origin.DOCUMENT, evidence=(quoted,), metadata=where),
        )
        entries.setdefault(entry.recorded.assertion.data, entry.recorded)
    return name, tuple(entries.values()), len(clean.findings)


@attrs.frozen
class _Known:
    """Passages of a document that are in the store, by their values.

    Attributes:
        document: Identity of the document.
        current: Those that are believed.
        waiting: Those that wait in quarantine.
    """

    document: str
    current: dict[Any, FactRecord[Any]]
    waiting: dict[Any, FactRecord[Any]]

    @classmethod
    async def of(cls, memory: Memory, document: str, options: ImportOptions) -> _Known:
        owner = options.owner_of(options.subject)
        here = Filters(subject=options.subject, scope=options.scope, exact=True, metadata={_DOCUMENT: document})
        current, waiting = await memory.list_records(**here), await memory.inbox.quarantine.list(**here)
        return cls(document, _passages(current, document, owner), _passages(waiting, document, owner))

    @property
    def values(self) -> set[Any]:
        """The values of all of them."""
        return {*self.current, *self.waiting}

    async def remove(self, memory: Memory, values: set[Any]) -> int:
        """Retract or reject the passages with some values that no other document holds, and return their number."""
        retracted = [
            record.id
            for value, record in self.current.items()
            if value in values and _documents_of(record) == {self.document}
        ]
        rejected = [record.id for value, record in self.waiting.items() if value in values]
        if retracted:
            await memory.retract(*retracted, reason=_GONE)
        if rejected:
            await memory.inbox.quarantine.reject(*rejected, reason=_GONE)
        return len(retracted) + len(rejected)


def _passages(records: Sequence[FactRecord[Any]], document: str, owner: str | None) -> dict[Any, FactRecord[Any]]:
    return {
        record.value: record
        for record in records
        if record.details.origin is Origin.DOCUMENT
        and record.details.owner == owner
        and document in _documents_of(record)
    }


def _documents_of(record: FactRecord[Any]) -> set[str | None]:
    """Return the identities of the documents that a passage is quoted from."""
    return {quoted.conversation_id for quoted in record.details.evidence if quoted.role == _DOCUMENT}


_Block = tuple[str, tuple[int, int], tuple[str, ...]]
"""Words of a block, its first line and the one behind it, from 0, and the headings above it."""


def _paragraphs(text: str) -> Iterator[_Block]:
    said: list[str] = []
    for number, line in enumerate([*text.split("\n"), ""]):
        if line.strip():
            said.append(line.strip())
        elif said:
            yield " ".join(said), (number - len(said), number), ()
            said = []


def blocks(text: str, *, code: bool = True) -> Iterator[_Block]:
    """Yield the blocks of Markdown: paragraphs, top items of lists, tables, quotations and, if wanted, code."""
    from markdown_it import MarkdownIt

    headings: dict[int, str] = {}
    skipped = _front_matter(text)
    skipped_types = ("html_block", "hr") if code else ("html_block", "hr", "fence", "code_block")
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for block in _top(tokens):
        first = block[0]
        if first.map is None or first.map[0] < skipped:
            continue
        if first.type == "heading_open":
            level = int(first.tag[1:])
            headings = {above: title for above, title in headings.items() if above < level}
            if title := _words(block):
                headings[level] = title
        elif first.type not in skipped_types and (words := _words(block)):
            yield words, (first.map[0], first.map[1]), tuple(headings.values())


def _top(tokens: Sequence[Token]) -> Iterator[Sequence[Token]]:
    """Yield the tokens of each block of a document; those of a list are its items."""
    start = depth = 0
    for number, token in enumerate(tokens):
        if token.type in _LISTS and depth == 0:
            start = number + 1
            continue
        depth += token.nesting
        if depth == 0:
            yield tokens[start : number + 1]
            start = number + 1


_LISTS: Final = ("bullet_list_open", "ordered_list_open", "bullet_list_close", "ordered_list_close")


def _words(block: Sequence[Token]) -> str:
    """Return the words of a block without the marks of Markdown; rows of a table stand on lines of their own."""
    lines: list[list[str]] = [[]]
    for token in block:
        if token.type in ("tr_open", "list_item_open", "paragraph_open"):
            lines.append([])
        if token.type in ("fence", "code_block"):
            lines.append([token.content.rstrip()])
        elif token.type == "inline":
            lines[-1].append(_inline(token.children or []))
    return "\n".join(" | ".join(filter(None, line)) for line in lines if any(line))


def _inline(tokens: Sequence[Token]) -> str:
    said = (
        " " if token.type in ("softbreak", "hardbreak") else "" if token.type == "html_inline" else token.content
        for token in tokens
    )
    return "".join(said).strip()


def _front_matter(text: str) -> int:
    """Return the number of lines of a front matter: what stands between two lines of three dashes at the beginning."""
    lines = text.split("\n")
    if lines[0].strip() != "---":
        return 0
    return next((number + 1 for number, line in enumerate(lines[1:], 1) if line.strip() in ("---", "...")), 0)
