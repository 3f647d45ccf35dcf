"""Guard of the local web page: who may send a request, and what a browser may do with the answer."""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qs

import attrs
from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import cookie_parser
from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

_VISIT: Final = "factmem.visit"

_HEADERS: Final = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not no-referrer: with it, browsers send the origin "null" with forms.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_REFUSED: Final = "This page belongs to another program. Open the address that `factmem browse --web` printed.\n"
_NO_SESSION: Final = (
    "This browser is not let in: open the address that `factmem browse --web` printed. "
    "It works once; start the command again for a new one.\n"
)
_LET_IN: Final = '<!doctype html><title>factmem</title><meta http-equiv="refresh" content="0; url=/">'
"""Answer to a token from a file: the browser sends the new cookie to what this page leads to itself."""


@attrs.define
class Visit:
    """One browser that was let in.

    Attributes:
        key: The value of its cookie.
        form_token: The token that its forms carry.
        notice: A sentence for the next page.
    """

    key: str = attrs.field(factory=lambda: secrets.token_urlsafe(32), repr=False)
    form_token: str = attrs.field(factory=lambda: secrets.token_urlsafe(32), repr=False)
    notice: str = ""

    def take_notice(self) -> str:
        """Return the sentence for this page, and forget it."""
        notice, self.notice = self.notice, ""
        return notice

    def sent(self, token: str) -> bool:
        """Return whether a form carries this visit's token."""
        return hmac.compare_digest(token.encode(), self.form_token.encode())


def visit_of(scope: Scope) -> Visit:
    """Return the visit that a request belongs to."""
    visit: Visit = scope[_VISIT]
    return visit


def was_let_in(scope: Scope) -> bool:
    """Return whether a request belongs to a visit."""
    return _VISIT in scope


class Guard:
    """ASGI middleware in front of the pages.

    A request is refused if its ``Host`` is none of this server's names (DNS rebinding), if another site sent it, be it
    one on another port, or if it has no cookie. The token in the printed address is exchanged for the cookie once,
    also for the file that ``--open`` opens, which counts as another site.

    Args:
        app: The pages.
        token: The one-time token.
        hosts: Names of this server, each with its port.
        open_paths: Beginnings of paths that need no cookie: style sheets and scripts.
    """

    def __init__(self, app: ASGIApp, *, token: str, hosts: Iterable[str], open_paths: tuple[str, ...] = ()) -> None:
        self._app = app
        self._token: str | None = token
        self._hosts = frozenset(hosts)
        self._open_paths = open_paths
        self._visits: dict[str, Visit] = {}
        # Cookies know no ports: two of these servers at the same time must not take each other's.
        self._cookie = f"factmem_{min(self._hosts).rpartition(':')[2]}"

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        if scope["type"] != "http":
            await send({"type": "websocket.close", "code": 1008})
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(raw=message["headers"])
                headers.update(_HEADERS)
                headers["cache-control"] = "no-cache" if self._is_open(scope) else "no-store"
                message = {**message, "headers": headers.raw}
            await send(message)

        await (self._answer(scope) or self._app)(scope, receive, guarded)

    def _answer(self, scope: Scope) -> Response | None:
        """Return the guard's own answer to a request; None to pass it on."""
        headers = Headers(scope=scope)
        if headers.get("host") not in self._hosts:
            return PlainTextResponse(_REFUSED, status_code=403)
        token = parse_qs(scope["query_string"].decode("latin-1")).get("token") if scope["method"] == "GET" else None
        own = self._is_own(scope["method"], headers)
        if not own and not (token and self._opens(token[0])):
            return PlainTextResponse(_REFUSED, status_code=403)
        if self._is_open(scope):
            return None
        visit = self._visits.get(cookie_parser(headers.get("cookie", "")).get(self._cookie, ""))
        if token:
            return self._admitted(token[0], own=own) if visit is None else RedirectResponse("/", status_code=303)
        if visit is None:
            return PlainTextResponse(_NO_SESSION, status_code=403)
        scope[_VISIT] = visit
        return None

    def _opens(self, token: str) -> bool:
        return self._token is not None and hmac.compare_digest(token.encode(), self._token.encode())

    def _is_open(self, scope: Scope) -> bool:
        return str(scope["path"]).startswith(self._open_paths)

    def _is_own(self, method: str, headers: Headers) -> bool:
        """Return whether a request comes from these pages, or from a person who typed or opened an address."""
        if headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
            return False
        origin = headers.get("origin")
        if origin is None:
            return method in ("GET", "HEAD") or "sec-fetch-site" in headers
        return origin in {f"http://{host}" for host in self._hosts}

    def _admitted(self, token: str, *, own: bool) -> Response:
        if not self._opens(token):
            return PlainTextResponse(_NO_SESSION, status_code=403)  # a wrong one does not use it up
        self._token = None
        visit = Visit()
        self._visits[visit.key] = visit
        answer = RedirectResponse("/", status_code=303) if own else HTMLResponse(_LET_IN)
        answer.set_cookie(self._cookie, visit.key, httponly=True, samesite="strict", path="/")
        return answer
