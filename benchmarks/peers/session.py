"""The driver's side of a worker: one process with one peer."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import attrs
from peers.protocol import Item

__all__ = ["PeerFailedError", "Worker"]

BENCHMARKS = Path(__file__).parents[1]
NOWHERE = "http://127.0.0.1:9"
QUIET = {
    "ANONYMIZED_TELEMETRY": "False",
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "HF_HUB_OFFLINE": "1",
    "LANCEDB_CONFIG_DIR": os.devnull,
    "MEM0_TELEMETRY": "False",
    "OPENAI_API_KEY": "none",
    "OTEL_SDK_DISABLED": "true",
    "TOKENIZERS_PARALLELISM": "false",
    "TQDM_DISABLE": "1",
} | dict.fromkeys(("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"), NOWHERE)
"""Environment without telemetry and without models, because there is no network."""


class PeerFailedError(Exception):
    """Raised if a peer fails; the message is the peer's."""


@attrs.frozen
class Worker:
    """A process with one adapter, used in a ``with`` statement.

    Args:
        adapter: a module of ``adapters``.
        python: the interpreter of its environment.
        home: a folder used as the user's home, so that the real one is untouched.
        patience: seconds without an answer after which the process is ended.
    """

    adapter: str
    python: Path
    home: Path = attrs.field(kw_only=True)
    patience: float = attrs.field(kw_only=True, default=3_600.0)
    _process: list[subprocess.Popen[str]] = attrs.field(init=False, factory=list, repr=False)

    def __enter__(self) -> Self:
        self.home.mkdir(parents=True, exist_ok=True)
        path = os.pathsep.join(filter(None, [str(BENCHMARKS), os.environ.get("PYTHONPATH")]))
        folders = {"HOME": str(self.home), "MEM0_DIR": str(self.home / ".mem0"), "XDG_CACHE_HOME": str(self.home)}
        with (self.home / "said.txt").open("w", encoding="utf-8") as said:
            process = subprocess.Popen(
                [self.python, "-W", "ignore", "-m", "peers.worker", self.adapter],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=said,
                text=True,
                encoding="utf-8",
                cwd=self.home,
                env=os.environ | QUIET | folders | {"PYTHONPATH": path},
            )
        self._process.append(process)
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        process = self._process.pop()
        if process.stdin and process.stdout:
            with contextlib.suppress(BrokenPipeError):  # it has ended, and unsent data is irrelevant
                process.stdin.close()
            process.stdout.close()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()

    def open(self, folder: Path, vectors: Path) -> dict[str, Any]:
        """Open a store; see `Peer.open`. Return ``seconds``, ``import_seconds``, ``ways`` and ``batch``."""
        folder.mkdir(parents=True, exist_ok=True)
        return self._ask("open", folder=str(folder), vectors=str(vectors))

    def add(self, items: Sequence[Item], batch: int) -> float:
        """Add items in batches, and return the seconds it took."""
        return float(self._ask("add", items=list(items), batch=batch)["seconds"])

    def search(self, queries: Sequence[str], limit: int, way: str) -> tuple[list[list[str]], list[float], list[float]]:
        """Search for queries, one by one.

        Returns:
            The result of each query, its wall time and its CPU time, in seconds.
        """
        answer = self._ask("search", queries=list(queries), limit=limit, way=way)
        return answer["found"], answer["seconds"], answer["busy"]

    def close(self) -> float:
        """Close the store, and return the peak memory of the process in MB."""
        return float(self._ask("close")["peak_mb"])

    def _ask(self, do: str, **what: Any) -> dict[str, Any]:
        (process,) = self._process
        assert process.stdin
        assert process.stdout
        watchdog = threading.Timer(self.patience, process.kill)
        watchdog.start()
        try:
            process.stdin.write(json.dumps({"do": do} | what) + "\n")
            process.stdin.flush()
            line = process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            watchdog.cancel()
        if not line.endswith("\n"):  # it ended in the middle of its answer, or before
            raise PeerFailedError(f"{do}: {self._last_words()}")
        answer: dict[str, Any] = json.loads(line)
        if "error" in answer:
            raise PeerFailedError(f"{do}: {answer['error']}")
        return answer

    def _last_words(self) -> str:
        lines = (self.home / "said.txt").read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip()[:300] for line in reversed(lines) if line.strip()), "it ended without a word")
