"""Common mistakes in arguments are refused with a hint, and never interpreted as something else."""

from __future__ import annotations

import inspect
import uuid
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, cast

import pytest

import factmem
from factmem import (
    AgentMemoryConfig,
    Background,
    BlockingMemory,
    FactDetails,
    InMemoryProvider,
    Memory,
    MemorySubject,
    Message,
    Policies,
    RecallSettings,
    SingleFact,
)
from factmem.agent import Loading, Saving
from factmem.errors import InvalidDataError, RecordNotFoundError, StoreUnavailableError
from factmem.recall import MetadataCondition
from factmem.testing import HashEmbedder
from tests.memory.scripted_analyst import deeply
from tests.memory.telling import CITY, USER, said, talk

Call = Callable[..., Awaitable[object]]


@pytest.fixture
def memory() -> Memory:
    return Memory(InMemoryProvider(), embedder=HashEmbedder())


@pytest.mark.parametrize(
    ("wrong", "instead"),
    [
        ({"embedder": HashEmbedder}, "the class HashEmbedder"),
        ({"detector": "model"}, r"detect\(\)"),
        ({"analyst": print}, "analyse"),
        ({"consolidator": 5}, "decide"),
        ({"question_analyst": ()}, "find_gaps"),
        ({"concepts": CITY}, "list of Concept"),
        ({"concepts": ["city"]}, r"\$\.concepts\[0\]"),
        ({"subjects": USER}, "list of MemorySubject"),
        ({"scopes": "/product/alpha"}, "list of MemoryScope or str"),
        ({"observers": print}, "list"),
        ({"observers": ["print"]}, "functions"),
        ({"store": 7}, "provider"),
        ({"store": 5}, "sqlite-vec:facts.db"),
        ({"store": InMemoryProvider}, "the class InMemoryProvider"),
        ({"settings": {}}, "settings must be RecallSettings, not dict"),
        ({"deep": True}, "deep must be DeepSettings, not bool"),
        ({"background": 5}, "background must be Background, not int"),
    ],
    ids=str,
)
def test_a_memory_is_made_of_what_it_says(wrong: dict[str, Any], instead: str) -> None:
    with pytest.raises(InvalidDataError, match=instead):
        Memory(**{"store": InMemoryProvider(), **wrong})


async def test_whatever_has_the_methods_of_a_part_is_one() -> None:
    """Duck typing is enough for parts, and any iterable for lists."""

    class Mine:
        identity, embed = HashEmbedder().identity, HashEmbedder().embed

    memory = Memory(InMemoryProvider(), embedder=Mine(), concepts=iter([CITY]), observers={print: 1})
    (record,) = await memory.save(SingleFact(CITY, "Rome"))
    assert [match.record.id for match in await memory.recall("Rome")] == [record.id]


@pytest.mark.parametrize("subject", [{"name": "user"}, ["user"], 5, MemorySubject])
async def test_a_subject_to_write_about_is_a_subject_or_its_name(memory: Memory, subject: Any) -> None:
    fact = SingleFact(CITY, "Rome")
    for write in (
        lambda: memory.save(fact, subject=subject),
        lambda: memory.save_many([(fact, subject, None)]),
        lambda: memory.remember("The mill is old.", subject=subject),
    ):
        with pytest.raises(InvalidDataError, match="subject must be MemorySubject, not"):
            await write()


async def test_what_was_saved_is_not_changed_through_the_details_that_were_given(memory: Memory) -> None:
    given = FactDetails()
    (saved,) = await memory.save(SingleFact(CITY, "Rome"), details=given)
    cast("dict[str, Any]", given.metadata)["later"] = True
    assert (await memory.get(saved.id)).details.metadata == {}


@pytest.mark.parametrize("changes", [None, "all", 5, ["all"]])
async def test_what_is_undone_is_a_list_of_changes(memory: Memory, changes: Any) -> None:
    remembered = await memory.remember("The mill is old.")
    mistakes: list[Any] = [changes, remembered.changes[0], [*remembered.changes, None]]
    for wrong in mistakes:
        with pytest.raises(InvalidDataError, match="changes"):
            await memory.undo(wrong)
    assert said(await memory.list_records()) == ["The mill is old."]


