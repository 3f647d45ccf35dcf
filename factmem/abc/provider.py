"""The narrow waist: four verbs and a close. Whoever writes these has a working memory."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

from factmem.facts import Concept, Fact, FactT
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

__all__ = ["AgentMemoryProvider"]


class AgentMemoryProvider(abc.ABC):
    """An async store of facts.

    A subclass needs these four verbs only; the engine then saves, loads and recalls over the subjects
    and scopes it was told of. What a provider can do beyond them it shows by also satisfying the
    protocols of `factmem.abc.capabilities`.

    The verbs answer for exactly the place they are given (never for a child scope, nor for another
    individual of the subject), with what is current, public and active. Every provider guarantees:

    - *durable*: a save that returned is there after a kill or a power cut (a store in memory excepted);
    - *newest wins*: of a SINGLE concept, the value with the newest timestamp, whichever came last;
    - *a set*: of a MULTIPLE concept, the union of all values saved, in the order first said;
    - *idempotent*: the same fact, with its timestamp, saved again changes nothing;
    - *atomic*: a save that failed or was cancelled left all of its fact or nothing of it;
    - *walls*: no fact of one tenant, scope, subject or individual is ever seen in another;
    - *own errors*: only `FactMemError` and the errors of cancellation come out.

    Instances are async context managers; leaving one closes it. A provider may be used by many tasks
    of one event loop at once.
    """

    @abc.abstractmethod
    async def save(self, fact: Fact[Any], subject: MemorySubject, scope: MemoryScope) -> None:
        """Keep a fact. When this returns, the fact is on disk.

        A save that was cancelled may have been kept; saving the same fact again is harmless.

        Raises:
            ConceptConflictError: the place holds another fact type, or a value type that cannot be
                read as this one, under the same keyword.
            StoreUnavailableError: it could not be written; nothing of it was.
            CorruptStoreError: the store is damaged; nothing was written.
            ProviderClosedError: the provider was closed.
        """

    @abc.abstractmethod
    async def load(self, concept: Concept[Any, FactT], subject: MemorySubject, scope: MemoryScope) -> FactT | None:
        """Return what is known of a concept, or None.

        Raises:
            ConceptConflictError: what is stored cannot be read as this concept's type.
            CorruptStoreError: the store is damaged.
            ProviderClosedError: the provider was closed.
        """

    @abc.abstractmethod
    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> Sequence[Fact[Any]]:
        """Return every fact of a place, one a concept, in the order first said.

        The facts' concepts are read from the store; a value of an undeclared class reads as JSON.

        Raises:
            CorruptStoreError: the store is damaged.
            ProviderClosedError: the provider was closed.
        """

    @abc.abstractmethod
    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> Sequence[Fact[Any]]:
        """Return the facts of a place whose concept's description or keyword contains a text.

        Both sides are compared case-folded and in Unicode's compatibility form. This is a look-up by
        name; ranking by meaning is what recall is for.

        Raises:
            InvalidDataError: the text is empty.
            CorruptStoreError: the store is damaged.
            ProviderClosedError: the provider was closed.
        """

    async def aclose(self) -> None:  # noqa: B027
        """Close the store; everything acknowledged stays. Closing twice is harmless."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()
