"""Specs of `ChecksItself`: a sound store has no finding but notes, and damage is found."""

# ruff: noqa: D102  (a spec is named for what it proves)

from __future__ import annotations

from pathlib import Path
from typing import Any

import anyio
import attrs

from factmem.abc import AgentMemoryProvider, ChecksItself, Erases, KeepsFiles, KeepsHistory
from factmem.errors import FactMemError
from factmem.facts import Fact
from factmem.findings import FindingKind, Severity
from factmem.records import AssertionState, Origin
from factmem.testing.conformance.opening import ProviderCase
from factmem.testing.conformance.samples import (
    CITY,
    LANGUAGES,
    PLANNER,
    SEATS,
    USER,
    keep,
    multiple,
    only,
    said,
    single,
)

__all__ = ["CheckSpecs"]


class CheckSpecs(ProviderCase):
    """Specs of the check of a store."""

    async def test_a_sound_store_has_no_findings(
        self, provider: AgentMemoryProvider, checker: ChecksItself, history: KeepsHistory, eraser: Erases
    ) -> None:
        gone = await only(history, said(CITY, "Oslo"))
        await provider.save(single(SEATS, 4), USER, PLANNER)
        await provider.save(multiple(LANGUAGES, "Thai", "Ewe"), USER, PLANNER.within("acme"))
        erased = await eraser.erase([gone.record_id], tenant=None)
        left = [FindingKind.PENDING_ERASURE] if erased.pending else []
        assert [finding.kind for finding in await checker.check()] == left

    async def test_what_waits_and_what_is_not_believed_is_counted_and_no_fault(
        self, checker: ChecksItself, history: KeepsHistory
    ) -> None:
        planted = said(CITY, "Oslo")
        await keep(history, attrs.evolve(planted, state=AssertionState.QUARANTINED, details=_untrusted(planted)))
        await keep(history, attrs.evolve(said(SEATS, 4), job={"id": "1"}, state=AssertionState.PENDING))
        found = {finding.kind: finding for finding in await checker.check()}
        assert found.keys() == {FindingKind.QUARANTINED, FindingKind.WAITING}
        assert {finding.severity for finding in found.values()} == {Severity.NOTE}

    async def test_a_check_changes_nothing_and_shows_its_progress(
        self, provider: AgentMemoryProvider, checker: ChecksItself, history: KeepsHistory
    ) -> None:
        await keep(history, said(CITY, "Oslo"))
        before = await _contents(provider)
        told: list[tuple[int, int]] = []
        await checker.check(progress=lambda done, of: told.append((done, of)))
        assert await _contents(provider) == before
        assert told
        assert all(0 < done <= of for done, of in told)

    async def test_a_file_cut_in_half_is_found_or_reads_as_after_a_crash(
        self, provider: AgentMemoryProvider, checker: ChecksItself, tmp_path: Path
    ) -> None:
        facts: list[Fact[Any]] = [single(SEATS, 4), multiple(LANGUAGES, "Thai", "Ewe")]
        for fact in facts:
            await provider.save(fact, USER, PLANNER)
        await (await self.reopened(provider, tmp_path)).aclose()
        for path, content in _files_in(tmp_path).items():
            path.write_bytes(content[: len(content) // 2])
            async with await self.open_provider(tmp_path) as damaged:
                assert await _found_or_as_after_a_crash(damaged, facts), path.name
            for other, whole in _files_in(tmp_path).items():
                if other == path or not whole:
                    other.unlink(missing_ok=True)
            path.write_bytes(content)


def _untrusted(planted: Any) -> Any:
    return attrs.evolve(planted.details, origin=Origin.TOOL)


def _files_in(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file() and path.stat().st_size}


async def _contents(provider: AgentMemoryProvider) -> dict[Path, bytes]:
    """Return the files of a store; SQLite's shared memory is not part of it."""
    if not isinstance(provider, KeepsFiles):
        return {}
    paths = [path for path in await provider.files() if not path.name.endswith("-shm")]
    return {path: await anyio.Path(path).read_bytes() for path in paths}


async def _found_or_as_after_a_crash(provider: AgentMemoryProvider, facts: list[Any]) -> bool:
    assert isinstance(provider, ChecksItself)
    try:
        if any(finding.severity is not Severity.NOTE for finding in await provider.check()):
            return True
        # A log may end early, and then lacks whole facts.
        return all(fact in facts for fact in await provider.load_all(USER, PLANNER))
    except FactMemError:
        return True
