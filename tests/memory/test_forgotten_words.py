"""Forgetting of a fact with the words it was found in, and quarantined assertions of the same record."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Sequence

import attrs
import pytest

from factmem import (
    AgentMemoryProvider,
    Concept,
    FactDetails,
    InMemoryProvider,
    Memory,
    MultipleFacts,
    Origin,
    SingleFact,
)
from factmem.abc import Candidate, Detection, DetectionRequest
from factmem.abc.capabilities import Receipt, Statement
from factmem.abc.detector import Conversation, Message
from factmem.detection import utterances
from factmem.detection.utterances import Utterance
from factmem.errors import RecordNotFoundError
from factmem.testing import FakeClock, HashEmbedder
from tests.narrowing import not_none
from tests.tables import each_case

SEATS = Concept.single("seats", "how many fit in", value_type=int)
DAY = dt.timedelta(days=1)


class Counting:
    """A detector that finds numbers of seats in the user's messages, and those to forget."""

    async def detect(self, conversation: Conversation, request: DetectionRequest) -> Detection:
        found = [
            Candidate(
                fact=SEATS.fact([int(match[1])], timestamp=said.timestamp),
                details=FactDetails(evidence=(said.cite(*match.span()),), origin=said.origin),
                removed=said.text.startswith("Forget"),
            )
            for said in utterances(conversation, dt.datetime.now(dt.UTC))
            if said.origin is Origin.USER
            for match in re.finditer(r"(\d+) seats", said.text)
        ]
        return Detection(candidates=found)


@pytest.fixture
def memory(provider: AgentMemoryProvider, clock: FakeClock) -> Memory:
    return Memory(provider, viewer="alice", concepts=[SEATS], detector=Counting(), embedder=HashEmbedder(), clock=clock)


def talk(clock: FakeClock, *texts: str, role: str = "user") -> Conversation:
    started = clock() - DAY
    return Conversation(messages=[Message(content=text, role=role) for text in texts], id="talk", started_at=started)


async def test_a_forgotten_fact_is_saved_again_only_from_a_new_message(memory: Memory, clock: FakeClock) -> None:
    said = talk(clock, "There are 40 seats.")
    seats = next(record for record in await memory.remember(said) if record.concept == SEATS)
    await memory.retract(seats.id)
    assert (await memory.remember(said)).changes == ()
    assert await memory.load(SEATS) is None
    await memory.forget(seats.id)
    await memory.remember(said)
    assert not_none(await memory.load(SEATS)).value == 40


async def test_undoing_a_wish_to_forget_leaves_a_value_that_was_said_after_it(memory: Memory, clock: FakeClock) -> None:
    await memory.remember(talk(clock, "There are 40 seats."))
    wish = await memory.remember(Message(content="Forget the 40 seats.", id="wish", timestamp=clock()))
    clock.advance(DAY)
    await memory.remember(Message(content="There are 70 seats.", id="later", timestamp=clock()))
    await memory.undo(wish.changes)
    assert [record.value for record in await memory.list_records(concepts=[SEATS])] == [70]


class LastWord:
    """A detector that finds what is liked in "I like …", and what is to be forgotten or ended in other words."""

    liked = Concept.multiple("liked", "what is liked")

    def __init__(self, *, removed: bool = True) -> None:
        self.removed = removed

    async def detect(self, conversation: Conversation, request: DetectionRequest) -> Detection:
        found = [said for said in utterances(conversation, dt.datetime.now(dt.UTC)) if said.origin is Origin.USER]
        return Detection(candidates=[self._found(said) for said in found])

    def _found(self, said: Utterance) -> Candidate:
        over = not said.text.startswith("I like")
        return Candidate(
            fact=self.liked.fact([said.text.split()[-1]], timestamp=said.timestamp),
            details=FactDetails(evidence=(said.cite(0, len(said.text)),), origin=said.origin),
            removed=over and self.removed,
            ended=over and not self.removed,
        )


