"""The pages of a browser as plain data, and what people do on them."""

from __future__ import annotations

import itertools
from pathlib import Path

import attrs
import pytest

from factmem.abc.detector import Message
from factmem.browse.browser import Asked, Browser, Difference, Narrowing, Opened, draft_of
from factmem.browse.charts import bars_of, marks_of
from factmem.browse.past import undo_last
from factmem.browse.record_rows import is_current, largest, quotes_of, ranked, shape_of, value_of
from factmem.changes import Change, ChangeKind
from factmem.errors import (
    CapabilityError,
    InvalidDataError,
    ReadOnlyError,
    RecordNotFoundError,
    StateConflictError,
)
from factmem.facts import SingleFact
from factmem.memory.facade import Memory
from factmem.records import AssertionState
from factmem.testing import HashEmbedder
from tests.browse.conftest import CITY, DAY, MAYA, SEATS


async def id_of(browser: Browser, keyword: str, value: str | None = None) -> str:
    """Return the id of the first current record of a concept, with a value if one is given."""
    records = await browser.listing(Narrowing(keyword=keyword))
    return next(record.id for record in records if value in (None, value_of(record)))


async def edited(browser: Browser, id: str, **fields: str) -> Change:
    """Open the form of a record, edit some fields, and send it."""
    page = await browser.record(id)
    return await browser.update(id, attrs.evolve(draft_of(page.record), **fields), revision=page.record.revision)


async def test_the_overview_counts_scopes_subjects_and_concepts(memory: Memory) -> None:
    page = await Browser(memory).overview()
    assert (page.info.records, page.waiting, page.unread) == (5, 1, 0)
    product = next(branch for branch in page.tree.children if branch.name == "product")
    (fair,) = product.children
    assert (str(fair.scope), fair.records) == ("/product/fair", 2)
    assert [(child.name, child.records) for child in fair.children] == [("stage", 1)]
    assert ranked(page.info.subjects) == [("user:maya", 4), ("everything", 1)]
    assert ranked(page.info.keywords)[0][0] == "languages"
    assert [record.value for record in page.recent[:1]] == ["The stage is built in the yard."]


async def test_of_many_scopes_those_with_the_most_records_are_shown(memory: Memory) -> None:
    facts = [(SingleFact(SEATS, number), MAYA, f"/agent/a{number:03}") for number in range(102)]
    await memory.save_many([*facts, (SingleFact(CITY, "Rome"), MAYA, "/agent/a101")])
    tree = (await Browser(memory).overview()).tree
    agents = next(branch for branch in tree.children if branch.name == "agent")
    assert (len(largest(agents)), len(agents.children), agents.records) == (100, 102, 103)
    assert "a101" in [child.name for child in largest(agents)]


async def test_a_listing_is_narrowed_and_paged(memory: Memory) -> None:
    browser = Browser(memory)
    first = await browser.listing(Narrowing(subject="user:maya"), size=3)
    rest = await browser.listing(Narrowing(subject="user:maya"), page=first.next_page, size=3)
    assert (len(first), len(rest), rest.next_page) == (3, 1, None)
    assert {value_of(record) for record in (*first, *rest)} == {"120", "Oslo", "Norwegian", "Dutch"}
    (seats,) = await browser.listing(Narrowing(category="venue", source="chat", scope="/product/fair"))
    assert (shape_of(seats), str(seats.subject), str(seats.scope)) == ("int", "user:maya", "/product/fair")
    (quote,) = quotes_of(seats)
    assert (quote.speaker, quote.place) == ("Maya (user)", "conversation monday")
    with pytest.raises(InvalidDataError):
        await browser.listing(Narrowing(scope="/product/../agent"))


