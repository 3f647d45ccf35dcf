"""The `factmem.testing` package works without pytest and Hypothesis, and says what to install."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.tables import each_case

pytestmark = pytest.mark.processes

HIDE = "import sys; sys.modules['pytest'] = sys.modules['hypothesis'] = None\n"


def _run(code: str) -> str:
    result = subprocess.run([sys.executable, "-c", HIDE + code], capture_output=True, text=True, check=True)
    return result.stdout.strip()


def test_the_package_imports_without_pytest_and_hypothesis() -> None:
    assert (
        _run("from factmem.testing import FakeClock, HashEmbedder, capabilities_of; print(FakeClock()().year)")
        == "2024"
    )


@each_case("asked")
def test_the_rest_says_what_to_install(asked: str) -> None:
    code = f"try:\n    {asked}\nexcept ImportError as error:\n    print(type(error).__name__, error)"
    output = _run(code)
    assert output.startswith("MissingPackageError")
    assert "pip install 'factmem[testing]'" in output
