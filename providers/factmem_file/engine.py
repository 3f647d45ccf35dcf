"""Blocking half of the file provider, and the plans of its writes."""

from __future__ import annotations

import contextlib
import heapq
import itertools
import json
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar, assert_never

import attrs

from factmem.abc.capabilities import Access, Append, EmbedderIdentity, EraseReceipt, LogPart, Statement
from factmem.abc.clock import Clock
from factmem.abc.log_storage import LogName, LogStorage, Position
from factmem.errors import CorruptStoreError, FactMemError, NewerVersionError, StateConflictError, StoreUnavailableError
from factmem.private_files import create_file, held_lock, make_folders, write_all
from factmem.progress import Progress
from factmem.providers import TrackIndex
from factmem.providers.sql_rows import part_of
from factmem.providers.threaded import Request
from factmem.providers.write_plans import Planner, SteadyClock, check_part, misfit, unknown_assertion
from factmem.records import LogEntry, Place, Recorded, StateChange, Tombstone
from factmem.store_findings import (
    Finding,
    FindingKind,
    Severity,
    finding_of,
    findings_in,
    no_store,
    pending_erasure,
    remakeable_vectors,
    unfinished_copy,
)
from factmem.vectors import storable_vector
from factmem_file.log_storage import LOCK_NAME
from factmem_file.logs import (
    ARRIVAL_KIND,
    HISTORY_KINDS,
    Accesses,
    LogCopies,
    LogCopy,
    Sidecars,
    arrival_log,
    by_seq,
    erased_log,
    payload_of,
    place_log,
)
from factmem_file.sequence_numbers import Counter

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")


@attrs.define(eq=False)
class _PlannedLog:
    """Additions to one log.

    Attributes:
        copy: Copy of the log.
        position: End of the log.
        entries: New entries in order; none if all of them exist already.
        vectors: Vectors of new assertions, by sequence number.
    """

    copy: LogCopy
    position: Position
    entries: list[LogEntry] = attrs.field(factory=list)
    vectors: dict[int, NDArray[np.float32]] = attrs.field(factory=dict)


@attrs.define(eq=False)
class _WritePlan:
    """Writes of a group of requests: each is refused or accepted as a whole before anything is written.

    Attributes:
        last_of: Returns the last number assigned to a tenant, and brings the clock to its newest time.
        copy_of: Returns the copy of a log, caught up.
        locate: Returns the log of the id of a tenant's assertion, or None.
        clock: Returns the time of recording.
        dimension: Dimension of the store's vectors, once it has an embedder.
        logs: Additions to each log.
        touched: Logs that each request depends on.
    """

    last_of: Callable[[str | None], int]
    copy_of: Callable[[LogName], LogCopy]
    locate: Callable[[str, str | None], LogName | None]
    clock: SteadyClock
    dimension: int | None
    logs: dict[LogName, _PlannedLog] = attrs.field(factory=dict)
    touched: dict[Request, set[LogName]] = attrs.field(factory=lambda: defaultdict(set))
    _before: dict[str | None, int] = attrs.field(factory=dict, init=False)
    _logs_of: dict[int, LogName] = attrs.field(factory=dict, init=False)
    _planner: Planner = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self._planner = Planner(self.clock, self._index_of, self._before.__getitem__)

    @property
    def last(self) -> Mapping[str | None, int]:
        """Last number of each tenant that something is written of."""
        return self._planner.last

    def add(self, request: Request) -> None:
        """Add a request, or refuse it and leave the plan unchanged.

        Raises:
            FactMemError: The request is refused.
        """
        for statement in request.statements:
            if statement.tenant not in self._before:
                self._before[statement.tenant] = self.last_of(statement.tenant)
        self._logs_of = of = {id(statement): self._log_of(statement) for statement in request.statements}
        vectors = {
            id(item): storable_vector(item.vector, dimension=self.dimension)
            for item in request.statements
            if isinstance(item, Append) and item.vector is not None
        }
        receipts, planned = self._planner.plan(request.statements)
        self.touched[request].update(of.values())
        for each in planned:
            log = self.logs[of[id(each.item)]]
            log.entries.append(each.entry)
            if (vector := vectors.get(id(each.item))) is not None:
                log.vectors[each.entry.seq] = vector
        request.receipts = receipts

    def _log_of(self, statement: Statement) -> LogName:
        log = (
            place_log(statement.assertion.place)
            if isinstance(statement, Append)
            else self.locate(statement.assertion_id, statement.tenant)
        )
        if log is None:
            raise unknown_assertion()
        if log not in self.logs:
            copy = self.copy_of(log)
            self.logs[log] = _PlannedLog(copy, copy.position)
        return log

    def _index_of(self, statement: object) -> TrackIndex:
        return self.logs[self._logs_of[id(statement)]].copy.indexed()


