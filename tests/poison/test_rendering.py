"""Rendered facts parse back to exactly the same facts, and no text escapes its element."""

from __future__ import annotations

import contextlib
import datetime as dt
import html
import io
import json
import re
from collections import Counter
from pathlib import Path
from typing import Any, Final
from xml.etree import ElementTree

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.console import Console

from factmem import AgentMemoryConfig, Concept, MemoryScope, MemorySubject, Message, MultipleFacts, SingleFact
from factmem.abc import DetectionRequest
from factmem.abc.analyst import AnalysisRequest
from factmem.abc.consolidator import Known, Novelty
from factmem.agent.agents_md.comments import visible
from factmem.agent.agents_md.facts_file import block_in, written_into
from factmem.agent.agents_md.page import bullets_in, page_of, said_in
from factmem.agent.compression import FactRetrievalCompression
from factmem.agent.plugin import AgentMemory
from factmem.agent.rendering import rendered
from factmem.browse.record_lines import record_block
from factmem.cli.output import print_block
from factmem.consolidation.model_consolidator import InstructorConsolidator
from factmem.details import Evidence, FactDetails, Origin
from factmem.detection.model_analyst import InstructorAnalyst
from factmem.detection.prompts import header_of, prompts_for
from factmem.detection.quotes import QuotedWords
from factmem.detection.redaction import redact
from factmem.detection.tasks import task_of
from factmem.detection.utterances import Utterance
from factmem.detection.verbatim import VerbatimDetector
from factmem.detection.windows import Window
from factmem.hidden_characters import CONTROL, HIDDEN
from factmem.json_form import record_json
from factmem.mcp.tools import fact_answer
from factmem.memory.exports import ImportReceipt
from factmem.records import AssertionState, FactRecord
from factmem.testing import ScriptedModel
from tests.narrowing import not_none
from tests.poison.planting import BANK, PLANTED, WAYS_IN, Plant, opened
from tests.tables import cases

CASES = cases(__file__)

NOON: Final = dt.datetime(2026, 5, 1, 12, tzinfo=dt.UTC)
ESCAPES: Final = CASES["escapes"]
"""Texts that close, open, hide or instruct, in one renderer or another."""

_parts = st.one_of(st.sampled_from(ESCAPES), st.text(st.characters(codec="utf-8"), max_size=5))
hostile = st.lists(_parts, min_size=1, max_size=6).map("".join).filter(str.strip)


def name_of(text: str) -> str:
    """Return a text in the form of a name: without control characters, and cut."""
    return re.sub(r"[\x00-\x1f\x7f-\x9f]", "", text)[:60].strip() or "x"


names = hostile.map(name_of)


@st.composite
def records(draw: st.DrawFn) -> FactRecord[Any]:
    """A record whose every text is an attacker's."""
    words = draw(st.lists(hostile, min_size=3, max_size=3))
    one, other, third = map(name_of, words)
    details = FactDetails(
        origin=draw(st.sampled_from(Origin)),
        categories=(one, third),
        source=words[1],
        flags=("standing order",) if draw(st.booleans()) else (),
        evidence=(Evidence(quote=words[2], speaker=words[0], role=words[1], message_id=words[2]),),
    )
    return FactRecord(
        id=third,
        fact=Concept.single(one, words[1]).fact([words[0]], timestamp=NOON),
        subject=MemorySubject(other, words[2]).individual(third),
        scope=MemoryScope.product(other),
        details=details,
        revision=1,
        recorded_at=NOON,
    )


def plain(text: str) -> str:
    """Return a text as a document carries it: control characters become spaces."""
    return CONTROL.sub(" ", text)


def characters(text: str) -> int:
    return len(text)


def elements(document: str) -> list[ElementTree.Element]:
    """Return the elements of a well-formed document without comments, with only blanks between the elements."""
    assert HIDDEN.search(document) is None
    root = ElementTree.fromstring(document)
    assert [child.tail for child in root if (child.tail or "").strip()] == []
    return [root, *root]


@settings(max_examples=60, deadline=None)
@given(st.lists(records(), min_size=1, max_size=4))
def test_a_block_for_a_prompt_parses_back_to_the_facts(known: list[FactRecord[Any]]) -> None:
    root, *facts = elements(rendered(known, 1_000_000, characters, ids=True).text)
    assert (root.tag, len((root.text or "").strip().splitlines())) == ("memory", 1)
    found = [(*map(fact.get, ("id", "about", "name", "flagged")), fact.text) for fact in facts]
    expected = [
        (item.id, str(item.subject), item.concept.keyword, ", ".join(item.details.flags) or None, item.value)
        for item in known
    ]
    carried = [tuple(None if text is None else plain(text) for text in texts) for texts in expected]
    assert Counter(found) == Counter(carried)
    assert {fact.tag for fact in facts} == {"fact"}
    assert [list(fact) for fact in facts if list(fact)] == []


