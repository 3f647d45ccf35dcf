"""Saving facts from a run: once, in the background, for the right user, and without a change of the agent's history."""

from __future__ import annotations

import contextlib
import logging
import re
from typing import Any

import anyio
import pytest
from pydantic import BaseModel

from factmem import STATEMENT, AgentMemory, InMemoryProvider, Memory, MemoryScope, MemorySubject
from factmem.abc import DetectionRequest, Prompt
from factmem.abc.detector import DropReason
from factmem.agent import Loading, Saving
from factmem.agent.config import USER, FailurePolicy, Hooks, RunIdentity
from factmem.agent.holders import SavedHistory
from factmem.errors import InvalidDataError, ModelError, ProviderClosedError
from factmem.records import AssertionState
from factmem.scopes import ScopeKind
from factmem.testing import ScriptedModel
from factmem.testing.chat_answers import confirmed
from tests.agent.installed import assistant, memory_over, plugin, texts, tool, user
from tests.memory.telling import CITY, Gated, log_of, opened, said, until, well, words
from tests.narrowing import not_none

LIVES, ASKED = user("I live in Oslo."), user("Where do I live?")


async def saved(agent: AgentMemory, history: list[Any], *run: str, **options: Any) -> SavedHistory:
    """Save a history, as of the run of a user in a session or else of none, and wait until it is read."""
    with agent.run(*run) if run else contextlib.nullcontext():
        handle = await agent.save_facts_from_history(history, **options)
    assert isinstance(handle, SavedHistory)
    await handle.wait()
    return handle


async def test_typed_facts_are_found_with_their_source() -> None:
    async with memory_over(ScriptedModel(well)) as memory:
        agent = plugin(memory)
        handle = await saved(agent, [LIVES, assistant("Noted.")], "alice", "monday")
        assert (handle.pending, handle.failures) == (0, ())
        assert not_none(await memory.load(CITY, subject=USER.individual("alice"), scope="/agent/clerk")).value == "Oslo"
        (record,) = await memory.list_records(concepts=[CITY])
        assert (record.evidence[0].quote, record.evidence[0].conversation_id) == ("I live in Oslo", "monday")


async def test_the_declared_concepts_of_the_memory_are_looked_for() -> None:
    model = ScriptedModel(well)
    async with memory_over(model, concepts=[CITY]) as memory:
        agent = plugin(memory, concepts=())
        await saved(agent, [LIVES, assistant("Noted.")], "alice", "monday")
        assert not_none(await memory.load(CITY, subject=USER.individual("alice"), scope="/agent/clerk")).value == "Oslo"


async def test_a_growing_history_is_learnt_from_once() -> None:
    """Each run passes the whole history; messages of earlier runs are skipped and serve as context."""
    model = ScriptedModel(well)
    async with memory_over(model) as memory:
        agent, history = plugin(memory), [LIVES, assistant("Noted.")]
        for more in ([], [user("We booked 12 seats."), assistant("Fine.")], [user("I have a cat.")]):
            history += more
            await saved(agent, history, "alice", "monday")
        assert said([item for item in await memory.list_records() if item.concept.keyword != "statement"]) == [
            12,
            "Oslo",
            "cat",
        ]
        assert words(await memory.list_records()) == []
        assert [prompt.content.count('take_facts="yes"') for prompt in model.prompts] == [1, 1, 1]


@pytest.mark.parametrize("ends", [[6], [2, 4, 6]], ids=["at once", "turn by turn"])
async def test_an_answer_follows_its_question_however_the_conversation_is_saved(
    ends: list[int], memory: Memory, agent: AgentMemory
) -> None:
    history = [user("Hello!"), assistant("Are you allergic to anything?"), user("Penicillin.")]
    history += [assistant("Where do you live?"), user("Lisbon"), assistant("Thank you.")]
    for end in ends:
        await saved(agent, history[:end], "alice", "monday")
    matches = await memory.for_user("alice").recall("What am I allergic to?")
    assert matches[0].record.value == "Penicillin."


