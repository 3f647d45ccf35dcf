"""`factmem check`: findings with advice, exit code 0 or 1, and an unchanged store."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Final

from tests.cli.conftest import CommandLine

STORES: Final = Path(__file__).parents[1] / "providers" / "stores"


def test_a_sound_store_is_reported_as_sound(cli: CommandLine) -> None:
    cli.data("save", "city", "Oslo")
    before = cli.store.read_bytes()
    done = cli.run("check")
    assert done.code == 0
    assert done.out.endswith("is sound\n")
    assert cli.data("check") == {"store": str(cli.store), "sound": True, "findings": []}
    assert cli.store.read_bytes() == before


def test_a_damaged_store_is_an_error_with_advice_and_without_values(cli: CommandLine) -> None:
    cli.data("save", "city", "Oslo")
    content = cli.store.read_bytes()
    cli.store.write_bytes(content.replace(b"Oslo", b"Rome"))
    done = cli.run("check")
    assert done.code == 1
    assert "restore" in done.out
    assert "1 error, 0 warnings" in done.out
    assert "Rome" not in done.out + done.err


def test_an_upgrade_says_from_which_format_to_which(cli: CommandLine) -> None:
    with zipfile.ZipFile(STORES / "ddb8ec8.zip") as packed:
        cli.store.write_bytes(packed.read("sqlite-vec/facts.db"))
    assert "older format" in cli.run("check").out
    done = cli.run("upgrade")
    assert "was upgraded from format 7 to 8" in done.out
    assert "0 errors, 3 warnings" in done.out, "the facts of this store wait for someone"
    assert "upgraded from" not in cli.run("upgrade").out


def test_what_cannot_be_upgraded_is_said(cli: CommandLine, tmp_path: Path) -> None:
    assert "check its address" in cli.error("upgrade")["message"]
    assert not cli.store.exists()
    assert "one format" in cli.error("--store", f"file:{tmp_path / 'facts'}", "upgrade")["message"]


def test_an_empty_store_is_made_when_that_is_asked_for(cli: CommandLine) -> None:
    done = cli.run("upgrade", "--create")
    assert done.code == 0, done.err
    assert "was created, in format" in done.out
    assert cli.store.exists()
    assert "has the newest format" in cli.run("upgrade", "--create").out


def test_a_store_that_is_not_there_is_an_error(cli: CommandLine) -> None:
    done = cli.run("check")
    assert done.code == 1
    assert "missing" in done.out
    assert not Path(cli.store).exists()
