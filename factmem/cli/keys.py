"""The commands for the keys of encrypted stores: ``new-key``, ``rotate-key``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from factmem.cli.command import command
from factmem.cli.session import Session
from factmem.cli.watching import progress
from factmem.errors import CapabilityError, InvalidDataError

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.crypto import KeySource

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Add these commands to the app."""
    command(app, "new-key")(new_key)
    command(app, "rotate-key")(rotate_key)


async def new_key(session: Session) -> None:
    """Make a random key for an encrypted store, and tell it: keep it where the store is not."""
    from factmem.crypto import SecretKey

    text = SecretKey.generate().to_text()

    def render(out: Console) -> None:
        out.print(text, soft_wrap=True, highlight=False, markup=False)

    session.show({"key": text}, render)


async def rotate_key(
    session: Session,
    key_env: Annotated[
        str | None, typer.Option("--key-env", metavar="NAME", help="The environment variable with the new key.")
    ] = None,
    passphrase_env: Annotated[
        str | None, typer.Option("--passphrase-env", metavar="NAME", help="The variable with the new passphrase.")
    ] = None,
    os_keyring: Annotated[
        str | None, typer.Option("--os-keyring", metavar="SERVICE", help="The new key's name in the system's keyring.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on with a rotation that was broken off; the store has its new key.")
    ] = False,
) -> None:
    """Put an encrypted store under another key, and seal everything anew.

    The store is opened with the key that its address names. It may be interrupted: --resume goes on.
    """
    from factmem.crypto import RotatesKeys
    from factmem.providers import open_provider

    key = None if resume else _key_source(key_env, passphrase_env, os_keyring)
    provider = open_provider(session.address)
    async with provider:
        if not isinstance(provider, RotatesKeys):
            raise CapabilityError(
                f"{session.address} is not encrypted, so that it has no key: take what is in it along with  "
                f"{session.command_line('export', 'facts.jsonl')}  and import that into a store such as "
                "encrypted:facts?key_env=FACTMEM_KEY"
            )
        with progress("sealing anew", quiet=session.as_json) as advance:
            await provider.rotate(key, progress=lambda done, of: advance(done / of if of else 1))

    def render(out: Console) -> None:
        out.print("the store is under its new key, and the old one opens nothing")

    session.show({"rotated": True}, render)


def _key_source(key_env: str | None, passphrase_env: str | None, os_keyring: str | None) -> KeySource:
    from factmem.crypto import EnvironmentKey, EnvironmentPassphrase, OsKeyringKey

    match key_env, passphrase_env, os_keyring:
        case str(), None, None:
            return EnvironmentKey(key_env)
        case None, str(), None:
            return EnvironmentPassphrase(passphrase_env)
        case None, None, str():
            return OsKeyringKey(os_keyring)
    raise InvalidDataError("name the new key with one of --key-env, --passphrase-env and --os-keyring, or --resume")
