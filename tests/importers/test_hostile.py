"""Sources that mean harm, or are merely torn: a typed error or a reported row, and never anything else."""

from __future__ import annotations

import contextlib
import gzip
import io
import json
import os
import pickle
import sqlite3
import stat
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem.errors import FactMemError, FileFormatError, InvalidDataError
from factmem.importers import ImportOptions, read_system
from factmem.importers.contract import Entry, Problem
from factmem.importers.sources import Limits
from factmem.importers.systems import SYSTEMS, Reading
from tests.importers.conftest import DATED, NOW, document, found_in, lines

MEGABYTE = 1024 * 1024
STATEMENT = {"id": "1", "memory": "Likes tea", "created_at": "2026-05-01T10:00:00Z"}


def archive(path: Path, *members: tuple[str | zipfile.ZipInfo, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
        for name, data in members:
            file.writestr(name, data)
    return path


# -- Archives -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["../conversations.json", "/etc/conversations.json", "a/../../conversations.json"])
def test_a_path_that_leads_out_of_an_archive_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(FileFormatError, match="leads out of it"):
        found_in("chatgpt", archive(tmp_path / "x.zip", (name, b"[]")))


def test_a_windows_path_that_leads_out_of_an_archive_is_refused(tmp_path: Path) -> None:
    for name in ("..\\conversations.json", "C:/conversations.json"):
        info = zipfile.ZipInfo("conversations.json")
        info.filename = name
        with pytest.raises(FileFormatError, match="leads out of it"):
            found_in("claude", archive(tmp_path / "x.zip", (info, b"[]")))


def test_a_link_in_an_archive_is_refused(tmp_path: Path) -> None:
    link = zipfile.ZipInfo("conversations.json")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    with pytest.raises(FileFormatError, match="holds a link"):
        found_in("chatgpt", archive(tmp_path / "x.zip", (link, b"/etc/passwd")))


def test_an_archive_that_unpacks_to_too_much_is_refused_before_it_does(tmp_path: Path) -> None:
    bomb = archive(tmp_path / "bomb.zip", ("conversations.json", b"[" + b" " * (40 * MEGABYTE) + b"]"))
    assert bomb.stat().st_size < MEGABYTE
    with pytest.raises(FileFormatError, match="far more than it holds"):
        found_in("chatgpt", bomb)
    with pytest.raises(FileFormatError, match="unpacks to more than"):
        found_in("chatgpt", bomb, limits=Limits(unpacked_bytes=MEGABYTE))


def test_an_archive_that_lies_about_its_size_is_refused_or_cut(tmp_path: Path) -> None:
    """The sizes in its list are those that the archive says of itself."""
    path = archive(tmp_path / "lie.zip", ("conversations.json", b"[" + b" " * (40 * MEGABYTE) + b"]"))
    data = path.read_bytes().replace((40 * MEGABYTE + 2).to_bytes(4, "little"), (10).to_bytes(4, "little"))
    path.write_bytes(data)
    with pytest.raises(FileFormatError):
        found_in("chatgpt", path)


def test_too_many_files_and_locked_ones_are_refused(tmp_path: Path) -> None:
    many = archive(tmp_path / "many.zip", *((f"{number}.json", b"[]") for number in range(20)))
    with pytest.raises(FileFormatError, match="more than 10 files"):
        found_in("chatgpt", many, limits=Limits(files=10))
    locked = archive(tmp_path / "locked.zip", ("conversations.json", b"[]"))
    data = bytearray(locked.read_bytes())
    data[data.index(b"PK\x01\x02") + 8] |= 1
    locked.write_bytes(data)
    with pytest.raises(FileFormatError, match="password"):
        found_in("chatgpt", locked)


@pytest.mark.parametrize("system", ["langchain", "pydantic-ai", "chatgpt", "claude"])
def test_a_torn_file_of_a_folder_or_an_archive_is_named(tmp_path: Path, system: str) -> None:
    name = "conversations.json"
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / name).write_text('[{"type":')
    with pytest.raises(FileFormatError, match=rf"{name}: not JSON.*\(at \$\[0\]") as caught:
        found_in(system, tmp_path / "folder")
    assert caught.value.path.startswith("$[0]")
    if system in ("chatgpt", "claude"):
        with pytest.raises(FileFormatError, match=name):
            found_in(system, archive(tmp_path / "x.zip", (name, b"[{")))


@pytest.mark.parametrize("size", [0, 3, 30, 200])
def test_a_torn_archive_is_a_typed_error(tmp_path: Path, size: int) -> None:
    path = archive(tmp_path / "x.zip", ("conversations.json", b"[]" + b" " * 500))
    path.write_bytes(path.read_bytes()[:size])
    with contextlib.suppress(FileFormatError):
        found_in("chatgpt", path)


def test_a_gzipped_file_is_read_and_a_bomb_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "get_all.json.gz"
    path.write_bytes(gzip.compress(json.dumps([STATEMENT]).encode()))
    assert len(found_in("mem0", path)) == 1
    path.write_bytes(gzip.compress(b"[" + b" " * (40 * MEGABYTE)))
    with pytest.raises(FileFormatError, match="far more than it holds"):
        found_in("mem0", path)
    path.write_bytes(gzip.compress(b"[]" * 500)[:20])
    with pytest.raises(FileFormatError, match="damaged or incomplete"):
        found_in("mem0", path)


# -- Files and folders ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("system", SYSTEMS)
def test_what_is_no_file_is_refused(tmp_path: Path, system: str) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    for path in (fifo, Path("/dev/zero"), tmp_path / "missing"):
        with pytest.raises(FileFormatError):
            found_in(system, path)


@pytest.mark.parametrize("system", SYSTEMS)
def test_an_empty_folder_and_an_empty_file_are_typed_errors_or_nothing(tmp_path: Path, system: str) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty.json").touch()
    for path in (tmp_path / "empty", tmp_path / "empty.json"):
        with contextlib.suppress(FactMemError):
            assert [item for item in found_in(system, path) if isinstance(item, Entry)] == []


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    secret = tmp_path / "secret.md"
    secret.write_text("The safe is behind the painting.")
    folder = tmp_path / "memories"
    folder.mkdir()
    (folder / "note.md").symlink_to(secret)
    (folder / "below").symlink_to(tmp_path)
    found = found_in("memory-folder", folder)
    assert [item.where for item in found if isinstance(item, Problem)] == ["below", "note.md"]
    assert len(found) == 2
    (folder / "history.db").symlink_to(secret)
    with pytest.raises(FileFormatError, match="is a link"):
        found_in("mem0", folder)


def test_a_folder_too_deep_or_too_full_is_refused(tmp_path: Path) -> None:
    deep = tmp_path.joinpath(*["a"] * 10)
    deep.mkdir(parents=True)
    with pytest.raises(FileFormatError, match="nested more than 5 deep"):
        found_in("memory-folder", tmp_path, limits=Limits(depth=5))
    for number in range(20):
        (tmp_path / f"{number}.md").touch()
    with pytest.raises(FileFormatError, match="more than 10 files"):
        found_in("memory-folder", tmp_path, limits=Limits(files=10))


def test_a_note_or_a_line_of_an_absurd_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / "note.md").write_text("x" * 3000)
    (problem,) = found_in("memory-folder", tmp_path, limits=Limits(file_bytes=1000))
    assert isinstance(problem, Problem)
    path = tmp_path / "memory.jsonl"
    path.write_text("x" * 3000)
    with pytest.raises(FileFormatError, match="line 1 is longer"):
        found_in("mcp-memory", path, limits=Limits(row_chars=1000))
    with pytest.raises(FileFormatError, match="longer than 1,000"):
        found_in(
            "mem0",
            document(tmp_path / "x.json", [STATEMENT | {"memory": "x" * 200_000}]),
            limits=Limits(row_chars=1000),
        )


