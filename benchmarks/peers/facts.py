"""Generated facts and questions, the same for every peer and run."""

from __future__ import annotations

import json
import random
from pathlib import Path

from peers.protocol import Item

__all__ = ["made_up_facts", "made_up_questions"]

SAID_AT = 1_760_000_000.0
WORDS: dict[str, list[str]] = json.loads((Path(__file__).parent / "words.json").read_text(encoding="utf-8"))
PEOPLE, DEEDS, KINDS, THINGS, PLACES, TIMES = WORDS.values()


def made_up_facts(count: int) -> list[Item]:
    """Return statements of people about their lives, all of them different."""
    chance = random.Random(7)
    seen: dict[str, str] = {}
    while len(seen) < count:
        speaker, kinds = chance.choice(PEOPLE), chance.sample(KINDS, 2)
        things, places = chance.sample(THINGS, 2), chance.sample(PLACES, 2)
        words = (
            f"{chance.choice(PEOPLE)} {chance.choice(DEEDS)} a {kinds[0]} {things[0]} from {places[0]} "
            f"{chance.choice(TIMES)}, and a {kinds[1]} {things[1]} near {places[1]}."
        )
        seen.setdefault(words, speaker)
    return [
        Item(f"f{number}", words, words, speaker=speaker, at=SAID_AT)
        for number, (words, speaker) in enumerate(seen.items())
    ]


def made_up_questions(count: int) -> list[str]:
    """Return questions about such lives."""
    chance = random.Random(11)
    return [
        f"Who {chance.choice(DEEDS)} the {chance.choice(KINDS)} {chance.choice(THINGS)} "
        f"from {chance.choice(PLACES)} {chance.choice(TIMES)}?"
        for _ in range(count)
    ]
