"""Tools for a trusted client."""

from __future__ import annotations

import datetime as dt
from typing import Any

import anyio
import pytest
from mcp import Client

from factmem import AgentMemory, AgentMemoryConfig, FactDetails, Memory, MultipleFacts, RecallSettings, SingleFact
from factmem.agent import Loading
from factmem.errors import InvalidDataError
from factmem.facts import STATEMENT, Concept
from factmem.mcp import make_server
from factmem.recall import Additive
from factmem.records import AssertionState
from factmem.testing import ScriptedModel
from tests.mcp.clients import CITY, MAYA, SEATS, answer, connected, opened, refusal
from tests.narrowing import not_none
from tests.tables import each_case

MONDAY = dt.datetime(2026, 5, 4, 9, tzinfo=dt.UTC)
PETS = Concept.multiple("pets", "Animals that somebody keeps")


@pytest.fixture
def client(trusted: Client) -> Client:
    return trusted


async def test_a_saved_fact_is_recalled_loaded_listed_and_counted(memory: Memory, client: Client) -> None:
    saved = await answer(
        client, "save_fact", keyword="seats", value=120, description="How many fit in", subject="user:maya"
    )
    (fact,) = saved["facts"]
    assert (fact["value"], fact["subject"], fact["origin"], fact["state"]) == (120, "user:maya", "user", "active")
    assert (saved["kept_apart"], saved["note"]) == (False, "Kept.")
    found = await answer(client, "recall", query="how many seats")
    assert found["answers"]
    (match,) = found["matches"]
    assert match["fact"] == fact
    assert (await answer(client, "load", keyword="seats"))["facts"] == [fact]
    assert (await answer(client, "list"))["facts"] == [fact]
    info = await answer(client, "info")
    assert (info["records"], info["keywords"], info["subjects"]) == (1, ["seats"], ["user:maya"])
    assert await memory.load(SEATS, subject=MAYA)


async def test_a_statement_that_was_overtaken_is_recalled_with_the_newer_one(client: Client) -> None:
    for text in ("I live in Oslo.", "I moved to Lisbon."):
        await answer(client, "remember", text=text)
    matches = (await answer(client, "recall", query="Where do I live?"))["matches"]
    found = {match["fact"]["value"]: match for match in matches}
    assert found["I live in Oslo."]["newer"] == found["I moved to Lisbon."]["fact"]
    assert (found["I moved to Lisbon."]["newer"], found["I live in Oslo."]["retracted"]) == (None, False)


async def test_the_minimum_score_is_the_clients_or_the_servers(memory: Memory) -> None:
    for keyword, value in (("seats", "120 in the hall"), ("lunch", "soup")):
        await memory.save(SingleFact(Concept.single(keyword, ""), value))

    async def found(client: Client, query: str = "seats in the hall", **arguments: Any) -> list[str]:
        matches = (await answer(client, "recall", query=query, **arguments))["matches"]
        return [match["fact"]["keyword"] for match in matches]

    async with connected(memory) as client:
        assert await found(client) == ["seats", "lunch"]
        assert await found(client, min_score=0.3) == ["seats"]
        assert await found(client, "zxqv blorp", min_score=0.3) == []
        assert "less than or equal to 1" in await refusal(client, "recall", query="seats", min_score=30)
    async with connected(memory, min_score=0.3) as client:
        assert await found(client) == ["seats"]
        assert await found(client, min_score=0) == ["seats", "lunch"]
    with pytest.raises(InvalidDataError, match="min_score"):
        make_server(memory, min_score=2)


async def test_the_weights_of_recall_are_the_servers(memory: Memory) -> None:
    by_importance = RecallSettings(composite=Additive(similarity_weight=0.0, recency_weight=0.0, importance_weight=1.0))
    for value, importance in (("The hall has seats.", 0.1), ("Lunch was soup.", 0.9)):
        await memory.save(MultipleFacts(STATEMENT, (value,)), details=FactDetails(importance=importance), subject=MAYA)
    async with connected(memory, settings=by_importance) as client:
        best, other = (await answer(client, "recall", query="seats in the hall"))["matches"]
    assert (best["score"], other["score"]) == (pytest.approx(0.9), pytest.approx(0.1))
    config = AgentMemoryConfig(
        store=memory, user=MAYA, recall=by_importance, loading=Loading(min_score=0.5), cross_product=True
    )
    async with AgentMemory(config) as agent, connected(agent) as client:
        (only,) = (await answer(client, "recall", query="seats in the hall"))["matches"]
    assert only["fact"]["value"] == "Lunch was soup."


async def test_a_statement_is_remembered_with_its_words(memory: Memory, client: Client) -> None:
    result = await answer(
        client, "remember", text="The launch is in May.", importance=0.9, categories=["plans"], private=True
    )
    (fact,) = result["facts"]
    assert (fact["value"], fact["importance"], fact["categories"]) == ("The launch is in May.", 0.9, ["plans"])
    assert (fact["private"], fact["source"]) == (True, "mcp")
    assert fact["evidence"][0]["quote"] == "The launch is in May."
    assert await memory.view(viewer=None).list_records() == []


