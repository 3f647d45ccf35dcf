"""Looking for what is known, as everything does that reads: at one moment, by one viewer, through one view."""

from __future__ import annotations

import abc
import datetime as dt
import enum
import functools
import logging
from typing import TYPE_CHECKING, Literal, Unpack

import attrs
from anyio import to_thread

from factmem.abc import Embedder
from factmem.errors import CapabilityError, EmbedderError, InvalidDataError
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
    RecallMatches,
    RecallSettings,
    embedded,
    explored,
    marked,
    ranked,
    times_in,
)
from factmem.recall.deep import COMPARED
from factmem.recall.events import TELLING, EventTime, events_in, in_seconds, timed
from factmem.recall.text.signs import Kind, asks_for_assistant, kinds_asked

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MemoryRecalling", "RecallDepth"]

_log = logging.getLogger("factmem")


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
    async def _corpus(self, *, embedded: bool = False) -> Corpus:
        """Return what is current at this reader's moment.

        Args:
            embedded: whether every record must have its vector; without, the embedder is not asked.
        """

    @abc.abstractmethod
    async def _with_earlier(self, matches: Sequence[RecallMatch]) -> list[RecallMatch]:
        """Return results, each with what was said before of the same."""

    def _at_once(self, *, embedded: bool) -> Corpus | None:
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
        min_score: float = 0.0,
        depth: RecallDepth | Literal["shallow", "deep"] = RecallDepth.SHALLOW,
        lexical: bool = True,
        semantic: bool = True,
        strongest: bool = False,
        history: bool = False,
        settings: RecallSettings | None = None,
        **filters: Unpack[Filters],
    ) -> RecallMatches:
        """Return the best records for a query: the true top of all that fit, best first.

        Where the embedder fails, what words alone find is returned, and `RecallMatches.failure` says why.

        Args:
            query: what to look for, in words.
            limit: how many results at the most.
            min_score: leave out what scores less, from 0 to 1. A query that nothing answers scores low everywhere.
            depth: whether a language model helps, if there is one; see `recall_deeply`, which also tells how.
            lexical: whether words count.
            semantic: whether meaning counts.
            strongest: of typed facts that several places have of one concept, only what `load` would choose.
            history: whether each result comes with what was known before of the same; see `RecallMatch.earlier`.
            settings: weights other than this memory's.
            filters: only what passes these; see `Filters`. They apply before ranking.

        Raises:
            InvalidDataError: the query is blank or holds lone surrogates, the limit or the least score is out of range,
                there is no such depth, or both kinds of evidence are switched off.
            EmbedderError: the embedder failed, and only meaning was to count.
            EmbedderMismatchError: the store's vectors come from another embedder, and meaning was to count.
        """
        search = self._search(query, limit, min_score, lexical, semantic, strongest, settings, filters)
        if _depth(depth) is RecallDepth.DEEP and self._reading.question_analyst is not None:
            deep = await self._deeply(query, search, self._reading.deep, strict=False)
            matches = RecallMatches(deep.matches, failure=deep.words_only)
        else:
            matches = await self._shallowly(query, search)
        return RecallMatches(await self._with_earlier(matches), failure=matches.failure) if history else matches

    async def _shallowly(self, query: str, search: _Search) -> RecallMatches:
        """Look by words and by meaning; by words alone where the embedder fails."""
        happened = events_in(query, search.now) if search.lexical else ()
        texts = [query, *(event.phrase for event in happened)]
        by_words: list[NDArray[np.float32] | None] = [None] * len(texts)
        failure = None
        try:
            vectors = await embedded(self._embedder, texts) if search.semantic else by_words
            return RecallMatches(await self._ranked(search, texts, vectors, happened, embedded=search.needs_vectors))
        except EmbedderError as error:
            failure = search.without_meaning(error)
        return RecallMatches(await self._ranked(search, texts, by_words, happened, embedded=False), failure=failure)

    async def _ranked(
        self,
        search: _Search,
        texts: Sequence[str],
        vectors: Sequence[NDArray[np.float32] | None],
        happened: Sequence[EventTime],
        *,
        embedded: bool,
    ) -> list[RecallMatch]:
        query = texts[0]
        asked = functools.cache(  # takes time: in worker threads only
            lambda: {text: search.query(text, vector) for text, vector in zip(texts, vectors, strict=True)}
        )

        def rank(corpus: Corpus) -> list[RecallMatch]:
            best = functools.partial(ranked, corpus, wanted=search.wanted, concepts=self._reading.concepts)
            queries = asked()
            whole = timed(queries[query], happened, lambda phrase: best(queries[phrase], limit=TELLING), search.now)
            return self._marked(corpus, search, best(whole, limit=search.limit, min_score=search.min_score))

        def at_once() -> list[RecallMatch] | None:
            corpus = self._at_once(embedded=embedded)
            return None if corpus is None else rank(corpus)

        found = await to_thread.run_sync(at_once)
        if found is not None:
            return found
        return await to_thread.run_sync(rank, await self._corpus(embedded=embedded))

    async def recall_deeply(
        self,
        question: str,
        *,
        limit: int = 10,
        min_score: float = 0.0,
        lexical: bool = True,
        semantic: bool = True,
        strongest: bool = False,
        history: bool = False,
        settings: RecallSettings | None = None,
        deep: DeepSettings | None = None,
        strict: bool = False,
        **filters: Unpack[Filters],
    ) -> DeepRecall:
        """Search for a question with the help of a language model, and report how.

        If the first results are not good enough, a model takes the question apart into simpler ones, which are
        searched for as well, and then says what is missing. The model never sees or finds what `recall` would not
        with the same filters. Its hints choose at most the last places, ``added_share`` of them all: the other
        results are those of `recall`. A model that fails costs what it would have added; see `DeepRecall.failure`.
        If the embedder fails, words alone count; see `DeepRecall.words_only`.

        Args:
            question: what to search for, in words.
            limit: see `recall`, as all the others that it takes.
            min_score: see there.
            lexical: see there.
            semantic: see there.
            strongest: see there.
            history: see there.
            settings: see there.
            deep: when to ask the model and how much it may change, instead of this memory's settings.
            strict: raise an error of the model.
            filters: see there.

        Raises:
            InvalidDataError: see `recall`.
            CapabilityError: there is no model.
            ModelError: the model failed, and ``strict`` was asked for.
            EmbedderError: see `recall`.
            EmbedderMismatchError: see `recall`.
        """
        search = self._search(question, limit, min_score, lexical, semantic, strongest, settings, filters)
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
            needs_vectors=search.needs_vectors,
            without_meaning=search.without_meaning,
            wanted=search.wanted,
            limit=max(search.limit, COMPARED),
            concepts=self._reading.concepts,
            concurrency=deep.concurrency,
            now=search.now,
        )
        found = await explored(
            question,
            searches,
            analyst,
            limit=search.limit,
            now=search.now,
            settings=deep,
            strict=strict,
        )
        matches = [match for match in found.matches if match.score >= search.min_score]
        matches = await to_thread.run_sync(self._marked, await self._corpus(), search, matches)
        return attrs.evolve(found, matches=tuple(matches), words_only=searches.failure)

    def _marked(self, corpus: Corpus, search: _Search, matches: Sequence[RecallMatch]) -> list[RecallMatch]:
        """Mark what was overtaken or taken back. This may block: for worker threads only."""
        return marked(corpus, matches, viewer=search.viewer, wanted=search.wanted, concepts=self._reading.concepts)

    def _search(
        self,
        query: str,
        limit: int,
        min_score: float,
        lexical: bool,
        semantic: bool,
        strongest: bool,
        settings: RecallSettings | None,
        filters: Filters,
    ) -> _Search:
        """Check what was asked for."""
        check_query(query, limit, min_score)
        if not (lexical or semantic):
            raise InvalidDataError("recall needs words or meaning to go by: leave lexical or semantic on")
        moment = self._moment()
        return _Search(
            mirror=self._mirror,
            viewer=self._reading.viewer,
            now=moment.as_of or moment.known_at or moment.now,
            wanted=self._confined(attrs.evolve(self._wanted(filters), strongest=strongest)),
            limit=limit,
            min_score=min_score,
            weights=settings or self._reading.settings,
            lexical=lexical,
            semantic=semantic,
        )

    def _wanted(self, filters: Filters) -> RecallFilter:
        return filter_of(filters, self._reading.anchored(filters.get("scope")))

    def _confined(self, wanted: RecallFilter) -> RecallFilter:
        view = self._reading.view
        seen = () if view is None else (*view.roots, *view.exact)
        self._mirror.look_in(
            tuple(wanted.subjects or ()) if wanted.subject is None else (wanted.subject,),
            seen if wanted.scope is None else (wanted.scope,),
        )
        within = wanted.within if view is None else view.reaches
        return attrs.evolve(wanted, within=within, reviewed=wanted.reviewed or self._reading.reviewed)


@attrs.frozen(kw_only=True)
class _Search:
    """What was asked for, checked."""

    mirror: Mirror
    viewer: str | None
    now: dt.datetime
    wanted: RecallFilter
    limit: int
    min_score: float
    weights: RecallSettings
    lexical: bool
    semantic: bool

    @property
    def needs_vectors(self) -> bool:
        """Whether the records' vectors have a part in the ranking."""
        return self.semantic or self.weights.diversity > 0

    def without_meaning(self, error: EmbedderError) -> str:
        """Return why meaning does not count, and log it.

        Raises:
            EmbedderError: nothing but meaning was to count.
        """
        if not (self.lexical and self.weights.lexical_weight):
            raise error
        failure = f"the results go by words alone: {error}"
        _log.warning("%s", failure)
        return failure

    def query(self, text: str, vector: NDArray[np.float32] | None) -> Query:
        """Return the query of a text."""
        return Query(
            terms=self.mirror.terms(text) if self.lexical else (),
            vector=vector,
            times=self._times(text) if self.lexical else (),
            asks_assistant=self.lexical and asks_for_assistant(text),
            kinds=kinds_asked(text) if self.lexical else Kind.NONE,
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
