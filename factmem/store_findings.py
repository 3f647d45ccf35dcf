"""Findings of the check of a store, and the check of a log: what is wrong, where, and what to do about it."""

from __future__ import annotations

import enum
import itertools
import shlex
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final, Self

import attrs

from factmem.errors import CorruptStoreError, FactMemError, MisplacedDataError, NewerVersionError, RolledBackStoreError
from factmem.facts import FactType
from factmem.records import AssertionState, LogEntry, Recorded, StateChange, Tombstone


class Severity(enum.StrEnum):
    """Severity of a finding: data is wrong or missing, something is to be done, or a fact that is good to know."""

    ERROR = "error"
    WARNING = "warning"
    NOTE = "note"


class FindingKind(enum.StrEnum):
    """Kinds of findings."""

    severity: Severity
    """Severity of every finding of this kind."""

    def __new__(cls, text: str, severity: Severity = Severity.NOTE) -> Self:
        """Return the kind of a text, with its severity."""
        kind = str.__new__(cls, text)
        kind._value_, kind.severity = text, severity
        return kind

    DAMAGED = "damaged", Severity.ERROR
    MISSING = "missing", Severity.ERROR
    MISPLACED = "misplaced", Severity.ERROR
    NEWER = "newer format", Severity.ERROR
    INCONSISTENT = "inconsistent", Severity.ERROR
    DANGLING = "dangling reference", Severity.ERROR
    UNFINISHED = "unfinished copy", Severity.ERROR
    REMAKEABLE = "can be made again", Severity.WARNING
    PENDING_ERASURE = "pending erasure", Severity.WARNING
    PENDING_ROTATION = "pending rotation", Severity.WARNING
    EXPOSED = "readable by others", Severity.WARNING
    OLDER = "older format"
    LEFTOVER = "leftover"
    WAITING = "waiting"
    DEAD_LETTERS = "dead letters"
    QUARANTINED = "quarantined"


@attrs.frozen(kw_only=True)
class Finding:
    """One finding of a check. It holds no value and no word of a fact.

    Attributes:
        kind: Kind of the finding.
        part: Part of the store: a file, a tenant, or the store itself.
        problem: What is wrong, or the case.
        advice: Next step.
    """

    kind: FindingKind
    part: str
    problem: str
    advice: str

    @property
    def severity(self) -> Severity:
        """Severity of the finding."""
        return self.kind.severity


_RESTORE: Final = "restore the store from a backup, or export what can still be read"


def finding_of(error: FactMemError, part: str) -> Finding:
    """Return the finding of a part that cannot be read."""
    problem, _, advice = str(error).rpartition(": ")
    return Finding(kind=_kind_of(error), part=part, problem=problem or advice, advice=advice if problem else _RESTORE)


def _kind_of(error: FactMemError) -> FindingKind:
    match error:
        case NewerVersionError():
            return FindingKind.NEWER
        case MisplacedDataError():
            return FindingKind.MISPLACED
        case RolledBackStoreError():
            return FindingKind.MISSING
        case CorruptStoreError():
            return FindingKind.DAMAGED
        case _:
            raise error


def unfinished_copy(tenant: str | None) -> Finding:
    """Return the finding of a tenant whose log has not arrived as a whole."""
    return Finding(
        kind=FindingKind.UNFINISHED,
        part=tenant_words(tenant),
        problem="a move to this store was broken off, and not all of it has arrived",
        advice="run the same `factmem move` again, or delete this store",
    )


def no_store(part: str, advice: str = "check the path") -> Finding:
    """Return the finding of a place without a store."""
    advice = f"{advice}: a store is made by the first write"
    return Finding(kind=FindingKind.MISSING, part=part, problem="no store", advice=advice)


def exposed(part: str, command: str) -> Finding:
    """Return the finding of a file that others may use, with the command that hides it."""
    problem = "others than its owner may use it"
    return Finding(kind=FindingKind.EXPOSED, part=part, problem=problem, advice=f"run  {command}")


def leftover(part: str, problem: str, advice: str) -> Finding:
    """Return the finding of a file that was never finished."""
    return Finding(kind=FindingKind.LEFTOVER, part=part, problem=problem, advice=f"nothing: {advice}")


def pending_erasure(part: str, problem: str, when: str = "") -> Finding:
    """Return the finding of erased words that are still there; ``when`` the erasure can be finished, if not now."""
    advice = f"run `factmem forget --expired`{when}"
    return Finding(kind=FindingKind.PENDING_ERASURE, part=part, problem=problem, advice=advice)


