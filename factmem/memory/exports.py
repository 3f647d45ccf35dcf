"""Export and import: a memory's log as JSON Lines, and the entries of other stores.

The format is described, with its promise, in ``docs/pages/reference/formats.md``; ``tests/memory/exports`` holds a file
of every version.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import logging
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Final, TypeAlias

import attrs
from anyio import from_thread, to_thread
from typing_extensions import TypeIs

from factmem.abc.capabilities import Receipt
from factmem.codec import FORMAT_VERSION, dump_entry, load_entry
from factmem.error_hints import kind_of
from factmem.errors import CodecError, FactMemError, InvalidDataError, NewerVersionError, StoreUnavailableError
from factmem.fold import states_of
from factmem.memory.backend import Backend
from factmem.memory.context import Context
from factmem.memory.reversals import state_requests
from factmem.memory.writer import WritingPart
from factmem.private_files import writing
from factmem.recall.index.selection import LogPart
from factmem.records import Assertion, AssertionState, LogEntry, Place, Recorded

_log = logging.getLogger("factmem")

_BATCH = 500
_LONGEST_LINE: Final = 32 * 1024 * 1024
"""Maximum length of a line of an export, in characters; no assertion comes near it."""
_MOST_CHARS: Final = 8 * 1024 * 1024
"""Number of characters after which no further line joins a batch."""

ImportSource: TypeAlias = Path | str | IO[str] | Iterable[Recorded]
"""A file that `Admin.export` wrote, or entries of another store."""


@attrs.frozen(kw_only=True)
class ImportReceipt:
    """The result of `Admin.import_`.

    Attributes:
        imported: Number of assertions that were new.
        quarantined: Number of assertions of the source that wait in quarantine, those of an earlier import included.
            They are neither loaded nor recalled. ``memory.inbox.quarantine`` lists and accepts them; ``trust=True``
            accepts those that the file marks as believed.
        accepted: Number of assertions that an earlier import had quarantined and this one accepted.
        private: Number of assertions of the source that are private to others, and counted in no other number: whether
            they were new, and what waits, is for their owners to know.
    """

    imported: int
    quarantined: int
    accepted: int = 0
    private: int = 0


class Exchange(WritingPart):
    """Exports and imports the log."""

    async def export(self, target: Path | str | IO[str], *, replace: bool) -> int:
        """See `Admin.export`."""
        self._context.check_present()
        if not (isinstance(target, Path | str) or hasattr(target, "write")):
            raise InvalidDataError(f"export takes a path, or a file opened for writing, not {kind_of(target)}")
        if isinstance(target, Path | str) and not replace and await to_thread.run_sync(Path(target).is_file):
            raise InvalidDataError(f"{target} exists already: name another file, or pass replace=True")
        seen = await self._reader.log()
        return await to_thread.run_sync(_write, target, seen)

    async def import_(
        self,
        source: ImportSource,
        *,
        trust: bool,
        progress: Callable[[int], None] | None,
        records: Mapping[str, str] | None = None,
        keep_actors: bool = False,
    ) -> ImportReceipt:
        """See `Admin.import_`.

        Args:
            source: The source.
            trust: Keep the states of the source.
            progress: Called with the number of entries read so far.
            records: Ids of records of this memory, by the ids under which entries revise them.
            keep_actors: Keep the actors of the source, as for facts that are converted.
        """
        self._context.check_writable()
        actor = None if keep_actors else ":".join(filter(None, ("import", self._context.writer)))
        importing = _Import(
            self._context.everybody, self._backend, trust=trust, from_file=_is_file(source), actor=actor
        )
        importing.record_ids.update(records or {})
        batches = _batches_in(source) if _is_file(source) else _batches_of(source)
        number = 0
        with contextlib.closing(batches):
            while read := await to_thread.run_sync(next, batches, ()):
                for entries in _in_parts(read):
                    await importing.take(entries)
                number += len(read)
                if progress is not None:
                    progress(number)
        return importing.receipt()


class _Import(WritingPart):
    """An import under way.

    Attributes:
        trust: See `Admin.import_`.
        from_file: Whether the source is a file, which vouches for nothing.
        actor: The importer; None for the actors in the source.
        record_ids: Ids of the records here by those in the source.
        waiting: Ids of the assertions that wait in quarantine.
    """

    def __init__(self, context: Context, backend: Backend, *, trust: bool, from_file: bool, actor: str | None) -> None:
        super().__init__(context, backend)
        self.trust, self.from_file, self.actor = trust, from_file, actor
        self.record_ids: dict[str, str] = {}
        self.waiting: set[str] = set()
        self._imported = self._accepted = self._private = 0

    async def take(self, entries: Sequence[Recorded]) -> None:
        """Import some entries."""
        said = [self._anchored(entry.assertion) for entry in entries]
        receipts = await self._writer.append([self._admitted(each) for each in said])
        pairs = zip(entries, receipts, strict=True)
        self.record_ids |= {entry.record_id: receipt.recorded.record_id for entry, receipt in pairs}
        seen = [receipt for receipt in receipts if self._context.administers(receipt.recorded.assertion)]
        self._imported += sum(receipt.new for receipt in seen)
        self._private += len(receipts) - len(seen)
        waiting = await self._waiting(seen)
        self.waiting |= waiting
        if self.trust:
            await self._accept(
                [
                    receipt
                    for receipt, each in zip(receipts, said, strict=True)
                    if receipt.recorded.id in waiting
                    # Accepted there, or believed from the start.
                    and (_was_accepted(each) or (not receipt.new and each.state is AssertionState.ACTIVE))
                ]
            )

    def receipt(self) -> ImportReceipt:
        """Return the result, and log what waits of a file."""
        if self.waiting and self.from_file:
            _log.warning(
                "quarantine keeps %d of the imported assertions out of recall: accept them%s",
                len(self.waiting),
                "" if self.trust else ", or import the file again with trust=True if it is your own",
            )
        return ImportReceipt(
            imported=self._imported, quarantined=len(self.waiting), accepted=self._accepted, private=self._private
        )

    def _anchored(self, said: Assertion) -> Assertion:
        """Return an assertion of the source under this tenant.

        A trusted source may name records that it does not hold, such as those whose first revision was erased.
        """
        place = Place(said.place.subject, said.place.scope.within(self._context.tenant))
        unknown = said.revises if self.trust else None
        revises = None if said.revises is None else self.record_ids.get(said.revises, unknown)
        return attrs.evolve(said, place=place, revises=revises, actor=self.actor or said.actor)

    def _admitted(self, said: Assertion) -> Assertion:
        """Return an assertion in the state in which it is imported; raise if it is another viewer's."""
        if not self.trust or self._context.viewer is not None:  # a trusted file may restore the facts of all viewers
            self._context.owned(said.details, private=False)
        if self.trust:  # what was accepted begins in quarantine again, so that it is accepted here as well
            return attrs.evolve(said, state=AssertionState.QUARANTINED) if _was_accepted(said) else said
        return _doubted(said) if self.from_file or not said.details.origin.trusted else _believed(said)

    async def _waiting(self, receipts: Sequence[Receipt]) -> set[str]:
        """Return the ids of assertions that wait in quarantine.

        The state of a new assertion is known. Of those that were there before, the log is read of those that wait.
        """
        quarantined = AssertionState.QUARANTINED
        recorded = (receipt.recorded for receipt in receipts if receipt.new)
        waiting = {it.id for it in recorded if it.assertion.state is quarantined}
        if known := {receipt.recorded.id for receipt in receipts if not receipt.new}:
            log = await self._backend.mirror.log(LogPart(ids=known, states=[quarantined]))
            waiting |= {entry.id for entry in log if isinstance(entry, Recorded)} & known
        return waiting

    async def _accept(self, receipts: Sequence[Receipt]) -> None:
        """Accept quarantined assertions that count in a trusted source."""
        entries = {receipt.recorded.id: receipt.recorded for receipt in receipts}
        before, after, reason = AssertionState.QUARANTINED, AssertionState.ACTIVE, "imported from a trusted file"
        if entries:
            await self._writer.commit(state_requests(entries.values(), before, after, reason))
        self.waiting -= entries.keys()
        self._accepted += len(entries.keys() - {receipt.recorded.id for receipt in receipts if receipt.new})


