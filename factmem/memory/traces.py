"""Traces of records, gathered before their erasure: words, names, ids, vectors."""

from __future__ import annotations

import bisect
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import attrs

from factmem.memory.byte_search import Scanner, tells
from factmem.records import LogEntry, Recorded, StateChange
from factmem.values import texts_in

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Traces", "names_in", "said_in", "traces_of"]


@attrs.frozen(kw_only=True, repr=False)
class Traces:
    """Pieces to look for in files after an erasure; see `Admin.traces`. The repr holds none of them.

    Attributes:
        words: Values, quotes, metadata, reasons.
        names: Keywords, descriptions, scopes, subjects, categories and so on.
        marks: Ids of records, and the digests by which a store distinguishes values.
        vectors: Float32 numbers of the embeddings.
        too_short: Number of words and names too short to be distinguished from other content.
        said_by: Ids of other visible records that hold some of the words, too.
        tenant: Organization of the records.
    """

    words: frozenset[str]
    names: frozenset[str] = frozenset()
    marks: frozenset[bytes] = frozenset()
    vectors: tuple[bytes, ...] = ()
    too_short: int = 0
    said_by: tuple[str, ...] = ()
    tenant: str | None = None

    def __repr__(self) -> str:
        return f"Traces({len(self.words)} words, {len(self.names)} names, {len(self.vectors)} vectors)"


def traces_of(
    gone: Sequence[Recorded],
    log: Iterable[LogEntry],
    vectors: Sequence[NDArray[np.float32]] = (),
    *,
    texts: Collection[str] = (),
    tenant: str | None = None,
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
    words = frozenset(text for text in said if tells(text))
    others = [entry for entry in entries if isinstance(entry, Recorded) and entry.id not in ids]
    return Traces(
        words=words,
        names=frozenset(name for name in named if tells(name)),
        marks=frozenset(mark for recorded in gone for mark in _marks(recorded)) - _shared_marks(others, gone),
        vectors=tuple(vector.astype("<f4").tobytes() for vector in vectors),
        too_short=sum(not tells(text) for text in said | named),
        said_by=_said_by(words, others),
        tenant=tenant,
    )


def said_in(recorded: Recorded) -> Iterator[str]:
    """Yield the texts of an assertion."""
    said = recorded.assertion
    yield from texts_in(said.data)
    yield from texts_in(said.details.metadata)
    for item in said.details.evidence:
        yield item.quote


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


def _shared_marks(others: Sequence[Recorded], gone: Sequence[Recorded]) -> set[bytes]:
    """Return the marks that stay: ids of records with other revisions, and digests of values that others share."""
    if not gone:
        return set()
    return {mark for recorded in others for mark in _marks(recorded)}


def _said_by(words: Collection[str], others: Sequence[Recorded]) -> tuple[str, ...]:
    """Return the ids of the records, in any state, that hold some words entirely."""
    starts: list[int] = []
    blob = bytearray()
    for recorded in others if words else ():
        starts.append(len(blob))
        said = "\n".join(said_in(recorded))
        blob += unicodedata.normalize("NFC", said).encode(errors="replace") + b"\0"
    scanner = Scanner({unicodedata.normalize("NFC", text.strip()).encode(errors="replace"): None for text in words})
    rows = {bisect.bisect_right(starts, start) - 1 for start, _, _ in scanner.matches(bytes(blob))}
    return tuple(dict.fromkeys(others[row].record_id for row in sorted(rows)))
