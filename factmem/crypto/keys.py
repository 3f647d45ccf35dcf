"""Keys, their sources, and the derivation of wrapping keys from them."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import secrets
import unicodedata
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Final, Protocol, runtime_checkable

import attrs
from typing_extensions import override

from factmem.crypto.passphrases import SHORTEST, SHORTEST_OF_THREE_KINDS, is_weak
from factmem.crypto.sealing import KEY_BYTES
from factmem.errors import (
    CorruptStoreError,
    DowngradedStoreError,
    InvalidDataError,
    KeyUnavailableError,
    MissingPackageError,
    WeakPassphraseError,
)

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
            with contextlib.suppress(InvalidDataError, ValueError):
                found = Recipe(
                    cost=Argon2id(memory_kib=memory, passes=passes, lanes=lanes),
                    salt=base64.b64decode(salt, validate=True),
                )
                if len(found.salt) == _SALT_BYTES:
                    return found
    raise CorruptStoreError("the recipe of a key of this store cannot be read: restore the store from a backup")


_HOW_TO_MAKE = "a key is 32 random bytes as hex or base64; `factmem new-key` makes one"


@runtime_checkable
class KeySource(Protocol):
    """Source of the key that wraps a store's own keys. Called in a worker thread when a store opens."""

    def recipe(self) -> Recipe:
        """Return the recipe of a new slot, with a fresh salt if it needs one.

        Raises:
            KeyUnavailableError: The key is not available now.
            WeakPassphraseError: It would be easy to guess.
        """
        ...

    def wrapping_key(self, recipe: Recipe) -> bytes | None:
        """Return the wrapping key of a slot, `KEY_BYTES` long; None if this kind of source does not support the recipe.

        Raises:
            KeyUnavailableError: The key is not available now.
        """
        ...


class _RandomKey(KeySource):
    """Base of the sources of random keys, which are not stretched."""

    @override
    def recipe(self) -> Recipe:
        return AS_IT_IS


