"""The command `factmem browse` in a real terminal: tmux, with keys sent to it and its screen read back."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import attrs
import pytest

from factmem.facts import SingleFact
from factmem.memory.facade import Memory
from tests.browse.conftest import CITY, SEATS, fill

pytestmark = [
    pytest.mark.skipif(shutil.which("tmux") is None, reason="NO REAL TERMINAL: install tmux: apt-get install tmux"),
    pytest.mark.processes,
    pytest.mark.slow,
]


@pytest.fixture
def anyio_backend() -> str:
    """One event loop is enough: the command has its own."""
    return "asyncio"


@attrs.frozen
class Terminal:
    """A terminal of 80x24 cells.

    Attributes:
        socket: Socket of the server of this terminal alone.
    """

    socket: Path

    def tmux(self, *words: str) -> str:
        """Run a command of tmux and return its output."""
        command = ["tmux", "-f", "/dev/null", "-S", str(self.socket), *words]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    def keys(self, *keys: str) -> None:
        """Press keys."""
        self.tmux("send-keys", *keys)

    def type(self, text: str) -> None:
        """Type a text."""
        self.tmux("send-keys", "-l", text)

    def until(self, wanted: str) -> str:
        """Wait for a pattern on the screen; return the screen."""
        given_up = time.monotonic() + 60
        while True:
            screen = self.tmux("capture-pane", "-p")
            if re.search(wanted, screen):
                return screen
            assert time.monotonic() < given_up, f"{wanted} does not come:\n{screen}"
            time.sleep(0.1)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    """A terminal with a shell in it."""
    opened = Terminal(tmp_path / "tmux")
    opened.tmux("new-session", "-d", "-x", "80", "-y", "24", "sh")
    opened.until("[#$]")  # the prompt; a command typed before it has its output on the prompt's line
    yield opened
    opened.tmux("kill-server")


async def test_a_person_finds_corrects_and_erases_a_fact(terminal: Terminal, tmp_path: Path) -> None:
    store = tmp_path / "facts.db"
    async with Memory(store) as memory:
        await fill(memory)
        hostile = "\x1b[2J\x1b]0;owned\x07[@click=app.quit]\u202e[red]danger"
        await memory.save(SingleFact(CITY, hostile), scope="/agent/x")
    command = shlex.join([sys.executable, "-m", "factmem", "--store", str(store), "browse"])
    terminal.type(f"PYTHONPATH={shlex.quote(':'.join(sys.path))} {command}; echo ended with $?")
    terminal.keys("Enter")
    terminal.until("newest first")
    assert "[@click=app.quit]" in terminal.until("city  \ufffd")
    assert terminal.tmux("display-message", "-p", "#{pane_title}").strip() != "owned"
    terminal.type("/seats")
    terminal.until(r"█+\S* +\d\.\d\d +seats +120")
    terminal.keys("Enter")
    terminal.keys("e")
    terminal.until("Edit seats")
    terminal.keys("End", "BSpace")
    terminal.type("5")
    terminal.keys("C-s")
    terminal.until(r"seats +125")
    terminal.keys("f")
    terminal.until("Erase 1 record for good")
    terminal.type("forget 1 record")
    terminal.keys("Enter")
    terminal.until("Erased 1 record")
    terminal.keys("q")
    terminal.until("ended with 0")
    async with Memory(store) as memory:
        assert not await memory.list_records(concepts=[SEATS])
        assert len(await memory.list_records(concepts=[CITY])) == 2


def test_an_unreadable_store_is_a_sentence(terminal: Terminal, tmp_path: Path) -> None:
    store = tmp_path / "facts.db"
    store.write_bytes(b"not a database" * 1000)
    command = shlex.join([sys.executable, "-m", "factmem", "--store", str(store), "browse"])
    terminal.type(f"PYTHONPATH={shlex.quote(':'.join(sys.path))} {command}; echo ended with $?")
    terminal.keys("Enter")
    screen = terminal.until("ended with 1")
    assert re.search("(?m)^factmem: ", screen)
    assert "Traceback" not in screen
