"""Models of LangChain, pydantic-ai and the OpenAI Agents SDK, passed as they are: the real ones, over a real socket."""

from __future__ import annotations

import gc
import logging
from collections.abc import Callable
from typing import Any, TypedDict

import anyio
import attrs
import pytest
from pydantic import SecretStr

from factmem import AgentMemoryConfig, Concept, InMemoryProvider, LanguageModel, Memory, Message
from factmem.abc import DetectionRequest
from factmem.abc.observer import Operation
from factmem.errors import InvalidDataError, ModelAnswerError, ModelError, ModelRefusedError, ModelUnavailableError
from factmem.llm import CostReport
from factmem.llm.asking import metered
from factmem.llm.costs import Cost
from factmem.llm.host_models import HostModel, as_language_model
from factmem.testing import HashEmbedder
from factmem.testing.chat_answers import (
    Said,
    answering,
    chat_answer,
    error_answer,
    response_answer,
    unreachable_base_url,
)
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.llm.canary import CANARY, PROMPT, RIGHT, Trip, shown_by

pytestmark = pytest.mark.slow


def langchain(base_url: str, kind: str = "ChatOpenAI", **settings: Any) -> Any:
    """Return a chat model of LangChain."""
    models = pytest.importorskip("langchain_openai.chat_models.base", reason="langchain-openai is not installed")
    import openai

    client = openai.DefaultAsyncHttpxClient()  # LangChain would keep one for all models
    given = {"api_key": SecretStr("key"), "max_retries": 0, "http_async_client": client, **settings}
    return getattr(models, kind)(model="loopback", base_url=base_url, **given)


def langchain_by_responses(base_url: str) -> Any:
    """Return the same, over the Responses API."""
    return langchain(base_url, use_responses_api=True)


def langchain_by_tools(base_url: str) -> Any:
    """Return a chat model of LangChain that is given a tool for the answer."""
    return langchain(base_url, "BaseChatOpenAI")


def pydantic_ai(base_url: str) -> Any:
    """Return a ``Model`` of pydantic-ai."""
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    import openai
    from pydantic_ai.models.openai import OpenAIChatModel
    from pydantic_ai.providers.openai import OpenAIProvider

    client = openai.AsyncOpenAI(base_url=base_url, api_key="key", max_retries=0)
    return OpenAIChatModel("loopback", provider=OpenAIProvider(openai_client=client))


def pydantic_ai_by_responses(base_url: str) -> Any:
    """Return a ``Model`` of pydantic-ai over the Responses API."""
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    import openai
    from openai.types.responses import Response
    from pydantic_ai.models.openai import OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    if "prompt_cache_diagnostics" not in Response.model_fields:
        pytest.skip("this pydantic-ai wants a newer openai than is installed")
    client = openai.AsyncOpenAI(base_url=base_url, api_key="key", max_retries=0)
    return OpenAIResponsesModel("loopback", provider=OpenAIProvider(openai_client=client))


def agents_sdk(base_url: str, kind: str = "OpenAIChatCompletionsModel") -> Any:
    """Return a ``Model`` of the OpenAI Agents SDK."""
    agents = pytest.importorskip("agents", reason="the extra openai-agents is not installed")
    import openai

    client = openai.AsyncOpenAI(base_url=base_url, api_key="key", max_retries=0)
    return getattr(agents, kind)("loopback", client)


def agents_sdk_by_responses(base_url: str) -> Any:
    """Return the same, over the Responses API."""
    return agents_sdk(base_url, "OpenAIResponsesModel")


CHAT = (langchain, langchain_by_tools, pydantic_ai, agents_sdk)
RESPONSES = (langchain_by_responses, pydantic_ai_by_responses, agents_sdk_by_responses)
CLIENTS = (langchain, pydantic_ai, agents_sdk)
"""One of each host, whose models share a client for all of its APIs."""

Made = Callable[[str], Any]
every = pytest.mark.parametrize("made", [*CHAT, *RESPONSES])
each_client = pytest.mark.parametrize("made", CLIENTS)


def asked_of(model: Any, **limits: Any) -> HostModel:
    return HostModel(model, **{"timeout": 60.0, "tries": 2, **limits})


