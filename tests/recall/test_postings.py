"""Postings computed for all terms at once equal those of a plain loop."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from factmem.recall.index import postings
from factmem.recall.index.columns import Columns, Rows
from factmem.recall.index.outline_codec import BODY, BODY_FIELDS
from factmem.recall.index.postings import Block, extended, occurrences
from factmem.recall.text.related_words import Term

_TERMS = st.lists(st.integers(0, 2**64 - 1) | st.sampled_from([7 << 40, (7 << 40) + 1, (7 << 40) + 2]), max_size=6)
"""Some differ in their lowest bits only, which are cut to make room for the row number."""


def columns_of(terms: list[list[int]]) -> Columns:
    """Return columns in which only the terms matter."""
    columns, count = Columns(), len(terms)
    columns.add(
        Rows(
            seqs=list(range(1, count + 1)),
            ids=list(range(1, count + 1)),
            records=list(range(1, count + 1)),
            recorded_at=[0] * count,
            shared=[b'["/agent/a","user",null,0,"word",null,"",null]'] * count,
            own=[
                BODY.pack(0, 0, 0.5, *(0 for _ in range(len(BODY_FIELDS) - 3))) + struct.pack(f"<{len(held)}Q", *held)
                for held in terms
            ],
        )
    )
    return columns


@example([[5] * 255, [5, 6], [6] * 256], [0, 1, 2])
@given(st.lists(_TERMS, min_size=1, max_size=40), st.lists(st.integers(0, 40)))
def test_each_term_is_posted_with_its_rows_and_counts(terms: list[list[int]], ends: list[int]) -> None:
    """Rows are posted in some steps, each of which ends a block or makes small ones anew."""
    columns, blocks = columns_of(terms), tuple[Block, ...]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(postings, "_ROWS_AT_ONCE", 7)
        patch.setattr(postings, "_GROWTH", 1)
        for end in sorted({*(end for end in ends if 0 < end < len(terms)), len(terms)}):
            blocks = extended(blocks, columns, end)

    assert [block.first for block in blocks] == [0, *(block.end for block in blocks[:-1])]
    several = sorted({term for held in terms for term in held}) or [1]
    asked = [Term(term, np.array([term], np.uint64), np.ones(1, np.float32)) for term in several]
    hits = occurrences(blocks, asked, None, len(terms))
    even = occurrences(blocks, asked, np.arange(len(terms)) % 2 == 0, len(terms))
    for place, term in enumerate(several):
        expected = [held.count(term) for held in terms]
        assert hits.of_term(place)[0].tolist() == [row for row, count in enumerate(expected) if count]
        assert even.of_term(place)[0].tolist() == [row for row, count in enumerate(expected) if count and row % 2 == 0]
        assert hits.among(np.arange(len(terms)))[place].tolist() == expected
    assert hits.rows.tolist() == [row for place in range(len(several)) for row in hits.of_term(place)[0].tolist()]
    assert hits.documents().tolist() == [sum(term in held for held in terms) for term in several]


@given(st.lists(_TERMS, min_size=1, max_size=40))
def test_related_terms_count_by_their_weights(terms: list[list[int]]) -> None:
    columns = columns_of(terms)
    blocks = extended(extended((), columns, (len(terms) + 1) // 2), columns, len(terms))
    related = Term(7 << 40, np.array([7 << 40, (7 << 40) + 1], np.uint64), np.array([1, 0.5], np.float32))
    counts = [held.count(7 << 40) + held.count((7 << 40) + 1) / 2 for held in terms]

    hits = occurrences(blocks, [related], None, len(terms))
    assert hits.rows.tolist() == np.flatnonzero(counts).tolist()
    assert hits.counts.tolist() == [count for count in counts if count]
    assert hits.among(np.arange(len(terms))).tolist() == [counts]
    assert hits.documents().tolist() == [sum(min(count, 1) for count in counts)]
