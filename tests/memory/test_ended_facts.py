"""Facts that ended: true until their end was said, no longer current, and their words stay recallable."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final

import attrs
import pytest

from factmem import ChangeKind, Concept, Memory, Message, Remembered
from factmem.abc import DetectionRequest
from factmem.abc.detector import Conversation, DropReason
from factmem.details import Treatment
from factmem.llm import InstructorModel
from factmem.testing import ScriptedModel
from factmem.testing.chat_answers import answering
from factmem.testing.openai_server import LoopbackOpenAIServer
from tests.tables import cases, each_case

CASES = cases(__file__)
ALLERGIES: Final = Concept.multiple("allergies", "What the user is allergic to")
EMPLOYER: Final = Concept.single("employer", "Where the user works")
NOON: Final = dt.datetime(2026, 3, 1, 12, tzinfo=dt.UTC)
LATER: Final = NOON + dt.timedelta(days=9)


def day(number: int) -> dt.datetime:
    return NOON + dt.timedelta(days=number)


def told(keyword: str, value: Any, quote: str, message: int = 1) -> dict[str, Any]:
    """Return the answer of a model that finds a fact."""
    item = {"values": [value]} if keyword == "allergies" else {"value": value}
    return {keyword: [{"quote": quote, "message": message, **item}]}


def over(keyword: str, value: Any, quote: str, message: int = 1) -> dict[str, Any]:
    """Return the answer of a model that finds the end of a fact."""
    return {"forget": [{"quote": quote, "message": message, "keyword": keyword, "value": value}]}


FINDS: Final = {"fact": told, "end": over}


@attrs.define
class Talk:
    """A memory whose model finds what each message is said to hold, and answers all claims alike."""

    verdict: str = "unclear"
    concepts: Sequence[Concept[Any, Any]] = (ALLERGIES, EMPLOYER)
    found: dict[str, Any] = attrs.field(factory=dict, init=False)
    claims: list[str] = attrs.field(factory=list, init=False)
    memory: Memory = attrs.field(init=False)

    def __attrs_post_init__(self) -> None:
        model = ScriptedModel(self._answer)
        self.memory = Memory("memory:", model=model, clock=lambda: LATER, concepts=self.concepts)

    def _answer(self, prompt: Any, answer: Any) -> dict[str, Any]:
        if "known" in answer.model_fields:
            return {}
        if "claims" not in answer.model_fields:
            return self.found
        self.claims.append(prompt.content)
        return {"claims": [{"number": number, "answer": self.verdict} for number in range(1, 9)]}

    async def said(self, number: int, text: str, found: dict[str, Any], **fields: Any) -> Remembered:
        """Tell a message of a day, with what the model finds in it."""
        self.found = found
        message = Message(content=text, id=f"m{number}", timestamp=day(number), **fields)
        return await self.memory.remember(Conversation(messages=[message], id=f"c{number}"))

    async def values(self, concept: Concept[Any, Any]) -> list[Any]:
        return [record.value for record in await self.memory.list_records(concepts=[concept])]


@attrs.frozen
class Medicine:
    """A drug with its dose."""

    drug: str
    milligrams: int


TOGETHER: Final = "I take 400 mg of ibuprofen and 5 mg of ramipril."
COURSE: Final = [{"drug": "ibuprofen", "milligrams": 400}, {"drug": "ramipril", "milligrams": 5}]
COLLECTIONS: Final[dict[str, tuple[Any, Any, Any]]] = {
    "list": (list[str], ["ibuprofen", "ramipril"], ["ramipril"]),
    "set": (frozenset[str], ["ibuprofen", "ramipril"], frozenset({"ramipril"})),
    "dict": (dict[str, int], {"ibuprofen": 400, "ramipril": 5}, {"ramipril": 5}),
    "list of a class": (list[Medicine], COURSE, [Medicine("ramipril", 5)]),
}


@pytest.mark.parametrize("kind", COLLECTIONS)
@pytest.mark.parametrize("words", ["I no longer take ibuprofen.", "Forget that I take ibuprofen."])
async def test_an_item_of_a_collection_is_over_or_forgotten_alone(kind: str, words: str) -> None:
    value_type, told_value, left = COLLECTIONS[kind]
    medicines = Concept.single("medicines", "What the user takes", value_type)
    talk = Talk(verdict="yes", concepts=[medicines])
    async with talk.memory as memory:
        await talk.said(1, TOGETHER, told("medicines", told_value, TOGETHER))
        outcome = await talk.said(2, words, over("medicines", "Ibuprofen", words.rstrip(".")))
        assert (await talk.values(medicines), outcome.dropped, outcome.waiting) == ([left], {}, ())
        assert ChangeKind.UPDATED in {change.kind for change in outcome.changes}
        await talk.said(3, "I no longer take ramipril.", over("medicines", "ramipril", "I no longer take ramipril"))
        assert await memory.load(medicines) is None


@each_case("words", "found", "left")
async def test_items_change_one_after_the_other(words: str, found: dict[str, Any], left: list[str]) -> None:
    medicines = Concept.single("medicines", "What the user takes", list[str])
    talk = Talk(verdict="yes", concepts=[medicines])
    known = "I take ibuprofen, ramipril and zinc."
    quote, *rest = words.split(". ")
    cited = {"message": 1, "keyword": "medicines"}
    answer: dict[str, Any] = {
        "forget": [{"quote": quote, "value": value, **cited} for value in found.get("forget", ())]
    }
    if "also" in found:
        answer["medicines"] = [{"quote": rest[0] if rest else quote, "message": 1, "value": [found["also"]]}]
    async with talk.memory:
        await talk.said(1, known, told("medicines", ["ibuprofen", "ramipril", "zinc"], known))
        await talk.said(2, words, answer)
        assert await talk.values(medicines) == [left]


@pytest.mark.parametrize(
    ("value_type", "known", "added", "expected"),
    [
        (frozenset[str], ["ibuprofen"], ["zinc"], frozenset({"ibuprofen", "zinc"})),
        (dict[str, int], {"ibuprofen": 400}, {"zinc": 25}, {"ibuprofen": 400, "zinc": 25}),
    ],
)
async def test_a_set_and_a_dict_said_beside_the_known_one_are_added_to_it(
    value_type: Any, known: Any, added: Any, expected: Any
) -> None:
    medicines = Concept.single("medicines", "What the user takes", value_type)
    talk, first, second = (
        Talk(verdict="yes", concepts=[medicines]),
        "I take 400 mg of ibuprofen.",
        "I also take 25 mg of zinc.",
    )
    async with talk.memory:
        await talk.said(1, first, told("medicines", known, first))
        await talk.said(2, second, told("medicines", added, second))
        assert await talk.values(medicines) == [expected]


async def test_an_item_that_may_be_over_is_verified_as_itself() -> None:
    medicines = Concept.single("medicines", "What the user takes", list[str])
    talk, words = Talk(concepts=[medicines]), "My wife said I no longer take ibuprofen."
    async with talk.memory as memory:
        known = "I take ibuprofen and ramipril."
        await talk.said(1, known, told("medicines", ["ibuprofen", "ramipril"], known))
        outcome = await talk.said(2, words, over("medicines", "ibuprofen", words))
        assert 'state="no longer so">ibuprofen<' in talk.claims[-1]
        (waiting,) = outcome.waiting
        assert (waiting.value, (waiting.quarantine_reason or "")[:16]) == (["ramipril"], "would end this: ")
        assert await talk.values(medicines) == [["ibuprofen", "ramipril"]]
        await memory.inbox.quarantine.accept(waiting.id)
        assert await talk.values(medicines) == [["ramipril"]]


async def test_an_item_of_one_of_several_lists_ends_none_of_them() -> None:
    courses = Concept.multiple("courses", "What the user takes together", list[str])
    talk, words = Talk(verdict="yes", concepts=[courses]), "I no longer take ibuprofen."
    async with talk.memory:
        known = "I take ibuprofen with ramipril, and zinc with iron."
        values = [["ibuprofen", "ramipril"], ["zinc", "iron"]]
        await talk.said(1, known, {"courses": [{"quote": known, "message": 1, "values": values}]})
        await talk.said(2, words, over("courses", "ibuprofen", words))
        assert sorted(await talk.values(courses)) == values


async def test_words_that_are_no_item_of_a_collection_end_nothing() -> None:
    medicines = Concept.single("medicines", "What the user takes", list[str])
    talk, words = Talk(concepts=[medicines]), "I no longer take aspirin."
    async with talk.memory:
        await talk.said(1, TOGETHER, told("medicines", ["ibuprofen", "ramipril"], TOGETHER))
        outcome = await talk.said(2, words, over("medicines", "aspirin", words))
        assert await talk.values(medicines) == [["ibuprofen", "ramipril"]]
        assert outcome.dropped == {DropReason.NOT_CURRENT: 1}


@each_case("words", "expected")
async def test_a_list_said_beside_the_known_one_is_added_to_it(words: str, expected: list[str]) -> None:
    medicines = Concept.single("medicines", "What the user takes", list[str])
    talk = Talk(concepts=[medicines])
    async with talk.memory:
        await talk.said(1, TOGETHER, told("medicines", ["ibuprofen", "ramipril"], TOGETHER))
        await talk.said(2, words, told("medicines", ["aspirin"], words))
        assert await talk.values(medicines) == [expected]


async def test_a_wish_to_forget_is_obeyed_where_only_concepts_are_looked_for() -> None:
    talk, request = Talk(), DetectionRequest(concepts=[EMPLOYER])
    async with talk.memory as memory:
        await talk.said(0, "I work at Acme.", told("employer", "Acme", "I work at Acme"))
        talk.found = over("employer", "Acme", "Forget that I work at Acme")
        await memory.remember(Message(content="Forget that I work at Acme.", timestamp=day(1)), looking_for=request)
        assert list(await memory.list_records()) == []


async def test_a_wish_to_forget_names_a_value_in_whatever_case() -> None:
    talk = Talk()
    async with talk.memory:
        await talk.said(0, "I am allergic to Nuts.", told("allergies", "Nuts", "I am allergic to Nuts"))
        outcome = await talk.said(1, "forget the nuts", over("allergies", "nuts", "forget the nuts"))
        assert {change.record.value for change in outcome.changes} == {"Nuts", "I am allergic to Nuts."}
        assert list(await talk.memory.list_records()) == []


async def test_an_end_leaves_the_value_that_its_own_statement_gives() -> None:
    medication = Concept.multiple("medication", "Drugs that the user takes", Medicine)
    talk, words = Talk(verdict="yes", concepts=[medication]), "She raised my sertraline from 50 to 100 mg."
    before, now = ({"drug": "sertraline", "milligrams": dose} for dose in (50, 100))
    async with talk.memory:
        quote = "I take 50 mg of sertraline"
        await talk.said(1, quote, {"medication": [{"quote": quote, "message": 1, "values": [before]}]})
        found = {"medication": [{"quote": words, "message": 1, "values": [now]}]}
        await talk.said(2, words, found | over("medication", "sertraline", "raised my sertraline from 50 to 100 mg"))
        assert await talk.values(medication) == [Medicine("sertraline", 100)]


@pytest.mark.parametrize("case", CASES["an end and a wish reach what they name and no more"], ids=lambda case: case[0])
async def test_an_end_and_a_wish_reach_what_they_name_and_no_more(case: tuple[Any, ...]) -> None:
    _, verdict, turns, left, is_dropped, asked = case
    talk = Talk(verdict)
    async with talk.memory:
        outcomes = [
            await talk.said(
                number,
                text,
                {keyword: items for finds, *said in found for keyword, items in FINDS[finds](*said).items()},
            )
            for number, text, *found in turns
        ]
        assert [await talk.values(concept) for concept in (ALLERGIES, EMPLOYER)] == left
        assert outcomes[-1].dropped == ({DropReason.NOT_CURRENT: 1} if is_dropped else {})
        assert asked in "".join(talk.claims)


@pytest.mark.parametrize("value", ["nuts", None])
async def test_a_wish_to_forget_takes_what_waits_in_quarantine_with_its_words(value: str | None) -> None:
    talk, wish = Talk(), "Forget my allergies to nuts."
    async with talk.memory as memory:
        await talk.said(1, "Maybe I am allergic to nuts.", told("allergies", "nuts", "Maybe I am allergic to nuts"))
        await talk.said(2, "Maybe I work at Acme.", told("employer", "Acme", "Maybe I work at Acme"))
        assert {record.value for record in await memory.inbox.quarantine.list()} == {"nuts", "Acme"}
        await talk.said(3, wish, over("allergies", value, wish))
        assert [record.value for record in await memory.inbox.quarantine.list()] == ["Acme"]
        assert [record.value for record in await memory.list_records()] == ["Maybe I work at Acme."]


@each_case("facts", "ends", "allergen", "firm")
async def test_what_is_plainly_over_ends_and_its_words_stay(
    facts: list[str], ends: list[str], allergen: str, firm: str
) -> None:
    answers = [
        told("allergies", allergen, facts[0]) | told("employer", firm, facts[1], 2),
        {"forget": [*over("allergies", allergen, ends[0])["forget"], *over("employer", firm, ends[1], 2)["forget"]]},
    ]
    with LoopbackOpenAIServer(answering(*answers)) as server:
        model = InstructorModel("m", base_url=server.base_url, api_key="k", tries=1, retries=0, pause=0.0)
        async with Memory("memory:", model=model, clock=lambda: LATER, concepts=[ALLERGIES, EMPLOYER]) as memory:
            talks = [
                Conversation(
                    messages=[Message(content=text, id=text, timestamp=day(number)) for text in words], id=str(number)
                )
                for number, words in enumerate((facts, ends))
            ]
            _, outcome = [await memory.remember(talk) for talk in talks]
            assert (outcome.dropped, outcome.waiting) == ({}, ())
            deleted = {change.record.value for change in outcome.changes if change.kind is ChangeKind.DELETED}
            assert deleted == {allergen, firm}
            assert await memory.load(ALLERGIES) is None
            assert await memory.load(EMPLOYER) is None
            assert {str(record.value) for record in await memory.list_records()} == {*facts, *ends}
            before = memory.view(as_of=day(0))
            assert [record.value for record in await before.list_records(concepts=[ALLERGIES])] == [allergen]
            assert [record.value for record in await memory.history(ALLERGIES)] == [allergen]
    assert len(server.requests) == 2, "nothing is asked about what is plainly said"


@pytest.mark.parametrize(("verdict", "left"), [("yes", []), ("no", ["Acme"]), ("unclear", ["Acme"])])
async def test_an_end_that_is_not_plain_is_asked_about_or_waits(verdict: str, left: list[str]) -> None:
    talk = Talk(verdict)
    async with talk.memory:
        await talk.said(1, "I work at Acme.", told("employer", "Acme", "I work at Acme"))
        outcome = await talk.said(2, "It is over between Acme and me.", over("employer", "Acme", "It is over"))
        assert await talk.values(EMPLOYER) == left
        (asked,) = talk.claims
        assert 'state="no longer so">Acme<' in asked
        assert outcome.dropped == ({DropReason.NOT_CONFIRMED: 1} if verdict == "no" else {})
        reasons = [record.quarantine_reason for record in outcome.waiting]
        assert reasons == (["would end this: not plainly said to be over"] if verdict == "unclear" else [])
        await talk.memory.inbox.quarantine.accept(*(record.id for record in outcome.waiting))
        assert await talk.values(EMPLOYER) == (["Acme"] if verdict == "no" else [])


async def test_a_fact_and_its_end_may_be_read_at_the_same_time() -> None:
    texts = ["I work at Acme.", "I am allergic to nuts.", "I quit my job at Acme."]
    talk = Talk()
    talk.found = told("employer", "Acme", texts[0]) | told("allergies", "nuts", texts[1], 2)
    talk.found = {**talk.found, **over("employer", "Acme", texts[2], 3)}
    async with talk.memory:
        await talk.memory.remember([Message(content=text, id=text, timestamp=NOON) for text in texts])
        assert (await talk.values(EMPLOYER), await talk.values(ALLERGIES)) == ([], ["nuts"])


@pytest.mark.parametrize(
    "fields", [{"role": "assistant"}, {"role": "document", "treatment": Treatment.QUARANTINED_FACTS}]
)
async def test_nobody_but_the_user_ends_a_fact(fields: dict[str, Any]) -> None:
    talk = Talk("yes")
    async with talk.memory:
        await talk.said(1, "I work at Acme.", told("employer", "Acme", "I work at Acme"))
        end = over("employer", "Acme", "I quit my job at Acme")
        outcome = await talk.said(2, "I quit my job at Acme.", end, **fields)
        assert await talk.values(EMPLOYER) == ["Acme"]
        assert all(record.value != "Acme" for record in outcome.waiting)


async def test_an_end_in_private_words_leaves_the_fact_of_all_others_alone() -> None:
    talk = Talk("yes")
    async with talk.memory:
        await talk.said(1, "I work at Acme.", told("employer", "Acme", "I work at Acme"))
        talk.found = over("employer", "Acme", "I quit my job at Acme")
        own = talk.memory.for_user("ann")
        outcome = await own.remember(
            Conversation(messages=[Message(content="I quit my job at Acme.", id="p", timestamp=day(2))], id="p"),
            private=True,
        )
        assert outcome.dropped == {DropReason.NOT_CURRENT: 1}
        assert await talk.values(EMPLOYER) == ["Acme"]


async def test_requested_concepts_end_too() -> None:
    talk = Talk()
    request = DetectionRequest(concepts=[EMPLOYER])
    answers: Sequence[tuple[str, dict[str, Any]]] = [
        ("I work at Acme.", told("employer", "Acme", "I work at Acme")),
        ("I quit my job at Acme.", over("employer", "Acme", "I quit my job at Acme")),
    ]
    async with talk.memory:
        for number, (text, found) in enumerate(answers):
            talk.found = found
            said = Message(content=text, id=text, timestamp=day(number))
            await talk.memory.remember(said, looking_for=request)
        assert await talk.values(EMPLOYER) == []


@each_case("text", "value", "left")
async def test_the_words_of_a_field_name_each_value_of_a_class(text: str, value: str, left: list[str]) -> None:
    medication = Concept.multiple("medication", "Drugs that the user takes", Medicine)
    model = ScriptedModel(lambda prompt, answer: over("medication", value, text))
    async with Memory("memory:", model=model, clock=lambda: LATER, concepts=[medication]) as memory:
        doses = [Medicine("Ibuprofen", 200), Medicine("Ibuprofen", 400), Medicine("Metformin", 500)]
        await memory.save(medication.fact(doses, timestamp=NOON))
        outcome = await memory.remember(Message(content=text, timestamp=day(1)))
        current = await memory.list_records(concepts=[medication])
    assert sorted(record.value.drug for record in current) == left
    assert outcome.dropped == ({DropReason.NOT_CURRENT: 1} if value == "aspirin" else {})
