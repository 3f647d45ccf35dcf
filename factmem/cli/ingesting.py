"""The command that takes in conversations: ``ingest``."""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
import typer
from anyio import to_thread

from factmem.abc import AgentMemoryProvider, Conversation, DropReason, FeedsChanges
from factmem.cli.arguments import PrivateOption, ScopeOption, SubjectOption
from factmem.cli.command import FAILED, STDIN, command, report
from factmem.cli.searching import ConceptsOption, OpenOption, TopicsOption, Wish
from factmem.cli.session import Session, known_subject
from factmem.cli.tally import counted
from factmem.cli.understanding import Understanding
from factmem.cli.watching import Watch, progress
from factmem.errors import FactMemError
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory import Memory

__all__ = ["Ingestion", "Taking", "add_to"]


def add_to(app: typer.Typer) -> None:
    """Add this command to the app."""
    command(app, "ingest")(ingest)


@attrs.frozen(kw_only=True)
class Ingestion:
    """What became of some conversations.

    Attributes:
        conversations: how many were taken in.
        statements: how many statements they hold.
        new: how many of those were not there before.
        quarantined: how many of them are kept apart, for nobody vouches for them.
        redacted: how many secrets were taken out, by kind.
        not_text: Number of images, audio and files in the messages, which are not kept.
    """

    conversations: int = 0
    statements: int = 0
    new: int = 0
    quarantined: int = 0
    redacted: Counter[str] = attrs.field(factory=Counter)
    not_text: int = 0

    def __add__(self, other: Ingestion) -> Ingestion:
        return Ingestion(
            conversations=self.conversations + other.conversations,
            statements=self.statements + other.statements,
            new=self.new + other.new,
            quarantined=self.quarantined + other.quarantined,
            redacted=self.redacted + other.redacted,
            not_text=self.not_text + other.not_text,
        )

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {
            "conversations": self.conversations,
            "statements": self.statements,
            "new": self.new,
            "quarantined": self.quarantined,
            "redacted": dict(self.redacted),
            "not_text": self.not_text,
        }

    def __str__(self) -> str:
        secrets = ", ".join(f"{count} {kind}" for kind, count in sorted(self.redacted.items()))
        media = f", {counted(self.not_text, 'part')} dropped: {DropReason.NOT_TEXT.value}" if self.not_text else ""
        return (
            f"{counted(self.conversations, 'conversation')}, {counted(self.statements, 'statement')}, "
            f"{self.new} new, {self.quarantined} quarantined, secrets redacted: {secrets or 'none'}{media}"
        )


@attrs.frozen(kw_only=True)
class Taking:
    """Takes conversations in, one transaction each.

    Attributes:
        memory: takes them.
        provider: its store, which tells what is new.
        subject: whom they are about.
        scope: where they hold.
        source: where they come from.
        private: whether they are the viewer's alone.
    """

    memory: Memory
    provider: AgentMemoryProvider
    subject: MemorySubject = MemorySubject.EVERYTHING
    scope: MemoryScope | str = MemoryScope.CROSS_PRODUCT
    source: str | None = None
    private: bool = False

    async def take(self, conversation: Conversation) -> Ingestion:
        """Take one conversation in, all of it or nothing."""
        from factmem.detection import redact

        before = await self.provider.version() if isinstance(self.provider, FeedsChanges) else 0
        records = await self.memory.remember(
            conversation, subject=self.subject, scope=self.scope, source=self.source, private=self.private
        )
        heard = (message for message in conversation.messages if message.detectable)
        return Ingestion(
            conversations=1,
            statements=len(records),
            new=sum(record.revision > before for record in records),
            quarantined=sum(not record.details.origin.trusted for record in records),
            redacted=Counter(finding.kind for message in heard for finding in redact(message.content).findings),
            not_text=conversation.not_text,
        )


