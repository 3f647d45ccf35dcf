"""Submission: on disk at once, visible verbatim, read in the background, and never awaited by a reader."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import anyio
import attrs
import pytest

from factmem import (
    AgentMemoryProvider,
    Background,
    BlockingMemory,
    ChangeKind,
    Conversation,
    InMemoryProvider,
    Memory,
    Message,
    Remembered,
    Submission,
)
from factmem.abc.capabilities import Receipt, Statement
from factmem.errors import CapabilityError, InvalidDataError, ModelAnswerError, ModelUnavailableError
from factmem.memory.background import MemoryEvent, SubmissionFailed, SubmissionFinished
from factmem.records import AssertionState, LogEntry
from factmem.testing import ScriptedModel
from tests.memory.telling import CITY, SEATS, USER, Gated, log_of, opened, said, talk, understood, until, well, words

if TYPE_CHECKING:
    from pydantic import BaseModel

    from factmem.abc import Prompt

TEXTS = ["I live in Oslo.", "We booked 12 seats.", "I have a cat."]
TALKS = [talk(text, id=str(number)) for number, text in enumerate(TEXTS)]
FOUND = [12, "Oslo", "cat"]


class Stop(Exception):
    """An exception raised by a test inside a block."""


def down(prompt: object, answer: object) -> Exception:
    return ModelUnavailableError("it is away")


async def test_what_is_submitted_is_in_the_store_before_it_is_read(provider: AgentMemoryProvider) -> None:
    """Another memory over the same store sees it verbatim; once it is read, the facts replace the words."""
    model = Gated()
    async with opened(provider, model) as memory:
        submission = await memory.remember_many(TALKS, subject=USER)
        assert words(await opened(provider).list_records()) == sorted(TEXTS)
        assert (await log_of(provider))[1] == {AssertionState.PENDING: 3}
        assert (submission.pending, submission.outcomes, submission.failures) == (3, (), ())
        model.gate.set()
        outcomes = await submission.wait()
        assert [said(outcome.records) for outcome in outcomes] == [["Oslo"], [12], ["cat"]]
        assert said(await memory.list_records()) == FOUND
    assert (submission.pending, len(submission.outcomes)) == (0, 3)
    assert (await log_of(provider))[1] == {AssertionState.RETRACTED: 3, AssertionState.ACTIVE: 3}


async def test_reading_never_waits_for_the_model(provider: AgentMemoryProvider) -> None:
    """Meanwhile the words are recalled, listed, read by id, shown in history and exported, and loads do not wait."""
    model = Gated()
    async with opened(provider, model) as memory:
        submission = await memory.remember_many(TALKS, subject=USER)
        await until(lambda: model.under_way == 3)
        (match, *_) = await memory.recall("Who lives in Oslo?")
        assert match.record.value == TEXTS[0]
        assert (await memory.get(match.record.id)).evidence[0].quote == TEXTS[0]
        assert await memory.load(CITY) is None
        assert len(await memory.history("statement")) == (await memory.admin.info()).records == 3
        assert submission.pending == 3
        model.gate.set()
        await submission.wait()
        assert (fact := await memory.load(SEATS, subject=USER)) is not None
        assert fact.value == 12


async def test_listeners_are_notified_of_every_submission_and_may_fail(caplog: pytest.LogCaptureFixture) -> None:
    """One submission finishes and one fails; a listener's own errors neither stop the reading nor are quoted."""
    heard: list[MemoryEvent] = []

    def listen(event: MemoryEvent) -> None:
        heard.append(event)
        raise Stop("I live in Oslo")

    def script(prompt: Any, answer: Any) -> dict[str, Any] | Exception:
        return ModelAnswerError("gibberish") if "seats." in prompt.content else understood(prompt.content)

    async with opened(InMemoryProvider(), ScriptedModel(script), on_event=listen) as memory:
        submission = await memory.remember_many(TALKS[:2], subject=USER)
        await submission.wait()
        (letter,) = await memory.inbox.dead_letters.list()
    finished = [event for event in heard if isinstance(event, SubmissionFinished)]
    failed = [event for event in heard if isinstance(event, SubmissionFailed)]
    assert [event.submission_id for event in finished] == [submission.ids[0]]
    assert [(event.submission_id, type(event.error)) for event in failed] == [(submission.ids[1], ModelAnswerError)]
    assert letter.id == submission.ids[1]
    assert submission.failures == ("ModelAnswerError",)
    assert not [text for text in (*TEXTS, "Oslo") if text in caplog.text]


