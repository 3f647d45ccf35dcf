"""Words that are said again in a conversation are new, and a history that is passed again is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import pytest

from factmem.abc.detector import Message
from factmem.agent.chat_history import DictFormat, Hearing, spoken
from factmem.agent.config import RunIdentity
from factmem.testing import ScriptedModel
from tests.agent.installed import SYSTEM, assistant, memory_over, plugin, tool, user
from tests.memory.telling import CITY, well
from tests.narrowing import not_none

ROME, OSLO, BERN = (user(f"I live in {city}.") for city in ("Rome", "Oslo", "Bern"))
OK, CONTEXT, SUMMARY = assistant("Noted."), user("Context: it rains."), assistant("They talked of cities.")
WINDOWS: Final = {"whole": 0, "by itself": 1, "in a turn": 2, "in two turns": 4}


def turns_of(*said: Any, shown: int) -> list[list[Any]]:
    """Return the history at each of a conversation's requests, which shows the latest messages only, if not all."""
    history: list[Any] = []
    turns = []
    for message in said:
        history.append(message)
        turns.append(history[-shown:])
        history.append(OK)
        turns.append(history[-max(shown, 2) if shown else 0 :])
    return turns


def new_in(turns: Sequence[Sequence[Any]], session: str | None = "s") -> list[list[str]]:
    """Return the user's messages of each history that were not heard before, as a hearing identifies them."""
    hearing, known = Hearing(), set[tuple[str, str | None]]()
    found = []
    for turn in turns:
        identity = RunIdentity(user_id="alice", session_id=session)
        heard: list[Message] = hearing.hear(identity, spoken(DictFormat(), turn))
        keys = {(message.id or "", message.content) for message in heard if message.role == "user"}
        found.append([text for id, text in sorted(keys - known)])
        known |= keys
    return found


@pytest.mark.parametrize("session", ["monday", None], ids=["session", "no session"])
@pytest.mark.parametrize("shown", WINDOWS.values(), ids=WINDOWS)
async def test_a_fact_that_is_said_again_is_current_again(shown: int, session: str | None) -> None:
    async with memory_over(ScriptedModel(well)) as memory:
        agent = plugin(memory)
        for turn in turns_of(ROME, OSLO, ROME, shown=shown):
            with agent.run("alice", session):
                await agent.load_all_facts_to_agent(turn)
                if turn[-1] is OK:
                    handle = await agent.save_facts_from_history(turn)
                    if handle is not None:
                        await handle.wait()
        assert not_none(await memory.for_user("alice").load(CITY)).value == "Rome"


@pytest.mark.parametrize("shown", [0, 2, 4, 6])
def test_each_message_is_new_once_however_much_a_host_shows(shown: int) -> None:
    said = [ROME, OSLO, ROME, ROME, BERN, OSLO]
    turns = [turn for turn in turns_of(*said, shown=shown) for _ in range(2)]
    new = [text for texts in new_in(turns) for text in texts]
    again = 1 if shown == 2 else 0  # nobody can tell whether a turn that is passed by itself is passed twice
    assert new == [item["content"] for item in said[: 3 if again else 6]] + [BERN["content"], OSLO["content"]] * again


def test_a_message_that_a_host_moves_with_each_turn_is_not_said_again() -> None:
    at_the_end = [[ROME, CONTEXT], [ROME, OK, OSLO, CONTEXT], [ROME, OK, OSLO, OK, BERN, CONTEXT]]
    before_the_last = [[ROME, OK, CONTEXT, OSLO], [ROME, OK, OSLO, OK, CONTEXT, BERN]]
    cut = [[ROME, OK, OSLO, CONTEXT], [OSLO, OK, BERN, CONTEXT], [BERN, OK, ROME, CONTEXT]]
    for turns in (at_the_end, before_the_last, cut):
        new = [text for texts in new_in(turns) for text in texts]
        assert new.count(CONTEXT["content"]) == 1
        assert len(new) == (5 if turns is cut else 4)


def test_a_history_that_is_shown_in_part_and_then_whole_is_heard_once() -> None:
    whole = [SYSTEM, ROME, tool("It rains."), OK, OSLO, OK]
    turns = [whole[:4], [SYSTEM, ROME, OK, OSLO], [SYSTEM, OSLO], whole, [SYSTEM, *whole[4:], ROME], [*whole, ROME]]
    assert new_in(turns) == [[ROME["content"]], [OSLO["content"]], [], [], [ROME["content"]], []]


def test_a_history_that_a_host_loads_in_another_form_than_it_saves_is_heard_once() -> None:
    """CrewAI loads what was said before as one text."""
    turns = [[ROME], [ROME, OK], [user("I live in Rome.\nNoted.\n")], [ROME, OK, OSLO, OK]]
    assert new_in(turns)[3] == [OSLO["content"]]


def test_a_summary_in_the_place_of_what_was_cut_does_not_hide_what_is_said_again() -> None:
    turns = [[ROME, OK, OSLO, OK], [SUMMARY, OSLO, OK, ROME]]
    assert new_in(turns)[1] == [ROME["content"]]


def test_a_turn_that_is_tried_again_is_not_said_again() -> None:
    assert new_in([[ROME], [ROME], [ROME, OK], [ROME], [ROME, OK, OSLO], [ROME, OK]])[1:] == [
        [],
        [],
        [],
        [OSLO["content"]],
        [],
    ]


def test_two_talks_of_a_user_without_a_session_go_on_side_by_side() -> None:
    first, second = [ROME, OK], [OSLO, OK]
    turns = [first, second, [*first, BERN], [*second, BERN], [*first, BERN, OK], [*second, BERN, OK]]
    new = new_in(turns, session=None)
    assert [len(texts) for texts in new[:2]] == [1, 1]
    assert new[4:] == [[], []]
