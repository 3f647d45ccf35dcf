"""Addresses of language models, as on the command line, and keys from the environment for their own endpoint only."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from factmem.errors import InvalidDataError
from factmem.llm.asking import metered
from factmem.llm.instructor_model import OpenAIEndpoint, language_model
from factmem.testing.chat_answers import answering
from factmem.testing.openai_server import LoopbackOpenAIServer
from tests.llm.canary import PROMPT, RIGHT, Trip
from tests.tables import each_case


@pytest.fixture
def server() -> Iterator[LoopbackOpenAIServer]:
    """A server that always answers correctly."""
    with LoopbackOpenAIServer(answering(RIGHT)) as running:
        yield running


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_VERSION", "FACTMEM_MODEL_API_KEY"):
        monkeypatch.delenv(name, raising=False)


async def test_a_url_names_its_model_after_the_hash(server: LoopbackOpenAIServer) -> None:
    model = language_model(f"{server.base_url}#org/some-model:7b")
    assert await model.ask(PROMPT, Trip) == Trip(**RIGHT)
    assert server.requests[0][0] == "/v1/chat/completions"
    assert server.requests[0][1]["model"] == "org/some-model:7b"


async def test_openai_is_where_its_environment_variables_lead(
    server: LoopbackOpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
    monkeypatch.setenv("OPENAI_API_KEY", "openai-key")
    assert await language_model("openai/gpt-x").ask(PROMPT, Trip) == Trip(**RIGHT)
    assert server.requests[0][1]["model"] == "gpt-x"
    assert server.headers[0]["authorization"] == "Bearer openai-key"


async def test_no_other_server_is_shown_the_key_for_openai(
    server: LoopbackOpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither a local server nor a foreign address gets a key meant for OpenAI."""
    monkeypatch.setenv("OPENAI_API_KEY", "openai-key")
    await language_model(f"{server.base_url}#any").ask(PROMPT, Trip)
    monkeypatch.setenv("FACTMEM_MODEL_API_KEY", "own-key")
    await language_model(f"{server.base_url}#any").ask(PROMPT, Trip)
    assert [headers["authorization"] for headers in server.headers] == ["Bearer none", "Bearer own-key"]


@pytest.mark.parametrize("version", [None, "2025-04-01-preview"])
async def test_a_deployment_at_azure_is_asked_in_azures_form(
    version: str | None, server: LoopbackOpenAIServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AZURE_OPENAI_ENDPOINT", server.base_url.removesuffix("/v1"))
    monkeypatch.setenv("AZURE_OPENAI_API_KEY", "azure-key")
    monkeypatch.setenv("OPENAI_API_KEY", "openai-key")
    if version is not None:
        monkeypatch.setenv("OPENAI_API_VERSION", version)
    with metered() as spent:
        assert await language_model("azure_openai/my_team-gpt").ask(PROMPT, Trip) == Trip(**RIGHT)
    path, query = server.requests[0][0].partition("?")[::2]
    assert path == "/openai/deployments/my_team-gpt/chat/completions"
    assert query == f"api-version={version or '2024-02-01'}"
    assert server.headers[0]["api-key"] == "azure-key"
    assert "openai-key" not in str(server.headers)
    assert spent.requests == 1
    assert spent.input_tokens > 0


def test_every_provider_of_instructor_has_an_address() -> None:
    from instructor.auto_client import supported_providers

    for provider in {"azure_openai", *supported_providers} - {"openai"}:
        assert f"{provider}/some-model" in repr(language_model(f"{provider}/some-model"))


@each_case("address")
def test_what_is_no_address_is_refused(address: str) -> None:
    """A password in an address would be stored in a shell's history and shown in messages."""
    with pytest.raises(InvalidDataError) as caught:
        language_model(address)
    assert "pass@" not in str(caught.value)


@each_case("base_url", "modes")
def test_the_modes_fit_the_endpoint(base_url: str | None, modes: list[str]) -> None:
    endpoint = OpenAIEndpoint("any", base_url=base_url, api_key=None, mode=None, timeout=1.0)
    assert list(endpoint.modes()) == modes
