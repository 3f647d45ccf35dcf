"""Proof of an erasure: a search of every file of a store for erased content."""

from __future__ import annotations

import enum
import os
import unicodedata
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
from anyio import to_thread

from factmem.abc import AgentMemoryProvider, FeedsChanges, KeepsFiles, KeepsVectors
from factmem.errors import CapabilityError, StoreUnavailableError
from factmem.facts import FactType
from factmem.memory.byte_search import (
    Scanner,
    base64_forms,
    folded,
    index_pieces,
    pieces,
    text_forms,
    vector_pieces,
)
from factmem.memory.traces import Traces, names_in, said_in
from factmem.records import (
    Assertion,
    AssertionState,
    Evidence,
    FactDetails,
    LogEntry,
    Origin,
    Recorded,
    StateChange,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["ErasureReport", "FileTraces", "verify_erased"]


class _Kind(enum.Enum):
    WORDS = "words"
    NAMES = "names"
    MARKS = "marks"
    VECTORS = "vectors"


@attrs.frozen
class FileTraces:
    """Number of traces in a file and in its name, without their text.

    Attributes:
        path: The file.
        size: Number of bytes searched.
        words: Number of pieces of values, quotes and so on.
        names: Number of pieces of names; other records may use these as well, such as those of another organization.
        marks: Number of ids of records and digests of values.
        vectors: Number of pieces of embeddings.
    """

    path: Path
    size: int
    words: int = attrs.field(default=0, kw_only=True)
    names: int = attrs.field(default=0, kw_only=True)
    marks: int = attrs.field(default=0, kw_only=True)
    vectors: int = attrs.field(default=0, kw_only=True)

    @property
    def found(self) -> int:
        """Number of traces, without names."""
        return self.words + self.marks + self.vectors


@attrs.frozen(kw_only=True)
class ErasureReport:
    """Result of `verify_erased`.

    Attributes:
        files: Each file that was searched.
        searched: Number of pieces looked for, each in all of its forms.
        left_out: Number of pieces not looked for, since remaining records hold them as well.
        too_short: Number of words and names too short to be distinguished from other content.
        said_by: See `Traces.said_by`.
    """

    files: tuple[FileTraces, ...]
    searched: int
    left_out: int = 0
    too_short: int = 0
    said_by: tuple[str, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether no trace is left, neither in a file nor in another record."""
        return not self.said_by and not any(file.found for file in self.files)


async def verify_erased(provider: AgentMemoryProvider, traces: Traces) -> ErasureReport:
    """Search every file of a store, and the names of the files, for traces of erased records.

    Traces are looked for in UTF-8, UTF-16, JSON's escapes and base64, composed and decomposed, in pieces and as a
    full-text index holds words; vectors as float32 numbers, bare or in base64. Content that remaining
    records share is left out: `ErasureReport.said_by` names those that are visible.

    The search covers all partitions of the store: it is for users who may read its files. Content of
    another organization is found as well. A short word (fewer than 6 bytes, a number of fewer than 10
    digits) is not looked for: it occurs by chance.

    Args:
        provider: Provider of the store.
        traces: Traces that `Admin.traces` gathered before the erasure.

    Raises:
        CapabilityError: The provider keeps no files, or cannot list them.
        StoreUnavailableError: A file cannot be read.
    """
    if not isinstance(provider, KeepsFiles):
        raise CapabilityError(f"{type(provider).__name__} cannot list the files that it keeps its data in")
    log = await provider.changes(traces.tenant) if isinstance(provider, FeedsChanges) else ()
    rows = (await provider.vectors(traces.tenant))[1] if isinstance(provider, KeepsVectors) and traces.vectors else None
    needles, left_out = await to_thread.run_sync(partial(_needles, traces, log, rows))
    files = await provider.files()
    found = await to_thread.run_sync(partial(_searched, files, needles))
    return ErasureReport(
        files=found,
        searched=len(needles),
        left_out=left_out,
        too_short=traces.too_short,
        said_by=traces.said_by,
    )


_Needles = dict[str | bytes, _Kind]
_STRUCTURE: Final = " ".join(
    [
        *(field.name for held in (Recorded, Assertion, FactDetails, Evidence) for field in attrs.fields(held)),
        *(item.value for kind in (AssertionState, FactType, Origin) for item in kind),
    ]
)
"""Words of the file format, which every file of a store holds."""

_INDEXED: Final = "\0"
"""Marks pieces of a full-text index, which have no other encoding."""


def _needles(traces: Traces, log: Sequence[LogEntry], rows: NDArray[np.float32] | None) -> tuple[_Needles, int]:
    """Split traces into pieces, without those that remaining records hold as well; return the number of the latter."""
    wanted: _Needles = {piece: _Kind.NAMES for name in traces.names for piece in _all_pieces(name)}
    wanted |= {piece: _Kind.WORDS for text in traces.words for piece in _all_pieces(text)}
    wanted |= dict.fromkeys(traces.marks, _Kind.MARKS)
    numbers = {piece: piece for row in traces.vectors for piece in vector_pieces(row)}
    texts = {_bytes(piece): piece for piece in wanted}
    known = Scanner[str | bytes](texts).found(_known(log))
    if rows is not None:
        known |= Scanner[str | bytes](dict(numbers)).found(rows.astype("<f4").tobytes())
    wanted |= dict.fromkeys(numbers, _Kind.VECTORS)
    return {piece: kind for piece, kind in wanted.items() if piece not in known}, len(known)


def _all_pieces(text: str) -> Iterator[str]:
    yield from pieces(text)
    yield from (_INDEXED + piece for piece in index_pieces(text))


def _bytes(piece: str | bytes) -> bytes:
    return piece if isinstance(piece, bytes) else piece.removeprefix(_INDEXED).encode(errors="replace")


def _known(log: Sequence[LogEntry]) -> bytes:
    """Return all texts of the remaining log, verbatim and as a full-text index holds them."""
    texts: list[str] = [_STRUCTURE]
    for entry in log:
        match entry:
            case Recorded():
                texts += [*said_in(entry), *names_in(entry)]
            case StateChange(reason=str() as reason):
                texts.append(reason)
            case _:
                pass
    text = "\n".join(texts)
    whole = unicodedata.normalize("NFC", text)
    return f"{whole}\n{folded(text)}".encode(errors="replace")


def _searched(files: Sequence[Path], needles: _Needles) -> tuple[FileTraces, ...]:
    scanner = Scanner({form: kind for piece, kind in needles.items() for form in _forms(piece, kind)})
    root = Path(os.path.commonpath([file.parent for file in files])) if files else Path()
    return tuple(report for file in files if (report := _search(file, root, scanner)) is not None)


def _forms(piece: str | bytes, kind: _Kind) -> set[bytes]:
    match piece:
        case bytes() if kind is _Kind.VECTORS:
            return {piece, *base64_forms(piece)}
        case bytes():
            return {piece}
        case str() if piece.startswith(_INDEXED):
            return {_bytes(piece)}
        case str():
            return text_forms(piece)


def _search(file: Path, root: Path, scanner: Scanner[_Kind]) -> FileTraces | None:
    """Search a file and its name; return None if it has been removed meanwhile."""
    name = os.fsencode(file.relative_to(root))
    counts = Counter(kind for _, _, kind in scanner.matches(name))
    try:
        size = file.stat().st_size
        counts.update(scanner.search(file))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StoreUnavailableError(f"{file.name} cannot be searched: {error.strerror}") from error
    return FileTraces(file, size, **{kind.value: counts[kind] for kind in _Kind})
