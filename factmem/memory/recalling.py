"""Looking for what is known, as everything does that reads: at one moment, by one viewer, through one view."""

from __future__ import annotations

import abc
import datetime as dt
import enum
import functools
from typing import TYPE_CHECKING, Literal, Unpack

import attrs
from anyio import to_thread

from factmem.abc import Embedder
from factmem.errors import CapabilityError, InvalidDataError
from factmem.fold import Moment
from factmem.memory.deepening import Searches
from factmem.memory.filtering import Filters, check_query, filter_of
from factmem.memory.observed import observed
from factmem.memory.viewing import Reading
from factmem.recall import (
    Corpus,
    DeepRecall,
    DeepSettings,
    Mirror,
    Query,
    RecallFilter,
    RecallMatch,
    RecallSettings,
    embedded,
    explored,
    ranked,
    times_in,
)
from factmem.recall.events import TELLING, events_in, in_seconds, timed

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MemoryRecalling", "RecallDepth"]


class RecallDepth(enum.Enum):
    """How much is done to find what answers a question.

    SHALLOW: one search, without a model. DEEP: a language model takes it apart, and says what is missing.
    """

    SHALLOW = "shallow"
    DEEP = "deep"


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

    @abc.abstractmethod
    async def _with_earlier(self, matches: Sequence[RecallMatch]) -> list[RecallMatch]:
        """Return results, each with what was said before of the same."""

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
        depth: RecallDepth | Literal["shallow", "deep"] = RecallDepth.SHALLOW,
        lexical: bool = True,
        semantic: bool = True,
        strongest: bool = False,
        history: bool = False,
        settings: RecallSettings | None = None,
        **filters: Unpack[Filters],
    ) -> list[RecallMatch]:
        """Return the best records for a query: the true top of all that fit, best first.

        Args:
            query: what to look for, in words.
            limit: how many results at the most.
            depth: whether a language model helps, if there is one; see `recall_deeply`, which also tells how.
            lexical: whether words count.
            semantic: whether meaning counts.
            strongest: of typed facts that several places have of one concept, only what `load` would choose.
            history: whether each result comes with what was known before of the same; see `RecallMatch.earlier`.
            settings: weights other than this memory's.
            filters: only what passes these; see `Filters`. They apply before ranking.

        Raises:
            InvalidDataError: the query is blank or holds lone surrogates, the limit is no positive number, there is
                no such depth, or both kinds of evidence are switched off.
            EmbedderError: the embedder failed.
            EmbedderMismatchError: the store's vectors come from another embedder.
        """
        search = self._search(query, limit, lexical, semantic, strongest, settings, filters)
        if _depth(depth) is RecallDepth.DEEP and self._reading.question_analyst is not None:
            matches = list((await self._deeply(query, search, self._reading.deep, strict=False)).matches)
        else:
            matches = await self._shallowly(query, search)
        return await self._with_earlier(matches) if history else matches

    async def _shallowly(self, query: str, search: _Search) -> list[RecallMatch]:
        happened = events_in(query, search.now) if search.lexical else ()
        texts = [query, *(event.phrase for event in happened)]
        vectors = await embedded(self._embedder, texts) if search.semantic else [None] * len(texts)
        asked = functools.cache(  # takes time: in worker threads only
            lambda: {text: search.query(text, vector) for text, vector in zip(texts, vectors, strict=True)}
        )

        def rank(corpus: Corpus) -> list[RecallMatch]:
            best = functools.partial(ranked, corpus, wanted=search.wanted, concepts=self._reading.concepts)
            queries = asked()
            whole = timed(queries[query], happened, lambda phrase: best(queries[phrase], limit=TELLING), search.now)
            return best(whole, limit=search.limit)

        def at_once() -> list[RecallMatch] | None:
            corpus = self._at_once()
            return None if corpus is None else rank(corpus)

        found = await to_thread.run_sync(at_once)
        return await to_thread.run_sync(rank, await self._corpus()) if found is None else found

    async def recall_deeply(
        self,
        question: str,
        *,
        limit: int = 10,
        lexical: bool = True,
        semantic: bool = True,
        strongest: bool = False,
        history: bool = False,
        settings: RecallSettings | None = None,
        deep: DeepSettings | None = None,
        strict: bool = False,
        **filters: Unpack[Filters],
    ) -> DeepRecall:
        """Look for a question with the help of a language model, and tell how.

        A long question is taken apart into simpler ones, all of which are looked for; so is, while one cannot be
        sure enough of what was found, what a model says is missing. What the model says are hints: it never sees or
        finds what `recall` would not with the same filters, and what the question finds surely keeps its place.
        A model that fails costs what it would have added; `DeepRecall.failure` says so.

        Args:
            question: what to look for, in words.
            limit: see `recall`, as all the others that it takes.
            lexical: see there.
            semantic: see there.
            strongest: see there.
            history: see there.
            settings: see there.
            deep: when to ask the model, other than this memory's.
            strict: raise what goes wrong with the model.
            filters: see there.

        Raises:
            InvalidDataError: see `recall`.
            CapabilityError: there is no model.
            ModelError: the model failed, and ``strict`` was asked for.
            EmbedderError: the embedder failed.
            EmbedderMismatchError: the store's vectors come from another embedder.
        """
        search = self._search(question, limit, lexical, semantic, strongest, settings, filters)
        found = await self._deeply(question, search, deep or self._reading.deep, strict=strict)
        if not history:
            return found
        return attrs.evolve(found, matches=tuple(await self._with_earlier(found.matches)))

    async def _deeply(self, question: str, search: _Search, deep: DeepSettings, *, strict: bool) -> DeepRecall:
        analyst = self._reading.question_analyst
        if analyst is None:
            raise CapabilityError(
                "deep recall asks a language model: open the memory with model=language_model(...), or leave the "
                "depth shallow"
            )
        searches = Searches(
            corpus=self._corpus,
            query=search.query,
            viewer=self._reading.viewer,
            embedder=self._embedder if search.semantic else None,
            wanted=search.wanted,
            limit=search.limit,
            concepts=self._reading.concepts,
            concurrency=deep.concurrency,
            now=search.now,
        )
        return await explored(
            question,
            searches,
            analyst,
            limit=search.limit,
            now=search.now,
            settings=deep,
            weights=search.weights,
            strict=strict,
        )

    def _search(
        self,
        query: str,
        limit: int,
        lexical: bool,
        semantic: bool,
        strongest: bool,
        settings: RecallSettings | None,
        filters: Filters,
    ) -> _Search:
        """Check what was asked for."""
        check_query(query, limit)
        if not (lexical or semantic):
            raise InvalidDataError("recall needs words or meaning to go by: leave lexical or semantic on")
        moment = self._moment()
        return _Search(
            mirror=self._mirror,
            viewer=self._reading.viewer,
            now=moment.as_of or moment.known_at or moment.now,
            wanted=self._confined(attrs.evolve(self._wanted(filters), strongest=strongest)),
            limit=limit,
            weights=settings or self._reading.settings,
            lexical=lexical,
            semantic=semantic,
        )

    def _wanted(self, filters: Filters) -> RecallFilter:
        return filter_of(filters, self._reading.anchored(filters.get("scope")))

    def _confined(self, wanted: RecallFilter) -> RecallFilter:
        return wanted if self._reading.view is None else attrs.evolve(wanted, within=self._reading.view.reaches)


@attrs.frozen(kw_only=True)
class _Search:
    """What was asked for, checked."""

    mirror: Mirror
    viewer: str | None
    now: dt.datetime
    wanted: RecallFilter
    limit: int
    weights: RecallSettings
    lexical: bool
    semantic: bool

    def query(self, text: str, vector: NDArray[np.float32] | None) -> Query:
        """Return the query of a text."""
        return Query(
            terms=self.mirror.terms(text) if self.lexical else (),
            vector=vector,
            times=self._times(text) if self.lexical else (),
            viewer=self.viewer,
            now=self.now.timestamp(),
            settings=self.weights if self.lexical else attrs.evolve(self.weights, lexical_weight=0.0),
        )

    def _times(self, text: str) -> tuple[tuple[float, float], ...]:
        return tuple(map(in_seconds, times_in(text, self.now)))


def _depth(depth: object) -> RecallDepth:
    try:
        return RecallDepth(depth)
    except ValueError:
        raise InvalidDataError("depth is RecallDepth.SHALLOW or RecallDepth.DEEP", path="$.depth") from None
