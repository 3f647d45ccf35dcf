"""Any sequence of calls gives the same log as `InMemoryProvider`."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import anyio
import attrs
import pytest
from factmem_sqlite_vec import SqliteVecMemoryProvider
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factmem.abc import Append, Statement, StateRequest
from factmem.errors import ConceptConflictError, RecordNotFoundError, StateConflictError
from factmem.facts import Concept
from factmem.providers import InMemoryProvider
from factmem.records import Assertion, AssertionState, LogEntry, Origin, Place, Recorded, StateChange
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing import FakeClock
from factmem.testing.conformance.samples import said

Provider: TypeAlias = InMemoryProvider | SqliteVecMemoryProvider

TENANTS = (None, "acme")
CONCEPTS = (
    Concept.single("a", "A"),
    Concept.multiple("a", "A"),
    Concept.multiple("b", "B"),
    Concept.single("b", "", int),
)
SUBJECTS = (MemorySubject("user"), MemorySubject("user", individual_name="alice"))

places = st.builds(
    Place, st.sampled_from(SUBJECTS), st.sampled_from([MemoryScope.agent("x").within(tenant) for tenant in TENANTS])
)
appends = st.tuples(
    st.just("append"),
    st.lists(
        st.tuples(
            st.sampled_from(CONCEPTS),
            st.integers(0, 3),
            st.integers(0, 2),
            places,
            st.sampled_from([None, "o"]),
            st.sampled_from([Origin.USER, Origin.USER, Origin.TOOL]),
            st.sampled_from([None, None, AssertionState.PENDING, AssertionState.FAILED]),
        ),
        min_size=1,
        max_size=3,
    ),
    st.none() | st.integers(0, 9),
)
kept_states = [AssertionState.RETRACTED, AssertionState.ACTIVE, AssertionState.QUARANTINED, AssertionState.PENDING]
changes_of_state = st.tuples(
    st.just("state"),
    st.lists(
        st.tuples(st.integers(0, 9), st.sampled_from(kept_states), st.sampled_from([None, None, *AssertionState])),
        min_size=1,
        max_size=3,
    ),
)
erasures = st.tuples(
    st.just("erase"),
    st.lists(st.integers(0, 9), max_size=2),
    st.lists(st.integers(0, 9), max_size=2),
    st.sampled_from(TENANTS),
)


async def _recorded(provider: Provider) -> list[Recorded]:
    logs = [await provider.changes(tenant) for tenant in TENANTS]
    return sorted(
        (entry for entry in itertools.chain(*logs) if isinstance(entry, Recorded)), key=lambda entry: entry.seq
    )


async def _apply(provider: Provider, step: tuple[Any, ...]) -> object:
    """Do one step, naming assertions and records by their position in the log, and return its outcome."""
    known = await _recorded(provider)
    match step:
        case ("append", items, revised):
            revises = known[revised].record_id if revised is not None and revised < len(known) else None
            statements: Sequence[Statement] = [
                Append(
                    assertion=_in_state(
                        state,
                        said(
                            concept,
                            value if concept.value_type is int else str(value),
                            minutes,
                            subject=place.subject,
                            scope=place.scope,
                            owner=owner,
                            revises=revises,
                            origin=origin,
                        ),
                    )
                )
                for concept, value, minutes, place, owner, origin, state in items
            ]
        case ("state", changes):
            statements = [
                StateRequest(
                    assertion_id=known[index].id if index < len(known) else "nothing",
                    tenant=known[index].assertion.place.scope.tenant if index < len(known) else None,
                    state=state,
                    reason="why",
                    expected=expected,
                )
                for index, state, expected in changes
            ]
        case ("erase", indices, singly, tenant):
            ids = [known[index].record_id for index in indices if index < len(known)]
            single = [known[index].id for index in singly if index < len(known)]
            return await provider.erase(ids, tenant=tenant, assertion_ids=single)
        case _:
            raise AssertionError("no such step")
    try:
        return [(receipt.new, receipt.recorded.seq) for receipt in await provider.append(statements)]
    except (ConceptConflictError, RecordNotFoundError, StateConflictError) as error:
        return str(error)


def _in_state(state: AssertionState | None, assertion: Assertion) -> Assertion:
    return assertion if state is None else attrs.evolve(assertion, state=state)


def _comparable(log: Sequence[LogEntry]) -> list[object]:
    """Return a log with its random ids replaced by numbers in order of appearance."""
    numbers: dict[str, int] = {}

    def number(id: str) -> int:
        return numbers.setdefault(id, len(numbers))

    return [
        (entry.seq, number(entry.id), number(entry.record_id), entry.recorded_at, entry.assertion.data)
        if isinstance(entry, Recorded)
        else (entry.seq, number(entry.assertion_id), getattr(entry, "state", None), isinstance(entry, StateChange))
        for entry in log
    ]


async def _seen(provider: Provider, place: Place) -> list[object]:
    logs = [await provider.changes(tenant, since) for tenant in TENANTS for since in (0, 3)]
    logs += [await provider.entries(place), await provider.entries(place, "b")]
    return [*map(_comparable, logs), await provider.version(None)]


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(steps=st.lists(st.one_of(appends, appends, changes_of_state, erasures), min_size=2, max_size=9), place=places)
def test_every_sequence_of_calls_gives_the_log_of_the_reference(
    steps: list[tuple[Any, ...]], place: Place, anyio_backend: str
) -> None:
    async def compare(path: Path) -> None:
        async with SqliteVecMemoryProvider(path, clock=FakeClock()) as sqlite:
            reference = InMemoryProvider(clock=FakeClock())
            for step in steps:
                assert await _apply(sqlite, step) == await _apply(reference, step)
                assert await _seen(sqlite, place) == await _seen(reference, place)

    with tempfile.TemporaryDirectory() as folder:
        anyio.run(compare, Path(folder) / "facts.db")
