"""Memory in Deep Agents: the middleware in every agent made, and known facts as files."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest
from anyio import to_thread
from blockbuster import blockbuster_ctx
from deepagents import create_deep_agent
from deepagents.backends import CompositeBackend, StateBackend
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from factmem import AgentMemory, Memory, MultipleFacts, SingleFact
from factmem.agent import Loading, Saving, install
from factmem.agent.config import USER, AgentMemoryConfig
from factmem.details import FactDetails, Origin
from factmem.errors import InvalidDataError
from factmem.integrations.deepagents import AgentsMdMiddleware, FactMemBackend
from factmem.records import AssertionState, FactRecord
from factmem.testing import HashEmbedder
from tests.integrations.chat_model import NotingModel, calling, model
from tests.memory.telling import CITY, PETS, SEATS
from tests.tables import each_case

ResultT = TypeVar("ResultT")

ALICE: Any = {"user_id": "alice"}
MINE = "/agent/clerk/user.md"
ASKED: Any = {"messages": [HumanMessage("Where do I live?")]}

pytestmark = pytest.mark.filterwarnings("ignore:.*forked subagents.*:Warning")


@pytest.fixture
def rules(tmp_path: Path) -> str:
    """An AGENTS.md on disk."""
    (tmp_path / "AGENTS.md").write_text("Be brief.")
    return str(tmp_path / "AGENTS.md")


def over(store: str = "memory:", **settings: Any) -> AgentMemory:
    given = {"agent_name": "clerk", "product_name": "fair", "concepts": (CITY, SEATS, PETS), **settings}
    return AgentMemory(AgentMemoryConfig(store=store, users="shared", embedder=HashEmbedder(), **given))


NOTED = {"old_string": "- **city**: Rome", "new_string": "- was born in Oslo\n- **city**: Rome"}
"""An edit that adds a bullet."""


async def call(memory: AgentMemory, *works: Callable[[Memory], Awaitable[Any]]) -> list[Any]:
    """Call a method of the `Memory` below an agent's memory."""
    return [await memory.for_run().held.use(work) for work in works]


async def records(memory: AgentMemory) -> list[FactRecord[Any]]:
    found = await call(memory, lambda opened: opened.list_records())
    return sorted(found[0], key=lambda record: str(record.value))


@pytest.fixture
async def memory() -> AsyncIterator[AgentMemory]:
    """A memory with facts about alice, bob and the product, and a quarantined lie."""
    async with over() as memory:
        mine, fair = USER.individual("alice"), "/product/fair"
        await call(
            memory,
            partial(Memory.save, fact=SingleFact(CITY, "Rome"), subject=mine, scope="/agent/clerk"),
            partial(Memory.save, fact=MultipleFacts(PETS, ("cat", "dog")), subject=mine, scope="/agent/clerk"),
            partial(Memory.save, fact=SingleFact(CITY, "Bern"), subject=USER.individual("bob"), scope="/agent/clerk"),
            partial(Memory.save, fact=SingleFact(SEATS, 120), scope=fair),
            partial(Memory.save, fact=SingleFact(CITY, "Pisa"), scope="/agent/other"),
            partial(
                Memory.save,
                fact=SingleFact(CITY, "Paris"),
                subject=mine,
                scope=fair,
                details=FactDetails(origin=Origin.TOOL),
            ),
        )
        yield memory


def files_of(backend: FactMemBackend) -> dict[str, str]:
    found = backend.glob("**").matches or []
    paths = [info["path"] for info in found]
    return {
        path: (file.content or b"").decode() for path, file in zip(paths, backend.download_files(paths), strict=True)
    }


async def in_thread(work: Callable[[], ResultT]) -> ResultT:
    """Call the blocking half of a backend, in a thread without an event loop."""
    return await to_thread.run_sync(work)


def agent_with(memory: AgentMemory, chat: NotingModel, **settings: Any) -> Any:
    memories = CompositeBackend(default=StateBackend(), routes={"/memories/": FactMemBackend(memory)})
    files = AgentsMdMiddleware(["/memories/AGENTS.md"], backend=memories)
    return create_deep_agent(chat, backend=memories, middleware=[files], **settings)


