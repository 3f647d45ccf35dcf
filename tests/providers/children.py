"""Processes that work on a store and can be killed; they fork from one that has imported everything."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from typing import Any, Final

from factmem.crypto.keys import Keyring

__all__ = ["Child"]

_FORKS: Final = multiprocessing.get_context("forkserver")
_FORKS.set_forkserver_preload(["tests.providers.encrypted.processes", "tests.providers.encrypted_sqlite.processes"])


class Child:
    """A process that does some work and reports its progress; it is killed at the end of the context.

    Args:
        work: a function of a module, which is not local.
        arguments: its arguments after the connection for its reports; `Keys` for a keyring.
    """

    def __init__(self, work: Callable[..., None], *arguments: Any) -> None:
        self._reports, reports = _FORKS.Pipe(duplex=False)
        given = [(dict(one.sources), one.current) if isinstance(one, Keyring) else one for one in arguments]
        self._process = _FORKS.Process(target=work, args=(reports, *given), daemon=True)
        self._process.start()
        reports.close()

    def __enter__(self) -> Child:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def report(self, timeout: float = 120) -> Any:
        """Wait for the next report.

        Raises:
            EOFError: the process has ended.
        """
        if not self._reports.poll(timeout):
            raise TimeoutError("the process reports nothing")
        return self._reports.recv()

    def all_reports(self) -> list[Any]:
        """Return everything the process reports until it ends."""
        said = []
        try:
            while True:
                said.append(self.report())
        except EOFError:
            return said

    def kill_after(self, seconds: float) -> None:
        """Let the process work for a while after its first report, and kill it."""
        self.report()
        time.sleep(seconds)
        self.kill()

    def kill(self) -> None:
        """Kill the process with SIGKILL."""
        self._process.kill()
        self._process.join()

    @property
    def failed(self) -> bool:
        """Whether the process ended by itself, with an error."""
        self._process.join(60)
        return self._process.exitcode not in (0, -9)
