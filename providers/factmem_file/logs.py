"""Logs of a store: their names and the contents of their frames.

- ``facts``: one a place, each frame a JSON list of the entries (`factmem.codec`) of one commit;
- ``erased``: one a tenant, its tombstones, so that a place can be removed without a trace;
- ``arriving``: one a tenant while its log is taken from another store: the numbers up to which it is complete;
- ``accesses``: beside a ``facts`` whose records were counted: frames of added counts, JSON objects from record ids to
  the number of recalls and the time of the last one (in microseconds). Many frames are compacted into one. The log
  shares the key of the facts in an encrypted store, and their erasure;
- ``vectors``: beside each ``facts``: frames of sequence numbers and float32 rows, bound to their embedder. They can be
  recomputed from the texts. So they are written without a flush, and a damaged log of them counts as empty: recall
  finds vectors missing, and embeds again.
"""

from __future__ import annotations

import base64
import bisect
import json
import operator
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import attrs

from factmem.abc.capabilities import Access, EmbedderIdentity
from factmem.abc.log_storage import LogName, LogStorage, Position
from factmem.codec import decode_entry, dump_entry
from factmem.errors import CodecError, CorruptStoreError, NewerVersionError
from factmem.facts import microseconds, moment_at
from factmem.providers import TrackIndex
from factmem.providers.sql_rows import binds_anew, written_embedder
from factmem.records import LogEntry, Place, Recorded, Tombstone
from factmem_file.log_storage import read_json

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

HISTORY_KINDS: Final = ("facts", "erased")
"""The kinds of log that hold numbered entries."""

ARRIVAL_KIND: Final = "arriving"


by_seq: Final = operator.attrgetter("seq")
"""Key that sorts entries by their numbers."""


def place_log(place: Place) -> LogName:
    """Return the log of a place."""
    tenant, segments, (subject, individual) = place.key
    name = (subject,) if individual is None else (subject, individual)
    return LogName(folder=(tenant or "", *segments), name=name, kind="facts")


def vector_log(facts: LogName) -> LogName:
    """Return the log of the vectors of a place's assertions."""
    return attrs.evolve(facts, kind="vectors")


def access_log(facts: LogName) -> LogName:
    """Return the log of the access counts of a place's records."""
    return attrs.evolve(facts, kind="accesses")


def erased_log(tenant: str | None) -> LogName:
    """Return the log of a tenant's tombstones."""
    return LogName(folder=(tenant or "",), name=("tombstones",), kind="erased")


def arrival_log(tenant: str | None) -> LogName:
    """Return the log of an unfinished copy of a tenant."""
    return LogName(folder=(tenant or "",), name=("copy",), kind=ARRIVAL_KIND)


def payload_of(entries: Iterable[LogEntry]) -> bytes:
    """Return the payload of one commit."""
    return b"[" + b",".join(map(dump_entry, entries)) + b"]"


def entries_of(payload: bytes) -> list[LogEntry]:
    """Read the payload of one commit.

    Raises:
        CorruptStoreError: A valid frame holds something else than entries.
        NewerVersionError: A newer factmem wrote it.
    """
    try:
        documents = json.loads(payload)
        if not isinstance(documents, list) or not all(isinstance(document, dict) for document in documents):
            raise CodecError("not a list of entries")
        return [decode_entry(document) for document in documents]
    except NewerVersionError:
        raise
    except (CodecError, ValueError, RecursionError) as error:
        reason = str(error) if isinstance(error, CodecError) else "it is not valid JSON"
        raise CorruptStoreError(f"a frame of the store cannot be read, {reason}: restore it from a backup") from None


@attrs.define
class LogCopy:
    """A copy of one log in memory.

    Attributes:
        position: Position up to which it was read.
        entries: Entries, in order.
        recorded: Assertions among them, by id.
        erased: Ids in its tombstones.
        index: Index for writers, from the first write on.
    """

    position: Position = attrs.field(factory=Position)
    entries: list[LogEntry] = attrs.field(factory=list)
    recorded: dict[str, Recorded] = attrs.field(factory=dict)
    erased: set[str] = attrs.field(factory=set)
    index: TrackIndex | None = None

    def take(self, entries: Sequence[LogEntry]) -> None:
        """Add new entries."""
        self.entries.extend(entries)
        for entry in entries:
            if self.index is not None:
                self.index.add(entry)
            if isinstance(entry, Recorded):
                self.recorded[entry.id] = entry
            elif isinstance(entry, Tombstone):
                self.erased.add(entry.assertion_id)

    def after(self, seq: int) -> Sequence[LogEntry]:
        """Return the entries with a higher number."""
        return self.entries[self._behind(seq) :]

    def following(self, seq: int) -> Iterator[LogEntry]:
        """Yield the entries with a higher number, without copying them."""
        return (self.entries[index] for index in range(self._behind(seq), len(self.entries)))

    def _behind(self, seq: int) -> int:
        return bisect.bisect_right(self.entries, seq, key=by_seq)

    def holds(self, seq: int) -> bool:
        """Return whether an assertion has this number."""
        return any(isinstance(entry, Recorded) and entry.seq == seq for entry in self.after(seq - 1)[:1])

    def indexed(self) -> TrackIndex:
        """Return the index, made on first use."""
        if self.index is None:
            self.index = TrackIndex()
            for entry in self.entries:
                self.index.add(entry)
        return self.index


