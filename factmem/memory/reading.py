"""The reading half of the facade: what is known, now or at another moment."""

from __future__ import annotations

import abc
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeVar, Unpack

import attrs
from anyio import to_thread

from factmem.abc import Embedder
from factmem.errors import RecordNotFoundError
from factmem.facts import Concept, FactT
from factmem.fold import Current, Moment, never_let_in, revisions
from factmem.memory.filtering import (
    Filters,
    RecordOrder,
    RecordPage,
    check_concept,
    check_range,
    ids_of,
    is_record_id,
    page_of,
    sorted_rows,
)
from factmem.memory.listing import ScopeInfo, ScopeTree, info_of, tree_of
from factmem.memory.observed import observed
from factmem.memory.profiles import PartialProfile, ProfileSchema
from factmem.memory.recalling import MemoryRecalling
from factmem.memory.viewing import Reading
from factmem.providers import fact_of
from factmem.recall import (
    Corpus,
    LogPart,
    Mirror,
    RecallFilter,
    RecallMatch,
    Standing,
    chosen,
    hydrate,
    selected,
)
from factmem.records import FactRecord, LogEntry, Recorded
from factmem.scopes import MemoryScope
from factmem.showing import shown_record
from factmem.subjects import MemorySubject

__all__ = ["MemoryReader", "MomentReader"]

ProfileT = TypeVar("ProfileT")
T = TypeVar("T")


