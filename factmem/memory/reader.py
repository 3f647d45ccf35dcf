"""Reads of the viewer's records at the context's moment: loads, listings, histories and profiles."""

from __future__ import annotations

import datetime as dt
import functools
import operator
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import attrs
from anyio import to_thread
from anyio.lowlevel import checkpoint

from factmem.errors import ConceptConflictError, InvalidDataError, RecordNotFoundError, SeveralIndividualsError
from factmem.facts import Concept, FactT
from factmem.fold import Current, endings, fold, never_accepted, record_key, revisions, states_of
from factmem.grouping import grouped
from factmem.legal_names import folded_keyword
from factmem.memory.backend import Part
from factmem.memory.filters import Filters, Listing, RecordPage, check_concept, ids_of, is_record_id, keywords_of
from factmem.memory.profiles import PartialProfile, ProfileSchema, united
from factmem.memory.reversals import moves_beside, moves_in
from factmem.memory.scope_tree import ScopeInfo, info_of
from factmem.providers import fact_of
from factmem.recall import RecallFilter
from factmem.recall.index.corpus import Corpus, Rows
from factmem.recall.index.mirror import Glance
from factmem.recall.index.names_in_query import people_terms, subject_names, subject_of_text
from factmem.recall.index.outline_codec import term_numbers
from factmem.recall.index.selection import LogPart, selected
from factmem.recall.results import RecallMatch, hydrated
from factmem.recall.strongest import chosen
from factmem.recall.text.analysis import analyse
from factmem.recall.text.signs import is_relative
from factmem.records import AssertionState, FactRecord, LogEntry, Place, Recorded, Tombstone, shown_record
from factmem.scopes import MemoryScope
from factmem.shapes import accepts
from factmem.short_work import SHORT, at_once, may_wait
from factmem.subjects import MemorySubject
from factmem.validators import listed, positive

T = TypeVar("T")

_FEW: Final = 100
"""Number of facts or log entries up to which they are read without a worker thread."""


_NO_PRIORITY: Final = MemorySubject(MemorySubject.EVERYTHING.name).priority_level
"""Priority of a subject that was given none."""

_UNFILTERED: Final = Filters()
_WHOLE: Final = Listing()
_ALL: Final = RecallFilter()
_STRONGEST: Final = RecallFilter(strongest=True)


def _check_page(listing: object, attribute: attrs.Attribute[Any], page: Any) -> None:
    legal = page is None or (isinstance(page, str) and page.isascii() and page.isdecimal() and len(page) < 20)
    if not legal:
        raise InvalidDataError(
            "this page token is not from this listing: pass the next_page of the previous page", path="$.page"
        )


@attrs.frozen(kw_only=True)
class LogListing:
    """The order of a listing of what stands in the log, and the part of it to return; see `Admin.audit`.

    Raises:
        InvalidDataError: The limit is not a whole number of at least 1, or the page is of no such listing.
    """

    limit: int | None = attrs.field(default=None, validator=attrs.validators.optional(positive))
    page: str | None = attrs.field(default=None, validator=_check_page)
    descending: bool

    async def of(
        self,
        numbers: Collection[int],
        read: Callable[[Collection[int]], Awaitable[Iterable[T]]],
        number_of: Callable[[T], int],
    ) -> tuple[list[T], str | None]:
        """Return the items of one page, and the token of the next page: the number of the last item.

        Args:
            numbers: Sequence numbers of all that may be listed.
            read: Reads some of these, and returns the items that are listed. Where few are, ever more is read.
            number_of: Returns the sequence number of an item.
        """
        rest = await in_time(functools.partial(self._rest, numbers), len(numbers))
        found: list[T] = []
        start, size = 0, len(rest) if self.limit is None else self.limit + 1
        while start < len(rest) and (self.limit is None or len(found) <= self.limit):
            items = await read(set(rest[start : start + size]))
            found += sorted(items, key=number_of, reverse=self.descending)
            start, size = start + size, 2 * size
        taken = found[: self.limit]
        return taken, str(number_of(taken[-1])) if len(taken) < len(found) else None

    def _rest(self, numbers: Collection[int]) -> list[int]:
        """Return the numbers of the page and of all pages after it, in order."""
        rest: Iterable[int] = numbers
        if self.page is not None:
            last, passed = int(self.page), operator.lt if self.descending else operator.gt
            rest = (number for number in numbers if passed(number, last))
        return sorted(rest, reverse=self.descending)


