"""Detection of packages that a file imports or a test needs, so that tests skip with a reason without one."""

from __future__ import annotations

import ast
from importlib.util import find_spec
from pathlib import Path

import apsw
import pytest

QUIET = {
    "CREWAI_DISABLE_TELEMETRY": "true",
    "CREWAI_TESTING": "true",
    "CREWAI_TRACING_ENABLED": "false",
    "OPENAI_AGENTS_DISABLE_TRACING": "1",
    "OTEL_SDK_DISABLED": "true",
}
"""Environment of test processes: switches off the telemetry of frameworks."""


def need_ciphers() -> None:
    """Skip the test where apsw cannot encrypt."""
    if not hasattr(apsw, "mc_version"):
        pytest.skip("apsw here cannot encrypt: apsw-sqlite3mc is not installed, or apsw lies over it")


def need_packages_of(path: Path) -> None:
    """Skip the running test if a file imports a package at its top that is not installed."""
    if missing := sorted({name.partition(".")[0] for name in imports_of(path) if _missing(name)}):
        pytest.skip(f"{path.name} needs {', '.join(missing)}, which this environment does not have")


def imports_of(path: Path, *, of: str | None = None) -> set[str]:
    """Return the modules that a file imports at its top: those of other packages, or those of one package.

    Args:
        path: The file.
        of: Name of the package.
    """
    found = set()
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found.add(node.module)
    own = ("factmem", "tests") if of is None else (of,)
    return {name for name in found if (name.partition(".")[0] in own) is (of is not None)}


def _missing(name: str) -> bool:
    """Return whether a package is missing, without importing it. For a namespace package, check the imported part."""
    top, _, rest = name.partition(".")
    spec = find_spec(top)
    if spec is None or spec.origin is not None or not rest:
        return spec is None
    return find_spec(f"{top}.{rest.partition('.')[0]}") is None
