"""Requirements of the tests of Deep Agents for memory in files, its measured weaknesses, and deliberate differences.

The numbers are those of its tests of ``MemoryMiddleware``. The page ``docs/pages/explanation/comparison-rows.md`` names
the tests of the other ones, and the decisions that differ.

The asynchronous twins are the same tests, run both ways.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import anyio
import pytest
from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, FilesystemBackend, StateBackend, StoreBackend
from deepagents.backends.utils import create_file_data
from deepagents.middleware.memory import MemoryMiddleware
from langchain.agents.middleware.types import ModelRequest
from langchain_core.messages import BaseMessage, HumanMessage, SystemMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from factmem import Memory, MultipleFacts, Origin
from factmem.agent.agents_md import AgentsMdFacts
from factmem.errors import InvalidDataError
from factmem.integrations.deepagents import EDITABLE_TEMPLATE, AgentsMdMiddleware
from factmem.testing import HashEmbedder
from tests.integrations.chat_model import NotingModel, calling, model
from tests.memory.telling import PETS

ASKED: Any = {"messages": [HumanMessage("Hello.")]}
Ask = Callable[..., list[BaseMessage]]


@pytest.fixture
def anyio_backend() -> str:
    """LangGraph needs asyncio."""
    return "asyncio"


@pytest.fixture(params=["invoke", "ainvoke"])
def run(request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Run an agent, with its blocking or its async call."""

    def blocking(agent: Any, *arguments: Any) -> Any:
        return agent.invoke(*arguments)

    def otherwise(agent: Any, *arguments: Any) -> Any:
        return anyio.run(agent.ainvoke, *arguments)

    return blocking if request.param == "invoke" else otherwise


@pytest.fixture
def ask(run: Callable[..., Any]) -> Ask:
    """Call an agent that has a middleware, and return the messages shown to its model."""

    def asked(files: AgentsMdMiddleware, **settings: Any) -> list[BaseMessage]:
        chat = model()
        run(create_deep_agent(chat, middleware=[files], **settings), ASKED)
        return chat.asked[-1]

    return asked


def put(folder: Path, **texts: str | bytes) -> list[str]:
    """Write files to a folder, and return their paths in the given order."""
    for name, text in texts.items():
        (folder / f"{name}.md").write_bytes(text.encode() if isinstance(text, str) else text)
    return [str(folder / f"{name}.md") for name in texts]


def test_1_the_guidelines_say_what_to_trust_to_learn_to_ask_and_to_note() -> None:
    for heading in ("Trust and verification", "Learning from feedback", "Asking for information", "When to update"):
        assert heading in EDITABLE_TEMPLATE
    assert "investigation" in EDITABLE_TEMPLATE
    for wording in ("FIRST, IMMEDIATE", "before doing anything else", "MAIN PRIORITIES"):
        assert wording not in EDITABLE_TEMPLATE


def test_7_a_file_without_content_is_left_out_with_its_path(ask: Ask, tmp_path: Path) -> None:
    full, empty = put(tmp_path, full="something", empty="\n \n")
    shown = ask(AgentsMdMiddleware([full, empty]))[1].text
    assert full in shown
    assert empty not in shown


def test_17_31_to_35_files_are_rendered_in_the_users_role_and_the_system_prompt_is_unchanged(
    ask: Ask, tmp_path: Path
) -> None:
    files, without = AgentsMdMiddleware(put(tmp_path, a="tea")), AgentsMdMiddleware([])
    cached: Any = [{"type": "text", "text": "You are a clerk.", "cache_control": {"type": "ephemeral"}}]
    prompts = [ask(one, system_prompt=SystemMessage(content=cached)) for one in (files, without)]
    assert [message.type for message in prompts[0]] == ["system", "human", "human"]
    assert prompts[0][0].content == prompts[1][0].content
    assert prompts[0][2].text == "Hello."


def test_19_without_sources_or_files_nothing_is_rendered(ask: Ask, tmp_path: Path) -> None:
    for sources in ([], [str(tmp_path / "none.md")]):
        assert [message.type for message in ask(AgentsMdMiddleware(sources))] == ["system", "human"]


