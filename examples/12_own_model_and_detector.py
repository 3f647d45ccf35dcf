"""A model and a detector of your own: each is one method.

The model here represents an existing client: it gets a prompt and a pydantic class, and returns an instance. The
detector needs no model: it recognizes order numbers by their form.
"""

import re
from typing import TypeVar

import anyio
from pydantic import BaseModel, ValidationError

from factmem import Concept, Conversation, FactDetails, Memory, Message
from factmem.abc import Candidate, Detection, DetectionRequest, Prompt, system_clock
from factmem.detection import utterances
from factmem.errors import ModelAnswerError

AnswerT = TypeVar("AnswerT", bound=BaseModel)

COLOUR = Concept.single("colour", "The colour that the user wants")
ORDERS = Concept.multiple("orders", "Numbers of orders that the user asks about")


class MyModel:
    """Implementation of `factmem.LanguageModel`; a real one would send the prompt to a server."""

    max_chars = 8_000

    async def ask(self, prompt: Prompt, answer: type[AnswerT]) -> AnswerT:
        said = await self.complete(prompt.instructions, prompt.content)
        try:
            return answer.model_validate_json(said)
        except ValidationError:
            raise ModelAnswerError("the answer does not fit the schema") from None

    async def complete(self, instructions: str, document: str) -> str:
        found = re.search(r"like (red|green|blue)", document)
        item = f'{{"quote": "{found[0]}", "message": 1, "value": "{found[1]}"}}' if found else ""
        return f'{{"colour": [{item}]}}'


class OrderDetector:
    """Implementation of `factmem.abc.Detector` that finds order numbers."""

    async def detect(self, conversation: Conversation, request: DetectionRequest) -> Detection:
        return Detection(
            candidates=[
                Candidate(
                    fact=ORDERS.fact([found[0]], timestamp=said.timestamp),
                    details=FactDetails(origin=said.origin, evidence=(said.cite(*found.span()),)),
                )
                for said in utterances(conversation, system_clock())  # redacted, with ids and times
                for found in re.finditer(r"\b[A-Z]{2}-\d{4}\b", said.text)
            ]
        )


async def main() -> None:
    talk = Message(content="Where are AB-1234 and BC-2345? I like green.")
    async with Memory("memory:", model=MyModel()) as memory:
        outcome = await memory.remember(talk, looking_for=DetectionRequest(concepts=[COLOUR]))
        for change in outcome.changes:  # what waits for somebody to confirm it is in outcome.waiting
            record = change.record
            print("my model found:   ", record.concept.keyword, record.value, record.evidence[0].quote)

    async with Memory("memory:", detector=OrderDetector(), concepts=[ORDERS]) as memory:
        for change in (await memory.remember(talk)).changes:
            record = change.record
            print("my detector found:", record.concept.keyword, record.value, record.evidence[0].quote)
        orders = await memory.load(ORDERS)
        print("orders:", *(orders.values if orders else ()))


anyio.run(main)
