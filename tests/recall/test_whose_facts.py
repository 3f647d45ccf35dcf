"""A question asks for facts of the people whom it names, and for the viewer's own where it names nobody."""

from __future__ import annotations

import datetime as dt
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import attrs
import numpy as np
import pytest

from factmem import Concept, Memory, MemorySubject, Message, SingleFact
from factmem.recall import CallableEmbedder
from factmem.recall.text.signs import Whom, tells_of_whom
from factmem.testing import FakeClock
from tests.tables import each_case, sections

BIRTHDAY = Concept.single("birthday", "The date on which somebody was born", dt.date)
SHOE_SIZE = Concept.single("shoe_size", "Shoe size", float)
PET = Concept.single("pet", "The pet that somebody has")
TEACHER = Concept.single("teacher", "The class teacher of a child")
PORT = Concept.single("port", "The port that a server listens on", int)
RENT = Concept.single("rent", "The rent of a flat", int)
JOB = Concept.single("job_title", "What somebody does at work")
MANAGER = Concept.single("manager", "Whom somebody reports to", MemorySubject)
NORA = MemorySubject("user").individual("nora")
RELATIVES = ("Lena", "Mattis", "Ingrid", "Oskar")


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    async with Memory("memory:") as memory:
        yield memory


async def saved(memory: Memory, *, relatives: Sequence[MemorySubject]) -> None:
    """Save facts of the viewer, and newer ones of the relatives."""
    for years, subject in enumerate([NORA, *relatives]):
        await memory.save(SingleFact(BIRTHDAY, dt.date(1988 + years, 4, 17)), subject=subject)
        await memory.save(SingleFact(SHOE_SIZE, 39.5 + years), subject=subject)
        await memory.save(SingleFact(PET, f"cat {years}"), subject=subject)


@pytest.mark.parametrize("priority", [None, 1])
@each_case("question")
async def test_the_viewers_own_comes_first_and_others_clearly_below(
    question: str, priority: int | None, memory: Memory
) -> None:
    subjects = map(MemorySubject, RELATIVES)
    declared = subjects if priority is None else (attrs.evolve(one, priority_level=priority) for one in subjects)
    await saved(memory, relatives=list(declared))
    first, *rest = await memory.for_user("nora").recall(question, limit=5)
    assert first.record.subject.key == NORA.key
    assert max(match.score for match in rest) < 0.8 * first.score


@each_case("question", "name")
async def test_a_question_that_names_somebody_has_their_fact_first(question: str, name: str, memory: Memory) -> None:
    await saved(memory, relatives=list(map(MemorySubject, RELATIVES)))
    found = await memory.for_user("nora").recall(question)
    assert found[0].record.subject.name == name
    assert found.answers


async def test_what_only_somebody_else_has_is_no_answer_to_what_is_asked_of_me(memory: Memory) -> None:
    await memory.save(SingleFact(BIRTHDAY, dt.date(1988, 4, 17)), subject=NORA)
    await memory.save(SingleFact(SHOE_SIZE, 33.0), subject="Lena")
    nora = memory.for_user("nora")
    mine = await nora.recall("What is my shoe size?")
    hers = await nora.recall("What is Lena's shoe size?")
    assert (mine.answers, mine[0].parts.other) == (False, 1)
    assert (hers.answers, hers[0].parts.other) == (True, 0)
    assert mine[0].score < 0.8 * hers[0].score


@pytest.mark.parametrize("question", ["What is the port?", "How much is the rent?", "How high is my rent?"])
async def test_things_are_no_other_persons(question: str, memory: Memory) -> None:
    await saved(memory, relatives=[MemorySubject("Lena")])
    await memory.save(SingleFact(PORT, 8080), subject="server")
    await memory.save(SingleFact(RENT, 900), subject="flat")
    found = await memory.for_user("nora").recall(question)
    assert found[0].record.subject.name in ("server", "flat")
    assert (found[0].parts.other, found.answers) == (0, True)
    assert found[0].score > 2 * found[1].score


