"""A loopback OpenAI-compatible server, so that the real clients run over a real socket without a model."""

from __future__ import annotations

import json
import sys
import threading
import urllib.parse
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeAlias, cast

import attrs


@attrs.frozen
class Answer:
    """A response of the server.

    Attributes:
        body: An object, sent as JSON, or bytes, sent verbatim.
        status: HTTP status.
        headers: Additional headers.
        delay: Seconds before anything is sent.
        drip: Seconds between bytes, for an answer that trickles.
        cut: Number of trailing bytes that are never sent, though the header counts them.
    """

    body: dict[str, Any] | bytes
    status: int = attrs.field(default=200, kw_only=True)
    headers: dict[str, str] = attrs.field(factory=dict, kw_only=True)
    delay: float = attrs.field(default=0.0, kw_only=True)
    drip: float = attrs.field(default=0.0, kw_only=True)
    cut: int = attrs.field(default=0, kw_only=True)


Responder: TypeAlias = Callable[[str, dict[str, Any]], Answer]
"""Function from the path and the JSON of a request to the answer. Runs in a thread of the server."""


class _QuietServer(ThreadingHTTPServer):
    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that disconnected, as clients with a timeout do."""
        if not isinstance(sys.exception(), OSError):
            super().handle_error(request, client_address)


def _parsed(body: bytes, content_type: str) -> dict[str, Any]:
    """Return the fields of a body: JSON, or a form as sign-ins send it."""
    if content_type == "application/x-www-form-urlencoded":
        return dict(urllib.parse.parse_qsl(body.decode()))
    return cast("dict[str, Any]", json.loads(body or b"{}"))


class LoopbackOpenAIServer:
    """Listens on 127.0.0.1 while its ``with`` block runs.

    Args:
        respond: Returns the answer to a request.
        keep_alive: Whether connections stay open for further requests.

    Attributes:
        requests: Path and JSON (or form fields) of every request so far, in order.
        headers: Headers of each of them, with lowercase names.
    """

    def __init__(self, respond: Responder, *, keep_alive: bool = False) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        self.headers: list[dict[str, str]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1" if keep_alive else "HTTP/1.0"

            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                request = _parsed(self.rfile.read(size), self.headers.get_content_type())
                server.headers.append({name.lower(): value for name, value in self.headers.items()})
                server.requests.append((self.path, request))
                answer = respond(self.path, request)
                server._closing.wait(answer.delay)
                body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self._send(body[: len(body) - answer.cut], answer.drip)

            def _send(self, body: bytes, drip: float) -> None:
                step = 1 if drip else max(len(body), 1)
                for start in range(0, len(body), step):
                    self.wfile.write(body[start : start + step])
                    if server._closing.wait(drip):
                        return

            def log_message(self, format: str, *args: Any) -> None:
                """Log nothing: requests hold the texts of conversations."""

        self._closing = threading.Event()
        self._server = _QuietServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)

    @property
    def base_url(self) -> str:
        """The ``base_url`` for a client."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
