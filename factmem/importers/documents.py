"""Documents: Markdown and plain text as passages, each a statement that can show its file, heading and lines.

What a document says is of the origin `Origin.DOCUMENT`: it waits in quarantine until it is accepted. No language model
reads it. Markdown is parsed by markdown-it-py.
"""

from __future__ import annotations

import bisect
import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import attrs
from anyio import to_thread

from factmem.details import Evidence, Origin
from factmem.detection.redaction import redact
from factmem.detection.statements import statement_spans
from factmem.importers.contract import Entry, ImportOptions
from factmem.importers.html_text import ENDS, Line, breaks_line, html_lines, left_open
from factmem.importers.rows import Fields, Row
from factmem.importers.sources import Source
from factmem.memory.audit import AuditAction
from factmem.memory.exports import ImportReceipt
from factmem.memory.facade import Memory
from factmem.memory.filters import Filters
from factmem.records import FactRecord, Recorded
from factmem.values import Json

if TYPE_CHECKING:
    from markdown_it.token import Token
    from markdown_it.tree import SyntaxTreeNode

MARKDOWN: Final = (".md", ".markdown")
PLAIN_TEXT: Final = (".txt", ".text")
"""Suffixes of the files that are read as documents."""

_MOST_CHARS: Final = 2_000
"""Approximate maximum length of a passage; a longer one is split at its sentences."""

_DOCUMENT: Final = "document"
_PASSAGE: Final = Fields({}, Origin.DOCUMENT)
_GONE: Final = "it is not in the document any more"


