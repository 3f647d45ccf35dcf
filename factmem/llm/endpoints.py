"""Endpoints of language models: OpenAI-compatible addresses, and the providers of instructor."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import urlsplit

import attrs

from factmem.errors import InvalidDataError, MissingPackageError, ModelUnavailableError

if TYPE_CHECKING:
    import instructor

__all__ = ["Endpoint", "OpenAIEndpoint", "ProviderEndpoint", "check_installed"]

_OPENAI_HOSTS: Final = ("api.openai.com", ".openai.azure.com")
_NO_KEY: Final = "none"  # the client insists on a key, local servers do not look at it


class Endpoint(Protocol):
    """Source of clients for one model."""

    def modes(self) -> tuple[str | None, ...]:
        """Return the modes to try, in order, as names of `instructor.Mode`; None for instructor's own choice."""
        ...

    def open(self, mode: str | None) -> instructor.AsyncInstructor:
        """Return a client for a mode. This blocks: it imports heavy packages.

        Raises:
            InvalidDataError: there is no such mode, or no API key.
            ModelUnavailableError: the provider's own package is not installed, or does not start.
        """
        ...


@attrs.frozen
class OpenAIEndpoint:
    """An endpoint for OpenAI's chat completions. See `Endpoint`."""

    model: str
    base_url: str | None = attrs.field(kw_only=True)
    api_key: str | None = attrs.field(kw_only=True, repr=False)
    mode: str | None = attrs.field(kw_only=True)
    timeout: float = attrs.field(kw_only=True)

    def modes(self) -> tuple[str | None, ...]:
        """See `Endpoint.modes`. OpenAI shows a tool's schema to the model; others constrain the answer."""
        if self.mode is not None:
            return (self.mode,)
        host = urlsplit(self._address() or "").hostname or "api.openai.com"
        return ("TOOLS", "JSON_SCHEMA") if host.endswith(_OPENAI_HOSTS) else ("JSON_SCHEMA", "JSON", "MD_JSON")

    def open(self, mode: str | None) -> instructor.AsyncInstructor:
        """See `Endpoint.open`."""
        import instructor as package
        import openai

        try:
            client = openai.AsyncOpenAI(
                base_url=self.base_url,
                api_key=self._key(),
                timeout=self.timeout,
                max_retries=0,  # the exchange counts them, with the answers, within one time limit
                default_headers={"Connection": "close"},  # so that no connection must be closed
            )
        except openai.OpenAIError:
            raise InvalidDataError("there is no API key: set OPENAI_API_KEY or pass api_key=") from None
        return package.from_openai(client, mode=_mode(package, mode or "TOOLS"))

    def _address(self) -> str | None:
        return self.base_url or os.environ.get("OPENAI_BASE_URL")

    def _key(self) -> str | None:
        known = self.api_key or os.environ.get("OPENAI_API_KEY")
        return known or (_NO_KEY if self._address() else None)


@attrs.frozen
class ProviderEndpoint:
    """A model by its name for `instructor.from_provider`. See `Endpoint`."""

    name: str
    mode: str | None = attrs.field(kw_only=True)
    options: Mapping[str, Any] = attrs.field(factory=dict, kw_only=True, repr=False)

    def modes(self) -> tuple[str | None, ...]:
        """See `Endpoint.modes`. Instructor knows the mode of each provider."""
        return (self.mode,)

    def open(self, mode: str | None) -> instructor.AsyncInstructor:
        """See `Endpoint.open`."""
        import instructor as package

        provider = self.name.partition("/")[0]
        chosen: dict[str, Any] = {"mode": _mode(package, mode)} if mode else {}
        if provider == "azure_openai" and (version := os.environ.get("OPENAI_API_VERSION")):
            chosen["api_version"] = version  # which openai's client reads, unless instructor passes an old one
        try:
            client = package.from_provider(self.name, async_client=True, **{**chosen, **self.options})
        except Exception as error:  # whatever the packages of all these providers bring up
            kind = type(error).__name__
        else:
            return client
        raise ModelUnavailableError(
            f"{self.name} cannot be opened ({kind}): its package, its API key or the provider itself is missing; "
            f"run  pip install 'instructor[{provider}]'  and set the key's environment variable"
        )


def _mode(package: Any, name: str) -> Any:
    try:
        return package.Mode[name]
    except KeyError:
        raise InvalidDataError("no such mode: use TOOLS, JSON_SCHEMA, JSON or MD_JSON") from None


def check_installed() -> None:
    """Refuse to go on without the packages that ask models. Nothing is imported.

    Raises:
        MissingPackageError: instructor or openai is not installed.
    """
    for package in ("instructor", "openai"):
        if importlib.util.find_spec(package) is None:
            raise MissingPackageError(package, extra="llm")
