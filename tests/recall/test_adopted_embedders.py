"""Embedders of LangChain and pydantic-ai, passed as they are, and of fastembed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from factmem import AgentMemoryConfig, InMemoryProvider, Memory
from factmem.abc.capabilities import EmbedderIdentity
from factmem.errors import EmbedderMismatchError, InvalidDataError
from factmem.recall.adopted_embedders import as_embedder

pytest.importorskip("langchain_core", reason="the extra langchain is not installed")
pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")

import shutil
import sys
from pathlib import Path

import pytest
from langchain_core.embeddings import DeterministicFakeEmbedding, Embeddings
from pydantic_ai import Embedder as HostedEmbedder
from pydantic_ai.embeddings import EmbeddingResult
from pydantic_ai.embeddings.result import EmbedInputType
from pydantic_ai.embeddings.settings import EmbeddingSettings
from pydantic_ai.embeddings.test import TestEmbeddingModel as FixedVectors

from factmem.errors import EmbedderError, MissingPackageError
from factmem.recall.embedders import FastEmbedEmbedder, embed_checked, embedder_named
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
    assert (await not_none(as_embedder(HostedEmbedder(model))).identity()).name == "ours:recorded+document"
    assert model.asked.count("query") == 1
    assert "document" in model.asked


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


# The package fastembed, loaded from folders: the models are tiny, the loading is real


pytest.importorskip("fastembed", reason="the extra fastembed is not installed")
tiny_models = pytest.importorskip("tests.tiny_models", reason="the package onnx, which makes the models, is missing")

WORDS = ["tea", "coffee", "likes", "passage", "query"]


@pytest.mark.parametrize("weights", ["model.onnx", "onnx/model.onnx", "quantized_by_hand.onnx"])
async def test_a_model_in_a_folder_is_loaded_by_its_path(tmp_path: Path, weights: str) -> None:
    folder = tiny_models.make_embedding_model(tmp_path / "tiny", WORDS, weights=weights)
    embedder = embedder_named(f"fastembed:{folder}")
    rows = await embed_checked(embedder, ["Ada likes tea", "tea", "coffee", "tea likes coffee coffee coffee"])
    assert rows.shape == (4, len(WORDS) + 4)
    assert (await embedder.identity()).dimension == len(WORDS) + 4
    assert rows[0] @ rows[1] > rows[0] @ rows[2]
    assert rows[3] @ rows[2] > rows[3] @ rows[1]  # texts of other lengths keep their places


async def test_a_model_in_a_folder_is_known_by_its_weights_wherever_it_lies(tmp_path: Path) -> None:
    folder = tiny_models.make_embedding_model(tmp_path / "here" / "tiny", WORDS)
    moved = shutil.copytree(folder, tmp_path / "there" / "tiny")
    other = tiny_models.make_embedding_model(tmp_path / "other" / "tiny", [*WORDS, "cocoa"])
    names = [(await FastEmbedEmbedder(str(path)).identity()).name for path in (folder, moved, other)]
    assert names[0] == names[1] != names[2]
    assert all(name.startswith("tiny@") for name in names)


async def test_questions_and_documents_get_the_prefixes_of_the_model(tmp_path: Path) -> None:
    embedder = FastEmbedEmbedder(str(tiny_models.make_embedding_model(tmp_path / "multilingual-e5-small", WORDS)))
    (document,), (question,) = await embedder.embed(["tea"]), await embedder.embed_query(["tea"])
    passage, query = (4 + WORDS.index(word) for word in ("passage", "query"))
    assert document[passage] > 0 == document[query]
    assert question[query] > 0 == question[passage]
    assert (await embedder.identity()).name.endswith("+passage")


async def test_vectors_are_pooled_as_the_folder_says(tmp_path: Path) -> None:
    folder = tiny_models.make_embedding_model(tmp_path / "tiny", WORDS)
    (folder / "1_Pooling").mkdir()
    (folder / "1_Pooling" / "config.json").write_text('{"pooling_mode_cls_token": true}')
    (row,) = await FastEmbedEmbedder(str(folder)).embed(["tea"])
    assert row.tolist() == [0, 1, 0, 0, 0, 0, 0, 0, 0]  # the vector of [CLS]


async def test_a_model_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(EmbedderError, match=r"no model 'acme/none'.*list_supported_models"):
        await FastEmbedEmbedder("acme/none").embed(["tea"])
    with pytest.raises(EmbedderError, match=r"no weights in ONNX"):
        await FastEmbedEmbedder(str(tmp_path)).embed(["tea"])
    with pytest.raises(InvalidDataError):
        FastEmbedEmbedder("")


@pytest.mark.filterwarnings("ignore::ResourceWarning")
async def test_a_model_that_cannot_be_downloaded_is_an_embedder_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("FASTEMBED_CACHE_PATH", str(tmp_path))
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    with pytest.raises(EmbedderError, match=r"cannot load BAAI/bge-small-en-v1\.5.*give the path of a folder"):
        await FastEmbedEmbedder("BAAI/bge-small-en-v1.5").embed(["tea"])


async def test_fastembed_says_how_to_install_it_when_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'factmem\[fastembed\]'"):
        await FastEmbedEmbedder(str(tmp_path)).embed(["text"])


async def test_a_store_changes_to_a_model_in_a_folder_with_progress(tmp_path: Path) -> None:
    folder = tiny_models.make_embedding_model(tmp_path / "tiny", WORDS)
    provider, shares = InMemoryProvider(), list[float]()
    async with Memory(provider) as memory:
        await memory.remember("Ada likes tea.")
        await memory.recall("tea")
    async with Memory(provider, embedder=f"fastembed:{folder}") as memory:
        with pytest.raises(EmbedderMismatchError, match="reembed"):
            await memory.recall("tea")
        assert await memory.admin.reembed(shares.append) == 1
        (found,) = await memory.recall("tea")
    assert shares == [1.0]
    assert found.parts.cosine > 0
