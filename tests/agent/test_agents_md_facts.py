"""Facts in a managed block of a file: edited by hand, read back as changes of memory."""

from __future__ import annotations

import os
import stat
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from factmem import AssertionState, ChangeKind, Memory, MemoryScope, MemorySubject, MultipleFacts, SingleFact
from factmem.agent.agents_md import AgentsMdFacts
from factmem.errors import CodecError, InvalidDataError, MemoryFileError, OutOfViewError, StateConflictError
from factmem.records import Origin
from factmem.testing import HashEmbedder
from tests.memory.telling import CITY, PETS, SEATS

USER = MemorySubject("user", priority_level=1)
FAIR = "/product/fair"
KINDS = {ChangeKind.CREATED: "+", ChangeKind.UPDATED: "~", ChangeKind.DELETED: "-"}


@pytest.fixture
async def memory() -> AsyncIterator[Memory]:
    """A memory that knows where the user lives, how many seats there are, and two pets."""
    async with Memory("memory:", concepts=[CITY, SEATS, PETS], embedder=HashEmbedder(), viewer="alice") as memory:
        await memory.save(SingleFact(CITY, "Rome"), subject=USER, scope=FAIR)
        await memory.save(SingleFact(SEATS, 12), subject=USER, scope=FAIR)
        await memory.save(MultipleFacts(PETS, ("cat", "dog")), subject=USER, scope=FAIR)
        await memory.remember("I like tea.", subject=USER, scope=FAIR)
        yield memory


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that somebody wrote."""
    file = tmp_path / "AGENTS.md"
    file.write_bytes(b"# Ours\r\n\r\nNo newline at the end")
    return file


def of(memory: Memory, file: Path, **settings: Any) -> AgentsMdFacts:
    """The user's facts in a file."""
    return AgentsMdFacts(memory, file, **{"subjects": [USER], "scope": FAIR} | settings)


def read(file: Path) -> str:
    return file.read_bytes().decode()


def put(file: Path, text: str | bytes) -> None:
    file.write_bytes(text.encode() if isinstance(text, str) else text)


def size(file: Path) -> int:
    return file.stat().st_size


def mode(file: Path) -> int:
    return stat.S_IMODE(file.stat().st_mode)


def allow(file: Path, mode: int) -> None:
    file.chmod(mode)


def beside(file: Path) -> list[str]:
    """What lies in a file's folder."""
    return sorted(path.name for path in file.parent.iterdir())


def edit(file: Path, *edits: tuple[str, str]) -> None:
    """Edit a file as a person does; each text must stand there."""
    text = read(file)
    for before, after in edits:
        assert before in text
        text = text.replace(before, after)
    put(file, text)


async def changed(facts: AgentsMdFacts) -> list[str]:
    """What a sync changes in memory."""
    return sorted(
        f"{KINDS[change.kind]}{change.record.concept.keyword}={change.record.value}" for change in await facts.sync()
    )


def without(word: str, text: str) -> str:
    """A text without the lines that hold a word."""
    return "".join(line for line in text.splitlines(keepends=True) if word not in line)


async def test_facts_are_written_below_what_stands_there(memory: Memory, file: Path) -> None:
    assert await changed(of(memory, file)) == []
    text = read(file)
    assert text.startswith("# Ours\r\n\r\nNo newline at the end\r\n\r\n<!-- factmem:begin")
    assert "\n" not in text.replace("\r\n", "")
    shown = [line.partition(" (said ")[0] for line in text.splitlines() if line.startswith(("- ", "### "))]
    assert shown == [
        "### user in /product/fair",
        "- **city**: Rome",
        "- **pets**: cat",
        "- **pets**: dog",
        "- **seats**: 12",
        "- I like tea.",
    ]


async def test_a_file_that_is_not_there_is_made(memory: Memory, tmp_path: Path) -> None:
    await of(memory, tmp_path / "new.md").write()
    assert read(tmp_path / "new.md").startswith("<!-- factmem:begin")
    assert beside(tmp_path / "new.md") == ["new.md"]


