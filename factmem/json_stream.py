"""JSON read from a stream one value at a time, so that a large file is never in memory as a whole."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final, TextIO

from factmem.errors import FileFormatError
from factmem.patterns import lazy_pattern

MAX_VALUE_CHARS: Final = 256 * 1024 * 1024
"""Maximum length of one value of a stream, such as a conversation, in characters."""

_CHUNK: Final = 64 * 1024
_SPACE: Final = lazy_pattern(r"[ \t\r\n]*")
_SLACK: Final = 16
r"""A parse error this close to the end of the buffer may vanish when more is read (``nul``, ``\u12``)."""


def json_rows(
    stream: TextIO,
    *keys: str,
    fault: type[FileFormatError] = FileFormatError,
    most: int | None = None,
    beside: Callable[[str, Mapping[str, Any], int], object] = lambda path, others, rows: None,
) -> Iterator[tuple[str, Any]]:
    """Yield the rows of a file, with their paths.

    Rows are the elements of a top-level list, or of a list under one of the keys of a top-level object; each other
    top-level value is a row itself. So a list, the answer of an API that wraps one, and JSON Lines read alike. NaN and
    infinity, which are not JSON, read as null.

    Args:
        stream: Text to read.
        keys: Keys of lists, at the top level of an object.
        fault: Type of the errors.
        most: Maximum length of a row in characters (default: `MAX_VALUE_CHARS`).
        beside: A function that is called for each object with such lists, after its rows, with its path, what else it
            holds, and the number of the rows.

    Raises:
        FileFormatError: It is not JSON, is nested too deeply, or one value is too large.
        UnicodeDecodeError: Raised by the stream.
    """
    buffer = _Buffer(stream, fault, most)
    index = 0
    while first := buffer.peek():
        path = f"$[{index}]" if index else "$"
        match first:
            case "[":
                yield from _elements(buffer, path)
                if buffer.peek():
                    raise buffer.fault("something follows the end of the list; put all of it into one list")
            case "{":
                yield from _members(buffer, path, keys, beside)
            case _:
                yield path, _value(buffer, path)
        index += 1


def kind_of_json(value: Any) -> str:
    """Return the kind of a JSON value with its article, for errors: it tells nothing of the value."""
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")


class _Buffer:
    """Text that was read from the stream and not parsed yet."""

    def __init__(self, stream: TextIO, fault: type[FileFormatError], most: int | None) -> None:
        self._stream = stream
        self._dropped = 0
        self.fault = fault
        self.most = MAX_VALUE_CHARS if most is None else most
        self.text = ""
        self.at = 0
        self.ended = False

    def read_more(self) -> None:
        """Double the buffer, so that a large value is scanned only a few times."""
        pending = self.text[self.at :]
        self._dropped += self.at
        read = self._stream.read(max(_CHUNK, len(pending)))
        self.text, self.at, self.ended = pending + read, 0, not read

    @property
    def position(self) -> int:
        """Number of characters parsed so far."""
        return self._dropped + self.at

    def peek(self) -> str:
        """Return the next character that is not white space; empty at the end."""
        while True:
            space = _SPACE.match(self.text, self.at)
            assert space is not None
            self.at = space.end()
            if self.at < len(self.text) or self.ended:
                return self.text[self.at : self.at + 1]
            self.read_more()


def _elements(buffer: _Buffer, path: str) -> Iterator[tuple[str, Any]]:
    """Yield the elements of the list that begins here."""
    buffer.at += 1
    if buffer.peek() == "]":
        buffer.at += 1
        return
    index = 0
    while True:
        where = f"{path}[{index}]"
        buffer.peek()
        yield where, _value(buffer, where)
        index += 1
        if not _continues(buffer, "]", where):
            return


def _members(
    buffer: _Buffer, path: str, keys: tuple[str, ...], beside: Callable[[str, Mapping[str, Any], int], object]
) -> Iterator[tuple[str, Any]]:
    """Yield the elements of the lists under some keys of the object that begins here; else the object itself."""
    buffer.at += 1
    others: dict[str, Any] = {}
    within, length, rows = False, 0, 0
    if buffer.peek() == "}":
        buffer.at += 1
        yield path, others
        return
    while True:
        buffer.peek()
        key = _value(buffer, path)
        if not isinstance(key, str) or buffer.peek() != ":":
            raise buffer.fault("not JSON: expected a key and a colon", path=path)
        buffer.at += 1
        where = f"{path}.{key}" if key.isidentifier() else path
        if buffer.peek() == "[" and key in keys:
            within = True
            for element in _elements(buffer, where):
                rows += 1
                yield element
        else:
            before = buffer.position
            others[key] = _value(buffer, where)
            length += buffer.position - before
            if length > buffer.most:
                raise _too_long(buffer, path)
        if not _continues(buffer, "}", where):
            break
    if within:
        beside(path, others, rows)
    else:
        yield path, others


def _continues(buffer: _Buffer, end: str, path: str) -> bool:
    """Return whether a comma follows, or else the end of a list or an object."""
    following = buffer.peek()
    if following not in (",", end):
        kind = "list" if end == "]" else "object"
        expected = f"expected a comma or the end of the {kind} after this"
        raise buffer.fault(expected if following else f"the file ends within a {kind}: it is incomplete", path=path)
    buffer.at += 1
    return following == ","


_DECODER: Final = json.JSONDecoder(parse_constant=lambda name: None)
"""NaN and infinity read as null."""


def _value(buffer: _Buffer, path: str) -> Any:
    while True:
        try:
            value, end = _DECODER.raw_decode(buffer.text, buffer.at)
        except json.JSONDecodeError as error:
            if buffer.ended or not _may_continue(error, buffer.text):
                raise buffer.fault(f"not JSON: {error.msg}; give a JSON or JSON Lines file", path=path) from None
        except RecursionError:
            raise buffer.fault("the JSON is nested too deeply", path=path) from None
        except ValueError:
            raise buffer.fault("the JSON holds a number that is too long to read", path=path) from None
        else:
            if end < len(buffer.text) or buffer.ended:  # a number at the end may have more digits
                buffer.at = end
                return value
        if len(buffer.text) - buffer.at > buffer.most:
            raise _too_long(buffer, path)
        buffer.read_more()


def _too_long(buffer: _Buffer, path: str) -> FileFormatError:
    return buffer.fault(f"one value is longer than {buffer.most:,} characters; split the file", path=path)


def _may_continue(error: json.JSONDecodeError, text: str) -> bool:
    return error.msg.startswith("Unterminated string") or error.pos > len(text) - _SLACK
