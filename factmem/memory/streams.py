"""Streams of events: messages that come one by one and are read together, when a trigger says so."""

from __future__ import annotations

import abc
import datetime as dt
import hashlib
import json
from collections.abc import Sequence
from typing import Final

import anyio
import attrs

from factmem.abc import Conversation, DetectionRequest, Message
from factmem.detection import redact
from factmem.errors import FactMemError, InvalidDataError
from factmem.memory.errands import STREAM, Errand, Trigger
from factmem.memory.generating import MemoryGenerating, StoredSession
from factmem.memory.handover import Handover, UnitReader
from factmem.memory.journal import Unit, errand_id, in_order
from factmem.memory.outcomes import Remembered
from factmem.memory.remembering import About, Order
from factmem.names import checked_name
from factmem.records import AssertionState, Place, Recorded
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

__all__ = ["ABANDONED_AFTER", "MemoryStreaming", "due_at"]

ABANDONED_AFTER: Final = dt.timedelta(hours=24)
"""A stream to which nothing was added for so long is read, whatever its trigger says (as Memory Bank has it)."""


def due_at(unit: Unit, trigger: Trigger, now: dt.datetime) -> dt.datetime:
    """Return when the events that wait are to be read.

    Args:
        unit: the events that wait.
        trigger: the stream's.
        now: the present.
    """
    handed_in = [recorded.recorded_at for recorded in unit.words]
    events = {recorded.assertion.details.evidence[0].message_id for recorded in unit.words}
    if trigger.immediate or (trigger.count is not None and len(events) >= trigger.count):
        return now
    times = [max(handed_in) + min(trigger.idle or ABANDONED_AFTER, ABANDONED_AFTER)]
    if trigger.interval is not None:
        times.append(min(handed_in) + trigger.interval)
    return min(times)


