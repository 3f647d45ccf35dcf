"""Hints of a model in deep recall: they open no wall, hide no match, and have the same effect every time."""

from __future__ import annotations

import datetime as dt
import random
import threading
import time
from typing import Any

import pytest
from anyio.lowlevel import RunVar
from hypothesis import given, settings
from hypothesis import strategies as st

from factmem import Concept, Memory, MemorySubject, Message, SingleFact
from factmem.abc import Complexity, Gap, QuestionAnalysis, SubQuestion
from factmem.memory.recaller import Searches
from factmem.recall import RecallSettings
from factmem.recall.deep import Hint, Look, confidence_of
from tests.memory.scripted_analyst import ALWAYS, NOW, ScriptedAnalyst, deeply, parts, remembering, values

CITY = Concept.single("city", "Where somebody lives")
USER = MemorySubject("user", "who speaks", priority_level=1)
PRODUCTS = ("/product/alpha", "/product/alpha/plans", "/product/beta")
FILTERS: list[dict[str, Any]] = [
    {},
    {"scope": PRODUCTS[0]},
    {"scope": PRODUCTS[0], "exact": True},
    {"sources": ["s1"]},
    {"since": NOW - dt.timedelta(days=90), "until": NOW - dt.timedelta(days=9)},
]
WORDS = ("red", "green", "door", "cat", "mill", "Ana", "lives", "Faro", "likes", "sold")


async def filled(analyst: ScriptedAnalyst, **options: Any) -> Memory:
    """A memory of facts in several places, some of them private to alice."""
    memory = remembering(analyst, viewer="alice", **options)
    chance = random.Random(7)
    for number in range(40):
        said = Message(
            content=f"{' '.join(chance.choices(WORDS, k=5))} {number}.",
            timestamp=NOW - dt.timedelta(days=chance.randrange(400)),
        )
        await memory.remember(said, scope=chance.choice(PRODUCTS), private=number % 5 == 0, source=f"s{number % 3}")
    return memory


texts = st.lists(st.sampled_from([*WORDS, "?", "last May", "\ud800", "before the mill"]), max_size=6).map(" ".join)
moments = st.none() | st.datetimes(timezones=st.none() | st.just(dt.UTC))
analyses = st.builds(
    QuestionAnalysis,
    questions=st.lists(st.builds(SubQuestion, texts, keyword=st.sampled_from([None, "city", "statement", "x"]))),
    scopes=st.lists(st.sampled_from([*PRODUCTS, "/product", "/", "", "/product/alpha/../beta", "/product/x"])).map(
        tuple
    ),
    since=moments,
    until=moments,
    complexity=st.sampled_from(Complexity),
)
gaps = st.lists(st.builds(Gap, missing=texts, question=texts), max_size=5)


@settings(max_examples=10, deadline=None)
@given(analysis=analyses, missing=st.lists(gaps, max_size=2), question=texts.filter(str.strip), data=st.data())
async def test_whatever_a_model_says_no_hint_hides_or_shows_anything(
    analysis: QuestionAnalysis, missing: list[list[Gap]], question: str, data: st.DataObject
) -> None:
    """Matches of plain recall keep their places, except the last; records hidden by these filters are absent."""
    if "\ud800" in question:
        return
    memory, analyst = await _once()
    filters: dict[str, Any] = data.draw(st.sampled_from(FILTERS))
    limit, viewer = data.draw(st.sampled_from([1, 3, 10, 50])), data.draw(st.sampled_from(["alice", None]))
    analyst.analysis, analyst.gaps = analysis, list(missing)
    analyst.requests.clear()
    analyst.shown.clear()
    reader = memory.as_viewer(viewer)
    plain = await reader.recall(question, limit=limit, **filters)
    found = await deeply(reader, question, limit=limit, **filters)
    kept = [match.record.id for match in plain][: limit - int(ALWAYS.added_share * limit)]
    ids = [match.record.id for match in found.matches]
    records = await reader.list_records(**filters)
    assert ids[: len(kept)] == kept
    assert set(ids) <= {record.id for record in records}
    assert len(ids) == len(set(ids)) == len(plain)
    assert [match.score for match in found.matches] == sorted((match.score for match in found.matches), reverse=True)
    assert all(0 <= match.score <= 1 for match in found.matches)
    assert 0 <= found.confidence <= 1
    assert {text for shown in analyst.shown for text in shown} <= {record.value for record in records}
    assert {scope for asked in analyst.requests for scope in asked.scopes_in_use} == {str(it.scope) for it in records}


_memory: RunVar[tuple[Memory, ScriptedAnalyst]] = RunVar("memory")


async def _once() -> tuple[Memory, ScriptedAnalyst]:
    """One memory for all examples, with its analyst."""
    if (made := _memory.get(None)) is None:
        analyst = ScriptedAnalyst()
        _memory.set(made := (await filled(analyst), analyst))
    return made


