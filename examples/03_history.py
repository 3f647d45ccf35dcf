"""Facts change. A new value supersedes the old one, and the old one stays readable."""

import datetime as dt

import anyio

from factmem import Concept, FactRecord, Memory, MemorySubject, SingleFact

CITY = Concept.single("city", "Where the user lives")
USER = MemorySubject("user", "The person whom we talk with", priority_level=1)
HOME = "/agent/concierge"


def day(month: int) -> dt.datetime:
    return dt.datetime(2026, month, 1, tzinfo=dt.UTC)


def shown(records: list[FactRecord[str]]) -> str:
    return ", ".join(f"{record.value} ({record.state.value})" for record in records)


async def main() -> None:
    async with Memory("memory:", concepts=[CITY]) as memory:
        await memory.save(SingleFact(CITY, "Oslo", timestamp=day(1)), subject=USER, scope=HOME)
        (moved,) = await memory.save(SingleFact(CITY, "Lisbon", timestamp=day(3)), subject=USER, scope=HOME)
        await memory.save(SingleFact(CITY, "Bergen", timestamp=day(2)), subject=USER, scope=HOME)  # arrives late

        now = await memory.load(CITY, subject=USER)
        then = await memory.view(as_of=day(2)).load(CITY, subject=USER)
        print("now:            ", now and now.value)
        print("as of February: ", then and then.value)
        print("history:        ", shown(await memory.history(CITY, subject=USER, scope=HOME)))

        await memory.retract(moved.id, reason="a joke")
        taken_back = await memory.load(CITY, subject=USER)
        print("after a retract:", taken_back and taken_back.value)

        await memory.restore(moved.id)
        brought_back = await memory.load(CITY, subject=USER)
        print("after a restore:", brought_back and brought_back.value)

        receipt = await memory.forget(subject=USER, scope=HOME)
        print("after a forget: ", await memory.history(CITY, subject=USER, scope=HOME), receipt)


anyio.run(main)
