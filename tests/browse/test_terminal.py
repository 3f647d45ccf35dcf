"""The browser in the terminal, with keys pressed as a person presses them; then the store is looked at."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import re
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from textual import events
from textual.binding import Binding
from textual.keys import _character_to_key
from textual.pilot import Pilot
from textual.widgets import Input

from factmem.abc.detector import Message
from factmem.browse.browser import Browser, Narrowing, Opened
from factmem.browse.record_rows import value_of
from factmem.browse.terminal import pages
from factmem.browse.terminal.app import TerminalBrowser, help_page, run
from factmem.browse.terminal.pictures import axis_of, bar, plain
from factmem.browse.terminal.widgets import RecordTable, sentence_of
from factmem.changes import Change
from factmem.details import FactDetails
from factmem.errors import CapabilityError, ModelUnavailableError
from factmem.facts import Concept, MultipleFacts, SingleFact
from factmem.hidden_characters import CONTROL, HIDDEN
from factmem.memory.facade import Memory
from factmem.recall.results import RecallMatches
from factmem.subjects import MemorySubject
from factmem.testing import HashEmbedder, ScriptedModel
from tests.browse.conftest import CITY, DAY, MAYA, SEATS
from tests.fork_server import ForkServer
from tests.narrowing import not_none
from tests.tables import each_case

HOSTILE = (
    "[red]not red[/red]",
    "[@click=app.quit]press me[/]",
    "[/] [bold [ \\[ ]]",
    "\x1b[31mred\x1b[0m \x1b]0;title\x07 \x9b2J",
    "\x1b]8;;https://evil.example\x1b\\link\x1b]8;;\x1b\\",
    "right \u202eto left\u202c and \u2066back\u2069 \u200b\u200b",
    "one line\nand another\r\nand\tone\x0bmore\x0cyet\u2028end",
    "e\u0301\u0323" * 20 + " 👩\u200d👩\u200d👧\u200d👦 🇳🇴 한국어 ภาษาไทย العربية",
    "wide " + "漢" * 400,
    "long " + "x" * 200_000,
    "$accent $primary {braces} %s %(name)s :smile:",
)
"""Texts that mean harm to a terminal, or to a program that reads markup."""

EACH_KIND = tuple(HOSTILE[number] for number in (1, 3, 5, 6))
"""Texts with a link of markup, control characters, hidden characters and odd ends of lines."""


@pytest.fixture
def anyio_backend() -> str:
    """Textual runs on asyncio alone."""
    return "asyncio"


@pytest.fixture(autouse=True)
def short_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look every four milliseconds whether a key is obeyed: Textual looks every twenty, half of the time."""
    monkeypatch.setattr("textual._wait.SLEEP_GRANULARITY", 0.004)
    monkeypatch.setattr("textual._wait.SLEEP_IDLE", 0.0005)


@contextlib.asynccontextmanager
async def browsing(
    memory: Memory | Browser, *, size: tuple[int, int] = (80, 24), every: float = 60, **opened: Any
) -> AsyncIterator[Pilot[None]]:
    """Show a memory in a terminal of so many cells, without a look for changes of others unless it is asked for."""
    browser = Browser(memory, Opened(store="test", **opened)) if isinstance(memory, Memory) else memory
    app = TerminalBrowser(browser, every=every)
    app.animation_level = "none"
    async with app.run_test(size=size, notifications=True) as pilot:
        await until(pilot, "newest first")
        yield pilot


@pytest.fixture
async def pilot(memory: Memory) -> AsyncIterator[Pilot[None]]:
    async with browsing(memory) as pilot:
        yield pilot


def seen(pilot: Pilot[Any]) -> str:
    """Return the screen as text, line by line."""
    return "\n".join(strip.text.rstrip() for strip in pilot.app.screen._compositor.render_strips())


async def until(pilot: Pilot[Any], wanted: str | Callable[[], bool]) -> str:
    """Wait for a text on the screen, or for anything else; return the screen."""
    given_up = time.monotonic() + 60
    while True:
        await pilot.pause()
        screen = seen(pilot)
        if (wanted in screen) if isinstance(wanted, str) else wanted():
            return screen
        assert time.monotonic() < given_up, f"{wanted} does not come:\n{screen}"
        await asyncio.sleep(0.02)


