"""Provider addresses: ``sqlite-vec:///var/lib/agent/facts.db``, ``file:facts``, ``memory:``."""

from __future__ import annotations

import inspect
import os
import re
import sys
from collections.abc import Mapping
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import parse_qsl, quote, unquote

from factmem.abc.clock import Clock, system_clock
from factmem.abc.provider import AgentMemoryProvider
from factmem.entry_points import installed_entry_points, named_entry_point
from factmem.error_hints import kind_of
from factmem.errors import MissingPackageError, StoreUnavailableError, UnknownProviderError
from factmem.private_files import make_folders

ENTRY_POINT_GROUP: Final = "factmem.providers"
"""The entry-point group that providers are found in, ours and third parties'."""


def provider_entry_points() -> dict[str, EntryPoint]:
    """Return the installed providers by name, without importing any of them."""
    return installed_entry_points(ENTRY_POINT_GROUP)


def open_provider(address: str, *, clock: Clock = system_clock) -> AgentMemoryProvider:
    """Open the provider that an address names.

    An address is ``name:location?option=value``: the name of an entry point of the group
    `ENTRY_POINT_GROUP`, then what its class takes as its first argument, then keyword arguments
    as text. ``name:///absolute/path`` and ``name:relative/path`` both work; a location without any
    name is a path for ``sqlite-vec``, with or without options: ``facts.db?read_only=yes``. Nothing is
    read or written before the first call. A class whose addresses are URLs of another standard has a
    method ``from_address``, which takes the whole address.

    Args:
        address: Where the facts are.
        clock: Gives the time of recording, if the provider takes a ``clock``.

    Raises:
        UnknownProviderError: No installed provider has this name, or it does not take these options.
        MissingPackageError: The provider needs a package that is not installed.
    """
    factory, arguments, options = _resolved(address)
    timed = clock is not system_clock and "clock" in inspect.signature(factory).parameters
    return cast("AgentMemoryProvider", factory(*arguments, **options, **({"clock": clock} if timed else {})))


_PASSWORD: Final = re.compile(r"\A([^/]*//[^:/?@]*):.*@|(password=)[^&]*")


def without_secrets(address: str) -> str:
    """Return an address for people to see: a password in a URL is left out."""
    return _PASSWORD.sub(lambda found: f"{found[1]}:…@" if found[1] is not None else f"{found[2]}…", address)


def default_store() -> str:
    """Return the address of the user's own store; its folder is created if it is missing.

    Raises:
        StoreUnavailableError: The folder cannot be created.
    """
    if sys.platform == "win32":
        folder = Path(os.environ.get("APPDATA") or Path.home()) / "factmem"
    elif sys.platform == "darwin":
        folder = Path.home() / "Library" / "Application Support" / "factmem"
    else:
        folder = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share") / "factmem"
    try:
        make_folders(folder, durable=False)
    except OSError as error:
        raise StoreUnavailableError(f"{folder} cannot be created ({error.strerror}): name a store") from None
    return f"sqlite-vec:{quote(str(folder / 'facts.db'))}"


def check_address(address: str) -> None:
    """Raise what `open_provider` would raise about an address itself. Nothing is opened.

    Raises:
        UnknownProviderError: No installed provider has this name, or it does not take these options.
        MissingPackageError: The provider needs a package that is not installed.
    """
    _resolved(address)


def _resolved(address: str) -> tuple[Any, list[str], dict[str, str]]:
    """Return the factory that an address names, and its arguments."""
    if not isinstance(address, str):
        raise UnknownProviderError(f"an address is a text such as sqlite-vec:facts.db, not {kind_of(address)}")
    name, location, options = _parsed(address)
    point = named_entry_point(ENTRY_POINT_GROUP, name, provider_entry_points)
    if point is None:
        raise UnknownProviderError(
            f"no provider is called {name!r}; installed are {', '.join(provider_entry_points()) or 'none'}. "
            "An address looks like sqlite-vec:///path/to/facts.db"
        )
    with MissingPackageError.if_missing(extra=next(iter(point.extras), name)):
        factory: Any = point.load()
    if hasattr(factory, "from_address"):
        return factory.from_address, [address], {}
    arguments = [location] if location else []
    try:
        inspect.signature(factory).bind(*arguments, **options)
    except TypeError:
        raise UnknownProviderError(_unfit(name, inspect.signature(factory), location, options)) from None
    return factory, arguments, options


def _unfit(name: str, signature: inspect.Signature, location: str, options: Mapping[str, str]) -> str:
    """Say why a provider does not take a location and options."""
    takes = signature.parameters
    placed = any(parameter.kind is not parameter.KEYWORD_ONLY for parameter in takes.values())
    if unknown := [option for option in options if option not in takes]:
        known = [option for option in list(takes)[placed:] if "str" in str(takes[option].annotation)]
        return f"the provider {name!r} has no option {', '.join(unknown)}; it has {', '.join(known) or 'none'}"
    if location and not placed:
        return f"the provider {name!r} takes no location: write {name}:"
    if not location and placed:
        return f"the provider {name!r} needs a location: write {name}:PATH"
    return f"the provider {name!r} cannot be opened at {location!r} with these options"


def _parsed(address: str) -> tuple[str, str, dict[str, str]]:
    whole, _, query = address.partition("?")
    try:
        options = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError:
        raise UnknownProviderError("write the options of an address as ?name=value&name=value") from None
    name, colon, location = whole.partition(":")
    if not colon or "/" in name or "." in name:
        return "sqlite-vec", whole, options
    return name, unquote(location.removeprefix("//")), options