def test_a_value_larger_than_a_store_takes_is_one_problem(tmp_path: Path) -> None:
    path = document(tmp_path / "x.json", [STATEMENT | {"memory": "x" * 2_000_000}, STATEMENT])
    problem, entry = found_in("mem0", path)
    assert isinstance(problem, Problem)
    assert isinstance(entry, Entry)


# -- Databases ------------------------------------------------------------------------------------------------------


def database(path: Path, script: str) -> Path:
    with contextlib.closing(sqlite3.connect(path)) as opened:
        opened.executescript(script)
    return path


def test_a_view_in_the_place_of_a_table_never_runs(tmp_path: Path) -> None:
    """It would be SQL of a stranger: here, one that never ends."""
    columns = "memory_id, new_memory, event, created_at, updated_at, is_deleted"
    path = database(
        tmp_path / "history.db",
        f"CREATE VIEW history({columns}) AS WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
        "SELECT x, x, x, x, x, x FROM n;",
    )
    with pytest.raises(FileFormatError, match="no table history"):
        found_in("mem0", path)


def test_a_computed_column_is_not_read(tmp_path: Path) -> None:
    path = database(
        tmp_path / "store.db",
        "CREATE TABLE store(prefix, key, value, created_at, updated_at, bomb AS (zeroblob(1000000000)));"
        "INSERT INTO store VALUES('a', 'k', '\"Likes tea\"', '2026-05-01', '2026-05-01');",
    )
    (entry,) = found_in("langgraph", path)
    assert isinstance(entry, Entry)