async def notified(pilot: Pilot[Any], text: str) -> None:
    """Wait for a short message with a text."""
    await until(pilot, lambda: any(text in note.message for note in pilot.app._notifications))
    await until(pilot, lambda: bool(pilot.app.screen.query("Toast")))


async def press(pilot: Pilot[Any], *keys: str, then: str | Callable[[], bool] = "", notice: str = "") -> str:
    """Press keys, or type what follows a quotation mark; wait until all is obeyed, and as `until` or `notified` do."""
    for key in keys:
        if key.startswith("'"):
            rush(pilot, key)
            await pilot.pause()
        else:
            await pilot.press(key)
    if notice:
        await notified(pilot, notice)
    return await until(pilot, then) if then else ""


def rush(pilot: Pilot[Any], *keys: str) -> None:
    """Press keys faster than the browser obeys them."""
    for key in itertools.chain.from_iterable(key[1:] if key.startswith("'") else [key] for key in keys):
        is_text = len(key) == 1
        pilot.app.post_message(events.Key(_character_to_key(key) if is_text else key, key if is_text else None))


async def values(memory: Memory) -> list[object]:
    """Return the values that are current."""
    return sorted((record.value for record in await memory.list_records()), key=str)


# -- Looking ----------------------------------------------------------------------------------------------------------


async def test_the_first_page_shows_scopes_with_counts_and_the_newest_facts(pilot: Pilot[None]) -> None:
    screen = await press(pilot, "p", "down", "down", "down", "right", "down", "right", then="stage")
    assert screen.splitlines()[1:12] == (Path(__file__).parent / "screens" / "memory.txt").read_text().splitlines()


@pytest.mark.parametrize(
    "size",
    [(40, 12), *(pytest.param(size, marks=pytest.mark.big) for size in ((80, 24), (120, 30), (220, 60)))],
    ids=str,
)
async def test_every_page_fits_every_size(memory: Memory, size: tuple[int, int]) -> None:
    async with browsing(memory, size=size) as pilot:
        for keys in (
            ("s", "g", "escape"),
            ("enter", "escape"),
            ("i", "escape"),
            ("a", "escape"),
            ("question_mark", "escape"),
        ):
            await press(pilot, *keys)
        await pilot.resize_terminal(100, 20)
        await until(pilot, "newest first")


async def test_a_search_shows_scores_parts_and_reasons_while_typing(pilot: Pilot[None]) -> None:
    screen = await press(pilot, "slash", "'how many seats", then="because: ")
    assert re.search(r"█+\S* +\d\.\d\d +seats +120", screen)
    assert re.search(r"similarity █*\S* *\d\.\d\d +words and meaning together", screen)
    assert "lexical" in screen
    await press(pilot, "escape", "escape")
    assert "because: " not in await until(pilot, "newest first")


async def test_a_scope_that_holds_nothing_is_said_first(memory: Memory) -> None:
    opened = Opened(store="test", walls=("/prodct/fair",), note="no record is in /prodct/fair: did you mean it so?")
    async with browsing(Browser(memory.scope("/prodct/fair"), opened)) as pilot:
        await notified(pilot, "no record is in /prodct/fair")


async def test_a_search_that_nothing_answers_says_so_above_the_nearest(pilot: Pilot[None]) -> None:
    screen = await press(pilot, "slash", "'zxqv blorp", then="Nothing answers this. Nearest:")
    assert "Norwegian" in screen


async def test_conditions_of_the_tree_hold_together_and_are_cleared(pilot: Pilot[None]) -> None:
    await press(pilot, "p", "down", "down", "down", "right", "down", "enter", then="scope /product/fair")
    table = pilot.app.screen.query_one(RecordTable)
    await until(pilot, lambda: {row.value for row in _shown(table)} == {120, "The stage is built in the yard."})
    # subjects, everything
    await press(pilot, "down", "right", "down", "enter", then=lambda: len(_shown(table)) == 1)
    await press(pilot, "tab", "tab", "escape", then=lambda: len(_shown(table)) == 5)


def _shown(table: RecordTable) -> list[Any]:
    return [getattr(item, "record", item) for item in table.items]


async def test_a_long_listing_is_read_on_at_its_end(memory: Memory) -> None:
    many = Concept.multiple("numbers", "Numbers", int)
    await memory.save(MultipleFacts(many, tuple(range(120)), timestamp=DAY), subject=MAYA)
    async with browsing(memory) as pilot:
        table = pilot.app.screen.query_one(RecordTable)
        assert len(table.items) == 50
        await press(pilot, "ctrl+end", then="100 records and more")
        await press(pilot, "ctrl+end", then="125 records, newest first")
        assert table.cursor_row == 99


