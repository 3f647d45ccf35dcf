"""The question analyst: its prompts, and its strict reading of the answers."""

from __future__ import annotations

import datetime as dt
import html
from typing import Any

import pytest

from factmem.abc.consolidator import Known
from factmem.abc.question_analyst import (
    Complexity,
    Gap,
    QuestionAnalysis,
    QuestionAnalyst,
    QuestionRequest,
    SubQuestion,
)
from factmem.detection.model_analyst import InstructorQuestionAnalyst
from factmem.errors import ModelAnswerError, ModelRefusedError
from factmem.testing import ScriptedModel
from tests.tables import each_case

NOW = dt.datetime(2026, 11, 21, 15, 30, tzinfo=dt.UTC)
REQUEST = QuestionRequest(now=NOW, scopes_in_use=("/product/alpha", "/product/beta"), keywords_in_use=("city", "diet"))
QUESTION = "Where did Ana live and what did Ben eat in May?"


def saying(answer: Any, **options: Any) -> tuple[InstructorQuestionAnalyst, ScriptedModel]:
    """Return an analyst whose model always answers the same."""
    model = ScriptedModel(lambda prompt, kind: answer, **options)
    return InstructorQuestionAnalyst(model), model


async def analysed(answer: dict[str, Any], request: QuestionRequest = REQUEST) -> QuestionAnalysis:
    analyst, _ = saying(answer)
    return await analyst.analyse_question(QUESTION, request)


def day(text: str) -> dt.datetime:
    return dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC)


async def test_a_question_is_taken_apart() -> None:
    answer = {
        "questions": [
            {"text": "Where did Ana live?", "keyword": "city"},
            {"text": "What did  Ben eat?", "keyword": "x"},
        ],
        "scopes": ["product/beta/", "/product/gamma", "/product/beta"],
        "since": "2026-05-01",
        "until": "2026-05-31",
        "complexity": "complex",
    }
    assert await analysed(answer) == QuestionAnalysis(
        questions=(SubQuestion("Where did Ana live?", keyword="city"), SubQuestion("What did Ben eat?")),
        scopes=("/product/beta",),
        since=day("2026-05-01"),
        until=day("2026-06-01"),
        complexity=Complexity.COMPLEX,
    )
    assert isinstance(saying({})[0], QuestionAnalyst)


async def test_an_answer_that_says_nothing_is_an_analysis_of_nothing() -> None:
    for answer in ({}, {"questions": None, "scopes": None, "complexity": None}, {"questions": ["none", "  ", "N/A"]}):
        assert await analysed(answer) == QuestionAnalysis()


async def test_it_reads_answers_of_a_looser_kind() -> None:
    """A bare text, texts instead of objects and an extra word are read without loss."""
    answer = {"questions": ["Where is Ana?", "where is ana?"], "scopes": "/product/alpha", "complexity": "Complex."}
    found = await analysed(answer)
    assert found.questions == (SubQuestion("where is ana?"),)
    assert (found.scopes, found.complexity) == (("/product/alpha",), Complexity.COMPLEX)
    many = {"questions": [f"What of {number}?" for number in range(9)]}
    assert len((await analysed(many)).questions) == REQUEST.max_questions


@each_case("since", "until", "start", "end")
async def test_times_of_every_form_are_read_or_left_out(
    since: str | None, until: str | None, start: str | None, end: str | None
) -> None:
    found = await analysed({"since": since, "until": until})
    assert (found.since, found.until) == (start and day(start), end and day(end))


async def test_missing_details_are_returned() -> None:
    answer = {"gaps": [{"missing": "the  city", "question": "Where is\nFaro?"}, {"missing": "none", "question": "?"}]}
    analyst, model = saying(answer)
    known = [Known(text="Ana lives in <Faro>.", said_at=NOW)]
    assert await analyst.find_gaps(QUESTION, known, asked=["Where is Ana?"]) == [
        Gap(missing="the city", question="Where is Faro?")
    ]
    (prompt,) = model.prompts
    assert '<known said="2026-11-21">Ana lives in &lt;Faro&gt;.</known>' in prompt.content
    assert "<asked>Where is Ana?</asked>" in prompt.content


async def test_nothing_missing_is_no_gap() -> None:
    answers: list[dict[str, Any]] = [{"gaps": []}, {}, {"gaps": None}]
    for answer in (*answers, {"gaps": [{"missing": "nothing", "question": "none"}]}):
        assert await saying(answer)[0].find_gaps(QUESTION, []) == []


async def test_no_more_is_missing_than_it_may_name() -> None:
    analyst, model = saying(
        {"gaps": [{"missing": f"{number}", "question": f"What of {number}?"} for number in "abcdefg"]}
    )
    assert len(await analyst.find_gaps(QUESTION, [])) == analyst.max_gaps == 3
    assert "At most 3 gaps" in model.prompts[0].instructions


async def test_the_model_is_shown_the_date_and_the_scopes_in_use() -> None:
    analyst, model = saying({})
    await analyst.analyse_question("Is <b> it & now?", REQUEST)
    content = model.prompts[0].content
    assert "<now>Saturday, 2026-11-21</now>" in content
    assert "<question>Is &lt;b&gt; it &amp; now?</question>" in content
    assert all(f"<item>{name}</item>" in content for name in (*REQUEST.scopes_in_use, *REQUEST.keywords_in_use))


async def test_no_secret_is_sent() -> None:
    analyst, model = saying({})
    secret = "The password is Rust-4nd-Resin!77"
    await analyst.analyse_question(f"{secret} What for?", REQUEST)
    await analyst.find_gaps(secret, [Known(text=secret, said_at=NOW)], asked=[secret])
    assert len(model.prompts) == 2
    assert not [prompt for prompt in model.prompts if "Rust-4nd" in html.unescape(f"{prompt.content}")]


async def test_a_question_that_says_nothing_costs_no_call() -> None:
    analyst, model = saying({"questions": ["what?"]})
    assert await analyst.analyse_question("?!", REQUEST) == QuestionAnalysis()
    assert await analyst.find_gaps("...", []) == []
    assert model.prompts == []


async def test_what_does_not_fit_is_left_out_and_the_question_stays() -> None:
    """The end of the lists of scopes and known facts is cut."""
    analyst, model = saying({}, max_chars=600)
    many = tuple(f"/product/number{number}" for number in range(200))
    await analyst.analyse_question(QUESTION, QuestionRequest(now=NOW, scopes_in_use=many, keywords_in_use=many))
    known = [Known(text=f"Ana is number {number}.", said_at=NOW) for number in range(200)]
    await analyst.find_gaps(QUESTION, known, asked=many)
    for prompt in model.prompts:
        assert len(prompt.content) <= 600
        assert f"<question>{QUESTION}</question>" in prompt.content
    assert "<item>/product/number0</item>" in model.prompts[0].content
    assert "number 0." in model.prompts[1].content
    await analyst.analyse_question("so " * 9_999, REQUEST)
    assert len(model.prompts[2].content) <= 600


async def test_a_model_that_fails_is_a_model_error() -> None:
    with pytest.raises(ModelRefusedError):
        await saying(ModelRefusedError("it refused"))[0].analyse_question(QUESTION, REQUEST)
    with pytest.raises(ModelAnswerError):
        await saying({"gaps": [{"missing": "the question"}]})[0].find_gaps(QUESTION, [])
