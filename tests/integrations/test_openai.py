"""OpenAI's own client over a real socket: requests as sent, results, answers that are streamed, and saved facts."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import attrs
import openai
import pytest
from openai import AsyncAzureOpenAI, AsyncOpenAI, OpenAI
from openai.types.chat import ChatCompletionMessage
from pydantic import BaseModel

from factmem import InMemoryProvider, Memory
from factmem.agent import install
from factmem.agent.chat_history import DictFormat, spoken, with_block
from factmem.agent.config import Hooks
from factmem.agent.rendering import MemoryBlock
from factmem.errors import CapabilityError, InvalidDataError
from factmem.testing import HashEmbedder
from factmem.testing.chat_answers import answering, chat_answer, error_answer, response_answer, streamed, tool_answer
from factmem.testing.openai_server import Answer
from tests.agent.installed import memory_over, plugin
from tests.integrations.openai_requests import (
    ANSWER,
    ASKED,
    HISTORY,
    LEAVES_GENERATORS,
    Api,
    Serving,
    asked,
    client_of,
    finished,
    knowing,
    sent,
)
from tests.memory.telling import words


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """OpenAI's client runs on both event loops."""
    return str(request.param)


async def test_what_is_known_stands_before_the_users_last_message_in_the_request_alone(
    api: Api, serving: Serving
) -> None:
    server, before = serving(answering(ANSWER)), json.dumps(HISTORY)
    async with memory_over() as memory, client_of(server) as given:
        agent = await knowing(memory)
        with agent.run("alice"):
            await asked(install(agent, into=given), api)
    assert [(item["role"], sorted(item)) for item in sent(server)] == [
        (role, ["content", "role"]) for role in ("system", "user", "assistant", "user", "user")
    ]
    assert "Oslo" in sent(server)[3]["content"]
    assert json.dumps(HISTORY) == before


async def test_the_client_that_was_given_stays_as_it_was_and_copies_of_the_other_have_the_memory(
    api: Api, serving: Serving
) -> None:
    server = serving(answering(ANSWER))
    async with memory_over() as memory, client_of(server) as given:
        agent = await knowing(memory)
        client = install(agent, into=given)
        assert isinstance(client, AsyncOpenAI)
        with agent.run("alice"):
            await asked(given, api)
            assert words(await memory.list_records()) == []
            await asked(client.with_options(timeout=30), api)
            assert words(await memory.list_records()) == ["Hello.", "Hi.", ANSWER, ASKED]
    assert ["<memory>" in json.dumps(body) for _, body in server.requests] == [False, True]
    assert len({headers["user-agent"] for headers in server.headers}) == 1


async def test_a_text_loads_and_saves_like_a_message(serving: Serving) -> None:
    server = serving(answering(ANSWER))
    async with memory_over() as memory, client_of(server) as given:
        client = install(await knowing(memory), into=given)
        response = await client.responses.create(model="loopback", input="I have a cat.", user="alice")
        assert response.output_text == ANSWER
        assert words(await memory.list_records()) == ["I have a cat.", ANSWER]
        await client.responses.create(model="loopback", input="Hello.", user="bob")
    assert [item["role"] for item in sent(server, 0)] == ["user", "user"]
    assert server.requests[1][1]["input"] == "Hello.", "nothing is known about bob"


async def test_a_growing_history_is_learnt_from_once_however_answers_are_sent_back(api: Api, serving: Serving) -> None:
    server = serving(answering("One.", "Two.", "Three."))
    handed: list[str] = []

    async def note(identity: Any, saved: Any) -> None:
        handed.extend(str(record.value) for outcome in await saved.wait() for record in outcome.records)

    async with memory_over() as memory, client_of(server) as given:
        client = install(plugin(memory, hooks=Hooks(after_save=note)), into=given)
        history: list[Any] = [{"role": "user", "content": "Hello."}]
        for more in ("And?", "Again?", "Bye."):
            result = await asked(client, api, history, metadata={"session_id": "monday"})
            if more == "And?":
                history += [result.choices[0].message] if api == "chat" else result.output
            else:
                history.append({"role": "assistant", "content": "Two."})
            history.append({"role": "user", "content": more})
    assert handed == ["Hello.", "One.", "And?", "Two.", "Again?", "Three."]


