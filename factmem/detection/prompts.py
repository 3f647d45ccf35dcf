"""Prompts of the detector: instructions, the escaped document, and worked examples.

Small models answer well only in forms that they have seen, so that every question has examples. All of a question but
its last document is the same for every conversation that is read with one request, so that providers can cache it.
"""

from __future__ import annotations

import datetime as dt
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import attrs

from factmem.abc import DetectionExample, Prompt
from factmem.abc.detector import Conversation, Message
from factmem.abc.model import WorkedExample
from factmem.abc.topics import EXPLICIT_INSTRUCTIONS, Topic
from factmem.details import Origin
from factmem.detection.tasks import DetectionTask
from factmem.detection.utterances import Utterance, utterances
from factmem.detection.windows import Window
from factmem.facts import Concept, Fact, FactType
from factmem.languages import sentence_spans
from factmem.llm.messages import element, fitting, section
from factmem.shapes import Shape, words_for
from factmem.toml_tables import table
from factmem.value_types import JSON_SHAPE, scalar_of_shape
from factmem.values import encode_value, value_text


def sample_of(shape: Shape) -> tuple[Any, str]:
    """Return an example value of a shape: its JSON, and the value as a person says it."""
    match shape:
        case str():
            scalar = scalar_of_shape(shape) or scalar_of_shape(JSON_SHAPE)
            assert scalar is not None
            return scalar.sample, scalar.spoken or str(scalar.sample)
        case {"enum": [first, *_]}:
            return first, str(first)
        case {"list": item}:
            sample, said = sample_of(item)
            return [sample], said
        case {"map": item}:
            sample, said = sample_of(item)
            return {"north": sample}, f"{said} for north"
        case {"tuple": items}:
            samples = [sample_of(item) for item in items]
            return [sample for sample, _ in samples], ", ".join(said for _, said in samples)
        case {"union": options}:
            return sample_of(_first_of(options))
        case {"object": fields}:
            made = {name.removesuffix("?"): sample_of(inner) for name, inner in fields.items()}
            told = ", ".join(f"{_spaced(name)} {said}" for name, (_, said) in made.items())
            return {name: sample for name, (sample, _) in made.items()}, told
        case _:
            return sample_of(JSON_SHAPE)


def _first_of(options: Sequence[Shape]) -> Shape:
    return next((option for option in options if option != "null"), "null")


def _spaced(name: str) -> str:
    return name.replace("_", " ")


_SAID_AT: Final = dt.datetime(2024, 5, 31, 9, tzinfo=dt.UTC)
_CONCEPTS_SHOWN: Final = 2
"""Number of requested concepts in an example, unless more have examples of their own; with other facts, one."""


@attrs.frozen
class _Line:
    """One message of an example, with its extractions: pairs of a field of the answer and an item."""

    text: str
    found: tuple[tuple[str, dict[str, Any]], ...] = ()
    role: str = attrs.field(default="user", kw_only=True)


_KNOWN: Final = Concept.multiple("allergy", "what somebody cannot eat")


def _written(name: str) -> list[_Line]:
    """Return the messages of an example that are written in ``prompts.toml``."""
    return [
        _Line(
            line["text"],
            tuple((found["field"], found["item"]) for found in line.get("found", ())),
            role=line.get("role", "user"),
        )
        for line in table("detection/prompts")["detect"][name]
    ]


def worked_examples(task: DetectionTask) -> tuple[WorkedExample, ...]:
    """Return an example without extractions, one with all that the task looks for, and the request's own.

    Small models lean on the last one. A concept whose values are any text has an example only if it brings one: a
    sentence made for it would teach nonsense. A task that leaves nothing to show has no examples.
    """
    shown = _shown_concepts(task)
    header = _sections({"known_keywords": [_in_use(_KNOWN)] if task.open else []})
    lines = _lines(task, shown)
    if not any(line.found for line in lines) and not task.examples:
        return ()
    made = [_example(task, "", _written("nothing_lines")), _example(task, header, lines)]
    return (*made, *(_own(task, header, example) for example in task.examples))


def _shown_concepts(task: DetectionTask) -> dict[str, Concept[Any, Any]]:
    """Return the requested concepts of the examples: all that have examples of their own, filled up with others."""
    own = {name: concept for name, concept in task.fields.items() if concept.examples}
    others = [(name, concept) for name, concept in task.fields.items() if name not in own]
    others.sort(key=lambda item: _is_text(item[1].shape))
    shown = _CONCEPTS_SHOWN - task.open
    return own | dict(others[: max(shown - len(own), 0)])


