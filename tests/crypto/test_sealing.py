"""`seal` and `unseal`: the published construction, bound to a context that is unique to each use."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from factmem.crypto.sealing import SEAL_BYTES, Context, SealBrokenError, seal, unseal
from tests.crypto.chunked_encryption import CHUNK, TAG, decrypted
from tests.tables import sections

KEY = bytes(range(32))
OTHER = bytes(range(1, 33))
_WRITTEN = sections(Path(__file__).with_name("sealing.txt"))["contexts"]
CONTEXTS: list[Context] = [(), *(tuple(json.loads(f"[{line}]")) for line in _WRITTEN)]


@pytest.mark.parametrize("size", [0, 1, 300, CHUNK - 1, CHUNK, 5 * CHUNK + 3])
def test_what_is_sealed_is_the_published_construction(size: int) -> None:
    sealed = seal(KEY, bytes(size), ("frame", 1, None))
    context = json.dumps(["factmem", "frame", 1, None], separators=(",", ":")).encode()
    assert decrypted(KEY, context, sealed, hash="sha512") == bytes(size)
    assert len(sealed) == size + SEAL_BYTES + TAG * (size // CHUNK)


def test_nothing_opens_in_another_context() -> None:
    for one, other in itertools.product(CONTEXTS, CONTEXTS):
        sealed = seal(KEY, b"message", one)
        if one == other:
            assert unseal(KEY, sealed, other) == b"message"
        else:
            with pytest.raises(SealBrokenError):
                unseal(KEY, sealed, other)


def test_nothing_opens_with_another_key_or_changed() -> None:
    sealed = seal(KEY, b"message", ("a",))
    with pytest.raises(SealBrokenError):
        unseal(OTHER, sealed, ("a",))
    for at, bit in itertools.product(range(len(sealed)), range(8)):
        with pytest.raises(SealBrokenError):
            unseal(KEY, sealed[:at] + bytes([sealed[at] ^ 1 << bit]) + sealed[at + 1 :], ("a",))
    for at in range(len(sealed)):
        with pytest.raises(SealBrokenError):
            unseal(KEY, sealed[:at], ("a",))


def test_the_same_message_is_sealed_differently_each_time() -> None:
    assert len({seal(KEY, b"message", ("a",)) for _ in range(200)}) == 200


def test_a_broken_seal_tells_nothing() -> None:
    with pytest.raises(SealBrokenError) as caught:
        unseal(KEY, seal(KEY, b"message", ("secret place",)) + b"x", ("secret place",))
    assert "place" not in str(caught.value)
    assert caught.value.__cause__ is None
