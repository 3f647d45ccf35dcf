"""Background reading: submitted words are safe in the store at once, and a worker reads them later; the outcomes."""

from __future__ import annotations

import contextlib
import datetime as dt
import enum
import logging
import os
from collections import Counter, OrderedDict, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence, Set
from contextvars import ContextVar
from functools import partial
from types import TracebackType
from typing import Any, Final, Protocol, Self, TypeAlias
from weakref import WeakValueDictionary

import anyio
import attrs

from factmem.abc.detector import DropReason
from factmem.changes import Change
from factmem.error_hints import hinted
from factmem.errors import BudgetSpentError, CapabilityError, FactMemError, ModelAwayError, ModelUnavailableError
from factmem.event_loops import OneLoop, OwnTasks, check_process
from factmem.llm import Budget
from factmem.llm.asking import Spent
from factmem.memory.journal import Unit
from factmem.records import AssertionState, FactRecord, Recorded
from factmem.validators import positive

_log = logging.getLogger("factmem")

_OWN_TURNS: Final[ContextVar[tuple[anyio.Event, ...]]] = ContextVar("_OWN_TURNS", default=())
"""Turns of the readings that the present task is part of, the outermost first; see `in_turn`."""


class Unrepresented(enum.Enum):
    """A part of a finding that a provider with only the four verbs cannot keep."""

    EVIDENCE = "kept without the words it came from"
    DETAILS = "kept without its importance, categories, topics, metadata or flags"
    COMPARISON = "kept without a comparison with similar statements"
    ORIGIN = "not kept: somebody else than the user said it, and the provider cannot tell who"
    QUARANTINE = "not kept: it belongs into quarantine, and the provider has none"
    REMOVAL = "not kept: it takes back what is known, and the provider cannot"


@attrs.frozen(kw_only=True)
class Remembered:
    """Outcome of submitted words or facts: a sequence of the records, also of those that wait in quarantine.

    Attributes:
        records: The records that hold them, as they are in the store, those that wait in quarantine among them
            (see `waiting`); none if there was nothing to remember.
        changes: The changes of records; none if all of it was known.
        dropped: Number of findings of the model that were dropped, by reason. `DropReason.ONLY_SECRETS` counts messages
            of which nothing was kept, `DropReason.OFF_THE_RECORD` those with words that the user asks not to keep ("off
            the record: …"), `DropReason.NOT_TEXT` parts of messages that are images, audio, files or of an
            unknown type, `DropReason.DUPLICATE` a text that was not kept beside another one of the same batch: the
            record is that of the other one.
        unrepresented: Number of findings that the provider could keep in part only, or not at all, by what it lacks.
            Empty unless the provider has the four verbs only.
        failure: Name of the error that kept the model from reading them, or None. The words are kept as they were said,
            and can be read again; see `Inbox.dead_letters`.
    """

    records: tuple[FactRecord[Any], ...] = ()
    changes: tuple[Change, ...] = ()
    dropped: Mapping[DropReason, int] = attrs.field(factory=dict)
    unrepresented: Mapping[Unrepresented, int] = attrs.field(factory=dict)
    failure: str | None = None

    @property
    def waiting(self) -> tuple[FactRecord[Any], ...]:
        """The records that wait in quarantine, each with its id there and its `FactRecord.quarantine_reason`.

        A doubtful value that waited before, or was rejected, is counted in `dropped` instead.
        """
        return tuple(record for record in self.records if record.state is AssertionState.QUARANTINED)

    def __iter__(self) -> Iterator[FactRecord[Any]]:
        return iter(self.records)

    def __getitem__(self, number: int) -> FactRecord[Any]:
        return self.records[number]

    def __len__(self) -> int:
        return len(self.records)

    def __repr__(self) -> str:
        shown = {name: value for name, value in attrs.asdict(self, recurse=False).items() if value}
        if self.changes:
            shown["changes"] = f"<{', '.join(change.kind.value for change in self.changes)}>"
        return f"Remembered({', '.join(f'{name}={value}' for name, value in shown.items())})"

    def with_others(self, others: Sequence[Remembered]) -> Remembered:
        """Return this outcome and others of the same call as one."""
        together = self
        for other in others:
            together = attrs.evolve(
                together,
                records=(*together.records, *other.records),
                changes=(*together.changes, *other.changes),
                dropped=dict(Counter(together.dropped) + Counter(other.dropped)),
                unrepresented=dict(Counter(together.unrepresented) + Counter(other.unrepresented)),
                failure=together.failure or other.failure,
            )
        return together

    def without(self, reason: DropReason, number: int) -> Remembered:
        """Return this outcome with a higher count of dropped parts."""
        if not number:
            return self
        return attrs.evolve(self, dropped={**self.dropped, reason: self.dropped.get(reason, 0) + number})