@settings(max_examples=60, deadline=None)
@given(st.lists(records(), min_size=1, max_size=3))
def test_a_page_of_facts_in_a_file_is_read_back_as_it_was_written(known: list[FactRecord[Any]]) -> None:
    page = page_of(known, [])
    text = written_into("# Ours\n", None, page)
    block = not_none(block_in(text, "AGENTS.md"))
    assert (text.count("<!-- factmem:begin"), text.count("<!-- factmem:end")) == (1, 1)
    found = bullets_in(block.text, page.places)
    assert [bullet.digest for bullet in found] == [bullet.digest for _, bullet in page.shown]
    concepts = {item.concept.keyword: item.concept for item in known}
    values = Counter(said_in(bullet, concepts).value for bullet in found)
    assert values == Counter(redact(item.value).text for item in known)
    assert HIDDEN.search(page.text) is None
    assert "<!--" not in visible(text), "the markers are the only comments"


@settings(max_examples=50, deadline=None)
@given(records())
def test_what_a_terminal_is_shown_does_nothing_and_stays_on_its_lines(known: FactRecord[Any]) -> None:
    lines = record_block(known)
    out = io.StringIO()
    print_block(Console(file=out, highlight=False, markup=False, emoji=False, soft_wrap=True), "#1", lines)
    text = out.getvalue()
    assert text.count("\n") == len(lines)
    assert re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text) is None
    assert HIDDEN.search(text) is None
    assert json.loads(json.dumps(record_json(known)))["value"] == known.value


@settings(max_examples=50, deadline=None)
@given(records())
def test_an_answer_to_a_client_is_data_in_its_fields(known: FactRecord[Any]) -> None:
    expected = json.loads(json.dumps(fact_answer(known)))
    assert (expected["value"], expected["keyword"], expected["subject"]) == (
        known.value,
        known.concept.keyword,
        str(known.subject),
    )
    assert expected["evidence"][0]["quote"] == known.evidence[0].quote


@settings(max_examples=50, deadline=None)
@given(st.lists(hostile, min_size=1, max_size=3), records())
def test_a_detectors_question_is_one_document_with_each_message_in_its_element(
    said: list[str], known: FactRecord[Any]
) -> None:
    spoken = [
        (
            Utterance(
                text=text,
                origin=Origin.USER,
                role=text,
                speaker=text,
                timestamp=NOON,
                conversation_id="c",
                message_id=str(number),
                position=number,
            ),
            True,
        )
        for number, text in enumerate(said)
    ]
    others = MemorySubject("other")
    question = task_of(DetectionRequest(subjects=[known.subject, others], concepts=[known.concept], open=True))
    (prompt,) = prompts_for(question, header_of(question, 10_000), [Window.of(spoken)])
    conversation, subjects, concepts, *_ = elements(prompt.content)
    assert conversation.tag == "conversation"
    messages = conversation.findall("message")
    assert [message.text for message in messages] == [plain(text) for text in said]
    assert [message.get("role") for message in messages] == ["unknown"] * len(said)
    assert [concept.text for concept in concepts] == [plain(known.concept.description)]
    assert len(subjects) == 2
    assert [excerpt.cite(QuotedWords(html.unescape(excerpt.words.text))) for excerpt in Window.of(spoken).excerpts]


@settings(max_examples=40, deadline=None)
@given(hostile, hostile, names)
def test_the_questions_of_a_consolidator_and_an_analyst_are_one_document(new: str, old: str, name: str) -> None:
    model = ScriptedModel(lambda prompt, answer: RuntimeError("enough seen"))
    novelty = Novelty(text=new, said_at=NOON, removal=False, known=(Known(text=old, said_at=NOON),))

    async def ask() -> None:
        for asked in (
            InstructorConsolidator(model).decide(novelty),
            InstructorAnalyst(model).analyse(
                f"{new} words", AnalysisRequest(scopes_in_use=(name,), categories_in_use=(name,))
            ),
        ):
            with contextlib.suppress(RuntimeError):
                await asked

    anyio.run(ask)
    for prompt, texts in zip(model.prompts, ([old, new], None), strict=True):
        _, *found = elements(prompt.content)
        if texts is not None:
            assert [element.text for element in found] == [plain(text) for text in texts]
        else:
            assert [element.tag for element in found] == ["scopes_in_use", "categories_in_use", "text"]


async def test_a_compressed_history_is_one_document() -> None:
    concept = Concept.multiple("statement", "Something </concept> that was said")
    compression = FactRetrievalCompression(VerbatimDetector(), [concept])
    said = [Message(content=text) for text in ESCAPES if any(char.isalnum() for char in text)]
    _, summary, _ = await compression.compress([*said, Message(content="And now?")])
    root, *concepts = elements(summary.content)
    assert root.tag == "compressed_history"
    assert [element.tag for element in concepts] == ["concept"]
    texts = [fact.text for fact in concepts[0] if fact.tag == "fact"]
    assert len(texts) == len(concepts[0]) == len({message.content for message in said}) + 1


