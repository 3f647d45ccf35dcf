"""The public API is completely typed, as a type checker sees the installed package."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from tests.own_providers import own_packages

AS_TYPED_AS_THEIR_HOST = "factmem.integrations."
"""Classes derived from a framework's are typed as well as the framework is; mypy and pyright check them as usual."""


@pytest.mark.big
@pytest.mark.parametrize("package", ["factmem", *own_packages()])
def test_every_public_symbol_has_a_known_type(package: str, pyright: str, tmp_path: Path) -> None:
    """`pyright --verifytypes` finds no symbol whose type is unknown or only inferred."""
    command = [pyright, "--verifytypes", package, "--ignoreexternal", "--outputjson"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, timeout=170, check=False)
    report = json.loads(done.stdout)["typeCompleteness"]
    untyped = {
        symbol["name"]: [found["message"] for found in symbol["diagnostics"]]
        for symbol in report["symbols"]
        if symbol["isExported"]
        and not (symbol["isTypeKnown"] and not symbol["isTypeAmbiguous"])
        and not symbol["name"].startswith(AS_TYPED_AS_THEIR_HOST)
    }
    assert untyped == {}
    assert report["exportedSymbolCounts"]["withKnownType"] > 0, "pyright did not find the installed package"
