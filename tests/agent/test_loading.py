"""Loading facts into an agent's messages: their choice, rendering, number and repetition."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any
from xml.etree import ElementTree

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem import Concept, FactDetails, Memory, MemoryScope, MemorySubject, Message, MultipleFacts, SingleFact
from factmem.agent import Loading
from factmem.agent.chat_history import MessageFormat, spoken
from factmem.agent.config import USER
from factmem.agent.plugin import AgentMemory
from factmem.agent.rendering import Found, rendered, rendered_block
from factmem.details import Evidence, Origin
from factmem.errors import OutOfViewError
from factmem.facts import STATEMENT, Fact
from factmem.records import FactRecord
from tests.agent.installed import SYSTEM, assistant, memory_over, plugin, texts, user
from tests.memory.telling import BEGAN, CITY, PETS, SEATS
from tests.tables import each_case

AGENT, PRODUCT, SHARED = MemoryScope.agent("clerk"), MemoryScope.product("fair"), MemoryScope.CROSS_PRODUCT
ASKED = user("Where do I live?")
DAY = dt.timedelta(days=1)


def city(name: str, day: int = 0) -> Fact[str]:
    return SingleFact(CITY, name, timestamp=BEGAN + day * DAY)


async def test_a_stronger_subject_goes_before_a_narrower_scope_and_that_before_a_newer_time(memory: Memory) -> None:
    team = MemorySubject("team", "the user's team", priority_level=5)
    agent = plugin(memory, subjects=[team])
    wanted = []
    for said, subject, scope, day in (
        ("Rome", MemorySubject.EVERYTHING, AGENT, 9),
        ("Bern", team, SHARED, 3),
        ("Oslo", team, PRODUCT, 2),
        ("Nice", team, PRODUCT / "plan", 1),
        ("Bonn", USER, SHARED, 0),
    ):
        await memory.save(city(said, day), subject=subject, scope=scope)
        (block, _) = await agent.load_facts_to_agent([ASKED], [CITY])
        wanted.append([name for name in ("Rome", "Bern", "Oslo", "Nice", "Bonn") if name in block["content"]])
    assert wanted == [["Rome"], ["Bern"], ["Oslo"], ["Nice"], ["Bonn"]]


SIZE = Concept.single("shoe_size", "Shoe size", float)
TEACHER = Concept.single("teacher", "The class teacher of a child")


class Noting:
    """Puts all texts on a level, and notes the queries."""

    def __init__(self) -> None:
        self.queries: list[str] = []

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        self.queries.append(query)
        return [0.0] * len(texts)


async def about_lena(memory: Memory) -> None:
    """Save facts about the user and about two children, one of whom is an individual."""
    await memory.save(SingleFact(SIZE, 39.5, timestamp=BEGAN), subject=USER)
    for child, size in (("Lena", 35.0), ("Mattis", 29.0)):
        await memory.save(SingleFact(SIZE, size, timestamp=BEGAN), subject=child)
    await memory.save(SingleFact(TEACHER, "Frau Okafor", timestamp=BEGAN), subject="Lena")
    await memory.save(SingleFact(TEACHER, "Herr Brandt", timestamp=BEGAN), subject="child:lena")


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        ("What is Lena's shoe size?", {("user", 39.5), ("Lena", 35.0), ("Lena", "Frau Okafor")}),
        ("Who is Lena's teacher?", {("user", 39.5), ("Lena", 35.0), ("Lena", "Frau Okafor")}),
        ("Do Lena and Mattis wear the same size?", {("user", 39.5), ("Lena", 35.0), ("Mattis", 29.0)}),
        ("What is my shoe size?", {("user", 39.5)}),
    ],
)
@pytest.mark.parametrize("declared", [(), (MemorySubject("Lena", "the daughter", priority_level=5),)])
async def test_facts_about_a_subject_that_a_request_names_stand_beside_those_of_the_user(
    declared: tuple[MemorySubject, ...], asked: str, shown: set[tuple[str, object]]
) -> None:
    async with memory_over() as memory:
        await about_lena(memory)
        if declared and asked == "What is my shoe size?":
            shown = {*shown, ("Lena", "Frau Okafor")}
        with plugin(memory, subjects=declared).run() as run:
            block = await run.load([Message(content=asked)], concepts=[SIZE, TEACHER])
            found = {(str(record.subject), record.value) for record in block.records}
            told = await run.tools.recall_memory(asked)
    assert found >= shown
    assert {name for name, _ in found} == {name for name, _ in shown}
    assert all(f'about="{name}"' in told and str(value) in told for name, value in shown)


@pytest.mark.parametrize("user_id", [None, "alice"])
async def test_individuals_of_the_agents_subjects_are_read_where_a_request_names_them(user_id: str | None) -> None:
    asked = [Message(content="What is Lena's shoe size?")]
    async with memory_over() as memory:
        await about_lena(memory)
        await memory.save(SingleFact(SIZE, 41.0, timestamp=BEGAN), subject="user:lena")
        await memory.save(SingleFact(SIZE, 36.0, timestamp=BEGAN), subject="child:lena")
        await memory.save(SingleFact(SIZE, 27.0, timestamp=BEGAN), subject="child:jon")
        await memory.view(viewer="bob").save(
            SingleFact(SIZE, 99.0, timestamp=BEGAN), subject="child:lena", private=True
        )
        with plugin(memory, subjects=[MemorySubject("child"), USER]).run(user_id) as run:
            block = await run.load(asked, concepts=[SIZE])
            told = await run.tools.recall_memory(asked[0].content)
        sizes = {record.value for record in block.records}
        assert 36.0 in sizes
        assert sizes.isdisjoint({41.0, 27.0, 99.0})
        assert 'about="child:lena"' in told
        assert not any(value in told for value in ("41.0", "27.0", "99.0"))
        with plugin(memory).run(user_id) as run:
            assert 36.0 not in {record.value for record in (await run.load(asked, concepts=[SIZE])).records}


async def test_the_budget_bounds_the_facts_about_a_named_subject_and_given_subjects_leave_them_out(
    memory: Memory,
) -> None:
    await about_lena(memory)
    asked = [user("What is Lena's shoe size?")]
    (block, _) = await plugin(memory, loading=Loading(limit=1)).load_all_facts_to_agent(asked)
    assert 'about="Lena" name="shoe_size"' in block["content"]
    assert block["content"].count("<fact") == 1
    (block, _) = await plugin(memory).load_all_facts_to_agent(asked, subjects=[USER])
    assert "Lena" not in block["content"]


async def test_facts_statements_and_replies_are_reranked_at_once() -> None:
    reranker = Noting()
    async with memory_over(reranker=reranker) as memory:
        await about_lena(memory)
        await memory.remember(Message(content="Lena wears size 31 now.", role="assistant"))
        with plugin(memory).run() as run:
            block = await run.load([Message(content="What is Lena's shoe size?")])
    assert len(block.records) > 2
    assert len(reranker.queries) == 1


async def test_no_search_is_made_for_the_subjects_that_a_request_names() -> None:
    asked, reranker = [Message(content="What is Lena's shoe size?")], Noting()
    async with memory_over(reranker=reranker, access_statistics=True) as memory:
        await about_lena(memory)
        with plugin(memory).run() as run:
            block = await run.load(asked, concepts=[SIZE])
            searches = len(reranker.queries)
            await run.load(asked, concepts=[SIZE], subjects=[USER])
            await run.load(asked, concepts=[SIZE], subjects=[MemorySubject("Lena")])
        assert (searches, len(reranker.queries)) == (1, 3)
        records = await memory.list_records()
        counts = {record.id for record in records if (await memory.admin.accesses(record.id))[record.id].count}
    assert [record.subject.name for record in block.records] == ["Lena", "user"]
    assert counts == {record.id for record in block.records}


@each_case("said", "asks")
@pytest.mark.parametrize("concepts", [(), (CITY,)])
async def test_a_message_that_asks_for_nothing_gets_rules_and_typed_facts_only(
    said: list[str], asks: bool, concepts: tuple[Concept[Any, Any], ...]
) -> None:
    async with memory_over() as memory:
        await memory.save(city("Oslo"), subject=USER)
        await memory.save(SingleFact(SIZE, 39.5, timestamp=BEGAN), subject=USER)
        await memory.remember("I like to cook with saffron.", subject=USER)
        await memory.remember("Please always answer in French.", subject=USER)
        agent = plugin(memory, concepts=concepts)
        (*_, block, _) = await agent.load_all_facts_to_agent([user(text) for text in said])
        (*_, asked, _) = await agent.load_facts_to_agent([user(text) for text in said], [STATEMENT])
    shown = {word for word in ("Oslo", "39.5", "saffron", "French") if word in block["content"]}
    always = {"Oslo", "French"} if concepts else {"Oslo", "39.5", "French"}
    assert shown == ({"Oslo", "39.5", "saffron", "French"} if asks else always)
    assert "saffron" in asked["content"]


async def test_values_of_a_multiple_are_rendered_once_and_of_one_level(memory: Memory) -> None:
    for pets in (("cat", "dog"), ("dog", "bee")):
        await memory.save(MultipleFacts(PETS, pets), subject=USER, scope=PRODUCT)
    await memory.save(MultipleFacts(PETS, ("elk",)), subject=USER, scope=SHARED)
    (block, _) = await plugin(memory).load_facts_to_agent([ASKED], ["pets"])
    assert [block["content"].count(f">{pet}<") for pet in ("cat", "dog", "bee", "elk")] == [1, 1, 1, 0]


async def test_only_the_scopes_that_the_agent_takes_part_in_are_read(memory: Memory) -> None:
    """A scope kind without a name selects no scope, and the scope of all products does not include one product's."""
    for scope in (AGENT, MemoryScope.agent("other"), MemoryScope.feature("f"), SHARED, SHARED / "acme", PRODUCT):
        await memory.save(SingleFact(Concept.single(f"in {scope}".replace("/", " "), "x"), "y"), scope=scope)
    loaded = texts(await plugin(memory, product_name=None).load_all_facts_to_agent([ASKED]))[0]
    assert ["in  agent clerk" in loaded, "in  cross-product" in loaded] == [True, True]
    assert [name for name in ("other", "acme", "feature", "fair") if name in loaded] == []


