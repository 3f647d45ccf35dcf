"""Rerankers by name and of other packages: each on the wire, or with a model that is really loaded."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import attrs
import pytest
from langchain_core.documents import BaseDocumentCompressor, Document

from factmem import errors
from factmem.abc import Reranker
from factmem.abc.observer import Operation
from factmem.errors import InvalidDataError, MissingPackageError
from factmem.llm import CostReport
from factmem.llm.costs import Cost
from factmem.memory.facade import Memory
from factmem.reranking import CallableReranker, Reranking
from factmem.reranking.endpoints import EndpointReranker
from factmem.reranking.model_reranker import ModelReranker
from factmem.reranking.rerankers import as_reranker, reranker_named
from factmem.testing import HashEmbedder, ScriptedModel
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.tables import each_case

# The OpenAI client runs on asyncio and trio, but keeps its sockets a little longer than its loop.
pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.usefixtures("sockets_collected")]

TEXTS = ["Bo likes coffee", "Ada likes tea"]
KEY = "key-of-a-test"


@attrs.frozen(kw_only=True)
class Wire:
    """A request about `TEXTS`, and its answer.

    Attributes:
        name: Name of the reranker.
        key: Environment variable of the key; None for a server without one.
        path: Path of the request, below the base URL.
        body: Body of the request.
        answer: The answer, which scores the second text higher.
    """

    name: str
    key: str | None = None
    path: str = "/rerank"
    body: Mapping[str, Any]
    answer: Any


def documents(model: str) -> dict[str, Any]:
    return {"model": model, "query": "Who likes tea?", "documents": TEXTS}


def results(score: str, key: str = "results", **beside: Any) -> dict[str, Any]:
    return {key: [{"index": 1, score: 0.9}, {"index": 0, score: 0.2}], **beside}


WIRES = [
    Wire(
        name="cohere:rerank-v3.5",
        key="CO_API_KEY",
        path="/v2/rerank",
        body=documents("rerank-v3.5"),
        answer=results("relevance_score", meta={"billed_units": {"search_units": 1}}),
    ),
    Wire(
        name="jina:jina-reranker-v3",
        key="JINA_API_KEY",
        body=documents("jina-reranker-v3"),
        answer=results("relevance_score", usage={"total_tokens": 30}),
    ),
    Wire(
        name="voyage:rerank-2.5",
        key="VOYAGE_API_KEY",
        body=documents("rerank-2.5"),
        answer=results("relevance_score", "data", usage={"total_tokens": 30}),
    ),
    Wire(
        name="tei:bge-reranker",
        body={"query": "Who likes tea?", "texts": TEXTS, "truncate": True},
        answer=results("score")["results"],
    ),
    Wire(name="vllm:bge-reranker", body=documents("bge-reranker"), answer=results("relevance_score")),
]


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.name)
async def test_a_vendors_request_has_its_form(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    with LoopbackOpenAIServer(lambda path, request: Answer(wire.answer)) as server:
        if wire.key is not None:
            monkeypatch.setenv(wire.key, KEY)
        monkeypatch.setenv(f"{wire.name.partition(':')[0].upper()}_BASE_URL", server.base_url)
        assert await reranker_named(wire.name).rerank("Who likes tea?", TEXTS) == [0.2, 0.9]
        ((path, body),) = server.requests
        (headers,) = server.headers
    assert path.endswith(wire.path)
    assert body == wire.body
    assert headers.get("authorization") == (f"Bearer {KEY}" if wire.key is not None else None)


async def test_any_server_with_an_endpoint_rerank_is_named_by_its_address() -> None:
    with LoopbackOpenAIServer(lambda path, request: Answer(results("score"))) as server:
        reranker = reranker_named(f"{server.base_url}#tiny")
        assert await reranker.rerank("Who likes tea?", TEXTS) == [0.2, 0.9]
        assert server.requests[0][1] == documents("tiny")


async def test_more_texts_than_an_endpoint_takes_are_sent_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    def scores(path: str, request: dict[str, Any]) -> Answer:
        answer = [{"index": number, "score": float(text)} for number, text in enumerate(request["texts"])]
        return Answer(json.dumps(answer).encode())

    with LoopbackOpenAIServer(scores) as server:
        monkeypatch.setenv("TEI_BASE_URL", server.base_url)
        assert await reranker_named("tei:m").rerank("q", [str(number) for number in range(50)]) == [
            *map(float, range(50))
        ]
        assert [len(body["texts"]) for _, body in server.requests] == [32, 18]


@each_case("body", "status", "error")
async def test_a_failing_endpoint_is_a_model_error_without_the_text(
    body: str | dict[str, Any], status: int, error: str
) -> None:
    answer = Answer(body.encode() if isinstance(body, str) else body, status=status)
    with LoopbackOpenAIServer(lambda path, request: answer) as server:
        reranker = EndpointReranker("m", base_url=server.base_url, timeout=60.0, max_retries=0)
        with pytest.raises(getattr(errors, error)) as raised:
            await reranker.rerank("Who likes tea?", TEXTS)
    assert "tea" not in str(raised.value)
    assert "secret" not in str(raised.value)


@pytest.mark.parametrize(
    "wrong",
    [
        "",
        "magic",
        "cohere",
        "cohere:",
        "fastembed",
        "fastembed:",
        "jina:no-key-is-set",
        "http://[x/v1#m",
        "http://x/v1",
    ],
)
def test_a_name_written_wrongly_is_refused(wrong: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("JINA_API_KEY", raising=False)
    with pytest.raises(InvalidDataError) as raised:
        as_reranker(wrong)
    assert raised.value.path == "$.reranker"


async def test_a_cross_encoder_of_fastembed_is_loaded_from_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("fastembed", reason="the extra fastembed is not installed")
    tiny_models = pytest.importorskip("tests.tiny_models", reason="the package onnx is missing")
    folder = tiny_models.make_cross_encoder(tmp_path / "cross", ["tea", "coffee", "likes"])
    scores = await reranker_named(f"fastembed:{folder}").rerank("Who likes tea?", TEXTS)
    assert list(map(float, scores)) == [1.0, 2.0]


async def test_fastembed_says_how_to_install_it_when_it_is_missing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "fastembed.rerank.cross_encoder", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'factmem\[fastembed\]'"):
        await reranker_named(f"fastembed:{tmp_path}").rerank("q", TEXTS)


class Compressor(BaseDocumentCompressor):
    """A reranker of LangChain that drops what says nothing of tea, as those with ``top_n`` do."""

    scores: bool = True

    def compress_documents(
        self, documents: Sequence[Document], query: str, callbacks: object = None
    ) -> Sequence[Document]:
        kept = [document for document in documents if "tea" in document.page_content]
        if self.scores:
            for document in kept:
                document.metadata["relevance_score"] = 0.25
        return kept


@pytest.mark.parametrize("scores", [True, False])
async def test_a_document_compressor_of_langchain_serves_as_reranker(scores: bool) -> None:
    reranker = as_reranker(Compressor(scores=scores))
    assert isinstance(reranker, Reranker)
    other, tea = await reranker.rerank("Who likes tea?", TEXTS)
    assert tea == (0.25 if scores else 0.0)
    assert other < tea


async def test_a_language_model_orders_texts_and_is_shown_data_only() -> None:
    model = ScriptedModel(lambda prompt, answer: {"order": [2, 9, 2, "1"]})
    scores = await ModelReranker(model).rerank("Who likes <tea>?", [*TEXTS, "Cy likes <b>cocoa</b>"])
    assert scores == [pytest.approx(2 / 3), 1.0, 0.0]
    (prompt,) = model.prompts
    assert '<text number="2">Ada likes tea</text>' in prompt.content
    assert "<b>" not in prompt.content


async def test_a_language_model_reads_what_fits() -> None:
    model = ScriptedModel(lambda prompt, answer: {"order": [2, 1]}, max_chars=120)
    scores = await ModelReranker(model).rerank("Who likes tea?", TEXTS * 20)
    assert scores == [1.0, *[0.0] * 39]
    assert len(model.prompts[0].content) <= 120


async def test_the_memorys_own_model_costs_what_it_says() -> None:
    """A question to a model belongs to the operation that asks it."""
    costs = CostReport()
    answer = results("relevance_score", usage={"total_tokens": 30})
    with LoopbackOpenAIServer(lambda path, request: Answer(answer)) as server:
        reranker = EndpointReranker("m", base_url=server.base_url, timeout=60.0)
        options: dict[str, Any] = {"reranker": reranker, "reranking": Reranking(timeout=60.0), "observers": [costs]}
        async with Memory("memory:", embedder=HashEmbedder(), **options) as memory:
            await memory.remember_many(TEXTS)
            await memory.recall("Who likes tea?")
    assert costs.by_operation == {Operation.RERANK: Cost(requests=1, input_tokens=30)}


def test_model_stands_for_the_memorys_own_model() -> None:
    model = ScriptedModel(lambda prompt, answer: {})
    assert as_reranker("model", model) == ModelReranker(model)
    assert as_reranker(model) == ModelReranker(model)
    with pytest.raises(InvalidDataError, match="model="):
        Memory("memory:", reranker="model")


def test_another_object_is_refused_with_the_method_that_it_lacks() -> None:
    with pytest.raises(InvalidDataError, match=r"reranker takes an object with rerank\(\)"):
        Memory("memory:", reranker=3)  # type: ignore[arg-type]


async def test_plain_and_async_functions_serve_as_rerankers() -> None:
    async def lengths(query: str, texts: list[str]) -> list[int]:
        return [len(text) for text in texts]

    for function in (lengths, lambda query, texts: [len(text) for text in texts]):
        assert list(await CallableReranker(function).rerank("q", TEXTS)) == [15, 13]
