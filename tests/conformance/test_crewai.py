"""Requirements of CrewAI's own tests that no other test of factmem shows, and the ways its store loses data.

The numbers are those of its tests and the names those of its weaknesses, as in
``docs/pages/explanation/comparison-rows.md``, which names the tests of the others.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider

from factmem import Concept, FactDetails, InMemoryProvider, Memory
from factmem.abc.capabilities import Receipt, Statement
from factmem.abc.consolidator import Action, Novelty, Verdict, Verdicts
from factmem.consolidation import ConsolidationPolicy
from factmem.errors import EmbedderMismatchError, InvalidDataError, StoreUnavailableError
from factmem.llm import InstructorModel
from factmem.testing import HashEmbedder, ScriptedModel
from factmem.testing.chat_answers import answering
from factmem.testing.openai_server import LoopbackOpenAIServer
from tests.embedders import Away
from tests.memory.telling import BEGAN, FOUND_ALONE, USER, Deciding, log_of, opened, words

TEXT = "Ana launches alpha on 3 June."
ANALYSIS: dict[str, Any] = {
    "scope": "/product/alpha",
    "categories": ["plans"],
    "importance": 0.9,
    "entities": ["Ana"],
    "dates": ["3 June"],
    "topics": ["launch"],
}
ALL: dict[str, Any] = {"subject": USER, "scope": "/product/alpha", "categories": ["plans"], "importance": 0.4}


def model_at(base_url: str, mode: str = "JSON_SCHEMA") -> InstructorModel:
    return InstructorModel(
        "loopback", base_url=base_url, api_key="key", mode=mode, tries=2, retries=1, pause=0.0, timeout=60.0
    )


async def test_1_the_model_that_reads_is_never_asked_to_stream() -> None:
    """CrewAI has to copy a streaming model of the agent; here a model is called through a client of its own."""
    with LoopbackOpenAIServer(answering(ANALYSIS)) as server:
        async with opened(InMemoryProvider(), model_at(server.base_url)) as memory:
            await memory.remember(TEXT, subject=USER)
    assert [request.get("stream") for _, request in server.requests] == [None]


async def test_save_defaults_what_is_written_into_a_record_reaches_nobody_else(tmp_path: Path) -> None:
    """The store and later callers are unaffected, because arguments and results are copied."""
    wild: Concept[Any, Any] = Concept.single("wild", "anything", object)
    given = FactDetails(metadata={"list": [1]}, labels={"run": "1"})
    value: dict[str, list[Any]] = {"deep": [1]}
    async with opened(InMemoryProvider(), concepts=[wild]) as memory:
        (saved,) = await memory.save(wild.fact([value], timestamp=BEGAN), details=given)
        (listed,) = await memory.list_records()
        (shown,) = await memory.history(wild)
        for details in (given, saved.details, listed.details, shown.details):
            changing: Any = details
            changing.metadata["list"].append("x")
            changing.labels["run"] = "x"
        for changed in (value, saved.value, listed.value):
            changed["deep"].append("x")
        (record,) = await memory.list_records()
        assert (record.details.metadata, record.details.labels, record.value) == (
            {"list": [1]},
            {"run": "1"},
            {"deep": [1]},
        )
        assert await memory.admin.export(tmp_path / "log.jsonl") == 1


@pytest.mark.parametrize(
    "metadata",
    [{"it": object()}, {"n": float("nan")}, {1: "one"}],
    ids=["an object", "not a number", "a key that is no text"],
)
async def test_metadata_dropped_what_is_no_json_is_refused_before_anything_is_kept(metadata: dict[str, Any]) -> None:
    """CrewAI raises the serializer's TypeError while saving in the background, and the text is lost."""
    provider = InMemoryProvider()
    async with opened(provider, ScriptedModel(lambda prompt, answer: ANALYSIS)) as memory:
        with pytest.raises(InvalidDataError):
            await memory.remember(TEXT, metadata=metadata)
        with pytest.raises(InvalidDataError):
            await memory.remember_many([TEXT], metadata=metadata)
    assert (await log_of(provider))[0] == []


async def test_metadata_dropped_a_time_in_the_metadata_is_kept_as_text() -> None:
    when: Any = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
    async with opened(InMemoryProvider()) as memory:
        (record,) = await memory.remember(TEXT, metadata={"when": when})
    assert dt.datetime.fromisoformat(str(record.details.metadata["when"])) == when


async def test_update_poison_a_value_out_of_range_is_refused_and_breaks_no_recall() -> None:
    """One importance of 7 made every later recall of CrewAI's store fail."""
    async with opened(InMemoryProvider()) as memory:
        (record,) = await memory.remember(TEXT, **ALL)
        wrong: list[dict[str, Any]] = [{"importance": 7.0}, {"categories": [7]}, {"source": 5}, {"value": 5}]
        for change in wrong:
            with pytest.raises(InvalidDataError):
                await memory.update(record.id, **change)
        (match,) = await memory.recall("When does alpha launch?")
        assert match.record == record


