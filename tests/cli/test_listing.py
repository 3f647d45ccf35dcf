"""Commands that list, show, update and undo records."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from factmem.browse.texts import short_id
from factmem.cli.ids import lengthened
from tests.tables import each_case

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine


def saved(cli: CommandLine, *words: str) -> str:
    """Save a fact and return the id of its record."""
    (record,) = cli.data("save", *words)
    return str(record["id"])


def test_list_returns_the_newest_records_page_by_page(cli: CommandLine) -> None:
    for day in range(1, 6):
        saved(cli, f"day{day}", "sunny", "--timestamp", f"2026-01-0{day}")
    first = cli.data("list", "--limit", "3")
    assert [record["keyword"] for record in first["records"]] == ["day5", "day4", "day3"]
    rest = cli.data("list", "--limit", "3", "--page", first["next_page"])
    assert [record["keyword"] for record in rest["records"]] == ["day2", "day1"]
    assert rest["next_page"] is None
    assert f"--page {first['next_page']}" in cli.run("list", "--limit", "3").out


def test_list_filters_and_sorts(cli: CommandLine) -> None:
    saved(cli, "seats", "120", "--scope", "/product/fair", "--importance", "0.2", "--timestamp", "2026-01-01")
    saved(cli, "stage", "big", "--scope", "/product/fair", "--importance", "0.9", "--timestamp", "2026-02-01")
    saved(cli, "pet", "cat", "--timestamp", "2026-03-01")

    def keywords(*words: str) -> list[str]:
        return [record["keyword"] for record in cli.data("list", *words)["records"]]

    assert keywords("--scope", "/product/fair", "--order", "importance") == ["stage", "seats"]
    assert keywords("--reverse") == ["seats", "stage", "pet"]
    assert keywords("--since", "2026-02-01", "--until", "2026-02-01") == ["stage"]


def test_show_returns_a_record_with_its_revisions_and_its_trail(cli: CommandLine) -> None:
    id = saved(cli, "seats", "80", "--type", "int", "--description", "Seats at the venue")
    saved(cli, "seats", "120")
    found = cli.data("show", id)
    assert (found["record"]["value"], found["description"]) == (120, "Seats at the venue")
    assert [(item["value"], item["state"]) for item in found["revisions"]] == [(80, "superseded"), (120, "active")]
    assert [entry["action"] for entry in found["trail"]] == ["recorded", "recorded"]
    assert all(entry["actor"].startswith("cli") for entry in found["trail"])
    page = cli.run("show", id).out
    assert [
        word for word in ("seats = 120", "seats = 80", "superseded", "Seats at the venue") if word not in page
    ] == []


def test_show_finds_retracted_and_quarantined_records(cli: CommandLine, tmp_path: Path) -> None:
    retracted = saved(cli, "city", "Oslo")
    (change,) = cli.data("retract", retracted, "--reason", "moved away")
    assert (change["kind"], change["record"]["id"]) == ("deleted", retracted)
    assert cli.error("load", "city")["type"] == "RecordNotFoundError"
    assert [item["state"] for item in cli.data("history", "city")] == ["retracted"]
    found = cli.data("show", retracted)
    assert (found["record"]["value"], found["trail"][-1]["reason"]) == ("Oslo", "moved away")
    page = tmp_path / "page.jsonl"
    page.write_text('{"role": "tool", "content": "The palace has 900 seats."}\n')
    cli.data("ingest", str(page))
    (quarantined,) = cli.data("quarantine", "list")["records"]
    assert cli.data("show", quarantined["id"])["record"]["state"] == "quarantined"


def test_four_digits_of_what_a_listing_shows_tell_an_id_from_others() -> None:
    chance = random.Random(7)
    ids = [f"{number:012x}{chance.getrandbits(80):020x}" for number in range(1, 33)]
    assert [len(short_id(id)) for id in ids] == [8] * 32
    for length in (4, 5, 6, 8):
        assert lengthened([short_id(id)[:length] for id in ids], ids) == ids
        assert lengthened([id[-length:] for id in ids], ids) == ids
    assert lengthened(["nosuch", "abc", ids[3]], ids) == ["nosuch", "abc", ids[3]]


@pytest.mark.parametrize("id", ["a" * 32 + "-0123456789", "0b7e1c1e-1111-4222-8333-0123456789ab", "7"])
def test_ids_of_other_stores_are_shortened_to_what_tells_them_apart(id: str) -> None:
    assert short_id(id) == ("7" if id == "7" else "01234567")
    assert lengthened([short_id(id)], [id, "f" * 32]) == [id]


def test_the_shown_id_of_a_listing_names_the_record(cli: CommandLine) -> None:
    ids = [saved(cli, f"note {number}", "x") for number in range(3)]
    for words in (["list"], ["recall", "note"], ["audit"]):
        out = cli.run(*words).out
        shown = re.findall(r"id ([0-9a-f]+)$", out, re.MULTILINE)
        assert [cli.data("show", id)["record"]["id"] for id in shown] == [
            id for short in shown for id in ids if short in id
        ]
        assert len(shown) == 3
        assert not any(id in out for id in ids)
    assert ids[0] in cli.run("show", ids[0]).out


@pytest.mark.parametrize("cut", [slice(0, 14), slice(12, 20), slice(24, 32)])
def test_an_id_may_be_shortened_to_what_only_one_record_has(cli: CommandLine, cut: slice) -> None:
    id = saved(cli, "seats", "120")
    saved(cli, "pet", "cat")
    assert cli.data("show", id[cut])["record"]["id"] == id
    assert cli.data("history", id[cut])[0]["id"] == id
    (change,) = cli.data("retract", id[cut])
    assert change["record"]["id"] == id
    (change,) = cli.data("undo", id[cut])
    assert change["record"]["id"] == id
    assert cli.data("forget", id[cut], "--yes")["ids"] == [id]


def test_a_shortened_id_of_several_records_is_refused(cli: CommandLine) -> None:
    first, second = saved(cli, "seats", "120"), saved(cli, "pet", "cat")
    shared = first[:8]
    assert second.startswith(shared)
    error = cli.error("retract", shared)
    assert error["type"] == "RecordNotFoundError"
    assert all(id[12:] in error["message"] for id in (first, second))
    assert len(cli.data("list")["records"]) == 2


def test_update_changes_only_what_is_named(cli: CommandLine) -> None:
    id = saved(cli, "seats", "80", "--type", "int", "--category", "venue")
    change = cli.data("update", id, "--importance", "0.9", "--metadata", "floor=2")
    record = change["record"]
    assert (change["kind"], record["value"], record["importance"]) == ("updated", 80, 0.9)
    assert (record["categories"], record["metadata"]) == (["venue"], {"floor": 2})
    assert cli.data("update", id, "--value", "120")["record"]["value"] == 120
    assert cli.error("update", id, "--value", "plenty")["type"] == "InvalidDataError"
    moved = cli.data("update", id, "--scope", "/product/fair")["record"]
    assert (moved["scope"], moved["value"]) == ("/product/fair", 120)


def test_undo_takes_the_last_change_back_and_undone_again_repeats_it(cli: CommandLine) -> None:
    id = saved(cli, "seats", "80", "--type", "int")
    saved(cli, "seats", "120")
    for expected in (80, 120, 80):
        cli.data("undo", id)
        assert cli.data("load", "seats")["value"] == expected


def test_undo_of_a_rollback_brings_back_every_revision_that_it_retracted(cli: CommandLine) -> None:
    for seats in ("80", "100", "120"):
        id = saved(cli, "seats", seats)
    before = cli.data("history", "seats")
    cli.data("rollback", str(before[0]["revision"]))
    cli.data("undo", id)
    assert cli.data("history", "seats") == before


def test_undo_of_a_new_record_retracts_it_and_of_a_retraction_restores_it(cli: CommandLine) -> None:
    id = saved(cli, "pet", "cat")
    cli.data("undo", id)
    assert cli.data("list")["records"] == []
    cli.data("undo", id)
    assert [record["value"] for record in cli.data("list")["records"]] == ["cat"]


def test_tree_shows_a_branch_down_to_a_depth(cli: CommandLine) -> None:
    saved(cli, "seats", "120", "--scope", "/product/fair")
    saved(cli, "stage", "big", "--scope", "/product/fair/tech/lights")
    (product,) = cli.data("tree", "--depth", "1")["children"]
    assert (product["records"], product["children"]) == (2, [])
    branch = cli.data("tree", "/product/fair/tech")
    assert (branch["records"], [child["name"] for child in branch["children"]]) == (1, ["lights"])


def test_a_scope_without_records_is_answered_with_a_similar_one(cli: CommandLine) -> None:
    saved(cli, "seats", "120", "--scope", "/product/alpha")
    for command in (["list"], ["recall", "seats"], ["forget", "--dry-run"], ["forget"]):
        note = cli.run(*command, "--scope", "/product/alhpa").err
        assert note == "no record is in /product/alhpa: did you mean /product/alpha?\n"
    assert cli.run("list", "--scope", "/product/alpha", "--category", "none").err == ""
    assert "factmem" in cli.run("tree", "/agent/zoe").err


def test_user_stands_for_the_memory_of_one_user(cli: CommandLine) -> None:
    cli.data("--user", "alice", "remember", "I live in Oslo.")
    (record,) = cli.data("list", "--user", "alice")["records"]
    assert (record["subject"], record["private"]) == ("user:alice", True)
    assert cli.data("list", "--user", "bob")["records"] == []
    cli.data("save", "pet", "cat", "--user", "alice")
    assert cli.data("load", "pet", "--user", "alice")["subject"] == "user:alice"
    assert cli.error("load", "pet")["type"] == "RecordNotFoundError"


def test_a_user_reads_what_is_public_about_others_by_naming_them(cli: CommandLine) -> None:
    saved(cli, "city", "Oslo", "--subject", "user:carl")
    assert cli.error("load", "city", "--user", "eve")["type"] == "RecordNotFoundError"
    assert cli.data("list", "--user", "eve")["records"] == []
    assert cli.data("load", "city", "--user", "eve", "--subject", "user:carl")["value"] == "Oslo"
    saved(cli, "city", "Lund", "--subject", "user:dora")
    assert cli.error("load", "city")["type"] == "SeveralIndividualsError"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full, so a full disk was NOT tried")
def test_a_full_disk_behind_the_output_is_a_sentence(processes: CommandLine) -> None:
    with Path("/dev/full").open("w") as full:
        done = processes.spawn("providers", stdout=full)
    assert (done.code, done.err) == (1, "factmem: the output cannot be written: No space left on device\n")


@each_case("words", "expected")
def test_the_shell_completes(processes: CommandLine, words: str, expected: str) -> None:
    env = {"_FACTMEM_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    assert processes.fork(env=env).out.split() == expected.split()