class LogCopies:
    """The copies of all logs read so far. Not thread-safe.

    Attributes:
        complete: Number up to which the copies of all logs of a tenant are complete.
    """

    def __init__(self, storage: LogStorage) -> None:
        self._storage = storage
        self._copies: dict[LogName, LogCopy] = {}
        self.complete: dict[str | None, int] = {}

    def caught_up(self, log: LogName) -> LogCopy:
        """Return the copy of a log, after reading new frames."""
        copy = self._copies.get(log, LogCopy())
        scan = self._storage.scan(log, copy.position)
        if scan.fresh:
            copy = LogCopy()
        try:
            for payload in scan.payloads:
                copy.take(entries_of(payload))
        except CorruptStoreError as error:
            self._copies.pop(log, None)
            self.complete.clear()
            raise CorruptStoreError(f"{error} (in the log {'/'.join((*log.folder, *log.name))})") from None
        copy.position = scan.position
        if scan.position.end:
            self._copies[log] = copy
        else:
            self._copies.pop(log, None)
        return copy

    def of_tenant(self, tenant: str | None) -> list[tuple[LogName, LogCopy]]:
        """Return the copies of all ``facts`` and ``erased`` logs of a tenant, caught up."""
        there = set(self._storage.logs((tenant or "",), kinds=HISTORY_KINDS))
        for log, _ in self.known(tenant):
            if log not in there:
                del self._copies[log]
        return [(log, self.caught_up(log)) for log in there]

    def known(self, tenant: str | None) -> list[tuple[LogName, LogCopy]]:
        """Return the copies of a tenant's logs as they are."""
        return [(log, copy) for log, copy in self._copies.items() if log.folder[0] == (tenant or "")]

    def erased(self, tenant: str | None) -> set[str]:
        """Return the ids of a tenant's erased assertions."""
        return self.caught_up(erased_log(tenant)).erased

    def distrust(self, log: LogName) -> None:
        """Drop the plan of a log that was not written."""
        if (copy := self._copies.get(log)) is not None:
            copy.index = None


_NOTE = "embedder"
_MOST_DIMENSIONS: Final = 1 << 20
"""Largest dimension of a valid note."""


@attrs.define(eq=False)
class _Sidecar:
    identity: EmbedderIdentity
    position: Position = attrs.field(factory=Position)
    rows: dict[int, NDArray[np.float32]] = attrs.field(factory=dict)


class Sidecars:
    """The vectors of a store. Not safe for threads; methods that write need the storage's lock."""

    def __init__(self, storage: LogStorage) -> None:
        self._storage = storage
        self._sidecars: dict[LogName, _Sidecar] = {}

    def embedder(self) -> EmbedderIdentity | None:
        """Return the identity of the embedder."""
        match read_json(self._storage.read_note(_NOTE) or b"null"):
            case {"name": str() as name, "dimension": int() as dimension} if (
                type(dimension) is int and 1 <= dimension <= _MOST_DIMENSIONS
            ):
                return EmbedderIdentity(name=name, dimension=dimension)
            case _:
                return None

    def bind(self, identity: EmbedderIdentity, *, replace: bool) -> None:
        """Bind the store to an embedder, dropping the vectors of another one if ``replace``."""
        if not binds_anew(self.embedder(), identity, replace=replace):
            return
        payload = written_embedder(identity).encode()
        logs = self._storage.logs(kinds=["facts"])
        self._storage.write_note(_NOTE, payload)
        for log in logs:
            self._storage.replace(vector_log(log), (), durable=False)

    def rows(self, facts: LogName, identity: EmbedderIdentity) -> Mapping[int, NDArray[np.float32]]:
        """Return the vectors beside a log, by sequence number; none of a damaged sidecar."""
        try:
            return self._caught_up(facts, identity).rows
        except CorruptStoreError:
            return {}

    def append(self, facts: LogName, vectors: Mapping[int, NDArray[np.float32]], identity: EmbedderIdentity) -> None:
        """Append vectors beside a log; a damaged sidecar is replaced."""
        log = vector_log(facts)
        try:
            sidecar = self._caught_up(facts, identity)
        except CorruptStoreError:
            self._storage.replace(log, (), durable=False)
            sidecar = _Sidecar(identity)
        self._storage.append(log, _written(vectors, identity), sidecar.position, durable=False)

    def keep(self, facts: LogName, seqs: Collection[int]) -> None:
        """Remove all vectors but these from the disk."""
        identity = self.embedder()
        rows = self.rows(facts, identity) if identity is not None else {}
        kept = {seq: row for seq, row in rows.items() if seq in seqs}
        payloads = [_written(kept, identity)] if kept and identity is not None else []
        self._storage.replace(vector_log(facts), payloads)
        self._sidecars.pop(facts, None)

    def _caught_up(self, facts: LogName, identity: EmbedderIdentity) -> _Sidecar:
        sidecar = self._sidecars.pop(facts, None)
        if sidecar is None or sidecar.identity != identity:
            sidecar = _Sidecar(identity)
        scan = self._storage.scan(vector_log(facts), sidecar.position)
        if scan.fresh:
            sidecar.rows.clear()
        for payload in scan.payloads:
            sidecar.rows.update(_read(payload, identity))
        sidecar.position = scan.position
        self._sidecars[facts] = sidecar
        return sidecar