async def test_what_is_said_later_in_a_session_overtakes_what_was_said_before(
    memory: Memory, agent: AgentMemory
) -> None:
    history = [user("I live in Oslo."), assistant("Noted."), user("I moved to Bergen."), assistant("How nice.")]
    for end in (2, 4):
        await saved(agent, history[:end], "alice", "monday")
    bergen, *others = await memory.for_user("alice").recall("Where do I live?")
    assert bergen.record.value == "I moved to Bergen."
    assert [match.newer == bergen.record for match in others if match.record.value == "I live in Oslo."] == [True]


@pytest.mark.parametrize("model", [None, ScriptedModel(well)], ids=["as said", "read"])
async def test_what_was_erased_does_not_come_back_with_the_next_turn(model: ScriptedModel | None) -> None:
    history = [user("I have a cat."), assistant("Noted."), LIVES, assistant("Noted, too.")]
    async with memory_over(model) as memory:
        agent = plugin(memory)
        await saved(agent, history, "alice", "monday")
        await memory.for_user("alice").forget(pattern="cat")
        history += [user("I have a dog."), assistant("Good.")]
        await saved(agent, history, "alice", "monday")
        values = [str(value) for value in said(await memory.for_user("alice").list_records())]
        assert any("dog" in value for value in values)
        assert not any("cat" in value for value in values)


async def test_turns_that_are_passed_one_by_one_are_kept_whatever_the_assistant_repeats(
    memory: Memory, agent: AgentMemory
) -> None:
    for text in ("I have a cat.", "I live in Oslo.", "I like tea."):
        await saved(agent, [user(text), assistant("Noted.")], "alice", "monday")
    values = {record.value for record in await memory.for_user("alice").list_records()}
    assert {"I have a cat.", "I live in Oslo.", "I like tea."} <= values


async def test_what_is_submitted_is_kept_at_once_and_read_in_the_background() -> None:
    model, provider = Gated(), InMemoryProvider()
    async with opened(provider, model, viewer=None) as memory:
        agent = plugin(memory)
        with agent.run("alice", "monday"):
            handle = await agent.save_facts_from_history([LIVES])
        assert handle is not None
        assert (await log_of(provider))[1][AssertionState.PENDING] == 1
        await until(lambda: model.under_way == 1)
        assert handle.pending == 1
        model.gate.set()
        (outcome,) = await handle.wait()
        assert [change.record.value for change in outcome.changes] == ["Oslo"]


async def test_rendered_blocks_are_not_read_for_facts() -> None:
    """Instructions, calls of functions and results of tools are left out as well."""
    model = ScriptedModel(well)
    async with memory_over(model) as memory:
        agent = plugin(memory)
        await saved(agent, [LIVES], "alice", "monday")
        with agent.run("alice", "tuesday"):
            loaded = await agent.load_all_facts_to_agent([{"role": "system", "content": "I live in Rome."}, ASKED])
            assert "Oslo" in texts(loaded)[1]
            call = {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}]}
            await saved(agent, [*loaded, call, tool("I live in Paris.")])
        assert [item for item in model.prompts[-1].content.split() if "Oslo" in item or "Rome" in item] == []
        assert await memory.inbox.quarantine.list() == []
        assert said(await memory.list_records(concepts=[CITY])) == ["Oslo"]


async def test_results_of_tools_may_be_quarantined() -> None:
    async with memory_over(ScriptedModel(well)) as memory:
        await saved(plugin(memory, saving=Saving(tool_results=True)), [LIVES, tool("I live in Paris.")])
        assert [record.value for record in await memory.inbox.quarantine.list()] == ["I live in Paris."]
        assert said(await memory.list_records(concepts=[CITY])) == ["Oslo"]


