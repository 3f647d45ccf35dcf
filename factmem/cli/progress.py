"""Progress of background reading, and the count of its outcomes."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterator, Sequence
from typing import TYPE_CHECKING

import anyio
import attrs

from factmem.abc.detector import DropReason
from factmem.browse.texts import counted, shown
from factmem.changes import ChangeKind
from factmem.cli.session import Session, sentence
from factmem.errors import FactMemError, ModelError
from factmem.records import AssertionState
from factmem.values import Json

if TYPE_CHECKING:
    from factmem.memory.background import MemoryEvent, Remembered, Submission, Unrepresented

_KINDS = (ChangeKind.CREATED, ChangeKind.UPDATED, ChangeKind.DELETED)
"""Kinds of the changes that words make."""


@attrs.frozen(kw_only=True)
class Tally:
    """Number of outcomes of each kind.

    Attributes:
        changed: Changed records, by the kind of the change.
        quarantined: Quarantined records.
        dropped: Dropped findings, by reason.
        unrepresented: Findings that the store could keep only in part or not at all, by what it lacks.
        dead_letters: Failures of the model; the words are kept as they were said.
    """

    changed: Counter[ChangeKind] = attrs.field(factory=Counter)
    quarantined: int = 0
    dropped: Counter[DropReason] = attrs.field(factory=Counter)
    unrepresented: Counter[Unrepresented] = attrs.field(factory=Counter)
    dead_letters: int = 0

    @classmethod
    def of(cls, outcomes: Collection[Remembered]) -> Tally:
        """Count outcomes; a change that several of them share counts once."""
        read = [outcome for outcome in outcomes if outcome.failure is None]
        changes = {(change.kind, change.record.id, change.record.revision) for item in read for change in item.changes}
        lacking: Counter[Unrepresented] = Counter()
        for outcome in outcomes:
            lacking.update(outcome.unrepresented)
        records = {record.id: record.state for item in read for record in item.records}
        return cls(
            changed=Counter(kind for kind, *_ in changes),
            quarantined=list(records.values()).count(AssertionState.QUARANTINED),
            dropped=sum((Counter(item.dropped) for item in outcomes), Counter[DropReason]()),
            unrepresented=lacking,
            dead_letters=len(outcomes) - len(read),
        )

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        return {
            **{kind.value: self.changed[kind] for kind in _KINDS},
            "quarantined": self.quarantined,
            "dropped": {reason.name.lower(): count for reason, count in self.dropped.items()},
            "dead_letters": self.dead_letters,
        }

    def __str__(self) -> str:
        created, updated, deleted = (self.changed[kind] for kind in _KINDS)
        return (
            f"{counted(created, 'fact')} created, {updated} updated, {deleted} deleted, {self.quarantined} quarantined"
        )

    @property
    def lines(self) -> tuple[str, ...]:
        """Lines on findings that were dropped or kept in part, with the reason."""
        return (
            *(
                f"{counted(count, 'part' if reason is DropReason.NOT_TEXT else 'finding')} dropped: {reason.value}"
                for reason, count in self.dropped.most_common()
            ),
            *(f"{counted(count, 'finding')} {lack.value}" for lack, count in self.unrepresented.most_common()),
        )


def tallied(submissions: Sequence[Submission]) -> Tally:
    """Count the outcomes of submissions."""
    return Tally.of([outcome for submission in submissions for outcome in submission.outcomes])


@attrs.define
class Watch:
    """Waits for submissions and collects their errors.

    Attributes:
        session: The run that waits.
        errors: Errors by the id of the submission.
    """

    session: Session
    errors: dict[str, FactMemError] = attrs.field(factory=dict, init=False)
    _submissions: list[Submission] = attrs.field(factory=list, init=False)
    _advance: Callable[[float], None] = attrs.field(default=lambda _: None, init=False)

    def hear(self, event: MemoryEvent) -> None:
        """Record an event; pass this method as a memory's ``on_event``."""
        from factmem.memory.background import SubmissionFailed

        if isinstance(event, SubmissionFailed):
            self.errors[event.submission_id] = event.error
        self._advance(self._share)

    @property
    def pending(self) -> int:
        """Number of units that are not read yet."""
        return sum(submission.pending for submission in self._submissions)

    @property
    def _share(self) -> float:
        return 1 - self.pending / max(self._total, 1)

    @property
    def _total(self) -> int:
        return sum(len(submission.ids) for submission in self._submissions)

    def expect(self, submission: Submission) -> None:
        """Add a submission to wait for."""
        self._submissions.append(submission)

    async def wait(self) -> None:
        """Wait until every submission was read or has failed."""
        with progress("reading", quiet=self.session.as_json) as self._advance:
            self._advance(self._share)
            for submission in self._submissions:
                await submission.wait()

    async def seen_through(self, submitting: Awaitable[Submission]) -> Submission:
        """Return what is submitted, after it was read or has failed."""
        with self.noting_interruption():
            submission = await submitting
            self.expect(submission)
            await self.wait()
        return submission

    @contextlib.contextmanager
    def noting_interruption(self) -> Iterator[None]:
        """If the run is interrupted, print that nothing is lost, and how to go on."""
        try:
            yield
        except anyio.get_cancelled_exc_class():
            if self.pending:
                self.session.note(
                    f"\n{self.pending} of {self._total} are not read yet; their words are kept as they were said. "
                    f"Continue with  {self.session.command_line('resume')}"
                )
            raise

    def failure(self, tally: Tally, what: str) -> FactMemError | None:
        """Return an error about texts that could not be read; None if all could.

        Args:
            tally: The outcomes.
            what: Noun for one unit, such as "conversation".
        """
        if not tally.dead_letters:
            return None
        why = next(iter(self.errors.values()), ModelError("the language model failed"))
        kind = type(why) if isinstance(why, ModelError) else ModelError
        hint = self.session.command_line("dead-letters", "retry")
        return kind(
            f"{counted(tally.dead_letters, what)} could not be read: {sentence(why)} "
            f"The words are kept as they were said; retry with  {hint}"
        )


@contextlib.contextmanager
def progress(what: str, *, quiet: bool) -> Iterator[Callable[..., None]]:
    """Show a progress bar on a terminal.

    Args:
        what: Label of the bar.
        quiet: Show nothing.

    Yields:
        A function that takes the finished share, from 0 to 1, or how much of how much is finished.
    """
    from rich.progress import Progress

    from factmem.cli.output import console

    out = console(stderr=True)
    with Progress(console=out, transient=True, disable=quiet or not out.is_terminal) as bar:
        task = bar.add_task(shown(what), total=1)
        yield lambda done, of=1: bar.update(task, completed=done / of if of else 1)
