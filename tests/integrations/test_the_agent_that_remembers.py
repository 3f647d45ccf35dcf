"""An agent that remembers, on every host: facts of one process are loaded in the next, by two users at once."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from factmem import Memory
from factmem.testing import HashEmbedder
from tests.integrations.remembering import LIE, Manner
from tests.packages import QUIET, need_packages_of

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "hosts"
_MANNERS = re.compile(r"^MANNERS: Final = \((.*)\)$", re.MULTILINE)


def manners(path: Path) -> list[str]:
    """Return the manners that a host declares; it is read as a text, because its packages may not be installed."""
    (declared,) = _MANNERS.findall(path.read_text(encoding="utf-8"))
    return [str(Manner[name]) for name in re.findall(r"Manner\.(\w+)", declared)]


HOSTS = {path.stem: manners(path) for path in sorted(FOLDER.glob("*.py")) if path.stem != "__init__"}


@pytest.fixture
def anyio_backend() -> str:
    """The hosts run in processes and event loops of their own; this process only reads the result."""
    return "asyncio"


def played(host: str, folder: Path) -> dict[str, dict[str, list[list[str]]]]:
    """Play the story in each manner of a host, each session in a process of its own."""
    words = [sys.executable, "-W", "error::RuntimeWarning", "-m", "tests.integrations.remembering"]
    words += [host, str(folder), *HOSTS[host]]
    quiet = os.environ | QUIET
    done = subprocess.run(words, cwd=ROOT, env=quiet, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stderr
    shown: dict[str, dict[str, list[list[str]]]] = json.loads(done.stdout.splitlines()[-1])
    return shown


@pytest.mark.parametrize("host", HOSTS)
async def test_facts_are_loaded_in_the_next_session_for_their_own_user(host: str, tmp_path: Path) -> None:
    need_packages_of(FOLDER / f"{host}.py")
    first, second = played(host, tmp_path).values()
    assert list(first) == list(second) == HOSTS[host]
    for manner in HOSTS[host]:
        ((*_, asked), _) = first[manner]
        assert LIE in asked, f"{manner}: the tool was called, so the lie was in its request"
        ((alice,), (bob,)) = second[manner]
        expected = ((alice, "Rome", ("Oslo", "Bern", "Paris")), (bob, "Bern", ("Oslo", "Rome", "Paris")))
        for shown, city, others in expected:
            assert "120" in shown, f"{manner}: facts of the product are shown to both"
            assert city in shown, manner
            assert [name for name in others if name in shown] == [], manner
            assert shown.count("<memory>") == 1, manner
        assert "seats" in alice, manner
        assert "12" in alice, manner
        store = tmp_path / f"{manner}.db"
        async with Memory(store, viewer="alice", embedder=HashEmbedder()) as memory:
            assert LIE in [record.value for record in await memory.quarantine.list()], manner
        async with Memory(store, embedder=HashEmbedder()) as memory:
            assert [record.value for record in await memory.list_records()] == [120], manner
