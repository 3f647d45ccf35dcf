"""Authenticated encryption of bytes: sealed data cannot be read, and moving or changing it is detected.

The construction is Cobblestone-256 of C2SP's *chunked-encryption* (https://c2sp.org/chunked-encryption), as
`cryptography` implements it: from the key, a fresh random salt of 24 bytes and the context, HKDF-SHA-512
derives a key of its own for each message, a nonce, and a commitment of 32 bytes to key and context; the
message goes through AES-256-GCM in chunks of 16 KiB. So no nonce can repeat, sealed data opens under one
key and one context only, and 72 bytes are added.
"""

from __future__ import annotations

import json
from typing import Final

from cryptography.cobblestone import Cobblestone256Decryptor, Cobblestone256Encryptor
from cryptography.exceptions import InvalidTag

KEY_BYTES: Final = 32
"""Length of every key."""

SEAL_BYTES: Final = 72
"""Overhead of sealed data up to 16 KiB; 16 bytes more for each further chunk."""

Context = tuple[str | int | None, ...]
"""Context of a sealed message: its kind and place. It is needed to open the message, and not stored in it."""


class SealBrokenError(ValueError):
    """Raised when sealed bytes do not open: other bytes, another key or another context."""


def seal(key: bytes, data: bytes, context: Context) -> bytes:
    """Seal a message.

    Args:
        key: `KEY_BYTES` random bytes.
        data: Message of any length.
        context: Kind and place of the message.
    """
    encryptor = Cobblestone256Encryptor(key, _encoded(context))
    return encryptor.update(data) + encryptor.finalize()


def unseal(key: bytes, sealed: bytes, context: Context) -> bytes:
    """Open a sealed message; return nothing of it before all of it is authenticated.

    Args:
        key: Key that it was sealed with.
        sealed: Result of `seal`.
        context: Context that it was sealed with.

    Raises:
        SealBrokenError: It does not open.
    """
    decryptor = Cobblestone256Decryptor(key, _encoded(context))
    try:
        return decryptor.update(sealed) + decryptor.finalize()
    except InvalidTag:
        raise SealBrokenError("the seal is broken") from None


def _encoded(context: Context) -> bytes:
    """Encode a context as a JSON list, which is unique."""
    return json.dumps(["factmem", *context], separators=(",", ":")).encode()
