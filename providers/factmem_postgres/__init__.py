"""Facts in PostgreSQL: assertions with their history and vectors, for those who outgrow one machine."""

from __future__ import annotations

from factmem_postgres.provider import PostgresMemoryProvider

__all__ = ["PostgresMemoryProvider"]