@every
async def test_a_hosts_model_answers_as_it_is(made: Made) -> None:
    """It is asked once, by its own structured output, with the schema and without words of ours about JSON."""
    with LoopbackOpenAIServer(answering(RIGHT)) as server:
        model = as_language_model(made(server.base_url))
        assert isinstance(model, LanguageModel)
        with metered() as spent:
            answer = await model.ask(PROMPT, Trip)
    assert (type(answer), answer) == (Trip, Trip(**RIGHT))
    ((_, request),) = server.requests
    sent = str(request)
    assert sent.count("'maximum': 9") == 1
    assert "Trip" in sent
    assert [sent.count(text) for text in (PROMPT.instructions, PROMPT.examples[0].content, PROMPT.content)] == [1, 1, 1]
    assert "Answer with one JSON object" not in sent
    assert (spent.requests, spent.input_tokens, spent.output_tokens) == (1, 1, 1)


@every
async def test_an_invalid_answer_is_asked_for_again_with_its_faults(made: Made) -> None:
    with LoopbackOpenAIServer(answering({"city": "Rome", "seats": 99}, RIGHT)) as server:
        assert await asked_of(made(server.base_url)).ask(PROMPT, Trip) == Trip(**RIGHT)
    first, second = (request for _, request in server.requests)
    assert "less than or equal to 9" in str(second)
    assert "less than or equal to 9" not in str(first)
    assert ["99" in str(request) for request in (first, second)] == [False, True]


@attrs.frozen
class Fault:
    """Answers in turn, the last repeated, the error in the end, and the number of requests until then."""

    ends: type[ModelError]
    requests: int
    answers: tuple[Said | Answer, ...]
    limits: dict[str, Any] = attrs.field(factory=dict)


def refused_response() -> Answer:
    """Return a response whose one part is a refusal."""
    answer = response_answer(CANARY)
    assert isinstance(answer.body, dict)
    answer.body["output"][0]["content"] = [{"type": "refusal", "refusal": CANARY}]
    return answer


FAULTS = {
    "rubbish": Fault(ModelAnswerError, 2, (CANARY,)),
    "a web page": Fault(ModelAnswerError, 1, (Answer(f"<html>{CANARY}".encode()),)),
    "an empty object": Fault(ModelAnswerError, 1, (Answer({}),)),
}
CLIENT_FAULTS = {
    "HTTP 401": Fault(ModelUnavailableError, 1, (error_answer(401, message=CANARY),)),
    "HTTP 429": Fault(ModelUnavailableError, 2, (error_answer(429, message=CANARY),)),
    "HTTP 503": Fault(ModelUnavailableError, 2, (error_answer(503, message=CANARY),)),
    "too slow": Fault(ModelUnavailableError, 1, (Answer({"said": CANARY}, delay=9),), {"timeout": 0.5}),
}
"""Faults below the API, of which a host's client says the same for each."""
CHAT_FAULTS = {
    "refusal": Fault(ModelRefusedError, 1, (chat_answer(None, refusal=CANARY),)),
    "filtered": Fault(ModelRefusedError, 1, (chat_answer("", finish_reason="content_filter"),)),
    "filtered question": Fault(ModelRefusedError, 1, (error_answer(400, code="content_filter"),)),
    "cut off": Fault(ModelAnswerError, 1, (chat_answer(f'{{"city": "{CANARY}', finish_reason="length"),)),
}
RESPONSE_FAULTS = {
    "refusal": Fault(ModelRefusedError, 1, (refused_response(),)),
    "cut off": Fault(ModelAnswerError, 1, (response_answer(f'{{"city": "{CANARY}', status="incomplete"),)),
}
CASES = [
    pytest.param(made, fault, id=f"{made.__name__}-{name}")
    for models, faults in (
        (CHAT + RESPONSES, FAULTS),
        (CLIENTS, CLIENT_FAULTS),
        (CHAT, CHAT_FAULTS),
        (RESPONSES, RESPONSE_FAULTS),
    )
    for made in models
    for name, fault in faults.items()
    if not (made is agents_sdk and name == "cut off")  # it does not tell: the answer counts as invalid
]


