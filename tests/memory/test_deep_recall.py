"""Deep recall: analysis of the question, search for its parts in parallel, and questions about missing details."""

from __future__ import annotations

import datetime as dt
import random
import threading
import time
from collections.abc import Sequence
from typing import Any

import anyio
import attrs
import pytest
from anyio.lowlevel import RunVar
from hypothesis import given, settings
from hypothesis import strategies as st

from factmem import Concept, Memory, MemorySubject, Message, RecallSettings, SingleFact
from factmem.abc.question_analyst import Complexity, Gap, QuestionAnalysis, SubQuestion
from factmem.detection.model_analyst import InstructorQuestionAnalyst
from factmem.errors import (
    CapabilityError,
    EmbedderError,
    InvalidDataError,
    MissingPackageError,
    ModelAnswerError,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
)
from factmem.llm.asking import Usage, meter
from factmem.memory.recaller import CorpusSearcher, RecallDepth
from factmem.recall import DeepSettings
from factmem.recall.deep import Hint, Look, confidence_of
from factmem.testing import HashEmbedder, ScriptedModel
from tests.embedders import Counted
from tests.memory.scripted_analyst import ALWAYS, NOW, ScriptedAnalyst, deeply, parts, remembering, values
from tests.tables import each_case

CITY = Concept.single("city", "Where somebody lives")
BOTH = "Where does Ana live, and what does Ben eat?"
LONG = "by the barn on all days of the summer, near the organ there, to sell honey, cheese and old books to guests."
VILLAGE = [f"Number {number} {does} {LONG}" for does in ("rents a stall", "tunes a flute") for number in range(12)]
BARN = (
    "Who rents the barn, and who tunes the organ there?",
    ("Who rents the barn?", "Who tunes the organ?"),
    ("Bo rents the barn until the end of June.", "Cy tunes the organ in the early spring."),
)
"""A question made of two, its parts, and the records that answer them."""


async def remember_all(memory: Memory, *texts: str, **about: Any) -> None:
    for text in texts:
        await memory.remember(text, **about)


async def test_without_a_model_it_is_shallow_and_has_no_report() -> None:
    memory = remembering()
    await remember_all(memory, "Ana lives in Faro.")
    assert await memory.recall("who?", depth="deep") == await memory.recall("who?")
    with pytest.raises(CapabilityError, match="model="):
        await memory.recall("who?", depth="deep", strict=True)
    assert (await memory.recall("who?", depth="deep")).deep is None


async def test_there_are_two_depths() -> None:
    memory = remembering(ScriptedAnalyst())
    await remember_all(memory, "Ana lives in Faro.")
    deep = await memory.recall("Ana", depth=RecallDepth.DEEP)
    assert deep == await memory.recall("Ana", depth="deep") == await memory.recall("Ana", depth="shallow")
    wrong: Any = "deeper"
    with pytest.raises(InvalidDataError, match="depth"):
        await memory.recall("Ana", depth=wrong)


async def test_a_blank_question_is_refused_as_it_is_by_plain_recall() -> None:
    memory = remembering(ScriptedAnalyst())
    for wrong in ({"question": " "}, {"question": "who", "limit": 0}, {"question": "who", "semantic": False}):
        with pytest.raises(InvalidDataError):
            await deeply(memory, **{"lexical": "semantic" not in wrong, **wrong})  # type: ignore[arg-type]


async def test_only_a_question_that_is_not_answered_with_confidence_is_taken_apart() -> None:
    """No model is called if the best match stands out, and the result is that of plain recall."""
    memory = remembering(analyst := ScriptedAnalyst(parts("Where is Ana?")))
    await remember_all(memory, *VILLAGE, "The choir sings on Monday.")
    for question in ("Who sings in the choir?", f"{'So tell me, please: ' * 20}who sings in the choir?"):
        plain = await memory.recall(question)
        confidence = confidence_of([plain])
        for threshold, analysed in ((confidence, 0), (confidence + 0.001, 1)):
            analyst.requests.clear()
            deep = DeepSettings(confidence_threshold_high=threshold, exploration_budget=0)
            found = await deeply(memory, question, deep=deep)
            assert len(analyst.requests) == analysed
            assert found.questions == (question, "Where is Ana?")[: 1 + analysed]
            if not analysed:
                assert list(found.matches) == plain
                assert found.confidence == pytest.approx(confidence)