_LOOKS: Final = 3
_PAUSE: Final = 0.1
"""Number of looks at a store that seems damaged, and the pause between two, in seconds."""

_COPIED_BYTES: Final = 1 << 20
"""Number of bytes of a file that are copied at once."""


class FileEngine:
    """Reads and writes a store of logs; see `factmem.providers.threaded.Engine`.

    The storage's lock is acquired before the guard of the copies in memory, never after it.

    Args:
        storage: Log storage of the logs.
        root: Folder of all files.
        clock: Returns the time of recording.
        lock_timeout: Longest wait for other processes, in seconds.
    """

    def __init__(self, storage: LogStorage, root: Path, *, clock: Clock, lock_timeout: float) -> None:
        self._storage = storage
        self._root = root
        self._clock = SteadyClock(clock)
        self._lock_timeout = lock_timeout
        self._guard = threading.RLock()
        self._copies = LogCopies(storage)
        self._sidecars = Sidecars(storage)
        self._accesses = Accesses(storage)
        self._counter = Counter(storage, self._clock)

    def commit(self, requests: Sequence[Request]) -> None:
        """Write requests together: one lock, one append and one flush for each log; each may fail alone."""
        with self._storage.lock(self._lock_timeout):
            self._commit(requests)

    def _commit(self, requests: Sequence[Request]) -> None:
        with self._guard:
            identity = self._sidecars.embedder() if any(map(_has_vector, requests)) else None
            plan = _WritePlan(
                self._counter.last, self._writable, self._locate, self._clock, identity.dimension if identity else None
            )
            for request in requests:
                try:
                    plan.add(request)
                except FactMemError as error:
                    request.settle(error)
        failed: Mapping[LogName, FactMemError] = dict.fromkeys(
            plan.logs, StoreUnavailableError("the write broke off: nothing was written")
        )
        try:
            self._counter.reserve(plan.last)
            failed = self._write(plan, identity)
        finally:
            with self._guard:
                for log in failed:
                    self._copies.distrust(log)
        self._counter.commit(plan.last)
        for request in requests:
            request.settle(next((failed[log] for log in plan.touched[request] if log in failed), None))

    def _write(self, plan: _WritePlan, identity: EmbedderIdentity | None) -> Mapping[LogName, FactMemError]:
        """Write each log and its vectors, seal them, and return the errors of the logs that do not count."""
        failed: dict[LogName, FactMemError] = {}
        for log, planned in plan.logs.items():
            try:
                if planned.entries:
                    self._storage.append(log, payload_of(planned.entries), planned.position)
                else:
                    self._storage.settle(log, planned.position)
            except FactMemError as error:
                failed[log] = error
        if identity is not None:
            self._write_vectors(plan, identity, failed)
        if plan.logs.keys() - failed.keys():
            try:
                self._storage.seal()
            except FactMemError as error:
                return dict.fromkeys(plan.logs, error) | failed
        return failed

    def _write_vectors(
        self, plan: _WritePlan, identity: EmbedderIdentity, failed: Mapping[LogName, FactMemError]
    ) -> None:
        with self._guard, contextlib.suppress(StoreUnavailableError):  # the facts are safe; vectors can be made again
            for log, planned in plan.logs.items():
                if planned.vectors and log not in failed:
                    self._sidecars.append(log, planned.vectors, identity)

    def _writable(self, log: LogName) -> LogCopy:
        """Return the copy of a log, caught up, after finishing an interrupted erasure."""
        copy = self._copies.caught_up(log)
        hidden = self._copies.caught_up(erased_log(log.folder[0] or None)).erased
        if hidden.isdisjoint(copy.recorded):
            return copy
        self._rewrite(log, copy, hidden)
        return self._copies.caught_up(log)

    def _locate(self, assertion_id: str, tenant: str | None) -> LogName | None:
        for log, copy in self._copies.known(tenant):
            if assertion_id in copy.recorded and assertion_id in self._writable(log).recorded:
                return log
        found = (log for log, copy in self._copies.of_tenant(tenant) if assertion_id in copy.recorded)
        return next((log for log in found if assertion_id in self._writable(log).recorded), None)

    def entries(self, place: Place, keyword: str | None) -> list[LogEntry]:
        """Return the log of a place."""

        def look() -> list[LogEntry]:
            hidden = self._copies.erased(place.scope.tenant)
            copy = self._copies.caught_up(place_log(place))
            if keyword is None and not hidden:
                return list(copy.entries)
            recorded = copy.recorded
            return [
                entry
                for entry in copy.entries
                if (id := entry.assertion_id) in recorded
                and id not in hidden
                and keyword in (None, recorded[id].assertion.keyword)
            ]

        return self._read(look) if self._storage.exists() else []

    def version(self, tenant: str | None) -> int:
        """Return the newest sequence number of a tenant that is committed."""
        if not self._storage.exists():
            return 0
        if (committed := self._counter.committed(tenant)) is not None:
            return committed
        with self._storage.lock(self._lock_timeout):
            return self._counter.last(tenant)

    def _until(self, tenant: str | None, since: int, limit: int | None = None) -> tuple[int, list[LogEntry]]:
        """Return the last number of a tenant, and its log after a number, or the beginning of that."""
        # Read first: a number is committed only when everything up to it is in the logs.
        committed = self.version(tenant)
        if since >= committed:
            return committed, []
        found = self._read(lambda: self._changes(tenant, since, committed, limit))
        if found is None:
            with self._storage.lock(self._lock_timeout):
                committed = self._counter.last(tenant)
                with self._guard:
                    found = self._changes(tenant, since, committed, limit)
        return committed, found or []

    def _changes(
        self, tenant: str | None, since: int, committed: int, limit: int | None = None
    ) -> list[LogEntry] | None:
        """Return the log up to a number, or its beginning; None if an erasure after that number hides a part of it."""
        copies = self._of_tenant(tenant, committed)
        graves = self._copies.caught_up(erased_log(tenant))
        if graves.after(committed):
            return None
        hidden = graves.erased

        def visible(entries: Iterable[LogEntry]) -> Iterator[LogEntry]:
            for entry in entries:
                if entry.seq <= committed and (isinstance(entry, Tombstone) or entry.assertion_id not in hidden):
                    yield entry

        if limit is None:
            return sorted((entry for _, copy in copies for entry in visible(copy.after(since))), key=by_seq)
        logs = (copy.following(since) for _, copy in copies)
        return list(itertools.islice(visible(heapq.merge(*logs, key=by_seq)), limit))

    def _of_tenant(self, tenant: str | None, committed: int) -> list[tuple[LogName, LogCopy]]:
        """Return the copies of a tenant's logs, read only if something was written since the last time."""
        if self._copies.complete.get(tenant) != committed:
            self._copies.of_tenant(tenant)
            self._copies.complete[tenant] = committed
        return self._copies.known(tenant)

    def embedder(self) -> EmbedderIdentity | None:
        """Return the embedder that the store is bound to."""
        return self._sidecars.embedder() if self._storage.exists() else None

    def use_embedder(self, identity: EmbedderIdentity, *, replace: bool) -> None:
        """Bind the store to an embedder; write only if the binding changes."""
        if replace or self.embedder() != identity:
            with self._storage.lock(self._lock_timeout), self._guard:
                self._sidecars.bind(identity, replace=replace)

    def put_vectors(self, tenant: str | None, vectors: Mapping[int, NDArray[np.float32]]) -> None:
        """Store vectors of a tenant's assertions."""
        identity = self.embedder()
        checked = _storable(vectors, identity)
        if identity is None or not checked:
            return
        with self._storage.lock(self._lock_timeout), self._guard:
            for log, copy in self._copies.of_tenant(tenant):
                if here := {seq: vector for seq, vector in checked.items() if copy.holds(seq)}:
                    self._sidecars.append(log, here, identity)
            self._storage.seal()

    def vectors(self, tenant: str | None, since: int) -> tuple[list[int], NDArray[np.float32]]:
        """Return the vectors of a tenant."""
        import numpy as np

        identity = self.embedder()
        if identity is None:
            return [], np.empty((0, 0), dtype=np.float32)
        wanted = [entry.seq for entry in self._until(tenant, since)[1] if isinstance(entry, Recorded)]
        rows: dict[int, NDArray[np.float32]] = {}
        with self._guard:
            for log, _ in self._copies.known(tenant):
                if log.kind == "facts":
                    rows.update(self._sidecars.rows(log, identity))
        seqs = [seq for seq in wanted if seq in rows]
        found = np.array([rows[seq] for seq in seqs], dtype=np.float32)
        return seqs, found.reshape(len(seqs), identity.dimension)

    def add_accesses(self, tenant: str | None, accesses: Mapping[str, Access]) -> None:
        """Add to the counts of records."""
        if not accesses or not self._storage.exists():
            return
        with self._storage.lock(self._lock_timeout), self._guard:
            left, long = dict(accesses), []
            for log, here in self._records(tenant, set(left)):
                found = {id: left.pop(id) for id in here if id in left}
                if found and self._accesses.add(log, found):
                    long.append(log)
            self._storage.seal()
            for log in long:
                self._accesses.compact(log)

    def accesses(self, tenant: str | None, record_ids: Collection[str]) -> dict[str, Access]:
        """Return the counts of records."""
        if not self._storage.exists():
            return {}

        def look() -> dict[str, Access]:
            known: dict[str, Access] = {}
            for log, here in self._records(tenant, set(record_ids)):
                for id, access in self._accesses.of(log).items():
                    if id in here:
                        known[id] = known.get(id, Access()) + access
            return known

        return self._read(look)

    def _records(self, tenant: str | None, record_ids: set[str]) -> Iterator[tuple[LogName, set[str]]]:
        """Yield the logs that hold some records, with their ids; erased records are left out."""
        hidden = self._copies.erased(tenant)
        for log, copy in self._copies.of_tenant(tenant):
            here = {item.record_id for item in copy.recorded.values() if item.id not in hidden} & record_ids
            if here:
                yield log, here

    def erase(self, record_ids: Collection[str], assertion_ids: Collection[str], tenant: str | None) -> EraseReceipt:
        """Erase assertions, first writing their tombstones."""
        if not self._storage.exists():
            return EraseReceipt(erased=0)
        with self._storage.lock(self._lock_timeout), self._guard:
            last = self._counter.last(tenant)
            copies = self._copies.of_tenant(tenant)
            hidden = self._copies.erased(tenant)
            gone = [
                recorded
                for _, copy in copies
                for recorded in copy.recorded.values()
                if (recorded.record_id in record_ids or recorded.id in assertion_ids) and recorded.id not in hidden
            ]
            if gone:
                self._bury(sorted(gone, key=lambda recorded: recorded.seq), tenant, last)
            pending = not self._finished(copies)
            self._counter.commit({tenant: last + len(gone)})
        return EraseReceipt(erased=len(gone), pending=pending)

    def _finished(self, copies: Sequence[tuple[LogName, LogCopy]]) -> bool:
        """Remove everything that has a tombstone, also from an interrupted erasure; return whether all of it is gone.

        It is erased for every reader already. A disk without room for the shorter logs keeps the old ones until the
        next write or erasure.
        """
        try:
            for log, _ in copies:
                if log.kind == "facts":
                    self._writable(log)
        except StoreUnavailableError:
            return False
        return True

    def _bury(self, gone: Sequence[Recorded], tenant: str | None, last: int) -> None:
        """Write the tombstones before any text is removed: an assertion with a tombstone counts as erased."""
        tombstones = [Tombstone(assertion_id=entry.id, seq=last + n) for n, entry in enumerate(gone, start=1)]
        self._counter.reserve({tenant: last + len(gone)})
        position = self._copies.caught_up(erased_log(tenant)).position
        self._storage.append(erased_log(tenant), payload_of(tombstones), position)
        self._storage.seal()

    def _rewrite(self, log: LogName, copy: LogCopy, hidden: set[str]) -> None:
        kept = [entry for entry in copy.entries if entry.assertion_id not in hidden]
        graves = erased_log(log.folder[0] or None)
        # Whoever wrote the tombstones may have died before they were durable, and nothing else will hold these ids.
        self._storage.settle(graves, self._copies.caught_up(graves).position)
        self._sidecars.keep(log, {entry.seq for entry in kept})
        self._accesses.keep(log, {entry.record_id for entry in kept if isinstance(entry, Recorded)})
        self._storage.replace(log, [payload_of([entry]) for entry in kept])

    def tenants(self) -> list[str | None]:
        """Return the tenants with a log, or with a copy that has begun."""
        if not self._storage.exists():
            return []
        names = {log.folder[0] for log in self._storage.logs(kinds=(*HISTORY_KINDS, ARRIVAL_KIND))}
        return [name or None for name in sorted(names)]

    def log_part(self, tenant: str | None, since: int, limit: int | None, *, vectors: bool) -> LogPart:
        """Return a part of the log of a tenant."""
        newest, entries = self._until(tenant, since, None if limit is None else limit + 1)
        found: dict[int, NDArray[np.float32]] = {}
        identity = self.embedder() if vectors else None
        said = {entry.seq: place_log(entry.assertion.place) for entry in entries if isinstance(entry, Recorded)}
        if identity is not None:
            with self._guard:
                rows = {log: self._sidecars.rows(log, identity) for log in set(said.values())}
            found = {seq: rows[log][seq] for seq, log in said.items() if seq in rows[log]}
        return part_of(entries, found, since=since, limit=limit, newest=newest)

    def mark_copies(self, tenants: Sequence[str | None], *, unfinished: bool) -> None:
        """Mark tenants as unfinished or finished copies."""
        with self._storage.lock(self._lock_timeout), self._guard:
            for tenant in tenants:
                if unfinished and self.copied(tenant) is None:
                    self._complete(tenant, self._counter.last(tenant))
                elif not unfinished and self.copied(tenant) is not None:
                    self._storage.replace(arrival_log(tenant), ())
            self._storage.seal()

    def copied(self, tenant: str | None) -> int | None:
        """Return the number up to which an unfinished copy is complete."""
        payload = self._storage.last(arrival_log(tenant)) if self._storage.exists() else None
        if payload is None:
            return None
        try:
            return int(json.loads(payload)["until"])
        except (ValueError, TypeError, LookupError):
            raise CorruptStoreError(
                "the mark of an unfinished move is damaged: delete the store, and move again"
            ) from None

    def _complete(self, tenant: str | None, until: int) -> None:
        log = arrival_log(tenant)
        self._storage.append(log, json.dumps({"until": until}).encode(), self._storage.scan(log).position)

    def put_log_part(self, tenant: str | None, part: LogPart) -> None:
        """Append a part to an unfinished copy: each log, then the number up to which it is complete."""
        with self._storage.lock(self._lock_timeout), self._guard:
            check_part(part, tenant, self.copied(tenant))
            identity = self._sidecars.embedder()
            vectors = _storable(part.vectors, identity)
            logs = self._sorted_out(part, self._left_behind(part, tenant), tenant)
            for log, entries in logs.items():
                copy = self._copies.caught_up(log) if log.kind == "erased" else self._writable(log)
                if entries:
                    self._storage.append(log, payload_of(entries), copy.position)
                else:
                    self._storage.settle(log, copy.position)
                if identity and (rows := {entry.seq: vectors[entry.seq] for entry in entries if entry.seq in vectors}):
                    self._sidecars.append(log, rows, identity)
            self._complete(tenant, part.until)
            self._storage.seal()
            for entry in part.entries:
                if not isinstance(entry, Tombstone):
                    self._clock.reached(entry.recorded_at, tenant)
            self._counter.commit({tenant: part.until})
            if erased_log(tenant) in logs:
                self._finished(self._copies.of_tenant(tenant))

    def _left_behind(self, part: LogPart, tenant: str | None) -> set[int]:
        """Return the numbers of entries of a part that a killed process has written already.

        Raises:
            StateConflictError: Another entry has one of its numbers.
        """
        if self._counter.last(tenant) == part.since:
            return set()
        there = {entry.seq: entry for _, copy in self._copies.of_tenant(tenant) for entry in copy.after(part.since)}
        if any(there.get(entry.seq, entry) != entry for entry in part.entries):
            raise StateConflictError(
                "something else was written to the target of the move; nothing was written: delete the target, and "
                "move again"
            )
        return set(there)

    def _sorted_out(self, part: LogPart, there: Collection[int], tenant: str | None) -> dict[LogName, list[LogEntry]]:
        """Return the logs that a part belongs to, with the entries that are not there yet.

        Raises:
            InvalidDataError: A change of state names no assertion.
        """
        logs: dict[LogName, list[LogEntry]] = {}
        of_new: dict[str, LogName] = {}
        for entry in part.entries:
            match entry:
                case Recorded():
                    log = of_new[entry.id] = place_log(entry.assertion.place)
                case StateChange(assertion_id=id):
                    found = of_new.get(id) or self._locate(id, tenant)
                    if found is None:
                        raise misfit()
                    log = found
                case Tombstone():
                    log = erased_log(tenant)
                case _:
                    assert_never(entry)
            logs.setdefault(log, []).extend([] if entry.seq in there else [entry])
        return logs

    def _read(self, look: Callable[[], T]) -> T:
        """Read without the lock; read again with it before reporting damage."""
        try:
            with self._guard:
                return look()
        except CorruptStoreError as damage:
            try:
                with self._storage.lock(self._lock_timeout), self._guard:
                    return look()
            except StoreUnavailableError:
                raise damage from None

    def copy_to(self, path: Path, progress: Progress) -> None:
        """Copy all files while nobody writes; see `factmem.abc.capabilities.KeepsFiles.copy_to`.

        Raises:
            StoreUnavailableError: There is no store, or the copy cannot be written.
        """
        if not self._storage.exists():
            raise StoreUnavailableError(f"there is no store {self._root}: check its path")
        with self._storage.lock(self._lock_timeout):
            self._storage.sweep()
            wanted = [file for file in self.files() if file.name != LOCK_NAME]
            for done, file in enumerate(wanted, start=1):
                target = path / file.relative_to(self._root)
                try:
                    make_folders(target.parent)
                    with file.open("rb") as source, create_file(target) as copy:
                        for part in iter(partial(source.read, _COPIED_BYTES), b""):
                            write_all(copy, part)
                except OSError as error:
                    raise StoreUnavailableError(
                        f"the copy cannot be written: {error.strerror or type(error).__name__}"
                    ) from error
                progress(done, len(wanted))

    def check_unused(self) -> None:
        """Raise if another process writes just now; see `factmem.abc.capabilities.KeepsFiles.check_unused`."""
        lock = self._root / LOCK_NAME
        if lock.exists():
            held_lock(lock, f"another program writes to {self._root.name}: end that, then try again").release()

    def files(self) -> Sequence[Path]:
        """Return all files in the folder, of any origin."""
        return sorted(path for path in self._root.rglob("*") if path.is_file())

    def check(self, progress: Progress) -> Sequence[Finding]:
        """Check the files, then the logs of each tenant; look again before reporting damage, which may be a write."""
        found = self._checked(progress)
        for _ in range(_LOOKS - 1):
            if all(finding.severity is not Severity.ERROR for finding in found):
                break
            time.sleep(_PAUSE)
            found = self._checked(progress)
        return found

    def _checked(self, progress: Progress) -> Sequence[Finding]:
        found: list[Finding] = []
        try:
            if not self._root.is_dir() or not self._storage.exists():
                return [no_store(str(self._root))]
            found += self._storage.check(progress)
            if all(finding.severity is not Severity.ERROR for finding in found):
                found += self._checked_logs()
        except (CorruptStoreError, NewerVersionError) as error:
            found.append(finding_of(error, str(self._root)))
        return found

    def _checked_logs(self) -> Iterator[Finding]:
        """Yield what is wrong with the entries of each tenant, and with the vectors beside them."""
        copies = LogCopies(self._storage)
        yield from (unfinished_copy(tenant) for tenant in self.tenants() if self.copied(tenant) is not None)
        tenants = {log.folder[0] for log in self._storage.logs(kinds=HISTORY_KINDS)}
        identity = self._sidecars.embedder()
        for tenant in sorted(tenants):
            logs = copies.of_tenant(tenant or None)
            hidden = copies.erased(tenant or None)
            entries = [entry for _, copy in logs for entry in copy.entries]
            kept = [item for item in entries if isinstance(item, Tombstone) or item.assertion_id not in hidden]
            yield from findings_in(sorted(kept, key=by_seq), tenant or None)
            for log, copy in logs:
                yield from _of_log(log, copy, hidden)
                if identity is not None and log.kind == "facts":
                    yield from self._of_vectors(log, copy, identity)

    def _of_vectors(self, log: LogName, copy: LogCopy, identity: EmbedderIdentity) -> Iterator[Finding]:
        with self._guard:
            astray = sum(not copy.holds(seq) for seq in self._sidecars.rows(log, identity))
        if astray:
            yield remakeable_vectors(_shown(log), f"{astray} vector(s) belong to no assertion")

    def close(self) -> None:
        """Close the storage."""
        self._storage.close()


def _storable(
    vectors: Mapping[int, NDArray[np.float32]], identity: EmbedderIdentity | None
) -> dict[int, NDArray[np.float32]]:
    dimension = identity.dimension if identity else None
    return {seq: storable_vector(vector, dimension=dimension) for seq, vector in vectors.items()}


def _has_vector(request: Request) -> bool:
    return any(isinstance(statement, Append) and statement.vector is not None for statement in request.statements)


def _of_log(log: LogName, copy: LogCopy, hidden: Collection[str]) -> Iterator[Finding]:
    said = list(copy.recorded.values())
    if left := sum(recorded.id in hidden for recorded in said):
        yield pending_erasure(_shown(log), f"{left} erased assertion(s) are still in the file")
    if astray := sum(place_log(recorded.assertion.place) != log for recorded in said):
        yield Finding(
            kind=FindingKind.MISPLACED,
            part=_shown(log),
            problem=f"{astray} assertion(s) belong to another place",
            advice="restore the file from a backup",
        )


def _shown(log: LogName) -> str:
    return "/".join((*(part or "@default" for part in log.folder), *log.name))
