"""Errors raised again for several tasks: each task gets the same error in an object of its own."""

from __future__ import annotations

import inspect

import pytest

from factmem import errors
from factmem.errors import (
    CodecError,
    FactMemError,
    IncompleteProfileError,
    MemoryFileError,
    MissingPackageError,
)
from factmem.providers import raised_again

_MADE: list[FactMemError] = [
    CodecError("bad", path="$.a"),
    IncompleteProfileError("Profile", ["name"]),
    MemoryFileError("gone", file="AGENTS.md"),
    MissingPackageError("openai", extra="openai"),
    *(
        cls("so")
        for _, cls in inspect.getmembers(errors, inspect.isclass)
        if issubclass(cls, FactMemError) and cls.__init__ is FactMemError.__init__
    ),
]


@pytest.mark.parametrize("error", _MADE, ids=lambda error: type(error).__name__)
def test_an_error_raised_again_is_the_same_in_another_object(error: FactMemError) -> None:
    error.__cause__ = OSError("below")
    again = raised_again(error)
    assert again is not error
    assert type(again) is type(error)
    assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
    assert again.__cause__ is error.__cause__
