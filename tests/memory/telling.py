"""Helpers for the tests of submission: conversations, a model that understands them, and its faults."""

from __future__ import annotations

import datetime as dt
import html
import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar

import anyio
import attrs

from factmem import AgentMemoryProvider, Background, Concept, Conversation, Memory, MemorySubject, Message, Policies
from factmem.abc import Prompt
from factmem.abc.capabilities import KeepsLog
from factmem.abc.consolidator import Action, Novelty, Verdict, Verdicts
from factmem.abc.model import LanguageModel
from factmem.facts import STATEMENT
from factmem.fold import states_of
from factmem.records import AssertionState, FactRecord, Recorded
from factmem.testing import HashEmbedder, ScriptedModel
from factmem.testing.chat_answers import confirmed
from factmem.testing.fakes import Script

if TYPE_CHECKING:
    from pydantic import BaseModel

AnswerT = TypeVar("AnswerT", bound="BaseModel")

USER: Final = MemorySubject("user", "who speaks")
CITY: Final = Concept.single("city", "Where somebody lives")
SEATS: Final = Concept.single("seats", "How many seats are booked", int)
PETS: Final = Concept.multiple("pets", "Animals that somebody keeps")
CONCEPTS: Final = (CITY, SEATS, PETS)
BEGAN: Final = dt.datetime(2024, 5, 8, 12, tzinfo=dt.UTC)
SOON: Final = Background(attempts=2, backoff=dt.timedelta(milliseconds=1))

_MESSAGE: Final = re.compile(r'<message number="(\d+)" take_facts="yes"[^>]*>(.*?)</message>', re.DOTALL)
_CITY: Final = re.compile(r"(?:I live in|actually it is) (\w+)")
_SEATS: Final = re.compile(r"(\d+) seats")
_PET: Final = re.compile(r"(?<!that )I have a (\w+)")
_FORGET: Final = re.compile(r"Forget that ([^.]+)")
_REMEMBER: Final = re.compile(r"Remember that ([^.]+)")
_TEXT: Final = re.compile(r"<text>\n(.*?)\n</text>", re.DOTALL)


def talk(*said: str, id: str = "talk", start: dt.datetime = BEGAN) -> Conversation:
    """Return a conversation of the user's messages, a minute apart."""
    times = (start + dt.timedelta(minutes=number) for number in range(len(said)))
    messages = [
        Message(content=text, id=f"m{number}", timestamp=time)
        for number, (text, time) in enumerate(zip(said, times, strict=True))
    ]
    return Conversation(messages=messages, id=id)


def understood(content: str) -> dict[str, Any]:
    """Return the findings of a model that understands a few sentences."""
    found: dict[str, list[dict[str, Any]]] = {"city": [], "seats": [], "pets": [], "remember": [], "forget": []}
    for number, escaped in _MESSAGE.findall(content):
        said = html.unescape(escaped)
        for name, pattern, read in (
            ("city", _CITY, lambda match: {"value": match[1]}),
            ("seats", _SEATS, lambda match: {"value": int(match[1])}),
            ("pets", _PET, lambda match: {"values": [match[1]]}),
            ("forget", _FORGET, lambda match: {"what": match[1], **_known(match[1])}),
            ("remember", _REMEMBER, lambda match: {"memory": match[1]}),
        ):
            for match in pattern.finditer(said):
                found[name].append({"quote": match[0], "message": int(number), **read(match)})
    return found


def _known(wish: str) -> dict[str, Any]:
    match = _PET.match(wish)
    return {"keyword": "pets", "value": match[1]} if match else {}


def answer_to(content: str, name: str) -> dict[str, Any]:
    """Return a healthy model's answer to a document, by the name of the requested type."""
    match name:
        case "Findings":
            return understood(content)
        case "Statements":
            (text,) = _TEXT.findall(content)
            return {"statements": [piece.strip() + "." for piece in html.unescape(text).split(".") if piece.strip()]}
        case "Analysis":
            return {"scope": "/product/alpha", "categories": ["plans"], "importance": 0.9, "entities": ["Ana"]}
        case _:
            return {"known": [], "insert": True}


