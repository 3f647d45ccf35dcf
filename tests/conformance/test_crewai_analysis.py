"""Requirements of CrewAI's tests of saving with analysis and of extraction, and its errors in reading answers.

The numbers are those of its tests and the names those of its weaknesses, in the study. Covered elsewhere:

- 29, 30: memory/test_saving_with_analysis.py::test_extracting_needs_words_and_a_model
- 42, 45: memory/test_saving_with_analysis.py::test_a_failing_analysis_leaves_the_text_at_its_default_place
- 90, 111: memory/test_saving_with_analysis.py::test_another_organizations_scope_is_out_of_reach
- llm_bad_scope: memory/test_saving_with_analysis.py::test_a_scope_that_a_model_proposes_is_a_legal_one
- metadata_llm_override: memory/test_saving_with_analysis.py::test_what_the_caller_says_stands_and_is_not_asked
- private side channels: memory/test_saving_with_analysis.py::test_scopes_and_categories_in_use_are_shown_to_be_taken_up
- facts and figures of a model that fails: memory/test_model_faults.py::test_an_analysis_out_of_range_is_no_analysis

44 (a failing analysis of a query) belongs to deep recall, 31 and 32 to the plugin, 33 to 36 to its views.
"""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pytest

from factmem import Concept, FactDetails, InMemoryProvider, Memory
from factmem.errors import InvalidDataError, ModelAnswerError, ModelUnavailableError
from factmem.llm import InstructorModel
from factmem.testing import ScriptedModel
from factmem.testing.chat_answers import Said, answering, tool_answer
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.memory.telling import BEGAN, USER, log_of, opened, words

TEXT = "Ana launches alpha on 3 June."
STATEMENTS = ("Ana launches alpha.", "The launch is on 3 June.")
ANALYSIS: dict[str, Any] = {
    "scope": "/product/alpha",
    "categories": ["plans"],
    "importance": 0.9,
    "entities": ["Ana"],
    "dates": ["3 June"],
    "topics": ["launch"],
}
EXTRACTED: dict[str, Any] = {"statements": list(STATEMENTS)}
ALL: dict[str, Any] = {"scope": "/product/alpha", "categories": ["plans"], "importance": 0.4}


def model_at(base_url: str, mode: str = "JSON_SCHEMA") -> InstructorModel:
    return InstructorModel(
        "loopback", base_url=base_url, api_key="key", mode=mode, tries=2, retries=1, pause=0.0, timeout=10.0
    )


def wrapped(said: dict[str, Any]) -> dict[str, tuple[str, Said | Answer]]:
    """Return the same answer in each wrapping that CrewAI cannot read, with its mode."""
    text = json.dumps(said)
    return {
        "a JSON string from a function call": ("TOOLS", tool_answer(json.dumps(text), name="answer")),
        "a JSON string": ("JSON_SCHEMA", json.dumps(text)),
        "a fence": ("JSON_SCHEMA", f"```json\n{text}\n```"),
        "a prose prefix": ("JSON_SCHEMA", f"Sure, here is the JSON that you asked for:\n{text}"),
        "an extra key": ("JSON_SCHEMA", said | {"confidence": "high", "extracted_metadata": {"mood": "good"}}),
    }


WRAPPINGS = list(wrapped({}))


@pytest.mark.parametrize("wrapping", WRAPPINGS)
async def test_llm_parsing_a_wrapped_analysis_is_read_and_does_not_fall_back_to_defaults(wrapping: str) -> None:
    """CrewAI stores scope "/", no categories and importance .5, without an error."""
    mode, answer = wrapped(ANALYSIS)[wrapping]
    with LoopbackOpenAIServer(answering(_named(answer, "Analysis"))) as server:
        async with opened(InMemoryProvider(), model_at(server.base_url, mode)) as memory:
            outcome = await memory.remember(TEXT, subject=USER)
    (record,) = outcome.records
    assert (outcome.failure, record.value, str(record.scope)) == (None, TEXT, "/product/alpha")
    assert (record.details.categories, record.importance, record.details.topics) == (("plans",), 0.9, ("launch",))
    assert record.details.metadata == {"entities": ["Ana"], "dates": ["3 June"]}
    assert len(server.requests) == 1


