"""Cases of support: a user's message, a quote from it, and a value that a model derives from the quote.

A line of a file has a concept of `CONCEPTS`, the value as JSON, and the message with the quote between ``[[`` and
``]]``. ``A: ... >>`` before it is the assistant's previous message. All messages are of Wednesday, 8 May 2024, at noon.
A line that begins with ``#`` names the kind of the cases below it.
"""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Literal

import attrs

from factmem.abc import Conversation, Detection, DetectionRequest, Message, Topic
from factmem.detection import InstructorDetector
from factmem.facts import STATEMENT, Concept
from factmem.testing import ScriptedModel

__all__ = ["CONCEPTS", "Case", "cases", "detect"]

FOLDER: Final = Path(__file__).parent / "support"
SAID_AT: Final = dt.datetime(2024, 5, 8, 12, tzinfo=dt.UTC)


def _choice(name: str, *members: str) -> type[enum.Enum]:
    return enum.Enum(name, {member.upper().replace(" ", "_"): member for member in members})  # type: ignore[return-value]


@attrs.frozen
class Address:
    street: str
    number: int
    city: str


@attrs.frozen
class Animal:
    name: str
    species: str | None = None
    age: int | None = None


_TEAM: Any = Literal["platform", "security", "design"]
_single, _multiple = Concept.single, Concept.multiple
CONCEPTS: Final[dict[str, Concept[Any, Any]]] = {
    concept.keyword: concept
    for concept in (
        STATEMENT,
        _single("city", "The city where they live"),
        _single("seats", "How many seats they need", int),
        _single("plan", "Their plan", _choice("Plan", "free", "pro", "enterprise")),
        _single("diet", "What they eat", _choice("Diet", "omnivore", "vegetarian", "vegan")),
        _single("deadline", "When it is due", dt.date),
        _single("birthday", "When they were born", dt.date),
        _single("meeting", "When they meet", dt.datetime),
        _single("budget", "Their budget", decimal.Decimal),
        _single("discount", "The discount", float),
        _single("smoker", "Whether they smoke", bool),
        _single("newsletter", "Whether they want the newsletter", bool),
        _single("has_car", "Whether they own a car", bool),
        _single("remote", "Whether they work remotely", bool),
        _single("drink", "Their favourite drink"),
        _multiple("hobby", "What they like to do"),
        _multiple("allergies", "Foods that they are allergic to"),
        _multiple("dislikes", "What they dislike"),
        _single("name", "What they are called"),
        _single("employer", "The company that they work for"),
        _single("job", "What they do for a living"),
        _multiple("pet", "An animal that they keep"),
        _single("car", "The car that they drive"),
        _single("duration", "How long it takes", dt.timedelta),
        _single("wake", "When they get up", dt.time),
        _single("priority", "How urgent it is", _choice("Priority", "low", "medium", "high")),
        _single("frequency", "How often it happens", _choice("Frequency", "daily", "weekly", "monthly")),
        _single("tone", "How they want to be answered", _choice("Tone", "formal", "casual")),
        _multiple("language", "A language that they speak"),
        _single("email", "Their mail address"),
        _single("website", "Their home page"),
        _single("age", "Their age in years", int),
        _single("children", "How many children they have", int),
        _single("rating", "How many stars they give", float),
        _single("team", "Their team", _TEAM),
        _single("address", "Where they live", Address),
        _single("animal", "Their pet", Animal),
        _single("stack", "The languages that they program in", list[str]),
        _multiple("goals", "What they want to reach"),
        _multiple("former_city", "Where they lived before"),
        _single("destination", "Where they plan to travel"),
        _single("phone", "Their phone number"),
        _single("marital", "Their marital status", _choice("Marital", "single", "married", "divorced")),
        _single("size", "The size of their clothes", _choice("Size", "S", "M", "L", "XL")),
        _single("theme", "The theme of the interface", _choice("Theme", "light", "dark")),
        _single("contact", "How to reach them", _choice("Contact", "email", "phone", "sms")),
        _single("status", "How far it is", _choice("Status", "todo", "in progress", "done")),
        _single("weight", "Their weight in kilograms", float),
    )
}


@attrs.frozen
class Case:
    """A message, and a value that a model derives from it.

    Attributes:
        concept: the keyword of the concept.
        value: the value, as JSON.
        text: the message.
        quote: the words quoted.
        asked: the assistant's previous message; empty if there is none.
        kind: what the case is an example of; empty if its file does not sort its cases.
    """

    concept: str
    value: Any
    text: str
    quote: str
    asked: str = ""
    kind: str = ""

    def __str__(self) -> str:
        return f"{self.concept}={json.dumps(self.value, ensure_ascii=False)} from {self.text!r}"


def cases(name: str) -> list[Case]:
    """Return the cases of a file."""
    return list(_read((FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines()))


def _read(lines: list[str]) -> Iterator[Case]:
    kind = ""
    for line in lines:
        if line.startswith("# "):
            kind = line.removeprefix("# ")
            continue
        concept, value, said = line.split("\t")
        asked, _, text = said.replace("\\n", "\n").rpartition(" >> ")
        quote = text[text.index("[[") + 2 : text.index("]]")]
        plain = text.replace("[[", "").replace("]]", "")
        yield Case(concept, json.loads(value), plain, quote, asked.removeprefix("A: "), kind)


async def detect(case: Case) -> Detection:
    """Return the outcome of detection for a case."""
    concept = CONCEPTS[case.concept]
    messages = [Message(content=case.asked, role="assistant")] if case.asked else []
    messages.append(Message(content=case.text))
    cited = {"quote": case.quote, "message": len(messages)}
    if concept == STATEMENT:
        request = DetectionRequest(topics=[Topic("all")])
        answer = {"memories": [{**cited, "memory": case.value, "topics": ["all"]}]}
    else:
        several = concept.fact_type.value == "multiple"
        request = DetectionRequest(concepts=[concept])
        answer = {concept.keyword: [{**cited, **({"values": [case.value]} if several else {"value": case.value})}]}
    detector = InstructorDetector(ScriptedModel(lambda prompt, model: answer))
    conversation = Conversation(messages=messages, id="c", started_at=SAID_AT)
    found = await detector.detect(conversation, request)
    said = tuple(item for item in found.candidates if item.fact.concept.keyword == concept.keyword)
    return attrs.evolve(found, candidates=said)
