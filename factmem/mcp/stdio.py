"""Serving over stdio. Lines that are not valid messages get an error response; the SDK's transport drops them."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import IO, TYPE_CHECKING, Any, Final, cast

import anyio
import attrs
from anyio import to_thread
from mcp.server.stdio import stdio_server
from mcp.server.transport_security import DEFAULT_MAX_REQUEST_BODY_SIZE
from mcp.shared.message import SessionMessage
from mcp_types import INVALID_REQUEST, PARSE_ERROR, ErrorData, JSONRPCError, RequestId, jsonrpc_message_adapter
from pydantic import ValidationError

if TYPE_CHECKING:
    from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream

LONGEST_LINE: Final = DEFAULT_MAX_REQUEST_BODY_SIZE
"""Maximum length of a message in bytes, the same as over HTTP."""

_NO_JSON: Final = (
    "the line is not JSON in UTF-8, has a lone surrogate, or is nested too deeply: send one message a line"
)


async def serve_stdio(run: Callable[[Any, Any], Awaitable[None]]) -> None:
    """Serve one session over the process's stdin and stdout, until stdin ends.

    Args:
        run: Serves the session, given the streams of incoming and outgoing messages.
    """
    refused, refusals = anyio.create_memory_object_stream[JSONRPCError](0)
    lines = cast("anyio.AsyncFile[str]", _Lines(sys.stdin.buffer, refused))
    with refused, refusals:
        async with stdio_server(stdin=lines) as (received, sent), anyio.create_task_group() as tasks:
            tasks.start_soon(_answer, refusals, sent.clone())
            await run(received, sent)
            tasks.cancel_scope.cancel()


async def _answer(refusals: MemoryObjectReceiveStream[JSONRPCError], sent: Any) -> None:
    async with sent:
        async for refusal in refusals:
            await sent.send(SessionMessage(refusal))


@attrs.frozen
class _Lines:
    """The lines of a stream that are messages; the answers to the other lines are sent to `refused`."""

    stream: IO[bytes]
    refused: MemoryObjectSendStream[JSONRPCError]

    async def __aiter__(self) -> AsyncIterator[str]:
        while line := await to_thread.run_sync(self._next):
            if (refusal := answer_to(line)) is None:
                yield line.decode()
            else:
                await self.refused.send(refusal)

    def _next(self) -> bytes:
        """Return the next line; of one that is too long, only as much as shows that it is."""
        line = rest = self.stream.readline(LONGEST_LINE + 1)
        while len(rest) > LONGEST_LINE and not rest.endswith(b"\n"):
            rest = self.stream.readline(LONGEST_LINE + 1)
        return line


def answer_to(line: bytes) -> JSONRPCError | None:
    """Return the error that answers a line, as JSON-RPC 2.0 prescribes; None if the line is a message.

    The answer has the id of the request wherever one can be read, so that the client does not wait for another one.
    """
    if len(line) > LONGEST_LINE:
        return _refusal(INVALID_REQUEST, f"a message has at most {LONGEST_LINE} bytes", None)
    document = _read(line)
    try:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    except ValidationError as error:
        if any(item["type"] == "json_invalid" for item in error.errors(include_url=False, include_input=False)):
            return _refusal(PARSE_ERROR, _NO_JSON, document)
        return _refusal(INVALID_REQUEST, _reason(document), document)
    if isinstance(document, dict) and "method" in document and "id" in document and _id_of(document) is None:
        # The SDK would take it for a notification, and never answer.
        return _refusal(INVALID_REQUEST, "the id of a request is a string or an integer", document)
    return None


def _read(line: bytes) -> object:
    """Return the JSON of a line, read as leniently as Python can; None if it is none."""
    try:
        return json.loads(line.decode(errors="replace"), strict=False)
    except (ValueError, RecursionError):
        return None


def _reason(document: object) -> str:
    match document:
        case list():
            return "batches are not served: send each message on a line of its own"
        case dict():
            return 'a request has "jsonrpc": "2.0", a method, an id, and an object as its params'
        case _:
            return "a message is a JSON object"


def _refusal(code: int, message: str, document: object) -> JSONRPCError:
    return JSONRPCError(jsonrpc="2.0", id=_id_of(document), error=ErrorData(code=code, message=message))


def _id_of(document: object) -> RequestId | None:
    match document:
        case {"id": str() as id} if id.encode(errors="ignore").decode() == id:  # a lone surrogate cannot be written
            return id
        case {"id": int() as id} if not isinstance(id, bool):
            return id
        case _:
            return None