@pytest.mark.parametrize("wrapping", WRAPPINGS)
async def test_llm_parsing_a_wrapped_extraction_is_read_and_not_stored_as_a_blob(wrapping: str) -> None:
    mode, answer = wrapped(EXTRACTED)[wrapping]
    with LoopbackOpenAIServer(answering(_named(answer, "Statements"))) as server:
        memory = opened(InMemoryProvider(), model_at(server.base_url, mode))
        assert await memory.inbox.extract(" ".join(STATEMENTS)) == STATEMENTS


@pytest.mark.parametrize("said", [json.dumps(STATEMENTS), f"```\n{json.dumps(STATEMENTS)}\n```", "- one\n- two", ""])
async def test_llm_parsing_a_bare_list_of_statements_is_a_typed_error(said: str) -> None:
    """43: a malformed answer is requested again, and then raised. CrewAI returns the raw text as the one memory.

    A decision: the caller of an extraction has the text and can keep it. An unread text that is returned as an atomic
    statement cannot be distinguished from a real one.
    """
    with LoopbackOpenAIServer(answering(said)) as server:
        memory = opened(InMemoryProvider(), model_at(server.base_url))
        with pytest.raises(ModelAnswerError):
            await memory.inbox.extract(" ".join(STATEMENTS))
        assert await memory.list_records() == []
    assert len(server.requests) == 2


async def test_43_a_failing_extraction_is_an_error_and_the_text_can_still_be_remembered() -> None:
    """The text is listed as unread, so that it can be read later."""
    away = ScriptedModel(lambda prompt, answer: ModelUnavailableError("away"))
    async with opened(InMemoryProvider(), away) as memory:
        with pytest.raises(ModelUnavailableError):
            await memory.inbox.extract(TEXT)
        outcome = await memory.remember(TEXT, subject=USER)
        assert (outcome.failure, words(outcome.records)) == ("ModelUnavailableError", [TEXT])
        assert len(await memory.inbox.dead_letters.list()) == 1


async def test_llm_parsing_an_importance_of_1_2_is_asked_again_and_costs_nothing_else() -> None:
    with LoopbackOpenAIServer(answering(ANALYSIS | {"importance": 1.2}, ANALYSIS)) as server:
        async with opened(InMemoryProvider(), model_at(server.base_url)) as memory:
            (record,) = await memory.remember(TEXT, subject=USER)
    assert (record.importance, record.details.categories, len(server.requests)) == (0.9, ("plans",), 2)


async def test_save_defaults_are_not_shared_by_records_whose_analysis_failed() -> None:
    """CrewAI returns one mutable object: a category set on one record appears on the next."""
    async with opened(InMemoryProvider(), ScriptedModel(lambda prompt, answer: ModelAnswerError("no"))) as memory:
        (first,) = await memory.remember("Bees dance.", subject=USER)
        await memory.update(first.id, categories=["bees"], metadata={"entities": ["bee"]})
        (second,) = await memory.remember("Ships sail.", subject=USER)
    assert (second.details.categories, dict(second.details.metadata)) == ((), {})
    assert (second.importance, str(second.scope)) == (0.5, "/cross-product")


async def test_1_the_model_that_reads_is_never_asked_to_stream() -> None:
    """CrewAI has to copy a streaming model of the agent; here a model is called through a client of its own."""
    with LoopbackOpenAIServer(answering(ANALYSIS)) as server:
        async with opened(InMemoryProvider(), model_at(server.base_url)) as memory:
            await memory.remember(TEXT, subject=USER)
    assert [request.get("stream") for _, request in server.requests] == [None]


async def test_31_what_is_extracted_is_submitted_as_it_is() -> None:
    """Each statement becomes one memory with an analysis of its own; all of them are one submission."""

    def script(prompt: Any, answer: type[Any]) -> dict[str, Any]:
        return EXTRACTED if answer.__name__ == "Statements" else ANALYSIS

    model = ScriptedModel(script)
    async with opened(InMemoryProvider(), model) as memory:
        submission = await memory.remember_many(await memory.inbox.extract(" ".join(STATEMENTS)), subject=USER)
        outcomes = await submission.wait()
        assert [words(outcome.records) for outcome in outcomes] == [[text] for text in STATEMENTS]
        assert words(await memory.list_records(scope="/product/alpha")) == sorted(STATEMENTS)


