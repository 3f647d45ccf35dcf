"""Vectors beside the logs: frames of sequence numbers and float32 rows, bound to their embedder.

Vectors can be recomputed from the texts. So they are written without a flush, and a damaged log of them counts as
empty:
recall finds vectors missing, and embeds again.
"""

from __future__ import annotations

import base64
import json
import operator
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Final

import attrs

from factmem.abc import EmbedderIdentity, LogName, LogStorage, Position
from factmem.errors import CorruptStoreError, EmbedderMismatchError
from factmem_file.logs import vector_log

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Sidecars"]

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
        bound = self.embedder()
        if bound == identity and not replace:
            return
        if bound not in (None, identity) and not replace:
            raise EmbedderMismatchError(
                f"this store's vectors come from {bound}, not from {identity}: "
                "open it with that embedder, or embed it again with Admin.reembed() or `factmem reembed`"
            )
        payload = json.dumps(attrs.asdict(identity), ensure_ascii=False).encode()
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
