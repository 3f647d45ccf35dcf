"""Moving in: what an importer finds is written to a memory, and a report says what became of it."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, assert_never

import attrs
from anyio import to_thread

from factmem.abc.detector import DropReason
from factmem.errors import ConceptConflictError, FactMemError, FileFormatError, InvalidDataError
from factmem.importers.contract import Dialogue, Entry, Found, Lost, Problem, Skipped
from factmem.importers.imported_before import Rows, following, rows_before
from factmem.importers.systems import Reading
from factmem.memory.facade import Memory
from factmem.records import AssertionState
from factmem.values import Json

__all__ = ["ImportReport", "move_in", "preview"]

_BATCH: Final = 250
_LONGEST_HISTORY: Final = 10_000
_PROBLEMS_KEPT: Final = 100


@attrs.frozen(kw_only=True)
class ImportReport:
    """The outcome of `move_in`.

    Attributes:
        imported: Number of new assertions; in a preview, of all that would be imported.
        known: Number of assertions that were there before.
        quarantined: Number of assertions, new and known, that wait in quarantine.
        accepted: Number of assertions that an earlier import had quarantined and this one accepted.
        owners: Owners of private ones among what waits in quarantine.
        updated: Number of records of an earlier import that were revised, since their rows have changed.
        retracted: Number of records of an earlier import that were retracted, since their rows count no more.
        conversations: Number of conversations that were ingested.
        skipped: Number of rows that were left out on purpose, by reason.
        lost: Number of rows with a part that factmem has no place for, by part.
        errors: Number of rows that could not be read or kept.
        problems: The first hundred of them, each with its place and its fault.
    """

    imported: int = 0
    known: int = 0
    quarantined: int = 0
    accepted: int = 0
    owners: tuple[str, ...] = ()
    updated: int = 0
    retracted: int = 0
    conversations: int = 0
    skipped: Mapping[str, int] = attrs.field(factory=dict)
    lost: Mapping[str, int] = attrs.field(factory=dict)
    errors: int = 0
    problems: tuple[Problem, ...] = ()

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        problems = [
            {"where": problem.where, "type": type(problem.error).__name__, "message": str(problem.error)}
            for problem in self.problems
        ]
        return attrs.asdict(self, recurse=False) | {
            "skipped": dict(self.skipped),
            "lost": dict(self.lost),
            "problems": problems,
            "owners": list(self.owners),
        }


async def move_in(
    memory: Memory,
    found: Iterable[Found],
    *,
    trust: bool = False,
    progress: Callable[[float], None] | None = None,
) -> ImportReport:
    """Write what an importer finds to a memory; doing it twice adds nothing.

    Rows with ids are known again: one that has changed since an earlier import is a revision of its record, and one
    that counts no more, or has moved to another place, retracts it. A record that was changed here meanwhile is left
    as it is, and its row skipped.

    Facts of the user and of the assistant are kept as theirs; those of unknown origin are quarantined. Conversations
    are ingested as `Memory.remember` does it, with the model of the memory if it has one. A row that the memory refuses
    is reported and does not cost the others; so is damage in the midst of a source.

    ::

        report = await move_in(memory, read_system("mem0", "get_all.json"))

    Args:
        memory: The memory.
        found: What an importer finds, such as a `Reading`. It is iterated in worker threads.
        trust: Let facts of unknown origin in.
        progress: A function that is called with the share that has been read.

    Raises:
        FileFormatError: The source is unsafe, not of the system, or damaged at its beginning.
        StoreUnavailableError: The store cannot be written; earlier rows are kept.
        CapabilityError: The provider has the four verbs only.
    """
    tally, newest, rows = _Tally(), dict[str | None, int](), dict[str | None, Rows]()
    async for batch in _batches(found, progress):
        tally.note(batch)
        await _keep_entries(memory, [item for item in batch if isinstance(item, Entry)], tally, rows, trust=trust)
        for dialogue in (item for item in batch if isinstance(item, Dialogue)):
            await _ingest(memory, dialogue, tally, newest)
    return tally.report()


async def preview(found: Iterable[Found], *, progress: Callable[[float], None] | None = None) -> ImportReport:
    """Report what `move_in` would import, without a memory: everything is read, and nothing is written.

    Args:
        found: What an importer finds.
        progress: See `move_in`.

    Raises:
        FileFormatError: See `move_in`.
    """
    tally = _Tally()
    async for batch in _batches(found, progress):
        tally.note(batch)
        kinds = {Entry: "imported", Dialogue: "conversations"}
        tally.counts.update(kinds[type(item)] for item in batch if type(item) in kinds)
    return tally.report()


async def _batches(found: Iterable[Found], progress: Callable[[float], None] | None) -> AsyncIterator[Sequence[Found]]:
    """Yield what is found, some at a time, as a worker thread reads it."""
    batches = _parted(iter(found))
    while (batch := await to_thread.run_sync(next, batches, None)) is not None:
        yield batch
        if progress is not None and isinstance(found, Reading):
            progress(found.share)


def _parted(found: Iterator[Found]) -> Iterator[Sequence[Found]]:
    """Yield what is found, some at a time. A source that ends in damage gives what stands before it.

    A record and its revisions are never parted, and a conversation is the last of its part.
    """
    batch: list[Found] = []
    empty = True
    try:
        for item in found:
            if isinstance(item, Entry) and item.recorded.assertion.revises is not None:
                if len(batch) >= _LONGEST_HISTORY:
                    most = _LONGEST_HISTORY - _BATCH
                    raise FileFormatError(f"a record has more than {most:,} revisions", path=item.where)
            elif len(batch) >= _BATCH or (batch and isinstance(batch[-1], Dialogue)):
                yield batch
                batch = []
            batch.append(item)
            empty = False
    except FactMemError as error:
        if empty:
            raise
        batch.append(Problem("the rest of it", error))
    yield batch


class _Tally:
    """The numbers of a report, while it is made."""

    def __init__(self) -> None:
        self.counts, self.skipped, self.lost = Counter[str](), Counter[str](), Counter[str]()
        self.problems: list[Problem] = []
        self.owners: dict[str, None] = {}

    def note(self, batch: Iterable[Found]) -> None:
        for item in batch:
            match item:
                case Skipped(reason, count):
                    self.skipped[reason] += count
                case Lost(what, count):
                    self.lost[what] += count
                case Problem():
                    self.fail(item)
                case Entry() | Dialogue():
                    pass
                case _:
                    assert_never(item)

    def fail(self, problem: Problem) -> None:
        self.counts["errors"] += 1
        if len(self.problems) < _PROBLEMS_KEPT:
            self.problems.append(problem)

    def report(self) -> ImportReport:
        return ImportReport(
            **self.counts,
            owners=tuple(self.owners),
            skipped=self.skipped,
            lost=self.lost,
            problems=tuple(self.problems),
        )


async def _keep_entries(
    memory: Memory, entries: Sequence[Entry], tally: _Tally, rows: dict[str | None, Rows], *, trust: bool
) -> None:
    """Import entries, those of each owner through a view of their own, as what follows an earlier import."""
    owners: dict[str | None, list[Entry]] = {}
    for entry in entries:
        owners.setdefault(entry.recorded.assertion.details.owner, []).append(entry)
    for owner, own in owners.items():
        view = memory if owner is None else memory.view(viewer=owner)
        if owner not in rows:
            rows[owner] = await rows_before(view, owner)
        histories, records = await following(
            view, _histories(own), rows[owner], trust=trust, counts=tally.counts, skipped=tally.skipped
        )
        before = tally.counts["quarantined"]
        await _import(view, histories, tally, records, trust=trust)
        if owner is not None and tally.counts["quarantined"] > before:
            tally.owners[owner] = None


def _histories(entries: Iterable[Entry]) -> list[list[Entry]]:
    """Return the entries of each record together, oldest first."""
    histories: list[list[Entry]] = []
    latest: dict[str, list[Entry]] = {}
    for entry in entries:
        record = entry.recorded.record_id
        if entry.recorded.assertion.revises is None or record not in latest:
            latest[record] = []
            histories.append(latest[record])
        latest[record].append(entry)
    return histories


async def _import(
    memory: Memory, histories: Sequence[list[Entry]], tally: _Tally, records: Mapping[str, str], *, trust: bool
) -> None:
    """Import records with their revisions; if the memory refuses them, those of each half by themselves."""
    # All first revisions, then all second ones: each round is one transaction.
    rounds = itertools.zip_longest(*histories)
    entries = [entry.recorded for together in rounds for entry in together if entry is not None]
    try:
        receipt = await memory.admin.import_(entries, trust=trust, records=records)
    except (InvalidDataError, ConceptConflictError) as error:
        if len(histories) == 1:
            for entry in histories[0]:
                tally.fail(Problem(entry.where, error))
            return
        middle = len(histories) // 2
        await _import(memory, histories[:middle], tally, records, trust=trust)
        await _import(memory, histories[middle:], tally, records, trust=trust)
    else:
        counts = attrs.asdict(receipt, filter=attrs.filters.exclude("private"))
        tally.counts.update(counts, known=len(entries) - receipt.imported)


async def _ingest(memory: Memory, dialogue: Dialogue, tally: _Tally, newest: dict[str | None, int]) -> None:
    """Ingest a conversation.

    Args:
        memory: The memory.
        dialogue: The conversation.
        tally: The numbers to add to.
        newest: For each owner, the revision after which records are new.
    """
    view = memory if dialogue.owner is None else memory.view(viewer=dialogue.owner)
    if dialogue.owner not in newest:
        newest[dialogue.owner] = max((entry.seq for entry in (await view.admin.audit(limit=1)).entries), default=0)
    try:
        outcome = await view.remember(
            dialogue.conversation,
            subject=dialogue.subject,
            scope=dialogue.scope,
            source=dialogue.source,
            private=dialogue.owner is not None,
        )
    except (InvalidDataError, ConceptConflictError) as error:
        tally.fail(Problem(dialogue.where, error))
        return
    new = sum(record.revision > newest[dialogue.owner] for record in outcome.records)
    newest[dialogue.owner] = max([newest[dialogue.owner], *(record.revision for record in outcome.records)])
    tally.counts.update(
        conversations=1,
        imported=new,
        known=len(outcome.records) - new,
        quarantined=sum(record.state is AssertionState.QUARANTINED for record in outcome.records),
    )
    for reason, count in outcome.dropped.items():
        what = tally.lost if reason is DropReason.NOT_TEXT else tally.skipped
        what[reason.value] += count
