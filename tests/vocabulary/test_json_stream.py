"""JSON of any size, one row at a time: in a list, in the answer of an API, or one a line."""

from __future__ import annotations

import io
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.errors import FileFormatError
from factmem.json_stream import json_rows
from tests.tables import cases

CASES = cases(__file__)

ROWS = st.lists(
    st.dictionaries(st.text(max_size=5), st.none() | st.integers() | st.text(max_size=20), max_size=3).filter(
        lambda row: "rows" not in row
    ),
    max_size=5,
)


class Trickling(io.StringIO):
    """Text that comes a few characters at a time, however many are asked for."""

    def read(self, size: int | None = -1) -> str:
        return super().read(3)


def rows(text: str, *keys: str, most: int | None = None) -> list[Any]:
    return [value for _, value in json_rows(Trickling(text), *keys, most=most)]


@given(ROWS, st.dictionaries(st.text(max_size=5), st.text(max_size=5), max_size=3))
def test_rows_read_alike_from_a_list_an_answer_and_lines(given: list[Any], around: dict[str, Any]) -> None:
    assert rows(json.dumps(given)) == given
    assert rows(json.dumps({**around, "rows": given}), "rows") == given
    assert (
        rows(json.dumps({"rows": given, **{key: item for key, item in around.items() if key != "rows"}}), "rows")
        == given
    )
    assert rows("\n".join(json.dumps(row) for row in given), "rows") == given


def test_a_row_has_the_path_where_it_stands() -> None:
    assert [path for path, _ in json_rows(io.StringIO('{"of": 2, "rows": [1, 2]}'), "rows")] == [
        "$.rows[0]",
        "$.rows[1]",
    ]
    assert [path for path, _ in json_rows(io.StringIO('{"a": 1} {"a": 2}'))] == ["$", "$[1]"]
    assert rows('{"rows": "none", "a": {}}', "rows") == [{"rows": "none", "a": {}}]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        *CASES["a damaged file is a typed error"],
        ("[" * 100_000, "nested too deeply"),
        ('{"rows": ' + "[" * 100_000, "nested too deeply"),
        ('{"a": ' + '{"a":' * 100_000, "nested too deeply"),
    ],
)
def test_a_damaged_file_is_a_typed_error(text: str, message: str) -> None:
    with pytest.raises(FileFormatError, match=message):
        list(json_rows(io.StringIO(text), "rows"))


def test_neither_one_row_nor_the_fields_around_the_rows_may_fill_the_memory() -> None:
    long = json.dumps("x" * 30_000)
    with pytest.raises(FileFormatError, match="longer than 10,000"):
        rows(f'{{"rows": [{long}]}}', "rows", most=10_000)
    with pytest.raises(FileFormatError, match="longer than 10,000"):
        rows(json.dumps({str(number): "x" * 100 for number in range(200)}), most=10_000)
    with pytest.raises(FileFormatError, match="longer than 10,000"):
        list(json_rows(io.StringIO(long), most=10_000))
    assert len(rows(json.dumps({"rows": ["x" * 100] * 200}), "rows", most=10_000)) == 200
