"""The commands that look after a store as a whole: `check` and `upgrade`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import typer

from factmem.browse.texts import shown
from factmem.cli.progress import progress
from factmem.cli.session import FAILED, Session
from factmem.errors import CapabilityError, StoreUnavailableError
from factmem.findings import Finding, Severity
from factmem.json_form import attributes
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.abc.capabilities import KeepsLog

__all__ = ["check", "upgrade"]

_STYLES: Final = {Severity.ERROR: "bold red", Severity.WARNING: "yellow", Severity.NOTE: "dim"}
_ORDER: Final = list(Severity)


async def check(session: Session) -> None:
    """Verify the whole store without changing it, and show what is wrong and what to do.

    Formats, checksums and seals, references, vectors, pending erasures and rotations, and the modes of files are
    checked for every tenant; what waits for the model or in quarantine is counted. The exit code is 1 if there is an
    error or a warning.
    """
    from factmem.abc.capabilities import KeepsLog
    from factmem.providers.registry import open_provider

    provider = open_provider(session.address)
    async with provider:
        if not isinstance(provider, KeepsLog):
            raise CapabilityError(f"{session.shown_address} cannot check itself: its provider has no such capability")
        found = await _found(session, provider)
    _show(session, found, {}, lambda out: None)


async def upgrade(
    session: Session,
    create: bool = False,
) -> None:
    """Upgrade a store that an older factmem wrote to the newest format, and check it.

    The first write does that by itself; this command does it now, before a large store is used again. Keep a backup:
    an older factmem does not open the new format.

    Options:
        create: Create an empty store where there is none.
    """
    from factmem.abc.capabilities import KeepsLog, UpgradesFormat
    from factmem.providers.registry import open_provider

    provider = open_provider(session.address)
    async with provider:
        if not isinstance(provider, UpgradesFormat) or not isinstance(provider, KeepsLog):
            raise CapabilityError(f"{session.shown_address} needs no upgrade: stores of its kind have one format")
        before, newest = await provider.format_versions()
        if not (before or create):
            raise StoreUnavailableError(
                f"there is no store {session.shown_address}: check its address, or create one with --create"
            )
        if before < newest:
            with progress("upgrading", quiet=session.as_json) as advance:
                await provider.upgrade(create=create, progress=advance)
        after, _ = await provider.format_versions()
        found = await _found(session, provider)

    def render(out: Console) -> None:
        done = f"was upgraded from format {before} to {after}" if before < after else f"has the newest format, {after}"
        done = done if before else f"was created, in format {after}"
        out.print(shown(f"{session.shown_address} {done}"))

    _show(session, found, {"before": before, "after": after}, render)


async def _found(session: Session, provider: KeepsLog) -> list[Finding]:
    with progress("checking", quiet=session.as_json) as advance:
        found = await provider.check(progress=advance)
    return sorted(found, key=lambda finding: _ORDER.index(finding.severity))


def _show(
    session: Session, found: Sequence[Finding], also: Mapping[str, Json], before: Callable[[Console], None]
) -> None:
    """Print findings, and exit with an error code unless the store is sound."""
    sound = all(finding.severity is Severity.NOTE for finding in found)
    data: dict[str, Json] = {
        "store": session.shown_address,
        **also,
        "sound": sound,
        "findings": [attributes(item, "severity", "kind", "part", "problem", "advice") for item in found],
    }

    def render(out: Console) -> None:
        before(out)
        _print_findings(out, found, session.shown_address)

    session.show(data, render)
    if not sound:
        raise typer.Exit(FAILED)


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
