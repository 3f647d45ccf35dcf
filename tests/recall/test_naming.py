"""Names in a query: of subjects, and of the concepts of typed facts."""

from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

from factmem import Concept, Memory, MemorySubject, Message, MultipleFacts, SingleFact
from factmem.recall.index.names_in_query import ConceptIndex, SubjectIndex, concept_text, people_terms, subject_text
from factmem.recall.index.outline_codec import query_term, term_numbers
from factmem.recall.text.analysis import analyse
from factmem.recall.text.signs import people_asked
from factmem.testing import FakeClock
from tests.tables import each_case

PERSON = MemorySubject("person")
EMPLOYER = Concept.single("employer", "The company that the person works for")
HOME = Concept.single("home_city", "The city where the person lives")


@each_case("query", "named")
def test_a_subject_is_named_by_the_first_word_of_its_name_and_by_the_most_words(query: str, named: list[int]) -> None:
    subjects = [subject_text("person", name) for name in ("Ann Berg", "Ann Dahl", "Ben Dahl")] + ["user", "everything"]
    terms = term_numbers(analyse(query))
    found, _ = SubjectIndex().named(subjects, terms, people_terms(query), np.ones(5, np.bool_))
    assert sorted(found) == named


@each_case("query", "named")
def test_names_of_the_same_words_are_told_apart_by_their_order(query: str, named: list[int]) -> None:
    subjects = [subject_text("person", name) for name in ("Luis Carlos", "Carlos Luis", "Eva")]
    terms = term_numbers(analyse(query))
    found, _ = SubjectIndex().named(subjects, terms, people_terms(query), np.ones(3, np.bool_))
    assert found == named


async def test_who_has_the_same_names_in_another_order_does_not_answer() -> None:
    birthday = Concept.single("birthday", "When the person was born")
    async with Memory("memory:") as memory:
        for name, day in (("Ana Rosa", "9 June"), ("Rosa Ana", "2 May")):
            await memory.save(SingleFact(birthday, day), subject=PERSON.individual(name))
        best = [await memory.recall(f"When is {name}'s birthday?") for name in ("Ana Rosa", "Rosa Ana")]
    assert [(of[0].record.value, of[0].score > of[1].score) for of in best] == [("9 June", True), ("2 May", True)]


def test_a_subject_that_the_caller_does_not_see_is_not_named() -> None:
    subjects = [subject_text("person", "Ann Berg"), subject_text("person", "Ann Dahl")]
    found, names = SubjectIndex().named(subjects, term_numbers(["ann", "berg"]), {}, np.array([False, True]))
    assert (found, names) == ([1], dict.fromkeys(term_numbers(["ann"]), 1))


def test_a_concept_fits_by_its_words_and_its_topics_and_what_is_not_seen_counts_nothing() -> None:
    concepts = [concept_text(of.keyword, of.description) for of in (EMPLOYER, HOME)]
    terms = [(query_term(term), 1.0) for term in analyse("In which town does she live?")]
    index = ConceptIndex()
    (employer, home), named = index.asked(concepts, terms, np.array([True, True]))
    assert employer < 0.3
    assert (home, [*named]) == (1, [0, 0])
    unseen, _ = index.asked(concepts, terms, np.array([False, True]))
    alone, _ = ConceptIndex().asked(concepts[1:], terms, np.array([True]))
    assert unseen[1] == alone[0]


@each_case("query", "least", "most")
def test_a_concept_is_named_by_all_words_of_its_keyword(query: str, least: float, most: float) -> None:
    terms = [(query_term(term), 1.0) for term in analyse(query)]
    _, named = ConceptIndex().asked([concept_text("home_city", "")], terms, np.array([True]))
    assert least <= named[0] <= most


async def test_what_a_fact_is_about_outweighs_its_value_and_its_subject() -> None:
    async with Memory("memory:", viewer="Ann Berg") as memory:
        for name, firm in (("Ann Berg", "Globex"), ("Ann Dahl", "Living Homes"), ("Ben Dahl", "City Living")):
            await memory.save(SingleFact(EMPLOYER, firm), subject=PERSON.individual(name))
            await memory.save(SingleFact(HOME, f"Oslo of {name}"), subject=PERSON.individual(name))
        best = [
            (await memory.recall(question, limit=1))[0].record.value
            for question in ("Where do I live?", "Where does Ann Dahl live?", "Which company employs Ben?")
        ]
    assert best == ["Oslo of Ann Berg", "Oslo of Ann Dahl", "City Living"]


@each_case("query", "people")
def test_kinship_and_names_stand_for_somebody_else_than_the_speaker(query: str, people: list[str]) -> None:
    assert people_asked(query) == people


@each_case("query", "first")
async def test_a_fact_of_the_viewer_does_not_answer_for_somebody_of_whom_there_are_none(query: str, first: str) -> None:
    facts = [
        ("allergy", "Food that the user is allergic to", "shellfish"),
        ("birthday", "When the user was born", "3 May 1990"),
        ("sister_name", "The name of the user's sister", "Nora"),
    ]
    async with Memory("memory:", viewer="Ann") as memory:
        for keyword, description, value in facts:
            await memory.save(SingleFact(Concept.single(keyword, description), value))
        await memory.remember_many(["My mother can't eat nuts.", "We celebrate Nora on 9 June."])
        matches = await memory.recall(query)
    assert matches[0].record.value == first


