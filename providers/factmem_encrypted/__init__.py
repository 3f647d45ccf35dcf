"""Facts in encrypted files: `EncryptedMemoryProvider` over an `EncryptedStorage`.

Below the root, ``factmem.json`` says that this is an encrypted store, ``store.keys`` holds its keys, wrapped
(`factmem_encrypted.key_table`), ``store.manifest`` what there is (`factmem_encrypted.manifest`), ``head.note`` how far
the manifest goes (`factmem_encrypted.head`), and ``<two hex digits>/<random name>.sealed`` the facts
(`factmem_encrypted.frames`).
"""

from __future__ import annotations

from factmem_encrypted.provider import EncryptedMemoryProvider
from factmem_encrypted.storage import EncryptedStorage

__all__ = ["EncryptedMemoryProvider", "EncryptedStorage"]