@pytest.mark.parametrize("removed", [True, False])
@each_case("known", "named", "left")
async def test_a_value_ends_and_is_forgotten_alone(
    known: list[str], named: str, left: list[str], removed: bool
) -> None:
    detector = LastWord(removed=removed)
    async with Memory("memory:", concepts=[detector.liked], detector=detector, embedder=HashEmbedder()) as memory:
        await memory.save(MultipleFacts(detector.liked, known))
        await memory.remember(Message(content=f"No more {named}"))
        assert sorted(record.value for record in await memory.list_records(concepts=[detector.liked])) == left


@pytest.mark.parametrize("order", ["at once", "the wish first"])
async def test_a_wish_to_forget_takes_what_is_read_beside_it_or_later(clock: FakeClock, order: str) -> None:
    told = Message(content="I like jazz", id="told", timestamp=clock() - DAY)
    wish = Message(content="Forget jazz", id="wish", timestamp=clock())
    talks = [Conversation(messages=[said], id=said.id) for said in (told, wish)]
    detector = LastWord()
    async with Memory("memory:", concepts=[detector.liked], detector=detector, clock=clock) as memory:
        for talk in [talks] if order == "at once" else [[said] for said in talks[::-1]]:
            await memory.remember_many(talk)
        assert list(await memory.list_records(concepts=[detector.liked])) == []


async def test_what_corrects_words_that_are_to_be_forgotten_goes_with_them(memory: Memory, clock: FakeClock) -> None:
    await memory.remember(talk(clock, "There are 40 seats.", "Sorry, chairs.", "I like tea."))
    kept = {record.value: record.evidence[0].corrects for record in await memory.list_records()}
    assert kept == {40: None, "There are 40 seats.": None, "Sorry, chairs.": "There are 40 seats.", "I like tea.": None}
    wish = Message(content="Forget the 40 seats.", timestamp=clock())
    await memory.remember(Conversation(messages=[wish], id="later"))
    assert [record.value for record in await memory.list_records()] == ["I like tea."]


async def test_the_words_that_go_with_a_fact_are_shown_before_and_after(memory: Memory, clock: FakeClock) -> None:
    """They may say other things, which nobody named."""
    said = "There are 40 seats. The key is under the mat."
    await memory.remember(talk(clock, said))
    preview = await memory.forget(concepts=[SEATS], dry_run=True)
    assert ([record.value for record in preview], [word.value for word in preview.words]) == ([40], [said])
    assert len(await memory.list_records()) == 2
    receipt = await memory.forget(concepts=[SEATS])
    assert (receipt.words, receipt.erased) == (preview.words, 2)
    assert await memory.list_records() == []


@each_case("texts", "named", "going", "left")
async def test_facts_that_quote_forgotten_words_go_along(
    memory: Memory, clock: FakeClock, texts: list[str], named: int, going: list[int], left: list[object]
) -> None:
    await memory.remember(talk(clock, *texts))
    (words,) = [record for record in await memory.list_records() if record.value == texts[named]]
    preview = await memory.forget(words.id, dry_run=True)
    assert [record.value for record in preview.words] == going
    assert (await memory.forget(words.id)).words == preview.words
    kept = await memory.list_records()
    assert {record.value for record in kept} == set(left)
    assert all(texts[named] not in item.quote for record in kept for item in record.evidence)


async def test_facts_that_go_along_are_shown_as_their_concept(clock: FakeClock) -> None:
    @attrs.frozen
    class Genre:
        name: str

    class Genres:
        async def detect(self, conversation: Conversation, request: DetectionRequest) -> Detection:
            (said,) = utterances(conversation, clock())
            fact = genre.fact([Genre("jazz")], timestamp=said.timestamp)
            details = FactDetails(evidence=(said.cite(0, len(said.text)),), origin=said.origin)
            return Detection(candidates=[Candidate(fact=fact, details=details)])

    genre = Concept.multiple("genre", "what is liked", value_type=Genre)
    async with Memory("memory:", concepts=[genre], detector=Genres(), clock=clock) as memory:
        records = await memory.remember(Message(content="I like jazz", timestamp=clock()))
        (words,) = [record for record in records if record.is_statement]
        assert [found.value for found in (await memory.forget(words.id, dry_run=True)).words] == [Genre("jazz")]