async def test_what_clients_of_one_user_save_is_about_that_user_and_private() -> None:
    async with opened() as memory, connected(memory.for_user("nora"), trust=True) as client:
        (said,) = (await answer(client, "remember", text="The launch is in May."))["facts"]
        (typed,) = (await answer(client, "save_fact", keyword="city", value="Oslo"))["facts"]
        assert [(fact["subject"], fact["private"]) for fact in (said, typed)] == [("user:nora", True)] * 2
        assert await memory.view(viewer=None).list_records(subject="user:nora") == []


@each_case("given", "type", "kept")
async def test_a_value_is_kept_as_the_json_that_it_is(given: Any, type: str | None, kept: Any, client: Client) -> None:
    """A text that looks like JSON stays a text."""
    (fact,) = (await answer(client, "save_fact", keyword="k", value=given, type=type))["facts"]
    assert fact["value"] == kept
    (loaded,) = (await answer(client, "load", keyword="k"))["facts"]
    assert (loaded["value"], builtin(loaded["value"])) == (kept, builtin(kept))


def builtin(value: object) -> str:
    return value.__class__.__name__


async def test_a_known_concept_says_which_values_are_right(memory: Memory, client: Client) -> None:
    await memory.save(SingleFact(SEATS, 5, timestamp=MONDAY))
    assert await refusal(client, "save_fact", keyword="seats", value="many") == (
        "the value is not a valid int: expected int, found str"
    )
    await answer(client, "save_fact", keyword="seats", value=6)
    fact = not_none(await memory.load(SEATS))
    assert (fact.value, fact.concept.description) == (6, SEATS.description)


async def test_another_type_for_a_known_concept_is_refused(memory: Memory, client: Client) -> None:
    await memory.save(SingleFact(SEATS, 5))
    message = await refusal(client, "save_fact", keyword="seats", value="many", type="str")
    assert "seats" in message
    assert "many" not in message


async def test_a_list_is_several_values_of_a_multiple_concept(client: Client) -> None:
    """Whether it is the first value or a later one; a list that the type holds is one value."""
    await answer(client, "save_fact", keyword="pets", value=["Rex", "Tom"], multiple=True)
    await answer(client, "save_fact", keyword="pets", value=["Kit", "Ada"])
    await answer(client, "save_fact", keyword="pets", value="Max")
    pets = (await answer(client, "load", keyword="pets"))["facts"]
    assert [fact["value"] for fact in pets] == ["Rex", "Tom", "Kit", "Ada", "Max"]
    assert all(fact["multiple"] for fact in pets)
    await answer(client, "save_fact", keyword="sizes", value=[1, 2.5], multiple=True, type="float")
    await answer(client, "save_fact", keyword="routes", value=["a", "b"], multiple=True, type="json")
    await answer(client, "save_fact", keyword="order", value=["a", "b"])
    values = {fact["keyword"]: fact["value"] for fact in (await answer(client, "list"))["facts"]}
    assert (values["routes"], values["order"]) == (["a", "b"], ["a", "b"])
    assert "sizes" in values
    await refusal(client, "save_fact", keyword="pets", value=["Max", 1])


async def test_a_concept_that_is_not_known_brings_up_similar_ones() -> None:
    async with opened() as memory, connected(memory) as client:
        await memory.save(SingleFact(CITY, "Oslo"))
        loaded = await answer(client, "load", keyword="home_city")
        assert (loaded["facts"], loaded["similar_keywords"]) == ([], ["city"])


async def test_history_shows_what_became_of_each_value_and_as_of_looks_back(client: Client) -> None:
    await answer(client, "save_fact", keyword="city", value="Oslo", said="2026-05-01")
    await answer(client, "save_fact", keyword="city", value="Rome", said="2026-05-03T10:00:00+02:00")
    result = (await answer(client, "history", keyword="city"))["facts"]
    assert [(fact["value"], fact["state"], fact["said"]) for fact in result] == [
        ("Oslo", "superseded", "2026-05-01T00:00:00+00:00"),
        ("Rome", "active", "2026-05-03T08:00:00+00:00"),
    ]
    (fact,) = (await answer(client, "load", keyword="city", as_of="2026-05-02"))["facts"]
    assert fact["value"] == "Oslo"
    (match,) = (await answer(client, "recall", query="city", as_of="2026-05-02"))["matches"]
    assert match["fact"]["value"] == "Oslo"


async def test_history_takes_the_id_of_a_record_too(memory: Memory, client: Client) -> None:
    (record,) = await memory.save(SingleFact(SEATS, 5), subject=MAYA)
    (result,) = (await answer(client, "history", keyword=record.id))["facts"]
    assert (result["id"], result["value"]) == (record.id, 5)
    assert "list_records" in await refusal(client, "history", keyword="0" * 32)
    assert "history(id)" in await refusal(client, "load", keyword=record.id)


