"""JSON over HTTP to a model's own endpoint, through the client of the package ``openai``.

The client retries, waits as the server asks, and runs on asyncio and trio alike; any path and body may be sent by it.
"""

from __future__ import annotations

import contextlib
import json
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping
from typing import Any, Final, Protocol

import attrs
from anyio import CancelScope, Lock, to_thread

from factmem.errors import EmbedderError, FactMemError
from factmem.llm.local_models import imported


class Credentials(Protocol):
    """Source of the headers that carry a key."""

    async def headers(self) -> Mapping[str, str]:
        """Return the headers of the next request."""
        ...


def host_of(base_url: str) -> str | None:
    """Return the host of a URL; None if it has none, names a user, or is malformed."""
    try:
        parts = urllib.parse.urlsplit(base_url)
        sound = parts.port is None or parts.port > 0
    except ValueError:
        return None
    return parts.hostname if sound and "@" not in parts.netloc and base_url.isprintable() else None


@attrs.frozen
class Key:
    """A key that is sent as it is, in a header; an empty one is not sent. See `Credentials`."""

    header: str
    key: str = attrs.field(repr=False)

    async def headers(self) -> Mapping[str, str]:
        """See `Credentials.headers`."""
        if not self.key:
            return {}
        return {self.header: f"Bearer {self.key}" if self.header == "Authorization" else self.key}


@attrs.define
class IbmTokens:
    """Tokens that IBM Cloud gives for a key, each fetched in time before the last one ends. See `Credentials`."""

    key: str = attrs.field(repr=False)
    url: str
    timeout: float = 30.0
    _token: str = attrs.field(default="", init=False, repr=False)
    _until: float = attrs.field(default=0.0, init=False)
    _EARLY: Final = 60.0

    async def headers(self) -> Mapping[str, str]:
        """See `Credentials.headers`.

        Raises:
            EmbedderError: IBM Cloud gives no token.
        """
        if time.monotonic() >= self._until:
            await to_thread.run_sync(self._fetch, abandon_on_cancel=True)
        return {"Authorization": f"Bearer {self._token}"}

    def _fetch(self) -> None:
        form = {"grant_type": "urn:ibm:params:oauth:grant-type:apikey", "apikey": self.key}
        try:
            with urllib.request.urlopen(self.url, urllib.parse.urlencode(form).encode(), self.timeout) as answer:
                found = json.load(answer)
            self._token, self._until = found["access_token"], time.monotonic() + found["expires_in"] - self._EARLY
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise EmbedderError(f"IBM Cloud gave no token ({type(error).__name__}): check WATSONX_API_KEY") from None


class JsonEndpoint:
    """An endpoint that answers JSON with JSON. It connects at the first request.

    Args:
        base_url: The endpoint; None for the ``openai`` package's own default.
        credentials: Source of the headers that carry the key.
        timeout: Timeout of one request, in seconds.
        max_retries: Maximum number of retries of a failed request, with growing pauses.
    """

    def __init__(self, base_url: str | None, credentials: Credentials, *, timeout: float, max_retries: int) -> None:
        self._credentials = credentials
        # The client insists on a key, and each request brings its own.
        self._options = {"base_url": base_url, "api_key": "none", "timeout": timeout, "max_retries": max_retries}
        self._client: Any = None
        self._lock = Lock()

    async def post(self, path: str, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Any:
        """Return the JSON of an answer.

        Args:
            path: Path below the base URL.
            body: Body of the request.
            headers: Headers besides those of the credentials.

        Raises:
            openai.OpenAIError: The request failed.
            MissingPackageError: ``openai`` is not installed.
        """
        client = await self._connected()
        given = {"Authorization": openai_package().Omit(), **(headers or {}), **await self._credentials.headers()}
        return await client.post(path, cast_to=object, body=body, options={"headers": given})

    async def aclose(self) -> None:
        """Close the connections; another request opens new ones."""
        async with self._lock:
            client, self._client = self._client, None
            if client is not None:
                with CancelScope(shield=True):
                    await client.close()

    async def _connected(self) -> Any:
        if self._client is None:
            async with self._lock:
                if self._client is None:
                    self._client = await to_thread.run_sync(self._made, abandon_on_cancel=True)  # imports take long
        return self._client

    def _made(self) -> Any:
        return openai_package().AsyncOpenAI(**self._options)


def openai_package() -> Any:
    """Return the package ``openai``.

    Raises:
        MissingPackageError: It is not installed.
    """
    return imported("openai", extra="all")


@contextlib.contextmanager
def failing_as(what: str, failed: type[FactMemError], misread: type[FactMemError]) -> Iterator[None]:
    """Raise the errors of requests and of reading their answers as factmem's own.

    Args:
        what: Kind of the endpoint, such as "embedding".
        failed: Error of a request that failed.
        misread: Error of an answer that is not of its form.
    """
    openai = openai_package()
    try:
        yield
    except openai.APIStatusError as error:
        raise failed(f"the {what} endpoint failed: status {error.status_code}") from None
    except openai.OpenAIError as error:
        raise failed(f"the {what} endpoint failed: {type(error).__name__}") from None
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise misread(f"the {what} endpoint returned an unexpected response: {type(error).__name__}") from None