@pytest.mark.parametrize(("made", "fault"), CASES)
async def test_a_fault_is_the_error_that_instructors_models_raise_and_shows_no_text(
    made: Made, fault: Fault, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with LoopbackOpenAIServer(answering(*fault.answers)) as server:
        model = asked_of(made(server.base_url), **fault.limits)
        with metered() as spent, pytest.raises(ModelError) as caught:
            await model.ask(PROMPT, Trip)
    assert type(caught.value) is fault.ends, caught.value
    sent = (len(server.requests), spent.requests)
    assert sent == (fault.requests, fault.requests) or "timeout" in fault.limits, "a busy machine may send it too late"
    assert CANARY not in "".join(shown_by(caught.value))
    ours = [record for record in caplog.records if record.name.partition(".")[0] not in ("httpcore", "httpx")]
    assert CANARY not in "".join(str(record.__dict__) for record in ours)


@each_client
async def test_a_server_that_is_away_is_unavailable(made: Made) -> None:
    with pytest.raises(ModelUnavailableError, match="cannot be reached"):
        await asked_of(made(unreachable_base_url())).ask(PROMPT, Trip)


@each_client
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_model_works_in_one_event_loop_after_another(made: Made) -> None:
    """Its client keeps connections of the first loop, which fail in the second."""
    with LoopbackOpenAIServer(answering(RIGHT), keep_alive=True) as server:
        model = asked_of(made(server.base_url))
        assert [anyio.run(model.ask, PROMPT, Trip) for _ in range(3)] == [Trip(**RIGHT)] * 3
    del model
    gc.collect()  # sockets that outlive their loop, while their warning is ignored


def anthropic_answer(**fields: Any) -> Answer:
    """Return an answer in Anthropic's form, with tokens read from its cache and written to it."""
    usage = {"input_tokens": 3, "cache_read_input_tokens": 4, "cache_creation_input_tokens": 2, "output_tokens": 5}
    body = {"id": "1", "type": "message", "role": "assistant", "model": "loopback", "content": [], "usage": usage}
    return Answer({**body, "stop_reason": "end_turn", "stop_sequence": None, **fields})


def langchain_at_anthropic(address: str) -> Any:
    """Return LangChain's chat model for Anthropic."""
    pytest.importorskip("langchain_anthropic", reason="langchain-anthropic is not installed")
    from langchain_anthropic import ChatAnthropic

    return ChatAnthropic(model_name="loopback", base_url=address, api_key=SecretStr("key"), max_retries=0)  # type: ignore[call-arg]


def pydantic_ai_at_anthropic(address: str) -> Any:
    """Return pydantic-ai's model for Anthropic."""
    pytest.importorskip("anthropic", reason="anthropic is not installed")
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    import anthropic
    from pydantic_ai.models.anthropic import AnthropicModel
    from pydantic_ai.providers.anthropic import AnthropicProvider

    client = anthropic.AsyncAnthropic(base_url=address, api_key="key", max_retries=0)
    return AnthropicModel("loopback", provider=AnthropicProvider(anthropic_client=client))


@pytest.mark.parametrize("made", [langchain_at_anthropic, pydantic_ai_at_anthropic])
async def test_a_hosts_model_of_another_vendor_answers_by_a_tool(made: Made) -> None:
    use = {"type": "tool_use", "id": "1", "name": "Trip", "input": RIGHT}
    answers = answering(
        anthropic_answer(content=[use], stop_reason="tool_use"), anthropic_answer(stop_reason="refusal")
    )
    with LoopbackOpenAIServer(answers) as server:
        model = asked_of(made(server.base_url.removesuffix("/v1")))
        with metered() as spent:
            assert await model.ask(PROMPT, Trip) == Trip(**RIGHT)
        with pytest.raises(ModelRefusedError):
            await model.ask(PROMPT, Trip)
    assert (spent.input_tokens, spent.cached_tokens, spent.output_tokens) == (9, 4, 5)
    assert len(server.requests) == 2


SEATS = Concept.single("seats", "Number of seats", value_type=int)
FOUND = {"seats": [{"quote": "120 seats", "message": 1, "value": 120}]}


@each_client
async def test_a_memory_takes_a_hosts_model_and_reports_its_costs(made: Made) -> None:
    costs = CostReport()
    with LoopbackOpenAIServer(answering(FOUND)) as server:
        async with Memory(
            "memory:", model=made(server.base_url), embedder=HashEmbedder(), concepts=[SEATS], observers=[costs]
        ) as memory:
            said = Message(content="The venue has 120 seats.")
            await memory.remember(said, looking_for=DetectionRequest(concepts=[SEATS]))
            assert [record.value for record in await memory.list_records(concepts=[SEATS])] == [120]
    assert costs.by_operation[Operation.DETECT] == Cost(requests=1, input_tokens=1, output_tokens=1)


def test_an_agent_takes_a_hosts_model() -> None:
    config = AgentMemoryConfig(store=InMemoryProvider(), agent_name="a", model=langchain(unreachable_base_url()))
    assert isinstance(config.model, HostModel)


def test_other_objects_are_no_models() -> None:
    with pytest.raises(InvalidDataError, match="model"):
        Memory("memory:", model=object())  # type: ignore[arg-type]
    with pytest.raises(InvalidDataError, match="LangChain"):
        HostModel(object())  # type: ignore[arg-type]


@pytest.mark.parametrize("wrong", [{"timeout": 0}, {"tries": 0}, {"max_chars": 0}])
def test_limits_out_of_range_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidDataError):
        asked_of(langchain(unreachable_base_url()), **wrong)


