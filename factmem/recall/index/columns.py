"""A tenant's assertions as columns: one row an assertion, in the order recorded, without objects per row.

Columns are append-only. One thread at a time appends; others read without a lock, because whatever a row refers to is
there before the row. Two columns read one after the other may differ in length; `Columns.all_of_heads` is consistent.
Only ``state`` and ``slot`` change in place, for the writing thread. Texts are stored once each (`Numbered`); ids are
64-bit keys. What the text of a row tells comes from its outline: see `outline_codec.BODY_FIELDS`. ``talk`` is the key
of a row's conversation: its id, place and owner, since words never cross a partition; 0 for none.
"""

from __future__ import annotations

import copy
import functools
import sys
from collections.abc import Collection, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import attrs
import numpy as np

from factmem.details import Origin
from factmem.facts import STATEMENT
from factmem.legal_names import folded_keyword
from factmem.recall.index.names_in_query import ConceptIndex, SubjectIndex, concept_text, subject_names, subject_text
from factmem.recall.index.outline_codec import BODY, BODY_FIELDS, MULTIPLE, read_head, read_labels, read_tail
from factmem.recall.index.sizes import OBJECT
from factmem.recall.text.signs import is_relative
from factmem.scopes import MemoryScope
from factmem.short_work import may_wait
from factmem.subjects import MemorySubject
from factmem.views import Sight, View

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from factmem.recall.index.outline_codec import Head

_BODY: Final = np.dtype(list(BODY_FIELDS))
_OF_BODY: Final = {name: kind for name, kind in BODY_FIELDS if name != "tail"}
_TYPES: Final = {
    **_OF_BODY,
    **dict.fromkeys(("seq", "recorded_at", "terms_start"), np.int64),
    **dict.fromkeys(("id", "record", "fold", "stands", "talk"), np.uint64),
    **dict.fromkeys(("head", "labels", "conversation", "slot", "terms_count"), np.int32),
    "first_state": np.uint8,
}
_HEAD_TYPES: Final = {
    **dict.fromkeys(("track", "place", "scope", "subject", "person", "keyword", "concept", "owner"), np.int32),
    "priority": np.int64,
}
_PEOPLE: Final = ("individual", "relative", "capitalized")
_KEYS: Final = ("id", "record", "fold", "stands", "talk")
_TAGS: Final = ("categories", "topics", "sources", "cited")
_SPARE: Final = 32
"""Room for one term more in this many is made in advance, for the rows that follow may be longer."""

FEW: Final = 64
"""Number of texts, such as scopes, that are read and tested one by one in less than a millisecond."""

_MOST_VIEWS: Final = 128
"""Number of views whose scopes are cached."""

_ODD: Final = np.uint64(0x9E3779B97F4A7C15)
_ONE: Final = np.uint64(1)


@attrs.frozen(kw_only=True)
class Rows:
    """Assertions as input of columns: sequences of one length.

    Attributes:
        seqs: Sequence numbers.
        ids: Numbers of the ids; see `factmem.abc.outlines.number_of_id`.
        records: Numbers of the records' ids.
        recorded_at: When they were recorded, in microseconds since 1970.
        shared: See `factmem.abc.outlines.Outline`.
        own: See `factmem.abc.outlines.Outline`.
        ahead: Number of assertions that follow at once, for which room is made.
    """

    seqs: Sequence[int]
    ids: Sequence[int] | NDArray[np.uint64]
    records: Sequence[int] | NDArray[np.uint64]
    recorded_at: Sequence[int] | NDArray[np.int64]
    shared: Sequence[bytes]
    own: Sequence[bytes]
    ahead: int = 0


