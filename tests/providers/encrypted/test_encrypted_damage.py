"""Files that an attacker changed, with the checksums recomputed: a typed error or the same facts, and no change.

Flipped bits and cuts as a disk makes them are tested for every store in tests/reliability.
"""

from __future__ import annotations

import itertools
import random
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path

import anyio
import pytest

from tests.conftest import Promise
from tests.providers.encrypted.answers import Answers, Attacks, Verdict
from tests.providers.encrypted.worlds import Files, framed, frames_of

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
    changes = list(sealed_flips(files)) if big else some(sealed_flips(files), 24, random.Random(6))
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
