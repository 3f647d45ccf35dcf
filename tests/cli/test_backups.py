"""`factmem backup` and `factmem restore`: what they print, and errors that say the next step."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import CommandLine


def test_a_wrong_change_is_taken_back_by_a_restore(cli: CommandLine, tmp_path: Path) -> None:
    cli.data("save", "city", "Oslo")
    folder = tmp_path / "monday"
    done = cli.run("backup", str(folder))
    assert done.code == 0, done.err
    assert "verified" in done.out
    assert f"factmem --store {cli.store} restore {folder}" in done.out.replace("\n", " ")
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
