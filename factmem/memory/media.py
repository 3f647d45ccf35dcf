"""Media: what is in images, sound, video and files becomes words of its own, with their places, before it is stored.

The words of a medium are a conversation of their own, whose id is the hash of its bytes. So the same bytes are read
once at a place. Their messages have the role ``document``: they are quarantined, and no model reads them for facts,
unless the user points to them.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Final

import anyio
import attrs
from anyio import to_thread

from factmem.abc.detector import Conversation, Message
from factmem.abc.media import Passage
from factmem.abc.observer import Operation
from factmem.details import MediumPart, Origin, Treatment
from factmem.detection.flags import flags_in
from factmem.errors import CapabilityError, MediumError, MissingPackageError, ModelError
from factmem.llm.asking import bounded_gather, in_turn, metered
from factmem.media import Medium
from factmem.media.medium import fingerprint
from factmem.media.pdf_text import PdfError, pdf_pages, reads_pdf
from factmem.media.references import points_to_media
from factmem.memory.backend import Backend
from factmem.memory.context import Context, MediaSettings
from factmem.memory.reader import ReadingPart
from factmem.memory.screening import FlaggedPolicy
from factmem.observing import nested
from factmem.private_files import make_folders, replace_file
from factmem.recall.index.selection import LogPart
from factmem.records import LogEntry, Place, Recorded

_log = logging.getLogger("factmem")

_CONVERSATION: Final = "media:"
_PDF: Final = "application/pdf"
_TRIED: Final = 10_000
"""Number of media whose reading is remembered by one memory."""


@attrs.frozen(kw_only=True, eq=False)
class _Found:
    """A medium in a conversation, with its bytes."""

    medium: Medium
    data: bytes = attrs.field(repr=False)
    whole: MediumPart
    beside: Message
    said_at: dt.datetime


class MediaInbox(ReadingPart):
    """Reads the media in submitted words."""

    @property
    def _settings(self) -> MediaSettings:
        return self._context.policies.media

    async def separated(
        self, conversations: Sequence[Conversation], place: Place, owner: str | None, *, lenient: bool
    ) -> tuple[Sequence[Conversation], Sequence[Conversation]]:
        """Return conversations and the words in their media, apart. Nothing is written, but for bytes to be kept.

        Args:
            conversations: The conversations.
            place: Place that they are kept at.
            owner: Their owner.
            lenient: Whether media that fail are counted and logged, and not tried again by this process, instead of
                being an error.

        Returns:
            The conversations without media, in which those that cannot be read are counted; and a conversation for each
            medium that was read now and has words.

        Raises:
            CapabilityError: The model takes no media of a type.
            MediumError: A medium is too large, damaged, or of another type than stated.
            ModelError: The model failed, or the budget is spent.
        """
        if not any(message.media for conversation in conversations for message in conversation.messages):
            return conversations, ()
        tries = _Tries(self._backend.media_tried, (place.key, owner), lenient)
        media = [
            (conversation, [await self._media_of(message, conversation, tries) for message in conversation.messages])
            for conversation in conversations
        ]
        found: dict[str, _Found] = {}
        for item in (item for _, messages in media for items in messages for item in items):
            found.setdefault(item.whole.sha256, item)
        words = await self._words(found, place, owner, tries)
        bare = []
        for conversation, loaded in media:
            pairs = zip(conversation.messages, loaded, strict=True)
            messages = [_without_media(message, items, words) for message, items in pairs]
            bare.append(attrs.evolve(conversation, messages=messages))
        return bare, [each for each in words.values() if each is not None and each.messages]

    async def _media_of(self, message: Message, conversation: Conversation, tries: _Tries) -> list[_Found]:
        """Return the media of a message that can be loaded."""
        found: list[_Found] = []
        for medium in _readable(message):
            with tries.of(str(medium.content) if isinstance(medium.content, Path) else ""):
                data = await to_thread.run_sync(medium.loaded, self._settings.max_bytes)
                whole = MediumPart(sha256=await to_thread.run_sync(fingerprint, data), mime=medium.mime)
                said_at = message.timestamp or conversation.started_at or self._context.said_now
                found.append(_Found(medium=medium, data=data, whole=whole, beside=message, said_at=said_at))
        return found

    async def _words(
        self, found: Mapping[str, _Found], place: Place, owner: str | None, tries: _Tries
    ) -> dict[str, Conversation | None]:
        """Return the words of each medium: none of those that are known, and None for those that cannot be read."""
        known = await self._known(found, place, owner) | {sha for sha in found if tries.done(sha)}
        new = [item for sha, item in found.items() if sha not in known]
        reading = [partial(self._conversation, item, tries) for item in new]
        read = await bounded_gather(reading, self._backend.concurrency)
        return {item.whole.sha256: each for item, each in zip(new, read, strict=True)}

    async def _known(self, hashes: Collection[str], place: Place, owner: str | None) -> set[str]:
        """Return which media have words at a place already, whatever became of them."""
        part = LogPart(conversations=[_CONVERSATION + sha for sha in hashes])
        recorded = await self._reader.recorded(
            part, lambda entry: entry.assertion.place.key == place.key and entry.assertion.details.owner == owner
        )
        return set(media_cited(recorded))

    async def _conversation(self, found: _Found, tries: _Tries) -> Conversation | None:
        with tries.of(found.whole.sha256):
            passages = await self._passages(found)
            if passages is None:
                return None
            if not passages:
                tries.add(found.whole.sha256)
            elif self._settings.keep is not None:
                await to_thread.run_sync(_keep, self._settings.keep, found)
            return await to_thread.run_sync(self._told, found, passages)  # a file may have a million characters
        return None

    async def _passages(self, found: _Found) -> Sequence[Passage] | None:
        """Return what is in a medium; None if nothing here can read it."""
        passages = [Passage(found.medium.caption, found.whole)] if found.medium.caption.strip() else []
        mime, reader = found.whole.mime, self._backend.media_reader
        if mime == _PDF and reads_pdf():
            passages += await self._pages(found)
        elif mime == _PDF and reader is None:
            _log.warning("a PDF was not read: %s", MissingPackageError("pypdf", extra="pdf"))
        if (mime != _PDF or not passages) and reader is not None:
            if not reader.takes(mime) and not passages:
                raise CapabilityError(f"the model takes no {mime}: give a caption, convert it, or use another model")
            if reader.takes(mime):
                with metered(self._backend.worker.spent):
                    async with in_turn():
                        with nested(Operation.ASK, records_in=1) as call:
                            read = await reader.read_medium(found.data, found.whole)
                            call.record_result(len(read))
                passages += read
        elif not passages:
            return None
        if sum(len(passage.text) for passage in passages) > self._settings.max_chars:
            raise MediumError("the medium holds more text than MediaSettings.max_chars: give it in parts")
        return passages

    def _told(self, found: _Found, passages: Iterable[Passage]) -> Conversation:
        """Return the words of a medium; if a model reads them for facts, behind what the user says about it."""
        beside = found.beside
        vouched = beside.origin is Origin.USER and (found.medium.vouched or points_to_media(beside.content))
        messages = [
            Message(
                content=passage.text,
                role="document",
                id=str(number),
                timestamp=found.said_at,
                treatment=Treatment.FACTS if vouched and not self._waits(passage.text) else None,
                medium=passage.part,
            )
            for number, passage in enumerate(passages, start=1)
        ]
        if beside.content.strip() and any(message.treatment is Treatment.FACTS for message in messages):
            context = attrs.evolve(
                beside, id="0", media=(), not_text=0, timestamp=found.said_at, treatment=Treatment.CONTEXT
            )
            messages.insert(0, context)
        return Conversation(messages=messages, id=_CONVERSATION + found.whole.sha256, started_at=found.said_at)

    def _waits(self, text: str) -> bool:
        """Return whether no model may read a text, though the user points to its medium: it gives orders."""
        policy = self._context.policies.flagged
        return policy in (FlaggedPolicy.QUARANTINE_OTHERS, FlaggedPolicy.QUARANTINE_ALL) and bool(flags_in(text))

    async def _pages(self, found: _Found) -> list[Passage]:
        settings = self._settings
        try:
            pages = await pdf_pages(
                found.data, max_pages=settings.max_pages, max_chars=settings.max_chars, seconds=settings.pdf_seconds
            )
        except PdfError as error:
            raise MediumError(f"the PDF cannot be read: {error}") from None
        return [
            Passage(text, attrs.evolve(found.whole, page=number)) for number, text in enumerate(pages, start=1) if text
        ]


@attrs.frozen
class _Tries:
    """Media that were tried at a place by this process, so that what gives nothing is not tried at every turn."""

    _all: dict[object, None]
    _place: object
    _lenient: bool

    def done(self, sha: str) -> bool:
        return (self._place, sha) in self._all

    def add(self, sha: str) -> None:
        self._all[self._place, sha] = None
        while len(self._all) > _TRIED:
            del self._all[next(iter(self._all))]

    @contextlib.contextmanager
    def of(self, sha: str) -> Iterator[None]:
        """Log errors of a medium, unless they are to be errors."""
        try:
            yield
        except (CapabilityError, MediumError, ModelError) as error:
            if not self._lenient:
                raise
            self.add(sha)
            _log.warning("an attached medium was left out: %s: %s", type(error).__name__, error)


def _readable(message: Message) -> Sequence[Medium]:
    seen = message.treatment not in (Treatment.IGNORE, Treatment.CONTEXT)
    return message.media if message.detectable and seen else ()


def _without_media(message: Message, media: Sequence[_Found], words: Mapping[str, Conversation | None]) -> Message:
    """Return a message without its media, of which those that were not read are counted.

    Args:
        message: The message.
        media: Those of its media that were loaded.
        words: The words of each medium that was read now; None if it cannot be read.
    """
    hashes = {item.whole.sha256 for item in media}
    unread = len(message.media) - len(media) + sum(sha in words and words[sha] is None for sha in hashes)
    return attrs.evolve(message, media=(), not_text=message.not_text + unread)


def _keep(folder: Path, found: _Found) -> None:
    make_folders(folder)
    replace_file(folder / found.whole.sha256, found.data)


def media_cited(log: Iterable[LogEntry]) -> Iterator[str]:
    """Yield the hashes of the media that assertions of a log were read from."""
    for entry in log:
        if isinstance(entry, Recorded):
            yield from (item.medium.sha256 for item in entry.assertion.details.evidence if item.medium is not None)


async def drop_kept_media(context: Context, backend: Backend, erased: Iterable[LogEntry]) -> None:
    """Remove the bytes of media that nothing in the store cites any more after an erasure.

    Args:
        context: The policies.
        backend: The store.
        erased: What was erased.
    """
    folder, hashes = context.policies.media.keep, set(media_cited(erased))
    if folder is None or not hashes:
        return
    log = await backend.mirror.log(LogPart(conversations=[_CONVERSATION + sha for sha in hashes]))
    for sha in hashes.difference(media_cited(log)):
        await anyio.Path(folder / sha).unlink(missing_ok=True)
