"""Common mistakes in arguments are refused with a hint, and never interpreted as something else."""

from __future__ import annotations

import datetime as dt
import inspect
import uuid
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import factmem
from factmem import BlockingMemory, InMemoryProvider, Memory, MemorySubject, Message, Policies, SingleFact, agent
from factmem.errors import InvalidDataError, RecordNotFoundError, StoreUnavailableError
from factmem.recall import MetadataCondition
from factmem.testing import HashEmbedder
from tests.memory.scripted_analyst import deeply
from tests.memory.telling import CITY, USER, said, talk
from tests.tables import each_case

Call = Callable[..., Awaitable[object]]
ROME = SingleFact(CITY, "Rome")
CAT = talk("I have a cat.")


@pytest.fixture
def memory() -> Memory:
    return Memory(InMemoryProvider(), embedder=HashEmbedder())


@pytest.mark.parametrize(
    ("wrong", "instead"),
    [
        ({"embedder": HashEmbedder}, "the class HashEmbedder"),
        ({"embedder": len}, r"give one, wrap it in factmem\.recall\.CallableEmbedder"),
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
        ({"settings": {}}, "settings must be RecallSettings, not a dict"),
        ({"deep": True}, "deep must be DeepSettings, not a bool"),
        ({"background": 5}, "background must be Background, not an int"),
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


async def revised(memory: Memory, wrong: Any) -> object:
    (record,) = await memory.list_records()
    return await memory.update(record.id, revision_ttl=wrong)


WRONG: dict[str, tuple[tuple[Any, ...], tuple[Callable[[Memory, Any], Any], ...]]] = {
    "subject must be MemorySubject, not": (
        ({"name": "user"}, ["user"], 5, MemorySubject),
        (
            lambda memory, wrong: memory.save(ROME, subject=wrong),
            lambda memory, wrong: memory.save_many([(ROME, wrong, None)]),
            lambda memory, wrong: memory.remember("The mill is old.", subject=wrong),
        ),
    ),
    "MemorySubject": (
        (7,),
        (
            lambda memory, wrong: memory.list_records(subject=wrong),
            lambda memory, wrong: memory.forget(subject=wrong),
            lambda memory, wrong: memory.admin.merge(USER, wrong),
            lambda memory, wrong: memory.view(viewer="ada", individual=wrong, read_only=True),
        ),
    ),
    "MemorySubject or str": (
        ("user", 5, [5], [None]),
        (
            lambda memory, wrong: memory.list_records(subjects=wrong),
            lambda memory, wrong: memory.forget(subjects=wrong),
            lambda memory, wrong: memory.admin.audit(subjects=wrong),
            lambda memory, wrong: memory.admin.info(subjects=wrong),
            lambda memory, wrong: memory.admin.tree(subjects=wrong),
            lambda memory, wrong: memory.recall("mill", subjects=wrong),
        ),
    ),
    "/product/alpha": (
        (5,),
        (
            lambda memory, wrong: memory.save(ROME, scope=wrong),
            lambda memory, wrong: memory.remember("The mill is old.", scope=wrong),
            lambda memory, wrong: memory.remember_many(["The mill is old."], scope=wrong),
            lambda memory, wrong: memory.inbox.ingest_events("chat", CAT.messages, scope=wrong),
            lambda memory, wrong: memory.generate(CAT, scope=wrong),
            lambda memory, wrong: memory.load(CITY, scope=wrong),
            lambda memory, wrong: memory.recall("mill", scope=wrong),
            lambda memory, wrong: memory.list_records(scope=wrong),
            lambda memory, wrong: memory.admin.info(wrong),
            lambda memory, wrong: memory.forget(scope=wrong, dry_run=True),
            lambda memory, wrong: memory.forget(scope=wrong),
            lambda memory, wrong: memory.scope(wrong),
            lambda memory, wrong: memory.view(scopes=[wrong], read_only=True),
        ),
    ),
    "exact takes a list": (
        ("/product/beta",),
        (lambda memory, wrong: memory.view(scopes=["/product/alpha"], exact=wrong, read_only=True),),
    ),
    "DetectionRequest": (
        ("city",),
        (
            lambda memory, wrong: memory.remember(CAT, looking_for=wrong),
            lambda memory, wrong: memory.remember_many([CAT], looking_for=wrong),
            lambda memory, wrong: memory.generate(CAT, looking_for=wrong),
            lambda memory, wrong: memory.inbox.ingest_events("chat", CAT.messages, looking_for=wrong),
        ),
    ),
    "groups of conditions": (
        ("city", 5, ["city"], [5], [["city"]], [MetadataCondition("k", 1)]),
        (lambda memory, wrong: memory.list_records(where=wrong),),
    ),
    "order_by must be RecordOrder": (
        ("importance", None),
        (lambda memory, wrong: memory.list_records(order_by=wrong),),
    ),
    "list of texts": (([5],), (lambda memory, wrong: memory.list_records(sources=wrong),)),
    "whole number": (
        (-1, 1.5, True),
        (
            lambda memory, wrong: memory.list_records(limit=wrong),
            lambda memory, wrong: memory.list_records(offset=wrong),
        ),
    ),
    "actions": (("recorded", ["recorded"]), (lambda memory, wrong: memory.admin.audit(actions=wrong),)),
    "actors": (("clerk",), (lambda memory, wrong: memory.admin.audit(actors=wrong),)),
    "origins": ((["user"],), (lambda memory, wrong: memory.admin.audit(origins=wrong),)),
    "texts takes a list": (("The mill is old.",), (lambda memory, wrong: memory.admin.traces(texts=wrong),)),
    r"FactRecord\.id": ((5,), (lambda memory, wrong: memory.admin.traces(wrong),)),
    "ids takes str": ((5,), (lambda memory, wrong: memory.inbox.resume(wrong),)),
    "details must be FactDetails, not a dict": (
        ({}, {"importance": 1.0}),
        (
            lambda memory, wrong: memory.save(ROME, details=wrong),
            lambda memory, wrong: memory.save_many([ROME], details=wrong),
        ),
    ),
    "^revision_ttl must be a timedelta": (
        (5,),
        (revised, lambda memory, wrong: memory.remember("The mill is old.", revision_ttl=wrong)),
    ),
    "revisions must be timedelta or None": ((5,), (lambda memory, wrong: memory.admin.expire(revisions=wrong),)),
    "facts takes a list": ((ROME,), (lambda memory, wrong: memory.save_many(wrong),)),
    "a list": (
        ("The mill is old.", Message(content="The mill is old."), talk("The mill is old."), None, 5),
        (lambda memory, wrong: memory.remember_many(wrong),),
    ),
    "lists of strings": (("venue",), (lambda memory, wrong: memory.remember("The mill is old.", categories=wrong),)),
    "settings must be": (({},), (lambda memory, wrong: memory.recall("mill", settings=wrong),)),
    "deep must be": (({},), (lambda memory, wrong: memory.recall("mill", deep=wrong),)),
    "takes a file, or Recorded entries": ((5,), (lambda memory, wrong: memory.admin.import_(wrong),)),
    "history": ((None, "1", 1.5, True), (lambda memory, wrong: memory.rollback(wrong),)),
    "list_records": (("city", 5), (lambda memory, wrong: memory.load(wrong),)),
    "remember": (("city", 5), (lambda memory, wrong: memory.save(wrong),)),
    r"SingleFact\(CONCEPT, value\)": (("Rome", 5), (lambda memory, wrong: memory.save(CITY, wrong),)),  # type: ignore[call-overload]
    r"as admin\.reset\(\) does": (("/",), (lambda memory, wrong: memory.forget(scope=wrong),)),
    "^/agent/critic lies outside of this view of /product/alpha:": (
        ("/agent/critic",),
        (lambda memory, wrong: memory.view(scopes=["/product/alpha"]).view(scopes=[wrong]),),
    ),
    "concept": ((5,), (lambda memory, wrong: memory.history(wrong),)),
    "concepts takes": ((5, [5]), (lambda memory, wrong: memory.list_records(concepts=wrong),)),
    "^as_of must be .* tzinfo": (("2026-05-01",), (lambda memory, wrong: memory.view(as_of=wrong),)),
    "^known_at must be .* tzinfo": (("2026-05-01",), (lambda memory, wrong: memory.view(known_at=wrong),)),
    "private must be bool or None": (
        ("yes", 1),
        (
            lambda memory, wrong: memory.save(ROME, private=wrong),
            lambda memory, wrong: memory.remember("The mill is old.", private=wrong),
        ),
    ),
    "policies must be Mapping or None, not a Policies": (
        (Policies(),),
        (lambda memory, wrong: memory.view(policies=wrong),),
    ),
    "a path, or a file opened for writing": ((None, 5), (lambda memory, wrong: memory.admin.export(wrong),)),
    "since must be": (("2026-05-01",), (lambda memory, wrong: memory.list_records(since=wrong),)),
    "changes": ((None, "all", 5, [None]), (lambda memory, wrong: memory.undo(wrong),)),
}
"""Messages of errors, each with wrong values and the calls that they are given to."""


@pytest.mark.parametrize(("hint", "values", "calls"), [(hint, *given) for hint, given in WRONG.items()], ids=WRONG)
async def test_a_wrong_argument_is_answered_with_what_is_wanted_and_changes_nothing(
    memory: Memory, hint: str, values: tuple[Any, ...], calls: tuple[Callable[[Memory, Any], Any], ...]
) -> None:
    async with memory:
        await memory.save(SingleFact(CITY, "Oslo"), subject=USER)
        for wrong in values:
            for call in calls:
                with pytest.raises(InvalidDataError, match=hint):
                    await call(memory, wrong)
        assert said(await memory.list_records()) == ["Oslo"]


@pytest.mark.parametrize("name", ["categories", "topics", "sources", "concepts", "record_ids", "subjects"])
async def test_a_filter_of_several_takes_no_single_text(memory: Memory, name: str) -> None:
    """As single letters it would mean something else, and as a part of a text it would match too much."""
    await memory.remember("The mill is old.", categories=["m"], source="mill")
    wrong: dict[str, Any] = {name: "mill"}
    for call in (memory.list_records, memory.forget, partial(memory.recall, "mill")):
        with pytest.raises(InvalidDataError, match="list"):
            await call(**wrong)
    assert said(await memory.list_records(sources=["mill"])) == ["The mill is old."]


@each_case("name", "hint")
async def test_an_unknown_filter_is_refused_with_the_known_ones(memory: Memory, name: str, hint: str) -> None:
    """A misspelt condition must not be left out: `forget` would erase more than was meant."""
    await memory.save(SingleFact(CITY, "Rome"), subject=USER)
    wrong: dict[str, Any] = {name: ["mill"], "subject": USER}
    calls: list[Call] = [memory.list_records, memory.forget, memory.admin.audit]
    for call in calls:
        with pytest.raises(TypeError, match=f"'{name}'{hint}"):
            await call(**wrong)
    with pytest.raises(TypeError, match=f"'{name}'"):
        await memory.recall("mill", **wrong)
    assert said(await memory.list_records()) == ["Rome"]


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
        (lambda memory: memory.remember("mill", user_id="ada"), r"'user_id'; name the user with for_user\(ID\)"),
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


@each_case("name", "wrong", "hint")
def test_a_misspelt_setting_is_answered_with_the_right_one(name: str, wrong: str, hint: str) -> None:
    made: Any = getattr(agent if name in ("Loading", "Saving") else factmem, name)
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
        with pytest.raises(StoreUnavailableError, match=r"is a folder: add the name of a file .* file:PATH"):
            await memory.remember("The mill is old.")


async def test_the_present_folder_in_place_of_a_file_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    async with Memory(".", embedder=HashEmbedder()) as memory:
        with pytest.raises(StoreUnavailableError, match=f"^{tmp_path.name} is a folder"):
            await memory.remember("The mill is old.")


def test_a_name_that_lies_elsewhere_is_answered_with_its_module() -> None:
    for name, home in (("DetectionRequest", "factmem.abc"), ("Trigger", "factmem.memory")):
        with pytest.raises(ImportError, match=f"factmem has no {name}: write  from {home} import {name}"):
            exec(f"from factmem import {name}", {})
    assert not hasattr(factmem, "Memoy")
    with pytest.raises(AttributeError, match="did you mean Memory"):
        getattr(factmem, "Memoy")  # noqa: B009 - a type checker would find it


async def test_a_clock_without_a_time_zone_is_named() -> None:
    async with Memory("memory:", embedder=HashEmbedder(), clock=dt.datetime.now) as memory:
        with pytest.raises(InvalidDataError, match=r"^clock has no time zone"):
            await memory.remember("The mill is old.")
