"""Commands that save, forget and retract."""

from __future__ import annotations

import datetime as dt
import enum
from typing import TYPE_CHECKING, Any, Literal

import attrs
import pytest

from factmem import BlockingMemory, Concept, FactDetails, Memory, MemorySubject, Message, MultipleFacts, SingleFact
from factmem.details import Origin
from factmem.testing import HashEmbedder, ScriptedModel
from tests.tables import each_case

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine


def test_save_keeps_everything_that_was_said_about_the_fact(cli: CommandLine) -> None:
    words = ["--scope", "/product/fair", "--subject", "user:maya", "--importance", "0.9", "--category", "venue"]
    (record,) = cli.data(
        "save", "seats", "120", "--type", "int", *words, "--source", "mail", "--timestamp", "2026-01-05"
    )
    assert (record["scope"], record["subject"], record["importance"]) == ("/product/fair", "user:maya", 0.9)
    assert (record["categories"], record["source"]) == (["venue"], "mail")
    assert record["timestamp"] == "2026-01-05T00:00:00+00:00"


def test_a_second_save_uses_the_type_of_the_first(cli: CommandLine) -> None:
    cli.data("save", "seats", "80", "--type", "int", "--description", "Seats at the venue")
    cli.data("save", "seats", "120")
    loaded = cli.data("load", "seats")
    assert (loaded["value"], loaded["description"]) == (120, "Seats at the venue")


class Plan(enum.Enum):
    FREE = "free"
    PAID = "true"


@attrs.frozen
class Address:
    street: str
    number: int = 0


@pytest.mark.parametrize(
    ("value_type", "value", "typed", "wrong"),
    [
        (Plan, Plan.FREE, "true", "maybe"),
        (Literal["a", "b"], "a", "b", "c"),
        (dt.date | None, dt.date(2026, 1, 1), "2026-02-03", "soon"),
        (Address, Address("Elm"), '{"street": "Oak", "number": 2}', '{"number": 2}'),
        (list[Address], [Address("Elm")], '[{"street": "Oak", "number": 2}]', "Oak"),
    ],
)
def test_values_are_typed_as_load_prints_them(
    cli: CommandLine, value_type: Any, value: Any, typed: str, wrong: str
) -> None:
    concept = Concept.single("thing", "", value_type)
    with BlockingMemory(Memory(str(cli.store), embedder=HashEmbedder())) as memory:
        (record,) = memory.save(SingleFact(concept, value))
    printed = cli.run("load", "thing").out.strip()
    for change in ("save", "thing", typed), ("save", "thing", printed), ("update", record.id, "--value", typed):
        assert cli.run(*change).code == 0
        with BlockingMemory(Memory(str(cli.store), embedder=HashEmbedder())) as memory:
            fact = memory.load(concept)
        assert fact is not None
        assert (fact.value == value) == (printed in change)
    for refused in ("save", "thing", wrong), ("update", record.id, "--value", wrong):
        assert "is not of the concept's type (" in cli.error(*refused)["message"]


@each_case("text", "seconds")
def test_a_length_of_time_takes_the_units_of_a_time_to_live(cli: CommandLine, text: str, seconds: int) -> None:
    cli.data("save", "length", text, "--type", "timedelta")
    assert cli.data("load", "length")["value"] == seconds


def test_a_value_that_is_not_of_its_type_is_refused_without_being_shown(cli: CommandLine) -> None:
    error = cli.error("save", "seats", "plenty", "--type", "int")
    assert error["type"] == "InvalidDataError"
    assert "plenty" not in error["message"]
    assert "--type" in error["message"]


def test_another_type_than_the_one_there_is_refused(cli: CommandLine) -> None:
    cli.data("save", "seats", "120", "--type", "int")
    assert cli.error("save", "seats", "many", "--type", "str")["type"] == "ConceptConflictError"


def test_a_negative_value_follows_two_dashes(cli: CommandLine) -> None:
    cli.data("save", "offset", "--type", "int", "--", "-5")
    assert cli.data("load", "offset")["value"] == -5


def test_private_facts_are_their_viewers(cli: CommandLine) -> None:
    (record,) = cli.data("save", "pet", "cat", "--private", "--viewer", "maya")
    assert record["private"]
    assert cli.data("load", "pet", "--viewer", "maya")["value"] == "cat"
    assert cli.error("load", "pet")["type"] == "RecordNotFoundError"


def test_a_subject_keeps_the_priority_it_is_known_with(cli: CommandLine) -> None:
    """Otherwise the new value would lose against a weaker subject's."""
    maya = MemorySubject("user", "Who talks to the agent", priority_level=1).individual("maya")
    seats = Concept.single("seats", "Seats", int)
    with BlockingMemory(Memory(str(cli.store), embedder=HashEmbedder())) as memory:
        memory.save(SingleFact(seats, 80), subject=maya, scope="/product/fair")
        memory.save(SingleFact(seats, 3), subject=MemorySubject("guest", priority_level=2), scope="/product/fair")
    cli.data("save", "seats", "150", "--subject", "user:maya", "--scope", "/product/fair")
    assert cli.data("load", "seats")["value"] == 150


