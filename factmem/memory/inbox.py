"""The inbox of a memory: streams of messages that arrive one by one and are read together, when a trigger fires."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import itertools
import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from random import choice
from typing import Any, Final, Unpack

import anyio
import attrs

from factmem.abc.detector import Conversation, DropReason, Message
from factmem.detection.redaction import redact
from factmem.errors import CapabilityError, InvalidDataError, OutOfViewError, RecordNotFoundError
from factmem.fold import states_of
from factmem.grouping import grouped
from factmem.legal_names import checked_name
from factmem.memory.background import Submission
from factmem.memory.dead_letters import DeadLetters, failure_in
from factmem.memory.journal import (
    STREAM,
    Job,
    Trigger,
    Unit,
    aims_of,
    in_order,
    is_read_again,
    job_id,
)
from factmem.memory.operations import observed
from factmem.memory.pipeline import PipelinePart
from factmem.memory.quarantine import Quarantine
from factmem.memory.remembering import Journalled, Order, Rememberer, Taken, warn_of_not_text
from factmem.memory.submitted import About, StoredSession, spoken
from factmem.recall.index.selection import LogPart
from factmem.records import AssertionState, Place, Recorded, StateChange
from factmem.validators import listed

_FOR: Final = ":for:"
"""Separates the id of a stream from what is looked for in it, in the id of a job; earlier versions had one job each."""

ABANDONED_AFTER: Final = dt.timedelta(hours=24)
"""Time without new events after which a stream is read, regardless of its trigger (as in Memory Bank)."""


def due_at(unit: Unit, now: dt.datetime) -> dt.datetime:
    """Return the time at which waiting events are due to be read.

    Args:
        unit: The waiting events.
        now: The present.
    """
    trigger = unit.job.trigger or Trigger()
    handed_in = [recorded.recorded_at for recorded in unit.words]
    events = {recorded.assertion.details.evidence[0].message_id for recorded in unit.words}
    if trigger.immediate or (trigger.count is not None and len(events) >= trigger.count):
        return now
    times = [_after(max(handed_in), min(trigger.idle or ABANDONED_AFTER, ABANDONED_AFTER))]
    if trigger.interval is not None:
        times.append(_after(min(handed_in), trigger.interval))
    return min(times)


def _after(start: dt.datetime, pause: dt.timedelta) -> dt.datetime:
    """Return the end of a pause, at most the greatest representable time."""
    try:
        return start + pause
    except OverflowError:
        return dt.datetime.max.replace(tzinfo=dt.UTC)


@observed()
class Inbox(PipelinePart):
    """Words and findings on their way into a memory: to be read later, retried, or accepted by people.

    See `Memory.inbox`.
    """

    @functools.cached_property
    def _rememberer(self) -> Rememberer:
        return Rememberer(self._context, self._backend)

    @property
    def reads_words(self) -> bool:
        """Whether a model or a detector reads submitted words."""
        return self._backend.reads_words

    @property
    def quarantine(self) -> Quarantine:
        """Assertions of untrusted origins or uncertain meaning, until they are accepted or rejected."""
        return Quarantine(self._context, self._backend)

    @property
    def dead_letters(self) -> DeadLetters:
        """Words that a model could not read, kept verbatim."""
        return DeadLetters(self._context, self._backend)

    async def ingest_events(
        self,
        stream: str,
        events: Sequence[Message] | Sequence[Mapping[str, Any]],
        *,
        trigger: Trigger | None = None,
        flush: bool = False,
        history: bool = False,
        **about: Unpack[About],
    ) -> Submission:
        """Add events to a stream. They are on disk when this returns, and are read when the trigger fires.

        An event is identified by its id: a second event with the same id changes nothing, and is counted in
        `Submission.skipped`. It is read again only for other subjects, concepts or topics. Events are read in the order
        of their times, and can be recalled verbatim before. A restart continues at the same point. Without a model,
        events are kept verbatim.

        The same event from two processes at the same moment is kept once if it has a timestamp. Without a timestamp,
        each process adds a time, and both events are kept until they are read; their findings are kept once.

        In a provider with the four verbs only, events are read before this returns, and only the process that read
        them recognizes them.

        Args:
            stream: The name of the stream; the same name at the same place is the same stream.
            events: Messages, or events of Memory Bank as dicts; events without an id are identified by their content
                and time.
            trigger: Condition for reading; at once if None.
            flush: Read waiting events now, regardless of the trigger.
            history: The events may be a conversation from its beginning, as an agent's framework passes it after each
                turn. This is assumed if all known events are among them and the last event is new. Events before a
                known one then count as submitted before, and do not return after an erasure, unless everything was
                erased.
            about: Subject, scope and so on; see `About`.

        Returns:
            The submission; all events that are read together have the same one.

        Raises:
            CapabilityError: The memory was not opened with ``async with``; or the provider has the four verbs only, and
                cannot keep a detail, an owner or waiting events.
            InvalidDataError: The time of an event is in the future, or the stream's name is not legal.
        """
        self._backend.worker.check_running()
        checked_name(stream, what="a stream")
        messages = spoken(events, self._context.said_now).messages if events else ()
        order = self._rememberer.ordered(about)
        if self._backend.four_verbs_only and trigger is not None and not trigger.immediate:
            raise CapabilityError(
                f"{type(self._backend.provider).__name__} has the four verbs only: events cannot wait there for a "
                "count or a time. Leave these out of the Trigger, or use a provider that keeps history"
            )
        id = _stream_id(stream, order)
        job = self._stream_job(id, order, trigger or Trigger())
        said = [Conversation(messages=messages)]
        (bare,), words_of_media = await self._rememberer.without_media(said, order, lenient=True)
        messages = bare.messages
        if words_of_media:
            await self._rememberer.store_and_submit(words_of_media, order)
        async with self._backend.worker.alone(id):
            stored, skipped = await self._taken_in(stream, id, messages, job, order, history=history)
            alone = self._without_words(id, messages)
            not_text = sum(item.left_out[DropReason.NOT_TEXT] for item in stored)
            warn_of_not_text(alone + not_text)
            if job is None or self._backend.four_verbs_only:
                submission = await self._rememberer.submit(stored)
                submission.drop(DropReason.NOT_TEXT, alone)
                if self._backend.four_verbs_only:
                    _note(self._backend.worker.read_events(job.id if job else id), messages, stored)
            else:
                submission = await self._awaited(job.id, flush=flush)
                submission.drop(DropReason.NOT_TEXT, alone, job.id)
                for reason, number in itertools.chain(*(item.left_out.items() for item in stored)):
                    submission.drop(reason, number, job.id)
        submission.skip(skipped)
        return submission

    async def flush(self) -> None:
        """Read all waiting events of this viewer's streams, regardless of their triggers, and wait until they are read.

        Raises:
            CapabilityError: The memory was not opened with ``async with``.
        """
        self._backend.worker.check_running()
        self._context.check_writable()
        ids = {unit.job.id for unit in await self._streams()}
        for submission in (await self._read_streams(ids, flush=True)).values():
            await submission.wait()
        for id in ids:  # includes jobs that another task has begun meanwhile, such as `resume` at the opening
            for submission in self._backend.worker.reading(id):
                await submission.wait()

    async def resume(self, *ids: str) -> Submission:
        """Read unread words of earlier processes, of any owner, in the background, as at every opening.

        Streams whose trigger has not fired are watched again.

        With ids, return earlier submissions, in any process, read or unread:

            ids = (await memory.remember_many(texts)).ids  # to be kept by the program
            submission = await memory.inbox.resume(*ids)  # perhaps tomorrow
            outcomes = await submission.wait()

        Args:
            ids: Only these jobs, by `Submission.ids`. The outcome of a finished job has its failure, or its present
                records without the changes. Pass the id of a stream that waits for its trigger alone.

        Returns:
            A submission of public words and the viewer's own. It finishes only when other viewers' words are read, too,
            but reports nothing about them.

        Raises:
            CapabilityError: The memory was not opened with ``async with``; or ids are given, and the provider has the
                four verbs only.
            RecordNotFoundError: An id names no words that the viewer may see, or a further reading of a
                `StoredSession`, which leaves no trace but what it finds.
            OutOfViewError: Facts about subjects outside of this view are looked for in words that wait.
        """
        return await (self._found(ids) if ids else self._resumed())

    async def extract(self, text: str) -> tuple[str, ...]:
        """Return the atomic statements of a text, each understandable by itself. Nothing is stored.

        For a blank text, no model is called.

        Raises:
            CapabilityError: This memory has no analyst to ask.
            ModelError: The model failed.
        """
        if not text.strip():
            return ()
        if self._backend.analyst is None:
            raise CapabilityError("extracting statements takes a model: open the memory with model= or analyst=")
        return tuple(await self._backend.analyst.extract(text))

    async def _resumed(self) -> Submission:
        """Read all that waits."""
        self._backend.worker.check_running()
        self._context.check_writable()
        held = self._backend.worker.held  # check before and after: jobs that end meanwhile do not wait any more
        units = await self._pipeline.readable(of_all=True)
        held |= self._backend.worker.held
        others = [unit for unit in units if not unit.job.streamed and not unit.ids <= held]
        visible = self._context.sight.owners
        unseen = Submission([unit.job.id for unit in others if unit.given.owner not in visible])
        submission = Submission([unit.job.id for unit in others if unit.given.owner in visible], beside=unseen)
        for owner, mine in _by_owner(others).items():
            chosen = submission if owner in visible else unseen
            first = choice(_beginnings(mine))  # processes that begin together begin at different words
            self._backend.worker.submit(self._of(owner)._pipeline, [*mine[first:], *mine[:first]], chosen)
        for owner, mine in _by_owner(unit for unit in units if unit.job.streamed).items():
            await self._of(owner)._read_streams({unit.job.id for unit in mine}, flush=False)
        return submission

    def _of(self, owner: str | None) -> Inbox:
        return Inbox(attrs.evolve(self._context, viewer=owner), self._backend)

    def _without_words(self, id: str, events: Sequence[Message]) -> int:
        """Count the images, audio and files of new events without words; only this process recognizes these events."""
        new = {_event_id(event): event for event in events if _is_wordless(event)}
        if not new:
            return 0
        known = self._backend.worker.read_events(f"{id}/not-text")
        found = [event for key, event in new.items() if key not in known and event.detectable]
        known.update({key: [] for key in new})
        return sum(event.not_text for event in found)

    async def _found(self, ids: Sequence[str]) -> Submission:
        """Find submissions again by their ids."""
        self._backend.worker.check_running()
        self._backend.log()
        ids = listed("ids", ids, str)
        units = [unit for unit in await self._pipeline.waiting(AssertionState.PENDING) if unit.job.id in ids]
        if not all(map(self._pipeline.can_read, units)):
            raise OutOfViewError(
                "a text is read for facts outside of this view: use the memory that the view was made of"
            )
        waiting = {unit.job.id: unit for unit in units}
        words, failures = await self._words_of(ids)
        if missing := words.keys() - waiting.keys() - {id for id, found in words.items() if found}:
            raise RecordNotFoundError(
                f"{len(missing)} of the ids name no submission whose words the viewer may see: take Submission.ids"
            )
        if waiting:
            self._context.check_writable()
        if any(unit.job.streamed for unit in units):
            if len(words) > 1:
                raise InvalidDataError("one of the ids names a stream: pass this id alone")
            async with self._backend.worker.alone(*words):
                return await self._awaited(*words, flush=False)
        submission = Submission(list(words))
        for id in words.keys() - waiting.keys():
            outcome = await self._pipeline.present_outcome(words[id])
            submission.settle(id, attrs.evolve(outcome, failure=failures.get(id)))
        self._backend.worker.submit(self._pipeline, list(waiting.values()), submission)
        return submission

    async def _words_of(self, ids: Iterable[str]) -> tuple[dict[str, list[Recorded]], dict[str, str]]:
        """Return the visible words of submissions by their ids, and the errors of those that could not be read."""
        words: dict[str, list[Recorded]] = {id: [] for id in ids}
        reader = self._reader.everybody
        log = [*await reader.log(LogPart(jobs=True)), *await reader.log(LogPart(ids=words))]
        said = {entry.id: entry for entry in log if isinstance(entry, Recorded)}
        errors = {entry.assertion_id: entry.reason for entry in log if isinstance(entry, StateChange)}
        states = states_of(log)
        failures: dict[str, str] = {}
        for entry in said.values():
            for id in words.keys() & {job_id(entry), entry.id}:
                words[id].append(entry)
                if states.get(entry.id) is AssertionState.FAILED:
                    failures[id] = failure_in(errors.get(entry.id))[0]
        return words, failures

    async def _taken_in(
        self, stream: str, id: str, events: Sequence[Message], job: Job | None, order: Order, *, history: bool
    ) -> tuple[list[Journalled], int]:
        """Append new events to the store, and let known ones wait again for what nobody has looked for in them.

        Returns:
            The new events, and the number of those that are skipped.
        """
        read = self._backend.worker.read_events(job.id if job else id) if self._backend.four_verbs_only else None
        if read is not None:
            known = dict[str | None, list[Recorded]](read.items())
        else:
            kept = await self._rememberer.words_of(StoredSession(id=stream), order)  # those without a job, as they are
            words = [*await self._events(id), *(entry for entry in kept if entry.assertion.job is None)]
            known = grouped(words, lambda recorded: recorded.assertion.details.evidence[0].message_id)
        given = _identified(stream, events, self._context.clock())  # what was taken in before was heard as well
        ids = [_event_id(event) for event in events]
        whole = history and bool(ids) and ids[-1] not in known and known.keys() <= set(ids)
        submitted = max((place for place, id in enumerate(ids, start=1) if whole and id in known), default=0)
        began = _identified(stream, events[submitted:], self._context.clock())
        fresh = attrs.evolve(given, messages=[message for message in began.messages if message.id not in known])
        old = {message.id: known[message.id] for message in given.messages if message.id in known}
        again = {} if job is None else {id: words for id, words in old.items() if not _is_read(words, job)}
        submitted_first = (item for words in again.values() for item in words if not is_read_again(item))
        await self._rememberer.read_again([(recorded, job) for recorded in submitted_first])
        skipped = len(old) - len(again)
        if not fresh.messages:
            return [], skipped
        overlap = job.trigger.overlap if read and job and job.trigger else 0
        before = tuple(itertools.chain(*list(read.values())[-overlap:])) if read and overlap else ()
        taken = [Taken(conversation=fresh, job=job)]
        return await self._rememberer.stored(taken, order, heard=given, context=before), skipped

    def _stream_job(self, id: str, order: Order, trigger: Trigger) -> Job | None:
        """Return the job of a stream's events; those that look for different things have different ids."""
        job = self._rememberer.job(order)
        if job is None:
            return None
        return attrs.evolve(job, id=f"{id}{_FOR}{_digest(sorted(job.request.aims))}", trigger=trigger)

    async def _events(self, *ids: str) -> tuple[Recorded, ...]:
        """Return every event ever submitted to streams for a model, in order, by the ids of the streams."""
        submitted = await self._reader.everybody.recorded(LogPart(jobs=True))
        return in_order(event for event in submitted if _stream_in(job_id(event) or "") in ids)

    async def _streams(self) -> list[Unit]:
        """Return the waiting units of this viewer's streams, including those that are being read."""
        return [unit for unit in await self._pipeline.readable() if unit.job.streamed]

    async def _unread(self, ids: Collection[str]) -> list[Unit]:
        """Return the waiting units of streams that are not being read yet, with their context."""
        busy = self._backend.worker.busy  # check before and after: jobs that end meanwhile do not wait any more
        units = [unit for unit in await self._streams() if unit.job.id in ids]
        streams = {_stream_in(unit.job.id) for unit in units if _overlap(unit)}
        events = await self._events(*streams) if streams else ()
        busy |= self._backend.worker.busy
        unread = []
        for unit in units:
            if words := tuple(recorded for recorded in unit.words if recorded.id not in busy):
                left = attrs.evolve(unit, words=words)
                before = [event for event in events if _may_precede(event, left)]
                context = tuple(before[-_overlap(unit) :]) if _overlap(unit) else ()
                unread.append(attrs.evolve(left, context=context))
        return unread

    async def _awaited(self, id: str, *, flush: bool) -> Submission:
        """Read a stream if it is due, otherwise watch it. The caller must hold `Worker.alone`."""
        found = await self._read_streams([id], flush=flush)
        return found[id] if id in found else self._backend.worker.end_stream(id)

    async def _read_streams(self, ids: Collection[str], *, flush: bool) -> dict[str, Submission]:
        """Read the streams that are due together, and watch the others; return the unread submissions by id."""
        unread = await self._unread(ids)
        submissions = {unit.job.id: self._backend.worker.stream(unit.job.id) for unit in unread}
        now = self._context.clock()
        due = [unit for unit in unread if flush or due_at(unit, now) <= now]
        for mine in _by_owner(due).values():
            self._backend.worker.submit(self._pipeline, mine)
        for id in submissions.keys() - {unit.job.id for unit in due}:
            self._backend.worker.watch(id, self._watch)
        return submissions

    async def _watch(self, id: str, over: anyio.Event) -> None:
        """Wait until a stream is due, and read it, unless the watch ends before that."""
        while not over.is_set():
            unread = await self._unread([id])
            now = self._context.clock()
            due = max((due_at(unit, now) for unit in unread), default=now)
            if due > now:
                with anyio.move_on_after((due - now).total_seconds()):
                    await over.wait()
                continue
            async with self._backend.worker.alone(id):
                if not over.is_set():
                    await self._awaited(id, flush=False)