async def test_a_search_shows_scores_parts_and_reasons(memory: Memory) -> None:
    found = await Browser(memory).search("How many seats?", Narrowing(scope="/product/fair"))
    best, bars = found[0], bars_of(found[0].parts)
    assert best.record.value == 120
    assert 0 < best.score <= 1
    assert {name for name, _, _ in bars} >= {"similarity", "lexical", "semantic", "recency", "importance"}
    assert all(0 <= share <= 1 and meaning for _, share, meaning in bars)
    assert "lexical" in best.reasons
    assert [record.value for record in best.earlier] == [80]


async def test_it_is_said_whether_anything_answers(memory: Memory) -> None:
    browser = Browser(memory)
    found = await browser.search("How many seats?")
    assert (found[0].record.value, len(found), found.answers) == (120, 5, True)
    nothing = await browser.search("zxqv blorp")
    assert (len(nothing), nothing.answers) == (5, False)


async def test_a_record_has_its_evidence_its_timeline_and_its_trail(memory: Memory) -> None:
    browser = Browser(memory)
    page = await browser.record(await id_of(browser, "seats"))
    assert (page.record.value, page.record.concept.description, page.apart) == (120, "Seats at the venue", False)
    assert [(record.value, record.state.value, at) for record, at in marks_of(page.revisions)] == [
        (80, "superseded", 0.0),
        (120, "active", 1.0),
    ]
    trail = [(entry.action.value, entry.actor, entry.record and entry.record.value) for entry in page.trail]
    assert trail == [
        ("recorded", "test", 80),
        ("recorded", "test", 120),
    ]
    with pytest.raises(RecordNotFoundError):
        await browser.record("0" * 32)


async def test_the_facts_of_a_subject_are_a_table_and_a_graph(memory: Memory) -> None:
    page = await Browser(memory).subject("user:maya")
    assert page.records == 4
    assert [record.concept.keyword for record in page.facts] == ["city", "languages", "languages", "seats"]
    assert [(node.ring, node.label) for node in page.graph.nodes] == [
        (0, "user:maya"),
        (1, "city"),
        (2, "Oslo"),
        (1, "languages"),
        *[(2, record.value) for record in page.facts if record.concept.keyword == "languages"],
        (1, "seats"),
        (2, "120"),
    ]
    assert len(page.graph.edges) == len(page.graph.nodes) - 1
    assert all(-1.001 <= axis <= 1.001 for node in page.graph.nodes for axis in (node.x, node.y))


async def test_quarantined_words_are_accepted_and_rejected(memory: Memory) -> None:
    browser = Browser(memory)
    (waiting,) = (await browser.inbox()).waiting
    assert (waiting.value, waiting.state) == ("The palace has 900 seats.", AssertionState.QUARANTINED)
    assert (await browser.record(waiting.id)).apart
    await memory.inbox.quarantine.reject(waiting.id, reason="hearsay")
    inbox = await browser.inbox()
    assert (inbox.waiting, [record.value for record in inbox.rejected]) == ((), ["The palace has 900 seats."])
    (done,) = await memory.inbox.quarantine.accept(waiting.id)
    assert (done.kind, done.record.state) == (ChangeKind.CREATED, AssertionState.ACTIVE)
    assert (await browser.inbox()).rejected == ()


async def test_dead_letters_need_a_model_to_be_read_again(memory: Memory) -> None:
    with pytest.raises(CapabilityError, match="--model"):
        await Browser(memory).retry(["1"])


async def test_an_update_changes_what_differs_and_undo_takes_it_back(memory: Memory) -> None:
    browser = Browser(memory)
    id = await id_of(browser, "seats")
    with pytest.raises(InvalidDataError, match="nothing is changed"):
        await edited(browser, id)
    done = await edited(browser, id, value="140", importance="0.9")
    assert (done.kind, done.record.value, done.record.importance) == (ChangeKind.UPDATED, 140, 0.9)
    with pytest.raises(InvalidDataError, match="not a valid int"):
        await edited(browser, id, value="many")
    with pytest.raises(InvalidDataError, match="importance is not a number"):
        await edited(browser, id, importance="high")
    await undo_last(memory, id)
    assert (await browser.record(id)).record.value == 120
    moved = await edited(browser, id, scope="/product/other")
    assert (str(moved.record.scope), moved.record.id != id) == ("/product/other", True)


