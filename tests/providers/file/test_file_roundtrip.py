"""Round trips through a folder of files: facts read back unchanged, in this process and the next."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

import pytest
from factmem_file import LocalFileMemoryProvider

from factmem.errors import InvalidDataError
from factmem.facts import Concept
from factmem.providers.registry import open_provider
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

USER = MemorySubject("user", "the person at the keyboard")
SCOPE = MemoryScope.agent("planner")
SEATS = Concept.single("seats", "how many seats to book", value_type=int)
LIKES = Concept.multiple("likes", "what the user likes")
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


def _files(root: Path) -> dict[str, bytes]:
    return {str(path.relative_to(root)): path.read_bytes() for path in root.rglob("*") if path.is_file()}


async def test_a_place_is_one_file_that_people_can_read(tmp_path: Path) -> None:
    root = tmp_path / "store"
    async with LocalFileMemoryProvider(root) as provider:
        await provider.save(LIKES.fact(["Grüße"], timestamp=NOON), USER, SCOPE.within("acme") / "inbox")
    lines = (root / "acme/agent/planner/inbox/user.jsonl").read_text().splitlines()
    assert json.loads(lines[0].split(" ", 1)[1])["folder"] == ["acme", "agent", "planner", "inbox"]
    (entry,) = json.loads(lines[1].split(" ", 1)[1])
    assert entry["assertion"]["data"] == "Grüße"
    assert "Grüße" in lines[1]
    assert json.loads((root / "factmem.json").read_text()) == {"format": 1, "store": "factmem"}


async def test_places_that_resemble_each_other_are_walls_apart(tmp_path: Path) -> None:
    places = [
        (USER, SCOPE),
        (USER, SCOPE.within("acme")),
        (USER, SCOPE.within("@default")),
        (USER.individual("alice"), SCOPE),
        (MemorySubject("user@alice"), SCOPE),
        (MemorySubject("USER"), SCOPE),
        (USER, SCOPE / "user"),
        (USER, SCOPE / "user.jsonl"),
        (MemorySubject("user.jsonl"), SCOPE),
        (USER, MemoryScope.product("planner")),
        (USER, MemoryScope.CROSS_PRODUCT / "agent" / "planner"),
        (USER, MemoryScope.agent("..")),
        (USER, MemoryScope.agent("../planner")),
    ]
    root = tmp_path / "store"
    async with LocalFileMemoryProvider(root) as provider:
        for number, (subject, scope) in enumerate(places):
            await provider.save(SEATS.fact([number], timestamp=NOON), subject, scope)
    async with LocalFileMemoryProvider(root) as again:
        for number, (subject, scope) in enumerate(places):
            fact = await again.load(SEATS, subject, scope)
            assert fact is not None
            assert fact.value == number
    assert {name.split("/")[0] for name in _files(tmp_path)} == {"store"}


async def test_nothing_is_touched_before_the_first_save(tmp_path: Path) -> None:
    root = tmp_path / "deep" / "store"
    async with LocalFileMemoryProvider(root) as provider:
        assert await provider.load_all(USER, SCOPE) == []
        assert await provider.version(None) == 0
        assert await provider.changes(None) == []
        assert (await provider.erase(["x"], tenant=None)).erased == 0
        assert not (tmp_path / "deep").exists()
        await provider.save(SEATS.fact([4], timestamp=NOON), USER, SCOPE)
    assert (root / "factmem.json").exists()


async def test_an_address_opens_it_with_options_as_text(tmp_path: Path) -> None:
    async with open_provider(f"file:{tmp_path}/store?lock_timeout=2.5") as provider:
        assert isinstance(provider, LocalFileMemoryProvider)
        await provider.save(SEATS.fact([4], timestamp=NOON), USER, SCOPE)
    assert (tmp_path / "store" / "factmem.json").exists()
    for wrong in ("soon", "-1", "nan", "inf"):
        with pytest.raises(InvalidDataError, match="lock_timeout"):
            LocalFileMemoryProvider(tmp_path, lock_timeout=wrong)
