"""The command `browse`: the address that it prints, what it confines, and how it ends."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

import httpx
import pytest

if TYPE_CHECKING:
    from tests.cli.conftest import CommandLine

pytestmark = pytest.mark.processes


@contextmanager
def serving(
    cli: CommandLine, *words: str, before: tuple[str, ...] = (), **variables: str
) -> Iterator[tuple[subprocess.Popen[str], Any]]:
    """Run the command until the block ends; yield the process and the first line that it prints."""
    command = [sys.executable, "-m", "factmem", "--store", str(cli.store), *before, "browse", "--web", *words]
    env = {name: value for name, value in os.environ.items() if not name.startswith("FACTMEM_")}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env | variables
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline()
        finally:
            if process.poll() is None:
                process.send_signal(signal.SIGINT)
            process.wait(timeout=60)


def address_in(line: str) -> str:
    """Return the address in a line."""
    found = re.search(r"http://127\.0\.0\.1:\d+/\?token=\S+", line)
    assert found, line
    return found[0]


def test_browse_prints_an_address_that_opens_the_pages_and_ends_at_ctrl_c(cli: CommandLine) -> None:
    cli.data("save", "seats", "120", "--type", "int")
    with serving(cli) as (process, line):
        with httpx.Client(follow_redirects=True) as client:
            page = client.get(address_in(line))
            assert (page.status_code, "seats" in page.text) == (200, True)
            process.send_signal(signal.SIGINT)  # while a connection is open
            assert process.wait(timeout=60) == 0
        assert process.stderr is not None
        assert process.stderr.read() == "Ctrl-C ends it.\n"


def test_a_request_to_end_closes_the_store_as_well(cli: CommandLine) -> None:
    cli.data("save", "seats", "120")
    with serving(cli) as (process, _):
        process.terminate()
        assert process.wait(timeout=60) == 0
    assert sorted(path.name for path in cli.store.parent.iterdir() if "facts.db" in path.name) == ["facts.db"]


def test_browse_confines_what_is_seen_and_changed(cli: CommandLine) -> None:
    cli.data("save", "seats", "120", "--scope", "/product/fair", "--subject", "user:maya")
    cli.data("save", "city", "Oslo", "--scope", "/product/other", "--subject", "user:maya")
    cli.data("save", "pet", "hamster", "--scope", "/product/fair", "--subject", "user:leo")
    words = ("--scope", "/product/fair", "--subject", "user:maya", "--read-only")
    with serving(cli, *words, before=("--viewer", "maya")) as (_, line), httpx.Client(follow_redirects=True) as client:
        page = client.get(address_in(line)).text
        assert [word for word in ("Oslo", "hamster", "did you mean") if word in page] == []
        assert [word for word in ("seats", "as <b>maya</b>", "/product/fair", "read-only") if word not in page] == []


def test_a_misspelt_scope_is_said_on_the_first_page(cli: CommandLine) -> None:
    cli.data("save", "seats", "120", "--scope", "/product/fair")
    with serving(cli, "--scope", "/prodct/fair") as (_, line), httpx.Client(follow_redirects=True) as client:
        page = client.get(address_in(line)).text
    assert "no record is in /prodct/fair: did you mean /product/fair?" in page
    assert "seats" not in page


def test_browse_as_json_prints_the_address_and_nothing_else(cli: CommandLine) -> None:
    with serving(cli, "--json") as (process, line):
        assert process.stdout is not None
        rest = [next(process.stdout) for _ in range(2)]
        data = json.loads("".join([line, *rest]))
        assert address_in(data["url"])
    assert process.stderr is not None
    assert process.stderr.closed


@pytest.mark.skipif(os.name != "posix", reason="files have other permissions there")
def test_a_browser_is_given_a_private_file_that_redirects_and_no_token(cli: CommandLine, tmp_path: Path) -> None:
    cli.data("save", "seats", "120")
    script, opened = tmp_path / "browser", tmp_path / "opened"
    script.write_text(f'#!/bin/sh\necho "$@" > {opened}.part && mv {opened}.part {opened}\n', encoding="utf-8")
    script.chmod(0o700)
    with serving(cli, "--open", BROWSER=f"{script} %s") as (process, line):
        assert process.stderr is not None
        process.stderr.readline()
        while process.poll() is None and not opened.exists():
            time.sleep(0.02)
        address = address_in(line)
        given = opened.read_text().strip()
        assert given.startswith("file://")
        assert address.partition("token=")[2] not in given
        page = Path(url2pathname(urlsplit(given).path))
        assert [stat.S_IMODE(path.stat().st_mode) for path in (page, page.parent)] == [0o600, 0o700]
        assert f"url={address}" in page.read_text()
        with httpx.Client() as client:  # as browsers send what a local file leads to
            answer = client.get(address, headers={"sec-fetch-site": "cross-site"})
            assert (answer.status_code, 'content="0; url=/"' in answer.text) == (200, True)
            assert "seats" in client.get("/".join(address.split("/")[:3]), headers={"sec-fetch-site": "none"}).text
    assert not page.parent.exists()


def test_a_taken_port_is_a_sentence(cli: CommandLine) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        error = cli.error("browse", "--web", "--port", str(taken.getsockname()[1]))
    assert error["type"] == "StoreUnavailableError"
    assert "name another" in error["message"]


def test_a_damaged_store_is_reported_before_there_is_a_page(cli: CommandLine) -> None:
    cli.store.write_bytes(b"this is no database at all" * 100)
    assert cli.error("browse")["type"] == "CorruptStoreError"


@pytest.mark.parametrize(
    "package",
    ["starlette", *(pytest.param(name, marks=pytest.mark.big) for name in ("uvicorn", "jinja2", "python_multipart"))],
)
def test_a_missing_package_gives_the_command_to_install_it(cli: CommandLine, package: str) -> None:
    program = (
        f"import sys; sys.modules[{package!r}] = None; "
        f"sys.argv = ['factmem', '--store', {str(cli.store)!r}, 'browse', '--web']; "
        "from factmem.cli import main; main()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 1
    assert "pip install 'factmem[browse]'" in done.stderr.replace('"', "'")
    assert "Traceback" not in done.stderr


def test_the_terminal_browser_needs_a_terminal_and_takes_no_options_of_the_web_page(cli: CommandLine) -> None:
    assert cli.error("browse")["message"] == "the browser needs a terminal: run it in one, or use --web"
    for words in (["--port", "8000"], ["--no-open"]):
        done = cli.run("browse", *words)
        assert (done.code, "add --web" in done.err) == (2, True)