def test_a_huge_cell_and_a_damaged_database_are_typed_errors(tmp_path: Path) -> None:
    script = (
        "CREATE TABLE store(prefix, key, value, created_at, updated_at);"
        "INSERT INTO store VALUES('a', 'k', zeroblob(2000000), '2026-05-01', '2026-05-01');"
    )
    path = database(tmp_path / "store.db", script)
    with pytest.raises(FileFormatError, match="cannot be read"):
        found_in("langgraph", path, limits=Limits(row_chars=1_000_000))
    data = bytearray(path.read_bytes())
    data[100:3000] = b"\xff" * 2900
    path.write_bytes(data)
    with pytest.raises(FileFormatError):
        found_in("langgraph", path)


def test_a_database_is_not_written_to(tmp_path: Path) -> None:
    path = database(
        tmp_path / "store.db",
        "CREATE TABLE store(prefix, key, value, created_at, updated_at); PRAGMA user_version = 7;",
    )
    before = path.read_bytes()
    assert [type(item).__name__ for item in found_in("langgraph", path)] == ["Problem"]
    assert path.read_bytes() == before
    assert [left.name for left in tmp_path.iterdir()] == ["store.db"]


def test_a_pickle_is_never_loaded(tmp_path: Path) -> None:
    """A file of pickles is not JSON, not SQLite and not an archive, under any name."""

    class Planted:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
            return os.system, (f"touch {tmp_path / 'ran'}",)

    path = tmp_path / "points.json"
    path.write_bytes(pickle.dumps(Planted()))
    for system in SYSTEMS:
        with contextlib.suppress(FactMemError):
            found_in(system, path)
    assert not (tmp_path / "ran").exists()


# -- Rows -----------------------------------------------------------------------------------------------------------


def test_deep_nesting_is_a_typed_error_in_every_json(tmp_path: Path) -> None:
    deep = "[" * 100_000 + "]" * 100_000
    path = tmp_path / "x.json"
    for system in SYSTEMS:
        for text in (deep, f'[{{"memory": {deep}}}]', f'{{"results": {deep}}}', f'{{"messages": {deep}}}'):
            path.write_text(text)
            with contextlib.suppress(FactMemError):
                assert [item for item in found_in(system, path) if isinstance(item, Entry)] == []


def test_a_row_from_the_future_is_a_problem(tmp_path: Path) -> None:
    (problem,) = found_in("mem0", document(tmp_path / "x.json", [STATEMENT | {"created_at": "2099-01-01T00:00:00Z"}]))
    assert isinstance(problem, Problem)
    assert "future" in str(problem.error)


def test_an_error_holds_no_word_of_the_row(tmp_path: Path) -> None:
    rows = [STATEMENT | {"created_at": "my secret"}, STATEMENT | {"user_id": ["my secret"]}, {"memory": "my secret"}]
    rows += [STATEMENT | {"metadata": "my secret"}, "my secret"]
    for item in found_in("mem0", document(tmp_path / "x.json", rows)):
        assert isinstance(item, Problem)
        assert "secret" not in str(item.error)


def test_options_of_another_system_are_refused(tmp_path: Path) -> None:
    path = document(tmp_path / "x.json", [])
    with pytest.raises(InvalidDataError, match="--namespace, which is for langgraph"):
        read_system("mem0", path, ImportOptions(namespace="a"))
    with pytest.raises(InvalidDataError, match="unknown system"):
        read_system("mem1", path)
    with pytest.raises(InvalidDataError, match="is not a field of a row"):
        found_in("table", path, columns={"values": "x"})
    with pytest.raises(InvalidDataError, match="template"):
        found_in("langgraph", path, namespace="memories,,{user")