async def ingest(
    session: Session,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Conversations: JSON or JSON Lines; - is stdin.")],
    scope: ScopeOption = None,
    subject: SubjectOption = None,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="Where they come from, to filter by.")] = None,
    private: PrivateOption = False,
    concepts: ConceptsOption = None,
    topics: TopicsOption = None,
    open: OpenOption = None,
    keep_words: Annotated[
        bool,
        typer.Option("--keep-words/--no-keep-words", help="Keep the user's words beside the facts found in them."),
    ] = True,
    consolidate: Annotated[
        bool, typer.Option("--consolidate/--no-consolidate", help="Compare what the model finds with what is known.")
    ] = True,
    again: Annotated[
        bool, typer.Option("--again", help="Have the model read words again that are in the store already.")
    ] = False,
) -> None:
    """Take in conversations, secrets redacted. Twice is as good as once.

    Without a language model, every statement is kept with its speaker and date. With one (--model), facts
    are found in them, each with its evidence; all of it is on disk before the model is asked.
    """
    from factmem.providers import open_provider

    session.check_private(private)
    wish = Wish(concepts=concepts, topics=tuple(topics or ()), open=open)
    if wish.said or not keep_words or again or not consolidate:
        session.check_model("looking for facts")
    given = _Given(subject=subject, scope=scope, source=source, private=private)
    async with open_provider(session.address) as provider:
        if session.model is None:
            await _keep(session, provider, files, given)
        else:
            await _understand(
                session, provider, files, given, wish, keep_words=keep_words, consolidate=consolidate, again=again
            )


@attrs.frozen(kw_only=True)
class _Given:
    """What is said about all conversations."""

    subject: MemorySubject | None
    scope: str | None
    source: str | None
    private: bool


async def _keep(session: Session, provider: AgentMemoryProvider, files: list[Path], given: _Given) -> None:
    """Keep conversations word for word."""
    results: dict[Path, Ingestion] = {}
    failures: dict[Path, FactMemError] = {}
    async with session.memory(provider=provider, read_only=False) as memory:
        taking = Taking(
            memory=memory,
            provider=provider,
            subject=await known_subject(memory, given.subject),
            scope=given.scope or MemoryScope.CROSS_PRODUCT,
            source=given.source,
            private=given.private,
        )
        for file in files:
            results[file] = Ingestion()
            try:
                async for conversation in _conversations(session, file):
                    results[file] += await taking.take(conversation)
            except FactMemError as error:
                failures[file] = error
    _show(session, results, failures)


async def _understand(
    session: Session,
    provider: AgentMemoryProvider,
    files: list[Path],
    given: _Given,
    wish: Wish,
    *,
    keep_words: bool,
    consolidate: bool,
    again: bool,
) -> None:
    """Have a language model find the facts in conversations."""
    watch = Watch(session)
    async with session.memory(
        provider=provider, read_only=False, asking=True, keep_words=keep_words, on_event=watch.hear
    ) as memory:
        subject = await known_subject(memory, given.subject)
        understanding = Understanding(
            memory=memory,
            watch=watch,
            subject=subject,
            scope=given.scope or MemoryScope.CROSS_PRODUCT,
            source=given.source,
            private=given.private,
            looking_for=wish.request(subject),
            consolidate=consolidate,
            again=again,
        )
        await understanding.take(files, lambda file: _conversations(session, file))


async def _conversations(session: Session, file: Path) -> AsyncIterator[Conversation]:
    """Read a file's conversations one after the other, off the event loop; show which share of it was taken in."""
    from factmem.detection import conversations_in, read_conversations

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


def _show(session: Session, results: dict[Path, Ingestion], failures: dict[Path, FactMemError]) -> None:
    total = sum(results.values(), Ingestion())
    listed: list[Json] = [
        {"file": str(file), **result.to_json(), "failed": file in failures} for file, result in results.items()
    ]

    def render(out: Console) -> None:
        if len(results) > 1:
            for file, result in results.items():
                out.print(f"{file}: {result}")
        out.print(str(total))
        if total.conversations:
            out.print(f"kept in {session.address}", style="dim")

    session.show({"store": session.address, **total.to_json(), "files": listed}, render)
    for file, error in failures.items():
        report(error, as_json=session.as_json, file=file)
    if failures:
        raise typer.Exit(FAILED)