@pytest.mark.parametrize("question", ["What instrument does Lena play?", "Does Lena play the drums?"])
async def test_what_is_said_of_somebody_answers_beside_typed_facts_of_theirs_whatever_the_limit(
    question: str, memory: Memory
) -> None:
    await memory.save(SingleFact(TEACHER, "Frau Okafor"), subject="Lena")
    nora = memory.for_user("nora")
    await nora.remember(Message(content="Lena gave up the violin, she now plays the drums."))
    await nora.remember(Message(content="Tobias works night shifts on Tuesdays and Fridays."))
    results = [await nora.recall(question, limit=limit) for limit in (1, 2, 3, 10)]
    assert [len(found) for found in results] == [1, 2, 3, 3]
    assert all(found.answers for found in results)
    assert len({found.confidence for found in results}) == 1


@pytest.mark.parametrize("typed", [True, False])
@each_case("question", "answers")
async def test_nothing_answers_for_somebody_of_whom_nothing_is_known(
    question: str, answers: bool, typed: bool, memory: Memory
) -> None:
    if typed:
        await saved(memory, relatives=list(map(MemorySubject, RELATIVES)))
    for text in ("Lena celebrates her birthday on 9 June.", "The data protection training is on Monday."):
        await memory.remember(text, subject="user:nora")
    await memory.remember("Celebrates a birthday on 3 May.", subject="Theo")
    found = await memory.for_user("nora").recall(question)
    assert found.answers == answers
    assert {match.parts.other for match in found} == {1} or answers


async def test_a_fact_that_holds_the_name_in_a_question_for_somebody_is_nobody_elses(memory: Memory) -> None:
    firm, spouse = (
        Concept.single("company", "The company that somebody works for"),
        Concept.single("spouse", "A spouse"),
    )
    for name, works_for, married_to in (("nora", "Globex", "Ben"), ("ana", "Nordbank", "Stefan")):
        subject = MemorySubject("person").individual(name)
        await memory.save(SingleFact(firm, works_for), subject=subject)
        await memory.save(SingleFact(spouse, married_to), subject=subject)
    nora = memory.view(viewer="nora")
    for question, value in (("Who works at Nordbank?", "Nordbank"), ("Who is married to Stefan?", "Stefan")):
        found = await nora.recall(question)
        assert (found[0].record.value, found[0].parts.other, found.answers) == (value, 0, True)


@pytest.mark.parametrize("question", ["When is my birthday?", "What is my shoe size?"])
async def test_without_a_viewer_the_only_person_is_the_speaker_and_of_several_nobody_is(
    question: str, memory: Memory
) -> None:
    await saved(memory, relatives=[])
    alone = await memory.recall(question)
    assert (alone.answers, alone[0].parts.other) == (True, 0)
    await saved(memory, relatives=list(map(MemorySubject, RELATIVES)))
    several = await memory.recall(question, limit=5)
    assert (several.answers, {match.parts.other for match in several}) == (False, {1})
    assert several[0].score < 0.8 * alone[0].score
    times = [match.record.timestamp for match in several if match.score == several[0].score]
    assert times == sorted(times, reverse=True)
    await memory.save(SingleFact(BIRTHDAY, dt.date(1970, 1, 1)))
    await memory.save(SingleFact(SHOE_SIZE, 44.0))
    told = await memory.recall(question)
    assert (told.answers, told[0].record.subject) == (True, MemorySubject.EVERYTHING)


async def test_facts_of_others_count_as_such_where_no_record_shares_a_word_with_the_question(memory: Memory) -> None:
    await saved(memory, relatives=[MemorySubject("sibling").individual("Lena")])
    found = await memory.view(viewer="nora").recall("Quelque chose?", limit=6)
    assert len(found) == 6
    assert {match.parts.lexical for match in found} == {0}
    assert all(match.parts.other == (match.record.subject.key != NORA.key) for match in found)


