"""Embedders by the name of their vendor: the exact form of each request, over a real socket."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from factmem import InMemoryProvider, Memory
from factmem.abc.capabilities import EmbedderIdentity
from factmem.errors import EmbedderError, EmbedderMismatchError, InvalidDataError
from factmem.recall import OpenAIEmbedder
from factmem.recall.embedders import embedder_named
from factmem.recall.embedding_vendors import VENDORS, Vendor
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.tables import cases

CASES = cases(Path(__file__).with_name("embedding_vendors_cases.txt"))

# The OpenAI client runs on asyncio and trio, but keeps its sockets a little longer than its loop.
pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.usefixtures("sockets_collected")]

KEY = "key-of-a-test"
_BEARER = {"authorization": f"Bearer {KEY}"}


@attrs.frozen(kw_only=True)
class Wire:
    """Requests to a vendor for the document ``tea`` and the question ``coffee``, and its answer.

    Attributes:
        address: Address of the embedder.
        environment: Environment variables, besides that of the base URL; ``BASE`` in them stands for the server.
        path: Path of the request, below the base URL.
        document: Body of the request for a document.
        question: Body of the request for a question.
        answer: The answer, with a vector of three dimensions.
        headers: Headers that carry the key.
        name: Name of the embedder's identity.
    """

    address: str
    environment: Mapping[str, str] = {}
    path: str = "/embeddings"
    document: dict[str, Any]
    question: dict[str, Any]
    answer: Any
    headers: Mapping[str, str] = _BEARER
    name: str


_VECTOR = [0.5, 1.0, 0.25]
_DATA = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": _VECTOR}], "usage": {}}


def plain(address: str, key: str | None, model: str, *, prefixes: tuple[str, str] = ("", ""), name: str = "") -> Wire:
    """Return OpenAI's form."""
    return Wire(
        address=address,
        environment={key: KEY} if key else {},
        document={"model": model, "input": [f"{prefixes[0]}tea"]},
        question={"model": model, "input": [f"{prefixes[1]}coffee"]},
        answer=_DATA,
        headers=_BEARER if key else {},
        name=name or model,
    )


def told(field: str, document: str, question: str, of: Wire, mark: str) -> Wire:
    """Return a form that tells documents from questions by a field."""
    return attrs.evolve(
        of,
        document={**of.document, field: document},
        question={**of.question, field: question},
        name=f"{of.name}+{mark}",
    )


def cohere(purpose: str, text: str) -> dict[str, Any]:
    return {"texts": [text], "input_type": purpose, "embedding_types": ["float"]}


def gemini(task: str, text: str) -> dict[str, Any]:
    model = "models/gemini-embedding-001"
    return {"requests": [{"model": model, "content": {"parts": [{"text": text}]}, "taskType": task}]}


E5 = ("passage: ", "query: ")

