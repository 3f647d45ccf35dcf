"""Recipes above the primitives of `cryptography`: sealing, key sources, and the key file of a store.

Nothing here accesses a disk. `factmem_encrypted` builds a store on it.
"""

from __future__ import annotations

from factmem.crypto.key_file import (
    KEY_FILE_VERSION,
    Root,
    Roots,
    RotatesKeys,
    locked_roots,
    pending_rotation,
    unlocked_roots,
)
from factmem.crypto.keys import (
    AS_IT_IS,
    Argon2id,
    CalledKey,
    EnvironmentKey,
    EnvironmentPassphrase,
    Keyring,
    KeySource,
    OsKeyringKey,
    Passphrase,
    Recipe,
    SecretKey,
    keyring_of,
    one_keyring,
)
from factmem.crypto.sealing import KEY_BYTES, SEAL_BYTES, Context, SealBrokenError, seal, unseal

__all__ = [
    "AS_IT_IS",
    "KEY_BYTES",
    "KEY_FILE_VERSION",
    "SEAL_BYTES",
    "Argon2id",
    "CalledKey",
    "Context",
    "EnvironmentKey",
    "EnvironmentPassphrase",
    "KeySource",
    "Keyring",
    "OsKeyringKey",
    "Passphrase",
    "Recipe",
    "Root",
    "Roots",
    "RotatesKeys",
    "SealBrokenError",
    "SecretKey",
    "keyring_of",
    "locked_roots",
    "one_keyring",
    "pending_rotation",
    "seal",
    "unlocked_roots",
    "unseal",
]
