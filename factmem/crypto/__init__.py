"""Recipes above the primitives of `cryptography`: sealing, key sources, and the key file of a store.

Nothing here accesses a disk. `factmem_encrypted` builds a store on it.
"""

from __future__ import annotations

from factmem.crypto.keys import Passphrase, SecretKey

__all__ = ["Passphrase", "SecretKey"]
