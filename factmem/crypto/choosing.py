"""Selection of the one key that a store is opened with."""

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
    allow_weak: bool = False,
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
    given += [EnvironmentKey(key_env)] if key_env else []
    given += [EnvironmentPassphrase(passphrase_env, allow_weak=allow_weak)] if passphrase_env else []
    given += [OsKeyringKey(os_keyring)] if os_keyring else []
    if len(given) != 1 or not isinstance(given[0], Keyring | KeySource):
        raise InvalidDataError(
            "an encrypted store needs one key: key=SecretKey(...) or Passphrase(...), or one of key_env=, "
            f"passphrase_env= and os_keyring=, as in {example}"
        )
    return keyring_of(given[0])
