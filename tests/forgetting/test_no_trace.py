"""Forgotten facts leave no trace in any file of any store: words, names, vectors, ids."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from factmem import AgentMemoryProvider, Background, Concept, FactDetails, Memory, Origin, SingleFact
from factmem.abc.capabilities import EmbedderIdentity, KeepsLog
from factmem.details import Evidence
from factmem.errors import ModelUnavailableError
from factmem.memory import verify_erased
from factmem.recall.text.analysis import indexed_text
from factmem.records import FactRecord, Recorded
from factmem.testing import FakeClock, ScriptedModel
from tests.conftest import Promise
from tests.forgetting.stores import STAYS_PENDING, DenseEmbedder, hits, vector_of, word
from tests.memory.telling import CITY, CONCEPTS, USER, log_of, talk, well

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

KINDS = ("value", "keyword", "description", "quote", "metadata", "key", "reason", "category", "source", "scope")
QUIET = Background(attempts=1)


class Turned(DenseEmbedder):
    """Another embedder, with other vectors."""

    async def identity(self) -> EmbedderIdentity:
        return EmbedderIdentity(name="turned", dimension=64)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        turned: NDArray[np.float32] = -(await super().embed(texts))
        return turned


def details(number: int) -> FactDetails:
    return FactDetails(
        evidence=(Evidence(quote=f"They said {word('quote', number)}, no: “{word('quoté', number)}”."),),
        metadata={word("key", number): [word("metadata", number), {"deep": word("metadata", -number)}]},
        categories=(word("category", number),),
        source=word("source", number),
    )


def words(number: int) -> list[str]:
    """Return all unique words of the record that `save_with_history` makes."""
    more = [("metadata", -number), ("old", number), ("quoté", number)]
    return [*(word(kind, number) for kind in KINDS), *(word(kind, at) for kind, at in more)]


async def save_with_history(memory: Memory, clock: FakeClock, number: int) -> FactRecord[str]:
    """Save a record with a history: retracted and restored, each with a reason."""
    concept = Concept.single(word("keyword", number), f"About {word('description', number)}")
    where = f"/product/{word('scope', number)}"
    first = SingleFact(concept, f"{word('old', number)} Zoë", timestamp=clock())
    (record,) = await memory.save(first, subject=USER, scope=where, details=details(number))
    await memory.update(record.id, value=f"{word('value', number)} 东京 in Zürich")
    await memory.retract(record.id, reason=f"because of {word('reason', number)}")
    await memory.restore(record.id, reason=word("reason", number))
    return record


async def vectors_in(provider: AgentMemoryProvider, record_id: str) -> list[NDArray[np.float32]]:
    assert isinstance(provider, KeepsLog)
    log = [entry for entry in await provider.changes(None) if isinstance(entry, Recorded)]
    return [vector_of(indexed_text(entry.assertion)) for entry in log if entry.record_id == record_id]


async def test_of_a_forgotten_record_nothing_is_left(
    opened: Callable[[], AgentMemoryProvider], kind: str, folder: Path, clock: FakeClock, promise: Promise, big: bool
) -> None:
    """This holds while the store is open and after it is closed; the other records are intact."""
    count = 60 if big else 8
    async with opened() as provider:
        memory = Memory(provider, embedder=DenseEmbedder(), clock=clock)
        records = [await save_with_history(memory, clock, number) for number in range(count)]
        gone, kept = records[::2], records[1::2]
        vectors = [row for record in gone for row in await vectors_in(provider, record.id)]
        if not kind.startswith("encrypted"):
            assert len(hits(folder, words(0))) == len(words(0))
            assert len(hits(folder, [], vectors)) == len(vectors) == count
        traces = await memory.admin.traces(*(record.id for record in gone))
        receipt = await memory.forget(*(record.id for record in gone))
        assert (receipt.erased, receipt.pending) == (count, kind in STAYS_PENDING)
        said = [text for number in range(0, count, 2) for text in [*words(number), gone[number // 2].id]]
        assert hits(folder, said, vectors) == []
        if kind not in STAYS_PENDING:
            report = await verify_erased(provider, traces)
            assert (report.clean, sum(file.names for file in report.files), report.said_by) == (True, 0, ())
        assert len(await memory.list_records()) == len(kept)
    assert hits(folder, said, vectors) == []
    async with opened() as provider:
        memory = Memory(provider, embedder=DenseEmbedder(), clock=clock)
        found = await memory.recall(word("value", 1))
        assert found[0].record.id == kept[0].id
        assert found[0].record.details.source == word("source", 1)
        await memory.forget(*(record.id for record in kept))
        assert hits(folder, [text for number in range(count) for text in words(number)]) == []
    promise(f"erase, {kind}", f"{count} records of every kind of word, name and vector: 0 hits afterwards")


async def test_words_that_a_model_has_read_go_with_what_it_found(
    opened: Callable[[], AgentMemoryProvider], folder: Path, clock: FakeClock
) -> None:
    """Its states and the evidence of the found facts are erased as well."""
    async with opened() as provider:
        memory = Memory(provider, model=ScriptedModel(well), concepts=CONCEPTS, embedder=DenseEmbedder(), clock=clock)
        async with memory:
            said = talk(f"I live in Rome because of {word('why')}.", f"And {word('else')} sleeps.", id=word("talk"))
            found = await memory.remember(said)
            (city,) = [change.record for change in found.changes if change.record.concept == CITY]
            await memory.forget(city.id)
            assert hits(folder, [word("why"), "because of"]) == []


async def test_dead_letters_and_the_quarantined_are_forgotten_like_anything_else(
    opened: Callable[[], AgentMemoryProvider], folder: Path, clock: FakeClock
) -> None:
    fails = ScriptedModel(lambda prompt, answer: ModelUnavailableError("nobody there"))
    async with opened() as provider:
        memory = Memory(provider, model=fails, embedder=DenseEmbedder(), clock=clock, background=QUIET)
        async with memory:
            await memory.remember(talk(f"I live near {word('dead')}."))
            untrusted = FactDetails(origin=Origin.DOCUMENT, evidence=(Evidence(quote=word("page")),))
            await memory.save(SingleFact(Concept.single("link", "a link"), word("planted")), details=untrusted)
            (letter,) = await memory.inbox.dead_letters.list()
            (planted,) = await memory.list_records(concepts=["link"]) or await memory.forget(
                concepts=["link"], dry_run=True
            )
            receipt = await memory.forget(*(record.id for record in letter.records))
            assert receipt.erased == 1
            assert (await memory.forget(planted.id)).erased == 1
            assert await memory.inbox.dead_letters.list() == ()
    assert hits(folder, [word("dead"), word("planted"), word("page")]) == []


async def test_vectors_of_an_earlier_embedder_are_gone_too(
    opened: Callable[[], AgentMemoryProvider], folder: Path, clock: FakeClock
) -> None:
    async with opened() as provider:
        record = await save_with_history(Memory(provider, embedder=DenseEmbedder(), clock=clock), clock, 1)
        vectors = await vectors_in(provider, record.id)
        memory = Memory(provider, embedder=Turned(), clock=clock)
        await memory.admin.reembed()
        await memory.forget(record.id)
        assert hits(folder, words(1), [*vectors, *(-row for row in vectors)]) == []


@pytest.mark.parametrize("length", [3_000, 60_000])
async def test_a_text_of_many_pages_is_gone_from_each(
    opened: Callable[[], AgentMemoryProvider], kind: str, folder: Path, clock: FakeClock, length: int
) -> None:
    long = " ".join(word("page", number) for number in range(length // 22))
    async with opened() as provider:
        memory = Memory(provider, embedder=DenseEmbedder(), clock=clock)
        (record,) = await memory.save(SingleFact(Concept.single("diary", "a diary"), long))
        traces = await memory.admin.traces(record.id)
        await memory.forget(record.id)
        assert hits(folder, long.split()[:: max(1, length // 3000)]) == []
        assert kind in STAYS_PENDING or (await verify_erased(provider, traces)).clean


@pytest.mark.parametrize("way", ["id", "filter"])
@pytest.mark.parametrize("moved", ["away", "on", "there and back", "undone", "undone and made again"])
async def test_with_a_record_goes_what_it_left_where_it_was_before(
    opened: Callable[[], AgentMemoryProvider], kind: str, folder: Path, clock: FakeClock, way: str, moved: str
) -> None:
    """The earlier values that it left in another scope, or had there until its move was undone, go as well."""
    async with opened() as provider:
        memory = Memory(provider, embedder=DenseEmbedder(), clock=clock)
        record, kept = await save_with_history(memory, clock, 1), await save_with_history(memory, clock, 2)
        change = await memory.update(record.id, scope="/agent/one", value=f"{word('there')} now")
        await memory.update(kept.id, scope="/agent/one")
        match moved:
            case "on":
                change = await memory.update(change.record.id, scope="/agent/two")
            case "there and back":
                change = await memory.update(change.record.id, scope=record.scope, value=word("back"))
            case "undone" | "undone and made again":
                await memory.update(change.record.id, value=word("there", 2))
                await memory.undo([change.record.id])
                (change,) = await memory.undo([change])
                if moved != "undone":
                    await memory.update(record.id, value=word("between"), origin=Origin.TOOL)
                    change = await memory.update(record.id, scope="/agent/one")
        id = change.record.id
        traces = await memory.admin.traces(id)
        if way == "id":
            receipt = await memory.forget(id)
        else:
            receipt = await memory.forget(concepts=[record.concept], scope=change.record.scope)
        assert [it.id for it in receipt] == [id]
        said = [it for it in words(1) if it != word("scope", 1)]
        said += [word("there"), word("there", 2), word("back"), word("between")]
        assert hits(folder, [*said, id, record.id]) == []
        if kind not in STAYS_PENDING:
            assert (await verify_erased(provider, traces)).clean
        assert [it.value for it in await memory.list_records()] == [f"{word('value', 2)} 东京 in Zürich"]
        assert len((await log_of(provider))[0]) == 3  # both revisions of the other, and where it was moved to


async def test_what_stands_where_a_record_was_before_stays(
    opened: Callable[[], AgentMemoryProvider], folder: Path, clock: FakeClock
) -> None:
    """A value that was saved there since is a record of its own; and the old id erases nothing elsewhere."""
    async with opened() as provider:
        memory = Memory(provider, embedder=DenseEmbedder(), clock=clock)
        record = await save_with_history(memory, clock, 1)
        moved = (await memory.update(record.id, scope="/agent/one")).record
        await memory.save(record.concept.fact([word("since")], timestamp=clock()), subject=USER, scope=record.scope)
        await memory.forget(record.id)
        assert [it.id for it in await memory.list_records()] == [moved.id]
        back = (await memory.update(moved.id, scope=record.scope)).record
        away = (await memory.update(back.id, scope="/agent/two")).record
        await memory.save(record.concept.fact([word("since")], timestamp=clock()), subject=USER, scope=record.scope)
        await memory.forget(away.id)
        assert [it.value for it in await memory.list_records()] == [word("since")]
        assert hits(folder, words(1)[:1]) == []
        assert len(await memory.history(back.id)) == 1


async def test_a_view_erases_nothing_outside_of_it(opened: Callable[[], AgentMemoryProvider], clock: FakeClock) -> None:
    async with opened() as provider:
        memory = Memory(provider, embedder=DenseEmbedder(), clock=clock)
        record = await save_with_history(memory, clock, 1)
        moved = (await memory.update(record.id, scope="/agent/one")).record
        await memory.scope("/agent/one").forget(moved.id)
        assert len(await memory.history(record.id)) == 2
