"""Moving in: what an importer finds is written to a memory, and counted in a report.

Rows that were imported before are known again: their records are revised, or retracted where the rows have ended.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias, assert_never

import attrs
from anyio import to_thread

from factmem.abc.detector import DropReason
from factmem.errors import ConceptConflictError, FactMemError, FileFormatError, InvalidDataError
from factmem.facts import FactType
from factmem.fold import by_record, deciding_order, states_of
from factmem.importers.contract import SOURCE_ID, Dialogue, Entry, Found, Lost, Problem, Skipped
from factmem.importers.systems import Reading
from factmem.json_form import attributes
from factmem.legal_names import folded_keyword
from factmem.memory.facade import Memory, entries_of, withdraw
from factmem.providers.write_plans import TrackIndex, check_writable
from factmem.recall import RecallFilter
from factmem.recall.conditions import MetadataCondition, MetadataOperator
from factmem.recall.index.selection import LogPart
from factmem.records import Assertion, AssertionState, Recorded, StateChange
from factmem.shapes import Shape
from factmem.value_types import scalar_of_shape
from factmem.values import Json, encode_value

_BATCH: Final = 250
_LONGEST_HISTORY: Final = 10_000
_PROBLEMS_KEPT: Final = 100

_Rows: TypeAlias = Mapping[str, set[str]]
"""The ids of the records that earlier imports made, by the ids of their rows in the source."""

_Type: TypeAlias = tuple[FactType, Shape]

_OF_ROWS: Final = RecallFilter(where=[[MetadataCondition(SOURCE_ID, "", operator=MetadataOperator.GREATER_THAN)]])
_GONE: Final = "it counts no more where it was imported from"
_NEEDS_TRUST: Final = "they count no more there, which nobody is known to have said (--trust retracts them)"
_CHANGED_HERE: Final = "their records were changed here after an earlier import"


@attrs.define(kw_only=True)
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
    owners: list[str] = attrs.field(factory=list)
    updated: int = 0
    retracted: int = 0
    conversations: int = 0
    skipped: Counter[str] = attrs.field(factory=Counter)
    lost: Counter[str] = attrs.field(factory=Counter)
    errors: int = 0
    problems: list[Problem] = attrs.field(factory=list)

    def to_json(self) -> dict[str, Json]:
        """Return it as JSON."""
        problems: list[Json] = [
            {"where": problem.where, "type": type(problem.error).__name__, "message": str(problem.error)}
            for problem in self.problems
        ]
        return attributes(self) | {"problems": problems}


async def move_in(
    memory: Memory, found: Iterable[Found], *, trust: bool = False, progress: Callable[[float], None] | None = None
) -> ImportReport:
    """Write what an importer finds to a memory; doing it twice adds nothing.

    Rows with ids are known again: one that has changed since an earlier import is a revision of its record, and one
    that counts no more, or has moved to another place, retracts it. A record that was changed here meanwhile is left
    as it is, and its row skipped.

    Facts of the user and of the assistant are kept as theirs; those of unknown origin are quarantined. Conversations
    are ingested as `Memory.remember` does it, with the model of the memory if it has one. A text is read with the type
    that its concept has in the store: that of its own place, subject and owner binds, even if all facts there are
    retracted; else that of the keyword elsewhere is used where the value fits it, and text otherwise. A row that the
    memory refuses is reported and does not cost the others; so is damage in the midst of a source.

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
    report, newest, rows = ImportReport(), dict[str | None, int](), dict[str | None, _Rows]()
    types = _Types(memory)
    async for batch in _batches(found, progress):
        batch = [await types.read(item) for item in batch]
        _note(report, batch)
        await _keep_entries(memory, [item for item in batch if isinstance(item, Entry)], report, rows, trust=trust)
        for dialogue in (item for item in batch if isinstance(item, Dialogue)):
            await _ingest(memory, dialogue, report, newest)
    return report


