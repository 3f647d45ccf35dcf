"""Two processes submit overlapping halves of one conversation, so that each reads a part for the other."""

from __future__ import annotations

import anyio
import attrs
import pytest

from factmem import AgentMemoryProvider, Conversation, InMemoryProvider, Memory
from factmem.errors import ModelRefusedError
from factmem.records import AssertionState
from factmem.testing import ScriptedModel
from tests.memory.telling import USER, Gated, log_of, opened, said, talk, until, well

WHOLE = talk("I live in Rome.", "I have a cat.", "I have a dog.", "I have a hen.", "I have a cow.", "I have a pig.")
EARLIER = attrs.evolve(WHOLE, messages=WHOLE.messages[:4])
LATER = attrs.evolve(WHOLE, messages=WHOLE.messages[2:])
ALL = ["Rome", "cat", "cow", "dog", "hen", "pig"]


async def test_the_rest_is_read_at_once(provider: AgentMemoryProvider) -> None:
    """The caller gets the outcomes of all of it; messages already read elsewhere serve as context."""
    slow = Gated()
    other = opened(provider, ScriptedModel(well))  # not entered: it would resume the words that the first one reads
    async with opened(provider, slow) as memory:
        submission = await memory.remember_many([EARLIER], subject=USER)
        await until(lambda: slow.under_way == 1)
        assert said((await other.remember(LATER, subject=USER)).records) == ["cow", "dog", "hen", "pig"]
        slow.gate.set()
        (outcome,) = await submission.wait()
        assert (said(outcome.records), outcome.failure) == (["Rome", "cat", "dog", "hen"], None)
        assert said([change.record for change in outcome.changes]) == ["Rome", "cat"]
        assert slow.asked == 2
        assert said(await memory.list_records()) == ALL
        assert [len(record.evidence) for record in await memory.list_records()] == [1] * len(ALL)
    assert AssertionState.PENDING not in (await log_of(provider))[1]


async def test_what_comes_together_with_it_is_not_read_again(provider: AgentMemoryProvider) -> None:
    slow, others = Gated(), [talk(f"I have a goat{number}.", id=f"talk{number}") for number in range(4)]
    other = opened(provider, ScriptedModel(well))  # not entered: it would resume the words that the first one reads
    async with opened(provider, slow) as memory:
        submission = await memory.remember_many([*others, EARLIER], subject=USER)
        await until(lambda: slow.under_way == 4)
        await other.remember(LATER, subject=USER)
        slow.gate.set()
        assert len(await submission.wait()) == 5
        assert slow.asked == 6
        assert said(await memory.list_records()) == sorted([*ALL, *(f"goat{number}" for number in range(4))])


async def test_what_cannot_be_read_of_the_rest_is_a_dead_letter() -> None:
    """Words that the other process has read do not become a dead letter."""
    provider, slow = InMemoryProvider(), Gated(lambda prompt, answer: ModelRefusedError("no"))
    other = opened(provider, ScriptedModel(well))  # not entered: it would resume the words that the first one reads
    async with opened(provider, slow) as memory:
        submission = await memory.remember_many([EARLIER], subject=USER)
        await until(lambda: slow.under_way == 1)
        await other.remember(LATER, subject=USER)
        slow.gate.set()
        (outcome,) = await submission.wait()
        assert outcome.failure == "ModelRefusedError"
        (letter,) = await memory.dead_letters.list()
        assert said(letter.records) == ["I have a cat.", "I live in Rome."]
    assert AssertionState.PENDING not in (await log_of(provider))[1]


@pytest.mark.parametrize("hands", [2, 5])
async def test_many_who_submit_overlapping_parts_leave_nothing_unread(
    provider: AgentMemoryProvider, hands: int
) -> None:
    """Each memory stands for a process, and is unaware of the reads in progress of the others."""

    async def submit(memory: Memory, part: Conversation) -> None:
        await memory.remember(part, subject=USER)

    async with anyio.create_task_group() as tasks:
        for number in range(hands):
            part = attrs.evolve(WHOLE, messages=WHOLE.messages[number % 3 : number % 3 + 4])
            tasks.start_soon(submit, opened(provider, ScriptedModel(well)), part)
    memory = opened(provider)
    assert (await log_of(provider))[1][AssertionState.PENDING] == 0
    parts = min(hands, 3)
    assert said(await memory.list_records()) == sorted(ALL if parts == 3 else [*ALL[:3], "dog", "hen"])
