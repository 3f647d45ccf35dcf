"""Ingestion of conversations with a language model, over a real socket."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from factmem.abc.topics import EXPLICIT_INSTRUCTIONS, MANAGED_TOPICS
from factmem.testing.chat_answers import Said, answering
from factmem.testing.openai_server import LoopbackOpenAIServer
from tests.tables import each_case

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine, Talk

SEATS = {"seats": [{"quote": "has 120 seats", "message": 1, "value": 120}]}
SAID = "The venue has 120 seats. The password is Rust-4nd-Resin!77"


def at(server: LoopbackOpenAIServer) -> str:
    return f"{server.base_url}#m"


def ingested(cli: CommandLine, file: Path, *words: str, said: Said = SEATS) -> tuple[Any, list[dict[str, Any]]]:
    """Ingest a conversation with a model that always gives one answer, and return the summary and the requests."""
    with LoopbackOpenAIServer(answering(said)) as server:
        summary = cli.data("--model", at(server), "ingest", str(file), *words)
    return summary, [request for _, request in server.requests]


def test_a_conversation_gives_typed_facts_with_their_source(cli: CommandLine, talk: Talk, concepts: Path) -> None:
    summary, requests = ingested(cli, talk(SAID), "--concepts", str(concepts), "--scope", "/product/fair")
    counts = ("conversations", "created", "updated", "deleted", "quarantined", "dead_letters")
    assert [summary[name] for name in counts] == [1, 2, 0, 0, 0, 0]
    assert (summary["redacted"], summary["dropped"], summary["files"][0]["created"]) == ({"password": 1}, {}, 2)
    assert cli.data("load", "seats", "--scope", "/product/fair")["value"] == 120
    (match,) = cli.matches("venue seats", "--concept", "seats")
    (evidence,) = match["record"]["evidence"]
    assert (evidence["quote"], evidence["speaker"]) == ("has 120 seats", "Maya")
    assert "Rust-4nd" not in json.dumps(requests)


def test_a_conversation_ingested_twice_is_stored_once_without_another_request(
    cli: CommandLine, talk: Talk, concepts: Path
) -> None:
    assert len(ingested(cli, talk(SAID), "--concepts", str(concepts))[1]) == 1
    summary, requests = ingested(cli, talk(SAID), "--concepts", str(concepts))
    assert (summary["conversations"], summary["created"], requests) == (1, 0, [])
    assert cli.data("info")["records"] == 2


def test_the_summary_reports_known_words_and_how_to_read_them_again(
    cli: CommandLine, talk: Talk, concepts: Path
) -> None:
    cli.data("ingest", str(talk(SAID)))
    with LoopbackOpenAIServer(answering(SEATS)) as server:
        done = cli.run("--model", at(server), "ingest", str(talk(SAID)), "--concepts", str(concepts))
    assert server.requests == []
    assert "1 conversation known already, and not shown to the model again" in done.out
    assert "the same command with --again" in done.out


def test_known_words_are_read_again_if_that_is_asked_for(cli: CommandLine, talk: Talk, concepts: Path) -> None:
    cli.data("ingest", str(talk(SAID)), "--source", "mail", "--scope", "/fair")
    options = ("--again", "--concepts", str(concepts), "--scope", "/fair")
    summary, requests = ingested(cli, talk(SAID), *options)
    assert (summary["known"], summary["read_again"], summary["created"], len(requests)) == (1, 1, 1, 1)
    assert cli.data("load", "seats", "--scope", "/fair")["value"] == 120
    assert [match["record"]["source"] for match in cli.matches("seats", "--concept", "seats")] == ["mail"]


def test_what_is_new_in_a_conversation_that_is_read_again_is_read_once(
    cli: CommandLine, talk: Talk, concepts: Path
) -> None:
    """A conversation that is not known yet is ingested as usual."""
    cli.data("ingest", str(talk("We meet at noon.")))
    longer = talk("We meet at noon.", "The venue has 120 seats.")
    summary, requests = ingested(cli, longer, "--again", "--concepts", str(concepts))
    assert (summary["conversations"], summary["known"], summary["read_again"], len(requests)) == (1, 0, 1, 2)
    other = talk("The barn has 80 seats.", id="other", name="other.json")
    summary, requests = ingested(cli, other, "--again", "--concepts", str(concepts), said={"seats": []})
    assert (summary["read_again"], len(requests)) == (0, 1)


@pytest.mark.parametrize("kept", [True, False])
def test_words_may_be_kept_beside_the_facts(cli: CommandLine, talk: Talk, concepts: Path, kept: bool) -> None:
    ingested(cli, talk(SAID), "--concepts", str(concepts), "--keep-words" if kept else "--no-keep-words")
    keywords = [match["record"]["keyword"] for match in cli.matches("venue seats", "--limit", "9")]
    assert (keywords.count("seats"), "statement" in keywords) == (1, kept)


def test_the_summary_reports_dropped_facts_with_the_reason(cli: CommandLine, talk: Talk, concepts: Path) -> None:
    made_up = {"seats": [*SEATS["seats"], {"quote": "has 9 seats", "message": 1, "value": 9}]}
    with LoopbackOpenAIServer(answering(made_up)) as server:
        done = cli.run("--model", at(server), "ingest", str(talk(SAID)), "--concepts", str(concepts))
    assert "1 conversation, 2 facts created" in done.out
    assert "1 finding dropped: its quote stands in no message" in done.out


def test_an_address_that_names_no_model_is_an_error_that_names_the_option(cli: CommandLine) -> None:
    error = cli.error("--model", "nonsense", "remember", SAID)
    assert error["message"].startswith("--model or FACTMEM_MODEL: a language model is named openai/MODEL")


def test_what_is_asked_for_reaches_the_model(cli: CommandLine, talk: Talk, concepts: Path) -> None:
    said: Said = {"seats": [], "facts": [], "memories": [], "remember": [], "forget": []}
    topics = ["--topics", "preferences", "--topic", "plans=What they are up to"]
    _, (request,) = ingested(cli, talk(SAID), "--concepts", str(concepts), *topics, "--open", said=said)
    asked = json.dumps(request)
    wanted = ("How many people fit in", "What they are up to", "likes, dislikes")
    assert [word for word in wanted if word not in asked] == []
    schema = request["response_format"]["json_schema"]["schema"]["properties"]
    assert {"seats", "facts", "memories"} <= schema.keys()


def test_all_managed_topics_go_by_one_name(cli: CommandLine, talk: Talk) -> None:
    said: dict[str, Any] = {"memories": [], "remember": [], "forget": []}
    _, (request,) = ingested(cli, talk(SAID), "--topics", "managed", said=said)
    asked = json.dumps(request)
    assert [topic for topic in MANAGED_TOPICS if topic.label not in asked] == [EXPLICIT_INSTRUCTIONS]
    assert request["response_format"]["json_schema"]["schema"]["properties"].keys() == said.keys()


def test_concepts_may_be_the_fields_of_a_class(
    cli: CommandLine, talk: Talk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "venue_of_a_fair.py").write_text("import attrs\n@attrs.frozen\nclass Venue:\n    seats: int\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    ingested(cli, talk(SAID), "--concepts", "venue_of_a_fair:Venue")
    assert cli.data("load", "seats")["value"] == 120


@each_case("content")
def test_a_malformed_file_of_concepts_is_reported_before_anything_is_kept(
    cli: CommandLine, talk: Talk, concepts: Path, nobody: str, content: str
) -> None:
    concepts.write_text(content)
    words = ("--model", nobody, "ingest", str(talk(SAID)), "--concepts", str(concepts))
    assert cli.error(*words)["type"] == "InvalidDataError"
    assert not cli.store.exists()


@each_case("words")
def test_what_only_a_model_can_do_says_how_to_name_one(cli: CommandLine, talk: Talk, words: list[str]) -> None:
    error = cli.error("ingest", str(talk(SAID)), *words)
    assert error["type"] == "CapabilityError"
    assert "FACTMEM_MODEL" in error["message"]


def test_looking_for_nothing_is_wrong_usage(cli: CommandLine, talk: Talk, nobody: str) -> None:
    assert cli.run("--model", nobody, "ingest", str(talk(SAID)), "--targeted").code == 2
    assert cli.run("--model", nobody, "ingest", str(talk(SAID)), "--topics", "=nothing").code == 2
    assert cli.error("--model", "gpt", "ingest", str(talk(SAID)))["type"] == "InvalidDataError"


def test_the_environment_may_name_the_model(
    cli: CommandLine, talk: Talk, concepts: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with LoopbackOpenAIServer(answering(SEATS)) as server:
        monkeypatch.setenv("FACTMEM_MODEL", at(server))
        assert cli.data("ingest", str(talk(SAID)), "--concepts", str(concepts))["model"] == at(server)
        assert cli.data("save", "seats", "130") != []
        assert cli.matches("seats") != []
    assert len(server.requests) == 1, "only commands that read messages call the model"


def test_a_bad_file_is_reported_and_the_others_are_read(
    cli: CommandLine, talk: Talk, concepts: Path, tmp_path: Path
) -> None:
    bad = tmp_path / "bad.json"
    bad.write_text('{"neither": "this nor that"}')
    with LoopbackOpenAIServer(answering(SEATS)) as server:
        words = ("--json", "--model", at(server), "ingest", str(bad), str(talk(SAID)), "--concepts", str(concepts))
        done = cli.run(*words)
    summary = json.loads(done.out)
    assert (done.code, summary["created"], [file["failed"] for file in summary["files"]]) == (1, 2, [True, False])
    assert "bad.json" in json.loads(done.err)["error"]["message"]


def test_without_the_extra_for_models_the_command_that_installs_it_is_shown_and_nothing_is_written(
    cli: CommandLine, talk: Talk, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "instructor", None)
    done = cli.run("--model", "openai/any", "ingest", str(talk(SAID)))
    assert done.code != 0
    assert "pip install 'factmem[llm]'" in done.err
    assert not cli.store.exists()


def test_the_summary_reports_what_the_model_cost(cli: CommandLine, talk: Talk, concepts: Path) -> None:
    summary, requests = ingested(cli, talk(SAID), "--concepts", str(concepts))
    cost = {"requests": 1, "input_tokens": 1, "cached_tokens": 0, "output_tokens": 1}
    assert len(requests) == 1
    assert summary["cost"] == {**cost, "by_operation": {"detect": cost}}
    assert summary["unread"] == 0


def test_a_budget_stops_the_run_and_resume_goes_on(cli: CommandLine, tmp_path: Path) -> None:
    talks = [{"id": f"t{at}", "messages": [{"role": "user", "content": f"I saw bird {at}."}]} for at in range(12)]
    file = tmp_path / "talks.jsonl"
    file.write_text("\n".join(map(json.dumps, talks)))
    with LoopbackOpenAIServer(answering({"facts": [], "remember": [], "forget": []})) as server:
        done = cli.run("--model", at(server), "ingest", str(file), "--budget", "2")
        assert done.code == 0
        asked = len(server.requests)
        assert 1 <= asked < 12
        assert f"the budget is spent: {12 - asked} conversations not read yet" in done.out
        assert "resume" in done.out
        resumed = cli.data("--model", at(server), "resume")
        assert (resumed["resumed"], resumed["unread"], len(server.requests)) == (12 - asked, 0, 12)
