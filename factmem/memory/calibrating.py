"""Calibration: how much words count beside the meaning of an embedder, measured on the texts of a store.

Without questions, the beginnings of statements are asked, and their ends are searched: the further the cosine of two
halves of one statement lies above that of others, in standard deviations, the better the embedder tells what belongs
together. The line from this separation to a weight goes through the embedders whose weight was tuned on questions with
known answers (`factmem.recall.scoring.CALIBRATIONS`).

With questions whose answers are known, the weights that find them best are taken.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from statistics import fmean
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from factmem.abc.embedder import Embedder
from factmem.errors import InvalidDataError
from factmem.recall.embedders import embedded
from factmem.recall.scoring import Calibration

LEAST_TEXTS: Final = 30
"""Number of texts that a calibration needs."""

MOST_TEXTS: Final = 300
"""Number of texts that a calibration reads at most."""

WEIGHTS: Final = tuple(round(0.05 * step, 2) for step in range(2, 17))
"""The weights that a calibration chooses from."""

_WORDS: Final = 8
"""Least number of words of a text whose halves tell something."""

_AT_NONE: Final = 0.75
_SLOPE: Final = 0.45
"""The weight of an embedder that tells nothing apart, and the loss for each standard deviation."""

_ALIKE: Final = 0.005
"""Largest difference of two mean reciprocal ranks that count as equal."""

_SPACES: Final = re.compile(r"\s+")

_Cosines: TypeAlias = NDArray[np.float32]


async def calibrated_on_texts(embedder: Embedder, texts: Sequence[str]) -> Calibration:
    """Return the calibration of an embedder, measured on texts.

    Args:
        embedder: The embedder.
        texts: Statements; short ones are left out.

    Raises:
        InvalidDataError: There are too few texts.
        EmbedderError: The embedder failed.
    """
    split = [words for text in texts if len(words := _SPACES.split(text.strip())) >= _WORDS]
    if len(split) < LEAST_TEXTS:
        raise InvalidDataError(
            f"a calibration needs {LEAST_TEXTS} statements of {_WORDS} words, but there are {len(split)}: "
            "give questions with their answers instead"
        )
    beginnings = [" ".join(words[: len(words) // 2]) for words in split]
    ends = [" ".join(words[len(words) // 2 :]) for words in split]
    own, others = await _cosines(embedder, beginnings, ends)
    separation = float((own.mean() - others.mean()) / (others.std() or 1.0))
    weight = float(np.clip(_AT_NONE - _SLOPE * separation, WEIGHTS[0], WEIGHTS[-1]))
    return Calibration(lexical_weight=round(weight, 2), unrelated=_unrelated(others))


async def calibrated_on_questions(
    embedder: Embedder,
    questions: Mapping[str, str],
    texts: Collection[str],
    find: Callable[[str, Calibration], Awaitable[Sequence[str]]],
) -> Calibration:
    """Return the calibration with which the answers of questions are found best.

    Args:
        embedder: The embedder.
        questions: The text of the record that answers each question.
        texts: The texts of all records.
        find: Returns the texts of the first records that recall finds.

    Raises:
        InvalidDataError: There are no questions, an answer is the text of no record, or all weights find the answers
            equally well.
        EmbedderError: The embedder failed.
    """
    if not questions:
        raise InvalidDataError("there are no questions to calibrate by: give some, or leave questions out")
    if missing := [str(number) for number, answer in enumerate(questions.values(), 1) if answer not in texts]:
        raise InvalidDataError(
            f"{len(missing)} of {len(questions)} answers (number {', '.join(missing[:10])}) match no visible "
            "record: give each text as list_records() shows it"
        )
    _, others = await _cosines(embedder, list(questions), list(questions.values()))
    unrelated = _unrelated(others)
    ranks: dict[float, float] = {}
    for weight in WEIGHTS:
        calibration = Calibration(lexical_weight=weight, unrelated=unrelated)
        found = [(await find(question, calibration), answer) for question, answer in questions.items()]
        ranks[weight] = fmean(1 / (first.index(answer) + 1) if answer in first else 0.0 for first, answer in found)
    if max(ranks.values()) - min(ranks.values()) < _ALIKE:
        raise InvalidDataError(
            "every weight finds the answers to these questions equally well: give more or harder questions"
        )
    best = [weight for weight, rank in ranks.items() if rank >= max(ranks.values()) - _ALIKE]
    return Calibration(lexical_weight=round(fmean(best), 2), unrelated=unrelated)


async def _cosines(embedder: Embedder, asked: Sequence[str], said: Sequence[str]) -> tuple[_Cosines, _Cosines]:
    """Return the cosines of queries with the texts that belong to them, and those with the others."""
    queries, texts = await embedded(embedder, asked, query=True), await embedded(embedder, said)
    pairs = [(a, b) for a, b in zip(queries, texts, strict=True) if a is not None and b is not None]
    cosines = np.array([a for a, _ in pairs]) @ np.array([b for _, b in pairs]).T
    same = np.eye(len(cosines), dtype=bool)
    return cosines[same], cosines[~same]


def _unrelated(others: _Cosines) -> float:
    """Return the mean cosine of texts that do not belong together."""
    return round(float(np.clip(others.mean() if len(others) else 0, 0, 0.95)), 2)
