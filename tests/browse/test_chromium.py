"""The web page as a person uses it: the real command, the real store, and a real browser."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import pytest

from factmem.abc.detector import Message
from factmem.cli.serving import _redirect
from factmem.facts import Concept, SingleFact
from factmem.memory.facade import Memory
from tests.browse.chromium import chromium, missing, pages_of
from tests.browse.conftest import MAYA, SEATS, fill
from tests.browse.test_web import XSS
from tests.narrowing import not_none

if TYPE_CHECKING:
    from playwright.async_api import BrowserContext, Page

pytestmark = [
    pytest.mark.slow,
    pytest.mark.processes,
    pytest.mark.skipif(missing() is not None, reason=f"NO REAL BROWSER: install {missing()}"),
]

PAGES: Final = ("/", "/records", "/search?q=seats", "/subject?name=user:maya", "/inbox", "/agent?question=x", "/forget")


@pytest.fixture
def anyio_backend() -> str:
    """Playwright runs on asyncio alone; the server is a process of its own."""
    return "asyncio"


@attrs.frozen
class Site:
    """A running `factmem browse`, and a browser that it has let in."""

    store: Path
    page: Page
    complaints: list[str]

    @property
    def context(self) -> BrowserContext:
        """The browser's profile."""
        return self.page.context

    @property
    def base(self) -> str:
        """Address of the pages."""
        return self.page.url.split("/", 3)[0] + "//" + self.page.url.split("/", 3)[2]

    async def open(self, path: str) -> None:
        """Go to a page."""
        await self.page.goto(self.base + path)

    async def sees(self, text: str) -> None:
        """Wait until a text is on the page."""
        await self.page.get_by_text(text).first.wait_for(timeout=60_000)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    """The command over a store with facts, and a page that it has let in; the page must have nothing to complain of."""
    store = tmp_path / "facts.db"
    async with Memory(f"sqlite-vec:{store}", actor="test") as memory:
        await fill(memory)
        names = [text.replace("\0", "") for text in XSS]
        hostile = [Concept.single(f"x{number} {name}", name) for number, name in enumerate(names)]
        facts = [SingleFact(concept, text) for concept, text in zip(hostile, XSS, strict=True)]
        await memory.save_many([(fact, MAYA, "/product/fair") for fact in facts])
    async with pages_of(store) as address, chromium() as browser:
        page = await browser.new_page(viewport={"width": 1200, "height": 800})
        complaints: list[str] = []
        page.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
        await page.goto(address)
        yield Site(store, page, complaints)
        assert complaints == []


async def test_a_file_that_redirects_lets_the_browser_in(tmp_path: Path) -> None:
    async with Memory(f"sqlite-vec:{tmp_path / 'facts.db'}") as memory:
        await fill(memory)
    async with pages_of(tmp_path / "facts.db") as address, chromium() as browser:
        page = await browser.new_page()
        await page.goto(_redirect(tmp_path, address).as_uri())
        await page.get_by_text("Recorded last").wait_for(timeout=60_000)
        assert page.url == address.partition("?")[0]


async def test_a_wrong_fact_is_found_corrected_and_undone(site: Site) -> None:
    page = site.page
    await page.get_by_label("Search").fill("How many seats are there?")
    await page.keyboard.press("Enter")
    await page.locator(".hits").get_by_role("link", name="seats 120").click()
    await site.sees("We have 120 seats now.")
    await page.get_by_label("Value").fill("140")
    await page.get_by_role("button", name="Save the change").click()
    await site.sees("The revision before is in its history.")
    assert await page.locator("h1").inner_text() == "140"
    await page.get_by_role("button", name="Undo last change").click()
    await site.sees("The last change is undone.")
    assert await page.locator("h1").inner_text() == "120"
    assert await page.locator(".trail").get_by_text("retracted").count() == 1


async def test_results_come_while_one_types(site: Site) -> None:
    await site.open("/search")
    await site.page.get_by_label("Ask the memory").press_sequentially("seats", delay=20)
    await site.sees("parts of the score")
    assert "q=seats" in site.page.url
    assert await site.page.get_by_label("Ask the memory").input_value() == "seats"


async def test_pages_follow_another_process_and_leave_forms_alone(site: Site) -> None:
    page = site.page
    await site.open("/records?keyword=seats")
    await page.get_by_role("link", name="seats 120").first.click()
    await page.get_by_label("Value").fill("half typed")
    async with Memory(f"sqlite-vec:{site.store}", actor="another process") as memory:
        await memory.save(SingleFact(SEATS, 555), subject=MAYA, scope="/product/fair")
    await page.locator("h1", has_text="555").wait_for(timeout=60_000)
    assert await page.get_by_label("Value").input_value() == "half typed"
    assert await page.locator(".trail").get_by_text("another process").count() == 1