@each_case("query", "answers")
async def test_a_relative_of_the_viewer_is_not_that_of_somebody_else(query: str, answers: bool) -> None:
    async with Memory("memory:", viewer="Ann") as memory:
        await memory.save(SingleFact(Concept.single("husband", "Whom the person is married to"), "Tom"))
        await memory.save(MultipleFacts(Concept.multiple("children", "Names of the children"), ["Leo", "Ida"]))
        assert (await memory.recall(query)).answers is answers


@each_case("query", "first")
async def test_who_is_asks_for_those_of_whom_it_is_so(query: str, first: list[str]) -> None:
    vegetarian = Concept.single("vegetarian", "Whether the person is vegetarian", bool)
    async with Memory("memory:") as memory:
        for name in ("ann", "bob", "cleo", "dan"):
            await memory.save(SingleFact(vegetarian, name in {"ann", "cleo"}), subject=f"user:{name}")
        matches = await memory.recall(query)
        of_bob = await memory.for_user("bob").recall("Who is vegetarian?")
    assert {match.record.subject.individual_name for match in matches[:2]} == set(first)
    assert not of_bob.answers


@each_case("query", "subject", "boss")
async def test_whose_boss_somebody_is_asks_for_those_of_whom_they_are_the_boss(
    query: str, subject: str, boss: str
) -> None:
    reports_to = Concept.single("boss", "Whom the person reports to")
    async with Memory("memory:", viewer="Me") as memory:
        for name, of_name in (("Ann", "Dan"), ("Ben", "Carla"), ("Dan", "Zoe")):
            await memory.save(SingleFact(reports_to, of_name), subject=PERSON.individual(name))
        await memory.save(SingleFact(reports_to, "Carla"))
        (best,) = await memory.recall(query, limit=1)
    assert (best.record.subject.individual_name, best.record.value) == (subject, boss)


async def test_a_subject_called_boss_is_another_person_than_the_viewer() -> None:
    allergy = Concept.single("allergy", "Food that the person is allergic to")
    async with Memory("memory:", viewer="Ann") as memory:
        await memory.save(SingleFact(allergy, "milk"), subject=MemorySubject("boss", priority_level=2))
        answers = [
            (await memory.recall(question)).answers
            for question in ("What am I allergic to?", "What is my boss allergic to?")
        ]
    assert answers == [False, True]


@each_case("query", "first")
async def test_a_word_of_kinship_names_the_individuals_of_the_subject_that_is_called_so(
    query: str, first: list[str]
) -> None:
    async with Memory("memory:", viewer="Ann") as memory:
        for subject in ("brother:Jonas", "brother:Tim", "user:Ann", "sister:Carla", "mother:Eva", "vater:Ole"):
            await memory.save(SingleFact(HOME, f"Oslo of {subject.partition(':')[2]}"), subject=subject)
        await memory.save(SingleFact(EMPLOYER, "Globex"), subject="sister:Carla")
        matches = await memory.recall(query)
    assert {match.record.value for match in matches[: len(first)]} == {f"Oslo of {name}" for name in first}


@each_case("query", "first")
async def test_a_question_for_the_one_of_whom_something_holds_prefers_nobody(query: str, first: str) -> None:
    allergy = Concept.single("allergy", "Food that somebody is allergic to")
    dentist = Concept.single("dentist", "The dentist of somebody")
    async with Memory("memory:", viewer="ann") as memory:
        for name, food, who in (
            ("nora", "peanuts", "Dr. Wold"),
            ("ann", "kiwis", "Dr. Moe"),
            ("ben", "milk", "Dr. Eng"),
        ):
            subject = PERSON.individual(name)
            for fact in (SingleFact(allergy, food), SingleFact(dentist, who)):
                await memory.save(fact, subject=subject)
        matches = await memory.recall(query)
    assert matches[0].record.subject.individual_name == first


@pytest.mark.parametrize(("keyword", "first"), [("first_name", "shellfish"), ("sister_name", "Hannah loves oysters.")])
async def test_a_name_that_a_fact_tells_of_the_viewer_is_theirs(keyword: str, first: str) -> None:
    async with Memory("memory:") as memory:
        await memory.save(SingleFact(Concept.single(keyword, "A name"), "Hannah"))
        await memory.save(SingleFact(Concept.single("allergy", "Food that the user is allergic to"), "shellfish"))
        await memory.remember("Hannah loves oysters.")
        for concepts in (None, ["allergy", "statement"]):
            matches = await memory.recall("What foods is Hannah allergic to?", concepts=concepts)
            assert next(match.record.value for match in matches if match.record.value != "Hannah") == first


@pytest.mark.parametrize(("somebody", "dated"), [("June Berg", 0), ("Ann Berg", 1)])
async def test_a_month_is_no_time_where_it_is_somebodys_name(somebody: str, dated: float) -> None:
    said_at = dt.datetime(2025, 6, 15, tzinfo=dt.UTC)
    async with Memory("memory:", clock=FakeClock(dt.datetime(2025, 11, 28, tzinfo=dt.UTC))) as memory:
        await memory.remember(Message(content="We painted the house.", timestamp=said_at))
        await memory.save(SingleFact(HOME, "Bergen", timestamp=said_at), subject=PERSON.individual(somebody))
        matches = await memory.recall("What was painted in June?")
    (painted,) = (match for match in matches if match.record.value == "We painted the house.")
    assert painted.parts.dated == dated
