"""The command `factmem mcp`: over stdio and HTTP, as a process of its own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from anyio import to_thread
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from typer.testing import CliRunner

from factmem import Memory
from factmem.cli.app import app
from factmem.errors import InvalidDataError, StoreUnavailableError
from factmem.mcp import make_server
from factmem.mcp.server import serve_http
from tests.mcp.clients import answer, refusal
from tests.tables import each_case

TOKEN = "let-me-in"


@pytest.fixture(params=["asyncio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    """The server runs in a process of its own, so the client's event loop makes no difference."""
    return str(request.param)


def over_stdio(store: Path, *options: str) -> StdioServerParameters:
    words = ["-m", "factmem", "mcp", "--store", str(store), *options]
    return StdioServerParameters(command=sys.executable, args=words, env={**os.environ})


@contextlib.contextmanager
def over_http(store: Path, *options: str, token: str = "") -> Iterator[str]:
    """Serve over HTTP, and return the URL."""
    words = [sys.executable, "-m", "factmem", "mcp", "--store", str(store), "--http", ":0", *options]
    environment = os.environ | ({"FACTMEM_MCP_TOKEN": token} if token else {})
    with subprocess.Popen(words, stderr=subprocess.PIPE, encoding="utf-8", env=environment) as process:
        assert process.stderr is not None
        try:
            yield process.stderr.readline().partition(" at ")[2].strip()
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(60)


async def test_two_processes_over_stdio_share_a_store_and_the_later_one_reads_it(tmp_path: Path) -> None:
    store = tmp_path / "facts.db"
    async with Client(over_stdio(store, "--trust")) as writer, Client(over_stdio(store, "--read-only")) as reader:
        await answer(writer, "save_fact", keyword="city", value="Oslo", scope="/product/alpha")
        (match,) = (await answer(reader, "recall", query="city"))["matches"]
        assert match["fact"]["value"] == "Oslo"
        assert await refusal(reader, "save_fact", keyword="city", value="Rome") == "Unknown tool: save_fact"
    confined = over_stdio(store, "--scope", "/product/beta", "--subject", "user:maya", "--tools", "load,info")
    async with Client(confined) as client:
        info = await answer(client, "info")
        assert (info["records"], info["server"]) == (
            0,
            {
                "scopes": ["/product/beta"],
                "subjects": ["user:maya"],
                "read_only": False,
                "trusted": False,
                "tools": ["load", "info"],
            },
        )


async def test_over_stdio_nothing_but_the_protocol_is_written_to_stdout(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "factmem", "mcp", "--store", str(tmp_path / "facts.db")]
    run = await anyio.run_process(words, input=b"this is no JSON\n", check=False)
    assert run.returncode == 0
    assert all(line.startswith(b'{"') for line in run.stdout.splitlines())


@pytest.mark.skipif("sys.platform == 'win32'", reason="there is no SIGINT for one process there")
async def test_an_interrupt_ends_a_server_that_waits_for_its_client(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "factmem", "mcp", "--store", str(tmp_path / "facts.db")]
    hello = b'{"jsonrpc":"2.0","id":1,"method":"ping"}\n'
    async with await anyio.open_process(words) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdin.send(hello)
        await process.stdout.receive()
        process.send_signal(signal.SIGINT)
        with anyio.fail_after(60):
            assert await process.wait() != 0


async def test_many_clients_are_served_over_http(tmp_path: Path) -> None:
    with over_http(tmp_path / "facts.db", "--trust") as url:
        assert url.startswith("http://127.0.0.1:")
        async with Client(url) as first, Client(url) as second, Client(url, mode="legacy") as older:
            await answer(first, "save_fact", keyword="city", value="Oslo")
            for client in (second, older):
                assert (await answer(client, "load", keyword="city"))["facts"][0]["value"] == "Oslo"
        assert await status(url, {"Host": "evil.example"}) == 421
        assert await status(url, {"Origin": "https://evil.example"}) == 403


async def test_over_http_a_token_is_required(tmp_path: Path) -> None:
    with over_http(tmp_path / "facts.db", token=TOKEN) as url:
        assert await status(url, {}) == 401
        assert await status(url, {"Authorization": "Bearer wrong"}) == 401
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {TOKEN}"}) as http,
            Client(streamable_http_client(url, http_client=http)) as client,
        ):
            assert (await answer(client, "info"))["records"] == 0


async def status(url: str, headers: dict[str, str]) -> int:
    accepting = {"Accept": "application/json, text/event-stream", **headers}
    async with httpx2.AsyncClient() as http:
        return (await http.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=accepting)).status_code


async def test_an_address_that_others_reach_needs_a_token(memory: Memory) -> None:
    with pytest.raises(InvalidDataError, match="others could read the memory"):
        await serve_http(make_server(memory), host="0.0.0.0", port=0)
    with pytest.raises(StoreUnavailableError, match="cannot listen on"):
        await serve_http(make_server(memory), host="192.0.2.1", port=1, token=TOKEN)


@each_case("words", "code", "expected")
async def test_wrong_options_are_reported(tmp_path: Path, words: list[str], code: int, expected: str) -> None:
    def run() -> Any:
        return CliRunner().invoke(app, ["--store", str(tmp_path / "facts.db"), "mcp", *words])

    done = await to_thread.run_sync(run)
    assert done.exit_code == code
    assert expected in " ".join(done.stderr.replace("│", " ").split())
