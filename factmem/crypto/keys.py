"""Keys and their sources."""

from __future__ import annotations

import base64
import binascii
import os
import secrets
import unicodedata
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Protocol, runtime_checkable

import attrs
from typing_extensions import override

from factmem.crypto.passphrases import SHORTEST, SHORTEST_OF_THREE_KINDS, is_weak
from factmem.crypto.recipes import AS_IT_IS, Argon2id, Recipe
from factmem.crypto.sealing import KEY_BYTES
from factmem.errors import InvalidDataError, KeyUnavailableError, MissingPackageError, WeakPassphraseError

__all__ = [
    "CalledKey",
    "EnvironmentKey",
    "EnvironmentPassphrase",
    "KeySource",
    "Keyring",
    "OsKeyringKey",
    "Passphrase",
    "SecretKey",
    "keyring_of",
]

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


@attrs.frozen(repr=False)
class SecretKey(KeySource):
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
    def recipe(self) -> Recipe:
        return AS_IT_IS

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
class EnvironmentKey(KeySource):
    """A random key in an environment variable, as hex or base64.

    Attributes:
        variable: Name of the variable.
    """

    variable: str

    @override
    def recipe(self) -> Recipe:
        return AS_IT_IS

    @override
    def wrapping_key(self, recipe: Recipe) -> bytes | None:
        try:
            return SecretKey.from_text(_variable(self.variable)).wrapping_key(recipe)
        except InvalidDataError:
            raise KeyUnavailableError(f"what {self.variable} holds is not a key: {_HOW_TO_MAKE}") from None


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
class CalledKey(KeySource):
    """A random key fetched by a function, for example from a key management service.

    Attributes:
        function: Returns the 32 bytes; may block. An error that it raises becomes `KeyUnavailableError`.
    """

    function: Callable[[], bytes] = attrs.field(repr=False)  # a bound argument may be a secret

    @override
    def recipe(self) -> Recipe:
        return AS_IT_IS

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
class OsKeyringKey(KeySource):
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
    def recipe(self) -> Recipe:
        return AS_IT_IS

    @override
    def wrapping_key(self, recipe: Recipe) -> bytes | None:
        try:
            import keyring
        except ModuleNotFoundError:
            raise MissingPackageError("keyring", extra="keyring") from None
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
        try:
            return SecretKey.from_text(text).wrapping_key(recipe)
        except InvalidDataError:
            raise KeyUnavailableError(f"what the system's keyring holds is not a key: {_HOW_TO_MAKE}") from None


def _frozen(sources: Mapping[str, KeySource]) -> Mapping[str, KeySource]:
    return MappingProxyType(dict(sources))


@attrs.frozen
class Keyring:
    """Keys by id. A store names the keys that open it by id; these ids are stored in clear.

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
            raise InvalidDataError("the current key is none of the keyring's", path="$.current")
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


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