class MemoryStreaming(MemoryGenerating, abc.ABC):
    """Takes in events one by one."""

    async def ingest_events(
        self,
        stream: str,
        events: Sequence[Message],
        *,
        trigger: Trigger | None = None,
        flush: bool = False,
        subject: MemorySubject = MemorySubject.EVERYTHING,
        scope: MemoryScope | str | None = None,
        looking_for: DetectionRequest | None = None,
        source: str | None = None,
        private: bool = False,
    ) -> Handover:
        """Hand over events of a stream. They are on disk when this returns, and read when the trigger says so.

        An event is known by its id: handed in again, it changes nothing, whatever it says then. Events
        are read in the order of their times, not of their arrival. Until they are read they can be
        recalled as they were said. A restart continues where the last process left off.

        Without a model, events are kept as they are and nothing is waited for.

        Args:
            stream: the stream's name; the same name at the same place is the same stream.
            events: messages; those without an id are known by what they say and when.
            trigger: when to read; at once, if there is none.
            flush: read what waits now, whatever the trigger says.
            subject: whom they are about.
            scope: where they hold; see `Memory.save`.
            looking_for: what to look for; by default all facts about the subject.
            source: where they come from.
            private: keep them for this memory's viewer alone.

        Returns:
            What was handed over; the same for all that is read together.

        Raises:
            CapabilityError: the memory was not opened with ``async with``, or the provider keeps no evidence.
            InvalidDataError: an event lies in the future, or the stream's name is not legal.
            ReadOnlyError: this memory is read-only.
        """
        self._worker.check_running()
        checked_name(stream, what="a stream")
        order = self._ordered(
            About(subject=subject, scope=scope, source=source, private=private, looking_for=looking_for)
        )
        errand = self._stream_errand(stream, order, trigger or Trigger())
        before = [*await self._events_of(_stream_id(stream, order)), *await self._kept_events(stream, order)]
        fresh = _fresh(stream, events, before, self._reading.clock())
        words = [await self._words(fresh)] if fresh.messages else []
        handed = await self._journalled([self._in_time(found) for found in words], [errand] * len(words), order)
        if errand is None:
            return await self._submitted(handed)
        return await self._awaited(errand.id, flush=flush)

    async def flush(self) -> None:
        """Read all events that wait in this viewer's streams, whatever their triggers say, and wait for it."""
        self._worker.check_running()
        for id in sorted({unit.errand.id for unit in await self._streams()}):
            for handover in self._worker.reading(id):
                await handover.wait()
            await (await self._awaited(id, flush=True)).wait()

    async def resume(self) -> Handover:
        """Read in the background what an earlier process, of any owner, left unread. Done by itself at opening.

        Streams whose trigger does not say so yet are watched on.

        Returns:
            What is being read now.

        Raises:
            CapabilityError: the memory was not opened with ``async with``.
        """
        self._worker.check_running()
        held = self._worker.held  # looked at before and after: what ends meanwhile does not wait any more
        units = await self._waiting(AssertionState.PENDING)
        held |= self._worker.held
        for unit in units:
            if unit.errand.streamed:
                await self.as_viewer(unit.given.owner)._awaited(unit.errand.id, flush=False)
        others = [unit for unit in units if not unit.errand.streamed and not unit.ids <= held]
        handover = Handover([unit.errand.id for unit in others])
        for owner in dict.fromkeys(unit.given.owner for unit in others):
            mine = [unit for unit in others if unit.given.owner == owner]
            self._worker.submit(self.as_viewer(owner)._unit_reader, mine, handover)
        return handover

    def _stream_errand(self, stream: str, order: Order, trigger: Trigger) -> Errand | None:
        errand = self._errand(Conversation(messages=()), order)
        return None if errand is None else attrs.evolve(errand, id=_stream_id(stream, order), trigger=trigger)

    async def _events_of(self, id: str) -> list[Recorded]:
        """Every event that was ever handed in to a stream, in order."""
        return list(in_order(entry for entry in await self._visible_log() if errand_id(entry) == id))

    async def _kept_events(self, stream: str, order: Order) -> list[Recorded]:
        """Every event of a stream that was kept as it is, for want of a model."""
        kept = await self._words_of(StoredSession(id=stream), order)
        return [entry for entry in kept if entry.assertion.errand is None]

    async def _streams(self) -> list[Unit]:
        """The words that wait in this viewer's streams, those included that are being read."""
        visible = (None, self._reading.viewer)
        waiting = await self._waiting(AssertionState.PENDING)
        return [unit for unit in waiting if unit.errand.streamed and unit.given.owner in visible]

    async def _unread(self, id: str) -> Unit | None:
        """The words of a stream that wait and are not being read yet, if there are any."""
        busy = self._worker.busy  # looked at before and after: what ends meanwhile does not wait any more
        unit = next((unit for unit in await self._streams() if unit.errand.id == id), None)
        busy |= self._worker.busy
        words = tuple(recorded for recorded in unit.words if recorded.id not in busy) if unit else ()
        return attrs.evolve(unit, words=words) if unit and words else None

    async def _awaited(self, id: str, *, flush: bool) -> Handover:
        """Read a stream if it is due, else watch it until it is."""
        handover = self._worker.stream(id)
        unit = await self._unread(id)
        if unit is None:
            self._worker.end_stream(id)
            handover.end()
            return next(reversed(self._worker.reading(id)), handover)
        now = self._reading.clock()
        if flush or due_at(unit, unit.errand.trigger or Trigger(), now) <= now:
            self._worker.end_stream(id)
            reader = UnitReader(self._read_events, self._give_up)
            self._worker.submit(reader, [await self._with_context(unit)], handover)
        else:
            self._worker.watch(id, self._watch)
        return handover

    async def _read_events(self, units: Sequence[Unit]) -> list[Remembered | FactMemError]:
        """Read events. Where another process has read some of them meanwhile, the others are read by themselves."""
        return [await self._read_left(unit) for unit in units]

    async def _read_left(self, unit: Unit) -> Remembered | FactMemError:
        left = unit
        while True:
            (result,) = await self._process([left])
            waiting = {recorded.id for other in await self._streams() for recorded in other.words}
            words = tuple(recorded for recorded in left.words if recorded.id in waiting)
            if isinstance(result, FactMemError) or not words or words == left.words:
                break
            left = attrs.evolve(left, words=words)
        if left is unit or isinstance(result, FactMemError):
            return result
        return attrs.evolve(result, records=(await self._standing(unit.words)).records)

    async def _with_context(self, unit: Unit) -> Unit:
        """Let events that were read before be read along."""
        overlap = unit.errand.trigger.overlap if unit.errand.trigger else 0
        read = [event for event in await self._events_of(unit.errand.id) if event.id not in unit.ids]
        return attrs.evolve(unit, context=tuple(read[-overlap:]) if overlap else ())

    async def _watch(self, id: str, over: anyio.Event) -> None:
        """Wait until a stream is due, and read it; unless the watch is over before that."""
        while not over.is_set():
            unit = await self._unread(id)
            now = self._reading.clock()
            due = now if unit is None else due_at(unit, unit.errand.trigger or Trigger(), now)
            if due > now:
                with anyio.move_on_after((due - now).total_seconds()):
                    await over.wait()
            elif not over.is_set():
                await self._awaited(id, flush=False)


def _fresh(stream: str, events: Sequence[Message], before: Sequence[Recorded], now: dt.datetime) -> Conversation:
    """The events that are new, each with an id, in the order of their times."""
    known = {recorded.assertion.details.evidence[0].message_id for recorded in before}
    fresh: dict[str, Message] = {}
    for event in events:
        if not isinstance(event, Message):
            raise InvalidDataError(f"an event must be a Message, not a {type(event).__name__}")
        id = event.id or _event_id(event)
        if id not in known:
            fresh.setdefault(id, attrs.evolve(event, id=id, timestamp=event.timestamp or now))
    ordered = sorted(fresh.values(), key=lambda event: event.timestamp or now)
    return Conversation(messages=ordered, id=stream)


def _event_id(event: Message) -> str:
    said = [event.role, event.name, redact(event.content).text, event.timestamp and event.timestamp.isoformat()]
    return f"content:{_digest(said)}"


def _stream_id(stream: str, order: Order) -> str:
    place: Place = order.place
    walls = [place.scope.tenant, list(place.scope.segments), list(place.subject.key), order.given.owner]
    return f"{STREAM}{_digest([stream, *walls])}"


def _digest(data: object) -> str:
    return hashlib.blake2b(json.dumps(data, ensure_ascii=False).encode(), digest_size=16).hexdigest()
