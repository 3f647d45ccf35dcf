"""A fork server: runs scripts in processes of their own that have factmem and its heavy packages imported already.

Starting an interpreter and importing them takes longer than most scripts. The server imports once and forks for each
script; the fork runs it as ``__main__`` and ends as an interpreter does.

    python fork_server.py

reads jobs from stdin, one JSON object a line, and writes the exit code of each to stdout.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import runpy
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

HEAVY: Final = (
    "factmem.memory",
    "factmem.llm.instructor_model",
    "factmem_sqlite_vec",
    "anyio._backends._asyncio",
    "cattrs",
    "trio",
    "requests",
    "safetensors",
    "tokenizers",
    "openai.resources",
    "instructor",
    "instructor.processing.multimodal",
)
"""Modules that most scripts import; one that is not installed is left out."""


class ForkServer:
    """Runs scripts with warnings as errors. Use it as a context manager."""

    def __enter__(self) -> Self:
        """Start the server."""
        command = [sys.executable, "-W", "error", __file__]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        """Stop the server."""
        self._process.communicate()

    def run(
        self, *script: str, cwd: Path, env: Mapping[str, str], timeout: int, outputs: Path
    ) -> subprocess.CompletedProcess[str]:
        """Run a script and return its output; after so many seconds it is ended by ``SIGALRM``.

        Args:
            script: The path and the arguments.
            cwd: The folder to run it in.
            env: The environment.
            timeout: Seconds that it may take.
            outputs: An existing folder for the files of its outputs.
        """
        files = [outputs / name for name in ("stdout.txt", "stderr.txt")]
        job = {
            "script": script,
            "cwd": str(cwd),
            "env": dict(env),
            "timeout": timeout,
            "outputs": [str(file) for file in files],
        }
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(job) + "\n")
        self._process.stdin.flush()
        code = int(self._process.stdout.readline())
        out, err = (file.read_text(encoding="utf-8") for file in files)
        return subprocess.CompletedProcess(script, code, out, err)


def import_heavy() -> None:
    """Import what most scripts import, and read the tables of languages, so that a fork need not."""
    for name in HEAVY:
        with contextlib.suppress(ModuleNotFoundError):
            __import__(name)
    from factmem.detection.languages import language_of

    language_of(["I live in Oslo."])


def main() -> None:
    import_heavy()
    gc.collect()
    gc.freeze()
    for line in sys.stdin:
        sys.stdout.flush()
        if (child := os.fork()) == 0:
            run_as_main(json.loads(line))
            return
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)


def run_as_main(job: Mapping[str, Any]) -> None:
    """Become the process of a job."""
    signal.alarm(job["timeout"])
    out, err = (os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC) for path in job["outputs"])
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (out, 1), (err, 2)):
        os.dup2(source, target)
        os.close(source)
    script: Sequence[str] = job["script"]
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    sys.argv[:] = script
    sys.path[0] = str(Path(script[0]).parent)
    runpy.run_path(script[0], run_name="__main__")


if __name__ == "__main__":
    main()
