"""Postings computed for all terms at once equal those of a plain loop."""

from __future__ import annotations

import random
import struct
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from factmem.recall.index import segments
from factmem.recall.index.columns import Columns, Rows
from factmem.recall.index.outline_codec import BODY, BODY_FIELDS
from factmem.recall.index.segments import post

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
            shared=[b'["/agent/a","user",null,0,"word",null]'] * count,
            own=[
                BODY.pack(0, 0, 0.5, *(0 for _ in range(len(BODY_FIELDS) - 3))) + struct.pack(f"<{len(held)}Q", *held)
                for held in terms
            ],
        )
    )
    return columns


@example([[5] * 255, [5, 6], [6] * 256], random.Random(0))
@given(st.lists(_TERMS, min_size=1, max_size=40), st.randoms())
def test_each_term_is_posted_with_its_rows_and_counts(terms: list[list[int]], chance: random.Random) -> None:
    order = list(range(len(terms)))
    chance.shuffle(order)
    expected: dict[int, dict[int, int]] = defaultdict(dict)
    for row, held in enumerate(order):
        for term, count in Counter(terms[held]).items():
            expected[term][row] = count

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(segments, "_ROWS_AT_ONCE", 7)
        distinct, begins, rows, counts = post(columns_of(terms), np.array(order, np.intp))

    assert len(begins) == len(distinct) + 1
    assert begins[-1] == len(rows) == len(counts)
    found = [
        (term, dict(zip(rows[start:end].tolist(), counts[start:end].tolist(), strict=True)))
        for term, start, end in zip(distinct.tolist(), begins[:-1].tolist(), begins[1:].tolist(), strict=True)
    ]
    assert found == sorted(expected.items())
    assert all(list(held) == sorted(held) for _, held in found)