def _by_owner(units: Iterable[Unit]) -> dict[str | None, list[Unit]]:
    return grouped(units, lambda unit: unit.given.owner)


def _beginnings(units: Sequence[Unit]) -> list[int]:
    """Return the places of units that may be read first: of those said at one time, the order decides what counts."""
    times = [unit.words[0].assertion.timestamp for unit in units]
    return [place for place, time in enumerate(times) if place == 0 or time != times[place - 1]]


def _stream_in(id: str) -> str:
    return id.partition(_FOR)[0]


def _may_precede(event: Recorded, unit: Unit) -> bool:
    """Return whether an event was submitted to the stream of a unit before it: for the same, or to an old version."""
    return event.id not in unit.ids and job_id(event) in (unit.job.id, _stream_in(unit.job.id))


def _is_read(words: Sequence[Recorded], job: Job) -> bool:
    """Return whether words of one event were submitted for all that is looked for, or are kept without a model."""
    done = [aims_of(recorded) for recorded in words if recorded.assertion.job is not None]
    return not done or any(looked_for is None or job.request.aims <= looked_for for looked_for in done)


def _note(read: dict[str, list[Recorded]], events: Iterable[Message], stored: Iterable[Journalled]) -> None:
    """Note events as read, with their words, for a store that keeps none."""
    for event in events:
        if not _is_wordless(event):
            read.setdefault(_event_id(event), [])
    for word in itertools.chain(*(item.unit.words for item in stored if item.unit is not None)):
        read[word.assertion.details.evidence[0].message_id or ""].append(word)


