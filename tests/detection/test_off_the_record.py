"""Words that the user asks to keep off the record: neither stored nor sent to a model."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from factmem import Concept, Memory, Message
from factmem.abc.detector import Conversation, DropReason
from factmem.detection.redaction import OFF_THE_RECORD, redact, redact_conversation
from factmem.testing import HashEmbedder, ScriptedModel
from tests.tables import each_case

UNSAVED: Final = f"[redacted: {OFF_THE_RECORD}]"
MARKED, HONEST = (
    [line for line in part.splitlines() if not line.startswith("#")]
    for part in (Path(__file__).with_name("off_the_record.txt")).read_text(encoding="utf-8").split("\n\n")
)


def kept(text: str, role: str = "user") -> str:
    """Return a message as it is kept."""
    (message,) = redact_conversation(Conversation(messages=[Message(content=text, role=role)])).messages
    return message.content


@pytest.mark.parametrize("text", MARKED)
def test_words_off_the_record_are_not_kept(text: str) -> None:
    parts = re.findall("«(.*?)»", text)
    assert kept(re.sub("[«»]", "", text)) == UNSAVED.join(parts or ["", ""])


@pytest.mark.parametrize("text", HONEST)
def test_words_about_records_are_kept(text: str) -> None:
    assert kept(text) == text


@each_case("behind")
def test_nobody_else_can_ask_for_it(behind: str) -> None:
    assert kept(f"I live in Ulm.\n\n{behind}") == f"I live in Ulm.\n\n{behind}"
    assert kept(f"I live in Ulm. Please don't save this.\n\n{behind}") == f"{UNSAVED}\n\n{behind}"


def test_a_label_takes_its_line() -> None:
    assert kept("I live in Ulm.\nOff the record: Bo drinks.\nI like tea.") == f"I live in Ulm.\n{UNSAVED}\nI like tea."
    assert kept("Off the record:\nBo drinks.\nI like tea.") == f"{UNSAVED}\nI like tea."


def test_only_the_user_can_ask_for_it() -> None:
    text = "Off the record: the museum closes."
    assert [kept(text, role) for role in ("user", "assistant", "tool", "document")] == [UNSAVED, *[text] * 3]
    assert redact(text).text == text  # as a query


@pytest.mark.parametrize("reads", [False, True], ids=["without a model", "with a model"])
async def test_the_receipt_counts_the_messages(reads: bool) -> None:
    seen: list[str] = []

    def script(prompt: Any, answer: Any) -> dict[str, Any]:
        seen.append(prompt.content)
        return {}

    model, city = ScriptedModel(script) if reads else None, Concept.single("city", "Where the user lives")
    async with Memory("memory:", model=model, concepts=[city], embedder=HashEmbedder()) as memory:
        said = ["I live in Ulm (off the record: since the divorce).", "Don't remember this: I drink.", "I like tea."]
        outcome = await memory.remember([Message(content=text) for text in said])
        assert outcome.dropped == {DropReason.OFF_THE_RECORD: 2}
        assert {record.value for record in await memory.list_records()} == {
            f"I live in Ulm ({UNSAVED}).",
            "I like tea.",
        }
        submission = await memory.inbox.ingest_events("chat", [Message(content=said[1], id="1")])
        await submission.wait()
        assert submission.dropped == {DropReason.OFF_THE_RECORD: 1}
        assert [word for word in ("divorce", "drink") if word in str(seen)] == []
        assert (await memory.remember("Off the record: Bo left.")).dropped == {DropReason.OFF_THE_RECORD: 1}
