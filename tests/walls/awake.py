"""A model that takes everything it is shown for a memory, and meddles with all that it may."""

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

__all__ = ["awake", "mixed"]

_MESSAGE: Final = re.compile(r'<message number="(\d+)" take_facts="yes"[^>]*>(.*?)</message>', re.DOTALL)


def awake(prompt: Prompt, answer: type[BaseModel]) -> dict[str, Any]:
    """The script of such a model."""
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
    """Return what was shown together to a model and must not be: of two owners, or what is hidden from a seat.

    Words are read as their owner sees the store, whoever has them read. So a question may be about what somebody
    else left unread, but never shows anything of a second owner, nor of another organization, nor out of the view.
    What the seat itself says is marked: with that goes nothing that the seat does not see; and with what it says to
    everybody nothing that is anybody's own, the seat's included.
    """
    wrong = []
    for prompt in prompts:
        text = asked.unsaid(f"{prompt.instructions}\n{prompt.content}\n{prompt.examples}")
        shown = [plant for plant in asked.grown.world.plants if plant.token in text]
        owners = {plant.owner for plant in shown} - {None}
        strange = [plant for plant in shown if not _may_be_read(plant, asked)]
        if MARK in text:
            strange += [plant for plant in shown if not asked.seat.sees(plant)]
        if OPENLY in text and ALONE not in text:
            strange += [plant for plant in shown if plant.owner is not None]
        if strange or len(owners) > 1:
            wrong.append(strange or shown)
    return wrong


def _may_be_read(plant: Plant, asked: Asked) -> bool:
    return plant.scope.tenant == asked.seat.tenant and asked.seat.reaches(plant.scope) and not plant.fate.apart