class Columns:
    """All assertions of a tenant that are not erased.

    Args:
        tenant: The tenant.
    """

    def __init__(self, tenant: str | None = None) -> None:
        self.tenant = tenant
        self.heads: Numbered = Numbered()
        self.tracks: Numbered = Numbered()
        self.places: Numbered = Numbered()
        self.scopes: Numbered = Numbered()
        self.subjects: Numbered = Numbered()
        self.keywords: Keywords = Keywords()
        self.concepts: Numbered = Numbered()
        self.owners: Numbered = Numbered([""])
        self.labels: Numbered = Numbered([""])
        self.categories: Numbered = Numbered()
        self.topics: Numbered = Numbered()
        self.sources: Numbered = Numbered()
        self.cited: Numbered = Numbered()
        self.conversations: Numbered = Numbered([""])
        self.metadata: dict[int, str] = {}
        self.concept_index: ConceptIndex = ConceptIndex()
        self.subject_index: SubjectIndex = SubjectIndex()
        self._columns = Growing(_TYPES)
        self._of_heads = Growing(_HEAD_TYPES)
        self._terms = Growing({"terms": np.uint64})
        self._tags = {name: Growing({"tag": np.int32, "label": np.int32}) for name in _TAGS}
        self._finders: dict[str, Finder] = {name: Finder() for name in _KEYS}
        self._reached: dict[Hashable, NDArray[np.bool_]] = {}
        self._people = Growing(dict.fromkeys(_PEOPLE, np.bool_))
        self._called: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return self._columns.length

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return a column as it is now."""
        return self._columns[name]

    def of_heads(self, name: str) -> NDArray[Any]:
        """Return ``track``, ``place``, ``scope``, ``subject``, ``keyword``, ``concept`` or another column by head.

        ``person`` is whom a fact is about, its subject, and who says a statement: the speaker, as an individual of the
        user, or without a name the subject.
        """
        return self._of_heads[name]

    def all_of_heads(self) -> Mapping[str, NDArray[Any]]:
        """Return all columns of `of_heads`, of one length."""
        return dict(zip(_HEAD_TYPES, self._of_heads.together(*_HEAD_TYPES), strict=True))

    def of_rows(self, name: str, rows: NDArray[Any]) -> NDArray[Any]:
        """Return a column of `of_heads` for some rows."""
        return self.of_heads(name)[self["head"][rows]]

    def are_statements(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Return which of some rows are statements."""
        statement = self.keywords.find(STATEMENT.keyword)
        return self.of_rows("keyword", rows) == (-1 if statement is None else statement)

    @property
    def terms(self) -> NDArray[np.uint64]:
        """The terms of all rows, one after the other; see ``terms_start`` and ``terms_count``."""
        return self._terms["terms"]

    def terms_of(self, first: int, end: int) -> NDArray[np.uint64]:
        """Return the terms of successive rows, given by the first one and the one after the last."""
        starts, counts = self["terms_start"], self["terms_count"]
        return self.terms[starts[first] : starts[end - 1] + counts[end - 1]] if end > first else self.terms[:0]

    def scope(self, number: int) -> MemoryScope:
        """Return a scope by its number, anchored at the tenant."""
        return _scope(self.scopes.texts[number], self.tenant)

    def owner_of(self, viewer: str | None) -> int:
        """Return the number of a viewer as an owner; viewers without facts of their own share that of the public."""
        return 0 if viewer is None else self.owners.find(viewer) or 0

    def numbers_of(self, subjects: Iterable[tuple[str, str | None]]) -> list[int]:
        """Return the numbers of the subjects that occur, by their keys."""
        found = (self.subjects.find(subject_text(*key)) for key in subjects)
        return [number for number in found if number is not None]

    def visible_heads(self, sight: Sight) -> NDArray[np.bool_]:
        """Return which heads lie in a view and are public or the viewer's own."""
        of = self.all_of_heads()
        owner = self.owner_of(sight.viewer)
        seen: NDArray[np.bool_] = of["owner"] == 0
        if owner:
            seen |= of["owner"] == owner
        if sight.view.scopes:
            seen &= self._scopes_in(sight.view)[of["scope"]]
        if sight.view.subjects:
            seen &= among(of["subject"], self.numbers_of(subject.key for subject in sight.view.subjects))
        if sight.view.individuals is not None:
            own = among(of["subject"], self.numbers_of(sight.view.individuals))
            seen &= own | ~self.individuals()[of["subject"]] | (of["owner"] != 0)
        return seen

    def individuals(self) -> NDArray[np.bool_]:
        """Return which subjects, by their numbers, are individuals."""
        return self._people["individual"]

    def own_and_people(self, viewer: str | None, *, capitalized: bool) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Return which subjects, by their numbers, are a viewer's own, and which are people.

        Everything, the user and what is called like the viewer are the viewer's own; individuals are people, and so is
        a subject such as ``boss``.

        Args:
            viewer: The viewer.
            capitalized: Whether a capitalized name is a person's, too.
        """
        individuals, relatives, capital = self._people.together(*_PEOPLE)
        people = individuals | relatives | capital if capitalized else individuals | relatives
        names = (MemorySubject.EVERYTHING.name, Origin.USER.value, *([viewer] if viewer else ()))
        numbers = [*self.numbers_of((name, None) for name in names), *self._called.get((viewer or "").casefold(), ())]
        own = np.zeros(len(people), np.bool_)
        own[[number for number in numbers if number < len(own)]] = True  # others append meanwhile
        return own, people

    def _scopes_in(self, view: View) -> NDArray[np.bool_]:
        """Return which scopes lie in a view; each is tested once."""
        key = (view.roots, view.exact)
        known = self._reached.get(key, np.empty(0, np.bool_))
        size = len(self.scopes)
        if len(known) < size:
            if size - len(known) > FEW:
                may_wait()
            new = (view.reaches(self.scope(number)) for number in range(len(known), size))
            known = np.concatenate([known, np.fromiter(new, np.bool_, size - len(known))])
            if len(self._reached) >= _MOST_VIEWS:
                self._reached.clear()
            self._reached[key] = known
        return known

    def find(self, name: str, keys: Iterable[int] | NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the rows whose ``id``, ``record``, ``fold``, ``stands`` or ``talk`` is one of some keys, ascending."""
        wanted = keys if isinstance(keys, np.ndarray) else np.fromiter(keys, np.uint64)
        return self._finders[name].find(self[name], wanted)

    def add(self, rows: Rows) -> None:
        """Append rows."""
        if not len(rows.seqs):
            return
        first = len(self)
        body = np.frombuffer(b"".join([item[: BODY.size] for item in rows.own]), _BODY)
        tails_at = (np.fromiter(map(len, rows.own), np.int64, len(rows.own)) - body["tail"]).tolist()
        terms = b"".join([item[BODY.size : end] for item, end in zip(rows.own, tails_at, strict=True)])
        counts = (np.array(tails_at, np.int64) - BODY.size) // 8
        heads, of_heads = _distinct(rows.shared)
        tails, of_tails = _distinct([item[end:] for item, end in zip(rows.own, tails_at, strict=True)])
        said_in, labelled, metadata = zip(*map(read_tail, tails), strict=True)
        described = np.array(list(map(bool, metadata)))[of_tails].nonzero()[0]
        self.metadata.update({first + row: metadata[of_tails[row]] for row in described.tolist()})
        numbers = self.conversations.numbers(said_in)
        head = self._numbered_heads([text.decode(errors="surrogatepass") for text in heads])[of_heads]
        records = np.array(rows.records, np.uint64)
        self._columns.append(
            rows.ahead,
            **{name: body[name] for name in _OF_BODY},
            first_state=body["state"],
            seq=rows.seqs,
            recorded_at=rows.recorded_at,
            id=np.array(rows.ids, np.uint64),
            record=records,
            **self._keys(head, (body["flags"] & MULTIPLE) != 0, records, body["value"], numbers[of_tails]),
            head=head,
            labels=self._numbered_labels(labelled)[of_tails],
            conversation=numbers[of_tails],
            slot=-1,
            terms_start=self._terms.length + np.cumsum(counts) - counts,
            terms_count=counts,
        )
        terms_ahead = len(terms) // 8 * rows.ahead // len(rows.seqs)
        self._terms.append(terms_ahead + terms_ahead // _SPARE, terms=np.frombuffer(terms, "<u8"))

    def without(self, erased: NDArray[np.intp]) -> tuple[Columns, NDArray[np.intp]]:
        """Return columns without some rows, and the rows that are left.

        Args:
            erased: The rows to leave out.
        """
        left = np.delete(np.arange(len(self)), erased)
        kept = {name: self[name][left] for name in _TYPES}
        of_heads, of_labels = _used(kept["head"], len(self.heads)), _used(kept["labels"], len(self.labels))
        of_labels[0] = True  # that of no labels
        new = copy.copy(self) if of_heads.all() and of_labels.all() else self._renumbered(kept, of_heads, of_labels)
        new.conversations.drop(np.flatnonzero(~_used(kept["conversation"], len(new.conversations))).tolist())
        new._terms, new._columns = Growing({"terms": np.uint64}), Growing(_TYPES)
        starts, counts = kept["terms_start"], kept["terms_count"].astype(np.int64)
        new._terms.append(terms=self.terms[spread(starts, starts + counts)])
        kept["terms_start"] = np.cumsum(counts) - counts
        new._columns.append(**kept)
        described = np.array(sorted(self.metadata), np.intp)
        described = described[among(described, left)]
        of_described = zip(left.searchsorted(described).tolist(), described.tolist(), strict=True)
        new.metadata = {row: self.metadata[old] for row, old in of_described}
        new._finders = {name: Finder() for name in _KEYS}
        for name, finder in self._finders.items():
            if np.array_equal(kept[name], self[name][left]):  # sorting is what an erasure would cost most
                new._finders[name] = finder.without(len(self), left)
        return new, left

    def _renumbered(
        self, kept: dict[str, NDArray[Any]], of_heads: NDArray[np.bool_], of_labels: NDArray[np.bool_]
    ) -> Columns:
        """Return columns without rows, of the heads and labels that rows use, and give these their new numbers.

        Args:
            kept: The columns of the rows.
            of_heads: Which heads they use.
            of_labels: Which labels they use.
        """
        new = Columns(self.tenant)
        new.conversations = self.conversations
        for name, known, used, renumbered in (
            ("head", self.heads, of_heads, new._numbered_heads),
            ("labels", self.labels, of_labels, new._numbered_labels),
        ):
            numbers = np.zeros(len(known), np.int32)
            numbers[used] = renumbered([known.texts[number] for number in np.flatnonzero(used).tolist()])
            kept[name] = numbers[kept[name]]
        several = (kept["flags"] & MULTIPLE) != 0
        kept |= new._keys(kept["head"], several, kept["record"], kept["value"], kept["conversation"])
        return new

    def _numbered_heads(self, heads: Sequence[str]) -> NDArray[np.int32]:
        before = len(self.heads)
        numbers = self.heads.numbers(heads)
        new = [read_head(text) for text in self.heads.texts[before:]]
        if new:
            subjects = [self.subjects.number(subject_text(head.subject, head.individual)) for head in new]
            persons = [self.subjects.number(_person_text(head)) for head in new]
            places = list(map(_place_text, new))
            self._add_people()
            self._of_heads.append(
                track=[self.tracks.number(f"{at}\0{head.keyword}") for at, head in zip(places, new, strict=True)],
                place=self.places.numbers(places),
                scope=[self.scopes.number(head.scope) for head in new],
                subject=subjects,
                person=persons,
                keyword=[self.keywords.number(head.keyword) for head in new],
                concept=[self.concepts.number(concept_text(head.keyword, head.description)) for head in new],
                owner=[self.owners.number(head.owner or "") for head in new],
                priority=[head.priority for head in new],
            )
        return numbers

    def _add_people(self) -> None:
        """Note which of the new subjects are people."""
        first = self._people.length
        named = list(map(subject_names, self.subjects.texts[first:]))
        for number, (_, individual) in enumerate(named, start=first):
            if individual:
                self._called.setdefault(individual.casefold(), []).append(number)
        self._people.append(
            individual=[individual != "" for _, individual in named],
            relative=[is_relative(name) for name, _ in named],
            capitalized=[name[:1].isupper() for name, _ in named],
        )

    def _numbered_labels(self, labels: Sequence[str]) -> NDArray[np.int32]:
        before = len(self.labels)
        numbers = self.labels.numbers(labels)
        for number, text in enumerate(self.labels.texts[before:], start=before):
            for name, tags in zip(_TAGS, read_labels(text), strict=True):
                found = [getattr(self, name).number(tag) for tag in tags]
                self._tags[name].append(tag=found, label=[number] * len(found))
        return numbers

    def labels_with(self, name: str, tags: Iterable[str]) -> NDArray[np.bool_]:
        """Return a mask of the labels that hold one of some ``categories``, ``topics``, ``sources`` or ``cited``."""
        texts: Numbered = getattr(self, name)
        numbers = [number for tag in tags if (number := texts.find(tag)) is not None]
        tagged, held = self._tags[name].together("label", "tag")
        mask = np.zeros(len(self.labels), np.bool_)  # made after the pairs, so that it covers them
        mask[tagged[among(held, numbers)]] = True
        return mask

    def said_in(self, conversations: Collection[str]) -> NDArray[np.intp]:
        """Return the rows that cite one of some conversations, ascending."""
        numbers = [number for text in conversations if text and (number := self.conversations.find(text)) is not None]
        labels, said_in = self._columns.together("labels", "conversation")
        return np.flatnonzero(among(said_in, numbers) | self.labels_with("cited", conversations)[labels])

    def counted(self, name: str, rows: NDArray[np.intp]) -> tuple[list[int], list[int]]:
        """Return the distinct values of `of_rows` for some rows, and how many rows have each."""
        numbers, counts = np.unique(self.of_rows(name, rows), return_counts=True)
        return numbers.tolist(), counts.tolist()

    def tags_of(self, name: str, labels: NDArray[np.int32]) -> list[str]:
        """Return the ``categories``, ``topics`` or ``sources`` in some labels, sorted."""
        texts: Numbered = getattr(self, name)
        tagged, held = self._tags[name].together("label", "tag")
        return sorted(texts.texts[number] for number in np.unique(held[among(tagged, labels)]).tolist())

    def _keys(
        self,
        heads: NDArray[np.int32],
        several: NDArray[np.bool_],
        records: NDArray[np.uint64],
        values: NDArray[np.uint64],
        conversations: NDArray[np.int32],
    ) -> dict[str, NDArray[np.uint64]]:
        """Return keys of each row: of the fold and of uniqueness, both the track for a SINGLE, and of the talk."""
        track = (self.of_heads("track")[heads].astype(np.uint64) + _ONE) * _ODD
        none, place = np.uint64(0), self.of_heads("place")[heads].astype(np.uint64)
        return {
            "fold": track ^ np.where(several, records, none),
            "stands": track ^ np.where(several, values, none),
            "talk": np.where(conversations > 0, (conversations.astype(np.uint64) << np.uint64(32)) | place, none),
        }


@functools.lru_cache(maxsize=16_384)
def _scope(text: str, tenant: str | None) -> MemoryScope:
    return MemoryScope.parse(text).within(tenant)


def _used(numbers: NDArray[np.int32], count: int) -> NDArray[np.bool_]:
    """Return which of the numbers below a count occur."""
    used: NDArray[np.bool_] = np.bincount(numbers, minlength=count) > 0
    return used


def _person_text(head: Head) -> str:
    return subject_text(*((Origin.USER.value, head.speaker) if head.speaker else (head.subject, head.individual)))


def _place_text(head: Head) -> str:
    # Names hold no NUL and are never empty, so this is unambiguous; a large store has too many heads for JSON.
    return f"{head.scope}\0{head.subject}\0{head.individual or ''}\0{head.owner or ''}"


def _distinct(items: Sequence[bytes]) -> tuple[list[bytes], NDArray[np.intp]]:
    """Return the distinct items, and the place of each item among them."""
    places = {item: place for place, item in enumerate(dict.fromkeys(items))}
    return list(places), np.fromiter(map(places.__getitem__, items), np.intp, len(items))


class Numbered:
    """Distinct texts, numbered from 0 in the order added.

    Attributes:
        texts: The texts.
    """

    def __init__(self, texts: Iterable[str] = ()) -> None:
        self.texts: list[str] = []
        self._numbers: dict[str, int] = {}
        self._bytes = 0
        for text in texts:
            self.number(text)

    def __len__(self) -> int:
        return len(self.texts)

    @property
    def nbytes(self) -> int:
        """The size of the texts in memory, in bytes."""
        return self._bytes

    def number(self, text: str) -> int:
        """Return the number of a text; add the text if it is new."""
        known = self._numbers.get(text)
        if known is None:
            known = len(self.texts)
            self.texts.append(text)
            self._numbers[text] = known
            self._bytes += sys.getsizeof(text) + OBJECT
        return known

    def drop(self, numbers: Iterable[int]) -> None:
        """Drop texts that nothing has any more. Their numbers stand for an empty text, and are not given again."""
        for number in numbers:
            if text := self.texts[number]:
                del self._numbers[text]
                self.texts[number] = ""
                self._bytes -= sys.getsizeof(text)

    def numbers(self, texts: Sequence[str]) -> NDArray[np.int32]:
        """Return the numbers of texts; see `number`."""
        return np.fromiter(map(self.number, texts), np.int32, len(texts))

    def find(self, text: str) -> int | None:
        """Return the number of a text, or None for an unknown one."""
        return self._numbers.get(text)


class Keywords(Numbered):
    """Distinct keywords, and which of them are alike.

    Attributes:
        kinds: The number of the first alike keyword, by the number of each keyword.
    """

    def __init__(self) -> None:
        self.kinds: list[int] = []
        self._alike: dict[str, list[int]] = {}
        super().__init__()

    def number(self, text: str) -> int:
        """See `Numbered.number`."""
        number = super().number(text)
        if number == len(self.kinds):
            alike = self._alike.setdefault(folded_keyword(text), [])
            alike.append(number)
            self.kinds.append(alike[0])
            self._bytes += OBJECT
        return number

    def others(self, keyword: str) -> bool:
        """Return whether there are other keywords that are alike."""
        return any(self.texts[number] != keyword for number in self.alike(folded_keyword(keyword)))

    def alike(self, folded: str) -> Sequence[int]:
        """Return the numbers of the keywords that are folded to a text."""
        return self._alike.get(folded, ())


class Growing:
    """Append-only arrays of one length.

    Args:
        types: The type of each array.
    """

    def __init__(self, types: Mapping[str, Any]) -> None:
        self._types = types
        self._room = 0
        self.length: int = 0
        self._arrays: Mapping[str, NDArray[Any]] = _no_items(tuple(types.items()))

    def __getitem__(self, name: str) -> NDArray[Any]:
        """Return one array; of two read one after the other, the second may be longer."""
        length = self.length
        return self._arrays[name][:length]

    def together(self, *names: str) -> list[NDArray[Any]]:
        """Return some arrays, all of one length."""
        length = self.length
        return [self._arrays[name][:length] for name in names]

    def append(self, ahead: int = 0, /, **items: Any) -> None:
        """Append the same number of items to every array.

        Args:
            ahead: Number of items that follow at once, for which room is made.
            items: The items, by the name of the array.
        """
        count = len(next(iter(items.values())))
        self._make_room(self.length + count, ahead)
        for name, values in items.items():
            self._arrays[name][self.length : self.length + count] = values
        self.length += count  # last, so that readers see whole items only

    def _make_room(self, wanted: int, ahead: int) -> None:
        if wanted <= self._room:
            return
        # Only the room needed at first: most stores are read more than they are written.
        reading = ahead or not self._room
        self._room = wanted + ahead if reading else max(wanted, self._room + self._room // 4 + 1024)
        arrays = self._arrays = dict(self._arrays)  # others may share it
        for name, old in arrays.items():
            new = np.empty(self._room, self._types[name])
            new[: self.length] = old[: self.length]
            arrays[name] = new


@functools.cache
def _no_items(types: tuple[tuple[str, Any], ...]) -> Mapping[str, NDArray[Any]]:
    """Return arrays without items, which all empty mirrors share: many tenants are open that nobody asks."""
    return {name: np.empty(0, kind) for name, kind in types}


_NOTHING_SORTED: Final = (np.empty(0, np.uint64), np.empty(0, np.int32))


class Finder:
    """An index of rows by a 64-bit key: sorted, but for a short tail. Any thread may search."""

    def __init__(self) -> None:
        # One tuple, replaced as a whole, so that keys and rows are always of the same sorting.
        self._sorted = _NOTHING_SORTED

    def find(self, keys: NDArray[np.uint64], wanted: NDArray[np.uint64]) -> NDArray[np.intp]:
        """Return the rows that have one of some keys, ascending.

        Args:
            keys: The keys of all rows; another thread may have sorted more rows meanwhile.
            wanted: The keys to find.
        """
        if not len(wanted):
            return np.empty(0, np.intp)
        ordered, rows = self._sorted
        if len(keys) - len(ordered) > max(1024, len(ordered) // 16):
            order = np.argsort(keys)
            ordered, rows = self._sorted = keys[order], order.astype(np.int32)
        done, wanted = len(ordered), np.unique(wanted)
        low, high = (np.searchsorted(ordered, wanted, side) for side in ("left", "right"))
        found = np.sort(rows[spread(low, high)]).astype(np.intp)
        if done > len(keys):  # another thread sorted more
            return found[found < len(keys)]
        return np.concatenate([found, np.flatnonzero(among(keys[done:], wanted)) + done])

    def without(self, count: int, left: NDArray[np.intp]) -> Finder:
        """Return an index of some of the rows, numbered anew.

        Args:
            count: Number of rows.
            left: The rows that are left, ascending.
        """
        ordered, rows = self._sorted
        numbers = np.full(count, -1, np.int32)
        numbers[left] = np.arange(len(left))
        kept = (new := numbers[rows]) >= 0
        finder = Finder()
        finder._sorted = ordered[kept], new[kept]
        return finder


def among(numbers: NDArray[Any], others: Sequence[int] | NDArray[Any]) -> NDArray[np.bool_]:
    """Return which numbers are among others, of the same type; for few, in a tenth of the time of `np.isin`."""
    if not len(others):
        return np.zeros(len(numbers), np.bool_)
    known = np.array(others)
    known.sort()
    return numbers == known[0] if len(known) == 1 else known.take(known.searchsorted(numbers), mode="clip") == numbers


def spread(starts: NDArray[Any], ends: NDArray[Any]) -> NDArray[np.intp]:
    """Return the concatenated ranges from ``starts`` to ``ends``."""
    counts = (ends - starts).astype(np.intp)
    behind = counts.cumsum()
    numbers: NDArray[np.intp] = (starts - behind + counts).repeat(counts)
    numbers += np.arange(len(numbers))
    return numbers


def begins(ordered: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which items differ from the one before; the first one does."""
    new = np.empty(len(ordered), np.bool_)
    new[:1] = True
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return new