async def test_an_edited_bullet_updates_its_record(memory: Memory, file: Path) -> None:
    facts = of(memory, file)
    await facts.sync()
    (city,) = await memory.list_records(concepts=[CITY])
    edit(file, ("Rome", "Oslo"), (": 12", ": 14"), ("dog", "dogfish"), ("like tea", "like green tea"))
    assert await changed(facts) == ["~city=Oslo", "~pets=dogfish", "~seats=14", "~statement=I like green tea."]
    assert (await memory.get(city.id)).value == "Oslo"
    assert [item.value for item in await memory.history(CITY)] == ["Rome", "Oslo"]
    assert (await memory.get(city.id)).details.source == str(file)
    assert await changed(facts) == []


async def test_a_bullet_that_is_gone_retracts_its_record_and_a_new_one_is_a_fact(memory: Memory, file: Path) -> None:
    facts = of(memory, file)
    await facts.sync()
    put(file, without("dog", without("seats", read(file))))
    edit(file, ("- **pets**: cat", "- **pets**: owl\n* a statement: so\n- **Note**: `x <b>`\n- **pets**: cat"))
    assert await changed(facts) == [
        "+statement=**Note**: `x <b>`",
        "+statement=a statement: so",
        "-seats=12",
        "~pets=owl",
    ]
    added = await memory.load(PETS, subject=USER, scope=FAIR)
    assert added is not None
    assert set(added.values) == {"cat", "owl"}
    (seats,) = await memory.history(SEATS)
    assert seats.state is AssertionState.RETRACTED, "it can be brought back"


async def test_a_new_bullet_may_name_a_concept_that_nothing_is_known_of(memory: Memory, file: Path) -> None:
    await memory.forget(concepts=[SEATS, CITY])
    for concepts, expected in (((), "+statement=**seats**: 3"), ((SEATS,), "+seats=4")):
        facts = of(memory, file, concepts=concepts)
        await facts.sync()
        number = expected[-1]
        edit(file, ("- I like tea.", f"- **seats**: {number}\n- I like tea."))
        assert await changed(facts) == [expected]


async def test_bullets_may_be_moved_about_and_split_over_lines(memory: Memory, file: Path) -> None:
    facts = of(memory, file)
    await facts.sync()
    lines = read(file).splitlines(keepends=True)
    bullets = iter([line for line in lines if line.startswith("- ")][::-1])
    put(file, "".join(next(bullets) if line.startswith("- ") else line for line in lines))
    assert await changed(facts) == []
    edit(file, ("like tea.", "like\n  tea.\n\n  ```sh\n  make\n  ```"))
    (change,) = await facts.sync()
    assert (change.kind, change.record.value) == (ChangeKind.UPDATED, "I like\ntea.\n\n```sh\nmake\n```")
    assert await changed(facts) == []


async def test_swapped_and_edited_bullets_are_told_by_their_words(memory: Memory, file: Path) -> None:
    await memory.remember("The launch is on Friday at the old harbour.", subject=USER, scope=FAIR)
    facts = of(memory, file)
    await facts.sync()
    edit(file, ("I like tea.", "@"), ("The launch is on Friday at the old harbour.", "I like green tea."))
    edit(file, ("@", "The launch is on Sunday at the old harbour."))
    assert await changed(facts) == [
        "~statement=I like green tea.",
        "~statement=The launch is on Sunday at the old harbour.",
    ]


async def test_an_unrelated_statement_is_no_edit_of_the_one_that_stood_there(memory: Memory, file: Path) -> None:
    facts = of(memory, file)
    await facts.sync()
    edit(file, ("I like tea.", "The hall closes at ten."))
    assert await changed(facts) == ["+statement=The hall closes at ten.", "-statement=I like tea."]


async def test_dates_are_told_and_not_read(memory: Memory, file: Path) -> None:
    facts = of(memory, file)
    await facts.sync()
    edit(file, ("(said 20", "(said 10"))
    assert await changed(facts) == []
    assert "(said 10" not in read(file)