_TOGETHER: Final = 64
"""Maximum batch size; a killed process repeats at most one batch."""

_STREAMS: Final = 1_000
"""Number of streams whose events are remembered for stores that keep none."""


@hinted
@attrs.frozen(kw_only=True)
class Background:
    """Settings of background reading.

    Attributes:
        concurrency: Maximum number of questions to models at a time.
        attempts: Number of attempts to reach a model before words become a dead letter.
        backoff: Time before the second attempt; doubled before each further one.
        budget: Limit on the cost of reading while the memory is open. Words left unread because of it wait for the
            next process; they are not dead letters.
    """

    concurrency: int = attrs.field(default=4, validator=positive)
    attempts: int = attrs.field(default=3, validator=positive)
    backoff: dt.timedelta = dt.timedelta(seconds=2)
    budget: Budget = attrs.field(factory=Budget)


@attrs.frozen(kw_only=True)
class SubmissionFinished:
    """Event: words were read.

    Attributes:
        submission_id: Id of the submission.
        outcome: The outcome.
    """

    submission_id: str
    outcome: Remembered


@attrs.frozen(kw_only=True)
class SubmissionFailed:
    """Event: words could not be read; they are kept as they were said.

    Attributes:
        submission_id: Id of the submission, and of the dead letter in `Inbox.dead_letters`.
        error: The error. It holds no word of them.
    """

    submission_id: str
    error: FactMemError


MemoryEvent: TypeAlias = SubmissionFinished | SubmissionFailed
"""An event that ``on_event`` is called with."""


@attrs.define(eq=False)
class _Jobs:
    """The jobs of a submission, and what is known of them."""

    ids: tuple[str, ...]
    skipped: int = 0
    outcomes: dict[str, Remembered | Callable[[], Remembered]] = attrs.field(factory=dict)
    dropped: dict[str | None, Counter[DropReason]] = attrs.field(factory=lambda: defaultdict(Counter))


class OfSubmission:
    """Progress of a submission, as it is seen from any event loop, or without one.

    Args:
        submission: The submission.
    """

    _jobs: _Jobs

    def __init__(self, submission: OfSubmission) -> None:
        self._jobs = submission._jobs

    @property
    def ids(self) -> tuple[str, ...]:
        """Ids of the jobs; `Inbox.resume` finds them again by these."""
        return self._jobs.ids

    @property
    def outcomes(self) -> tuple[Remembered, ...]:
        """The outcomes so far, in the order submitted."""
        return tuple(self.outcome(id) for id in self.ids if id in self._jobs.outcomes)

    def outcome(self, id: str) -> Remembered:
        """Return the outcome of a settled job, with the parts of it that were dropped before."""
        outcome = self._jobs.outcomes[id]
        if not isinstance(outcome, Remembered):
            outcome = self._jobs.outcomes[id] = outcome()
        for reason, number in self._jobs.dropped.get(id, {}).items():
            outcome = outcome.without(reason, number)
        return outcome

    @property
    def pending(self) -> int:
        """Number of jobs that are not read yet."""
        return len(self.ids) - len(self._jobs.outcomes)

    @property
    def failures(self) -> tuple[str, ...]:
        """Names of the errors of jobs that could not be read; see `Inbox.dead_letters`."""
        return tuple(outcome.failure for outcome in self.outcomes if outcome.failure is not None)

    @property
    def skipped(self) -> int:
        """Number of messages skipped, because they were submitted before for all that is looked for now.

        A message is the same if its id, its text and the id of its conversation are; in a stream, if its id is.
        """
        return self._jobs.skipped

    @property
    def dropped(self) -> Mapping[DropReason, int]:
        """Number of findings and parts of messages that were dropped so far, by reason; see `Remembered.dropped`."""
        unsettled = (number for id, number in self._jobs.dropped.items() if id not in self._jobs.outcomes)
        settled = (outcome.dropped for outcome in self.outcomes)
        return dict(sum(map(Counter[DropReason], (*unsettled, *settled)), Counter[DropReason]()))


