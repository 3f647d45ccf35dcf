"""Embedders of the package fastembed, loaded from folders: the models are tiny, the loading is real."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest

from factmem import InMemoryProvider, Memory
from factmem.errors import EmbedderError, EmbedderMismatchError, InvalidDataError, MissingPackageError
from factmem.recall.embedders import FastEmbedEmbedder, embed_checked, embedder_named

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
