"""Recall: the best records for a query, by words, by meaning, and with the help of a language model."""

from __future__ import annotations

import contextlib
import enum
import functools
import logging
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs
from anyio import from_thread, to_thread

from factmem.detection.redaction import redact
from factmem.errors import CapabilityError, EmbedderError, InvalidDataError, ModelError
from factmem.languages import language_code
from factmem.memory.filters import Filters
from factmem.memory.reader import ReadingPart
from factmem.memory.searches import CorpusSearcher, Search
from factmem.recall import DeepSettings, RecallFilter
from factmem.recall.deep import Exploration, Look
from factmem.recall.events import EventTime, sentence_of
from factmem.recall.index.corpus import Corpus
from factmem.recall.links import Asking, Linked, followed
from factmem.recall.marks import rows_of_marks
from factmem.recall.queries import Compared
from factmem.recall.ranking import Ranker
from factmem.recall.results import FIRST_RESULTS, RecallMatch, RecallMatches, confidence_in
from factmem.recall.scoring import RecallSettings
from factmem.reranking.bounds import reordered, rerank_checked
from factmem.validators import check_fraction, check_instance, check_whole, mended
from factmem.views import Sight

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger("factmem")
_UNFILTERED: Final = Filters()


class RecallDepth(enum.Enum):
    """Depth of recall.

    Attributes:
        SHALLOW: One search, without a model.
        DEEP: A language model splits the question, and names what is missing.
    """

    SHALLOW = "shallow"
    DEEP = "deep"


