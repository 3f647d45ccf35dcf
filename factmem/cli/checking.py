"""The command that checks a store: `check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import typer

from factmem.cli.output import shown
from factmem.cli.progress import progress
from factmem.cli.session import FAILED, Session
from factmem.errors import CapabilityError
from factmem.findings import Finding, Severity
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

__all__ = ["check"]

_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}
_ORDER: Final = list(Severity)


async def check(session: Session) -> None:
    """Verify the whole store without changing it, and show what is wrong and what to do.

    Formats, checksums and seals, references, vectors, pending erasures and rotations, and the modes of files are
    checked for every tenant; what waits for the model or in quarantine is counted. The exit code is 1 if there is an
    error or a warning.
    """
    from factmem.abc import ChecksItself
    from factmem.providers import open_provider

    provider = open_provider(session.address)
    async with provider:
        if not isinstance(provider, ChecksItself):
            raise CapabilityError(f"{session.address} cannot check itself: its provider has no such capability")
        with progress("checking", quiet=session.as_json) as advance:
            found = await provider.check(progress=lambda done, of: advance(done / of if of else 1))
    found = sorted(found, key=lambda finding: _ORDER.index(finding.severity))
    sound = all(finding.severity is Severity.NOTE for finding in found)
    data: dict[str, Json] = {
        "store": session.address,
        "sound": sound,
        "findings": [_finding_json(finding) for finding in found],
    }
    session.show(data, lambda out: _print_findings(out, found, session.address))
    if not sound:
        raise typer.Exit(FAILED)


def _finding_json(finding: Finding) -> Json:
    return {
        "severity": finding.severity.value,
        "kind": finding.kind.value,
        "part": finding.part,
        "problem": finding.problem,
        "advice": finding.advice,
    }


def _print_findings(out: Console, found: Sequence[Finding], address: str) -> None:
    from rich.text import Text

    for finding in found:
        label = (f"{finding.severity.value:<9}", _STYLES[finding.severity])
        problem = shown(f"{finding.part}: {finding.problem}")
        out.print(Text.assemble(label, (finding.kind.value, "bold"), "  ", problem))
        out.print(Text.assemble(" " * 9, shown(finding.advice)))
    counts = Counter(finding.severity for finding in found)
    if counts[Severity.ERROR] or counts[Severity.WARNING]:
        out.print(f"{counts[Severity.ERROR]} error(s), {counts[Severity.WARNING]} warning(s)")
    else:
        out.print(shown(f"{address} is sound"))