@pytest.mark.parametrize("name", ["categories", "topics", "sources", "concepts", "record_ids", "subjects"])
async def test_a_filter_of_several_takes_no_single_text(memory: Memory, name: str) -> None:
    """As single letters it would mean something else, and as a part of a text it would match too much."""
    await memory.remember("The mill is old.", categories=["m"], source="mill")
    wrong: dict[str, Any] = {name: "mill"}
    for call in (memory.list_records, memory.forget):
        with pytest.raises(InvalidDataError, match="list"):
            await call(**wrong)
    with pytest.raises(InvalidDataError, match="list"):
        await memory.recall("mill", **wrong)
    assert said(await memory.list_records(sources=["mill"])) == ["The mill is old."]


@pytest.mark.parametrize("name", ["categories", "sources", "concepts"])
async def test_nothing_is_forgotten_by_a_single_text(memory: Memory, name: str) -> None:
    await memory.remember("The mill is old.", categories=["m"], source="m")
    wrong: dict[str, Any] = {name: "mill"}
    with pytest.raises(InvalidDataError, match="list"):
        await memory.forget(**wrong)
    assert said(await memory.list_records()) == ["The mill is old."]


@pytest.mark.parametrize("subjects", ["user", 5, [5], [None]])
async def test_subjects_are_a_list_of_subjects(memory: Memory, subjects: Any) -> None:
    calls: list[Call] = [memory.list_records, memory.forget, memory.admin.audit, memory.admin.info, memory.admin.tree]
    for call in calls:
        with pytest.raises(InvalidDataError, match="MemorySubject or str"):
            await call(subjects=subjects)
    with pytest.raises(InvalidDataError, match="MemorySubject or str"):
        await memory.recall("mill", subjects=subjects)


@pytest.mark.parametrize("name", ["subjcts", "keywords", "places", "within"])
async def test_an_unknown_filter_is_refused_with_the_known_ones(memory: Memory, name: str) -> None:
    """A misspelt condition must not be left out: `forget` would erase more than was meant."""
    await memory.save(SingleFact(CITY, "Rome"), subject=USER)
    wrong: dict[str, Any] = {name: ["mill"], "subject": USER}
    calls: list[Call] = [memory.list_records, memory.forget, memory.admin.audit]
    for call in calls:
        with pytest.raises(
            TypeError, match=f"'{name}'(: did you mean sub|; it takes .*scope, exact, subject, sub)jects"
        ):
            await call(**wrong)
    with pytest.raises(TypeError, match=f"'{name}'"):
        await memory.recall("mill", **wrong)
    assert said(await memory.list_records()) == ["Rome"]


@pytest.mark.parametrize("where", ["city", 5, ["city"], [5], [["city"]], [MetadataCondition("k", 1)]])
async def test_conditions_on_metadata_are_given_in_groups(memory: Memory, where: Any) -> None:
    with pytest.raises(InvalidDataError, match="groups of conditions"):
        await memory.list_records(where=where)


@pytest.mark.parametrize("order_by", ["importance", None])
async def test_the_order_of_a_listing_is_one_of_those_that_there_are(memory: Memory, order_by: Any) -> None:
    with pytest.raises(InvalidDataError, match="order_by must be RecordOrder"):
        await memory.list_records(order_by=order_by)


@pytest.mark.parametrize(
    "wrong", [{"actions": "recorded"}, {"actions": ["recorded"]}, {"actors": "clerk"}, {"origins": ["user"]}], ids=str
)
async def test_a_wrong_condition_on_the_audit_trail_is_no_empty_trail(memory: Memory, wrong: dict[str, Any]) -> None:
    await memory.view(actor="clerk").save(SingleFact(CITY, "Rome"))
    with pytest.raises(InvalidDataError, match=next(iter(wrong))):
        await memory.admin.audit(**wrong)


async def test_texts_to_trace_are_a_list(memory: Memory) -> None:
    with pytest.raises(InvalidDataError, match="texts takes a list"):
        await memory.admin.traces(texts="The mill is old.")
    number: Any = 5
    with pytest.raises(InvalidDataError, match=r"FactRecord\.id"):
        await memory.admin.traces(number)


async def test_the_ids_of_submissions_are_texts(memory: Memory) -> None:
    number: Any = 5
    async with memory:
        with pytest.raises(InvalidDataError, match="ids takes str"):
            await memory.inbox.resume(number)


@pytest.mark.parametrize("details", [{}, {"importance": 1.0}])
async def test_details_are_details(memory: Memory, details: Any) -> None:
    fact = SingleFact(CITY, "Rome")
    for saving in (memory.save(fact, details=details), memory.save_many([fact], details=details)):
        with pytest.raises(InvalidDataError, match="details must be FactDetails, not dict"):
            await saving
    assert await memory.list_records() == []


