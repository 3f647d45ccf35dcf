"""Frameworks that an agent may be built with, found by their entry points."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Final

import attrs

from factmem.abc import Message
from factmem.agent.history import DictFormat, HistoryFormat, MessageFormat
from factmem.errors import CapabilityError, InvalidDataError, MissingPackageError

if TYPE_CHECKING:
    from factmem.agent.agent_memory import AgentMemory

__all__ = ["ENTRY_POINT_GROUP", "HostIntegration", "format_of", "host_entry_points", "host_of"]

ENTRY_POINT_GROUP: Final = "factmem.hosts"
"""The entry-point group that frameworks are found in, ours and third parties'.

An entry point's name is the module that a framework's own classes come from (``pydantic_ai``,
``google.adk``); it names a `HostIntegration`, and is imported when something from there is handed in.
"""


@attrs.frozen(kw_only=True)
class HostIntegration:
    """What connects factmem with one framework.

    Attributes:
        install: puts memory into an agent, an app or a factory of the framework, and returns it. None if
            there is nothing to put it into.
        history: how the framework writes messages; None if it has none of its own.
    """

    install: Callable[[AgentMemory, Any], Any] | None = None
    history: HistoryFormat[Any] | None = None


def host_entry_points() -> dict[str, EntryPoint]:
    """Return the installed integrations by the module that they are for, without importing any of them."""
    return {point.name: point for point in sorted(entry_points(group=ENTRY_POINT_GROUP), key=lambda point: point.name)}


def host_of(thing: object) -> HostIntegration:
    """Return what connects factmem with the framework that something comes from.

    Args:
        thing: an agent, a message, a function …

    Raises:
        CapabilityError: no integration knows it.
        MissingPackageError: the integration needs a package that is not installed.
    """
    known = host_entry_points()
    for module in _modules(thing):
        if (point := _closest(module, known)) is not None:
            try:
                found: HostIntegration = point.load()
            except ModuleNotFoundError as error:
                extra = point.module.rpartition(".")[2].replace("_", "-")
                raise MissingPackageError(error.name or module, extra=extra) from error
            return found
    raise CapabilityError(
        f"nothing is known about {type(thing).__module__}.{type(thing).__qualname__}; "
        f"there are integrations for {', '.join(known) or 'nothing'}"
    )


def format_of(history: Sequence[Any]) -> HistoryFormat[Any]:
    """Return how the messages of a history are written, by the first of them.

    Raises:
        InvalidDataError: they are of no kind that is known.
        MissingPackageError: the integration needs a package that is not installed.
    """
    match next(iter(history), None):
        case None | Message():
            return MessageFormat()
        case Mapping():
            return DictFormat()
        case first:
            try:
                found = host_of(first).history
            except CapabilityError:
                found = None
    if found is None:
        raise InvalidDataError(f"a history of {type(first).__name__} cannot be read: convert it to factmem.Message")
    return found


def _modules(thing: object) -> Iterator[str]:
    """The modules that a thing, or its class and what that derives from, were defined in."""
    if not isinstance(thing, type) and (own := getattr(thing, "__module__", None)) and callable(thing):
        yield str(own)
    cls: type = thing if isinstance(thing, type) else type(thing)
    yield from (ancestor.__module__ for ancestor in cls.__mro__)


def _closest(module: str, known: Mapping[str, EntryPoint]) -> EntryPoint | None:
    """The entry point for a module or for the nearest package that it lies in."""
    while module:
        if module in known:
            return known[module]
        module = module.rpartition(".")[0]
    return None
