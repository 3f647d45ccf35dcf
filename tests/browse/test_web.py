"""The local web page through ASGI: who is let in, what is shown and escaped, and what forms do."""

from __future__ import annotations

import datetime as dt
import html
import json
import re
from collections.abc import AsyncIterator
from html.parser import HTMLParser
from typing import TYPE_CHECKING, Any, Final

import attrs
import httpx
import pytest

from factmem.abc import Candidate, Detection, DetectionRequest, Prompt
from factmem.abc.detector import Conversation, Doubt, Message
from factmem.browse.browser import Browser, Opened, Overview
from factmem.browse.web.app import make_app
from factmem.details import Evidence, FactDetails
from factmem.errors import ModelUnavailableError
from factmem.facts import Concept, MultipleConcept, SingleFact
from factmem.hidden_characters import HIDDEN
from factmem.memory.facade import Memory
from factmem.providers.memory import InMemoryProvider
from factmem.scopes import MemoryScope
from factmem.testing import HashEmbedder, ScriptedModel
from tests.browse.conftest import CITY, DAY, MAYA
from tests.memory.shelves import Shelf
from tests.memory.telling import USER, opened, talk, well
from tests.narrowing import not_none
from tests.tables import cases, each_case

CASES = cases(__file__)

if TYPE_CHECKING:
    from pydantic import BaseModel

HOST: Final = "127.0.0.1:8123"
TOKEN: Final = "only-once"
PAGES: Final = CASES["pages"]
"""Every page that is read."""
FORMS: Final = CASES["forms"]
"""Every address that takes a form."""


def client_of(memory: Memory, opened: Opened | None = None, browser: Browser | None = None) -> httpx.AsyncClient:
    """Return a browser in front of the pages, not let in yet."""
    app = make_app(browser or Browser(memory, opened), token=TOKEN, hosts=[HOST, "localhost:8123"])
    return httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{HOST}", follow_redirects=True)


async def let_in(client: httpx.AsyncClient) -> httpx.AsyncClient:
    """Exchange the token, as the printed address does."""
    assert (await client.get("/", params={"token": TOKEN})).status_code == 200
    return client


@pytest.fixture
async def client(memory: Memory) -> AsyncIterator[httpx.AsyncClient]:
    """A browser that was let in."""
    async with client_of(memory) as opened:
        yield await let_in(opened)


@attrs.frozen
class Doubting:
    """Finds twenty values in a conversation, and doubts each for one of some reasons."""

    concept: MultipleConcept[str]
    doubts: tuple[str, ...]

    async def detect(self, conversation: Conversation, request: DetectionRequest) -> Detection:
        (said,) = conversation.messages
        quote = Evidence(quote=said.content, conversation_id=conversation.id, message_id=said.id, role="user")
        return Detection(
            candidates=[
                Candidate(
                    fact=self.concept.fact([f"thing {number}"], timestamp=said.timestamp or DAY),
                    details=FactDetails(evidence=(quote,)),
                    doubt=Doubt(self.doubts[number % len(self.doubts)], askable=True),
                )
                for number in range(20)
            ]
        )


async def sent(client: httpx.AsyncClient, path: str, **fields: object) -> httpx.Response:
    """Send a form with the token that the pages carry."""
    page = (await client.get("/inbox")).text
    token = re.search(r'name="form_token" value="([^"]+)"', page)
    data = {"form_token": token[1] if token else "", **fields}
    return await client.post(path, data=data, headers={"origin": f"http://{HOST}"})


async def form_of(client: httpx.AsyncClient, id: str) -> dict[str, str]:
    """Return the fields of a record's edit form, as a browser sends them."""
    page = (await client.get(f"/record/{id}")).text
    form = re.findall(r'<form[^>]*class="edit".*?</form>', page, re.DOTALL)[0]
    fields = dict(re.findall(r'<input[^>]*name="(\w+)"[^>]*value="([^"]*)"', form))
    fields["value"] = re.findall(r"<textarea[^>]*>\n(.*?)</textarea>", form, re.DOTALL)[0].replace("\n", "\r\n")
    return {name: html.unescape(text) for name, text in fields.items()}


