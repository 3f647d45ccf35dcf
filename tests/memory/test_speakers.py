"""Talks of several people with names: whose facts are found, who may end them, and whom a question means."""

from __future__ import annotations

import datetime as dt
import unicodedata
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from factmem import Concept, Memory, MemorySubject, Message, Origin
from factmem.abc import DetectionRequest
from factmem.abc.capabilities import Append
from factmem.abc.detector import Conversation
from factmem.details import Evidence
from factmem.records import Recorded
from factmem.testing import ScriptedModel

NOON: Final = dt.datetime(2026, 3, 2, 12, tzinfo=dt.UTC)
ALLERGIES: Final = Concept.multiple("allergies", "What somebody cannot eat")
CITY: Final = Concept.single("home_city", "Where somebody lives")
USER: Final = MemorySubject("user", "somebody of the family")
TRIP: Final = MemorySubject("trip", "the trip that they plan")


@attrs.define
class Group:
    """A memory whose model finds what each talk is said to hold, and confirms no claim."""

    found: dict[str, Any] = attrs.field(factory=dict)
    prompts: list[str] = attrs.field(factory=list)
    memory: Memory = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        self.memory = Memory(
            "memory:", model=ScriptedModel(self._answer), clock=lambda: NOON, concepts=[ALLERGIES, CITY]
        )

    def _answer(self, prompt: Any, answer: Any) -> dict[str, Any]:
        self.prompts.append(prompt.content)
        if "claims" in answer.model_fields:
            return {"claims": [{"number": number, "answer": "no"} for number in range(1, 9)]}
        return {} if "known" in answer.model_fields else self.found

    async def said(self, day: int, *said: tuple[str, str], **options: Any) -> None:
        messages = [
            Message(content=text, name=name, id=f"{day}.{number}", timestamp=NOON + dt.timedelta(days=day - 9))
            for number, (name, text) in enumerate(said)
        ]
        await self.memory.remember(Conversation(messages=messages, id=str(day)), **options)

    async def facts(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for record in await self.memory.list_records(concepts=[ALLERGIES, CITY]):
            found.setdefault(str(record.subject), []).append(record.value)
        return found


async def told(memory: Memory, *said: tuple[str, str], days_ago: int = 2) -> None:
    """Remember what people say one after the other, each message by itself."""
    for minute, (name, text) in enumerate(said):
        at = NOON - dt.timedelta(days=days_ago, minutes=-minute)
        await memory.remember(Message(content=text, name=name, timestamp=at))


def city(quote: str, value: str, message: int = 1, **about: str) -> dict[str, Any]:
    return {"quote": quote, "message": message, "value": value, **about}


@pytest.mark.parametrize("together", [True, False])
async def test_what_people_say_of_themselves_is_about_them(together: bool) -> None:
    group = Group()
    async with group.memory as memory:
        ana, tom = ("Ana", "I live in Linz."), ("Tom", "I live in Wien.")
        if together:
            group.found = {"home_city": [city("I live in Linz", "Linz"), city("I live in Wien", "Wien", 2)]}
            await group.said(1, ana, tom)
        else:
            for day, said in enumerate((ana, tom)):
                group.found = {"home_city": [city(said[1], said[1].split()[-1].strip("."))]}
                await group.said(day, said)
        assert await group.facts() == {"user:Ana": ["Linz"], "user:Tom": ["Wien"]}
        for name, place in (("Ana", "Linz"), ("Tom", "Wien")):
            (best, *_) = await memory.recall(f"Where does {name} live?")
            assert (best.record.value, best.record.subject.individual_name) == (place, name)


async def test_what_the_model_says_about_everything_or_a_declared_subject_stays_there() -> None:
    group = Group()
    async with group.memory:
        group.found = {"home_city": [city("The party is in Linz", "Linz", about="everything")]}
        await group.said(1, ("Ana", "The party is in Linz."), looking_for=DetectionRequest(concepts=[CITY]))
        group.found = {"home_city": [city("The trip is to Graz", "Graz", about="trip")]}
        await group.said(
            2, ("Ana", "The trip is to Graz."), looking_for=DetectionRequest(subjects=[USER, TRIP], concepts=[CITY])
        )
        assert "user:Ana" not in await group.facts()


async def test_the_model_is_shown_the_concepts_in_use_of_those_who_speak() -> None:
    group = Group()
    async with group.memory:
        shoes = {"keyword": "shoe_size", "kind": "single", "description": "Size of shoes", "value": "38"}
        group.found = {"facts": [{"quote": "I wear 38", "message": 1, **shoes}]}
        await group.said(1, ("Ana", "I wear 38."))
        group.found = {}
        await group.said(2, ("Ana", "I bought boots."))
        assert "shoe_size" in group.prompts[-1]


async def test_one_persons_end_leaves_what_is_so_of_another() -> None:
    group = Group()
    async with group.memory:
        group.found = {"allergies": [{"quote": "I am allergic to nuts", "message": 1, "values": ["nuts"]}]}
        await group.said(1, ("Tom", "I am allergic to nuts."))
        over = {"quote": "I am no longer allergic to nuts", "message": 1, "keyword": "allergies", "value": "nuts"}
        group.found = {"forget": [over]}
        await group.said(2, ("Lena", "I am no longer allergic to nuts."))
        assert await group.facts() == {"user:Tom": ["nuts"]}
        group.found = {"forget": [over]}
        await group.said(3, ("Tom", "I am no longer allergic to nuts."))
        assert await group.facts() == {}


@pytest.mark.parametrize(("speaker", "other"), [("Ana", "Nora"), ("user-1", "user-2")])
async def test_words_of_a_declared_person_are_no_plain_fact_about_another_one(speaker: str, other: str) -> None:
    """Names that share a word are those of two people."""
    group = Group()
    members = DetectionRequest(subjects=[USER.individual(name) for name in (speaker, other)], concepts=[CITY])
    async with group.memory:
        group.found = {"home_city": [city("I live in Bonn", "Bonn", about=f"user:{other}")]}
        await group.said(1, (speaker, "I live in Bonn."), looking_for=members)
        assert await group.facts() == {}
        assert f'about="user:{other}: somebody of the family"' in group.prompts[-1]


async def test_a_question_for_ones_own_is_not_answered_by_what_others_say() -> None:
    async with Memory("memory:", clock=lambda: NOON) as memory:
        await told(memory, ("Ana", "I live in Linz."), ("Tom", "I live in Wien."))
        for viewer, place in (("Ana", "Linz"), ("Tom", "Wien"), ("Zoe", None)):
            found = await memory.for_user(viewer).recall("Where do I live?")
            assert found.answers is (place is not None)
            assert place is None or found[0].record.value == f"I live in {place}."


async def test_a_question_for_a_day_alone_prefers_ones_own() -> None:
    async with Memory("memory:", clock=lambda: NOON) as memory:
        await told(memory, ("Mia", "I have swimming on Monday."), ("Jo", "I have guitar on Monday."), days_ago=4)
        for name, what in (("Mia", "swimming"), ("Jo", "guitar")):
            found = await memory.for_user(name).recall("What do I have on Monday?")
            assert found[0].record.value == f"I have {what} on Monday."


async def test_words_of_others_at_a_users_own_place_are_not_the_users() -> None:
    async with Memory("memory:", clock=lambda: NOON) as memory:
        view = memory.for_user("Tom")
        await told(view, ("Lena", "Hello."), ("Ana", "My shoe size is 38."), ("Tom", "Hi all."))
        assert not (await view.recall("What is my shoe size?")).answers


@pytest.mark.parametrize("others", ["Right.", None])
async def test_what_begins_with_a_name_is_about_that_person_and_not_about_its_speaker(others: str | None) -> None:
    async with Memory("memory:", clock=lambda: NOON) as memory:
        said = [("Ana", "Tom is allergic to walnuts."), ("Ana", "The oven is broken.")]
        said += [("Tom", others)] if others else []
        await memory.remember(Message(content="Hello.", name="Tom", id="hello", timestamp=NOON - dt.timedelta(days=3)))
        messages = [
            Message(content=text, name=name, id=str(number), timestamp=NOON - dt.timedelta(days=2, minutes=-number))
            for number, (name, text) in enumerate(said)
        ]
        await memory.remember(Conversation(messages=messages, id="talk"))
        about_tom = await memory.recall("What is Tom allergic to?")
        assert (about_tom[0].record.value, about_tom.answers) == ("Tom is allergic to walnuts.", True)
        assert not (await memory.recall("What is Ana allergic to?")).answers
        assert (await memory.recall("What did Ana say about the oven?")).answers


async def test_what_is_known_of_the_user_stays_there_unless_somebody_else_said_it() -> None:
    group = Group()
    async with group.memory as memory:
        group.found = {"home_city": [city("I live in Linz", "Linz")]}
        await memory.remember(Message(content="I live in Linz.", timestamp=NOON - dt.timedelta(days=9)))
        group.found = {"home_city": [city("I live in Graz", "Graz")]}
        await group.said(2, ("Tom", "I live in Graz."))
        assert await group.facts() == {"everything": ["Graz"]}
        group.found = {"home_city": [city("I live in Wien", "Wien")]}
        await group.said(3, ("Ana", "I live in Wien."))
        assert await group.facts() == {"everything": ["Graz"], "user:Ana": ["Wien"]}


async def test_a_speaker_who_is_asked_for_has_facts_of_their_own() -> None:
    group = Group()
    ana = DetectionRequest(subjects=[USER.individual("Ana")], concepts=[CITY])
    async with group.memory as memory:
        await memory.save(CITY.fact(["Linz"], timestamp=NOON - dt.timedelta(days=9)))
        group.found = {"home_city": [city("I live in Graz", "Graz")]}
        await group.said(2, ("Ana", "I live in Graz."), looking_for=ana)
        assert await group.facts() == {"everything": ["Linz"], "user:Ana": ["Graz"]}


async def test_a_name_in_other_case_is_the_viewers() -> None:
    async with Memory("memory:", clock=lambda: NOON) as memory:
        await told(memory, ("Tom", "I live in Wien."), ("Lena", "I live in Graz."))
        found = await memory.for_user("tom").recall("Where do I live?")
        assert (found[0].record.value, found.answers) == ("I live in Wien.", True)


async def test_a_label_in_the_case_of_the_prompt_is_found() -> None:
    group = Group()
    async with group.memory:
        group.found = {"home_city": [city("I live in Wien", "Wien", about="user:Tom")]}
        await group.said(1, ("Tom", "I live in Wien."), ("tom", "Hello."))
        assert await group.facts() == {"user:Tom": ["Wien"]}


async def test_a_display_name_is_the_users_own() -> None:
    async with Memory("memory:", clock=lambda: NOON) as memory:
        view = memory.for_user("u-42")
        await view.remember(Message(content="I live in Linz.", name="Ana", timestamp=NOON - dt.timedelta(days=1)))
        found = await view.recall("Where do I live?")
        assert (found[0].record.value, found.answers) == ("I live in Linz.", True)


FAMILY: Final = "/product/family"


async def of_tom(memory: Memory, **given: Any) -> str:
    """Remember where Tom and Ana live, and update what he says; return the id of his statement."""
    (said,) = await memory.remember(Message(name="Tom", content="I live in Wein."), scope=FAMILY)
    await memory.remember(Message(name="Ana", content="I like skiing."), scope=FAMILY)
    await memory.update(said.id, value="I live in Wien.", **given)
    return said.id


async def test_an_updated_statement_stays_its_speakers() -> None:
    async with Memory("memory:", clock=lambda: NOON) as memory:
        id = await of_tom(memory)
        assert [(it.id, it.value) for it in await memory.list_records(speakers=["Tom"])] == [(id, "I live in Wien.")]
        assert (await memory.recall("Where does Tom live?", limit=1)).answers
        assert (await memory.for_user("Tom").recall("Where do I live?", limit=1)).answers
        assert not (await memory.for_user("Ana").recall("Where do I live?", limit=1)).answers
        block = await memory.for_user("Ana").recall("Where does Tom live?", limit=1)
        assert [item.speaker for item in block[0].record.evidence] == ["Tom"]


@pytest.mark.parametrize(
    ("given", "evidence"),
    [
        ({}, [("", "user", "Tom")]),
        ({"origin": Origin.USER}, [("", "user", "Tom")]),
        ({"origin": Origin.ASSISTANT}, []),
        ({"origin": Origin.DOCUMENT}, []),
    ],
)
async def test_the_evidence_of_an_updated_statement_quotes_nothing_and_names_no_speaker_of_another_origin(
    given: Any, evidence: list[tuple[str, str, str]]
) -> None:
    async with Memory("memory:", clock=lambda: NOON) as memory:
        (said,) = await memory.remember(Message(name="Tom", content="I live in Wein."))
        words = (await memory.update(said.id, value="I live in Wien.", **given)).record.evidence
        assert [(it.quote, it.role, it.speaker) for it in words] == evidence
        assert {(it.message_id, it.conversation_id, it.position, it.start) for it in words} <= {(None,) * 4}


@pytest.mark.parametrize("given", [{}, {"origin": Origin.ASSISTANT}, {"origin": Origin.USER}])
async def test_who_forgets_a_speaker_forgets_statements_that_were_updated_since(given: Any) -> None:
    async with Memory("memory:", clock=lambda: NOON) as memory:
        id = await of_tom(memory, **given)
        assert [it.id for it in await memory.forget(speakers=["Tom"], scope=FAMILY)] == [id]
        said = (it.record.value for it in (await memory.admin.audit()).entries if it.record is not None)
        assert list(said) == ["I like skiing."]


async def test_other_conditions_look_at_the_present_revision_where_speakers_are_forgotten() -> None:
    async with Memory("memory:", clock=lambda: NOON) as memory:
        id = await of_tom(memory, importance=0.9)
        assert list(await memory.forget(speakers=["Tom"], max_importance=0.5)) == []
        assert [it.id for it in await memory.forget(speakers=["Tom"], min_importance=0.8)] == [id]


async def test_who_forgets_a_speaker_leaves_the_words_of_others_in_the_same_record() -> None:
    async with Memory("memory:", clock=lambda: NOON) as memory:
        view = memory.for_user("Tom")
        await told(view, ("Tom", "The mill is old."))
        await view.remember("The mill is old.", scope="/product/family")
        await view.remember("The mill is old.")
        (record, _) = await view.list_records()
        assert [item.speaker for item in record.evidence] == ["Tom", None]
        erasure = await view.forget(speakers=["Tom"])
        assert (len(erasure), erasure.erased) == (1, 1)
        assert [[it.speaker for it in item.evidence] for item in await view.list_records()] == [[None], [None]]


@pytest.mark.parametrize(("said", "asked"), [("Zoe\u0301", "Zo\u00e9"), ("Zo\u00e9", "Zoe\u0301")])
async def test_a_speaker_is_the_same_in_whatever_form_the_name_is_written(said: str, asked: str) -> None:
    async with Memory("memory:", clock=lambda: NOON) as memory:
        await told(memory, (said, "I live in Linz."))
        assert len(await memory.list_records(speakers=[asked])) == 1
        assert len(await memory.forget(speakers=[asked])) == 1


async def test_the_speaker_of_an_updated_statement_lasts_through_undo_export_and_merge(tmp_path: Path) -> None:
    async with Memory("memory:", clock=lambda: NOON) as memory, Memory("memory:", clock=lambda: NOON) as other:
        id = await of_tom(memory)
        change = await memory.update(id, value="I live in Graz.")
        undone = await memory.undo([change])
        assert [it.value for it in await memory.list_records(speakers=["Tom"])] == ["I live in Wien."]
        await memory.undo(undone)
        await memory.admin.export(tmp_path / "facts.jsonl")
        await other.admin.import_(tmp_path / "facts.jsonl", trust=True)
        assert [it.value for it in await other.list_records(speakers=["Tom"])] == ["I live in Graz."]
        (graz,) = await memory.list_records(speakers=["Tom"])
        await memory.admin.merge(graz.subject, into="product")
        assert [it.value for it in await memory.list_records(speakers=["Tom"])] == ["I live in Graz."]


async def test_what_was_updated_and_is_said_again_quotes_the_words_first() -> None:
    async with Memory("memory:", clock=lambda: NOON) as memory:
        id = await of_tom(memory)
        await memory.remember(Message(name="Tom", content="I live in Wien."), scope=FAMILY)
        (again,) = await memory.list_records(speakers=["Tom"])
        assert (again.id, [it.quote for it in again.evidence]) == (id, ["I live in Wien.", ""])


async def values_in(memory: Memory) -> list[Any]:
    """Return all values in the store, of all revisions."""
    entries = (await memory.admin.audit()).entries
    return sorted({it.record.value for it in entries if it.record is not None})


async def test_a_speaker_is_forgotten_wherever_the_words_were_moved() -> None:
    async with Memory("memory:", clock=lambda: NOON) as memory:
        id = await of_tom(memory)
        there = (await memory.update(id, scope="/agent/one")).record
        await memory.update(there.id, scope="/agent/two", value="He lives in Wien.", origin=Origin.ASSISTANT)
        (gone,) = await memory.forget(speakers=["Tom"], scope="/agent/two", dry_run=True)
        await memory.forget(gone.id, speakers=["Tom"])
        assert await values_in(memory) == ["I like skiing."]


async def test_words_of_others_in_the_record_of_a_speaker_stay() -> None:
    """Only the speaker's revisions go, with the updates of them that name nobody."""
    async with Memory("memory:", clock=lambda: NOON) as memory:
        (said,) = await memory.remember(Message(name="Ana", content="The oven is old."))
        log = memory._backend.log()
        (first,) = [it for it in await log.changes(None) if isinstance(it, Recorded)]
        for name, value in (("Tom", "The oven is broken."), ("Ana", "The oven is new.")):
            evidence = (Evidence(quote=value, speaker=name, role="user"),)
            details = attrs.evolve(first.assertion.details, evidence=evidence)
            newer = attrs.evolve(first.assertion, data=value, details=details, revises=said.id, revised=first.seq)
            await log.append([Append(assertion=newer)])
            await memory.update(said.id, value=f"{value} So it is.", origin=Origin.ASSISTANT)
        away = (await memory.update(said.id, scope="/agent/one")).record
        traces = await memory.admin.traces(away.id, speakers=["Tom"])
        assert not any("oven is new" in text for text in traces.words)
        await memory.forget(speakers=["Tom"])
        assert await values_in(memory) == ["The oven is new.", "The oven is new. So it is.", "The oven is old."]
        await memory.forget(speakers=["Ana"])
        assert await values_in(memory) == []


async def test_a_name_is_the_same_however_its_accents_are_written() -> None:
    one, other = (unicodedata.normalize(form, "Zoë") for form in ("NFC", "NFD"))
    async with Memory("memory:", clock=lambda: NOON) as memory:
        for name, text in ((one, "I live in Linz."), (other, "I live in Wien."), ("Zoe", "I live in Graz.")):
            await memory.remember(Message(name=name, content=text))
        for name in (one, other):
            assert len(await memory.list_records(speakers=[name])) == 2
            assert len(await memory.forget(speakers=[name], dry_run=True)) == 2
        await memory.forget(speakers=[other])
        assert await values_in(memory) == ["I live in Graz."]
