"""Rollback, expiry and filters of `forget`."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import pytest

from factmem import BlockingMemory, Concept, FactDetails, Memory, MultipleFacts
from factmem.testing import HashEmbedder

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine

NOTE = Concept.multiple("note", "A note")
SOON = dt.datetime.now(dt.UTC) + dt.timedelta(days=1)


def kept(cli: CommandLine, **details: FactDetails) -> None:
    """Save notes with details."""
    with BlockingMemory(Memory(str(cli.store), embedder=HashEmbedder())) as memory:
        for text, given in details.items():
            memory.save(MultipleFacts(NOTE, (text,)), details=given)


def notes(cli: CommandLine) -> list[str]:
    return sorted(item["record"]["value"] for item in cli.matches("note"))


def test_a_rollback_goes_by_the_number_that_a_history_shows(cli: CommandLine) -> None:
    cli.data("save", "seats", "80")
    cli.data("save", "seats", "120")
    first, second = (item["revision"] for item in cli.data("history", "seats"))
    change = cli.data("rollback", f"r{first}", "--reason", "a typo")
    assert (change["kind"], change["record"]["value"], change["previous"]["value"]) == ("updated", "80", "120")
    assert cli.data("load", "seats")["value"] == "80"
    assert "rolled back  seats = 120" in cli.run("rollback", str(second)).out
    assert cli.error("rollback", "99")["type"] == "RecordNotFoundError"
    assert cli.run("rollback", "first").code == 2


def test_forget_expired_erases_what_has_expired(cli: CommandLine) -> None:
    past = SOON - dt.timedelta(days=9)
    kept(cli, gone=FactDetails(expires_at=past), kept=FactDetails(expires_at=SOON))
    assert cli.data("forget", "--expired", "--dry-run") == {
        "expired": 1,
        "superseded": 0,
        "erased": 1,
        "pending": False,
        "dry_run": True,
    }
    assert cli.run("forget", "--expired").out.strip() == "Erased 1 expired and 0 superseded revisions."
    assert cli.data("forget", "--expired")["expired"] == 0
    assert notes(cli) == ["kept"]


def test_forget_expired_takes_old_revisions_where_that_is_asked_for(cli: CommandLine) -> None:
    cli.data("save", "seats", "80")
    cli.data("save", "seats", "120")
    assert cli.data("forget", "--expired", "--revisions", "30")["superseded"] == 0
    assert cli.data("forget", "--expired", "--revisions", "0")["superseded"] == 1
    assert [item["value"] for item in cli.data("history", "seats")] == ["120"]


@pytest.mark.parametrize(
    ("words", "fitting"),
    [
        (["--metadata", "tier=gold"], {"a", "b"}),
        (["--metadata", "tier=gold", "--metadata", "score>5"], {"a"}),
        (["--metadata", "tier!=gold"], {"c"}),
        (["--metadata", "score<3"], {"b"}),
        (["--topic", "plans"], {"c"}),
        (["--max-importance", "0.2"], {"c"}),
        (["--concept", "note", "--source", "mail"], {"b"}),
    ],
)
def test_a_dry_run_shows_the_matches_that_yes_erases(cli: CommandLine, words: list[str], fitting: set[str]) -> None:
    kept(
        cli,
        a=FactDetails(metadata={"tier": "gold", "score": 7}),
        b=FactDetails(metadata={"tier": "gold", "score": 2}, source="mail"),
        c=FactDetails(topics=("plans",), importance=0.1),
    )
    preview = cli.data("forget", *words, "--dry-run")
    assert ({item["value"] for item in preview["records"]}, preview["dry_run"], preview["erased"]) == (fitting, True, 0)
    assert len(notes(cli)) == 3
    done = cli.data("forget", *words, "--yes")
    assert (done["records"], done["erased"]) == (len(fitting), len(fitting))
    assert set(notes(cli)) == {"a", "b", "c"} - fitting
    assert cli.run("forget", *words).out.strip() == "Nothing matches; nothing was erased."


def test_forgetting_without_a_filter_or_with_a_malformed_one_is_refused(cli: CommandLine) -> None:
    kept(cli, a=FactDetails())
    assert cli.error("forget", "--yes")["type"] == "InvalidDataError"
    assert cli.run("forget", "--yes", "--metadata", "gold").code == 2
    assert cli.run("forget", "--yes", "--metadata", "x>[1]").code == 2
    assert "1 record matches" in cli.run("forget", "--dry-run", "--concept", "note").out
    assert notes(cli) == ["a"]


@pytest.mark.parametrize(
    "words",
    [["--text", "x"], ["--revisions", "1"], ["--expired", "--concept", "note"], ["--verify", "--dry-run"]],
)
def test_options_of_forget_that_contradict_each_other_are_refused(cli: CommandLine, words: list[str]) -> None:
    assert cli.error("forget", *words)["type"] == "InvalidDataError"
