"""Messages with almost no words: emoji are kept, secrets are reported and not kept, punctuation alone is nothing."""

from __future__ import annotations

from typing import Any

import pytest

from factmem import AgentMemoryProvider, Conversation, InMemoryProvider, Memory, Message
from factmem.abc.detector import DropReason
from factmem.testing import ScriptedModel
from tests.memory.telling import USER, log_of, opened, said, well

SECRET = "AKIAIOSFODNN7EXAMPLE"
GIVEN: dict[str, Any] = {"scope": "/product/alpha", "importance": 0.5, "categories": ["mood"]}


async def test_an_emoji_is_kept_like_any_word(memory: Memory) -> None:
    """It can be loaded and listed, although no record is similar to it."""
    for text in ("👍", "❤️"):
        kept = await memory.remember(text)
        assert said(kept.records) == [text]
        assert len(kept.changes) == 1
    await memory.remember("The mill is old.")
    assert len(await memory.list_records()) == 3
    assert (await memory.recall("mill"))[0].record.value == "The mill is old."


async def test_an_emoji_is_read_by_a_model(provider: AgentMemoryProvider) -> None:
    model = ScriptedModel(well)
    async with opened(provider, model) as memory:
        for text in ("👍", "👍👍"):
            assert said((await memory.remember(text, subject=USER, **GIVEN)).records) == [text]
        assert (await memory.remember("🎉", subject=USER)).records[0].details.importance == 0.9
    assert model.prompts


@pytest.mark.parametrize("with_model", [True, False])
@pytest.mark.parametrize(
    "what",
    [SECRET, f" {SECRET} \n", Message(content=SECRET), Conversation(messages=(Message(content=SECRET),))],
    ids=["a text", "with blanks", "a message", "a conversation"],
)
async def test_a_message_of_a_secret_alone_is_reported(what: Any, with_model: bool) -> None:
    """The secret is neither kept nor sent, and the caller is shown the reason for the empty result."""
    provider, model = InMemoryProvider(), ScriptedModel(well)
    async with opened(provider, model if with_model else None) as memory:
        outcome = await memory.remember(what)
        assert (outcome.records, outcome.dropped) == ((), {DropReason.ONLY_SECRETS: 1})
        (outcome,) = await (await memory.remember_many([what])).wait()
        assert (outcome.records, outcome.dropped) == ((), {DropReason.ONLY_SECRETS: 1})
    assert (await log_of(provider))[0] == []
    assert model.prompts == []


async def test_what_is_said_beside_a_secret_is_kept(memory: Memory) -> None:
    outcome = await memory.remember(Conversation(messages=(Message(content=SECRET), Message(content="I sail."))))
    assert said(outcome.records) == ["I sail."]


@pytest.mark.parametrize("text", ["...", "?!", "— — —"])
async def test_marks_alone_are_nothing_to_remember(memory: Memory, text: str) -> None:
    outcome = await memory.remember(text)
    assert (len(outcome), outcome.changes, outcome.dropped) == (0, (), {})
    assert await memory.list_records() == []