async def test_a_time_to_live_is_named_in_its_error(memory: Memory) -> None:
    (record,) = await memory.save(SingleFact(CITY, "Rome"))
    wrong: Any = 5
    for call in (memory.update(record.id, revision_ttl=wrong), memory.remember("Old mill.", revision_ttl=wrong)):
        with pytest.raises(InvalidDataError, match=r"^revision_ttl must be a timedelta"):
            await call
    with pytest.raises(InvalidDataError, match="revisions must be timedelta or None"):
        await memory.admin.expire(revisions=wrong)


async def test_many_facts_are_a_list(memory: Memory) -> None:
    fact: Any = SingleFact(CITY, "Rome")
    with pytest.raises(InvalidDataError, match="facts takes a list"):
        await memory.save_many(fact)


@pytest.mark.parametrize("name", ["settings", "deep"])
async def test_settings_of_recall_are_settings(memory: Memory, name: str) -> None:
    wrong: dict[str, Any] = {name: {}}
    with pytest.raises(InvalidDataError, match=f"{name} must be"):
        await memory.recall("mill", **wrong)


async def test_what_is_imported_is_a_file_or_entries(memory: Memory) -> None:
    number: Any = 5
    with pytest.raises(InvalidDataError, match="takes a file, or Recorded entries"):
        await memory.admin.import_(number)


def test_exact_scopes_of_a_slice_are_a_list(memory: Memory) -> None:
    with pytest.raises(InvalidDataError, match="exact takes a list"):
        memory.view(scopes=["/product/alpha"], exact="/product/beta", read_only=True)


async def test_filters_take_texts_only(memory: Memory) -> None:
    wrong: list[Any] = [5]
    with pytest.raises(InvalidDataError, match="list of texts"):
        await memory.list_records(sources=wrong)


async def test_a_subject_is_a_subject(memory: Memory) -> None:
    name: Any = 7
    fact = SingleFact(CITY, "Rome")
    for call in (memory.list_records, memory.forget):
        with pytest.raises(InvalidDataError, match="MemorySubject"):
            await call(subject=name)
    for saving in (memory.save(fact, subject=name), memory.remember("The mill is old.", subject=name)):
        with pytest.raises(InvalidDataError, match="MemorySubject"):
            await saving
    assert await memory.list_records() == []


async def test_categories_of_what_is_remembered_are_no_single_text(memory: Memory) -> None:
    with pytest.raises(InvalidDataError, match="lists of strings"):
        await memory.remember("The mill is old.", categories="venue")
    assert await memory.list_records() == []


@pytest.mark.parametrize(
    "what", ["The mill is old.", Message(content="The mill is old."), talk("The mill is old."), None, 5]
)
async def test_many_things_to_remember_are_a_list(memory: Memory, what: Any) -> None:
    async with memory:
        with pytest.raises(InvalidDataError, match="a list"):
            await memory.remember_many(what)
        assert await memory.list_records() == []


@pytest.mark.parametrize("wrong", [{"limit": -1}, {"offset": -1}, {"limit": 1.5}, {"offset": True}])
async def test_a_listing_counts_in_whole_numbers(memory: Memory, wrong: dict[str, Any]) -> None:
    await memory.save(SingleFact(CITY, "Rome"), subject=USER)
    with pytest.raises(InvalidDataError, match="whole number"):
        await memory.list_records(**wrong)
    assert await memory.list_records(limit=0) == []


async def test_a_scope_is_a_scope(memory: Memory) -> None:
    """Every method that takes a scope refuses anything else, and saves nothing."""
    wrong: Any = 5
    async with memory:
        calls: list[Callable[[], Awaitable[object]]] = [
            lambda: memory.save(SingleFact(CITY, "Rome"), scope=wrong),
            lambda: memory.remember("The mill is old.", scope=wrong),
            lambda: memory.remember_many(["The mill is old."], scope=wrong),
            lambda: memory.inbox.ingest_events("chat", talk("I have a cat.").messages, scope=wrong),
            lambda: memory.generate(talk("I have a cat."), scope=wrong),
            lambda: memory.load(CITY, scope=wrong),
            lambda: memory.recall("mill", scope=wrong),
            lambda: memory.list_records(scope=wrong),
            lambda: memory.admin.info(wrong),
            lambda: memory.admin.info(wrong),
            lambda: memory.forget(scope=wrong, dry_run=True),
            lambda: memory.forget(scope=wrong),
        ]
        for call in calls:
            with pytest.raises(InvalidDataError, match="/product/alpha"):
                await call()
        for view in (memory.scope, lambda scope: memory.view(scopes=[scope], read_only=True)):
            with pytest.raises(InvalidDataError, match="/product/alpha"):
                view(wrong)
        assert await memory.list_records() == []


