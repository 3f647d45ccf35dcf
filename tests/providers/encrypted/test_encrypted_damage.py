"""Files that an attacker changed, swapped or restored: a typed error or the same facts, and no change."""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import anyio
import attrs
import pytest
from factmem_file.logs import place_log

from factmem.errors import CorruptStoreError, FactMemError, WrongKeyError
from factmem.records import Place
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing import HashEmbedder
from tests.conftest import Promise
from tests.providers.encrypted.answers import Answers, Attacks, Verdict, answers_of
from tests.providers.encrypted.worlds import (
    DIMENSION,
    KEY,
    PLACES,
    Files,
    fill,
    filling,
    framed,
    frames_of,
    listing_of,
    opened,
    save,
    statements,
)

pytestmark = [pytest.mark.usefixtures("without_flushes", "without_threads"), pytest.mark.timeout(40_000)]

HARMLESS = ("sequence.note", "embedder.note", "factmem.json")
"""Files that `verify` does not read: numbers and a name that are found again, and white space of the marker."""

Change = tuple[Path, bytes]


@pytest.fixture
def root(sound_root: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound_root, tmp_path / "facts"))


def sealed_flips(files: Mapping[Path, bytes]) -> Iterator[Change]:
    """Yield every single-bit flip of every frame's payload, with the checksum recomputed."""
    for path, content in files.items():
        if path.suffix == ".json":
            continue
        frames = frames_of(content)
        for number, frame in enumerate(frames):
            for at, bit in itertools.product(range(len(frame)), range(8)):
                other = frame[:at] + bytes([frame[at] ^ 1 << bit]) + frame[at + 1 :]
                if b"\n" not in other:
                    yield path, b"".join(map(framed, [*frames[:number], other, *frames[number + 1 :]]))


def some(changes: Iterator[Change], count: int, chance: random.Random) -> list[Change]:
    """Return some changes, about as many for each file, including the end of each file."""
    by_file: dict[Path, list[Change]] = {}
    for change in changes:
        by_file.setdefault(change[0], []).append(change)
    each = count // len(by_file)
    return [one for found in by_file.values() for one in (found[-1], *chance.sample(found, min(each, len(found))))]


async def attack(root: Path, sound: Answers, changes: list[Change]) -> Attacks:
    """Make each change by itself; if there are many, each is passed to `verify`, and every tenth to the other paths."""
    attacks, chance = Attacks(root, sound), random.Random(7)
    for number, (path, content) in enumerate(changes):
        if number % 10 and len(changes) > 1000:
            attacks.verify(path, content)
        else:
            await attacks.judge({path: content}, chance)
    return attacks


def test_damage_with_its_checksum_set_right_is_refused(
    root: Path, sound_answers: Answers, big: bool, promise: Promise
) -> None:
    """Bit flips pass only in unused bytes: a plaintext generation number, spare base64 bits."""
    files = Files.of(root).content
    changes = list(sealed_flips(files)) if big else some(sealed_flips(files), 12, random.Random(6))
    attacks = anyio.run(attack, root, sound_answers, changes)
    assert attacks.counts[Verdict.REFUSED] > attacks.counts[Verdict.HARMLESS] / 4
    promise(
        "bit flips and truncations of a store",
        f"{len(changes)} bit flips with their checksums set right: {counted(attacks)}",
    )


def test_whatever_is_put_in_place_of_a_file_is_a_typed_error(root: Path, sound_answers: Answers) -> None:
    async def main() -> None:
        attacks, chance = Attacks(root, sound_answers), random.Random(8)
        for path in Files.of(root).content:
            for content in (b"\0" * 600, b"{}\xff\n", framed(b"[" * 50_000)):
                verdict = await attacks.judge({path: content}, chance, paths=1)
                assert verdict is Verdict.REFUSED or path.name in HARMLESS, (path.name, content[:20])

    anyio.run(main)


