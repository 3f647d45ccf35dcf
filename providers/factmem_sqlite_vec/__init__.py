"""Facts in one SQLite file: assertions with their history, and sqlite-vec vectors."""

from __future__ import annotations

from factmem_sqlite_vec.provider import SqliteVecMemoryProvider

__all__ = ["SqliteVecMemoryProvider"]
