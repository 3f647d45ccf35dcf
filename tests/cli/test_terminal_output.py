"""JSON on a terminal: nothing in a fact reaches the terminal as a command or out of sight."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from factmem import BlockingMemory, Memory
from factmem.testing import HashEmbedder

pty = pytest.importorskip("pty", reason="this system has no pseudo-terminals, so that NOTHING was tried")

HOSTILE = "Tea\x1b[2J\x9b31m\u202egnp.exe\u200b and\x7f \u2066milk\u2069"


@pytest.mark.processes
@pytest.mark.parametrize("words", [["--json", "list"], ["export", "-"]], ids=["list", "export"])
def test_json_on_a_terminal_escapes_what_it_would_obey(words: list[str], tmp_path: Path) -> None:
    store = tmp_path / "facts.db"
    with BlockingMemory(Memory(store, embedder=HashEmbedder())) as memory:
        memory.remember(HOSTILE)
        (record,) = memory.list_records()
    seen = on_a_terminal([sys.executable, "-m", "factmem", "--store", str(store), *words])
    assert not set(seen) & set("\x1b\x7f\x9b\u202e\u200b\u2066\u2069")
    read = json.loads(seen) if words[0] == "--json" else [json.loads(line) for line in seen.splitlines()]
    assert record.value in texts_in(read)


def texts_in(data: object) -> list[object]:
    """Return every text in JSON."""
    if isinstance(data, dict | list):
        items = data.values() if isinstance(data, dict) else data
        return [text for item in items for text in texts_in(item)]
    return [data]


def on_a_terminal(command: list[str]) -> str:
    """Return what a command writes to a terminal."""
    ours, theirs = pty.openpty()
    env = {**os.environ, "COLUMNS": "1000", "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen(command, stdout=theirs, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, env=env) as run:
        os.close(theirs)
        read = bytearray()
        while True:
            try:
                part = os.read(ours, 65536)
            except OSError:  # the terminal is closed
                break
            if not part:
                break
            read += part
        os.close(ours)
    assert run.returncode == 0
    return read.decode().replace("\r\n", "\n")
