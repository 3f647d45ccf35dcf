"""The kit detects each broken promise: every provider with one fails it."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

BROKEN = Path(__file__).with_name("broken_providers.py")


def test_every_broken_provider_fails_the_kit() -> None:
    """Only some of the specs fail, so that their names say which promise is broken."""
    fewer = "not hostile and not limit and not cancelled and not reads_back and not alike and not depends_on_nothing"
    costly = "FeedsEveryone and depends_on_nothing"  # one provider is enough to show that these specs can fail
    quick = ["-q", "--tb=no", "-k", f"not trio and (({fewer}) or ({costly}))", "-o", "python_files=broken_providers.py"]
    command = [sys.executable, "-m", "pytest", *quick, str(BROKEN)]
    seen = subprocess.run(command, capture_output=True, text=True, check=False, cwd=BROKEN.parents[2]).stdout
    broken = set(re.findall(r"^class (\w+)\(InMemoryProvider\)", BROKEN.read_text(encoding="utf-8"), re.MULTILINE))
    failures = re.findall(r"^FAILED .*::Test(\w+)::(\w+)", seen, re.MULTILINE)
    assert len(broken) > 10
    assert broken - {provider for provider, _ in failures} == set()
    assert len([spec for provider, spec in failures if "depends_on_nothing" in spec]) == 2
    for provider in broken:
        specs = {spec for name, spec in failures if name == provider}
        assert len(specs) < 60, (provider, len(specs))
