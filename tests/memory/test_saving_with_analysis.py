"""Saving a text with a model: it completes the properties left open in one call, and never changes given ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pytest

from factmem import AgentMemoryProvider, ChangeKind, InMemoryProvider, Memory
from factmem.abc import Prompt
from factmem.abc.analyst import Analysis, AnalysisRequest
from factmem.abc.consolidator import Action
from factmem.errors import CapabilityError, InvalidDataError, ModelRefusedError, ModelUnavailableError
from factmem.testing import ScriptedModel
from factmem.values import Json
from tests.embedders import Counted
from tests.memory.telling import USER, Deciding, Gated, opened, until, words
from tests.tables import cases

CASES = cases(__file__)

if TYPE_CHECKING:
    from pydantic import BaseModel

ANALYSIS: dict[str, Any] = {
    "scope": "/product/alpha",
    "categories": ["plans", "launch"],
    "importance": 0.9,
    "entities": ["Ana"],
    "dates": ["3 June"],
    "topics": ["launch of alpha"],
}
TEXT = "Ana launches alpha on 3 June."
ALL: dict[str, Any] = {"scope": "/product/alpha", "categories": ["plans"], "importance": 0.4}


def analysing(**changed: Any) -> ScriptedModel:
    """Return a model that analyses every text like this, and changes no similar record."""

    def script(prompt: Prompt, answer: type[BaseModel]) -> dict[str, Any]:
        if answer.__name__ == "Analysis":
            return {name: (ANALYSIS | changed)[name] for name in answer.model_fields}
        return {"known": [], "insert": True}

    return ScriptedModel(script)


async def test_what_is_left_open_is_found_out_in_one_call(provider: AgentMemoryProvider) -> None:
    model = analysing()
    async with opened(provider, model) as memory:
        (record,) = await memory.remember(TEXT, subject=USER)
        assert record == (await memory.list_records())[0]
    assert (record.value, str(record.scope)) == (TEXT, "/product/alpha")
    details = record.details
    assert (details.categories, details.importance) == (("plans", "launch"), 0.9)
    assert (details.topics, details.metadata) == (("launch of alpha",), {"entities": ["Ana"], "dates": ["3 June"]})
    assert details.evidence[0].quote == TEXT
    assert len(model.prompts) == 1


@pytest.mark.parametrize("given", [{name: ALL[name]} for name in ALL], ids=ALL)
async def test_what_the_caller_says_stands_and_is_not_asked(given: dict[str, Any]) -> None:
    """Metadata is merged key by key. In CrewAI the model's metadata overwrites the caller's."""
    model = analysing()
    metadata: dict[str, Json] = {"entities": "mine", "ticket": 7}
    async with opened(InMemoryProvider(), model) as memory:
        (record,) = await memory.remember(TEXT, subject=USER, metadata=metadata, **given)
    asked = {"scope": str(record.scope), "categories": list(record.details.categories), "importance": record.importance}
    assert asked == {name: ANALYSIS[name] for name in asked} | given
    assert record.details.metadata == {"entities": "mine", "ticket": 7, "dates": ["3 June"]}
    assert f'"{next(iter(given))}"' not in model.prompts[0].examples[0].answer


async def test_what_is_given_whole_and_similar_to_nothing_costs_no_call(provider: AgentMemoryProvider) -> None:
    model = analysing()
    async with opened(provider, model) as memory:
        await memory.remember(TEXT, subject=USER, **ALL)
        await memory.remember("Something else entirely, about bees and honey.", subject=USER, **ALL)
        await (await memory.remember_many(["Bob sails.", "Nobody ever goes there."], subject=USER, **ALL)).wait()
        assert len(await memory.list_records()) == 4
    assert model.prompts == []


async def test_scopes_and_categories_in_use_are_shown_to_be_taken_up() -> None:
    """They are those that the viewer sees, as whole paths; other owners' private ones are left out."""
    provider, model = InMemoryProvider(), analysing()
    async with opened(provider, viewer="bob") as bobs:
        await bobs.remember("Mine.", scope="/product/secret", categories=["hidden"], importance=0.5, private=True)
    async with opened(provider, model) as memory:
        await memory.remember("Deep.", scope="/product/alpha/design/colours", categories=["tints"], importance=0.5)
        await memory.remember(TEXT)
    shown = model.prompts[-1].content
    assert "<item>/product/alpha/design/colours</item>" in shown
    assert "<item>tints</item>" in shown
    assert "secret" not in shown
    assert "hidden" not in shown


@pytest.mark.parametrize(
    ("proposed", "lands"),
    [
        *CASES["a scope that a model proposes is a legal one"],
        ("/product/" + "x" * 5_000, "/cross-product"),
        ("/" + "d/" * 2_000, "/cross-product"),
    ],
)
async def test_a_scope_that_a_model_proposes_is_a_legal_one(proposed: str | None, lands: str) -> None:
    """CrewAI stores each of these unchecked. An invalid path leaves the text at its default place."""
    async with opened(InMemoryProvider(), analysing(scope=proposed)) as memory:
        outcome = await memory.remember(TEXT, subject=USER)
        (record,) = await memory.list_records(scope=lands)
        assert (outcome.failure, str(record.scope)) == (None, lands)
        assert (await memory.admin.tree()).records == 1