class Broken(InMemoryProvider):
    """A third-party store that begins to raise arbitrary errors."""

    broken = False

    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        if self.broken:
            raise OverflowError("I live in Oslo")
        return await super().append(statements)

    async def changes(self, tenant: str | None, since: int = 0) -> Sequence[LogEntry]:
        if self.broken:
            raise OverflowError("I live in Oslo")
        return await super().changes(tenant, since)


async def test_nothing_that_fails_in_the_background_ends_the_program(caplog: pytest.LogCaptureFixture) -> None:
    """This covers reading, and looking for the words that an earlier process left."""
    provider, model = Broken(), Gated()
    async with opened(provider, model) as memory:
        submission = await memory.remember_many(TALKS[:1], subject=USER)
        provider.broken = True
        model.gate.set()
        await submission.wait()
        assert submission.failures == ("OverflowError",)
    async with opened(provider, ScriptedModel(well)):
        await until(lambda: "cannot be read for now: OverflowError" in caplog.text)
    provider.broken = False
    async with opened(provider, ScriptedModel(well)) as memory:
        await (await memory.inbox.resume()).wait()
        assert said(await memory.list_records()) == ["Oslo"]
    assert "Oslo" not in caplog.text


async def test_a_closed_memory_releases_waiting_callers_and_the_next_one_resumes(provider: AgentMemoryProvider) -> None:
    """The model is unavailable while the memory is open: nothing is lost, and the next memory resumes by itself."""
    patient = Background(attempts=5, backoff=dt.timedelta(hours=1))
    model = ScriptedModel(down)
    ended = anyio.Event()
    async with anyio.create_task_group() as tasks:
        async with opened(provider, model, background=patient) as memory:
            submission = await memory.remember_many(TALKS, subject=USER)

            async def wait() -> None:
                assert await submission.wait() == ()
                ended.set()

            tasks.start_soon(wait)
            await until(lambda: len(model.prompts) == 3)
            assert not ended.is_set()
        await ended.wait()
        assert submission.pending == 3
    assert (await log_of(provider))[1] == {AssertionState.PENDING: 3}
    heard: list[MemoryEvent] = []
    async with opened(provider, ScriptedModel(well), on_event=heard.append) as memory:
        await until(lambda: len(heard) == 3)
        assert said(await memory.list_records()) == FOUND


async def test_opening_and_closing_reads_what_an_earlier_process_left(provider: AgentMemoryProvider) -> None:
    """Such as in a job that does nothing else: the end waits for that, too, even if nothing came in between."""
    async with opened(provider, ScriptedModel(down), background=Background(backoff=dt.timedelta(hours=1))) as memory:
        await memory.remember_many(TALKS, subject=USER)
    async with opened(provider, ScriptedModel(well)):
        pass
    assert said(await opened(provider).list_records()) == FOUND


async def test_a_memory_that_is_closed_with_an_error_at_once_resumes_nothing(provider: AgentMemoryProvider) -> None:
    model = Gated()
    async with opened(provider, ScriptedModel(down), background=Background(backoff=dt.timedelta(hours=1))) as memory:
        await memory.remember_many(TALKS, subject=USER)
    with pytest.raises(Stop):
        async with opened(provider, model):
            raise Stop
    with anyio.CancelScope() as scope:
        async with opened(provider, model):
            scope.cancel()
    assert (await log_of(provider))[1] == {AssertionState.PENDING: 3}


