"""Scopes are walls, and private facts are their owner's alone, on every way to read."""

import anyio

from factmem import Concept, Memory, MemoryScope, MemorySubject, SingleFact

DATABASE = Concept.single("database", "The database that a product runs on")
TEAM = MemorySubject("team", "The people who build it", priority_level=2)
ALPHA = MemoryScope.product("alpha")


async def main() -> None:
    async with Memory("memory:", organization="acme", viewer="ada") as memory:
        await memory.save(SingleFact(DATABASE, "PostgreSQL"), subject=TEAM, scope=ALPHA)
        await memory.save(SingleFact(DATABASE, "SQLite"), subject=TEAM, scope=ALPHA / "prototype")
        await memory.save(SingleFact(DATABASE, "Oracle"), subject=TEAM, scope="/product/alphabet")
        await memory.remember("The Oracle licence is far too dear.", scope="/product/alphabet", private=True)

        print("scopes:", *(await memory.admin.info()).scopes)
        for scope in (ALPHA, ALPHA / "prototype", "/product/alphabet"):
            fact = await memory.load(DATABASE, subject=TEAM, scope=scope)
            print(f"  {scope}: {fact and fact.value}")

        below = await memory.recall("which database", scope=ALPHA)
        print("recall in /product/alpha and below:", sorted(match.record.value for match in below))

        for viewer in ("ada", "bo"):
            theirs = memory.view(viewer=viewer)
            print(f"{viewer} sees {(await theirs.admin.info()).records} records; on the licence:")
            for match in await theirs.recall("licence", scope="/product/alphabet"):
                print("  ", match.record)


anyio.run(main)
