"""A question that names a concept is answered by the fact of that name, with its earlier values on request."""

from __future__ import annotations

import datetime as dt
import math
import threading
from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import pytest
from numpy.typing import NDArray

from factmem import (
    AgentMemoryProvider,
    Concept,
    FactDetails,
    InMemoryProvider,
    Memory,
    MemorySubject,
    Message,
    MultipleFacts,
    RecallSettings,
    SingleFact,
)
from factmem.abc.detector import DropReason
from factmem.errors import InvalidDataError
from factmem.facts import STATEMENT
from factmem.recall.text.related_words import Term, term_of
from factmem.testing import FakeClock, HashEmbedder, ScriptedModel
from tests.embedders import Away
from tests.memory.telling import log_of, opened, talk, well, words
from tests.tables import cases, each_case

CASES = cases(__file__)

CITY = Concept.single("home_city", "The town where somebody lives")
ANN, BEN = (MemorySubject("user", individual_name=name) for name in ("Ann", "Ben"))
JANUARY = dt.datetime(2026, 1, 10, tzinfo=dt.UTC)
SAID = [
    "My home is where my heart is, in the city or out of it.",
    "The city council wants to make every home warmer.",
    "We drove home through the city at night.",
    "She lives for her work.",
]


async def filled(memory: Memory) -> None:
    for month, city in enumerate(("Oslo", "Rome", "Bern")):
        await memory.save(
            SingleFact(CITY, city, timestamp=JANUARY + dt.timedelta(days=30 * month)), subject=ANN, scope="/product/a"
        )
    await memory.save(SingleFact(CITY, "Lyon", timestamp=JANUARY), subject=BEN, scope="/product/a")
    await memory.save(
        MultipleFacts(STATEMENT, tuple(SAID), timestamp=JANUARY + dt.timedelta(days=90)), scope="/product/a"
    )


@each_case("query", "value")
async def test_the_fact_that_is_named_comes_first(provider: AgentMemoryProvider, query: str, value: str) -> None:
    async with opened(provider, clock=FakeClock(JANUARY + dt.timedelta(days=91))) as memory:
        await filled(memory)
        first, *others = await memory.recall(query)
        assert first.record.value == value
        assert first.parts.named == 1
        assert "named" in first.reasons
        assert [match.parts.named for match in others if match.record.value in SAID] == [0] * len(SAID)


@pytest.mark.parametrize("query", ["What is Ann's home city?", "home city", "Ann's home city, please"])
async def test_a_fact_that_is_asked_for_does_not_age(provider: AgentMemoryProvider, query: str) -> None:
    now = JANUARY + dt.timedelta(days=400)
    async with opened(provider, clock=FakeClock(now)) as memory:
        await memory.save(SingleFact(CITY, "Bern", timestamp=JANUARY), subject=ANN)
        chatter = ("What is Ann's home city?", "Ann's city map is at home.", "Ann is at home.")
        await memory.save(MultipleFacts(STATEMENT, chatter, timestamp=now))
        first, *_ = await memory.recall(query)
        assert first.record.value == "Bern"


async def test_a_fact_that_shares_a_word_with_a_question_is_not_asked_for(provider: AgentMemoryProvider) -> None:
    now = JANUARY + dt.timedelta(days=400)
    async with opened(provider, clock=FakeClock(now)) as memory:
        await memory.save(SingleFact(Concept.single("name", "What the user is called"), "Ann", timestamp=JANUARY))
        said = ("The tavern by the harbour in Porto has the name Maria.", "My name is on the list.", "Name your price.")
        await memory.save(MultipleFacts(STATEMENT, said, timestamp=now))
        first, *_ = await memory.recall("What is the name of the tavern by the harbour in Porto?")
        assert first.record.value == said[0]


async def test_a_fact_is_found_by_whom_or_what_it_is_about(provider: AgentMemoryProvider) -> None:
    warmth = Concept.single("temperature", "How warm it is", int)
    async with opened(provider, clock=FakeClock(JANUARY)) as memory:
        for degrees, room in enumerate(("attic", "cellar", "kitchen"), start=15):
            await memory.save(SingleFact(warmth, degrees, timestamp=JANUARY), subject=MemorySubject(room))
        first, *_ = await memory.recall("temperature in the kitchen")
        assert (first.record.subject.name, first.parts.named) == ("kitchen", 1)


