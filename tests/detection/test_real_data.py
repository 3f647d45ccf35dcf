"""Reading and redaction of public data sets, if they are present."""

from __future__ import annotations

import itertools
import os
from collections import Counter
from pathlib import Path

import pytest

from factmem.abc.detector import Conversation
from factmem.conversations import read_conversations
from factmem.detection.redaction import redact
from factmem.detection.verbatim import VerbatimDetector


def data_file(name: str) -> Path:
    folder = Path(os.environ.get("FACTMEM_DATA", Path(__file__).parents[3] / "shared" / "data"))
    path = folder / name
    if not path.is_file():
        pytest.skip(f"{name} is not there: set FACTMEM_DATA to the folder that holds it")
    return path


@pytest.fixture(scope="module")
def locomo() -> list[Conversation]:
    return list(read_conversations(data_file("locomo_dev.json")))


def test_every_turn_of_locomo_becomes_a_statement_of_a_named_person(locomo: list[Conversation]) -> None:
    turns = [message for session in locomo for message in session.messages]
    assert len(turns) > 2_000
    assert all(session.id and session.started_at for session in locomo)
    assert all(turn.role == "user" and turn.name and turn.id for turn in turns)
    ((first, _),) = VerbatimDetector(max_chars=1_000).read(locomo[:1])
    assert len(first) == len(locomo[0].messages)


def test_nothing_in_locomo_is_taken_for_a_secret(locomo: list[Conversation]) -> None:
    """Friends do not exchange keys in a chat, so every finding here is a false positive."""
    found = [redact(message.content).findings for session in locomo for message in session.messages]
    assert not any(found)


def test_longmemeval_sessions_come_once_and_hardly_a_user_turn_is_redacted(big: bool) -> None:
    ids, kinds = Counter[str | None](), Counter[str]()
    users = 0
    for session in itertools.islice(
        read_conversations(data_file("longmemeval_s_dev.jsonl.gz")), None if big else 1_000
    ):
        ids[session.id] += 1
        said = [message for message in session.messages if message.role == "user"]
        users += len(said)
        kinds.update(finding.kind for message in said for finding in redact(message.content).findings)
    print(f"{users} user turns: {dict(kinds)}")
    assert max(ids.values()) == 1
    assert kinds.total() <= users / 5_000 + 1
