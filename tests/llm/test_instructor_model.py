"""Questions to a model through instructor: modes and their order, retries, clients, keys and packages."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from typing import Any, Generic, TypeVar

import anyio
import pytest
from pydantic import BaseModel, ConfigDict

from factmem.abc import Prompt
from factmem.abc.model import LanguageModel
from factmem.errors import InvalidDataError, MissingPackageError, ModelAnswerError, ModelUnavailableError
from factmem.llm import InstructorModel
from factmem.llm.instructor_model import OpenAIEndpoint, language_model
from factmem.testing.chat_answers import answering, chat_answer, error_answer
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.llm.canary import CANARY, PROMPT, RIGHT, Trip, asked_of, shown_by
from tests.memory.telling import until
from tests.tables import each_case

pytestmark = pytest.mark.processes

ItemT = TypeVar("ItemT")


def mode_of(request: dict[str, Any]) -> str:
    """Return the mode in which a request asks for its answer."""
    return str(request.get("response_format", {}).get("type") or ("tool" if "tools" in request else "text"))


def only(mode: str, *, status: int = 400, message: str = "no") -> Any:
    """Return a responder that accepts one mode and rejects the others."""
    right = answering(RIGHT)

    def respond(path: str, request: dict[str, Any]) -> Answer:
        return right(path, request) if mode_of(request) == mode else error_answer(status, message=message)

    return respond


@pytest.mark.parametrize("mode", ["TOOLS", "JSON_SCHEMA", "JSON", "MD_JSON"])
async def test_every_mode_gives_an_instance_of_the_very_model(mode: str) -> None:
    """No private attribute of the response remains on the answer, and the type is not a subclass."""
    with LoopbackOpenAIServer(answering(RIGHT)) as server:
        model = asked_of(server.base_url, mode=mode)
        answer = await model.ask(PROMPT, Trip)
    assert isinstance(model, LanguageModel)
    assert type(answer) is Trip
    assert vars(answer) == {**RIGHT, "notes": []}


@each_case("taken", "status", "message", "asked")
async def test_a_mode_that_is_turned_down_gives_way_to_the_next_and_this_is_kept(
    taken: str, status: int, message: str, asked: list[str]
) -> None:
    """The last row is the message of a llama-cpp-python server."""
    with LoopbackOpenAIServer(only(taken, status=status, message=message)) as server:
        model = asked_of(server.base_url)
        assert [await model.ask(PROMPT, Trip) for _ in range(2)] == [Trip(**RIGHT)] * 2
    assert [mode_of(request) for _, request in server.requests] == [*asked, taken]


async def test_a_mode_that_was_chosen_is_never_left() -> None:
    with LoopbackOpenAIServer(only("text")) as server, pytest.raises(ModelUnavailableError, match="HTTP 400"):
        await asked_of(server.base_url, mode="JSON_SCHEMA").ask(PROMPT, Trip)
    assert len(server.requests) == 1


async def test_a_mode_that_has_worked_is_not_given_up_for_one_question() -> None:
    """A rejected question says nothing about the next one."""
    turned_down = [error_answer(400)] * 3
    with LoopbackOpenAIServer(answering(RIGHT, *turned_down, RIGHT)) as server:
        model = asked_of(server.base_url)
        await model.ask(PROMPT, Trip)
        with pytest.raises(ModelUnavailableError):
            await model.ask(PROMPT, Trip)
        await model.ask(PROMPT, Trip)
    asked = [mode_of(request) for _, request in server.requests]
    assert asked == ["json_schema", "json_schema", "json_object", "text", "json_schema"]


async def test_a_temperature_that_is_turned_down_is_left_out_from_then_on() -> None:
    """Reasoning models accept no temperature."""
    refusal = error_answer(400, message="Unsupported value: 'temperature' does not support 0.0")
    with LoopbackOpenAIServer(answering(refusal, RIGHT)) as server:
        model = asked_of(server.base_url)
        await model.ask(PROMPT, Trip)
        await model.ask(PROMPT, Trip)
    assert ["temperature" in request for _, request in server.requests] == [True, False, False]


async def test_a_limit_of_tokens_is_sent_by_the_name_that_the_endpoint_asks_for() -> None:
    refusals = [
        error_answer(400, message="Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead."),
        error_answer(400, message="Unsupported value: 'temperature' does not support 0.0"),
    ]
    with LoopbackOpenAIServer(answering(*refusals, RIGHT)) as server:
        model = asked_of(server.base_url, max_tokens=500, temperature=0.0)
        await model.ask(PROMPT, Trip)
        await model.ask(PROMPT, Trip)
    limits = [(request.get("max_tokens"), request.get("max_completion_tokens")) for _, request in server.requests]
    assert limits == [(500, None), (None, 500), (None, 500), (None, 500)]
    assert {mode_of(request) for _, request in server.requests} == {"json_schema"}


@pytest.mark.parametrize("mode", ["TOOLS", "JSON_SCHEMA"])
async def test_a_second_try_says_what_was_wrong(mode: str) -> None:
    with LoopbackOpenAIServer(answering({"city": "Rome", "seats": 99}, RIGHT)) as server:
        await asked_of(server.base_url, mode=mode).ask(PROMPT, Trip)
    first, second = (request["messages"] for _, request in server.requests)
    assert second[: len(first)] == first
    assert "less than or equal to 9" in second[-1]["content"]


async def test_answers_and_lost_requests_are_counted_apart() -> None:
    """Three answers and two retries are allowed, so there are five requests at most, whatever the order of faults."""
    lost, rubbish = error_answer(503), chat_answer("rubbish")
    answers = answering(lost, rubbish, lost, rubbish, rubbish, RIGHT)
    with LoopbackOpenAIServer(answers) as server, pytest.raises(ModelAnswerError, match="3 answer"):
        await asked_of(server.base_url, tries=3, retries=2).ask(PROMPT, Trip)
    assert len(server.requests) == 5


async def test_an_answer_model_that_forbids_extra_keys_is_obeyed() -> None:
    class Strict(BaseModel):
        model_config = ConfigDict(extra="forbid")
        city: str

    with LoopbackOpenAIServer(answering(RIGHT)) as server, pytest.raises(ModelAnswerError, match="valid Strict"):
        await asked_of(server.base_url).ask(PROMPT, Strict)


@pytest.mark.parametrize("mode", ["TOOLS", "JSON_SCHEMA"])
async def test_an_answer_model_goes_by_a_name_that_endpoints_take(mode: str) -> None:
    """OpenAI accepts letters, digits, underscores and hyphens only, and the name of a generic model has brackets."""

    class Boxed(BaseModel, Generic[ItemT]):
        city: ItemT

    with LoopbackOpenAIServer(answering(RIGHT)) as server:
        assert await asked_of(server.base_url, mode=mode).ask(PROMPT, Boxed[str]) == Boxed[str](city=CANARY)
    request = server.requests[0][1]
    part = request["tools"][0]["function"] if "tools" in request else request["response_format"]["json_schema"]
    assert part["name"] == "Boxed_str_"


async def test_questions_asked_at_once_get_each_its_own_answer() -> None:
    """The answer or failure of one question never reaches another."""

    def echo(path: str, request: dict[str, Any]) -> Answer:
        said = str(request["messages"][-1]["content"])
        return error_answer(404) if said == "3" else chat_answer({"city": said, "seats": 1})

    got: dict[str, str] = {}

    async def ask(content: str) -> None:
        try:
            got[content] = (await model.ask(Prompt(instructions="Tell.", content=content), Trip)).city
        except ModelUnavailableError:
            got[content] = "none"

    with LoopbackOpenAIServer(echo) as server:
        model = asked_of(server.base_url)
        async with anyio.create_task_group() as group:
            for number in range(6):
                group.start_soon(ask, str(number))
    assert got == {"0": "0", "1": "1", "2": "2", "3": "none", "4": "4", "5": "5"}


async def test_cancelling_a_question_raises_no_failure() -> None:
    """Cancellation propagates as such, and no request is repeated."""
    with LoopbackOpenAIServer(lambda path, request: Answer({}, delay=60.0)) as server:
        with anyio.move_on_after(0.2) as scope:
            await asked_of(server.base_url).ask(PROMPT, Trip)
    assert scope.cancelled_caught
    assert len(server.requests) <= 1


def test_one_model_serves_any_number_of_event_loops() -> None:
    """A client belongs to the event loop that opened it, the model does not; no open connection is left behind."""
    with LoopbackOpenAIServer(answering(RIGHT)) as server:
        model = asked_of(server.base_url)
        for backend in ("asyncio", "trio", "asyncio"):
            assert anyio.run(model.ask, PROMPT, Trip, backend=backend) == Trip(**RIGHT)
    assert [headers["connection"] for headers in server.headers] == ["close"] * 3


async def test_the_clients_loggers_work_again_after_a_question(caplog: pytest.LogCaptureFixture) -> None:
    """Only records logged during a question are dropped."""
    with LoopbackOpenAIServer(answering(RIGHT)) as server:
        await asked_of(server.base_url).ask(PROMPT, Trip)
    logging.getLogger("instructor.v2.retry").error("of somebody else's question")
    assert "of somebody else's question" in caplog.text


async def test_an_endpoint_without_a_key_is_asked_with_none(monkeypatch: pytest.MonkeyPatch) -> None:
    """Local servers need no key; OpenAI does, and the error names the variable."""
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL"):
        monkeypatch.delenv(name, raising=False)
    with LoopbackOpenAIServer(answering(RIGHT)) as server:
        assert await asked_of(server.base_url, api_key=None).ask(PROMPT, Trip) == Trip(**RIGHT)
    with pytest.raises(InvalidDataError, match="set OPENAI_API_KEY"):
        await InstructorModel("gpt").ask(PROMPT, Trip)


async def test_a_mode_that_does_not_exist_is_a_typed_error() -> None:
    with pytest.raises(InvalidDataError, match="use TOOLS"):
        await asked_of("http://127.0.0.1:9/v1", mode="TELEPATHY").ask(PROMPT, Trip)


@pytest.mark.parametrize("package", ["instructor", "openai"])
def test_a_missing_package_is_named_with_the_command_that_installs_it(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The error comes when the model is made, so that no words are kept as unread for it."""
    monkeypatch.setitem(sys.modules, package, None)
    with pytest.raises(MissingPackageError, match=rf"{package} is not .* pip install 'factmem\[llm\]'") as caught:
        asked_of("http://127.0.0.1:9/v1")
    assert caught.value.package == package
    with pytest.raises(MissingPackageError):
        language_model("anthropic/any")


