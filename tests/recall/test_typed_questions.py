"""Typed facts are found by paraphrased questions: a hundred facts in one store, one result per question."""

from __future__ import annotations

import datetime as dt
import enum
import itertools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import pytest

from factmem import Concept, InMemoryProvider, Memory, MemorySubject, MultipleFacts, SingleFact
from tests.tables import sections

pytestmark = pytest.mark.slow

FACTS: Final = Path(__file__).with_name("typed_facts.txt")

SMALL_TALK: Final = sections(Path(__file__).with_name("small_talk.txt"))


@attrs.frozen
class Asked:
    """A fact, and the questions that it answers."""

    fact: SingleFact[Any] | MultipleFacts[Any]
    subject: MemorySubject
    questions: Sequence[str]

    @property
    def key(self) -> tuple[tuple[str, str | None], str]:
        return self.subject.key, self.fact.concept.keyword


def value_of(kind: str, written: str) -> tuple[Any, Any]:
    """Return a value's type and the value."""
    match kind:
        case "int":
            return int, int(written)
        case "bool":
            return bool, written == "true"
        case "date":
            return dt.date, dt.date.fromisoformat(written)
        case "enum":
            chosen = enum.Enum("chosen", {"ANOTHER": "another", "THIS": written})
            return chosen, chosen("another" if written == "another" else written)
        case _:
            return str, written


def sets() -> Mapping[str, Sequence[Asked]]:
    """Return the facts of each set."""
    found: dict[str, list[Asked]] = {}
    name = ""
    for line in FACTS.read_text(encoding="utf-8").splitlines():
        if line.startswith("#"):
            name = line[2:].partition(":")[0] if " set:" in line else name
        elif line:
            found.setdefault(name, []).append(asked_in(line))
    return found


def asked_in(line: str) -> Asked:
    about, kind, keyword, description, written, questions = (part.strip() for part in line.split("|"))
    name, _, individual = about.partition(":")
    subject = MemorySubject(name, individual_name=individual) if individual else MemorySubject.EVERYTHING
    type_name, _, text = written.partition(": ")
    typed = [value_of(type_name, value.strip()) for value in text.split(";")]
    fact: SingleFact[Any] | MultipleFacts[Any]
    if kind == "single":
        fact = SingleFact(Concept.single(keyword, description, typed[0][0]), typed[0][1])
    else:
        fact = MultipleFacts(Concept.multiple(keyword, description, typed[0][0]), tuple(value for _, value in typed))
    return Asked(fact, subject, [question.strip() for question in questions.split(" / ")])


def small_talk() -> Iterator[str]:
    return (f"{opening} {happening}" for opening, happening in itertools.product(*SMALL_TALK.values()))


async def missed(facts: Sequence[Asked], statements: Sequence[str] = ()) -> list[str]:
    """Save facts in one store, and return the questions whose first result is another fact."""
    async with Memory(InMemoryProvider()) as memory:
        for asked in facts:
            await memory.save(asked.fact, subject=asked.subject)
        await memory.remember_many(statements)
        misses = []
        for asked in facts:
            for question in asked.questions:
                [match] = await memory.recall(question, limit=1)
                found = match.record.subject.key, match.record.concept.keyword
                if found != asked.key:
                    misses.append(f"{question} {asked.key} but {found}")
        return misses


def share(facts: Sequence[Asked], misses: Sequence[str]) -> float:
    return 1 - len(misses) / sum(len(asked.questions) for asked in facts)


@pytest.mark.parametrize(("name", "least"), [("first set", 0.9), ("second set", 0.88), ("third set", 0.9)])
async def test_a_paraphrased_question_finds_its_typed_fact_first_beside_small_talk(name: str, least: float) -> None:
    facts = sets()[name]
    misses = await missed(facts, tuple(small_talk()))
    assert share(facts, misses) >= least, "\n".join(misses)


async def test_facts_of_all_domains_in_one_store_are_found_first() -> None:
    facts = [asked for facts in sets().values() for asked in facts]
    misses = await missed(facts)
    assert share(facts, misses) >= 0.87, "\n".join(misses)