async def preview(
    found: Iterable[Found], memory: Memory | None = None, *, progress: Callable[[float], None] | None = None
) -> ImportReport:
    """Report what `move_in` would import: everything is read, and nothing is written.

    Args:
        found: What an importer finds.
        memory: The memory, if it exists; the types of its concepts are those of the rows.
        progress: See `move_in`.

    Raises:
        FileFormatError: See `move_in`.
    """
    report, types = ImportReport(), None if memory is None else _Types(memory)
    async for batch in _batches(found, progress):
        batch = batch if types is None else [await types.read(item) for item in batch]
        _note(report, batch)
        report.imported += sum(isinstance(item, Entry) for item in batch)
        report.conversations += sum(isinstance(item, Dialogue) for item in batch)
    return report


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


def _note(report: ImportReport, batch: Iterable[Found]) -> None:
    """Add to a report what is not imported of a part of the source."""
    for item in batch:
        match item:
            case Skipped(reason, count):
                report.skipped[reason] += count
            case Lost(what, count):
                report.lost[what] += count
            case Problem():
                _fail(report, item)
            case Entry() | Dialogue():
                pass
            case _:
                assert_never(item)


def _fail(report: ImportReport, problem: Problem) -> None:
    """Add to a report a row that cannot be read or kept."""
    report.errors += 1
    if len(report.problems) < _PROBLEMS_KEPT:
        report.problems.append(problem)


async def _keep_entries(
    memory: Memory, entries: Sequence[Entry], report: ImportReport, rows: dict[str | None, _Rows], *, trust: bool
) -> None:
    """Import entries, those of each owner through a view of their own, as what follows an earlier import."""
    owners: dict[str | None, list[Entry]] = {}
    for entry in entries:
        owners.setdefault(entry.recorded.assertion.details.owner, []).append(entry)
    for owner, own in owners.items():
        view = memory if owner is None else memory.view(viewer=owner)
        if owner not in rows:
            rows[owner] = await _rows_before(view, owner)
        histories, records = await _following(view, _histories(own), rows[owner], report, trust=trust)
        before = report.quarantined
        await _import(view, histories, report, records, trust=trust)
        if owner is not None and report.quarantined > before and owner not in report.owners:
            report.owners.append(owner)


async def _rows_before(memory: Memory, owner: str | None) -> _Rows:
    """Return the rows of earlier imports whose records are of one owner."""
    rows: dict[str, set[str]] = {}
    for entry in await entries_of(memory, LogPart(kept=_OF_ROWS)):
        if isinstance(entry, Recorded) and _imported(entry) and entry.assertion.details.owner == owner:
            rows.setdefault(_source_id(entry), set()).add(entry.record_id)
    return rows


def _source_id(entry: Recorded) -> str:
    return str(entry.assertion.details.metadata.get(SOURCE_ID))


def _imported(entry: Recorded) -> bool:
    return (entry.assertion.actor or "").partition(":")[0] == "import"


async def _following(
    memory: Memory, histories: list[list[Entry]], rows: _Rows, report: ImportReport, *, trust: bool
) -> tuple[list[list[Entry]], dict[str, str]]:
    """Return histories as what follows their records of earlier imports, and those by the ids in the source.

    Records whose rows count no more, or have moved, are retracted, but not believed ones by rows of a lower origin that
    nobody trusts.

    Args:
        memory: The memory, as the owner of all these records sees it.
        histories: The entries of each record, oldest first.
        rows: The rows of earlier imports.
        report: Takes the numbers of records that are updated and retracted, and of rows that are left out.
        trust: See `factmem.importers.move_in`.
    """
    ids = Counter(_source_id(history[0].recorded) for history in histories)
    candidates = {id: rows[id] for id, times in ids.items() if times == 1 and id in rows}
    if not candidates:
        return histories, {}
    logs = by_record(await entries_of(memory, LogPart(record_ids=set().union(*candidates.values()))))
    kept: list[list[Entry]] = []
    records: dict[str, str] = {}
    gone: list[Recorded] = []
    for history in histories:
        pasts = [_Past.of(logs[id]) for id in candidates.get(_source_id(history[0].recorded), ()) if id in logs]
        pasts = [past for past in pasts if not past.gone] or pasts
        if len(pasts) != 1:
            kept.append(history)
            continue
        (past,), last = pasts, history[-1].recorded.assertion
        ends = bool(past.standing) and last.state is AssertionState.RETRACTED
        moved = bool(past.standing) and all(_where(entry) != _where(history[-1].recorded) for entry in past.said)
        new = sum(_as_said(entry.recorded) not in past.known for entry in history)
        ending = (ends or moved) and (trust or last.details.origin.rank >= past.trust)
        if ends and not ending and not past.changed:
            report.skipped[_NEEDS_TRUST] += 1
            continue
        if past.changed:
            if new or ends:
                report.skipped[_CHANGED_HERE] += 1
            history = [entry for entry in history if _as_said(entry.recorded) in past.known]
        elif new or ends:
            report.retracted += ends
            report.updated += not ends
            gone += past.standing if ending else ()
        if past.changed or not moved:
            history = [past.followed_by(entry) for entry in history]
            records |= {entry.recorded.record_id: past.said[0].record_id for entry in history}
        kept += [history] if history else []
    if gone:
        await withdraw(memory, gone, _GONE)
    return kept, records