@attrs.frozen(kw_only=True)
class DocumentPassage:
    """One paragraph, list item, table, block of HTML or of code of a document, or a part of a long one.

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
    owner = options.owner_of(options.subject)
    here = Filters(subject=options.subject, scope=options.scope, exact=True, metadata={_DOCUMENT: document})
    current = _passages(await memory.list_records(**here), document, owner)
    waiting = _passages(await memory.inbox.quarantine.list(**here), document, owner)
    wanted = {entry.assertion.data for entry in entries}
    new = [entry for entry in entries if entry.assertion.data not in {*current, *waiting}]
    receipt = ImportReceipt(imported=0, quarantined=0)
    if new:
        receipt = await memory.admin.import_(await _said_again(memory, document, new, options), trust=trust)
    alone = {value: record for value, record in current.items() if _documents_of(record) == {document}}
    if retracted := [record.id for value, record in alone.items() if value not in wanted]:
        await memory.retract(*retracted, reason=_GONE)
    if rejected := [record.id for value, record in waiting.items() if value not in wanted]:
        await memory.inbox.quarantine.reject(*rejected, reason=_GONE)
    still = [record.id for value, record in waiting.items() if value in wanted]
    if trust and still:
        await memory.inbox.quarantine.accept(*still, reason="ingested as a trusted document")
    return DocumentReport(
        document=path.as_posix(),
        passages=len(entries),
        new=receipt.imported,
        quarantined=receipt.quarantined + (0 if trust else len(still)),
        accepted=receipt.accepted + (len(still) if trust else 0),
        gone=len(retracted) + len(rejected),
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
    name, timestamp = path.resolve().as_posix(), source.changed_at()
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
        for found in _PASSAGE.found(
            Row(f"{name}/{number}", {}),
            options,
            values=(passage.statement,),
            undated=timestamp,
            evidence=(quoted,),
            metadata=where,
        ):
            if isinstance(found, Entry):
                entries.setdefault(found.recorded.assertion.data, found.recorded)
    return name, tuple(entries.values()), len(clean.findings)


def _passages(records: Sequence[FactRecord[Any]], document: str, owner: str | None) -> dict[Any, FactRecord[Any]]:
    """Return the records of one owner that are passages of a document, by their values."""
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
    """Yield the blocks of Markdown: paragraphs, top items of lists, tables, quotations, HTML and, if wanted, code.

    Long tables and HTML are several blocks; each of a table begins with its header, unless that is long. Where a blank
    line cuts HTML within a comment, script or style, the blocks up to its end are left out.
    """
    from markdown_it import MarkdownIt
    from markdown_it.tree import SyntaxTreeNode

    headings: dict[int, str] = {}
    sources = text.lower().split("\n")
    last_ends = {end: number for number, line in enumerate(sources) for end in ENDS if end in line}
    skipped = _front_matter(text)
    skipped_types = ("hr", *(() if code else ("fence", "code_block")))
    tree = SyntaxTreeNode(MarkdownIt("commonmark").enable("table").parse(text))
    lists = ("bullet_list", "ordered_list")
    for node in itertools.chain.from_iterable(top.children if top.type in lists else [top] for top in tree.children):
        if node.map is None or node.map[0] < skipped or node.type in skipped_types:
            continue
        for words, lines, level in _parts(node, node.map):
            if level:
                headings = {above: title for above, title in headings.items() if above < level}
            if level and words:
                headings[level] = words
            elif words:
                yield words, lines, tuple(headings.values())
        behind = node.map[1]
        if node.type == "html_block" and (end := left_open(node.content)) and last_ends.get(end, -1) >= behind:
            skipped = 1 + next(number for number in itertools.count(behind) if end in sources[number])


def _parts(node: SyntaxTreeNode, lines: tuple[int, int]) -> Iterator[Line]:
    """Yield the parts of a block that become passages or headings."""
    first, _ = lines
    match node.type:
        case "html_block":
            said = html_lines(node.content)
            yield from _packed((words, (first + start, first + end), level) for words, (start, end), level in said)
        case "table":
            head, *body = [_words(row.to_tokens()) for part in node.children for row in part.children]
            rows = [(words, (line, line + 1), 0) for line, words in enumerate(body, first + 2)]
            header = [head] if 0 < len(head) <= _MOST_CHARS // 4 else []
            yield from _packed([(head, (first, first + 2), 0), *rows], header)
        case "heading":
            yield _words(node.to_tokens()), lines, int(node.tag[1:])
        case _:
            yield _words(node.to_tokens()), lines, 0


def _packed(rows: Iterable[Line], header: Sequence[str] = ()) -> Iterator[Line]:
    """Join neighbouring rows with words as long as they fit into a passage; each one begins with the header."""
    said, first, last = list[str](), 0, 0
    for words, (start, end), level in (row for row in rows if row[0]):
        if len(said) > len(header) and (level or len("\n".join((*said, words))) > _MOST_CHARS):
            yield "\n".join(said), (first, last), 0
            said = []
        if level:
            yield words, (start, end), level
            continue
        if not said:
            said, first = [*header] if last else [], start
        said.append(words)
        last = end
    if said:
        yield "\n".join(said), (first, last), 0


def _words(block: Sequence[Token]) -> str:
    """Return the words of a block without the marks of Markdown; rows of a table stand on lines of their own."""
    lines: list[list[str]] = [[]]
    for token in block:
        if token.type in ("tr_open", "list_item_open", "paragraph_open"):
            lines.append([])
        if token.type in ("fence", "code_block"):
            lines.append([token.content.rstrip()])
        elif token.type == "html_block":
            lines += [[words] for words, _, _ in html_lines(token.content)]
        elif token.type == "inline":
            lines[-1].append("".join(map(_shown, token.children or [])).strip())
    return "\n".join(" | ".join(filter(None, line)) for line in lines if any(line))


def _shown(token: Token) -> str:
    match token.type:
        case "softbreak" | "hardbreak":
            return " "
        case "html_inline":
            return " " if breaks_line(token.content) else ""
        case _:
            return token.content


def _front_matter(text: str) -> int:
    """Return the number of lines of a front matter: what stands between two lines of three dashes at the beginning."""
    lines = text.split("\n")
    if lines[0].strip() != "---":
        return 0
    return next((number + 1 for number, line in enumerate(lines[1:], 1) if line.strip() in ("---", "...")), 0)
