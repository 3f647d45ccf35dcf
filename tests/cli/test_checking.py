"""`factmem check`: findings with advice, exit code 0 or 1, and an unchanged store."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import CommandLine


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
    assert "1 error(s), 0 warning(s)" in done.out
    assert "Rome" not in done.out + done.err


def test_a_store_that_is_not_there_is_an_error(cli: CommandLine) -> None:
    done = cli.run("check")
    assert done.code == 1
    assert "missing" in done.out
    assert not Path(cli.store).exists()
