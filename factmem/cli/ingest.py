"""The commands that take in files.

`ingest` takes conversations, kept word for word or read by a language model, and documents; `import` takes exports of
factmem and the files of other systems.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import os
import sys
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated, Final, TypedDict

import attrs
import typer
from anyio import to_thread

from factmem.abc import DetectionRequest
from factmem.abc.capabilities import KeepsLog
from factmem.abc.detector import Conversation, DropReason
from factmem.abc.provider import AgentMemoryProvider
from factmem.abc.topics import MANAGED_TOPICS, Topic
from factmem.browse.texts import counted, shown
from factmem.cli.options import from_day, key_in, schema_named
from factmem.cli.progress import Tally, Watch, progress, tallied
from factmem.cli.session import FAILED, STDIN, Session, report
from factmem.errors import FactMemError, InvalidDataError, RecordNotFoundError
from factmem.importers.systems import SYSTEMS, Reading, read_system
from factmem.json_form import attributes
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.importers.documents import DocumentReport
    from factmem.importers.moving import ImportReport
    from factmem.llm import CostReport
    from factmem.memory.background import Submission
    from factmem.memory.facade import Memory


@attrs.frozen(kw_only=True)
class ReadingOptions:
    """The options of reading conversations with a language model.

    Attributes:
        concepts: Concepts to look for: a JSON Schema in a file, or an attrs class or pydantic model.
        topics: Topic to look for; `managed` stands for the usual topics.
        open: Look for other facts as well, or for the named concepts and topics only.
        keep_words: Keep the user's words beside the facts found in them.
        consolidate: Compare new facts with known ones.
        again: Read conversations again that are already in the store.
        budget: Stop after about this many model tokens; unread text waits for `factmem resume`.
    """

    concepts: Annotated[str | None, typer.Option(metavar="FILE|MODULE:CLASS")] = None
    topics: Annotated[list[str] | None, typer.Option("--topics", "--topic", metavar="LABEL[=DESCRIPTION]")] = None
    open: Annotated[bool | None, typer.Option("--open/--targeted")] = None
    keep_words: Annotated[bool, typer.Option("--keep-words/--no-keep-words")] = True
    consolidate: Annotated[bool, typer.Option("--consolidate/--no-consolidate")] = True
    again: bool = False
    budget: int | None = None

    def request(self, subject: MemorySubject) -> DetectionRequest | None:
        """Return the request; None for the default request of the memory.

        Raises:
            InvalidDataError: The concepts cannot be read, or two have the same name.
            typer.BadParameter: The label of a topic is not legal, or there is nothing to look for.
        """
        named = bool(self.concepts or self.topics)
        if not named and self.open is None:
            return None
        if not named and not self.open:
            raise typer.BadParameter("--targeted looks for nothing: name --concepts or --topics")
        return DetectionRequest(
            subjects=(subject,),
            concepts=schema_named(self.concepts).concepts if self.concepts else (),
            topics=_topics_from(self.topics or ()),
            open=self.open if self.open is not None else not named,
        )


def _topics_from(texts: Sequence[str]) -> tuple[Topic, ...]:
    """Parse topics; a managed topic needs its label only.

    Raises:
        typer.BadParameter: A label is not legal.
    """
    managed = {topic.label: topic for topic in MANAGED_TOPICS}
    found: dict[str, Topic] = {}
    for text in texts:
        label, _, description = (part.strip() for part in text.partition("="))
        if text == "managed":
            found |= managed
        elif label in managed and not description:
            found[label] = managed[label]
        else:
            try:
                found[label] = Topic(label, description)
            except FactMemError as error:
                raise typer.BadParameter(str(error)) from None
    return tuple(found.values())


@attrs.frozen(kw_only=True)
class Ingestion:
    """Numbers on conversations that were kept word for word.

    Attributes:
        conversations: Conversations.
        statements: Statements in them.
        new: Statements that were not in the store before.
        quarantined: Statements that wait in quarantine.
        redacted: Redacted secrets, by kind.
        not_text: Images, audio and files in the messages, which are not kept.
    """

    conversations: int = 0
    statements: int = 0
    new: int = 0
    quarantined: int = 0
    redacted: Counter[str] = attrs.field(factory=Counter)
    not_text: int = 0

    def __add__(self, other: Ingestion) -> Ingestion:
        mine = attrs.asdict(self, recurse=False)
        return Ingestion(**{name: count + getattr(other, name) for name, count in mine.items()})

    def __str__(self) -> str:
        media = f", {counted(self.not_text, 'part')} dropped: {DropReason.NOT_TEXT.value}" if self.not_text else ""
        return (
            f"{counted(self.conversations, 'conversation')}, {counted(self.statements, 'statement')}, "
            f"{self.new:,} new, {self.quarantined:,} quarantined, {_listed(self.redacted)}{media}"
        )


class About(TypedDict):
    """Arguments of `Memory.remember` that are the same for all conversations."""

    subject: MemorySubject
    scope: MemoryScope | str
    source: str | None
    private: bool | None


async def keep_conversation(
    session: Session, memory: Memory, provider: AgentMemoryProvider, conversation: Conversation, about: About
) -> Ingestion:
    """Keep one conversation word for word, all of it or nothing."""
    before = await provider.version(session.organization) if isinstance(provider, KeepsLog) else 0
    records = await memory.remember(conversation, **about)
    return Ingestion(
        conversations=1,
        statements=len(records),
        new=sum(record.revision > before for record in records),
        quarantined=len(records.waiting),
        redacted=_secrets_in(conversation),
        not_text=conversation.not_text,
    )


def _secrets_in(conversation: Conversation) -> Counter[str]:
    """Return the number of secrets in the words of a conversation, by kind."""
    from factmem.detection.redaction import redact

    heard = (message for message in conversation.messages if message.detectable)
    return Counter(finding.kind for message in heard for finding in redact(message.content, message.origin).findings)


def _listed(redacted: Counter[str]) -> str:
    secrets = ", ".join(f"{count} {kind}" for kind, count in sorted(redacted.items()))
    return f"secrets redacted: {secrets or 'none'}"


@attrs.frozen(kw_only=True)
class _Outcome:
    """Result of an ingestion.

    Attributes:
        data: The numbers as JSON.
        render: Prints them for people.
        errors: The errors, each with the file that it is about.
        quarantined: Number of records that wait in quarantine, unless they are printed with the next step.
    """

    data: dict[str, Json]
    render: Callable[[Console], None]
    errors: list[tuple[FactMemError, Path | None]]
    quarantined: int = 0


AboutIn = Callable[["Memory"], Awaitable[About]]
"""Returns the arguments of `Memory.remember` for all conversations in a memory."""


@attrs.define
class _Submitted:
    """The submissions of one file.

    Attributes:
        submissions: One for each conversation.
        again: Those of conversations that are read again.
        known: Number of conversations that were submitted before.
        redacted: Redacted secrets, by kind.
    """

    submissions: list[Submission] = attrs.field(factory=list)
    again: list[Submission] = attrs.field(factory=list)
    known: int = 0
    redacted: Counter[str] = attrs.field(factory=Counter)

    def __add__(self, other: _Submitted) -> _Submitted:
        return _Submitted(*(getattr(self, name) + getattr(other, name) for name in attrs.asdict(self, recurse=False)))

    def to_json(self) -> dict[str, Json]:
        return {
            "conversations": len(self.submissions),
            "known": self.known,
            "read_again": len(self.again),
            **self.tally.to_json(),
            "redacted": dict(self.redacted),
        }

    def __str__(self) -> str:
        return f"{counted(len(self.submissions), 'conversation')}, {self.tally}, {_listed(self.redacted)}"

    @property
    def tally(self) -> Tally:
        return tallied([*self.again, *self.submissions])


async def _stored_id(conversation: Conversation) -> str | None:
    """Return the id of a conversation in the store; None if it holds nothing to keep."""
    from factmem.detection import utterances

    said = await to_thread.run_sync(utterances, conversation, dt.datetime.now(dt.UTC))
    return said[0].conversation_id if said else None


async def ingest(
    session: Session,
    files: Annotated[list[Path], typer.Argument(metavar="FILE|FOLDER")],
    scope: str | None = None,
    subject: MemorySubject | None = None,
    source: str | None = None,
    private: bool = False,
    reading: ReadingOptions = ReadingOptions(),
    trust: bool = False,
) -> None:
    """Ingest conversations or documents, with secrets redacted; ingesting a file again changes nothing.

    Without a language model, every statement is kept with its speaker and date. With --model, facts are detected,
    each with its evidence; the words are on disk before the model is asked. A document (Markdown or text) is kept
    passage by passage, with file, heading and line, and no model reads it. What it says waits in quarantine without
    --trust. Passages that a later version of the file does not hold are retracted. Of a folder, conversations and
    documents at any depth are ingested; hidden files and links are left out.

    Options:
        files: Conversations as JSON or JSON Lines (- reads stdin), documents (.md, .txt), or folders of both.
        trust: Believe the documents (default: their passages wait in quarantine).
    """
    from factmem.importers.documents import is_document

    if reading != ReadingOptions():
        session.check_model("detecting facts")
    owned = session.private(private)

    async def about(memory: Memory) -> About:
        place = scope or MemoryScope.CROSS_PRODUCT
        return About(subject=await session.subject_in(memory, subject), scope=place, source=source, private=owned)

    found = await to_thread.run_sync(_files_in, files)
    documents = [file for file in found if is_document(file)]
    conversations = [file for file in found if not is_document(file)]
    if trust and not documents:
        raise typer.BadParameter("--trust is for documents (.md, .txt): leave it out for conversations")
    outcomes: list[_Outcome] = []
    if conversations and session.model is None:
        outcomes.append(await _keep_conversations(session, conversations, about))
    elif conversations:
        outcomes.append(await _read_with_model(session, conversations, about, reading))
    if documents:
        outcomes.append(await _keep_documents(session, documents, about, trust=trust))
    _show(session, outcomes)


_CONVERSATIONS: Final = (".json", ".jsonl", ".ndjson", ".json.gz", ".jsonl.gz")
"""Suffixes of the files of a folder that are read as conversations."""


def _files_in(paths: Sequence[Path]) -> list[Path]:
    """Return files as they are, and in place of a folder its conversations and documents at any depth, sorted.

    Hidden files and folders and links in a folder are left out.

    Raises:
        InvalidDataError: A folder holds neither.
    """
    from factmem.importers.documents import is_document

    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        below: list[Path] = []
        for folder, folders, names in os.walk(path):
            folders[:] = [name for name in folders if not name.startswith(".")]
            below += [Path(folder, name) for name in names if not name.startswith(".")]
        wanted = [
            file
            for file in sorted(below)
            if (is_document(file) or file.name.lower().endswith(_CONVERSATIONS)) and not file.is_symlink()
        ]
        if not wanted:
            raise InvalidDataError(
                f"{path} holds neither conversations (.json, .jsonl) nor documents (.md, .txt): name a file"
            )
        found += wanted
    return list(dict.fromkeys(found))


def _show(session: Session, outcomes: Sequence[_Outcome]) -> None:
    """Show what was ingested.

    Raises:
        typer.Exit: Part of it failed; the errors were printed.
    """

    def render(out: Console) -> None:
        for outcome in outcomes:
            outcome.render(out)

    session.show({name: item for outcome in outcomes for name, item in outcome.data.items()}, render)
    session.note_quarantined(sum(outcome.quarantined for outcome in outcomes))
    errors = [error for outcome in outcomes for error in outcome.errors]
    for error, file in errors:
        report(error, as_json=session.as_json, file=file)
    if errors:
        raise typer.Exit(FAILED)


async def _keep_documents(session: Session, files: Sequence[Path], about: AboutIn, *, trust: bool) -> _Outcome:
    """Keep the passages of documents."""
    from factmem.importers.contract import ImportOptions
    from factmem.importers.documents import ingest_document

    reports: list[DocumentReport] = []
    errors: list[tuple[FactMemError, Path | None]] = []
    async with session.memory(read_only=False) as memory:
        given = await about(memory)
        options = ImportOptions(
            subject=given["subject"],
            scope=MemoryScope.parse(str(given["scope"])),
            source=given["source"],
            private=given["private"] or session.user is not None,
            owner=session.reader,
        )
        for file in files:
            try:
                reports.append(await ingest_document(memory, file, options=options, trust=trust))
            except FactMemError as error:
                errors.append((error, file))
    data: dict[str, Json] = {
        "store": session.shown_address,
        "documents": [attributes(report) for report in reports],
        "failed": [str(file) for _, file in errors],
    }
    return _Outcome(
        data=data, render=lambda out: _print_documents(out, session, reports, source=given["source"]), errors=errors
    )


def _print_documents(out: Console, session: Session, reports: Sequence[DocumentReport], *, source: str | None) -> None:
    for read in reports:
        more = {
            "accepted": read.accepted,
            "no longer in the file, retracted": read.gone,
            "secrets redacted": read.redacted,
        }
        listed = "".join(f", {count} {what}" for what, count in more.items() if count)
        passages = f"{counted(read.passages, 'passage')}, {read.new} new, {read.quarantined} waiting in quarantine"
        out.print(f"{shown(read.document)}: {passages}{listed}")
    if any(read.quarantined for read in reports):
        hint = session.command_line("quarantine", "list")
        out.print(f"read them with  {hint}, or accept them all: the same command with --trust", style="dim")
    elif reports:
        question = session.command_line("recall", "QUESTION", "--source", source or reports[0].document)
        out.print(f"ask it with  {question}", style="dim")


async def _keep_conversations(session: Session, files: Sequence[Path], about: AboutIn) -> _Outcome:
    """Keep conversations word for word."""
    results = {file: Ingestion() for file in files}
    async with session.provider() as provider, session.memory(provider=provider, read_only=False) as memory:
        given = await about(memory)

        async def keep(file: Path, conversation: Conversation) -> None:
            results[file] += await keep_conversation(session, memory, provider, conversation, given)

        errors = await _for_each_conversation(session, files, keep)
    total, failed = sum(results.values(), Ingestion()), {file for _, file in errors}
    listed: list[Json] = [
        {"file": str(file), **attributes(result), "failed": file in failed} for file, result in results.items()
    ]

    def render(out: Console) -> None:
        _print_files(out, results, total)
        if total.conversations:
            out.print(f"kept in {session.shown_address}", style="dim")

    data: dict[str, Json] = {"store": session.shown_address, **attributes(total), "files": listed}
    return _Outcome(data=data, render=render, errors=errors, quarantined=total.quarantined)


def _print_files(out: Console, results: Mapping[Path, object], total: object) -> None:
    """Print the numbers of each file, if there are several, and of all."""
    if len(results) > 1:
        for file, result in results.items():
            out.print(f"{file}: {result}")
    out.print(str(total))


async def _read_with_model(
    session: Session, files: Sequence[Path], about: AboutIn, reading: ReadingOptions
) -> _Outcome:
    """Submit conversations to the language model, and wait until facts are detected in them.

    Every conversation is in the store, in a transaction of its own, before the wait begins.
    """
    from factmem.llm import CostReport

    watch, costs = Watch(session), CostReport()
    results = {file: _Submitted() for file in files}
    async with session.memory(
        read_only=False,
        asking=True,
        keep_words=reading.keep_words,
        on_event=watch.hear,
        observers=[costs],
        budget=reading.budget,
    ) as memory:
        given = await about(memory)
        request = reading.request(given["subject"])

        async def submit(file: Path, conversation: Conversation) -> None:
            submitted = results[file]
            if (
                reading.again
                and (again := await _read_again(memory, conversation, given, request, reading)) is not None
            ):
                watch.expect(again)
                submitted.again.append(again)
            submission = await memory.remember_many(
                [conversation], **given, looking_for=request, consolidate=reading.consolidate
            )
            watch.expect(submission)
            submitted.submissions.append(submission)
            # A conversation with words that has nothing pending was submitted before.
            submitted.known += not submission.pending and await _stored_id(conversation) is not None
            submitted.redacted += _secrets_in(conversation)

        with watch.noting_interruption():
            earlier = await memory.inbox.resume()
            watch.expect(earlier)
            errors = await _for_each_conversation(session, files, submit)
            await watch.wait()
    total, failed = sum(results.values(), _Submitted()), {file for _, file in errors}
    data: dict[str, Json] = {
        "store": session.shown_address,
        "model": session.model,
        **total.to_json(),
        "resumed": len(earlier.ids),
        "unread": watch.pending,
        "cost": {
            **costs.total.to_json(),
            "by_operation": {name.value: cost.to_json() for name, cost in costs.by_operation.items()},
        },
        "files": [
            {"file": str(file), **submitted.to_json(), "failed": file in failed} for file, submitted in results.items()
        ],
    }
    tally = tallied([earlier, *total.again, *total.submissions])
    if (unread := watch.failure(tally, "conversation")) is not None:
        errors.append((unread, None))

    def render(out: Console) -> None:
        _print_files(out, results, total)
        _print_understood(out, watch, total, earlier, costs)

    return _Outcome(data=data, render=render, errors=errors, quarantined=tally.quarantined)


def _print_understood(out: Console, watch: Watch, total: _Submitted, earlier: Submission, costs: CostReport) -> None:
    for line in total.tally.lines:
        out.print(line)
    if total.again:
        out.print(f"{counted(len(total.again), 'conversation')} known already, and read again")
    elif total.known:
        out.print(
            f"{counted(total.known, 'conversation')} known already, and not shown to the model again; "
            "to read it again, give the same command with --again"
        )
    if earlier.ids:
        out.print(f"an earlier run had left {counted(len(earlier.ids), 'submission')} unread: {tallied([earlier])}")
    for operation, cost in costs.by_operation.items():
        out.print(f"{operation.value}: {cost}", style="dim")
    if watch.pending:
        out.print(
            f"the budget is spent: {counted(watch.pending, 'conversation')} not read yet, but kept; "
            f"continue with  {watch.session.command_line('resume')}"
        )
    if total.submissions:
        out.print(f"kept in {watch.session.shown_address}", style="dim")


async def _read_again(
    memory: Memory,
    conversation: Conversation,
    about: About,
    looking_for: DetectionRequest | None,
    reading: ReadingOptions,
) -> Submission | None:
    """Submit the stored words of a conversation again, if there are any at this place."""
    from factmem.memory.submitted import StoredSession

    if (id := await _stored_id(conversation)) is None:
        return None
    # Without options, look for the same as `remember_many` does by default.
    if looking_for is None and memory.inbox.reads_words:
        looking_for = DetectionRequest(subjects=(about["subject"],), open=True)
    with contextlib.suppress(RecordNotFoundError):
        return await memory.generate(
            StoredSession(id=id),
            subject=about["subject"],
            scope=about["scope"],
            looking_for=looking_for,
            consolidate=reading.consolidate,
            private=about["private"],
        )
    return None


async def _for_each_conversation(
    session: Session, files: Sequence[Path], take: Callable[[Path, Conversation], Awaitable[None]]
) -> list[tuple[FactMemError, Path | None]]:
    """Call a function with each conversation of some files, and return the errors, each with its file."""
    errors: list[tuple[FactMemError, Path | None]] = []
    for file in files:
        try:
            async for conversation in _conversations(session, file):
                await take(file, conversation)
        except FactMemError as error:
            errors.append((error, file))
    return errors


async def _conversations(session: Session, file: Path) -> AsyncIterator[Conversation]:
    """Yield the conversations of a file, parsed in a worker thread, with a progress bar."""
    from factmem.conversations import conversations_in, read_conversations

    if file == STDIN:
        for piped in conversations_in(io.BytesIO(await to_thread.run_sync(sys.stdin.buffer.read))):
            yield piped
        return
    with progress(file.name, quiet=session.as_json) as advance:
        found = await to_thread.run_sync(read_conversations, file)
        conversations = iter(found)
        while (conversation := await to_thread.run_sync(next, conversations, None)) is not None:
            yield conversation
            advance(found.bytes_read / max(found.size, 1))


_OWN = "factmem"
_OWNERS_SHOWN = 5


def _column(text: str) -> tuple[str, str]:
    field, sign, column = text.partition("=")
    if not sign or not field.strip() or not column:
        raise typer.BadParameter(f"{text!r} is not a column such as value=text")
    return field.strip(), column


@attrs.frozen(kw_only=True)
class MovingOptions:
    """The options of an import from another system.

    Attributes:
        subject: Subject of rows without a subject.
        scope: Scope of rows without a scope.
        source: Name of the source, to filter by.
        private: Visible only to the user whom a fact is about, or else to the viewer.
        column: Column of a csv or jsonl file, such as value=text.
        namespace: Meaning of langgraph's namespaces, such as memories,{user}.
        key_env: Environment variable with the key of koog's files.
        with_deleted: Keep memories that mem0 deleted as retracted history.
        date: Date of undated rows (default: the file's last change).
        dry_run: Read everything, and write nothing.
    """

    subject: MemorySubject | None = None
    scope: str | None = None
    source: str | None = None
    private: bool = False
    column: Annotated[list[str] | None, typer.Option(metavar="FIELD=COLUMN")] = None
    namespace: Annotated[str | None, typer.Option(metavar="TEMPLATE")] = None
    key_env: str | None = None
    with_deleted: bool = False
    date: Annotated[dt.datetime | None, typer.Option(parser=from_day, metavar="DATE")] = None
    dry_run: bool = False

    def opened(self, system: str, path: Path, subject: MemorySubject, session: Session) -> Reading:
        """Open the source with these options.

        Raises:
            FactMemError: See `read_system`.
        """
        from factmem.importers import ImportOptions

        scope = MemoryScope.CROSS_PRODUCT if self.scope is None else MemoryScope.parse(self.scope)
        options = ImportOptions(
            subject=subject,
            scope=scope,
            source=self.source,
            private=self.private or session.user is not None,
            owner=session.reader,
            columns=dict(_column(text) for text in self.column or ()),
            namespace=self.namespace,
            key=key_in(self.key_env),
            with_deleted=self.with_deleted,
            dated=self.date,
        )
        return read_system(system, path, options)


async def import_(
    session: Session,
    path: Path,
    system: Annotated[
        str,
        typer.Option(
            "--from",
            metavar="SYSTEM",
            help=f"System that wrote the file: {', '.join((_OWN, *SYSTEMS))}.",
            autocompletion=lambda incomplete: [name for name in (_OWN, *SYSTEMS) if name.startswith(incomplete)],
        ),
    ] = _OWN,
    trust: bool = False,
    moving: MovingOptions = MovingOptions(),
) -> None:
    """Import a file that `export` wrote, or move in from another system; a repeated import adds nothing.

    Without --trust, everything in a file of `export` is quarantined, and in files of other systems all words without a
    known speaker. Conversations are ingested, with --model by a language model.

    Options:
        path: File or folder; - reads stdin (own format only).
        trust: Trust the file, such as your own backup (default: quarantine words without a known speaker).
    """
    if system == _OWN:
        await _import_own(session, path, moving, trust=trust)
    elif path == STDIN:
        raise InvalidDataError("only factmem's own format can be read from stdin: name a file")
    else:
        await _move_in(session, system, path, moving, trust=trust)


async def _import_own(session: Session, file: Path, moving: MovingOptions, *, trust: bool) -> None:
    if moving != MovingOptions():
        raise InvalidDataError("these options are for other systems: name one with --from, or leave them out")
    source: Path | IO[str] = sys.stdin if file == STDIN else file
    async with session.memory(read_only=False) as memory:
        receipt = await memory.admin.import_(source, trust=trust)
    new = counted(receipt.imported, "new assertion")
    private = f" and {receipt.private:,} private to others" if receipt.private else ""
    text = f"{new}{private} in {session.shown_address}, {receipt.quarantined:,} waiting in quarantine"
    if receipt.accepted:
        text += f", {receipt.accepted} accepted"
    session.show_line({**attrs.asdict(receipt), "file": str(file)}, text)
    session.note_quarantined(receipt.quarantined)


async def _move_in(session: Session, system: str, path: Path, moving: MovingOptions, *, trust: bool) -> None:
    from factmem.importers import move_in
    from factmem.importers.moving import preview

    with progress(path.name, quiet=session.as_json) as advance:
        if moving.dry_run:
            async with contextlib.AsyncExitStack() as store:
                memory = None if await session.missing_store() else await store.enter_async_context(session.memory())
                subject = moving.subject or MemorySubject.EVERYTHING
                subject = subject if memory is None else await session.subject_in(memory, moving.subject)
                report = await preview(moving.opened(system, path, subject, session), memory, progress=advance)
        else:
            asking = SYSTEMS[system].words if system in SYSTEMS else False
            async with session.memory(read_only=False, asking=asking) as memory:
                subject = await session.subject_in(memory, moving.subject)
                reading = moving.opened(system, path, subject, session)
                report = await move_in(memory, reading, trust=trust, progress=advance)
    data: dict[str, Json] = {
        "store": session.shown_address,
        "system": system,
        "path": str(path),
        "dry_run": moving.dry_run,
    }
    session.show(
        data | report.to_json(), lambda out: _print_moved(out, session, system, report, dry_run=moving.dry_run)
    )
    session.note_quarantined(report.quarantined, report.owners[:_OWNERS_SHOWN])
    if report.errors:
        raise typer.Exit(FAILED)


def _print_moved(out: Console, session: Session, system: str, report: ImportReport, *, dry_run: bool) -> None:
    if dry_run:
        found = [(report.imported, "assertion"), (report.conversations, "conversation")]
        listed = " and ".join(counted(*one) for one in found if one[0]) or "nothing"
        out.print(f"{system}: {listed} to import; nothing was written")
    else:
        talks = f"{counted(report.conversations, 'conversation')}, " if report.conversations else ""
        accepted = f", {report.accepted} accepted" if report.accepted else ""
        changes = [(report.updated, "updated"), (report.retracted, "retracted")]
        changed = "".join(f", {counted(number, 'record')} {done}" for number, done in changes if number)
        out.print(
            f"{talks}{counted(report.imported, 'new assertion')} in {session.shown_address}, "
            f"{report.known} known before, {report.quarantined} waiting in quarantine{accepted}{changed}"
        )
    for label, counts in (("skipped", report.skipped), ("lost", report.lost)):
        for what, count in counts.items():
            out.print(f"{label}: {counted(count, 'row')}: {shown(what)}")
    for line in _problems(report):
        out.print(line, style="red")


def _problems(report: ImportReport) -> Iterator[str]:
    for problem in report.problems:
        message = str(problem.error)
        yield shown(f"error: {message}" if problem.where in message else f"error: {problem.where}: {message}")
    if report.errors > len(report.problems):
        yield f"and {report.errors - len(report.problems)} more errors"