@observed()
class MemoryReader(MemoryRecalling, abc.ABC):
    """Everything that can be asked of a memory without changing it.

    Wherever a scope is taken, a path such as ``"/product/alpha"`` does as well, and its subtree is
    included unless ``exact=True``.
    """

    async def load(
        self,
        concept: Concept[Any, FactT],
        *,
        subject: MemorySubject | None = None,
        scope: MemoryScope | str | None = None,
    ) -> FactT | None:
        """Return what is known of a concept, or None.

        With a subject and a scope: of exactly that place. With less: of all places that fit, chosen
        by the strongest subject, then the narrowest scope, then the newest timestamp; what is the
        viewer's own goes before what is public.

        Raises:
            ConceptConflictError: what is stored cannot be read as this concept's type.
            InvalidDataError: it is no concept.
        """
        check_concept(concept)
        wanted = RecallFilter(
            keywords=(concept.keyword,), subject=subject, scope=self._reading.anchored(scope), exact=True
        )
        found = chosen(await self._visible(wanted))
        return fact_of(concept, found) if found else None

    async def profile(
        self,
        schema: type[ProfileT] | ProfileSchema[ProfileT],
        *,
        subject: MemorySubject | None = None,
        scope: MemoryScope | str | None = None,
    ) -> ProfileT:
        """Return an instance of a class, its fields filled with what is known of the concepts that they name.

        Each field is loaded as `load` does it. One that nothing is known of takes its default, or None,
        or is empty, where that is legal.

        Args:
            schema: an attrs class or a pydantic model; see `ProfileSchema`.
            subject: about whom.
            scope: where.

        Raises:
            IncompleteProfileError: nothing is known of a field that is required; `partial_profile`
                returns the others.
            ConceptConflictError: what is stored cannot be read as a field's type.
            InvalidDataError: the class is no profile, or does not accept what is known.
        """
        made = schema if isinstance(schema, ProfileSchema) else ProfileSchema.of(schema)
        return made.filled(await self._known(made.concepts, subject, scope))

    async def partial_profile(
        self,
        schema: type[ProfileT] | ProfileSchema[ProfileT],
        *,
        subject: MemorySubject | None = None,
        scope: MemoryScope | str | None = None,
    ) -> PartialProfile[ProfileT]:
        """Return what is known of a profile's fields, and which required ones are missing.

        Args:
            schema: see `profile`, as all the others.
            subject: about whom.
            scope: where.
        """
        made = schema if isinstance(schema, ProfileSchema) else ProfileSchema.of(schema)
        return made.partial(await self._known(made.concepts, subject, scope))

    async def _known(
        self,
        concepts: Sequence[Concept[Any, Any]],
        subject: MemorySubject | None,
        scope: MemoryScope | str | None,
    ) -> dict[str, Any]:
        """Load several concepts at one moment; the facts by keyword."""
        declared = {concept.keyword: concept for concept in concepts}
        wanted = RecallFilter(
            keywords=tuple(declared), subject=subject, scope=self._reading.anchored(scope), exact=True
        )
        found: dict[str, list[Current]] = {}
        for row in chosen(await self._visible(wanted) if declared else ()):
            found.setdefault(row.recorded.assertion.keyword, []).append(row)
        return {keyword: fact_of(declared[keyword], rows) for keyword, rows in found.items()}

    async def get(self, record_id: str) -> FactRecord[Any]:
        """Return the current record with an id.

        Raises:
            RecordNotFoundError: no record that is current and visible has this id.
        """
        return (await self._current([record_id]))[0]

    async def history(
        self,
        concept: Concept[Any, Any] | str,
        *,
        subject: MemorySubject | None = None,
        scope: MemoryScope | str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[FactRecord[Any]]:
        """Return every revision of a concept or of a record, oldest first, with what became of it.

        With a subject and a scope: of exactly that place. With less: of all places that fit.

        Args:
            concept: The concept, its keyword, or the id of a record. A text is a keyword first.
            subject: The subject of the facts.
            scope: The exact scope of the facts.
            labels: Only revisions that carry all of these labels.

        Raises:
            RecordNotFoundError: The text has the form of an id, and no visible record there has it.
        """
        if not isinstance(concept, str):
            check_concept(concept)
        keyword = concept if isinstance(concept, str) else concept.keyword
        wanted = RecallFilter(keywords=(keyword,), subject=subject, scope=self._reading.anchored(scope), exact=True)
        declared = {keyword: concept} if isinstance(concept, Concept) else self._reading.concepts
        found = await self._history_of(wanted, declared)
        if not found and isinstance(concept, str):
            of_record = attrs.evolve(wanted, keywords=None, record_ids=(concept,))
            found = await self._history_of(of_record, declared)
            if not found and is_record_id(concept):
                raise RecordNotFoundError(
                    "no visible record there has this id: list_records() shows the ids of what is current, and "
                    "quarantine.list() what waits to be let in"
                )
        return [record for record in found if (labels or {}).items() <= record.details.labels.items()]

    async def _history_of(
        self, wanted: RecallFilter, declared: Mapping[str, Concept[Any, Any]]
    ) -> list[FactRecord[Any]]:
        log = [entry for entry in await self._mirror.log(LogPart(kept=wanted)) if self._is_of(entry, wanted)]
        return self._revisions(log, declared)

    def _revisions(self, log: Sequence[LogEntry], declared: Mapping[str, Concept[Any, Any]]) -> list[FactRecord[Any]]:
        """Return what a log tells of, oldest first, but for what was never let in."""
        apart = never_let_in(log)
        return [
            shown_record(recorded, declared, state=state)
            for recorded, state in revisions(log, self._moment())
            if recorded.id not in apart and not recorded.assertion.removed
        ]

    async def _with_earlier(self, matches: Sequence[RecallMatch]) -> list[RecallMatch]:
        """Give to each match what was said before of the same record, whenever that was recorded."""
        wanted = RecallFilter()
        part = LogPart(record_ids=[match.record.id for match in matches], related=True)
        log = [entry for entry in await self._mirror.log(part) if self._is_of(entry, wanted)]
        said: dict[str, list[FactRecord[Any]]] = {}
        for record in self._revisions(log, self._reading.concepts):
            said.setdefault(record.id, []).append(record)
        return [attrs.evolve(match, earlier=_before(match.record, said.get(match.record.id, ()))) for match in matches]

    async def list_records(
        self,
        *,
        limit: int | None = None,
        offset: int = 0,
        order_by: RecordOrder = RecordOrder.SAID,
        descending: bool = True,
        strongest: bool = False,
        **filters: Unpack[Filters],
    ) -> list[FactRecord[Any]]:
        """Return the current records, newest first if nothing else is said.

        Args:
            limit: how many at the most.
            offset: how many to pass over.
            order_by: what to sort by.
            descending: the newest or most important first.
            strongest: of typed facts that several places have of one concept, only what `load` would choose.
            filters: only what passes these; see `Filters`.

        Raises:
            InvalidDataError: a filter is not legal, or the limit or offset is negative.
        """
        check_range(limit=limit, offset=offset)
        wanted = attrs.evolve(self._wanted(filters), strongest=strongest)
        stop = None if limit is None else offset + limit

        def listed(corpus: Corpus, found: Standing) -> list[Current]:
            return _in_full(corpus, sorted_rows(corpus, found, order_by, descending=descending).at(slice(offset, stop)))

        rows = await self._of_visible(wanted, listed)
        return [hydrate(row, self._reading.concepts) for row in rows]

    async def list_page(
        self,
        page: str | None = None,
        *,
        size: int = 100,
        order_by: RecordOrder = RecordOrder.SAID,
        descending: bool = True,
        **filters: Unpack[Filters],
    ) -> RecordPage:
        """Return one page of the current records, which what is saved or goes away meanwhile does not shift.

        Args:
            page: the `RecordPage.next_page` of the page before; None for the first page.
            size: how many records a page has.
            order_by: what to sort by.
            descending: the newest or most important first.
            filters: only what passes these; see `Filters`. Give the same ones for every page.

        Raises:
            InvalidDataError: the page is none of such a listing, or a filter is not legal.
        """

        def paged(corpus: Corpus, found: Standing) -> tuple[list[Current], str | None]:
            taken, next_page = page_of(corpus, found, order_by, descending=descending, size=size, page=page)
            return _in_full(corpus, taken), next_page

        taken, next_page = await self._of_visible(self._wanted(filters), paged)
        return RecordPage(records=tuple(hydrate(row, self._reading.concepts) for row in taken), next_page=next_page)

    async def list_scopes(self, scope: MemoryScope | str | None = None) -> list[MemoryScope]:
        """Return the scopes that hold records, in ``scope`` and below it, sorted by path."""
        return list((await self.info(scope)).scopes)

    async def list_categories(self, scope: MemoryScope | str | None = None) -> list[str]:
        """Return the categories in use, in ``scope`` and below it, sorted."""
        return list((await self.info(scope)).categories)

    async def info(
        self,
        scope: MemoryScope | str | None = None,
        *,
        exact: bool = False,
        subjects: Collection[MemorySubject] | None = None,
    ) -> ScopeInfo:
        """Return what a scope holds, its subtree included; without one, of everything.

        Args:
            scope: which.
            exact: without what lies below it.
            subjects: counting only what is about one of these; about anybody if None.
        """
        anchored = self._reading.anchored(scope)
        here = anchored.within(None) if anchored else None
        wanted = RecallFilter(scope=anchored, exact=exact, subjects=subjects)
        return await self._of_visible(wanted, lambda corpus, found: info_of(corpus.columns, found.rows, here))

    async def tree(self, *, subjects: Collection[MemorySubject] | None = None) -> ScopeTree:
        """Return the tree of all scopes that hold records, of one of some subjects if any are named."""
        wanted = RecallFilter(subjects=subjects)
        return await self._of_visible(wanted, lambda corpus, found: tree_of(corpus.columns, found.rows))

    async def _current(self, record_ids: Collection[str]) -> list[FactRecord[Any]]:
        """Return current records by their ids, each once, in the order of the ids."""
        ids = ids_of(record_ids)
        rows = await self._visible(RecallFilter(record_ids=ids.keys())) if ids else []
        found = {row.recorded.record_id: row for row in rows}
        if found.keys() != ids.keys():
            raise RecordNotFoundError("no record that is current and visible has this id")
        return [hydrate(found[id], self._reading.concepts) for id in ids]

    async def _visible(self, wanted: RecallFilter) -> list[Current]:
        return await self._of_visible(wanted, _in_full)

    async def _of_visible(self, wanted: RecallFilter, tell: Callable[[Corpus, Standing], T]) -> T:
        """Tell something of what is current, visible and wanted, in a worker thread."""
        viewer, confined = self._reading.viewer, self._confined(wanted)
        corpus = await self._corpus()
        return await to_thread.run_sync(lambda: tell(corpus, selected(corpus, viewer, confined)))

    def _is_of(self, entry: LogEntry, wanted: RecallFilter) -> bool:
        """Whether a log entry is, or may be, of what is wanted; state changes name their assertion only."""
        if not isinstance(entry, Recorded):
            return True
        return self._reading.sees(entry.assertion) and wanted.keeps(entry)


def _before(record: FactRecord[Any], said: Sequence[FactRecord[Any]]) -> tuple[FactRecord[Any], ...]:
    """Return what was said before a revision, newest first, out of all that was said, oldest first."""
    revisions = [it.revision for it in said]
    until = revisions.index(record.revision) if record.revision in revisions else 0
    return tuple(reversed(said[:until]))


def _in_full(corpus: Corpus, found: Standing) -> list[Current]:
    return [row for row in corpus.currents(found) if row is not None]


class MomentReader(MemoryReader):
    """A memory as it was at another moment. Made by `Memory.as_of` and `Memory.known_at`."""

    def __init__(self, reading: Reading, mirror: Mirror, embedder: Embedder, moment: Moment) -> None:
        super().__init__(reading, mirror, embedder)
        self._at = moment

    async def _corpus(self, *, embedded: bool = False) -> Corpus:
        return await self._mirror.corpus(self._at, embedded=embedded)

    def _moment(self) -> Moment:
        return self._at
