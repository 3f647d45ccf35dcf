"""A fork server: runs scripts in processes of their own that have factmem and its heavy packages imported already.

Starting an interpreter and importing them takes longer than most scripts. The server imports once and forks for each
script; the fork runs it as ``__main__`` and ends as an interpreter does.

    python fork_server.py

reads jobs from stdin, one JSON object a line, and writes the exit code of each to stdout.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import runpy
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

HEAVY: Final = (
    "factmem.agent.plugin",
    "factmem.cli.app",
    "factmem.consolidation.model_consolidator",
    "factmem.detection.model_analyst",
    "trio",
    "requests",
    "openai.resources",
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
            script: The path and the arguments, or ``-m``, the name of a module and the arguments.
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
    """Import what most scripts import, and use a memory and a model once, so that no fork loads what that takes."""
    import anyio

    for name in HEAVY:
        with contextlib.suppress(ModuleNotFoundError):
            __import__(name)
    # Each client would read all certificates, and no server here speaks TLS.
    cached: Any = functools.cache(ssl.create_default_context)
    ssl.create_default_context = cached
    anyio.run(_use_memory)
    for thread in threading.enumerate():  # those of the loop end just after it; a fork has none of them
        if thread is not threading.current_thread():
            thread.join()


async def _use_memory() -> None:
    from factmem import Memory
    from factmem.detection.word_tables import table_of
    from factmem.testing.chat_answers import chat_answer
    from factmem.testing.openai_server import Answer, LoopbackOpenAIServer

    def finds_nothing(path: str, request: dict[str, Any]) -> Answer:
        fields = request["response_format"]["json_schema"]["schema"]["properties"]
        return chat_answer({field: [] for field in fields})

    table_of(["I live in Oslo."])
    with tempfile.TemporaryDirectory() as folder, LoopbackOpenAIServer(finds_nothing) as server:
        async with Memory(f"{folder}/facts.db", model=f"{server.base_url}#stand-in") as memory:
            await memory.remember("I live in Oslo.")
            await memory.recall("Where do I live?")


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
    os.chdir(job["cwd"])
    os.environ.clear()
    os.environ.update(job["env"])
    match job["script"]:
        case ["-m", module, *arguments]:
            sys.argv[:] = [module, *arguments]
            sys.path[0] = job["cwd"]
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        case script:
            sys.argv[:] = script
            sys.path[0] = str(Path(script[0]).parent)
            runpy.run_path(script[0], run_name="__main__")


if __name__ == "__main__":
    main()