def counted(attacks: Attacks) -> str:
    """Return the count of each verdict as text."""
    return ", ".join(f"{count} {verdict.value}" for verdict, count in attacks.counts.items())


# Rollback detection: each file, and any two together, restored to an earlier state or removed.


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


# Files and frames that were swapped, repeated, dropped or taken from another store are rejected.


MANY: Final = [Place(MemorySubject(f"subject{n % 10}"), MemoryScope.agent(f"agent{n // 10}")) for n in range(50)]


def disguised(content: bytes, instead_of: bytes) -> bytes:
    """Return a file under the header of another, with all checksums recomputed."""
    header, *_ = frames_of(instead_of)
    _, *frames = frames_of(content)
    return b"".join(map(framed, (header, *frames)))


async def _many(root: Path) -> None:
    async with opened(root) as provider:
        await provider.use_embedder(await HashEmbedder(DIMENSION).identity())
        for number, place in enumerate(MANY):
            await provider.append(statements(place, [f"drink {number}"]))


def test_no_two_of_a_hundred_files_can_be_swapped(tmp_path: Path, big: bool, promise: Promise) -> None:
    """Facts and vectors are swapped with each other in all combinations, unmodified and with adapted headers."""
    root = tmp_path / "facts"
    anyio.run(_many, root)
    sound = {path: content for path, content in Files.of(root).content.items() if path.suffix == ".sealed"}
    assert len(sound) == 100
    pairs = list(itertools.combinations(sound, 2))
    chosen = pairs if big else random.Random(2).sample(pairs, 4)

    async def main() -> int:
        listing, refused = await listing_of(root), 0
        expected = await _read(root, MANY)
        for (one, other), disguise in itertools.product(chosen, (False, True)):
            for path, source in ((one, other), (other, one)):
                path.write_bytes(disguised(sound[source], sound[path]) if disguise else sound[source])
            hit = [listing.files[path.stem] for path in (one, other)]
            with pytest.raises(CorruptStoreError):
                await _verified(root)
            places = [place for place in MANY if place_log(place) in hit]
            found = await _read(root, places)
            assert all(answer is None for answer in found.values()), (hit, "a swapped file was believed")
            refused += len(found)
            if disguise:
                others = random.Random(refused).sample([place for place in MANY if place not in places], 1)
                assert await _read(root, others) == {place: expected[place] for place in others}
            for path in (one, other):
                path.write_bytes(sound[path])
        return refused

    anyio.run(main)
    promise("swaps of any two of 100 encrypted files", f"{2 * len(chosen)} swaps of two files: 0 accepted")


async def _read(root: Path, places: list[Place]) -> dict[Place, Any]:
    """Return the entries that a newly opened store finds at each place, or None where it refuses."""
    found: dict[Place, Any] = {}
    for place in places:
        try:
            async with opened(root) as provider:
                found[place] = await provider.entries(place)
        except CorruptStoreError:
            found[place] = None
    return found


async def _verified(root: Path) -> None:
    async with opened(root) as provider:
        await provider.verify()


def shuffles(content: bytes, chance: random.Random) -> Iterator[tuple[str, bytes]]:
    """Yield the frames of a file reordered, repeated or in part omitted, with all checksums recomputed."""
    header, *frames = frames_of(content)

    def file(*frames: bytes) -> bytes:
        return b"".join(map(framed, (header, *frames)))

    for number, frame in enumerate(frames):
        yield f"{number} dropped", file(*frames[:number], *frames[number + 1 :])
        yield f"{number} doubled", file(*frames[: number + 1], *frames[number:])
        yield f"{number} cut after", file(*frames[:number])
        if number:
            yield f"{number} in place of the one before", file(*frames[: number - 1], frame, *frames[number:])
            swapped = [*frames[: number - 1], frame, frames[number - 1], *frames[number + 1 :]]
            yield f"{number} swapped with the one before", file(*swapped)
            yield f"{number} first", file(frame, *frames[:number], *frames[number + 1 :])
    mixed = list(frames)
    chance.shuffle(mixed)
    if mixed != frames:
        yield "mixed", file(*mixed)


