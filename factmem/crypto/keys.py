"""Keys, and where they come from."""

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

from factmem.crypto.recipes import AS_IT_IS, Argon2id, Recipe
from factmem.crypto.sealing import KEY_BYTES
from factmem.errors import InvalidDataError, KeyUnavailableError, MissingPackageError

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
    """Gives the key that a store's own keys are wrapped with. It is asked in a worker thread, when a store opens."""

    def recipe(self) -> Recipe:
        """Return how a new slot makes its wrapping key of this source: with a fresh salt, if it needs one."""
        ...

    def wrapping_key(self, recipe: Recipe) -> bytes | None:
        """Return the wrapping key of a slot, `KEY_BYTES` long; None if this kind of source does not make such keys.

        Raises:
            KeyUnavailableError: it cannot be had now.
        """
        ...


@attrs.frozen(repr=False)
class SecretKey(KeySource):
    """A random key.

    Attributes:
        secret: of 32 bytes.

    Raises:
        InvalidDataError: it is something else.
    """

    secret: bytes = attrs.field()

    def __attrs_post_init__(self) -> None:
        if type(self.secret) is not bytes or len(self.secret) != KEY_BYTES:
            raise InvalidDataError(f"this is no key: {_HOW_TO_MAKE}")

    @classmethod
    def generate(cls) -> SecretKey:
        """Make a new one."""
        return cls(secrets.token_bytes(KEY_BYTES))

    @classmethod
    def from_text(cls, text: str) -> SecretKey:
        """Read a key from hex or base64.

        Raises:
            InvalidDataError: it is neither, or not of 32 bytes.
        """
        for read in (bytes.fromhex, _from_base64):
            try:
                secret = read(text.strip())
            except (ValueError, binascii.Error):
                continue
            if len(secret) == KEY_BYTES:
                return cls(secret)
        raise InvalidDataError(f"this text is no key: {_HOW_TO_MAKE}")

    def to_text(self) -> str:
        """Return it as base64, for safe-keeping elsewhere."""
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
    """Words that a person knows, stretched by argon2id.

    Attributes:
        words: any text, compared by its normal form NFC.
        cost: of stretching them, for slots that are made from now on.

    Raises:
        InvalidDataError: there are no words.
    """

    words: str = attrs.field()
    cost: Argon2id = attrs.field(factory=Argon2id, kw_only=True)

    def __attrs_post_init__(self) -> None:
        if not isinstance(self.words, str) or not self.words.strip():
            raise InvalidDataError("a passphrase is a text, and not blank")

    @override
    def recipe(self) -> Recipe:
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
        variable: its name.
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
            raise KeyUnavailableError(f"what {self.variable} holds is no key: {_HOW_TO_MAKE}") from None


@attrs.frozen
class EnvironmentPassphrase(KeySource):
    """A passphrase in an environment variable.

    Attributes:
        variable: its name.
        cost: see `Passphrase`.
    """

    variable: str
    cost: Argon2id = attrs.field(factory=Argon2id, kw_only=True)

    @override
    def recipe(self) -> Recipe:
        return Recipe.stretched(self.cost)

    @override
    def wrapping_key(self, recipe: Recipe) -> bytes | None:
        if recipe.cost is None:
            return None
        return Passphrase(_variable(self.variable)).wrapping_key(recipe)


@attrs.frozen
class CalledKey(KeySource):
    """A random key that a function fetches, say from a key management service.

    Attributes:
        function: returns the 32 bytes; it may block, and whatever it raises becomes `KeyUnavailableError`.
    """

    function: Callable[[], bytes] = attrs.field(repr=False)  # what it is bound to may be a secret

    @override
    def recipe(self) -> Recipe:
        return AS_IT_IS

    @override
    def wrapping_key(self, recipe: Recipe) -> bytes | None:
        try:
            found = self.function()
        except Exception as error:
            # Its text could hold anything, the key among it.
            raise KeyUnavailableError(f"the function that fetches the key raised {type(error).__name__}") from None
        try:
            # Not of a number: bytes(32) are 32 zeros.
            return SecretKey(bytes(memoryview(found))).wrapping_key(recipe)
        except (InvalidDataError, TypeError):
            raise KeyUnavailableError(
                "the function that fetches the key returned something else than the 32 bytes of a key"
            ) from None


@attrs.frozen
class OsKeyringKey(KeySource):
    """A random key in the keyring of the operating system (macOS Keychain, Windows, Secret Service).

    Attributes:
        service: under which it is kept there.
        user: whose.
        create: make a key there when there is none.
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
            raise KeyUnavailableError(f"what the system's keyring holds is no key: {_HOW_TO_MAKE}") from None


def _frozen(sources: Mapping[str, KeySource]) -> Mapping[str, KeySource]:
    return MappingProxyType(dict(sources))


@attrs.frozen
class Keyring:
    """Keys by their ids. A store says by id which keys open it; the ids stand in it in clear.

    Attributes:
        sources: by id.
        current: the id of the one that new stores, and rotations, use.

    Raises:
        InvalidDataError: there is no key of this id, or a source is none.
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
        """Return a keyring of one key, and maybe others that older stores were made with."""
        return cls({**(former or {}), id: source}, id)


def keyring_of(key: Keyring | KeySource) -> Keyring:
    """Return a keyring as it is, a single key as the keyring of it.

    Raises:
        InvalidDataError: it is neither.
    """
    return key if isinstance(key, Keyring) else Keyring.of(key)


def _variable(name: str) -> str:
    text = os.environ.get(name, "")
    if not text.strip():
        raise KeyUnavailableError(f"the environment variable {name}, which should hold the key, is not set")
    return text


def _from_base64(text: str) -> bytes:
    return base64.b64decode(text.replace("-", "+").replace("_", "/"), validate=True)
