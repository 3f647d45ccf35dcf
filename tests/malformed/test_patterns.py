"""Regular expressions take time linear in the text, also in an adversarial one.

Every pattern of the packages is collected and run on texts that repeat a few characters, where backtracking is worst. A
pattern fails if four times the text takes more than eight times the time, twice in a row.
"""

from __future__ import annotations

import importlib
import pkgutil
import re
import time
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any, Final

import factmem_encrypted
import factmem_file
import factmem_sqlite_vec
import pytest

import factmem
from factmem.errors import MissingPackageError
from tests.conftest import Promise

PACKAGES: Final = (factmem, factmem_file, factmem_encrypted, factmem_sqlite_vec)
MATCHED_WHOLE: Final = frozenset(
    {
        *("factmem.cli.options._CONDITION", "factmem.detection.redaction._REPEATABLE", "factmem.recall.text.times._TO"),
    }
)
"""Patterns that are only matched at the start of a text."""
UNITS: Final = (
    *"aA0 \n\t.,-_'\"()[]<>/\\=*#|`~@:;!?{}&%$^é中",
    *("a ", "1 ", "a.", "a@", "://", "\n ", "- ", "> ", "[x](", "<!--", "```\n", "a,b", "1,", "1.", "a=", "'a ", "--"),
    *("(a)", "&a", "you ", "the user ", "if you ", "always ", "send the ", "in may ", "2 days ", "key: ", "password "),
    *("http://a", "a/b", "[redacted: a", "\u200b", "\u0301", "1:", "<a ", "not ", "from now on ", "but ", "because "),
)
FEW: Final = ("a", "0", " ", "\n", ".", "-", "a ", "1.", "(", '"a" ')
SMALL, BIG = 1_000, 250_000


def modules() -> Iterator[ModuleType]:
    for package in PACKAGES:
        for found in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            if not found.name.endswith("__main__"):
                try:
                    yield importlib.import_module(found.name)
                except (MissingPackageError, ModuleNotFoundError):
                    continue  # an extra that is not installed


def patterns_in(value: Any, depth: int = 0) -> Iterator[re.Pattern[str]]:
    """Yield the patterns in a value of a module: itself, or those in its items and fields."""
    if isinstance(getattr(value, "pattern", None), str) and hasattr(value, "finditer"):
        yield re.compile(value.pattern, value.flags)
    elif depth < 4:
        match value:
            case list() | tuple() | set() | frozenset():
                inner: list[Any] = list(value)
            case dict():
                inner = list(value.values())
            case _:
                names = [field.name for field in getattr(type(value), "__attrs_attrs__", ())]
                inner = [getattr(value, name, None) for name in names]
        for item in inner:
            yield from patterns_in(item, depth + 1)


def all_patterns() -> dict[re.Pattern[str], str]:
    return {
        pattern: f"{module.__name__}.{name}"
        for module in modules()
        for name, value in vars(module).items()
        for pattern in patterns_in(value)
    }


def seconds(run: Callable[[str], object], unit: str, length: int) -> float:
    """Return the CPU time of a search, the minimum of two."""
    text = (unit * (length // len(unit) + 1))[:length]
    times = []
    for _ in range(2):
        started = time.process_time()
        run(text)
        times.append(time.process_time() - started)
    return min(times)


def grows_too_fast(run: Callable[[str], object], unit: str, length: int) -> bool:
    first, second = (seconds(run, unit, length * times) for times in (1, 4))
    if second < 0.004 or second < 8 * first:
        return False
    return seconds(run, unit, length * 16) > 8 * second


def searching(pattern: re.Pattern[str], name: str) -> Callable[[str], object]:
    if name in MATCHED_WHOLE:
        return pattern.match
    return lambda text: sum(1 for _ in pattern.finditer(text))


@pytest.mark.parametrize("length", [SMALL, pytest.param(BIG, id="big", marks=pytest.mark.timeout(3600))])
def test_every_pattern_takes_linear_time(length: int, pytestconfig: pytest.Config, promise: Promise) -> None:
    if length == BIG and not pytestconfig.getoption("--big"):
        pytest.skip("a megabyte for every pattern takes minutes: --big runs it")
    found = all_patterns()
    assert len(found) > 150, "the collection of patterns is broken"
    units = FEW if length == BIG else UNITS
    slow = [
        f"{name} on {unit!r}"
        for pattern, name in found.items()
        for unit in units
        if grows_too_fast(searching(pattern, name), unit, length)
    ]
    assert slow == []
    promise("regular expressions", f"{len(found)} linear on {len(units)} periodic texts of {4 * length:,} chars")


def test_a_slow_pattern_is_noticed() -> None:
    assert grows_too_fast(searching(re.compile(r"\s+x"), ""), " ", SMALL)