async def test_an_update_changes_a_record_and_its_history_keeps_what_it_was(memory: Memory, client: Client) -> None:
    (record,) = await memory.save(SingleFact(SEATS, 5, timestamp=MONDAY))
    (fact,) = (await answer(client, "update", id=record.id, value=6, importance=0.8, reason="he said so"))["facts"]
    assert (fact["id"], fact["value"], fact["importance"]) == (record.id, 6, 0.8)
    assert [item.value for item in await memory.history(SEATS)] == [5, 6]
    assert await refusal(client, "update", id=record.id) == (
        "say what to change: a value, a scope, an importance or categories"
    )
    assert await refusal(client, "update", id=record.id, value="x") == (
        "the value is not a valid int: expected int, found str"
    )


async def test_what_is_retracted_can_be_restored(memory: Memory, client: Client) -> None:
    (record,) = await memory.save(SingleFact(CITY, "Oslo"))
    result = await answer(client, "retract", ids=[record.id], reason="wrong")
    assert result["note"] == "Taken back; a person can bring it back with `factmem undo ID`."
    assert [fact["state"] for fact in result["facts"]] == ["retracted"]
    assert await memory.list_records() == []
    await memory.restore(record.id)
    assert [item.value for item in await memory.list_records()] == ["Oslo"]


async def test_what_is_forgotten_is_gone_for_good() -> None:
    async with opened() as memory, connected(memory, trust=True, allow_erase=True) as client:
        (record,) = await memory.save(SingleFact(CITY, "Oslo", timestamp=MONDAY))
        await memory.update(record.id, value="Rome")
        assert await refusal(client, "forget", ids=[record.id, "nope"]) == (
            "one of the ids names no visible record: nothing was erased"
        )
        erased = await answer(client, "forget", ids=[record.id])
        assert (erased["records"], erased["revisions"]) == (1, 2)
        assert await memory.history(CITY) == []


async def test_a_listing_goes_page_by_page() -> None:
    async with opened() as memory, connected(memory) as client:
        await memory.save(MultipleFacts(PETS, ("cat", "cow", "dog"), timestamp=MONDAY))
        first = await answer(client, "list", limit=2, concepts=["pets"])
        second = await answer(client, "list", limit=2, concepts=["pets"], page=first["next_page"])
        assert [fact["value"] for fact in first["facts"] + second["facts"]] == ["dog", "cow", "cat"]
        assert second["next_page"] is None


async def test_filters_narrow_what_is_recalled_and_listed(client: Client) -> None:
    for scope, city in (("/product/alpha", "Oslo"), ("/product/alpha/plan", "Rome"), ("/product/beta", "Bern")):
        await answer(client, "save_fact", keyword="city", value=city, scope=scope, said="2026-05-01")
    await answer(client, "save_fact", keyword="seats", value=5, categories=["room"], scope="/product/alpha")

    async def listed(**filters: Any) -> list[Any]:
        found = [fact["value"] for fact in (await answer(client, "list", **filters))["facts"]]
        matched = (await answer(client, "recall", query="anything", **filters))["matches"]
        assert sorted(map(str, found)) == sorted(str(match["fact"]["value"]) for match in matched)
        return sorted(map(str, found))

    assert await listed(scope="/product/alpha") == ["5", "Oslo", "Rome"]
    assert await listed(scope="/product/alpha", exact=True) == ["5", "Oslo"]
    assert await listed(categories=["room"]) == ["5"]
    assert await listed(concepts=["city"], scope="/product/beta") == ["Bern"]
    assert await listed(until="2026-05-02") == ["Bern", "Oslo", "Rome"]
    assert await listed(since="2026-05-02") == ["5"]
    assert await listed(sources=["other"]) == []


async def test_a_failing_model_is_reported_and_the_words_are_kept() -> None:
    def broken(*_: Any) -> Any:
        raise ValueError

    async with opened(model=ScriptedModel(broken)) as memory, connected(memory, trust=True) as client:
        result = await answer(client, "remember", text="The launch is in May.")
        assert result["note"].startswith("Kept as it was said: the model that reads for this memory failed (Model")
        assert [fact["value"] for fact in result["facts"]] == ["The launch is in May."]


async def test_many_calls_at_once_are_all_answered(memory: Memory, client: Client) -> None:
    async def save(number: int) -> None:
        await answer(client, "save_fact", keyword="numbers", value=number, multiple=True)
        await answer(client, "recall", query="numbers")

    async with anyio.create_task_group() as tasks:
        for number in range(20):
            tasks.start_soon(save, number)
    assert sorted(record.value for record in await memory.list_records()) == list(range(20))


async def test_a_cancelled_call_leaves_the_store_as_it_was_or_should_be(memory: Memory, client: Client) -> None:
    """The call of a cancelled write is applied whole or not at all, and the server continues."""
    for number in range(8):
        with anyio.move_on_after(0.002 * number):
            await client.call_tool("save_fact", {"keyword": f"k{number}", "value": number})
    kept = await memory.list_records()
    assert {record.state for record in kept} <= {AssertionState.ACTIVE}
    assert [record.concept.keyword for record in kept] == [f"k{record.value}" for record in kept]
    await answer(client, "save_fact", keyword="after", value="all")
    assert (await answer(client, "load", keyword="after"))["facts"]
