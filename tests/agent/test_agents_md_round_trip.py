"""Round trip of facts in a managed block: any value at any position reads back, and the text around it is unchanged."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from factmem import STATEMENT, Concept, FactRecord, MemoryScope, MemorySubject
from factmem.agent.agents_md.comments import visible
from factmem.agent.agents_md.facts_file import block_in, written_into
from factmem.agent.agents_md.page import (
    Edits,
    Page,
    bullet_of,
    bullets_in,
    one_line,
    original,
    page_of,
    reconciled,
    said_in,
)
from factmem.details import FactDetails, Origin
from factmem.errors import CodecError, InvalidDataError
from factmem.records import Place
from factmem.testing.strategies import names, typed_values
from factmem.values import canonical_bytes, encode_value
from tests.narrowing import not_none

NOW = dt.datetime(2026, 1, 2, 3, 4, tzinfo=dt.UTC)
USER = MemorySubject("user", priority_level=1)
HOSTILE = ["<!-- factmem:begin -->", "<!-- factmem:end -->", "<!--", "-->", "```", "~~~", "\n", "\r\n", "\u2028"]
HOSTILE += ["- ", "### user", "**city**: ", " (said 2026-01-02)", "&lt;", "&#10;", "&amp;", "<br>", "</agent_memory>"]
HOSTILE += [" ", "\t", "\x00", "a", "é", "\\", "`", "1. ", "    ", "]", "語", ">", "#", "\x85"]
TEXTS = st.lists(
    st.sampled_from(HOSTILE) | st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=8
).map("".join)
SAYABLE = TEXTS.filter(lambda text: bool(text.strip()))


def record(value: Any, concept: Concept[Any, Any] = STATEMENT, **changes: Any) -> FactRecord[Any]:
    """A record of one value."""
    given = {
        "id": "r1",
        "fact": concept.fact([value], timestamp=NOW),
        "subject": USER,
        "scope": MemoryScope.CROSS_PRODUCT,
        "details": FactDetails(),
        "revision": 1,
        "recorded_at": NOW,
    }
    return FactRecord(**given | changes)


def read_again(page: Page, text: str, records: Sequence[FactRecord[Any]]) -> Edits:
    """Return the edits found in a text, compared with the page that was written to it."""
    block = not_none(block_in(text, "AGENTS.md"))
    assert block.shown == tuple((id, bullet.digest) for id, bullet in page.shown)
    bullets = bullets_in(block.text, page.places)
    return reconciled(block.shown, bullets, page=page, records={item.id: item for item in records}, concepts={})


@given(TEXTS)
def test_any_text_is_one_line_that_opens_nothing_and_reads_back(text: str) -> None:
    line = one_line(text)
    assert original(line) == text
    assert len(f"x{line}x".splitlines()) == 1
    assert "<!" not in line
    assert "-->" not in line


def test_a_plain_text_stays_as_it_is() -> None:
    for text in ("I like tea & milk > juice.", "C:\\new", "a `b` *c* [d](e)", "&c; &#x; R&D"):
        assert one_line(text) == text


@given(SAYABLE)
def test_a_statement_reads_back_whatever_it_says(value: str) -> None:
    said = said_in(bullet_of(record(value), "h"), {})
    assert (said.concept, said.value) == (STATEMENT, value)


@given(SAYABLE, names(), st.booleans(), st.sampled_from(Origin), st.none() | st.just(NOW))
def test_a_typed_text_reads_back_with_its_concept(
    value: str, keyword: str, private: bool, origin: Origin, valid: dt.datetime | None
) -> None:
    concept = Concept.single(keyword, "")
    assume(keyword != STATEMENT.keyword)
    details = FactDetails(owner="alice" if private else None, origin=origin)
    fact = concept.fact([value], timestamp=NOW, valid_from=valid, valid_to=valid)
    said = said_in(bullet_of(record(value, concept, fact=fact, details=details), "h"), {keyword: concept})
    assert (said.concept, said.value) == (concept, value)


@given(typed_values(), st.booleans())
def test_a_value_of_any_type_reads_back(typed: tuple[Any, Any], multiple: bool) -> None:
    value_type, value = typed
    make: Any = Concept.multiple if multiple else Concept.single
    concept = make("thing", "", value_type)
    try:
        shown = record(value, concept)
    except InvalidDataError:  # a blank text, which is not a fact
        return
    read = said_in(bullet_of(shown, "h"), {"thing": concept}).value
    assert canonical_bytes(encode_value(read, value_type)) == canonical_bytes(encode_value(shown.value, value_type))


@given(TEXTS, SAYABLE, SAYABLE)
def test_the_bytes_around_the_block_are_unchanged(text: str, value: str, later: str) -> None:
    """The block is inserted, found again and replaced; the bytes before and after it are unchanged at each step."""
    assume("factmem:" not in text)
    first = page_of([record(value)], [Place(USER, MemoryScope.CROSS_PRODUCT)])
    once = written_into(text, None, first)
    block = not_none(block_in(once, "AGENTS.md"))
    around = once[: block.start], once[block.end :]
    assert around[0].startswith(text) or around[1].endswith(text)
    assert not "".join(around).replace(text, "", 1).strip("\r\n")
    assert not read_again(first, once, [record(value)])
    second = page_of([record(later)], [Place(USER, MemoryScope.CROSS_PRODUCT)])
    twice = written_into(once, block, second)
    found = not_none(block_in(twice, "AGENTS.md"))
    assert (twice[: found.start], twice[found.end :]) == around
    assert written_into(twice, found, second) == twice


@given(st.lists(SAYABLE, min_size=1, max_size=5, unique=True), names(), names())
def test_an_unedited_page_changes_nothing(values: list[str], subject: str, scope: str) -> None:
    place = Place(MemorySubject(subject), MemoryScope.product(scope))
    records = [
        record(value, id=f"r {number}", subject=place.subject, scope=place.scope) for number, value in enumerate(values)
    ]
    page = page_of(records, [Place(USER, MemoryScope.CROSS_PRODUCT)])
    assert not read_again(page, written_into("", None, page), records)
    assert visible(page.text) == page.text, "a written page has no hidden text"


@pytest.mark.parametrize("text", ["a\n```\ncode", "a\n<!-- never closed", "write <!-- so", "- ~~~\n  x"])
def test_a_block_is_never_put_where_code_or_a_comment_would_hide_it(text: str) -> None:
    page = page_of([record("x")], [Place(USER, MemoryScope.CROSS_PRODUCT)])
    written = written_into(text, None, page)
    assert written.endswith(text)
    assert block_in(written, "AGENTS.md") is not None


def test_a_block_in_code_is_not_a_block() -> None:
    page = page_of([record("x")], [Place(USER, MemoryScope.CROSS_PRODUCT)])
    example = f"```\n{written_into('', None, page)}```\n"
    assert block_in(example, "AGENTS.md") is None
    both = written_into(example, None, page)
    assert both.startswith(example)
    assert not read_again(page, both, [record("x")])


@pytest.mark.parametrize(
    ("spoil", "why"),
    [
        (lambda text: text.replace("<!-- factmem:end", "<!-- end"), "do not match"),
        (lambda text: text.replace("<!-- factmem:begin", "<!-- begin"), "do not match"),
        (lambda text: text + text, "do not match"),
        (lambda text: text.replace(" r1:", " r1-"), "marker is damaged"),
        (lambda text: "```\n" + text, "line 1 opens code or a comment"),
        (lambda text: "a\n\n<!-- b\n" + text.replace("-->", "--"), "line 3 opens code or a comment"),
    ],
)
def test_a_damaged_block_is_an_error_and_never_guessed_at(spoil: Any, why: str) -> None:
    page = page_of([record("secret")], [Place(USER, MemoryScope.CROSS_PRODUCT)])
    with pytest.raises(CodecError, match=why) as failure:
        block_in(spoil(written_into("", None, page)), "AGENTS.md")
    assert "secret" not in str(failure.value)
