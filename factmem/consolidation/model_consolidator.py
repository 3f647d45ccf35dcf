"""The consolidator that asks a language model."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from typing import Final

import attrs
from anyio import to_thread

from factmem.abc import Prompt
from factmem.abc.consolidator import Known, Novelty, Verdicts
from factmem.abc.model import LanguageModel, WorkedExample
from factmem.llm.asking import ask
from factmem.llm.messages import document, element
from factmem.toml_tables import table

_ANSWERS: Final = "factmem.consolidation.verdicts"
"""Imports pydantic, which takes too long for the event loop."""


def _time(moment: dt.datetime) -> str:
    return f"{moment:%Y-%m-%d %H:%M}"


def _known(number: int, known: Known) -> str:
    return element("known", known.text, number=str(number), said=_time(known.said_at))


@functools.cache
def _task(name: str) -> tuple[str, Prompt]:
    """Return the tag of what is new in a question of ``questions.toml``, and the question without content."""
    data = table("consolidation/questions")[name]
    examples = tuple(_example(data["tag"], **item) for item in data["examples"])
    return data["tag"], Prompt(instructions=data["instructions"], content="", examples=examples)


def _example(tag: str, new: str, known: Sequence[str], answer: str) -> WorkedExample:
    lines = [f'<known number="{number}" said="2024-03-01 09:00">{text}</known>' for number, text in enumerate(known)]
    lines.append(f'<{tag} said="2024-05-20 18:30">{new}</{tag}>')
    return WorkedExample(content=document(*lines), answer=answer)


def _as_it_is(text: str) -> str:
    return text


@attrs.frozen(kw_only=True)
class InstructorConsolidator:
    """A `Consolidator` that asks a language model one question for each novelty.

    The model sees numbers and never an id. A known record that does not fit into the question, or holds a secret, is
    not shown and so is kept: an update would lose that part of it. If no record can be shown, or the novelty cannot,
    there is no call, and the novelty is inserted.

    Attributes:
        model: the language model.
        redact: removes secrets from a text before it is sent.
    """

    model: LanguageModel = attrs.field(kw_only=False)
    redact: Callable[[str], str] = _as_it_is

    async def decide(self, novelty: Novelty) -> Verdicts:
        """See `factmem.abc.Consolidator.decide`."""
        numbers, prompt = await to_thread.run_sync(self._question, novelty)
        if not numbers:
            return Verdicts()
        await to_thread.run_sync(import_module, _ANSWERS)
        from factmem.consolidation.verdicts import ConsolidationAnswer, verdicts_from

        return verdicts_from(await ask(self.model, prompt, ConsolidationAnswer), numbers)

    def _question(self, novelty: Novelty) -> tuple[list[int], Prompt]:
        """Return the prompt, and the index in the novelty of each number in it."""
        tag, prompt = _task("forget" if novelty.removal else "compare")
        new = element(tag, self.redact(novelty.text), said=_time(novelty.said_at))
        numbers = list(self._showable(novelty, self.model.max_chars - len(document(new))))
        lines = [_known(number, novelty.known[place]) for number, place in enumerate(numbers)]
        return numbers, attrs.evolve(prompt, content=document(*lines, new))

    def _showable(self, novelty: Novelty, room: int) -> Iterator[int]:
        """Yield the records that can be shown, the most similar first."""
        for number, known in enumerate(novelty.known):
            length = len(_known(number, known)) + 1
            if length <= room and self.redact(known.text) == known.text:
                room -= length
                yield number
