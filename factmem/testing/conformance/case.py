"""Access of the kit to the provider under test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, Final

import attrs
import pytest
from anyio.abc import AsyncResource

from factmem.abc.capabilities import Append, EraseReceipt, KeepsLog, Receipt, Statement, StateRequest
from factmem.abc.clock import Clock
from factmem.abc.provider import AgentMemoryProvider
from factmem.facts import Concept, Fact, FactT, MultipleConcept, SingleConcept
from factmem.records import Assertion, AssertionState, LogEntry, Place, Recorded
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing.conformance.samples import PLANNER, USER, loaded_value, only

ACTIVE: Final = AssertionState.ACTIVE
FAILED: Final = AssertionState.FAILED
PENDING: Final = AssertionState.PENDING
QUARANTINED: Final = AssertionState.QUARANTINED
RETRACTED: Final = AssertionState.RETRACTED


request: Final = StateRequest.of
"""Builds a request to change a state."""


@attrs.frozen
class Store(AsyncResource):
    """The provider under test, at the usual place unless another is given.

    A provider that keeps no log skips the specs that ask for one.
    """

    provider: AgentMemoryProvider

    async def aclose(self) -> None:
        """Close the provider."""
        await self.provider.aclose()

    @property
    def keeper(self) -> KeepsLog:
        """The provider as `KeepsLog`; skips the spec if it keeps no log."""
        if not isinstance(self.provider, KeepsLog):
            pytest.skip(f"{type(self.provider).__name__} does not satisfy factmem.abc.capabilities.KeepsLog")
        return self.provider

    async def save(self, fact: Fact[Any], subject: MemorySubject = USER, scope: MemoryScope = PLANNER) -> None:
        """Save a fact by the four verbs."""
        await self.provider.save(fact, subject, scope)

    async def load(
        self, concept: Concept[Any, FactT], subject: MemorySubject = USER, scope: MemoryScope = PLANNER
    ) -> FactT | None:
        """Load a fact by the four verbs."""
        return await self.provider.load(concept, subject, scope)

    async def load_all(self, subject: MemorySubject = USER, scope: MemoryScope = PLANNER) -> list[Fact[Any]]:
        """Load all facts of a place."""
        return list(await self.provider.load_all(subject, scope))

    async def find(
        self, description: str, subject: MemorySubject = USER, scope: MemoryScope = PLANNER
    ) -> list[Fact[Any]]:
        """Load facts by their description."""
        return list(await self.provider.load_by_description(description, subject, scope))

    async def value(self, concept: SingleConcept[Any]) -> Any:
        """Return the value of a SINGLE concept, or None."""
        return await loaded_value(self.provider, concept)

    async def values(self, concept: MultipleConcept[Any]) -> list[Any]:
        """Return the values of a MULTIPLE concept."""
        fact = await self.load(concept)
        return [] if fact is None else list(fact.values)

    async def append(self, *statements: Statement) -> Sequence[Receipt]:
        """Append statements in one transaction."""
        return await self.keeper.append(statements)

    async def keep(self, *assertions: Assertion) -> Sequence[Receipt]:
        """Append assertions in one transaction."""
        return await self.append(*(Append(assertion=assertion) for assertion in assertions))

    async def only(self, assertion: Assertion) -> Recorded:
        """Append one assertion and return it as recorded."""
        return await only(self.keeper, assertion)

    async def change(self, recorded: Recorded, state: AssertionState, expected: AssertionState | None = None) -> None:
        """Change the state of an assertion."""
        await self.append(request(recorded, state, expected=expected))

    async def log(self, keyword: str | None = None) -> list[LogEntry]:
        """Return the entries of the usual place, or those of one keyword there."""
        return list(await self.keeper.entries(Place(USER, PLANNER), keyword))

    async def changes(self, tenant: str | None = None, since: int = 0) -> list[LogEntry]:
        """Return the entries of a tenant after a number."""
        return list(await self.keeper.changes(tenant, since))

    async def version(self, tenant: str | None = None) -> int:
        """Return the newest number of a tenant."""
        return await self.keeper.version(tenant)

    async def erase(
        self, records: Sequence[str] = (), *, tenant: str | None = None, assertions: Sequence[str] = ()
    ) -> EraseReceipt:
        """Erase records, and single assertions."""
        return await self.keeper.erase(records, tenant=tenant, assertion_ids=assertions)

    async def embedded(self, tenant: str | None = None, since: int = 0) -> list[int]:
        """Return the numbers of the assertions that have a vector."""
        return list((await self.keeper.vectors(tenant, since))[0])


class ProviderCase:
    """Base of every spec: a provider on a fresh store.

    Attributes:
        durable: Whether facts persist when the same directory is opened again. Two providers that have it open at once
            then see each other's writes.
        capabilities: Capabilities that the provider promises, as `capabilities_of` names them; if set, a missing one
            fails instead of skipping its specs.
    """

    pytestmark: ClassVar[Any] = pytest.mark.anyio
    durable: ClassVar[bool] = False
    capabilities: ClassVar[Sequence[str] | None] = None

    async def open_provider(self, directory: Path) -> AgentMemoryProvider:
        """Open the provider under test; a subclass must implement this.

        Args:
            directory: Empty directory for this store alone; opening the same directory again must open the same store,
                if it is `durable`.
        """
        raise NotImplementedError(f"{type(self).__name__} must write `async def open_provider(self, directory)`")

    async def open_provider_with_clock(self, directory: Path, clock: Clock) -> AgentMemoryProvider | None:
        """Open the provider under test as `open_provider` does, with a clock that the kit sets.

        Args:
            directory: See `open_provider`.
            clock: Gives the times of recording.

        Returns:
            The provider; None, as here, skips the specs of clocks.
        """
        return None

    @pytest.fixture
    async def store(self, tmp_path: Path) -> AsyncIterator[Store]:
        """The provider under test, on a fresh store; closed after the spec."""
        async with await self.open_provider(tmp_path) as provider:
            yield Store(provider)

    async def reopened(self, store: Store, directory: Path) -> Store:
        """Close a store and open its directory again; skips if it is not `durable`."""
        if not self.durable:
            pytest.skip(f"{type(store.provider).__name__} is not durable")
        await store.aclose()
        return Store(await self.open_provider(directory))


def files_in(folder: Path) -> dict[Path, bytes]:
    """Return the contents of all files below a folder."""
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
