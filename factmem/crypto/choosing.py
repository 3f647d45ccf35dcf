"""The one key that a store is opened with, however it was given."""

from __future__ import annotations

from factmem.crypto.keys import (
    EnvironmentKey,
    EnvironmentPassphrase,
    Keyring,
    KeySource,
    OsKeyringKey,
    keyring_of,
)
from factmem.errors import InvalidDataError

__all__ = ["one_keyring"]


def one_keyring(
    key: Keyring | KeySource | None,
    key_env: str | None,
    passphrase_env: str | None,
    os_keyring: str | None,
    *,
    example: str,
) -> Keyring:
    """Return the keyring that was given, in exactly one way.

    Args:
        key: a key, or a keyring.
        key_env: the environment variable that holds a key.
        passphrase_env: the environment variable that holds a passphrase.
        os_keyring: the service under which the system's keyring holds a key.
        example: an address with a key, for the error.

    Raises:
        InvalidDataError: there is no key, or more than one way to it.
    """
    given: list[Keyring | KeySource] = [] if key is None else [key]
    given += [EnvironmentKey(key_env)] if key_env else []
    given += [EnvironmentPassphrase(passphrase_env)] if passphrase_env else []
    given += [OsKeyringKey(os_keyring)] if os_keyring else []
    if len(given) != 1 or not isinstance(given[0], Keyring | KeySource):
        raise InvalidDataError(
            "an encrypted store needs one key: key=SecretKey(...) or Passphrase(...), or one of key_env=, "
            f"passphrase_env= and os_keyring=, as in {example}"
        )
    return keyring_of(given[0])