async def edited(client: httpx.AsyncClient, id: str, **fields: str) -> httpx.Response:
    """Open the form of a record, edit some fields, and send it."""
    return await sent(client, f"/record/{id}/update", **{**await form_of(client, id), **fields})


async def id_of(memory: Memory, keyword: str) -> str:
    """Return the id of the one current record of a concept."""
    (record,) = await memory.list_records(concepts=[keyword])
    return record.id


def text_of(page: str) -> str:
    """Return the text of a page as a person reads it."""
    return " ".join(html.unescape(re.sub(r"<[^>]+>", " ", page)).split())


# -- Who is let in ------------------------------------------------------------------------------------------------


async def test_nothing_is_shown_without_the_cookie(memory: Memory) -> None:
    async with client_of(memory) as client:
        for path in PAGES:
            answer = await client.get(path.format(id=await id_of(memory, "seats")))
            assert (answer.status_code, "Oslo" in answer.text) == (403, False), path
        for path in FORMS:
            answer = await client.post(path.format(id="1"), headers={"origin": f"http://{HOST}"})
            assert answer.status_code == 403, path


async def test_the_token_opens_the_pages_once(memory: Memory) -> None:
    async with client_of(memory) as first:
        assert (await first.get("/?token=wrong")).status_code == 403
        answer = await first.get("/", params={"token": TOKEN}, follow_redirects=False)
        assert (answer.status_code, answer.headers["location"]) == (303, "/")
        cookie = answer.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        assert TOKEN not in cookie
        again = await first.get("/", params={"token": TOKEN})
        assert (again.status_code, again.url.query) == (200, b"")
        first.cookies.clear()
        assert (await first.get("/", params={"token": TOKEN})).status_code == 403


async def test_a_local_file_may_hand_over_the_token_and_no_other_site_anything_else(memory: Memory) -> None:
    from_a_file = {"sec-fetch-site": "cross-site"}
    async with client_of(memory) as client:
        assert (await client.get("/", params={"token": "wrong"}, headers=from_a_file)).status_code == 403
        answer = await client.get("/", params={"token": TOKEN}, headers=from_a_file)
        assert (answer.status_code, "records" in answer.text) == (200, False)
        assert 'content="0; url=/"' in answer.text
        assert (await client.get("/", headers={"sec-fetch-site": "same-origin"})).status_code == 200
        assert (await client.get("/", headers=from_a_file)).status_code == 403
        assert (await client.get("/", params={"token": TOKEN}, headers=from_a_file)).status_code == 403


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1", "127.0.0.1:9", "evil.example:8123", "LOCALHOST.evil"])
async def test_other_host_names_are_refused(client: httpx.AsyncClient, host: str) -> None:
    """A name that was made to point here (DNS rebinding) opens nothing, though the browser sends its cookie."""
    assert (await client.get("/", headers={"host": host})).status_code == 403
    assert (await client.get("/", headers={"host": "localhost:8123"})).status_code == 200


@each_case("headers")
async def test_forms_of_other_sites_are_refused(
    client: httpx.AsyncClient, memory: Memory, headers: dict[str, str]
) -> None:
    sent = {name: value.replace("HOST", HOST) for name, value in headers.items()}
    id = await id_of(memory, "seats")
    page = (await client.get("/inbox")).text
    token = re.findall(r'name="form_token" value="([^"]+)"', page)[0]
    answer = await client.post(f"/record/{id}/retract", data={"form_token": token}, headers=sent)
    assert answer.status_code == 403
    assert await id_of(memory, "seats") == id


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_other_sites_read_nothing(client: httpx.AsyncClient, site: str) -> None:
    assert (await client.get("/export", headers={"sec-fetch-site": site})).status_code == 403


async def test_every_form_needs_its_token_and_is_never_sent_by_a_link(
    client: httpx.AsyncClient, memory: Memory
) -> None:
    before = await Browser(memory).mark()
    id = await id_of(memory, "seats")
    for path in (path.format(id=id) for path in FORMS):
        for data in ({}, {"form_token": ""}, {"form_token": "guess"}, {"form_token": "\u00fc"}):
            answer = await client.post(path, data={"id": id, **data}, headers={"origin": f"http://{HOST}"})
            assert (answer.status_code, "form" in text_of(answer.text)) == (400, True), path
        assert path == "/forget" or (await client.get(path)).status_code == 405, path
    assert await Browser(memory).mark() == before