async def test_without_a_model_nothing_is_resumed(provider: AgentMemoryProvider) -> None:
    """Pending words stay pending and readable until a memory with a model opens the store."""
    async with opened(provider, ScriptedModel(down), background=Background(backoff=dt.timedelta(hours=1))) as memory:
        await memory.remember_many(TALKS, subject=USER)
    async with opened(provider) as memory:
        assert words(await memory.list_records()) == sorted(TEXTS)
    async with opened(provider, ScriptedModel(well), read_only=True) as memory:
        assert words(await memory.list_records()) == sorted(TEXTS)
    assert (await log_of(provider))[1] == {AssertionState.PENDING: 3}


async def test_a_model_that_comes_back_is_asked_again_and_nothing_is_read_twice() -> None:
    """An unavailable model is retried as often as `Background` says; a wrong answer is not."""
    away = iter([ModelUnavailableError("away"), ModelUnavailableError("away")])
    model = ScriptedModel(lambda prompt, answer: next(away, None) or well(prompt, answer))
    quick = Background(attempts=3, backoff=dt.timedelta(microseconds=1))
    async with opened(InMemoryProvider(), model, background=quick) as memory:
        (outcome,) = await (await memory.remember_many(TALKS[:1], subject=USER)).wait()
        assert said(outcome.records) == ["Oslo"]
        assert len(model.prompts) == 3
        await (await memory.remember_many(TALKS[:1], subject=USER)).wait()
        assert len(model.prompts) == 3


async def test_submitting_needs_an_open_memory() -> None:
    """Without `async with` there is no background task; the error says so, and nothing is kept."""
    provider = InMemoryProvider()
    for call in ("remember_many", "generate"):
        with pytest.raises(CapabilityError, match="async with"):
            await getattr(opened(provider, ScriptedModel(well)), call)(TALKS[:1])
    with pytest.raises(CapabilityError, match="async with"):
        await opened(provider, ScriptedModel(well)).inbox.ingest_events("chat", TALKS[0].messages)
    assert not (await log_of(provider))[0]
    closed = opened(provider, ScriptedModel(well))
    async with closed:
        pass
    with pytest.raises(CapabilityError, match="async with"):
        await closed.remember_many(TALKS)


async def test_one_bad_item_keeps_nothing_of_the_batch() -> None:
    """The submission is one transaction. CrewAI lost such a batch and returned normally."""
    provider = InMemoryProvider()
    late = talk("I live in Rome.", start=dt.datetime.now(dt.UTC) + dt.timedelta(days=1))
    bad: Any
    async with opened(provider, ScriptedModel(well)) as memory:
        for bad in ("  ", late, 7):
            with pytest.raises(InvalidDataError) as raised:
                await memory.remember_many(["fine", bad])
            assert "Rome" not in str(raised.value)
        with pytest.raises(InvalidDataError):
            await memory.remember_many(["fine"], importance=5.0)
    assert not (await log_of(provider))[0]


async def test_an_error_in_the_body_comes_out_as_it_is() -> None:
    """It is not wrapped in an exception group, and is raised at once, although a question is in progress."""
    model, provider = Gated(), InMemoryProvider()
    submissions: list[Submission] = []

    async def fail() -> None:
        async with opened(provider, model) as memory:
            submissions.append(await memory.remember_many(TALKS, subject=USER))
            await until(lambda: model.under_way == 3)
            raise Stop

    with pytest.raises(Stop):
        await fail()
    assert await submissions[0].wait() == ()
    assert (await log_of(provider))[1] == {AssertionState.PENDING: 3}


async def test_a_cancelled_question_leaves_the_words_to_the_next_process(provider: AgentMemoryProvider) -> None:
    model = Gated()
    async with opened(provider, model) as memory, anyio.create_task_group() as tasks:
        tasks.start_soon(lambda: memory.remember(TALKS[0], subject=USER))
        await until(lambda: model.under_way == 1)
        tasks.cancel_scope.cancel()
    assert (await log_of(provider))[1] == {AssertionState.PENDING: 1}
    assert words(await opened(provider).list_records()) == [TEXTS[0]]
    heard: list[MemoryEvent] = []
    async with opened(provider, ScriptedModel(well), on_event=heard.append) as memory:
        await until(lambda: bool(heard))
        assert said(await memory.list_records()) == ["Oslo"]