async def test_a_view_confines_what_the_model_is_offered_and_shown() -> None:
    analyst = ScriptedAnalyst(parts("Who is in Faro?", scopes=("/product/beta", "/product/alpha/plans")))
    memory = await filled(analyst)
    for view in (memory.scope("/product/alpha/plans"), memory.slice([], exact=["/product/alpha"])):
        analyst.requests.clear()
        analyst.shown.clear()
        found = await deeply(view, "Who sold the red door?", limit=99)
        inside = await view.list_records()
        assert {match.record.id for match in found.matches} == {record.id for record in inside}
        assert [set(asked.scopes_in_use) for asked in analyst.requests] == [{str(record.scope) for record in inside}]
        assert {text for shown in analyst.shown for text in shown} <= {record.value for record in inside}
        assert set(found.scopes) <= {str(record.scope) for record in inside}


async def test_of_what_several_places_have_only_the_strongest_is_found() -> None:
    """A hint at the weaker fact's place does not make it current."""
    memory = remembering(
        ScriptedAnalyst(QuestionAnalysis(scopes=("/product/beta",), questions=(SubQuestion("c", keyword="city"),)))
    )
    for subject, scope, city in ((USER, "/product/alpha", "Faro"), (MemorySubject.EVERYTHING, "/product/beta", "Rome")):
        await memory.save(SingleFact(CITY, city, timestamp=NOW), subject=subject, scope=scope)
    found = await deeply(memory, "Where does somebody live?", strongest=True)
    assert (values(found.matches), found.scopes) == (["Faro"], ())
    assert sorted(values(await memory.recall("somebody", depth="deep"))) == ["Faro", "Rome"]


async def test_the_same_is_found_every_time() -> None:
    analyst = ScriptedAnalyst(parts("Who sold the cat?", "Where does Ana live?", scopes=PRODUCTS[:1]))
    memory = await filled(analyst)
    first = await deeply(memory, "What of the green door last month?")
    for _ in range(4):
        assert await deeply(memory, "What of the green door last month?") == first


async def test_confidence_knows_neither_how_recent_nor_how_important_a_record_is() -> None:
    confident = []
    for days, importance in ((0, 1.0), (900, 0.0)):
        memory = remembering(ScriptedAnalyst())
        said = Message(content="Ana lives in Faro.", timestamp=NOW - dt.timedelta(days=days))
        await memory.remember(said, importance=importance)
        confident.append((await deeply(memory, "Where does Ana live?")).confidence)
    assert confident[0] == pytest.approx(confident[1])
    assert (await deeply(remembering(ScriptedAnalyst()), "Where does Ana live?")).confidence == 0


async def test_confidence_measures_how_far_the_best_match_stands_out() -> None:
    memory = remembering(ScriptedAnalyst())
    for text in ("Ana lives in Faro.", *(f"Ben ate {number} figs." for number in range(20))):
        await memory.remember(text)
    ana, ben = [await memory.recall(text, limit=20) for text in ("Who lives in Faro?", "Who ate figs?")]
    assert confidence_of([ana]) > 2 * confidence_of([ben])
    assert confidence_of([ana, ben]) == pytest.approx((confidence_of([ana]) + confidence_of([ben])) / 2)
    best, *rest = [match.parts.similarity for match in ana[:10]]
    assert confidence_of([ana]) == pytest.approx(best - sum(rest) / 9), "later matches make no difference"
    assert confidence_of([ana[:1]]) == best
    assert confidence_of([ana, []]) == pytest.approx(confidence_of([ana]) / 2)
    assert confidence_of([]) == 0


async def test_the_limit_makes_no_difference_to_the_confidence() -> None:
    memory = await filled(ScriptedAnalyst())
    found = [await deeply(memory, "Who sold the red door?", limit=limit) for limit in (1, 3, 10, 50)]
    assert len({item.confidence for item in found}) == 1


async def test_only_so_many_searches_are_under_way_at_once() -> None:
    memory = await filled(ScriptedAnalyst())
    under_way, most, lock = 0, 0, threading.Lock()
    query = memory._recaller.search("x", 5, 0.0, True, False, False, RecallSettings(), {}).query

    def slow(text: str, vector: Any) -> Any:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.01)
        with lock:
            under_way -= 1
        return query(text, vector)

    options: dict[str, Any] = {
        "sight": memory._context.sight,
        "embedder": None,
        "limit": 5,
        "concepts": {},
        "concurrency": 2,
    }
    options["now"] = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    wanted = memory._reader.wanted({})
    searches = Searches(corpus=memory._reader.corpus, query=slow, wanted=wanted, **options)
    looks = [Look(word, hint) for word in WORDS for hint in (None, Hint(scopes=PRODUCTS[:1]))]
    assert list(await searches.found(looks)) == looks
    assert most == 2
