"""Every example runs unchanged, alone, in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.fork_server import ForkServer
from tests.packages import QUIET, need_packages_of
from tests.tables import cases

EXAMPLES = sorted(Path(__file__).parents[2].glob("examples/[0-9]*.py"))
PROOFS = dict(cases(__file__)["proofs"])
"""Output of each example that proves its model's answers were understood; a model's failure alone is not fatal."""
WARNED_OF_BY_ITS_HOST = {"25_crewai"}
"""Examples whose framework emits warnings when imported."""


def test_there_are_examples_to_run() -> None:
    """A renamed folder must not make the other test pass with nothing to do."""
    assert len(EXAMPLES) >= 12


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_shows_something(example: Path, tmp_path: Path, fork_server: ForkServer) -> None:
    """It exits with 0, with warnings as errors, prints its result, and uses no network beyond this machine."""
    need_packages_of(example)
    offline = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    here = {"no_proxy": "127.0.0.1", "NO_PROXY": "127.0.0.1"}
    environment = {name: value for name, value in os.environ.items() if name != "FACTMEM_MODEL"}
    shell, script = environment | offline | here | QUIET, str(example)
    work = tmp_path / "work"
    work.mkdir()
    if example.stem in WARNED_OF_BY_ITS_HOST:
        command = [sys.executable, "-W", "ignore", script]
        done = subprocess.run(command, cwd=work, env=shell, capture_output=True, text=True, timeout=120, check=False)
    else:
        done = fork_server.run(script, cwd=work, env=shell, timeout=120, outputs=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) >= 3
    assert PROOFS.get(example.stem, "") in done.stdout
