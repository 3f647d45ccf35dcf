"""Planning scans the known records a bounded number of times, however large the batch and the store are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import attrs

from factmem.consolidation.policy import ConsolidationPolicy
from factmem.consolidation.questions import questions_about
from factmem.consolidation.survey import Survey

if TYPE_CHECKING:
    from tests.consolidation.conftest import World

MANY = 40
ItemT = TypeVar("ItemT")


class Looked(list[ItemT]):
    """A list that counts how often it is iterated over."""

    times = 0

    def __iter__(self) -> Iterator[ItemT]:
        self.times += 1
        return super().__iter__()


async def test_a_batch_goes_through_what_is_known_once_and_not_for_each_candidate(world: World) -> None:
    await world.save(*(world.says(f"box {number} stands in the hall") for number in range(MANY)))
    candidates = await world.candidates(*(world.says(f"crate {number} is blue", minute=1) for number in range(MANY)))
    survey = Survey.of(candidates, await world.known(), await world.whole_log(), ())
    known = {partition: Looked(records) for partition, records in survey.records.items()}
    questions_about(candidates, attrs.evolve(survey, records=known), ConsolidationPolicy(threshold=0))
    assert [records.times for records in known.values()] == [1]


async def test_what_stands_behind_records_is_found_in_one_look_at_their_track(world: World) -> None:
    await world.save(*(world.says(f"box {number} stands in the hall") for number in range(MANY)))
    again = await world.save(*(world.says(f"box {number} stands in the hall", minute=1) for number in range(MANY)))
    candidates = await world.candidates(world.says("the hall is empty", minute=2))
    survey = Survey.of(candidates, await world.known(), await world.whole_log(), ())
    tracks = {track: Looked(entries) for track, entries in survey._counting.items()}
    counted = attrs.evolve(survey, counting=tracks)
    (records,) = counted.records.values()
    behind = [counted.assertions_of(record) for record in records]
    assert [len(entries) for entries in behind] == [2] * MANY
    assert {entries[1].id for entries in behind} == {recorded.id for recorded in again}
    assert [entries.times for entries in tracks.values()] == [1]
