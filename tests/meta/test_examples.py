"""Every example runs as it stands, alone, in an empty folder."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted(Path(__file__).parents[2].glob("examples/[0-9]*.py"))


def test_there_are_examples_to_run() -> None:
    """A renamed folder must not make the other test pass with nothing to do."""
    assert len(EXAMPLES) >= 6


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_an_example_runs_and_shows_something(example: Path, tmp_path: Path) -> None:
    """It ends well, with warnings as errors, shows what it did, and needs no network."""
    offline = dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), "http://127.0.0.1:9")
    done = subprocess.run(
        [sys.executable, "-W", "error", str(example)],
        cwd=tmp_path,
        env=os.environ | offline,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) >= 3
