"""Requirements of CrewAI's tests of batches, background saves and consolidation, and the ways its store loses data.

The numbers are those of its tests and the names those of its weaknesses, in the study. Covered elsewhere:

- 47: memory/test_saving_with_analysis.py::test_a_batch_is_embedded_in_one_call
- 48: memory/test_recalling.py::test_texts_that_say_the_same_are_kept_once
- 49: memory/test_saving_with_analysis.py::test_what_is_merely_similar_is_kept_and_numbers_make_a_difference
- 50: memory/test_saving_with_analysis.py::test_a_batch_is_consolidated_against_the_store
- 53: memory/test_saving_with_analysis.py::test_two_texts_are_analysed_at_the_same_time
- 53, limited: memory/test_under_way.py::test_all_that_is_submitted_asks_no_more_at_once_than_was_set
- 54, 56: memory/test_submitting.py::test_what_is_submitted_is_in_the_store_before_it_is_read
- 56: memory/test_submitting.py::test_reading_never_waits_for_the_model
- 57: memory/test_submitting.py::test_listeners_are_notified_of_every_submission_and_may_fail
- 58: memory/test_submitting.py::test_a_closed_memory_releases_waiting_callers_and_the_next_one_resumes
- 144: memory/test_submitting.py::test_a_cancelled_question_leaves_the_words_to_the_next_process
- kill -9 during a background save: memory/test_kill_submitting.py::test_no_submitted_text_is_lost_to_a_kill
- exit without a close: memory/test_kill_submitting.py::test_a_process_that_just_ends_loses_nothing
- kill -9 in the middle of an update: reliability/test_kills.py::test_no_acknowledged_save_is_lost_to_a_kill
- four processes, one store: reliability/test_neighbours.py::test_many_processes_share_one_store
- a dropped duplicate: consolidation/test_duplicates.py::test_the_first_said_is_kept_and_takes_the_others_evidence_in
- plan_conflict, first wins: consolidation/test_planning.py::test_the_first_candidate_that_decides_about_a_record_wins
- batch_failure_silent: memory/test_submitting.py::test_one_bad_item_keeps_nothing_of_the_batch
- forget_*: memory/test_lifecycle.py::test_the_filters_of_forget_combine_and_an_empty_one_is_an_error
- forgetting by filters: memory/test_lifecycle_ends.py::test_an_empty_filter_forgets_nothing

Deliberate differences: 51 (no search per item; known records are compared in memory), 54 (a handle is returned
once the messages are on disk), 55 (there is no reset that could race: `Memory.forget` erases records and pending
messages), 56 (recall does not drain the queue: it returns pending messages verbatim, and never waits for a model).
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

from factmem import ChangeKind, InMemoryProvider, Memory
from factmem.abc.capabilities import Receipt, Statement
from factmem.abc.consolidator import Action, Novelty, Verdict, Verdicts
from factmem.consolidation import ConsolidationPolicy
from factmem.errors import EmbedderError, EmbedderMismatchError, ModelUnavailableError, StoreUnavailableError
from factmem.memory.background import MemoryEvent, SubmissionFailed
from factmem.testing import HashEmbedder, ScriptedModel
from tests.memory.telling import FOUND_ALONE, USER, Gated, log_of, opened, until, words

ALL: dict[str, Any] = {"subject": USER, "scope": "/product/alpha", "categories": ["plans"], "importance": 0.4}
OLD, NEW = "The project is led by Ana from Lyon.", "The project is led by Ana from Faro."
BATCH = ["Bees make honey in summer.", "Ships sail to Bergen.", "Nobody reads the manual."]


@attrs.define
class Deciding:
    """A consolidator that decides the same about every known record, and records the questions."""

    action: Action = Action.KEEP
    insert: bool = True
    asked: list[Novelty] = attrs.field(factory=list)

    async def decide(self, novelty: Novelty) -> Verdicts:
        self.asked.append(novelty)
        verdict = Verdict(action=self.action, text=novelty.text if self.action is Action.UPDATE else None)
        return Verdicts(insert=self.insert, known=dict.fromkeys(range(len(novelty.known)), verdict))


class Failing(InMemoryProvider):
    """A store whose disk is full from a given call on."""

    full = False

    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        if self.full:
            raise StoreUnavailableError("the disk is full")
        return await super().append(statements)


@attrs.define
class Broken:
    """An embedder that fails while a flag is set."""

    down: bool = True
    embedder: HashEmbedder = attrs.field(factory=HashEmbedder)

    async def identity(self) -> Any:
        return await self.embedder.identity()

    async def embed(self, texts: Sequence[str]) -> Any:
        if self.down:
            raise EmbedderError("down")
        return await self.embedder.embed(texts)


def test_7_thresholds_are_settings_with_documented_defaults() -> None:
    """CrewAI accepts thresholds and ignores them; here they are applied, as the next test shows."""
    policy = ConsolidationPolicy()
    assert (policy.threshold, policy.limit, policy.duplicate) == (0.85, 5, 0.98)


async def test_docs_vs_code_the_threshold_of_duplicates_can_be_set() -> None:
    """With a threshold of 0, any two texts with the same numbers are duplicates."""
    anything = ConsolidationPolicy(duplicate=0.0, threshold=1.0)
    async with opened(
        InMemoryProvider(), consolidator=Deciding(), policies=attrs.evolve(FOUND_ALONE, consolidation=anything)
    ) as memory:
        await (await memory.remember_many(["Bees make honey.", "Bees make honey and wax."], **ALL)).wait()
        assert len(await memory.list_records()) == 1


async def test_51_every_item_of_a_batch_is_compared_with_what_is_known() -> None:
    """Known records are compared in memory, without a search for each item."""
    deciding, leaders = Deciding(), ("Ana", "Bob", "Cleo")
    async with opened(InMemoryProvider(), consolidator=deciding) as memory:
        for name in leaders:
            await memory.remember(OLD.replace("Ana", name), consolidate=False, **ALL)
        await (await memory.remember_many([NEW.replace("Ana", name) for name in leaders], **ALL)).wait()
    assert sorted(novelty.text for novelty in deciding.asked) == [NEW.replace("Ana", name) for name in leaders]
    assert all(novelty.known for novelty in deciding.asked)


async def test_52_one_text_alone_goes_the_way_of_a_batch() -> None:
    singly, together = InMemoryProvider(), InMemoryProvider()
    async with opened(singly, consolidator=Deciding()) as memory:
        outcomes = [await memory.remember(text, **ALL) for text in BATCH]
        one = words(await memory.list_records())
    async with opened(together, consolidator=Deciding()) as memory:
        handed = await (await memory.remember_many(BATCH, **ALL)).wait()
        assert words(await memory.list_records()) == one == sorted(BATCH)
    assert [[change.kind for change in outcome.changes] for outcome in (*outcomes, *handed)] == [
        [ChangeKind.CREATED]
    ] * 6


async def test_55_what_is_forgotten_while_a_batch_is_read_stays_forgotten() -> None:
    """forget_race: messages submitted earlier are erased although a model is reading them.

    CrewAI saves them afterwards.
    """
    model = Gated()
    async with opened(InMemoryProvider(), model) as memory:
        submission = await memory.remember_many(["Alice's number is 123.", "Bees make honey."], subject=USER)
        await until(lambda: model.under_way == 2)
        (secret,) = [record for record in await memory.list_records() if "Alice" in record.value]
        await memory.forget(secret.id)
        model.gate.set()
        await submission.wait()
        assert words(await memory.list_records()) == ["Bees make honey."]
        assert not [item for item in await memory.history("statement") if "Alice" in item.value]


async def test_55_forgetting_reaches_waiting_words() -> None:
    model, provider = Gated(), InMemoryProvider()
    async with opened(provider, model) as memory:
        submission = await memory.remember_many(BATCH, subject=USER)
        await until(lambda: model.under_way == 3)
        assert len(await memory.forget(subject=USER)) == 3
        model.gate.set()
        await submission.wait()
        assert (await memory.list_records(), await memory.inbox.dead_letters.list()) == ([], ())
    assert (await log_of(provider))[1].total() == 0


async def test_57_a_background_failure_is_reported_and_fails_neither_reads_nor_the_close() -> None:
    events: list[MemoryEvent] = []
    away = ScriptedModel(lambda prompt, answer: ModelUnavailableError("away"))
    async with opened(InMemoryProvider(), away, on_event=events.append) as memory:
        submission = await memory.remember_many(BATCH, subject=USER)
        await submission.wait()
        assert words(await memory.list_records()) == sorted(BATCH)
    assert submission.failures == ("ModelUnavailableError",) * 3
    assert [type(event) for event in events] == [SubmissionFailed] * 3


async def test_58_closing_finishes_what_is_under_way() -> None:
    model = Gated()
    async with opened(InMemoryProvider(), model) as memory:
        submission = await memory.remember_many(BATCH, subject=USER)
        await until(lambda: model.under_way == 3)
        model.gate.set()
    assert (submission.pending, [outcome.failure for outcome in submission.outcomes]) == (0, [None] * 3)


async def test_batch_failure_silent_an_embedder_that_is_down_loses_nothing_and_is_reported() -> None:
    """CrewAI stores nothing, and only an event reports it.

    Here the messages are kept, and found once the embedder is back.
    """
    embedder, provider = Broken(), InMemoryProvider()
    async with opened(provider, embedder=embedder, consolidator=Deciding()) as memory:
        submission = await memory.remember_many(BATCH, **ALL)
        await submission.wait()
        assert submission.failures == ("EmbedderError",) * 3
        assert len(await memory.inbox.dead_letters.list()) == 3
        embedder.down = False
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


async def test_two_instances_each_sees_at_once_what_the_other_saved(tmp_path: Path) -> None:
    """This holds for saved and for pending records. A reader of CrewAI's store is stale until it writes itself."""
    path, model = tmp_path / "facts.db", Gated()
    async with SqliteVecMemoryProvider(path) as first, SqliteVecMemoryProvider(path) as second:
        reader = opened(second)
        assert await reader.list_records() == []
        async with opened(first, model) as writer:
            await writer.remember(OLD, consolidate=False, **ALL)
            assert [match.record.value for match in await reader.recall("Who leads the project?")] == [OLD]
            submission = await writer.remember_many(["Bees make honey."], subject=USER)
            (match, *_) = await reader.recall("What do bees make?")
            assert (match.record.value, submission.pending) == ("Bees make honey.", 1)
            model.gate.set()


async def test_a_rejected_insert_is_evidence_of_the_record_that_stands() -> None:
    """remember_returns_foreign: the existing record is returned, and the rejected text becomes its evidence."""
    async with opened(InMemoryProvider(), consolidator=Deciding(Action.KEEP, insert=False)) as memory:
        (first,) = await memory.remember(OLD, **ALL)
        outcome = await memory.remember(NEW, **ALL)
    (record,) = outcome.records
    assert (record.id, record.value) == (first.id, OLD)
    assert {item.quote for item in record.evidence} == {OLD, NEW}
    assert record.timestamp > dt.datetime(2024, 1, 1, tzinfo=dt.UTC)
