"""Access of a server's clients to a memory."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final, TypeAlias, TypeVar
from urllib.parse import quote

import anyio

from factmem.agent.config import RunIdentity
from factmem.agent.holders import MemoryHolder, OpenMemoryHolder, ThreadMemoryHolder
from factmem.agent.plugin import AgentMemory
from factmem.agent.run import MemoryRun
from factmem.errors import InvalidDataError, ProviderClosedError
from factmem.memory.facade import Memory
from factmem.memory.screening import QuarantineQuota
from factmem.records import FactRecord
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

T = TypeVar("T")

ServedMemory: TypeAlias = "Memory | AgentMemory | Callable[[], Memory]"
"""An open memory, an agent's memory, or a function that returns a memory to open while clients are connected."""


QUOTA: Final = QuarantineQuota(total=1_000, per_writer=200)
"""Default limits of what clients leave in quarantine."""


class Access:
    """Access of clients to a memory, limited to scopes, subjects and a viewer.

    Args:
        memory: The memory; limits of a view apply to the clients too.
        scopes: Scopes that clients are limited to, with their subtrees (default: all).
        subjects: Subjects that clients are limited to (default: all); facts they write are about the first one.
        user_id: User of an agent's memory.
        read_only: Whether writes are refused.
        trusted: Whether facts written by clients are trusted; else they are quarantined, and clients can retract only
            facts written by clients alone.
        tools: Names of the offered tools.
        quota: Limits of what clients leave in quarantine.

    Attributes:
        scopes: Scopes that clients are limited to; empty for all.
        subjects: Subjects that clients are limited to; empty for all.
        private: Whether all facts written by clients are private.
        read_only: Whether writes are refused.
        trusted: Whether facts written by clients are trusted.
        tools: Names of the offered tools.
    """

    def __init__(
        self,
        memory: ServedMemory,
        *,
        scopes: Iterable[MemoryScope | str] = (),
        subjects: Iterable[MemorySubject] = (),
        user_id: str | None = None,
        read_only: bool = False,
        trusted: bool,
        tools: Sequence[str],
        quota: QuarantineQuota = QUOTA,
    ) -> None:
        self._memory = memory
        self._run: MemoryRun | None = None
        self._held: MemoryHolder | None = None
        self._clients = 0
        self._quota = quota
        self.read_only = read_only
        self.trusted = trusted
        self.tools = tools
        self.private: bool = False
        self.scopes: tuple[MemoryScope | str, ...] = tuple(scopes)
        self.subjects: tuple[MemorySubject, ...] = tuple(subjects)
        if isinstance(memory, AgentMemory):
            self._run = memory.for_run(RunIdentity(user_id=user_id))
            self.subjects = self.subjects or (self._run.user, *memory.config.subjects)
            self.private = memory.config.saving.private
        elif user_id is not None:
            raise InvalidDataError("a user_id is for an AgentMemory; a Memory has a viewer", path="$.user_id")

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Hold the memory open for one client; a memory opened for clients is closed with the last one."""
        self._clients += 1
        if self._held is None:
            self._held = self._hold()
        try:
            yield
        finally:
            with anyio.CancelScope(shield=True):
                await self._leave()

    async def use(self, work: Callable[[Memory], Awaitable[T]], *, actor: str | None = None) -> T:
        """Run a function on the clients' view of the memory.

        Args:
            work: The function.
            actor: Name of the client, for the audit trail.

        Raises:
            ProviderClosedError: No client is connected.
        """
        if self._held is None:
            raise ProviderClosedError("the server's memory is open only while a client is connected")

        def worked(memory: Memory) -> Awaitable[T]:
            view = self._view(memory)
            return work(view if actor is None else view.view(actor=actor))

        return await self._held.use(worked)

    def about(self, name: str | None) -> MemorySubject | None:
        """Return the subject that a client's request names; None for all that are visible.

        Args:
            name: The requested subject, as ``name`` or ``name:individual``.

        Raises:
            InvalidDataError: The server does not serve this subject.
        """
        if name is None:
            return None
        wanted = MemorySubject.parse(name)
        if not self.subjects:
            return wanted
        if self._run is not None and wanted.key == self._run.config.user.key:
            return self._run.user
        for subject in self.subjects:
            if subject.key == wanted.key:
                return subject
        served = ", ".join(map(str, self.subjects))
        raise InvalidDataError(f"this server does not serve that subject: name {served}, or none")

    async def subject_to_write(self, view: Memory, name: str | None) -> MemorySubject | None:
        """Return the subject of the facts that a client writes, as it is in the store; None for the view's own."""
        subject = self.about(name)
        if subject is None or self.subjects:
            return subject
        known = await view.list_records(subject=subject, limit=1)
        return known[0].subject if known else subject

    def scope_to_write(self, scope: str | None) -> MemoryScope | str | None:
        """Return the scope of the facts that a client writes."""
        return self._run.config.home if scope is None and self._run is not None else scope

    def _view(self, memory: Memory) -> Memory:
        if self._run is not None:
            view = self._run.written_by_model(memory, self.scopes or None)
        else:
            view = memory.view(scopes=self.scopes, read_only=self.read_only) if self.scopes else memory
        view = view.view(subjects=self.subjects) if self.subjects else view
        return view.view(reviewed=True).view(policies={"quarantine": self._quota})

    def _hold(self) -> MemoryHolder:
        match self._memory:
            case Memory() as memory:
                return OpenMemoryHolder(memory)
            case AgentMemory() as memory:
                return memory.for_run().held
            case make:
                return ThreadMemoryHolder(make)

    async def _leave(self) -> None:
        self._clients -= 1
        if self._clients == 0 and self._held is not None:
            held, self._held = self._held, None
            if self._run is None:
                await held.aclose()


FACTS: Final = "factmem://facts"
"""Address of the known facts, rendered for a prompt."""

INFO: Final = "factmem://info"
"""Address of the summary."""

TREE: Final = "factmem://tree"
"""Address of the tree of scopes."""


def facts_address(scope: MemoryScope) -> str:
    """Return the address of the known facts in a scope and below."""
    return FACTS + quote(str(scope), safe="/")


def record_address(id: str) -> str:
    """Return the address of a record."""
    return f"factmem://record/{quote(id, safe='')}"


def changed_addresses(records: Iterable[FactRecord[Any]]) -> list[str]:
    """Return the addresses of all resources that show some records: the records, their scopes and the overviews."""
    changed: dict[str, None] = {}
    for record in records:
        changed |= dict.fromkeys([record_address(record.id), *map(facts_address, record.scope.lineage)])
    return [*changed, FACTS, INFO, TREE] if changed else []
