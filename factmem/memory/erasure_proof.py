"""Proof of an erasure: traces of records, gathered before it, and a search of every file of a store for them."""

from __future__ import annotations

import base64
import bisect
import enum
import json
import os
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, Generic, TypeVar

import attrs
from anyio import to_thread

from factmem.abc.capabilities import KeepsFiles
from factmem.abc.provider import AgentMemoryProvider
from factmem.details import Evidence, FactDetails, Origin
from factmem.errors import CapabilityError, StoreUnavailableError
from factmem.facts import FactType
from factmem.records import Assertion, AssertionState, LogEntry, Recorded, StateChange
from factmem.values import texts_in

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

SHORTEST: Final = 6
"""Minimum length in bytes: shorter pieces occur by chance in files of the size of stores."""

_SHORTEST_NUMBER: Final = 10
_SHORTEST_HEX: Final = 12
_PIECE: Final = 32
_VECTOR_PIECE: Final = 32
_VECTOR_PIECES: Final = 8
_CHUNK: Final = 16 * 2**20
_KEY_MASK: Final = 2 ** (8 * SHORTEST) - 1
_SPREAD: Final = 0x9E3779B97F4A7C15
_WORD: Final = re.compile(r"\w+")
_NUMBER: Final = re.compile(r"[\d\s.,:+-]*")
_HEX: Final = re.compile(r"[0-9a-fA-F]*")
_ESCAPE: Final = re.compile(r"\\u[0-9a-f]{4}")


def is_distinctive(text: str) -> bool:
    """Whether a text is long enough not to occur by chance among numbers, times and ids."""
    text = text.strip()
    written = text.encode(errors="replace")
    if len(written) < SHORTEST or len(set(written)) < 3:
        return False
    if _NUMBER.fullmatch(text):
        return len(text) >= _SHORTEST_NUMBER
    return len(text) >= _SHORTEST_HEX or not _HEX.fullmatch(text)


def _as_in_an_index(text: str) -> str:
    """Return a text as a full-text index stores its words: lowercase, without accents."""
    apart = unicodedata.normalize("NFD", text.lower())
    return "".join(char for char in apart if not unicodedata.combining(char))


