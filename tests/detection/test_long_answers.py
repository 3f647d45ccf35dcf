"""Overlong answers of a model: their cost is bounded, and omitted items are counted."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pytest

from factmem.abc import Detection, DetectionRequest
from factmem.abc.detector import Conversation, DropReason, Message
from factmem.detection import InstructorDetector
from factmem.detection.quotes import QuotableText
from factmem.errors import FactMemError
from factmem.facts import Concept
from factmem.testing import ScriptedModel
from tests.conftest import Promise
from tests.growth import cpu_seconds, grows_faster

SEATS: Final = Concept.single("seats", "How many seats", int)
HOBBY: Final = Concept.multiple("hobby", "What they like")
TAGS: Final = Concept.multiple("tags", "Tags", list[str])
REQUEST: Final = DetectionRequest(concepts=[SEATS, HOBBY, TAGS], open=True)
TEXT: Final = "I like chess and we need 12 seats and hiking. " * 500


def fact(number: int, quote: str = "I like chess", value: object = "chess") -> dict[str, Any]:
    described = {"keyword": f"k{number}", "description": "d", "kind": "multiple"}
    return {"quote": quote, "message": 1, **described, "value": value}


Answer: TypeAlias = Callable[[int], dict[str, Any]]
ANSWERS: Final[dict[str, Answer]] = {
    "many facts": lambda size: {"facts": [fact(number) for number in range(size // 100)]},
    "many quotes that are nowhere": lambda size: {"facts": [fact(at, f"I like {at}") for at in range(size // 100)]},
    "many values": lambda size: {"hobby": [{"quote": "I like chess", "message": 1, "values": ["chess"] * (size // 8)}]},
    "a long list": lambda size: {"tags": [{"quote": "I like chess", "message": 1, "values": [["a"] * (size // 4)]}]},
    "a long quote": lambda size: {"facts": [fact(1, "chess " * (size // 6))]},
    "a long value": lambda size: {"facts": [fact(1, value="chess " * (size // 6))]},
    "many long quotes": lambda size: {"facts": [fact(at, TEXT) for at in range(size // len(TEXT))]},
    "many invalid items": lambda size: {"seats": [{"quote": "12 seats", "message": 1, "value": "x"}] * (size // 60)},
    "many strangers": lambda size: {"facts": [], "others": [{"quote": "chess"}] * (size // 20)},
}


async def read(text: str, answer: dict[str, Any]) -> Detection | None:
    detector = InstructorDetector(ScriptedModel(lambda prompt, model: answer))
    try:
        return await detector.detect(Conversation(messages=[Message(content=text)]), REQUEST)
    except FactMemError:
        return None


@pytest.mark.slow
def test_an_answer_of_ten_megabytes_costs_at_most_in_proportion_to_one_of_one(
    promise: Promise, pytestconfig: pytest.Config
) -> None:
    """Every form is read with --big, and else one in three."""
    big = pytestconfig.getoption("--big")
    slowest, forms = 0.0, list(ANSWERS.items()) if big else list(ANSWERS.items())[1::3]
    asyncio.run(read(TEXT, {}))
    for name, made in forms:
        costs: dict[int, float] = {}

        def cost(size: int, made: Answer = made, costs: dict[int, float] = costs) -> float:
            answer = made(size)
            costs[size] = cpu_seconds(lambda: asyncio.run(read(TEXT, answer)))
            return costs[size]

        assert not grows_faster(cost, 1_000_000, 10_000_000, times=10, least=0.1), name
        slowest = max(slowest, costs[10_000_000])
    promise("an answer of 10 MB", f"{slowest:.2f} s of CPU for the slowest of {len(forms)} forms")


async def test_items_beyond_what_the_text_can_hold_are_counted() -> None:
    found = await read("I like chess.", {"facts": [fact(number) for number in range(1_000)]})
    assert found is not None
    assert len(found.candidates) + found.dropped[DropReason.TOO_MANY] == 1_000
    assert 10 < len(found.candidates) < 100


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["a", "ab ", "a.", "é", "no "])
def test_quotes_are_found_in_time_linear_in_periodic_text(unit: str) -> None:
    def taken(length: int) -> float:
        text = QuotableText(unit * (length // len(unit)))
        half = unit * (length // len(unit) // 2)
        return cpu_seconds(lambda: (text.find(half), text.find(half + "x")))

    assert not grows_faster(taken, 25_000, 100_000, times=10, least=0.0125)
