"""The server of the local web page."""

from __future__ import annotations

import contextlib
import secrets
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from typing import Final

import uvicorn

from factmem.browse.browser import Browser
from factmem.browse.web.app import make_app
from factmem.errors import StoreUnavailableError

_HOST: Final = "127.0.0.1"


async def serve(browser: Browser, *, port: int = 0, on_ready: Callable[[str], None]) -> None:
    """Serve the pages on this machine until Ctrl-C.

    Args:
        browser: The pages as data.
        port: The port; a free one if 0.
        on_ready: Called with the address to open, which holds a token that works once.

    Raises:
        StoreUnavailableError: The port is taken.
    """
    listening = _listening(port)
    own_port = listening.getsockname()[1]
    token = secrets.token_urlsafe(24)
    app = make_app(browser, token=token, hosts=[f"{_HOST}:{own_port}", f"localhost:{own_port}"])
    config = uvicorn.Config(
        app, log_config=None, access_log=False, server_header=False, lifespan="off", timeout_graceful_shutdown=2
    )
    address = f"http://{_HOST}:{own_port}/?token={token}"
    with _ending_quietly():
        await _Server(config, lambda: on_ready(address)).serve(sockets=[listening])


class _Server(uvicorn.Server):
    """A server that says when it listens, and to signals as well."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start, and say so."""
        await super().startup(sockets)
        self._on_ready()


@contextlib.contextmanager
def _ending_quietly() -> Iterator[None]:
    """Let Ctrl-C or a SIGTERM end the server and nothing more: uvicorn raises it again when it has stopped."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    ending = (signal.SIGINT, signal.SIGTERM)
    handlers = [signal.signal(number, lambda number, frame: None) for number in ending]
    try:
        yield
    finally:
        for number, handler in zip(ending, handlers, strict=True):
            signal.signal(number, handler)


def _listening(port: int) -> socket.socket:
    try:
        return socket.create_server((_HOST, port))
    except OSError as error:
        raise StoreUnavailableError(f"cannot listen on port {port} ({error.strerror}): name another") from None