async def test_a_providers_own_package_that_is_missing_is_a_typed_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    model = InstructorModel.from_provider("anthropic/claude-sonnet-4-5", api_key="secret-key")
    with pytest.raises(ModelUnavailableError, match=r"instructor\[anthropic\]") as caught:
        await model.ask(PROMPT, Trip)
    assert not [text for text in shown_by(caught.value) if "secret-key" in text]


async def test_a_provider_that_instructor_knows_is_asked_by_its_name() -> None:
    """The options are passed to instructor; limits and errors are the same."""
    with LoopbackOpenAIServer(answering(RIGHT, "rubbish")) as server:
        model = InstructorModel.from_provider("openai/any", tries=2, base_url=server.base_url, api_key="key")
        assert await model.ask(PROMPT, Trip) == Trip(**RIGHT)
        with pytest.raises(ModelAnswerError):
            await model.ask(PROMPT, Trip)
    assert [request["model"] for _, request in server.requests] == ["any"] * 3


@pytest.mark.parametrize("options", [{"tries": 0}, {"timeout": 0.0}, {"retries": -1}, {"max_chars": 0}, {"pause": -1}])
def test_a_limit_out_of_range_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidDataError):
        InstructorModel("gpt", **options)


def test_the_key_is_not_shown() -> None:
    model = InstructorModel("gpt", api_key="secret-key")
    assert "secret-key" not in repr(model)
    assert "gpt" in repr(model)
    assert "secret-key" not in repr(InstructorModel.from_provider("groq/llama", api_key="secret-key"))


def test_making_a_model_loads_nothing_heavy() -> None:
    """Clients are imported by the first question."""
    program = "import sys; from factmem.llm import InstructorModel; InstructorModel('gpt'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert not {"instructor", "openai", "pydantic", "tenacity"} & set(done.stdout.split())


async def test_a_cancelled_question_does_not_wait_for_imports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of the first question take many seconds on a slow machine, and a service may have to stop meanwhile."""
    model, begun, released = asked_of("http://127.0.0.1:9/v1"), threading.Event(), threading.Event()

    def open_slowly(*_: object) -> None:
        begun.set()
        assert released.wait(30), "the question waited for the import"

    monkeypatch.setattr(OpenAIEndpoint, "open", open_slowly)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(model.ask, PROMPT, Trip)
        await until(begun.is_set)
        tasks.cancel_scope.cancel()
    assert not released.is_set()
    released.set()