def _is_text(shape: Shape) -> bool:
    """Return whether the values of a shape are any text, or lists of texts."""
    match shape:
        case {"list": item}:
            return _is_text(item)
        case {"union": options}:
            return _is_text(_first_of(options))
        case _:
            return shape in ("str", JSON_SHAPE)


def _lines(task: DetectionTask, shown: Mapping[str, Concept[Any, Any]]) -> list[_Line]:
    lines = [line for name, concept in shown.items() for line in _targeted(name, concept)]
    if task.open:
        lines += _written("open_lines")
    elif lines:
        lines += _written("thanked_lines")
    lines += _joined([*_topic_lines(task), *(_written("instruction_lines") if task.instructions else ())])
    return lines if task.open else [*lines, *_written("supposed_lines")]


def _targeted(name: str, concept: Concept[Any, Any]) -> Iterator[_Line]:
    pairs = [(text, encode_value(value, concept.value_type)) for text, value in concept.examples]
    if not pairs and _is_text(concept.shape):
        return
    keyword = _spaced(concept.keyword)
    sample, said = sample_of(concept.shape)
    for text, value in pairs or [(f"We settled on {said} for the {keyword}.", sample)]:
        values = {"value": value} if concept.fact_type is FactType.SINGLE else {"values": [value]}
        # Quote the whole message: from "seats: 7" small models learn to quote words that were never said.
        yield _Line(text, ((name, {"quote": text, **values}),))


def _topic_lines(task: DetectionTask) -> Iterator[_Line]:
    """Yield the examples of the topics; a topic without any has one that could be about anything."""
    for topic in task.topics:
        for text, memory in topic.examples or _any_example(topic, task):
            yield _Line(text, (("memories", {"quote": text, "memory": memory, "topics": [topic.label]}),))


def _joined(lines: Sequence[_Line]) -> list[_Line]:
    """Return one message that says what several do; none for none."""
    found = tuple(found for line in lines for found in line.found)
    return [_Line(" ".join(line.text for line in lines), found)] if lines else []


def _any_example(topic: Topic, task: DetectionTask) -> Sequence[tuple[str, str]]:
    if any(topic.label in labels for example in task.examples for _, labels in example.memories):
        return ()
    name = _spaced(topic.label)
    return (
        (f"About {name}: Ana says that it can wait until Monday.", f"Ana says that {name} can wait until 3 June 2024."),
    )


def _example(task: DetectionTask, header: str, lines: Sequence[_Line]) -> WorkedExample:
    said = [Message(content=line.text, role=line.role, timestamp=_SAID_AT) for line in lines]
    found = [(field, {**item, "message": number}) for number, line in enumerate(lines, 1) for field, item in line.found]
    return WorkedExample(content=_shown(header, _uttered(Conversation(messages=said))), answer=_answer(task, found))


def _own(task: DetectionTask, header: str, example: DetectionExample) -> WorkedExample:
    """Return an example of the request. Each finding cites the sentence that shares most words with it."""
    said = _uttered(example.conversation)
    found = [
        (field, {**cited, **item})
        for field, words, item in (*_memories_of(task, example), *_facts_of(task, example))
        if (cited := _nearest(words, said)) is not None
    ]
    return WorkedExample(content=_shown(header, said), answer=_answer(task, found))


def _memories_of(task: DetectionTask, example: DetectionExample) -> Iterator[tuple[str, str, dict[str, Any]]]:
    for memory, labels in example.memories:
        if EXPLICIT_INSTRUCTIONS.label in labels and task.instructions:
            yield "remember", memory, {"memory": memory}
        elif task.topics:
            yield "memories", memory, {"memory": memory, "topics": list(labels)}


def _facts_of(task: DetectionTask, example: DetectionExample) -> Iterator[tuple[str, str, dict[str, Any]]]:
    names = {concept.keyword: name for name, concept in task.fields.items()}
    for fact in example.facts:
        values = [encode_value(value, fact.concept.value_type) for value in fact.values]
        for value, text in ((value, value_text(value)) for value in values):
            if (name := names.get(fact.concept.keyword)) is not None:
                single = fact.concept.fact_type is FactType.SINGLE
                yield name, text, {"value": value} if single else {"values": [value]}
            elif task.open:
                yield "facts", text, _open_item(task, fact, text)


