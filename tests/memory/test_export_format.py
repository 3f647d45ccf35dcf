"""The promise of the export format: files of every version are read by every later factmem, and lose nothing."""

from __future__ import annotations

import datetime as dt
import io
import json
from pathlib import Path
from typing import Any

import pytest

from factmem import Concept, InMemoryProvider, Memory
from factmem.codec import FORMAT_VERSION
from factmem.errors import CodecError, NewerVersionError
from factmem.memory import exports
from factmem.testing import HashEmbedder

EXPORTS = sorted((Path(__file__).parent / "exports").glob("version_*.jsonl"))
"""An export of the same store by each version of the format. Never change one: add another."""

SEATS = Concept.single("seats", "How many fit in", int)
GIVEN_BY_THE_STORE = ("id", "record_id", "seq", "recorded_at")


def opened() -> Memory:
    return Memory(InMemoryProvider(), viewer="ada", embedder=HashEmbedder())


async def exported(memory: Memory) -> list[dict[str, Any]]:
    """Return the lines of an export without what a store gives to each assertion."""
    file = io.StringIO()
    await memory.admin.export(file)
    lines = [json.loads(line) for line in file.getvalue().splitlines()]
    for line in lines:
        for key in GIVEN_BY_THE_STORE:
            line.pop(key, None)
        line.get("assertion", {}).pop("revises", None)
    return lines


def test_every_version_has_its_export() -> None:
    assert len(EXPORTS) == FORMAT_VERSION


@pytest.mark.parametrize("file", EXPORTS, ids=lambda file: file.stem)
async def test_an_export_of_every_version_is_read(file: Path) -> None:
    """With its history, evidence, owner and details; and what is exported again is the newest version's file."""
    async with opened() as memory:
        assert (await memory.admin.import_(file, trust=True)).imported == 5
        history = await memory.history(SEATS, subject="user:jörg", scope="/product/alpha")
        assert [record.value for record in history] == [5, 7, 8]
        assert history[0].timestamp == dt.datetime(2026, 5, 1, 10, tzinfo=dt.UTC)
        assert (history[0].importance, history[0].details.metadata) == (0.8, {"tier": "gold"})
        assert history[0].subject.priority_level == 1
        (safe,) = [record for record in await memory.list_records() if record.private]
        (evidence,) = safe.evidence
        assert (evidence.quote, evidence.conversation_id, evidence.end) == (safe.value, "talk", len(safe.value))
        assert len(await memory.view(viewer="bo").list_records()) == 1
        again = await exported(memory)
    async with opened() as newest:
        await newest.admin.import_(EXPORTS[-1], trust=True)
        assert again == await exported(newest)


async def test_a_newer_file_and_an_unknown_field_are_refused(tmp_path: Path) -> None:
    text = EXPORTS[-1].read_text("utf-8")
    newer, unknown = tmp_path / "newer.jsonl", tmp_path / "unknown.jsonl"
    newer.write_text(text.replace(f'"v": {FORMAT_VERSION}', f'"v": {FORMAT_VERSION + 1}', 1), "utf-8")
    unknown.write_text(text.replace('"state":"active"', '"state":"active","mood":"sunny"', 1), "utf-8")
    async with opened() as memory:
        with pytest.raises(NewerVersionError):
            await memory.admin.import_(newer, trust=True)
        with pytest.raises(CodecError):
            await memory.admin.import_(unknown, trust=True)
        assert await memory.list_records() == []


async def test_a_line_without_an_end_is_refused_and_the_lines_before_it_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exports, "_LONGEST_LINE", 4_000)
    file = tmp_path / "export.jsonl"
    async with Memory("memory:", embedder=HashEmbedder()) as memory:
        await memory.remember("The cellar is cold.")
        await memory.admin.export(file)
    with file.open("a", encoding="utf-8") as more:
        more.write('{"v": 1, "padding": "' + "x" * 100_000)
    async with Memory("memory:", embedder=HashEmbedder()) as memory:
        with pytest.raises(CodecError, match="longer than 4,000 characters"):
            await memory.admin.import_(file, trust=True)
        assert len(await memory.list_records()) == 1
