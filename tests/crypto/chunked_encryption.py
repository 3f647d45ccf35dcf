"""C2SP's chunked-encryption (https://c2sp.org/chunked-encryption) with AES-256-GCM, written from the specification, for
any hash.

It shares only the primitives with the implementation under test; those have vectors of their own.
"""

from __future__ import annotations

import hmac
from collections.abc import Iterator
from typing import Final

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

__all__ = ["CHUNK", "SALT", "TAG", "RefusedError", "decrypted", "derived", "encrypted"]

CHUNK: Final = 16 * 1024
TAG: Final = 16
SALT: Final = 24
COMMITMENT: Final = 32
HEADER: Final = SALT + COMMITMENT
_KEY: Final = 32
_NONCE: Final = 12
_INFO: Final = b"c2sp.org/chunked-encryption@v1+AEAD_AES_256_GCM\0"


class RefusedError(ValueError):
    """Raised when a message is not genuine."""


def derived(key: bytes, salt: bytes, context: bytes, *, hash: str) -> tuple[bytes, bytes, bytes]:
    """Return the key, the base nonce and the commitment of one message: HKDF-Expand of RFC 5869, block by block."""
    if len(key) != _KEY:
        raise RefusedError("a key of another length")
    wanted, output, block, counter = _KEY + _NONCE + COMMITMENT, b"", b"", 0
    while len(output) < wanted:
        counter += 1
        block = hmac.new(key, block + _INFO + salt + context + bytes([counter]), hash).digest()
        output += block
    return output[:_KEY], output[_KEY : _KEY + _NONCE], output[_KEY + _NONCE : wanted]


def encrypted(key: bytes, salt: bytes, context: bytes, message: bytes, *, hash: str) -> bytes:
    """Return the encryption of a message with a given salt."""
    message_key, base, commitment = derived(key, salt, context, hash=hash)
    chunks = [message[at : at + CHUNK] for at in range(0, len(message), CHUNK)]
    if not chunks or len(chunks[-1]) == CHUNK:
        chunks.append(b"")
    aead = AESGCM(message_key)
    sealed = (aead.encrypt(nonce, chunk, None) for nonce, chunk in zip(_nonces(base), chunks, strict=False))
    return salt + commitment + b"".join(sealed)


def decrypted(key: bytes, context: bytes, sealed: bytes, *, hash: str) -> bytes:
    """Return the decrypted message.

    Raises:
        RefusedError: the message is not genuine.
    """
    if len(sealed) < HEADER:
        raise RefusedError("no whole header")
    message_key, base, commitment = derived(key, sealed[:SALT], context, hash=hash)
    if not hmac.compare_digest(commitment, sealed[SALT:HEADER]):
        raise RefusedError("another key, salt or context")
    body = sealed[HEADER:]
    chunks = [body[at : at + CHUNK + TAG] for at in range(0, len(body), CHUNK + TAG)]
    if not chunks or not TAG <= len(chunks[-1]) < CHUNK + TAG:
        raise RefusedError("the last chunk is not a short one")
    aead = AESGCM(message_key)
    try:
        return b"".join(aead.decrypt(nonce, chunk, None) for nonce, chunk in zip(_nonces(base), chunks, strict=False))
    except InvalidTag:
        raise RefusedError("a chunk was changed") from None


def _nonces(base: bytes) -> Iterator[bytes]:
    number = int.from_bytes(base)
    for counter in range(2**38):
        yield (number ^ counter).to_bytes(len(base))