def pieces(text: str) -> Iterator[str]:
    """Split a text into significant pieces: a file may hold a part of it, or split it between two pages."""
    whole = _composed(text)
    starts = range(0, max(1, len(whole) - _PIECE // 2), _PIECE)
    for start in starts:
        end = len(whole) if start == starts[-1] else start + _PIECE
        if is_distinctive(whole[start:end]):
            yield whole[start:end]


def _index_pieces(text: str) -> Iterator[str]:
    """Split a text into word suffixes, as a full-text index with prefix compression stores them."""
    for word in _WORD.findall(_as_in_an_index(text)):
        end = word[len(word) // 3 :]
        if len(word) >= 9 and is_distinctive(end):
            yield end


def _text_forms(text: str) -> set[bytes]:
    """Return the bytes that a text may have in a file: composed or not, escaped or not, in UTF-8, UTF-16 or base64."""
    forms: set[bytes] = set()
    for same in {text, unicodedata.normalize("NFC", text), unicodedata.normalize("NFD", text)}:
        escaped = json.dumps(same)[1:-1]
        upper = _ESCAPE.sub(lambda found: r"\u" + found[0][2:].upper(), escaped)
        written = {same, escaped, upper, json.dumps(same, ensure_ascii=False)[1:-1]}
        forms |= {form.encode(errors="replace") for form in written}
        forms |= {same.encode(encoding, errors="replace") for encoding in ("utf-16-le", "utf-16-be")}
        forms |= _base64_forms(same.encode(errors="replace"))
    return {form for form in forms if len(form) >= SHORTEST}


def _base64_forms(data: bytes) -> set[bytes]:
    """Return the base64 forms of data inside of a longer base64 text, at each of the three alignments."""
    bodies = (data[skip : skip + (len(data) - skip) // 3 * 3] for skip in range(3))
    return {base64.b64encode(body) for body in bodies if len(body) >= SHORTEST}


def _vector_pieces(row: bytes) -> Iterator[bytes]:
    """Return significant pieces of the float32 numbers of a vector, spread over its length."""
    starts = range(0, max(1, len(row) - _VECTOR_PIECE + 1), _VECTOR_PIECE)
    telling = [
        row[start : start + _VECTOR_PIECE] for start in starts if _is_telling(row[start : start + _VECTOR_PIECE])
    ]
    yield from telling[:: max(1, len(telling) // _VECTOR_PIECES)]


def _is_telling(piece: bytes) -> bool:
    numbers = {piece[at : at + 4] for at in range(0, len(piece), 4)}
    return len(numbers) >= 3 and len(piece) >= SHORTEST


class Scanner(Generic[T]):
    """Finds any number of pieces of bytes in one pass.

    Args:
        needles: Meaning of each piece; pieces shorter than `SHORTEST` are skipped.
    """

    def __init__(self, needles: Mapping[bytes, T]) -> None:
        import numpy as np

        self._by_key: dict[int, list[tuple[int, bytes, T]]] = {}
        for needle, meaning in needles.items():
            if len(needle) >= SHORTEST:
                at = _most_telling(needle)
                key = int.from_bytes(needle[at : at + SHORTEST], "little")
                self._by_key.setdefault(key, []).append((at, needle, meaning))
        self._longest = max(map(len, needles), default=0)
        self._keys = np.sort(np.fromiter(self._by_key, dtype=np.uint64, count=len(self._by_key)))
        bits = min(26, max(16, len(self._keys).bit_length() + 4))
        self._shift = np.uint64(64 - bits)
        self._maybe = np.zeros(2**bits, dtype=np.bool_)
        self._maybe[self._places(self._keys)] = True

    def _places(self, values: NDArray[np.uint64]) -> NDArray[np.uint64]:
        import numpy as np

        places: NDArray[np.uint64] = (values * np.uint64(_SPREAD)) >> self._shift
        return places

    def matches(self, data: bytes) -> Iterator[tuple[int, int, T]]:
        """Yield start, end and meaning of each piece found, in no particular order."""
        import numpy as np

        if not self._by_key:
            return
        padded = data + bytes(8)
        for shift in range(8):
            values = np.frombuffer(padded, "<u8", (len(padded) - shift) // 8, shift) & np.uint64(_KEY_MASK)
            rows = np.flatnonzero(self._maybe[self._places(values)])
            rows = rows[np.isin(values[rows], self._keys)]
            for row, key in zip(rows.tolist(), values[rows].tolist(), strict=True):
                for at, needle, meaning in self._by_key[key]:
                    start = 8 * row + shift - at
                    if start >= 0 and data.startswith(needle, start):
                        yield start, start + len(needle), meaning

    def search(self, file: Path) -> Iterator[T]:
        """Yield the meaning of each piece found in a file, once per occurrence.

        Raises:
            OSError: The file cannot be read.
        """
        with file.open("rb") as stream:
            before = b""
            while chunk := stream.read(_CHUNK):
                data = before + chunk
                yield from (meaning for _, end, meaning in self.matches(data) if end > len(before))
                before = data[max(0, len(data) - self._longest + 1) :]

    def found(self, data: bytes) -> set[T]:
        """Return the meanings of the pieces found in some data."""
        return {meaning for _, _, meaning in self.matches(data)}


def _most_telling(needle: bytes) -> int:
    """Return the offset in a piece to compare first: one without NULs, which are frequent in files."""
    best, most = 0, 0
    for start in range(0, len(needle) - SHORTEST + 1, 2):
        distinct = len(set(needle[start : start + SHORTEST]))
        if distinct >= SHORTEST - 1:
            return start
        if distinct > most:
            best, most = start, distinct
    return best


@attrs.frozen(kw_only=True, repr=False)
class Traces:
    """Pieces to look for in files after an erasure; see `Admin.traces`. The repr holds none of them.

    Attributes:
        words: Values, quotes, metadata, reasons.
        names: Keywords, descriptions, scopes, subjects, categories and so on.
        marks: Ids of records, and the digests by which a store distinguishes values.
        vectors: Float32 numbers of the embeddings.
        too_short: Number of words and names too short to be distinguished from other content.
        short: Those of them that the caller named. Records alone can be asked for them.
        said_by: Ids of other visible records that hold some of the words, too.
        tenant: Organization of the records.
    """

    words: frozenset[str]
    names: frozenset[str] = frozenset()
    marks: frozenset[bytes] = frozenset()
    vectors: tuple[bytes, ...] = ()
    too_short: int = 0
    short: frozenset[str] = frozenset()
    said_by: tuple[str, ...] = ()
    tenant: str | None = None

    def __repr__(self) -> str:
        return f"Traces({len(self.words)} words, {len(self.names)} names, {len(self.vectors)} vectors)"


def traces_of(
    gone: Sequence[Recorded],
    log: Iterable[LogEntry],
    vectors: Sequence[NDArray[np.float32]],
    texts: Collection[str],
    tenant: str | None,
) -> Traces:
    """Return the traces of some assertions.

    Args:
        gone: Assertions to erase.
        log: Log that the viewer may see, including these.
        vectors: Embeddings of the assertions.
        texts: Other texts to look for.
        tenant: Organization of the records.
    """
    ids, entries = {recorded.id for recorded in gone}, list(log)
    reasons = [item.reason for item in entries if isinstance(item, StateChange) and item.assertion_id in ids]
    said = {*texts, *filter(None, reasons), *(text for recorded in gone for text in said_in(recorded))}
    named = {name for recorded in gone for name in names_in(recorded)} - said
    words = frozenset(text for text in said if is_distinctive(text))
    short = frozenset(texts) - words
    others = [entry for entry in entries if isinstance(entry, Recorded) and entry.id not in ids]
    return Traces(
        words=words,
        names=frozenset(name for name in named if is_distinctive(name)),
        marks=frozenset(mark for recorded in gone for mark in _marks(recorded)).difference(
            # Those stay of records with other revisions, and of values that others share.
            mark
            for recorded in (others if gone else ())
            for mark in _marks(recorded)
        ),
        vectors=tuple(vector.astype("<f4").tobytes() for vector in vectors),
        too_short=sum(not is_distinctive(text) for text in said | named),
        short=short,
        said_by=_said_by(words, short, others),
        tenant=tenant,
    )


def said_in(recorded: Recorded) -> Iterator[str]:
    """Yield the texts of an assertion."""
    said = recorded.assertion
    yield from texts_in(said.data)
    yield from texts_in(said.details.metadata)
    for item in said.details.evidence:
        yield from filter(None, (item.quote, item.before))


def names_in(recorded: Recorded) -> Iterator[str]:
    """Yield the names in an assertion, which other assertions may share."""
    said, details = recorded.assertion, recorded.assertion.details
    subject = said.place.subject
    names = [said.keyword, said.description, subject.name, subject.individual_name, subject.prompt_description]
    names += [*said.place.scope.segments, *details.categories, *details.topics, details.source, details.owner]
    names += [*details.metadata, *details.labels, *details.labels.values()]
    for item in details.evidence:
        names += [item.message_id, item.conversation_id, item.speaker]
    yield from filter(None, names)


def _marks(recorded: Recorded) -> Iterator[bytes]:
    yield recorded.record_id.encode()
    for digest in filter(None, (recorded.assertion.fingerprint, recorded.assertion.slot)):
        yield digest
        yield digest.hex().encode()


def _said_by(words: Collection[str], short: Collection[str], others: Sequence[Recorded]) -> tuple[str, ...]:
    """Return the ids of the records, in any state, that hold some words entirely, or some short ones as words."""
    whole = "|".join(re.escape(_composed(text)) for text in short if text.strip())
    as_words = re.compile(rf"(?<!\w)(?:{whole})(?!\w)")
    starts: list[int] = []
    blob = bytearray()
    rows: set[int] = set()
    for row, recorded in enumerate(others if words or whole else ()):
        starts.append(len(blob))
        said = unicodedata.normalize("NFC", "\n".join(said_in(recorded)))
        blob += said.encode(errors="replace") + b"\0"
        if whole and as_words.search(said):
            rows.add(row)
    scanner = Scanner({_composed(text).encode(errors="replace"): None for text in words})
    rows |= {bisect.bisect_right(starts, start) - 1 for start, _, _ in scanner.matches(bytes(blob))}
    return tuple(dict.fromkeys(others[row].record_id for row in sorted(rows)))


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text.strip())


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
        unsearched: Number of those that the caller named. No file was searched for them, the records were.
        said_by: See `Traces.said_by`.
        said_elsewhere: Number of further records that hold some of the words, such as private ones of another user.
    """

    files: tuple[FileTraces, ...]
    searched: int
    left_out: int = 0
    too_short: int = 0
    unsearched: int = 0
    said_by: tuple[str, ...] = ()
    said_elsewhere: int = 0

    @property
    def clean(self) -> bool:
        """Whether no trace is left, neither in a file nor in another record.

        False as well where that is not proved: nothing was looked for, or not each of the caller's texts.
        """
        proved = self.searched and not self.unsearched
        return bool(proved) and not (self.said_by or self.said_elsewhere or any(file.found for file in self.files))


async def verify_erased(provider: AgentMemoryProvider, traces: Traces) -> ErasureReport:
    """Search every file of a store, and the names of the files, for traces of erased records.

    Traces are looked for in UTF-8, UTF-16, JSON's escapes and base64, composed and decomposed, in pieces and as a
    full-text index holds words; vectors as float32 numbers, bare or in base64. Content that remaining
    records share is left out: `ErasureReport.said_by` names those that are visible, and the others are counted.

    The search covers all partitions of the store: it is for users who may read its files. Content of
    another organization is found as well. A short word (fewer than 6 bytes, a number of fewer than 10
    digits) is not looked for in files: it occurs by chance. If the caller named it, records are asked for it as a word.

    Args:
        provider: Provider of the store.
        traces: Traces that `Admin.traces` gathered before the erasure.

    Raises:
        CapabilityError: The provider keeps no files, or cannot list them.
        StoreUnavailableError: A file cannot be read.
    """
    if not isinstance(provider, KeepsFiles):
        raise CapabilityError(f"{type(provider).__name__} cannot list the files that it keeps its data in")
    log = await provider.changes(traces.tenant)
    rows = (await provider.vectors(traces.tenant))[1] if traces.vectors else None
    needles, left_out = await to_thread.run_sync(_needles, traces, log, rows)
    left = [entry for entry in log if isinstance(entry, Recorded)]
    holding = set(await to_thread.run_sync(_said_by, traces.words, traces.short, left))
    files = await provider.files()
    found = await to_thread.run_sync(_searched, files, needles)
    return ErasureReport(
        files=found,
        searched=len(needles),
        left_out=left_out,
        too_short=traces.too_short,
        unsearched=len(traces.short),
        said_by=traces.said_by,
        said_elsewhere=len(holding.difference(traces.said_by)),
    )


@attrs.frozen
class _Piece:
    """A piece to look for.

    Attributes:
        data: The piece as bytes; a text in UTF-8.
        kind: The kind of trace that it is part of.
        text: The text, if a file may hold it in any encoding; None for bytes, and for words of a full-text index.
    """

    data: bytes
    kind: _Kind
    text: str | None = None

    @property
    def forms(self) -> set[bytes]:
        """The bytes that it may be in a file."""
        if self.text is not None:
            return _text_forms(self.text)
        return {self.data, *_base64_forms(self.data)} if self.kind is _Kind.VECTORS else {self.data}


_STRUCTURE: Final = " ".join(
    [
        *(field.name for held in (Recorded, Assertion, FactDetails, Evidence) for field in attrs.fields(held)),
        *(item.value for kind in (AssertionState, FactType, Origin) for item in kind),
    ]
)
"""Words of the file format, which every file of a store holds."""


def _needles(traces: Traces, log: Sequence[LogEntry], rows: NDArray[np.float32] | None) -> tuple[list[_Piece], int]:
    """Split traces into pieces, without those that remaining records hold as well; return the number of the latter."""
    texts = [piece for name in traces.names for piece in _text_pieces(name, _Kind.NAMES)]
    texts += [piece for text in traces.words for piece in _text_pieces(text, _Kind.WORDS)]
    texts += [_Piece(mark, _Kind.MARKS) for mark in traces.marks]
    numbers = [_Piece(data, _Kind.VECTORS) for row in traces.vectors for data in _vector_pieces(row)]
    left = Scanner({piece.data: piece.data for piece in texts}).found(_known(log))
    if rows is not None:
        left |= Scanner({piece.data: piece.data for piece in numbers}).found(rows.astype("<f4").tobytes())
    wanted = {(piece.data, piece.text): piece for piece in (*texts, *numbers)}
    needles = [piece for piece in wanted.values() if piece.data not in left]
    return needles, len(wanted) - len(needles)


def _text_pieces(text: str, kind: _Kind) -> Iterator[_Piece]:
    for piece in pieces(text):
        yield _Piece(piece.encode(errors="replace"), kind, piece)
    for piece in _index_pieces(text):
        yield _Piece(piece.encode(errors="replace"), kind)


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
    return f"{whole}\n{_as_in_an_index(text)}".encode(errors="replace")


def _searched(files: Sequence[Path], needles: Sequence[_Piece]) -> tuple[FileTraces, ...]:
    scanner = Scanner({form: piece.kind for piece in needles for form in piece.forms})
    root = Path(os.path.commonpath([file.parent for file in files])) if files else Path()
    return tuple(report for file in files if (report := _search(file, root, scanner)) is not None)


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
