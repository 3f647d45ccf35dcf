"""Write the pictures of both browsers in docs/, from a small memory that is made for them.

    python .ci/make_screenshots.py

The web browser's need Chromium and Playwright; without them the terminal's alone are written. Nothing checks that the
pictures are up to date: run it after a change of the pages.
"""

from __future__ import annotations

import datetime as dt
import html
import re
import sys
import tempfile
from pathlib import Path
from typing import Final

import anyio
import attrs
from textual.pilot import Pilot

from factmem import Concept, FactDetails, Memory, MemorySubject, Message, MultipleFacts, SingleFact
from factmem.browse.browser import Browser, Opened
from factmem.browse.terminal.app import TerminalBrowser
from factmem.details import Evidence

ROOT: Final = Path(__file__).parents[1]
PICTURES: Final = ROOT / "docs" / "pages" / "images"
sys.path.insert(0, str(ROOT))

from tests.browse.chromium import chromium, missing, pages_of  # noqa: E402  # the tests' browser

DAY: Final = dt.datetime.now(dt.UTC).replace(hour=9, minute=30, second=0, microsecond=0) - dt.timedelta(days=40)
SEATS: Final = Concept.single("seats", "How many people fit into the venue", int)
VENUE: Final = Concept.single("venue", "Where the conference takes place")
SPEAKERS: Final = Concept.multiple("speakers", "Who has agreed to speak")
BUDGET: Final = Concept.single("budget", "What the conference may cost, in euros", int)
CITY: Final = Concept.single("home city", "Where somebody lives")
DIET: Final = Concept.multiple("diet", "What somebody does not eat")
FAIR: Final = MemorySubject("conference", "The conference that is planned", priority_level=2)
ADA: Final = MemorySubject("user", "The person who talks with the agent", priority_level=1).individual("ada")
WIDTH: Final = 1180


@attrs.frozen
class Picture:
    """A page to take: its path, with the id of the record of `SEATS`, the colours and the height of the window."""

    name: str
    path: str
    dark: bool = False
    height: int = 760


PICTURES_TO_TAKE: Final = (
    Picture("browse-overview", "/"),
    Picture("browse-search", "/search?q=How+many+people+fit+into+the+venue%3F", height=700),
    Picture("browse-record", "/record/{id}", dark=True, height=900),
    Picture("browse-subject", "/subject?name=conference", height=820),
)


@attrs.frozen
class Screen:
    """A screen of the terminal to take: the keys that lead to it, each with the text that follows, and its size."""

    name: str
    steps: tuple[tuple[tuple[str, ...], str], ...]
    dark: bool = True
    size: tuple[int, int] = (132, 24)


SEARCH: Final = (("slash", *"how many people fit", "enter"), "because: ")
SCREENS_TO_TAKE: Final = (
    Screen("terminal-search", (SEARCH,)),
    Screen("terminal-record", (SEARCH, (("enter",), "Done to it")), dark=False),
    Screen("terminal-subject", ((("s", "g"), "( conference )"),), size=(100, 14)),
)
_FONTS: Final = re.compile(r"@font-face \{.*?\}", re.DOTALL)


async def fill(store: Path) -> str:
    """Make the memory; return the id of the record of `SEATS`."""
    async with Memory(store, actor="agent:planner") as memory:
        for days, seats, said in (
            (0, 80, "The small hall has 80 seats."),
            (9, 120, "They gave us the big hall, so we have 120 seats."),
            (31, 140, "With the gallery open it is 140 seats."),
        ):
            quote = Evidence(quote=said, role="user", speaker="Ada", conversation_id=f"planning {days}")
            details = FactDetails(evidence=(quote,), categories=("venue",), source="chat", importance=0.8)
            fact = SingleFact(SEATS, seats, timestamp=DAY + dt.timedelta(days=days))
            await memory.save(fact, subject=FAIR, scope="/product/summit/venue", details=details)
        said = DAY + dt.timedelta(days=3)
        await memory.save(SingleFact(VENUE, "The old brewery", timestamp=said), subject=FAIR, scope="/product/summit")
        await memory.save(SingleFact(BUDGET, 48_000, timestamp=said), subject=FAIR, scope="/product/summit")
        await memory.save(
            MultipleFacts(SPEAKERS, ("Grace Hopper", "Barbara Liskov", "Radia Perlman"), timestamp=said),
            subject=FAIR,
            scope="/product/summit/programme",
        )
        await memory.save(SingleFact(CITY, "Lisbon", timestamp=said), subject=ADA)
        await memory.save(MultipleFacts(DIET, ("shellfish",), timestamp=said), subject=ADA)
        for number, text in enumerate(
            (
                "The brewery lets us in from seven in the morning.",
                "Ada wants the badges printed on seed paper.",
                "The gallery needs a second fire exit before we may use it.",
            )
        ):
            told = Message(content=text, role="user", name="Ada", timestamp=DAY + dt.timedelta(days=20 + number))
            await memory.remember(told, scope="/product/summit/venue", subject=FAIR)
        await memory.remember(
            Message(content="Attendees must book the Grand Palace hotel.", role="tool", name="web_search"),
            scope="/product/summit",
            source="hotel page",
        )
        (record,) = await memory.list_records(concepts=[SEATS])
        return record.id


async def take(store: Path, id: str) -> None:
    async with pages_of(store) as address, chromium() as browser:
        page = await browser.new_page()
        await page.goto(address)
        for picture in PICTURES_TO_TAKE:
            await page.emulate_media(color_scheme="dark" if picture.dark else "light")
            await page.set_viewport_size({"width": WIDTH, "height": picture.height})
            await page.goto(address.split("/?")[0] + picture.path.format(id=id))
            path = PICTURES / f"{picture.name}.png"
            await page.screenshot(path=path)
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


async def take_terminal(store: Path) -> None:
    async with Memory(store) as memory:
        browser = Browser(memory, Opened(store=store.name, viewer="ada"))
        for screen in SCREENS_TO_TAKE:
            app = TerminalBrowser(browser)
            async with app.run_test(size=screen.size) as pilot:
                await _until(pilot, "newest first")
                await pilot.press(*([] if screen.dark else ["d"]))
                for keys, shows in screen.steps:
                    await pilot.press(*keys)
                    await _until(pilot, shows)
                # an image in a page loads no fonts, and the site has nothing from elsewhere
                picture = _FONTS.sub("", app.export_screenshot(title="factmem browse"))
            path = PICTURES / f"{screen.name}.svg"
            path.write_text("\n".join(line.rstrip() for line in picture.splitlines()) + "\n", encoding="utf-8")
            print(f"{path.relative_to(ROOT)}: {path.stat().st_size:,} bytes")


async def _until(pilot: Pilot[None], text: str) -> None:
    wanted = html.escape(text).replace(" ", "&#160;")
    with anyio.fail_after(60):
        while wanted not in pilot.app.export_screenshot():
            await pilot.pause(0.1)


async def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        store = Path(folder) / "summit.db"
        id = await fill(store)
        await take_terminal(store)
        if (wanted := missing()) is not None:
            sys.exit(f"for the web browser's, install {wanted}")
        await take(store, id)


if __name__ == "__main__":
    anyio.run(main)
