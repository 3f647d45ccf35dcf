"""Questions to language models that are data: their instructions, examples and answers stand in ``prompts.toml``."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from importlib import import_module
from typing import Any

from anyio import to_thread

from factmem.abc import Prompt
from factmem.abc.model import LanguageModel, WorkedExample
from factmem.llm.asking import ask_all
from factmem.llm.messages import document
from factmem.toml_tables import filled, table


async def inquire(
    model: LanguageModel,
    name: str,
    *documents: str,
    only: Collection[str] = (),
    most: int | None = None,
    concurrency: int = 1,
) -> Sequence[Mapping[str, Any]]:
    """Ask a model one question about each of some documents, and return the fields of each answer.

    Args:
        model: The language model.
        name: The name of the question in ``prompts.toml``.
        documents: The documents.
        only: Fields to ask for; all if there are none.
        most: Maximum number of items of the lists in the answer; it stands for «most» in the instructions.
        concurrency: Maximum number of questions at a time.

    Raises:
        ModelError: The model failed.
    """
    # Imports pydantic, which takes too long for the event loop.
    await to_thread.run_sync(import_module, "factmem.detection.response_models")
    from factmem.detection.response_models import described_model

    data = table("detection/prompts")[name]
    fields = {field: data["fields"][field] for field in data["fields"] if not only or field in only}
    answer = described_model(data["name"], fields, most)
    instructions = filled(data["instructions"], {"most": str(most)})
    examples = tuple(_example(example, fields) for example in data.get("examples", ()))
    questions = [(Prompt(instructions=instructions, content=item, examples=examples), answer) for item in documents]
    return [found.model_dump() for found in await ask_all(model, questions, concurrency)]


def _example(example: Mapping[str, str], fields: Collection[str]) -> WorkedExample:
    answer = {field: said for field, said in json.loads(example["answer"]).items() if field in fields}
    return WorkedExample(content=document(example["content"]), answer=json.dumps(answer))
