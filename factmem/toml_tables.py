"""Tables of data: words, wordings and prompts, kept in TOML files beside the modules that read them."""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Mapping
from importlib import resources
from typing import Any

from factmem.short_work import may_wait


@functools.cache
def table(path: str) -> Mapping[str, Any]:
    """Return the content of a TOML file of the package.

    Args:
        path: Path of the file below the package, without its ending, such as ``detection/flags``.
    """
    may_wait()
    file = resources.files("factmem").joinpath(*f"{path}.toml".split("/"))
    return tomllib.loads(file.read_text(encoding="utf-8"))


def filled(text: str, parts: Mapping[str, str]) -> str:
    """Return a text in which each ``«name»`` is replaced by the part of that name, which may hold others."""
    return re.sub("«(\\w+)»", lambda found: filled(parts[found[1]], parts), text)
