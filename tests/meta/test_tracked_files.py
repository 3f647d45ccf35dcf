"""Tracked files contain nothing of a developer's machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

# Split in two, so that this file does not contain the text it searches for.
MACHINE_PATHS = ["/" + "root/", "/" + "work/", "/" + "farm/", "/" + "tmp/v/", "/" + r"home/\w+/", "/" + r"Users/\w+/"]
REGISTRIES = [
    "pypi" + r"\.org",
    "python" + r"hosted\.org",
    "npm" + r"js\.",
    r"--(extra-)?index" + "-url",
    "PIP_" + "INDEX",
]
FOREIGN = re.compile("|".join(MACHINE_PATHS + REGISTRIES))
TEXT = {".cfg", ".json", ".jsonl", ".md", ".py", ".pyi", ".sh", ".toml", ".txt", ".yaml", ".yml", ""}


def _tracked(root: Path) -> list[Path]:
    if shutil.which("git") is None or not (root / ".git").exists():
        pytest.skip("not a git checkout, so the tracked files could NOT be looked through")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=root, capture_output=True, text=True, check=True).stdout
    return [root / name for name in listed.split("\0") if name and (root / name).is_file()]


def test_no_tracked_file_names_a_machine_or_a_registry(root: Path) -> None:
    """Paths of one machine and hosts of one registry would break, or reveal, somebody's set-up."""
    found = [
        f"{path.relative_to(root)}:{number}"
        for path in _tracked(root)
        if path.suffix in TEXT
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if FOREIGN.search(line)
    ]
    assert found == []


def test_no_tracked_file_is_left_over_from_a_run(root: Path) -> None:
    """Stores, caches and bytecode are not committed."""
    leftovers = {".db", ".db-shm", ".db-wal", ".pyc", ".orig", ".rej"}
    assert [str(path.relative_to(root)) for path in _tracked(root) if path.suffix in leftovers] == []
