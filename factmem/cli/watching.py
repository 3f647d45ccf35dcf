"""Waiting for what is read in the background: with a progress bar, and with words about what went wrong."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import anyio
import attrs

from factmem.cli.session import Session
from factmem.cli.tally import Tally, counted
from factmem.cli.wording import sentence
from factmem.errors import FactMemError, ModelError

if TYPE_CHECKING:
    from factmem.memory import Handover, MemoryEvent

__all__ = ["Watch", "progress"]


@attrs.define
class Watch:
    """Waits for hand-overs, and hears meanwhile what becomes of them.

    Attributes:
        session: the run that waits.
        errors: why some could not be read, by the id of the hand-over.
    """

    session: Session
    errors: dict[str, FactMemError] = attrs.field(factory=dict, init=False)
    _handovers: list[Handover] = attrs.field(factory=list, init=False)
    _advance: Callable[[float], None] = attrs.field(default=lambda _: None, init=False)

    def hear(self, event: MemoryEvent) -> None:
        """Take note of an event. This is what a memory's ``on_event`` is."""
        from factmem.memory import HandoverFailed

        if isinstance(event, HandoverFailed):
            self.errors[event.handover_id] = event.error
        self._advance(self._share)

    @property
    def pending(self) -> int:
        """How much of what was waited for is still unread."""
        return sum(handover.pending for handover in self._handovers)

    @property
    def _share(self) -> float:
        return 1 - self.pending / max(self._total, 1)

    @property
    def _total(self) -> int:
        return sum(len(handover.ids) for handover in self._handovers)

    def expect(self, handover: Handover) -> None:
        """Wait for this as well."""
        self._handovers.append(handover)

    async def wait(self) -> None:
        """Wait until all that is expected was read or has failed."""
        with progress("reading", quiet=self.session.as_json) as self._advance:
            self._advance(self._share)
            for handover in self._handovers:
                await handover.wait()

    @contextlib.contextmanager
    def saying_what_waits(self) -> Iterator[None]:
        """On the way out of an interrupted run, say that nothing is lost, and what is to be done."""
        try:
            yield
        except anyio.get_cancelled_exc_class():
            if self.pending:
                self.session.note(
                    f"\n{self.pending} of {self._total} wait to be read; they are kept as they were said. "
                    f"Go on with  {self.session.command_line('resume')}"
                )
            raise

    def failure(self, tally: Tally, what: str) -> FactMemError | None:
        """Return what to tell about words that could not be read; None if all could.

        Args:
            tally: what became of them.
            what: what was handed over: a conversation, a text.
        """
        if not tally.dead_letters:
            return None
        why = next(iter(self.errors.values()), ModelError("the language model failed"))
        kind = type(why) if isinstance(why, ModelError) else ModelError
        hint = self.session.command_line("dead-letters", "retry")
        return kind(
            f"{counted(tally.dead_letters, what)} could not be read: {sentence(why)} "
            f"The words are kept as they were said; have them read again with  {hint}"
        )


@contextlib.contextmanager
def progress(what: str, *, quiet: bool) -> Iterator[Callable[[float], None]]:
    """Show on a terminal how far something is.

    Args:
        what: its name.
        quiet: show nothing.

    Yields:
        What takes the share that is done, from 0 to 1.
    """
    from rich.progress import Progress

    from factmem.cli.output import console, shown

    out = console(stderr=True)
    with Progress(console=out, transient=True, disable=quiet or not out.is_terminal) as bar:
        task = bar.add_task(shown(what), total=1)
        yield lambda share: bar.update(task, completed=share)
