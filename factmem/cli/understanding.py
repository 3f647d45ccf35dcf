"""Taking in conversations with a language model, which finds the facts in them."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import typer
from anyio import to_thread

from factmem.abc import Conversation, DetectionRequest
from factmem.cli.command import FAILED, report
from factmem.cli.tally import Tally, counted
from factmem.cli.watching import Watch
from factmem.errors import FactMemError, RecordNotFoundError
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory import Handover, Memory

__all__ = ["Understanding", "tallied"]

ReadFile = Callable[[Path], AsyncIterator[Conversation]]
"""Yields a file's conversations."""


def tallied(handovers: Sequence[Handover]) -> Tally:
    """Count what came of some hand-overs."""
    return Tally.of([outcome for handover in handovers for outcome in handover.outcomes])


@attrs.define
class _File:
    """What was handed over of one file."""

    handovers: list[Handover] = attrs.field(factory=list)
    again: list[Handover] = attrs.field(factory=list)
    known: int = 0
    redacted: Counter[str] = attrs.field(factory=Counter)
    error: FactMemError | None = None

    def to_json(self) -> dict[str, Json]:
        return {
            "conversations": len(self.handovers),
            "known": self.known,
            "read_again": len(self.again),
            **self.tally.to_json(),
            "redacted": dict(self.redacted),
        }

    def __str__(self) -> str:
        secrets = ", ".join(f"{count} {kind}" for kind, count in sorted(self.redacted.items()))
        return f"{counted(len(self.handovers), 'conversation')}, {self.tally}, secrets redacted: {secrets or 'none'}"

    @property
    def tally(self) -> Tally:
        return tallied([*self.again, *self.handovers])


@attrs.frozen(kw_only=True)
class Understanding:
    """Hands conversations over, and waits until they are read.

    All of them are in the store, each by a transaction of its own, before the first is waited for.

    Attributes:
        memory: takes them.
        watch: waits, and hears what becomes of them.
        subject: whom they are about.
        scope: where they hold.
        source: where they come from.
        private: whether they are the viewer's alone.
        looking_for: what to look for in them.
        consolidate: whether to compare what is found with what is known.
        again: whether to have words read again that are known already.
    """

    memory: Memory
    watch: Watch
    subject: MemorySubject
    scope: MemoryScope | str
    source: str | None
    private: bool
    looking_for: DetectionRequest | None
    consolidate: bool
    again: bool = False

    async def take(self, files: Sequence[Path], read: ReadFile) -> None:
        """Take in files, and tell what came of it.

        Raises:
            typer.Exit: something of it failed, which was told.
        """
        taken = {file: _File() for file in files}
        with self.watch.saying_what_waits():
            earlier = await self.memory.resume()
            self.watch.expect(earlier)
            for file, told in taken.items():
                try:
                    async for conversation in read(file):
                        await self._hand_over(conversation, told)
                except FactMemError as error:
                    told.error = error
            await self.watch.wait()
        self._show(taken, earlier)

    async def _hand_over(self, conversation: Conversation, told: _File) -> None:
        from factmem.detection import redact

        if self.again:
            await self._read_again(conversation, told)
        handover = await self.memory.remember_many(
            [conversation],
            subject=self.subject,
            scope=self.scope,
            source=self.source,
            private=self.private,
            looking_for=self.looking_for,
            consolidate=self.consolidate,
        )
        self.watch.expect(handover)
        told.handovers.append(handover)
        # What has words and is settled at once was read before, or is being read.
        told.known += not handover.pending and await _stored_id(conversation) is not None
        heard = (message for message in conversation.messages if message.detectable)
        told.redacted.update(finding.kind for message in heard for finding in redact(message.content).findings)

    async def _read_again(self, conversation: Conversation, told: _File) -> None:
        """Have what the store holds of a conversation at this place read again; nothing, if it holds none of it."""
        from factmem.memory import StoredSession

        if (id := await _stored_id(conversation)) is None:
            return
        # What was never said is what `remember_many` looks for by itself.
        wish = self.looking_for or DetectionRequest(subjects=(self.subject,), open=True)
        with contextlib.suppress(RecordNotFoundError):
            handover = await self.memory.generate(
                StoredSession(id=id),
                subject=self.subject,
                scope=self.scope,
                looking_for=wish,
                consolidate=self.consolidate,
                private=self.private,
            )
            self.watch.expect(handover)
            told.again.append(handover)

    def _show(self, taken: dict[Path, _File], earlier: Handover) -> None:
        session, all_of = self.watch.session, _File()
        for told in taken.values():
            all_of.handovers += told.handovers
            all_of.again += told.again
            all_of.known += told.known
            all_of.redacted += told.redacted
        data = {
            "store": session.address,
            "model": session.model,
            **all_of.to_json(),
            "resumed": len(earlier.ids),
            "files": [
                {"file": str(file), **told.to_json(), "failed": told.error is not None} for file, told in taken.items()
            ],
        }
        session.show(data, lambda out: self._print(out, taken, all_of, earlier))
        failed = {file: told.error for file, told in taken.items() if told.error}
        for file, error in failed.items():
            report(error, as_json=session.as_json, file=file)
        if (
            unread := self.watch.failure(tallied([earlier, *all_of.again, *all_of.handovers]), "conversation")
        ) is not None:
            report(unread, as_json=session.as_json)
        if failed or unread:
            raise typer.Exit(FAILED)

    def _print(self, out: Console, taken: dict[Path, _File], all_of: _File, earlier: Handover) -> None:
        if len(taken) > 1:
            for file, told in taken.items():
                out.print(f"{file}: {told}")
        out.print(str(all_of))
        for line in all_of.tally.lines:
            out.print(line)
        if all_of.again:
            out.print(f"{counted(len(all_of.again), 'conversation')} known already, and read again")
        elif all_of.known:
            out.print(
                f"{counted(all_of.known, 'conversation')} known already, and not shown to the model again; "
                "to have it read nevertheless, give the same command with --again"
            )
        if earlier.ids:
            out.print(f"an earlier run had left {counted(len(earlier.ids), 'hand-over')} unread: {tallied([earlier])}")
        if all_of.handovers:
            out.print(f"kept in {self.watch.session.address}", style="dim")


async def _stored_id(conversation: Conversation) -> str | None:
    """Return the id that a conversation has in the store; None if there is nothing in it to keep."""
    from factmem.detection import utterances

    said = await to_thread.run_sync(utterances, conversation, dt.datetime.now(dt.UTC))
    return said[0].conversation_id if said else None