def _written(vectors: Mapping[int, NDArray[np.float32]], identity: EmbedderIdentity) -> bytes:
    import numpy as np

    rows = np.stack(list(vectors.values())).astype("<f4")
    document = {
        "embedder": attrs.asdict(identity),
        "seqs": list(vectors),
        "rows": base64.b64encode(rows.tobytes()).decode(),
    }
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def _read(payload: bytes, identity: EmbedderIdentity) -> dict[int, NDArray[np.float32]]:
    """Read a frame; nothing if its vectors come from another embedder."""
    import numpy as np

    try:
        document = json.loads(payload)
        if document["embedder"] != attrs.asdict(identity):
            return {}
        data = np.frombuffer(base64.b64decode(document["rows"], validate=True), dtype="<f4")
        rows = data.reshape(len(document["seqs"]), identity.dimension).astype(np.float32)
        if not np.isfinite(rows).all():
            raise ValueError
        return dict(zip(map(operator.index, document["seqs"]), rows, strict=True))
    except (ValueError, TypeError, LookupError, RecursionError):
        raise CorruptStoreError("a frame of vectors cannot be read") from None


_MOST_FRAMES: Final = 32


@attrs.frozen
class Accesses:
    """The counts of each place. Methods that write need the storage's lock.

    Args:
        storage: Log storage of the logs.
    """

    _storage: LogStorage

    def add(self, facts: LogName, accesses: Mapping[str, Access]) -> bool:
        """Add to the counts of records of a place; return whether to `compact` once the storage is sealed."""
        log = access_log(facts)
        scan = self._storage.scan(log)
        self._storage.append(log, _written_counts(accesses), scan.position)
        return len(scan.payloads) + 1 >= _MOST_FRAMES

    def compact(self, facts: LogName) -> None:
        """Rewrite the counts of a place as one frame; added counts must be sealed."""
        self._storage.replace(access_log(facts), [_written_counts(self.of(facts))])

    def of(self, facts: LogName) -> Mapping[str, Access]:
        """Return the counts of records of a place.

        Raises:
            CorruptStoreError: The log is damaged; the facts are not affected.
        """
        return _summed(map(_read_counts, self._storage.scan(access_log(facts)).payloads))

    def keep(self, facts: LogName, record_ids: Collection[str]) -> None:
        """Remove the counts of all records but these from the disk; of a damaged log, all counts."""
        log = access_log(facts)
        try:
            known = self.of(facts)
        except CorruptStoreError:
            known = {}
        kept = {id: access for id, access in known.items() if id in record_ids}
        if known.keys() != kept.keys() or not kept:
            self._storage.replace(log, [_written_counts(kept)] if kept else [])


def _summed(frames: Iterable[Mapping[str, Access]]) -> dict[str, Access]:
    known: dict[str, Access] = {}
    for frame in frames:
        for id, access in frame.items():
            known[id] = known.get(id, Access()) + access
    return known


def _written_counts(accesses: Mapping[str, Access]) -> bytes:
    document = {
        id: [access.count, None if access.last is None else microseconds(access.last)]
        for id, access in accesses.items()
    }
    return json.dumps(document, separators=(",", ":")).encode()


def _read_counts(payload: bytes) -> dict[str, Access]:
    try:
        return {
            id: Access(count=count, last=None if last is None else moment_at(last))
            for id, (count, last) in json.loads(payload).items()
        }
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise CorruptStoreError("a frame of access counts is damaged: delete its file to go on without them") from None
