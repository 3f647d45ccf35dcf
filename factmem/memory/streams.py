"""Streams of events: messages that come one by one and are read together, when a trigger says so."""

from __future__ import annotations

import abc
import datetime as dt
import hashlib
import json
from collections.abc import Collection, Sequence
from typing import Final

import anyio
import attrs

from factmem.abc import Conversation, DetectionRequest, DropReason, Message
from factmem.detection import OriginPolicy, redact
from factmem.errors import CapabilityError, InvalidDataError
from factmem.memory.errands import STREAM, Errand, Trigger
from factmem.memory.generating import MemoryGenerating, StoredSession
from factmem.memory.handover import Handover
from factmem.memory.journal import Unit, errand_id, in_order
from factmem.memory.observed import observed
from factmem.memory.remembering import About, Handed, Order, settled, warn_of_not_text
from factmem.memory.waist import waist_words
from factmem.names import checked_name
from factmem.recall import LogPart
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
    times = [_after(max(handed_in), min(trigger.idle or ABANDONED_AFTER, ABANDONED_AFTER))]
    if trigger.interval is not None:
        times.append(_after(min(handed_in), trigger.interval))
    return min(times)


def _after(start: dt.datetime, pause: dt.timedelta) -> dt.datetime:
    """The end of a pause; the end of all time, where it would lie beyond that."""
    try:
        return start + pause
    except OverflowError:
        return dt.datetime.max.replace(tzinfo=dt.UTC)


