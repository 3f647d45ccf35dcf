"""Environments of the peers: one each, made on first use, outside the repository."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import venv
from pathlib import Path

__all__ = ["REQUIREMENTS", "CannotInstallError", "cache_folder", "python_of"]

REQUIREMENTS = Path(__file__).parent / "requirements"


class CannotInstallError(Exception):
    """Raised if a peer cannot be installed; the message is the last output of the installer."""


def cache_folder() -> Path:
    """Return the folder of environments, stores and figures: ``FACTMEM_PEERS``, or below the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("FACTMEM_PEERS") or Path(cache) / "factmem-peers")


def python_of(requirements: str | None) -> Path:
    """Return the interpreter of an environment with a file's requirements; without a file, this interpreter.

    Raises:
        CannotInstallError: the requirements cannot be installed.
    """
    if requirements is None:
        return Path(sys.executable)
    wanted = REQUIREMENTS / f"{requirements}.txt"
    digest = hashlib.sha256(wanted.read_bytes() + sys.version.encode()).hexdigest()[:8]
    folder = cache_folder() / "environments" / f"{requirements}-{digest}"
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not (folder / "complete").exists():
        venv.create(folder, clear=True, with_pip=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r", str(wanted)]
        done = subprocess.run(install, capture_output=True, text=True, check=False)
        if done.returncode:
            last = (done.stderr.strip() or done.stdout.strip()).splitlines()[-1:]
            raise CannotInstallError(*last or [f"pip ended with {done.returncode} without output"])
        (folder / "complete").touch()
    return python
