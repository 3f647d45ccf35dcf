"""A model that remembers everything it is shown, and makes every change it can."""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from factmem.abc import Prompt
from tests.memory.telling import understood
from tests.walls.ways import Asked
from tests.walls.worlds import Plant
from tests.walls.writing import ALONE, MARK, OPENLY

if TYPE_CHECKING:
    from pydantic import BaseModel


_MESSAGE: Final = re.compile(r'<message number="(\d+)" take_facts="yes"[^>]*>(.*?)</message>', re.DOTALL)


def meddling_answers(prompt: Prompt, answer: type[BaseModel]) -> dict[str, Any]:
    """Script of such a model."""
    match answer.__name__:
        case "Findings":
            found = understood(prompt.content)
            for number, text in _MESSAGE.findall(prompt.content):
                said = html.unescape(text)
                found["remember"].append({"quote": said, "message": int(number), "memory": said})
            return found
        case "Analysis":
            return {"scope": "/product/a/x", "categories": [MARK], "importance": 0.9, "entities": [MARK]}
        case _:
            known = [{"number": 0, "action": "update", "text": f"{MARK} anew"}, {"number": 1, "action": "delete"}]
            return {"known": known, "insert": True}


def mixed(prompts: Iterable[Prompt], asked: Asked) -> list[list[Plant]]:
    """Return the plants of each prompt that mixes owners, or that shows a plant hidden from the caller.

    Pending words are read with their owner's view, regardless of the caller. So a prompt may be about another owner's
    pending words, but never shows plants of a second owner, of another organization, or outside the view. The caller's
    own texts are marked: beside them no plant is shown that is hidden from the caller, and beside its public texts no
    private one, the caller's included.
    """
    wrong = []
    for prompt in prompts:
        text = asked.unsaid(f"{prompt.instructions}\n{prompt.content}\n{prompt.examples}")
        shown = [plant for plant in asked.filled.world.plants if plant.token in text]
        owners = {plant.owner for plant in shown} - {None}
        strange = [plant for plant in shown if not _may_be_read(plant, asked)]
        if MARK in text:
            strange += [plant for plant in shown if not asked.caller.sees(plant)]
        if OPENLY in text and ALONE not in text:
            strange += [plant for plant in shown if plant.owner is not None]
        if strange or len(owners) > 1:
            wrong.append(strange or shown)
    return wrong


def _may_be_read(plant: Plant, asked: Asked) -> bool:
    return plant.scope.tenant == asked.caller.tenant and asked.caller.reaches(plant.scope) and not plant.fate.apart