async def test_what_a_run_may_see_lies_in_files_by_scope_and_subject(memory: AgentMemory) -> None:
    backend = FactMemBackend(memory)
    with memory.run("alice"):
        files = await in_thread(lambda: files_of(backend))
    assert list(files) == ["/AGENTS.md", MINE, "/product/fair/everything.md"]
    assert [word in files[MINE] for word in ("Rome", "cat", "dog", "120")] == [True, True, True, False]
    assert [word in files["/AGENTS.md"] for word in ("Rome", "cat", "dog", "120")] == [True] * 4
    for hidden in ("Bern", "Pisa", "Paris"):
        assert not [path for path, text in files.items() if hidden in text]


async def test_one_path_serves_all_users_each_with_their_own(memory: AgentMemory) -> None:
    backend = FactMemBackend(memory)
    for user, city, other in (("alice", "Rome", "Bern"), ("bob", "Bern", "Rome")):
        with memory.run(user):
            read = await backend.aread(MINE)
            assert read.file_data is not None
            assert city in read.file_data["content"]
            assert other not in str(await backend.agrep("city"))
    assert (await backend.als("/agent")).entries == [{"path": "/agent/clerk/", "is_dir": True, "size": 0}]


async def test_the_blocking_half_says_the_same(memory: AgentMemory) -> None:
    backend = FactMemBackend(memory)
    with memory.run("alice"):
        for name, arguments in {
            "ls": ("/",),
            "read": (MINE, 1, 3),
            "grep": ("city", "/agent", "*.md"),
            "glob": ("*.md", "/product"),
            "download_files": (["/AGENTS.md", "/none.md"],),
            "edit": ("/none.md", "a", "b"),
            "write": ("/none.md", "a"),
            "upload_files": ([("/AGENTS.md", b"\xff"), ("/none.md", b"- a")],),
        }.items():
            blocking = await in_thread(partial(getattr(backend, name), *arguments))
            assert blocking == await getattr(backend, f"a{name}")(*arguments), name


async def test_a_missing_file_is_reported_as_backends_do(memory: AgentMemory) -> None:
    backend = FactMemBackend(memory)
    assert (await backend.aread("/none.md")).error == "File '/none.md' not found"
    assert [file.error for file in await backend.adownload_files(["/none.md"])] == ["file_not_found"]
    assert (await backend.als("/none")).entries == []
    assert (await backend.aglob("../*")).error
    with pytest.raises(NotImplementedError):
        backend.delete("/AGENTS.md")


async def test_an_edit_becomes_typed_changes_in_the_words_of_the_model(memory: AgentMemory) -> None:
    backend = FactMemBackend(memory)
    with memory.run("alice"):
        (line,) = (await backend.agrep("dog", MINE)).matches or []
        added = line["text"] + "\n- **seats**: 4\n- likes ships\n- likes trains\n"
        assert (await backend.aedit(MINE, line["text"] + "\n", added)).error is None
        result = await backend.aedit(MINE, "**seats**: 4", "**seats**: 5")
        assert (result.error, result.path, result.occurrences) == (None, MINE, 1)
        (ships,) = (await backend.agrep("ships", MINE)).matches or []
        assert (await backend.aedit(MINE, ships["text"] + "\n", "")).error is None
    known = {str(record.value): record for record in await records(memory) if str(record.subject) == "user:alice"}
    assert sorted(known) == ["5", "Rome", "cat", "dog", "likes trains"]
    assert {known[value].details.origin for value in ("5", "likes trains")} == {Origin.ASSISTANT}
    assert {known[value].details.origin for value in ("Rome", "cat", "dog")} == {Origin.USER}
    assert known["5"].value == 5
    (history,) = await call(memory, lambda opened: opened.history(SEATS, subject=USER.individual("alice")))
    assert [item.value for item in history] == [4, 5]


@each_case("before", "after")
async def test_no_edit_changes_or_takes_back_what_the_user_said(memory: AgentMemory, before: str, after: str) -> None:
    """The model's words never count as the user's, and never replace the user's."""
    backend = FactMemBackend(memory)
    known = await records(memory)
    with memory.run("alice"):
        for path in ("/AGENTS.md", MINE):
            refused = await backend.aedit(path, before, after)
            assert "only the user's own words do that" in str(refused.error)
    assert await records(memory) == known


