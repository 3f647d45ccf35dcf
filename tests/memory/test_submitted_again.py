"""Repeated submission of unread words: after a cancelled call, after a failure, or while they are being read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import anyio
import attrs

from factmem import AgentMemoryProvider, Remembered
from factmem.errors import ModelUnavailableError
from factmem.memory.background import MemoryEvent, SubmissionFailed
from factmem.testing import ScriptedModel
from tests.memory.telling import USER, Gated, opened, said, talk, until, well

if TYPE_CHECKING:
    from pydantic import BaseModel

    from factmem.abc import Prompt

HOME = talk("I live in Rome")


@attrs.define
class Moody:
    """Script of a model that is unavailable until it is switched on."""

    is_well: bool = False

    def __call__(self, prompt: Prompt, answer: type[BaseModel]) -> dict[str, object] | Exception:
        return well(prompt, answer) if self.is_well else ModelUnavailableError("not now")


async def test_words_of_a_cancelled_call_are_read_when_they_are_submitted_again(provider: AgentMemoryProvider) -> None:
    model = Gated()
    async with opened(provider, model) as memory:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: memory.remember(HOME, subject=USER))
            await until(lambda: model.under_way == 1)
            tasks.cancel_scope.cancel()
        model.gate.set()
        assert said((await memory.remember(HOME, subject=USER)).records) == ["Rome"]
        assert said(await memory.list_records()) == ["Rome"]


async def test_words_that_somebody_waits_for_are_not_read_a_second_time(provider: AgentMemoryProvider) -> None:
    model = Gated()
    async with opened(provider, model) as memory:
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(lambda: memory.remember(HOME, subject=USER))
            await until(lambda: model.under_way == 1)
            assert (await memory.inbox.resume()).ids == ()
            await memory.remember(HOME, subject=USER)
            model.gate.set()
        assert model.asked == 1
        assert said(await memory.list_records()) == ["Rome"]


async def test_several_may_take_up_one_dead_letter_at_once(provider: AgentMemoryProvider) -> None:
    mood = Moody()
    outcomes: list[Remembered] = []
    async with opened(provider, ScriptedModel(mood)) as memory:
        await memory.remember(HOME, subject=USER)
        mood.is_well = True

        async def tell() -> None:
            outcomes.append(await memory.remember(HOME, subject=USER))

        async with anyio.create_task_group() as tasks:
            for _ in range(4):
                tasks.start_soon(tell)
        assert [outcome.failure for outcome in outcomes] == [None] * 4
        assert said(await memory.list_records()) == ["Rome"]


async def test_a_repeated_failure_reports_the_id_of_its_dead_letter(provider: AgentMemoryProvider) -> None:
    events: list[MemoryEvent] = []
    async with opened(provider, ScriptedModel(Moody()), on_event=events.append) as memory:
        submissions = [await memory.remember_many([HOME], subject=USER)]
        await submissions[0].wait()
        submissions.append(await memory.remember_many([HOME], subject=USER))
        await submissions[1].wait()
        (letter,) = await memory.inbox.dead_letters.list()
    assert [event.submission_id for event in events if isinstance(event, SubmissionFailed)] == [letter.id] * 2
    assert [submission.ids for submission in submissions] == [(letter.id,)] * 2
