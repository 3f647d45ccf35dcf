"""Locations of the published test vectors."""

from __future__ import annotations

import base64
import importlib.util
import json
import os
import zlib
from pathlib import Path
from typing import Any

import attrs
import pytest

__all__ = ["ChunkedVector", "chunked_vectors", "wycheproof_vectors"]

_BESIDE = Path(__file__).parents[3] / "shared" / "vectors"


@attrs.frozen
class ChunkedVector:
    """One vector of C2SP's chunked-encryption.

    Attributes:
        name: its subject.
        genuine: whether it must be accepted.
        key: the key to open it with.
        message_key: the derived key, if the vector states it.
        context: the context to open it with.
        sealed: the ciphertext.
        digest: the SHA-256 of the message, if it is genuine.
    """

    name: str
    genuine: bool
    key: bytes
    message_key: bytes
    context: bytes
    sealed: bytes
    digest: str


def chunked_vectors() -> list[ChunkedVector]:
    """Return the vectors for AES-256-GCM; skip the test if their package is not installed."""
    found = importlib.util.find_spec("cryptography_vectors")
    if found is None or not found.submodule_search_locations:
        pytest.skip("the package cryptography_vectors is not installed: these published vectors were NOT run")
    file = Path(found.submodule_search_locations[0], "chunked-encryption", "vectors.json")
    rows: list[dict[str, Any]] = json.loads(file.read_bytes())["vectors"]
    return [_chunked(row) for row in rows if row["aead"] == "AEAD_AES_256_GCM"]


def _chunked(row: dict[str, Any]) -> ChunkedVector:
    sealed = base64.b64decode(row["ciphertext"] or "")
    return ChunkedVector(
        name=row["name"],
        genuine=row["expect"] == "success",
        key=bytes.fromhex(row["key"]),
        message_key=bytes.fromhex(row.get("aead_key", "")),
        context=row["context"].encode(),
        sealed=zlib.decompress(sealed) if row.get("compressed") else sealed,
        digest=row.get("payload_sha256", ""),
    )


def wycheproof_vectors() -> list[dict[str, Any]]:
    """Return Wycheproof's vectors for AES-GCM with 256-bit keys, 96-bit nonces and 128-bit tags; skip if absent."""
    file = Path(os.environ.get("FACTMEM_VECTORS", _BESIDE)) / "aes_gcm_test.json"
    if not file.exists():
        pytest.skip(f"{file} is missing (FACTMEM_VECTORS says where else): Wycheproof's vectors were NOT run")
    groups: list[dict[str, Any]] = json.loads(file.read_bytes())["testGroups"]
    return [
        test
        for group in groups
        if (group["keySize"], group["ivSize"], group["tagSize"]) == (256, 96, 128)
        for test in group["tests"]
    ]