@observed()
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
        origins: OriginPolicy | None = None,
    ) -> Handover:
        """Hand over events of a stream. They are on disk when this returns, and read when the trigger says so.

        An event is known by its id: handed in again, it changes nothing, whatever it says then. Events
        are read in the order of their times, not of their arrival. Until they are read they can be
        recalled as they were said. A restart continues where the last process left off.

        What is handed in twice at the same moment is kept once, too: in one process, because a stream takes
        in one call at a time, and by two processes, if the event tells its time. Without a time, each of two
        processes gives it one, and both are kept until they are read; then the first one counts, and what is
        found in it is there once.

        Without a model, events are kept as they are and nothing is waited for.

        A provider with the four verbs only has nowhere to keep events that wait: there they are read before this
        returns, and only the process that read them passes them over when they are handed in again.

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
            origins: treatment of events by their origin, other than this memory's.

        Returns:
            What was handed over; the same for all that is read together.

        Raises:
            CapabilityError: the memory was not opened with ``async with``; or the provider has the four verbs only, and
                a source, an owner or a trigger that waits is given.
            InvalidDataError: an event lies in the future, or the stream's name is not legal.
            ReadOnlyError: this memory is read-only.
        """
        self._worker.check_running()
        checked_name(stream, what="a stream")
        order = self._ordered(
            About(
                subject=subject,
                scope=scope,
                source=source,
                private=private,
                looking_for=looking_for,
                origins=origins,
            )
        )
        if self._has_waist_only:
            return await self._ingested_through_the_waist(stream, events, order, trigger or Trigger())
        errand = self._stream_errand(stream, order, trigger or Trigger())
        id = _stream_id(stream, order)
        async with self._worker.alone(id):
            handed = await self._taken_in(stream, events, errand, order)
            alone = self._without_words(id, events)
            warn_of_not_text(alone + sum(item.not_text for item in handed))
            if errand is not None:
                handover = await self._awaited(errand.id, flush=flush)
                handover.drop(DropReason.NOT_TEXT, alone + sum(item.not_text for item in handed), errand.id)
                return handover
        handover = await self._submitted(handed)
        handover.drop(DropReason.NOT_TEXT, alone)
        return handover

    def _without_words(self, id: str, events: Sequence[Message]) -> int:
        """Count the images, audio and files of new events without words; only this process knows them again."""
        new = {event.id or _event_id(event): event for event in events if _is_wordless(event)}
        if not new:
            return 0
        known = self._worker.read_events(f"{id}/not-text")
        found = [event for key, event in new.items() if key not in known and event.detectable]
        known.update(new)
        return sum(event.not_text for event in found)

    async def _ingested_through_the_waist(
        self, stream: str, events: Sequence[Message], order: Order, trigger: Trigger
    ) -> Handover:
        """Read events at once, those apart that this process has read; no other process knows of these."""
        self._check_representable(self._lasting(order.given))
        if not trigger.immediate:
            raise CapabilityError(
                f"{type(self._writing.provider).__name__} has the four verbs only: events cannot wait there for a "
                "count or a time. Leave these out of the Trigger, or use a provider that keeps history"
            )
        id = _stream_id(stream, order)
        async with self._worker.alone(id):
            read = self._worker.read_events(id)
            fresh = _fresh(stream, events, read, self._reading.clock())
            alone = self._without_words(id, events)
            warn_of_not_text(alone + fresh.not_text)
            if not fresh.messages:
                handover = settled(())
                handover.drop(DropReason.NOT_TEXT, alone)
                return handover
            found = await self._words(fresh)
            self._in_time(found.candidates)
            context = list(read.values())[-trigger.overlap :] if trigger.overlap else []
            errand = self._errand(fresh, order)
            outcomes = await self._kept_through_the_waist([waist_words(fresh, found, order.place, errand, context)])
            read.update({message.id: message for message in fresh.messages if message.id is not None})
            handover = settled(outcomes)
            handover.drop(DropReason.NOT_TEXT, alone + fresh.not_text)
            return handover

    async def flush(self) -> None:
        """Read all events that wait in this viewer's streams, whatever their triggers say, and wait for it.

        Raises:
            CapabilityError: the memory was not opened with ``async with``.
            ReadOnlyError: this memory is read-only.
        """
        self._worker.check_running()
        self._check_writable()
        ids = {unit.errand.id for unit in await self._streams()}
        for handover in (await self._read_streams(ids, flush=True)).values():
            await handover.wait()
        for id in ids:  # what somebody else has begun to read meanwhile, such as who resumes at the opening
            for handover in self._worker.reading(id):
                await handover.wait()

    async def resume(self) -> Handover:
        """Read in the background what an earlier process, of any owner, left unread. Done by itself at opening.

        Streams whose trigger does not say so yet are watched on.

        Returns:
            What is being read now, of what is public and the viewer's own. To wait for it is to wait for what
            is read for others, too; nothing of that is told.

        Raises:
            CapabilityError: the memory was not opened with ``async with``.
            ReadOnlyError: this memory is read-only.
        """
        self._worker.check_running()
        self._check_writable()
        held = self._worker.held  # looked at before and after: what ends meanwhile does not wait any more
        units = await self._waiting(AssertionState.PENDING)
        held |= self._worker.held
        others = [unit for unit in units if not unit.errand.streamed and not unit.ids <= held]
        visible = (None, self._reading.viewer)
        unseen = Handover([unit.errand.id for unit in others if unit.given.owner not in visible])
        handover = Handover([unit.errand.id for unit in others if unit.given.owner in visible], beside=unseen)
        for owner in dict.fromkeys(unit.given.owner for unit in others):
            mine = [unit for unit in others if unit.given.owner == owner]
            told = handover if owner in visible else unseen
            self._worker.submit(self.as_viewer(owner)._unit_reader, mine, told)
        streams = [unit for unit in units if unit.errand.streamed]
        for owner in dict.fromkeys(unit.given.owner for unit in streams):
            ids = {unit.errand.id for unit in streams if unit.given.owner == owner}
            await self.as_viewer(owner)._read_streams(ids, flush=False)
        return handover

    async def _taken_in(
        self, stream: str, events: Sequence[Message], errand: Errand | None, order: Order
    ) -> list[Handed]:
        """Put the events into the store that are new."""
        id = _stream_id(stream, order)
        before = [*(await self._events([id]))[id], *await self._kept_events(stream, order)]
        known = {message for recorded in before if (message := recorded.assertion.details.evidence[0].message_id)}
        fresh = _fresh(stream, events, known, self._reading.clock())
        if not fresh.messages:
            return []
        conversation, treatments = self._as_kept(fresh, fresh, errand, order)
        found = self._in_time((await self._words(conversation)).candidates)
        handed = await self._journalled([found], [errand], order, [treatments])
        return [attrs.evolve(item, not_text=fresh.not_text) for item in handed]

    def _stream_errand(self, stream: str, order: Order, trigger: Trigger) -> Errand | None:
        errand = self._errand(Conversation(messages=()), order)
        return None if errand is None else attrs.evolve(errand, id=_stream_id(stream, order), trigger=trigger)

    async def _events(self, ids: Collection[str]) -> dict[str, tuple[Recorded, ...]]:
        """Every event that was ever handed in to streams, in order, by the streams' ids."""
        events: dict[str, list[Recorded]] = {id: [] for id in ids}
        for entry in await self._visible_log(LogPart(errands=True), lambda entry: errand_id(entry) in events):
            if (id := errand_id(entry)) is not None:
                events[id].append(entry)
        return {id: in_order(entries) for id, entries in events.items()}

    async def _kept_events(self, stream: str, order: Order) -> list[Recorded]:
        """Every event of a stream that was kept as it is, for want of a model."""
        kept = await self._words_of(StoredSession(id=stream), order)
        return [entry for entry in kept if entry.assertion.errand is None]

    async def _streams(self) -> list[Unit]:
        """The words that wait in this viewer's streams, those included that are being read."""
        visible = (None, self._reading.viewer)
        waiting = await self._waiting(AssertionState.PENDING)
        return [unit for unit in waiting if unit.errand.streamed and unit.given.owner in visible]

    async def _unread(self, ids: Collection[str]) -> list[Unit]:
        """The words of streams that wait and are not being read yet, with those that are read along."""
        busy = self._worker.busy  # looked at before and after: what ends meanwhile does not wait any more
        units = [unit for unit in await self._streams() if unit.errand.id in ids]
        events = await self._events(ids) if any(_overlap(unit) for unit in units) else {}
        busy |= self._worker.busy
        unread = []
        for unit in units:
            if words := tuple(recorded for recorded in unit.words if recorded.id not in busy):
                left = attrs.evolve(unit, words=words)
                before = [event for event in events.get(unit.errand.id, ()) if event.id not in left.ids]
                context = tuple(before[-_overlap(unit) :]) if _overlap(unit) else ()
                unread.append(attrs.evolve(left, context=context))
        return unread

    async def _awaited(self, id: str, *, flush: bool) -> Handover:
        """Read a stream if it is due, else watch it until it is. Whoever asks must be `Worker.alone` with it."""
        found = await self._read_streams([id], flush=flush)
        return found[id] if id in found else self._worker.end_stream(id)

    async def _read_streams(self, ids: Collection[str], *, flush: bool) -> dict[str, Handover]:
        """Read the streams that are due, all of them together, and watch the others; return what is unread by id."""
        unread = await self._unread(ids)
        handovers = {unit.errand.id: self._worker.stream(unit.errand.id) for unit in unread}
        now = self._reading.clock()
        due = [unit for unit in unread if flush or _due_at(unit, now) <= now]
        for owner in dict.fromkeys(unit.given.owner for unit in due):
            mine = [unit for unit in due if unit.given.owner == owner]
            self._worker.submit_streams(self._unit_reader, mine)
        for id in handovers.keys() - {unit.errand.id for unit in due}:
            self._worker.watch(id, self._watch)
        return handovers

    async def _watch(self, id: str, over: anyio.Event) -> None:
        """Wait until a stream is due, and read it; unless the watch is over before that."""
        while not over.is_set():
            unread = await self._unread([id])
            now = self._reading.clock()
            due = max((_due_at(unit, now) for unit in unread), default=now)
            if due > now:
                with anyio.move_on_after((due - now).total_seconds()):
                    await over.wait()
                continue
            async with self._worker.alone(id):
                if not over.is_set():
                    await self._awaited(id, flush=False)