@pytest.mark.parametrize("viewers", [("Lena", "Oskar"), ("Oskar", "Lena")])
async def test_viewers_without_private_facts_get_each_their_own(viewers: tuple[str, str], memory: Memory) -> None:
    await saved(memory, relatives=list(map(MemorySubject, RELATIVES)))
    for viewer in viewers:
        for _ in range(2):
            first, second = await memory.view(viewer=viewer).recall("What is my shoe size?", limit=2)
            assert (first.record.subject, first.parts.other) == (MemorySubject(viewer), 0)
            assert second.parts.other == 1


async def test_somebody_elses_fact_of_the_same_concept_is_no_answer(memory: Memory) -> None:
    await saved(memory, relatives=[MemorySubject("Ingrid")])
    await memory.save(SingleFact(JOB, "chief technology officer"), subject="Rachel Kim")
    nora = memory.for_user("nora")
    assert not (await nora.recall("When is Rachel Kim's birthday?")).answers
    assert (await nora.recall("When is Ingrid's birthday?")).answers


def alike(texts: list[str]) -> Any:
    """Embed texts so that all are close to each other, and the closer the more letters they share."""
    rows = np.array([[2.0 + text.lower().count(letter) / len(text) for letter in "aeinorst"] for text in texts])
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


EVERYTHING_IS_CLOSE = CallableEmbedder(alike, name="alike", dimension=8)


@each_case("question")
async def test_a_link_is_not_followed_unless_a_word_of_the_question_asks_for_it(question: str) -> None:
    async with Memory("memory:", embedder=EVERYTHING_IS_CLOSE) as memory:
        await memory.save(SingleFact(MANAGER, MemorySubject("Rachel Kim")), subject=NORA)
        await memory.save(SingleFact(JOB, "chief technology officer"), subject="Rachel Kim")
        nora = memory.for_user("nora")
        assert all(not match.path for match in await nora.recall(question))
        for asked in ("What is the job title of my manager?", "What job does my boss have?"):
            linked = [match.record.value for match in await nora.recall(asked) if match.path]
            assert linked == ["chief technology officer"]


@each_case("said", "question", "answers")
async def test_a_relative_of_whom_nothing_is_said_is_not_answered_by_the_viewers_own_words(
    said: list[str], question: str, answers: bool, memory: Memory
) -> None:
    kim = memory.for_user("kim")
    await kim.remember([Message(content=text) for text in ("I live in Gent.", *said)])
    assert (await kim.recall(question)).answers is answers
    assert (await kim.recall("Where do I live?")).answers


@each_case("question", "answer", "other")
async def test_everyday_words_of_a_question_in_another_language_do_not_count(
    question: str, answer: str, other: str, memory: Memory
) -> None:
    await memory.remember_many([answer, other, "OK 12345."])
    (best,) = await memory.recall(question, limit=1)
    assert best.record.value == answer


@each_case("own", "of_sister", "of_brother", "asked")
async def test_what_is_said_of_a_sister_or_oneself_does_not_answer_for_a_brother_in_any_language(
    own: str, of_sister: str, of_brother: str, asked: str, memory: Memory
) -> None:
    for user, text in (("kim", own), ("lee", of_sister)):
        await memory.for_user(user).remember([Message(content=text), Message(content="OK 12345.")])
        assert not (await memory.for_user(user).recall(of_brother)).answers
    assert (await memory.for_user("lee").recall(asked)).answers


async def test_a_question_that_was_asked_before_answers_nothing(memory: Memory) -> None:
    kim = memory.for_user("kim")
    for text in ("I am a nurse and I like chess.", "What is the name of my cat?"):
        await kim.remember(text)
    assert not (await kim.recall("What is the name of my cat?")).answers
    await kim.remember("My cat is called Miso.")
    assert (await kim.recall("What is the name of my cat?")).answers


