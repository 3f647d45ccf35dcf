"""The cryptographic primitives agree with their published test vectors."""

from __future__ import annotations

import hashlib

import pytest
from cryptography.cobblestone import Cobblestone256Decryptor, Cobblestone256Encryptor
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from tests.conftest import Promise
from tests.crypto.chunked_encryption import CHUNK, HEADER, SALT, TAG, RefusedError, decrypted, derived, encrypted
from tests.crypto.vectors import chunked_vectors, wycheproof_vectors

KEY = bytes(range(32))
SIZES = (0, 1, 15, 16, 300, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 5)
CONTEXTS = (b"", b"c", b"\0", b"context\0with a null", bytes(range(256)) * 5)


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


def test_the_library_says_what_the_reference_says_in_both_directions() -> None:
    """Cobblestone-256 is the same construction with SHA-512. Sizes, chunks and contexts vary."""
    for size in SIZES:
        message = bytes(n * 7 % 251 for n in range(size))
        for context in CONTEXTS:
            salt = hashlib.sha256(b"%d" % size + context).digest()[:SALT]
            ours = encrypted(KEY, salt, context, message, hash="sha512")
            assert _opened(KEY, context, ours) == message
            theirs = _sealed(KEY, context, message)
            assert len(theirs) == HEADER + size + TAG * (size // CHUNK + 1)
            assert decrypted(KEY, context, theirs, hash="sha512") == message
            assert encrypted(KEY, theirs[:SALT], context, message, hash="sha512") == theirs


def test_the_library_takes_data_in_any_pieces() -> None:
    message = bytes(n % 253 for n in range(2 * CHUNK + 77))
    for step in (1000, CHUNK - 1, CHUNK, CHUNK + TAG, 50_000):
        encryptor = Cobblestone256Encryptor(KEY, b"c")
        pieces = [encryptor.update(message[at : at + step]) for at in range(0, len(message), step)]
        sealed = b"".join(pieces) + encryptor.finalize()
        assert decrypted(KEY, b"c", sealed, hash="sha512") == message


def test_every_published_way_to_break_a_message_is_refused() -> None:
    """Messages made with SHA-512 are damaged in the same ways as the failing vectors, which use SHA-256."""
    accepted = [name for name, (key, context, sealed) in _broken().items() if _accepted(key, context, sealed)]
    assert not accepted
    failing = {vector.name.removeprefix("aes256gcm_") for vector in chunked_vectors() if not vector.genuine}
    assert failing == set(_broken())


def test_any_flipped_bit_and_any_truncation_is_refused() -> None:
    sealed = _sealed(KEY, b"c", b"the message")
    for at in range(len(sealed)):
        assert not _accepted(KEY, b"c", sealed[:at])
        for bit in range(8):
            assert not _accepted(KEY, b"c", sealed[:at] + bytes([sealed[at] ^ 1 << bit]) + sealed[at + 1 :])


def _broken() -> dict[str, tuple[bytes, bytes, bytes]]:
    """Return the key, context and ciphertext of each broken message, by the vector's name."""

    def sealed(size: int) -> bytes:
        return _sealed(KEY, b"c", bytes(size))

    def flipped(data: bytes, at: int) -> bytes:
        return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]

    def chunk(data: bytes, number: int) -> bytes:
        start = HEADER + number * (CHUNK + TAG)
        return data[start : start + CHUNK + TAG]

    short, two, three = sealed(7), sealed(CHUNK + 7), sealed(2 * CHUNK + 7)
    full = HEADER + CHUNK + TAG
    ways = {
        "bad_tag": flipped(short, HEADER),
        "bad_tag_second_chunk": flipped(two, full),
        "bad_tag_second_chunk_full": flipped(sealed(2 * CHUNK), full + 9),
        "bad_tag_empty_final_chunk": flipped(sealed(CHUNK), full + 3),
        "bad_tag_first_chunk": flipped(two, HEADER + 5),
        "missing_tag": short[: HEADER + 7],
        "short_chunk": short[: HEADER + TAG - 1],
        "trailing_garbage_long": short + bytes(20),
        "trailing_garbage_short": short + bytes(12),
        "no_chunks": short[:HEADER],
        "wrong_commitment": flipped(short, SALT),
        "wrong_salt": flipped(short, 0),
        "empty_message": b"",
        "short_header_no_commitment": short[:SALT],
        "short_header_partial_commitment": short[:40],
        "short_header_no_salt": short[: SALT - 5],
        "truncated_at_chunk_boundary": two[:full],
        "truncated_mid_chunk": two[: full + 10],
        "swapped_chunks": three[:HEADER] + chunk(three, 1) + chunk(three, 0) + chunk(three, 2),
        "duplicated_chunk": three[:HEADER] + chunk(three, 0) + chunk(three, 0) + chunk(three, 2),
        "extension_after_final": two + chunk(sealed(5), 0),
    }
    others = {
        "wrong_key": (flipped(KEY, 4), b"c", short),
        "short_key": (KEY[:31], b"c", short),
        "long_key": (KEY + b"\0", b"c", short),
        "wrong_context": (KEY, b"d", short),
    }
    return {name: (KEY, b"c", data) for name, data in ways.items()} | others


def _sealed(key: bytes, context: bytes, message: bytes) -> bytes:
    encryptor = Cobblestone256Encryptor(key, context)
    return encryptor.update(message) + encryptor.finalize()


def _opened(key: bytes, context: bytes, sealed: bytes) -> bytes:
    decryptor = Cobblestone256Decryptor(key, context)
    return decryptor.update(sealed) + decryptor.finalize()


def _accepted(key: bytes, context: bytes, sealed: bytes) -> bool:
    try:
        _opened(key, context, sealed)
    except (InvalidTag, ValueError):
        return False
    return True
