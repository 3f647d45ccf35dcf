"""Known facts in a model's prompt: no private ones when public words are read, and never another owner's."""

from __future__ import annotations

from typing import Any

import pytest

from factmem import Concept, FactDetails, InMemoryProvider, Memory, SingleFact
from factmem.errors import ModelRefusedError
from factmem.testing import ScriptedModel
from tests.memory.telling import BEGAN, PETS, USER, opened, talk, well

PRIVATE = ("clinic", "treats", "hospital", "illness")
BOBS = ("garage", "gearbox")
PUBLIC = ("office", "address")


@pytest.fixture
async def model() -> ScriptedModel:
    return ScriptedModel(well)


@pytest.fixture
async def provider() -> InMemoryProvider:
    """A store with a public fact, one of alice and one of bob, all about the user."""
    provider = InMemoryProvider()
    alice = opened(provider)
    for memory, concept, scope, category, private in (
        (alice, Concept.single("clinic", "Who treats somebody"), "/product/hospital", "illness", True),
        (alice.view(viewer="bob"), Concept.single("garage", "A place"), "/product/garage", "gearbox", True),
        (alice, Concept.single("office", "A place"), "/product/office", "address", False),
    ):
        for where in (scope, "/product/shared"):
            details = FactDetails(categories=(category,))
            await memory.save(SingleFact(concept, "x"), subject=USER, scope=where, details=details, private=private)
    return provider


def seen(model: ScriptedModel) -> str:
    return "\n".join(prompt.content for prompt in model.prompts)


async def say(memory: Memory, how: str, *, private: bool) -> None:
    """Have words read in every way there is."""
    options: dict[str, Any] = {"subject": USER, "private": private}
    said = talk("I have a cat.")
    match how:
        case "text":
            await memory.remember("The launch is in June.", **options)
        case "texts":
            await (await memory.remember_many(["The launch is in June."], **options)).wait()
        case "conversation":
            await memory.remember(said, scope="/product/shared", **options)
        case "generate":
            await (await memory.generate(said, scope="/product/shared", **options)).wait()
        case _:
            events = said.messages
            await (await memory.inbox.ingest_events("chat", events, scope="/product/shared", **options)).wait()


WAYS = pytest.mark.parametrize("how", ["text", "texts", "conversation", "generate", "events"])


@WAYS
@pytest.mark.parametrize("private", [False, True])
async def test_a_question_shows_nothing_private_of_others_and_the_owners_for_private_words_alone(
    provider: InMemoryProvider, model: ScriptedModel, how: str, private: bool
) -> None:
    async with opened(provider, model) as memory:
        await say(memory, how, private=private)
        assert model.prompts
        hidden, shown = (BOBS, PRIVATE) if private else ((*PRIVATE, *BOBS), PUBLIC)
        assert [word for word in hidden if word in seen(model)] == []
        assert any(word in seen(model) for word in shown) or how == "generate"


async def test_words_of_a_dead_letter_are_read_again_without_anything_private(
    provider: InMemoryProvider, model: ScriptedModel
) -> None:
    down = ScriptedModel(lambda prompt, answer: ModelRefusedError("no"))
    async with opened(provider, down) as memory:
        await memory.remember(talk("I have a cat."), subject=USER, scope="/product/shared")
    async with opened(provider, model) as memory:
        (outcome,) = await memory.inbox.dead_letters.retry()
        assert outcome.failure is None
    assert [word for word in (*PRIVATE, *BOBS) if word in seen(model)] == []


@pytest.mark.parametrize("private", [True, False])
async def test_a_wish_to_forget_all_of_a_concept_goes_for_its_own_owner_alone(private: bool) -> None:
    """Public and private facts are neither shown for each other nor retracted by each other."""
    wish = {"quote": "Forget my pets", "message": 0, "what": "my pets", "keyword": "pets", "value": None}
    model = ScriptedModel(
        lambda prompt, answer: {"forget": [wish]} if answer.__name__ == "Findings" else well(prompt, answer)
    )
    async with opened(InMemoryProvider(), model) as memory:
        await memory.save(PETS.fact(["cat"], timestamp=BEGAN), subject=USER, private=True)
        await memory.save(PETS.fact(["dog"], timestamp=BEGAN), subject=USER)
        await memory.remember(talk("Forget my pets."), subject=USER, private=private)
        left = [record.value for record in await memory.list_records(concepts=["pets"])]
        assert left == (["dog"] if private else ["cat"])
        assert ("dog" if private else "cat") not in seen(model)