@pytest.mark.parametrize(
    ("scope", "path"),
    [
        (None, "/agent/clerk"),
        (ScopeKind.PRODUCT, "/product/fair"),
        (ScopeKind.CROSS_PRODUCT, "/cross-product"),
        (MemoryScope.product("fair") / "plan", "/product/fair/plan"),
    ],
)
async def test_facts_are_saved_in_the_scope_of_the_policy(scope: Any, path: str, memory: Memory) -> None:
    await saved(plugin(memory, saving=Saving(scope=scope)), [LIVES])
    assert [str(record.scope) for record in await memory.list_records()] == [path]


async def test_the_same_session_of_two_users_is_two_conversations(memory: Memory, agent: AgentMemory) -> None:
    for name in ("alice", "bob"):
        await saved(agent, [LIVES], name, "s")
    assert {str(record.subject) for record in await memory.list_records()} == {"user:alice", "user:bob"}


async def test_a_conversation_without_a_session_is_identified_by_its_first_message(
    memory: Memory, agent: AgentMemory
) -> None:
    history = [LIVES]
    for more in ("I have a cat.", "Bye."):
        await saved(agent, history)
        history.append(user(more))
    await saved(agent, history)
    assert len({record.evidence[0].conversation_id for record in await memory.list_records()}) == 1
    assert len(await memory.list_records()) == 3


async def test_a_run_may_opt_out(agent: AgentMemory) -> None:
    await saved(agent, [LIVES])
    with agent.run(load=False):
        assert await agent.load_all_facts_to_agent([ASKED]) == [ASKED]
        assert await agent.save_facts_from_history([user("I have a cat.")]) is not None
    with agent.run(save=False):
        assert len(await agent.load_all_facts_to_agent([ASKED])) == 2
        assert await agent.save_facts_from_history([user("I have a dog.")]) is None
    identity = RunIdentity(save=False)
    with agent.run("alice"):
        assert await agent.save_facts_from_history([user("I have a bee.")], identity=identity) is None


async def test_hooks_see_and_change_what_goes_in_and_out() -> None:
    heard: list[Any] = []

    async def before_load(identity: RunIdentity, history: Any) -> bool:
        heard.append(("before load", identity.user_id, len(history)))
        return identity.session_id != "quiet"

    def after_load(identity: RunIdentity, records: Any) -> Any:
        heard.append(("after load", len(records)))
        return [record for record in records if "cat" not in record.value]

    async def before_save(identity: RunIdentity, history: Any) -> Any:
        return [message for message in history if "secret" not in message.content]

    async def after_save(identity: RunIdentity, handle: SavedHistory) -> None:
        heard.append(("after save", len(await handle.wait())))

    hooks = Hooks(before_load=before_load, after_load=after_load, before_save=before_save, after_save=after_save)
    async with memory_over() as memory:
        agent = plugin(memory, hooks=hooks)
        with agent.run("alice", "monday"):
            await agent.save_facts_from_history([LIVES, user("I have a cat."), user("a secret")])
        with agent.run("alice", "tuesday"):
            loaded = texts(await agent.load_all_facts_to_agent([ASKED]))[0]
        with agent.run("alice", "quiet"):
            assert await agent.load_all_facts_to_agent([ASKED]) == [ASKED]
    assert ("Oslo" in loaded, "cat" in loaded, "secret" in loaded) == (True, False, False)
    assert heard == [("after save", 1), ("before load", "alice", 1), ("after load", 2), ("before load", "alice", 1)]


@pytest.mark.parametrize("wrong", [5, lambda messages: True], ids=["no function", "one argument"])
def test_a_hook_that_cannot_be_called_is_refused_at_once(wrong: Any) -> None:
    with pytest.raises(InvalidDataError, match=r"before_load is a function of \(identity, messages\)"):
        Hooks(before_load=wrong)


