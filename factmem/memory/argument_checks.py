"""Checks of constructor arguments, so that wrong ones fail early."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import quote

from factmem.abc import MemoryObserver
from factmem.error_hints import kind_of
from factmem.errors import InvalidDataError
from factmem.providers.registry import default_store
from factmem.validators import listed

_VERBS: Final = ("save", "load", "load_all", "load_by_description")

_PARTS: Final[Mapping[str, tuple[str, ...]]] = {
    "embedder": ("identity", "embed"),
    "model": ("ask",),
    "detector": ("detect",),
    "analyst": ("analyse", "extract"),
    "verifier": ("verify",),
    "consolidator": ("decide",),
    "question_analyst": ("analyse_question", "find_gaps"),
    "reranker": ("rerank",),
    "media_reader": ("takes", "read_medium"),
}
"""Required methods of each part."""


def check_store(store: object) -> None:
    """Raise `InvalidDataError` unless a store is an address, a path, or has the four verbs of a provider."""
    if not isinstance(store, str | Path) and not _has(store, _VERBS):
        raise InvalidDataError(
            f"a store is an address such as 'sqlite-vec:facts.db', a path, or a provider, not {kind_of(store)}",
            path="$.store",
        )


def address_of(store: str | Path | None) -> str:
    """Return the address of a store: an SQLite file for a path, the user's own store for None."""
    if store is None:
        return default_store()
    return f"sqlite-vec:{quote(str(store))}" if isinstance(store, Path) else store


def check_parts(**parts: object) -> None:
    """Raise `InvalidDataError` unless each part of a memory is None or has its required methods.

    Args:
        parts: Parts by name.
    """
    for name, part in parts.items():
        if part is None or _has(part, _PARTS[name]):
            continue
        methods = " and ".join(f"{method}()" for method in _PARTS[name])
        raise InvalidDataError(
            f"{name} takes an object with {methods}, not {kind_of(part)}: give one, or leave it out", path=f"$.{name}"
        )


def observers_in(observers: Iterable[MemoryObserver]) -> tuple[MemoryObserver, ...]:
    """Return observers as a tuple.

    Raises:
        InvalidDataError: It is not a list, or one of them cannot be called.
    """
    items = listed("observers", observers, object)
    if not all(map(callable, items)):
        raise InvalidDataError("each of the observers is called with an event: give functions", path="$.observers")
    return items


def _has(thing: object, methods: Iterable[str]) -> bool:
    return not isinstance(thing, type) and all(callable(getattr(thing, method, None)) for method in methods)