# The names are those of CrewAI's providers, then those of other vendors and servers.
WIRES = [
    plain("openai:text-embedding-ada-003", "OPENAI_API_KEY", "text-embedding-ada-003"),
    attrs.evolve(
        plain("azure:my-deployment", "AZURE_OPENAI_API_KEY", "my-deployment"),
        headers={"api-key": KEY},
        environment={"AZURE_OPENAI_API_KEY": KEY, "AZURE_OPENAI_ENDPOINT": "https://my.openai.azure.com/"},
    ),
    Wire(
        address="amazon-bedrock:amazon.titan-embed-text-v2:0",
        environment={"AWS_BEARER_TOKEN_BEDROCK": KEY},
        path="/model/amazon.titan-embed-text-v2%3A0/invoke",
        document={"inputText": "tea"},
        question={"inputText": "coffee"},
        answer={"embedding": _VECTOR, "inputTextTokenCount": 1},
        name="amazon.titan-embed-text-v2:0",
    ),
    Wire(
        address="bedrock:cohere.embed-v4:0",
        environment={"AWS_BEARER_TOKEN_BEDROCK": KEY},
        path="/model/cohere.embed-v4%3A0/invoke",
        document=cohere("search_document", "tea"),
        question=cohere("search_query", "coffee"),
        answer={"embeddings": {"float": [_VECTOR]}},
        name="cohere.embed-v4:0+search_document",
    ),
    Wire(
        address="cohere:embed-v4.0",
        environment={"CO_API_KEY": KEY},
        path="/v2/embed",
        document={"model": "embed-v4.0", **cohere("search_document", "tea")},
        question={"model": "embed-v4.0", **cohere("search_query", "coffee")},
        answer={"embeddings": {"float": [_VECTOR]}, "meta": {"billed_units": {"input_tokens": 1}}},
        name="embed-v4.0+search_document",
    ),
    Wire(
        address="google-generativeai:gemini-embedding-001",
        environment={"GOOGLE_API_KEY": KEY},
        path="/models/gemini-embedding-001:batchEmbedContents",
        document=gemini("RETRIEVAL_DOCUMENT", "tea"),
        question=gemini("RETRIEVAL_QUERY", "coffee"),
        answer={"embeddings": [{"values": _VECTOR}]},
        headers={"x-goog-api-key": KEY},
        name="gemini-embedding-001+RETRIEVAL_DOCUMENT",
    ),
    Wire(
        address="google-vertex:text-embedding-005",
        environment={"GOOGLE_OAUTH_ACCESS_TOKEN": KEY, "GOOGLE_CLOUD_PROJECT": "mine"},
        path="/models/text-embedding-005:predict",
        document={"instances": [{"content": "tea", "task_type": "RETRIEVAL_DOCUMENT"}]},
        question={"instances": [{"content": "coffee", "task_type": "RETRIEVAL_QUERY"}]},
        answer={"predictions": [{"embeddings": {"values": _VECTOR, "statistics": {"token_count": 1}}}]},
        name="text-embedding-005+RETRIEVAL_DOCUMENT",
    ),
    Wire(
        address="huggingface:intfloat/multilingual-e5-large",
        environment={"HF_TOKEN": KEY},
        path="/intfloat/multilingual-e5-large/pipeline/feature-extraction",
        document={"inputs": ["passage: tea"]},
        question={"inputs": ["query: coffee"]},
        answer=json.dumps([_VECTOR]).encode(),
        name="intfloat/multilingual-e5-large+passage",
    ),
    plain("instructor:hkunlp/instructor-xl", None, "hkunlp/instructor-xl"),
    told(
        "task",
        "retrieval.passage",
        "retrieval.query",
        plain("jina:jina-embeddings-v3", "JINA_API_KEY", "jina-embeddings-v3"),
        "retrieval.passage",
    ),
    plain("ollama:bge-m3", None, "bge-m3"),
    plain("openclip:ViT-B-32", None, "ViT-B-32"),
    Wire(
        address="roboflow:ViT-B-16",
        environment={"ROBOFLOW_API_KEY": KEY},
        path="/clip/embed_text",
        document={"clip_version_id": "ViT-B-16", "text": ["tea"], "api_key": KEY},
        question={"clip_version_id": "ViT-B-16", "text": ["coffee"], "api_key": KEY},
        answer={"embeddings": [_VECTOR], "time": 0.1},
        headers={},
        name="ViT-B-16",
    ),
    plain("sentence-transformer:all-MiniLM-L6-v2", None, "all-MiniLM-L6-v2"),
    plain("text2vec:shibing624/text2vec-base-chinese", None, "shibing624/text2vec-base-chinese"),
    told(
        "input_type",
        "document",
        "query",
        plain("voyageai:voyage-3", "VOYAGE_API_KEY", "voyage-3"),
        "document",
    ),
    Wire(
        address="watsonx:ibm/slate-125m-english-rtrvr",
        environment={
            "WATSONX_API_KEY": "exchanged",
            "WATSONX_PROJECT_ID": "p-1",
            "WATSONX_IAM_URL": "BASE/identity/token",
        },
        path="/ml/v1/text/embeddings?version=2024-05-31",
        document={"model_id": "ibm/slate-125m-english-rtrvr", "project_id": "p-1", "inputs": ["tea"]},
        question={"model_id": "ibm/slate-125m-english-rtrvr", "project_id": "p-1", "inputs": ["coffee"]},
        answer={"results": [{"embedding": _VECTOR}], "input_token_count": 1},
        name="ibm/slate-125m-english-rtrvr",
    ),
    plain("dashscope:text-embedding-v4", "DASHSCOPE_API_KEY", "text-embedding-v4"),
    plain("deepinfra:BAAI/bge-m3", "DEEPINFRA_API_KEY", "BAAI/bge-m3"),
    plain(
        "fireworks:nomic-ai/nomic-embed-text-v1.5",
        "FIREWORKS_API_KEY",
        "nomic-ai/nomic-embed-text-v1.5",
        prefixes=("search_document: ", "search_query: "),
        name="nomic-ai/nomic-embed-text-v1.5+search_document",
    ),
    plain("github:openai/text-embedding-3-small", "GITHUB_TOKEN", "openai/text-embedding-3-small"),
    plain("mistral:mistral-embed", "MISTRAL_API_KEY", "mistral-embed"),
    plain("nebius:Qwen/Qwen3-Embedding-8B", "NEBIUS_API_KEY", "Qwen/Qwen3-Embedding-8B"),
    told(
        "input_type",
        "passage",
        "query",
        plain("nvidia:nvidia/nv-embedqa-e5-v5", "NVIDIA_API_KEY", "nvidia/nv-embedqa-e5-v5"),
        "passage",
    ),
    plain("openrouter:qwen/qwen3-embedding-8b", "OPENROUTER_API_KEY", "qwen/qwen3-embedding-8b"),
    plain(
        "together:intfloat/multilingual-e5-large-instruct",
        "TOGETHER_API_KEY",
        "intfloat/multilingual-e5-large-instruct",
    ),
    plain("llamacpp:gguf", None, "gguf"),
    plain("lmstudio:e5-base-v2", None, "e5-base-v2", prefixes=E5, name="e5-base-v2+passage"),
    plain(
        "tei:BAAI/bge-small-en-v1.5",
        None,
        "BAAI/bge-small-en-v1.5",
        prefixes=("", "Represent this sentence for searching relevant passages: "),
    ),
    plain("vllm:intfloat/e5-small", None, "intfloat/e5-small", prefixes=E5, name="intfloat/e5-small+passage"),
]

