"""Embeddings are stored as finite unit vectors, or refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.errors import InvalidVectorError
from factmem.vectors import storable_vector, unit_rows, unit_vector

numbers = st.floats(width=32, allow_nan=False, allow_infinity=False)


@given(st.lists(numbers, min_size=1, max_size=8).filter(any))
def test_a_vector_is_scaled_to_length_one(row: list[float]) -> None:
    """The range of lengths is that of float32, from the smallest to the largest."""
    unit = unit_vector(row)
    assert unit.dtype == np.float32
    assert np.linalg.norm(unit.astype(np.float64)) == pytest.approx(1, abs=1e-5)
    assert np.sign(unit).tolist() == pytest.approx(np.sign(row).tolist(), abs=1)


@given(st.lists(numbers, min_size=3, max_size=3).filter(any))
def test_a_vector_is_the_same_alone_and_among_others(row: list[float]) -> None:
    among = unit_rows([[0, 1, 0], row])[1]
    np.testing.assert_array_max_ulp(unit_vector(row), among)
    np.testing.assert_array_equal(unit_rows([row])[0], unit_vector(row))


def test_a_direction_is_kept() -> None:
    np.testing.assert_allclose(unit_vector([3, 0, 4]), [0.6, 0, 0.8], atol=1e-7)
    np.testing.assert_allclose(unit_rows([[0, 2], [5, 0]]), [[0, 1], [1, 0]], atol=1e-7)


def test_what_came_in_is_not_changed() -> None:
    row = np.array([3, 4], dtype=np.float32)
    unit_vector(row)[0] = 9
    assert row.tolist() == [3, 4]


@pytest.mark.parametrize(
    "vector",
    [
        *([0, 0], [float("nan"), 1], [float("inf"), 1], [1e39, 1], [], [[1, 2]], 5, None, "ab", ["a", "b"]),
        *([[1], [2, 3]], [1j, 2], np.array([1j, 2]), pytest.param(object(), id="an object")),
    ],
    ids=repr,
)
def test_what_is_no_direction_is_refused(vector: Any) -> None:
    with pytest.raises(InvalidVectorError):
        unit_vector(vector)


def test_a_wrong_dimension_is_named() -> None:
    with pytest.raises(InvalidVectorError, match=r"3.*2"):
        unit_vector([1, 2, 3], dimension=2)
    assert unit_rows(np.zeros((0, 2)), dimension=2).shape == (0, 2)


def test_the_path_names_the_bad_row() -> None:
    with pytest.raises(InvalidVectorError) as error:
        unit_rows([[1, 0], [0, 1], [0, 0]])
    assert error.value.path == "$[2]"


@pytest.mark.parametrize("matrix", [[1, 2], [[[1]]], "x", None, [[1], [1, 2]]], ids=repr)
def test_what_is_no_matrix_is_refused(matrix: Any) -> None:
    with pytest.raises(InvalidVectorError):
        unit_rows(matrix)


def test_a_store_without_an_embedder_takes_no_vector() -> None:
    with pytest.raises(InvalidVectorError, match="use_embedder"):
        storable_vector([1, 2], dimension=None)
    np.testing.assert_allclose(storable_vector([0, 2], dimension=2), [0, 1])
