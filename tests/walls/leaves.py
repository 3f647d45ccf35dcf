"""Everything that an answer contains, at any depth, including values hidden in a repr and causes of errors."""

from __future__ import annotations

import datetime as dt
import enum
import json
import re
from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Final, TypeAlias

import attrs
import numpy as np
from pydantic import BaseModel

Leaf: TypeAlias = tuple[str, object]
"""The path of a value in an answer, and the value: a text, a number, a truth value or None."""

_DEEPEST: Final = 40


def leaves(answer: object, path: str = "$", depth: int = 0) -> Iterator[Leaf]:
    """Yield everything that an answer contains."""
    assert depth < _DEEPEST, f"{path} contains itself"
    match answer:
        case None | bool() | int() | float():
            yield path, answer
        case str():
            yield from _of_text(answer, path, depth)
        case bytes():
            yield path, answer.decode("utf-8", "replace")
        case enum.Enum() | dt.date() | dt.timedelta():
            yield path, str(answer)
        case _:
            for name, part in _parts(answer):
                yield from leaves(part, f"{path}{name}", depth + 1)


def _of_text(text: str, path: str, depth: int) -> Iterator[Leaf]:
    """Yield a text, split into parts if it is JSON or lines of JSON, so that its numbers and ids have names."""
    if text[:1] in ("{", "["):
        try:
            documents = [json.loads(text)] if "\n{" not in text else [json.loads(line) for line in text.splitlines()]
        except ValueError:
            documents = []
        if documents:
            yield from leaves(documents, path, depth + 1)
            return
    yield path, text


def _parts(thing: Any) -> Iterator[tuple[str, object]]:
    """Yield the parts of a value, each with its name."""
    cls = type(thing)
    yield ".type", cls.__name__
    match thing:
        case BaseException():
            yield ".text", f"{thing} {getattr(thing, '__notes__', '')}"
            yield from ((f".args[{number}]", part) for number, part in enumerate(thing.args))
            yield ".cause", thing.__cause__
            yield ".fields", {name: part for name, part in vars(thing).items() if not name.startswith("__")}
        case BaseModel():
            yield ".fields", thing.model_dump(mode="python")
        case np.ndarray():
            yield ".shape", str(thing.shape)
        case Mapping():
            yield from ((f".{_key(name)}", part) for name, part in thing.items())
            yield ".keys", [_key(name) for name in thing]
        case Set():
            yield from ((f"[{number}]", part) for number, part in enumerate(sorted(thing, key=repr)))
        case Sequence():
            yield from ((f"[{number}]", part) for number, part in enumerate(thing))
        case _ if attrs.has(cls):
            yield from ((f".{field.name}", getattr(thing, field.name)) for field in attrs.fields(cls))
        case type():
            yield ".name", thing.__name__
        case _ if callable(thing):
            pass  # its effect is found by calling it
        case _:
            yield ".repr", re.sub(r" at 0x[0-9a-f]+", "", repr(thing))
            if cls.__module__.partition(".")[0] == "factmem":
                yield ".fields", dict(getattr(thing, "__dict__", {}))


def _key(name: object) -> str:
    return str(name.name) if isinstance(name, enum.Enum) else str(name)


def text_of(answer: object) -> str:
    """Return everything that an answer contains as one text."""
    return "\n".join(f"{path} {leaf}" for path, leaf in leaves(answer))


_ID: Final = re.compile(r"\b[0-9a-f]{32}\b")
_NUMBERED: Final = re.compile(r"\.(revision|revised|seq|states_before\.keys)\b")
_NUMBER_IN_PATH: Final = re.compile(r"(?<=\.states_before\.)\d+")
_MADE: Final = re.compile(r"\.(marks|next_page|recorded_at|generation|failed_at)\b")


def unnamed(answer: Sequence[Leaf]) -> list[Leaf]:
    """Return an answer with ids and revision numbers replaced by their order of appearance.

    A tenant's sequence counts the writes behind all of its walls, and ids are random, so both may differ between
    equal answers. Page tokens contain such numbers.
    """
    ids: dict[str, str] = {}
    numbers: dict[object, int] = {}
    plain: list[Leaf] = []
    for path, leaf in answer:
        if _MADE.search(path):
            leaf = leaf is None
        elif _NUMBERED.search(path) and str(leaf).isdigit():
            leaf = numbers.setdefault(str(leaf), len(numbers))
        elif isinstance(leaf, str):
            leaf = _ID.sub(lambda match: ids.setdefault(match[0], f"<id {len(ids)}>"), leaf)
        plain.append((_NUMBER_IN_PATH.sub("<number>", _ID.sub("<id>", path)), leaf))
    return plain