async def test_a_fact_with_an_empty_quote_does_not_go_with_the_words_of_its_message(
    memory: Memory, clock: FakeClock
) -> None:
    (words,) = await memory.remember(talk(clock, "I like tea."))
    empty = attrs.evolve(words.evidence[0], quote="")
    await memory.save(SingleFact(SEATS, 40, timestamp=clock()), details=FactDetails(evidence=(empty,)))
    await memory.forget(words.id)
    assert [record.value for record in await memory.list_records()] == [40]


async def test_a_value_that_ended_more_than_once_goes_with_the_words_of_its_last_end(clock: FakeClock) -> None:
    detector = LastWord(removed=False)
    async with Memory("memory:", concepts=[detector.liked], detector=detector, clock=clock) as memory:
        told = [(4, "I like jazz"), (2, "I like jazz"), (1, "No more jazz"), (3, "No more jazz")]
        messages = [Message(content=text, id=f"m{days}", timestamp=clock() - days * DAY) for days, text in told]
        submission = await memory.remember_many([Conversation(messages=[said], id=said.id) for said in messages])
        await submission.wait()
        await memory.forget(pattern="No more")
        assert list(await memory.list_records(concepts=[detector.liked])) == []


async def test_the_words_of_an_end_that_was_undone_take_no_value_along(clock: FakeClock) -> None:
    detector = LastWord(removed=False)
    async with Memory("memory:", concepts=[detector.liked], detector=detector, clock=clock) as memory:
        await memory.remember(Message(content="I like jazz", id="liked", timestamp=clock() - 2 * DAY))
        end = await memory.remember(Message(content="No more jazz", id="ended", timestamp=clock() - DAY))
        await memory.undo(end.changes)
        await memory.forget(pattern="No more")
        assert [record.value for record in await memory.list_records(concepts=[detector.liked])] == ["jazz"]


async def test_what_was_to_be_forgotten_does_not_return_with_the_words_of_the_wish(
    memory: Memory, clock: FakeClock
) -> None:
    await memory.remember(talk(clock, "There are 40 seats."))
    await memory.remember(Message(content="Forget the 40 seats.", timestamp=clock()))
    assert list(await memory.list_records()) == []
    assert (await memory.forget(pattern="Forget the 40")).erased
    assert list(await memory.list_records()) == []


@pytest.mark.parametrize("rejected", [False, True], ids=["waiting", "rejected"])
async def test_an_entry_of_the_quarantine_is_not_the_record_it_was_planted_on(
    memory: Memory, clock: FakeClock, rejected: bool
) -> None:
    """Forgetting by the id of a planted assertion must never erase the user's own fact."""
    (mine,) = await memory.save(SingleFact(SEATS, 40, timestamp=clock() - DAY))
    await memory.save(SingleFact(SEATS, 999, timestamp=clock()), details=FactDetails(origin=Origin.DOCUMENT))
    (planted,) = await memory.inbox.quarantine.list()
    assert planted.id != mine.id
    assert planted.value == 999
    with pytest.raises(RecordNotFoundError):
        await memory.retract(planted.id)
    if rejected:
        await memory.inbox.quarantine.reject(planted.id)
    preview = await memory.forget(planted.id, dry_run=True)
    assert [record.value for record in preview] == [999]
    assert (await memory.forget(planted.id)).erased == 1
    assert await memory.inbox.quarantine.list(rejected=rejected) == []
    assert not_none(await memory.load(SEATS)).value == 40


class Forgetful(InMemoryProvider):
    """A store in which another process erases a record just before each append."""

    doomed: Sequence[str] = ()

    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        await self.erase(self.doomed, tenant=None)
        return await super().append(statements)


async def test_an_update_does_not_write_again_what_is_forgotten_at_the_same_time() -> None:
    provider = Forgetful()
    async with Memory(provider, embedder=HashEmbedder()) as memory:
        (record,) = await memory.save(SingleFact(SEATS, 120))
        provider.doomed = [record.id]
        with pytest.raises(RecordNotFoundError, match="erased meanwhile"):
            await memory.update(record.id, value=130)
        assert await memory.list_records() == []
        with pytest.raises(RecordNotFoundError):
            await memory.history(record.id)