@pytest.mark.parametrize("stream", [False, True])
async def test_a_request_that_fails_leaves_all_as_it_was(api: Api, stream: bool, serving: Serving) -> None:
    server, history = serving(answering(error_answer(500), ANSWER)), [*HISTORY]
    async with memory_over() as memory, client_of(server) as given:
        client = install(await knowing(memory), into=given)
        with pytest.raises(openai.InternalServerError):
            await asked(client, api, history, stream=stream, user="alice")
        assert [record.value for record in await memory.list_records()] == ["Oslo"]
        assert history == HISTORY
        await asked(client, api, history, user="alice")
    assert [json.dumps(body).count("<memory>") for _, body in server.requests] == [1, 1]


@LEAVES_GENERATORS
@pytest.mark.parametrize("stream", [False, True])
async def test_a_completion_that_calls_tools_is_saved_with_its_final_answer(stream: bool, serving: Serving) -> None:
    def respond(path: str, request: dict[str, Any]) -> Answer:
        answer = chat_answer(ANSWER) if request["messages"][-1]["role"] == "tool" else tool_answer({}, name="look_up")
        return streamed(answer) if request.get("stream") else answer

    server = serving(respond)
    async with memory_over() as memory, client_of(server) as given:
        client = install(await knowing(memory), into=given)
        history: list[Any] = [{"role": "user", "content": "Look."}]
        result = await asked(client, "chat", history, stream=stream, user="alice")
        if isinstance(result, AsyncIterator):
            async for _ in result:
                pass
        assert words(await memory.list_records()) == []
        call = {"id": "1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}
        history += [
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "1", "content": "I live in Paris."},
        ]
        await asked(client, "chat", history, user="alice")
        assert words(await memory.list_records()) == ["Look.", ANSWER]
    assert [item["role"] for item in sent(server)] == ["user", "user", "assistant", "tool"]


async def test_where_the_server_keeps_the_conversation_the_block_is_sent_with_the_users_words(serving: Serving) -> None:
    server = serving(answering(ANSWER))
    output: list[Any] = [{"type": "function_call_output", "call_id": "1", "output": "a page"}]
    async with memory_over() as memory, client_of(server) as given:
        client = install(await knowing(memory), into=given)
        await asked(client, "responses", ASKED, user="alice", conversation="conv_1")
        await asked(client, "responses", output, user="alice", conversation="conv_1")
        records = await memory.list_records()
    assert {item.conversation_id for record in records for item in record.evidence} == {"conv_1"}
    assert [len(sent(server, number)) for number in (0, 1)] == [2, 1]


async def test_a_request_says_whom_it_is_for_and_the_program_goes_before_it(api: Api, serving: Serving) -> None:
    ids: list[Any] = []

    async def note(identity: Any, history: Any) -> bool:
        ids.append((identity.user_id, identity.session_id))
        return False

    server = serving(answering(ANSWER))
    async with memory_over() as memory, client_of(server) as given:
        agent = plugin(memory, hooks=Hooks(before_load=note))
        client = install(agent, into=given)
        await asked(client, api)
        await asked(client, api, user="alice")
        await asked(client, api, user="alice", safety_identifier="bob")
        await asked(client, api, user="alice", metadata={"user_id": "carol", "session_id": "monday"})
        with agent.run("dora"):
            await asked(client, api, user="alice")
    assert ids == [(None, None), ("alice", None), ("bob", None), ("carol", "monday"), ("dora", None)]


