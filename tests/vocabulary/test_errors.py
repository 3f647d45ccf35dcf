"""Errors pass between processes as they are."""

from __future__ import annotations

import pickle
from collections.abc import Iterator

import pytest

from factmem import FactMemError, errors
from factmem.errors import (
    IncompleteProfileError,
    InvalidDataError,
    MemoryFileError,
    MissingPackageError,
    QuotaExceededError,
    SeveralIndividualsError,
)


def every_error() -> Iterator[FactMemError]:
    made: list[FactMemError] = [
        IncompleteProfileError("Guest", ["name"]),
        InvalidDataError("it is not legal", path="$.name"),
        MemoryFileError("it is too long", file="AGENTS.md"),
        MissingPackageError("nothing", extra="llm"),
        QuotaExceededError(5, per_writer=True),
        SeveralIndividualsError(["user:ann", "user:bo"]),
    ]
    yield from made
    kinds = [
        kind
        for name, kind in vars(errors).items()
        if isinstance(kind, type) and issubclass(kind, FactMemError) and not name.startswith("_")
    ]
    yield from (kind("it went wrong") for kind in kinds if kind not in map(type, made))


@pytest.mark.parametrize("error", [*every_error()], ids=lambda error: type(error).__name__)
def test_an_error_is_pickled_with_all_that_it_says(error: FactMemError) -> None:
    again = pickle.loads(pickle.dumps(error))
    assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_a_missing_module_is_named_by_its_package() -> None:
    missing = pytest.raises(MissingPackageError, match=r"^nosuchpackage is not installed")
    with missing, MissingPackageError.if_missing(extra="llm"):
        raise ModuleNotFoundError("No module", name="nosuchpackage.part")
