"""JSON values one at a time from a stream, so that a large file is never in memory as a whole."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, TextIO

from factmem.errors import ConversationFormatError

__all__ = ["MAX_VALUE_CHARS", "json_values"]

MAX_VALUE_CHARS: Final = 256 * 1024 * 1024
"""The most characters that one conversation or sample may have in a file."""

_CHUNK: Final = 64 * 1024
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_SLACK: Final = 16
"""An error nearer to the end of what was read than this may vanish when more is read (``nul``, ``\\u12``)."""


class _Buffer:
    """What was read of the stream and not yet parsed."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self.text = ""
        self.at = 0
        self.ended = False

    def read_more(self) -> None:
        """Read as much again as is there already, so that a large value is scanned only a few times."""
        pending = self.text[self.at :]
        read = self._stream.read(max(_CHUNK, len(pending)))
        self.text, self.at, self.ended = pending + read, 0, not read

    def peek(self) -> str:
        """Return the next character that is no white space; empty at the end."""
        while True:
            space = _SPACE.match(self.text, self.at)
            assert space is not None
            self.at = space.end()
            if self.at < len(self.text) or self.ended:
                return self.text[self.at : self.at + 1]
            self.read_more()


def json_values(stream: TextIO) -> Iterator[tuple[str, Any]]:
    """Yield the elements of a top-level list, or the values that follow each other (JSON Lines), with their paths.

    A value that stands alone has the path ``$``. NaN and infinity, which are no JSON, read as null.

    Raises:
        ConversationFormatError: it is no JSON, is nested too deeply, or one value is too large.
        UnicodeDecodeError: the stream's, from its text.
    """
    buffer = _Buffer(stream)
    if buffer.peek() == "[":
        yield from _elements(buffer)
        return
    index = 0
    while buffer.peek():
        value = _value(buffer, f"$[{index}]" if index else "$")
        yield ("$" if index == 0 and not buffer.peek() else f"$[{index}]"), value
        index += 1


def _elements(buffer: _Buffer) -> Iterator[tuple[str, Any]]:
    buffer.at += 1
    if buffer.peek() == "]":
        buffer.at += 1
        return _end(buffer)
    index = 0
    while True:
        path = f"$[{index}]"
        buffer.peek()
        yield path, _value(buffer, path)
        index += 1
        match buffer.peek():
            case ",":
                buffer.at += 1
            case "]":
                buffer.at += 1
                return _end(buffer)
            case "":
                raise ConversationFormatError("the file ends within a list: it is incomplete", path=path)
            case _:
                raise ConversationFormatError("expected a comma or the end of the list after this", path=path)


def _end(buffer: _Buffer) -> None:
    if buffer.peek():
        raise ConversationFormatError("something follows the end of the list; put all conversations into one list")


def _not_finite(_: str) -> None:
    return None


_DECODER: Final = json.JSONDecoder(parse_constant=_not_finite)


def _value(buffer: _Buffer, path: str) -> Any:
    while True:
        try:
            value, end = _DECODER.raw_decode(buffer.text, buffer.at)
        except json.JSONDecodeError as error:
            if buffer.ended or not _may_continue(error, buffer.text):
                raise _no_json(error, path) from None
        except RecursionError:
            raise ConversationFormatError("the JSON is nested too deeply", path=path) from None
        except ValueError:
            raise ConversationFormatError("the JSON holds a number that is too long to read", path=path) from None
        else:
            if end < len(buffer.text) or buffer.ended:  # a number at the end may have more digits
                buffer.at = end
                return value
        if len(buffer.text) - buffer.at > MAX_VALUE_CHARS:
            raise ConversationFormatError(
                f"one value is longer than {MAX_VALUE_CHARS:,} characters; split the file into conversations", path=path
            )
        buffer.read_more()


def _may_continue(error: json.JSONDecodeError, text: str) -> bool:
    return error.msg.startswith("Unterminated string") or error.pos > len(text) - _SLACK


def _no_json(error: json.JSONDecodeError, path: str) -> ConversationFormatError:
    return ConversationFormatError(
        f"not JSON: {error.msg}; give a JSON or JSON Lines file, or convert it to a list of role and content", path=path
    )