async def test_the_parts_of_a_question_find_what_it_does_not() -> None:
    """Both parts are answered, although many records share more words with the whole question than one answer does."""
    question, halves, answers = BARN
    memory = remembering(ScriptedAnalyst(parts(*halves)))
    await remember_all(memory, *VILLAGE, *answers)
    plain = await memory.recall(question)
    assert not set(answers) <= set(values(plain))
    found = await deeply(memory, question)
    assert set(answers) < set(values(found.matches))
    assert list(found.matches[:7]) == plain[:7]


@each_case("irrelevant")
async def test_irrelevant_parts_displace_nothing_but_the_last_places(irrelevant: Sequence[str]) -> None:
    question, *_ = BARN
    memory = remembering(ScriptedAnalyst(parts(*irrelevant)))
    await remember_all(memory, *VILLAGE, "The choir sings on Monday.", "The mill burnt in May.", "The shop sells salt.")
    plain = await memory.recall(question)
    for share, kept in ((0.3, 7), (0.0, 10), (0.19, 9)):
        found = await deeply(memory, question, deep=attrs.evolve(ALWAYS, added_share=share))
        assert list(found.matches[:kept]) == plain[:kept]
    assert list((await deeply(memory, question)).matches) == plain, "a record that does not match has no place"


async def test_each_match_has_its_score_for_the_question_itself() -> None:
    question, halves, answers = BARN
    memory = remembering(ScriptedAnalyst(parts(*halves)))
    await remember_all(memory, *VILLAGE, *answers)
    everything = {match.record.id: match.score for match in await memory.recall(question, limit=99)}
    found = await deeply(memory, question)
    assert [match.score for match in found.matches] == [everything[match.record.id] for match in found.matches]


async def test_all_parts_are_embedded_at_once() -> None:
    embedder = Counted()
    memory = remembering(ScriptedAnalyst(parts("Where is Ana?", "What does Ben eat?")), embedder=embedder)
    await remember_all(memory, "Ana lives in Faro.")
    await memory.recall("Ana")
    embedder.batches.clear()
    question = f"{BOTH} And before the move to Faro?"
    await deeply(memory, question)
    assert [batch[0] for batch in embedder.batches] == [question, "Where is Ana?"]
    embedder.batches.clear()
    await deeply(memory, BOTH, semantic=False)
    assert embedder.batches == []


async def test_the_model_is_offered_what_is_in_use_and_only_that_counts() -> None:
    memory = remembering(analyst := ScriptedAnalyst())
    await remember_all(memory, "Ana likes tea.", "Ben likes tea.", scope="/product/alpha")
    await memory.save(SingleFact(CITY, "Faro", timestamp=NOW), scope="/product/beta")
    analyst.analysis = parts(scopes=("/product/beta", "/product/gamma", "/"), complexity=Complexity.COMPLEX)
    analyst.analysis = parts("where", scopes=("/product/beta", "/product/gamma", "", "/product"))
    found = await deeply(memory, "tea")
    (request,) = analyst.requests
    assert request.scopes_in_use == ("/product/alpha", "/product/beta")
    assert (request.keywords_in_use, request.now) == (("city",), NOW)
    assert found.scopes == ("/product/beta",)


async def test_what_lies_in_a_scope_that_is_meant_has_one_of_the_last_places() -> None:
    memory = remembering(ScriptedAnalyst(parts(scopes=("/product/beta",))))
    for number in range(12):
        await remember_all(memory, f"The launch of part {number} is late.", scope="/product/alpha")
    await remember_all(memory, "The launch from Kourou is said to be somewhat late this time.", scope="/product/beta")
    plain = await memory.recall("Is the launch late?")
    found = await deeply(memory, "Is the launch late?")
    assert "beta" not in str([match.record.scope for match in plain])
    assert list(found.matches[:9]) == plain[:9]
    assert [("scope" in match.reasons) for match in found.matches] == [False] * 9 + [True]