async def test_a_chat_model_without_structured_output_is_shown_the_schema() -> None:
    pytest.importorskip("langchain_core", reason="the extra langchain is not installed")
    from langchain_core.language_models import GenericFakeChatModel
    from langchain_core.messages import AIMessage, BaseMessage

    asked: list[list[BaseMessage]] = []

    class Plain(GenericFakeChatModel):
        def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> Any:
            asked.append(messages)
            return super()._generate(messages, *args, **kwargs)

    model = asked_of(Plain(messages=iter([AIMessage(f'Gladly: {{"city": "{CANARY}", "seats": 4}}')])))
    assert await model.ask(PROMPT, Trip) == Trip(**RIGHT)
    assert '"maximum":9' in str(asked[0][0].text)


async def test_what_a_model_of_langchain_is_asked_stays_out_of_the_agents_stream(anyio_backend_name: str) -> None:
    """A node of LangGraph passes its callbacks on to every model that is called within it."""
    if anyio_backend_name != "asyncio":
        pytest.skip("LangGraph streams on asyncio only")
    pytest.importorskip("langgraph", reason="the extra langgraph is not installed")
    from langgraph.graph import END, START, StateGraph

    class State(TypedDict):
        done: bool

    with LoopbackOpenAIServer(answering(RIGHT)) as server:
        model = langchain(server.base_url)

        async def remembers(state: State) -> State:
            assert await asked_of(model).ask(PROMPT, Trip) == Trip(**RIGHT)
            return {"done": True}

        graph = StateGraph(State).add_node("remembers", remembers)
        graph.add_edge(START, "remembers").add_edge("remembers", END)
        streamed = [part async for part in graph.compile().astream({"done": False}, stream_mode="messages")]
    assert streamed == []


async def test_of_models_that_stand_in_for_each_other_the_last_error_counts() -> None:
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    from pydantic_ai.models.fallback import FallbackModel

    with LoopbackOpenAIServer(answering(error_answer(500), error_answer(401))) as server:
        model = FallbackModel(pydantic_ai(server.base_url), pydantic_ai(server.base_url))
        with pytest.raises(ModelUnavailableError, match="HTTP 401"):
            await asked_of(model).ask(PROMPT, Trip)


async def test_pydantic_ais_function_models_are_asked_too() -> None:
    """A model with its own way of structured output: here a tool, as its profile says."""
    pytest.importorskip("pydantic_ai", reason="the extra pydantic-ai is not installed")
    from pydantic_ai.messages import ModelMessage, ModelResponse, ToolCallPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        (tool,) = info.output_tools
        assert info.instructions == PROMPT.instructions
        return ModelResponse(parts=[ToolCallPart(tool.name, RIGHT)])

    assert await asked_of(FunctionModel(answer)).ask(PROMPT, Trip) == Trip(**RIGHT)
