"""Environments of the peers: one each, made when first needed, kept outside of the repository."""

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
    """A peer cannot be installed here; the message is what its installer said last."""


def cache_folder() -> Path:
    """Return the folder of environments, stores and figures: ``FACTMEM_PEERS``, or below the user's cache."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(os.environ.get("FACTMEM_PEERS") or Path(cache) / "factmem-peers")


def python_of(requirements: str | None) -> Path:
    """Return the interpreter of an environment that has what a file of requirements says; without one, this one.

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
            raise CannotInstallError(*last or [f"pip ended with {done.returncode} and said nothing"])
        (folder / "complete").touch()
    return python
