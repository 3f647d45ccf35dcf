"""Looking for what is known, as everything does that reads: at one moment, by one viewer, through one view."""

from __future__ import annotations

import abc
import functools
from typing import Unpack

import attrs
from anyio import to_thread

from factmem.abc import Embedder
from factmem.errors import InvalidDataError
from factmem.fold import Moment
from factmem.memory.filtering import Filters, check_query, filter_of
from factmem.memory.observed import observed
from factmem.memory.viewing import Reading
from factmem.recall import Corpus, Mirror, Query, RecallFilter, RecallMatch, RecallSettings, embed_query, ranked

__all__ = ["MemoryRecalling"]


@observed()
class MemoryRecalling(abc.ABC):
    """What finds the records that answer a question."""

    def __init__(self, reading: Reading, mirror: Mirror, embedder: Embedder) -> None:
        self._reading = reading
        self._mirror = mirror
        self._embedder = embedder

    @abc.abstractmethod
    async def _corpus(self) -> Corpus:
        """Return what is current at this reader's moment."""

    def _at_once(self) -> Corpus | None:
        """Return the same if nothing has to be waited for. This may block: for worker threads only."""
        return None

    @abc.abstractmethod
    def _moment(self) -> Moment:
        """Return this reader's moment."""

    async def recall(
        self,
        query: str,
        *,
        limit: int = 10,
        lexical: bool = True,
        semantic: bool = True,
        strongest: bool = False,
        settings: RecallSettings | None = None,
        **filters: Unpack[Filters],
    ) -> list[RecallMatch]:
        """Return the best records for a query: the true top of all that fit, best first.

        Args:
            query: what to look for, in words.
            limit: how many results at the most.
            lexical: whether words count.
            semantic: whether meaning counts.
            strongest: of typed facts that several places have of one concept, only what `load` would choose.
            settings: weights other than this memory's.
            filters: only what passes these; see `Filters`. They apply before ranking.

        Raises:
            InvalidDataError: the query is blank or holds lone surrogates, the limit is no positive number,
                or both kinds of evidence are switched off.
            EmbedderError: the embedder failed.
            EmbedderMismatchError: the store's vectors come from another embedder.
        """
        check_query(query, limit)
        if not (lexical or semantic):
            raise InvalidDataError("recall needs words or meaning to go by: leave lexical or semantic on")
        wanted = self._confined(attrs.evolve(self._wanted(filters), strongest=strongest))
        weights = settings or self._reading.settings
        moment = self._moment()
        asked = Query(
            terms=self._mirror.terms(query) if lexical else (),
            vector=await embed_query(self._embedder, query) if semantic else None,
            viewer=self._reading.viewer,
            now=(moment.as_of or moment.known_at or moment.now).timestamp(),
            settings=weights if lexical else attrs.evolve(weights, lexical_weight=0.0),
        )
        rank = functools.partial(ranked, query=asked, wanted=wanted, limit=limit, concepts=self._reading.concepts)

        def at_once() -> list[RecallMatch] | None:
            corpus = self._at_once()
            return None if corpus is None else rank(corpus)

        found = await to_thread.run_sync(at_once)
        return await to_thread.run_sync(rank, await self._corpus()) if found is None else found

    def _wanted(self, filters: Filters) -> RecallFilter:
        return filter_of(filters, self._reading.anchored(filters.get("scope")))

    def _confined(self, wanted: RecallFilter) -> RecallFilter:
        return wanted if self._reading.view is None else attrs.evolve(wanted, within=self._reading.view.reaches)
