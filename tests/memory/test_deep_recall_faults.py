"""Deep recall with a failing model: it finds the results of plain recall, in time, and reports the fault."""

from __future__ import annotations

import datetime as dt
from typing import Any

import anyio
import attrs
import pytest

from factmem import Memory, Message
from factmem.abc import Complexity, Gap, QuestionAnalysis
from factmem.detection import InstructorQuestionAnalyst
from factmem.errors import (
    EmbedderError,
    MissingPackageError,
    ModelAnswerError,
    ModelError,
    ModelRefusedError,
    ModelUnavailableError,
)
from factmem.llm.asking import Usage, meter
from factmem.testing import HashEmbedder, ScriptedModel
from tests.memory.scripted_analyst import ALWAYS, NOW, ScriptedAnalyst, deeply, parts, remembering, values

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
    assert found.words_only is not None
    assert {match.parts.cosine for match in found.matches} == {0.0}
    assert (await memory.recall(QUESTION, depth="deep")).failure == found.words_only
    with pytest.raises(EmbedderError):
        await deeply(memory, QUESTION, lexical=False)


async def test_another_moment_is_looked_at_as_it_was() -> None:
    analyst = ScriptedAnalyst(gaps=[[Gap(missing="it", question="What of Ana now?")]])
    memory = remembering(analyst)
    for days, city in ((30, "Lyon"), (3, "Faro")):
        said = Message(content=f"Ana lives in {city}.", timestamp=NOW - dt.timedelta(days=days))
        await memory.remember(said)
    then = NOW - dt.timedelta(days=9)
    found = await deeply(memory.as_of(then), "Where did Ana live last week?")
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