async def test_an_edit_on_top_of_a_newer_revision_is_refused_and_shown_beside_it(memory: Memory) -> None:
    browser = Browser(memory)
    id = await id_of(browser, "city")
    opened = await browser.record(id)
    await memory.save(SingleFact(CITY, "Lisbon"), subject=MAYA)
    draft = attrs.evolve(draft_of(opened.record), importance="0.9")
    with pytest.raises(StateConflictError, match="changed since this form was opened"):
        await browser.update(id, draft, revision=opened.record.revision)
    assert (await memory.get(id)).value == "Lisbon"
    both = await browser.compared(id, draft, revision=opened.record.revision)
    assert both.differences == (
        Difference(name="value", was="Oslo", now="Lisbon", yours="Oslo"),
        Difference(name="importance", was="0.5", now="0.5", yours="0.9"),
    )
    assert both.draft == attrs.evolve(draft_of(both.page.record), importance="0.9")
    await browser.update(id, both.draft, revision=both.page.record.revision)
    changed = await memory.get(id)
    assert (changed.value, changed.importance) == ("Lisbon", 0.9)


async def test_an_edit_of_a_revision_that_is_gone_is_compared_with_the_present_one(memory: Memory) -> None:
    browser = Browser(memory)
    id = await id_of(browser, "city")
    page = await browser.record(id)
    both = await browser.compared(id, attrs.evolve(draft_of(page.record), value="Rome"), revision=999)
    assert [(item.name, item.was, item.yours) for item in both.differences if item.now != item.yours] == [
        ("value", "", "Rome")
    ]


async def test_retracted_records_are_restored_and_rolled_back(memory: Memory) -> None:
    browser = Browser(memory)
    id = await id_of(browser, "seats")
    await memory.retract(id, reason="sold out")
    page = await browser.record(id)
    assert (is_current(page.record), page.trail[-1].reason) == (False, "sold out")
    await memory.restore(id)
    first = (await browser.record(id)).revisions[0]
    await memory.rollback(first.revision)
    assert (await browser.record(id)).record.value == 80


async def test_forget_shows_what_goes_and_asks_for_the_words(memory: Memory) -> None:
    browser = Browser(memory)
    narrowing = Narrowing(subject="user:maya", keyword="languages")
    doomed = await browser.doomed(narrowing)
    assert (len(doomed.records), doomed.phrase) == (2, "forget 2 records")
    with pytest.raises(InvalidDataError, match="type: forget 2 records"):
        await browser.forget(narrowing, typed="yes", seal=doomed.seal)
    await memory.save(SingleFact(CITY, "Rome", timestamp=DAY), subject=MAYA, scope="/product/fair")
    assert len((await browser.forget(narrowing, typed=" Forget 2  records", seal=doomed.seal)).records) == 2
    assert await browser.listing(narrowing) == []
    with pytest.raises(InvalidDataError):
        await browser.doomed()


async def test_forget_refuses_to_erase_other_records_than_those_seen(memory: Memory) -> None:
    browser = Browser(memory)
    doomed = await browser.doomed(Narrowing(keyword="city"))
    await memory.save(SingleFact(CITY, "Rome"), subject="user:leo")
    with pytest.raises(StateConflictError):
        await browser.forget(Narrowing(keyword="city"), typed=doomed.phrase, seal=doomed.seal)
    assert len(await browser.listing(Narrowing(keyword="city"))) == 2


async def test_forget_refuses_to_erase_a_newer_revision_than_the_one_seen(memory: Memory) -> None:
    browser = Browser(memory)
    doomed = await browser.doomed(Narrowing(keyword="city"))
    await memory.save(SingleFact(CITY, "Lisbon"), subject=MAYA)
    with pytest.raises(StateConflictError, match="look again"):
        await browser.forget(Narrowing(keyword="city"), typed=doomed.phrase, seal=doomed.seal)
    assert [record.value for record in await browser.listing(Narrowing(keyword="city"))] == ["Lisbon"]


