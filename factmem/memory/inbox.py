"""The inbox of a memory: streams of events, words that wait for a model, and what waits for a decision of people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Unpack

from factmem.abc import Message
from factmem.memory.backend import Backend
from factmem.memory.background import Submission
from factmem.memory.context import Context
from factmem.memory.dead_letters import DeadLetters
from factmem.memory.jobs import Trigger
from factmem.memory.observed import observed
from factmem.memory.quarantine import Quarantine
from factmem.memory.remembering import About, Rememberer
from factmem.memory.streams import Streams

__all__ = ["Inbox"]


@observed()
class Inbox:
    """Words and findings on their way into a memory: read later, tried again, or let in by people.

    See `Memory.inbox`.
    """

    def __init__(self, context: Context, backend: Backend) -> None:
        self._context = context
        self._backend = backend
        self._rememberer = Rememberer(context, backend)
        self._streams = Streams(context, backend)

    @property
    def reads_words(self) -> bool:
        """Whether a model, or a detector that was given, reads the words that are submitted."""
        return self._backend.reads_words

    @property
    def quarantine(self) -> Quarantine:
        """Assertions of untrusted origins or uncertain meaning, until they are accepted or rejected."""
        return Quarantine(self._context, self._backend)

    @property
    def dead_letters(self) -> DeadLetters:
        """Words that a model could not read, kept as they were said."""
        return DeadLetters(self._context, self._backend)

    async def ingest_events(
        self,
        stream: str,
        events: Sequence[Message] | Sequence[Mapping[str, Any]],
        *,
        trigger: Trigger | None = None,
        flush: bool = False,
        **about: Unpack[About],
    ) -> Submission:
        """Add events to a stream. They are on disk when this returns, and are read when the trigger fires.

        An event is identified by its id: a second one with the same id changes nothing, and is counted in
        `Submission.skipped`; it is read once more only if other subjects, concepts or topics are looked for. Events are
        read in the order of their times. Until then they can be recalled as they were said. A restart continues at the
        same point. Without a model, events are kept as they are.

        The same event from two processes at the same moment is kept once if it has a timestamp. Without one, each
        process gives it a time, and both are kept until they are read; findings in them are kept once.

        In a provider with the four verbs only, events are read before this returns, and only the process that read
        them recognizes them.

        Args:
            stream: The name of the stream; the same name at the same place is the same stream.
            events: Messages, or events of Memory Bank as dicts; those without an id are identified by their content and
                time.
            trigger: When to read; at once if None.
            flush: Read waiting events now, regardless of the trigger.
            about: Subject, scope and so on; see `About`.

        Returns:
            The submission; the same one for all events that are read together.

        Raises:
            CapabilityError: The memory was not opened with ``async with``; or the provider has the four verbs only, and
                a detail, an owner or a trigger that waits is given.
            InvalidDataError: An event lies in the future, or the stream's name is not legal.
        """
        return await self._streams.ingest(stream, events, trigger, about, flush=flush)

    async def flush(self) -> None:
        """Read all waiting events of this viewer's streams, regardless of their triggers, and wait for it.

        Raises:
            CapabilityError: The memory was not opened with ``async with``.
        """
        await self._streams.flush()

    async def resume(self, *ids: str) -> Submission:
        """Read unread words of earlier processes, of any owner, in the background, as at every opening.

        Streams whose trigger has not fired are watched again.

        With ids, find earlier submissions again, in any process, whether they are read or not:

            ids = (await memory.remember_many(texts)).ids  # to be kept by the program
            submission = await memory.inbox.resume(*ids)  # perhaps tomorrow
            outcomes = await submission.wait()

        Args:
            ids: Only these jobs, by `Submission.ids`. The outcome of a finished one has its failure, or its present
                records without the changes. The id of a stream that waits for its trigger must be the only one.

        Returns:
            A submission of public words and the viewer's own. It is finished when those of others are read, too, and
            reports nothing about them.

        Raises:
            CapabilityError: The memory was not opened with ``async with``; or ids are given, and the provider has the
                four verbs only.
            RecordNotFoundError: An id names no words that the viewer may see, or a further reading of a
                `StoredSession`, which leaves no trace but what it finds.
            OutOfViewError: Facts about subjects outside of this view are looked for in words that wait.
        """
        return await (self._streams.found(ids) if ids else self._streams.resume())

    async def extract(self, text: str) -> tuple[str, ...]:
        """Return the atomic statements of a text, each understandable by itself. Nothing is stored.

        A blank text costs no call of a model.

        Raises:
            CapabilityError: This memory has no analyst to ask.
            ModelError: The model failed.
        """
        return await self._rememberer.extract(text)