@attrs.frozen
class _Types:
    """The types of the concepts of rows: of each track that the store or an earlier row has, else of the keyword.

    A store would take a row of another type than its track into quarantine, and never let it out. What never counted
    there, such as quarantined facts, gives a track no type.
    """

    _memory: Memory
    _of_keywords: dict[tuple[object, ...], _Type | None] = attrs.field(factory=dict)
    _of_tracks: dict[tuple[object, ...], _Type] = attrs.field(factory=dict)

    async def read(self, item: Found) -> Found:
        """Return an entry with the type of its concept; a problem for one that is not of that type."""
        if not isinstance(item, Entry) or (said := item.recorded.assertion).is_statement:
            return item
        of_keyword, track = await self._of_keyword(said), _folded_track(item.recorded)
        there = self._of_tracks.get(track)
        known = there or of_keyword
        if known is not None:
            try:
                said = _of_type(said, *known)
            except ConceptConflictError as error:
                if there is not None:
                    return Problem(item.where, error)
        self._of_tracks.setdefault(track, (said.fact_type, said.shape))
        return attrs.evolve(item, recorded=attrs.evolve(item.recorded, assertion=said))

    async def _of_keyword(self, said: Assertion) -> _Type | None:
        """Return the newest type of a keyword that the owner of a row sees, and note the types of the owner's tracks.

        They are read of the log: retracted and expired facts bind a track as well. For an owner, it is the log of one
        subject: each of many owners sees all that is public.
        """
        keyword, owner = said.keyword, said.details.owner
        subject = None if owner is None else said.place.subject
        key = keyword, owner, subject
        if key not in self._of_keywords:
            memory = self._memory if owner is None else self._memory.view(viewer=owner)
            log = await entries_of(memory, LogPart(kept=RecallFilter(keywords=[keyword], subject=subject)))
            index, newest = TrackIndex(), None
            for entry in log:
                index.add(entry)
            for entry in log:
                if isinstance(entry, Recorded) and (types := index.type_of(entry.assertion.track)) is not None:
                    fact_type, shapes = types
                    newest = fact_type, shapes[-1]  # each has to take all before it
                    if entry.assertion.details.owner == owner:
                        self._of_tracks.setdefault(_folded_track(entry), newest)
            if newest is None and subject is not None:
                found = await memory.list_records(concepts=[keyword], limit=1)
                newest = next(((it.concept.fact_type, it.concept.shape) for it in found), None)
            self._of_keywords[key] = newest
        return self._of_keywords[key]


def _of_type(said: Assertion, fact_type: FactType, shape: Shape) -> Assertion:
    """Return an assertion as one of a type: a text is read as a value of it, and a single value is one of several.

    Raises:
        ConceptConflictError: It has another type, or is a text that is not of the type.
    """
    if fact_type is FactType.MULTIPLE:
        said = attrs.evolve(said, fact_type=fact_type)
    scalar = scalar_of_shape(shape)
    if said.shape == "str" and isinstance(said.data, str) and scalar is not None and scalar.parse is not None:
        try:
            said = attrs.evolve(said, data=encode_value(scalar.parse(said.data), scalar.type), shape=shape)
        except (ValueError, OverflowError):
            raise ConceptConflictError(
                f"the concept has the type {shape} in the store, and the value is not one: correct the value, or "
                "import it under another keyword",
                keyword=said.keyword,
            ) from None
    try:
        check_writable(said, fact_type, [shape])
    except ConceptConflictError as error:
        raise ConceptConflictError(f"{error}; a table has its types in a column `type`", keyword=said.keyword) from None
    return said