async def test_a_confined_browser_asks_for_the_name_of_an_agent(memory: Memory) -> None:
    browser = Browser(memory.view(scopes=["/product/fair"], read_only=True))
    with pytest.raises(InvalidDataError, match="name an agent, feature or product"):
        await browser.told(Asked(question="How many seats?"))
    assert (await browser.told(Asked(question="How many seats?", product="fair"))).scopes == ("/product/fair",)


async def test_an_agent_is_told_what_the_plugin_would_tell_it(memory: Memory) -> None:
    browser = Browser(memory)
    told = await browser.told(Asked(question="How many seats?", user="maya", product="fair"))
    assert "120" in told.block.text
    assert "Oslo" in told.block.text
    assert told.scopes == ("/product/fair", "/cross-product")
    assert 0 < told.tokens <= told.asked.budget
    assert {value_of(record) for record in told.block.records} >= {"120", "Oslo"}
    nobody = await browser.told(Asked(question="How many seats?", user="leo"))
    assert "120" not in nobody.block.text


async def test_a_viewer_never_reads_as_another_user(memory: Memory) -> None:
    """The user of a question chooses the subject; whose private facts are shown is decided by the memory alone."""
    for viewer, sees in (("maya", True), ("leo", False), (None, False)):
        told = await Browser(memory.view(viewer=viewer)).told(Asked(question="Which city?", user="maya"))
        assert ("Secret Harbour" in told.block.text) is sees


async def test_a_view_of_an_agents_scope_is_told_of_that_scope_alone(memory: Memory) -> None:
    told = await Browser(memory.scope("/product/fair")).told(Asked(user="maya", product="fair"))
    assert told.scopes == ("/product/fair",)
    assert "120" in told.block.text
    assert "Oslo" not in told.block.text


async def test_a_read_only_memory_shows_everything_and_changes_nothing(memory: Memory) -> None:
    browser = Browser(memory.view(scopes=["/product/fair"], read_only=True), Opened(read_only=True))
    id = await id_of(browser, "seats")
    with pytest.raises(ReadOnlyError):
        await browser.memory.retract(id)
    doomed = await browser.doomed(ids=[id])
    with pytest.raises(ReadOnlyError):
        await browser.forget(ids=[id], typed=doomed.phrase, seal=doomed.seal)


async def test_the_mark_changes_with_every_change_and_only_then(memory: Memory) -> None:
    browser = Browser(memory)
    seen = [await browser.mark()]
    assert await browser.mark() == seen[0]
    id = await id_of(browser, "seats")
    for change in (
        edited(browser, id, importance="0.7"),
        memory.retract(id),
        memory.restore(id),
        memory.inbox.quarantine.reject((await browser.inbox()).waiting[0].id),
    ):
        await change
        seen.append(await browser.mark())
    await browser.forget(ids=[id], typed="forget 1 record", seal=(await browser.doomed(ids=[id])).seal)
    seen.append(await browser.mark())
    assert all(before != after for before, after in itertools.pairwise(seen))


async def test_the_mark_says_nothing_of_what_others_own(memory: Memory) -> None:
    browser = Browser(memory.view(viewer="leo"))
    before = await browser.mark()
    await memory.view(viewer="maya").save(SingleFact(SEATS, 3), private=True)
    assert await browser.mark() == before


async def test_the_mark_follows_another_process(tmp_path: Path) -> None:
    """Two memories over one file know nothing of each other but by the file."""
    path = f"sqlite-vec:{tmp_path / 'facts.db'}"
    async with (
        Memory(path, embedder=HashEmbedder()) as writer,
        Memory(path, embedder=HashEmbedder(), read_only=True) as reader,
    ):
        browser = Browser(reader)
        before = await browser.mark()
        await writer.remember(Message(content="The gate opens at nine.", role="user"))
        assert await browser.mark() != before
        assert (await browser.overview()).info.records == 1