async def test_a_memory_that_is_cancelled_while_open_loses_nothing() -> None:
    model, provider = Gated(), InMemoryProvider()
    with anyio.CancelScope() as scope:
        async with opened(provider, model) as memory:
            await memory.remember_many(TALKS, subject=USER)
            await until(lambda: model.under_way == 3)
            scope.cancel()
            await anyio.sleep_forever()
    assert scope.cancelled_caught
    assert (await log_of(provider))[1] == {AssertionState.PENDING: 3}


async def test_nothing_to_submit_is_over_at_once() -> None:
    async with opened(InMemoryProvider(), ScriptedModel(well)) as memory:
        submission = await memory.remember_many([])
        assert (await submission.wait(), submission.pending, submission.ids) == ((), 0, ())


@pytest.mark.parametrize("model", [None, ScriptedModel(well)], ids=["no model", "model"])
async def test_messages_that_are_submitted_again_are_skipped(
    provider: AgentMemoryProvider, model: ScriptedModel | None
) -> None:
    """A job that submits a growing conversation can tell what it did."""
    (first, second, third) = (Message(id=str(number), content=text) for number, text in enumerate(TEXTS))
    async with opened(provider, model) as memory:
        for messages, skipped in (([first, second], 0), ([first, second], 2), ([first, second, third], 2)):
            submission = await memory.remember_many([Conversation(id="today", messages=messages)])
            (outcome,) = await submission.wait()
            assert submission.skipped == skipped
            assert len(outcome.changes) == len(messages) - skipped


async def test_words_said_again_update_their_record(memory: Memory) -> None:
    """They are evidence of a record that was there; undone, it is as it was."""
    (first,) = (await memory.remember("I like tea.")).records
    await memory.remember("I like rye.")
    again = await memory.remember("I like tea.")
    (change,) = again.changes
    assert (change.kind, change.previous) == (ChangeKind.UPDATED, first)
    await memory.undo(again.changes)
    assert words(await memory.list_records()) == ["I like rye.", "I like tea."]
    await memory.retract(change.record.id)
    (change,) = (await memory.remember("I like tea.")).changes
    assert (change.kind, change.previous) == (ChangeKind.CREATED, None)


async def test_what_is_submitted_is_gone_through_once() -> None:
    """An iterator may be passed instead of a list, and nothing is kept if one of its items is invalid."""
    async with opened(InMemoryProvider()) as memory:
        submission = await memory.remember_many(text for text in TEXTS)
        assert len(await submission.wait()) == len(TEXTS)
        assert words(await memory.list_records()) == sorted(TEXTS)
        with pytest.raises(InvalidDataError, match="blank"):
            await memory.remember_many(iter(["The mill is old.", " "]))
        assert words(await memory.list_records()) == sorted(TEXTS)


def test_the_blocking_twin_submits_and_waits() -> None:
    with BlockingMemory(opened(InMemoryProvider(), ScriptedModel(well))) as memory:
        submission = memory.remember_many(TALKS, subject=USER)
        assert [said(outcome.records) for outcome in submission.wait()] == [["Oslo"], [12], ["cat"]]
        assert (submission.pending, len(submission.ids), submission.failures) == (0, 3, ())


# Repeated submission of unread words: after a cancelled call, after a failure, or while they are being read.

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


async def test_dead_letters_of_all_users_are_read_again_after_an_outage(provider: AgentMemoryProvider) -> None:
    mood = Moody()
    async with opened(provider, ScriptedModel(mood), viewer=None) as memory:
        ann, bo = memory.for_user("ann"), memory.for_user("bo")
        for user in (ann, bo):
            await user.remember(HOME)
        letters = memory.inbox.dead_letters
        assert await letters.list() == ()
        assert len(await letters.list(all_users=True)) == 2
        with pytest.raises(InvalidDataError, match="their own private facts"):
            await ann.inbox.dead_letters.list(all_users=True)
        mood.is_well = True
        assert [outcome.failure for outcome in await letters.retry(all_users=True)] == [None, None]
        for user in (ann, bo):
            assert said(await user.list_records()) == ["Rome"]
            assert await user.inbox.dead_letters.list() == ()
        assert await memory.list_records() == []  # they are private as before


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
