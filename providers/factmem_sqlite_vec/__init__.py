"""Facts in one SQLite file: assertions with their history, full text, and sqlite-vec vectors."""

from __future__ import annotations

from factmem_sqlite_vec.provider import SqliteVecMemoryProvider

__all__ = ["SqliteVecMemoryProvider"]
