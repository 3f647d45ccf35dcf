"""Facts in one encrypted SQLite file: `EncryptedSqliteMemoryProvider`.

Beside the database ``facts.db`` lies ``facts.db.keys``: the roots of `factmem.crypto`, wrapped with the key that was
given. Each root is the raw key of the database for one epoch; there are two while the key is changed.
"""

from __future__ import annotations

from factmem_encrypted_sqlite.provider import EncryptedSqliteMemoryProvider

__all__ = ["EncryptedSqliteMemoryProvider"]
