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
from tests.tables import each_case

# The OpenAI client runs on asyncio and trio, but keeps its sockets a little longer than its loop.
pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.usefixtures("sockets_collected")]

KEY = "key-of-a-test"
_BEARER = {"authorization": f"Bearer {KEY}"}
_VECTOR = [0.5, 1.0, 0.25]
_DATA = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": _VECTOR}], "usage": {}}


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
    answer: Any = _DATA
    headers: Mapping[str, str] = _BEARER
    name: str

    def answers(self, path: str, request: dict[str, Any]) -> Answer:
        """Answer a request, also one to exchange the key."""
        exchanged = path == "/identity/token"
        return Answer({"access_token": KEY, "expires_in": 3600} if exchanged else json.dumps(self.answer).encode())


# The names are those of CrewAI's providers, then those of other vendors and servers.
WIRES = [Wire(**wire) for wire in json.loads(Path(__file__).with_name("embedding_vendors_wires.json").read_text())]

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
    with LoopbackOpenAIServer(wire.answers) as server:
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


@each_case("address", "field")
async def test_a_dimension_is_asked_for_in_each_vendors_words_and_only_when_given(
    address: str, field: tuple[str | int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    (wire,) = [wire for wire in WIRES if wire.address == address] or [
        wire
        for wire in WIRES
        if VENDORS[wire.address.partition(":")[0]] is VENDORS[address.partition(":")[0]]
        and "cohere." not in wire.address
    ]
    with LoopbackOpenAIServer(wire.answers) as server:
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


@each_case("address", "variable")
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
