"""Reading conversation files: plain or gzipped, in any of Unicode's encodings, one conversation at a time."""

from __future__ import annotations

import contextlib
import datetime as dt
import gzip
import io
import json
import os
import zlib
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import BinaryIO, Final

import attrs

from factmem.abc import Conversation
from factmem.detection.conversations.chat import conversations_of
from factmem.detection.conversations.json_stream import json_values
from factmem.errors import ConversationFormatError

__all__ = ["ConversationFile", "conversations_in", "read_conversations"]

_GZIP: Final = b"\x1f\x8b"


@attrs.define(eq=False)
class ConversationFile:
    """The conversations of a file; each iteration opens it anew and holds one conversation at a time.

    Attributes:
        path: the file.
        size: how large it is on disk, in bytes: the whole of a progress bar.
        bytes_read: how much of that the present iteration has read.
        changed_at: when it was last changed; stands in for the beginning of conversations that tell no time,
            so that reading the file again gives the same facts.
    """

    path: Path
    size: int
    changed_at: dt.datetime
    bytes_read: int = attrs.field(default=0, init=False)

    def __iter__(self) -> Iterator[Conversation]:
        """Read the conversations in the order of the file.

        Raises:
            ConversationFormatError: the file is not what it should be; the path says where, and what was
                yielded before stands.
        """
        self.bytes_read = 0
        try:
            with self.path.open("rb") as file, contextlib.closing(conversations_in(file)) as conversations:
                for conversation in conversations:
                    self.bytes_read = file.tell()
                    if conversation.started_at is None:
                        conversation = attrs.evolve(conversation, started_at=self.changed_at)
                    yield conversation
                self.bytes_read = self.size
        except OSError as error:
            raise _unreadable(self.path, error) from None


def read_conversations(path: str | os.PathLike[str]) -> ConversationFile:
    """Return the conversations of a JSON or JSON Lines file, gzipped or not, whatever its name.

    It reads, each alone, in a list, or one a line: messages with ``role`` and ``content`` (and ``name``,
    ``id``, ``timestamp`` if there are); conversations with ``messages`` (and ``id``, ``created_at``); the
    samples of LoCoMo, each session a conversation of its own, what an image shows in brackets behind the
    words; the questions of LongMemEval, whose sessions come once each, however many questions share them.
    Times without a zone are taken as UTC. It blocks: call it in a thread from async code.

    Raises:
        ConversationFormatError: the file cannot be opened. What is wrong inside is raised while reading.
    """
    file = Path(path)
    try:
        found = file.stat()
    except (OSError, ValueError) as error:
        raise _unreadable(file, error) from None
    return ConversationFile(file, found.st_size, dt.datetime.fromtimestamp(found.st_mtime, dt.UTC))


def _unreadable(path: Path, error: Exception) -> ConversationFormatError:
    reason = error.strerror if isinstance(error, OSError) and error.strerror else "not a file's name"
    return ConversationFormatError(f"{path} cannot be read: {reason}; check the path and its permissions")


def conversations_in(stream: BinaryIO) -> Generator[Conversation, None, None]:
    """Yield the conversations of a binary stream that can be rewound; see `read_conversations`.

    Raises:
        ConversationFormatError: it holds something else.
        OSError: the stream's own.
    """
    try:
        text = _text(stream)
        try:
            yield from conversations_of(json_values(text))
        finally:
            text.detach()  # the stream is the caller's to close
    except UnicodeDecodeError as error:
        raise ConversationFormatError(f"the file is not {error.encoding} text; save it as UTF-8") from None
    except (gzip.BadGzipFile, EOFError, zlib.error):
        raise ConversationFormatError("the gzip data is damaged or incomplete; fetch the file again") from None


def _text(stream: BinaryIO) -> io.TextIOWrapper:
    zipped = _head(stream).startswith(_GZIP)
    binary = gzip.GzipFile(fileobj=stream) if zipped else stream
    return io.TextIOWrapper(binary, encoding=json.detect_encoding(_head(binary)), newline="")


def _head(stream: BinaryIO | gzip.GzipFile) -> bytes:
    head = stream.read(4)
    stream.seek(0)
    return head