@each_case("before", "after", "what_to_do")
async def test_an_edit_that_fails_says_what_to_do(
    memory: AgentMemory, before: str, after: str, what_to_do: str
) -> None:
    backend = FactMemBackend(memory)
    with memory.run("alice"):
        all_of_it = before.startswith(" (said")
        result = await backend.aedit("/AGENTS.md", before, after, all_of_it)
    assert result.error is not None
    assert result.error.startswith("Error: ")
    assert what_to_do in result.error
    assert {str(record.value) for record in await records(memory)} == {"120", "Bern", "Pisa", "Rome", "cat", "dog"}


async def test_a_file_may_be_written_if_it_leaves_out_nothing_that_is_known(memory: AgentMemory) -> None:
    backend = FactMemBackend(memory)
    with memory.run("alice"):
        lost = await backend.awrite(MINE, "- likes trains\n")
        assert "would overwrite 3 known facts" in str(lost.error)
        assert "use edit_file" in str(lost.error)
        whole = (await backend.adownload_files([MINE]))[0].content or b""
        assert (await backend.awrite(MINE, whole.decode() + "- likes trains\n")).path == MINE
        (new,) = await backend.aupload_files([("/cross-product/user.md", b"- likes ships\n")])
        assert new.error is None
        assert "there is no such file in memory" in str((await backend.awrite("/product/x/user.md", "- a")).error)
    assert [record.value for record in await records(memory) if "likes" in str(record.value)] == [
        "likes ships",
        "likes trains",
    ]


async def test_a_read_only_backend_refuses_edits(memory: AgentMemory) -> None:
    backend = FactMemBackend(memory, read_only=True)
    before = await records(memory)
    with memory.run("alice"):
        assert "read-only" in str((await backend.aedit("/AGENTS.md", "Rome", "Oslo")).error)
        assert "read-only" in str((await backend.awrite("/product/fair/user.md", "- a")).error)
        assert "read-only" in str((await backend.aupload_files([(MINE, b"- a")]))[0].error)
    assert await records(memory) == before


async def test_what_nobody_trusts_the_model_with_waits_in_quarantine() -> None:
    async with over(saving=Saving(tool_origin=Origin.UNKNOWN)) as memory:
        await call(
            memory,
            lambda opened: opened.save(
                SingleFact(CITY, "Rome"), subject=USER.individual("alice"), scope="/agent/clerk"
            ),
        )
        backend = FactMemBackend(memory)
        with memory.run("alice"):
            assert "waits until somebody confirms it" in str((await backend.aedit(MINE, "Rome", "Paris")).error)
            assert "cannot be removed here" in str(
                (await backend.aedit(MINE, "- **city**: Rome", "- likes gin\n- x")).error
            )
            assert "Paris" not in str(await backend.agrep("city"))
        assert [record.value for record in await records(memory)] == ["Rome"]
        (apart,) = await call(memory, lambda opened: opened.inbox.quarantine.list())
        assert [(item.value, item.state) for item in apart] == [("Paris", AssertionState.QUARANTINED)]


async def test_what_is_private_is_kept_for_the_user_of_the_run() -> None:
    async with over(saving=Saving(private=True)) as memory:
        backend = FactMemBackend(memory)
        assert "names no user" in str((await backend.awrite(MINE, "- snores\n")).error)
        with memory.run("alice"):
            assert (await backend.awrite(MINE, "- snores\n")).error is None
            assert "snores (private" in str(await backend.agrep("snores"))
        with memory.run("bob"):
            assert (await backend.agrep("snores")).matches == []
        assert await records(memory) == []


async def test_the_overview_keeps_to_its_budget_and_says_so() -> None:
    async with over(loading=Loading(budget=300)) as memory:
        many = MultipleFacts(PETS, tuple(f"a pet with number {number}" for number in range(100)))
        await call(memory, lambda opened: opened.save(many, subject=USER, scope="/agent/clerk"))
        files = await in_thread(lambda: files_of(FactMemBackend(memory)))
        assert len(files["/AGENTS.md"]) < 1_500
        assert "more are too long, too many, flagged or small talk, and not shown here" in files["/AGENTS.md"]
        assert files[MINE].count("a pet") == 100