def _where(entry: Recorded) -> tuple[object, ...]:
    """Return the track of an entry, whose tenant a source does not know."""
    return entry.assertion.track[1:]


def _folded_track(entry: Recorded) -> tuple[object, ...]:
    """Return what the track of an entry has in common with those of alike keywords."""
    *place, keyword = _where(entry)
    return (*place, folded_keyword(str(keyword)))


def _as_said(entry: Recorded) -> tuple[object, ...]:
    return (*_where(entry), entry.assertion.slot or repr(entry.assertion.data), entry.assertion.timestamp)


@attrs.frozen(kw_only=True)
class _Past:
    """A record of earlier imports.

    Attributes:
        said: Its assertions.
        standing: Those that are not retracted.
        trust: The highest `Assertion.trust` of those that count.
        known: The imported ones, as the source tells them, with what they revise.
        gone: Whether an import retracted it.
        changed: Whether its value was changed or retracted here.
    """

    said: Sequence[Recorded]
    standing: Sequence[Recorded]
    trust: int
    known: Mapping[tuple[object, ...], str | None]
    gone: bool
    changed: bool

    @classmethod
    def of(cls, log: Sequence[Recorded | StateChange]) -> _Past:
        said = [entry for entry in log if isinstance(entry, Recorded)]
        states = states_of(log)
        reasons = {entry.assertion_id: entry.reason for entry in log if isinstance(entry, StateChange)}
        standing = [entry for entry in said if states[entry.id] is not AssertionState.RETRACTED]
        ended = {reasons[entry.id] for entry in said if entry not in standing and entry.id in reasons}
        return cls(
            said=said,
            standing=standing,
            trust=max(
                (entry.assertion.trust for entry in said if states[entry.id] is AssertionState.ACTIVE), default=0
            ),
            known={_as_said(entry): entry.assertion.revises for entry in said if _imported(entry)},
            gone=not standing and _GONE in ended,
            changed=bool(ended - {_GONE}) or (bool(standing) and not _imported(max(standing, key=deciding_order))),
        )

    def followed_by(self, entry: Entry) -> Entry:
        """Return an entry as it was imported before, or else as a revision of this record."""
        recorded = entry.recorded
        revises = self.known.get(_as_said(recorded), recorded.record_id) and recorded.record_id
        said = attrs.evolve(recorded.assertion, revises=revises)
        return attrs.evolve(entry, recorded=attrs.evolve(recorded, assertion=said))


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
    memory: Memory, histories: Sequence[list[Entry]], report: ImportReport, records: Mapping[str, str], *, trust: bool
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
                _fail(report, Problem(entry.where, error))
            return
        middle = len(histories) // 2
        await _import(memory, histories[:middle], report, records, trust=trust)
        await _import(memory, histories[middle:], report, records, trust=trust)
    else:
        report.imported += receipt.imported
        report.known += len(entries) - receipt.imported
        report.quarantined += receipt.quarantined
        report.accepted += receipt.accepted


async def _ingest(memory: Memory, dialogue: Dialogue, report: ImportReport, newest: dict[str | None, int]) -> None:
    """Ingest a conversation.

    Args:
        memory: The memory.
        dialogue: The conversation.
        report: The numbers to add to.
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
        _fail(report, Problem(dialogue.where, error))
        return
    new = sum(record.revision > newest[dialogue.owner] for record in outcome.records)
    newest[dialogue.owner] = max([newest[dialogue.owner], *(record.revision for record in outcome.records)])
    report.conversations += 1
    report.imported += new
    report.known += len(outcome.records) - new
    report.quarantined += len(outcome.waiting)
    for reason, count in outcome.dropped.items():
        what = report.lost if reason is DropReason.NOT_TEXT else report.skipped
        what[reason.value] += count
