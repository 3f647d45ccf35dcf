"""Documents: passages with their place, apart until they are accepted, and kept up with the file."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem import InMemoryProvider, Memory, MemoryScope, Origin
from factmem.errors import FileFormatError, InvalidDataError
from factmem.importers import ImportOptions, ingest_document
from factmem.importers.documents import passages_in
from factmem.testing import HashEmbedder
from tests.importers.conftest import DATED
from tests.tables import each_case

DOCUMENTS = Path(__file__).with_name("fixtures") / "documents"

pytestmark = pytest.mark.anyio

HANDBOOK = (DOCUMENTS / "handbook.md").read_text(encoding="utf-8")


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    async with Memory(InMemoryProvider(), embedder=HashEmbedder()) as memory:
        yield memory


@pytest.fixture
def handbook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    path = Path("handbook.md")
    path.write_text(HANDBOOK, encoding="utf-8")
    return path


def write(path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")


async def believed(memory: Memory) -> set[str]:
    return {str(record.value) for record in await memory.list_records()}


async def waiting(memory: Memory) -> set[str]:
    return {str(record.value) for record in await memory.inbox.quarantine.list()}


def test_markdown_is_passages_below_their_headings() -> None:
    assert [passage.statement for passage in passages_in(HANDBOOK, markdown=True)] == [
        "Harbour Fair: The fair takes place every spring, says the site.",
        "Harbour Fair > Venue > Seats: 120 of them.",
        "Harbour Fair > Venue > Seats: Coffee at nine\nwith milk",
        "Harbour Fair > Venue > Seats: Lunch at noon",
        "Harbour Fair > Hours: day | opens\nMon | 9:00",
        "Harbour Fair > Hours: open --door",
        "Harbour Fair > Hours: The exit is behind the stage.",
    ]


README = (DOCUMENTS / "readme.md").read_text(encoding="utf-8")


def test_html_is_passages_without_its_tags() -> None:
    assert [(passage.statement, passage.line) for passage in passages_in(README, markdown=True)] == [
        ("Shop & till: The API listens on port 9090, see the guide.\nAsk ann.", 5),
        ("Shop & till: How to deploy", 11),
        ("Shop & till: Run make deploy <br> on Tuesdays.", 13),
        ("Shop & till: Stage | Owner\nStaging | bob ann eve\nYes.", 17),
        ("Shop & till: An item.", 24),
        ("Shop & till: Never run migrations on Friday.", 26),
        ("Shop & till > Later: Unclosed <b", 28),
    ]


def test_parts_of_a_long_table_begin_with_its_header() -> None:
    rows = [f"| service{number} | {8000 + number} |" for number in range(200)]
    text = "\n".join(["# Ports", "", "| name | port |", "|------|------|", *rows, "", "The end."])
    *parts, end = passages_in(text, markdown=True)
    assert len(parts) > 1
    assert all(part.text.startswith("name | port\nservice") and len(part.text) <= 2_000 for part in parts)
    assert [row for part in parts for row in part.text.split("\n")[1:]] == [row.strip("| ") for row in rows]
    assert [part.quote.split("\n")[-1] for part in parts][-1] == rows[-1]
    assert parts[1].quote.split("\n")[0].strip("| ") == parts[1].text.split("\n")[1]
    assert end.statement == "Ports: The end."


def test_a_long_header_is_not_repeated() -> None:
    text = f"| {'h' * 501} |\n|---|\n" + "| row |\n" * 1_000
    passages = list(passages_in(text, markdown=True))
    assert len(passages) > 1
    assert sum(passage.text.count("h" * 501) for passage in passages) == 1


@each_case("table", "passages")
async def test_empty_cells_are_no_words(memory: Memory, tmp_path: Path, table: str, passages: list[str]) -> None:
    write(tmp_path / "table.md", f"{table}\n\nThe end.\n")
    await ingest_document(memory, tmp_path / "table.md", trust=True)
    assert await believed(memory) == {*passages, "The end."}


@each_case("html", "statements")
def test_no_word_of_a_heading_is_lost(html: str, statements: list[str]) -> None:
    assert [passage.statement for passage in passages_in(html, markdown=True)] == statements


@each_case("html", "shown")
def test_what_html_hides_stays_hidden_behind_a_blank_line(html: str, shown: list[str]) -> None:
    """Up to its end; what has none hides the rest of its block."""
    assert [passage.statement for passage in passages_in(html, markdown=True)] == shown


def test_long_html_is_split_between_its_lines() -> None:
    lines = [f"<li>Rule {number} of the <b>house</b></li>" for number in range(300)]
    first, *others = passages_in("<ul>\n" + "\n".join(lines) + "\n</ul>\n", markdown=True)
    assert others
    assert all(len(part.text) <= 2_000 and "<" not in part.text for part in (first, *others))
    said = [row for part in (first, *others) for row in part.text.split("\n")]
    assert said == [f"Rule {number} of the house" for number in range(300)]
    assert lines[299] in others[-1].quote
    assert lines[299] not in first.quote


@pytest.mark.slow
@each_case("piece")
def test_damaged_html_takes_linear_time(piece: str) -> None:
    """The parser of the standard library takes minutes for some of these."""
    list(passages_in("<div>\n" + piece * 20_000, markdown=True))


@given(
    text=st.lists(
        st.sampled_from(
            [
                "# A",
                "## B",
                "word. ",
                "x" * 3000,
                "- item",
                "  - in",
                "> said",
                "```",
                "| a | b |",
                "---",
                "<p>",
                "</p> <td>so",
                "<h2>C</h2>",
                "<script>",
                "</script>",
            ]
        )
        | st.text(max_size=30),
        max_size=20,
    ).map("\n".join),
    markdown=st.booleans(),
)
def test_every_quote_stands_at_its_offset_and_line(text: str, markdown: bool) -> None:
    clean = text.replace("\r\n", "\n").replace("\r", "\n")
    for passage in passages_in(clean, markdown=markdown):
        assert clean[passage.start : passage.start + len(passage.quote)] == passage.quote
        assert clean[: passage.start].count("\n") >= passage.line - 1
        assert passage.text.strip()


def test_plain_text_is_paragraphs_and_long_ones_are_split() -> None:
    text = "One\ntwo.\n\n# three\n\n" + "A sentence of some words. " * 200
    first, second, *pieces = passages_in(text, markdown=False)
    assert (first.statement, second.statement, second.line) == ("One two.", "# three", 4)
    assert len(pieces) > 1
    assert all(len(piece.text) <= 2_000 and piece.text.endswith(".") for piece in pieces)


async def test_a_document_is_not_believed_until_it_is_accepted(memory: Memory, handbook: Path) -> None:
    report = await ingest_document(memory, handbook)
    assert (report.passages, report.new, report.quarantined) == (7, 7, 7)
    assert await believed(memory) == set()
    one = (await memory.inbox.quarantine.list())[1]
    assert one.details.origin is Origin.DOCUMENT
    await memory.inbox.quarantine.accept(one.id)
    assert await believed(memory) == {"Harbour Fair > Venue > Seats: 120 of them."}
    again = await ingest_document(memory, handbook, trust=True)
    assert (again.new, again.accepted, again.quarantined) == (0, 6, 0)
    assert len(await believed(memory)) == 7


async def test_a_passage_shows_its_file_heading_line_and_words(memory: Memory, handbook: Path, tmp_path: Path) -> None:
    await ingest_document(memory, handbook, trust=True)
    match, *_ = await memory.recall("How many seats are there?", sources=["handbook.md"])
    details = match.record.details
    (evidence,) = details.evidence
    assert (details.source, evidence.message_id) == ("handbook.md", "line 11")
    path = f"{tmp_path}/handbook.md"
    assert evidence.conversation_id == path
    assert details.metadata == {"document": path, "heading": "Harbour Fair > Venue > Seats", "line": 11}
    assert HANDBOOK[evidence.start : evidence.end] == evidence.quote == "120 of them."


async def test_the_same_file_adds_nothing_even_if_it_was_touched(memory: Memory, handbook: Path) -> None:
    await ingest_document(memory, handbook, trust=True)
    before = await memory.admin.audit()
    os.utime(handbook, (1_700_000_000, 1_700_000_000))
    report = await ingest_document(memory, handbook, trust=True)
    assert (report.new, report.gone, report.accepted) == (0, 0, 0)
    assert (await memory.admin.audit()).entries == before.entries


@pytest.mark.parametrize("trust", [True, False])
async def test_a_changed_file_replaces_what_it_does_not_say_any_more(
    memory: Memory, handbook: Path, trust: bool
) -> None:
    await memory.remember("120 of them.")
    await ingest_document(memory, handbook, trust=trust)
    write(handbook, HANDBOOK.replace("120 of", "150 of"))
    report = await ingest_document(memory, handbook, trust=trust)
    assert (report.new, report.gone) == (1, 1)
    there = await (believed(memory) if trust else waiting(memory))
    assert {value for value in there if "0 of them" in value} - {"120 of them."} == {
        "Harbour Fair > Venue > Seats: 150 of them."
    }
    assert "120 of them." in await believed(memory), "what a person said is not the document's"


async def test_two_documents_and_two_scopes_stay_apart(memory: Memory, tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    for path in (first, second):
        path.write_text("The hall is open.\n\nOnly here " + path.name, encoding="utf-8")
    fair = ImportOptions(scope=MemoryScope.product("fair"))
    for path in (first, second):
        await ingest_document(memory, path, trust=True)
    await ingest_document(memory, first, options=fair, trust=True)
    first.write_text("Nothing.", encoding="utf-8")
    report = await ingest_document(memory, first, options=fair, trust=True)
    assert report.gone == 2
    everywhere = {str(record.value) for record in await memory.list_records(scope=MemoryScope.CROSS_PRODUCT)}
    assert everywhere == {"The hall is open.", "Only here a.txt", "Only here b.txt"}


async def test_two_files_of_one_name_are_two_documents(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for folder in ("alpha", "beta"):
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        write(Path("README.md"), f"# {folder}\n\nIt is ready.\n")
        report = await ingest_document(memory, "README.md", trust=True)
        assert (report.document, report.new, report.gone) == ("README.md", 1, 0)
    again = await ingest_document(memory, tmp_path / "alpha" / ".." / "alpha" / "README.md", trust=True)
    assert (again.new, again.gone) == (0, 0)
    assert await believed(memory) == {"alpha: It is ready.", "beta: It is ready."}


@pytest.mark.parametrize("trust", [True, False])
async def test_a_passage_that_returns_to_a_file_of_the_same_date_is_back(
    memory: Memory, handbook: Path, trust: bool
) -> None:
    for text in ("Open at nine.", "Closed.", "Open at nine."):
        write(handbook, text)
        os.utime(handbook, (1_700_000_000, 1_700_000_000))
        report = await ingest_document(memory, handbook, trust=trust)
        assert report.new == 1
    assert await (believed(memory) if trust else waiting(memory)) == {"Open at nine."}


async def test_a_passage_that_a_person_retracted_stays_retracted(memory: Memory, handbook: Path) -> None:
    await ingest_document(memory, handbook, trust=True)
    retracted = (await memory.list_records())[0]
    await memory.retract(retracted.id, reason="not true")
    report = await ingest_document(memory, handbook, trust=True)
    assert report.new == 0
    assert retracted.value not in await believed(memory)


async def test_a_passage_of_two_documents_stays_while_one_of_them_holds_it(memory: Memory, tmp_path: Path) -> None:
    first, second = tmp_path / "a.txt", tmp_path / "b.txt"
    for path in (first, second):
        write(path, "The hall is open.")
        await ingest_document(memory, path, trust=True)
    again = await ingest_document(memory, first, trust=True)
    assert (again.new, again.gone) == (0, 0)
    write(second, "Nothing.")
    report = await ingest_document(memory, second, trust=True)
    assert (report.new, report.gone) == (1, 0)
    assert await believed(memory) == {"The hall is open.", "Nothing."}


async def test_secrets_are_redacted_and_a_private_document_is_its_owners(memory: Memory, tmp_path: Path) -> None:
    path = tmp_path / "keys.txt"
    path.write_text("The password is hunter2-Xq9!zz.\n\nOpen at nine.", encoding="utf-8")
    options = ImportOptions(private=True, owner="maya")
    maya = memory.view(viewer="maya")
    report = await ingest_document(maya, path, options=options, trust=True)
    assert report.redacted == 1
    assert not any("hunter2" in value for value in await believed(maya))
    assert len(await believed(maya)) == 2
    assert await believed(memory) == set()
    again = await ingest_document(maya, path, options=options, trust=True)
    assert (again.new, again.gone) == (0, 0)


async def test_what_is_no_document_is_an_error(memory: Memory, tmp_path: Path) -> None:
    with pytest.raises(FileFormatError):
        await ingest_document(memory, tmp_path / "missing.md")
    (tmp_path / "bytes.txt").write_bytes(bytes(range(256)) * 10)
    with pytest.raises(FileFormatError):
        await ingest_document(memory, tmp_path / "bytes.txt")
    (tmp_path / "future.txt").write_text("Later.")
    with pytest.raises(InvalidDataError):
        await ingest_document(memory, tmp_path / "future.txt", options=ImportOptions(now=DATED.replace(year=2001)))
    assert await waiting(memory) == set()