class Recaller(ReadingPart):
    """Finds the records that answer a question."""

    async def recall(
        self,
        search: Search,
        *,
        depth: RecallDepth | Literal["shallow", "deep"] = RecallDepth.SHALLOW,
        history: bool = False,
        deep: DeepSettings | None = None,
        strict: bool = False,
    ) -> RecallMatches:
        """See `Memory.recall`.

        Args:
            search: What `search` returned.
            depth: With or without the help of a language model.
            history: Add the earlier revisions of each record.
            deep: Settings of deep recall instead of this memory's.
            strict: Raise if deep recall has no model, or the model or the reranker fails.
        """
        deep = self._context.deep if deep is None else deep
        check_instance(deep, "deep", DeepSettings)
        if _depth(depth) is RecallDepth.DEEP and (strict or self._backend.question_analyst is not None):
            matches = await self._deeply(search, deep, strict=strict)
        else:
            (matches,) = await self._shallowly([search], strict=strict)
        if history:
            matches[:] = await self._reader.with_earlier(matches)
            if matches.deep is not None:
                matches.deep = attrs.evolve(matches.deep, matches=tuple(matches))
        self._count([matches])
        return matches

    async def recall_each(self, searches: Sequence[Search]) -> list[RecallMatches]:
        """Return what each of some searches finds for one text, which is embedded, weighed and reranked once.

        Args:
            searches: Searches for the text with different filters and limits; see `with_filters`.
        """
        found = await self._shallowly(searches, strict=False)
        self._count(found)
        return found

    def _count(self, found: Iterable[RecallMatches]) -> None:
        if self._backend.accesses is not None:
            self._backend.accesses.count(match.record.id for matches in found for match in matches)

    async def _shallowly(self, searches: Sequence[Search], *, strict: bool) -> list[RecallMatches]:
        """Search by words and by meaning; by words alone if the embedder fails. Then rerank, if there is a reranker."""
        search = searches[0]
        happened = search.events(search.text)
        texts = list(search.texts(search.text, happened))
        failure = None
        try:
            found_for = await self._backend.embed_queries(texts) if search.semantic else ()
            vectors = dict(zip(texts, found_for, strict=search.semantic))
            found = await self._ranked(searches, vectors, happened, embedded=search.needs_vectors)
        except EmbedderError as error:
            failure = search.without_meaning(error)
            found = await self._ranked(searches, {}, happened, embedded=False)
        reranked: dict[Sight, _Reranked] = {}
        results: list[RecallMatches] = []
        for search, each in zip(searches, found, strict=True):
            order = reranked.get(search.sight) if each.pool else _Reranked()
            if order is None:
                order = reranked[search.sight] = await self._reranked(search.text, each.pool, strict=strict)
            results.append(await self._results(search, each, order, failure))
        return results

    async def _results(self, search: Search, found: _Found, reranked: _Reranked, failure: str | None) -> RecallMatches:
        """Return the matches in their final order, with the confidence in them and the reasons of failures."""
        ordered = reranked.ordered(found.matches)
        return RecallMatches(
            ordered[: search.limit],
            confidence=await self._confidence(search.text, ordered, found.compared),
            failure="; ".join(filter(None, (failure, reranked.failure))) or None,
        )

    async def _reranked(self, query: str, pool: Sequence[RecallMatch], *, strict: bool) -> _Reranked:
        """Ask the reranker about the best of all that the caller sees; those that a filter keeps stand in its order."""
        reranker, bounds = self._backend.reranker, self._backend.reranking
        assert reranker is not None, "without one, there is no pool"
        clean = await to_thread.run_sync(lambda: redact(query).text)
        texts = [sentence_of(match.record) for match in pool]
        try:
            scores = await rerank_checked(reranker, clean, texts, bounds, self._backend.reranking_cost)
        except ModelError as error:
            if strict:
                raise
            why = f"results are not reranked: {error}"
            _log.warning("%s", why)
            return _Reranked(failure=why)
        order = reordered(scores, bounds.weight)
        places = {pool[row].record.id: float(place) for place, row in enumerate(order)}
        for match in (pool[row] for row in order):  # what was overtaken stays below
            if match.newer is not None and match.newer.id in places:
                places[match.record.id] = max(places[match.record.id], places[match.newer.id] + 0.5)
        return _Reranked(places, {match.record.id: score for match, score in zip(pool, scores, strict=True)})

    async def _confidence(self, query: str, matches: Sequence[RecallMatch], compared: Compared) -> float:
        known = True
        if any(match.parts.semantic for match in matches):
            with contextlib.suppress(EmbedderError):  # it has embedded the query
                known = await self._backend.embedder.knows(query)
        if compared.held < 1 and matches and _in_another_language(query, str(matches[0].record.value)):
            compared = compared._replace(held=1.0)  # words of another language need not agree
        return confidence_in(matches, compared, known=known)

    async def _ranked(
        self,
        searches: Sequence[Search],
        vectors: Mapping[str, NDArray[np.float32] | None],
        happened: Sequence[EventTime],
        *,
        embedded: bool,
    ) -> list[_Found]:
        """Return what searches with different filters find, and the best of all for a reranker, if there is one."""
        top = 0 if self._backend.reranker is None else self._backend.reranking.top

        def ranking_for(corpus: Corpus, search: Search) -> _SharedRanking:
            whole = search.whole_query(corpus, search.text, happened, vectors)
            asking = self._asking(corpus, search, embedded=vectors.get(search.text) is not None)
            ranker = Ranker.of(corpus, whole, search.concepts)
            return _SharedRanking(ranker=ranker, linked=followed(corpus, asking), search=search, top=top)

        def begin(corpus: Corpus) -> Callable[[], list[_Found]]:
            rankings: list[_SharedRanking] = []
            for search in searches:
                alike = next((it for it in rankings if it.search.sight == search.sight), None)
                rankings.append(alike or ranking_for(corpus, search))
            begun = [ranking.begin(search) for ranking, search in zip(rankings, searches, strict=True)]
            return lambda: [finish() for finish in begun]

        return await self._reader.found_in_corpus(begin, embedded=embedded)

    def _asking(self, corpus: Corpus, search: Search, *, embedded: bool) -> Asking:
        def embed(texts: Sequence[str]) -> Sequence[NDArray[np.float32] | None]:
            if not embedded:
                return [None] * len(texts)
            return from_thread.run(self._backend.embed_queries, texts)

        return Asking(
            text=search.text,
            sight=search.sight,
            query=functools.partial(search.query, corpus),
            embed=embed,
            concepts=self._context.concepts,
        )

    async def _deeply(self, search: Search, deep: DeepSettings, *, strict: bool) -> RecallMatches:
        question, analyst = search.text, self._backend.question_analyst
        if analyst is None:
            raise CapabilityError(
                "deep recall asks a language model: open the memory with model=language_model(...), or leave strict out"
            )
        searcher = CorpusSearcher(
            search=search,
            corpus=self._reader.corpus,
            embed=self._backend.embed_queries if search.semantic else None,
            concurrency=deep.concurrency,
        )
        found = await Exploration(
            question, searcher, analyst, limit=search.limit, now=search.now, settings=deep, strict=strict
        ).result()
        matches = [match for match in found.matches if match.score >= search.min_score]
        corpus = await self._reader.corpus()
        matches = await to_thread.run_sync(search.marked, corpus, matches)
        pool = matches[: self._backend.reranking.top] if self._backend.reranker is not None else ()
        compared = await to_thread.run_sync(search.compared, corpus)
        reranked = await self._reranked(question, pool, strict=strict) if pool else _Reranked()
        found_at_all = _Found(matches=matches, pool=pool, compared=compared)
        ordered = await self._results(search, found_at_all, reranked, searcher.failure)
        own = (await searcher.found([Look(question)]))[Look(question)]
        own = [match for match in own if match.score >= search.min_score]
        ordered.confidence = await self._confidence(question, own, compared)
        ordered.deep = attrs.evolve(found, matches=tuple(ordered))
        return ordered

    def with_filters(self, search: Search, filters: Filters, limit: int) -> Search:
        """Return a search like another one, with other filters and another limit."""
        check_whole(limit, "limit", least=1)
        wanted = self._reader.wanted(filters, strongest=search.wanted.strongest)
        self._reader.look_in(wanted)
        return attrs.evolve(search, wanted=wanted, sight=self._context.sight_of(wanted), limit=limit)

    async def search(
        self,
        query: str,
        filters: Filters = _UNFILTERED,
        *,
        limit: int = 10,
        min_score: float = 0.0,
        lexical: bool = True,
        semantic: bool = True,
        strongest: bool = False,
        settings: RecallSettings | None = None,
    ) -> Search:
        """Return a checked search; see `Memory.recall`.

        Raises:
            InvalidDataError: An argument is out of range.
        """
        if settings is None:
            settings = self._context.settings
        else:
            check_instance(settings, "settings", RecallSettings)
        check_instance(query, "query", str)
        query = mended(query)
        check_whole(limit, "limit", least=1)
        check_fraction(min_score, "min_score")
        if not query.strip():
            raise InvalidDataError("the query is blank: say what to look for")
        if not (lexical or semantic):
            raise InvalidDataError("recall ranks by words or by meaning: leave lexical or semantic on")
        moment, wanted = self._context.moment, self._reader.wanted(filters, strongest=strongest)
        self._reader.look_in(wanted)
        calibration = settings.calibration(await self._name_of_embedder() if semantic else "")
        return Search(
            text=query,
            sight=self._context.sight_of(wanted),
            now=moment.as_of or moment.known_at or moment.now,
            wanted=wanted,
            limit=limit,
            min_score=min_score,
            settings=settings,
            lexical=lexical,
            semantic=semantic,
            calibration=calibration if lexical else attrs.evolve(calibration, lexical_weight=0.0),
            concepts=self._context.concepts,
        )

    async def _name_of_embedder(self) -> str:
        """Return the name of the embedder's identity; an empty one if it fails."""
        try:
            return (await self._backend.embedder.identity()).name
        except EmbedderError:  # it fails again when it is asked for the vectors, and that is told
            return ""


