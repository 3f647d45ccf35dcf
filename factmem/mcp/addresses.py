"""The addresses of what a server shows as resources."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final
from urllib.parse import quote

from factmem.records import FactRecord
from factmem.scopes import MemoryScope

__all__ = ["FACTS", "INFO", "TREE", "changed_addresses", "facts_address", "record_address"]

FACTS: Final = "factmem://facts"
"""What is known, as a prompt shows it."""

INFO: Final = "factmem://info"
"""How much is known."""

TREE: Final = "factmem://tree"
"""What is where."""


def facts_address(scope: MemoryScope) -> str:
    """Return the address of what is known in a scope and below."""
    return FACTS + quote(str(scope), safe="/")


def record_address(id: str) -> str:
    """Return the address of a record."""
    return f"factmem://record/{quote(id, safe='')}"


def changed_addresses(records: Iterable[FactRecord[Any]]) -> list[str]:
    """Return the addresses of everything that shows some records: their own, their scopes' and the overviews."""
    changed: dict[str, None] = {}
    for record in records:
        changed[record_address(record.id)] = None
        scope: MemoryScope | None = record.scope
        while scope is not None:
            changed[facts_address(scope)] = None
            scope = scope.parent
    return [*changed, FACTS, INFO, TREE] if changed else []
