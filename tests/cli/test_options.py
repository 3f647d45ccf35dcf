"""Behaviour shared by all commands: options, exit codes, errors, output."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from factmem.cli.app import app
from factmem.cli.options import Scoring
from factmem.recall import Additive, Boost
from factmem.recall.scoring import RecallSettings
from tests.tables import each_case

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine, Talk

COMMANDS = (
    *("demo", "ingest", "recall", "load", "history", "save", "forget", "retract", "restore", "tree", "info"),
    *("rollback", "providers", "export", "import", "reembed", "audit"),
    *("remember", "extract", "resume", "profile", "dead-letters", "quarantine"),
    *("list", "show", "update", "undo", "mcp", "check", "upgrade", "backup", "move"),
)

GROUPS = {"dead-letters": ("list", "retry", "dismiss"), "quarantine": ("list", "accept", "reject")}


def help_of(cli: CommandLine, *words: str) -> str:
    """Return a help page without colours, which some CI systems force."""
    done = cli.run(*words, "--help")
    assert done.code == 0
    return re.sub(r"\x1b\[[\d;]*m", "", done.out)


def test_help_mentions_every_command(cli: CommandLine) -> None:
    page = help_of(cli)
    assert [name for name in COMMANDS if f" {name} " not in page] == []


def test_every_command_has_help_and_takes_the_global_options(cli: CommandLine) -> None:
    app_group: Any = get_command(app)
    commands = {name: app_group.get_command(None, name) for name in COMMANDS}
    for group in GROUPS:
        below = commands.pop(group)
        commands |= {f"{group} {name}": below.get_command(None, name) for name in GROUPS[group]}
    options = ("--store", "--organization", "--viewer", "--user", "--model", "--json")
    page = help_of(cli, "recall")
    assert [option for option in options if option not in page] == []
    for name, command in commands.items():
        assert command.help, name
        assert set(options) <= {option for parameter in command.params for option in parameter.opts}, name


def test_no_command_shows_the_help(cli: CommandLine) -> None:
    done = CliRunner().invoke(app, [])
    assert done.exit_code == 2
    assert "Usage" in done.output


def test_the_version_is_printed(cli: CommandLine) -> None:
    done = cli.run("--version")
    assert done.code == 0
    assert done.out.startswith("factmem ")


def test_json_may_stand_before_and_behind_the_command(cli: CommandLine) -> None:
    cli.run("save", "seats", "120")
    before, behind = cli.run("--json", "recall", "seats"), cli.run("recall", "seats", "--json")
    (match,), (same,) = (json.loads(done.out)["matches"] for done in (before, behind))
    assert (match["record"]["value"], match["record"]["id"]) == ("120", same["record"]["id"])


def test_the_store_may_be_named_behind_the_command(cli: CommandLine, tmp_path: Path) -> None:
    other = str(tmp_path / "other.db")
    cli.data("save", "seats", "7", "--store", other)
    assert cli.data("load", "seats", "--store", other)["value"] == "7"
    assert cli.error("load", "seats")["type"] == "RecordNotFoundError"


def test_store_organization_and_viewer_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, quick: None
) -> None:
    monkeypatch.setenv("FACTMEM_STORE", str(tmp_path / "env.db"))
    monkeypatch.setenv("FACTMEM_ORGANIZATION", "acme")
    monkeypatch.setenv("FACTMEM_VIEWER", "maya")
    runner = CliRunner()
    assert runner.invoke(app, ["save", "pet", "cat", "--private"]).exit_code == 0
    info = json.loads(runner.invoke(app, ["info", "--json"]).stdout)
    assert (info["store"], info["organization"], info["viewer"]) == (str(tmp_path / "env.db"), "acme", "maya")
    assert info["records"] == 1


@pytest.mark.parametrize("words", [["--store", "", "info"], ["info", "--store", ""], ["info", "--store", "  "]])
def test_an_empty_store_is_not_the_users_own(cli: CommandLine, words: list[str]) -> None:
    done = cli.run(*words)
    assert done.code == 2
    assert "it is empty" in done.err


@pytest.mark.skipif("sys.platform in ('win32', 'darwin')", reason="the user's data folder lies elsewhere there")
def test_an_empty_variable_is_no_store(tmp_path: Path, quick: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTMEM_STORE", "")
    done = CliRunner().invoke(app, ["--json", "info"])
    assert (done.exit_code, str(tmp_path / "data") in done.stderr) == (1, True)


@pytest.mark.skipif("sys.platform in ('win32', 'darwin')", reason="the user's data folder lies elsewhere there")
def test_without_a_store_it_is_a_file_in_the_users_data_folder(tmp_path: Path, quick: None) -> None:
    runner = CliRunner()
    assert runner.invoke(app, ["save", "seats", "120"]).exit_code == 0
    assert (tmp_path / "data" / "factmem" / "facts.db").is_file()
    assert json.loads(runner.invoke(app, ["--json", "load", "seats"]).stdout)["value"] == "120"


def test_an_organization_sees_nothing_of_another(cli: CommandLine) -> None:
    cli.data("save", "seats", "120", "--organization", "acme")
    assert cli.matches("seats", "--organization", "acme")
    assert cli.matches("seats", "--organization", "other") == []
    assert cli.matches("seats") == []


@each_case("words")
def test_wrong_usage_exits_with_2(cli: CommandLine, words: list[str]) -> None:
    done = cli.run(*words)
    assert done.code == 2
    assert done.out == ""


def test_an_error_is_printed_on_stderr_as_an_object_with_json(cli: CommandLine) -> None:
    done = cli.run("recall", " ")
    assert (done.code, done.out) == (1, "")
    assert done.err == "factmem: the query is blank: say what to look for\n"
    done = cli.run("recall", " ", "--json")
    assert (done.code, done.out) == (1, "")
    assert json.loads(done.err) == {
        "error": {"type": "InvalidDataError", "message": "the query is blank: say what to look for"}
    }


@pytest.mark.parametrize(("address", "type"), [("nowhere:x", "UnknownProviderError"), ("none:", "CapabilityError")])
def test_a_store_that_cannot_do_it_is_an_error(cli: CommandLine, talk: Talk, address: str, type: str) -> None:
    assert cli.error("ingest", str(talk("I like tea.")), "--store", address)["type"] == type


@pytest.mark.parametrize("words", ["shelf>=6", "shelf<=6", "shelf==6", "shelf!==6", "shelf<>6"])
def test_a_comparison_that_there_is_not_is_an_error(cli: CommandLine, words: str) -> None:
    """It compared with the text "=6", which nothing equals."""
    cli.data("remember", "Shelf 6.", "--metadata", "shelf=6")
    assert cli.run("list", "--metadata", words).code == 2


def test_words_that_are_no_text_are_an_error(cli: CommandLine) -> None:
    """Python reads arguments that are not UTF-8 as lone surrogates, which no embedder accepts."""
    assert "check the locale" in cli.error("recall", "caf\udce9")["message"]
    for words in (["load", "caf\udce9"], ["save", "seats", "caf\udce9"]):
        assert cli.error(*words)["type"] in ("InvalidDataError", "RecordNotFoundError")


def test_a_scope_that_climbs_is_an_error(cli: CommandLine) -> None:
    assert cli.error("recall", "seats", "--scope", "/product/../x")["type"] == "InvalidNameError"


def test_facts_can_be_kept_in_files_as_well(cli: CommandLine, tmp_path: Path) -> None:
    store = f"file:{tmp_path / 'folder'}"
    cli.data("save", "seats", "120", "--type", "int", "--store", store)
    assert cli.data("load", "seats", "--store", store)["value"] == 120


@each_case("words", "expected")
def test_errors_name_options_and_not_python_arguments(cli: CommandLine, words: list[str], expected: str) -> None:
    message = cli.error(*words)["message"]
    assert expected in message
    assert [
        word for word in ("FuturePolicy", "()", "(at $", "next_page", "SecretKey", "list_records") if word in message
    ] == []


def test_the_help_of_a_command_breaks_no_line_within_a_paragraph() -> None:
    group: Any = get_command(app)
    commands = [group.get_command(None, name) for name in group.commands]
    assert [command.name for command in commands if "\n" in command.help.replace("\n\n", "")] == []


def test_the_settings_page_names_every_environment_variable() -> None:
    group: Any = get_command(app)
    page = (Path(__file__).parents[2] / "docs" / "pages" / "reference" / "settings.md").read_text(encoding="utf-8")
    commands = [group, *(group.get_command(None, name) for name in group.commands)]
    read = {parameter.envvar for command in commands for parameter in command.params}
    assert {variable for variable in read if variable and f"`{variable}`" not in page} == set()


# The scoring options of all commands that recall.

ADDITIVE: Final = "additive"
OLD, NEW = "2020-01-01", "2026-01-01"
BY_AGE = (
    *("--composite", "additive", "--similarity-weight", "0", "--recency-weight", "1", "--importance-weight", "0"),
    *("--half-life", "2000"),
)


@pytest.fixture
def seats(cli: CommandLine) -> CommandLine:
    """Save an old fact that answers a query for seats, and a new one that does not."""
    cli.run("save", "seats", "120 seats in the hall", "--timestamp", OLD)
    cli.run("save", "lunch", "soup", "--timestamp", NEW)
    return cli


def found(cli: CommandLine, *options: str) -> list[str]:
    return [match["record"]["keyword"] for match in cli.matches("seats in the hall", *options)]


@pytest.mark.parametrize(
    ("scoring", "settings"),
    [
        (Scoring(), None),
        (Scoring(min_score=0.3), None),
        (Scoring(composite="boost"), RecallSettings()),
        (Scoring(importance_weight=0.5), RecallSettings(composite=Boost(importance_weight=0.5))),
        (Scoring(composite=ADDITIVE), RecallSettings(composite="additive")),
        (
            Scoring(composite=ADDITIVE, similarity_weight=0.6, recency_weight=0.1, importance_weight=2.0),
            RecallSettings(composite=Additive(similarity_weight=0.6, recency_weight=0.1, importance_weight=2.0)),
        ),
        (
            Scoring(half_life_days=7.0, lexical_weight=0.0, diversity=0.5),
            RecallSettings(half_life_days=7.0, lexical_weight=0.0, diversity=0.5),
        ),
    ],
)
def test_options_make_settings_and_leave_the_rest_at_its_defaults(
    scoring: Scoring, settings: RecallSettings | None
) -> None:
    assert scoring.settings() == settings


def test_records_below_the_minimum_score_are_left_out(seats: CommandLine) -> None:
    assert found(seats) == ["seats", "lunch"]
    assert found(seats, "--min-score", "0.3") == ["seats"]
    assert seats.matches("zxqv blorp", "--min-score", "0.3") == []
    nothing = seats.run("recall", "zxqv blorp", "--min-score", "0.3")
    assert (nothing.code, nothing.out, nothing.err) == (0, "Nothing found.\n", "")


def test_weights_change_the_order(seats: CommandLine) -> None:
    assert found(seats, *BY_AGE) == ["lunch", "seats"]
    newest, _ = seats.matches("seats in the hall", *BY_AGE)
    assert newest["score"] == pytest.approx(newest["parts"]["recency"])
    assert found(seats, "--importance-weight", "0", "--lexical-weight", "1", "--diversity", "0.5") == ["seats", "lunch"]


def test_scores_may_be_set_in_the_environment(seats: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTMEM_MIN_SCORE", "0.3")
    monkeypatch.setenv("FACTMEM_COMPOSITE", "boost")
    assert found(seats) == ["seats"]
    assert found(seats, "--min-score", "0") == ["seats", "lunch"]


@pytest.mark.parametrize("command", [("recall", "seats"), ("mcp",)])
@each_case("options", "expected")
def test_an_impossible_weight_is_a_usage_error(
    cli: CommandLine, command: tuple[str, ...], options: list[str], expected: str
) -> None:
    done = cli.run(*command, *options)
    assert done.code == 2
    assert expected in " ".join(re.sub(r"\x1b\[[\d;]*m|[│╭╮╰╯─]", "", done.err).split())


@each_case("words")
def test_an_empty_filter_is_an_error_and_does_not_select_everything(cli: CommandLine, words: tuple[str, ...]) -> None:
    """As of a variable of the shell that is not set."""
    cli.data("remember", "I like tea.")
    assert "empty" in cli.error(*words)["message"]


def test_a_server_scores_as_its_options_say(cli: CommandLine, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def server(memory: object, **options: Any) -> object:
        given.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr("factmem.mcp.make_server", server)
    cli.run("mcp", "--min-score", "0.3", "--composite", "additive", "--recency-weight", "0.1")
    assert (given["min_score"], given["settings"]) == (0.3, RecallSettings(composite=Additive(recency_weight=0.1)))
    cli.run("mcp")
    assert (given["min_score"], given["settings"]) == (0.0, None)