async def test_what_to_look_for_is_a_request(memory: Memory) -> None:
    wrong: Any = "city"
    async with memory:
        for call in (
            memory.remember(talk("I have a cat."), looking_for=wrong),
            memory.remember_many([talk("I have a cat.")], looking_for=wrong),
            memory.generate(talk("I have a cat."), looking_for=wrong),
            memory.inbox.ingest_events("chat", talk("I have a cat.").messages, looking_for=wrong),
        ):
            with pytest.raises(InvalidDataError, match="DetectionRequest"):
                await call
        assert await memory.list_records() == []


@pytest.mark.parametrize("revision", [None, "1", 1.5, True])
async def test_a_revision_is_a_record_or_a_number(memory: Memory, revision: Any) -> None:
    await memory.save(SingleFact(CITY, "Rome"))
    with pytest.raises(InvalidDataError, match="history"):
        await memory.rollback(revision)


async def test_a_concept_is_a_concept(memory: Memory) -> None:
    """A keyword alone does not determine the type of the value to load."""
    await memory.save(SingleFact(CITY, "Rome"))
    word: Any = "city"
    number: Any = 5
    for wrong in (word, number):
        with pytest.raises(InvalidDataError, match="list_records"):
            await memory.load(wrong)
        with pytest.raises(InvalidDataError, match="remember"):
            await memory.save(wrong)
    with pytest.raises(InvalidDataError, match="concept"):
        await memory.history(number)
    with pytest.raises(InvalidDataError, match="list"):
        await memory.list_records(concepts=number)
    with pytest.raises(InvalidDataError, match="list"):
        await memory.list_records(concepts=[number])
    assert said(await memory.list_records(concepts=["city"])) == ["Rome"]


async def test_a_time_is_a_time(memory: Memory) -> None:
    wrong: Any = "2026-05-01"
    with pytest.raises(InvalidDataError, match="tzinfo"):
        memory.view(as_of=wrong)
    with pytest.raises(InvalidDataError, match="tzinfo"):
        memory.view(known_at=wrong)
    with pytest.raises(InvalidDataError, match="since must be"):
        await memory.list_records(since=wrong)


async def test_the_history_of_a_record_is_found_by_its_id(memory: Memory) -> None:
    """This covers a value, and one statement among others; with a place given, at that place only."""
    (rome,) = await memory.save(SingleFact(CITY, "Rome"), subject=USER)
    await memory.update(rome.id, value="Oslo")
    one, two = [(await memory.remember(text)).records[0] for text in ("The roof leaks.", "The cellar floods.")]
    assert [revision.value for revision in await memory.history(rome.id)] == ["Rome", "Oslo"]
    assert [revision.value for revision in await memory.history(rome.id, subject=USER)] == ["Rome", "Oslo"]
    assert [revision.value for revision in await memory.history(two.id)] == ["The cellar floods."]
    assert await memory.history(one.id, labels={"run": "7"}) == []
    with pytest.raises(RecordNotFoundError):
        await memory.history(rome.id, scope="/product/alpha")


async def test_the_history_of_an_unknown_record_is_an_error_and_that_of_a_keyword_is_empty(memory: Memory) -> None:
    (private,) = await memory.view(viewer="alice").save(SingleFact(CITY, "Rome"), private=True)
    for id in (private.id, "0" * 32, str(uuid.UUID(int=0))):
        with pytest.raises(RecordNotFoundError, match="list_records"):
            await memory.history(id)
    assert await memory.history("city") == []


@pytest.mark.parametrize(
    "call",
    [
        lambda memory, of: memory.list_records(concepts=[of]),
        lambda memory, of: memory.list_records(concepts=["city", of]),
        lambda memory, of: memory.recall("Rome", concepts=[of]),
        lambda memory, of: deeply(memory, "Rome", concepts=[of]),
        lambda memory, of: memory.forget(concepts=[of]),
        lambda memory, of: memory.forget(concepts=[of], dry_run=True),
        lambda memory, of: memory.load(of),
    ],
    ids=["list", "page", "recall", "deep recall", "forget", "purge", "load"],
)
async def test_an_id_in_the_place_of_a_concept_is_refused(memory: Memory, call: Call) -> None:
    (record,) = await memory.save(SingleFact(CITY, "Rome"))
    with pytest.raises(InvalidDataError, match=r"id of a record.*history\(id\)"):
        await call(memory, record.id)
    assert await memory.get(record.id) == record
    assert [item.id for item in await memory.list_records(record_ids=[record.id])] == [record.id]