async def test_few_facts_answer_as_surely_as_many(memory: Memory) -> None:
    texts = [
        "I work as a nurse.",
        "I play the cello on Thursdays.",
        "I prefer window seats.",
        "I pay 1200 for the flat.",
    ]
    await memory.remember([Message(content=text) for text in texts])
    for question in ("What is my job?", "What instrument do I play?", "Which seat should I book?"):
        assert (await memory.recall(question)).answers, question
    assert not (await memory.recall("What is the capital of France?")).answers


async def _as_speaker(memory: Memory, name: str, text: str) -> None:
    await memory.remember(Message(role="user", name=name, content=text))


async def _as_user(memory: Memory, name: str, text: str) -> None:
    await memory.for_user(name).remember(text, private=False)


async def _of_subject(memory: Memory, name: str, text: str) -> None:
    await memory.remember(text, subject=MemorySubject("colleague").individual(name))


WAYS = pytest.mark.parametrize("said", [_as_speaker, _as_user, _of_subject])
Said = Callable[[Memory, str, str], Awaitable[None]]


@WAYS
@pytest.mark.parametrize("typed", [True, False])
@pytest.mark.parametrize("names", [("bob", "alice"), ("Bob Stone", "Alice Moor"), ("u-1017", "u-2044")])
async def test_the_person_of_a_statement_is_its_speaker_or_else_its_subject(
    said: Said, names: tuple[str, str], typed: bool, memory: Memory
) -> None:
    one, other = names
    if typed:
        await memory.save(SingleFact(TEACHER, "Frau Okafor"), subject=f"user:{other}")
    for name, text in ((one, "I live in Bergen."), (other, "I live in Linz."), (one, "I have a cat.")):
        await said(memory, name, text)
    lives = await memory.recall(f"Where does {other} live?")
    assert (lives.answers, lives[0].record.value) == (True, "I live in Linz.")
    parts = {match.record.value: (match.parts.named, match.parts.other) for match in lives}
    assert parts["I live in Linz."] == (1, 0)
    assert parts["I live in Bergen."] == (0, 1)
    pet = await memory.recall(f"Which pet does {other} have?")
    assert {match.record.value for match in pet if match.parts.other} == {"I live in Bergen.", "I have a cat."}
    assert not pet.answers
    assert (await memory.recall(f"Does {one} have a pet?")).answers


@WAYS
async def test_what_several_people_say_in_the_same_words_is_each_ones(said: Said, memory: Memory) -> None:
    for name in ("Ann", "Zoë", "Ann"):
        await said(memory, name, "I'm allergic to nuts.")
    assert len(await memory.list_records()) == 2
    for name in ("Ann", "Zoë"):
        found = await memory.recall(f"Is {name} allergic to nuts?")
        assert found.answers
        assert [match.parts.other for match in found] == [0, 1]


@each_case("line", "question", "other")
async def test_what_is_said_of_somebody_else_answers_for_nobody_besides(
    line: str, question: str, other: str, memory: Memory
) -> None:
    await memory.remember([Message(content=line)])
    assert (await memory.recall(question)).answers
    assert not (await memory.recall(other)).answers


@each_case("line", "question")
async def test_what_belongs_to_nobody_answers_for_the_speaker(line: str, question: str, memory: Memory) -> None:
    await memory.remember([Message(content=line)])
    found = await memory.recall(question)
    assert (found.answers, found[0].parts.other) == (True, 0)


async def test_what_others_say_of_the_viewer_by_name_is_the_viewers_own(memory: Memory) -> None:
    told = (("Anna", "Ben is allergic to bees."), ("Ben", "I bought a bike."), ("Anna", "I am allergic to shellfish."))
    for name, text in told:
        await memory.remember([Message(role="user", name=name, content=text)])
    for viewer, answer in (("Ben", "Ben is allergic to bees."), ("Anna", "I am allergic to shellfish.")):
        found = await memory.for_user(viewer).recall("What am I allergic to?")
        assert (found[0].record.value, found.answers) == (answer, True)
    assert (await memory.recall("What is Anna allergic to?"))[0].record.value == "I am allergic to shellfish."


