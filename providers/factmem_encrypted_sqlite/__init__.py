"""Facts in one encrypted SQLite file: `EncryptedSqliteMemoryProvider`.

Beside the database ``facts.db`` is ``facts.db.keys``: the roots of `factmem.crypto`, wrapped with the given key. Each
root is the raw key of the database for one epoch; there are two during a rotation.
"""

from __future__ import annotations

from factmem_encrypted_sqlite.provider import EncryptedSqliteMemoryProvider

__all__ = ["EncryptedSqliteMemoryProvider"]
