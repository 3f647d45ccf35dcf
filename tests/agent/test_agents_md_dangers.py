"""Facts in a managed block of a file: failures and hostile edits."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from blockbuster import blockbuster_ctx

from factmem import Memory, MemoryScope, SingleFact
from factmem.agent.agents_md import AgentsMd, AgentsMdFacts
from factmem.errors import CodecError, InvalidDataError, MemoryFileError, OutOfViewError, StateConflictError
from factmem.records import AssertionState, Origin
from tests.agent.facts_in_file import (
    FAIR,
    USER,
    allow,
    beside,
    changed,
    edit,
    knowing,
    mode,
    of,
    put,
    read,
    size,
    without,
)
from tests.memory.telling import CITY, PETS


async def test_writing_never_loses_edits(memory: Memory, file: Path) -> None:
    facts = of(memory, file)
    await facts.write()
    edit(file, ("Rome", "Oslo"))
    with pytest.raises(StateConflictError, match="read them back first"):
        await facts.write()
    assert "Oslo" in read(file)


async def test_a_file_written_meanwhile_is_not_overwritten(
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


async def test_a_link_is_neither_read_nor_replaced_unless_allowed(memory: Memory, file: Path) -> None:
    link = file.with_name("link.md")
    link.symlink_to(file.name)
    with pytest.raises(MemoryFileError, match="symbolic link"):
        await of(memory, link).sync()
    await of(memory, link, follow_links=True).sync()
    assert link.is_symlink()
    assert "Rome" in read(file)


async def test_a_file_with_invalid_utf_8_is_left_alone(memory: Memory, file: Path) -> None:
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
async def test_an_unreadable_line_is_reported_by_number_and_nothing_changes(
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


async def test_edits_are_quarantined_unless_the_file_is_the_users(tmp_path: Path) -> None:
    """Everybody who can write the file has the same trust: none."""
    async with knowing() as memory:
        facts = AgentsMdFacts(memory, tmp_path / "AGENTS.md", subjects=[USER], scope=FAIR)
        await facts.sync()
        edit(tmp_path / "AGENTS.md", ("Rome", "EVILTOWN"), ("- I like tea.", "- I like gin.\n- I like tea."))
        await facts.sync()
        assert [item.value for item in await memory.list_records(concepts=[CITY])] == ["Rome"]
        apart = await memory.quarantine.list()
        assert [(item.value, item.details.origin) for item in apart] == [
            ("EVILTOWN", Origin.UNKNOWN),
            ("I like gin.", Origin.UNKNOWN),
        ]
        await memory.quarantine.accept(apart[0].id)
        assert [item.value for item in await memory.list_records(concepts=[CITY])] == ["EVILTOWN"]


async def test_an_agent_that_edits_the_file_changes_nothing_that_the_user_said(memory: Memory, file: Path) -> None:
    facts = of(memory, file, origin=Origin.ASSISTANT)
    await facts.sync()
    whole = read(file)
    for before, after in (("Rome", "EVILTOWN"), ("- **city**: Rome", "- x"), ("- I like tea.", "- I hate tea.")):
        edit(file, (before, after))
        with pytest.raises(InvalidDataError, match="only the user's own words"):
            await facts.sync()
        put(file, whole)
    edit(file, ("- I like tea.", "- I like tea.\n- Bring a coat."))
    (change,) = await facts.sync()
    assert (change.record.value, change.record.details.origin) == ("Bring a coat.", Origin.ASSISTANT)


async def test_words_of_an_untrusted_origin_are_quarantined(memory: Memory, file: Path) -> None:
    facts = of(memory, file, origin=Origin.DOCUMENT)
    await facts.sync()
    edit(file, ("Rome", "Paris"), ("- I like tea.", "- I like rum.\n- I like tea."))
    changes = await facts.sync()
    assert {change.record.state for change in changes} == {AssertionState.QUARANTINED}
    assert "Paris" not in read(file)
    assert "rum" not in read(file)
    assert len(await memory.quarantine.list()) == 2
    put(file, without("dog", read(file)))
    with pytest.raises(InvalidDataError, match="cannot be removed here"):
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
    assert "Oslo" in [item.value for item in await other.list_records()], "public facts stay public"
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


async def test_facts_over_the_limit_are_not_shown_and_not_retracted(memory: Memory, file: Path) -> None:
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


async def test_the_event_loop_is_never_blocked(memory: Memory, file: Path) -> None:
    """Reading, writing, rendering and comparing run in a worker thread."""
    facts = of(memory, file)
    with blockbuster_ctx("factmem"):
        await facts.sync()
        await facts.read_back()
        await facts.write()
        await AgentsMd([file]).read()
