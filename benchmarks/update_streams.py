"""Generated streams of updates: messages over months about changing facts, and questions about them.

Each sentence is made from a pattern that also parses it, so that no model stands between a stream and the measured
store. Distractors mention the same topics and update nothing. Some messages are submitted long after their time.
"""

from __future__ import annotations

import datetime as dt
import enum
import random
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeAlias

import attrs

from factmem.abc import Candidate, Detection, DetectionRequest
from factmem.abc.detector import Conversation, Message
from factmem.details import FactDetails
from factmem.detection import utterances
from factmem.detection.utterances import Utterance
from factmem.facts import Concept, FactType
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

Answer: TypeAlias = frozenset[Any]
"""The value of a SINGLE, or the values of a MULTIPLE; empty if there is none."""


class Plan(enum.Enum):
    FREE = "free"
    TEAM = "team"
    BUSINESS = "business"
    ENTERPRISE = "enterprise"


USER = MemorySubject("user", "the person who speaks", priority_level=10)
SUBJECTS = {
    "the customer": USER,
    "Ann": USER.individual("Ann"),
    "the project": MemorySubject("project", "what is worked on", priority_level=20),
}
SCOPES = (MemoryScope.agent("planner"), MemoryScope.product("alpha"))
LATE_SHARE = 0.35
DISTRACTOR_SHARE = 0.5
MOST_MESSAGES = 5
BEGINNING = dt.datetime(2024, 1, 1, 8, tzinfo=dt.UTC)


@attrs.frozen
class Theme:
    """A concept with the sentences about it; ``{who}`` and ``{value}`` are filled in."""

    concept: Concept[Any, Any]
    values: Sequence[str]
    read: Callable[[str], object]
    said: Sequence[str]
    question: str
    distractors: Sequence[str]
    removed: Sequence[str] = ()


THEMES = (
    Theme(
        Concept.single("city", "Where somebody lives"),
        ("Oslo", "Rome", "Bonn", "Lima", "Accra", "Quito", "Hanoi", "Perth"),
        str,
        ("{who} lives in {value} now.", "{who} has moved to {value}.", "The new home of {who} is in {value}."),
        "Where does {who} live?",
        ("{who} spent a weekend in {value}.", "A friend of {who} lives in {value} now.", "{who} may move to {value}."),
    ),
    Theme(
        Concept.single("seats", "How many seats the subscription has", int),
        ("3", "5", "8", "12", "20", "40", "75"),
        int,
        ("{who} has {value} seats now.", "The seats of {who} were changed to {value}."),
        "How many seats does {who} have?",
        ("{who} asked what {value} seats would cost.", "A competitor of {who} has {value} seats now."),
    ),
    Theme(
        Concept.single("plan", "Which plan is subscribed to", Plan),
        tuple(plan.value for plan in Plan),
        Plan,
        ("{who} is on the {value} plan now.", "{who} switched to the {value} plan."),
        "Which plan is {who} on?",
        ("{who} read about the {value} plan.", "Others like {who} are on the {value} plan now."),
    ),
    Theme(
        Concept.single("renewal", "When the contract renews", dt.date),
        ("2025-01-31", "2025-03-15", "2025-06-30", "2025-09-01", "2025-12-24"),
        dt.date.fromisoformat,
        ("The contract of {who} renews on {value}.", "The renewal of {who} was put to {value}."),
        "When does the contract of {who} renew?",
        ("{who} has a meeting about the contract on {value}.", "The first contract of {who} was not for {value}."),
    ),
    Theme(
        Concept.multiple("languages", "Languages that somebody speaks"),
        ("Thai", "Ewe", "Lao", "Welsh", "Tamil", "Czech"),
        str,
        ("{who} speaks {value}.", "{who} has learnt {value}."),
        "Which languages does {who} speak?",
        ("{who} met somebody who speaks {value}.", "{who} would like to learn {value}."),
        removed=("{who} no longer speaks {value}.",),
    ),
    Theme(
        Concept.multiple("tools", "Tools that are in use"),
        ("Blender", "Excel", "Figma", "Jira", "Vim", "Word"),
        str,
        ("{who} works with {value}.", "{who} has taken up {value}."),
        "Which tools does {who} work with?",
        ("{who} heard a talk about {value}.", "{who} was asked about working with {value}."),
        removed=("{who} has given up {value}.",),
    ),
)
CONCEPTS = tuple(theme.concept for theme in THEMES)


@attrs.frozen
class Reading:
    """The meaning of a sentence."""

    who: str
    theme: Theme
    value: object
    removed: bool


def _pattern(sentence: str) -> re.Pattern[str]:
    who = "|".join(name for subject in SUBJECTS for name in {subject, _at_the_front(subject)})
    filled = re.escape(sentence).replace(r"\{who\}", f"(?P<who>{who})").replace(r"\{value\}", "(?P<value>[^ ]+)")
    return re.compile(filled)


def _at_the_front(text: str) -> str:
    return text[0].upper() + text[1:]


_PATTERNS = [
    (_pattern(sentence), theme, removed)
    for theme in THEMES
    for sentences, removed in ((theme.said, False), (theme.removed, True))
    for sentence in sentences
]