def _open_item(task: DetectionTask, fact: Fact[Any], value: str) -> dict[str, Any]:
    concept = fact.concept
    item = {"keyword": concept.keyword, "kind": concept.fact_type.value, "value": value}
    known = any(other.keyword == concept.keyword for other in task.in_use)
    return item if known else {**item, "description": concept.description or _spaced(concept.keyword)}


def _uttered(conversation: Conversation) -> tuple[Utterance, ...]:
    return tuple(item for item in utterances(conversation, _SAID_AT) if item.origin.trusted)


def _shown(header: str, said: Iterable[Utterance]) -> str:
    return _document(header, Window.of((item, item.origin is Origin.USER) for item in said))


def _document(header: str, window: Window) -> str:
    return f"<conversation>\n{header}{window.rendered()}\n</conversation>"


def _nearest(text: str, said: Sequence[Utterance]) -> dict[str, Any] | None:
    """Return the user's sentence that shares most words with a text, as a citation."""
    wanted = set(re.findall(r"\w+", text.casefold()))
    sentences = [
        (len(wanted.intersection(re.findall(r"\w+", item.text[start:end].casefold()))), -number, item.text[start:end])
        for number, item in enumerate(said, 1)
        if item.origin is Origin.USER
        for start, end in sentence_spans(item.text)
    ]
    if not sentences:
        return None
    _, number, quote = max(sentences, key=lambda sentence: sentence[:2])
    return {"quote": quote, "message": -number}


def _answer(task: DetectionTask, found: Iterable[tuple[str, dict[str, Any]]]) -> str:
    lists = {"facts": task.open, "memories": task.topics, "remember": task.instructions, "forget": task.ends}
    asked = [*task.fields, *(name for name, wanted in lists.items() if wanted)]
    answer: dict[str, list[dict[str, Any]]] = {name: [] for name in asked}
    about = {"about": next(iter(task.subjects))} if task.several_subjects else {}
    for field, item in found:
        # The citation comes first, so that a model looks before it answers.
        cited = {"quote": item["quote"], "message": item["message"]}
        if field in answer:
            answer[field].append({**cited, **about, **item})
    return json.dumps(answer, ensure_ascii=False, separators=(",", ":"))


def prompts_for(task: DetectionTask, header: str, windows: Iterable[Window]) -> list[Prompt]:
    """Return the prompt of each window.

    Args:
        task: the task.
        header: the header of the document; see `header_of`.
        windows: the messages.
    """
    instructions, examples = _instructions(task), worked_examples(task)
    return [
        Prompt(instructions=instructions, content=_document(header, window), examples=examples) for window in windows
    ]


def _instructions(task: DetectionTask) -> str:
    asked = {
        "task": True,
        "about": task.several_subjects,
        "targeted": task.fields,
        "open": task.open,
        "topics": task.topics,
        "instructions": task.instructions,
        "ended": task.ends and not task.instructions,
    }
    texts = table("detection/prompts")["detect"]
    return "\n".join(texts[part] for part, wanted in asked.items() if wanted)


def header_of(task: DetectionTask, max_chars: int) -> str:
    """Return the part of the document before the messages: subjects, concepts, topics, keywords in use.

    The keywords, which grow with a memory, come last.

    Args:
        task: the task.
        max_chars: maximum length of the list of keywords in use; the last ones are left out.
    """
    in_use = task.in_use if task.open or task.instructions else ()  # for other facts, and for requests to forget
    return _sections(
        {
            "subjects": [element("subject", of.prompt_description, name=label) for label, of in task.subjects.items()],
            "concepts": [_requested(field, concept) for field, concept in task.fields.items()],
            "topics": [element("topic", topic.description, label=topic.label) for topic in task.topics],
            "known_keywords": fitting(map(_in_use, in_use), max_chars),
        }
    )


def _sections(parts: Mapping[str, Sequence[str]]) -> str:
    return "".join(f"{section(tag, lines)}\n" for tag, lines in parts.items() if lines)


def _requested(field: str, concept: Concept[Any, Any]) -> str:
    """Return a requested concept, whose type is in the schema of the answer."""
    keyword = None if field == concept.keyword else concept.keyword
    return element("concept", concept.description, field=field, keyword=keyword)


def _in_use(concept: Concept[Any, Any]) -> str:
    kind, shape = concept.fact_type.value, words_for(concept.shape)
    return element("keyword", concept.description, name=concept.keyword, kind=kind, type=shape)
