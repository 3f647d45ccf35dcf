"""AGENTS.md: read within limits, and facts in a block of it that people edit."""

from pathlib import Path

import anyio

from factmem import Concept, Memory, MemorySubject, Origin, SingleFact
from factmem.agent.agents_md import AgentsMd, AgentsMdFacts

TEAM = MemorySubject("team", "the people who work on this")
PYTHON = Concept.single("python", "The oldest Python that must work")
PORT = Concept.single("port", "Where the service listens", int)
FILE = Path("AGENTS.md")


def put(text: str) -> None:
    FILE.write_text(text, encoding="utf-8")


def edit(old: str, new: str) -> None:
    put(FILE.read_text(encoding="utf-8").replace(old, new))


async def main() -> None:
    put("# How we work\n\nRun the tests first.\n<!-- for people: keep this short -->\n")
    async with Memory("facts.db", concepts=[PYTHON, PORT]) as memory:
        await memory.save(SingleFact(PYTHON, "3.10"), subject=TEAM)
        await memory.save(SingleFact(PORT, 8080), subject=TEAM)

        # Only the team edits this file. Without the origin, edits would be quarantined.
        facts = AgentsMdFacts(memory, FILE, subjects=[TEAM], origin=Origin.USER)
        await facts.sync()  # writes the block
        edit("3.10", "3.11")  # a person edits a bullet ...
        edit("- **port**", "- Ask before you add a dependency.\n- **port**")  # ... and adds one
        for change in await facts.sync():  # reads them back
            record = change.record
            print(change.kind.value, record.concept.keyword, record.value)

    # The agent is shown the general file first, without comments, each file delimited below its path.
    text = await AgentsMd(["~/.config/agents/AGENTS.md", FILE]).read()
    print(text.prompt())


anyio.run(main)