def read_sentence(text: str) -> Reading | None:
    """Parse a sentence of a stream, or return None if it updates nothing."""
    for pattern, theme, removed in _PATTERNS:
        if (found := pattern.fullmatch(text)) is not None:
            who = next(name for name in SUBJECTS if name.casefold() == found["who"].casefold())
            return Reading(who, theme, theme.read(found["value"]), removed)
    return None


class ScriptedDetector:
    """A `factmem.Detector` that parses the sentences of these streams."""

    async def detect(self, conversation: Conversation, request: DetectionRequest) -> Detection:
        said = utterances(conversation, BEGINNING)
        found = [(utterance, reading) for utterance in said if (reading := read_sentence(utterance.text)) is not None]
        return Detection(candidates=tuple(_candidate(utterance, reading) for utterance, reading in found))


def _candidate(utterance: Utterance, reading: Reading) -> Candidate:
    evidence = utterance.cite(0, len(utterance.text))
    return Candidate(
        fact=reading.theme.concept.fact([reading.value], timestamp=utterance.timestamp),
        details=FactDetails(evidence=(evidence,), origin=utterance.origin),
        subject=SUBJECTS[reading.who],
        removed=reading.removed,
    )


@attrs.frozen
class Said:
    """A message of a stream."""

    text: str
    at: dt.datetime
    scope: MemoryScope
    number: int

    @property
    def message(self) -> Message:
        return Message(content=self.text, id=f"m{self.number}", timestamp=self.at)


@attrs.frozen
class Question:
    """A question about one concept of one subject in one scope, now or at another time."""

    who: str
    theme: Theme
    scope: MemoryScope
    as_of: dt.datetime | None
    answer: Answer

    @property
    def text(self) -> str:
        return _at_the_front(self.theme.question.format(who=self.who))


@attrs.frozen
class Stream:
    """A stream of conversations, in order of submission, and the questions asked after them."""

    conversations: Sequence[tuple[MemoryScope, Sequence[Said]]]
    questions: Sequence[Question]

    @property
    def messages(self) -> list[Said]:
        return [said for _, conversation in self.conversations for said in conversation]


def generate(seed: str, updates: int) -> Stream:
    """Make a stream; the same seed gives the same stream."""
    chance = random.Random(seed)
    said = list(_said(chance, updates))
    conversations = list(_conversations(_handed_in(chance, said)))
    return Stream(conversations, _questions(chance, said))


def _said(chance: random.Random, updates: int) -> Iterator[Said]:
    at, number = BEGINNING, 0
    while number < updates:
        distracts = chance.random() < DISTRACTOR_SHARE
        theme, who, scope = chance.choice(THEMES), chance.choice(list(SUBJECTS)), chance.choice(SCOPES)
        removes = bool(theme.removed) and chance.random() < 0.35
        sentences = theme.distractors if distracts else theme.removed if removes else theme.said
        text = chance.choice(sentences).format(who=who, value=chance.choice(theme.values))
        at += dt.timedelta(minutes=chance.randint(1, 3 * 24 * 60))
        yield Said(_at_the_front(text), at, scope, number)
        number += 1


def _handed_in(chance: random.Random, said: Sequence[Said]) -> list[Said]:
    """Delay some messages by up to half of the stream."""

    def turn(item: Said) -> float:
        late = chance.random() < LATE_SHARE
        return item.number + (chance.uniform(1, len(said) / 2) if late else 0)

    return sorted(said, key=turn)


def _conversations(said: Sequence[Said]) -> Iterator[tuple[MemoryScope, list[Said]]]:
    batch: list[Said] = []
    for item in said:
        if batch and (item.scope != batch[0].scope or len(batch) == MOST_MESSAGES):
            yield batch[0].scope, batch
            batch = []
        batch.append(item)
    if batch:
        yield batch[0].scope, batch


def _questions(chance: random.Random, said: Sequence[Said]) -> list[Question]:
    """Ask about each mentioned track: its current value, and the value at the time of a message or in between."""
    questions = []
    for scope in SCOPES:
        for theme in THEMES:
            for who in SUBJECTS:
                updates = [item for item in said if item.scope == scope and _is_of(item, who, theme)]
                if not updates:
                    continue
                moment = chance.choice(updates).at + dt.timedelta(minutes=chance.choice([0, 30, 10_000]))
                for as_of in (None, moment):
                    answer = _answer([item for item in updates if as_of is None or item.at <= as_of])
                    questions.append(Question(who, theme, scope, as_of, answer))
    return questions


def _is_of(item: Said, who: str, theme: Theme) -> bool:
    reading = read_sentence(item.text)
    return reading is not None and reading.who == who and reading.theme is theme


def _answer(updates: Sequence[Said]) -> Answer:
    """Return the answer by the literal definition, in the order of the messages' times."""
    return follow([reading for item in updates if (reading := read_sentence(item.text)) is not None])


def follow(readings: Sequence[Reading]) -> Answer:
    """Return the current values after some updates of one track, applied in order."""
    standing: Answer = frozenset()
    for reading in readings:
        value = frozenset([reading.value])
        if reading.removed:
            standing -= value
        elif reading.theme.concept.fact_type is FactType.SINGLE:
            standing = value
        else:
            standing |= value
    return standing
