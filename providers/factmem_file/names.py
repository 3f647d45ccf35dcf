"""File names for arbitrary names: readable if possible, and distinct for distinct names.

A name of only ``a-z``, ``0-9``, ``_`` and ``-`` that is short and no device of Windows stays as it is. Any other
becomes
``<slug>~<hash>``: its readable ASCII part, and 128 bits of hash over the exact name. Upper and lower case, composed and
decomposed letters thus never collide in a file system that conflates them, and no name leads out of its folder. No
file name is decoded: each file holds its own name.

``@default`` is the empty segment (the tenant without a name), ``@`` joins the names of a subject and an individual,
``deep~~<hash>`` replaces the rest of a path that is too long. Names of folders hold no full stop and names of files do,
so that a folder and a file never clash.
"""

from __future__ import annotations

import hashlib
import json
import re
import unicodedata
from collections.abc import Sequence
from typing import Final

from factmem.abc.log_storage import LogName

__all__ = ["encoded", "file_path", "folder_path", "suffix"]

_READABLE: Final = "facts"

_PLAIN: Final = re.compile(r"[a-z0-9_][a-z0-9_-]{0,39}")
_DEVICES: Final = frozenset(["con", "prn", "aux", "nul", *(f"{port}{n}" for port in ("com", "lpt") for n in range(10))])
_SLUG_LENGTH: Final = 20
_LONGEST_FOLDER: Final = 150
_DEFAULT: Final = "@default"


def encoded(name: str) -> str:
    """Return the file name of one name."""
    if not name:
        return _DEFAULT
    if _PLAIN.fullmatch(name) and name not in _DEVICES:
        return name
    return f"{_slug(name)}~{_hash(name)}"


def suffix(kind: str) -> str:
    """Return the suffix of the file names of a kind of log."""
    return ".jsonl" if kind == _READABLE else f".{kind}"


def folder_path(folder: Sequence[str]) -> tuple[str, ...]:
    """Return the folders of a path, at most about 150 characters in all."""
    parts = tuple(map(encoded, folder))
    if len("/".join(parts)) <= _LONGEST_FOLDER:
        return parts
    rest = f"deep~~{_hash(json.dumps(list(folder)))}"
    kept = 1
    while len("/".join((*parts[: kept + 1], rest))) <= _LONGEST_FOLDER:
        kept += 1
    return (*parts[:kept], rest)


def file_path(log: LogName) -> tuple[str, ...]:
    """Return the path of a log's file below the root."""
    return (*folder_path(log.folder), "@".join(map(encoded, log.name)) + suffix(log.kind))


def _slug(name: str) -> str:
    ascii_only = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9_]+", "-", ascii_only)[:_SLUG_LENGTH].strip("-")
    return slug or "name"


def _hash(text: str) -> str:
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