@pytest.mark.parametrize("seen", [True, False])
async def test_a_name_that_only_others_may_see_changes_nothing(seen: bool, memory: Memory) -> None:
    await memory.remember([Message(content="Zorblax lives in Rome.")])
    await memory.save(SingleFact(JOB, "smith"), subject=MemorySubject("person").individual("Zorblax"))
    (line, *_) = await (memory if seen else memory.for_user("eva")).recall("Where do I live?", concepts=["statement"])
    assert line.parts.other == seen


async def test_somebody_with_the_same_surname_is_another_person(memory: Memory) -> None:
    for text in ("Julia Keller drinks oat milk.", "Tom Keller drinks espresso."):
        await memory.remember([Message(content=text)])
    for name, drink in (("Julia Keller", "oat milk"), ("Tom Keller", "espresso")):
        first, second = await memory.recall(f"What does {name} drink?")
        assert (first.record.value, first.parts.other, second.parts.other) == (f"{name} drinks {drink}.", 0, 1)


@WAYS
@each_case("name", "written")
async def test_somebody_is_known_by_a_name_without_its_signs(
    said: Said, name: str, written: str, memory: Memory
) -> None:
    await said(memory, name, "My birthday is on 9 October.")
    await said(memory, "Bob", "My birthday is on 4 May.")
    found = await memory.recall(f"When is {written}'s birthday?")
    assert (found.answers, found[0].record.value) == (True, "My birthday is on 9 October.")
    assert [match.parts.other for match in found] == [0, 1]


@WAYS
@pytest.mark.parametrize("known", [True, False])
async def test_somebody_of_another_surname_is_another_person(said: Said, known: bool, memory: Memory) -> None:
    await said(memory, "Ann Dahl", "I live in Bergen.")
    await said(memory, "Jonas Weber", "I live in Linz.")
    if known:
        await said(memory, "Ann Berg", "I report to Carla.")
    asked = await memory.recall("Where does Ann Berg live?")
    (bergen,) = (match for match in asked if match.record.value == "I live in Bergen.")
    assert (asked.answers, bergen.parts.named, bergen.parts.other) == (False, 0, 1)
    assert (await memory.recall("Where does Ann Dahl live?")).answers
    assert (await memory.recall("Where does Ann live?")).answers


@pytest.mark.parametrize("together", [True, False])
async def test_who_is_mentioned_is_told_of_unless_they_are_present(together: bool, memory: Memory) -> None:
    messages = [
        Message(role="user", name="Melanie", content="I went to the market."),
        Message(role="user", name="Caroline", content="Melanie, the lake at sunset is painted at last."),
    ]
    for group in (messages,) if together else ([message] for message in messages):
        await memory.remember(list(group))
    first = (await memory.recall("What did Melanie paint?"))[0]
    assert (first.record.value, first.parts.other) == (messages[1].content, together)


async def test_the_viewer_who_is_named_is_also_asked_about_by_facts_of_nobody_in_particular() -> None:
    async with Memory("memory:", viewer="Ann") as memory:
        await memory.save(SingleFact(PET, "a parrot"))
        await _as_speaker(memory, "Ann", "I like chess.")
        found = await memory.recall("Which pet does Ann have?")
        assert (found.answers, found[0].record.value, found[0].parts.other) == (True, "a parrot", 0)


RELATIONS = sections(Path(__file__).with_name("relations.txt"))


async def test_the_viewers_own_words_do_not_answer_for_others_who_do_something(memory: Memory) -> None:
    sam = memory.for_user("sam")
    for text in ("I like roses.", "My shoe size is 43.", "I bank with Erste."):
        await sam.remember(text)
    assert (await sam.recall("Which flowers do I like?")).answers
    people = " ".join(RELATIONS["others"]).split()
    assert [who for who in people if (await sam.recall(f"Which flowers does my {who} like?")).answers] == []


