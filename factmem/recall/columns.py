"""A tenant's assertions as columns: one row an assertion, in the order recorded, nothing kept alive per row.

Columns are only ever appended to, by one thread at a time, so that others may read meanwhile without a lock:
whatever a row that they were handed refers to is there. What is asked for one by one may have grown in between;
`Columns.all_of_heads` is of one moment. Only ``state`` and ``slot`` change in place: they are for who writes.
Texts are numbered once each (`factmem.recall.growing.Numbered`), ids are 64-bit keys.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from factmem.recall.growing import Finder, Growing, Numbered, spread
from factmem.recall.naming import ConceptNames
from factmem.recall.outlines import BODY, BODY_FIELDS, MULTIPLE, read_head, read_labels, read_tail
from factmem.scopes import MemoryScope

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from factmem.recall.outlines import Head

__all__ = ["Columns", "Rows", "subject_text"]

_TYPES: Final = {
    "seq": np.int64,
    "recorded_at": np.int64,
    "id": np.uint64,
    "record": np.uint64,
    "value": np.uint64,
    "fold": np.uint64,
    "stands": np.uint64,
    "said_at": np.int64,
    "expires_at": np.int64,
    "importance": np.float64,
    "position": np.int64,
    "start": np.int64,
    "flags": np.uint8,
    "says": np.uint8,
    "signs": np.uint8,
    "state": np.uint8,
    "first_state": np.uint8,
    "head": np.int32,
    "labels": np.int32,
    "conversation": np.int32,
    "slot": np.int32,
    "terms_start": np.int64,
    "terms_count": np.int32,
}
_BODY: Final = np.dtype(list(BODY_FIELDS))
_HEAD_TYPES: Final = {
    "track": np.int32,
    "place": np.int32,
    "scope": np.int32,
    "subject": np.int32,
    "keyword": np.int32,
    "owner": np.int32,
    "priority": np.int64,
}
_TAGS: Final = ("categories", "topics", "sources", "cited")
_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_ONE: Final = np.uint64(1)


@attrs.frozen(kw_only=True)
class Rows:
    """Assertions on their way into columns, one an item of each sequence.

    Attributes:
        seqs: their numbers in the store.
        ids: the numbers of their ids; see `factmem.abc.number_of_id`.
        records: the numbers of their records' ids.
        recorded_at: when they were recorded, in microseconds since 1970.
        shared: see `factmem.abc.Outline`.
        own: see `factmem.abc.Outline`.
    """

    seqs: Sequence[int]
    ids: Sequence[int] | NDArray[np.uint64]
    records: Sequence[int] | NDArray[np.uint64]
    recorded_at: Sequence[int] | NDArray[np.int64]
    shared: Sequence[bytes]
    own: Sequence[bytes]


class Columns:
    """Every assertion of a tenant that is not erased.

    Args:
        tenant: whose.
    """

    def __init__(self, tenant: str | None = None) -> None:
        self.tenant = tenant
        self.heads: Numbered = Numbered()
        self.tracks: Numbered = Numbered()
        self.places: Numbered = Numbered()
        self.scopes: Numbered = Numbered()
        self.subjects: Numbered = Numbered()
        self.keywords: Numbered = Numbered()
        self.owners: Numbered = Numbered([""])
        self.labels: Numbered = Numbered([""])
        self.categories: Numbered = Numbered()
        self.topics: Numbered = Numbered()
        self.sources: Numbered = Numbered()
        self.cited: Numbered = Numbered()
        self.conversations: Numbered = Numbered([""])
        self.metadata: dict[int, str] = {}
        self.concept_names: ConceptNames = ConceptNames()
        self._columns = Growing(_TYPES)
        self._of_heads = Growing(_HEAD_TYPES)
        self._terms = Growing({"terms": np.uint64})
        self._tags = {name: Growing({"tag": np.int32, "label": np.int32}) for name in _TAGS}
        self._finders: dict[str, Finder] = {name: Finder() for name in ("id", "record", "fold", "stands")}

    def __len__(self) -> int:
        return self._columns.length

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column, as it is now."""
        return self._columns[name]

    def of_heads(self, name: str) -> NDArray[Any]:
        """Return ``track``, ``place``, ``scope``, ``subject``, ``keyword``, ``owner`` or ``priority`` by head."""
        return self._of_heads[name]

    def all_of_heads(self) -> Mapping[str, NDArray[Any]]:
        """Return all that `of_heads` does, of the same heads."""
        return dict(zip(_HEAD_TYPES, self._of_heads.together(*_HEAD_TYPES), strict=True))

    def of_rows(self, name: str, rows: NDArray[Any]) -> NDArray[Any]:
        """Return what `of_heads` does, of some rows."""
        found: NDArray[Any] = self.of_heads(name)[self["head"][rows]]
        return found

    @property
    def terms(self) -> NDArray[np.uint64]:
        """All terms of all rows; ``terms_start`` and ``terms_count`` say whose."""
        return self._terms["terms"]

    def scope(self, number: int) -> MemoryScope:
        """Return a scope by its number, anchored at the tenant."""
        return MemoryScope.parse(self.scopes.texts[number]).within(self.tenant)

    def find(self, name: str, keys: Iterable[int] | NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the rows whose ``id``, ``record``, ``fold`` or ``stands`` is one of some, ascending."""
        wanted = keys if isinstance(keys, np.ndarray) else np.fromiter(keys, np.uint64)
        return self._finders[name].find(self[name], wanted)

    def add(self, rows: Rows) -> None:
        """Append rows."""
        if not len(rows.seqs):
            return
        first = len(self)
        bodies, said_in, labelled, metadata = zip(*map(read_tail, rows.own), strict=True)
        body = np.frombuffer(b"".join([item[: BODY.size] for item in bodies]), _BODY)
        terms = np.frombuffer(b"".join([item[BODY.size :] for item in bodies]), "<u8")
        counts = (np.fromiter(map(len, bodies), np.int64, len(bodies)) - BODY.size) // 8
        heads = self._numbered_once(rows.shared)
        conversations = np.fromiter(map(self.conversations.number, said_in), np.int32, len(said_in))
        labels = self._numbered_labels(labelled)
        records = np.array(rows.records, np.uint64)
        self.metadata.update({first + row: text for row, text in enumerate(metadata) if text})
        self._columns.append(
            **{name: body[name] for name, _ in BODY_FIELDS if name != "tail"},
            first_state=body["state"],
            seq=rows.seqs,
            recorded_at=rows.recorded_at,
            id=np.array(rows.ids, np.uint64),
            record=records,
            **self._keys(heads, (body["flags"] & MULTIPLE) != 0, records, body["value"]),
            head=heads,
            labels=labels,
            conversation=conversations,
            slot=np.full(len(heads), -1),
            terms_start=self._terms.length + np.cumsum(counts) - counts,
            terms_count=counts,
        )
        self._terms.append(terms=terms)

    def without(self, erased: NDArray[np.intp]) -> tuple[Columns, NDArray[np.intp]]:
        """Return columns that never held some rows, and which rows they still hold.

        Args:
            erased: the rows to leave out.
        """
        left = np.delete(np.arange(len(self)), erased)
        new = Columns(self.tenant)
        for name in ("heads", "labels", "conversations"):
            self._renumber(new, name, left)
        new._columns.append(**self._kept(new, left))
        new._terms.append(terms=self.terms[spread(self["terms_start"][left], self._ends()[left])])
        new.metadata = {row: self.metadata[old] for row, old in enumerate(left.tolist()) if old in self.metadata}
        return new, left

    def _ends(self) -> NDArray[np.int64]:
        ends: NDArray[np.int64] = self["terms_start"] + self["terms_count"]
        return ends

    def _renumber(self, new: Columns, name: str, left: NDArray[np.intp]) -> None:
        column = {"heads": "head", "labels": "labels", "conversations": "conversation"}[name]
        texts = getattr(self, name).texts
        used = [texts[number] for number in np.unique(self[column][left]).tolist()]
        if name == "heads":
            new._numbered_heads(used)
        elif name == "labels":
            new._numbered_labels(used)
        else:
            for text in used:
                getattr(new, name).number(text)

    def _kept(self, new: Columns, left: NDArray[np.intp]) -> dict[str, NDArray[Any]]:
        kept = {name: self[name][left] for name in _TYPES}
        for column, name in (("head", "heads"), ("labels", "labels"), ("conversation", "conversations")):
            numbers = [getattr(new, name).find(text) for text in getattr(self, name).texts]
            translated = np.array([-1 if number is None else number for number in numbers], np.int32)
            kept[column] = translated[kept[column]] if len(translated) else kept[column]
        counts = kept["terms_count"].astype(np.int64)
        kept["terms_start"] = np.cumsum(counts) - counts
        several = (kept["flags"] & MULTIPLE) != 0
        return kept | new._keys(kept["head"], several, kept["record"], kept["value"])

    def _numbered_once(self, shared: Sequence[bytes]) -> NDArray[np.int32]:
        """Return the numbers of heads; each is decoded once."""
        distinct = dict.fromkeys(shared)
        numbers = self._numbered_heads([part.decode(errors="surrogatepass") for part in distinct])
        of_parts = dict(zip(distinct, numbers.tolist(), strict=True))
        return np.fromiter(map(of_parts.__getitem__, shared), np.int32, len(shared))

    def _numbered_heads(self, heads: Sequence[str]) -> NDArray[np.int32]:
        before = len(self.heads)
        numbers = np.fromiter(map(self.heads.number, heads), np.int32, len(heads))
        new = [read_head(text) for text in self.heads.texts[before:]]
        if new:
            self._of_heads.append(
                track=[self.tracks.number(_track_text(head)) for head in new],
                place=[self.places.number(_place_text(head)) for head in new],
                scope=[self.scopes.number(head.scope) for head in new],
                subject=[self.subjects.number(subject_text(head.subject, head.individual)) for head in new],
                keyword=[self.keywords.number(head.keyword) for head in new],
                owner=[self.owners.number(head.owner or "") for head in new],
                priority=[head.priority for head in new],
            )
        return numbers

    def _numbered_labels(self, labels: Sequence[str]) -> NDArray[np.int32]:
        before = len(self.labels)
        numbers = np.fromiter(map(self.labels.number, labels), np.int32, len(labels))
        for number, text in enumerate(self.labels.texts[before:], start=before):
            categories, topics, source, others = read_labels(text)
            sources = () if source is None else (source,)
            for name, tags in zip(_TAGS, (categories, topics, sources, others), strict=True):
                found = [getattr(self, name).number(tag) for tag in tags]
                self._tags[name].append(tag=found, label=[number] * len(found))
        return numbers

    def labels_with(self, name: str, tags: Iterable[str]) -> NDArray[np.bool_]:
        """Return which labels hold one of some ``categories``, ``topics``, ``sources`` or ``cited``."""
        texts: Numbered = getattr(self, name)
        numbers = [number for tag in tags if (number := texts.find(tag)) is not None]
        tagged, held = self._tags[name].together("label", "tag")
        mask = np.zeros(len(self.labels), np.bool_)  # after the pairs were taken: all of their labels are there
        mask[tagged[np.isin(held, numbers)]] = True
        return mask

    def said_in(self, conversations: Collection[str]) -> NDArray[np.intp]:
        """Return the rows that cite one of some conversations, ascending."""
        numbers = [number for text in conversations if text and (number := self.conversations.find(text)) is not None]
        labels, said_in = self._columns.together("labels", "conversation")
        return np.flatnonzero(np.isin(said_in, numbers) | self.labels_with("cited", conversations)[labels])

    def counted(self, name: str, rows: NDArray[np.intp]) -> tuple[list[int], list[int]]:
        """Return the numbers of what `of_rows` tells of some rows, each once, and how many rows have it."""
        numbers, counts = np.unique(self.of_rows(name, rows), return_counts=True)
        return numbers.tolist(), counts.tolist()

    def texts_of(self, name: str, rows: NDArray[np.intp]) -> list[str]:
        """Return the texts of the ``scope``, ``subject``, ``keyword`` or ``owner`` of some rows, each once."""
        texts: Numbered = getattr(self, f"{name}s")
        return [texts.texts[number] for number in self.counted(name, rows)[0]]

    def subjects_of(self, rows: NDArray[np.intp]) -> list[tuple[str, str | None]]:
        """Return the keys of the subjects of some rows, each once."""
        pairs = (text.partition("\0") for text in self.texts_of("subject", rows))
        return [(name, individual if cut else None) for name, cut, individual in pairs]

    def tags_of(self, name: str, labels: NDArray[np.int32]) -> list[str]:
        """Return the ``categories``, ``topics`` or ``sources`` in some labels, sorted."""
        texts: Numbered = getattr(self, name)
        tagged, held = self._tags[name].together("label", "tag")
        return sorted(texts.texts[number] for number in np.unique(held[np.isin(tagged, labels)]).tolist())

    def _keys(
        self,
        heads: NDArray[np.int32],
        several: NDArray[np.bool_],
        records: NDArray[np.uint64],
        values: NDArray[np.uint64],
    ) -> dict[str, NDArray[np.uint64]]:
        """What folds together, and what may stand once only: of a SINGLE either is its track."""
        track = (self.of_heads("track")[heads].astype(np.uint64) + _ONE) * _ODD
        none = np.uint64(0)
        return {"fold": track ^ np.where(several, records, none), "stands": track ^ np.where(several, values, none)}


def subject_text(name: str, individual: str | None) -> str:
    """Return the text that a subject goes by among `Columns.subjects`."""
    return name if individual is None else f"{name}\0{individual}"


def _place_text(head: Head) -> str:
    return json.dumps([head.scope, head.subject, head.individual, head.owner])


def _track_text(head: Head) -> str:
    return json.dumps([head.scope, head.subject, head.individual, head.keyword, head.owner])
