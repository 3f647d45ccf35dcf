"""Costs of models: reported by operation, with tokens from a cache, and limited by a budget."""

from __future__ import annotations

import json
import types
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from factmem.abc import OperationCompleted, OperationEvent
from factmem.abc.detector import Conversation, Message
from factmem.abc.observer import Operation
from factmem.errors import InvalidDataError
from factmem.llm import Budget, CostReport, InstructorModel
from factmem.llm.asking import Spent, Usage, usage_of
from factmem.llm.costs import Cost
from factmem.memory.background import Background
from factmem.memory.facade import Memory
from factmem.testing import HashEmbedder
from factmem.testing.chat_answers import answering, chat_answer, error_answer
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.tables import each_case

NOTHING: dict[str, Any] = {"facts": [], "remember": [], "forget": []}
TALKS = [
    Conversation(id=f"c{number}", messages=[Message(content=f"Today I saw bird {number}.")]) for number in range(6)
]


def costly(document: dict[str, Any] = NOTHING) -> Answer:
    """Return an answer that reports 100 tokens in, 60 of them cached, and 10 out."""
    answer = chat_answer(document)
    assert isinstance(answer.body, dict)
    answer.body["usage"] = {
        "prompt_tokens": 100,
        "completion_tokens": 10,
        "total_tokens": 110,
        "prompt_tokens_details": {"cached_tokens": 60},
    }
    return answer


def model_at(server: LoopbackOpenAIServer) -> InstructorModel:
    return InstructorModel("m", base_url=server.base_url, api_key="k", mode="JSON_SCHEMA", pause=0.0, retries=1)


async def test_costs_are_reported_by_operation_with_every_request() -> None:
    """A request that failed and was repeated counts, as does an answer that was asked for again."""
    costs, events = CostReport(), list[OperationEvent]()
    with LoopbackOpenAIServer(answering(error_answer(503), costly({}), costly())) as server:
        async with Memory(
            "memory:", model=model_at(server), embedder=HashEmbedder(), observers=[costs, events.append]
        ) as memory:
            await memory.remember(TALKS[0])
    expected = Cost(requests=3, input_tokens=200, cached_tokens=120, output_tokens=20)
    assert costs.by_operation == {Operation.DETECT: expected}
    assert costs.total == expected
    (asked,) = (event for event in events if isinstance(event, OperationCompleted) and event.operation is Operation.ASK)
    assert (asked.requests, asked.input_tokens, asked.cached_tokens, asked.output_tokens) == (3, 200, 120, 20)


async def test_a_budget_leaves_the_rest_pending_and_another_run_reads_it(tmp_path: Path) -> None:
    store, costs = f"sqlite-vec:{tmp_path / 'facts.db'}", CostReport()
    with LoopbackOpenAIServer(answering(costly())) as server:
        reading = Background(concurrency=1, budget=Budget(tokens=300))
        async with Memory(
            store, model=model_at(server), embedder=HashEmbedder(), background=reading, observers=[costs]
        ) as memory:
            submission = await memory.remember_many(TALKS)
            outcomes = await submission.wait()
            assert (len(outcomes), submission.pending, submission.failures) == (3, 3, ())
            assert costs.total.requests == 3
            assert await memory.inbox.dead_letters.list() == ()
            assert len(await memory.list_records()) == len(TALKS), "the words can be seen all the same"
        async with Memory(store, model=model_at(server), embedder=HashEmbedder()) as memory:
            rest = await memory.inbox.resume()
            await rest.wait()
            assert (len(rest.outcomes), rest.pending) == (3, 0)
        assert len(server.requests) == len(TALKS)


async def test_words_that_a_caller_waits_for_wait_as_well_once_the_budget_is_spent() -> None:
    with LoopbackOpenAIServer(answering(costly())) as server:
        reading = Background(budget=Budget(requests=1))
        async with Memory("memory:", model=model_at(server), embedder=HashEmbedder(), background=reading) as memory:
            assert (await memory.remember(TALKS[0])).failure is None
            assert (await memory.remember(TALKS[1])).failure == "BudgetSpentError"
            assert await memory.inbox.dead_letters.list() == ()
        assert len(server.requests) == 1


@pytest.mark.parametrize(
    ("budget", "most"), [(Budget(requests=2), 2), (Budget(tokens=110), 1), (Budget(tokens=150), 2)], ids=str
)
async def test_no_request_is_sent_once_a_budget_is_spent(budget: Budget, most: int) -> None:
    """Neither of units that are read at once, nor of the further tries of a question."""
    with LoopbackOpenAIServer(answering(costly(), costly({}), error_answer(503), costly())) as server:
        reading = Background(concurrency=6, budget=budget)
        async with Memory("memory:", model=model_at(server), embedder=HashEmbedder(), background=reading) as memory:
            submission = await memory.remember_many(TALKS)
            await submission.wait()
            assert submission.pending > 0
            assert await memory.inbox.dead_letters.list() == ()
        assert len(server.requests) == most


async def test_a_model_that_counts_nothing_itself_is_counted_and_held_to_its_budget() -> None:
    class Own:
        max_chars, asked = 8_000, 0

        async def ask(self, prompt: Any, answer: Any) -> Any:
            self.asked += 1
            return answer.model_validate({field.alias or name: [] for name, field in answer.model_fields.items()})

    model, costs, reading = Own(), CostReport(), Background(budget=Budget(requests=2))
    async with Memory("memory:", model=model, embedder=HashEmbedder(), background=reading, observers=[costs]) as memory:
        for talk in TALKS:
            await memory.remember(talk)
    assert (model.asked, costs.total.requests) == (2, 2)


@pytest.mark.parametrize("wrong", [{"tokens": 0}, {"requests": -1}, {"tokens": 1.5}])
def test_a_budget_of_nothing_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidDataError):
        Budget(**wrong)


def test_no_budget_is_never_spent() -> None:
    spent = Spent()
    spent.requests = spent.input_tokens = 10**12
    assert not Budget().is_spent(spent)


@each_case("response", "usage")
def test_tokens_are_read_in_the_shape_of_each_provider(response: Any, usage: Mapping[str, Any]) -> None:
    """All but Google's JSON come as objects of the vendor's package."""
    if "usageMetadata" not in response:
        response = json.loads(json.dumps(response), object_hook=lambda fields: types.SimpleNamespace(**fields))
    assert usage_of(response) == Usage(**usage)