def _write(target: Path | str | IO[str], seen: Sequence[LogEntry]) -> int:
    states = states_of(seen)
    log = sorted((entry for entry in seen if isinstance(entry, Recorded)), key=lambda entry: entry.seq)
    opened = writing(Path(target)) if isinstance(target, Path | str) else contextlib.nullcontext(target)
    with _using(target), opened as file:
        file.write(json.dumps({"v": FORMAT_VERSION, "kind": "factmem-export"}) + "\n")
        for start in range(0, len(log), _BATCH):
            from_thread.check_cancelled()
            file.writelines(_written(recorded, states[recorded.id]) for recorded in log[start : start + _BATCH])
    return len(log)


def _written(recorded: Recorded, state: AssertionState) -> str:
    place = Place(recorded.assertion.place.subject, recorded.assertion.place.scope.within(None))
    said = attrs.evolve(recorded.assertion, place=place, state=state, actor=None)
    return dump_entry(attrs.evolve(recorded, assertion=said)).decode() + "\n"


def _in_parts(entries: Sequence[Recorded]) -> Iterator[Sequence[Recorded]]:
    """Yield entries in parts, so that a revision of a record comes after the part with the record."""
    part: list[Recorded] = []
    record_ids: set[str] = set()
    for entry in entries:
        if entry.assertion.revises in record_ids:
            yield part
            part, record_ids = [], set()
        part.append(entry)
        record_ids.add(entry.record_id)
    yield part


