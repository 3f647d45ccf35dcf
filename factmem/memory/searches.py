"""Searches: what a recall looks for and how it reads the query, and the many that a deep recall makes."""

from __future__ import annotations

import datetime as dt
import functools
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import attrs
from anyio import to_thread

from factmem.abc.outlines import number_of_id
from factmem.abc.question_analyst import QuestionRequest
from factmem.errors import EmbedderError
from factmem.facts import STATEMENT, Concept
from factmem.legal_names import folded_keyword
from factmem.llm.asking import bounded_gather
from factmem.memory.scope_tree import counted_texts
from factmem.recall import RecallFilter
from factmem.recall.deep import Hint, Look, Results
from factmem.recall.events import TELLING, EventTime, events_in, timed
from factmem.recall.index.corpus import Corpus
from factmem.recall.index.selection import selected
from factmem.recall.marks import marked
from factmem.recall.queries import Compared, Query, less_named, read_query
from factmem.recall.ranking import Ranker
from factmem.recall.results import FIRST_RESULTS, RecallMatch
from factmem.recall.scoring import Calibration, RecallSettings
from factmem.recall.text.signs import nameless
from factmem.recall.text.times import times_and_rest
from factmem.scopes import MemoryScope
from factmem.short_work import SHORT, may_wait
from factmem.views import Sight

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_log = logging.getLogger("factmem")


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
            return await to_thread.run_sync(self._ranked, corpus, share)

        work = [functools.partial(ranked, share) for share in shares]
        found: Results = {}
        for some in await bounded_gather(work, self.concurrency):
            found |= some
        return found

    def _ranked(self, corpus: Corpus, looks: Sequence[Look]) -> Results:
        return {look: self._matches(corpus, look) for look in looks}

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
