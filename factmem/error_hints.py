"""Hints at the right name in errors about a wrong one: a name of other libraries, or a misspelt one."""

from __future__ import annotations

import functools
import importlib
import inspect
import re
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, TypeVar, cast

from factmem.errors import InvalidDataError

ClassT = TypeVar("ClassT", bound=type)
SaveT = TypeVar("SaveT", bound=Callable[..., Awaitable[Any]])

_PACKAGES: Final = (
    *("abc", "agent", "memory", "recall", "detection", "consolidation", "llm", "importers", "providers", "crypto"),
    "testing",
)
"""Packages with public names that are not those of factmem itself."""


_MOST_SIMILAR: Final = 5


@functools.cache
def _hints() -> Mapping[str, Mapping[str, str]]:
    from factmem.toml_tables import table

    hints: Mapping[str, Mapping[str, str]] = table("error_hints")
    return hints


@functools.cache
def _elsewhere() -> Mapping[str, Sequence[str]]:
    """Return the names of factmem by those of other libraries."""
    return {name: ours.split() for ours, names in _hints()["elsewhere"].items() for name in names.split()}


def did_you_mean(wrong: str, known: Iterable[str]) -> str:
    """Return the end of an error's message that names what was probably meant; empty if nothing is similar.

    Args:
        wrong: The wrong name.
        known: The names that there are.
    """
    names = list(known)
    if meant := [name for name in _elsewhere().get(wrong, ()) if name in names]:
        return f": did you mean {' or '.join(meant)}?"
    import difflib

    plain = {name.replace("_", "").casefold(): name for name in names}
    similar = difflib.get_close_matches(wrong.replace("_", "").casefold(), plain, n=1, cutoff=0.75)
    return f": did you mean {plain[similar[0]]}?" if similar else ""


def similar_names(wrong: str, known: Collection[str]) -> list[str]:
    """Return at most five names that are similar to a wrong one, or hold it."""
    import difflib

    similar = difflib.get_close_matches(wrong, known, n=_MOST_SIMILAR, cutoff=0.5)
    similar += [name for name in known if wrong.casefold() in name.casefold() and name not in similar]
    return similar[:_MOST_SIMILAR]


def kind_of(thing: object) -> str:
    """Return words for what a thing is, for errors about an argument: "an int", "None", "the class Agent"."""
    if thing is None:
        return "None"
    name = thing.__name__ if isinstance(thing, type) else type(thing).__name__
    return f"the class {name}" if isinstance(thing, type) else f"{'an' if name[0] in 'aeiouAEIO' else 'a'} {name}"


def unknown_keywords(function: str, given: Collection[str], known: Collection[str]) -> TypeError:
    """Return the error about keyword arguments that a function does not take.

    Args:
        function: Name of the function.
        given: The names given.
        known: The names that it takes.
    """
    wrong, *_ = sorted(set(given) - set(known))
    instead = _hints()["instead"].get(wrong, f"it takes {', '.join(known)}")
    hint = did_you_mean(wrong, known) or f"; {instead}"
    return TypeError(f"{function}() got an unexpected keyword argument {wrong!r}{hint}")


def taking_one_fact(save: SaveT) -> SaveT:
    """Let a method that takes a fact name it in the error about a concept and a value, given one after the other."""

    @functools.wraps(save)
    async def checking(self: object, *given: Any, **options: Any) -> Any:
        if len(given) > 1:
            raise InvalidDataError(
                "save takes a fact: give SingleFact(CONCEPT, value) or MultipleFacts(CONCEPT, [value])"
            )
        return await save(self, *given, **options)

    return cast("SaveT", checking)


def missing_attribute(owner: type, name: str) -> AttributeError:
    """Return the error about an attribute that the objects of a class do not have."""
    public = [known for known in dir(owner) if not known.startswith("_")]
    hint = "" if name.startswith("_") else did_you_mean(name, public)
    return AttributeError(f"{owner.__name__!r} object has no attribute {name!r}{hint}")


def hinted(cls: ClassT) -> ClassT:
    """Let a class name the right setting in the error about one that it does not have."""
    init: Callable[..., None] = vars(cls)["__init__"]
    _, *known = inspect.signature(init).parameters

    @functools.wraps(init)
    def checking(self: object, *args: Any, **settings: Any) -> None:
        if not settings.keys() <= set(known):
            raise unknown_keywords(cls.__name__, settings, known)
        init(self, *args, **settings)

    type.__setattr__(cls, "__init__", checking)
    return cls


@functools.lru_cache(maxsize=256)
def home_of(name: str) -> str | None:
    """Return the module of factmem to import a name from: a package that exports it, or else the module that has it.

    Modules are read, not imported, except for the packages.
    """
    for module in (f"factmem.{part}" for part in _PACKAGES):
        with suppress(ImportError):  # of a package that is not installed
            if name in importlib.import_module(module).__all__:
                return module
    root = Path(__file__).parent
    defined = re.compile(rf"^(?:(?:class|def|async def) )?{re.escape(name)}\b *[(:\[=]", re.MULTILINE)
    for path in sorted(root.rglob("*.py")):
        parts = path.relative_to(root).with_suffix("").parts
        if parts[0] != "cli" and defined.search(path.read_text(encoding="utf-8")):
            return ".".join(("factmem", *(part for part in parts if part != "__init__")))
    return None
