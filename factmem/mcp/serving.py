"""Serving over HTTP."""

from __future__ import annotations

import hmac
import socket
from collections.abc import Callable
from typing import Any, Final

from mcp.server.mcpserver import MCPServer

from factmem.errors import InvalidDataError, StoreUnavailableError

__all__ = ["serve_http"]

_LOCAL: Final = frozenset({"127.0.0.1", "::1", "localhost"})


async def serve_http(
    server: MCPServer[Any],
    *,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    on_ready: Callable[[str], None] | None = None,
) -> None:
    """Serve over streamable HTTP until the process is told to end.

    On this machine's own address, requests that a web page makes under another name are refused. Any
    other address needs a token.

    Args:
        server: the server.
        host: the address to listen at.
        port: the port; 0 for any that is free.
        token: every request must carry it, as ``Authorization: Bearer <token>``.
        on_ready: is called with the URL once clients can connect.

    Raises:
        InvalidDataError: the address can be reached by others, and there is no token.
        StoreUnavailableError: the port is taken, or the address is not this machine's.
    """
    import uvicorn

    if host not in _LOCAL and not token:
        raise InvalidDataError(
            f"at {host} others could read the memory: listen at 127.0.0.1, or set a token with FACTMEM_MCP_TOKEN"
        )
    app: Any = server.streamable_http_app(host=host)
    listening = _listening(host, port)
    config = uvicorn.Config(
        _WithToken(app, token) if token else app, log_config=None, access_log=False, timeout_graceful_shutdown=3
    )
    if on_ready is not None:
        shown = f"[{host}]" if ":" in host else host
        on_ready(f"http://{shown}:{listening.getsockname()[1]}/mcp")
    await uvicorn.Server(config).serve(sockets=[listening])


def _listening(host: str, port: int) -> socket.socket:
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except OSError as error:
        raise StoreUnavailableError(f"{host}:{port} cannot be listened at ({error.strerror}): name another") from None


class _WithToken:
    """Lets only requests through that carry a token."""

    def __init__(self, app: Any, token: str) -> None:
        self._app = app
        self._expected = f"Bearer {token}".encode()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "lifespan" and not self._admits(scope):
            headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
            await send({"type": "http.response.start", "status": 401, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send)

    def _admits(self, scope: Any) -> bool:
        return any(
            name == b"authorization" and hmac.compare_digest(value, self._expected) for name, value in scope["headers"]
        )
