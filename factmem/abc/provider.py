"""Contract of providers: four verbs and a close."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from factmem.facts import Concept, Fact, FactT
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject


class AgentMemoryProvider(abc.ABC):
    """An async store of facts.

    A subclass implements these four verbs; the engine then saves, loads and recalls over the subjects and scopes of a
    `Memory`. Further capabilities are the protocols of `factmem.abc.capabilities`.

    The verbs apply to exactly one place, never a child scope or another individual of the subject. They return
    current, public and active facts. Every provider guarantees:

    - *durable*: a save that returned survives a kill or a power cut (a store in memory excepted);
    - *newest wins*: a SINGLE concept has the value with the newest timestamp, in any order of saving; if a clock that
      stepped back gave the time, the value saved last (`ClockTime`; see `factmem.providers.SteadyClock`);
    - *a set*: the values of a MULTIPLE concept are the union of all values saved, in the order first said;
    - *idempotent*: the same fact, with its timestamp, saved again changes nothing;
    - *atomic*: a save that failed or was cancelled wrote all of its fact or nothing of it;
    - *walls*: facts of one tenant, scope, subject or individual are never visible in another;
    - *own errors*: only `FactMemError` and cancellation are raised.

    Instances are async context managers; leaving one closes it. A provider may be used by many tasks
    of one event loop at once.
    """

    @abc.abstractmethod
    async def save(self, fact: Fact[Any], subject: MemorySubject, scope: MemoryScope) -> None:
        """Save a fact. When this returns, the fact is on disk.

        A cancelled save may have been written; saving the same fact again is harmless.

        Raises:
            ConceptConflictError: The place holds another fact type, or a value type that cannot be
                read as this one, under the same keyword.
            StoreUnavailableError: The fact could not be written; nothing was written.
            CorruptStoreError: The store is damaged; nothing was written.
            ProviderClosedError: The provider was closed.
        """

    @abc.abstractmethod
    async def load(self, concept: Concept[Any, FactT], subject: MemorySubject, scope: MemoryScope) -> FactT | None:
        """Return the current fact of a concept, or None.

        Raises:
            ConceptConflictError: The stored values cannot be read as this concept's type.
            CorruptStoreError: The store is damaged.
            ProviderClosedError: The provider was closed.
        """

    @abc.abstractmethod
    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> Sequence[Fact[Any]]:
        """Return every fact of a place, one for each concept, in the order first said.

        The facts' concepts are read from the store; a value of an undeclared class reads as JSON.

        Raises:
            CorruptStoreError: The store is damaged.
            ProviderClosedError: The provider was closed.
        """

    @abc.abstractmethod
    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> Sequence[Fact[Any]]:
        """Return the facts of a place whose concept's description or keyword contains a text.

        Both texts are compared case-folded and in Unicode's compatibility form. This looks up names; to rank by
        meaning, use recall.

        Raises:
            InvalidDataError: The text is empty.
            CorruptStoreError: The store is damaged.
            ProviderClosedError: The provider was closed.
        """

    async def aclose(self) -> None:  # noqa: B027
        """Close the store; acknowledged saves stay. Repeated calls are harmless."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