async def test_scopes_and_subjects_may_be_narrowed_but_not_widened(memory: Memory, agent: AgentMemory) -> None:
    await memory.save(city("Oslo"), subject=USER, scope=PRODUCT)
    await memory.save(city("Rome"), subject=MemorySubject.EVERYTHING, scope=AGENT)
    (block, _) = await agent.load_all_facts_to_agent([ASKED], scopes=[AGENT])
    assert "Rome" in block["content"]
    (block, _) = await agent.load_all_facts_to_agent([ASKED], subjects=[MemorySubject.EVERYTHING])
    assert "Rome" in block["content"]
    with pytest.raises(OutOfViewError):
        await agent.load_all_facts_to_agent([ASKED], scopes=["/product/other"])


async def test_subjects_are_added_to_the_user_and_to_everything(memory: Memory) -> None:
    """Facts of the project stay in the block, and the tool finds them."""
    team = MemorySubject("team", "the user's team", priority_level=5)
    for subject, seats in ((team, 12), (MemorySubject.EVERYTHING, 120)):
        await memory.save(SingleFact(SEATS, seats), subject=subject, scope=PRODUCT)
    await memory.save(city("Oslo"), subject=MemorySubject.EVERYTHING, scope=PRODUCT)
    agent = plugin(memory, subjects=[team])
    (block, _) = await agent.load_all_facts_to_agent([user("In which city are how many seats?")])
    assert [text in block["content"] for text in ("Oslo", "12", "120")] == [True, True, False]
    assert "Oslo" in await agent.for_run().tools.recall_memory("city")


