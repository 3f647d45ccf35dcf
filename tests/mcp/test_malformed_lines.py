"""Lines over stdio that are not JSON-RPC messages: each is answered with an error, and the server continues."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st
from mcp_types import INVALID_REQUEST, PARSE_ERROR, jsonrpc_message_adapter

from factmem.mcp.stdio import LONGEST_LINE, answer_to
from tests.tables import cases, each_case

SURROGATE: Final = rb'"\ud800"'
NO_JSON: Final = [
    (b"this is no JSON", None),
    (b"", None),
    (b"   ", None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"', None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"}{"jsonrpc":"2.0","id":2,"method":"ping"}', None),
    (b'\xef\xbb\xbf{"jsonrpc":"2.0","id":1,"method":"ping"}', None),
    (b'{"jsonrpc":"2.0","id":1,"method":"\xff\xfe"}', 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"\x00"}', 1),
    (b'{"jsonrpc":"2.0","id":1,"method":%b}' % SURROGATE, 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{%b:1}}' % SURROGATE, 1),
    (b'{"jsonrpc":"2.0","id":%b,"method":"ping"}' % SURROGATE, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":%b%b}}' % (b"[" * 400, b"]" * 400), 1),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":%b%b}}' % (b"[" * 100_000, b"]" * 100_000), None),
    (b"[" * 1_000_000, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":%b}}' % (b"9" * 5_000), None),
]
NO_REQUEST: Final = [
    *((line.encode(), id) for line, id in cases(__file__)["no request"]),
    (b'{"jsonrpc":"2.0","id":1,"method":"' + b"x" * LONGEST_LINE + b'"}', None),
]
REFUSED: Final = [
    *((line, id, PARSE_ERROR) for line, id in NO_JSON),
    *((line, id, INVALID_REQUEST) for line, id in NO_REQUEST),
]
PING: Final = b'{"jsonrpc":"2.0","id":"ping","method":"ping"}'


@attrs.frozen
class Server:
    """The command `factmem mcp` as a process, used line by line."""

    process: subprocess.Popen[bytes]

    def answers(self, *lines: bytes) -> list[dict[str, Any]]:
        """Send lines and a ping, and return all lines that the server writes until it answers the ping."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(b"".join(line + b"\n" for line in (*lines, PING)))
        self.process.stdin.flush()
        return list(iter(self._next, {"jsonrpc": "2.0", "id": "ping", "result": {}}))

    def _next(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        answer: dict[str, Any] = json.loads(self.process.stdout.readline())
        return answer


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    store: Path = tmp_path_factory.mktemp("mcp") / "facts.db"
    words = [sys.executable, "-m", "factmem", "mcp", "--store", str(store)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        yield Server(process)
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(60) == 0


def test_malformed_lines_are_answered_in_their_order(server: Server) -> None:
    answers = server.answers(*(line for line, _, _ in REFUSED))
    assert [(answer["id"], answer["error"]["code"]) for answer in answers] == [(id, code) for _, id, code in REFUSED]
    assert {answer["jsonrpc"] for answer in answers} == {"2.0"}
    assert max(len(answer["error"]["message"]) for answer in answers) < 200


def test_the_end_of_a_line_that_is_too_long_is_not_taken_for_a_message(server: Server) -> None:
    (answer,) = server.answers(b" " * (2 * LONGEST_LINE + 2) + b'{"jsonrpc":"2.0","id":"hidden","method":"ping"}')
    assert (answer["id"], answer["error"]["code"]) == (None, INVALID_REQUEST)


@each_case("line")
def test_a_message_is_let_through(line: str) -> None:
    """This includes the answers to malformed lines, or two peers would answer each other without end."""
    assert answer_to(line.encode()) is None


JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
)
ENVELOPES: Final = st.fixed_dictionaries(
    {}, optional={"jsonrpc": st.just("2.0") | JSON, "id": JSON, "method": st.just("ping") | JSON, "params": JSON}
).map(lambda envelope: json.dumps(envelope).encode())


@given(st.binary() | ENVELOPES)
def test_any_line_is_a_message_or_gets_an_answer_that_can_be_written(line: bytes) -> None:
    answer = answer_to(line)
    if answer is None:
        jsonrpc_message_adapter.validate_json(line, by_name=False)
    else:
        assert jsonrpc_message_adapter.validate_json(answer.model_dump_json(by_alias=True)) == answer
        assert answer_to(answer.model_dump_json().encode()) is None
