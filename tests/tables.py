r"""Tables of texts: many examples of one kind stand in a file beside their test.

A file has sections, each below its name in brackets, which begins with a letter. A line is an example, with ` | `
between its parts and `\n` for a line feed; or a case of a test, as values in JSON. What stands before the first
section, empty lines, and lines that begin with `#` are notes.
"""

from __future__ import annotations

import functools
import json
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import pytest

_Test = TypeVar("_Test", bound=Callable[..., object])
_NAME = re.compile(r"^\[([^\W\d][^\[\]{}\"]*)\]$", re.MULTILINE)  # a list in JSON is no name


def sections(path: Path) -> Mapping[str, Sequence[str]]:
    """Return the examples of each section."""
    _, *parts = _NAME.split(path.read_text(encoding="utf-8"))
    return {
        name: [line.replace("\\n", "\n") for line in lines.splitlines() if line and not line.startswith("#")]
        for name, lines in zip(parts[::2], parts[1::2], strict=True)
    }


def rows(path: Path) -> Mapping[str, Sequence[tuple[str, ...]]]:
    """Return the parts of each example of each section."""
    return {name: [tuple(line.split(" | ")) for line in lines] for name, lines in sections(path).items()}


@functools.cache
def cases(of: str | Path) -> Mapping[str, Sequence[Any]]:
    """Return the cases of each section: values in JSON with commas between them, as a tuple unless it is one.

    They are those of a test, given by its ``__file__``, which stand beside it in ``…_cases.txt``; or of a table.
    """
    path = Path(of)
    table = path.with_name(f"{path.stem.removeprefix('test_')}_cases.txt") if path.suffix == ".py" else path
    read = {
        name: [tuple(json.loads(f"[{line}]", strict=False)) for line in lines]
        for name, lines in sections(table).items()
    }
    return {name: [case if len(case) != 1 else case[0] for case in given] for name, given in read.items()}


def each_case(*names: str) -> Callable[[_Test], _Test]:
    """Run a test with each case of the section that has its name in the table beside it.

    Args:
        names: Arguments of the test that the values of a case are for.
    """

    def decorate(test: _Test) -> _Test:
        section = test.__name__.removeprefix("test_").replace("_", " ")
        found = cases(test.__globals__["__file__"])[section]
        decorated: _Test = pytest.mark.parametrize(",".join(names), found)(test)
        return decorated

    return decorate


def type_named(annotation: str, names: Mapping[str, Any]) -> Any:
    """Return the type of an annotation in a table, which has the names of the test's module and of `typing`."""
    of: type = type("Of", (), {"__annotations__": {"it": annotation}})
    return typing.get_type_hints(of, {**vars(typing), **names}, include_extras=True)["it"]