@pytest.mark.parametrize(
    ("call", "hint"),
    [
        (lambda memory: memory.recall("mill", top_k=3), r"recall\(\) got .* 'top_k': did you mean limit\?"),
        (lambda memory: memory.recall("mill", limt=3), "'limt': did you mean limit"),
        (lambda memory: memory.recall("mill", threshold=0.3), "did you mean min_score"),
        (lambda memory: memory.remember("mill", tags=["x"]), "did you mean categories"),
        (lambda memory: memory.save(SingleFact(CITY, "Rome"), metadata={}), "it takes fact, subject, scope, details"),
        (lambda memory: memory.inbox.quarantine.list(subjct=USER), "did you mean subject"),
        (lambda memory: memory.export("facts.jsonl"), "did you mean admin"),
        (lambda memory: memory.quarantine, "did you mean inbox"),
        (lambda memory: memory.as_viewer("ada"), "did you mean view"),
        (lambda memory: memory.add("mill"), "did you mean remember or save"),
        (lambda memory: memory.search("mill"), "no attribute 'search': did you mean recall"),
        (lambda memory: memory.list_record(), "did you mean list_records"),
        (lambda memory: memory.delete("id"), "did you mean forget or retract"),
        (lambda memory: memory.zxqv, "no attribute 'zxqv'$"),
    ],
    ids=lambda given: given if isinstance(given, str) else "call",
)
async def test_a_wrong_name_is_answered_with_the_right_one(
    memory: Memory, call: Callable[[Any], Any], hint: str
) -> None:
    with pytest.raises((TypeError, AttributeError), match=hint):
        await call(memory)
    with (
        BlockingMemory(Memory("memory:", embedder=HashEmbedder())) as blocking,
        pytest.raises((TypeError, AttributeError), match=hint),
    ):
        call(blocking)


@pytest.mark.parametrize(
    ("made", "wrong", "hint"),
    [
        (Memory, "organisation", "organization"),
        (Memory, "read_onyl", "read_only"),
        (Memory, "llm", "model"),
        (Policies, "keepwords", "keep_words"),
        (Background, "concurency", "concurrency"),
        (RecallSettings, "half_life", "half_life_days"),
        (AgentMemoryConfig, "agentname", "agent_name"),
        (Loading, "budgt", "budget"),
        (Saving, "privat", "private"),
    ],
    ids=lambda given: given if isinstance(given, str) else "call",
)
def test_a_misspelt_setting_is_answered_with_the_right_one(made: Any, wrong: str, hint: str) -> None:
    with pytest.raises(TypeError, match=rf"{made.__name__}\(\) got .* '{wrong}': did you mean {hint}\?"):
        made(**{wrong: 1})
    assert hint in inspect.signature(made).parameters


async def test_a_memory_says_how_it_is_opened() -> None:
    wrong: Any = Memory("memory:")
    with pytest.raises(TypeError, match=r"open it with `async with Memory\(…\)`.*`with BlockingMemory"), wrong:
        pass
    wrong = BlockingMemory(wrong)
    with pytest.raises(TypeError, match=r"is opened with `with`.*`async with Memory"):
        async with wrong:
            pass


async def test_a_folder_in_place_of_a_file_is_answered_with_a_file_in_it(tmp_path: Path) -> None:
    async with Memory(tmp_path, embedder=HashEmbedder()) as memory:
        with pytest.raises(StoreUnavailableError, match=rf"is a folder: .* {tmp_path.name}/facts.db, .* file:"):
            await memory.remember("The mill is old.")


def test_a_name_that_lies_elsewhere_is_answered_with_its_module() -> None:
    for name, home in (("DetectionRequest", "factmem.abc"), ("Trigger", "factmem.memory")):
        with pytest.raises(ImportError, match=f"factmem has no {name}: write  from {home} import {name}"):
            exec(f"from factmem import {name}", {})
    assert not hasattr(factmem, "Memoy")
    with pytest.raises(AttributeError, match="did you mean Memory"):
        getattr(factmem, "Memoy")  # noqa: B009 - a type checker would find it
