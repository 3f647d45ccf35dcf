"""Facts in encrypted files: `EncryptedMemoryProvider` over an `EncryptedLogStorage`.

Below the root, ``factmem.json`` marks the folder as an encrypted store, ``store.keys`` holds its wrapped keys
(`factmem_encrypted.key_table`), ``store.manifest`` lists the logs (`factmem_encrypted.manifest`), ``head.note`` holds
the length of the manifest (`factmem_encrypted.manifest`), and ``<two hex digits>/<random name>.sealed`` the facts
(`factmem_encrypted.log_storage`).
"""

from __future__ import annotations

from factmem_encrypted.provider import EncryptedMemoryProvider

__all__ = ["EncryptedMemoryProvider"]
