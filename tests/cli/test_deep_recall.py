"""Deep recall on the command line, with a model behind a socket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from factmem.testing.chat_answers import chat_answer, error_answer
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine

QUERY = "Who bakes and who brews in the village, and since when have the two of them been at it?"
LONG = f"{QUERY} {'I would like to know that in full, please.' * 4}"


def _respond(path: str, request: dict[str, Any]) -> Answer:
    if request["response_format"]["json_schema"]["name"] == "GapsAnswer":
        return chat_answer({"gaps": [{"missing": "the price", "question": "What does the bread cost?"}]})
    return chat_answer({"questions": ["Who bakes bread?"], "scopes": ["/product/fair"], "complexity": "complex"})


def _filled(cli: CommandLine) -> None:
    for name in ("Ann", "Bo", "Cleo", "Eva", "Finn", "Gus", "Hal"):  # enough names that none of them is distinctive
        cli.data("remember", f"{name} bakes bread.", "--scope", "/product/fair", "--no-consolidate")


def test_deep_recall_reports_its_steps(cli: CommandLine) -> None:
    _filled(cli)
    with LoopbackOpenAIServer(_respond) as server:
        found = cli.data("recall", LONG, "--depth", "deep", "--model", f"{server.base_url}#m", "--explain")
        done = cli.run("--model", f"{server.base_url}#m", "recall", LONG, "--depth", "deep")
    assert found["matches"][0]["record"]["value"].endswith("bakes bread.")
    assert found["questions"] == [LONG, "Who bakes bread?", "What does the bread cost?"]
    assert (found["scopes"], found["complexity"], found["rounds"]) == (["/product/fair"], "complex", 1)
    assert found["gaps"] == [{"missing": "the price", "question": "What does the bread cost?"}]
    assert (found["calls"], found["tokens"], found["failure"], found["times"]) == (2, 4, None, [])
    assert 0 <= found["confidence"] < 0.05
    for line in ("asked as well: Who bakes bread?", "looked in /product/fair", "still missing: the price"):
        assert line in done.out


def test_deep_recall_without_a_model_says_how_to_name_one(cli: CommandLine) -> None:
    error = cli.error("recall", "bread", "--depth", "deep")
    assert error["type"] == "CapabilityError"
    assert "FACTMEM_MODEL" in error["message"]


def test_an_unavailable_model_is_reported_beside_plain_recall(cli: CommandLine) -> None:
    cli.data("remember", "Dora bakes bread.")
    with LoopbackOpenAIServer(lambda path, request: error_answer(401)) as server:
        done = cli.run("--model", f"{server.base_url}#m", "recall", LONG, "--depth", "deep")
    assert (done.code, "Dora bakes bread." in done.out) == (0, True)
    assert done.err.count("goes on without the model") == done.err.count("HTTP 401") == 1


def test_no_other_depth_is_known(cli: CommandLine) -> None:
    assert cli.run("recall", "bread", "--depth", "deeper").code == 2
