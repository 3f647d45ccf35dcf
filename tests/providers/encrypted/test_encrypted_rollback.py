"""Rollback detection: each file, and any two together, restored to an earlier state or removed.

The undetectable cases are documented on `EncryptedMemoryProvider`: a rollback of the whole store, and one of the
manifest and its head by one commit, which looks like a writer that died.
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator
from pathlib import Path

import anyio
import attrs
import pytest

from tests.conftest import Promise
from tests.providers.encrypted.answers import Answers, Attacks, Verdict, answers_of
from tests.providers.encrypted.worlds import PLACES, Files, filling, framed, frames_of, opened, save

pytestmark = [pytest.mark.usefixtures("without_flushes", "without_threads"), pytest.mark.timeout(40_000)]

REMADE = ("sequence.note", "embedder.note")
MANIFEST = "store.manifest"
HEAD = "head.note"


@attrs.frozen
class Past:
    """A store, and its files after each step of its history.

    Attributes:
        root: folder of the store.
        states: its states; the last is the current one.
        answers: its current answers.
    """

    root: Path
    states: list[dict[Path, bytes]]
    answers: Answers


@pytest.fixture
def past(tmp_path: Path) -> Past:
    root = tmp_path / "facts"
    states: list[dict[Path, bytes]] = []

    async def live() -> Answers:
        states.extend([Files.of(root).content async for _ in filling(root)])
        return await answers_of(root)

    answers = anyio.run(live)
    states.append(Files.of(root).content)
    return Past(root, states, answers)


def two_files(past: Past) -> Iterator[dict[Path, bytes | None]]:
    """Yield any two files in their states of the same earlier time, or removed."""
    now = past.states[-1]
    for one, other in itertools.combinations(now, 2):
        for state in (*past.states[:-1], {}):
            change = {path: state.get(path) for path in (one, other)}
            if all(content != now[path] for path, content in change.items()):
                yield change


def test_any_two_files_put_back_or_gone_are_missed(past: Past, big: bool, promise: Promise) -> None:
    changes = list(two_files(past))
    chosen = changes if big else random.Random(4).sample(changes, 20)
    passed: list[set[str]] = []

    async def main() -> None:
        attacks, chance = Attacks(past.root, past.answers), random.Random(5)
        for change in chosen:
            names = {path.name for path in change}
            if change in _taken_back(past):
                continue
            verdict = await attacks.judge(change, chance, paths=1)
            if verdict is not Verdict.REFUSED:
                passed.append(names)

    anyio.run(main)
    assert all(names <= {*REMADE, HEAD} for names in passed), passed
    promise("rolled back files", f"{len(chosen)} pairs of files put back or removed: 0 accepted")


def _taken_back(past: Past) -> list[dict[Path, bytes | None]]:
    """Return the manifest and its head of one commit ago: the one pair that resembles a crash."""
    manifest, head = past.root / MANIFEST, past.root / HEAD
    now = past.states[-1]
    before = [state for state in past.states if len(frames_of(now[manifest])) - len(frames_of(state[manifest])) == 1]
    return [{manifest: state[manifest], head: state[head]} for state in before]


async def test_what_is_not_detected_is_the_last_commit_alone(tmp_path: Path) -> None:
    """As documented: the manifest and its head of one commit ago.

    Two commits, or one of the files alone, are detected.
    """
    root = tmp_path / "facts"
    states = []
    for value in ("one", "two", "three"):
        await save(root, value)
        states.append(Files.of(root).content)
    manifest, head = root / MANIFEST, root / HEAD
    for path in (manifest, head):
        path.write_bytes(states[1][path])
    async with opened(root) as provider:
        assert [entry.seq for entry in await provider.entries(PLACES[0])] == [1, 2]
    Files(root, states[2]).put_back()
    attacks, chance = Attacks(root, await answers_of(root)), random.Random(1)
    cut = b"".join(map(framed, frames_of(states[2][manifest])[:-1]))
    changes: list[dict[Path, bytes | None]] = [
        {manifest: states[0][manifest], head: states[0][head]},
        {manifest: states[1][manifest]},
        {manifest: states[1][manifest], head: None},
        {manifest: states[1][manifest], head: b"torn"},
        {manifest: cut},
        {manifest: b"".join(map(framed, frames_of(cut)[:1]))},
        {manifest: None, head: None},
        {head: None},
    ]
    for change in changes:
        assert await attacks.judge(change, chance, paths=None) is Verdict.REFUSED


async def test_an_open_store_notices_too(tmp_path: Path) -> None:
    """An open store notices when its manifest or its keys are removed or restored to an earlier state."""
    root = tmp_path / "facts"
    await save(root, "one")
    earlier = Files.of(root).content
    async with opened(root) as provider:
        await save(root, "two")
        assert len(await provider.entries(PLACES[0])) == 2
        now = Files.of(root)
        for name in (MANIFEST, "store.keys"):
            for content in (None, earlier[root / name]):
                if content == now.content[root / name]:
                    continue
                (root / name).unlink() if content is None else (root / name).write_bytes(content)
                with pytest.raises(Exception, match=r"restore") as caught:
                    await provider.entries(PLACES[0])
                assert type(caught.value).__name__ == "RolledBackStoreError"
                now.put_back()
        assert len(await provider.entries(PLACES[0])) == 2
