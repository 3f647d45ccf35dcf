"""Language models by name, as the terminal and environment variables give them."""

from __future__ import annotations

import os
from typing import Final
from urllib.parse import urlsplit

from factmem.abc import LanguageModel
from factmem.errors import InvalidDataError
from factmem.llm.instructor_model import InstructorModel
from factmem.values import check_text

__all__ = ["language_model"]

_KEY_VARIABLE: Final = "FACTMEM_MODEL_API_KEY"
_NO_KEY: Final = "none"


def language_model(address: str) -> LanguageModel:
    """Return the language model that an address stands for. Nothing is opened before its first question.

    Keys come from the environment, never from the address: ``OPENAI_API_KEY`` for OpenAI itself and for what
    ``OPENAI_BASE_URL`` tells, ``FACTMEM_MODEL_API_KEY`` for any other URL, and the provider's own variable
    (``ANTHROPIC_API_KEY`` and so on) for the rest.

    Args:
        address: ``http://127.0.0.1:8080/v1#MODEL`` for an OpenAI-compatible server, ``openai/MODEL`` for OpenAI (or
            where ``OPENAI_BASE_URL`` leads), ``PROVIDER/MODEL`` for anybody else that instructor knows.

    Raises:
        InvalidDataError: it has none of these forms.
    """
    check_text(address, path="$.model")
    kind, _, model = address.partition("/")
    if kind in {"http:", "https:"}:
        return _at_url(address)
    if not kind.replace("-", "").isalnum() or not model:
        raise InvalidDataError("a language model is named openai/MODEL, PROVIDER/MODEL or http://HOST:PORT/v1#MODEL")
    return InstructorModel(model) if kind == "openai" else InstructorModel.from_provider(address)


def _at_url(address: str) -> LanguageModel:
    base_url, _, model = address.partition("#")
    host = _host(base_url)
    if not model or not host:
        raise InvalidDataError(f"write a server's address as http://HOST:PORT/v1#MODEL, its key into {_KEY_VARIABLE}")
    key = os.environ.get(_KEY_VARIABLE) or _openai_key(host)
    return InstructorModel(model, base_url=base_url, api_key=key)


def _host(base_url: str) -> str | None:
    """Return the host of a URL; None if it has none, tells a user, or is not written as one."""
    try:
        parts = urlsplit(base_url)
        sound = parts.port is None or parts.port > 0
    except ValueError:
        return None
    return parts.hostname if sound and "@" not in parts.netloc and base_url.isprintable() else None


def _openai_key(host: str) -> str:
    """Return OpenAI's key for the hosts that it is meant for, so that no other server is shown it."""
    meant_for = {"api.openai.com", urlsplit(os.environ.get("OPENAI_BASE_URL", "")).hostname}
    return os.environ.get("OPENAI_API_KEY", _NO_KEY) if host in meant_for else _NO_KEY