async def test_a_part_may_name_the_concept_that_answers_it() -> None:
    memory = remembering(analyst := ScriptedAnalyst())
    await remember_all(memory, *(f"Somebody called number {number} lives well in a home." for number in range(12)))
    await memory.save(SingleFact(CITY, "Faro", timestamp=NOW - dt.timedelta(days=20)))
    question = "Tell of the home where somebody lives and of number 4."
    for keyword in ("employer", "city"):
        analyst.analysis = QuestionAnalysis(questions=(SubQuestion("Which city is it?", keyword=keyword),))
        found = await memory.recall(question, depth="deep")
        assert [match.record.value for match in found if "concept" in match.reasons] == ["Faro"] * (keyword == "city")


async def test_a_time_that_the_question_names_counts_without_a_model_saying_so() -> None:
    memory = remembering(ScriptedAnalyst())
    for month in (5, 6, 7):
        when = dt.datetime(2026, month, 10, tzinfo=dt.UTC)
        await memory.remember(Message(content="We talked about the budget.", timestamp=when, id=f"{month}"))
        await memory.remember(Message(content=f"The budget talk number {month} went well.", timestamp=when))
    found = await deeply(memory, "What went well at the budget talk last May?")
    assert values(found.matches)[0] == "The budget talk number 5 went well."
    assert [span.start for span in found.times] == [dt.datetime(2026, 5, 1, tzinfo=dt.UTC)]
    assert "time" in found.matches[0].reasons
    assert not [match for match in found.matches if ("time" in match.reasons) != (match.record.timestamp.month == 5)]


async def test_a_time_may_be_given_by_an_event() -> None:
    """The search uses the date of the event: the move is recorded, the wedding is not."""
    memory = remembering(ScriptedAnalyst())
    for month, text in ((1, "Ana drove a van to work."), (3, "Ana moved to Faro."), (5, "Ana drove a bus to work.")):
        await memory.remember(Message(content=text, timestamp=dt.datetime(2026, month, 10, tzinfo=dt.UTC)))
    before = await deeply(memory, "What did Ana drive to work before the move to Faro?")
    drove = [match for match in before.matches if "drove" in match.record.value]
    assert values(drove) == ["Ana drove a van to work.", "Ana drove a bus to work."]
    assert ["time" in match.reasons for match in drove] == [True, False]
    assert [(span.start, span.end.month) for span in before.times] == [(None, 3)]
    assert (await deeply(memory, "What did Ana drive to work before her wedding?")).times == ()


async def test_a_time_of_the_model_counts_as_well() -> None:
    since = dt.datetime(2026, 5, 1, tzinfo=dt.UTC)
    memory = remembering(ScriptedAnalyst(parts(since=since)))
    found = await deeply(memory, "How was it?")
    assert [(span.start, span.end) for span in found.times] == [(since, NOW + dt.timedelta(days=1))]
    naive = remembering(ScriptedAnalyst(parts(since=since.replace(tzinfo=None), until=since)))
    assert [span.start for span in (await deeply(naive, "How was it?")).times] == [None]


async def test_missing_details_are_requested_and_searched_for() -> None:
    analyst = ScriptedAnalyst(gaps=[[Gap(missing="the employer", question="Who employs Ana?")]])
    memory = remembering(analyst)
    await remember_all(memory, "The mill employs Ana.", "Ana likes her salary.")
    await remember_all(memory, *(f"The pay of woman number {number} is good." for number in range(9)))
    found = await deeply(memory, "How is the pay of that woman?", limit=4)
    assert (found.rounds, found.gaps) == (1, ())
    assert found.questions == ("How is the pay of that woman?", "Who employs Ana?")
    assert values(found.matches)[3] == "The mill employs Ana.", "it has the last place, although it shares no word"
    plain = await memory.recall("How is the pay of that woman?", limit=4)
    assert (list(found.matches[:3]), "mill" in str(values(plain))) == (plain[:3], False)
    assert analyst.asked == [("How is the pay of that woman?",)]


async def test_what_nothing_fills_is_a_gap() -> None:
    gap = Gap(missing="the price", question="What does the harpsichord cost?")
    memory = remembering(ScriptedAnalyst(gaps=[[gap]]))
    await remember_all(memory, "Ana plays the flute.")
    found = await deeply(memory, "What is she to pay?")
    assert (found.gaps, found.rounds) == ((gap,), 1)


