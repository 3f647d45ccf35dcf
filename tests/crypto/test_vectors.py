"""The cryptographic primitives agree with their published test vectors."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.conftest import Promise
from tests.crypto.chunked_encryption import SALT, RefusedError, decrypted, derived, encrypted
from tests.crypto.vectors import chunked_vectors, wycheproof_vectors


def test_aes_gcm_does_as_wycheproof_says(promise: Promise) -> None:
    """Encryption matches the vectors, and decryption succeeds only for the valid ones."""
    vectors = wycheproof_vectors()
    for vector in vectors:
        aead = AESGCM(bytes.fromhex(vector["key"]))
        nonce, data, message = (bytes.fromhex(vector[name]) for name in ("iv", "aad", "msg"))
        sealed = bytes.fromhex(vector["ct"] + vector["tag"])
        if vector["result"] == "valid":
            assert aead.encrypt(nonce, message, data) == sealed, vector["tcId"]
            assert aead.decrypt(nonce, sealed, data) == message, vector["tcId"]
        else:
            with pytest.raises(InvalidTag):
                aead.decrypt(nonce, sealed, data)
    assert len(vectors) == 66
    promise("AES-GCM vectors", f"{len(vectors)} of {len(vectors)} Wycheproof vectors with 256-bit keys")


def test_the_reference_does_as_the_published_vectors_say(promise: Promise) -> None:
    """All vectors for AES-256-GCM, which use SHA-256."""
    vectors = chunked_vectors()
    for vector in vectors:
        if not vector.genuine:
            with pytest.raises(RefusedError):
                decrypted(vector.key, vector.context, vector.sealed, hash="sha256")
            continue
        message = decrypted(vector.key, vector.context, vector.sealed, hash="sha256")
        salt = vector.sealed[:SALT]
        assert hashlib.sha256(message).hexdigest() == vector.digest, vector.name
        assert encrypted(vector.key, salt, vector.context, message, hash="sha256") == vector.sealed, vector.name
        assert derived(vector.key, salt, vector.context, hash="sha256")[0] == vector.message_key, vector.name
    assert len(vectors) == 34
    promise("AES-GCM vectors", f"{len(vectors)} of {len(vectors)} chunked-encryption vectors with AES-256")
