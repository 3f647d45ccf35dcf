"""Messages in which a prompt is sent to the model."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, Field

from factmem.abc import Prompt
from factmem.abc.model import LanguageModel, WorkedExample
from factmem.errors import ModelAnswerError, ModelUnavailableError
from factmem.llm.messages import compact_schema, instructions_of, messages_of
from factmem.testing import ScriptedModel


class Book(BaseModel):
    """A book."""

    title: str = Field(description="as on the cover")
    parts: list[Book] = []


class Author(BaseModel):
    name: str


class Shelf(BaseModel):
    owner: Author
    books: list[Book]


def test_the_content_is_alone_in_the_last_message_and_examples_are_turns() -> None:
    """Untrusted text never shares a message with the instructions."""
    example = WorkedExample(content="<d>one</d>", answer='{"title":"One"}')
    prompt = Prompt(instructions="Name the book.", content="<d>{{two}}</d>", examples=(example,))
    assert messages_of(prompt, "Name the book.") == [
        {"role": "system", "content": "Name the book."},
        {"role": "user", "content": "<d>one</d>"},
        {"role": "assistant", "content": '{"title":"One"}'},
        {"role": "user", "content": "<d>{{two}}</d>"},
    ]


def test_the_schema_is_shown_with_the_instructions_where_it_is_asked_for() -> None:
    prompt = Prompt(instructions="Name.", content="x")
    shown = instructions_of(prompt, Book, show_schema=True)
    assert shown.startswith("Name.")
    assert shown.endswith(json.dumps(compact_schema(Book), separators=(",", ":")))
    assert instructions_of(prompt, Book, show_schema=False) == "Name."


def test_a_compact_schema_drops_titles_and_keeps_a_field_called_title() -> None:
    schema = compact_schema(Book)
    book = schema["$defs"]["Book"]
    assert book["properties"]["title"] == {"type": "string", "description": "as on the cover"}
    assert "title" not in book
    assert book["description"] == "A book."


def test_a_compact_schema_has_definitions_only_for_what_is_used_again() -> None:
    schema = compact_schema(Shelf)
    assert schema["properties"]["owner"] == {
        "type": "object",
        "properties": {"name": {"type": "string"}},
        "required": ["name"],
    }
    assert list(schema["$defs"]) == ["Book"]
    assert schema["properties"]["books"]["items"] == {"$ref": "#/$defs/Book"}


# The scripted model validates its answers as a real one does, and raises typed errors


PROMPT = Prompt(instructions="Count the seats.", content="There are four.")


class Seats(BaseModel):
    seats: int


async def test_an_answer_is_an_instance_of_the_model_asked_for() -> None:
    model = ScriptedModel(lambda prompt, answer: {"seats": len(prompt.content)})
    assert isinstance(model, LanguageModel)
    assert await model.ask(PROMPT, Seats) == Seats(seats=len(PROMPT.content))
    assert model.prompts == [PROMPT]


@pytest.mark.parametrize("said", [{}, {"seats": "many"}])
async def test_an_answer_that_the_model_refuses_is_a_typed_error(said: dict[str, Any]) -> None:
    with pytest.raises(ModelAnswerError) as caught:
        await ScriptedModel(lambda prompt, answer: said).ask(PROMPT, Seats)
    assert caught.value.__cause__ is caught.value.__context__ is None


async def test_an_error_in_the_script_is_raised() -> None:
    with pytest.raises(ModelUnavailableError, match="closed"):
        await ScriptedModel(lambda prompt, answer: ModelUnavailableError("closed")).ask(PROMPT, Seats)