async def test_nothing_missing_is_no_gap_and_costs_no_search() -> None:
    memory = remembering(analyst := ScriptedAnalyst())
    found = await deeply(memory, "Where is the key?")
    assert (found.gaps, found.rounds, len(analyst.shown), len(found.questions)) == ((), 0, 1, 1)


async def test_a_question_that_was_asked_is_not_asked_again() -> None:
    again = Gap(missing="the key", question="where is   the KEY")
    analyst = ScriptedAnalyst(gaps=[[again], [again]])
    memory = remembering(analyst, deep=DeepSettings(exploration_budget=5))
    found = await deeply(memory, "Where is the key?")
    assert (found.questions, found.rounds, found.gaps) == (("Where is the key?",), 0, (again,))
    assert len(analyst.shown) == 1


@pytest.mark.parametrize("budget", [0, 1, 2])
async def test_it_explores_no_longer_than_its_budget(budget: int) -> None:
    gaps = [[Gap(missing="more", question=f"What of the thing number {number}?")] for number in range(5)]
    analyst = ScriptedAnalyst(gaps=list(gaps))
    found = await deeply(remembering(analyst, deep=DeepSettings(exploration_budget=budget)), "Where is it?")
    assert (found.rounds, len(analyst.shown), len(found.questions)) == (budget, budget, 1 + budget)


@each_case("settings", "complexity", "explores")
async def test_it_explores_while_it_is_not_sure(settings: dict[str, Any], complexity: str, explores: bool) -> None:
    analyst = ScriptedAnalyst(parts(complexity=Complexity(complexity)))
    memory = remembering(analyst)
    await remember_all(memory, "Ana lives in Faro.", "Ben eats no meat.")
    found = await deeply(memory, "Where does Ana live?", deep=DeepSettings(**settings))
    assert 0.1 < found.confidence < 0.9
    assert (len(analyst.shown) == 1) is explores


@each_case("wrong")
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidDataError):
        DeepSettings(**wrong)


# Hints of a model in deep recall: they open no wall, hide no match, and have the same effect every time.

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


@pytest.mark.slow
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
    reader = memory.view(viewer=viewer)
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
    question = "Who sold the red door?"
    found = [await deeply(memory, question, limit=limit) for limit in (1, 3, 10, 50)]
    assert len({item.confidence for item in found}) == 1
    matches = [await memory.recall(question, depth="deep", limit=limit, deep=ALWAYS) for limit in (1, 3, 10, 50)]
    assert {item.confidence for item in matches} == {(await memory.recall(question)).confidence}


async def test_only_so_many_searches_are_under_way_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = await filled(ScriptedAnalyst())
    under_way, most, lock = 0, 0, threading.Lock()
    search = await memory._recaller.search("x", limit=5, semantic=False, settings=RecallSettings())
    query = type(search).query

    def slow(self: Any, *given: Any) -> Any:
        nonlocal under_way, most
        with lock:
            under_way += 1
            most = max(most, under_way)
        time.sleep(0.01)
        with lock:
            under_way -= 1
        return query(self, *given)

    monkeypatch.setattr(type(search), "query", slow)
    searcher = CorpusSearcher(search=search, corpus=memory._reader.corpus, embed=None, concurrency=2)
    looks = [Look(word, hint) for word in WORDS for hint in (None, Hint(scopes=PRODUCTS[:1]))]
    assert list(await searcher.found(looks)) == looks
    assert most == 2


# Deep recall with a failing model: it finds the results of plain recall, in time, and reports the fault.

QUESTION = "Where does Ana live?"


async def knowing(analyst: Any, **options: Any) -> Memory:
    memory = remembering(analyst, **options)
    for text in ("Ana lives in Faro.", "Ben eats no meat.", "Cy plays the tuba."):
        await memory.remember(text)
    return memory