def remakeable_vectors(part: str, problem: str) -> Finding:
    """Return the finding of vectors that are wrong, and can be made again."""
    return Finding(kind=FindingKind.REMAKEABLE, part=part, problem=problem, advice="run `factmem reembed`")


def findings_in(log: Sequence[LogEntry], tenant: str | None) -> list[Finding]:
    """Return what is wrong with the whole log of a tenant, and what waits in it.

    Args:
        log: All entries of the tenant, as `KeepsLog.changes` returns them.
        tenant: The tenant.
    """
    part = tenant_words(tenant)
    problems = [*_of_numbers(log), *_of_references(log), *_of_types(log)]
    wrong = [Finding(kind=kind, part=part, problem=problem, advice=_RESTORE) for kind, problem in problems]
    return [*wrong, *_counted(log, tenant)]


def tenant_words(tenant: str | None) -> str:
    """Return the name of a tenant in a finding."""
    return "the default tenant" if tenant is None else f"tenant {tenant}"


def _of_numbers(log: Sequence[LogEntry]) -> Iterable[tuple[FindingKind, str]]:
    numbers = [entry.seq for entry in log]
    if any(later <= earlier for earlier, later in itertools.pairwise(numbers)):
        yield FindingKind.INCONSISTENT, "the numbers of its entries do not grow"


def _of_references(log: Sequence[LogEntry]) -> Iterable[tuple[FindingKind, str]]:
    said = [entry for entry in log if isinstance(entry, Recorded)]
    ids = Counter(entry.id for entry in said)
    erased = Counter(entry.assertion_id for entry in log if isinstance(entry, Tombstone))
    changed = {entry.assertion_id for entry in log if isinstance(entry, StateChange)}
    if repeated := sum(count > 1 for count in (*ids.values(), *erased.values())):
        yield FindingKind.INCONSISTENT, f"{repeated} id(s) stand for more than one entry"
    if lost := len(changed - ids.keys()):
        yield FindingKind.DANGLING, f"{lost} change(s) of state name assertions that are not there"
    if back := len(ids.keys() & erased.keys()):
        yield FindingKind.INCONSISTENT, f"{back} erased assertion(s) are there again"
    if astray := sum(entry.assertion.revises not in (None, entry.record_id) for entry in said):
        yield FindingKind.DANGLING, f"{astray} update(s) are kept under another record than the one they update"


def _of_types(log: Sequence[LogEntry]) -> Iterable[tuple[FindingKind, str]]:
    types: dict[tuple[object, ...], set[FactType]] = {}
    for entry in log:
        if isinstance(entry, Recorded) and entry.assertion.counts(entry.assertion.state):
            types.setdefault(entry.assertion.track, set()).add(entry.assertion.fact_type)
    if mixed := sum(len(found) > 1 for found in types.values()):
        yield FindingKind.INCONSISTENT, f"{mixed} concept(s) are SINGLE and MULTIPLE at one place"


def _counted(log: Sequence[LogEntry], tenant: str | None) -> Iterable[Finding]:
    said = {entry.id: entry.assertion for entry in log if isinstance(entry, Recorded)}
    states = {id: assertion.state for id, assertion in said.items()}
    states |= {entry.assertion_id: entry.state for entry in log if isinstance(entry, StateChange)}
    counts = Counter((state, id in said and said[id].details.owner is not None) for id, state in states.items())
    for state, kind, private, what, advice, words in _TO_DO:
        if count := sum(counts[state, one] for one in private):
            command = shlex.join(["factmem", *([] if tenant is None else ["--organization", tenant]), *words.split()])
            problem, advice = f"{count} {what}", f"{advice} `{command}`"
            yield Finding(kind=kind, part=tenant_words(tenant), problem=problem, advice=advice)


_TO_DO: Final[tuple[tuple[AssertionState, FindingKind, tuple[bool, ...], str, str, str], ...]] = (
    (
        AssertionState.PENDING,
        FindingKind.WAITING,
        (False, True),
        "text(s) wait for the language model",
        "run",
        "resume",
    ),
    (
        AssertionState.FAILED,
        FindingKind.DEAD_LETTERS,
        (False, True),
        "text(s) could not be read by the language model",
        "see",
        "dead-letters list --all-users",
    ),
    (
        AssertionState.QUARANTINED,
        FindingKind.QUARANTINED,
        (False,),
        "record(s) wait to be accepted or rejected",
        "see",
        "quarantine list",
    ),
    (
        AssertionState.QUARANTINED,
        FindingKind.QUARANTINED,
        (True,),
        "private record(s) wait to be accepted or rejected",
        "with the name of each user, see",
        "--user NAME quarantine list",
    ),
)
"""States of records that wait, public (False) or private (True), and the command that shows or reads them."""