def _due_at(unit: Unit, now: dt.datetime) -> dt.datetime:
    return due_at(unit, unit.errand.trigger or Trigger(), now)


def _overlap(unit: Unit) -> int:
    """How many events that were read before are read along."""
    return unit.errand.trigger.overlap if unit.errand.trigger else 0


def _fresh(stream: str, events: Sequence[Message], known: Collection[str], now: dt.datetime) -> Conversation:
    """The events that are new, each with an id, in the order of their times."""
    fresh: dict[str, Message] = {}
    for event in events:
        if not isinstance(event, Message):
            raise InvalidDataError(f"an event must be a Message, not a {type(event).__name__}")
        id = event.id or _event_id(event)
        if id not in known and not _is_wordless(event):
            fresh.setdefault(id, attrs.evolve(event, id=id, timestamp=event.timestamp or now))
    ordered = sorted(fresh.values(), key=lambda event: event.timestamp or now)
    return Conversation(messages=ordered, id=stream)


def _is_wordless(event: Message) -> bool:
    """Whether an event is nothing but images, audio or files."""
    return event.not_text > 0 and not event.content.strip()


def _event_id(event: Message) -> str:
    said = [event.role, event.name, redact(event.content).text, event.timestamp and event.timestamp.isoformat()]
    return f"content:{_digest(said)}"


def _stream_id(stream: str, order: Order) -> str:
    place: Place = order.place
    walls = [place.scope.tenant, list(place.scope.segments), list(place.subject.key), order.given.owner]
    return f"{STREAM}{_digest([stream, *walls])}"


def _digest(data: object) -> str:
    return hashlib.blake2b(json.dumps(data, ensure_ascii=False).encode(), digest_size=16).hexdigest()