OLD, NEW = "The project is led by Ana from Lyon.", "The project is led by Ana from Faro."


BATCH = ["Bees make honey in summer.", "Ships sail to Bergen.", "Nobody reads the manual."]


class Failing(InMemoryProvider):
    """A store whose disk is full from a given call on."""

    full = False

    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        if self.full:
            raise StoreUnavailableError("the disk is full")
        return await super().append(statements)


async def test_docs_vs_code_the_threshold_of_duplicates_can_be_set() -> None:
    """With a threshold of 0, any two texts with the same numbers are duplicates."""
    anything = ConsolidationPolicy(duplicate=0.0, threshold=1.0)
    async with opened(
        InMemoryProvider(), consolidator=Deciding(), policies=attrs.evolve(FOUND_ALONE, consolidation=anything)
    ) as memory:
        await (await memory.remember_many(["Bees make honey.", "Bees make honey and wax."], **ALL)).wait()
        assert len(await memory.list_records()) == 1


async def test_batch_failure_silent_an_embedder_that_is_down_loses_nothing_and_is_reported() -> None:
    """CrewAI stores nothing, and only an event reports it.

    Here the messages are kept, and found once the embedder is back.
    """
    embedder, provider = Away(), InMemoryProvider()
    async with opened(provider, embedder=embedder, consolidator=Deciding()) as memory:
        submission = await memory.remember_many(BATCH, **ALL)
        await submission.wait()
        assert submission.failures == ("EmbedderError",) * 3
        assert len(await memory.inbox.dead_letters.list()) == 3
        embedder.away = False
        await memory.inbox.dead_letters.retry()
        (match, *_) = await memory.recall("Who sails to Bergen?")
        assert match.record.value == BATCH[1]
        assert words(await memory.list_records()) == sorted(BATCH)


async def test_143_another_embedder_is_refused_at_the_submission_and_nothing_is_kept(tmp_path: Path) -> None:
    """142 and 143: CrewAI reports it in the background, after the text is lost."""
    async with SqliteVecMemoryProvider(tmp_path / "facts.db") as provider:
        async with opened(provider, embedder=HashEmbedder(64), consolidator=Deciding()) as memory:
            await memory.remember(OLD, **ALL)
        async with opened(provider, embedder=HashEmbedder(32), consolidator=Deciding()) as memory:
            with pytest.raises(EmbedderMismatchError, match="reembed"):
                await memory.remember_many(BATCH, **ALL)
            await memory.admin.reembed()
            assert words(await memory.list_records()) == [OLD]
            await (await memory.remember_many(BATCH, **ALL)).wait()
            assert words(await memory.list_records()) == sorted([OLD, *BATCH])


@attrs.define
class Filling:
    """A consolidator that replaces each known record while the disk becomes full."""

    provider: Failing
    action: Action
    fills: bool = True

    async def decide(self, novelty: Novelty) -> Verdicts:
        self.provider.full = self.fills
        updates = self.action is Action.UPDATE
        verdict = Verdict(action=self.action, text=novelty.text if updates else None)
        return Verdicts(insert=not updates, known=dict.fromkeys(range(len(novelty.known)), verdict))


@pytest.mark.parametrize("action", [Action.UPDATE, Action.DELETE])
async def test_plan_conflict_a_full_disk_in_the_middle_of_a_plan_leaves_the_old_record(action: Action) -> None:
    """CrewAI deletes the old record before the new insert fails, and has neither. Here both are one transaction."""
    provider = Failing()
    async with opened(provider, consolidator=Filling(provider, action)) as memory:
        await memory.remember(OLD, consolidate=False, **ALL)
        (outcome,) = await (await memory.remember_many([NEW], **ALL)).wait()
        assert outcome.failure == "StoreUnavailableError"
        assert words(await memory.list_records()) == sorted([OLD, NEW])
    provider.full = False
    async with opened(provider, consolidator=Filling(provider, action, fills=False)) as memory:
        await (await memory.inbox.resume()).wait()
        assert words(await memory.list_records()) == [NEW]


async def test_two_processes_that_save_the_same_fact_keep_it_once(tmp_path: Path) -> None:
    """CrewAI stores it twice: each process compares it with a store that lacks the other's record."""
    path = tmp_path / "facts.db"
    async with (
        SqliteVecMemoryProvider(path) as first,
        SqliteVecMemoryProvider(path) as second,
        opened(first, consolidator=Deciding()) as one,
        opened(second, consolidator=Deciding()) as other,
    ):
        async with anyio.create_task_group() as tasks:
            for memory in (one, other):
                tasks.start_soon(_remember, memory, NEW)
        for memory in (one, other):
            assert words(await memory.list_records()) == [NEW]


async def _remember(memory: Memory, text: str) -> None:
    await memory.remember(text, **ALL)
