"""Embedders of LangChain and pydantic-ai, passed as they are."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from factmem import AgentMemoryConfig, InMemoryProvider, Memory
from factmem.abc.capabilities import EmbedderIdentity
from factmem.errors import EmbedderMismatchError, InvalidDataError
from factmem.recall.adopted_embedders import as_embedder

pytest.importorskip("langchain_core", reason="the extra langchain is not installed")
pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")

from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from pydantic_ai import Embedder as HostedEmbedder
from pydantic_ai.embeddings import EmbeddingResult
from pydantic_ai.embeddings.result import EmbedInputType
from pydantic_ai.embeddings.settings import EmbeddingSettings
from pydantic_ai.embeddings.test import TestEmbeddingModel as FixedVectors

from tests.narrowing import not_none


class CountedLetters(Embeddings):
    """An ``Embeddings`` of two dimensions that tells questions from documents."""

    model = "letters-1"

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        return [[float(len(text)), 1.0] for text in texts]

    def embed_query(self, text: str) -> list[float]:
        return [1.0, float(len(text))]


class Recorded(FixedVectors):
    """pydantic-ai's own model for tests, with a record of what it was asked for."""

    def __init__(self) -> None:
        super().__init__("recorded", provider_name="ours", dimensions=3)
        self.asked: list[EmbedInputType] = []

    async def embed(
        self, inputs: str | Sequence[str], *, input_type: EmbedInputType, settings: EmbeddingSettings | None = None
    ) -> EmbeddingResult:
        self.asked.append(input_type)
        return await super().embed(inputs, input_type=input_type, settings=settings)


async def test_an_embeddings_object_of_langchain_serves_as_embedder() -> None:
    async with Memory(InMemoryProvider(), embedder=CountedLetters()) as memory:
        await memory.remember("We meet at the harbour.")
        (match,) = found = await memory.recall("harbour")
    assert found.failure is None
    assert match.parts.cosine > 0


async def test_langchains_questions_go_to_the_method_for_questions() -> None:
    embedder = not_none(as_embedder(CountedLetters()))
    assert await embedder.identity() == EmbedderIdentity(name="CountedLetters:letters-1", dimension=2)
    assert (await embedder.embed(["four"])) == [[4.0, 1.0]]
    assert (await embedder.embed_query(["four"])) == [[1.0, 4.0]]  # type: ignore[attr-defined]


async def test_an_embedder_of_pydantic_ai_serves_as_embedder_and_tells_questions_apart() -> None:
    model = Recorded()
    async with Memory(InMemoryProvider(), embedder=HostedEmbedder(model)) as memory:
        await memory.remember("We meet at the harbour.")
        assert (await memory.recall("harbour"))[0].parts.cosine == pytest.approx(1)
    assert model.asked.count("query") == 1
    assert "document" in model.asked


async def test_a_store_of_one_foreign_model_refuses_another() -> None:
    provider = InMemoryProvider()
    async with Memory(provider, embedder=HostedEmbedder(Recorded())) as memory:
        await memory.remember("The door code changes on Monday.")
    async with Memory(provider, embedder=CountedLetters()) as memory:
        with pytest.raises(EmbedderMismatchError, match="ours:recorded"):
            await memory.recall("door")


async def test_a_model_without_a_name_is_known_by_its_class() -> None:
    embedder = not_none(as_embedder(DeterministicFakeEmbedding(size=7)))
    assert await embedder.identity() == EmbedderIdentity(name="DeterministicFakeEmbedding", dimension=7)


def test_the_plugin_takes_the_same_objects_and_names() -> None:
    config = AgentMemoryConfig(agent_name="a", embedder=CountedLetters())
    assert config.embedder is not None
    with pytest.raises(InvalidDataError, match="no embedder is called"):
        AgentMemoryConfig(agent_name="a", embedder="bert")


def test_another_object_is_refused_with_the_methods_that_it_lacks() -> None:
    with pytest.raises(InvalidDataError, match=r"identity\(\) and embed\(\)"):
        Memory(InMemoryProvider(), embedder=object())  # type: ignore[arg-type]
