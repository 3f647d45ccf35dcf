"""Filters on metadata, topics, times and importance; orders and pages of listings."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from factmem import STATEMENT, Concept, Conversation, FactDetails, Memory, Message, MultipleFacts, SingleFact
from factmem.errors import InvalidDataError
from factmem.memory.filters import Filters, RecordOrder
from factmem.patterns import linear_search
from factmem.recall import MetadataCondition, MetadataOperator
from factmem.testing import FakeClock
from factmem.values import Json
from tests.growth import cpu_seconds, grows_faster
from tests.tables import each_case

NOTE = Concept.multiple("note", "A note")
MAY = dt.datetime(2025, 5, 1, tzinfo=dt.UTC)
DAY = dt.timedelta(days=1)
GREATER, LESS = MetadataOperator.GREATER_THAN, MetadataOperator.LESS_THAN


async def note(memory: Memory, text: str, *, day: int = 0, private: bool = False, **details: object) -> None:
    """Save a note, dated some days after the first of May."""
    fact = MultipleFacts(NOTE, (text,), timestamp=MAY + day * DAY)
    await memory.save(fact, details=FactDetails(**details), private=private)  # type: ignore[arg-type]


async def with_metadata(memory: Memory, **metadata: Mapping[str, Json]) -> None:
    for text, entries in metadata.items():
        await note(memory, text, metadata=entries)


async def kept(memory: Memory, *groups: Sequence[MetadataCondition]) -> set[str]:
    return {record.value for record in await memory.list_records(where=groups)}


async def test_concepts_may_be_left_out(memory: Memory) -> None:
    await note(memory, "a")
    await memory.save(MultipleFacts(Concept.multiple("other", "Another note"), ("b",)))
    for without, left in (([NOTE], ["b"]), (["note", "other"], []), (["unheard_of"], ["a", "b"]), ([], ["a", "b"])):
        assert sorted(record.value for record in await memory.list_records(without_concepts=without)) == left
        matches = await memory.recall("a note", without_concepts=without)
        assert sorted(match.record.value for match in matches) == left
    with pytest.raises(InvalidDataError):
        await memory.list_records(without_concepts="note")


async def test_conditions_of_a_group_hold_together_and_groups_are_alternatives(memory: Memory) -> None:
    await with_metadata(
        memory, a={"tier": "gold", "score": 7}, b={"tier": "gold", "score": 2}, c={"tier": "silver", "score": 9}, d={}
    )
    gold, high = MetadataCondition("tier", "gold"), MetadataCondition("score", 5, operator=GREATER)
    low = MetadataCondition("score", 3, operator=LESS)
    assert await kept(memory, [gold, high]) == {"a"}
    assert await kept(memory, [gold], [high]) == {"a", "b", "c"}
    assert await kept(memory, [gold, high], [low]) == {"a", "b"}
    assert await kept(memory, [MetadataCondition("tier", "gold", negate=True)]) == {"c", "d"}


@each_case("value", "how", "metadata", "holds")
def test_values_are_compared_with_their_own_kind(
    value: Json, how: dict[str, Any], metadata: Mapping[str, Json], holds: bool
) -> None:
    if "operator" in how:
        how = how | {"operator": MetadataOperator[how["operator"]]}
    condition = MetadataCondition("x", MAY if value == "MAY" else value, **how)
    assert condition.holds(metadata) is holds


async def test_what_cannot_be_compared_is_refused(memory: Memory) -> None:
    for value in (True, None, ["a"]):
        with pytest.raises(InvalidDataError, match="GREATER_THAN and LESS_THAN"):
            MetadataCondition("x", value, operator=GREATER)
    with pytest.raises(InvalidDataError, match="zone"):
        MetadataCondition("x", MAY.replace(tzinfo=None))
    with pytest.raises(InvalidDataError, match="empty"):
        await memory.list_records(where=[[]])
    with pytest.raises(InvalidDataError, match="groups"):
        await memory.list_records(where=[MetadataCondition("x", 1)])  # type: ignore[list-item]


@pytest.mark.parametrize("importance", [2, -0.1, float("nan"), 10**400, True, "high"])
async def test_an_importance_that_no_fact_has_is_refused(memory: Memory, importance: Any) -> None:
    with pytest.raises(InvalidDataError, match="from 0 to 1"):
        await memory.recall("tea", min_importance=importance)
    with pytest.raises(InvalidDataError, match="from 0 to 1"):
        await memory.list_records(max_importance=importance)


async def test_listings_and_recall_are_narrowed_by_the_same_filters_before_ranking(
    memory: Memory, clock: FakeClock
) -> None:
    await note(memory, "tea in May", importance=0.9, topics=("drinks",))
    await note(memory, "tea in June", day=31, importance=0.2, topics=("drinks",), source="mail")
    before = clock()
    await note(memory, "tea in July", day=61, topics=("plans",))
    assert await both(memory, "tea", topics=["drinks"]) == {"tea in May", "tea in June"}
    assert await both(memory, "tea", since=MAY + DAY, until=MAY + 60 * DAY) == {"tea in June"}
    assert await both(memory, "tea", recorded_since=before) == {"tea in July"}
    assert await both(memory, "tea", recorded_until=before) == {"tea in May", "tea in June"}
    assert await both(memory, "tea", min_importance=0.5) == {"tea in May", "tea in July"}
    assert await both(memory, "tea", max_importance=0.5, topics=["drinks"]) == {"tea in June"}
    assert await both(memory, "tea", sources=["mail"]) == {"tea in June"}
    (best,) = await memory.recall("tea in July", limit=1, topics=["drinks"])
    assert best.record.value != "tea in July"


async def test_the_words_of_a_speaker_are_listed_found_and_erased(memory: Memory) -> None:
    """In a conversation of several people nobody owns the words, and they are about nobody in particular."""
    said = [("nora", "I love tea from Narvik."), ("bob", "I love tea from Narvik."), ("nora", "I hate coffee.")]
    await memory.remember(Conversation(id="room", messages=[Message(name=name, content=text) for name, text in said]))
    await note(memory, "nora drinks tea")
    assert await both(memory, "tea", speakers=["nora"]) == {"I love tea from Narvik.", "I hate coffee."}
    assert await both(memory, "tea", speakers=["Nora", "eve"]) == set()
    erased = await memory.forget(speakers=["nora"])
    assert [record.value for record in erased] == ["I love tea from Narvik.", "I hate coffee."]
    left = await memory.list_records(concepts=[STATEMENT])
    assert {(record.value, record.evidence[0].speaker) for record in left if record.evidence} == {(said[1][1], "bob")}


async def test_statements_that_tell_nothing_and_those_of_the_assistant_may_be_left_out(memory: Memory) -> None:
    for text in ("I drink tea at five.", "Thanks!", "Do you like tea?"):
        await memory.remember(text)
    await memory.remember(Message(content="Tea grows in Assam.", role="assistant"))
    await memory.save(SingleFact(Concept.single("thanks", ""), "Thanks!"))
    telling = await both(memory, "tea", telling=True, concepts=[STATEMENT])
    assert telling == {"I drink tea at five.", "Tea grows in Assam."}
    assert await both(memory, "tea", telling=True, assistant=False) == {"I drink tea at five.", "Thanks!"}
    assert await both(memory, "tea", assistant=True) == {"Tea grows in Assam."}


async def both(memory: Memory, query: str, **filters: object) -> set[str]:
    """Return the values that a filter keeps, which must be the same in a listing and in recall."""
    listed = {record.value for record in await memory.list_records(**filters)}  # type: ignore[arg-type]
    recalled = {match.record.value for match in await memory.recall(query, **filters)}  # type: ignore[arg-type]
    assert listed == recalled
    return listed


async def test_listings_go_by_what_is_asked_for(memory: Memory) -> None:
    await note(memory, "late", day=2, importance=0.1)
    await note(memory, "early", day=0, importance=0.5)
    await note(memory, "middle", day=1, importance=0.9)

    async def order(order_by: RecordOrder, *, descending: bool) -> list[str]:
        return [item.value for item in await memory.list_records(order_by=order_by, descending=descending)]

    assert await order(RecordOrder.SAID, descending=True) == ["late", "middle", "early"]
    assert await order(RecordOrder.SAID, descending=False) == ["early", "middle", "late"]
    assert await order(RecordOrder.RECORDED, descending=True) == ["middle", "early", "late"]
    assert await order(RecordOrder.IMPORTANCE, descending=True) == ["middle", "early", "late"]


@pytest.mark.parametrize("order_by", RecordOrder)
@pytest.mark.parametrize("descending", [True, False])
async def test_pages_neither_repeat_nor_skip_while_notes_come_and_go(
    memory: Memory, order_by: RecordOrder, descending: bool
) -> None:
    for number in range(7):
        await note(memory, f"note {number}", day=number // 2, importance=number % 3 / 2)
    before = await memory.list_records(order_by=order_by, descending=descending)
    seen: list[str] = []
    page: str | None = None
    for turn in range(4):
        got = await memory.list_records(page=page, limit=2, order_by=order_by, descending=descending)
        seen += [record.value for record in got]
        page = got.next_page
        await note(memory, f"new {turn}", day=-9 if descending is (turn % 2 == 0) else 9, importance=turn % 2)
        if turn == 0:
            await memory.retract(before[1].id)
    assert [value for value in seen if value.startswith("note")] == [record.value for record in before]


async def test_the_last_page_says_so_and_a_page_of_another_order_is_refused(memory: Memory) -> None:
    for number in range(4):
        await note(memory, f"note {number}")
    first = await memory.list_records(limit=2)
    assert first.next_page is not None
    last = await memory.list_records(page=first.next_page, limit=2)
    assert (len(last), last.next_page) == (2, None)
    with pytest.raises(InvalidDataError, match="next_page"):
        await memory.list_records(page=first.next_page, order_by=RecordOrder.RECORDED)
    for page in ("nonsense", "é", "", "W10"):
        with pytest.raises(InvalidDataError, match="next_page"):
            await memory.list_records(page=page)
    with pytest.raises(InvalidDataError, match="limit"):
        await memory.list_records(limit=-1)
    with pytest.raises(InvalidDataError, match="offset"):
        await memory.list_records(page=first.next_page, offset=1)


def made_up(*token: object) -> str:
    """Return the token of a page that no listing returned."""
    return base64.urlsafe_b64encode(json.dumps(token).encode()).decode()


@pytest.mark.parametrize("time", ["garbage", "", "2026-01-01T00:00:00+00:00", 1.5, True, None, []])
async def test_a_page_that_somebody_made_up_is_refused(memory: Memory, time: object) -> None:
    await note(memory, "The mill is old.")
    with pytest.raises(InvalidDataError, match="next_page"):
        await memory.list_records(page=made_up(RecordOrder.SAID.value, True, time, 1))


@pytest.mark.parametrize("seq", [10**30, -(10**30)])
async def test_a_page_may_go_on_anywhere(memory: Memory, seq: int) -> None:
    """The page may start at any moment and id, as after a record that was erased meanwhile."""
    await note(memory, "The mill is old.")
    for time, there in ((-(10**30), 0), (10**30, 1)):
        assert len(await memory.list_records(page=made_up(RecordOrder.SAID.value, True, time, seq))) == there


async def test_a_history_shows_the_labels_of_its_revisions_and_can_be_narrowed_to_them(memory: Memory) -> None:
    (record,) = await memory.save(
        MultipleFacts(NOTE, ("Labelled.",), timestamp=MAY), details=FactDetails(labels={"run": "1", "by": "alice"})
    )
    await note(memory, "Plain.")
    assert [item.id for item in await memory.history(NOTE, labels={"run": "1"})] == [record.id]
    assert (await memory.history(NOTE, labels={"run": "1"}))[0].details.labels == {"run": "1", "by": "alice"}
    assert await memory.history(NOTE, labels={"run": "1", "by": "bob"}) == []
    assert len(await memory.history(NOTE)) == 2


async def test_a_pattern_is_searched_for_in_the_value(memory: Memory) -> None:
    """Before ranking, like any filter, and in values of every type; not in keywords, sources or evidence."""
    await note(memory, "Tea in May", source="teahouse")
    await note(memory, "coffee, not tea, in June")
    await note(memory, "a teapot")
    await memory.save(SingleFact(Concept.single("tea_seats", "Seats for tea", int), 120))
    assert await both(memory, "tea", pattern=r"(?i)\btea\b") == {"Tea in May", "coffee, not tea, in June"}
    assert await both(memory, "tea", pattern="^tea") == set()
    (seats,) = await memory.list_records(pattern="^1.0$")
    assert seats.value == 120
    assert await both(memory, "tea", pattern="(May|June)$", sources=["teahouse"]) == {"Tea in May"}
    assert len(await memory.forget(pattern="teapot", dry_run=True)) == 1
    (entry,) = (await memory.admin.audit(pattern="May")).entries
    assert entry.record is not None
    assert entry.record.value == "Tea in May"


@pytest.mark.parametrize("pattern", ["", "(", "a(?=b)", r"(a)\1", r"\w{999}{999}", 7, ["tea"], "a\ud800"])
async def test_a_pattern_that_cannot_be_searched_for_is_refused(memory: Memory, pattern: Any) -> None:
    with pytest.raises(InvalidDataError):
        await memory.list_records(pattern=pattern)
    with pytest.raises(InvalidDataError):
        await memory.forget(pattern=pattern)


@pytest.mark.parametrize("pattern", [r"(a+)+$", r"(a|a)*b", r"(.*a){12}!", r"a.*a.*a.*b", r"(a*)*c"])
def test_a_pattern_takes_time_linear_in_the_text(pattern: str) -> None:
    """Backtracking would take hours for the last text."""
    search = linear_search(pattern)
    assert not search("a" * 100_000 + "?")

    def cost(size: int) -> float:
        return cpu_seconds(lambda: search("a" * size + "?"))

    assert not grows_faster(cost, 100_000, 1_000_000, times=40, least=0.002)


# An empty list as a filter matches nothing.

EMPTY: list[Filters] = [
    {"record_ids": []},
    {"concepts": []},
    {"categories": ()},
    {"topics": set()},
    {"sources": []},
    {"speakers": []},
    {"subjects": []},
]


@pytest.mark.parametrize("name", ["", "recorded_"])
async def test_an_end_before_its_beginning_is_refused(name: str) -> None:
    first, end = (dt.datetime(2026, 5, day, tzinfo=dt.UTC) for day in (2, 1))
    filters: Any = {f"{name}since": first, f"{name}until": end}
    async with Memory("memory:") as memory:
        with pytest.raises(InvalidDataError, match=f"{name}until lies before {name}since"):
            await memory.list_records(**filters)


@pytest.mark.parametrize("filters", EMPTY, ids=lambda filters: next(iter(filters)))
async def test_an_empty_list_keeps_nothing(filters: Filters) -> None:
    async with Memory("memory:") as memory:
        await memory.save(MultipleFacts(STATEMENT, ("The cellar is cold.",)))
        assert await memory.recall("cellar", **filters) == []
        assert await memory.list_records(**filters) == []
