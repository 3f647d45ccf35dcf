"""No plaintext is in the files: neither in names, journals, temporary files nor logs, nor after a kill."""

from __future__ import annotations

import base64
import json
import logging
import re
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import anyio
import pytest

from factmem.crypto import SecretKey
from tests.conftest import Promise
from tests.providers.encrypted.worlds import KEY, PLACES, Files, opened, remembering, save_fact

pytestmark = pytest.mark.timeout(3_600)

SAID = (
    *("tisane", "mead", "absinthe", "poison", "oil", "a new drink", "I said tisane"),
    *("beverages", "What somebody quaffs", "thirst", "conv-sesame", "alice"),
    *("user", "marguerite", "gearbox", "planner", "zeppelin", "acme", "agent", "product", "/agent/planner"),
    *("factmem-hash-1", "Zoë's ❤ 茶"),
)
PRIVATE = {name for name in SAID if len(name) > 4}


def disguises(text: str) -> Iterator[bytes]:
    """Return a text in every encoding in which it could be in a file."""
    for encoding in ("utf-8", "utf-16-le"):
        raw = text.encode(encoding)
        yield raw
        yield raw.hex().encode()
        yield from in_base64(raw)
    yield json.dumps(text).strip('"').encode()
    yield text.upper().encode()
    yield re.sub(r"[^a-z0-9_]+", "-", text.lower()).encode()


def in_base64(raw: bytes) -> Iterator[bytes]:
    """Yield the base64 forms of some bytes at all three alignments, without characters that depend on neighbours."""
    for offset in range(3):
        encoded = base64.b64encode(bytes(offset) + raw)
        whole = encoded[-(-offset * 8 // 6) : (offset + len(raw)) * 8 // 6]
        if len(whole) >= 8:
            yield whole
            yield whole.replace(b"+", b"-").replace(b"/", b"_")


def needles(texts: Iterable[str], vectors: Iterable[bytes]) -> dict[bytes, str]:
    """Return the byte strings that must not be found, each with the text or vector it comes from."""
    found = {form: text for text in texts for form in disguises(text) if len(form) >= 5}
    for number, vector in enumerate(vectors):
        found.update(
            dict.fromkeys((vector, vector[:16], *in_base64(vector), *in_base64(vector[:24])), f"vector {number}")
        )
    return found


def hits(root: Path, wanted: dict[bytes, str]) -> list[str]:
    """Return every occurrence of the wanted byte strings in files or in their names."""
    everything = {str(path.relative_to(root)): path.read_bytes() if path.is_file() else b"" for path in root.rglob("*")}
    return [
        f"{what} in {name}"
        for name, content in everything.items()
        for form, what in wanted.items()
        if form in content or form in name.encode()
    ]


async def vectors_of(root: Path) -> list[bytes]:
    """Return all vectors, as bytes in memory."""
    async with opened(root) as provider:
        return [row.tobytes() for tenant in (None, "acme") for row in (await provider.vectors(tenant))[1]]


def test_the_search_finds_what_is_there(tmp_path: Path) -> None:
    """A search that finds nothing is evidence only if it can find something."""
    vector = bytes(range(100, 164))
    wanted = needles(["gearbox"], [vector])
    for content in (
        b"..gearbox..",
        base64.b64encode(b"x" + b"gearbox of it"),
        b"GEARBOX",
        b"gearbox".hex().encode(),
        vector,
    ):
        (tmp_path / "file").write_bytes(content)
        assert hits(tmp_path, wanted), content
    for offset in range(3):
        (tmp_path / "file").write_bytes(base64.b64encode(bytes(offset) + vector + b"more"))
        assert hits(tmp_path, wanted)
    (tmp_path / "file").write_bytes(b"")
    assert not hits(tmp_path, wanted)
    (tmp_path / "gearbox").mkdir()
    assert hits(tmp_path, wanted)


def test_nothing_is_found_in_a_store(
    sound_root: Path,
    promise: Promise,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """The search covers the open store, renamed temporary files, the closed store, and logs."""
    caplog.set_level(logging.DEBUG)
    root = Path(shutil.copytree(sound_root, tmp_path / "facts"))
    passing: list[bytes] = []
    replace = Path.replace

    def watched(self: Path, target: Path) -> Any:
        passing.append(self.read_bytes())
        return replace(self, target)

    async def main() -> dict[bytes, str]:
        wanted = needles(PRIVATE, await vectors_of(root))
        async with opened(root) as provider:
            memory = remembering(provider, "acme")
            for number in range(5):
                (record,) = await save_fact(memory, f"a new drink {number} {'mead ' * number}", PLACES[2])
                await memory.recall("What does gearbox quaff with tisane?")
                if number % 2:
                    await memory.forget(record.id)
                assert not hits(root, wanted)
            await save_fact(memory, "Zoë's ❤ 茶", PLACES[2])
            await provider.rotate(SecretKey.generate())
            assert not hits(root, wanted)
        return wanted

    with monkeypatch.context() as patch:
        patch.setattr(Path, "replace", watched)
        wanted = anyio.run(main)
    assert not hits(root, wanted)
    assert len(passing) > 10
    assert not [what for content in passing for form, what in wanted.items() if form in content]
    own = [record for record in caplog.records if not record.name.startswith(("asyncio", "filelock"))]
    logged = "\n".join(f"{record.getMessage()} {record.args}" for record in own)
    assert not [text for text in PRIVATE if text in logged]
    promise(
        "plaintext search",
        f"{len(wanted)} forms of values, names and vectors in {len(Files.of(root).content)} files: 0 hits",
    )


def test_no_key_is_found(sound_root: Path) -> None:
    """This covers the given key and the store's own keys."""

    async def keys() -> list[bytes]:
        async with opened(sound_root) as provider:
            await provider.version(None)
            table = provider._sealed._keys
            return [KEY.secret, *(root.key for root in table.roots().of_epochs), *table._units.values()]

    wanted = {form: "a key" for key in anyio.run(keys) for form in (key, key[:8], key.hex().encode(), *in_base64(key))}
    assert len(wanted) > 20
    assert not hits(sound_root, wanted)


async def test_what_was_erased_is_in_no_file(tmp_path: Path) -> None:
    """After an erasure no frame of any file holds it, even encrypted."""
    root = tmp_path / "facts"
    async with opened(root) as provider:
        memory = remembering(provider, None)
        kept, gone = [(await save_fact(memory, value, PLACES[0]))[0] for value in ("oolong", "hemlock")]
        await memory.forget(gone.id)
        storage = provider._sealed
        logs = await anyio.to_thread.run_sync(lambda: storage.logs(kinds=("facts", "vectors", "erased")))
        payloads = [payload for log in logs for payload in storage.scan(log).payloads]
        assert any(b"oolong" in payload for payload in payloads)
        assert not any(b"hemlock" in payload for payload in payloads)
        assert [record.id for record in await memory.list_records()] == [kept.id]
    assert {path.stem for path in Files.of(root).content if path.suffix == ".sealed"} == {
        listed.file for listed in storage._manifest._listing.logs.values()
    }