@pytest.mark.parametrize(
    ("answer", "error", "failure"),
    [
        (ModelUnavailableError("the model is away"), ModelUnavailableError, "the model is away"),
        (ModelRefusedError("it refused"), ModelRefusedError, "it refused"),
        (ValueError("Ana lives in Faro"), ModelAnswerError, "the question analyst failed with ValueError"),
        (None, ModelAnswerError, "the question analyst returned NoneType"),
        ({"questions": []}, ModelAnswerError, "the question analyst returned dict"),
        (parts(scopes=7), ModelAnswerError, "the question analyst failed with TypeError"),
    ],
)
async def test_without_the_model_it_is_plain_recall(answer: Any, error: type[ModelError], failure: str) -> None:
    analyst = ScriptedAnalyst(answer, gaps=[[Gap(missing="more", question="What more?")]])
    memory = await knowing(analyst)
    found = await deeply(memory, QUESTION)
    assert list(found.matches) == await memory.recall(QUESTION)
    assert (found.failure, found.questions, found.rounds) == (failure, (QUESTION,), 0)
    assert analyst.shown == [], "a failed analyst is not called again"
    with pytest.raises(error, match=failure):
        await deeply(memory, QUESTION, strict=True)
    assert values(await memory.recall(QUESTION, depth="deep"))[0] == "Ana lives in Faro."


@pytest.mark.parametrize("answer", [ModelRefusedError("it refused"), 7, KeyError("x"), None])
async def test_a_model_that_fails_while_exploring_costs_what_it_would_have_added(answer: Any) -> None:
    memory = await knowing(ScriptedAnalyst(parts("What does Ben eat?"), gaps=[answer] * 2))
    found = await deeply(memory, "What of them?")
    assert (found.questions, found.rounds, found.gaps) == (("What of them?", "What does Ben eat?"), 0, ())
    assert found.failure
    with pytest.raises(ModelError):
        await deeply(memory, "What of them?", strict=True)


async def test_a_package_that_is_missing_is_no_fault_of_the_model() -> None:
    memory = await knowing(ScriptedAnalyst(MissingPackageError("instructor", extra="llm")))
    with pytest.raises(MissingPackageError):
        await deeply(memory, QUESTION)


async def test_answers_that_cannot_be_used_are_passed_over() -> None:
    useless = ("", "  ", "?!", "x" * 501, "\ud800 where", 7, None)
    analysis = QuestionAnalysis(questions=(*parts(*useless).questions, "Ben?", *parts("Cy?").questions))  # type: ignore[arg-type]
    gaps = [[*(Gap(missing="it", question=text) for text in useless), "Ben?", Gap(missing="it", question="Who?")]]  # type: ignore[arg-type]
    found = await deeply(await knowing(ScriptedAnalyst(analysis, gaps=gaps)), "What of them?")
    assert (found.questions, found.failure) == (("What of them?", "Cy?", "Who?"), None)


async def test_it_takes_no_more_questions_than_it_may() -> None:
    many = [f"What of the thing number {number}?" for number in range(9)]
    gaps = [[Gap(missing="it", question=f"And {text}") for text in many]]
    deep = attrs.evolve(ALWAYS, max_questions=2)
    found = await deeply(await knowing(ScriptedAnalyst(parts(*many), gaps=gaps)), "What of them?", deep=deep)
    assert found.questions == ("What of them?", *many[:2], f"And {many[0]}", f"And {many[1]}")
    assert len(found.gaps) == 2


@pytest.mark.parametrize("exploring", [False, True])
async def test_a_model_that_is_too_slow_is_not_waited_for(exploring: bool) -> None:
    analyst = ScriptedAnalyst()

    async def think() -> None:
        await (anyio.lowlevel.checkpoint() if exploring and not analyst.shown else anyio.sleep_forever())

    analyst.meanwhile = think
    memory = await knowing(analyst, deep=attrs.evolve(ALWAYS, timeout=0.05))
    with anyio.fail_after(10):
        found = await deeply(memory, "What of them?")
    assert list(found.matches) == await memory.recall("What of them?")
    assert "0.05 s" in str(found.failure)
    with pytest.raises(ModelUnavailableError, match="timeout"):
        await deeply(memory, "What of them?", strict=True)


