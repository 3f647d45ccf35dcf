"""Worked examples of a question: small models answer well only what they have seen answered."""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import attrs

from factmem.abc import (
    EXPLICIT_INSTRUCTIONS,
    KEY_CONVERSATION_DETAILS,
    PERSONAL_INFORMATION,
    PREFERENCES,
    Conversation,
    DetectionExample,
    Message,
    WorkedExample,
)
from factmem.detection.question import Question
from factmem.detection.type_words import sample_of
from factmem.detection.utterances import Utterance, utterances
from factmem.detection.windows import Excerpt, Window
from factmem.facts import Concept, FactType
from factmem.records import Origin

__all__ = ["texts_of_examples", "worked_examples"]

_SAID_AT: Final = dt.datetime(2024, 5, 31, 9, tzinfo=dt.UTC)
_CONCEPTS_SHOWN: Final = 2


@attrs.frozen
class _Line:
    """One message of an example, with what is found in it: the field of the answer and the item."""

    text: str
    found: tuple[tuple[str, dict[str, Any]], ...] = ()
    role: str = attrs.field(default="user", kw_only=True)


_OPEN: Final = (
    _Line(
        "I live in Porto and I have a dog called Rex.",
        (
            (
                "facts",
                {
                    "quote": "I live in Porto",
                    "keyword": "home_city",
                    "description": "the city where they live",
                    "kind": "single",
                    "value": "Porto",
                },
            ),
            (
                "facts",
                {
                    "quote": "I have a dog called Rex",
                    "keyword": "pet",
                    "description": "an animal that they keep",
                    "kind": "multiple",
                    "value": "Rex, a dog",
                },
            ),
        ),
    ),
    _Line("Lisbon is lovely as well, and dogs like its beaches.", role="assistant"),
)
_INSTRUCTIONS: Final = (
    _Line(
        "Please remember that I am allergic to nuts.",
        (("remember", {"quote": "I am allergic to nuts", "memory": "The user is allergic to nuts."}),),
    ),
    _Line(
        "And forget what I told you about my old car.",
        (
            (
                "forget",
                {
                    "quote": "forget what I told you about my old car",
                    "what": "What the user told about their old car.",
                    "keyword": None,
                    "value": None,
                },
            ),
        ),
    ),
)
_MEMORIES: Final = {
    PERSONAL_INFORMATION.label: ("My sister Ana is a nurse in Faro.", "The user's sister Ana is a nurse in Faro."),
    PREFERENCES.label: ("I prefer trains to planes.", "The user prefers trains to planes."),
    KEY_CONVERSATION_DETAILS.label: (
        "Good, then we open the shop on 3 June.",
        "The user decided on 31 May 2024 to open the shop on 3 June 2024.",
    ),
}
_NOTHING: Final = (
    _Line("Good morning! Could you tell me what a fjord is?"),
    _Line("A fjord is a long, narrow arm of the sea between cliffs.", role="assistant"),
    _Line("Thank you, that is all."),
)


def worked_examples(question: Question) -> tuple[WorkedExample, ...]:
    """Return an example with nothing in it, one of all that is looked for, and the request's own.

    Small models lean on the last one.
    """
    made = [_example(question, _NOTHING), _example(question, _lines(question))]
    return (*made, *(_own(question, example) for example in question.examples))


def texts_of_examples(question: Question) -> frozenset[str]:
    """Return the sentences and values that the examples' answers give, in lower case."""
    lines = (*_OPEN, *_INSTRUCTIONS)
    items = [item for line in lines for _, item in line.found]
    told = {str(item[key]) for item in items for key in ("memory", "what", "value") if item.get(key)}
    told |= {memory for _, memory in _MEMORIES.values()} | {str(sample_of("str"))}
    told |= {memory for example in question.examples for memory, _ in example.memories}
    return frozenset(text.casefold() for text in told)


