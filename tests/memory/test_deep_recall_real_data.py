"""Deep recall on real conversations, if they are present."""

from __future__ import annotations

import datetime as dt
import gzip
import itertools
import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest

from factmem import Message, RecallMatch
from factmem.abc.detector import Conversation
from factmem.recall.embedders import default_embedder
from factmem.testing import FakeClock
from tests.memory.scripted_analyst import ALWAYS, ScriptedAnalyst, deeply, parts, remembering

pytestmark = pytest.mark.slow


def stores(name: str, count: int) -> Iterator[dict[str, Any]]:
    folder = Path(os.environ.get("FACTMEM_DATA", Path(__file__).parents[3] / "shared" / "data"))
    path = folder / "dated" / name
    if not path.is_file():
        pytest.skip(f"dated/{name} is not there: set FACTMEM_DATA to the folder that holds it")
    with gzip.open(path, "rt") as lines:
        for line in itertools.islice(lines, count):
            yield json.loads(line)


def share_found(matches: Sequence[RecallMatch], gold: Sequence[str]) -> float:
    ids = {item.message_id for match in matches for item in match.record.evidence[:1]}
    return len(ids & set(gold)) / len(set(gold))


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_three_irrelevant_parts_cost_no_more_than_a_hundredth_of_what_is_found() -> None:
    plain, deep = [], []
    for store in stores("locomo.jsonl.gz", 2):
        clock = FakeClock(dt.datetime.fromisoformat(max(item["asked_at"] for item in store["questions"])))
        memory = remembering(analyst := ScriptedAnalyst(), embedder=default_embedder(), clock=clock)
        for item in store["conversations"]:
            said = [
                Message(
                    content=message["content"],
                    role=message["role"],
                    name=message["name"],
                    id=message["id"],
                    timestamp=dt.datetime.fromisoformat(message["at"]),
                )
                for message in item["messages"]
            ]
            await memory.remember(Conversation(messages=tuple(said), id=item["id"]))
        texts = [item["question"] for item in store["questions"]]
        for number, item in enumerate(store["questions"]):
            if not item["gold"] or item["kind"] == "category 5":
                continue
            analyst.analysis = parts(*(texts[(number + step) % len(texts)] for step in (17, 41, 83)))
            plain.append(share_found(await memory.recall(item["question"]), item["gold"]))
            deep.append(share_found((await deeply(memory, item["question"], deep=ALWAYS)).matches, item["gold"]))
    assert fmean(deep) >= fmean(plain) - 0.01