@pytest.mark.parametrize("line", RELATIONS["own things"])
async def test_the_viewers_own_words_answer_for_things_of_theirs(line: str, memory: Memory) -> None:
    said, _, question = line.partition(" | ")
    sam = memory.for_user("sam")
    for text in ("I like roses.", "My shoe size is 43.", said):
        await sam.remember(text)
    found = await sam.recall(question)
    assert (found.answers, found[0].record.value, found[0].parts.other) == (True, said, 0)


@pytest.mark.parametrize("line", RELATIONS["kinds"])
async def test_a_relation_is_told_of_by_a_kind_of_it_and_not_the_reverse(line: str, memory: Memory) -> None:
    wider, narrower = line.split()
    sam = memory.for_user("sam")
    for text in ("I was born in Wels.", f"My {narrower} was born in Graz."):
        await sam.remember(text)
    found = await sam.recall(f"Where was my {wider} born?")
    assert (found.answers, found[0].parts.other) == (True, 0)
    assert found[0].record.value == f"My {narrower} was born in Graz."


async def test_a_typed_fact_of_a_kind_of_relative_answers_for_the_relation(memory: Memory) -> None:
    sam = memory.for_user("sam")
    await sam.save(SingleFact(BIRTHDAY, dt.date(1988, 4, 17)))
    await sam.save(SingleFact(BIRTHDAY, dt.date(2019, 3, 14)), subject="daughter:Mia")
    for question in ("When is my kid's birthday?", "When is my daughter's birthday?"):
        found = await sam.recall(question)
        assert (found.answers, found[0].record.subject.individual_name) == (True, "Mia")
    assert not (await sam.recall("When is my son's birthday?")).answers


@each_case("theirs", "own", "question")
async def test_words_about_a_relative_do_not_answer_for_the_speaker(
    theirs: str, own: str, question: str, memory: Memory
) -> None:
    await memory.remember(theirs)
    assert not (await memory.recall(question)).answers
    await memory.remember(own)
    assert (await memory.recall(question))[0].record.value == own


async def test_the_speakers_own_words_do_not_answer_for_somebody_who_is_mentioned_elsewhere(memory: Memory) -> None:
    await memory.remember("My birthday is on May 3rd.")
    await memory.remember("Hugo came for dinner.")
    found = await memory.recall("When is Hugo's birthday?")
    assert [match.record.value for match in found] == ["Hugo came for dinner.", "My birthday is on May 3rd."]


async def test_the_words_of_another_speaker_stand_below_those_of_the_asked_one(memory: Memory) -> None:
    for name, text in (("Maria", "I'm based in Turin."), ("Tom", "I live in Leeds.")):
        await memory.remember(Message(content=text, name=name))
    found = await memory.recall("Where does Maria live?")
    assert [match.record.value for match in found] == ["I'm based in Turin.", "I live in Leeds."]


async def test_who_does_something_for_the_speaker_may_be_a_relative(memory: Memory) -> None:
    await memory.remember("My sister helps me with maths.")
    found = await memory.recall("Who helps me with maths?")
    assert (found.answers, found[0].parts.other) == (True, 0)


@pytest.mark.parametrize("asked", ["What's my puppy called again?", "Sorry, quick question: what's my puppy called?"])
async def test_a_question_that_was_asked_before_stands_below_its_answer(asked: str, memory: Memory) -> None:
    told = "We named the puppy Biscuit after long debates."
    for text in (told, asked):
        await memory.remember(text)
    found = await memory.recall("What's my puppy called?")
    assert [match.record.value for match in found] == [told, asked]


async def test_what_stands_beside_a_question_is_told(memory: Memory) -> None:
    told = "We got the kitten yesterday, she's called Luna. What do kittens eat?"
    for text in (told, "Should my kitten go outside this early?"):
        await memory.remember(text)
    assert (await memory.recall("What's my kitten called?"))[0].record.value == told


@each_case("text", "whom")
def test_a_text_tells_of_whom_it_begins_with(text: str, whom: str) -> None:
    assert tells_of_whom(text) is Whom[whom]


