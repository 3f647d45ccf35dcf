"""Quality of a peer's retrieval: the share of a question's evidence that it finds."""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from peers.cases import Case
from peers.session import Worker
from peers.vectors import vectors_of
from retrieval_metrics import Scores

__all__ = ["ASKED_FOR", "quality_of"]

ASKED_FOR = 500
"""Number of results of a search: enough for the first five conversations."""


def quality_of(worker: Worker, cases: Iterable[Case], folder: Path, tick: Callable[[], None]) -> dict[str, Any]:
    """Ask every question of every case, each case with a store of its own.

    Args:
        worker: the peer.
        cases: the stores and questions.
        folder: a folder to work in; it is emptied.
        tick: called after each case.

    Returns:
        The mean of each figure, for each kind of search.

    Raises:
        PeerFailedError: the peer fails to store or search.
    """
    scores: dict[str, Scores] = {}
    with worker:
        for number, case in enumerate(cases):
            shutil.rmtree(folder, ignore_errors=True)
            store = folder / f"store{number}"  # a new path, because some peers cache by path
            questions = [question.text for question in case.questions]
            vectors = vectors_of(
                itertools.chain((text for item in case.items for text in (item.text, item.words)), questions)
            )
            opened = worker.open(store, vectors)
            worker.add(case.items, opened["batch"])
            if opened["durable"]:
                worker.close()
                worker.open(store, vectors)
            for way in opened["ways"]:
                found, _, _ = worker.search(questions, ASKED_FOR, way)
                for question, ranking in zip(case.questions, found, strict=True):
                    for name, value in question.judge(ranking).items():
                        scores.setdefault(way, Scores()).add(name, value)
            worker.close()
            tick()
    shutil.rmtree(folder, ignore_errors=True)
    return {way: found.means() for way, found in scores.items()}