async def test_every_answer_forbids_scripts_frames_and_caches(client: httpx.AsyncClient, memory: Memory) -> None:
    for path in (*PAGES, "/nowhere", "/static/browse.css"):
        headers = (await client.get(path.format(id=await id_of(memory, "seats")))).headers
        policy = headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "unsafe" not in policy
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == ("no-cache" if path.startswith("/static") else "no-store")


# -- What is shown ------------------------------------------------------------------------------------------------


async def test_the_pages_show_what_the_memory_knows(client: httpx.AsyncClient, memory: Memory) -> None:
    id = await id_of(memory, "seats")
    expected = {
        "/": ["records 5", "seats 120", "/product/fair", "user:maya", "in quarantine"],
        "/records?keyword=seats": ["seats 120", "about user:maya", "venue"],
        "/search?q=How many seats": ["seats 120", "similarity", "lexical", "80"],
        f"/record/{id}": ["Seats at the venue", "We have 120 seats now.", "Maya (user)", "superseded", "test"],
        "/subject?name=user:maya": ["Oslo", "Dutch", "120", "The person who talks with the agent"],
        "/inbox": ["The palace has 900 seats.", "In quarantine 1"],
        "/agent?question=seats&user=maya&product=fair": ["<memory>", "Oslo", "/product/fair"],
        "/forget?keyword=languages": ["2 records would go", "forget 2 records", "Norwegian"],
    }
    for path, texts in expected.items():
        page = text_of((await client.get(path)).text)
        assert [text for text in texts if text not in page] == [], path


async def test_what_answers_nothing_is_folded_under_a_heading_that_says_so(client: httpx.AsyncClient) -> None:
    page = (await client.get("/search", params={"q": "zxqv blorp"})).text
    before, folded = page.split('<details class="fold">')
    assert "<li>" not in before
    assert "Nothing answers this. Nearest:" in folded
    assert folded.count("<li>") == 5
    page = (await client.get("/search", params={"q": "How many seats?"})).text
    assert "120" in text_of(page)
    assert "Nothing answers" not in page


async def test_pages_load_nothing_from_elsewhere(client: httpx.AsyncClient, memory: Memory) -> None:
    """Links may lead to these pages only, and everything that is loaded is served here."""
    for path in PAGES[:-1]:
        page = (await client.get(path.format(id=await id_of(memory, "seats")))).text
        assert re.findall(r"""(?:src|href|action|formaction)=["'](?![/#])""", page) == [], path
        for address in set(re.findall(r'"(/static/[^"#]+)', page)):
            assert (await client.get(address)).status_code == 200


async def test_a_page_is_told_of_a_change_once(client: httpx.AsyncClient, memory: Memory) -> None:
    page = (await client.get("/")).text
    follower = html.unescape(re.findall(r'hx-get="(/changes\?seen=[^"]+)"', page)[0])
    assert (await client.get(follower)).status_code == 204
    await memory.save(SingleFact(Concept.single("gate", "A gate"), "north"))
    answer = await client.get(follower)
    assert (answer.status_code, answer.headers["hx-trigger"]) == (200, "memory-changed")
    follower = html.unescape(re.findall(r'hx-get="(/changes\?seen=[^"]+)"', answer.text)[0])
    assert (await client.get(follower)).status_code == 204


async def test_a_change_while_a_page_is_made_is_not_missed(memory: Memory) -> None:
    class Slow(Browser):
        """A browser to which something happens while it reads."""

        async def overview(self) -> Overview:
            page = await super().overview()
            await memory.save(SingleFact(Concept.single("gate", "A gate"), "north"))
            return page

    async with client_of(memory, browser=Slow(memory)) as client:
        page = (await (await let_in(client)).get("/")).text
        follower = html.unescape(re.findall(r'hx-get="(/changes\?seen=[^"]+)"', page)[0])
        assert (await client.get(follower)).status_code == 200