async def test_edits_may_be_read_back_twice(memory: Memory, file: Path) -> None:
    facts = of(memory, file)
    await facts.sync()
    edit(file, ("Rome", "Oslo"), ("- I like tea.", "- new\n- I like milk."))
    put(file, without("dog", read(file)))
    before = read(file)
    assert len(await facts.read_back()) == 4
    assert read(file) == before
    assert await facts.read_back() == ()


async def test_what_memory_learns_meanwhile_is_written_and_is_no_edit(memory: Memory, file: Path) -> None:
    facts = of(memory, file)
    await facts.sync()
    await memory.save(SingleFact(CITY, "Bern"), subject=USER, scope=FAIR)
    await memory.save(MultipleFacts(PETS, ("eel",)), subject=USER, scope=FAIR)
    edit(file, (": 12", ": 13"))
    assert await changed(facts) == ["~seats=13"]
    assert "**city**: Bern" in read(file)
    assert "eel" in read(file)


async def test_what_both_sides_changed_is_a_conflict_and_nothing_is_done(memory: Memory, file: Path) -> None:
    facts = of(memory, file)
    await facts.sync()
    await memory.save(SingleFact(CITY, "Bern"), subject=USER, scope=FAIR)
    edit(file, ("Rome", "Oslo"), (": 12", ": 13"))
    before = read(file)
    with pytest.raises(StateConflictError, match="city was changed by somebody else") as failure:
        await facts.sync()
    assert not any(word in str(failure.value) for word in ("Oslo", "Bern", "Rome"))
    assert read(file) == before
    assert [item.value for item in await memory.list_records(concepts=[CITY, SEATS])] == ["Bern", 12]


async def test_writing_never_loses_edits(memory: Memory, file: Path) -> None:
    facts = of(memory, file)
    await facts.write()
    edit(file, ("Rome", "Oslo"))
    with pytest.raises(StateConflictError, match="read them back first"):
        await facts.write()
    assert "Oslo" in read(file)


