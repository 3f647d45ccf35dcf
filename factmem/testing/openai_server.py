"""A loopback OpenAI-compatible server, so that the real clients run over a real socket without a model."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self, TypeAlias

import attrs

__all__ = ["Answer", "LoopbackOpenAIServer", "Responder"]


@attrs.frozen
class Answer:
    """What the server sends back.

    Attributes:
        body: an object, sent as JSON, or bytes, sent as they are.
        status: the HTTP status.
        headers: more headers.
    """

    body: dict[str, Any] | bytes
    status: int = attrs.field(default=200, kw_only=True)
    headers: dict[str, str] = attrs.field(factory=dict, kw_only=True)


Responder: TypeAlias = Callable[[str, dict[str, Any]], Answer]
"""Takes the path and the request's JSON, gives the answer. Runs in a thread of the server."""


class LoopbackOpenAIServer:
    """Listens on 127.0.0.1 while its ``with`` block runs.

    Args:
        respond: what to answer.

    Attributes:
        requests: the path and the JSON of every request so far, in order.
    """

    def __init__(self, respond: Responder) -> None:
        self.requests: list[tuple[str, dict[str, Any]]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers.get("Content-Length", 0))
                request = json.loads(self.rfile.read(size) or b"{}")
                server.requests.append((self.path, request))
                answer = respond(self.path, request)
                body = answer.body if isinstance(answer.body, bytes) else json.dumps(answer.body).encode()
                self.send_response(answer.status)
                for name, value in {"Content-Type": "application/json", **answer.headers}.items():
                    self.send_header(name, value)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: Any) -> None:
                """Stay quiet: requests hold the texts of conversations."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, daemon=True)

    @property
    def base_url(self) -> str:
        """What a client takes as its ``base_url``."""
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