async def test_a_store_with_the_four_verbs_only_is_shown_as_far_as_it_goes() -> None:
    async with Memory(Shelf(), embedder=HashEmbedder()) as memory:
        (record,) = await memory.save(SingleFact(Concept.single("gate", "A gate"), "north"))
        async with client_of(memory) as client:
            await let_in(client)
            paths = ("/", "/records", "/search?q=gate", "/inbox", "/subject?name=everything", "/agent?question=x")
            for path in (*paths, f"/record/{record.id}"):
                answer = await client.get(path)
                assert (answer.status_code, path) == (200, path)
            assert "north" in (await client.get("/")).text


async def test_a_missing_file_is_a_plain_answer(memory: Memory) -> None:
    async with client_of(memory) as client:
        answer = await client.get("/static/none.css")
        assert (answer.status_code, answer.headers["content-type"]) == (404, "text/plain; charset=utf-8")


async def test_errors_are_pages_with_a_sentence(client: httpx.AsyncClient) -> None:
    for path, status in (
        ("/record/0", 404),
        ("/nowhere", 404),
        ("/records?scope=/../x", 400),
        ("/records?page=rubbish", 400),
        ("/names?of=owners", 400),
        ("/agent?question=x&budget=many", 400),
        ("/subject", 400),
    ):
        answer = await client.get(path)
        assert (answer.status_code, "Traceback" in answer.text) == (status, False), path
        assert "That is not possible" in text_of(answer.text)


async def test_an_export_is_a_download_of_everything_visible(client: httpx.AsyncClient) -> None:
    answer = await client.get("/export")
    assert "attachment" in answer.headers["content-disposition"]
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert lines[0]["kind"] == "factmem-export"
    assert len(lines) == 8
    assert "Secret Harbour" not in answer.text


# -- Escaping -----------------------------------------------------------------------------------------------------

XSS: Final = CASES["texts that run in a page"]
"""Texts that would do something if any place in a page showed them unescaped."""


