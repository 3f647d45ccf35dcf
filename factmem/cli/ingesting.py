"""The command that takes in conversations: ``ingest``."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import attrs
import typer
from anyio import to_thread

from factmem.abc import AgentMemoryProvider, Conversation, FeedsChanges
from factmem.cli.arguments import PrivateOption, ScopeOption, SubjectOption
from factmem.cli.command import FAILED, command, report
from factmem.cli.session import Session, known_subject
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
    """

    conversations: int = 0
    statements: int = 0
    new: int = 0
    quarantined: int = 0
    redacted: Counter[str] = attrs.field(factory=Counter)

    def __add__(self, other: Ingestion) -> Ingestion:
        return Ingestion(
            conversations=self.conversations + other.conversations,
            statements=self.statements + other.statements,
            new=self.new + other.new,
            quarantined=self.quarantined + other.quarantined,
            redacted=self.redacted + other.redacted,
        )

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {
            "conversations": self.conversations,
            "statements": self.statements,
            "new": self.new,
            "quarantined": self.quarantined,
            "redacted": dict(self.redacted),
        }

    def __str__(self) -> str:
        secrets = ", ".join(f"{count} {kind}" for kind, count in sorted(self.redacted.items()))
        return (
            f"{_counted(self.conversations, 'conversation')}, {_counted(self.statements, 'statement')}, "
            f"{self.new} new, {self.quarantined} quarantined, secrets redacted: {secrets or 'none'}"
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
        )


async def ingest(
    session: Session,
    files: Annotated[list[Path], typer.Argument(metavar="FILE", help="Conversations: JSON or JSON Lines.")],
    scope: ScopeOption = None,
    subject: SubjectOption = None,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="Where they come from, to filter by.")] = None,
    private: PrivateOption = False,
) -> None:
    """Take in conversations: every statement with its speaker and date, secrets redacted. Twice is as good as once."""
    from factmem.providers import open_provider

    session.check_private(private)
    results: dict[Path, Ingestion] = {}
    failures: dict[Path, FactMemError] = {}
    async with open_provider(session.address) as provider, session.memory(provider=provider, read_only=False) as memory:
        taking = Taking(
            memory=memory,
            provider=provider,
            subject=await known_subject(memory, subject),
            scope=scope or MemoryScope.CROSS_PRODUCT,
            source=source,
            private=private,
        )
        for file in files:
            results[file] = Ingestion()
            try:
                with _progress(file, quiet=session.as_json) as advance:
                    async for conversation in _conversations(file, advance):
                        results[file] += await taking.take(conversation)
            except FactMemError as error:
                failures[file] = error
    _show(session, results, failures)


async def _conversations(file: Path, advance: Callable[[float], None]) -> AsyncIterator[Conversation]:
    """Read a file's conversations one after the other, off the event loop; tell which share of it was taken in."""
    from factmem.detection import read_conversations

    found = await to_thread.run_sync(read_conversations, file)
    conversations = iter(found)
    while (conversation := await to_thread.run_sync(next, conversations, None)) is not None:
        yield conversation
        advance(found.bytes_read / max(found.size, 1))


@contextlib.contextmanager
def _progress(file: Path, *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """Show on a terminal which share of a file was taken in."""
    from rich.progress import Progress

    from factmem.cli.output import console, shown

    out = console(stderr=True)
    with Progress(console=out, transient=True, disable=quiet or not out.is_terminal) as bar:
        task = bar.add_task(shown(file.name), total=1)
        yield lambda share: bar.update(task, completed=share)


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
        out.print(f"kept in {session.address}", style="dim")

    session.show({"store": session.address, **total.to_json(), "files": listed}, render)
    for file, error in failures.items():
        report(type(error)(f"{file}: {error}"), as_json=session.as_json)
    if failures:
        raise typer.Exit(FAILED)


def _counted(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"
