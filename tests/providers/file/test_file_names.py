"""Any name has a legal file name, no two names share a file, and none is outside the root."""

from __future__ import annotations

import unicodedata
from pathlib import Path, PurePosixPath

import pytest
from factmem_file.log_storage import LocalLogStorage, encoded, file_path
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from factmem.abc.log_storage import LogName, Position
from tests.conftest import Promise
from tests.tables import cases

CASES = cases(__file__)

AWKWARD = [*CASES["awkward names"], "x" * 512, "x" * 511, "😀" * 512]
NAMES = st.one_of(
    st.sampled_from(AWKWARD),
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=512),
    st.text("aAé./~@-", min_size=1, max_size=6),
)
KINDS = ["facts", "vectors", "erased"]
SLOW = [HealthCheck.too_slow, HealthCheck.large_base_example]
FOLDERS = st.lists(NAMES, min_size=1, max_size=12).map(tuple)
LOGS = st.builds(
    LogName, folder=FOLDERS, name=st.lists(NAMES, min_size=1, max_size=2).map(tuple), kind=st.sampled_from(KINDS)
)


def _folded(path: tuple[str, ...]) -> str:
    """Return a path as the least strict file systems compare it."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFKD", "/".join(path)).casefold())


def _check(one: LogName, other: LogName) -> None:
    first, second = file_path(one), file_path(other)
    assert (one == other) == (_folded(first) == _folded(second))
    # A folder never has the path of a file.
    assert _folded(first) not in [_folded(second[:depth]) for depth in range(1, len(second))]
    for part in first:
        assert len(part.encode()) < 255
        assert part.isascii()
        assert not set(part) & set('/\\:*?"<>|\0 %')
        assert part.strip(".") == part
        assert part.split(".")[0] not in ("con", "nul", "prn", "aux", "com1")
    assert len("/".join(first)) < 300
    assert not PurePosixPath(*first).is_absolute()


@pytest.mark.timeout(1_800)
def test_names_never_collide_nor_escape(big: bool, promise: Promise) -> None:
    pairs = 100_000 if big else 300

    @settings(max_examples=pairs, deadline=None, suppress_health_check=SLOW, database=None)
    @given(LOGS, LOGS)
    def check(one: LogName, other: LogName) -> None:
        _check(one, other)

    check()
    promise("names", f"{pairs:,} pairs of names: 0 escapes, 0 collisions")


@pytest.mark.parametrize("awkward", AWKWARD, ids=lambda name: ascii(name)[:20])
def test_awkward_names_are_told_apart_wherever_they_stand(awkward: str) -> None:
    for other in AWKWARD:
        _check(LogName(folder=("", "agent", awkward), name=("user",), kind="facts"),
               LogName(folder=("", "agent", other), name=("user",), kind="facts"))  # fmt: skip
        _check(LogName(folder=("",), name=(awkward,), kind="facts"), LogName(folder=("",), name=(other,), kind="facts"))
        _check(LogName(folder=("",), name=(awkward, other), kind="facts"),
               LogName(folder=("",), name=(other, awkward), kind="facts"))  # fmt: skip


def test_plain_names_stay_as_they_are() -> None:
    for name in ("user", "project-x_2", "0"):
        assert encoded(name) == name
    assert encoded("Über uns!").startswith("uber-uns~")
    assert encoded("con") != "con"


def test_a_deep_scope_and_its_child_are_two_files_of_bearable_length() -> None:
    folder = ("acme", "agent", *["segment-of-some-length"] * 40)
    child = (*folder, "child")
    paths = {file_path(LogName(folder=path, name=("user",), kind="facts")) for path in (folder, child, folder[:-1])}
    assert len(paths) == 3
    assert all(path[:2] == ("acme", "agent") and len("/".join(path)) < 200 for path in paths)


def test_every_log_is_found_under_its_true_name(tmp_path: Path) -> None:
    storage = LocalLogStorage(tmp_path / "store")
    logs = {
        LogName(folder=("", "agent", *[name] * depth), name=(name,), kind="facts")
        for name in AWKWARD
        for depth in (1, 9)
    }
    with storage.lock(5):
        for log in logs:
            storage.append(log, b"[]", Position(), durable=False)
    again = LocalLogStorage(tmp_path / "store")
    assert set(again.logs(kinds=KINDS)) == logs
    assert set(again.logs(("",), kinds=KINDS)) == logs
    assert again.logs(("acme",), kinds=KINDS) == []
    assert {log for log in logs if log.folder[2] == ".."} == set(again.logs(("", "agent", ".."), kinds=KINDS))
    assert list(tmp_path.iterdir()) == [tmp_path / "store"]
