"""The search for traces finds erased text in any encoding, and reports their number, never their text."""

from __future__ import annotations

import base64
import json
import unicodedata
from collections.abc import Callable
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

from factmem import AgentMemoryProvider, Concept, InMemoryProvider, Memory, MemoryScope, MemorySubject, SingleFact
from factmem.details import Evidence, FactDetails
from factmem.errors import CapabilityError
from factmem.memory import erasure_proof as searching
from factmem.memory import verify_erased
from factmem.memory.erasure_proof import Scanner, Traces, is_distinctive
from factmem.recall.text.analysis import indexed_text
from factmem.records import Assertion, Place, assertions_of
from tests.forgetting.stores import DenseEmbedder, likes, vector_of, word
from tests.tables import each_case

SECRET = "Zoë’s “žluťoučký kůň” lives in 東京都渋谷区 at number 12, and nobody knows"


@pytest.fixture
def kind() -> str:
    """The search is the same for every store; this one has readable files."""
    return "file"


async def erased(provider: AgentMemoryProvider, text: str = SECRET) -> tuple[Traces, bytes]:
    """Forget a record, and return its traces and the bytes of its vector."""
    memory = Memory(provider, embedder=DenseEmbedder())
    (record,) = await memory.save(likes(text))
    traces = await memory.admin.traces(record.id)
    await memory.forget(record.id)
    return traces, vector_of(indexed_text(_said(text))).astype("<f4").tobytes()


def _said(text: str) -> Assertion:
    (said,) = assertions_of(likes(text), Place(MemorySubject.EVERYTHING, MemoryScope.CROSS_PRODUCT))
    return said


def composed(form: Literal["NFC", "NFD"]) -> str:
    return unicodedata.normalize(form, SECRET)


FORMS = {
    "UTF-8": SECRET.encode(),
    "composed": composed("NFC").encode(),
    "decomposed": composed("NFD").encode(),
    "JSON in ASCII": json.dumps(SECRET).encode(),
    "JSON in ASCII, large": "".join(f"\\u{ord(char):04X}" if ord(char) > 127 else char for char in SECRET).encode(),
    "JSON in ASCII, decomposed": json.dumps(composed("NFD")).encode(),
    "UTF-16": SECRET.encode("utf-16-le"),
    "UTF-16, the other way round": SECRET.encode("utf-16-be"),
    "a part": SECRET[:48].encode(),
    "the end": SECRET[32:].encode(),
    "the end of a word, as an index has it": b"toucky\x00",
}


@pytest.mark.parametrize("form", FORMS)
async def test_words_are_found_in_every_form(provider: AgentMemoryProvider, folder: Path, form: str) -> None:
    traces, _ = await erased(provider)
    assert (await verify_erased(provider, traces)).clean
    (folder / "facts" / "left over").write_bytes(b"\0" * 1001 + FORMS[form] + b"\0" * 77)
    report = await verify_erased(provider, traces)
    assert not report.clean
    assert {file.path.name for file in report.files if file.words} == {"left over"}


@pytest.mark.parametrize("ahead", range(3))
async def test_words_are_found_in_base64_wherever_it_begins(
    provider: AgentMemoryProvider, folder: Path, ahead: int
) -> None:
    traces, _ = await erased(provider)
    (folder / "facts" / "left over").write_bytes(base64.b64encode(b"x" * ahead + SECRET.encode() + b"yz"))
    assert not (await verify_erased(provider, traces)).clean


