"""Wishes to forget: they take what the same reading finds, and what is read meanwhile; vain ones wait."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any, Final, Literal

import anyio
import attrs
import pytest

from factmem import Concept, Memory, Message, Policies
from factmem.abc import Candidate, Detection, DetectionRequest
from factmem.abc.detector import Conversation, DropReason
from factmem.changes import ChangeKind
from factmem.consolidation.policy import ConsolidationPolicy, Proposal
from factmem.details import FactDetails, Origin
from factmem.detection.utterances import utterances
from factmem.errors import ConceptConflictError, ModelUnavailableError
from factmem.facts import STATEMENT
from factmem.records import AssertionState
from factmem.testing import ScriptedModel
from tests.memory.telling import until
from tests.tables import each_case

NOON: Final = dt.datetime(2026, 3, 2, 12, tzinfo=dt.UTC)
PHONES: Final[list[Concept[Any, Any]]] = [
    Concept.single("phone", "The user's phone number"),
    Concept.multiple("phone", "Phone numbers of the user"),
]
TOLD, WISH = "My phone number is 0171 5550199.", "Please delete my phone number."
_MESSAGE: Final = re.compile(r'<message number="(\d+)" take_facts="yes"[^>]*>(.*?)</message>', re.DOTALL)


def found(prompt: Any, answer: Any) -> dict[str, Any]:
    """Return the answer of a model that finds a phone number, and the wish to delete it."""
    if answer.__name__ != "Findings":
        return {"known": []} if "known" in answer.model_fields else {}
    told = [(int(number), text) for number, text in _MESSAGE.findall(prompt.content)]
    values = {"value": "0171 5550199", "values": ["0171 5550199"]}
    return {
        "phone": [{"quote": TOLD, "message": number, **values} for number, text in told if TOLD in text],
        "forget": [{"quote": WISH, "message": number, "keyword": "phone"} for number, text in told if WISH in text],
    }


@attrs.define
class Slow:
    """A model that reads the wish at once, and the other words once they are released."""

    released: anyio.Event = attrs.field(factory=anyio.Event)
    asked: int = 0
    max_chars: int = 24_000

    async def ask(self, prompt: Any, answer: Any) -> Any:
        self.asked += 1
        if answer.__name__ == "Findings" and not any(WISH in text for _, text in _MESSAGE.findall(prompt.content)):
            await self.released.wait()
        return await ScriptedModel(found).ask(prompt, answer)


def said(text: str, minute: int, **fields: Any) -> Conversation:
    """Return a message of one conversation."""
    at = NOON + dt.timedelta(minutes=minute)
    return Conversation(id="talk", messages=[Message(content=text, id=f"m{minute}", timestamp=at, **fields)])


def together(*turns: Conversation) -> Conversation:
    """Return turns as one conversation."""
    return Conversation(id="talk", messages=[message for turn in turns for message in turn.messages])


def opened(concept: Concept[Any, Any] = PHONES[0], model: Any = None, **options: Any) -> Memory:
    return Memory("memory:", model=model or ScriptedModel(found), concepts=[concept], clock=lambda: NOON, **options)


@pytest.mark.parametrize("concept", PHONES, ids=["single", "multiple"])
async def test_a_wish_takes_what_the_same_conversation_says_before_it(concept: Concept[Any, Any]) -> None:
    async with opened(concept) as memory:
        outcome = await memory.remember(together(said(TOLD, 0), said("I like tea.", 1), said(WISH, 2)))
        assert [record.value for record in await memory.list_records()] == ["I like tea."]
        assert (outcome.dropped, outcome.waiting) == ({}, ())


@pytest.mark.parametrize("concept", PHONES, ids=["single", "multiple"])
async def test_a_wish_takes_what_an_earlier_conversation_of_the_same_batch_says(concept: Concept[Any, Any]) -> None:
    async with opened(concept) as memory:
        earlier = attrs.evolve(said(TOLD, 0), id="earlier")
        submission = await memory.remember_many([earlier, said(WISH, 1)])
        await submission.wait()
        assert (list(await memory.list_records()), submission.dropped) == ([], {})


@pytest.mark.parametrize("concept", PHONES, ids=["single", "multiple"])
@pytest.mark.parametrize("last", [2, 3], ids=["with a value", "alone"])
async def test_a_wish_takes_the_words_of_superseded_values(concept: Concept[Any, Any], last: int) -> None:
    turns = [said("set a.", -9), said("set b.", -8), said("set c.", -7), said("wish.", -6)]
    async with Memory("memory:", detector=Plain(), concepts=[concept], clock=lambda: NOON) as memory:
        for turn in (*turns[:last], together(*turns[last:])):
            await memory.remember(turn)
        assert list(await memory.list_records()) == []
        assert list(await memory.recall("set a")) == []


@pytest.mark.parametrize("words", ["wish.", "end."])
async def test_a_history_cites_the_words_that_ended_a_value(words: str) -> None:
    async with Memory("memory:", detector=Plain(), concepts=PHONES[:1], clock=lambda: NOON) as memory:
        for turn in (said("set a.", -9), said("set b.", -8), said(words, -7)):
            outcome = await memory.remember(turn)
        first, second = await memory.history(PHONES[0])
        assert (second.value, second.ended_at, second.end_reason) == (
            "b",
            NOON - dt.timedelta(minutes=7),
            f"ended: {words}",
        )
        await memory.undo(outcome.changes)
        ended = [(it.value, it.ended_at) for it in await memory.history(PHONES[0])]
        assert ended == [("a", first.ended_at), ("b", None)]


async def test_what_is_said_after_a_wish_stays() -> None:
    async with opened() as memory:
        await memory.remember(together(said(WISH, 0), said(TOLD, 1)))
        assert {record.value for record in await memory.list_records()} == {"0171 5550199", TOLD}


@pytest.mark.parametrize("concept", PHONES, ids=["single", "multiple"])
async def test_a_wish_takes_what_is_being_read_when_it_is_said(concept: Concept[Any, Any]) -> None:
    model = Slow()
    async with opened(concept, model) as memory:
        first = await memory.remember_many([said(TOLD, 0)])
        await until(lambda: model.asked == 1)
        second = await memory.remember_many([said(WISH, 1)])
        await until(lambda: model.asked == 2)
        model.released.set()
        await first.wait()
        await second.wait()
        assert (list(await memory.list_records()), second.dropped) == ([], {})


async def test_a_wish_does_not_wait_for_the_words_of_another_user() -> None:
    model = Slow()
    async with opened(model=model) as memory:
        bo = await memory.for_user("bo").remember_many([said(TOLD, 0)])
        await until(lambda: model.asked == 1)
        await memory.for_user("ann").remember(said(WISH, 1))
        assert bo.pending == 1
        model.released.set()
        await bo.wait()
        assert {record.value for record in await memory.for_user("bo").list_records()} == {"0171 5550199", TOLD}


@attrs.define
class Forgetful:
    """A detector that finds a wish in each message, and remembers another one while it reads "outer"."""

    memory: Memory | None = None

    async def detect(self, conversation: Conversation, request: DetectionRequest) -> Detection:
        if self.memory is not None and "outer" in str(conversation.messages[-1].content):
            await self.memory.remember(said(WISH, 0))
        return Detection(
            candidates=[
                Candidate(
                    fact=PHONES[0].fact(["0171 5550199"], timestamp=words.timestamp),
                    details=FactDetails(evidence=(words.cite(0, len(words.text)),), origin=words.origin),
                    removed=True,
                )
                for words in utterances(conversation, NOON)
            ]
        )


async def test_a_wish_that_a_detector_remembers_does_not_wait_for_its_own_reading() -> None:
    detector = Forgetful()
    async with Memory("memory:", detector=detector, concepts=PHONES[:1], clock=lambda: NOON) as memory:
        await memory.save(PHONES[0].fact(["0171 5550199"], timestamp=NOON - dt.timedelta(days=1)))
        detector.memory = memory
        with anyio.fail_after(30):
            await memory.remember(attrs.evolve(said("outer words", 1), id="outer"))
        assert list(await memory.list_records()) == []


@pytest.mark.parametrize("within", [True, False], ids=["by the approval", "by another task"])
async def test_a_wish_does_not_wait_for_an_approval(within: bool) -> None:
    def tea(prompt: Any, answer: Any) -> dict[str, Any]:
        if "known" in answer.model_fields:
            return {"known": [{"number": number, "action": "delete"} for number in range(5)]}
        wishes = found(prompt, answer)
        told = [(int(number), text) for number, text in _MESSAGE.findall(prompt.content) if "about tea" in text]
        if told:
            wishes["forget"] = [{"quote": text, "message": number, "keyword": None} for number, text in told]
        return wishes

    asked, decided = anyio.Event(), anyio.Event()

    async def approve(proposal: Proposal) -> bool:
        if asked.is_set():
            return False
        asked.set()
        if within:
            await memory.remember(said(WISH, 4))
        else:
            await decided.wait()
        return True

    policies = Policies(consolidation=ConsolidationPolicy(approve=approve))
    async with opened(model=ScriptedModel(tea), policies=policies) as memory:
        for number in range(5):
            await memory.remember(attrs.evolve(said(f"I like tea number {number}.", number - 9), id=f"tea{number}"))
        with anyio.fail_after(30):
            wish = await memory.remember_many([attrs.evolve(said("Forget all about tea.", 3), id="wish")])
            await asked.wait()
            if not within:
                await memory.remember(said(WISH, 4))
                decided.set()
            await wish.wait()
        assert [record.value for record in await memory.list_records()] == [WISH]  # that one was not approved


@pytest.mark.parametrize("subject", ["desk", None])
async def test_a_wish_takes_nothing_that_only_another_speaker_said(subject: str | None) -> None:
    async with opened() as memory:
        submission = await memory.remember_many(
            [attrs.evolve(said(TOLD, 0, name="Ann"), id="first"), said(WISH, 1, name="Bo")], subject=subject
        )
        await submission.wait()
        assert {record.value for record in await memory.list_records()} == {"0171 5550199", TOLD}
        await memory.remember(attrs.evolve(said(WISH, 2, name="Bo"), id="third"), subject=subject)
        assert {record.value for record in await memory.list_records()} == {"0171 5550199", TOLD}


@pytest.mark.parametrize("keep_words", [True, False])
async def test_a_vain_wish_is_counted_and_waits_for_a_decision(keep_words: bool) -> None:
    async with opened(policies=Policies(keep_words=keep_words)) as memory:
        ann = memory.for_user("ann")
        outcome = await ann.remember(said(WISH, 0))
        (waiting,) = outcome.waiting
        assert (waiting.value, waiting.quarantine_reason) == (WISH, DropReason.NOT_CURRENT.value)
        assert outcome.dropped == {DropReason.NOT_CURRENT: 1}
        assert list(await ann.list_records()) == []
        assert list(await memory.for_user("bo").inbox.quarantine.list()) == []
        (change,) = await ann.inbox.quarantine.accept(waiting.id)
        assert (change.kind, change.record.state) == (ChangeKind.UNCHANGED, AssertionState.QUARANTINED)
        assert [record.id for record in await ann.inbox.quarantine.list()] == [waiting.id]
        assert list(await ann.list_records()) == []


async def test_without_words_only_the_quotes_of_vain_wishes_wait() -> None:
    async with opened(policies=Policies(keep_words=False)) as memory:
        outcome = await memory.remember(
            together(said(f"The door is open. {WISH} The key is here.", -2), said(f"Hello. {WISH}", -1))
        )
        reason = DropReason.NOT_CURRENT.value
        assert [
            (it.value, it.evidence[0].message_id, len(it.evidence), it.quarantine_reason) for it in outcome.waiting
        ] == [(WISH, "m-2", 1, reason), (WISH, "m-1", 1, reason)]
        await memory.save(PHONES[0].fact(["0171 5550199"], timestamp=NOON - dt.timedelta(days=1)))
        await memory.inbox.quarantine.accept(outcome.waiting[0].id)
        assert list(await memory.list_records()) == []
        assert [record.evidence[0].message_id for record in await memory.inbox.quarantine.list()] == ["m-1"]


@pytest.mark.parametrize("concept", PHONES, ids=["single", "multiple"])
@pytest.mark.parametrize("rejected", [False, True])
async def test_accepting_a_wish_carries_it_out(concept: Concept[Any, Any], rejected: bool) -> None:
    async with opened(concept) as memory:
        quarantine = memory.inbox.quarantine
        (waiting,) = (await memory.remember(said(WISH, 0))).waiting
        known, later = "0171 5550199", NOON - dt.timedelta(days=1)
        await memory.save(concept.fact([known], timestamp=later))
        if rejected:
            await quarantine.reject(waiting.id)
        own, erased = changes = await quarantine.accept(waiting.id, reason="asked on the phone")
        assert [(it.kind, it.record.value) for it in changes] == [
            (ChangeKind.DELETED, WISH),
            (ChangeKind.DELETED, known),
        ]
        assert [own.previous is None, erased.previous is None] == [False, True]
        assert (list(await memory.list_records()), list(await quarantine.list())) == ([], [])
        assert list(await quarantine.list(rejected=True)) == []
        assert "asked on the phone" in {entry.reason for entry in (await memory.admin.audit()).entries}
        await memory.undo(changes)
        assert [record.value for record in await memory.list_records()] == [known]
        assert [record.id for record in await quarantine.list()] == [waiting.id]
        await memory.remember(attrs.evolve(said("I like tea.", -5), id="tea"))
        assert known in {record.value for record in await memory.list_records()}  # nobody accepted it again
        assert [record.id for record in await quarantine.list()] == [waiting.id]
        again = await quarantine.accept(waiting.id)
        assert [it.record.value for it in again] == [WISH, known]
        assert [record.value for record in await memory.list_records()] == ["I like tea."]
        await memory.undo(again)
        assert known in {record.value for record in await memory.list_records()}


async def test_a_wish_in_words_is_carried_out_again_after_an_undo() -> None:
    wish = "Please forget all about tea."

    def about_tea(prompt: Any, answer: Any) -> dict[str, Any]:
        if "known" in answer.model_fields:
            return {"known": [{"number": 0, "action": "delete"}]}
        told = [(int(number), text) for number, text in _MESSAGE.findall(prompt.content)]
        return {"forget": [{"quote": text, "message": number} for number, text in told if text == wish]}

    async with opened(model=ScriptedModel(about_tea)) as memory:
        (waiting,) = (await memory.remember(said(wish, 0))).waiting
        await memory.save(STATEMENT.fact(["I like tea."], timestamp=NOON - dt.timedelta(days=1)))
        for _ in range(3):
            changes = await memory.inbox.quarantine.accept(waiting.id)
            assert [it.record.value for it in changes] == [wish, "I like tea."]
            assert list(await memory.list_records()) == []
            await memory.undo(changes)
            assert [record.value for record in await memory.list_records()] == ["I like tea."]


async def test_a_rejected_wish_that_is_vain_stays_rejected() -> None:
    async with opened() as memory:
        quarantine = memory.inbox.quarantine
        (waiting,) = (await memory.remember(said(WISH, 0))).waiting
        await quarantine.reject(waiting.id)
        (change,) = await quarantine.accept(waiting.id)
        assert (change.kind, change.record.state) == (ChangeKind.UNCHANGED, AssertionState.RETRACTED)
        assert [record.id for record in await quarantine.list(rejected=True)] == [waiting.id]


async def test_an_error_about_a_wish_does_not_hide_what_was_accepted() -> None:
    wish, away = "Please forget the thing about Bob.", False

    def unsure(prompt: Any, answer: Any) -> dict[str, Any]:
        if away:
            raise ModelUnavailableError("it is away")
        if "known" in answer.model_fields:
            return {"known": []}
        told = [(int(number), text) for number, text in _MESSAGE.findall(prompt.content)]
        return {"forget": [{"quote": text, "message": number} for number, text in told if text == wish]}

    async with opened(model=ScriptedModel(unsure)) as memory:
        quarantine = memory.inbox.quarantine
        await memory.remember(attrs.evolve(said("Bob likes tea.", -9), id="bob"))
        (waiting,) = (await memory.remember(said(wish, 0))).waiting
        (told,) = (await memory.remember(attrs.evolve(said("The shop is shut.", -3, role="tool"), id="tool"))).waiting
        away = True
        with pytest.raises(ModelUnavailableError):
            await quarantine.accept(waiting.id)
        changes = await quarantine.accept(waiting.id, told.id)
        assert [(it.kind, it.record.value) for it in changes] == [
            (ChangeKind.CREATED, "The shop is shut."),
            (ChangeKind.UNCHANGED, wish),
        ]
        assert [record.id for record in await quarantine.list()] == [waiting.id]


async def test_a_rejected_wish_takes_nothing() -> None:
    async with opened() as memory:
        (waiting,) = (await memory.remember(said(WISH, 0))).waiting
        await memory.inbox.quarantine.reject(waiting.id)
        await memory.remember(said(TOLD, -5))
        assert {record.value for record in await memory.list_records()} == {"0171 5550199", TOLD}
        assert await memory.inbox.quarantine.count() == 0


@pytest.mark.parametrize("answer_to_it", ["no", "unclear", "rejected"])
@pytest.mark.parametrize("accepted", [False, True], ids=["read later", "accepted"])
async def test_a_vain_wish_carries_out_no_other_one_of_its_message(answer_to_it: str, accepted: bool) -> None:
    doubted, home = "Maybe forget my address Elm Street 4?", Concept.single("address", "The user's address")

    def wishes(prompt: Any, answer: Any) -> dict[str, Any]:
        if answer.__name__ == "VerifierAnswer":
            return {"claims": [{"number": 1, "answer": "no" if answer_to_it == "no" else "unclear"}]}
        asked = found(prompt, answer)
        for number, text in _MESSAGE.findall(prompt.content) if answer.__name__ == "Findings" else ():
            if doubted in text:
                asked["forget"].append(
                    {"quote": doubted, "message": int(number), "keyword": "address", "value": "Elm Street 4"}
                )
        return asked

    async with Memory("memory:", model=ScriptedModel(wishes), concepts=[PHONES[0], home], clock=lambda: NOON) as memory:
        await memory.save(home.fact(["Elm Street 4"], timestamp=NOON - dt.timedelta(days=1)))
        waiting = (await memory.remember(said(f"{WISH} {doubted}", 0))).waiting
        other = [record.id for record in waiting if record.value == "Elm Street 4"]
        assert len(other) == (answer_to_it != "no")
        if answer_to_it == "rejected":
            await memory.inbox.quarantine.reject(*other)
        (whole,) = (record for record in waiting if record.id not in other)
        if accepted:
            await memory.inbox.quarantine.accept(whole.id)
        else:
            await memory.remember(attrs.evolve(said(TOLD, -5), id="earlier"))
        assert [record.value for record in await memory.list_records()] == ["Elm Street 4"]
        left = {record.id for record in await memory.inbox.quarantine.list()}
        assert left == {*(other if answer_to_it == "unclear" else ()), *([whole.id] if accepted else ())}


async def test_vain_wishes_of_one_message_wait_one_by_one() -> None:
    other = "Please delete my address."
    home = Concept.single("address", "The user's address")

    def both(prompt: Any, answer: Any) -> dict[str, Any]:
        asked = found(prompt, answer)
        for number, text in _MESSAGE.findall(prompt.content) if answer.__name__ == "Findings" else ():
            if other in text:
                asked["forget"].append({"quote": other, "message": int(number), "keyword": "address"})
        return asked

    async with Memory("memory:", model=ScriptedModel(both), concepts=[PHONES[0], home], clock=lambda: NOON) as memory:
        waiting = (await memory.remember(said(f"{WISH} {other}", 0))).waiting
        assert {record.value for record in waiting} == {WISH, other}
        await memory.remember(attrs.evolve(said(TOLD, -5), id="earlier"))
        assert [record.value for record in await memory.inbox.quarantine.list()] == [other]
        await memory.save(home.fact(["Elm Street 4"], timestamp=NOON - dt.timedelta(days=1)))
        await memory.remember(attrs.evolve(said("I like tea.", -5), id="tea"))
        assert [record.value for record in await memory.list_records()] == ["I like tea."]


async def test_accepting_a_doubted_wish_carries_it_out() -> None:
    doubted = "Maybe forget my phone number 0171 5550199?"

    def wishes(prompt: Any, answer: Any) -> dict[str, Any]:
        asked = {"quote": doubted, "message": 1, "keyword": "phone", "value": "0171 5550199"}
        return (
            {"forget": [asked]}
            if answer.__name__ == "Findings" and doubted in prompt.content
            else found(prompt, answer)
        )

    async with opened(model=ScriptedModel(wishes)) as memory:
        await memory.remember(said(TOLD, 0))
        outcome = await memory.remember(attrs.evolve(said(doubted, 1), id="later"))
        assert "0171 5550199" in {record.value for record in await memory.list_records()}
        await memory.inbox.quarantine.accept(outcome.waiting[0].id)
        assert [record.value for record in await memory.list_records()] == [doubted]


@pytest.mark.parametrize("concept", PHONES, ids=["single", "multiple"])
async def test_a_vain_wish_takes_what_is_read_later_and_was_said_before_it(concept: Concept[Any, Any]) -> None:
    async with opened(concept) as memory:
        await memory.remember(said(WISH, 0))
        outcome = await memory.remember(said(TOLD, -5))
        assert [(it.kind, it.record.value) for it in outcome.changes] == [(ChangeKind.DELETED, WISH)]
        assert list(await memory.list_records()) == []
        assert list(await memory.recall("phone number")) == []
        assert await memory.inbox.quarantine.count() == 0
        await memory.remember(said(TOLD, 0))
        assert {record.value for record in await memory.list_records()} == {"0171 5550199", TOLD}


async def test_a_vain_wish_takes_what_a_retry_finds() -> None:
    down = True

    def away(prompt: Any, answer: Any) -> dict[str, Any]:
        if down and TOLD in prompt.content and WISH not in prompt.content:
            raise ModelUnavailableError("it is away")
        return found(prompt, answer)

    async with opened(model=ScriptedModel(away)) as memory:
        assert (await memory.remember(said(TOLD, 0))).failure is not None
        outcome = await memory.remember(attrs.evolve(said(WISH, 1), id="later"))
        assert [record.quarantine_reason for record in outcome.waiting] == [DropReason.NOT_CURRENT.value]
        down = False
        await memory.inbox.dead_letters.retry()
        assert (list(await memory.list_records()), await memory.inbox.quarantine.count()) == ([], 0)


@pytest.mark.parametrize("other", ["later", "owner", "speaker"])
async def test_a_vain_wish_leaves_what_it_cannot_mean(other: str) -> None:
    async with opened() as memory:
        ann = memory.for_user("ann")
        name = "Ann" if other == "speaker" else None
        await ann.remember(said(WISH, -3, name=name))
        reading = memory.for_user("bo") if other == "owner" else ann
        speaker = "Bo" if other == "speaker" else None
        await reading.remember(said(TOLD, -1 if other == "later" else -5, name=speaker))
        assert TOLD in {record.value for record in await reading.list_records()}
        assert await ann.inbox.quarantine.count() == 1


async def test_words_with_a_wish_that_was_met_do_not_wait_for_another_one() -> None:
    def both(prompt: Any, answer: Any) -> dict[str, Any]:
        wishes = found(prompt, answer)
        for wish in [*wishes.get("forget", ())]:
            wishes["forget"].append({**wish, "quote": "Forget my fax 0171 5550199 too.", "keyword": None})
        return wishes

    async with opened(model=ScriptedModel(both)) as memory:
        await memory.remember(said(TOLD, 0))
        outcome = await memory.remember(said(f"{WISH} Forget my fax 0171 5550199 too.", 1))
        assert (outcome.dropped, outcome.waiting) == ({DropReason.NOT_CURRENT: 1}, ())
        assert list(await memory.list_records()) == []


async def test_a_wish_that_was_met_does_not_wait_when_it_is_said_again() -> None:
    async with opened() as memory:
        await memory.remember(together(said(TOLD, 0), said(WISH, 1)))
        outcome = await memory.remember(together(said(TOLD, 0), said(WISH, 1)))
        assert (outcome.dropped, outcome.waiting, list(await memory.list_records())) == ({}, (), [])


@pytest.mark.parametrize("updated", [False, True], ids=["saved", "updated"])
async def test_a_speaker_with_a_name_may_forget_what_nobody_said(updated: bool) -> None:
    async with opened() as memory:
        (record,) = await memory.save(PHONES[0].fact(["0171 5550199"], timestamp=NOON - dt.timedelta(days=1)))
        if updated:
            await memory.update(record.id, value="0172")
        outcome = await memory.remember(said(WISH, 0, name="Ann"))
        assert (list(await memory.list_records()), outcome.dropped) == ([], {})


class Plain:
    """A detector that finds "set X", "end", "end X", "wish" and "wish X"."""

    async def detect(self, conversation: Conversation, request: DetectionRequest) -> Detection:
        candidates = []
        for words in utterances(conversation, NOON):
            for match in re.finditer(r"(set|end|wish)(?: (\w+))?\.", words.text):
                concept = PHONES[0] if match[2] else STATEMENT
                candidates.append(
                    Candidate(
                        fact=concept.fact([match[2] or match[0]], timestamp=words.timestamp),
                        details=FactDetails(evidence=(words.cite(*match.span()),), origin=words.origin),
                        cleared=None if match[2] else PHONES[0],
                        ended=match[1] == "end",
                        removed=match[1] == "wish",
                    )
                )
        return Detection(candidates=candidates)


@pytest.mark.parametrize("read", ["together", "in a batch", "one by one"])
@each_case("turns", "left", "vain")
async def test_a_wish_and_an_end_mean_only_the_value_that_is_known_when_they_are_said(
    turns: list[str], left: list[str], vain: int, read: Literal["together", "in a batch", "one by one"]
) -> None:
    talks = [said(turn, number - 9) for number, turn in enumerate(turns)]
    apart = [attrs.evolve(talk, id=f"talk{number}") for number, talk in enumerate(talks)]
    async with Memory("memory:", detector=Plain(), concepts=PHONES[:1], clock=lambda: NOON) as memory:
        match read:
            case "together":
                dropped = [(await memory.remember(together(*talks))).dropped]
            case "in a batch":
                submission = await memory.remember_many(apart)
                await submission.wait()
                dropped = [submission.dropped]
            case "one by one":
                dropped = [(await memory.remember(talk)).dropped for talk in apart]
        values = [record.value for record in await memory.list_records() if not record.is_statement]
        assert (values, sum(counts.get(DropReason.NOT_CURRENT, 0) for counts in dropped)) == (left, vain)


async def test_an_entry_that_cannot_be_accepted_is_named_and_a_wish_is_carried_out_after_the_others() -> None:
    phone, (age, ages) = PHONES[0], (Concept.single("age", "", kind) for kind in (int, str))
    doubtful = FactDetails(origin=Origin.UNKNOWN)
    async with opened(phone) as memory:
        await memory.remember(said(WISH, 0))
        await memory.save(age.fact([5], timestamp=NOON - dt.timedelta(hours=3)))
        await memory.save(ages.fact(["five"], timestamp=NOON - dt.timedelta(hours=2)), details=doubtful)
        await memory.save(phone.fact(["0171 5550199"], timestamp=NOON - dt.timedelta(hours=1)), details=doubtful)
        waiting = {entry.value: entry.id for entry in await memory.inbox.quarantine.list()}
        with pytest.raises(ConceptConflictError) as refused:
            await memory.inbox.quarantine.accept(*waiting.values())
        assert refused.value.entry == waiting.pop("five")
        await memory.inbox.quarantine.accept(*waiting.values())
        assert [record.value for record in await memory.list_records()] == [5]