async def test_all_that_waits_is_chosen_with_one_box(site: Site) -> None:
    page = site.page
    async with Memory(f"sqlite-vec:{site.store}") as memory:
        await memory.remember(Message(content="The stage is shut.", role="tool"))
    await site.open("/inbox")
    await page.get_by_label("Choose all 2").check()
    await page.get_by_role("button", name="Accept the chosen").click()
    await site.sees("2 records accepted")


BROKEN_WORDS: Final = """
() => {
  const broken = [], walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    if (!node.parentElement.checkVisibility() || node.parentElement.closest(".hidden")) continue;
    for (const word of node.data.matchAll(/(?<!\\S)\\w{2,16}(?!\\S)/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      if (new Set([...range.getClientRects()].map((box) => Math.round(box.top))).size > 1) broken.push(word[0]);
    }
  }
  return broken;
}
"""
"""Returns the short words of a page that are on more than one line."""


async def test_no_short_word_breaks_inside_on_a_phone(site: Site) -> None:
    await site.page.set_viewport_size({"width": 420, "height": 844})
    async with Memory(f"sqlite-vec:{site.store}", actor="agent:conference-planner") as memory:
        await memory.save(SingleFact(SEATS, 140), subject=MAYA, scope="/product/fair")
        (record,) = await memory.list_records(concepts=[SEATS])
    for path in (*PAGES, f"/record/{record.id}"):
        await site.open(path)
        assert await site.page.evaluate(BROKEN_WORDS) == [], path
        assert await site.page.evaluate("document.documentElement.scrollWidth") <= 420, path


async def test_an_error_of_an_edit_is_in_view_on_a_phone(site: Site) -> None:
    page = site.page
    await page.set_viewport_size({"width": 420, "height": 844})
    async with Memory(f"sqlite-vec:{site.store}") as memory:
        await memory.save(SingleFact(Concept.single("story", "A long text"), "and so on " * 300))
    await site.open("/records?keyword=story")
    await page.locator(".card a").first.click()
    await page.get_by_label("Importance").fill("0.9")
    await page.get_by_label("Scope").fill("/product/..")
    await page.get_by_role("button", name="Save the change").click()
    assert 0 < not_none(await page.get_by_role("alert").bounding_box())["y"] < 400
    assert len(site.complaints) == 1  # the browser's own, of the status
    site.complaints.clear()


async def test_a_slash_goes_to_the_search_unless_somebody_types(site: Site) -> None:
    page = site.page
    await site.open("/records")
    await page.locator("body").press("/")
    assert await page.evaluate("document.activeElement.name") == "q"
    assert await page.locator("[name=q]").input_value() == ""
    await page.locator("[name=scope]").press("/")
    assert await page.locator("[name=scope]").input_value() == "/"


async def test_what_hardly_answers_is_folded(site: Site) -> None:
    page = site.page
    await site.open("/search?q=Explain+quantum+entanglement")
    summary = page.locator("summary", has_text="Nothing answers this. Nearest:")
    assert await page.locator(".hits > li").first.is_visible() is False
    await summary.click()
    assert await page.locator(".hits > li").first.is_visible()


async def test_no_page_scrolls_sideways_on_a_phone_and_dark_is_dark(site: Site) -> None:
    page = site.page
    await page.set_viewport_size({"width": 390, "height": 844})
    for path in PAGES:
        await site.open(path)
        assert await page.evaluate("document.documentElement.scrollWidth") <= 390, path
    grounds = []
    for scheme in ("light", "dark"):
        await page.emulate_media(color_scheme=scheme)
        grounds.append(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
    brightness = [sum(map(int, re.findall(r"\d+", ground)[:3])) for ground in grounds]
    assert brightness[0] > 600 > 150 > brightness[1]


async def test_the_keyboard_reaches_everything(site: Site) -> None:
    """The first stop is the way past the head; from there each stop shows where it is."""
    page = site.page
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.activeElement.textContent") == "Skip to the page"
    await page.keyboard.press("Enter")
    await page.keyboard.press("Tab")
    assert await page.evaluate("document.querySelector('main').contains(document.activeElement)")
    assert await page.evaluate("getComputedStyle(document.activeElement).outlineStyle") == "solid"