async def test_an_edit_over_several_bullets_as_the_prompt_shows_them_works(memory: AgentMemory) -> None:
    """Nothing is hidden between bullets, so the text shown to the model is the text of the file."""
    chat = model()
    agent = agent_with(memory, chat)
    await agent.ainvoke(ASKED, context=ALICE)
    shown = chat.asked[-1][1].text
    lines = shown[shown.index("- **city**") : shown.index("### everything")].rstrip()
    assert len(lines.splitlines()) > 2
    more = lines.replace("\n", "\n- likes Oslo\n", 1)
    edit = calling("edit_file", file_path="/memories/AGENTS.md", old_string=lines, new_string=more)
    chat.messages = iter([edit, "Very well."])
    await agent.ainvoke(ASKED, context=ALICE)
    found = [record.value for record in await records(memory) if str(record.subject) == "user:alice"]
    assert found == ["Rome", "cat", "dog", "likes Oslo"]


async def test_installing_gives_a_function_with_the_same_signature(memory: AgentMemory) -> None:
    make_agent = install(memory, into=create_deep_agent)
    chat = model()
    agent: Any = make_agent(chat, system_prompt="You are a clerk.", checkpointer=InMemorySaver())
    result = await agent.ainvoke(ASKED, {"configurable": {"thread_id": "t"}}, context=ALICE)
    assert ["Rome" in message.text for message in chat.asked[0]] == [False, True, False]
    assert "Rome" not in str(result)
    with pytest.raises(InvalidDataError, match="a memory already"):
        install(memory, into=make_agent)(chat)


async def test_the_models_task_for_a_subagent_is_not_saved_as_the_users_words(memory: AgentMemory) -> None:
    """A forked subagent has its parent's middleware, and a task in the user's role that the model wrote."""
    forked: Any = {"name": "helper", "description": "Helps.", "system_prompt": "Help.", "mode": "fork"}
    task = calling("task", description="I live in Paris now.", subagent_type="helper")
    agent: Any = install(memory, into=create_deep_agent)(model(task), subagents=[forked])
    await agent.ainvoke(ASKED, context=ALICE)
    await call(memory, lambda opened: opened.inbox.flush())
    kept = [str(record.value) for record in await records(memory)]
    assert "Where do I live?" in kept
    assert not [value for value in kept if "Paris" in value]


def test_files_are_refused_to_a_run_without_a_user_where_users_are_kept_apart() -> None:
    config = AgentMemoryConfig(store="memory:", agent_name="clerk", embedder=HashEmbedder())
    backend = FactMemBackend(AgentMemory(config))
    for error in (backend.read("/AGENTS.md").error, backend.write(MINE, "- likes trains\n").error):
        assert "names no user" in str(error)


def test_the_paths_of_a_backend_are_no_home_directories() -> None:
    with pytest.raises(InvalidDataError, match="without virtual_mode"):
        AgentsMdMiddleware(["~/AGENTS.md"], backend=FactMemBackend(over()))


async def test_an_agent_without_any_memory_learns_its_first_fact() -> None:
    """The file of known facts always exists: an empty one has the headings that bullets are put below."""
    memory = over()
    chat = model(calling("write_file", file_path="/memories/AGENTS.md", content="- likes trains\n"))
    await agent_with(memory, chat).ainvoke(ASKED, context=ALICE)
    assert "### user:alice in /agent/clerk" in chat.asked[0][1].text
    assert "When to update memories" in chat.asked[0][1].text
    assert "likes trains" in chat.asked[-1][1].text
    assert [record.value for record in await records(memory)] == ["likes trains"]
    await memory.aclose()


async def test_no_event_loop_is_blocked(memory: AgentMemory, rules: str) -> None:
    """This covers the files of known facts, their edits, and files on disk."""
    chat = model(calling("edit_file", file_path="/memories/AGENTS.md", **NOTED))
    agent = agent_with(memory, chat)
    other: Any = create_deep_agent(model(), middleware=[AgentsMdMiddleware([rules])])
    with blockbuster_ctx("factmem"):
        await agent.ainvoke(ASKED, context=ALICE)
        await other.ainvoke(ASKED)
    assert "Oslo" in chat.asked[-1][1].text


async def test_an_open_memory_serves_its_own_loop_and_says_so_to_others() -> None:
    async with Memory("memory:", embedder=HashEmbedder()) as opened:
        memory = AgentMemory(AgentMemoryConfig(store=opened, agent_name="clerk", users="shared"))
        backend = FactMemBackend(memory)
        assert (await backend.awrite(MINE, "- likes trains\n")).error is None
        assert "cannot be used without its event loop" in str((await in_thread(lambda: backend.read(MINE))).error)
