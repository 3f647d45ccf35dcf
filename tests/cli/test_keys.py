"""Encrypted stores on the command line: making, using and changing a key."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from factmem.crypto import SecretKey

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine

pytestmark = pytest.mark.usefixtures("quick")


@pytest.fixture
def encrypted(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Options for an encrypted store with one fact, its key in an environment variable."""
    monkeypatch.setenv("FACTMEM_KEY", cli.data("new-key")["key"])
    address = f"encrypted:{tmp_path / 'vault'}?key_env="
    cli.data("--store", f"{address}FACTMEM_KEY", "save", "pet", "cat")
    return address


def test_new_key_makes_another_key_each_time(cli: CommandLine) -> None:
    first, second = (SecretKey.from_text(cli.data("new-key")["key"]) for _ in range(2))
    assert first != second
    assert SecretKey.from_text(cli.run("new-key").out) not in (first, second)


def test_a_store_opens_with_its_key_only(cli: CommandLine, encrypted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert cli.data("--store", f"{encrypted}FACTMEM_KEY", "load", "pet")["value"] == "cat"
    monkeypatch.setenv("OTHER_KEY", SecretKey.generate().to_text())
    assert cli.error("--store", f"{encrypted}OTHER_KEY", "load", "pet")["type"] == "WrongKeyError"
    assert cli.error("--store", f"{encrypted}NO_SUCH_KEY", "load", "pet")["type"] == "KeyUnavailableError"


def test_rotating_leaves_the_old_key_nothing(cli: CommandLine, encrypted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXT_KEY", SecretKey.generate().to_text())
    assert cli.data("--store", f"{encrypted}FACTMEM_KEY", "rotate-key", "--key-env", "NEXT_KEY") == {"rotated": True}
    assert cli.data("--store", f"{encrypted}NEXT_KEY", "load", "pet")["value"] == "cat"
    assert cli.error("--store", f"{encrypted}FACTMEM_KEY", "load", "pet")["type"] == "WrongKeyError"


def test_resuming_where_nothing_was_interrupted_changes_nothing_and_says_so(cli: CommandLine, encrypted: str) -> None:
    words = ["--store", f"{encrypted}FACTMEM_KEY", "rotate-key", "--resume"]
    assert cli.data(*words) == {"rotated": False}
    assert "keeps its key" in cli.run(*words).out


def test_resuming_takes_no_new_key(cli: CommandLine, encrypted: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NEXT_KEY", SecretKey.generate().to_text())
    words = ["rotate-key", "--resume", "--key-env", "NEXT_KEY"]
    assert cli.error("--store", f"{encrypted}FACTMEM_KEY", *words)["type"] == "InvalidDataError"
    assert cli.data("--store", f"{encrypted}FACTMEM_KEY", "load", "pet")["value"] == "cat"


def test_rotating_needs_one_new_key_and_an_encrypted_store(cli: CommandLine, encrypted: str) -> None:
    error = cli.error("--store", f"{encrypted}FACTMEM_KEY", "rotate-key")
    assert error["type"] == "InvalidDataError"
    error = cli.error("rotate-key", "--key-env", "FACTMEM_KEY")
    assert (error["type"], f"factmem move {cli.store}" in error["message"]) == ("CapabilityError", True)


def test_an_encrypted_address_of_a_plain_store_names_move(cli: CommandLine, encrypted: str, tmp_path: Path) -> None:
    cli.data("save", "pet", "cat")
    for kind, plain in (("encrypted-sqlite", cli.store), ("encrypted", tmp_path / "plain")):
        if kind == "encrypted":
            cli.data("--store", f"file:{plain}", "save", "pet", "cat")
        error = cli.error("--store", f"{kind}:{plain}?key_env=FACTMEM_KEY", "load", "pet")
        assert (error["type"], "factmem move" in error["message"]) == ("DowngradedStoreError", True)


def test_a_store_without_its_seal_names_the_option_of_the_address(cli: CommandLine, encrypted: str) -> None:
    address = encrypted.replace("encrypted:", "encrypted-sqlite:").replace("vault", "vault.db") + "FACTMEM_KEY"
    cli.data("--store", address, "save", "pet", "cat")
    Path(address.removeprefix("encrypted-sqlite:").partition("?")[0] + ".seal").unlink()
    assert "add accept_older=yes" in cli.error("--store", address, "load", "pet")["message"]
    assert cli.data("--store", f"{address}&accept_older=yes", "load", "pet")["value"] == "cat"