def _overlap(unit: Unit) -> int:
    """Return the number of earlier events that are shown as context."""
    return unit.job.trigger.overlap if unit.job.trigger else 0


def _identified(stream: str, events: Sequence[Message], now: dt.datetime) -> Conversation:
    """Return the events that have words, each once and with an id, in the order of their times."""
    found: dict[str, Message] = {}
    for event in events:
        if not _is_wordless(event):
            id = _event_id(event)
            found.setdefault(id, attrs.evolve(event, id=id, timestamp=event.timestamp or now))
    ordered = sorted(found.values(), key=lambda event: event.timestamp or now)
    return Conversation(messages=ordered, id=stream)


def _is_wordless(event: Message) -> bool:
    """Return whether an event consists of images, audio or files only."""
    return not event.content.strip()


def _event_id(event: Message) -> str:
    """Return the id of an event; without one, a digest of its content and time."""
    if event.id:
        return event.id
    said = [event.role, event.name, redact(event.content).text, event.timestamp and event.timestamp.isoformat()]
    return f"content:{_digest(said)}"


def _stream_id(stream: str, order: Order) -> str:
    place: Place = order.place
    walls = [place.scope.tenant, list(place.scope.segments), list(place.subject.key), order.given.owner]
    return f"{STREAM}{_digest([stream, *walls])}"


def _digest(data: object) -> str:
    return hashlib.blake2b(json.dumps(data, ensure_ascii=False).encode(), digest_size=16).hexdigest()