async def test_a_result_has_its_earlier_values_on_request(provider: AgentMemoryProvider) -> None:
    async with opened(provider, clock=FakeClock(JANUARY + dt.timedelta(days=91))) as memory:
        await filled(memory)
        plain = await memory.recall("home city of Ann")
        matches = await memory.recall("home city of Ann", history=True)
        assert [match.earlier for match in plain] == [()] * len(plain)
        assert [match.record for match in matches] == [match.record for match in plain]
        assert [record.value for record in matches[0].earlier] == ["Rome", "Oslo"]
        assert [record.value for match in matches[1:] for record in match.earlier] == []
        then = memory.view(as_of=JANUARY + dt.timedelta(days=31))
        (first, *_) = await then.recall("home city of Ann", history=True)
        assert (first.record.value, [record.value for record in first.earlier]) == ("Rome", ["Oslo"])


async def test_a_late_value_is_returned_as_earlier(provider: AgentMemoryProvider) -> None:
    async with opened(provider, clock=FakeClock(JANUARY + dt.timedelta(days=91))) as memory:
        await memory.save(SingleFact(CITY, "Bern", timestamp=JANUARY + dt.timedelta(days=60)), subject=ANN)
        await memory.save(SingleFact(CITY, "Oslo", timestamp=JANUARY), subject=ANN)
        (found,) = await memory.recall("home city of Ann", history=True)
        assert (found.record.value, [record.value for record in found.earlier]) == ("Bern", ["Oslo"])


async def test_words_that_mean_the_same_are_found_behind_the_word_itself(provider: AgentMemoryProvider) -> None:
    async with opened(provider, clock=FakeClock(JANUARY)) as memory:
        said = ("The vehicle is red.", "The car is red.", "The moon is red.")
        await memory.save(MultipleFacts(STATEMENT, said, timestamp=JANUARY), scope="/product/a")
        found = await memory.recall("car", semantic=False)
        assert [match.record.value for match in found] == ["The car is red.", "The vehicle is red.", "The moon is red."]
        assert [match.parts.lexical > 0 for match in found] == [True, True, False]


@each_case("query", "flat")
async def test_a_time_may_be_given_by_an_event(provider: AgentMemoryProvider, query: str, flat: str) -> None:
    said = ("They rent a flat in Bern.", "The move was a lot of work.", "They rent a flat in Lyon.")
    async with opened(provider, clock=FakeClock(JANUARY + dt.timedelta(days=600))) as memory:
        for months, text in enumerate(said):
            at = JANUARY + dt.timedelta(days=30 * months)
            await memory.save(MultipleFacts(STATEMENT, (text,), timestamp=at), scope="/product/a")
        found = {match.record.value: match for match in await memory.recall(query)}
        assert max((text for text in found if "flat" in text), key=lambda text: found[text].score) == flat
        assert [found[text].parts.dated for text in said if "flat" in text and text != flat] == [0]


async def test_what_happened_where_the_calendar_ends_costs_no_answer(provider: AgentMemoryProvider) -> None:
    async with opened(provider, clock=FakeClock(JANUARY)) as memory:
        end = dt.datetime.max.replace(tzinfo=dt.UTC)
        await memory.save(SingleFact(CITY, "the flood", timestamp=JANUARY, valid_from=end), scope="/product/a")
        assert await memory.recall("Who lived here a month after the flood?")
        assert await memory.view(as_of=end).recall("Who lived here since the flood?")


async def test_what_was_said_at_a_time_that_is_named_goes_before_its_like(provider: AgentMemoryProvider) -> None:
    now = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
    async with opened(provider, clock=FakeClock(now)) as memory:
        for month in (2, 5, 8):
            fact = MultipleFacts(STATEMENT, (f"We met for the {month}th time.",), timestamp=now.replace(month=month))
            await memory.save(fact, scope="/product/a")
        (first, *others) = await memory.recall("When did we meet last May?")
        assert first.record.value == "We met for the 5th time."
        assert "dated" in first.reasons
        assert all("dated" not in match.reasons for match in others)
        assert all(match.parts.dated == 0 for match in await memory.recall("When did we meet?"))


async def test_words_about_their_day_are_said_anew_each_day(provider: AgentMemoryProvider) -> None:
    days = [dt.datetime(2026, month, 1, hour, tzinfo=dt.UTC) for month in (2, 5, 8) for hour in (9, 21)]
    async with opened(provider, clock=FakeClock(dt.datetime(2026, 11, 1, tzinfo=dt.UTC))) as memory:
        user = memory.for_user("ada")
        for day in days:
            await user.remember(Message(content="I had a migraine today.", timestamp=day), scope="/product/a")
            await user.remember(Message(content="I live in Oslo.", timestamp=day), scope="/product/a")
        said = [(record.value, record.timestamp) for record in await user.list_records()]
        assert [at for text, at in said if text == "I had a migraine today."] == days[5::-2]
        assert [at for text, at in said if text == "I live in Oslo."] == days[5:]
        (first, *_) = await user.recall("Did I have a migraine in May?")
        assert (first.record.value, first.record.timestamp) == ("I had a migraine today.", days[3])
        assert len(await user.list_records(since=days[2], until=days[4])) == 1