class Reader(Part):
    """Reads current records, and the log behind them."""

    @property
    def everybody(self) -> Reader:
        """The reader of records by their ids: also of public ones about others; see `Context.everybody`."""
        context = self._context.everybody
        return self if context is self._context else Reader(context, self._backend)

    async def load(
        self, concept: Concept[Any, FactT], subject: MemorySubject | str | None, scope: MemoryScope | str | None
    ) -> FactT | None:
        """See `Memory.load`."""
        check_concept(concept)
        wanted = self._at((concept.keyword,), subject, scope)
        place = self._exact_place(wanted)
        rows = await (self.visible(wanted) if place is None else self._current_at(place, concept.keyword))

        def strongest(rows: Sequence[Current]) -> FactT | None:
            found = chosen(self._competing(rows, wanted), self._context.view)
            _check_one_individual(found)
            return fact_of(concept, found) if found else None

        return await in_time(functools.partial(_read_as, strongest, rows, [concept]), len(rows))

    def _at(
        self, keywords: Collection[str], subject: MemorySubject | str | None, scope: MemoryScope | str | None
    ) -> RecallFilter:
        """Return the filter of some keywords at one place, or at all places with a subject or a scope."""
        subject, scope = self._context.named(subject), self._context.anchored(scope)
        return RecallFilter(keywords=keywords, subject=subject, scope=scope, exact=True)

    def _competing(self, rows: Sequence[Current], wanted: RecallFilter) -> Sequence[Current]:
        """Return the facts that may be chosen: where no subject is named and the view is for a user, none of others.

        Others are subjects that are neither declared nor have a priority, such as another person, and those that are
        called by a word for one, such as ``boss``.
        """
        view = self._context.view
        if wanted.subject is not None or view.individuals is None:
            return rows
        own = [*(name for name, _ in view.individuals), *(subject.name for subject in view.subjects)]
        known = {MemorySubject.EVERYTHING.name, *own, *self._context.subjects}
        subjects = [row.recorded.assertion.place.subject for row in rows]
        return [
            row
            for row, subject in zip(rows, subjects, strict=True)
            if view.shows(subject)
            and (subject.name in known or subject.priority_level < _NO_PRIORITY)
            and (subject.name in own or not is_relative(subject.name))
        ]

    def _exact_place(self, wanted: RecallFilter) -> Place | None:
        """Return the one place that a filter names, if the provider can return its log: no mirror is needed then."""
        if wanted.subject is None or wanted.scope is None or self._backend.four_verbs_only:
            return None
        return Place(wanted.subject, wanted.scope)

    async def _current_at(self, place: Place, keyword: str) -> list[Current]:
        """Return the current, visible facts of one concept at one place, read from the store."""
        log, context = await self._entries(place, keyword), self._context
        owners = context.sight.owners

        def current() -> list[Current]:
            seen = [
                entry for entry in log if not isinstance(entry, Recorded) or entry.assertion.details.owner in owners
            ]
            rows = fold(seen, context.moment)
            return [row for row in rows if not (context.reviewed and row.details.unreviewed)]

        return await in_time(current, len(log))

    async def _entries(self, place: Place, keyword: str) -> Sequence[LogEntry]:
        """Return the log of one concept at one place: of its keyword, or else of alike ones."""
        log = await self._backend.log().entries(place, keyword)
        alike = RecallFilter(keywords=(keyword,), subject=place.subject, scope=place.scope, exact=True)
        return log or await self._backend.mirror.log(LogPart(kept=alike))

    async def profiles(
        self,
        schemas: Sequence[ProfileSchema[Any]],
        subject: MemorySubject | str | None,
        scope: MemoryScope | str | None,
    ) -> list[PartialProfile[Any]]:
        """See `Memory.profile`. All fields of all profiles are loaded at one moment."""
        declared = united(schemas)
        wanted = self._at(tuple(declared), subject, scope)
        names = {folded_keyword(keyword): keyword for keyword in declared}
        visible = await self.visible(wanted) if declared else []

        def filled(rows: Sequence[Current]) -> list[PartialProfile[Any]]:
            best = chosen(self._competing(rows, wanted), self._context.view)
            found = grouped(best, lambda row: names[folded_keyword(row.recorded.assertion.keyword)])
            for schema in schemas:
                _check_one_individual(row for concept in schema.concepts for row in found.get(concept.keyword, ()))
            return [_partial(schema, found) for schema in schemas]

        return await in_time(functools.partial(_read_as, filled, visible, list(declared.values())), len(visible))

    async def history(
        self,
        concept: Concept[Any, Any] | str,
        subject: MemorySubject | str | None,
        scope: MemoryScope | str | None,
        labels: Mapping[str, str] | None,
    ) -> list[FactRecord[Any]]:
        """See `Memory.history`."""
        if not isinstance(concept, str):
            check_concept(concept)
        self._backend.log()
        keyword = concept if isinstance(concept, str) else concept.keyword
        wanted = self._at((keyword,), subject, scope)
        declared = {keyword: concept} if isinstance(concept, Concept) else self._context.concepts
        found = await self._history_of(wanted, declared)
        if not found and isinstance(concept, str):
            of_record = attrs.evolve(wanted, keywords=None, record_ids=(concept,))
            found = await self.everybody._history_of(of_record, declared)
            if not found and is_record_id(concept):
                raise RecordNotFoundError(
                    "no visible record there has this id: list_records() shows the ids of what is current, and "
                    "quarantine.list() those in quarantine"
                )
        return [record for record in found if (labels or {}).items() <= record.details.labels.items()]

    async def list_records(
        self, listing: Listing = _WHOLE, *, strongest: bool = False, filters: Filters = _UNFILTERED
    ) -> RecordPage:
        """See `Memory.list_records`."""

        def listed(corpus: Corpus, found: Rows) -> RecordPage:
            taken, next_page = listing.of(corpus, found)
            return RecordPage(hydrated(_in_full(corpus, taken), self._context.concepts), next_page=next_page)

        return await self.of_visible(self.wanted(filters, strongest=strongest), listed)

    async def info(
        self,
        scope: MemoryScope | str | None = None,
        *,
        exact: bool = False,
        subjects: Collection[MemorySubject | str] | None = None,
    ) -> ScopeInfo:
        """See `Admin.info`."""
        anchored = self._context.subtree(scope, exact=exact)
        here = anchored.within(None) if anchored else None
        wanted = RecallFilter(scope=anchored, exact=exact, subjects=self.subjects(subjects))
        return await self.of_visible(wanted, lambda corpus, found: info_of(corpus.columns, found, here))

    async def current(self, record_ids: Collection[str]) -> list[FactRecord[Any]]:
        """Return current records by their ids, each once, in the order of the ids.

        Raises:
            RecordNotFoundError: An id names no record that is current and visible.
        """
        ids = ids_of(record_ids)
        rows = await self.everybody.visible(RecallFilter(record_ids=ids.keys())) if ids else []
        found = {row.recorded.record_id: row for row in rows}
        if found.keys() != ids.keys():
            raise RecordNotFoundError("no record that is current and visible has this id: see list_records()")
        return hydrated([found[id] for id in ids], self._context.concepts)

    async def visible(self, wanted: RecallFilter) -> list[Current]:
        """Return the current, visible records that pass a filter."""
        return await self.of_visible(wanted, _in_full)

    async def of_visible(self, wanted: RecallFilter, derive: Callable[[Corpus, Rows], T]) -> T:
        """Derive something from the current, visible records that pass a filter.

        Args:
            wanted: The filter.
            derive: Derives it; see `found_in_corpus`.
        """
        sight = self._context.sight_of(wanted)
        self.look_in(wanted)
        return await self.of_corpus(lambda corpus: derive(corpus, selected(corpus, sight, wanted)))

    async def of_corpus(self, derive: Callable[[Corpus], T]) -> T:
        """Return what a function derives from the records that are current at the context's moment.

        Args:
            derive: Derives it; see `found_in_corpus`.
        """
        return await self.found_in_corpus(lambda corpus: functools.partial(derive, corpus))

    async def found_in_corpus(self, search: Callable[[Corpus], Callable[[], T]], *, embedded: bool = False) -> T:
        """Return what a search finds in the records that are current at the context's moment.

        The records in memory are used while the store has nothing newer; else they are searched once more. A search
        runs in a worker thread. In a small store, where it may take less time than the way there and back, it begins
        on the event loop, and goes on in a thread if it has to wait.

        Args:
            search: Searches a corpus, and returns a function that returns what was found, and may read it first. Both
                may be called twice, and call `factmem.short_work.may_wait` before they wait or take longer than a
                search by words and meaning.
            embedded: See `corpus`.
        """
        mirror = self._backend.mirror
        begun: tuple[Glance, Callable[[], T]] | None = None
        stale = False

        def glanced() -> tuple[T] | None:
            nonlocal begun, stale
            if begun is None:
                glance = mirror.glance(embedded=embedded)
                if glance is None:
                    stale = True
                    return None
                begun = glance, search(glance.corpus)
            glance, finish = begun
            found = finish()
            begun = glance, lambda: found
            stale = not glance.holds()
            return None if stale else (found,)

        if self._context.past is None and not mirror.behind:
            found = None
            if mirror.is_small:
                await checkpoint()
                found = at_once(glanced)
            if found is None and not stale:
                found = await to_thread.run_sync(glanced)
            if found is not None:
                return found[0]
        corpus = await self.corpus(embedded=embedded)
        return await to_thread.run_sync(lambda: search(corpus)())

    async def corpus(self, *, embedded: bool = False) -> Corpus:
        """Return the records that are current at the context's moment.

        Args:
            embedded: Require a vector of every record; otherwise the embedder is not asked.
        """
        return await self._backend.mirror.corpus(self._context.past, embedded=embedded)

    async def subjects_named(self, text: str, individuals_of: Collection[str]) -> list[MemorySubject]:
        """See `factmem.memory.facade.subjects_named`."""
        self.look_in(_ALL)

        def named(corpus: Corpus) -> list[MemorySubject]:
            if len(text) > SHORT:
                may_wait()
            texts = corpus.columns.subjects.texts if individuals_of else ()
            known = [subject_of_text(text) for text in texts if subject_names(text)[0] in individuals_of]
            sight = self._context.sight_of(RecallFilter(subjects=known))
            shown = corpus.shown(sight)
            numbers, _ = shown.named(term_numbers(analyse(text)), people_terms(text), shown.seen(sight), speakers=False)
            return [subject_of_text(corpus.columns.subjects.texts[number]) for number in dict.fromkeys(numbers)]

        return await self.of_corpus(named)

    def wanted(self, filters: Filters, *, strongest: bool = False) -> RecallFilter:
        """Return the filter that a caller's keyword arguments make, anchored at the tenant.

        Raises:
            InvalidDataError: A condition is of another type, or cannot be met.
        """
        if not filters:
            return _STRONGEST if strongest else _ALL
        given: dict[str, Any] = {
            **filters,
            "scope": self._context.subtree(filters.get("scope"), exact=filters.get("exact", False)),
            "subject": self._context.named(filters.get("subject")),
            "subjects": self.subjects(filters.get("subjects")),
            "metadata": filters.get("metadata") or {},
        }
        for concepts, keywords in (("concepts", "keywords"), ("without_concepts", "without_keywords")):
            several = given.pop(concepts, None)
            given[keywords] = None if several is None else keywords_of(several)
        made = RecallFilter(**given, strongest=strongest)
        for name, first, end in (("", made.since, made.until), ("recorded_", made.recorded_since, made.recorded_until)):
            if first is not None and end is not None and end < first:
                raise InvalidDataError(f"{name}until lies before {name}since", path=f"$.{name}until")
        return made

    def subjects(self, subjects: Collection[MemorySubject | str] | None) -> Collection[MemorySubject] | None:
        """Return subjects, which may be given as texts; None for all."""
        if subjects is None:
            return None
        several = listed("subjects", subjects, MemorySubject, str)
        return [found for subject in several if (found := self._context.named(subject)) is not None]

    def look_in(self, wanted: RecallFilter) -> None:
        """Prepare a search: a provider with the four verbs only is searched in the memory's scopes and subjects."""
        if not self._backend.four_verbs_only:
            return
        view = self._context.view
        within = view.scopes if wanted.scope is None else (wanted.scope,)
        scopes = tuple(scope for scope in within if not scope.is_branch)
        named = tuple(wanted.subjects or view.subjects) if wanted.subject is None else (wanted.subject,)
        self._backend.mirror.look_in(named, scopes)
        if not named and view.individuals is not None:
            self._backend.mirror.look_in((self._context.subject,), scopes)

    async def log(self, part: LogPart | None = None) -> list[LogEntry]:
        """Return the visible assertions of the log, or of a part of it, with the changes of their states.

        In a context of all users they are those of anybody.
        """
        part = part or LogPart()
        if self._context.all_users:
            return list(await self._backend.mirror.log(part))
        sight = self._context.sight_of(part.kept)
        return list(await self._backend.mirror.log(attrs.evolve(part, sight=sight), sight.sees))

    async def with_moves(self, record_ids: Iterable[str]) -> list[LogEntry]:
        """Return the log of records, and of those that visible moves link with them, with all that affects their state.

        Args:
            record_ids: Ids of the records.
        """
        ids, log = set(record_ids), list[LogEntry]()
        known = set[str]()
        while not ids <= known:
            known |= ids
            log = await self.log(LogPart(record_ids=known, related=True))
            beside = moves_beside(log)
            moves = moves_in([*log, *await self.log(LogPart(seqs=beside))]) if beside else ()
            linked = ({left.record_id, came.record_id} for left, came in moves)
            ids = set[str]().union(*(pair for pair in linked if not pair.isdisjoint(known)))
        return log

    async def actions(
        self, part: LogPart, since: dt.datetime | None, until: dt.datetime | None
    ) -> tuple[dict[int, int], list[Tombstone]]:
        """Return the actions on the visible assertions of a part, and everything erased; see `TenantLog.actions`."""
        part = attrs.evolve(part, sight=self._context.sight_of(part.kept))
        return await self._backend.mirror.actions(part, since, until)

    async def recorded(self, part: LogPart, wanted: Callable[[Recorded], bool] = lambda entry: True) -> list[Recorded]:
        """Return the visible assertions of a part of the log that pass a test."""
        return [entry for entry in await self.log(part) if isinstance(entry, Recorded) and wanted(entry)]

    async def left_waiting(self, words: Sequence[Recorded]) -> tuple[Recorded, ...]:
        """Return those of some words that nobody has read or forgotten yet."""
        part = LogPart(states=(AssertionState.PENDING,), record_ids={recorded.record_id for recorded in words})
        waiting = {recorded.id for recorded in await self.recorded(part)}
        return tuple(recorded for recorded in words if recorded.id in waiting)

    async def quarantined(self, part: LogPart) -> list[tuple[Recorded, AssertionState]]:
        """Return the visible assertions of a part of the log that were never accepted, with their states."""
        log = await self.log(attrs.evolve(part, apart=True))

        def found() -> list[tuple[Recorded, AssertionState]]:
            states, apart = states_of(log), never_accepted(log)
            return [
                (entry, states[entry.id])
                for entry in log
                if isinstance(entry, Recorded) and entry.id in apart and not entry.assertion.only_shown
            ]

        return await in_time(found, len(log))

    async def waiting(self) -> int:
        """Return the number of visible assertions that wait to be accepted; see `Quarantine.count`."""
        return await self._backend.mirror.waiting(self._context.sight)

    async def with_earlier(self, matches: Sequence[RecallMatch]) -> list[RecallMatch]:
        """Return matches with the earlier revisions of their records, regardless of the moment of these."""
        said = await self.revisions_of([match.record.id for match in matches])
        return [attrs.evolve(match, earlier=_before(match.record, said.get(match.record.id, ()))) for match in matches]

    async def revisions_of(self, record_ids: Collection[str]) -> dict[str, list[FactRecord[Any]]]:
        """Return the revisions of records that have several, oldest first, as far as the provider keeps them."""
        log = await self.everybody.log(LogPart(record_ids=record_ids, related=True))
        recorded = [entry for entry in log if isinstance(entry, Recorded)]
        times = Counter(entry.record_id for entry in recorded)
        revised = {record_key(entry) for entry in recorded if times[entry.record_id] > 1}
        log = [entry for entry in log if not isinstance(entry, Recorded) or record_key(entry) in revised]
        return grouped(self._revisions(log, self._context.concepts), lambda record: record.id)

    async def _history_of(
        self, wanted: RecallFilter, declared: Mapping[str, Concept[Any, Any]]
    ) -> list[FactRecord[Any]]:
        place = self._exact_place(wanted)
        if place is not None and wanted.keywords is not None:
            (keyword,) = wanted.keywords
            log = await self._entries(place, keyword)
        else:
            log = await self._backend.mirror.log(LogPart(kept=wanted))
        sees = self._context.sight_of(wanted).sees

        def seen() -> list[FactRecord[Any]]:
            here = [
                entry
                for entry in log
                if not isinstance(entry, Recorded) or (sees(entry.assertion) and wanted.keeps(entry))
            ]
            return self._revisions(here, declared)

        return await in_time(seen, len(log))

    def _revisions(self, log: Sequence[LogEntry], declared: Mapping[str, Concept[Any, Any]]) -> list[FactRecord[Any]]:
        """Return the revisions in a log, oldest first, without those that were never accepted."""
        apart, moment = never_accepted(log), self._context.moment
        ended = endings(log, moment)
        found = []
        for recorded, state in revisions(log, moment):
            if recorded.id not in apart and not recorded.assertion.removed:
                record, (at, why) = shown_record(recorded, declared, state=state), ended.get(recorded.id, (None, None))
                found.append(attrs.evolve(record, ended_at=at, end_reason=why))
        return found


