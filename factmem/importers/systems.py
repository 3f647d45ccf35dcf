"""The systems that can be imported from, by name."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

import attrs

from factmem.errors import FileFormatError, InvalidDataError
from factmem.importers.contract import Found, ImportOptions, Problem
from factmem.importers.sources import Limits, Source
from factmem.toml_tables import table


@attrs.frozen
class System:
    """A system to import from.

    Attributes:
        name: Its name on the command line.
        reads: The files that are read, in a few words.
        module: The module below `factmem.importers` with its reader, which is imported when something is read.
        option: Field of `ImportOptions` that it reads beside subject, scope, source, private and dates.
        words: Whether it holds conversations, which are ingested, rather than facts.
    """

    name: str
    reads: str
    module: str = attrs.field(default="memories", kw_only=True)
    option: str | None = attrs.field(default=None, kw_only=True)
    words: bool = attrs.field(default=False, kw_only=True)


SYSTEMS: Final[Mapping[str, System]] = {
    name: System(name, **{key: value for key, value in told.items() if key != "fields"})
    for name, told in table("importers/systems").items()
}
"""Every system by name, in the order of the help page."""


@attrs.frozen(kw_only=True, eq=False)
class Reading:
    """The findings of an importer in a source. Each iteration reads it anew, and blocks: use a worker thread.

    Attributes:
        system: The system.
        source: The file or folder.
        options: Choices of the person who imports.
    """

    system: System
    source: Source
    options: ImportOptions

    def __iter__(self) -> Iterator[Found]:
        """Yield what is found, in the order of the source; of a source without anything, a `Problem`.

        Raises:
            FileFormatError: The source is damaged, unsafe, or not of the system. What was yielded before stays valid.
        """
        module = importlib.import_module(f"factmem.importers.{self.system.module}")
        name = f"read_{self.system.name.replace('-', '_')}"
        read: Callable[[Source, ImportOptions], Iterator[Found]] = getattr(module, name)
        empty = True
        for found in read(self.source, self.options):
            yield found
            empty = False
        if empty:
            place = self.source.path.name
            yield Problem(place, FileFormatError(f"nothing of {self.system.name} is in it: is it the right file?"))

    @property
    def share(self) -> float:
        """The share that has been read, from 0 to 1; 0 as long as the size is unknown."""
        return min(self.source.bytes_read / self.source.size, 1.0) if self.source.size else 0.0


def read_system(
    name: str, path: Path | str, options: ImportOptions | None = None, *, limits: Limits | None = None
) -> Reading:
    """Open a source of another system. It is read when the result is iterated.

    Args:
        name: Name of the system; see `SYSTEMS`.
        path: File or folder to read.
        options: Choices of the person who imports.
        limits: Sizes beyond which the source is refused.

    Raises:
        InvalidDataError: There is no such system, or an option is not one of its own.
        FileFormatError: There is no such file.

    Example:
        >>> for found in read_system("mem0", "memories.json"):
        ...     print(found)
    """
    options = options or ImportOptions()
    if (system := SYSTEMS.get(name)) is None:
        known = "; ".join(f"{system.name} ({system.reads})" for system in SYSTEMS.values())
        raise InvalidDataError(f"unknown system {name!r}: name one of {known}")
    for field, option in _OPTIONS.items():
        if getattr(options, field) and field != system.option:
            readers = ", ".join(other.name for other in SYSTEMS.values() if field == other.option)
            raise InvalidDataError(f"{name} has no use for {option}, which is for {readers}")
    if options.source is None:
        options = attrs.evolve(options, source=name)
    return Reading(system=system, source=Source(Path(path), limits), options=options)


_OPTIONS: Final = {"columns": "--column", "namespace": "--namespace", "key": "a key", "with_deleted": "--with-deleted"}
"""Options that some systems read, and their names for people."""