def _renumbered(content: bytes) -> bytes:
    """Recompute the plaintext indices, if a file's frames begin with one."""
    header, *frames = frames_of(content)
    numbered = [b"%d %b" % (index, frame.split(b" ", 1)[1]) for index, frame in enumerate(frames)]
    return b"".join(map(framed, (header, *numbered)))


@pytest.mark.parametrize("set_right", [False, True])
def test_frames_keep_their_places(
    root: Path, sound_answers: Answers, big: bool, promise: Promise, set_right: bool
) -> None:
    """This covers every file: facts, vectors, erasures, the manifest, the keys."""
    changes = [
        (path, what, _renumbered(change) if set_right and path.suffix == ".sealed" else change)
        for path, content in Files.of(root).content.items()
        if path.suffix in (".sealed", ".manifest", ".keys")
        for what, change in shuffles(content, random.Random(1))
    ]
    chosen = changes if big else random.Random(set_right).sample(changes, 8)

    async def main() -> None:
        attacks, chance = Attacks(root, sound_answers), random.Random(2)
        for path, what, content in chosen:
            verdict = await attacks.judge({path: content}, chance, paths=1)
            # A frame after the valid ones is the leftover of a writer that died; keys have no order.
            spare = "doubled" in what and what.startswith(str(len(frames_of(content)) - 3))
            assert verdict is Verdict.REFUSED or spare or path.suffix == ".keys", (path.name, what)

    anyio.run(main)
    promise("swaps of any two of 100 encrypted files", f"{len(chosen)} reorderings of frames: 0 accepted")


def test_nothing_of_another_store_is_believed(root: Path, sound_answers: Answers, tmp_path: Path) -> None:
    """The other store was made in the same way with the same key, and each of its files gets the adapted header."""
    other = tmp_path / "other"

    async def main() -> None:
        await fill(other)
        attacks, chance = Attacks(root, sound_answers), random.Random(3)
        theirs, ours = await listing_of(other), await listing_of(root)
        files = Files.of(root).content
        for log, listed in ours.logs.items():
            path, there = (top / name[:2] / f"{name}.sealed" for top, name in (
                (root, listed.file), (other, theirs.logs[log].file)
            ))  # fmt: skip
            change: dict[Path, bytes | None] = {path: disguised(there.read_bytes(), files[path])}
            assert await attacks.judge(change, chance, paths=1) is Verdict.REFUSED
        for name in ("store.manifest", "store.keys", "head.note"):
            assert await attacks.judge({root / name: (other / name).read_bytes()}, chance) is Verdict.REFUSED
        pair: dict[Path, bytes | None] = {
            root / name: (other / name).read_bytes() for name in ("store.keys", "head.note")
        }
        assert await attacks.judge(pair, chance) is Verdict.REFUSED

    anyio.run(main)


def test_nothing_of_a_copy_that_went_its_own_way_is_believed(tmp_path: Path, big: bool) -> None:
    """The copy has the same keys and file names, and another genuine frame at the same position of each."""
    root, copy = tmp_path / "facts", tmp_path / "copy"

    async def main() -> None:
        await fill(root)
        shutil.copytree(root, copy)
        for place in PLACES:
            await save(root, "beer", place)
            await save(copy, "wine", place)
        attacks, chance = Attacks(root, await answers_of(root)), random.Random(4)
        ours, theirs = (
            {path.relative_to(top): content for path, content in Files.of(top).content.items()} for top in (root, copy)
        )
        shared = [path for path, content in ours.items() if path in theirs and theirs[path] != content]
        assert {"store.manifest", "head.note"} < {path.name for path in shared}
        for path in shared:
            verdict = await attacks.judge({root / path: theirs[path]}, chance)
            assert verdict is Verdict.REFUSED or path.name in ("head.note", "sequence.note")
        pairs = list(itertools.combinations(shared, 2))
        for one, other in pairs if big else chance.sample(pairs, 6):
            await attacks.judge({root / path: theirs[path] for path in (one, other)}, chance, paths=1)
        name = (await listing_of(root)).logs[place_log(PLACES[2])].file
        log = Path(name[:2], f"{name}.sealed")
        pair: dict[Path, bytes | None] = {root / path: theirs[path] for path in (Path("store.manifest"), log)}
        assert await attacks.judge(pair, chance, paths=None) is Verdict.REFUSED
        for mixed in _mixed(ours[Path("store.manifest")], theirs[Path("store.manifest")]):
            assert await attacks.judge({root / "store.manifest": mixed}, chance) is Verdict.REFUSED

    anyio.run(main)