async def test_the_block_precedes_the_users_last_message(memory: Memory) -> None:
    history = [SYSTEM, user("Hello."), assistant("Hi."), ASKED]
    before = [dict(message) for message in history]
    await memory.save(city("Oslo"), subject=USER)
    loaded = await plugin(memory).load_all_facts_to_agent(history)
    assert [loaded[number] is history[at] for number, at in ((0, 0), (1, 1), (2, 2), (4, 3))] == [True] * 4
    assert (len(loaded), loaded[3]["role"], history) == (5, "user", before)


async def test_loading_twice_leaves_one_up_to_date_block(memory: Memory, agent: AgentMemory) -> None:
    await memory.save(city("Oslo"), subject=USER)
    once = await agent.load_all_facts_to_agent([SYSTEM, ASKED])
    assert await agent.load_all_facts_to_agent(once) == once
    await memory.save(city("Rome", 1), subject=USER)
    (_, block, _) = await agent.load_all_facts_to_agent(once)
    assert ("Rome" in block["content"], "Oslo" in block["content"]) == (True, False)
    await memory.forget(concepts=[CITY])
    assert await agent.load_all_facts_to_agent(once) == [SYSTEM, ASKED]


async def test_text_that_resembles_a_block_is_not_a_block(memory: Memory, agent: AgentMemory) -> None:
    """A block is recognized by its marker; a user's message with the same words is an ordinary message."""
    await memory.save(city("Oslo"), subject=USER)
    (block, _) = await agent.load_all_facts_to_agent([ASKED])
    quoted = user(block["content"])
    loaded = await agent.load_all_facts_to_agent([quoted, ASKED])
    assert loaded[0] is quoted
    assert len(loaded) == 3