def _is_file(source: ImportSource) -> TypeIs[Path | str | IO[str]]:
    return isinstance(source, Path | str) or hasattr(source, "readline")


def _batches_of(entries: Iterable[Recorded]) -> Generator[Sequence[Recorded]]:
    """Yield entries some at a time."""
    rest = iter(entries) if isinstance(entries, Iterable) else iter([entries])
    while some := list(itertools.islice(rest, _BATCH)):
        for entry in some:
            if not isinstance(entry, Recorded):
                raise InvalidDataError(f"import_ takes a file, or Recorded entries, not {kind_of(entry)}")
        yield some


def _batches_in(source: Path | str | IO[str]) -> Generator[Sequence[Recorded]]:
    """Yield the entries of a file that `Admin.export` wrote: some hundreds at a time, or fewer if their lines are long.

    Raises:
        CodecError: A line is malformed; the path names it. The lines before it are yielded.
        StoreUnavailableError: The file cannot be read.
    """
    with _using(source), contextlib.ExitStack() as opened:
        file = source
        if isinstance(file, Path | str):
            file = opened.enter_context(Path(file).open(encoding="utf-8"))
        _check_header(file.readline(_LONGEST_LINE))
        some: list[Recorded] = []
        chars = 0
        for number in itertools.count(1):
            line = file.readline(_LONGEST_LINE + 1)
            chars += len(line)
            try:
                some += [_read(line, number)] if line else []
            except CodecError:
                if some:
                    yield some
                raise
            if some and (not line or len(some) == _BATCH or chars >= _MOST_CHARS):
                yield some
                some, chars = [], 0
            if not line:
                return


def _was_accepted(said: Assertion) -> bool:
    """Return whether an exported assertion counts, of an origin that is not trusted, and is not a later update."""
    return said.state is AssertionState.ACTIVE and not said.details.origin.trusted and said.revises is None


def _believed(said: Assertion) -> Assertion:
    """Return an assertion of a trusted origin as one that no model reads; its flags are found anew."""
    state = AssertionState.ACTIVE if _doubted(said).state is AssertionState.QUARANTINED else said.state
    return attrs.evolve(said, state=state, job=None, details=attrs.evolve(said.details, flags=()))


def _doubted(said: Assertion) -> Assertion:
    """Return an assertion as a quarantined one, in whatever state it was exported, that no model reads."""
    counted = said.state in (AssertionState.ACTIVE, AssertionState.PENDING, AssertionState.FAILED)
    state = AssertionState.QUARANTINED if counted else said.state
    return attrs.evolve(said, state=state, job=None, details=attrs.evolve(said.details, flags=(), doubt=None))


def _check_header(line: str) -> None:
    try:
        header: Any = json.loads(line)
    except (ValueError, RecursionError):
        header = None
    match header:
        case {"kind": "factmem-export", "v": int() as version} if version > FORMAT_VERSION:
            raise NewerVersionError(f"the export is of version {version}: upgrade factmem to read it", path="$[0].v")
        case {"kind": "factmem-export", "v": int()}:
            pass
        case _:
            raise CodecError(
                "not an export of factmem: that of another system is read with `factmem import --from SYSTEM`, and a "
                "conversation with `factmem ingest`",
                path="$[0]",
            )


def _read(line: str, number: int) -> Recorded:
    if len(line) > _LONGEST_LINE:
        raise CodecError(f"the line is longer than {_LONGEST_LINE:,} characters", path=f"$[{number}]")
    try:
        entry = load_entry(line)
    except CodecError as error:
        raise type(error)(str(error), path=f"$[{number}]") from None
    if not isinstance(entry, Recorded):
        raise CodecError("an export holds assertions only", path=f"$[{number}]")
    return entry


@contextlib.contextmanager
def _using(file: Path | str | IO[str]) -> Iterator[None]:
    """Raise errors of a file, and no others, as errors of factmem that name the file."""
    name = file if isinstance(file, Path | str) else getattr(file, "name", "the file")
    try:
        yield
    except FactMemError:
        raise
    except UnicodeDecodeError:
        raise CodecError(f"{name} is not UTF-8 text") from None
    except OSError as error:
        raise StoreUnavailableError(f"{name} cannot be used: {error.strerror or type(error).__name__}") from error
    except ValueError as error:
        raise StoreUnavailableError(f"{name} cannot be used: it is closed, or names no file") from error
