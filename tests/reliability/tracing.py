"""System calls that fail, or kill, at the n-th call, injected into a process by strace."""

from __future__ import annotations

import re
import shutil
import subprocess
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import attrs
import pytest

FLUSHES = ("fsync", "fdatasync")
CHANGES = ("write", "pwrite64", "ftruncate", "rename", "unlink", "mkdir", "rmdir", "openat")
READS = ("read", "pread64")
WRITES = ("write", "pwrite64")
WATCHED = (*FLUSHES, *CHANGES, *READS, "writev", "flock")
_CALL = re.compile(r"^(\d+) +(?:<\.\.\. )?(\w+)(?:\(| resumed>)(.*)$")
_FLUSH = re.compile(r"^\d+ +f(?:data)?sync\(\d+<(.*?)>.*$")
_REPORT = re.compile(r'iov_base="(\w+)')


@attrs.frozen
class Fault:
    """Fault injected into one system call.

    Attributes:
        call: name of the call.
        number: number among the calls of that name of a thread, from 1.
        effect: strace's action: ``error=EIO``, ``signal=SIGKILL``.
    """

    call: str
    number: int
    effect: str

    def __str__(self) -> str:
        return f"{self.effect} at {self.call} {self.number}"


@attrs.frozen
class Traced:
    """System calls of a traced process.

    Attributes:
        lines: output of strace.
    """

    lines: Sequence[str]

    def calls(self, path: Path, *, until: str) -> Counter[str]:
        """Count the calls of the thread that works on a store, up to the first report that begins with a word."""
        found: Counter[str] = Counter()
        thread = next((line.split()[0] for line in self.lines if str(path) in line), None)
        for line in self.lines:
            match = _CALL.match(line)
            if match is None:
                continue
            if match[2] == "writev" and (said := _REPORT.search(line)) and said[1] in until.split():
                break
            if match[1] == thread and "resumed" not in line:
                found[match[2]] += 1
        return found

    def flushes_tried_again(self, *, files_only: bool) -> list[str]:
        """Return the flushes that were retried after a failure had been reported.

        Args:
            files_only: leave out flushes of folders.
        """
        lines = iter(self.lines)
        failed = next((match for line in lines if "(INJECTED)" in line and (match := _FLUSH.match(line))), None)
        if failed is None or (files_only and Path(failed[1]).is_dir()):
            return []
        # Undoing the current save may flush once more.
        next((line for line in lines if "writev" in line), None)
        return [match[0] for line in lines if (match := _FLUSH.match(line)) and match[1] == failed[1]]

    @property
    def injected(self) -> bool:
        """Whether the fault happened."""
        return any("(INJECTED)" in line or "+++ killed by SIGKILL" in line for line in self.lines)


@contextmanager
def traced(pid: int, log: Path, fault: Fault | None = None) -> Iterator[None]:
    """Trace a process and its threads into a file, until it ends."""
    inject = ["-e", f"inject={fault.call}:{fault.effect}:when={fault.number}"] if fault else []
    command = ["strace", "-f", "-y", "-s", "24", "-o", str(log), "-e", f"trace={','.join(WATCHED)}", *inject]
    with subprocess.Popen([*command, "-p", str(pid)], stderr=subprocess.PIPE, text=True) as tracer:
        assert tracer.stderr is not None
        greeting = tracer.stderr.readline()
        if "attached" not in greeting:
            pytest.fail(f"strace says: {greeting}{tracer.stderr.read()}")
        yield
        tracer.wait(timeout=60)


def reason_not_to_trace() -> str | None:
    """Return the reason that nothing can be traced here, or None."""
    if shutil.which("strace") is None:
        return "there is no strace; apt-get install strace"
    with subprocess.Popen(["sleep", "60"]) as sleeper:
        time.sleep(0.01)
        asked = ["strace", "-p", str(sleeper.pid), "-o", "/dev/null"]
        with subprocess.Popen(asked, stderr=subprocess.PIPE, text=True) as tracer:
            assert tracer.stderr is not None
            greeting = tracer.stderr.readline()
            sleeper.kill()
    return None if "attached" in greeting else greeting.strip()


def read_trace(log: Path) -> Traced:
    """Read the output of `traced`."""
    return Traced(log.read_text(encoding="utf-8", errors="replace").splitlines())