async def test_nothing_known_adds_nothing(memory: Memory) -> None:
    assert await plugin(memory).load_all_facts_to_agent([SYSTEM, ASKED]) == [SYSTEM, ASKED]
    assert await plugin(memory).load_facts_to_agent([ASKED], []) == [ASKED]


async def test_facts_in_the_conversation_are_not_rendered(agent: AgentMemory) -> None:
    history = [user("I keep bees in the garden."), assistant("I see.")]
    with agent.run("alice", "monday"):
        await agent.save_facts_from_history(history)
        history.append(user("What do I keep?"))
        assert await agent.load_all_facts_to_agent(history) == history
    with agent.run("alice", "tuesday"):
        assert "bees" in texts(await agent.load_all_facts_to_agent([user("What do I keep?")]))[0]


async def test_the_budget_keeps_the_best_matches(memory: Memory) -> None:
    """Records are ranked before the block is cut, and its text never exceeds the budget."""
    for number in range(40):
        await memory.save(MultipleFacts(STATEMENT, (f"Stall {number} sells tea number {number}.",)), subject=USER)
    await memory.save(MultipleFacts(STATEMENT, ("The user keeps bees in the garden.",)), subject=USER)
    for budget in (60, 120, 400):
        agent = plugin(memory, loading=Loading(budget=budget, count_tokens=lambda text: len(text) // 4 + 1))
        (block, _) = await agent.load_all_facts_to_agent([user("Which garden has the bees?")])
        assert "bees" in block["content"]
        assert len(block["content"]) // 4 <= budget


async def test_a_budget_that_is_too_small_renders_nothing(memory: Memory) -> None:
    await memory.save(city("Oslo"), subject=USER)
    agent = plugin(memory, loading=Loading(budget=1))
    assert await agent.load_all_facts_to_agent([ASKED]) == [ASKED]


async def test_speaker_date_and_subject_are_rendered(memory: Memory) -> None:
    valid = SingleFact(SEATS, 12, timestamp=BEGAN, valid_from=BEGAN, valid_to=BEGAN + 9 * DAY)
    await memory.save(valid, subject=USER.individual("alice"))
    with plugin(memory).run("alice") as run:
        block = await run.load([Message(content="How many seats?")])
    assert '<fact about="user:alice" name="seats" said="2024-05-08" from="2024-05-08" until="2024-05-17">12<' in (
        block.text
    )


def record(value: str, keyword: str = "city") -> FactRecord[Any]:
    concept: Concept[Any, Any] = STATEMENT if keyword == "statement" else Concept.single(keyword, "x")
    return FactRecord(
        id="1",
        fact=concept.fact([value], timestamp=BEGAN),
        subject=USER.individual('"><x'),
        scope=AGENT,
        details=FactDetails(),
        revision=1,
        recorded_at=BEGAN,
    )


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), min_size=1, max_size=4))
def test_no_value_closes_the_block(values: list[str]) -> None:
    """The block is one well-formed element with one child for each fact, regardless of the values."""
    block = rendered([record(f"{value}</memory><memory>", "statement") for value in values], 10**6, len)
    tree = ElementTree.fromstring(block.text)
    assert (tree.tag, len(tree)) == ("memory", len(values))
    assert [len(line) for line in tree] == [0] * len(values)


@each_case("of_claim", "of_correction", "shown")
def test_a_correction_reaches_the_assistants_words_of_a_known_conversation_alone(
    of_claim: str | None, of_correction: str | None, shown: bool
) -> None:
    said = "You drive a Toyota."
    claim = Evidence(quote=said, conversation_id=of_claim)
    correction = Evidence(quote="No, a Mazda.", conversation_id=of_correction, corrects=said)
    records = [
        attrs.evolve(
            record(item.quote, "statement"), id=item.quote, details=FactDetails(evidence=[item], origin=origin)
        )
        for item, origin in ((claim, Origin.ASSISTANT), (correction, Origin.USER))
    ]
    block = rendered_block(Found(records=tuple(records)), Loading(), "What did you say?")
    assert (f">{said}<" in block.text) is shown
    assert f'after="{said}">No, a Mazda.<' in block.text


def test_messages_of_ones_own_are_a_history_too() -> None:
    history = [Message(content="x", id="1"), Message(content="y"), Message(content="y")]
    ids = [message.id for message in spoken(MessageFormat(), history)]
    assert ids[0] == "1"
    assert len(set(ids)) == 3
    assert [message.id for message in spoken(MessageFormat(), [*history, Message(content="z")])][:3] == ids
