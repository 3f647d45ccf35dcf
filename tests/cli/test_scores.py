"""The scoring options of all commands that recall."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

from factmem.cli.options import Scoring
from factmem.recall import Additive, Boost
from factmem.recall.scoring import RecallSettings

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine

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
            Scoring(half_life=7.0, lexical_weight=0.0, diversity=0.5),
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
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--similarity-weight", "0.5"], "--composite additive"),
        (["--composite", "boost", "--similarity-weight", "0.5"], "--composite additive"),
        (["--recency-weight", "1.5"], "--recency-weight must be a number from 0 to 1"),
        (["--composite", "additive", *(f"--{name}-weight=0" for name in ("similarity", "recency", "importance"))], "0"),
        (["--composite", "sum"], "additive"),
        (["--half-life", "0"], "--half-life must be more than 0"),
        (["--half-life", "nan"], "--half-life must be"),
        (["--lexical-weight", "2"], "--lexical-weight"),
        (["--diversity", "-1"], "--diversity"),
        (["--min-score", "30"], "--min-score"),
    ],
)
def test_an_impossible_weight_is_a_usage_error(
    cli: CommandLine, command: tuple[str, ...], options: list[str], expected: str
) -> None:
    done = cli.run(*command, *options)
    assert done.code == 2
    assert expected in " ".join(re.sub(r"\x1b\[[\d;]*m|[│╭╮╰╯─]", "", done.err).split())


def test_a_server_scores_as_its_options_say(cli: CommandLine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    given: dict[str, Any] = {}

    def server(memory: object, **options: Any) -> object:
        given.update(options)
        raise KeyboardInterrupt

    monkeypatch.setattr("factmem.mcp.make_server", server)
    cli.run("mcp", "--min-score", "0.3", "--composite", "additive", "--recency-weight", "0.1")
    assert (given["min_score"], given["settings"]) == (
        0.3,
        RecallSettings(composite=Additive(recency_weight=0.1)),
    )
    cli.run("mcp")
    assert (given["min_score"], given["settings"]) == (0.0, None)
