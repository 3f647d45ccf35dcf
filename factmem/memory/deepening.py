"""The searches of deep recall: behind the walls of whoever asks, and all of one state of the store."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import anyio
import attrs
from anyio import to_thread

from factmem.abc import Embedder, QuestionRequest, number_of_id
from factmem.errors import EmbedderError
from factmem.facts import STATEMENT, Concept
from factmem.recall import Corpus, Query, RecallFilter, RecallMatch, embedded, ranked, selected
from factmem.recall.deep import Hint, Look, Results
from factmem.recall.events import TELLING, events_in, timed
from factmem.scopes import MemoryScope

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Searches", "narrowed"]


def _raised(error: EmbedderError) -> str:
    raise error


@attrs.define(eq=False, kw_only=True)
class Searches:
    """Makes the searches of one deep recall. See `factmem.recall.deep.Searcher`.

    What was found is kept as long as the store has nothing new; the embedder is asked once for all new texts.

    Attributes:
        corpus: returns what is current, with every vector if it is called with ``embedded=True``.
        query: makes the query of a text and its embedding.
        viewer: who asks.
        embedder: makes the embeddings; None to go by words alone.
        needs_vectors: whether the records' vectors have a part in the ranking.
        without_meaning: says why words alone count, given an embedder's error, or raises it.
        failure: what that said; None as long as all goes well.
        wanted: which records count: no hint widens that.
        limit: maximum number of results of each search, but for those among given records.
        concepts: the declared concepts by keyword.
        concurrency: how many searches may be under way at once.
        now: the present, or the moment that is looked at.
    """

    corpus: Callable[..., Awaitable[Corpus]]
    query: Callable[[str, NDArray[np.float32] | None], Query]
    viewer: str | None
    embedder: Embedder | None
    needs_vectors: bool = False
    without_meaning: Callable[[EmbedderError], str] = _raised
    wanted: RecallFilter
    limit: int
    concepts: Mapping[str, Concept[Any, Any]]
    concurrency: int
    now: dt.datetime
    failure: str | None = attrs.field(init=False, default=None)
    _vectors: dict[str, NDArray[np.float32] | None] = attrs.field(init=False, factory=dict)
    _seen: Corpus | None = attrs.field(init=False, default=None)
    _found: Results = attrs.field(init=False, factory=dict)
    _allowed: frozenset[int] | None = attrs.field(init=False, default=None)

    async def offered(self, now: dt.datetime, most_questions: int) -> QuestionRequest:
        """See `factmem.recall.deep.Searcher.offered`. What most records have comes first."""
        corpus = await self.corpus()

        def in_use() -> tuple[tuple[str, ...], tuple[str, ...]]:
            rows = selected(corpus, self.viewer, self.wanted).rows
            names = {}
            for name, texts in (("scope", corpus.columns.scopes.texts), ("keyword", corpus.columns.keywords.texts)):
                numbers, counts = corpus.columns.counted(name, rows)
                counted = sorted((-count, texts[number]) for number, count in zip(numbers, counts, strict=True))
                names[name] = tuple(text for _, text in counted if text != STATEMENT.keyword)
            return names["scope"], names["keyword"]

        scopes, keywords = await to_thread.run_sync(in_use)
        return QuestionRequest(now=now, scopes_in_use=scopes, keywords_in_use=keywords, most_questions=most_questions)

    async def found(self, looks: Sequence[Look]) -> Results:
        """See `factmem.recall.deep.Searcher.found`."""
        try:
            await self._embed(text for look in looks for text in (look.text, *self._phrases(look.text)))
            corpus = await self.corpus(embedded=self.needs_vectors)
        except EmbedderError as error:
            self.failure = self.without_meaning(error)
            self.embedder, self.needs_vectors, self._vectors, self._seen = None, False, {}, None
            corpus = await self.corpus()
        if corpus is not self._seen:
            self._seen, self._found, self._allowed = corpus, {}, None
        missing = [look for look in dict.fromkeys(looks) if look not in self._found]
        self._found |= await self._search(corpus, missing)
        return {look: self._found[look] for look in looks}

    async def _embed(self, texts: Iterable[str]) -> None:
        new = [text for text in dict.fromkeys(texts) if text not in self._vectors]
        if self.embedder is None or not new:
            return
        self._vectors |= zip(new, await embedded(self.embedder, new), strict=True)

    async def _search(self, corpus: Corpus, looks: Sequence[Look]) -> Results:
        """Make some searches at a time, each thread its share. The first failure stops the others and is raised."""
        results: Results = {}
        failures: list[Exception] = []
        if self.wanted.strongest and any(look.hint for look in looks) and self._allowed is None:
            self._allowed = await to_thread.run_sync(self._strongest, corpus)

        async def search(share: Sequence[Look]) -> None:
            try:
                results.update(await to_thread.run_sync(self._ranked, corpus, share))
            except Exception as error:  # it is raised below, without the group that the tasks would make of it
                failures.append(error)
                tasks.cancel_scope.cancel()

        async with anyio.create_task_group() as tasks:
            for number in range(min(self.concurrency, len(looks))):
                tasks.start_soon(search, looks[number :: self.concurrency])
        if failures:
            raise failures[0]
        return {look: results[look] for look in looks}

    def _ranked(self, corpus: Corpus, looks: Sequence[Look]) -> Results:
        return {look: self._matches(corpus, look) for look in looks}

    def _matches(self, corpus: Corpus, look: Look) -> list[RecallMatch]:
        wanted = self.wanted if look.hint is None else narrowed(self.wanted, look.hint)
        if wanted is None:
            return []
        query = timed(
            self._query(look.text),
            events_in(look.text, self.now),
            lambda phrase: self._found_by(corpus, self._query(phrase), self.wanted, TELLING),
            self.now,
        )
        limit = self.limit if look.hint is None else len(look.hint.record_ids) or self.limit
        matches = self._found_by(corpus, query, wanted, limit)
        if look.hint is None or self._allowed is None:
            return matches
        return [match for match in matches if number_of_id(match.record.id) in self._allowed]

    def _query(self, text: str) -> Query:
        return self.query(text, self._vectors.get(text))

    def _found_by(self, corpus: Corpus, query: Query, wanted: RecallFilter, limit: int) -> list[RecallMatch]:
        return ranked(corpus, query, wanted=wanted, limit=limit, concepts=self.concepts)

    def _phrases(self, text: str) -> list[str]:
        return [event.phrase for event in events_in(text, self.now)]

    def _strongest(self, corpus: Corpus) -> frozenset[int]:
        """Which records hold among all that count, by their numbers: among fewer, others would."""
        rows = selected(corpus, self.viewer, self.wanted).rows
        return frozenset(corpus.columns["record"][rows].tolist())


def narrowed(wanted: RecallFilter, hint: Hint) -> RecallFilter | None:
    """Return a filter that keeps only what another one keeps and a hint points at; None if nothing passes.

    Args:
        wanted: the other filter.
        hint: where to search.
    """
    inside = attrs.evolve(wanted, strongest=False)
    if hint.record_ids:
        among = hint.record_ids if wanted.record_ids is None else hint.record_ids.intersection(wanted.record_ids)
        return attrs.evolve(inside, record_ids=among)
    if hint.keyword is not None:
        keep = wanted.keywords is None or hint.keyword in wanted.keywords
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
