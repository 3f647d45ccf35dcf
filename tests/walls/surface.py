"""Everything through which facts can be read, found by reflection, so that additions are included."""

from __future__ import annotations

import enum
import inspect
import pkgutil
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import attrs
from typer.main import get_command

from factmem.cli.app import app
from tests.walls.agents import AGENT_MEMORY, AGENTS_MD, LESSONS, MEMORY_FILES, MEMORY_RUN, MEMORY_TOOLS, SAVED_HISTORY
from tests.walls.capabilities import CAPABILITIES, OWN
from tests.walls.facade import READING, WAITING
from tests.walls.hosts import ASKS_A_RUN, BACKEND, LANGGRAPH_STORE, MEMORY_SERVICE
from tests.walls.pending import DEAD_LETTERS, QUARANTINE, SUBMISSION
from tests.walls.ways import Door
from tests.walls.writing import WRITING

_EVERY: Final[Mapping[str, Door]] = {**READING, **WAITING, **WRITING}
_INBOX: Final = {"reads_words", "quarantine", "dead_letters", "ingest_events", "flush", "resume", "extract"}
_ADMIN: Final = {
    *("info", "tree", "audit", "accesses", "export", "import_", "expire", "reset", "traces"),
    *("convert", "merge", "calibrate", "reembed"),
}
_MEMORY: Final = {name: door for name, door in _EVERY.items() if name not in _INBOX | _ADMIN}

CLASSES: Final[Mapping[str, Mapping[str, Door]]] = {
    **dict.fromkeys(("Memory", "BlockingMemory"), _MEMORY),
    **{cls: {name: _EVERY[name] for name in _INBOX} for cls in ("Inbox", "BlockingInbox")},
    **{cls: {name: _EVERY[name] for name in _ADMIN} for cls in ("Admin", "BlockingAdmin")},
    "Quarantine": QUARANTINE,
    "BlockingQuarantine": QUARANTINE,
    "DeadLetters": DEAD_LETTERS,
    "BlockingDeadLetters": DEAD_LETTERS,
    "Submission": SUBMISSION,
    "BlockingSubmission": SUBMISSION,
    "AgentMemory": AGENT_MEMORY,
    "Lessons": LESSONS,
    "MemoryRun": MEMORY_RUN,
    "MemoryTools": MEMORY_TOOLS,
    "SavedHistory": SAVED_HISTORY,
    "MemoryFiles": MEMORY_FILES,
    "AgentsMdFacts": AGENTS_MD,
    "FactMemMemoryService": MEMORY_SERVICE,
    "FactMemStore": LANGGRAPH_STORE,
    "FactMemBackend": BACKEND,
    "AgentMemoryProvider": CAPABILITIES,
    "InMemoryProvider": CAPABILITIES,
    "NoMemory": CAPABILITIES,
    "HistoryProvider": CAPABILITIES,
    "ThreadedProvider": CAPABILITIES,
    "LocalFileMemoryProvider": CAPABILITIES,
    **{name: {**CAPABILITIES, **own} for name, own in OWN.items()},
    **dict.fromkeys(("KeepsLog", "KeepsFiles", "UpgradesFormat"), CAPABILITIES),
}
"""The paths of every class through which facts can be read, by its name."""

_NO_DOORS: Final[Mapping[str, str]] = {
    "AgentsMd": "reads files that people wrote",
    "AgentsMdText": "reads files that people wrote",
    "AgentsMdMiddleware": "reads files that people wrote",
    "GroupCommit": "is what providers are made of",
    "LocalLogStorage": "is what a provider is made of",
    "FactRetrievalCompression": "looks for facts in a history that it is given",
    "Hooks": "is called with what the program may see",
    "RotatesKeys": "changes the key of a store",
    "Node": "is what load_from_memory and its kin return: they call AgentMemory.load_facts_to_agent",
}
"""Classes with async methods that show no stored fact, with the reason."""

_REFERENCE: Final = Path(__file__).parents[2] / "docs" / "pages" / "reference" / "api"
_PAGES: Final = ("memory", "agent", "integrations", "providers")
"""Pages of the reference whose classes show facts."""


def classes() -> Iterator[type]:
    """Yield every documented class of factmem with async methods, and their blocking twins."""
    pages = "\n".join((_REFERENCE / f"{page}.md").read_text(encoding="utf-8") for page in _PAGES)
    targets = ("factmem.abc.provider", "factmem.abc.capabilities", *re.findall(r"^::: (\S+)$", pages, re.MULTILINE))
    found = {cls: None for target in targets for cls in _documented(target)}
    yield from (cls for cls in found if _is_ours(cls) and _does_something(cls))


def _documented(target: str) -> Iterator[type]:
    """Yield a class by its path, or those that a package lists or a module has; none where a package is missing."""
    with suppress(AttributeError):  # `resolve_name` cannot import it
        found = pkgutil.resolve_name(target)
        listed = [getattr(found, name) for name in getattr(found, "__all__", ())]
        public = [thing for name, thing in vars(found).items() if not name.startswith("_")]
        own = [thing for thing in public if getattr(thing, "__module__", None) == target]
        yield from filter(inspect.isclass, (found, *(listed or own)))


def _is_ours(cls: type) -> bool:
    return cls.__module__.partition(".")[0].startswith("factmem")


def _does_something(cls: type) -> bool:
    if issubclass(cls, BaseException | enum.Enum):
        return False
    twin = cls.__name__.startswith("Blocking")
    return twin or any(inspect.iscoroutinefunction(getattr(cls, name, None)) for name in paths_of(cls))


def paths_of(cls: type) -> list[str]:
    """Return the public methods, properties and fields that a class defines or inherits from a class of factmem."""
    names: dict[str, None] = {}
    for ancestor in cls.__mro__:
        if _is_ours(ancestor):
            names |= dict.fromkeys(vars(ancestor))
            names |= dict.fromkeys(getattr(ancestor, "__annotations__", {}))
    return sorted(name for name in names if not name.startswith("_") and not _is_constant(cls, name))


def _is_constant(cls: type, name: str) -> bool:
    """Return whether a name is a field of an attrs class that the program sets, of a class listed by its methods."""
    return attrs.has(cls) and name in {field.name for field in attrs.fields(cls)}


def unlisted_classes() -> list[str]:
    """Return the classes through which facts might be read, and that are in no list."""
    known = {*CLASSES, *_NO_DOORS, *(name.rpartition(".")[2] for name in ASKS_A_RUN)}
    return sorted({cls.__name__ for cls in classes()} - known)


def commands() -> list[str]:
    """Return every command of the command line."""
    return sorted(_commands(get_command(app)))


def _commands(group: Any, prefix: str = "") -> Iterator[str]:
    for name in group.commands:
        command = group.get_command(None, name)
        if hasattr(command, "commands"):
            yield from _commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}"