async def test_save_defaults_what_is_written_into_a_record_reaches_nobody_else(tmp_path: Path) -> None:
    """The store and later callers are unaffected, because arguments and results are copied."""
    wild: Concept[Any, Any] = Concept.single("wild", "anything", object)
    given = FactDetails(metadata={"list": [1]}, labels={"run": "1"})
    value: dict[str, list[Any]] = {"deep": [1]}
    async with opened(InMemoryProvider(), concepts=[wild]) as memory:
        (saved,) = await memory.save(wild.fact([value], timestamp=BEGAN), details=given)
        (listed,) = await memory.list_records()
        (shown,) = await memory.history(wild)
        for details in (given, saved.details, listed.details, shown.details):
            changing: Any = details
            changing.metadata["list"].append("x")
            changing.labels["run"] = "x"
        for changed in (value, saved.value, listed.value):
            changed["deep"].append("x")
        (record,) = await memory.list_records()
        assert (record.details.metadata, record.details.labels, record.value) == (
            {"list": [1]},
            {"run": "1"},
            {"deep": [1]},
        )
        assert await memory.admin.export(tmp_path / "log.jsonl") == 1


@pytest.mark.parametrize(
    "metadata",
    [{"it": object()}, {"n": float("nan")}, {1: "one"}],
    ids=["an object", "not a number", "a key that is no text"],
)
async def test_metadata_dropped_what_is_no_json_is_refused_before_anything_is_kept(metadata: dict[str, Any]) -> None:
    """CrewAI raises the serializer's TypeError while saving in the background, and the text is lost."""
    provider = InMemoryProvider()
    async with opened(provider, ScriptedModel(lambda prompt, answer: ANALYSIS)) as memory:
        with pytest.raises(InvalidDataError):
            await memory.remember(TEXT, metadata=metadata)
        with pytest.raises(InvalidDataError):
            await memory.remember_many([TEXT], metadata=metadata)
    assert (await log_of(provider))[0] == []


async def test_metadata_dropped_a_time_in_the_metadata_is_kept_as_text() -> None:
    when: Any = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    async with opened(InMemoryProvider()) as memory:
        (record,) = await memory.remember(TEXT, metadata={"when": when})
    assert dt.datetime.fromisoformat(str(record.details.metadata["when"])) == when


@pytest.mark.parametrize("typo", ["batch_dedup_threshold", "recall_oversample_factor", "root_scpoe", "llm"])
def test_docs_vs_code_an_option_that_does_not_exist_is_refused(typo: str) -> None:
    """CrewAI accepts any keyword and ignores it."""
    options: dict[str, Any] = {typo: 0.5}
    with pytest.raises(TypeError, match=typo):
        Memory(InMemoryProvider(), **options)


async def test_docs_vs_code_what_is_said_about_a_text_has_known_names_only() -> None:
    """A misspelt `scope` would save a text in an unexpected place."""
    options: dict[str, Any] = {"scop": "/product/alpha"}
    async with opened(InMemoryProvider()) as memory:
        with pytest.raises(TypeError, match="scop"):
            await memory.remember(TEXT, **options)
        with pytest.raises(TypeError, match="scop"):
            await memory.remember_many([TEXT], **options)
        assert await memory.list_records() == []


@pytest.mark.parametrize("blank", ["", "   ", "\n\t"])
async def test_empty_a_blank_text_is_refused_and_not_stored(blank: str) -> None:
    async with opened(InMemoryProvider(), ScriptedModel(lambda prompt, answer: ANALYSIS)) as memory:
        with pytest.raises(InvalidDataError):
            await memory.remember(blank)
        with pytest.raises(InvalidDataError):
            await memory.remember_many([TEXT, blank])
        assert await memory.list_records() == []


async def test_update_poison_a_value_out_of_range_is_refused_and_breaks_no_recall() -> None:
    """One importance of 7 made every later recall of CrewAI's store fail."""
    async with opened(InMemoryProvider()) as memory:
        (record,) = await memory.remember(TEXT, subject=USER, **ALL)
        wrong: list[dict[str, Any]] = [{"importance": 7.0}, {"categories": [7]}, {"source": 5}, {"value": 5}]
        for change in wrong:
            with pytest.raises(InvalidDataError):
                await memory.update(record.id, **change)
        (match,) = await memory.recall("When does alpha launch?")
        assert match.record == record


def _named(answer: Said | Answer, name: str) -> Said | Answer:
    """Name a scripted tool call after the tool that the request offers."""
    if not isinstance(answer, Answer) or not isinstance(answer.body, dict):
        return answer
    (call,) = answer.body["choices"][0]["message"]["tool_calls"]
    return tool_answer(call["function"]["arguments"], name=name)
