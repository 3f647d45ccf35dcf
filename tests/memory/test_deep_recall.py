"""Deep recall: analysis of the question, search for its parts in parallel, and questions about missing details."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import attrs
import numpy as np
import pytest
from numpy.typing import NDArray

from factmem import BlockingMemory, Concept, Memory, Message, SingleFact
from factmem.abc import Complexity, Gap, QuestionAnalysis, SubQuestion
from factmem.errors import CapabilityError, InvalidDataError
from factmem.memory import RecallDepth
from factmem.recall import DeepSettings
from factmem.recall.deep import confidence_of
from factmem.testing import HashEmbedder
from tests.memory.scripted_analyst import ALWAYS, NOW, ScriptedAnalyst, deeply, parts, remembering, values

CITY = Concept.single("city", "Where somebody lives")
BOTH = "Where does Ana live, and what does Ben eat?"
LONG = "by the barn on all days of the summer, near the organ there, to sell honey, cheese and old books to guests."
VILLAGE = [f"Number {number} {does} {LONG}" for does in ("rents a stall", "tunes a flute") for number in range(12)]
BARN = (
    "Who rents the barn, and who tunes the organ there?",
    ("Who rents the barn?", "Who tunes the organ?"),
    ("Bo rents the barn from May to June.", "Cy tunes the organ in the early spring."),
)
"""A question made of two, its parts, and the records that answer them."""


class Counted(HashEmbedder):
    """An embedder that records its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[list[str]] = []

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        self.batches.append(list(texts))
        return await super().embed(texts)


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


@pytest.mark.parametrize(
    "irrelevant",
    [
        ("Who sings in the choir?", "When did the mill burn?", "Which shop sells salt?"),
        ("How is bread baked?", "Who won the match?", "What does a printer cost?"),
    ],
    ids=["of the village", "of something else"],
)
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


async def test_plain_recall_knows_the_time_that_a_question_names() -> None:
    memory = remembering()
    for month in (4, 5, 6):
        when = dt.datetime(2026, month, 10, tzinfo=dt.UTC)
        await memory.remember(Message(content=f"The budget grew by {month}.", timestamp=when))
    found = await memory.recall("Did the budget grow last May?")
    assert (values(found)[0], found[0].parts.dated) == ("The budget grew by 5.", 1)
    by_meaning = await memory.recall("Did the budget grow last May?", lexical=False)
    assert {match.parts.dated for match in by_meaning} == {0}


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


@pytest.mark.parametrize(
    ("settings", "complexity", "explores"),
    [
        (DeepSettings(confidence_threshold_low=0.9, confidence_threshold_high=0.95), "simple", True),
        (DeepSettings(confidence_threshold_low=0.1, confidence_threshold_high=0.95), "simple", False),
        (DeepSettings(confidence_threshold_high=0.96, complex_query_threshold=0.95), "complex", True),
        (DeepSettings(confidence_threshold_high=0.96, complex_query_threshold=0.95), "simple", False),
        (DeepSettings(confidence_threshold_high=0.96, complex_query_threshold=0.1), "complex", False),
        (DeepSettings(confidence_threshold_low=0.9, confidence_threshold_high=0.1), "simple", False),
        (DeepSettings(complex_query_threshold=0.95, confidence_threshold_high=0.1), "complex", False),
    ],
)
async def test_it_explores_while_it_is_not_sure(settings: DeepSettings, complexity: str, explores: bool) -> None:
    analyst = ScriptedAnalyst(parts(complexity=Complexity(complexity)))
    memory = remembering(analyst)
    await remember_all(memory, "Ana lives in Faro.", "Ben eats no meat.")
    found = await deeply(memory, "Where does Ana live?", deep=settings)
    assert 0.1 < found.confidence < 0.9
    assert (len(analyst.shown) == 1) is explores


@pytest.mark.parametrize(
    "wrong",
    [
        {"confidence_threshold_high": 1.1},
        {"confidence_threshold_low": -0.1},
        {"complex_query_threshold": True},
        {"exploration_budget": 1.5},
        {"added_share": -0.1},
        {"added_share": 1.1},
        {"concurrency": 0},
        {"timeout": 0},
        {"timeout": float("inf")},
        {"token_budget": 0},
    ],
)
def test_settings_are_checked(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidDataError):
        DeepSettings(**wrong)


def test_programs_without_an_event_loop_have_the_same() -> None:
    analyst = ScriptedAnalyst(parts("Where does Ana live?"))
    with BlockingMemory(remembering(analyst)) as memory:
        memory.remember("Ana lives in Faro.", scope="/product/alpha")
        view = memory.scope("/product/alpha", read_only=True)
        for reader in (memory, view, memory.as_of(NOW), memory.known_at(NOW)):
            found = reader.recall("And Ana?", depth="deep", deep=ALWAYS)
            assert found.deep is not None
            assert values(found) == ["Ana lives in Faro."] == values(found.deep.matches)
            assert found.deep.questions == ("And Ana?", "Where does Ana live?")