def well(prompt: Prompt, answer: type[BaseModel]) -> dict[str, Any]:
    """Script of a healthy model: it answers under the keys of the request, and confirms what it is asked about."""
    if answer.__name__ == "VerifierAnswer":
        return confirmed(prompt.content)
    keys = {field.alias or name for name, field in answer.model_fields.items()}
    return {key: value for key, value in answer_to(prompt.content, answer.__name__).items() if key in keys}


def over_the_wire(request: dict[str, Any]) -> dict[str, Any]:
    """Return a healthy model's answer to a request."""
    name = request["response_format"]["json_schema"]["name"]
    documents = [message["content"] for message in request["messages"] if message["role"] == "user"]
    return answer_to(next(text for text in reversed(documents) if "<document>" in text or "<conv" in text), name)


@attrs.define
class Gated:
    """A model whose callers wait until its gate is opened.

    Attributes:
        script: returns its answers.
        asked: number of questions.
        under_way: number of questions waiting.
        most: the maximum number that waited at a time.
        gate: set it to release the answers.
    """

    script: Script = well
    max_chars: int = 24_000
    asked: int = 0
    under_way: int = 0
    most: int = 0
    gate: anyio.Event = attrs.field(factory=anyio.Event)

    async def ask(self, prompt: Prompt, answer: type[AnswerT]) -> AnswerT:
        self.asked += 1
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        try:
            await self.gate.wait()
            return await ScriptedModel(self.script).ask(prompt, answer)
        finally:
            self.under_way -= 1


@attrs.define
class Deciding:
    """A consolidator that decides the same about every known record, and records its questions.

    Attributes:
        action: what to do with a known record; an update takes the new text.
        insert: whether the new text is kept as a record of its own.
        asked: the questions.
    """

    action: Action = Action.KEEP
    insert: bool = True
    asked: list[Novelty] = attrs.field(factory=list)

    async def decide(self, novelty: Novelty) -> Verdicts:
        """Answer a question."""
        self.asked.append(novelty)
        verdict = Verdict(action=self.action, text=novelty.text if self.action is Action.UPDATE else None)
        return Verdicts(insert=self.insert, known=dict.fromkeys(range(len(novelty.known)), verdict))


async def until(true: Callable[[], bool]) -> None:
    """Wait until a condition holds; the time limit of the test ends a wait that lasts."""
    while not true():  # noqa: ASYNC110  # what is waited for is not always an event
        await anyio.sleep(0.002)


FOUND_ALONE = Policies(keep_words=False)


def opened(provider: AgentMemoryProvider, model: LanguageModel | None = None, **options: Any) -> Memory:
    """A memory with alice as its viewer that keeps facts without the words they were found in."""
    given: dict[str, Any] = {
        "viewer": "alice",
        "embedder": HashEmbedder(),
        "concepts": CONCEPTS,
        "background": SOON,
        "policies": FOUND_ALONE,
    }
    return Memory(provider, model=model, **{**given, **options})


async def log_of(
    provider: AgentMemoryProvider, organization: str | None = None
) -> tuple[list[Recorded], Counter[AssertionState]]:
    """Return the assertions recorded in a store, and the number of them in each state."""
    assert isinstance(provider, KeepsLog)
    log = await provider.changes(organization)
    return [entry for entry in log if isinstance(entry, Recorded)], Counter(states_of(log).values())


def said(records: Sequence[FactRecord[Any]]) -> list[Any]:
    """Return the values of records, sorted as texts."""
    return sorted((record.value for record in records), key=str)


def words(records: Sequence[FactRecord[Any]]) -> list[str]:
    """Return the free statements among records, sorted."""
    return said([record for record in records if record.concept.keyword == STATEMENT.keyword])