def _lines(question: Question) -> list[_Line]:
    lines = [_targeted(name, concept) for name, concept in list(question.fields.items())[:_CONCEPTS_SHOWN]]
    lines += [_Line("Thank you, I have noted that.", role="assistant")] if lines else []
    lines += _OPEN if question.open else ()
    lines += [_memory(topic.label) for topic in question.topics if topic.label in _MEMORIES]
    lines += _INSTRUCTIONS if question.instructions else ()
    return [*lines, _Line("Have a nice day!")]


def _targeted(name: str, concept: Concept[Any, Any]) -> _Line:
    sample = sample_of(concept.shape)
    words = sample if isinstance(sample, str) else json.dumps(sample, ensure_ascii=False)
    # The whole message is quoted: of "seats: 7" small models learn the form, and quote what nobody said.
    text = f"And for the {concept.keyword.replace('_', ' ')} I would say {words}, thank you."
    value = {"value": sample} if concept.fact_type is FactType.SINGLE else {"values": [sample]}
    return _Line(text, ((name, {"quote": text, **value}),))


def _memory(label: str) -> _Line:
    text, memory = _MEMORIES[label]
    return _Line(text, (("memories", {"quote": text, "memory": memory, "topics": [label]}),))


def _example(question: Question, lines: Sequence[_Line]) -> WorkedExample:
    said = [Message(content=line.text, role=line.role, timestamp=_SAID_AT) for line in lines]
    found = [(field, {**item, "message": number}) for number, line in enumerate(lines, 1) for field, item in line.found]
    return WorkedExample(content=_shown(_uttered(Conversation(messages=said))), answer=_answer(question, found))


def _own(question: Question, example: DetectionExample) -> WorkedExample:
    """Show an example of the request's, each memory with the message that shares most words with it."""
    said = _uttered(example.conversation)
    found: list[tuple[str, dict[str, Any]]] = []
    for memory, labels in example.memories:
        number = _nearest(memory, said)
        if number is None:
            continue
        cited = {"quote": said[number].text, "message": number + 1, "memory": memory}
        if EXPLICIT_INSTRUCTIONS.label in labels and question.instructions:
            found.append(("remember", cited))
        elif question.topics:
            found.append(("memories", {**cited, "topics": list(labels)}))
    return WorkedExample(content=_shown(said), answer=_answer(question, found))


def _uttered(conversation: Conversation) -> tuple[Utterance, ...]:
    trusted = (utterance for utterance in utterances(conversation, _SAID_AT) if utterance.origin.trusted)
    return tuple(trusted)


def _shown(said: Iterable[Utterance]) -> str:
    excerpts = (
        Excerpt(utterance=item, start=0, end=len(item.text), giving=item.origin is Origin.USER) for item in said
    )
    return f"<document>\n<conversation>\n{Window(tuple(excerpts)).rendered()}\n</conversation>\n</document>"


def _nearest(memory: str, said: Sequence[Utterance]) -> int | None:
    wanted = set(re.findall(r"\w+", memory.casefold()))
    shared = {
        number: len(wanted.intersection(re.findall(r"\w+", item.text.casefold())))
        for number, item in enumerate(said)
        if item.origin is Origin.USER
    }
    return max(shared, key=lambda number: shared[number], default=None)


def _answer(question: Question, found: Iterable[tuple[str, dict[str, Any]]]) -> str:
    answer: dict[str, list[dict[str, Any]]] = {name: [] for name in question.fields}
    answer |= {"facts": []} if question.open else {}
    answer |= {"memories": []} if question.topics else {}
    answer |= {"remember": [], "forget": []} if question.instructions else {}
    about = {"about": next(iter(question.subjects))} if question.several_subjects else {}
    for field, item in found:
        # Where it stands comes first, so that a model looks before it says.
        cited = {"quote": item["quote"], "message": item["message"]}
        answer[field].append({**cited, **about, **item})
    return json.dumps(answer, ensure_ascii=False)