class Submission(OfSubmission):
    """Words that were submitted together. They are in the store already, even if this process is killed.

    Args:
        ids: Ids of the jobs.
        beside: A submission of other owners that is read at the same time: waited for as well, and not reported.
    """

    def __init__(self, ids: Sequence[str], *, beside: Submission | None = None) -> None:
        self._jobs = _Jobs(tuple(ids))
        self._postponed: set[str] = set()
        self._over = anyio.Event()
        self._loop = OneLoop("this submission")
        self._loop.check()
        self._beside = None if beside is None else beside._over
        if not self.ids:
            self._over.set()

    async def wait(self) -> tuple[Remembered, ...]:
        """Wait until every job is read or has failed, and return the outcomes.

        If the memory is closed first, or its budget is spent, the outcomes so far are returned; the rest waits for the
        next process that opens the store.

        Raises:
            WrongLoopError: It was submitted in another event loop.
        """
        self._loop.check()
        await self._over.wait()
        if self._beside is not None:
            await self._beside.wait()
        return self.outcomes

    def settle(self, id: str, outcome: Remembered | Callable[[], Remembered]) -> None:
        """Set the outcome of one job, or a function that makes it when it is first asked for, which takes some time."""
        self._jobs.outcomes[id] = outcome
        self._postponed.discard(id)
        self._end_if_done()

    def postpone(self, id: str) -> None:
        """Leave one job to another process: it stays pending, and is not waited for."""
        if id not in self._jobs.outcomes:
            self._postponed.add(id)
        self._end_if_done()

    def _end_if_done(self) -> None:
        if self.pending <= len(self._postponed):
            self._over.set()

    def drop(self, reason: DropReason, number: int, id: str | None = None) -> None:
        """Count parts of a job, or of none, that were dropped before it was read."""
        if number:
            self._jobs.dropped[id][reason] += number

    def skip(self, number: int) -> None:
        """Set the number of messages that are not submitted again."""
        self._jobs.skipped = number

    def end(self) -> None:
        """End the wait: nothing more will be read in this process."""
        self._over.set()


class UnitReader(Protocol):
    """Reads waiting words of one owner."""

    async def process(self, units: Sequence[Unit]) -> Sequence[Remembered | FactMemError]:
        """Return the outcome of each unit, or its error."""
        ...

    async def give_up(self, unit: Unit, error: FactMemError) -> Remembered:
        """Keep the words of a unit as they were said, marked as unread."""
        ...


