"""Messages that are forgotten while a model reads them: no fact is saved, and the caller gets a truthful result."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import anyio
import attrs
import pytest

from factmem import AgentMemoryProvider, Background, Concept, Conversation, FactDetails, Memory, Message, Policies
from factmem.abc import Candidate, Detection, DetectionRequest
from factmem.detection import utterances
from factmem.errors import FactMemError, ModelUnavailableError
from factmem.memory.background import MemoryEvent, SubmissionFailed, SubmissionFinished
from factmem.memory.submitted import StoredSession
from tests.forgetting.stores import DenseEmbedder, hits, word
from tests.memory.telling import BEGAN

NOTED = Concept.multiple("noted", "what was noted")


@attrs.define
class Slow:
    """A detector that finds every word beginning with a q, after its gate is opened."""

    gate: anyio.Event = attrs.field(factory=anyio.Event)
    asked: anyio.Event = attrs.field(factory=anyio.Event)
    error: FactMemError | None = None
    heard: list[str] = attrs.field(factory=list)

    async def detect(self, conversation: Conversation, request: DetectionRequest) -> Detection:
        self.heard += [str(message.content) for message in conversation.messages]
        self.asked.set()
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return Detection(
            candidates=[
                Candidate(
                    fact=NOTED.fact([noted], timestamp=said.timestamp),
                    details=FactDetails(evidence=(said.cite(0, len(said.text)),), origin=said.origin),
                )
                for said in utterances(conversation, BEGAN)
                for noted in said.text.split()
                if noted.startswith("q")
            ]
        )


def talk(name: str, *texts: str) -> Conversation:
    messages = [Message(content=text, id=f"{name}-{number}") for number, text in enumerate(texts)]
    return Conversation(messages=messages, id=name, started_at=BEGAN)


@attrs.define
class Scene:
    """A memory whose detector waits at a gate."""

    memory: Memory
    slow: Slow
    events: list[MemoryEvent]

    async def forget(self, text: str) -> None:
        """Forget the statement that contains a text, once the detector has received it."""
        with anyio.fail_after(20):
            await self.slow.asked.wait()
        (record,) = [record for record in await self.memory.list_records() if text in str(record.value)]
        await self.memory.forget(record.id)
        self.slow.gate.set()


@pytest.fixture
def scene(provider: AgentMemoryProvider) -> Scene:
    slow, events = Slow(), list[MemoryEvent]()
    memory = Memory(
        provider,
        detector=slow,
        embedder=DenseEmbedder(),
        on_event=events.append,
        background=Background(attempts=1, concurrency=3),
        policies=Policies(keep_words=False),
    )
    return Scene(memory, slow, events)


async def values(memory: Memory) -> set[object]:
    return {record.value for record in await memory.list_records(concepts=[NOTED])}


async def test_others_of_the_same_batch_are_read_as_if_nothing_had_happened(
    scene: Scene, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING, "factmem"):
        async with scene.memory as memory:
            talks = [talk(name, f"I say {word(name)} now.") for name in ("one", "two", "three")]
            submission = await memory.remember_many(talks)
            await scene.forget(word("two"))
            outcomes = await submission.wait()
            assert [outcome.failure for outcome in outcomes] == [None, None, None]
            assert [len(outcome.records) for outcome in outcomes] == [1, 0, 1]
            assert await values(memory) == {word("one"), word("three")}
            assert await memory.inbox.dead_letters.list() == ()
            assert hits(folder, [word("two")]) == []
    assert [type(event) for event in scene.events] == [SubmissionFinished] * 3
    assert caplog.records == []


async def test_the_rest_of_a_conversation_is_read_without_what_was_forgotten(scene: Scene, folder: Path) -> None:
    async with scene.memory as memory:
        submission = await memory.remember_many(
            [talk("talk", f"I say {word('one')} now.", f"Then {word('two')} came.")]
        )
        await scene.forget(word("one"))
        (outcome,) = await submission.wait()
        assert outcome.failure is None
        assert await values(memory) == {word("two")}
        assert hits(folder, [word("one")]) == []
    assert scene.slow.heard[2:] == [f"Then {word('two')} came."]


async def test_a_model_that_fails_as_well_leaves_no_dead_letter(
    scene: Scene, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    scene.slow.error = ModelUnavailableError("nobody there")
    with caplog.at_level(logging.WARNING, "factmem"):
        async with scene.memory as memory:
            submission = await memory.remember_many([talk("talk", f"I say {word('one')} now.")])
            await scene.forget(word("one"))
            (outcome,) = await submission.wait()
            assert (outcome.failure, outcome.records) == (None, ())
            assert await memory.inbox.dead_letters.list() == ()
            assert hits(folder, [word("one")]) == []
    assert caplog.records == []


async def test_words_that_are_kept_unread_are_still_reported(scene: Scene, caplog: pytest.LogCaptureFixture) -> None:
    scene.slow.error = ModelUnavailableError("nobody there")
    scene.slow.gate.set()
    with caplog.at_level(logging.WARNING, "factmem"):
        async with scene.memory as memory:
            (outcome,) = await (await memory.remember_many([talk("talk", "Hello there.")])).wait()
            assert outcome.failure == "ModelUnavailableError"
    assert [type(event) for event in scene.events] == [SubmissionFailed]
    assert ["they are kept" in record.getMessage() for record in caplog.records] == [True]


async def test_a_session_that_is_read_again_and_forgotten_meanwhile_leaves_nothing(
    opened: Callable[[], AgentMemoryProvider], folder: Path
) -> None:
    """Its words are not pending, so no change of their state marks them in the transaction."""
    async with opened() as provider:
        verbatim = Memory(provider, embedder=DenseEmbedder())
        await verbatim.remember(talk("talk", f"I say {word('one')} now.", f"Then {word('two')} came."))
        slow = Slow()
        scene = Scene(Memory(provider, detector=slow, embedder=DenseEmbedder()), slow, [])
        async with scene.memory as memory:
            submission = await memory.generate(StoredSession(id="talk"))
            await scene.forget(word("one"))
            (outcome,) = await submission.wait()
            assert outcome.failure is None
            assert await values(memory) == {word("two")}
            assert hits(folder, [word("one")]) == []