async def test_another_organizations_scope_is_out_of_reach() -> None:
    """A scope proposed by a model always lies below the tenant's own root."""
    provider = InMemoryProvider()
    async with opened(provider, analysing(scope="/tenant/b/secrets"), organization="a") as memory:
        await memory.remember(TEXT)
    assert await opened(provider, organization="b").list_records() == []
    assert await opened(provider).list_records() == []


@pytest.mark.parametrize("error", [ModelUnavailableError("away"), ModelRefusedError("no"), ValueError("Ana, a bug")])
async def test_a_failing_analysis_leaves_the_text_at_its_default_place(error: Exception) -> None:
    """The caller's properties are kept; the text is a dead letter, and is analysed by a retry."""
    provider = InMemoryProvider()
    async with opened(provider, ScriptedModel(lambda prompt, answer: error)) as memory:
        outcome = await memory.remember(TEXT, subject=USER, categories=["mine"])
        (record,) = outcome.records
        assert outcome.failure == (type(error).__name__ if "Model" in type(error).__name__ else "ModelError")
        assert (str(record.scope), record.details.categories) == ("/cross-product", ("mine",))
        assert len(await memory.inbox.dead_letters.list()) == 1
    async with opened(provider, analysing()) as memory:
        (outcome,) = await memory.inbox.dead_letters.retry()
        (record,) = outcome.records
        assert (str(record.scope), record.details.categories) == ("/product/alpha", ("mine",))
        assert len(await memory.list_records()) == 1


async def test_two_texts_are_analysed_at_the_same_time() -> None:
    model = Gated(analysing().script)
    async with opened(InMemoryProvider(), model) as memory:
        submission = await memory.remember_many([TEXT, "Bob sails."], subject=USER)
        await until(lambda: model.under_way == 2)
        model.gate.set()
        assert [len(outcome) for outcome in await submission.wait()] == [1, 1]
        assert len(await memory.list_records()) == 2


BATCH = [f"Fact number {number} is about {topic}." for number, topic in enumerate(("bees", "honey", "ships"))]


async def test_a_batch_is_embedded_in_one_call(provider: AgentMemoryProvider) -> None:
    embedder = Counted()
    async with opened(provider, embedder=embedder) as memory:
        await (await memory.remember_many(BATCH, subject=USER, **ALL)).wait()
        assert len(await memory.list_records()) == 3
    assert [len(batch) for batch in embedder.batches] == [3]


async def test_a_batch_is_consolidated_against_the_store() -> None:
    """A known text is kept once; a text that changes a record updates it, and the previous revision is returned."""
    old, new = "The project is led by Ana from Lyon.", "The project is led by Ana from Faro."
    deciding = Deciding(Action.UPDATE, insert=False)
    async with opened(InMemoryProvider(), consolidator=deciding) as memory:
        (first,) = await memory.remember(old, subject=USER, **ALL)
        submission = await memory.remember_many([BATCH[0], new], subject=USER, **ALL)
        created, updated = await submission.wait()
        assert words(await memory.list_records()) == sorted([BATCH[0], new])
    assert [change.kind for change in created.changes] == [ChangeKind.CREATED]
    (change,) = updated.changes
    assert (change.kind, change.record.id) == (ChangeKind.UPDATED, first.id)
    assert change.previous is not None
    assert change.previous.value == old
    assert [known.text for known in deciding.asked[0].known] == [old]


class Analysing:
    """A custom analyst that answers more than it was asked."""

    async def analyse(self, text: str, request: AnalysisRequest) -> Analysis:
        return Analysis(scope="/product/beta", categories=("theirs",), importance=1.0, topics=("t",))

    async def extract(self, text: str) -> Sequence[str]:
        return [text]


async def test_unrequested_answers_of_an_analyst_are_ignored() -> None:
    async with opened(InMemoryProvider(), analyst=Analysing()) as memory:
        (record,) = await memory.remember(TEXT, subject=USER, importance=0.1)
        assert (str(record.scope), record.details.categories, record.importance) == ("/product/beta", ("theirs",), 0.1)


async def test_extracting_needs_words_and_a_model() -> None:
    model = ScriptedModel(lambda prompt, answer: {"statements": ["One.", "Two."]})
    memory: Memory = opened(InMemoryProvider(), model)
    assert await memory.inbox.extract(" \n") == ()
    assert model.prompts == []
    assert await memory.inbox.extract("One. Two.") == ("One.", "Two.")
    assert await memory.list_records() == []
    with pytest.raises(CapabilityError, match="model="):
        await opened(InMemoryProvider()).inbox.extract("One. Two.")
    with pytest.raises(InvalidDataError):
        await memory.remember("  ")
