"""Facts in a managed block of a file: edited by hand and read back as changes of memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from factmem import ChangeKind, Memory, MultipleFacts, SingleFact
from factmem.errors import StateConflictError
from factmem.records import AssertionState
from tests.agent.facts_in_file import (
    FAIR,
    USER,
    beside,
    changed,
    edit,
    of,
    put,
    read,
    without,
)
from tests.memory.telling import CITY, PETS, SEATS


async def test_facts_are_written_below_existing_text(memory: Memory, file: Path) -> None:
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


async def test_a_missing_file_is_created(memory: Memory, tmp_path: Path) -> None:
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
    assert seats.state is AssertionState.RETRACTED, "a retracted record can be restored"


async def test_a_new_bullet_may_name_a_new_concept(memory: Memory, file: Path) -> None:
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


async def test_swapped_and_edited_bullets_are_matched_by_their_words(memory: Memory, file: Path) -> None:
    await memory.remember("The launch is on Friday at the old harbour.", subject=USER, scope=FAIR)
    facts = of(memory, file)
    await facts.sync()
    edit(file, ("I like tea.", "@"), ("The launch is on Friday at the old harbour.", "I like green tea."))
    edit(file, ("@", "The launch is on Sunday at the old harbour."))
    assert await changed(facts) == [
        "~statement=I like green tea.",
        "~statement=The launch is on Sunday at the old harbour.",
    ]


async def test_an_unrelated_statement_is_not_an_edit_of_the_one_it_replaces(memory: Memory, file: Path) -> None:
    facts = of(memory, file)
    await facts.sync()
    edit(file, ("I like tea.", "The hall closes at ten."))
    assert await changed(facts) == ["+statement=The hall closes at ten.", "-statement=I like tea."]


async def test_dates_are_shown_and_not_read(memory: Memory, file: Path) -> None:
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


async def test_a_fact_learnt_meanwhile_is_written_and_is_not_an_edit(memory: Memory, file: Path) -> None:
    facts = of(memory, file)
    await facts.sync()
    await memory.save(SingleFact(CITY, "Bern"), subject=USER, scope=FAIR)
    await memory.save(MultipleFacts(PETS, ("eel",)), subject=USER, scope=FAIR)
    edit(file, (": 12", ": 13"))
    assert await changed(facts) == ["~seats=13"]
    assert "**city**: Bern" in read(file)
    assert "eel" in read(file)


async def test_a_change_on_both_sides_is_a_conflict_and_nothing_changes(memory: Memory, file: Path) -> None:
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