async def test_it_can_be_cancelled_and_leaves_nothing_behind() -> None:
    thinks = anyio.Event()

    async def think() -> None:
        thinks.set()
        await anyio.sleep_forever()

    analyst = ScriptedAnalyst(meanwhile=think)
    memory = await knowing(analyst)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(deeply, memory, QUESTION)
        await thinks.wait()
        tasks.cancel_scope.cancel()
    analyst.meanwhile = anyio.lowlevel.checkpoint
    assert values((await deeply(memory, QUESTION)).matches)[0] == "Ana lives in Faro."


async def test_what_changes_while_the_model_thinks_is_found_as_it_is_then() -> None:
    analyst = ScriptedAnalyst(gaps=[[Gap(missing="it", question="What of the mill?")], []])
    memory = await knowing(analyst)

    async def meanwhile() -> None:
        (ana,) = [match.record for match in await memory.recall(QUESTION) if "Ana" in match.record.value]
        await memory.forget(ana.id)
        await memory.remember("Ana lives near the mill.")

    analyst.meanwhile = meanwhile
    deep = attrs.evolve(ALWAYS, confidence_threshold_low=0.99)
    found = values((await deeply(memory, QUESTION, deep=deep)).matches)
    assert found[0] == "Ana lives near the mill."
    assert "Ana lives in Faro." not in found


async def test_it_stops_asking_when_the_tokens_are_spent() -> None:
    async def spend() -> None:
        meter(questions=1, usage=Usage(input_tokens=90, output_tokens=10))

    for budget, rounds in ((101, 1), (100, 0)):
        analyst = ScriptedAnalyst(gaps=[[Gap(missing="it", question="What of it?")]], meanwhile=spend)
        deep = attrs.evolve(ALWAYS, token_budget=budget)
        found = await deeply(await knowing(analyst), "What of them?", deep=deep)
        assert (found.rounds, found.calls, found.tokens) == (rounds, 1 + rounds, 100 * (1 + rounds))


async def test_an_embedder_that_fails_midway_leaves_words_to_go_by_as_in_plain_recall() -> None:
    class Broken(HashEmbedder):
        async def embed(self, texts: Any) -> Any:
            if any("Ben" in text and "Ana" not in text and "?" in text for text in texts):
                raise OSError("away")
            return await super().embed(texts)

    memory = await knowing(ScriptedAnalyst(parts("What of Ben?")), embedder=Broken())
    found = await deeply(memory, QUESTION)
    assert {match.parts.cosine for match in found.matches} == {0.0}
    assert (await memory.recall(QUESTION, depth="deep")).failure is not None
    with pytest.raises(EmbedderError):
        await deeply(memory, QUESTION, lexical=False)


async def test_another_moment_is_looked_at_as_it_was() -> None:
    analyst = ScriptedAnalyst(gaps=[[Gap(missing="it", question="What of Ana now?")]])
    memory = remembering(analyst)
    for days, city in ((30, "Lyon"), (3, "Faro")):
        said = Message(content=f"Ana lives in {city}.", timestamp=NOW - dt.timedelta(days=days))
        await memory.remember(said)
    then = NOW - dt.timedelta(days=9)
    found = await deeply(memory.view(as_of=then), "Where did Ana live last week?")
    assert values(found.matches) == ["Ana lives in Lyon."]
    assert [asked.now for asked in analyst.requests] == [then]
    assert [span.end for span in found.times] == [dt.datetime(2026, 11, 9, tzinfo=dt.UTC)]


async def test_a_model_makes_an_analyst() -> None:
    """`Memory(model=…)` is enough; the analyst's questions are counted."""

    def script(prompt: Any, answer: Any) -> dict[str, Any]:
        if answer.__name__ == "QuestionAnswer":
            return {"questions": ["What does Ben eat?"], "complexity": "complex"}
        return {"gaps": [{"missing": "Cy", "question": "What does Cy play?"}]}

    model = ScriptedModel(script)
    memory = await knowing(None)
    asking = remembering(InstructorQuestionAnalyst(model), store=memory._backend.provider)
    found = await deeply(asking, "Tell me of them.", deep=ALWAYS)
    assert found.questions == ("Tell me of them.", "What does Ben eat?", "What does Cy play?")
    assert (found.calls, found.rounds, found.complexity) == (2, 1, Complexity.COMPLEX)
    assert len(model.prompts) == 2