async def test_other_requests_pass_through(serving: Serving) -> None:
    body = {"object": "list", "data": [{"object": "embedding", "index": 0, "embedding": [1.0]}], "model": "m"}
    server = serving(lambda path, request: Answer(body))
    async with memory_over() as memory, client_of(server) as given:
        client = install(plugin(memory), into=given)
        found = await client.embeddings.create(model="m", input="I have a cat.", encoding_format="float")
        assert words(await memory.list_records()) == []
    assert found.data[0].embedding == [1.0]


async def test_several_answers_to_choose_from_are_nobodys(serving: Serving) -> None:
    completion = chat_answer(ANSWER).body
    assert isinstance(completion, dict)
    completion["choices"] *= 2
    server = serving(lambda path, request: Answer(completion))
    async with memory_over() as memory, client_of(server) as given:
        await asked(install(plugin(memory), into=given), "chat", n=2)
        assert ANSWER not in words(await memory.list_records())


async def test_other_clients_of_the_package_are_of_their_own_type(serving: Serving) -> None:
    server = serving(answering(ANSWER))
    async with (
        memory_over() as memory,
        AsyncAzureOpenAI(base_url=server.base_url, api_key="none", api_version="v1") as given,
    ):
        client = install(await knowing(memory), into=given)
        assert isinstance(client, AsyncAzureOpenAI)
        await asked(client, "chat", user="alice")
    assert "Oslo" in json.dumps(sent(server))


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_without_an_event_loop_loads_and_saves(api: Api, stream: bool, serving: Serving) -> None:
    server, store = serving(answering(ANSWER)), InMemoryProvider()
    agent = plugin(lambda: Memory(store, embedder=HashEmbedder()))
    with OpenAI(base_url=server.base_url, api_key="none", max_retries=0) as given:
        client: Any = install(agent, into=given)
        create = client.chat.completions.create if api == "chat" else client.responses.create
        for said in ("I have a cat.", ASKED):
            place = {"messages" if api == "chat" else "input": [{"role": "user", "content": said}]}
            result = create(model="loopback", user="alice", stream=stream, **place)
            if stream:
                for _ in result:
                    pass
        if stream:
            with create(
                model="loopback", user="alice", stream=True, **place | {"metadata": {"session_id": "x"}}
            ) as left:
                next(left)
    agent.close()
    assert [item["role"] for item in sent(server, 1)] == ["user", "user"]
    assert "I have a cat." in sent(server, 1)[0]["content"]
    assert ANSWER in sent(server, 1)[0]["content"]


async def test_memory_is_put_into_clients_alone_and_an_open_memory_into_those_with_an_event_loop(
    memory: Memory,
) -> None:
    with OpenAI(base_url="http://127.0.0.1:9", api_key="none") as client:
        with pytest.raises(CapabilityError, match="open Memory"):
            install(plugin(memory), into=client)
        with pytest.raises(CapabilityError, match="not into a Completions"):
            install(plugin(memory), into=client.chat.completions)


def test_what_the_client_returns_may_stand_among_dicts() -> None:
    """Loops append the message of an answer unchanged."""
    message = ChatCompletionMessage(role="assistant", content="Hi.")
    wrong: Any = 7
    history: list[Any] = [{"role": "user", "content": "Hello."}, message]
    assert [said.content for said in spoken(DictFormat(), history)] == ["Hello.", "Hi."]
    block = MemoryBlock(text="<memory/>", records=(object(),))  # type: ignore[arg-type]
    assert with_block(DictFormat(), history, block)[1:] == history
    with pytest.raises(InvalidDataError, match="a int among dicts"):
        spoken(DictFormat(), [*history, wrong])


# Answers that are streamed, typed, or never finished


pytestmark = LEAVES_GENERATORS


