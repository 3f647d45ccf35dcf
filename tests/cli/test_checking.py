"""`factmem check`: findings with advice, exit code 0 or 1, and an unchanged store."""

from __future__ import annotations

import shlex
import zipfile
from pathlib import Path
from typing import Final

import pytest

from factmem import BlockingMemory, Memory, Message
from factmem.records import AssertionState
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
    assert f"1 error, 0 warnings in {cli.store}" in done.out
    assert not Path(cli.store).exists()


def test_the_advice_about_private_words_of_any_organization_leads_to_them(cli: CommandLine, nobody: str) -> None:
    """The check counts those of all users, and names neither them nor their words."""
    acme = ("--organization", "acme inc")
    for words in ((), acme):
        with BlockingMemory(Memory(str(cli.store), organization=words[-1] if words else None)) as memory:
            (record,) = memory.for_user("ada").remember(Message(role="tool", content="The cellar is dry."))
            assert record.state is AssertionState.QUARANTINED
        cli.run(*words, "--user", "ada", "--model", nobody, "remember", "My locker is blue.")
        assert cli.data(*words, "info")["dead_letters"] == 1
        assert cli.data(*words, "--user", "bob", "info")["dead_letters"] == 0
        assert "--all-users" in cli.run(*words, "dead-letters", "list").out
    found = cli.data("check")["findings"]
    advice = [item["advice"] for item in found if item["kind"] == "dead letters"]
    assert advice == [
        f"see `factmem {organization}dead-letters list --all-users`"
        for organization in ("", "--organization 'acme inc' ")
    ]
    for command in (shlex.split(text.split("`")[1])[1:] for text in advice):
        assert len(cli.data(*command)) == 1
    quarantined = [shlex.split(item["advice"].split("`")[1])[1:] for item in found if item["kind"] == "quarantined"]
    assert len(quarantined) == 2
    for command in quarantined:
        assert cli.data(*(word.replace("NAME", "ada") for word in command))["records"]
    assert "ada" not in str(found)
    assert "locker" not in str(found)


# `factmem backup` and `factmem restore`: what they print, and errors that say the next step.


def test_a_wrong_change_is_taken_back_by_a_restore(cli: CommandLine, tmp_path: Path) -> None:
    cli.data("save", "city", "Oslo")
    folder = tmp_path / "monday"
    done = cli.run("backup", str(folder))
    assert done.code == 0, done.err
    assert "verified" in done.out
    assert f"factmem --store {cli.store} restore {folder}" in done.out
    cli.data("save", "city", "Rome")
    assert cli.data("restore", str(folder), "--dry-run")["kind"] == "sqlite-vec"
    assert "--replace" in cli.error("restore", str(folder))["message"]
    kept = Path(cli.data("restore", str(folder), "--replace")["kept"])
    assert cli.data("load", "city")["value"] == "Oslo"
    assert CommandLine(kept).data("load", "city")["value"] == "Rome"


def test_a_user_with_an_encrypted_store_restores_it_with_its_key(
    cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACTMEM_KEY", cli.data("new-key")["key"])
    for kind in ("encrypted-sqlite", "encrypted"):
        here, there = (f"{kind}:{tmp_path / name}-{kind}?key_env=FACTMEM_KEY" for name in ("here", "there"))
        cli.data("--store", here, "save", "city", "Oslo")
        made = cli.data("--store", here, "backup", str(tmp_path / kind))
        assert (made["kind"], made["store"]) == (kind, here)
        assert cli.data("--store", there, "restore", str(tmp_path / kind))["kept"] is None
        assert cli.data("--store", there, "load", "city")["value"] == "Oslo"


def test_errors_are_sentences(cli: CommandLine, tmp_path: Path) -> None:
    assert "there is no store" in cli.error("backup", str(tmp_path / "backup"))["message"]
    assert "is not a backup" in cli.error("restore", str(tmp_path / "backup"))["message"]
    assert "factmem move" in cli.error("--store", "memory:", "backup", str(tmp_path / "backup"))["message"]
    cli.data("save", "city", "Oslo")
    cli.data("backup", str(tmp_path / "backup"))
    assert "exists already" in cli.error("backup", str(tmp_path / "backup"))["message"]
    (tmp_path / "backup" / "store").write_bytes(b"something else")
    for words in (["--replace"], ["--dry-run"]):
        error = cli.error("restore", str(tmp_path / "backup"), *words)
        assert error["type"] == "CorruptStoreError"
        assert "use another backup" in error["message"]
    assert cli.data("load", "city")["value"] == "Oslo"
