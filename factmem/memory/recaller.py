"""Recall: the best records for a query, by words, by meaning, and with the help of a language model."""

from __future__ import annotations

import contextlib
import datetime as dt
import enum
import functools
import logging
import math
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import attrs
from anyio import from_thread, to_thread

from factmem.abc.outlines import number_of_id
from factmem.abc.question_analyst import QuestionRequest
from factmem.detection.redaction import redact
from factmem.errors import CapabilityError, EmbedderError, InvalidDataError, ModelError
from factmem.facts import STATEMENT, Concept
from factmem.languages import language_code
from factmem.legal_names import folded_keyword
from factmem.llm.asking import bounded_gather
from factmem.memory.filters import Filters
from factmem.memory.reader import ReadingPart
from factmem.memory.scope_tree import counted_texts
from factmem.recall import DeepSettings, RecallFilter
from factmem.recall.deep import Exploration, Hint, Look, Results
from factmem.recall.events import TELLING, EventTime, events_in, sentence_of, timed
from factmem.recall.index.corpus import Corpus
from factmem.recall.index.selection import selected
from factmem.recall.links import Asking, Linked, followed
from factmem.recall.marks import marked, rows_of_marks
from factmem.recall.queries import Compared, Query, less_named, read_query
from factmem.recall.ranking import Ranker
from factmem.recall.results import FIRST_RESULTS, RecallMatch, RecallMatches, confidence_in
from factmem.recall.scoring import Calibration, RecallSettings
from factmem.recall.text.signs import nameless
from factmem.recall.text.times import times_and_rest
from factmem.reranking.bounds import reordered, rerank_checked
from factmem.scopes import MemoryScope
from factmem.short_work import SHORT, may_wait
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


@attrs.frozen(kw_only=True)
class Search:
    """A checked search, which shallow and deep recall make in the same way."""

    text: str
    sight: Sight
    now: dt.datetime
    wanted: RecallFilter
    limit: int
    min_score: float
    settings: RecallSettings
    lexical: bool
    semantic: bool
    calibration: Calibration
    concepts: Mapping[str, Concept[Any, Any]]

    @property
    def keeps_all(self) -> bool:
        """Whether nothing that the caller sees is left out."""
        return self.wanted.empty and not self.wanted.strongest and not self.min_score

    @property
    def needs_vectors(self) -> bool:
        """Whether the vectors of the records contribute to the ranking."""
        return self.semantic or self.settings.diversity > 0

    def without_meaning(self, error: EmbedderError) -> str:
        """Return the reason why meaning does not count, and log it.

        Raises:
            EmbedderError: Meaning is the only ranking.
        """
        if not self.calibration.lexical_weight:
            raise error
        failure = f"results are ranked by words alone: {error}"
        _log.warning("%s", failure)
        return failure

    def events(self, text: str) -> Sequence[EventTime]:
        """Return the events that a text names; none if words do not count."""
        return events_in(text, self.now) if self.lexical else ()

    def texts(self, text: str, happened: Sequence[EventTime]) -> dict[str, None]:
        """Return the texts of which `whole_query` takes embeddings, for a text and its events."""
        parts = (part for event in happened for part in (event.phrase, event.rest) if part)
        return dict.fromkeys([text, nameless(text), *parts])

    def whole_query(
        self,
        corpus: Corpus,
        text: str,
        happened: Sequence[EventTime],
        vectors: Mapping[str, NDArray[np.float32] | None],
    ) -> Query:
        """Return the query of a text with the times of its events; names count half in it.

        Blocks; see `factmem.short_work`.

        Records that tell when something happened are found regardless of the filter, which changes no score.
        """

        def asked(text: str) -> Query:
            return self.query(corpus, text, vectors.get(text))

        def telling(phrase: str) -> list[RecallMatch]:
            return Ranker.of(corpus, asked(phrase), self.concepts).ranked(RecallFilter(), TELLING)()

        query = timed(asked(text), happened, telling, vectors, self.now)
        return less_named(corpus, query, text, vectors.get(nameless(text)))

    def marked(self, corpus: Corpus, matches: Sequence[RecallMatch]) -> list[RecallMatch]:
        """Mark matches that were overtaken or retracted. Blocks; see `factmem.short_work`."""
        return marked(corpus, matches, sight=self.sight, wanted=self.wanted, concepts=self.concepts)

    def compared(self, corpus: Corpus) -> Compared:
        """Return the records that the text is compared with. Blocks; see `factmem.short_work`."""
        ranker = Ranker.of(corpus, self.query(corpus, self.text, None), self.concepts)
        return Compared.of(ranker.corpus, ranker.query, ranker.seen)

    def query(self, corpus: Corpus, text: str, vector: NDArray[np.float32] | None) -> Query:
        """Return the query of a text. Slow for a long one; see `factmem.short_work`."""
        if len(text) > SHORT:
            may_wait()
        query = Query(
            **(read_query(text) if self.lexical else {}),
            vector=vector,
            sight=self.sight,
            now=self.now.timestamp(),
            settings=self.settings,
            calibration=self.calibration,
        )
        times, rest = times_and_rest(text, self.now) if self.lexical else ((), text)
        if not times:
            return query
        dated = query.at(times, rest)
        words = [term.number for term in query.terms if term not in dated.terms]
        # April and June are no times where they are people.
        shown = corpus.shown(self.sight)
        return query if shown.named(words, {}, shown.seen(self.sight))[0] else dated