KEYS = [
    *("id", "uuid", "name", "type", "key", "value", "text", "content", "created_at", "timestamp", "metadata"),
    *("memory", "user_id", "role", "scope", "categories_str", "private", "fact", "group_id", "episodes", "labels"),
    *("agents", "blocks", "label", "messages", "namespace", "prefix", "updated_at", "topics", "structuredContent"),
    *("memoryType", "entityType", "observations", "from", "to", "relationType", "mapping", "current_node", "parent"),
    *("message", "author", "parts", "chat_messages", "sender", "files", "data", "kind", "part_kind", "keyword"),
    *("results", "edges", "memories", "updateTime", "concept", "values", "valid_at", "invalid_at", "block_ids"),
]
LEAVES = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5)
LEAVES |= st.sampled_from(
    ["2026-05-01T00:00:00Z", "human", "user", "entity", "relation", "request", "text", "/a/b", "a"]
)
JSON = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=20,
)


@given(JSON, st.sampled_from([".json", ".jsonl", ".af", ".csv"]))
def test_no_json_makes_an_importer_raise_anything_but_a_typed_error(
    tmp_path_factory: pytest.TempPathFactory, value: Any, suffix: str
) -> None:
    path = tmp_path_factory.mktemp("odd") / f"memories{suffix}"
    path.write_text(json.dumps(value), "utf-8")
    for system in SYSTEMS:
        with contextlib.suppress(FactMemError):
            _read(read_system(system, path, ImportOptions(now=NOW, dated=DATED)))


@given(st.binary(max_size=200))
def test_no_bytes_make_an_importer_raise_anything_but_a_typed_error(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.mktemp("odd") / "memories.json"
    for head in (b"", b"PK\x03\x04", b"SQLite format 3\x00", b"\x1f\x8b", b"\xff\xfe", b"{", b'value\n"'):
        path.write_bytes(head + data)
        for system in SYSTEMS:
            with contextlib.suppress(FactMemError):
                _read(read_system(system, path, ImportOptions(now=NOW, dated=DATED)))


def _read(reading: Reading) -> None:
    for _ in reading:
        pass


def test_csv_that_never_closes_its_quotes_is_a_problem(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text('value,timestamp\n"' + "x" * 300_000 + "\n", "utf-8")
    found = found_in("table", path)
    assert found
    assert all(isinstance(item, Problem) for item in found)


def test_lines_that_are_no_rows_are_named(tmp_path: Path) -> None:
    path = lines(tmp_path / "x.jsonl", [STATEMENT, 7])
    path.write_text(path.read_text() + "[" * 100_000 + "\n{\n" + json.dumps(STATEMENT | {"id": "2"}) + "\n")
    found = found_in("mem0", path)
    assert [item.where for item in found if isinstance(item, Problem)] == ["line 2", "line 3", "line 4"]
    assert len([item for item in found if isinstance(item, Entry)]) == 2


def test_text_that_is_no_unicode_is_a_typed_error(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_bytes(io.BytesIO(b"value,timestamp\nJ\xf6rg,2026-05-01\n").getvalue())
    with pytest.raises(FileFormatError, match="save it as UTF-8"):
        found_in("table", path)
    path.write_bytes("\ufeffvalue,timestamp\nJörg,2026-05-01\n".encode())
    assert len(found_in("table", path)) == 1


def test_a_database_with_a_log_is_read_with_it_and_one_without_leaves_no_file(tmp_path: Path) -> None:
    """A store that is in use has its newest rows in the log beside it."""
    path = tmp_path / "store.db"
    script = (
        "PRAGMA journal_mode = WAL; CREATE TABLE store(prefix, key, value, created_at, updated_at);"
        "INSERT INTO store VALUES('a', 'k', '\"Likes tea\"', '2026-05-01', '2026-05-01');"
    )
    with contextlib.closing(sqlite3.connect(path)) as in_use:
        in_use.executescript(script)
        assert (tmp_path / "store.db-wal").exists()
        assert len(found_in("langgraph", path)) == 1
    assert len(found_in("langgraph", path)) == 1
    assert [left.name for left in tmp_path.iterdir()] == ["store.db"]
