"""Logs beside the facts of a place: vectors, and counts of recalled records.

Vectors are frames of sequence numbers and float32 rows, bound to their embedder. They can be recomputed from the texts.
So they are written without a flush, and a damaged log of them counts as empty: recall finds vectors missing, and embeds
again.

Counts are frames that add up: a JSON object from record ids to the number of recalls and the time of the last one (in
microseconds). Many frames are compacted into one. The log shares the key of the facts in an encrypted store, and their
erasure.
"""

from __future__ import annotations

import base64
import json
import operator
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING, Final

import attrs

from factmem.abc.capabilities import Access, EmbedderIdentity
from factmem.abc.log_storage import LogName, LogStorage, Position
from factmem.errors import CorruptStoreError
from factmem.providers.rows import binds_anew, microseconds, moment_at, written_embedder
from factmem_file.logs import access_log, vector_log

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Accesses",
    "Sidecars",
]

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
        payload = self._storage.read_note(_NOTE)
        try:
            match json.loads(payload or b"null"):
                case {"name": str() as name, "dimension": int() as dimension} if (
                    type(dimension) is int and 1 <= dimension <= _MOST_DIMENSIONS
                ):
                    return EmbedderIdentity(name=name, dimension=dimension)
        except (ValueError, RecursionError):
            pass
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


class Accesses:
    """The counts of each place. Methods that write need the storage's lock.

    Args:
        storage: Log storage of the logs.
    """

    def __init__(self, storage: LogStorage) -> None:
        self._storage = storage

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
        return {id: _access(*pair) for id, pair in json.loads(payload).items()}
    except (ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        raise CorruptStoreError("a frame of access counts is damaged: delete its file to go on without them") from None


def _access(count: int, last: int | None) -> Access:
    return Access(count=count, last=None if last is None else moment_at(last))