async def test_an_agent_goes_on_without_its_memory_unless_the_policy_says_otherwise(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Neither the log nor the error contains message text."""
    provider = InMemoryProvider()
    memory = opened(provider, viewer=None)
    raising = {kind.__name__.lower(): kind(on_failure=FailurePolicy.RAISE) for kind in (Loading, Saving)}
    async with memory:
        await provider.aclose()
        quiet, loud = plugin(memory), plugin(memory, **raising)
        with caplog.at_level(logging.WARNING, "factmem"):
            assert await quiet.load_all_facts_to_agent([ASKED]) == [ASKED]
            assert await quiet.save_facts_from_history([LIVES]) is None
        for failed in ("nothing could be loaded", "the history could not be submitted"):
            assert f"{failed}: ProviderClosedError: the provider was closed" in caplog.text
        for attempt in (
            lambda: loud.load_all_facts_to_agent([ASKED]),
            lambda: loud.save_facts_from_history([LIVES]),
            lambda: loud.for_run().tools.recall_memory("Oslo"),
            lambda: loud.for_run().tools.save_memory("I live in Oslo."),
            lambda: loud.for_run().tools.forget_memory(["1"]),
        ):
            with pytest.raises(ProviderClosedError):
                await attempt()
    assert "Oslo" not in caplog.text


async def test_tools_tell_the_model_that_the_memory_cannot_be_used_now() -> None:
    provider = InMemoryProvider()
    async with opened(provider, viewer=None) as memory:
        await provider.aclose()
        tools = plugin(memory).for_run().tools
        assert await tools.recall_memory("Oslo") == "Nothing was looked up: the memory cannot be read now."
        assert await tools.save_memory("I live in Oslo.") == "Nothing was saved: the memory cannot be written now."
        assert await tools.forget_memory(["1"]) == "Nothing was taken back: the memory cannot be written now."


async def test_unread_messages_are_kept_and_rendered_verbatim() -> None:
    def fails(prompt: Any, answer: Any) -> dict[str, Any]:
        raise ModelError("no")

    async with memory_over(ScriptedModel(fails)) as memory:
        agent = plugin(memory)
        handle = await saved(agent, [LIVES], "alice", "monday")
        assert handle.failures == ("ModelError",)
        with agent.run("alice", "tuesday"):
            assert "I live in Oslo." in texts(await agent.load_all_facts_to_agent([ASKED]))[0]


async def test_a_cancelled_save_leaves_the_history_and_the_memory_usable(memory: Memory, agent: AgentMemory) -> None:
    history = [LIVES]
    with anyio.CancelScope() as scope:
        scope.cancel()
        await agent.save_facts_from_history(history)
    assert history == [LIVES]
    await saved(agent, history)
    assert words(await memory.list_records()) == ["I live in Oslo."]


async def test_a_history_of_no_known_kind_is_refused(memory: Memory) -> None:
    wrong: Any
    for wrong in ([1], [object()], ["text"], None, 5, "text", user("text")):
        with pytest.raises(InvalidDataError, match="a history"):
            await plugin(memory).save_facts_from_history(wrong)


async def test_a_request_about_one_subject_finds_facts_about_it_whoever_speaks() -> None:
    project = MemorySubject("project", "the software project")
    model = ScriptedModel(lambda prompt, answer: {"city": [{"quote": "We are in Oslo", "message": 1, "value": "Oslo"}]})
    async with memory_over(model) as memory:
        request = DetectionRequest(subjects=[project], concepts=[CITY])
        await saved(plugin(memory), [user("We are in Oslo.")], "alice", "s", looking_for=request)
        await memory.remember(user("We are in Oslo."), looking_for=request)
        records = await memory.list_records(concepts=[CITY])
    assert {record.subject for record in records} == {project}


async def test_subjects_of_the_agent_may_be_asked_about() -> None:
    """`USER` in a request stands for the user of the run."""
    team = MemorySubject("team", "the user's team")
    item = {"quote": "I live in Oslo", "message": 1, "value": "Oslo", "about": "team"}
    model = ScriptedModel(lambda prompt, answer: {"city": [item]})
    async with memory_over(model) as memory:
        agent = plugin(memory, subjects=[team])
        await saved(agent, [LIVES], "alice", "s", looking_for=DetectionRequest(subjects=[USER, team], concepts=[CITY]))
        (record,) = await memory.list_records(concepts=[CITY])
        assert record.subject == team
        assert STATEMENT.keyword not in {item.concept.keyword for item in await memory.list_records()}


@pytest.mark.parametrize("private", [False, True])
async def test_a_subject_without_an_individual_is_one_for_all_users_unless_it_is_private(private: bool) -> None:
    boss, cities = MemorySubject("boss", "the user's boss", priority_level=5), iter(("Oslo", "Bern"))

    def found(prompt: Prompt, answer: type[BaseModel]) -> dict[str, Any]:
        if answer.__name__ == "VerifierAnswer":
            return confirmed(prompt.content)
        city = next(cities)
        return {"city": [{"quote": f"My boss lives in {city}", "message": 1, "value": city, "about": "boss"}]}

    async with memory_over(ScriptedModel(found)) as memory:
        agent = plugin(memory, subjects=[boss], saving=Saving(private=private))
        for name, city in (("alice", "Oslo"), ("bob", "Bern")):
            with agent.run(name, "monday"):
                request = DetectionRequest(subjects=[USER, boss], concepts=[CITY])
                await saved(agent, [user(f"My boss lives in {city}.")], looking_for=request)
        shown = {}
        for name in ("alice", "bob", "carl"):
            with agent.run(name, "tuesday"):
                block = (await agent.load_all_facts_to_agent([user("Where does my boss live?")]))[0]["content"]
                shown[name] = re.findall(r'about="boss"[^>]*>(\w+)</fact>', block)
    mine = {"alice": ["Oslo"], "bob": ["Bern"], "carl": []}
    assert shown == (mine if private else {name: ["Bern"] for name in mine})


async def test_nothing_is_kept_without_a_store() -> None:
    agent = plugin("none:")
    async with agent:
        assert await agent.load_all_facts_to_agent([ASKED]) == [ASKED]
        assert await agent.save_facts_from_history([LIVES]) is None
        assert "no memory" in await agent.for_run().tools.save_memory("x")


IMAGE = {"type": "image_url", "image_url": {"url": "https://example.org/cat.png"}}
SOUND = {"type": "input_audio", "input_audio": {"data": "", "format": "wav"}}
FILE = {"type": "file", "file": {"file_id": "1"}}


@pytest.mark.parametrize("model", [None, ScriptedModel(well)], ids=["words", "model"])
async def test_images_audio_and_files_are_counted_once(
    model: ScriptedModel | None, caplog: pytest.LogCaptureFixture
) -> None:
    """The same history passed again adds nothing, and a message without text is accepted."""
    history = [{"role": "user", "content": [{"type": "text", "text": "I live in Oslo."}, IMAGE, SOUND]}]
    history += [assistant("Noted."), {"role": "user", "content": [FILE]}]
    async with memory_over(model) as memory:
        agent = plugin(memory)
        with agent.run("alice", "monday"):
            assert (await saved(agent, history)).dropped == {DropReason.NOT_TEXT: 3}
            assert [record.levelno for record in caplog.records] == [logging.WARNING]
            assert (await saved(agent, history)).dropped == {}
        assert len(caplog.records) == 1


async def test_a_conversation_that_begins_with_an_image_is_identified_by_its_first_text() -> None:
    image = {"role": "user", "content": [IMAGE]}
    async with memory_over(None) as memory:
        agent = plugin(memory)
        with agent.run("alice"):
            await saved(agent, [LIVES])
            await saved(agent, [image, LIVES])
        assert len(await memory.list_records()) == 1