@attrs.frozen(kw_only=True, eq=False)
class _Found:
    """The outcome of a search.

    Attributes:
        matches: The matches, best first.
        pool: The best of all that the caller sees, for a reranker; none without one.
        compared: The records that the query was compared with.
    """

    matches: Sequence[RecallMatch]
    pool: Sequence[RecallMatch]
    compared: Compared


@attrs.frozen(eq=False)
class _Reranked:
    """The answer of a reranker, by the ids of the records that it has read.

    Attributes:
        places: Their places, from 0.
        scores: Their scores.
        failure: Why nothing was reranked; None if it was, or there is nothing to rerank.
    """

    places: Mapping[str, float] = {}
    scores: Mapping[str, float] = {}
    failure: str | None = None

    def ordered(self, matches: Sequence[RecallMatch]) -> Sequence[RecallMatch]:
        """Return matches in this order; those that it has not read follow as they were."""
        if not self.places:
            return matches
        ordered = sorted(matches, key=lambda match: self.places.get(match.record.id, math.inf))
        return [_with_score(match, self.scores.get(match.record.id)) for match in ordered]


@attrs.frozen(kw_only=True, eq=False)
class _SharedRanking:
    """The ranking of a query in a corpus, which searches share that may see the same.

    Attributes:
        ranker: The ranker of the query.
        linked: What the links between subjects lead to.
        search: One of the searches.
        top: The number of results that a reranker reads; 0 for none.
    """

    ranker: Ranker
    linked: Linked
    search: Search
    top: int

    def begin(self, search: Search) -> Callable[[], _Found]:
        """Begin a search, and return a function that reads what it finds. Both block; see `factmem.short_work`."""
        limit = max(search.limit, self.top, FIRST_RESULTS)
        read = self._begin(search if limit == search.limit else attrs.evolve(search, limit=limit))

        def finish() -> _Found:
            matches = search.marked(self.ranker.corpus, read())
            pool = matches[: self.top] if search.keeps_all or not self.top else self._pool
            return _Found(matches=matches, pool=pool, compared=self._compared)

        return finish

    def _begin(self, search: Search) -> Callable[[], list[RecallMatch]]:
        corpus, sight, wanted = self.ranker.corpus, search.sight, search.wanted
        beside = functools.partial(rows_of_marks, corpus, sight=sight, wanted=wanted)
        limits: dict[str, Any] = {"limit": search.limit, "min_score": search.min_score}
        if not self.linked.matches:
            return self.ranker.ranked(wanted, **limits, beside=beside)

        def rank(wanted: RecallFilter) -> list[RecallMatch]:
            return self.ranker.ranked(wanted, **limits, beside=beside)()

        return functools.partial(self.linked.among, corpus, rank, sight=sight, wanted=wanted, **limits)

    @functools.cached_property
    def _pool(self) -> list[RecallMatch]:
        """The best of all that the caller sees."""
        everything = attrs.evolve(self.search, wanted=RecallFilter(), min_score=0.0, limit=self.top)
        return self.search.marked(self.ranker.corpus, self._begin(everything)())[: self.top]

    @functools.cached_property
    def _compared(self) -> Compared:
        return Compared.of(self.ranker.corpus, self.ranker.query, self.ranker.seen)


def _in_another_language(query: str, text: str) -> bool:
    asked, said = language_code(query), language_code(text)
    return bool(asked and said) and asked != said


def _with_score(match: RecallMatch, score: float | None) -> RecallMatch:
    return match if score is None else attrs.evolve(match, parts=attrs.evolve(match.parts, reranked=score))


def _depth(depth: object) -> RecallDepth:
    try:
        return RecallDepth(depth)
    except ValueError:
        raise InvalidDataError("depth is RecallDepth.SHALLOW or RecallDepth.DEEP", path="$.depth") from None
