"""Sealing bytes: what comes out can be read, moved and changed by nobody without it being noticed.

The construction is Cobblestone-256 of C2SP's *chunked-encryption* (https://c2sp.org/chunked-encryption), as
`cryptography` implements it: from the key, a fresh random salt of 24 bytes and the context, HKDF-SHA-512
derives a key of its own for each message, a nonce, and a commitment of 32 bytes to key and context; the
message goes through AES-256-GCM in chunks of 16 KiB. So no nonce can repeat, whatever is sealed opens under one
key and one context only, and 72 bytes are added.
"""

from __future__ import annotations

import json
from typing import Final

from cryptography.cobblestone import Cobblestone256Decryptor, Cobblestone256Encryptor
from cryptography.exceptions import InvalidTag

__all__ = ["KEY_BYTES", "SEAL_BYTES", "Context", "SealBrokenError", "seal", "unseal"]

KEY_BYTES: Final = 32
"""The length of every key."""

SEAL_BYTES: Final = 72
"""By how much sealed bytes are longer, up to 16 KiB; 16 more for every further chunk."""

Context = tuple[str | int | None, ...]
"""The context of a sealed message: its kind and place. It opens with the same context only, and does not hold it."""


class SealBrokenError(ValueError):
    """Raised when sealed bytes do not open: other bytes, another key or another context."""


def seal(key: bytes, data: bytes, context: Context) -> bytes:
    """Seal a message.

    Args:
        key: of `KEY_BYTES` random bytes.
        data: the message, of any length.
        context: what it is and where it belongs.
    """
    encryptor = Cobblestone256Encryptor(key, _encoded(context))
    return encryptor.update(data) + encryptor.finalize()


def unseal(key: bytes, sealed: bytes, context: Context) -> bytes:
    """Open a sealed message; nothing of it is returned before all of it was found genuine.

    Args:
        key: that it was sealed with.
        sealed: what `seal` returned.
        context: that it was sealed with.

    Raises:
        SealBrokenError: it does not open.
    """
    decryptor = Cobblestone256Decryptor(key, _encoded(context))
    try:
        return decryptor.update(sealed) + decryptor.finalize()
    except InvalidTag:
        raise SealBrokenError("the seal is broken") from None


def _encoded(context: Context) -> bytes:
    """As a JSON list: no two contexts have the same bytes."""
    return json.dumps(["factmem", *context], separators=(",", ":")).encode()