@pytest.mark.parametrize("ahead", range(4))
@pytest.mark.parametrize("encode", [bytes, base64.b64encode])
async def test_vectors_are_found_as_numbers_and_in_base64(
    provider: AgentMemoryProvider, folder: Path, ahead: int, encode: Callable[[bytes], bytes]
) -> None:
    traces, row = await erased(provider)
    (folder / "facts" / "left over").write_bytes(b"\n" * 3 + encode(b"x" * ahead + row[: len(row) // 2]))
    report = await verify_erased(provider, traces)
    assert [file.vectors > 0 for file in report.files if file.path.name == "left over"] == [True]


async def test_names_of_files_are_searched_too(provider: AgentMemoryProvider, folder: Path) -> None:
    traces, _ = await erased(provider, word("value"))
    (folder / "facts" / f"{word('value')}.jsonl.old").write_bytes(b"")
    assert not (await verify_erased(provider, traces)).clean


async def test_ids_and_digests_are_found(provider: AgentMemoryProvider, folder: Path) -> None:
    """A digest of a value counts as a trace, because guesses of the value can be checked against it."""
    memory = Memory(provider, embedder=DenseEmbedder())
    (record,) = await memory.save(likes("tea"))
    traces = await memory.admin.traces(record.id)
    await memory.forget(record.id)
    (slot,) = [mark for mark in traces.marks if len(mark) == 16 and mark == _said("tea").slot]
    (folder / "facts" / "left over").write_bytes(slot)
    report = await verify_erased(provider, traces)
    assert sum(file.marks for file in report.files) == 1


async def test_a_report_contains_no_erased_text(provider: AgentMemoryProvider, folder: Path) -> None:
    traces, _ = await erased(provider)
    (folder / "facts" / "left over").write_text(SECRET * 3)
    report = await verify_erased(provider, traces)
    for shown in (repr(report), repr(traces)):
        assert not any(piece in shown for piece in SECRET.split() if len(piece) > 2)
    assert next(file.words for file in report.files if file.path.name == "left over") >= 3


async def test_text_of_a_current_record_is_reported_apart_from_traces(provider: AgentMemoryProvider) -> None:
    """A quote shared by two facts is erased with the second."""
    memory = Memory(provider, embedder=DenseEmbedder())
    details = FactDetails(evidence=(Evidence(quote="I am Maya Okafor and my code is 4711-0815-77"),))
    (name,) = await memory.save(SingleFact(Concept.single("full name", ""), "Maya Okafor"), details=details)
    (code,) = await memory.save(SingleFact(Concept.single("code word", ""), "4711-0815-77"), details=details)
    traces = await memory.admin.traces(code.id)
    await memory.forget(code.id)
    report = await verify_erased(provider, traces)
    assert (report.clean, report.said_by) == (False, (name.id,))
    assert sum(file.found for file in report.files) == 0
    assert report.left_out > 0
    traces = await memory.admin.traces(name.id, texts=["4711-0815-77"])
    await memory.forget(name.id)
    assert (await verify_erased(provider, traces)).clean


async def test_records_that_the_viewer_may_not_see_are_counted_and_not_named(provider: AgentMemoryProvider) -> None:
    hers = Memory(provider, viewer="bob", embedder=DenseEmbedder())
    fact = likes(word("shared"))
    await hers.save(fact, private=True)
    mine = Memory(provider, viewer="alice", embedder=DenseEmbedder())
    (record,) = await mine.save(fact, private=True)
    traces = await mine.admin.traces(record.id, texts=[word("shared")])
    await mine.forget(record.id)
    report = await verify_erased(provider, traces)
    assert (traces.said_by, report.said_by, report.said_elsewhere, report.clean) == ((), (), 1, False)
    (other,) = await hers.list_records()
    assert (await mine.admin.traces(other.id)).words == frozenset()


async def test_words_too_short_to_search_for_are_counted(provider: AgentMemoryProvider) -> None:
    traces, _ = await erased(provider, "tea")
    report = await verify_erased(provider, traces)
    assert report.too_short >= 1
    assert report.clean


@pytest.mark.parametrize(("text", "holding"), [("Oslo", 1), ("Osl", 0), ("lives in", 1), ("Rome", 0), (" ", 0)])
async def test_a_short_text_of_the_caller_is_asked_of_the_records_and_never_clean(
    provider: AgentMemoryProvider, text: str, holding: int
) -> None:
    """As a word, it is in a record or not; in a file it would be found by chance."""
    memory = Memory(provider, embedder=DenseEmbedder())
    await memory.save(likes("Ann lives in Oslo."))
    report = await verify_erased(provider, await memory.admin.traces(texts=[text]))
    assert (report.clean, len(report.said_by), report.unsearched) == (False, holding, int(not is_distinctive(text)))


async def test_a_short_text_of_the_caller_in_a_record_of_another_viewer_is_counted(
    provider: AgentMemoryProvider,
) -> None:
    await Memory(provider, viewer="bob", embedder=DenseEmbedder()).save(likes("Oslo, mostly"), private=True)
    mine = Memory(provider, viewer="alice", embedder=DenseEmbedder())
    report = await verify_erased(provider, await mine.admin.traces(texts=["Oslo"]))
    assert (report.said_by, report.said_elsewhere) == ((), 1)


async def test_a_search_for_nothing_proves_nothing(provider: AgentMemoryProvider) -> None:
    memory = Memory(provider, embedder=DenseEmbedder())
    report = await verify_erased(provider, await memory.admin.traces())
    assert (report.searched, report.clean) == (0, False)


@each_case("text", "telling")
def test_a_word_is_searched_for_if_it_is_unlikely_by_chance(text: str, telling: bool) -> None:
    assert is_distinctive(text) is telling


async def test_a_store_without_files_says_so() -> None:
    async with InMemoryProvider() as provider:
        with pytest.raises(CapabilityError, match="files"):
            await verify_erased(provider, Traces(words=frozenset()))


def test_many_pieces_are_found_at_every_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The result equals a plain search; the file is read in blocks, and a match across two of them counts once."""
    monkeypatch.setattr(searching, "_CHUNK", 1000)
    random = np.random.default_rng(7)
    data = bytearray(random.integers(0, 256, 12_000, dtype=np.uint8).tobytes())
    pieces = [random.integers(0, 4, length, dtype=np.uint8).tobytes() for length in range(6, 70)]
    for at in range(0, 11_000, 211):
        piece = pieces[int(random.integers(len(pieces)))]
        data[at : at + len(piece)] = piece
    pieces += [bytes(data[at : at + 40]) for at in range(0, 11_000, 297)]
    file = tmp_path / "file"
    file.write_bytes(data)
    found = sorted(Scanner({piece: piece for piece in pieces}).search(file))
    expected = [piece for piece in set(pieces) for at in range(len(data)) if data.startswith(piece, at)]
    assert found == sorted(expected)
    assert len(found) > 60
