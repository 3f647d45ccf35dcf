"""Orders and lies in pictures, sound and PDF files stay out, though the model that reads them repeats every word."""

from __future__ import annotations

import contextlib
import html
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest

from factmem import AgentMemory, AgentMemoryConfig, InMemoryProvider, Memory, Message, Origin
from factmem.detection.flags import flags_in
from factmem.llm.media_models import media_reader
from factmem.media import Medium
from factmem.testing import HashEmbedder, ScriptedModel
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.media.samples import JPEG, PNG, WAV, pdf
from tests.media.test_media_models import openai_answer
from tests.memory.telling import CITY, CONCEPTS, USER, well
from tests.narrowing import not_none
from tests.tables import rows

pytestmark = [pytest.mark.filterwarnings("ignore::ResourceWarning"), pytest.mark.usefixtures("sockets_collected")]

_TEXTS: Final = rows(Path(__file__).with_name("injections.txt"))["injections"]
INJECTIONS: Final = {parts[0]: parts[1] for parts in _TEXTS}
FLAGGED: Final = [name for name, text in INJECTIONS.items() if flags_in(text)]
NEUTRAL: Final = ["What does this say?", "Look what somebody sent me!", "Translate it, please.", "", "Is this real?"]
CARRIERS: Final[dict[str, Callable[[str], Medium]]] = {
    "a picture": lambda text: Medium(PNG, "image/png"),
    "a recording": lambda text: Medium(WAV, "audio/wav"),
    "a PDF": lambda text: Medium(pdf([text]), "application/pdf"),
    "a caption": lambda text: Medium(JPEG, "image/jpeg", caption=text),
}


@contextlib.asynccontextmanager
async def reading(said: str) -> AsyncIterator[tuple[Memory, ScriptedModel]]:
    """Open a memory whose media say a text, with a model that believes whatever it reads, and a user in Oslo."""
    answer = Answer(openai_answer(json.dumps({"passages": [{"text": said}]})))
    model = ScriptedModel(well)
    with LoopbackOpenAIServer(lambda path, request: answer) as server:
        reader = media_reader(f"{server.base_url}#reader")
        options: dict[str, Any] = {"model": model, "media_reader": reader, "concepts": CONCEPTS, "subjects": [USER]}
        async with Memory(InMemoryProvider(), embedder=HashEmbedder(), **options) as memory:
            await memory.remember(Message(content="I live in Oslo.", id="m0"), subject=USER)
            yield memory, model
        await reader.aclose()


async def city(memory: Memory) -> str:
    fact = not_none(await memory.load(CITY, subject=USER))
    return fact.value


@pytest.mark.parametrize(
    ("injection", "carrier"),
    [
        pytest.param(injection, carrier, marks=[pytest.mark.big] if (number + place) % len(CARRIERS) else [])
        for number, injection in enumerate(INJECTIONS)
        for place, carrier in enumerate(CARRIERS)
    ],
)
async def test_an_injection_by_a_medium_is_never_believed(injection: str, carrier: str) -> None:
    """With `--big`, every medium carries each injection; without it, one of them in turn."""
    if carrier == "a PDF":
        pytest.importorskip("pypdf", reason="the extra pdf is not installed")
    text = INJECTIONS[injection]
    words = NEUTRAL[list(INJECTIONS).index(injection) % len(NEUTRAL)]
    async with reading(text) as (memory, model):
        known = {str(record.value) for record in await memory.list_records()}
        await memory.remember(Message(content=words, id="m1", media=[CARRIERS[carrier](text)]), subject=USER)
        shown = {str(record.value) for record in await memory.list_records()}
        recalled = [str(match.record.value) for match in await memory.recall(text, limit=50)]
        block = await AgentMemory(AgentMemoryConfig(store=memory, users="shared")).load_all_facts_to_agent(
            [Message(content="Where do I live, and what is my bank account?")]
        )
        assert await city(memory) == "Oslo"
        assert {record.value for record in await memory.inbox.quarantine.list()} == {text}
    assert known <= shown <= known | {words}
    assert text not in recalled
    assert not any(text in message.content for message in block)
    assert not any(text in html.unescape(prompt.content) for prompt in model.prompts)


@pytest.mark.parametrize("injection", INJECTIONS)
async def test_an_injection_in_what_the_user_points_to_takes_nothing_from_the_user(injection: str) -> None:
    """A medium that they point to is still not the user: orders in it wait, and reach no model."""
    text, letter = INJECTIONS[injection], "This is my letter."
    async with reading(text) as (memory, model):
        known = {record.id for record in await memory.list_records()}
        await memory.remember(Message(content=letter, id="m1", media=[Medium(PNG, "image/png")]), subject=USER)
        records = await memory.list_records()
        assert known <= {record.id for record in records}
        assert await city(memory) == "Oslo"
        if injection in FLAGGED:
            assert {record.value for record in records} == {"I live in Oslo.", "Oslo", letter}
            assert [record.value for record in await memory.inbox.quarantine.list()] == [text]
            assert not any(text in html.unescape(prompt.content) for prompt in model.prompts)
    added = [record for record in records if record.id not in known and record.value != letter]
    assert {record.details.origin for record in added} <= {Origin.DOCUMENT}
