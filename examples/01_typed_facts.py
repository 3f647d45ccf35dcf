"""Typed facts: an int, an enum or an instance of your class loads with the type it was saved with.

Type checkers infer it too: `seats.value` below is an `int`, `booking.value` a `Booking`.
"""

import datetime as dt
import enum
import tempfile

import anyio
import attrs

from factmem import Concept, Memory, MemorySubject, MultipleFacts, SingleFact
from factmem.errors import ConceptConflictError


class Mood(enum.Enum):
    CALM = "calm"
    LIVELY = "lively"


@attrs.frozen
class Booking:
    day: dt.date
    guests: int
    note: str = ""


SEATS = Concept.single("seats", "How many people fit into the venue", int)
MOOD = Concept.single("mood", "What the place feels like", Mood)
BOOKING = Concept.single("booking", "The next booking", Booking)
DISHES = Concept.multiple("dishes", "What the kitchen is known for")
VENUE = MemorySubject("venue", "The restaurant that we plan with", priority_level=1)


async def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        store = f"sqlite-vec:{folder}/facts.db"

        async with Memory(store) as memory:
            await memory.save(SingleFact(SEATS, 120), subject=VENUE)
            await memory.save(SingleFact(MOOD, Mood.LIVELY), subject=VENUE)
            await memory.save(SingleFact(BOOKING, Booking(dt.date(2026, 5, 1), guests=80)), subject=VENUE)
            await memory.save(MultipleFacts(DISHES, ("octopus", "almond tart")), subject=VENUE)
            await memory.save(MultipleFacts(DISHES, ("octopus", "sea bream")), subject=VENUE)

        async with Memory(store) as memory:  # any later process
            seats = await memory.load(SEATS, subject=VENUE)
            mood = await memory.load(MOOD, subject=VENUE)
            booking = await memory.load(BOOKING, subject=VENUE)
            dishes = await memory.load(DISHES, subject=VENUE)
            if seats and mood and booking and dishes:
                print("seats + 10: ", seats.value + 10)
                print("mood:       ", mood.value.name.lower())
                print("the booking:", booking.value.day.strftime("%A"), booking.value.guests, "guests")
                print("dishes:     ", ", ".join(dishes.values))

            try:
                await memory.save(SingleFact(Concept.single("seats", "The seats"), "about a hundred"), subject=VENUE)
            except ConceptConflictError as error:
                print("refused:    ", error)


anyio.run(main)