async def test_a_record_shows_its_evidence_its_revisions_and_who_changed_it(pilot: Pilot[None]) -> None:
    screen = await press(pilot, "enter", then="Done to it")
    for text in (
        "seats = 120",
        "description Seats at the venue",
        "“We have 120 seats now.” — Maya (user), conversation monday",
        "2026-03-02 ○────────────────────────────● 2026-03-11",
        "○ 2026-03-02 09:00  80  superseded, revision 1, until 2026-03-11",
        "● 2026-03-11 09:00  120  active, revision 2",
        "by test",
    ):
        assert text in screen, text


async def test_the_facts_of_a_subject_are_a_table_and_a_tree_of_its_concepts(pilot: Pilot[None]) -> None:
    await press(pilot, "s")
    assert "The person who talks with the agent  4 records" in await until(pilot, "languages  Norwegian")
    screen = await press(pilot, "g", then="▼ user:maya")
    assert re.findall(r"(?:[▼─] )+(.*)", screen)[:7] == [
        "user:maya",
        "city",
        "Oslo",
        "languages",
        "Dutch",
        "Norwegian",
        "seats",
    ]
    await press(pilot, "down", "down", "down", "down", "enter", then="languages = Dutch")


async def test_the_page_of_the_agent_shows_the_block_word_for_word(memory: Memory) -> None:
    async with browsing(memory, size=(100, 40)) as pilot:
        await press(pilot, "a", then="no fact is known that the agent would get")
        screen = await press(
            pilot,
            "'Where does she live?",
            "tab",
            "'maya",
            "tab",
            "tab",
            "tab",
            "'fair",
            then="in /product/fair, /cross-product",
        )
        assert '<fact about="user:maya" name="city" said="2026-03-02">Oslo</fact>' in screen
        await press(pilot, "tab", "end", "'x")
        await press(pilot, *["backspace"] * 5, then="The number of tokens is not a number")


# -- Changing ---------------------------------------------------------------------------------------------------------


async def test_an_edit_is_saved_as_a_new_revision(memory: Memory) -> None:
    async with browsing(memory) as pilot:
        await press(pilot, "enter", then="Done to it")
        await press(pilot, "e", then="Edit seats")
        await press(pilot, "end", "backspace", "'5", "tab", "tab", "end", "'9", "ctrl+s", then="125  active")
    assert not_none(await memory.load(SEATS, subject=MAYA, scope="/product/fair")).value == 125
    (record,) = await memory.list_records(concepts=["seats"])
    assert record.details.importance == 0.59


async def test_keys_are_obeyed_in_their_order_however_fast_they_come(memory: Memory) -> None:
    async with browsing(memory) as pilot:
        await press(pilot, "e", then="Edit seats")
        rush(pilot, "end", "backspace", "'5", "left", "left", "'3", "ctrl+s", "'7")
        await notified(pilot, "Saved.")
        assert 1325 in await values(memory)
        rush(pilot, "slash", "'stages", "backspace", "enter", "p")
        await until(pilot, "5 matches, best first")
        assert pilot.app.screen.query_one(Input).value == "stage"
        await press(pilot, "tab", "tab", "f", then="Erase 1 record for good?")
        rush(pilot, "'forget 1 recordx", "backspace", "enter", "'q")
        await notified(pilot, "Erased 1 record for good.")
        await press(pilot, "a", then="no fact is known")
        rush(pilot, "'Who?", "tab", "'leo", "tab", "'helper", "shift+tab", "'n")
        await until(pilot, "leon")
        assert [field.value for field in pilot.app.screen.query(Input)][:3] == ["stageWho?", "leon", "helper"]
    assert await values(memory) == [1325, "Dutch", "Norwegian", "Oslo"]


