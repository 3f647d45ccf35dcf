"""Round trips through a folder of files: facts read back unchanged, in this process and the next."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path

from factmem_file import LocalFileMemoryProvider

from factmem.facts import Concept
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

USER = MemorySubject("user", "the person at the keyboard")
SCOPE = MemoryScope.agent("planner")
SEATS = Concept.single("seats", "how many seats to book", value_type=int)
LIKES = Concept.multiple("likes", "what the user likes")
NOON = dt.datetime(2026, 1, 1, 12, tzinfo=dt.UTC)


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
