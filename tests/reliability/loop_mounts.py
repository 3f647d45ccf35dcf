"""A file system in a file, for power cuts: a copy of the file is the content of the disk at that moment."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

_MEGABYTES = 48


def reason_not_to_mount() -> str | None:
    """Return the reason that nothing can be mounted here, or None."""
    if not sys.platform.startswith("linux"):
        return "only Linux mounts files"
    with tempfile.TemporaryDirectory(prefix="factmem-") as folder:
        try:
            with mounted(new_disk(Path(folder) / "disk"), Path(folder) / "mount"):
                return None
        except (OSError, subprocess.CalledProcessError) as error:
            return str(getattr(error, "stderr", None) or error).strip()


def new_disk(path: Path) -> Path:
    """Make an empty disk, formatted with ext4 defaults."""
    with path.open("wb") as file:
        file.truncate(_MEGABYTES << 20)
    _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0", str(path))
    return path


@contextmanager
def mounted(disk: Path, folder: Path, *options: str) -> Iterator[Path]:
    """Mount a disk, and unmount it at the end."""
    folder.mkdir(exist_ok=True)
    _run("mount", "-o", ",".join(("loop", *options)), str(disk), str(folder))
    try:
        yield folder
    finally:
        _run("umount", str(folder))


def cut(disk: Path, copy: Path) -> Path:
    """Return a copy of a disk's content, without unflushed data."""
    _run("cp", "--sparse=always", str(disk), str(copy))
    return copy


@contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Stop a process with all of its threads, and resume it at the end; a process that has ended counts as stopped."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGSTOP)
    try:
        _wait_until_stopped(pid)
        yield
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def _wait_until_stopped(pid: int) -> None:
    deadline = time.monotonic() + 60
    while not all(state in "TtXZ" for state in _states(pid)):
        if time.monotonic() > deadline:
            pytest.fail("the process does not stop")
        time.sleep(0.0005)


def _states(pid: int) -> list[str]:
    states = []
    for status in Path(f"/proc/{pid}/task").glob("*/stat"):
        try:
            states.append(status.read_text().rpartition(")")[2].split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue
    return states


def _run(*command: str) -> None:
    program = shutil.which(command[0]) or command[0]
    subprocess.run([program, *command[1:]], check=True, capture_output=True, text=True)