@each_case("words")
def test_forget_erases_what_fits_and_nothing_else(cli: CommandLine, words: list[str]) -> None:
    cli.data("save", "seats", "80", "--scope", "/product/fair", "--timestamp", "2026-01-01")
    cli.data("save", "pet", "cat", "--timestamp", "2026-03-01")
    assert cli.data("forget", "--yes", *words)["records"] == 1
    assert cli.data("info")["keywords"] == ["pet"]
    assert cli.run("forget", "--yes", *words).out.startswith("Nothing matches")


def test_forget_by_id_takes_retracted_records_and_every_revision(cli: CommandLine) -> None:
    cli.data("save", "seats", "80", "--type", "int")
    (record,) = cli.data("save", "seats", "120")
    cli.data("retract", record["id"])
    assert cli.data("forget", record["id"], "--yes") == {
        "records": 1,
        "erased": 2,
        "pending": False,
        "ids": [record["id"]],
    }


def test_forget_shows_what_it_will_erase_and_asks(cli: CommandLine) -> None:
    cli.data("save", "seats", "80")
    for answer, said in (("n\n", "Nothing was erased"), ("", "--yes")):
        done = cli.run("forget", "--concept", "seats", input=answer)
        assert (done.code, "seats = 80" in done.err, said in done.err) == (1, True, True)
        assert cli.data("load", "seats")["value"] == "80"
    assert cli.run("forget", "--concept", "seats", input="y\n").code == 0
    assert cli.data("info")["records"] == 0