async def test_a_name_that_the_viewer_gave_is_theirs(memory: Memory) -> None:
    for text in ("My name is Eva Berg.", "I live in Graz."):
        await memory.remember(text)
    assert [match.parts.other for match in await memory.recall("Where does Eva live?")] == [0, 0]


@each_case("said", "question")
async def test_a_name_of_a_thing_or_a_place_is_no_person(said: str, question: str, memory: Memory) -> None:
    for text in (said, "I water the plants."):
        await memory.remember(text)
    found = await memory.recall(question)
    assert (found.answers, found[0].record.value, found[0].parts.other) == (True, said, 0)


@each_case("theirs", "own", "question")
async def test_what_is_said_to_be_a_relatives_is_not_the_viewers_own(
    theirs: str, own: str, question: str, memory: Memory
) -> None:
    sam = memory.for_user("sam")
    for text in (own, "I water the plants.", theirs):
        await sam.remember(text)
    found = await sam.recall(question)
    assert found[0].record.value == own
    assert {match.record.value: match.parts.other for match in found}[theirs] == 1


@each_case("said", "question")
async def test_words_for_things_before_the_noun_are_the_viewers_own(said: str, question: str, memory: Memory) -> None:
    sam = memory.for_user("sam")
    for text in (said, "I water the plants."):
        await sam.remember(text)
    found = await sam.recall(question)
    assert (found[0].record.value, found[0].parts.other) == (said, 0)


@pytest.mark.parametrize("question", ["Whose birthday is on 30 November?", "Who was born on November 30?"])
async def test_a_birthday_is_found_by_its_day_and_month(question: str) -> None:
    async with Memory("memory:", clock=FakeClock(dt.datetime(2026, 4, 1, tzinfo=dt.UTC))) as memory:
        for name, day in (
            ("Sven", dt.date(1985, 11, 30)),
            ("Rosa", dt.date(1990, 5, 2)),
            ("Uma", dt.date(1996, 8, 30)),
        ):
            await memory.save(SingleFact(BIRTHDAY, day), subject=f"user:{name}")
        await memory.save(SingleFact(Concept.single("deadline", "When it is due", dt.date), dt.date(2024, 11, 30)))
        first = (await memory.recall(question))[0]
        assert (first.record.subject.individual_name, first.parts.dated) == ("Sven", 1)
        due = (await memory.recall("What is due on 30 November 2025?"))[0]
        assert (due.record.concept.keyword, due.parts.dated) == ("deadline", 0), "another year's day is another day"


@pytest.mark.parametrize(
    ("of_another", "said", "question"),
    [
        ("My father's phone number is 111.", "You can call my mother on 222.", "What is my mother's phone number?"),
        ("My brother works at the post office.", "The bank pays my sister well.", "Where does my sister work?"),
        ("My uncle's birthday is on 3 May.", "We congratulate my aunt on 9 June.", "When is my aunt's birthday?"),
    ],
)
async def test_what_begins_with_another_relative_stands_below_what_mentions_the_asked_one(
    of_another: str, said: str, question: str, memory: Memory
) -> None:
    user = memory.for_user("lena")
    for line in (of_another, said):
        await user.remember(Message(content=line))
    assert [match.record.value for match in await user.recall(question)] == [said, of_another]


@pytest.mark.parametrize(
    ("said", "question"),
    [
        ("My parents live in Graz.", "Where does my mother live?"),
        ("My grandparents live in Kiel.", "Where does my grandmother live?"),
    ],
)
async def test_what_is_said_of_parents_is_not_said_of_another_than_the_mother(
    said: str, question: str, memory: Memory
) -> None:
    user = memory.for_user("lena")
    for line in (said, "My uncle lives in Bonn."):
        await user.remember(Message(content=line))
    first, second = found = await user.recall(question)
    assert (found.answers, first.record.value, first.parts.other, second.parts.other) == (True, said, 0, 1)
