"""Fixtures: the command line over a new store, in this process or in one of its own."""

from __future__ import annotations

import datetime as dt
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import attrs
import pytest
from typer.testing import CliRunner

from factmem.cli.app import app
from factmem.cli.options import Scoring
from factmem.memory.background import Worker
from factmem.testing import HashEmbedder
from factmem.testing.chat_answers import unreachable_base_url
from tests.fork_server import ForkServer

Talk = Callable[..., Path]


@attrs.frozen(kw_only=True)
class Result:
    """Outcome of a run of factmem."""

    code: int
    out: str
    err: str


@attrs.frozen
class CommandLine:
    """Runner of factmem commands on one store.

    Attributes:
        store: The store.
        server: Runs commands in processes of their own.
    """

    store: Path
    server: ForkServer | None = None

    def run(self, *words: str, input: str | None = None) -> Result:
        """Run a command in this process."""
        done = CliRunner().invoke(app, ["--store", str(self.store), *words], input=input)
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        return Result(code=done.exit_code, out=done.stdout, err=done.stderr)

    def data(self, *words: str) -> Any:
        """Run a command that must succeed, and return its JSON output."""
        done = self.run("--json", *words)
        assert done.code == 0, done.err
        assert done.err == ""
        return json.loads(done.out)

    def matches(self, query: str, *words: str) -> list[dict[str, Any]]:
        """Run a recall that must succeed, and return its matches."""
        found: list[dict[str, Any]] = self.data("recall", query, *words)["matches"]
        return found

    def error(self, *words: str) -> dict[str, str]:
        """Run a command that must fail, and return its error object."""
        done = self.run("--json", *words)
        assert done.code == 1
        error: dict[str, str] = json.loads(done.err)["error"]
        return error

    def fork(self, *words: str, env: Mapping[str, str] | None = None) -> Result:
        """Run a command in a process of its own."""
        assert self.server is not None
        command = ("-m", "factmem", "--store", str(self.store), *words)
        folder = self.store.parent
        done = self.server.run(*command, cwd=Path.cwd(), env=os.environ | (env or {}), timeout=100, outputs=folder)
        return Result(code=done.returncode, out=done.stdout, err=done.stderr)

    def spawn(self, *words: str, env: dict[str, str] | None = None, stdout: int | IO[str] = subprocess.PIPE) -> Result:
        """Run a command in an interpreter of its own, which takes longer, for what depends on how that starts."""
        done = subprocess.run(
            [sys.executable, "-m", "factmem", "--store", str(self.store), *words],
            stdout=stdout,
            stderr=subprocess.PIPE,
            encoding="utf-8",
            env=os.environ | (env or {}),
            check=False,
            timeout=100,
        )
        return Result(code=done.returncode, out=done.stdout or "", err=done.stderr)


@pytest.fixture(autouse=True)
def _nobodys_settings(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    own = ("STORE", "ORGANIZATION", "VIEWER", "EMBEDDER", "MODEL", "MODEL_API_KEY")
    scores = (field.name.upper() for field in attrs.fields(Scoring))
    for name in (*(f"FACTMEM_{end}" for end in (*own, *scores)), "FORCE_COLOR", "NO_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Replace the real embedder for the commands of this process, since it is slow to load."""
    monkeypatch.setattr("factmem.memory.facade.default_embedder", HashEmbedder)


@pytest.fixture
def cli(tmp_path: Path, quick: None) -> CommandLine:
    """The command line on a store that does not exist yet, with a fast embedder in this process."""
    return CommandLine(tmp_path / "facts.db")


@pytest.fixture
def processes(tmp_path: Path, fork_server: ForkServer) -> CommandLine:
    """The command line on a store that does not exist yet, run in processes."""
    return CommandLine(tmp_path / "facts.db", fork_server)


@pytest.fixture
def talk(tmp_path: Path) -> Talk:
    """Function that writes a conversation of a user called Maya to a file."""

    def write(*said: str, id: str = "talk", roles: Sequence[str] = (), name: str = "talk.json") -> Path:
        messages = [
            {
                "role": roles[turn] if roles else "user",
                "name": "Maya",
                "content": text,
                "timestamp": f"2026-03-02T09:{turn:02}:00Z",
            }
            for turn, text in enumerate(said)
        ]
        path = tmp_path / name
        path.write_text(json.dumps({"id": id, "messages": messages}), encoding="utf-8")
        return path

    return write


@pytest.fixture
def concepts(tmp_path: Path) -> Path:
    """A file with a concept for the number of seats."""
    path = tmp_path / "concepts.json"
    seats = {"type": "integer", "description": "How many people fit in"}
    path.write_text(json.dumps({"properties": {"seats": seats}}))
    return path


@pytest.fixture
def nobody(monkeypatch: pytest.MonkeyPatch) -> str:
    """The address of a model whose server is down; retries are as many as usual, without pauses."""
    import factmem.llm.request

    rest = Worker.rest

    async def hardly(worker: Worker, time: dt.timedelta) -> bool:
        return await rest(worker, time if time > dt.timedelta(minutes=1) else dt.timedelta())

    monkeypatch.setattr(factmem.llm.request, "_LONGEST_PAUSE", 0.0)
    monkeypatch.setattr(Worker, "rest", hardly)
    return f"{unreachable_base_url()}#nobody"