async def test_a_query_is_read_in_a_worker_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first query reads the table of related words, which would block the loop for as long as a frame."""
    read_in = []

    def noted(*given: Any) -> Term:
        read_in.append(threading.get_ident())
        return term_of(*given)

    monkeypatch.setattr("factmem.recall.index.outline_codec.term_of", noted)
    async with opened(InMemoryProvider()) as memory:
        await memory.remember("The car is red.")
        assert len(await memory.recall("red car")) == 1
    assert read_in
    assert threading.get_ident() not in read_in


@pytest.mark.parametrize("depth", ["shallow", "deep"])
async def test_a_query_that_nothing_answers_can_be_cut_off(depth: Literal["shallow", "deep"]) -> None:
    memory = Memory("memory:", clock=FakeClock())
    for text in ("The deploy is ready.", "Bo lives in Oslo.", "Ready."):
        await memory.remember(text)
    (best, *rest) = await memory.recall("Is the deploy ready?", depth=depth)
    assert best.record.value == "The deploy is ready."
    cut = await memory.recall("Is the deploy ready?", min_score=best.score, depth=depth)
    assert [match.record.value for match in cut] == [best.record.value]
    assert all(match.score < best.score for match in rest)
    assert await memory.recall("zxqv blorp", min_score=0.2, depth=depth) == []


@pytest.mark.parametrize("depth", ["shallow", "deep"])
@each_case("said", "answered", "unanswered")
async def test_the_meaning_of_words_that_the_embedder_does_not_know_gives_no_confidence(
    said: Sequence[str], answered: str, unanswered: str, depth: Literal["shallow", "deep"]
) -> None:
    async with Memory("memory:") as memory:
        for text in said:
            await memory.remember(text)
        assert (await memory.recall(answered, depth=depth)).answers
        matches = await memory.recall(unanswered, depth=depth)
        assert not matches.answers
        assert any(match.parts.semantic for match in matches)


async def test_an_embedder_that_cannot_say_what_it_knows_is_trusted() -> None:
    class Unsure(HashEmbedder):
        async def knows(self, text: str) -> bool:
            raise OSError

    async with Memory("memory:", embedder=Unsure()) as memory:
        await memory.remember("The deploy is ready.")
        assert (await memory.recall("Is the deploy ready?")).answers


@pytest.mark.parametrize("wrong", [-0.1, 1.1, math.nan, True, "0.5"])
async def test_a_minimum_score_out_of_range_is_refused(wrong: Any) -> None:
    with pytest.raises(InvalidDataError, match="min_score"):
        await Memory("memory:").recall("Oslo", min_score=wrong)


async def test_what_says_nothing_ranks_below_what_answers() -> None:
    memory = Memory("memory:")
    for text in ("Ready.", "Is the deploy ready?", "Awww!", "The deploy is ready."):
        await memory.remember(text)
    (best, *_) = await memory.recall("deploy status ready")
    assert best.record.value == "The deploy is ready."


async def test_what_does_not_answer_is_not_lifted_by_its_age_or_importance() -> None:
    now = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    memory = Memory("memory:", clock=FakeClock(now))
    old = now - dt.timedelta(days=400)
    await memory.save(STATEMENT.fact(["The venue has 120 seats."], timestamp=old), details=FactDetails(importance=0.0))
    for number in range(20):
        remark = STATEMENT.fact([f"Lunch number {number} was fine."], timestamp=now)
        await memory.save(remark, details=FactDetails(importance=1.0))
    assert (await memory.recall("How many seats does the venue have?"))[0].record.value == "The venue has 120 seats."
    additive = RecallSettings(composite="additive")
    (lunch, *_) = await memory.recall("How many seats does the venue have?", settings=additive)
    assert lunch.record.timestamp == now, "CrewAI's composite lets today's remarks win"


# Equal texts of one call are kept once, although no model compares them.

SAME = ["The cellar floods in March.", "the cellar floods in march", "The cellar  floods in March!"]
OTHERS = ["The roof was mended.", "We booked 12 seats.", "We booked 14 seats."]
DUPLICATE = {DropReason.DUPLICATE: 1}


async def test_texts_that_say_the_same_are_kept_once(provider: AgentMemoryProvider, clock: FakeClock) -> None:
    """The first one is kept, and the others return its record; texts with other numbers differ."""
    async with Memory(provider, embedder=HashEmbedder(), clock=clock) as memory:
        submission = await memory.remember_many([SAME[0], OTHERS[0], *SAME[1:], *OTHERS[1:], SAME[0]])
        outcomes = await submission.wait()
        assert [dict(outcome.dropped) for outcome in outcomes] == [{}, {}, DUPLICATE, DUPLICATE, {}, {}, DUPLICATE]
        assert [len(outcome.changes) for outcome in outcomes] == [1, 1, 0, 0, 1, 1, 0]
        assert {record.value for number in (0, 2, 3, 6) for record in outcomes[number]} == {SAME[0]}
        assert submission.dropped == {DropReason.DUPLICATE: 3}
        assert words(await memory.list_records()) == sorted([SAME[0], *OTHERS])
    assert len((await log_of(provider))[0]) == 4


async def test_what_people_said_stays_whoever_says_the_same(clock: FakeClock) -> None:
    """Messages and conversations are evidence of the speaker and the time."""
    said: list[str | Message] = [Message(content=SAME[0], name=name, id=name) for name in ("Ana", "Bo")]
    async with Memory(InMemoryProvider(clock=clock), embedder=HashEmbedder(), clock=clock) as memory:
        await (await memory.remember_many([*said, talk(*SAME), SAME[0]])).wait()
        assert {record.value for record in await memory.list_records()} == set(SAME)
        assert len((await log_of(memory._backend.provider))[0]) == 6


async def test_what_is_not_to_be_compared_stays(clock: FakeClock) -> None:
    async with Memory(InMemoryProvider(clock=clock), embedder=HashEmbedder(), clock=clock) as memory:
        await (await memory.remember_many(SAME, consolidate=False)).wait()
        assert words(await memory.list_records()) == sorted(SAME)


async def test_without_the_embedder_all_are_kept(clock: FakeClock) -> None:
    async with Memory(InMemoryProvider(clock=clock), embedder=Away(), clock=clock) as memory:
        outcomes = await (await memory.remember_many(SAME)).wait()
        assert words(await memory.list_records()) == sorted(SAME)
        assert [dict(outcome.dropped) for outcome in outcomes] == [{}, {}, {}]


async def test_texts_that_wait_for_a_model_are_submitted_as_they_are(provider: AgentMemoryProvider) -> None:
    async with opened(provider, ScriptedModel(well)) as memory:
        await (await memory.remember_many(SAME)).wait()
        assert len(words(await memory.list_records())) == 1


async def test_a_question_is_embedded_once_however_often_it_is_searched_for(clock: FakeClock) -> None:
    """A turn of an agent searches for facts, statements and replies; an embedder may be a paid service."""
    asked: list[str] = []

    class Asked(HashEmbedder):
        async def embed_query(self, texts: Sequence[str]) -> NDArray[Any]:
            asked.extend(texts)
            return await super().embed(texts)

    async with Memory(InMemoryProvider(clock=clock), embedder=Asked(), clock=clock) as memory:
        (record,) = await memory.remember("I drink tea.")
        for view in (memory, memory.for_user("ann")):
            (match,) = await view.recall("Who drinks tea?", concepts=[STATEMENT])
            assert match.record == record
        assert asked == ["Who drinks tea?"]
        for number in range(100):
            await memory.recall(f"Who drinks tea number {number}?")
        await memory.recall("Who drinks tea?")
        assert asked.count("Who drinks tea?") == 2, "only the latest are held"
        await memory.forget(record.id)
        await memory.recall("Who drinks tea?")
        assert asked.count("Who drinks tea?") == 3, "an erasure drops what was asked"


@pytest.mark.parametrize(
    ("said", "halved"),
    CASES["the confidence is halved where no record holds a word of the question"],
    ids=["no word of it", "a word of it", "in another language"],
)
async def test_the_confidence_is_halved_where_no_record_holds_a_word_of_the_question(said: str, halved: bool) -> None:
    class Alike(HashEmbedder):
        """An embedder to which every question has the same little to do with every statement."""

        async def embed(self, texts: Sequence[str]) -> NDArray[Any]:
            made = np.zeros((len(texts), 256), np.float32)
            made[:, 0] = [0.15 if text.endswith("?") else 1 for text in texts]
            made[:, 1] = np.sqrt(1 - made[:, 0] ** 2)
            return made

    settings = RecallSettings(lexical_weight=0.01)
    async with Memory("memory:", embedder=Alike(), settings=settings) as memory:
        await memory.remember(said)
        found = await memory.recall("When is the birthday?")
    assert found.confidence == pytest.approx(0.26 if halved else 0.52, rel=0.05)


async def test_a_lone_surrogate_is_replaced_in_words_and_in_queries(memory: Memory) -> None:
    """A text that was decoded with an error is remembered, and found again by the same text."""
    async with memory:
        (record,) = await memory.remember("The \ud800 kiln is hot.")
        assert record.value == "The \ufffd kiln is hot."
        assert [match.record.id for match in await memory.recall("\udfff kiln")] == [record.id]