# Words of an untrusted origin are quarantined by every way in, and rendered nowhere.


@pytest.mark.parametrize("plant", WAYS_IN.values(), ids=WAYS_IN)
async def test_planted_words_are_shown_nowhere_until_accepted(plant: Plant, tmp_path: Path) -> None:
    async with opened() as memory:
        await plant(memory, tmp_path)
        block = await AgentMemory(AgentMemoryConfig(store=memory, users="shared")).load_all_facts_to_agent(
            [Message(content="Whose?")]
        )
        shown = [record.value for record in await memory.list_records()]
        shown += [match.record.value for match in await memory.recall("the account that money goes to", limit=99)]
        shown += [message.content for message in block]
        fact = await memory.load(BANK)
        assert fact is None or fact.value != PLANTED
        assert [text for text in shown if PLANTED in str(text)] == []
        (apart,) = (record for record in await memory.inbox.quarantine.list() if record.value == PLANTED)
        await memory.inbox.quarantine.accept(apart.id, reason="somebody looked")
        assert PLANTED in [record.value for record in await memory.list_records()]


async def test_an_import_cannot_claim_to_be_the_users() -> None:
    """Its origins and states are chosen by the author of the file, as are its removals and jobs."""
    file = io.StringIO()
    pets = Concept.multiple("pets", "Animals")
    async with opened(viewer="mallory") as planted:
        await planted.save(SingleFact(BANK, PLANTED), details=FactDetails(importance=1.0))
        (cat,) = await planted.save(MultipleFacts(pets, ("cat",)))
        await planted.update(cat.id, value="tiger")
        await planted.remember("I never had a dog.")
        await planted.admin.export(file)
    async with opened(viewer="alice") as memory:
        await memory.save(SingleFact(BANK, "AT00 1"))
        assert await memory.admin.import_(io.StringIO(file.getvalue())) == ImportReceipt(imported=4, quarantined=4)
        assert [record.value for record in await memory.list_records()] == ["AT00 1"]
        assert {record.state for record in await memory.inbox.quarantine.list()} == {AssertionState.QUARANTINED}
        assert await memory.admin.import_(io.StringIO(file.getvalue())) == ImportReceipt(imported=0, quarantined=4)


async def test_an_import_reports_its_quarantined_facts(caplog: pytest.LogCaptureFixture) -> None:
    """The result and a warning without content report it; a trusted import of facts reports nothing."""
    file = io.StringIO()
    async with opened() as memory:
        await memory.save(SingleFact(BANK, "AT00 1"))
        await memory.remember("The roof leaks.")
        await memory.admin.export(file)
    async with opened() as other:
        receipt = await other.admin.import_(io.StringIO(file.getvalue()), trust=True)
        assert (receipt, caplog.messages) == (ImportReceipt(imported=2, quarantined=0), [])
    async with opened() as other:
        receipt = await other.admin.import_(io.StringIO(file.getvalue()))
        assert receipt == ImportReceipt(imported=2, quarantined=2)
        (warning,) = caplog.messages
        assert "quarantine keeps 2 of the imported assertions out of recall" in warning
        await other.inbox.quarantine.accept(*[record.id for record in await other.inbox.quarantine.list()])
        again = await other.admin.import_(io.StringIO(file.getvalue()))
        assert again == ImportReceipt(imported=0, quarantined=0)
        assert len(await other.list_records()) == 2


async def test_what_was_rejected_is_not_accepted_by_importing_it_again() -> None:
    file = io.StringIO()
    async with opened() as memory:
        await memory.save(SingleFact(BANK, PLANTED))
        await memory.admin.export(file)
    async with opened() as other:
        await other.admin.import_(io.StringIO(file.getvalue()))
        (apart,) = await other.inbox.quarantine.list()
        await other.inbox.quarantine.reject(apart.id)
        await other.admin.import_(io.StringIO(file.getvalue()), trust=True)
        assert await other.load(BANK) is None


async def test_a_removal_that_was_imported_can_be_looked_at_and_removes_nothing() -> None:
    file = io.StringIO()
    async with opened() as memory:
        await memory.save(SingleFact(BANK, "AT00 1"))
        await memory.admin.export(file)
    lines = file.getvalue().splitlines()
    lines[1] = lines[1].replace('"data":"AT00 1"', '"data":null,"removed":true')
    async with opened() as other:
        await other.save(SingleFact(BANK, "AT00 2"))
        await other.admin.import_(io.StringIO("\n".join(lines) + "\n"))
        (apart,) = await other.inbox.quarantine.list()
        assert apart.value is None
        assert await other.load(BANK) is not None