@attrs.define(eq=False, kw_only=True)
class CorpusSearcher:
    """Makes the searches of one deep recall. See `factmem.recall.deep.Searcher`.

    Results are cached until the store changes; the embedder is called once for all new texts.

    Attributes:
        search: What is searched for, and among what; a hint never widens its filter.
        corpus: Returns the current records, with every vector if called with ``embedded=True``.
        embed: Makes the embeddings; None to rank by words alone.
        concurrency: Maximum number of concurrent searches.
        failure: The reason to rank by words alone; None without an error.
    """

    search: Search
    corpus: Callable[..., Awaitable[Corpus]]
    embed: Callable[[Sequence[str]], Awaitable[Sequence[NDArray[np.float32] | None]]] | None
    concurrency: int
    failure: str | None = attrs.field(init=False, default=None)
    _vectors: dict[str, NDArray[np.float32] | None] = attrs.field(init=False, factory=dict)
    _seen: Corpus | None = attrs.field(init=False, default=None)
    _found: Results = attrs.field(init=False, factory=dict)
    _allowed: frozenset[int] | None = attrs.field(init=False, default=None)

    async def offered(self, now: dt.datetime, max_questions: int) -> QuestionRequest:
        """See `factmem.recall.deep.Searcher.offered`. The most frequent ones come first."""
        corpus = await self.corpus()
        scopes, keywords = await to_thread.run_sync(lambda: [self._in_use(corpus, of) for of in ("scope", "keyword")])
        return QuestionRequest(now=now, scopes_in_use=scopes, keywords_in_use=keywords, max_questions=max_questions)

    def _in_use(self, corpus: Corpus, name: str) -> tuple[str, ...]:
        """Return the texts of a column, the most frequent first."""
        counts = counted_texts(corpus.columns, name, selected(corpus, self.search.sight, self.search.wanted))
        ordered = sorted(counts, key=lambda text: (-counts[text], text))
        return tuple(text for text in ordered if text != STATEMENT.keyword)

    async def found(self, looks: Sequence[Look]) -> Results:
        """See `factmem.recall.deep.Searcher.found`."""
        try:
            await self._embed(text for look in looks for text in self._texts(look.text))
            corpus = await self.corpus(embedded=self.failure is None and self.search.needs_vectors)
        except EmbedderError as error:
            self.failure = self.search.without_meaning(error)
            self.embed, self._vectors, self._seen = None, {}, None
            corpus = await self.corpus()
        if corpus is not self._seen:
            self._seen, self._found, self._allowed = corpus, {}, None
        missing = [look for look in dict.fromkeys(looks) if look not in self._found]
        self._found |= await self._search(corpus, missing)
        return {look: self._found[look] for look in looks}

    async def _embed(self, texts: Iterable[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if self.embed is not None and new:
            self._vectors |= zip(new, await self.embed(new), strict=True)

    async def _search(self, corpus: Corpus, looks: Sequence[Look]) -> Results:
        """Make searches concurrently, divided among threads. The first failure stops the others and is raised."""
        if self.search.wanted.strongest and any(look.hint for look in looks) and self._allowed is None:
            self._allowed = await to_thread.run_sync(self._strongest, corpus)
        shares = [looks[number :: self.concurrency] for number in range(min(self.concurrency, len(looks)))]

        async def ranked(share: Sequence[Look]) -> Results:
            return await to_thread.run_sync(lambda: {look: self._matches(corpus, look) for look in share})

        work = [functools.partial(ranked, share) for share in shares]
        found: Results = {}
        for some in await bounded_gather(work, self.concurrency):
            found |= some
        return found

    def _matches(self, corpus: Corpus, look: Look) -> list[RecallMatch]:
        wanted = self.search.wanted if look.hint is None else narrowed(self.search.wanted, look.hint)
        if wanted is None:
            return []
        query = self.search.whole_query(corpus, look.text, self.search.events(look.text), self._vectors)
        most = max(self.search.limit, FIRST_RESULTS)
        limit = most if look.hint is None else len(look.hint.record_ids) or most
        matches = Ranker.of(corpus, query, self.search.concepts).ranked(wanted, limit)()
        if look.hint is None or self._allowed is None:
            return matches
        return [match for match in matches if number_of_id(match.record.id) in self._allowed]

    def _texts(self, text: str) -> list[str]:
        """Return the texts to embed for a text and for the events that it names, which may be looked for next."""
        happened = self.search.events(text)
        return [*self.search.texts(text, happened), *(nameless(event.phrase) for event in happened)]

    def _strongest(self, corpus: Corpus) -> frozenset[int]:
        """Return the numbers of the strongest records of all candidates; among fewer, others would be chosen."""
        rows = selected(corpus, self.search.sight, self.search.wanted)
        return frozenset(corpus.columns["record"][rows].tolist())


def narrowed(wanted: RecallFilter, hint: Hint) -> RecallFilter | None:
    """Return a filter narrowed by a hint; None if nothing can match.

    Args:
        wanted: Filter to narrow.
        hint: Hint on where to search.
    """
    inside = attrs.evolve(wanted, strongest=False)
    if hint.record_ids:
        among = hint.record_ids if wanted.record_ids is None else hint.record_ids.intersection(wanted.record_ids)
        return attrs.evolve(inside, record_ids=among)
    if hint.keyword is not None:
        keep = wanted.keywords is None or folded_keyword(hint.keyword) in map(folded_keyword, wanted.keywords)
        return attrs.evolve(inside, keywords=(hint.keyword,)) if keep else None
    if hint.time is not None:
        since, until = hint.time.start, hint.time.end
        since = max((moment for moment in (since, wanted.since) if moment is not None), default=None)
        until = until if wanted.until is None else min(until, wanted.until)
        return attrs.evolve(inside, since=since, until=until) if since is None or since < until else None
    roots = [MemoryScope.parse(path).segments for path in hint.scopes]

    def within(scope: MemoryScope) -> bool:
        lies = any(scope.segments[: len(root)] == root for root in roots)
        return lies and (wanted.within is None or wanted.within(scope))

    return attrs.evolve(inside, within=within)


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