class ReadingPart(Part):
    """A part that reads."""

    @functools.cached_property
    def _reader(self) -> Reader:
        """The reader of what the view shows."""
        return Reader(self._context, self._backend)


async def in_time(read: Callable[[], T], count: int) -> T:
    """Return what a function reads from a number of facts or log entries: of many, in a worker thread."""
    return read() if count <= _FEW else await to_thread.run_sync(read)


def _in_full(corpus: Corpus, found: Rows) -> list[Current]:
    """Return current records read from the store."""
    if len(found) > _FEW:
        may_wait()
    return [row for row in corpus.currents(found) if row is not None]


def _check_one_individual(rows: Iterable[Current]) -> None:
    """Raise if facts are about several individuals, who are not one.

    Raises:
        SeveralIndividualsError: They are.
    """
    subjects = {row.recorded.assertion.place.subject for row in rows}
    people = {subject.key: str(subject) for subject in subjects if subject.individual_name is not None}
    if len(people) > 1:
        raise SeveralIndividualsError(sorted(people.values()))


def _partial(schema: ProfileSchema[T], found: Mapping[str, Sequence[Current]]) -> PartialProfile[T]:
    """Return a profile, filled with the facts whose values are of its fields' types."""
    facts, unread = {}, set()
    for concept in schema.concepts:
        rows = found.get(concept.keyword, ())
        readable = [row for row in rows if _is_readable(row, concept)]
        if len(readable) < len(rows):
            unread.add(concept.keyword)
        if readable:
            facts[concept.keyword] = fact_of(concept, readable)
    return schema.partial(facts, unread)


