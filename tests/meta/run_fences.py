"""Run the fences of a page in one process, so that what they import is loaded once.

    python run_fences.py FENCES

FENCES is a JSON file with scripts, each with its folder and the address of the model that it may ask, or null.
Python ones run here, as ``__main__``, shell ones in a shell that stops at the first failure. A line with a form feed
stands before the output of each. The command ``factmem`` of a shell runs in a fork of this process as it was before
the first fence.
"""

from __future__ import annotations

import contextlib
import json
import os
import runpy
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path


def main(fences: Path) -> None:
    listed = json.loads(fences.read_text(encoding="utf-8"))
    shells = any(not script.endswith(".py") for _, script, _ in listed)
    with commands_forked() if shells else contextlib.nullcontext():
        for folder, script, model in listed:
            os.chdir(folder)
            os.environ.pop("FACTMEM_MODEL", None)
            os.environ |= {"FACTMEM_MODEL": model} if model else {}
            print("\f", flush=True)
            if script.endswith(".py"):
                runpy.run_path(script, run_name="__main__")
            else:
                subprocess.run(["bash", "-euo", "pipefail", script], check=True)


@contextlib.contextmanager
def commands_forked() -> Iterator[None]:
    """Serve what ``ask_command.py`` asks, at the address that is in the environment meanwhile."""
    folder, listening = tempfile.mkdtemp(), socket.socket(socket.AF_UNIX)
    os.environ["FACTMEM_COMMANDS"] = address = f"{folder}/commands"
    listening.bind(address)
    listening.listen()
    if (server := os.fork()) == 0:
        serve(listening)
    listening.close()
    try:  # not around the fork, which exits, too
        yield
    finally:
        os.kill(server, signal.SIGKILL)
        os.waitpid(server, 0)
        shutil.rmtree(folder)


def serve(listening: socket.socket) -> None:
    """Run each command in a fork, and answer with its exit code from another one, until the process is killed."""
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    while True:
        asking, _ = listening.accept()
        if os.fork() == 0:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            listening.close()
            size, files, _, _ = socket.recv_fds(asking, 4, 3)
            with asking.makefile("rb") as reader:
                words, folder, environment = json.loads(reader.read(int.from_bytes(size)))
            if (command := os.fork()) == 0:
                asking.close()
                run(words, folder, environment, files)
            code = os.waitstatus_to_exitcode(os.waitpid(command, 0)[1])
            asking.sendall(bytes([code % 256]))
            os._exit(0)
        asking.close()


def run(words: list[str], folder: str, environment: dict[str, str], files: list[int]) -> None:
    """Become the process of a command ``factmem``, and exit."""
    for target, source in enumerate(files):
        os.dup2(source, target)
        os.close(source)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv[:] = ["factmem", *words]
    from factmem.cli import main

    main()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
