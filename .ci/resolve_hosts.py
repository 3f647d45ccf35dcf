"""Resolve ``factmem[HOST]`` with the newest release of each host, and fail if it gives an older one.

    python .ci/resolve_hosts.py            print the table, and fail where factmem holds something back
    python .ci/resolve_hosts.py --write    put it into docs/pages/reference/hosts.md as well

Nothing is installed. ``uv`` must be in this Python, with ``attrs`` and ``packaging``; it finds packages where its own
variables tell it to.
"""

from __future__ import annotations

import argparse
import platform
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import attrs
from packaging.version import Version

ROOT: Final = Path(__file__).parents[1]
PAGE: Final = ROOT / "docs/pages/reference/hosts.md"
_BLOCK: Final = re.compile(r"(?<=<!-- .ci/resolve_hosts.py -->\n).*?(?=<!-- end -->)", re.DOTALL)
_PIN: Final = re.compile(r"^([a-z0-9-]+)(?:\[[^\]]*\])?==(\S+)$", re.MULTILINE)


@attrs.frozen
class Host:
    """A host.

    Attributes:
        name: Its name on the page.
        extra: Extra of factmem; empty for a host that needs none.
        requirements: Packages that its users install for a model of OpenAI; the host's own comes first.
    """

    name: str
    extra: str
    requirements: tuple[str, ...]

    @property
    def package(self) -> str:
        """Distribution of the host itself."""
        return self.requirements[0].partition("[")[0]


HOSTS: Final = (
    Host("pydantic-ai", "pydantic-ai", ("pydantic-ai-slim[openai]",)),
    Host("OpenAI Agents SDK", "openai-agents", ("openai-agents",)),
    Host("openai", "", ("openai",)),
    Host("LangChain", "langchain", ("langchain", "langchain-openai")),
    Host("LangGraph", "langgraph", ("langgraph", "langchain-openai")),
    Host("Deep Agents", "deepagents", ("deepagents", "langchain-openai")),
    Host("Google ADK", "adk", ("google-adk",)),
    Host("CrewAI", "crewai", ("crewai",)),
    Host("MCP", "mcp", ("mcp",)),
)

Versions = Mapping[str, Version]


def resolved(requirements: Sequence[str]) -> Versions:
    """Return the versions that are installed for requirements.

    Raises:
        SystemExit: They cannot be resolved; with the reason.
    """
    command = [sys.executable, "-m", "uv", "pip", "compile", "--quiet", "--python", sys.executable, "-"]
    given = "\n".join(requirements)
    done = subprocess.run(command, input=given, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{given}\n{done.stderr}")
    return {name: Version(version) for name, version in _PIN.findall(done.stdout)}


@attrs.frozen
class Resolution:
    """Versions for a host: alone, with factmem, and with the extra ``llm`` too."""

    host: Host
    alone: Versions
    together: Versions
    with_models: Versions

    @classmethod
    def of(cls, host: Host) -> Resolution:
        """Resolve a host's three environments."""

        def factmem(*extras: str) -> str:
            return f"factmem[{','.join(filter(None, extras))}] @ {ROOT.as_uri()}".replace("[]", "")

        return cls(
            host=host,
            alone=resolved(host.requirements),
            together=resolved([*host.requirements, factmem(host.extra)]),
            with_models=resolved([*host.requirements, factmem(host.extra, "llm")]),
        )

    def held_back(self) -> list[str]:
        """Return the packages that are older with factmem than without, each with both versions."""
        return [
            f"{self.host.name}: {name} {self.together[name]} with factmem, {version} without"
            for name, version in self.alone.items()
            if self.together[name] < version
        ]

    def row(self) -> str:
        """Return the row of the table."""
        cells = [self.host.name, *(self._shown(versions) for versions in (self.alone, self.together, self.with_models))]
        return f"| {' | '.join(cells)} |"

    def _shown(self, versions: Versions) -> str:
        names = [self.host.package, *({"openai"} - {self.host.package})]
        return ", ".join(f"{name} {versions[name]}" for name in names if name in versions)


def table(resolutions: Sequence[Resolution]) -> str:
    """Return the table of the page."""
    version = ".".join(platform.python_version_tuple()[:2])
    return "\n".join(
        (
            f"| host | newest, Python {version} | with `factmem[HOST]` | with `factmem[HOST,llm]` |",
            "|---|---|---|---|",
            *(resolution.row() for resolution in resolutions),
            "",
        )
    )


def main() -> None:
    """Resolve all hosts."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--write", action="store_true", help="put the table into the page of the hosts")
    write = parser.parse_args().write
    resolutions = [Resolution.of(host) for host in HOSTS]
    print(made := table(resolutions))
    if write:
        PAGE.write_text(_BLOCK.sub(lambda _: made, PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    if older := [line for resolution in resolutions for line in resolution.held_back()]:
        raise SystemExit("factmem holds packages back:\n" + "\n".join(older))


if __name__ == "__main__":
    main()