def _read_as(
    read: Callable[[Sequence[Current]], T], rows: Sequence[Current], concepts: Iterable[Concept[Any, Any]]
) -> T:
    """Return what a function reads from facts: a place whose fact has another type hides none that has the right one.

    Raises:
        ConceptConflictError: All facts of a concept have another type.
    """
    try:
        return read(rows)
    except ConceptConflictError:
        wanted = {folded_keyword(concept.keyword): concept for concept in concepts}
        kinds = [folded_keyword(row.recorded.assertion.keyword) for row in rows]
        fits = [_is_of_type(row, wanted[kind]) for row, kind in zip(rows, kinds, strict=True)]
        fitting = {kind for kind, fit in zip(kinds, fits, strict=True) if fit}
        return read([row for row, kind, fit in zip(rows, kinds, fits, strict=True) if fit or kind not in fitting])


def _is_of_type(row: Current, concept: Concept[Any, Any]) -> bool:
    """Return whether a fact is of a concept's type, by its shape."""
    said = row.recorded.assertion
    return said.fact_type is concept.fact_type and accepts(said.shape, concept.shape)


def _is_readable(row: Current, concept: Concept[Any, Any]) -> bool:
    """Return whether a value is of a concept's type, in a record of the concept's shape or of another one."""
    try:
        fact_of(concept, [row])
    except InvalidDataError:
        return False
    return True


def _before(record: FactRecord[Any], said: Sequence[FactRecord[Any]]) -> tuple[FactRecord[Any], ...]:
    """Return the revisions before a given one, newest first, out of all of them, oldest first."""
    numbers = [it.revision for it in said]
    until = numbers.index(record.revision) if record.revision in numbers else 0
    return tuple(reversed(said[:until]))