def _mixed(ours: bytes, theirs: bytes) -> Iterator[bytes]:
    """Return a file with one frame, and then with the remaining frames, from the other one."""
    mine, others = frames_of(ours), frames_of(theirs)
    for number in range(len(mine)):
        if mine[number] != others[number]:
            yield b"".join(map(framed, [*mine[:number], others[number], *mine[number + 1 :]]))
            yield b"".join(map(framed, [*mine[:number], *others[number:]]))


def test_nothing_of_an_earlier_life_of_a_log_or_of_the_manifest_is_believed(tmp_path: Path) -> None:
    """These are files that an erasure replaced, under the new name, and frames of the manifest before its rewrite."""
    root = tmp_path / "facts"

    async def main() -> None:
        await fill(root)
        before, listed_before = Files.of(root).content, await listing_of(root)
        async with opened(root) as provider:
            gone = (await provider.entries(PLACES[0]))[0]
            await provider.erase([], assertion_ids=[gone.id], tenant=None)  # type: ignore[union-attr]
            await provider.rotate(KEY)
        listed = await listing_of(root)
        attacks, chance = Attacks(root, await answers_of(root)), random.Random(5)
        now = Files.of(root).content
        for log, was in listed_before.logs.items():
            old, new = (root / name[:2] / f"{name}.sealed" for name in (was.file, listed.logs[log].file))
            change: dict[Path, bytes | None] = {new: disguised(before[old], now[new])}
            assert await attacks.judge(change, chance, paths=1) is Verdict.REFUSED
        manifest = root / "store.manifest"
        assert len(frames_of(now[manifest])) < len(frames_of(before[manifest]))
        for frame in frames_of(before[manifest])[1:]:
            spliced = b"".join(map(framed, (*frames_of(now[manifest]), frame)))
            assert await attacks.judge({manifest: spliced}, chance, paths=1) is Verdict.REFUSED

    anyio.run(main)


def test_a_frame_of_a_writer_that_died_cannot_take_the_place_of_one_that_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was encrypted for the same file, index and commit, and never acknowledged."""
    root = tmp_path / "facts"

    async def main() -> None:
        await save(root, "one")
        with monkeypatch.context() as patch:
            patch.setattr("factmem_encrypted.log_storage.EncryptedLogStorage.seal", _died)
            with pytest.raises(FactMemError):
                await save(root, "never acknowledged")
        listing = await listing_of(root)
        name = listing.logs[place_log(PLACES[0])].file
        path = root / name[:2] / f"{name}.sealed"
        *_, ghost = frames_of(path.read_bytes())
        await save(root, "two")
        header, first, second = frames_of(path.read_bytes())
        assert ghost.split(b" ")[:2] == second.split(b" ")[:2]
        attacks = Attacks(root, await answers_of(root))
        haunted = b"".join(map(framed, (header, first, ghost)))
        assert await attacks.judge({path: haunted}, random.Random(6)) is Verdict.REFUSED

    anyio.run(main)


def _died(storage: object) -> None:
    raise WrongKeyError("an error after the frames are written and before they count")