CREWAI = {
    *("azure", "amazon-bedrock", "cohere", "google-generativeai", "google-vertex", "huggingface", "instructor", "jina"),
    *("ollama", "openai", "openclip", "roboflow", "sentence-transformer", "text2vec", "voyageai", "watsonx"),
}


def of(address: str) -> Vendor:
    """Return the vendor in an address."""
    return VENDORS[address.partition(":")[0]]


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for vendor in VENDORS.values():
        for variable in (*vendor.keys, *vendor.settings, vendor.url_variable):
            monkeypatch.delenv(variable, raising=False)


def opened(wire: Wire, server: LoopbackOpenAIServer, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return the embedder of a vendor whose endpoint is the server."""
    vendor = of(wire.address)
    base = server.base_url.removesuffix("/v1")
    monkeypatch.setenv(vendor.url_variable, f"{base}/base")
    for variable, value in wire.environment.items():
        monkeypatch.setenv(variable, value.replace("BASE", base))
    return embedder_named(wire.address)


@pytest.mark.parametrize("wire", WIRES, ids=lambda wire: wire.address)
async def test_a_vendor_is_asked_in_its_own_form(wire: Wire, monkeypatch: pytest.MonkeyPatch) -> None:
    def respond(path: str, request: dict[str, Any]) -> Answer:
        if path == "/identity/token":
            return Answer({"access_token": KEY, "expires_in": 3600})
        return Answer(wire.answer)

    with LoopbackOpenAIServer(respond) as server:
        embedder = opened(wire, server, monkeypatch)
        document, question = await embedder.embed(["tea"]), await embedder.embed_query(["coffee"])
        identity = await embedder.identity()
        await embedder.aclose()
    asked = [
        (request, headers)
        for request, headers in zip(server.requests, server.headers, strict=True)
        if request[0] != "/identity/token"
    ]
    path = f"/base{wire.path}"
    assert [request for request, _ in asked[:2]] == [(path, wire.document), (path, wire.question)]
    assert identity == EmbedderIdentity(name=wire.name, dimension=3)
    for _, headers in asked:
        assert {name: headers.get(name) for name in ("authorization", "api-key", "x-goog-api-key")} == {
            "authorization": None,
            "api-key": None,
            "x-goog-api-key": None,
            **wire.headers,
        }
    np.testing.assert_array_equal(document, np.array([_VECTOR], np.float32))
    np.testing.assert_array_equal(question, np.array([_VECTOR], np.float32))


def test_the_embedders_of_crewai_have_their_names_here() -> None:
    assert {wire.address.partition(":")[0] for wire in WIRES} >= CREWAI
    tested = {of(wire.address).names[0] for wire in WIRES}
    assert tested == {vendor.names[0] for vendor in VENDORS.values()}


@pytest.mark.parametrize(
    ("address", "field"), CASES["a dimension is asked for in each vendors words and only when given"]
)
async def test_a_dimension_is_asked_for_in_each_vendors_words_and_only_when_given(
    address: str, field: tuple[str | int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (wire,) = [wire for wire in WIRES if wire.address == address] or [
        wire
        for wire in WIRES
        if VENDORS[wire.address.partition(":")[0]] is VENDORS[address.partition(":")[0]]
        and "cohere." not in wire.address
    ]
    with LoopbackOpenAIServer(lambda path, request: Answer(wire.answer)) as server:
        embedder = opened(attrs.evolve(wire, address=f"{address}@3"), server, monkeypatch)
        assert (await embedder.identity()).dimension == 3
        assert not server.requests
        await embedder.embed(["tea"])
        await embedder.aclose()
    found: Any = server.requests[0][1]
    for step in field:
        found = found[step]
    assert found == 3


@pytest.mark.parametrize("name", ["huggingface", "watsonx", "roboflow"])
def test_a_dimension_is_refused_where_it_cannot_be_asked_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (*VENDORS[name].keys, *VENDORS[name].settings):
        monkeypatch.setenv(variable, "https://x")
    with pytest.raises(InvalidDataError, match="dimension"):
        embedder_named(f"{name}:model@256")


@pytest.mark.parametrize(("address", "variable"), CASES["a missing key or setting is named before anything is asked"])
def test_a_missing_key_or_setting_is_named_before_anything_is_asked(address: str, variable: str) -> None:
    with pytest.raises(InvalidDataError, match=variable):
        embedder_named(address)


async def test_the_addresses_of_vendors_are_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without another base URL, the endpoint is the vendor's, with the values of its settings."""
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", "https://my.openai.azure.com/")
    monkeypatch.setenv("GOOGLE_CLOUD_PROJECT", "mine")
    bases = {
        vendor.names[0]: vendor.base_url.format(
            **{name: (os.environ.get(name) or default or "").rstrip("/") for name, default in vendor.settings.items()}
        )
        for vendor in VENDORS.values()
    }
    assert bases["azure"] == "https://my.openai.azure.com/openai/v1"
    assert bases["bedrock"] == "https://bedrock-runtime.us-east-1.amazonaws.com"
    assert bases["vertex"] == (
        "https://us-central1-aiplatform.googleapis.com/v1/projects/mine/locations/us-central1/publishers/google"
    )
    assert all(base.startswith(("https://", "http://localhost:")) for base in bases.values() if base)


async def test_a_store_knows_whether_its_documents_were_marked_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """Vectors of documents with a mark and without one are not mixed."""
    provider = InMemoryProvider()
    with LoopbackOpenAIServer(lambda path, request: Answer(_several(request))) as server:
        monkeypatch.setenv("VLLM_BASE_URL", server.base_url)
        plain_one = OpenAIEmbedder("e5-small", base_url=server.base_url, api_key="none")
        async with Memory(provider, embedder=plain_one) as memory:
            await memory.remember("The door code changes on Monday.")
        async with Memory(provider, embedder="vllm:e5-small") as memory:
            with pytest.raises(EmbedderMismatchError, match=r"e5-small\+passage"):
                await memory.recall("door")
            assert await memory.admin.reembed() == 1
            assert (await memory.recall("door"))[0].parts.cosine > 0
        await plain_one.aclose()


def _several(request: dict[str, Any]) -> dict[str, Any]:
    rows = [{"index": index, "embedding": [float(len(text)), 1.0]} for index, text in enumerate(request["input"])]
    return {"data": rows[::-1]}


async def test_a_key_of_ibm_cloud_is_exchanged_once_and_again_when_its_token_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (wire,) = [wire for wire in WIRES if wire.address.startswith("watsonx")]
    lifetimes = iter([3600, 30, 3600])

    def respond(path: str, request: dict[str, Any]) -> Answer:
        if path == "/identity/token":
            assert request["apikey"] == "exchanged"
            return Answer({"access_token": KEY, "expires_in": next(lifetimes)})
        return Answer(wire.answer)

    def exchanges(server: LoopbackOpenAIServer) -> int:
        return sum(path == "/identity/token" for path, _ in server.requests)

    with LoopbackOpenAIServer(respond) as server:
        lasting = opened(wire, server, monkeypatch)
        for _ in range(3):
            await lasting.embed(["tea"])
        assert exchanges(server) == 1
        short = opened(wire, server, monkeypatch)  # its token is about to end
        await short.embed(["tea"])
        await short.embed(["tea"])
        assert exchanges(server) == 3
        await lasting.aclose()
        await short.aclose()


@pytest.mark.parametrize("answer", [Answer({"errorMessage": "no"}, status=400), Answer({}), Answer(b"<html>")])
async def test_a_refused_key_of_ibm_cloud_is_an_embedder_error(answer: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    (wire,) = [wire for wire in WIRES if wire.address.startswith("watsonx")]
    with LoopbackOpenAIServer(lambda path, request: answer) as server:
        embedder = opened(wire, server, monkeypatch)
        with pytest.raises(EmbedderError, match="WATSONX_API_KEY") as caught:
            await embedder.embed(["tea"])
        await embedder.aclose()
    assert "exchanged" not in repr(caught.value)


async def test_openais_own_models_are_not_asked_for_their_dimension() -> None:
    for model, dimension in (("text-embedding-3-large", 3072), ("text-embedding-ada-002", 1536)):
        identity = await OpenAIEmbedder(model, api_key="none").identity()
        assert identity == EmbedderIdentity(name=model, dimension=dimension)


async def test_a_missing_key_of_openai_is_an_error_that_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(EmbedderError, match="OPENAI_API_KEY"):
        await OpenAIEmbedder("bge-m3", base_url="http://127.0.0.1:9/v1").embed(["tea"])


async def test_a_busy_vendor_is_asked_again() -> None:
    answers = iter([Answer({"error": "busy"}, status=429, headers={"Retry-After": "0"}), Answer(_DATA)])
    with LoopbackOpenAIServer(lambda path, request: next(answers)) as server:
        embedder = OpenAIEmbedder("bge-m3", base_url=server.base_url, api_key="none")
        assert (await embedder.identity()).dimension == 3
        await embedder.aclose()
    assert len(server.requests) == 2