async def test_a_file_that_was_written_meanwhile_is_left_as_it_is(
    memory: Memory, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = of(memory, file)

    def interfering(handle: int) -> None:
        put(file, "theirs")

    monkeypatch.setattr(os, "fsync", interfering)
    with pytest.raises(StateConflictError, match="wrote this file meanwhile"):
        await facts.sync()
    assert read(file) == "theirs"
    assert beside(file) == ["AGENTS.md"]


async def test_a_write_that_fails_leaves_the_file_and_nothing_else(
    memory: Memory, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = read(file)

    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MemoryFileError, match="No space left"):
        await of(memory, file).sync()
    assert read(file) == before
    assert beside(file) == ["AGENTS.md"]


async def test_permissions_and_a_byte_order_mark_are_kept(memory: Memory, file: Path) -> None:
    put(file, b"\xef\xbb\xbfhi\n")
    allow(file, 0o640)
    await of(memory, file).sync()
    assert mode(file) == 0o640
    assert read(file).startswith("\ufeffhi\n\n<!--")
    assert await changed(of(memory, file)) == []


async def test_a_link_is_neither_read_nor_replaced_unless_that_is_said(memory: Memory, file: Path) -> None:
    link = file.with_name("link.md")
    link.symlink_to(file.name)
    with pytest.raises(MemoryFileError, match="symbolic link"):
        await of(memory, link).sync()
    await of(memory, link, follow_links=True).sync()
    assert link.is_symlink()
    assert "Rome" in read(file)


async def test_a_file_that_is_no_utf_8_is_left_alone(memory: Memory, file: Path) -> None:
    put(file, b"caf\xe9")
    with pytest.raises(CodecError, match="not UTF-8"):
        await of(memory, file).sync()
    assert size(file) == 4


@pytest.mark.parametrize(
    ("before", "after", "why"),
    [
        ("**seats**: 12", "**seats**: a dozen", "line 13: the value of seats is not legal"),
        ("**city**: Rome", "**city**: Oslo\n- **city**: Bern", "city has one value"),
        ("- I like tea.", "I like tea.", "neither a bullet nor a heading"),
        ("### user in", "### usher in", "nothing is kept under this heading; there are '### user in /product/fair'"),
        ("- I like tea.", "-\n- I like tea.", "the bullet is blank"),
    ],
)
async def test_what_cannot_be_read_back_is_told_of_by_its_line_and_nothing_is_done(
    memory: Memory, file: Path, before: str, after: str, why: str
) -> None:
    facts = of(memory, file)
    await facts.sync()
    edit(file, (before, after), ("cat", "cow"))
    left = read(file)
    with pytest.raises(InvalidDataError, match=why) as failure:
        await facts.sync()
    assert str(file) in str(failure.value)
    assert not any(word in str(failure.value) for word in ("dozen", "Oslo", "Bern", "tea"))
    assert read(file) == left
    assert [item.value for item in await memory.list_records(concepts=[PETS])] == ["dog", "cat"]


async def test_words_of_an_origin_that_is_not_trusted_go_into_quarantine(memory: Memory, file: Path) -> None:
    facts = of(memory, file, origin=Origin.DOCUMENT)
    await facts.sync()
    edit(file, ("Rome", "Paris"), ("- I like tea.", "- I like rum.\n- I like tea."))
    changes = await facts.sync()
    assert {change.record.state for change in changes} == {AssertionState.QUARANTINED}
    assert "Paris" not in read(file)
    assert "rum" not in read(file)
    assert len(await memory.quarantine.list()) == 2
    put(file, without("dog", read(file)))
    with pytest.raises(InvalidDataError, match="cannot be taken out here"):
        await facts.sync()


async def test_secrets_are_redacted(memory: Memory, file: Path) -> None:
    facts = of(memory, file)
    await facts.sync()
    edit(file, ("- I like tea.", "- my password is hunter2xyz\n- I like tea."))
    await facts.sync()
    assert "hunter2xyz" not in read(file)
    assert "hunter2xyz" not in str([item.value for item in await memory.list_records()])


async def test_private_facts_stay_private_and_others_stay_out(memory: Memory, file: Path) -> None:
    facts = of(memory, file, private=True)
    await facts.sync()
    edit(file, ("- I like tea.", "- I snore.\n- I like tea."), ("Rome", "Oslo"))
    await facts.sync()
    assert "- I snore. (private, said" in read(file)
    other = memory.as_viewer("bob")
    assert "I snore." not in [item.value for item in await other.list_records()]
    assert "Oslo" in [item.value for item in await other.list_records()], "what was public still is"
    edit(file, ("I snore.", "I never snore."))
    await facts.sync()
    assert "I never snore." not in [item.value for item in await other.list_records()]


async def test_a_view_shows_and_takes_nothing_from_outside(memory: Memory, file: Path) -> None:
    await memory.save(SingleFact(CITY, "Bonn"), subject=USER, scope="/product/other")
    view = memory.scope(FAIR)
    await of(view, file, scope=None).write()
    assert "Bonn" not in read(file)
    edit(file, ("### user\r\n", "### user\r\n\r\n- outside\r\n"))
    with pytest.raises(OutOfViewError):
        await of(view, file, scope=None).sync()
    with pytest.raises(OutOfViewError):
        await of(view, file, scope="/product/other").write()


async def test_what_is_too_much_is_left_out_and_not_taken_for_gone(memory: Memory, file: Path) -> None:
    facts = of(memory, file, limit=2)
    await memory.remember("x" * 5_000, subject=USER, scope=FAIR)
    await facts.sync()
    assert "_4 more are too long or too many to be shown here._" in read(file)
    assert await changed(facts) == []
    assert len(await memory.list_records()) == 6


async def test_a_forged_index_reaches_nothing_that_is_not_shown(memory: Memory, file: Path) -> None:
    (other,) = await memory.save(SingleFact(CITY, "Bonn"), subject=USER, scope=MemoryScope.product("other"))
    facts = of(memory, file)
    await facts.sync()
    edit(file, ("<!-- factmem:end", f"<!-- factmem:end {other.id}:000000000000"))
    assert await changed(facts) == []
    assert (await memory.get(other.id)).value == "Bonn"
