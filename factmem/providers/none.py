"""Memory that keeps nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from factmem.abc import AgentMemoryProvider
from factmem.errors import InvalidDataError
from factmem.facts import Concept, Fact, FactT
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

__all__ = ["NoMemory"]


class NoMemory(AgentMemoryProvider):
    """Keeps nothing and finds nothing, without complaint: the null object of providers."""

    async def save(self, fact: Fact[Any], subject: MemorySubject, scope: MemoryScope) -> None:
        """Let the fact go."""

    async def load(self, concept: Concept[Any, FactT], subject: MemorySubject, scope: MemoryScope) -> FactT | None:
        """Return None."""
        return None

    async def load_all(self, subject: MemorySubject, scope: MemoryScope) -> Sequence[Fact[Any]]:
        """Return nothing."""
        return ()

    async def load_by_description(
        self, description: str, subject: MemorySubject, scope: MemoryScope
    ) -> Sequence[Fact[Any]]:
        """Return nothing."""
        if not description.strip():
            raise InvalidDataError("the text to look for is empty; use load_all to read everything")
        return ()