class Worker:
    """Reads submissions in the background. Opened and closed with the memory.

    Args:
        settings: Concurrency and attempts.
        tell: Called with every event about words that are public or the viewer's own.
        viewer: The viewer.

    Attributes:
        spent: Costs of what was read so far.
    """

    def __init__(
        self, settings: Background, tell: Callable[[MemoryEvent], None] | None, *, viewer: str | None = None
    ) -> None:
        self._settings = settings
        self._tell = tell
        self._viewer = viewer
        self._tasks: OwnTasks | None = None
        self._open: set[Submission] = set()
        self._underway: dict[frozenset[str], list[Submission]] = {}
        self._held: set[str] = set()
        self._begun: dict[anyio.Event, Set[object]] = {}
        self._streams: dict[str, Submission] = {}
        self._watched: dict[str, anyio.Event] = {}
        self._read_events: OrderedDict[str, dict[str, list[Recorded]]] = OrderedDict()
        self._gates: WeakValueDictionary[str, anyio.Lock] = WeakValueDictionary()
        self.spent: Spent = Spent(budget=settings.budget)

    async def __aenter__(self) -> Self:
        if self._tasks is not None:
            raise CapabilityError("the memory is open already, and its views with it: use them without `async with`")
        self._closing = anyio.Event()
        self._resumed: anyio.Event | None = None
        self._next = anyio.Lock()
        self._questions = anyio.Semaphore(self._settings.concurrency)
        tasks = OwnTasks()
        await tasks.open()
        self._tasks = tasks
        self._process = os.getpid()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Read what was submitted to its end; after an error or a cancellation, leave it to the next process.

        What earlier processes have left is submitted first, also if this memory was opened just now.
        """
        tasks = self._tasks
        assert tasks is not None
        try:
            if exc is None:
                if self._resumed is not None:
                    await self._resumed.wait()
                self._refuse()
                await tasks.aclose()
        finally:
            self._refuse()
            await tasks.cancel()
            for submission in self._open:
                submission.end()
            self._open.clear()
            self._underway.clear()

    def _refuse(self) -> None:
        """Refuse further work, and end all waits for a time."""
        self._tasks = None
        self._closing.set()
        for id in list(self._watched):
            self._dismiss(id)

    @property
    def running(self) -> bool:
        """Whether the worker is open."""
        return self._tasks is not None

    def check_process(self) -> None:
        """Refuse work after a fork, in the process that has none of this worker's tasks.

        Raises:
            ProviderClosedError: Another process has opened the memory.
        """
        if self._tasks is not None:
            check_process(self._process)

    def check_running(self) -> None:
        """Refuse work that no worker would finish.

        Raises:
            CapabilityError: The memory is not open.
        """
        if self._tasks is None:
            raise CapabilityError("this memory is not open: open it with `async with`, also one for an AgentMemory")

    def submit(self, reader: UnitReader, units: Sequence[Unit], submission: Submission | None = None) -> None:
        """Start to read units. Words that are being read already are read once, and reported to both submissions.

        Args:
            reader: Reads them.
            units: The units.
            submission: Their submission; that of each stream if None, and the streams are not watched any more.
        """
        self.check_running()
        if submission is not None and not units:
            submission.end()
        new = [unit for unit in units if unit.ids not in self._underway]
        for unit, told in [(unit, submission or self.stream(unit.job.id)) for unit in units]:
            if submission is None:
                self._dismiss(unit.job.id)
                self._streams.pop(unit.job.id, None)
            self._open.add(told)
            self._underway.setdefault(unit.ids, []).append(told)
        if new:
            self.start(partial(self._read, reader, new))

    def resume(self, work: Callable[[], Awaitable[object]]) -> None:
        """Start to submit what earlier processes have left, which the end of the memory waits for."""
        self._resumed = over = anyio.Event()

        async def resumed() -> None:
            try:
                await work()
            finally:
                over.set()

        self.start(resumed)

    def start(self, work: Callable[[], Awaitable[object]]) -> None:
        """Start other work in the background."""
        self.check_running()
        assert self._tasks is not None
        self._tasks.group.start_soon(self._guarded, work)

    async def rest(self, time: dt.timedelta) -> bool:
        """Wait in the background; return False if the memory is closed meanwhile."""
        with anyio.move_on_after(time.total_seconds()):
            await self._closing.wait()
        return not self._closing.is_set()

    def stream(self, id: str) -> Submission:
        """Return the submission of the events of a stream that are not being read yet."""
        if id not in self._streams:
            self._streams[id] = Submission([id])
            self._open.add(self._streams[id])
        return self._streams[id]

    @property
    def busy(self) -> frozenset[str]:
        """Ids of the words that are being read, in the background or not."""
        return self.held.union(*self._underway)

    @property
    def held(self) -> frozenset[str]:
        """Ids of the words that are being read by a caller that waits."""
        return frozenset(self._held)

    @contextlib.contextmanager
    def holding(self, units: Sequence[Unit]) -> Iterator[None]:
        """Keep words from the background while a caller reads them."""
        ids = frozenset[str]().union(*(unit.ids for unit in units))
        self._held |= ids
        try:
            yield
        finally:
            self._held -= ids

    @contextlib.contextmanager
    def in_turn(self, places: Set[object]) -> Iterator[Callable[[], Awaitable[None]]]:
        """Begin to read words of some places; yield a function that waits until those begun before are read.

        These are attempts in this process: one that fails is over, also if another one follows. A reading inside of
        another one waits for none: those may be waiting for the other one, or for the permits that it keeps.
        """
        own, over = _OWN_TURNS.get(), anyio.Event()
        before = [] if own else [done for done, others in self._begun.items() if others & places]
        self._begun[over] = places
        inside = _OWN_TURNS.set((*own, over))

        async def earlier() -> None:
            for done in before:
                await done.wait()

        try:
            yield earlier
        finally:
            self._end_turn(over)
            _OWN_TURNS.reset(inside)

    def end_turns(self) -> None:
        """End the turns of the calling reading early, so that no other one waits for what it waits for."""
        for over in _OWN_TURNS.get():
            self._end_turn(over)

    def _end_turn(self, over: anyio.Event) -> None:
        if self._begun.pop(over, None) is not None:
            over.set()

    def reading(self, id: str) -> list[Submission]:
        """Return the submissions of a job that are being read, in the order begun."""
        begun = (submission for submissions in self._underway.values() for submission in submissions)
        return [submission for submission in begun if id in submission.ids]

    def end_stream(self, id: str) -> Submission:
        """End the waiting submission of a stream; return the one being read, or else the ended one."""
        self._dismiss(id)
        submission = self.stream(id)
        del self._streams[id]
        self._open.discard(submission)
        submission.end()
        return next(reversed(self.reading(id)), submission)

    def alone(self, id: str) -> anyio.Lock:
        """Return the lock of a stream in this process."""
        return self._gates.setdefault(id, anyio.Lock())

    def read_events(self, id: str) -> dict[str, list[Recorded]]:
        """Return the words of the events of a stream that this process has read, by id, for a store that keeps none.

        The least recently used streams are forgotten: to read an event again is harmless.
        """
        events = self._read_events.setdefault(id, {})
        self._read_events.move_to_end(id)
        while len(self._read_events) > _STREAMS:
            self._read_events.popitem(last=False)
        return events

    def watch(self, id: str, watch: Callable[[str, anyio.Event], Awaitable[None]]) -> None:
        """Watch a stream in the background, in place of its watch so far.

        Args:
            id: Id of the stream's job.
            watch: Called with it, and with an event that is set when this watch is over.
        """
        self._dismiss(id)
        over = self._watched[id] = anyio.Event()
        self.start(partial(watch, id, over))

    def _dismiss(self, id: str) -> None:
        if (over := self._watched.pop(id, None)) is not None:
            over.set()

    async def _guarded(self, work: Callable[[], Awaitable[object]]) -> None:
        """Run work in the background, and log its errors; the words wait for the next opening of the store."""
        try:
            await work()
        except Exception as error:
            if not self._closing.is_set():  # an error after closing is expected
                _log.warning("waiting words cannot be read for now: %s", type(error).__name__)

    async def _read(self, reader: UnitReader, units: Sequence[Unit]) -> None:
        waiting = list(units)
        for attempt in range(self._settings.attempts):
            if attempt and not await self.rest(self._settings.backoff * 2 ** (attempt - 1)):
                break  # the memory is being closed
            waiting = await self._attempt(reader, waiting, last=attempt + 1 == self._settings.attempts)
            if not waiting:
                break

    async def _attempt(self, reader: UnitReader, units: Sequence[Unit], *, last: bool) -> list[Unit]:
        """Read units once, batch by batch; return those to be tried again."""
        again: list[Unit] = []
        for start in range(0, len(units), _TOGETHER):
            batch = units[start : start + _TOGETHER]
            async with self._turn(len(batch)):
                results = await _processed(reader, batch)
            for unit, result in zip(batch, results, strict=True):
                if isinstance(result, BudgetSpentError | ModelAwayError):
                    for submission in self._underway.pop(unit.ids, ()):
                        submission.postpone(unit.job.id)
                elif isinstance(result, ModelUnavailableError) and not last:
                    again.append(unit)
                else:
                    await self._settle(reader, unit, result)
        return again

    @contextlib.asynccontextmanager
    async def _turn(self, size: int) -> AsyncIterator[None]:
        """Wait until a batch may be read within the limit of concurrency."""
        wanted = min(size, self._settings.concurrency)
        async with self._next:  # one at a time: two would each wait for permits that the other one holds
            for _ in range(wanted):
                await self._questions.acquire()
        try:
            yield
        finally:
            for _ in range(wanted):
                self._questions.release()

    async def _settle(self, reader: UnitReader, unit: Unit, result: Remembered | FactMemError) -> None:
        """Settle a unit. Words that another process has read or forgotten meanwhile have not failed."""
        outcome = result if isinstance(result, Remembered) else await _given_up(reader, unit, result)
        submissions = self._underway.pop(unit.ids, ())
        for submission in submissions:
            submission.settle(unit.job.id, outcome)
        self._open.difference_update(submission for submission in submissions if not submission.pending)
        if submissions:  # with the parts that were dropped before
            outcome = submissions[0].outcome(unit.job.id)
        if isinstance(result, Remembered) or outcome.failure is None:
            self._announce(unit, SubmissionFinished(submission_id=unit.job.id, outcome=outcome))
            return
        _log.warning("submitted words could not be read (%s); they are kept", outcome.failure)
        self._announce(unit, SubmissionFailed(submission_id=unit.job.id, error=result))

    def _announce(self, unit: Unit, event: MemoryEvent) -> None:
        if self._tell is None or unit.given.owner not in (None, self._viewer):
            return
        try:
            self._tell(event)
        except Exception as error:  # a listener must not stop the reading
            _log.warning("a listener to the memory's events failed: %s", type(error).__name__)


async def _given_up(reader: UnitReader, unit: Unit, why: FactMemError) -> Remembered:
    try:
        return await reader.give_up(unit, why)
    except Exception as error:  # the store is out of reach: the words wait for the next process
        return Remembered(failure=type(error).__name__)


async def _processed(reader: UnitReader, units: Sequence[Unit]) -> Sequence[Remembered | FactMemError]:
    try:
        return await reader.process(units)
    except FactMemError as error:
        return [error] * len(units)
    except Exception as error:  # a custom consolidator, embedder or store may raise any error
        return [FactMemError(f"the words could not be read: {type(error).__name__}")] * len(units)