async def test_an_answer_that_is_streamed_is_learnt_from_when_it_is_whole(api: Api, serving: Serving) -> None:
    server = serving(answering(ANSWER))
    async with memory_over() as memory, client_of(server) as given:
        client = install(await knowing(memory), into=given)
        stream = await asked(client, api, stream=True, user="alice")
        heard = ""
        async for event in stream:
            heard += (event.choices[0].delta.content or "") if api == "chat" else getattr(event, "delta", "")
        assert heard == ANSWER
        assert words(await memory.list_records()) == ["Hello.", "Hi.", ANSWER, ASKED]
        await stream.close()
    assert "Oslo" in json.dumps(sent(server))


async def test_the_clients_own_helpers_for_streams_and_types_work(serving: Serving) -> None:
    class Place(BaseModel):
        city: str

    server = serving(answering(ANSWER, ANSWER, {"city": "Rome"}, '{"city": "Bonn"}', ANSWER))
    async with memory_over() as memory, client_of(server) as given:
        client = install(await knowing(memory), into=given)
        chat: dict[str, Any] = {"model": "loopback", "messages": HISTORY[-1:], "user": "alice"}
        items: dict[str, Any] = {"model": "loopback", "input": ASKED, "user": "alice"}
        async with client.chat.completions.stream(**chat) as completion:
            assert (await completion.get_final_completion()).choices[0].message.content == ANSWER
        async with client.responses.stream(**items) as response:
            assert (await response.get_final_response()).output_text == ANSWER
        parsed = await client.chat.completions.parse(**chat, response_format=Place)
        assert parsed.choices[0].message.parsed == Place(city="Rome")
        assert (await client.responses.parse(**items, text_format=Place)).output_parsed == Place(city="Bonn")
        raw = await client.chat.completions.with_raw_response.create(**chat)
        assert raw.parse().choices[0].message.content == ANSWER
        said = words(await memory.list_records())
    assert said == sorted([ANSWER, ASKED, '{"city": "Rome"}', '{"city": "Bonn"}'])
    assert [json.dumps(body).count("<memory>") for _, body in server.requests] == [1] * 5


@pytest.mark.parametrize("how", ["broken", "left", "cancelled"])
async def test_of_an_answer_that_is_not_finished_only_what_the_user_said_is_learnt(
    api: Api, how: str, serving: Serving
) -> None:
    whole = streamed(finished(api))
    answer = attrs.evolve(
        whole, cut=len(whole.body) // 2 if how == "broken" else 0, drip=0.002 if how == "cancelled" else 0
    )
    breaks = pytest.raises(Exception, match=r"incomplete|closed") if how == "broken" else contextlib.nullcontext()
    server = serving(lambda path, request: answer)
    async with memory_over() as memory, client_of(server) as given:
        client = install(plugin(memory), into=given)
        with anyio.CancelScope() as scope, breaks:
            async with await asked(client, api, stream=True) as stream:
                async for _ in stream:
                    if how == "left":
                        break
                    if how == "cancelled":
                        scope.cancel()
        assert words(await memory.list_records()) == ["Hello.", "Hi.", ASKED]


@pytest.mark.parametrize("reason", ["length", "content_filter"])
@pytest.mark.parametrize("stream", [False, True])
async def test_an_answer_that_was_cut_short_is_not_learnt_from(reason: str, stream: bool, serving: Serving) -> None:
    whole = chat_answer(ANSWER, finish_reason=reason)
    other = response_answer(ANSWER, status="incomplete")
    server = serving(
        lambda path, request: (streamed if stream else attrs.evolve)(other if "input" in request else whole)
    )
    async with memory_over() as memory, client_of(server) as given:
        client = install(plugin(memory), into=given)
        apis: tuple[Api, ...] = ("chat", "responses")
        for api in apis:
            result = await asked(client, api, stream=stream)
            if isinstance(result, AsyncIterator):
                async for _ in result:
                    pass
        assert words(await memory.list_records()) == ["Hello.", "Hi.", ASKED]


def test_only_completions_and_responses_can_be_streamed() -> None:
    with pytest.raises(InvalidDataError, match="can be streamed"):
        streamed(Answer({"object": "list"}))
