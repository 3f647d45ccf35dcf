"""The words of a text, in any language."""

from __future__ import annotations

import pytest

from factmem import BlockingMemory, Memory
from factmem.recall import analyse


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("José", "jose"),
        ("caf\N{LATIN SMALL LETTER E WITH ACUTE}", "cafe\N{COMBINING ACUTE ACCENT}"),
        ("Straße", "STRASSE"),
        ("ΣΊΣΥΦΟΣ", "σίσυφος"),
        ("Ёлка", "елка"),
        ("ＡＢＣ", "abc"),
        ("שָׁלוֹם", "שלום"),
        ("مُحَمَّد", "محمد"),
        ("don\N{RIGHT SINGLE QUOTATION MARK}t stop", "don't stop"),
        ("naïvely", "naively"),
    ],
)
def test_ways_to_write_a_word_are_one(one: str, other: str) -> None:
    assert analyse(one) == analyse(other) != []


@pytest.mark.parametrize(
    ("text", "terms"),
    [
        ("喜欢饺子", ["喜欢", "欢饺", "饺子", "喜", "欢", "饺", "子"]),
        ("猫", ["猫"]),
        ("タワーへ", ["タワ", "ワー", "ーへ"]),
        ("ジョン・スミス", ["ジョ", "ョン", "スミ", "ミス"]),
        ("서울에 살아", ["서울", "울에", "살아"]),
        ("在Berlin住", ["在", "berlin", "住"]),
        ("हिन्दी भाषा।", ["हिन्दी", "भाषा"]),
    ],
)
def test_scripts_have_the_words_they_are_read_by(text: str, terms: list[str]) -> None:
    assert analyse(text) == terms


def test_what_is_neither_letter_nor_digit_is_no_word() -> None:
    assert analyse("\N{CAT FACE} — … _ · 。！") == []


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("饺子", "我住在上海,喜欢吃饺子"),
        ("猫", "她的猫叫雪球"),
        ("東京", "東京タワーの近くに住んでいます"),
        ("서울", "저는 서울에 살아요"),
        ("ข้าว", "ผู้หญิงกินข้าว"),
        ("Jose", "José feiert im Garten"),
    ],
)
def test_recall_finds_words_in_every_script(query: str, found: str) -> None:
    with BlockingMemory(Memory("memory:")) as memory:
        for text in (
            "我住在上海,喜欢吃饺子",
            "她的猫叫雪球",
            "東京タワーの近くに住んでいます",
            "저는 서울에 살아요",
            "ผู้หญิงกินข้าว",
            "José feiert im Garten",
        ):
            memory.remember(text)
        (best,) = memory.recall(query, limit=1)
        assert best.record.value == found
        assert best.parts.lexical > 0.5
