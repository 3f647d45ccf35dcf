"""OpenAI's own client: answers that are streamed, typed, or never finished."""

from __future__ import annotations

import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import anyio
import attrs
import pytest
from pydantic import BaseModel

from factmem.agent import install
from factmem.errors import InvalidDataError
from factmem.testing.chat_answers import answering, chat_answer, response_answer, streamed
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

pytestmark = LEAVES_GENERATORS


@pytest.fixture(params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """OpenAI's client runs on both event loops."""
    return str(request.param)


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