@attrs.frozen(repr=False)
class SecretKey(_RandomKey):
    """A random key.

    Attributes:
        secret: 32 bytes.

    Raises:
        InvalidDataError: The secret is something else.
    """

    secret: bytes = attrs.field()

    def __attrs_post_init__(self) -> None:
        if type(self.secret) is not bytes or len(self.secret) != KEY_BYTES:
            raise InvalidDataError(f"this is not a key: {_HOW_TO_MAKE}")

    @classmethod
    def generate(cls) -> SecretKey:
        """Generate a random key."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def from_text(cls, text: str) -> SecretKey:
        """Read a key from hex or base64.

        Raises:
            InvalidDataError: The text is neither, or does not encode 32 bytes.
        """
        for read in (bytes.fromhex, _from_base64):
            try:
                secret = read(text.strip())
            except (ValueError, binascii.Error):
                continue
            if len(secret) == KEY_BYTES:
                return cls(secret)
        raise InvalidDataError(f"this text is not a key: {_HOW_TO_MAKE}")

    def to_text(self) -> str:
        """Return the key as base64, for a backup elsewhere."""
        return base64.b64encode(self.secret).decode()

    @override
    def wrapping_key(self, recipe: Recipe) -> bytes | None:
        return self.secret if recipe.cost is None else None

    def __repr__(self) -> str:
        return "SecretKey(...)"


@attrs.frozen(repr=False)
class Passphrase(KeySource):
    """A passphrase, stretched by argon2id.

    Any passphrase opens the store that was made with it. For a new store, or a new key of one, `recipe` refuses a
    passphrase that is easy to guess.

    Attributes:
        words: Any text, compared by its normal form NFC.
        cost: Cost of stretching, for new slots.
        allow_weak: Take any passphrase for new slots.

    Raises:
        InvalidDataError: The passphrase is empty.
    """

    words: str = attrs.field()
    cost: Argon2id = attrs.field(factory=Argon2id, kw_only=True)
    allow_weak: bool = attrs.field(default=False, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.words, str) or not self.words.strip():
            raise InvalidDataError("a passphrase is a text, and not blank")

    @override
    def recipe(self) -> Recipe:
        """Return the recipe of a new slot.

        Raises:
            WeakPassphraseError: The passphrase is easy to guess.
        """
        if not self.allow_weak and is_weak(self.words):
            raise WeakPassphraseError(
                f"this passphrase is easy to guess: take {SHORTEST} characters or more, such as five random words (or "
                f"{SHORTEST_OF_THREE_KINDS} of mixed kinds); common words, repetitions and runs hardly count. To use "
                "it nevertheless, allow weak ones: allow_weak=True, weak_passphrase=yes in an address, or "
                "--weak-passphrase"
            )
        return Recipe.stretched(self.cost)

    @override
    def wrapping_key(self, recipe: Recipe) -> bytes | None:
        if recipe.cost is None:
            return None
        words = unicodedata.normalize("NFC", self.words).encode("utf-8", "surrogatepass")
        return recipe.cost.stretch(words, recipe.salt)

    def __repr__(self) -> str:
        return "Passphrase(...)"


@attrs.frozen
class EnvironmentKey(_RandomKey):
    """A random key in an environment variable, as hex or base64.

    Attributes:
        variable: Name of the variable.
    """

    variable: str

    @override
    def wrapping_key(self, recipe: Recipe) -> bytes | None:
        return _secret_key(_variable(self.variable), holder=self.variable).wrapping_key(recipe)


@attrs.frozen
class EnvironmentPassphrase(KeySource):
    """A passphrase in an environment variable.

    Attributes:
        variable: Name of the variable.
        cost: See `Passphrase`.
        allow_weak: See `Passphrase`.
    """

    variable: str
    cost: Argon2id = attrs.field(factory=Argon2id, kw_only=True)
    allow_weak: bool = attrs.field(default=False, kw_only=True)

    @override
    def recipe(self) -> Recipe:
        return self._passphrase().recipe()

    @override
    def wrapping_key(self, recipe: Recipe) -> bytes | None:
        return None if recipe.cost is None else self._passphrase().wrapping_key(recipe)

    def _passphrase(self) -> Passphrase:
        return Passphrase(_variable(self.variable), cost=self.cost, allow_weak=self.allow_weak)


@attrs.frozen
class CalledKey(_RandomKey):
    """A random key fetched by a function, for example from a key management service.

    Attributes:
        function: Returns the 32 bytes; may block. An error that it raises becomes `KeyUnavailableError`.
    """

    function: Callable[[], bytes] = attrs.field(repr=False)  # a bound argument may be a secret

    @override
    def wrapping_key(self, recipe: Recipe) -> bytes | None:
        try:
            found = self.function()
        except Exception as error:
            # The text of the error could hold anything, such as the key.
            raise KeyUnavailableError(f"the function that fetches the key raised {type(error).__name__}") from None
        try:
            # A number is refused: bytes(32) are 32 zeros.
            return SecretKey(bytes(memoryview(found))).wrapping_key(recipe)
        except (InvalidDataError, TypeError):
            raise KeyUnavailableError(
                "the function that fetches the key returned something else than the 32 bytes of a key"
            ) from None


@attrs.frozen
class OsKeyringKey(_RandomKey):
    """A random key in the keyring of the operating system (macOS Keychain, Windows, Secret Service).

    Attributes:
        service: Name of the service in the keyring.
        user: Name of the user in the keyring.
        create: Create a key there if there is none.
    """

    service: str
    user: str = "factmem"
    create: bool = attrs.field(default=False, kw_only=True)

    @override
    def wrapping_key(self, recipe: Recipe) -> bytes | None:
        with MissingPackageError.if_missing("keyring", extra="keyring"):
            import keyring
        try:
            text = keyring.get_password(self.service, self.user)
            if text is None and self.create:
                text = SecretKey.generate().to_text()
                keyring.set_password(self.service, self.user, text)
        except Exception as error:
            # The backends raise what the system's own libraries raise.
            raise KeyUnavailableError(f"the system's keyring failed with {type(error).__name__}") from None
        if text is None:
            raise KeyUnavailableError(
                f"the system's keyring has no key for {self.service!r} and {self.user!r}: put one there with  "
                f"keyring set {self.service} {self.user}  ({_HOW_TO_MAKE})"
            )
        return _secret_key(text, holder="the system's keyring").wrapping_key(recipe)


def words_for_key(source: KeySource) -> str:
    """Return words for a key in errors: where it was taken from."""
    match source:
        case EnvironmentKey():
            return f"the key in {source.variable}"
        case EnvironmentPassphrase():
            return f"the passphrase in {source.variable}"
        case OsKeyringKey():
            return f"the key of {source.service!r} in the system's keyring"
        case Passphrase():
            return "the passphrase given"
        case _:
            return "the key given"


def _frozen(sources: Mapping[str, KeySource]) -> Mapping[str, KeySource]:
    return MappingProxyType(dict(sources))


@attrs.frozen
class Keyring:
    """Keys by id. A store names the key that opens it by id, in clear. That one is tried first, and then the others.

    Attributes:
        sources: Sources of the keys by id.
        current: Id of the key for new stores and rotations.

    Raises:
        InvalidDataError: There is no key of this id, or a source is of another type.
    """

    sources: Mapping[str, KeySource] = attrs.field(converter=_frozen)
    current: str

    def __attrs_post_init__(self) -> None:
        if self.current not in self.sources:
            raise InvalidDataError("the current key is not in the keyring: add it, or name another", path="$.current")
        for id, source in self.sources.items():
            if not isinstance(id, str) or not id or not isinstance(source, KeySource):
                raise InvalidDataError("a keyring takes key sources (SecretKey, Passphrase, ...) by id")

    @classmethod
    def of(cls, source: KeySource, id: str = "default", *, former: Mapping[str, KeySource] | None = None) -> Keyring:
        """Return a keyring of one key, optionally with former keys of older stores."""
        return cls({**(former or {}), id: source}, id)


def keyring_of(key: Keyring | KeySource) -> Keyring:
    """Return a keyring as it is, and a single key as a keyring of one.

    Raises:
        InvalidDataError: It is neither.
    """
    return key if isinstance(key, Keyring) else Keyring.of(key)


def _variable(name: str) -> str:
    text = os.environ.get(name, "")
    if not text.strip():
        raise KeyUnavailableError(f"the environment variable {name}, which should hold the key, is not set")
    return text


def _secret_key(text: str, *, holder: str) -> SecretKey:
    """Return the key that a text from outside encodes."""
    try:
        return SecretKey.from_text(text)
    except InvalidDataError:
        raise KeyUnavailableError(f"the content of {holder} is not a key: {_HOW_TO_MAKE}") from None


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)


def key_sources(
    key_env: str | None, passphrase_env: str | None, os_keyring: str | None, *, allow_weak: bool
) -> list[KeySource]:
    """Return the keys that are named; see `one_keyring`."""
    return [
        *([EnvironmentKey(key_env)] if key_env else []),
        *([EnvironmentPassphrase(passphrase_env, allow_weak=allow_weak)] if passphrase_env else []),
        *([OsKeyringKey(os_keyring)] if os_keyring else []),
    ]


def one_keyring(
    key: Keyring | KeySource | None,
    key_env: str | None,
    passphrase_env: str | None,
    os_keyring: str | None,
    *,
    allow_weak: bool,
    example: str,
) -> Keyring:
    """Return the keyring of the one way to a key that is given.

    Args:
        key: A key, or a keyring.
        key_env: Environment variable that holds a key.
        passphrase_env: Environment variable that holds a passphrase.
        os_keyring: Service under which the system's keyring holds a key.
        allow_weak: Take any passphrase of the environment variable for a new store.
        example: Address with a key, for the error.

    Raises:
        InvalidDataError: No way to a key is given, or more than one.
    """
    given: list[Keyring | KeySource] = [] if key is None else [key]
    given += key_sources(key_env, passphrase_env, os_keyring, allow_weak=allow_weak)
    if len(given) != 1 or not isinstance(given[0], Keyring | KeySource):
        raise InvalidDataError(
            "an encrypted store needs one key: key=SecretKey(...) or Passphrase(...), or one of key_env=, "
            f"passphrase_env= and os_keyring=, as in {example}"
        )
    return keyring_of(given[0])