def test_forget_erases_no_newer_revision_than_the_one_shown(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    cli.data("save", "pet", "old cat")

    def answer(question: str) -> str:
        with BlockingMemory(Memory(str(cli.store), embedder=HashEmbedder())) as memory:
            memory.save(SingleFact(Concept.single("pet", "pet"), "new dog"))
        return "y\n"

    monkeypatch.setattr("factmem.cli.erasing._answer", answer)
    done = cli.run("forget", "--concept", "pet")
    assert (done.code, "look again; nothing was erased" in done.err) == (1, True)
    assert cli.data("load", "pet")["value"] == "new dog"


def test_a_dry_run_of_forget_shows_the_records_and_erases_nothing(cli: CommandLine) -> None:
    (record,) = cli.data("save", "seats", "80")
    cli.data("save", "pet", "cat")
    preview = cli.data("forget", "--concept", "seats", "--dry-run")
    assert (preview["count"], preview["dry_run"], preview["records"][0]["id"]) == (1, True, record["id"])
    shown = cli.run("forget", record["id"], "--dry-run").out
    assert "seats = 80" in shown
    assert "Would erase 1 record; erase without --dry-run." in shown
    assert "Nothing matches" in cli.run("forget", "--concept", "stage", "--dry-run").out
    assert "add --all" in cli.error("forget", "--dry-run")["message"]
    assert cli.data("info")["records"] == 2


def test_what_another_viewer_keeps_is_not_forgotten(cli: CommandLine) -> None:
    cli.data("save", "pet", "cat", "--private", "--viewer", "maya")
    assert cli.data("forget", "--concept", "pet", "--yes")["records"] == 0
    assert cli.data("load", "pet", "--viewer", "maya")["value"] == "cat"


@pytest.mark.parametrize("named", ["previous", "record"])
def test_a_move_is_undone_by_the_id_before_and_by_the_printed_one(cli: CommandLine, named: str) -> None:
    (record,) = cli.data("save", "seats", "80")
    change = cli.data("update", record["id"], "--scope", "/product/app")
    cli.data("undo", change[named]["id"])
    assert [(it["id"], it["scope"]) for it in cli.data("list")["records"]] == [(record["id"], record["scope"])]


def test_an_unknown_id_is_an_error(cli: CommandLine) -> None:
    assert cli.error("retract", "nothing")["type"] == "RecordNotFoundError"
    unknown = cli.error("undo", "nothing")
    assert unknown["type"] == "RecordNotFoundError"
    assert "name no visible record, or an erased one" in unknown["message"]


@pytest.mark.parametrize("command", ["forget", "retract"])
def test_an_id_that_names_nothing_is_an_error_and_nothing_is_done(cli: CommandLine, command: str) -> None:
    (record,) = cli.data("save", "seats", "120")
    yes = [] if command == "retract" else ["--yes"]
    assert cli.error(command, record["id"], "nosuch", *yes)["type"] == "RecordNotFoundError"
    assert cli.data("load", "seats")["value"] == "120"


def test_an_id_that_is_there_and_does_not_fit_is_no_error(cli: CommandLine) -> None:
    (record,) = cli.data("save", "seats", "120")
    done = cli.run("forget", record["id"], "--concept", "stage", "--yes")
    assert (done.code, done.out) == (0, "Nothing matches; nothing was erased.\n")


# Rollback, expiry and filters of `forget`.

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


@each_case("words", "fitting")
def test_a_dry_run_shows_the_matches_that_yes_erases(cli: CommandLine, words: list[str], fitting: list[str]) -> None:
    kept(
        cli,
        a=FactDetails(metadata={"tier": "gold", "score": 7}),
        b=FactDetails(metadata={"tier": "gold", "score": 2}, source="mail"),
        c=FactDetails(topics=("plans",), importance=0.1),
    )
    preview = cli.data("forget", *words, "--dry-run")
    assert ({item["value"] for item in preview["records"]}, preview["dry_run"], preview["erased"]) == (
        set(fitting),
        True,
        0,
    )
    assert len(notes(cli)) == 3
    done = cli.data("forget", *words, "--yes")
    assert (done["records"], done["erased"]) == (len(fitting), len(fitting))
    assert set(notes(cli)) == {"a", "b", "c"} - set(fitting)
    assert cli.run("forget", *words).out.strip() == "Nothing matches; nothing was erased."


def test_forgetting_without_a_filter_or_with_a_malformed_one_is_refused(cli: CommandLine) -> None:
    kept(cli, a=FactDetails())
    assert cli.error("forget", "--yes")["type"] == "InvalidDataError"
    assert cli.run("forget", "--yes", "--metadata", "gold").code == 2
    assert cli.run("forget", "--yes", "--metadata", "x>[1]").code == 2
    assert "Would erase 1 record;" in cli.run("forget", "--dry-run", "--concept", "note").out
    assert notes(cli) == ["a"]


def test_a_dry_run_of_words_shows_the_facts_that_were_found_in_them(cli: CommandLine) -> None:
    plan = Concept.single("plan", "The plan that somebody pays for")
    answer = {"plan": [{"quote": "I'm on Basic 50", "message": 1, "value": "Basic 50"}]}
    model = ScriptedModel(lambda prompt, answered: answer if answered.__name__ == "Findings" else {})
    with BlockingMemory(Memory(str(cli.store), model=model, concepts=[plan], embedder=HashEmbedder())) as memory:
        memory.remember(Message(content="Hello, I'm on Basic 50."))
        (words,) = (record.id for record in memory.list_records() if record.is_statement)
        (fact,) = (record.id for record in memory.list_records() if not record.is_statement)
        memory.update(fact, importance=0.9)  # a revision is not another fact
    shown = cli.run("forget", words, "--dry-run").out
    assert "Basic 50" in shown
    assert "Would erase 1 record and 1 fact found in words; erase without --dry-run." in shown


def test_undoing_an_update_that_the_users_words_outrank_leaves_these(cli: CommandLine) -> None:
    cli.run("save", "city", "Graz")
    with BlockingMemory(Memory(str(cli.store), embedder=HashEmbedder())) as memory:
        (record,) = memory.list_records()
        memory.update(record.id, value="Wien", origin=Origin.ASSISTANT)
    for state in ("retracted", "superseded"):
        cli.data("undo", record.id)
        assert [(it["value"], it["state"]) for it in cli.data("history", "city")] == [
            ("Graz", "active"),
            ("Wien", state),
        ]


def test_accepting_a_wish_to_forget_carries_it_out_and_shows_what_it_took(cli: CommandLine) -> None:
    city, wish = Concept.single("city", "The city where somebody lives"), "Please forget my city."
    answer = {"forget": [{"quote": wish, "message": 1, "keyword": "city"}]}
    model = ScriptedModel(lambda prompt, answered: answer if answered.__name__ == "Findings" else {})
    with BlockingMemory(Memory(str(cli.store), model=model, concepts=[city], embedder=HashEmbedder())) as memory:
        asked = memory.remember(Message(content=wish))
        id = asked.waiting[0].id
        waiting = cli.run("quarantine", "accept", id).out
        assert ("unchanged" in waiting, "asks to forget, what is not known" in waiting) == (True, True)
        memory.save(city.fact(["Graz"], timestamp=asked.waiting[0].timestamp - dt.timedelta(days=1)))
    shown = cli.run("quarantine", "accept", id).out
    assert ("accepted  Please forget my city." in shown, "deleted  city = Graz" in shown) == (True, True)
    assert cli.data("list")["records"] == []


@each_case("words")
def test_options_of_forget_that_contradict_each_other_are_refused(cli: CommandLine, words: list[str]) -> None:
    assert cli.error("forget", *words)["type"] == "InvalidDataError"