class _Tags(HTMLParser):
    """Collects the tags of a page, with the names of their attributes."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, tuple[str, ...]]] = []
        self.values: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, tuple(name for name, _ in attrs)))
        self.values += [value or "" for name, value in attrs if name in ("href", "src", "action", "formaction")]


def tags_of(page: str) -> _Tags:
    """Return the tags of a page, as a browser would find them."""
    parser = _Tags()
    parser.feed(page)
    return parser


async def tags_about(words: str) -> dict[str, _Tags]:
    """Return the tags of every page over a memory with the same words in every place that takes some."""
    name = words.replace("\u0000", "")
    subject, scope = MAYA.individual(name), MemoryScope.product(name)
    said = Evidence(quote=words, speaker=words, role="user", conversation_id=words, message_id=words)
    details = FactDetails(evidence=(said,), categories=(name,), topics=(name,), source=words, metadata={words: words})
    concept = Concept.single(name, words)
    async with Memory("memory:", embedder=HashEmbedder(), actor=name) as memory:
        for value in (words, f"{words} again"):
            (record,) = await memory.save(
                SingleFact(concept, value, timestamp=DAY), subject=subject, scope=scope, details=details
            )
        await memory.remember(Message(content=words, role="tool"), source=words)
        asked: list[tuple[str, dict[str, str]]] = [
            ("/", {}),
            ("/records", {"keyword": name, "category": name, "source": words, "scope": str(scope)}),
            ("/names", {"of": "subjects"}),
            ("/search", {"q": words, "subject": str(subject)}),
            (f"/record/{record.id}", {}),
            ("/subject", {"name": str(subject)}),
            ("/inbox", {}),
            ("/agent", {"question": words, "user": name, "product": name}),
            ("/forget", {"keyword": name}),
            ("/forget", {"id": words}),
            ("/records", {"page": words}),
        ]
        async with client_of(memory, Opened(store=words, viewer=words, walls=(words,))) as client:
            await let_in(client)
            pages = [(await client.get(path, params=given)).text for path, given in asked]
            typed = await edited(client, record.id, value=words, importance=words, scope=words)
    assert all("<h1" in page for page in (*pages, typed.text))
    names = [f"{path} {sorted(given)}".replace(record.id, "") for path, given in asked]
    return {name: tags_of(page) for name, page in zip([*names, "update"], [*pages, typed.text], strict=True)}


async def test_no_text_of_a_memory_becomes_markup() -> None:
    """In a value, a name, a quote or an address: the pages have the tags that harmless words have."""
    harmless = {False: await tags_about("harmless"), True: await tags_about("harm\u202eless\u200b")}
    for text in XSS:
        plain = harmless[HIDDEN.search(text) is not None]  # hidden characters are flagged, with a tag
        for page, tags in (await tags_about(text)).items():
            if page.startswith("/search"):  # a match may have another number of reasons
                assert set(tags.found) == set(plain[page].found), text
            else:
                assert tags.found == plain[page].found, (text, page)
            assert all(value.startswith(("/", "#")) for value in tags.values), (text, page)


async def test_hidden_characters_are_shown_and_values_to_edit_stay_as_they_are(memory: Memory) -> None:
    (record,) = await memory.save(SingleFact(Concept.single("note", "A note"), "a\u202eb\n  second line"))
    async with client_of(memory) as client:
        await let_in(client)
        page = (await client.get(f"/record/{record.id}")).text
        assert "a\ufffdb second line" in page
        assert ">\na\u202eb\n  second line</textarea>" in page
        await edited(client, record.id, importance="0.9")
    changed = await memory.get(record.id)
    assert (changed.value, changed.importance) == (record.value, 0.9)
    assert len(await memory.history(record.id)) == 2


# -- Forms --------------------------------------------------------------------------------------------------------


async def test_a_fact_is_corrected_undone_retracted_restored_and_rolled_back(
    client: httpx.AsyncClient, memory: Memory
) -> None:
    id = await id_of(memory, "seats")
    page = await edited(client, id, value="140")
    assert "The revision before is in its history." in text_of(page.text)
    assert (await memory.get(id)).value == 140
    assert "The revision before" not in text_of((await client.get(f"/record/{id}")).text)
    await sent(client, f"/record/{id}/undo")
    assert (await memory.get(id)).value == 120
    await sent(client, f"/record/{id}/retract", reason="closed down")
    assert "closed down" in text_of((await client.get(f"/record/{id}")).text)
    await sent(client, f"/record/{id}/restore")
    first = (await memory.history(id))[0]
    await sent(client, f"/record/{id}/rollback", revision=first.revision)
    assert (await memory.get(id)).value == 80


async def test_a_refused_value_stays_in_the_form(client: httpx.AsyncClient, memory: Memory) -> None:
    id = await id_of(memory, "seats")
    answer = await edited(client, id, value="plenty of", scope="/product/x")
    assert answer.status_code == 400
    assert answer.text.index("not a valid int") < answer.text.index("Revisions")  # in view, also on a phone
    assert ">\nplenty of</textarea>" in answer.text
    assert 'value="/product/x"' in answer.text
    assert "not a valid int" in text_of(answer.text)
    assert (await memory.get(id)).value == 120


async def test_an_edit_on_top_of_a_newer_revision_is_a_conflict_that_shows_both(
    client: httpx.AsyncClient, memory: Memory
) -> None:
    id = await id_of(memory, "city")
    opened = await form_of(client, id)
    await memory.save(SingleFact(CITY, "Lisbon"), subject=MAYA)
    answer = await sent(client, f"/record/{id}/update", **{**opened, "importance": "0.9"})
    assert answer.status_code == 409
    assert "value Oslo Lisbon Oslo importance 0.5 0.5 0.9" in text_of(answer.text)
    assert (await memory.get(id)).value == "Lisbon"
    assert ">\nLisbon</textarea>" in answer.text  # the form goes on with both
    assert 'value="0.9"' in answer.text
    await sent(client, f"/record/{id}/update", **{**await form_of(client, id), "importance": "0.9"})
    changed = await memory.get(id)
    assert (changed.value, changed.importance) == ("Lisbon", 0.9)


async def test_a_moved_record_is_shown_at_its_new_address(client: httpx.AsyncClient, memory: Memory) -> None:
    id = await id_of(memory, "seats")
    answer = await edited(client, id, scope="/product/other")
    assert answer.url.path == f"/record/{await id_of(memory, 'seats')}"
    assert answer.url.path != f"/record/{id}"


async def test_quarantined_words_are_let_in_or_turned_away(client: httpx.AsyncClient, memory: Memory) -> None:
    (waiting,) = await memory.inbox.quarantine.list()
    await sent(client, "/inbox/reject", id=waiting.id, reason="hearsay")
    assert await memory.inbox.quarantine.list() == []
    await sent(client, "/inbox/accept", id=waiting.id)
    assert waiting.value in [record.value for record in await memory.list_records(concepts=["statement"])]
    nothing = await sent(client, "/inbox/accept")
    assert (nothing.status_code, "nothing is chosen" in text_of(nothing.text)) == (400, True)


async def test_twenty_waiting_facts_are_shown_with_their_reasons_and_accepted_in_one_request() -> None:
    doubts = ("said in a list", "the sentence denies something")
    thing = Concept.multiple("things", "What somebody likes")
    async with Memory("memory:", detector=Doubting(thing, doubts), verifier=False) as memory:
        await memory.remember([Message(content="I like: all of these", id="m")])
        async with client_of(memory) as client:
            page = (await (await let_in(client)).get("/inbox")).text
            assert [page.count(f"waits: {doubt}") for doubt in doubts] == [10, 10]
            assert page.count('class="choose-all"') == 1
            ids = re.findall(r'<input type="checkbox" name="id" value="([^"]+)"', page)
            assert len(ids) == 20
            token = re.findall(r'name="form_token" value="([^"]+)"', page)[0]
            answer = await client.post(
                "/inbox/accept", data={"form_token": token, "id": ids}, headers={"origin": f"http://{HOST}"}
            )
            assert "20 records accepted" in text_of(answer.text)
            assert "Nothing waits." in text_of(answer.text)
        assert len(not_none(await memory.load(thing)).values) == 20


async def test_an_accepted_wish_to_forget_says_what_it_took_back() -> None:
    city, wish = Concept.single("city", "The city where somebody lives"), "Please forget my city."
    asked = {"forget": [{"quote": wish, "message": 1, "keyword": "city"}]}
    model = ScriptedModel(lambda prompt, answer: asked if answer.__name__ == "Findings" else {})
    async with Memory("memory:", model=model, concepts=[city], embedder=HashEmbedder()) as memory:
        (waiting,) = (await memory.remember(Message(content=wish))).waiting
        async with client_of(memory) as client:
            await let_in(client)
            still = await sent(client, "/inbox/accept", id=waiting.id)
            assert "0 records accepted, 1 still to wait" in text_of(still.text)
            await memory.save(city.fact(["Graz"], timestamp=waiting.timestamp - dt.timedelta(days=1)))
            done = await sent(client, "/inbox/accept", id=waiting.id)
            assert "1 record accepted, 1 record forgotten as asked." in text_of(done.text)
        assert list(await memory.list_records()) == []


async def test_texts_that_the_model_failed_to_read_are_read_again_or_dismissed() -> None:
    down = [True]

    def script(prompt: Prompt, answer: type[BaseModel]) -> dict[str, Any] | Exception:
        return ModelUnavailableError("down") if down[0] else well(prompt, answer)

    async with opened(InMemoryProvider(), ScriptedModel(script)) as memory:
        for text in ("I live in Oslo.", "I have a cat."):
            await memory.remember(talk(text, id=text), subject=USER)
        async with client_of(memory, Opened(has_model=True)) as client:
            page = text_of((await (await let_in(client)).get("/inbox")).text)
            assert "Not read by the model 2" in page
            assert "ModelUnavailableError" in page
            oslo, cat = await memory.inbox.dead_letters.list()
            again = await sent(client, "/inbox/retry", id=oslo.id)
            assert "1 of 1 texts could not be read again (ModelUnavailableError)" in text_of(again.text)
            down[0] = False
            assert "1 record changed" in text_of((await sent(client, "/inbox/retry", id=oslo.id)).text)
            await sent(client, "/inbox/dismiss", id=cat.id)
            assert "Every text was read." in text_of((await client.get("/inbox")).text)
        assert [record.value for record in await memory.list_records(concepts=["city"])] == ["Oslo"]
        assert await memory.inbox.dead_letters.list() == ()


async def test_forgetting_needs_the_words_and_the_records_that_were_seen(
    client: httpx.AsyncClient, memory: Memory
) -> None:
    seal = re.findall(r'name="seal" value="([^"]+)"', (await client.get("/forget?keyword=languages")).text)[0]
    for typed, kept in (("yes", 2), ("forget 2 records", 0)):
        answer = await sent(client, "/forget", keyword="languages", seal=seal, typed=typed)
        assert len(await memory.list_records(concepts=["languages"])) == kept
        assert ("for good" in text_of(answer.text)) is True
    stale = await sent(client, "/forget", keyword="city", seal=seal, typed="forget 1 record")
    assert (stale.status_code, "look again" in text_of(stale.text)) == (400, True)
    assert len(await memory.list_records(concepts=["city"])) == 1


async def test_a_read_only_memory_has_no_forms_that_change_it(memory: Memory) -> None:
    view = memory.view(scopes=["/product/fair"], read_only=True)
    async with client_of(view, Opened(read_only=True)) as client:
        await let_in(client)
        id = await id_of(view, "seats")
        for path in PAGES[:-2]:
            page = (await client.get(path.format(id=id).replace("keyword=city", "keyword=seats"))).text
            assert not re.search(r"<button[^>]*>(Accept|Retract|Save|Undo|Erase)", page), path
        token = re.findall(r'name="form_token" value="([^"]+)"', (await client.get("/inbox")).text)[0]
        answer = await client.post(
            f"/record/{id}/retract", data={"form_token": token}, headers={"origin": f"http://{HOST}"}
        )
        assert answer.status_code == 403
        assert "read-only" in text_of(answer.text)


# -- Walls --------------------------------------------------------------------------------------------------------


async def test_no_page_shows_what_another_viewer_owns(memory: Memory) -> None:
    (private,) = await memory.view(viewer="maya").list_records(concepts=["city"], record_ids=None, limit=1)
    assert private.private
    for viewer, sees in (("maya", True), ("leo", False), (None, False)):
        async with client_of(memory.view(viewer=viewer), Opened(viewer=viewer or "")) as client:
            await let_in(client)
            for path in PAGES:
                answer = await client.get(path.format(id=private.id))
                assert answer.status_code == (404 if "{id}" in path and not sees else 200), path
                if not sees:
                    assert "Secret Harbour" not in answer.text, path
                    assert private.id not in answer.text.replace("/record/" + private.id, ""), path


async def test_no_form_reaches_what_another_viewer_owns(memory: Memory) -> None:
    maya = memory.view(viewer="maya")
    (private,) = await maya.list_records(concepts=["city"], limit=1)
    before = await Browser(maya).mark()
    async with client_of(memory.view(viewer="leo"), Opened(viewer="leo", has_model=True)) as client:
        await let_in(client)
        fields = {"value": "x", "importance": "1", "scope": "/product/x", "seal": "", "typed": "forget 1 record"}
        for path in (path.format(id=private.id) for path in FORMS):
            answer = await sent(client, path, id=private.id, revision=private.revision, **fields)
            assert answer.status_code in (400, 404), path
            assert "Secret Harbour" not in answer.text, path
    assert await Browser(maya).mark() == before


async def test_no_page_leads_out_of_the_view(memory: Memory) -> None:
    outside = await id_of(memory, "seats")
    async with client_of(memory.scope("/product/fair/stage"), Opened(walls=("/product/fair/stage",))) as client:
        await let_in(client)
        for path in PAGES:
            page = (await client.get(path.format(id=outside))).text
            # Whole words, for times and random tokens contain any short row of digits.
            assert re.findall(r"\b(?:120|Oslo|Norwegian|900 seats)\b", page) == [], path
        for scope in ("/product/fair", "/agent/x"):
            assert (await client.get("/records", params={"scope": scope})).status_code == 403
