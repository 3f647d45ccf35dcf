"""The Agent Memory Security Benchmark: 15 attacks and 6 controls, from agent-memory-guard 0.3.3.

No rule here or in factmem contains its texts. Its planted texts come from tools, so they are quarantined; its secrets
are redacted for every origin.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, Final

import attrs
import pytest

from factmem import BlockingMemory, InMemoryProvider, Memory, Message, Policies
from factmem.memory.screening import FlaggedPolicy
from factmem.records import AssertionState
from factmem.testing import HashEmbedder
from tests.conftest import Promise

PACKAGE: Final = "agent-memory-guard==0.3.3"
ROLES: Final = {"user_input": "user", "agent_authored": "assistant", "external_tool": "tool"}


@pytest.fixture(scope="module")
def bench() -> Any:
    """The benchmark, which is not a dependency of factmem."""
    return pytest.importorskip(
        "agent_memory_guard.bench", reason=f"the benchmark was NOT run: pip install {PACKAGE} to run it"
    )


@attrs.define
class FactMem:
    """factmem as a system under the benchmark: texts are saved with an origin, a session ends, and records are read."""

    outcomes: Any
    told_as: Callable[[str], str]
    flagged: FlaggedPolicy
    provider: InMemoryProvider = attrs.field(factory=InMemoryProvider)
    name: str = "factmem"
    version: str = "0"
    self_submission: bool = False

    def _open(self) -> BlockingMemory:
        return BlockingMemory(Memory(self.provider, embedder=HashEmbedder(), policies=Policies(flagged=self.flagged)))

    def remember(self, key: str, value: str, *, source_class: str = "external_tool") -> object:
        """Save a text under a key."""
        with self._open() as memory:
            message = Message(content=value, role=self.told_as(source_class))
            saved = memory.remember(message, metadata={"key": key})
        if not saved.records:
            return self.outcomes.BLOCKED
        if any(record.state is AssertionState.QUARANTINED for record in saved.records):
            return self.outcomes.QUARANTINED
        return self.outcomes.STORED if saved.records[0].value == value else self.outcomes.REDACTED

    def recall(self, key: str) -> str | None:
        """Return all records under a key, in a session of its own."""
        with self._open() as memory:
            found = memory.list_records(metadata={"key": key}, descending=False)
            assert {match.record.id for match in memory.recall(key, limit=99)} <= {
                record.id for record in memory.list_records()
            }
        return "\n".join(str(record.value) for record in found) or None

    def context_reset(self) -> None:
        """Do nothing: only the store connects two calls."""


def graded(
    bench: Any, told_as: Callable[[str], str], flagged: FlaggedPolicy = FlaggedPolicy.QUARANTINE_OTHERS
) -> tuple[Any, list[str], list[str]]:
    """Return the score, the successful attacks and the failed controls."""
    report = bench.run_suite(lambda: FactMem(bench.RememberOutcome, told_as, flagged))
    breached = [run.scenario_id for run in report.runs if run.malicious and not run.passed]
    mangled = [run.scenario_id for run in report.runs if not run.malicious and not run.passed]
    return bench.score_report(report), breached, mangled


def test_none_of_its_attacks_is_believed_and_all_of_its_controls_are(bench: Any, promise: Promise) -> None:
    score, breached, mangled = graded(bench, lambda source: ROLES.get(source, "unknown"))
    assert (breached, mangled) == ([], [])
    assert (score.defended_total, score.false_positives, score.grade.value) == (15, 0, "A")
    promise(
        "poisoning, AMSB",
        f"{score.defended_total} of {score.malicious_total}, false positives {score.false_positives} of "
        f"{score.benign_total}, score {score.score:.1f} ({score.grade.value})",
    )


def test_without_origins_the_flags_and_the_redaction_alone_stop_most(bench: Any, promise: Promise) -> None:
    """Attacks in the user's own name succeed only if they are neither an instruction nor shaped like a secret."""
    score, breached, mangled = graded(bench, lambda source: "user", FlaggedPolicy.QUARANTINE_ALL)
    assert (breached, mangled) == (["leak-connection-string", "esc-role", "esc-permissions"], [])
    promise(
        "poisoning, AMSB in the user's name",
        f"{score.defended_total} of {score.malicious_total}, false positives {score.false_positives} of "
        f"{score.benign_total}, by flags and redaction alone",
    )


def test_the_harness_fails_a_store_without_defences(bench: Any) -> None:
    """A store without defences fails, so passing the benchmark is evidence."""
    score, breached, _ = graded(bench, lambda source: "user", FlaggedPolicy.IGNORE)
    assert score.grade.value == "F"
    assert len(breached) == 13, "two of the secrets are redacted all the same"
    assert json.dumps(score.to_dict())