def test_20_the_rendered_files_are_neither_in_the_output_nor_in_a_checkpoint(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    chat, saver = model(), InMemorySaver()
    agent = create_deep_agent(chat, middleware=[AgentsMdMiddleware(put(tmp_path, a="rum"))], checkpointer=saver)
    result = run(agent, ASKED, {"configurable": {"thread_id": "t"}})
    assert "rum" in chat.asked[0][1].text
    assert "rum" not in str(result)
    assert "rum" not in str(list(saver.list(None)))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_21_22_25_27_the_files_of_any_backend_are_read(run: Callable[..., Any], tmp_path: Path) -> None:
    put(tmp_path, a="on disk")
    store = InMemoryStore()
    store.put(("files",), "/a.md", {**create_file_data("in a store")})
    backends: dict[str, Any] = {
        "on disk": FilesystemBackend(root_dir=tmp_path, virtual_mode=True),
        "in a store": StoreBackend(namespace=lambda _: ("files",), store=store),
        "in a state": StateBackend(),
    }
    for said, backend in backends.items():
        chat = model()
        agent = create_deep_agent(chat, backend=backend, middleware=[AgentsMdMiddleware(["/a.md"], backend=backend)])
        run(agent, {**ASKED, "files": {"/a.md": create_file_data("in a state")}})
        assert said in chat.asked[0][1].text


def test_29_30_all_files_of_a_backend_come_with_one_call_for_each_request(
    run: Callable[..., Any], tmp_path: Path
) -> None:
    class Counting(FilesystemBackend):
        calls: Final[list[list[str]]] = []

        def download_files(self, paths: list[str]) -> Any:
            self.calls.append(paths)
            return super().download_files(paths)

    put(tmp_path, a="tea", c="rum")
    backend, paths = Counting(root_dir=tmp_path, virtual_mode=True), ["/a.md", "/b.md", "/c.md"]
    chat = model()
    run(create_deep_agent(chat, backend=backend, middleware=[AgentsMdMiddleware(paths, backend=backend)]), ASKED)
    assert Counting.calls == [paths]
    assert [word in chat.asked[0][1].text for word in ("tea", "rum")] == [True, True]


@pytest.mark.parametrize("template", [12, b"{agent_memory}", "no slot", "{memory}"])
def test_36_37_a_template_that_is_none_is_refused_at_once(template: Any) -> None:
    with pytest.raises(InvalidDataError, match="template"):
        AgentsMdMiddleware(["a.md"], template=template)


def test_38_without_a_template_the_request_is_the_very_same(tmp_path: Path) -> None:
    request: Any = object()
    files = AgentsMdMiddleware(put(tmp_path, a="tea"), template=None)
    seen: list[Any] = []
    files.wrap_model_call(request, seen.append)  # type: ignore[arg-type]
    assert seen == [request]


def test_39_a_custom_template_replaces_the_default(ask: Ask, tmp_path: Path) -> None:
    shown = ask(AgentsMdMiddleware(put(tmp_path, a="tea"), template="Notes: {agent_memory}!"))[1].text
    assert shown.startswith("Notes: <agent_file")
    assert shown.endswith("</agent_file>!")


def test_it_replaces_the_middleware_of_deep_agents(ask: Ask, tmp_path: Path) -> None:
    shown = ask(AgentsMdMiddleware(put(tmp_path, a="tea")), memory=["/none.md"])
    assert [message.type for message in shown] == ["system", "human", "human"]
    assert "agent_memory" not in shown[0].text


# The measured weaknesses.


def test_a_resumed_thread_is_shown_the_current_files(run: Callable[..., Any], tmp_path: Path) -> None:
    chat, sources = model(), put(tmp_path, a="tea")
    agent = create_deep_agent(chat, middleware=[AgentsMdMiddleware(sources)], checkpointer=InMemorySaver())
    for word in ("tea", "rum"):
        put(tmp_path, a=word)
        run(agent, ASKED, {"configurable": {"thread_id": "t"}})
        assert word in chat.asked[-1][1].text
    assert "tea" not in chat.asked[-1][1].text


def test_an_agents_own_edit_is_shown_within_the_same_run(run: Callable[..., Any], tmp_path: Path) -> None:
    put(tmp_path, a="- likes tea\n")
    backend = FilesystemBackend(root_dir=tmp_path, virtual_mode=True)
    chat = model(calling("edit_file", file_path="/a.md", old_string="tea", new_string="rum"))
    run(create_deep_agent(chat, backend=backend, middleware=[AgentsMdMiddleware(["/a.md"], backend=backend)]), ASKED)
    assert ["likes tea" in request[1].text for request in chat.asked] == [True, False]
    assert "likes rum" in chat.asked[1][1].text


def test_a_file_with_invalid_utf_8_is_a_notice_and_the_run_goes_on(ask: Ask, tmp_path: Path) -> None:
    (path,) = put(tmp_path, a=b"caf\xe9 secret")
    for files in (
        AgentsMdMiddleware([path]),
        AgentsMdMiddleware(["/a.md"], backend=FilesystemBackend(root_dir=tmp_path, virtual_mode=True)),
    ):
        shown = ask(files)[1].text
        assert "a.md is not UTF-8 (byte 3 is wrong): save it as UTF-8" in shown
        assert "secret" not in shown


def test_an_agent_that_starts_cold_is_told_how_to_learn_and_where(
    ask: Ask, run: Callable[..., Any], tmp_path: Path
) -> None:
    """Upstream's cold start: no file exists, and the agent makes the first one."""
    backend = FilesystemBackend(root_dir=tmp_path, virtual_mode=True)
    files = AgentsMdMiddleware(["/notes/AGENTS.md", "/other.md"], backend=backend)
    shown = ask(files, backend=backend)[1].text
    assert shown.count("does not exist yet: write_file makes it") == 2
    assert '<agent_file path="/notes/AGENTS.md">' in shown
    assert "Learning from feedback" in shown
    chat = model(calling("write_file", file_path="/notes/AGENTS.md", content="Answer in German."))
    run(create_deep_agent(chat, middleware=[files], backend=backend), ASKED)
    assert (tmp_path / "notes" / "AGENTS.md").read_text() == "Answer in German."
    assert "Answer in German." in chat.asked[-1][1].text


def test_the_files_are_guidance_that_yields_to_the_user(ask: Ask, tmp_path: Path) -> None:
    shown = ask(AgentsMdMiddleware(put(tmp_path, a="Be brief.")))[1].text
    assert "guidance: follow" in shown
    assert "what the user says now" in shown
    assert "never" in shown
    for heading in ("Learning unasked", "rejects a call of a tool", "Examples"):
        assert heading in EDITABLE_TEMPLATE


def test_a_tilde_means_the_home_directory_in_a_backend_of_the_disk(
    ask: Ask, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    put(tmp_path, a="at home")
    backend = FilesystemBackend(root_dir="/", virtual_mode=False)
    shown = ask(AgentsMdMiddleware(["~/a.md"], backend=backend), backend=backend)[1].text
    assert f'<agent_file path="{tmp_path / "a.md"}">' in shown
    assert "at home" in shown
    with pytest.raises(InvalidDataError, match="without virtual_mode"):
        AgentsMdMiddleware(["~/a.md"], backend=FilesystemBackend(root_dir=tmp_path, virtual_mode=True))


def test_a_breakpoint_of_the_prompt_cache_is_set_for_anthropic_alone(tmp_path: Path) -> None:
    anthropic = pytest.importorskip("langchain_anthropic")
    claude = anthropic.ChatAnthropic(model_name="claude-sonnet-4-5", api_key="none")
    sources = put(tmp_path, a="Be brief.")
    for chat, wanted, marked in ((claude, True, True), (claude, False, False), (model(), True, False)):
        files = AgentsMdMiddleware(sources, add_cache_control=wanted)
        request: Any = ModelRequest(model=chat, messages=ASKED["messages"])
        message = files.modify_request(request).messages[0]
        assert "Be brief." in message.text
        assert ("cache_control" in str(message.content)) is marked


def test_it_has_the_names_of_the_middleware_that_it_replaces() -> None:
    """Those that mean the same here; its docstring says why the others are missing."""
    shared = {name for name in dir(MemoryMiddleware) if not name.startswith("_")}
    missing = {name for name in shared if not hasattr(AgentsMdMiddleware, name)}
    assert missing == set()
    assert vars(AgentsMdMiddleware).keys().isdisjoint({"before_agent", "abefore_agent", "state_schema"})
    for name in ("before_agent", "memory_contents", "system_prompt"):
        assert name in (AgentsMdMiddleware.__doc__ or "")
    files = AgentsMdMiddleware(["b.md", "a.md", "b.md"])
    assert files.sources == ["b.md", "a.md"]


async def test_an_edit_of_several_lines_never_spans_a_hidden_comment(tmp_path: Path) -> None:
    """The model edits several bullets of a file as it was shown; an edit across a hidden comment is reverted."""
    async with Memory("memory:", embedder=HashEmbedder()) as memory:
        await memory.save(MultipleFacts(PETS, ("cat", "dog", "owl")))
        facts = AgentsMdFacts(memory, tmp_path / "AGENTS.md", origin=Origin.USER)
        await facts.sync()
        backend = CompositeBackend(default=FilesystemBackend(root_dir=tmp_path, virtual_mode=True), routes={})
        files = AgentsMdMiddleware(["/AGENTS.md"], backend=backend)
        chat: NotingModel = model()
        agent: Any = create_deep_agent(chat, backend=backend, middleware=[files])
        await agent.ainvoke(ASKED)
        shown = chat.asked[0][1].text
        assert "factmem:" not in shown
        lines = shown[shown.index("- **pets**: cat") : shown.index("\n</agent_file>")]
        assert len(lines.splitlines()) == 3
        edit = calling("edit_file", file_path="/AGENTS.md", old_string=lines, new_string="- **pets**: catfish\n- x")
        chat.messages = iter([edit, "Very well."])
        await agent.ainvoke(ASKED)
        await facts.sync()
        assert {record.value for record in await memory.list_records()} == {"catfish", "x"}
