"""Derivation of wrapping keys from keys and passphrases."""

from __future__ import annotations

import base64
import binascii
import secrets
from collections.abc import Mapping
from typing import Any, Final

import attrs

from factmem.crypto.sealing import KEY_BYTES
from factmem.errors import CorruptStoreError, DowngradedStoreError, InvalidDataError

__all__ = ["AS_IT_IS", "Argon2id", "Recipe", "recipe_from", "recipe_to"]

_SALT_BYTES: Final = 16
_WEAKEST_KIB: Final = 19 * 1024
_WEAKEST_PASSES: Final = 2
_MOST_KIB: Final = 1024 * 1024
_MOST_PASSES: Final = 64
_MOST_LANES: Final = 16


@attrs.frozen(kw_only=True)
class Argon2id:
    """Stretching of a passphrase by argon2id (RFC 9106), so that each guess costs time and memory.

    The defaults are RFC 9106's second recommendation: about half a second and 64 MiB. Less than 19 MiB and two passes
    (the minimum that OWASP recommends) is refused, and so is more than 1 GiB, 64 passes or 16 lanes: an attacker who
    can write a store's header must not be able to make guessing cheap, or to exhaust the reader.

    Attributes:
        memory_kib: Memory, in KiB.
        passes: Number of passes over the memory.
        lanes: Number of parallel lanes.
    """

    memory_kib: int = 64 * 1024
    passes: int = 3
    lanes: int = 4

    def __attrs_post_init__(self) -> None:
        if not all(type(number) is int for number in attrs.astuple(self)):
            raise InvalidDataError("argon2id takes whole numbers of KiB, passes and lanes")
        if self.weak or not (
            self.memory_kib <= _MOST_KIB and self.passes <= _MOST_PASSES and 1 <= self.lanes <= _MOST_LANES
        ):
            raise InvalidDataError(
                f"argon2id takes {_WEAKEST_KIB} to {_MOST_KIB} KiB, {_WEAKEST_PASSES} to {_MOST_PASSES} passes and "
                f"1 to {_MOST_LANES} lanes"
            )

    @property
    def weak(self) -> bool:
        """Whether guessing would be too cheap."""
        return self.memory_kib < _WEAKEST_KIB or self.passes < _WEAKEST_PASSES

    def stretch(self, secret: bytes, salt: bytes) -> bytes:
        """Return the stretched key of a secret. Blocks for the configured cost: call it in a worker thread."""
        from cryptography.hazmat.primitives.kdf.argon2 import Argon2id as Stretcher

        stretcher = Stretcher(
            salt=salt, length=KEY_BYTES, iterations=self.passes, lanes=self.lanes, memory_cost=self.memory_kib
        )
        return stretcher.derive(secret)


@attrs.frozen(kw_only=True)
class Recipe:
    """Derivation of the wrapping key of one slot.

    Attributes:
        cost: Cost of stretching a passphrase; None for a key that is used directly.
        salt: 16 bytes if there is a cost, fresh for each slot.
    """

    cost: Argon2id | None = None
    salt: bytes = b""

    @classmethod
    def stretched(cls, cost: Argon2id) -> Recipe:
        """Return a recipe with a fresh salt."""
        return cls(cost=cost, salt=secrets.token_bytes(_SALT_BYTES))


AS_IT_IS: Final = Recipe()
"""Recipe of random keys, which are not stretched."""


def recipe_to(recipe: Recipe) -> dict[str, Any]:
    """Return a recipe as JSON."""
    if recipe.cost is None:
        return {"kdf": "none"}
    return {"kdf": "argon2id", "salt": base64.b64encode(recipe.salt).decode(), **attrs.asdict(recipe.cost)}


def recipe_from(document: Mapping[str, Any]) -> Recipe:
    """Return the recipe in a JSON document.

    Raises:
        DowngradedStoreError: It makes guessing cheap.
        CorruptStoreError: It is not a recipe, or exceeds the maximum cost.
    """
    match document:
        case {"kdf": "none"}:
            return AS_IT_IS
        case {
            "kdf": "argon2id",
            "salt": str() as salt,
            "memory_kib": int() as memory,
            "passes": int() as passes,
            "lanes": int() as lanes,
        }:
            if memory < _WEAKEST_KIB or passes < _WEAKEST_PASSES:
                raise DowngradedStoreError(
                    "a key of this store is stretched less than factmem ever does: its header was changed"
                )
            try:
                cost = Argon2id(memory_kib=memory, passes=passes, lanes=lanes)
                return Recipe(cost=cost, salt=_salt(salt))
            except (InvalidDataError, binascii.Error, ValueError):
                pass
    raise CorruptStoreError("the recipe of a key of this store cannot be read: restore the store from a backup")


def _salt(text: str) -> bytes:
    salt = base64.b64decode(text, validate=True)
    if len(salt) != _SALT_BYTES:
        raise ValueError("a salt of another length")
    return salt
