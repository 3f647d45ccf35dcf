"""A corpus is a snapshot that is independent of later changes of the store."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator

import attrs
import numpy as np
import pytest

import factmem.recall.index.corpus
from factmem import STATEMENT, InMemoryProvider, Memory, Message, MultipleFacts, RecallSettings
from factmem.recall import RecallFilter
from factmem.recall.index.corpus import Corpus, Seen
from factmem.recall.index.selection import selected
from factmem.recall.queries import Query, read_query
from factmem.recall.ranking import Ranker
from factmem.recall.scoring import DAY, recency
from factmem.testing import FakeClock, HashEmbedder
from factmem.views import Sight
from tests.recall.generated import NOW

SAID = [f"{who} {what} the {thing}" for who in ("Ann", "Ben") for what in ("saw", "sold") for thing in ("pear", "plum")]


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    async with Memory(InMemoryProvider(), embedder=HashEmbedder(64), clock=FakeClock(NOW)) as memory:
        yield memory


def vectors_in(corpus: Corpus) -> list[list[float] | None]:
    """Return the embeddings of all records, in another order than that of the rows."""
    found = selected(corpus, Sight(), RecallFilter())
    backwards = np.sort(found)[::-1]
    return [None if vector is None else vector.tolist() for vector in corpus.embeddings(backwards)]


async def test_embeddings_are_those_of_the_corpus_while_all_are_made_again(memory: Memory) -> None:
    for text in SAID:
        await memory.remember(text)
    corpus = await memory._backend.mirror.corpus(embedded=True)
    expected = vectors_in(corpus)
    assert expected == [vector.tolist() for vector in await HashEmbedder(64).embed(SAID[::-1])]

    memory._backend.mirror._log.drop_vectors()
    assert vectors_in(corpus) == expected


async def test_diverse_results_are_those_of_the_corpus_while_all_embeddings_are_made_again(memory: Memory) -> None:
    for text in ("plum one two", "plum one three", "plum four five six seven"):
        await memory.remember(text)
    corpus = await memory._backend.mirror.corpus(embedded=True)
    terms = read_query("plum")["terms"]

    def best(diversity: float) -> list[str]:
        settings = RecallSettings(diversity=diversity)
        query = Query(terms=terms, vector=None, sight=Sight(), now=NOW.timestamp(), settings=settings)
        matches = Ranker.of(corpus, query, {}).ranked(RecallFilter(), 2)()
        return [match.record.value for match in matches]

    expected = best(1.0)
    assert expected != best(0.0)

    memory._backend.mirror._log.drop_vectors()
    assert best(1.0) == expected


@pytest.mark.parametrize("days", [-700, -1, 0, 1, 400])
async def test_the_recency_of_a_corpus_is_that_of_each_row(days: int, memory: Memory) -> None:
    for age, text in zip([0, 10, 700], SAID, strict=False):
        said_at = NOW - dt.timedelta(days=age)
        await memory.save(MultipleFacts(STATEMENT, (text,), timestamp=said_at))
    corpus = await memory._backend.mirror.corpus()
    now = NOW.timestamp() + days * DAY
    assert corpus.recency(30, now) == pytest.approx(recency(now - corpus.said_at, 30), rel=1e-5)


async def test_viewers_who_have_nothing_of_their_own_share_one_view(memory: Memory) -> None:
    await memory.remember(SAID[0])
    await memory.view(viewer="ann").save(MultipleFacts(STATEMENT, (SAID[1],), timestamp=NOW), private=True)
    corpus = await memory._backend.mirror.corpus(embedded=True)

    assert all(corpus.seen(Sight(viewer=f"stranger {number}")) is corpus.seen(Sight()) for number in range(1000))
    assert corpus.seen(Sight(viewer="ann")).counts[0] == corpus.seen(Sight()).counts[0] + 1


async def test_what_viewers_see_is_kept_for_so_many_only(memory: Memory) -> None:
    for number in range(150):
        await memory.view(viewer=f"viewer {number}").save(
            MultipleFacts(STATEMENT, ("a pear",), timestamp=NOW), private=True
        )
    corpus = await memory._backend.mirror.corpus(embedded=True)

    assert all(corpus.seen(Sight(viewer=f"viewer {number}")).counts[0] == 1 for number in range(150))
    assert len(corpus._seen) <= 128


async def test_terms_are_cached_within_bounds_and_count_the_same(
    monkeypatch: pytest.MonkeyPatch, memory: Memory
) -> None:
    monkeypatch.setattr(factmem.recall.index.corpus, "_KNOWN_ROWS", 100)
    monkeypatch.setattr(factmem.recall.index.corpus, "_KNOWN_TERMS", 8)
    for text in SAID:
        await memory.remember(text)
    corpus = await memory._backend.mirror.corpus(embedded=True)
    callers = [attrs.evolve(corpus.seen(Sight())) for _ in range(4)]
    terms = read_query("Ann Ben saw sold pear plum user")["terms"]

    def documents(seen: Seen, *, together: bool) -> list[tuple[float, ...]]:
        asked = [terms] if together else [[term] for term in terms]
        return [of.documents for some in asked for of in corpus.occurrences(some, seen).figures]

    first, *others = [documents(seen, together=False) for seen in callers]
    held = [hits for found in corpus._known.queries.values() for hits in found.levels]
    assert 0 < sum(len(hits.keys) for hits in held) <= 100
    assert others == [first] * 3
    assert documents(callers[0], together=False) == documents(callers[0], together=True) == first
    for term in read_query(" ".join(f"nobody{number}" for number in range(20)))["terms"]:
        corpus.occurrences([term], callers[0])
    assert len(corpus._known.queries) <= 8
    assert len(corpus._known.figures) <= 8 + 1


async def test_who_overtakes_whom_is_the_same_found_one_by_one_at_once_and_after_an_erasure() -> None:
    provider = InMemoryProvider()
    said = [
        Message(content=text, timestamp=NOW - dt.timedelta(days=days))
        for text, days in [
            ("I weigh 82 kilos.", 9),
            ("I weigh 76 kilos.", 3),
            ("I weigh 79 kilos.", 6),  # it comes late
            ("I live in Oslo.", 8),
            ("I moved to Lisbon.", 2),
            ("I weigh 74 kilos now.", 1),
        ]
    ]

    async def marks(memory: Memory) -> dict[object, object]:
        matches = await memory.recall("What do I weigh, and where do I live?", limit=10)
        return {match.record.value: match.newer and match.newer.value for match in matches}

    async with Memory(provider, embedder=HashEmbedder(64), clock=FakeClock(NOW)) as memory:
        ids: list[str] = []
        for message in said:
            ids += [record.id for record in (await memory.remember(message)).records]
            await marks(memory)
        one_by_one = await marks(memory)
        async with Memory(provider, embedder=HashEmbedder(64), clock=FakeClock(NOW)) as other:
            assert await marks(other) == one_by_one
        assert one_by_one == {
            "I weigh 74 kilos now.": None,
            "I weigh 76 kilos.": "I weigh 74 kilos now.",
            "I weigh 79 kilos.": "I weigh 74 kilos now.",
            "I weigh 82 kilos.": "I weigh 74 kilos now.",
            "I moved to Lisbon.": None,
            "I live in Oslo.": "I moved to Lisbon.",
        }
        await memory.forget(ids[-1])
        left = await marks(memory)
        assert [left[f"I weigh {kilos} kilos."] for kilos in (82, 79, 76)] == ["I weigh 76 kilos."] * 2 + [None]


async def test_updates_are_searched_anew_for_another_view_and_after_a_write(memory: Memory) -> None:
    await memory.remember("I live in Oslo.", scope="/product/alpha")
    await memory.remember("I live in Oslo.", scope="/product/beta")
    assert [match.newer for match in await memory.recall("I live in Oslo.")] == [None, None]

    await memory.remember("I moved to Lisbon.", scope="/product/alpha")
    for view, newer in (("alpha", "I moved to Lisbon."), ("beta", None)):
        matches = await memory.scope(f"/product/{view}").recall("I live in Oslo.")
        (old,) = (match for match in matches if match.record.value == "I live in Oslo.")
        assert (old.newer and old.newer.value) == newer
