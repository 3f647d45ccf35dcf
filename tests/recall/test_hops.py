"""Recall over links: records whose value is a subject lead to the facts of that subject."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import attrs
import numpy as np
import pytest

from factmem import Concept, InMemoryProvider, Memory, MemorySubject, MultipleFacts, RecallMatch, SingleFact
from factmem.errors import ConceptConflictError
from factmem.memory.filters import Filters
from factmem.recall import CallableEmbedder
from tests.narrowing import not_none
from tests.tables import each_case

BOSS = Concept.single("boss", "", MemorySubject)
WIFE = Concept.single("wife", "", MemorySubject)
EMPLOYER = Concept.single("employer", "")
CITY = Concept.single("city", "")
COLLEAGUES = Concept.multiple("colleagues", "", MemorySubject)
ADA, BO, EVA, NINA = (
    MemorySubject("person").individual(name) for name in ("Ada Lind", "Bo Ek", "Eva Berg", "Nina Moe")
)
FACTS: Sequence[tuple[MemorySubject, SingleFact[Any]]] = [
    (ADA, SingleFact(BOSS, EVA)),
    (ADA, SingleFact(EMPLOYER, "Acme")),
    (ADA, SingleFact(CITY, "Oslo")),
    (BO, SingleFact(BOSS, ADA)),
    (BO, SingleFact(EMPLOYER, "Hooli")),
    (EVA, SingleFact(WIFE, NINA)),
    (EVA, SingleFact(EMPLOYER, "Globex")),
    (EVA, SingleFact(CITY, "Bergen")),
    (NINA, SingleFact(EMPLOYER, "Initech")),
    (NINA, SingleFact(CITY, "Turku")),
]
MEANINGS = {"manager": "boss", "spouse": "wife", "work": "employer", "works": "employer", "live": "city"}
WORDS = ("boss", "wife", "employer", "city", "lind", "berg", "moe", "ek")


def meaning(texts: list[str]) -> Any:
    """Embed the few words that the tests know; a synonym has the meaning of its word."""
    rows = np.full((len(texts), len(WORDS) + 1), 0.01)
    for row, text in zip(rows, texts, strict=True):
        for word in text.lower().replace("'s", "").replace("?", "").split():
            known = MEANINGS.get(word.strip(":,"), word.strip(":,"))
            row[WORDS.index(known) if known in WORDS else -1] += 1.0 if known in WORDS else 0.1
    return rows


EMBEDDER = CallableEmbedder(meaning, name="synonyms", dimension=len(WORDS) + 1)


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    async with Memory("memory:", embedder=EMBEDDER, concepts=[BOSS, WIFE, COLLEAGUES]) as opened:
        for subject, fact in FACTS:
            await opened.save(fact, subject=subject)
        yield opened


def shown(match: RecallMatch) -> tuple[str | None, str, Any]:
    return match.record.subject.individual_name, match.record.concept.keyword, match.record.value


def led_by(match: RecallMatch) -> list[str]:
    return [f"{link.subject.individual_name}, {link.concept.keyword}" for link in match.path]


async def test_a_subject_is_a_value_that_load_follows(memory: Memory) -> None:
    boss = not_none(await memory.load(BOSS, subject=ADA))
    assert boss.value == EVA
    assert not_none(await memory.load(EMPLOYER, subject=boss.value)).value == "Globex"


async def test_subjects_are_values_of_a_profile_and_of_several(memory: Memory) -> None:
    @attrs.frozen
    class Person:
        boss: MemorySubject
        employer: str

    await memory.save(MultipleFacts(COLLEAGUES, (ADA, BO)), subject=EVA)
    assert not_none(await memory.load(COLLEAGUES, subject=EVA)).values == (ADA, BO)
    person = await memory.profile(Person, subject=ADA)
    assert (person.boss, person.employer) == (EVA, "Acme")


async def test_a_name_with_a_colon_is_no_individual() -> None:
    odd = MemorySubject("a:b%3A")
    async with Memory("memory:", embedder=EMBEDDER) as memory:
        await memory.save(SingleFact(BOSS, odd), subject=odd.individual("x:y"))
        assert not_none(await memory.load(BOSS, subject=odd.individual("x:y"))).value == odd
        with pytest.raises(ConceptConflictError):
            await memory.save(SingleFact(Concept.single("boss", ""), "a text"), subject=odd.individual("x:y"))


@each_case("question", "answer", "path")
async def test_links_lead_to_the_answer_and_say_how(
    memory: Memory, question: str, answer: list[str], path: list[str]
) -> None:
    first = (await memory.recall(question))[0]
    assert list(shown(first)) == answer
    assert led_by(first) == path
    assert "linked" in first.reasons


async def test_words_alone_lead_over_links_of_the_same_name(memory: Memory) -> None:
    first = (await memory.recall("employer of Ada Lind's boss", semantic=False))[0]
    assert shown(first) == ("Eva Berg", "employer", "Globex")


async def test_a_question_that_a_link_itself_answers_follows_nothing(memory: Memory) -> None:
    found = await memory.recall("Who is Ada Lind's boss?")
    assert shown(found[0]) == ("Ada Lind", "boss", EVA)
    assert all(not match.path for match in found)
    (first, *_) = await memory.recall("Where does Ada Lind work?")
    assert shown(first) == ("Ada Lind", "employer", "Acme")


async def test_my_own_links_are_followed_where_nobody_is_named() -> None:
    eva = MemorySubject("Eva Berg")
    async with Memory("memory:", embedder=EMBEDDER) as memory:
        await memory.for_user("ada").save(SingleFact(BOSS, eva))
        await memory.save(SingleFact(EMPLOYER, "Globex"), subject=eva)
        await memory.save(SingleFact(EMPLOYER, "Initech"), subject=NINA)
        for mine in (memory.for_user("ada"), memory.view(viewer="ada")):
            first = (await mine.recall("Where does my boss work?"))[0]
            assert (first.record.value, len(first.path)) == ("Globex", 1)
        others = await memory.view(viewer="bo").recall("Where does my boss work?")
        assert all(not match.path for match in others)


async def test_nothing_is_followed_that_the_caller_may_not_see() -> None:
    async with Memory(InMemoryProvider(), embedder=EMBEDDER) as memory:
        for subject, fact in FACTS:
            private = subject == ADA and fact.concept.keyword == "boss"
            owner = memory.view(viewer="ada") if private else memory
            await owner.save(fact, subject=subject, private=private, scope="/product/alpha")
        question = "Where does Ada Lind's boss work?"
        seen = await memory.view(viewer="ada").recall(question)
        assert shown(seen[0]) == ("Eva Berg", "employer", "Globex")
        for blind in (memory, memory.view(viewer="bo"), memory.view(viewer="ada").scope("/product/beta")):
            assert all(not match.path for match in await blind.recall(question))


async def test_a_filter_keeps_the_order_and_the_scores_of_what_links_lead_to(memory: Memory) -> None:
    question = "Where does Ada Lind's boss's wife work?"
    whole = await memory.recall(question, limit=20)
    narrowings: list[Filters] = [
        {"subject": NINA},
        {"concepts": ["employer"]},
        {"concepts": ["boss", "wife"]},
        {"subject": ADA},
    ]
    for filters in narrowings:
        some = await memory.recall(question, limit=20, **filters)
        kept = {match.record.id for match in some}
        expected = [match for match in whole if match.record.id in kept]
        assert [match.record.id for match in some] == [match.record.id for match in expected]
        assert [match.score for match in some] == pytest.approx([match.score for match in expected], abs=1e-6)
    best = await memory.recall(question, limit=20, min_score=whole[2].score - 1e-6)
    assert [match.record.id for match in best] == [match.record.id for match in whole[:3]]


async def test_links_in_a_circle_end(memory: Memory) -> None:
    await memory.save(SingleFact(BOSS, BO), subject=EVA)
    found = await memory.recall("Where does the boss of the boss of the boss of the boss of Bo Ek work?")
    assert max(len(match.path) for match in found) <= 3


@each_case("asked")
async def test_a_link_is_the_answer_where_only_the_kind_of_its_subjects_is_left_to_ask(asked: str) -> None:
    depends = Concept.multiple("depends_on", "Tasks that a task depends on", MemorySubject)
    state, task = Concept.single("task_state", "State of a task"), MemorySubject("task")
    needed = (task.individual("setup"), task.individual("deploy"))
    async with Memory("memory:") as memory:
        for one in (*needed, task.individual("c")):
            await memory.save(SingleFact(state, "todo"), subject=one)
        await memory.save(MultipleFacts(depends, needed), subject="task:c")
        found = await memory.recall(asked, limit=2)
        followed = await memory.recall("What is the state of the tasks that c depends on?", limit=2)
    assert {match.record.value for match in found} == set(needed)
    assert {match.record.subject for match in followed} == set(needed)


@each_case("question", "answer")
async def test_a_link_is_the_answer_where_its_own_description_is_all_that_is_left_to_ask(
    question: str, answer: str
) -> None:
    faction = Concept.single("faction", "The faction that the character belongs to", MemorySubject)
    leader = Concept.single("leader", "Who leads the faction", MemorySubject)
    async with Memory("memory:") as memory:
        await memory.save(SingleFact(faction, MemorySubject("House Wolf")), subject="Kaelen")
        await memory.save(SingleFact(leader, MemorySubject("Brandt")), subject="House Wolf")
        assert str((await memory.recall(question))[0].record.value) == answer