async def test_a_dialog_that_is_confirmed_twice_is_answered_once_and_to_its_end(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun, ended, may_end, retract = [], [], asyncio.Event(), Memory.retract

    async def slowly(self: Memory, *ids: str, reason: str | None = None) -> tuple[Change, ...]:
        begun.append(ids)
        await may_end.wait()
        done = await retract(self, *ids, reason=reason)
        ended.append(ids)
        return done

    monkeypatch.setattr(Memory, "retract", slowly)
    before = len(await memory.list_records())
    async with browsing(memory) as pilot:
        await press(pilot, "r", then="Retract 1 record?")
        await press(pilot, "ctrl+s", "ctrl+s", then=lambda: bool(begun))
        await press(pilot, "ctrl+s")
        may_end.set()
        await notified(pilot, "Retracted")
    assert (len(begun), len(ended)) == (1, 1)
    assert len(await memory.list_records()) == before - 1


async def test_a_wrong_edit_keeps_the_dialog_open_with_a_sentence(memory: Memory) -> None:
    async with browsing(memory) as pilot:
        await press(pilot, "e", then="Edit seats")
        await press(pilot, "ctrl+s", then="Nothing is changed: edit a field first.")
        await press(pilot, "'many ", "ctrl+s", then="The value is not a valid int")
        await press(pilot, "escape")
    assert 120 in await values(memory)


async def test_an_edit_on_top_of_a_newer_revision_shows_both_and_is_saved_again(memory: Memory) -> None:
    async with browsing(memory, size=(110, 40)) as pilot:
        await press(pilot, "e", then="Edit seats")
        await press(pilot, "tab", "tab", "end", "'9")
        await memory.save(SingleFact(SEATS, 555), subject=MAYA, scope="/product/fair")
        screen = await press(pilot, "ctrl+s", then="was 120 is now 555 yours 120")
        assert "importance: was 0.5 is now 0.5 yours 0.59" in screen
        assert "The record was changed since this form was opened" in " ".join(screen.split())
        (record,) = await memory.list_records(concepts=["seats"])
        assert (record.value, record.details.importance) == (555, 0.5)
        await press(pilot, "ctrl+s", notice="Saved.")
    (record,) = await memory.list_records(concepts=["seats"])
    assert (record.value, record.details.importance) == (555, 0.59)


async def test_a_record_that_moves_is_followed(memory: Memory) -> None:
    async with browsing(memory) as pilot:
        await press(pilot, "enter", then="Done to it")
        await press(pilot, "e", then="Edit seats")
        await press(pilot, "tab", "end", "'grounds", "ctrl+s", then="/product/fairgrounds")
    (record,) = await memory.list_records(concepts=["seats"])
    assert str(record.scope) == "/product/fairgrounds"


async def test_a_retraction_has_its_reason_in_the_trail_and_is_taken_back(memory: Memory) -> None:
    async with browsing(memory, size=(100, 40)) as pilot:
        await press(pilot, "enter", then="Done to it")
        await press(pilot, "r", then="Retract 1 record?")
        await press(pilot, "'a mistake", "enter", then="because: a mistake")
        assert 120 not in await values(memory)
        await press(pilot, "r", then="Bring back 1 record?")
        await press(pilot, "enter", notice="Brought back")
    assert 120 in await values(memory)


async def test_a_dialog_that_is_left_changes_nothing(memory: Memory) -> None:
    before = await values(memory)
    async with browsing(memory) as pilot:
        for key in "reuf":
            await press(pilot, key, then="esc: ")
            await press(pilot, "escape", then="newest first")
    assert await values(memory) == before


async def test_undo_returns_to_the_value_before_and_again_to_the_one_after(memory: Memory, pilot: Pilot[None]) -> None:
    for expected in (80, 120):
        await press(pilot, "u", then="Undo the last change of 1 record?")
        await press(pilot, "enter", then=f"seats  {expected}")
        assert expected in await values(memory)


async def test_a_record_is_rolled_back_to_the_revision_under_the_cursor(memory: Memory) -> None:
    async with browsing(memory) as pilot:
        await press(pilot, "enter", then="Done to it")
        await press(pilot, "b", notice="This is the present revision")
        await press(pilot, "up", "b", then="Return to revision 1 of 1 record?")
        await press(pilot, "enter", notice="Rolled back 1 record.")
    assert 80 in await values(memory)


async def test_forgetting_needs_the_phrase_and_then_leaves_nothing(memory: Memory) -> None:
    async with browsing(memory) as pilot:
        screen = await press(pilot, "f", then="Erase 1 record for good?")
        assert "• seats  120" in screen
        await press(pilot, "'yes", "enter", then="type: forget 1 record; nothing was erased")
        assert 120 in await values(memory)
        await press(pilot, *["backspace"] * 3, "'forget 1 record", "enter", notice="Erased 1 record for good.")
    assert 120 not in await values(memory)
    assert not await memory.history(SEATS, subject=MAYA, scope="/product/fair")


async def test_marked_records_are_changed_together(memory: Memory) -> None:
    async with browsing(memory) as pilot:
        await press(pilot, "space", "space", "space", "space")
        await press(pilot, "up", "space")  # takes a mark away
        await press(pilot, "r", then="Retract 3 records?")
        await press(pilot, "enter", then="2 records, newest first")
    assert len(await values(memory)) == 2


async def test_everything_under_the_conditions_is_forgotten_at_once(memory: Memory) -> None:
    async with browsing(memory) as pilot:
        await press(pilot, "F", notice="Choose a scope, subject, concept or category in the tree first")
        await press(pilot, "p", "down", "down", "down", "right", "down", "enter", then="2 records, newest first")
        await press(pilot, "F", then="Erase 2 records for good?")
        await press(pilot, "'forget 2 records", "enter", notice="Erased 2 records for good.")
    assert await values(memory) == ["Dutch", "Norwegian", "Oslo"]


async def test_quarantined_records_are_rejected_and_accepted_after_all(memory: Memory) -> None:
    async with browsing(memory) as pilot:
        assert "1 item in the inbox (i)" in seen(pilot)
        await press(pilot, "i")
        assert "waits: from a tool" in await until(pilot, "The palace has 900 seats.")
        await press(pilot, "r", notice="Rejected 1 record.")
        assert not await memory.inbox.quarantine.list()
        await press(pilot, "g", then="The palace has 900 seats.")
        await press(pilot, "a", notice="1 record accepted.")
    assert "The palace has 900 seats." in await values(memory)


async def test_all_that_waits_is_marked_and_accepted_with_two_keys(memory: Memory) -> None:
    await memory.remember([Message(content=f"Hall {number} has a stage.", role="tool") for number in range(3)])
    async with browsing(memory) as pilot:
        await press(pilot, "i")
        assert "waits: from a tool" in await until(pilot, "Waiting 4")
        await press(pilot, "asterisk", "a", notice="4 records accepted.")
    assert not await memory.inbox.quarantine.list()


async def test_texts_that_a_model_could_not_read_are_read_again_or_kept() -> None:
    well = False

    def script(prompt: object, answer: object) -> dict[str, Any] | Exception:
        return {} if well else ModelUnavailableError("away")

    async with Memory("memory:", embedder=HashEmbedder(), model=ScriptedModel(script)) as memory:
        for text in ("The yard is closed.", "The stage is open."):
            await memory.remember(Message(content=text, role="user", timestamp=DAY))
        assert len(await memory.inbox.dead_letters.list()) == 2
        async with browsing(memory, has_model=True) as pilot:
            screen = await press(pilot, "i", "g", "g", then="ModelUnavailableError")
            assert "Not read 2" in screen
            await press(pilot, "y", notice="could not be read again (ModelUnavailableError)")
            await press(pilot, "w", then="Not read 1")
        assert len(await memory.inbox.dead_letters.list()) == 1


async def test_without_a_model_reading_again_says_how_to_name_one() -> None:
    model = ScriptedModel(lambda prompt, answer: ModelUnavailableError("away"))
    async with Memory("memory:", embedder=HashEmbedder(), model=model) as memory:
        await memory.remember(Message(content="The yard is closed.", role="user", timestamp=DAY))
        async with browsing(memory) as pilot:
            await press(pilot, "i", "g", "g", "y", notice="Reading again needs a language model")


async def test_an_export_is_written_once_and_never_over_a_file(memory: Memory, tmp_path: Path) -> None:
    file = tmp_path / "facts.jsonl"
    async with browsing(memory, size=(140, 30)) as pilot:
        for wait in (notified(pilot, "Wrote 7 assertions to"), until(pilot, "A file of this name exists already")):
            await press(pilot, "x", then="Export everything visible")
            pilot.app.screen.query_one("#file", Input).value = str(file)
            await press(pilot, "enter")
            await wait
    async with Memory("memory:", embedder=HashEmbedder()) as other:
        receipt = await other.admin.import_(file, trust=True)
    assert receipt.imported == 7


# -- Safety -----------------------------------------------------------------------------------------------------------


async def test_a_read_only_memory_offers_nothing_that_writes(memory: Memory) -> None:
    before = await values(memory)
    async with browsing(memory, read_only=True) as pilot:
        screen = seen(pilot)
        assert "read-only" in screen
        assert not [word for word in ("Edit", "Retract", "Undo", "Forget") if word in screen]
        await press(pilot, "'erufF", "enter", "'erufb", "escape", "i", "'arf", "g", "g", "'yw")
        assert "esc: " not in seen(pilot)
    assert await values(memory) == before
    assert len(await memory.inbox.quarantine.list()) == 1


@pytest.mark.parametrize(
    "texts",
    [EACH_KIND, *(pytest.param((text,), marks=pytest.mark.big) for text in HOSTILE)],
    ids=["each kind", *map(str, range(len(HOSTILE)))],
)
async def test_nothing_in_a_fact_is_obeyed(texts: tuple[str, ...]) -> None:
    """With `--big`, each of the texts is shown on every page; without it, one fact with every way of doing harm."""
    text = " ".join(texts)
    name = " ".join(CONTROL.sub("", text).split())[:120]
    about = MemorySubject("user").individual(name)
    details = FactDetails(categories=(name,), topics=(name,), source=name, metadata={name: text})
    async with Memory("memory:", embedder=HashEmbedder(), actor=name) as memory:
        await memory.save(
            SingleFact(CITY, text, timestamp=DAY),
            subject=about,
            scope=f"/product/{name.replace('/', '')}",
            details=details,
        )
        await memory.remember(Message(content=text, role="user", name=name, timestamp=DAY), subject=about)
        await memory.remember(Message(content=text, role="tool", timestamp=DAY))
        async with browsing(memory, size=(100, 40), user=name) as pilot:
            visits = [
                ("p", "down", "down", "right", "down", "right", "end", "right", "enter"), ("tab", "tab"),
                ("slash", "'red link line", "enter"), ("enter",), ("e",), ("escape",), ("r",), ("escape",), ("f",),
                ("escape",), ("s",), ("g",), ("escape",), ("escape",), ("a",), ("escape",), ("i",), ("enter",),
            ]  # fmt: skip
            screen = ""
            for keys in visits:
                await press(pilot, *keys)
                await asyncio.sleep(0.05)
                screen = await until(pilot, "factmem")
                assert not CONTROL.search(screen), keys
                assert not HIDDEN.search(screen), keys
                assert pilot.app.is_running
                for strip in pilot.app.screen._compositor.render_strips():
                    for segment in strip:
                        assert not CONTROL.search(segment.text.replace("\n", "")), keys
                        assert (
                            segment.style is None
                            or not {"click", "@click"} & set(segment.style.meta)
                            or not any(part in segment.text for part in texts)
                        )
            if text.startswith("["):
                assert plain(texts[0]) in screen


async def test_an_edit_keeps_the_hidden_characters_that_it_does_not_touch(memory: Memory) -> None:
    await memory.save(SingleFact(CITY, "a\u202eb\x1b[31mc", timestamp=DAY), subject=MAYA, scope="/agent/x")
    async with browsing(memory) as pilot:
        await press(pilot, "slash", "'city", "enter")
        table = pilot.app.screen.query_one(RecordTable)
        await until(pilot, lambda: any("\ufffd" in value_of(row) for row in _shown(table)))
        at = next(number for number, row in enumerate(_shown(table)) if "\ufffd" in value_of(row))
        table.move_cursor(row=at)
        await press(pilot, "e", then="a\ufffdb\ufffd[31mc")
        await press(pilot, "end", "'!", "ctrl+s", notice="Saved.")
    assert "a\u202eb\x1b[31mc!" in await values(memory)


async def test_an_error_of_the_store_is_a_sentence_on_the_page(memory: Memory, pilot: Pilot[None]) -> None:
    await memory.aclose()
    screen = await press(pilot, "i", then="closed")
    assert "Traceback" not in screen


async def test_a_fault_of_the_browser_itself_ends_with_a_sentence_without_facts(
    memory: Memory, capfd: pytest.CaptureFixture[str]
) -> None:
    app = TerminalBrowser(Browser(memory))

    def fail() -> None:
        secret = "Secret Harbour"
        raise KeyError(secret)

    app.call_later(fail)
    await app.run_async(headless=True)
    assert app.fault is not None
    assert re.match(r"This is a fault of factmem itself \(KeyError at fail:\d+\): please report it", str(app.fault))
    printed = "".join(capfd.readouterr())
    assert "Secret" not in printed
    assert "Traceback" not in printed


def test_an_error_with_an_unknown_message_is_named_by_its_type_alone() -> None:
    assert "secret" not in sentence_of(ValueError("secret"))
    assert sentence_of(FileNotFoundError(2, "No such file or directory")) == "That failed: No such file or directory."
    assert sentence_of(CapabilityError("try\x1b[31m this")) == "Try\ufffd[31m this."


class _Stuck(Browser):
    """A browser whose searches wait for a store that does not answer."""

    async def search(self, query: str, narrowing: Narrowing | None = None, *, limit: int = 20) -> RecallMatches:
        await asyncio.Event().wait()
        raise AssertionError


async def test_keys_work_while_a_store_does_not_answer(memory: Memory) -> None:
    async with browsing(_Stuck(memory)) as pilot:
        await press(pilot, "slash", "'seats", "enter")
        await asyncio.sleep(0.4)
        await press(pilot, "question_mark", then="clear the search")
        await press(pilot, "escape", "escape", then="newest first")


# -- Following, looks and help ----------------------------------------------------------------------------------------


@pytest.mark.processes
async def test_a_fact_of_another_process_appears_by_itself(tmp_path: Path, fork_server: ForkServer) -> None:
    store = str(tmp_path / "facts.db")
    words = ("-m", "factmem", "--store", store, "remember", "The river is high.")
    async with Memory(store, embedder=HashEmbedder()) as memory, browsing(memory, every=0.05) as pilot:
        run = partial(fork_server.run, cwd=tmp_path, env=os.environ, timeout=60, outputs=tmp_path)
        assert (await asyncio.to_thread(run, *words)).returncode == 0
        await until(pilot, "The river is high.")


async def test_pages_below_are_read_again_when_they_are_returned_to(memory: Memory) -> None:
    async with browsing(memory, every=0.05) as pilot:
        await press(pilot, "enter", then="Done to it")
        await memory.save(SingleFact(SEATS, 300), subject=MAYA, scope="/product/fair")
        await until(pilot, "300  active")
        await press(pilot, "escape", then="seats  300")


async def test_it_is_dark_or_light_as_the_terminal_is_and_by_a_key(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLORFGBG", "0;15")
    async with browsing(memory) as pilot:
        assert not pilot.app.current_theme.dark
        await press(pilot, "d")
        assert pilot.app.current_theme.dark
    monkeypatch.setenv("COLORFGBG", "15;0")
    assert TerminalBrowser(Browser(memory)).current_theme.dark


def test_every_key_is_in_the_help() -> None:
    text = help_page().plain
    named = {"slash": "/", "question_mark": "?", "escape": "Esc", "asterisk": "*"}
    public = [found for name, found in vars(pages).items() if not name.startswith("_")]
    own = [found for found in public if isinstance(found, type) and found.__module__ == pages.__name__]
    classes = [*own, TerminalBrowser, RecordTable]
    keys = {
        binding.key
        for cls in classes
        for binding in vars(cls).get("BINDINGS", ())
        if isinstance(binding, Binding) and binding not in getattr(cls.__base__, "BINDINGS", ())
    }
    missing = {
        key
        for key in keys
        if not re.search(rf"(?m)^ *{re.escape(named.get(key, key))}\b|  {re.escape(named.get(key, key))} ", text, re.I)
    }
    assert missing <= {"j", "k", "shift+tab"}  # as in vi, beside the arrows, and as everywhere
    assert len(keys) > 15


async def test_without_a_terminal_it_says_so(memory: Memory) -> None:
    with pytest.raises(CapabilityError, match="needs a terminal"):
        await run(Browser(memory))


@pytest.mark.processes
def test_without_its_extra_it_names_the_command_that_installs_it() -> None:
    code = "import sys; sys.modules['textual'] = None; import factmem.browse.terminal"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'factmem[browse]'" in done.stderr


# -- Pictures ---------------------------------------------------------------------------------------------------------


@each_case("share", "drawn")
def test_a_bar_is_as_long_as_its_share(share: float, drawn: str) -> None:
    assert bar(share, 4) == drawn


def test_an_empty_past_is_drawn_too() -> None:
    assert axis_of((), 20).plain == ""
    assert plain("x" * 2_000_000, 10) == "xxxxxxxxx…"
