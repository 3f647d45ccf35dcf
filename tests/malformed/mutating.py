"""Mutations of real documents, so that the result passes the first checks."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

Json: TypeAlias = Any
Path: TypeAlias = tuple[str | int, ...]

_TEXTS: Final = (
    "", " ", "sNaN", "Infinity", "\x00", "a\x00b", "\ud800", "\udfff\ud800", "\ufeff", "\u2028", "\u202e", "null",
    "NaN", "-1", "1e999999999",
    "9" * 5_000, "x" * 70_000, "é", "e\u0301", "../..", "/", "//", "..", "%", "%2F", "%ff", "%2", "~", "~x", "{}", "[",
    "'",
    '"', "\\", "2024-13-45", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59", "2024-01-01T00:00:00",
    "2024-01-01T00:00:00+00:00", "active", "superseded", "tombstone", "assertion", "int", "json", "enum", "1" * 20,
    "A" * 600, "-" * 9, "==", "AAAA", "\x1b[31m", "\n", "\r\n", "\t", "𝟙", "١٢٣", "İ", "ﬁ", "\x85", "a" * 2_000_000,
    " " * 50_000, "\n" * 50_000, "( " * 20_000, "*" * 50_000, "`" * 50_000, "<!--" * 20_000, "- " * 20_000,
    "sk-" * 20_000,
    "password: " * 5_000, "a@" * 20_000, "http://" * 10_000, "0 " * 20_000, "\\" * 50_000, "%2" * 20_000, "a/" * 20_000,
)  # fmt: skip
_SCALARS: Final = (
    None, True, False, 0, -0.0, 1, -1, 2, 7, 2**31, 2**53 + 1, 2**63, -(2**63) - 1, 10**400, -(10**4_000), 0.5, 1e308,
    -1e308,
    5e-324, float("nan"), float("inf"), float("-inf"), 1.0, 99,
)  # fmt: skip
_TOKENS: Final = (
    b"\x00", b"\xff", b"\xed\xa0\x80", b"\xef\xbb\xbf", b"\n", b"\r\n", b"NaN", b"Infinity", b"-Infinity",
    b"1e999999999",
    b"-", b"9" * 5_000, b"0." + b"1" * 5_000, b"[" * 100_000, b'{"a":' * 50_000, b'"\\ud800"', b'"\\u0000"',
    b'"', b"\\", b"{", b"}",
    b"[", b"]", b",", b":", b"null", b"true", b"\\u12", b'{"v":1,"v":2}', b"\xe2\x80\xa8", b"\x1f\x8b\x08\x00",
    b"/*", b"//",
)  # fmt: skip


def deep(levels: int, *, named: bool = False) -> Json:
    """Return a value nested to a depth."""
    value: Json = "deep"
    for _ in range(levels):
        value = {"a": value} if named else [value]
    return value


def hostile_text(rng: random.Random) -> str:
    """Return a text with unusual characters, now and then a very long one."""
    text = rng.choice(_TEXTS)
    return text if len(text) < 5_000 or rng.random() < 0.1 else text[:3]


def hostile(rng: random.Random) -> Json:
    """Return a value of any JSON type, or of some that only a program can make."""
    match rng.randrange(8):
        case 0 | 1 | 2:
            return rng.choice(_SCALARS)
        case 3 | 4:
            return hostile_text(rng)
        case 5:
            return [hostile(rng) for _ in range(rng.randrange(3))]
        case 6:
            return {hostile_text(rng): hostile(rng) for _ in range(rng.randrange(3))}
        case _:
            return deep(rng.choice([1, 3, 60, 63, 64, 65, 100, 250]), named=rng.random() < 0.5)


def mutated_json(rng: random.Random, document: Json) -> Json:
    """Return a copy of a document with one to three errors in it."""
    document = copy.deepcopy(document)
    for _ in range(rng.choice([1, 1, 1, 2, 3])):
        document = _mutated_once(rng, document)
    return document


def _mutated_once(rng: random.Random, document: Json) -> Json:
    paths = list(_paths(document))
    path = rng.choice(paths)
    if not path:
        return hostile(rng) if rng.random() < 0.2 else document
    parent = _at(document, path[:-1])
    key = path[-1]
    match rng.randrange(9):
        case 0 | 1 | 2:
            parent[key] = hostile(rng)
        case 3:
            del parent[key]
        case 4 if isinstance(parent, dict):
            parent[hostile_text(rng)] = parent.pop(key)
        case 5 if isinstance(parent, dict):
            parent[hostile_text(rng)] = hostile(rng)
        case 6:
            parent[key] = copy.deepcopy(_at(document, rng.choice(paths)))
        case 7:
            parent[key] = _of_another_type(rng, parent[key])
        case _:
            parent[key] = [parent[key]] if rng.random() < 0.5 else {"a": parent[key]}
    return document


def _of_another_type(rng: random.Random, value: Json) -> Json:
    match value:
        case str():
            return rng.choice(
                [
                    value.encode(errors="surrogatepass").hex(),
                    value.upper(),
                    f"{value} ",
                    value[:-1],
                    value + value,
                    [*value[:50]],
                ]
            )
        case bool():
            return int(value)
        case int() | float():
            return rng.choice([str(value), float(value) if abs(value) < 1e300 else 0.0, value + 1, -value, bool(value)])
        case list():
            return {str(place): item for place, item in enumerate(value)}
        case dict():
            return [[key, item] for key, item in value.items()]
        case _:
            return 0


def _paths(document: Json, path: Path = ()) -> Iterator[Path]:
    yield path
    if len(path) > 8:
        return
    if isinstance(document, dict):
        for key, item in document.items():
            yield from _paths(item, (*path, key))
    elif isinstance(document, list):
        for index, item in enumerate(document[:20]):
            yield from _paths(item, (*path, index))


def _at(document: Json, path: Path) -> Any:
    for step in path:
        document = document[step]
    return document


def written(document: Json) -> bytes:
    """Write a document as JSON with Python's extensions: with NaN, and with lone surrogates escaped."""
    return json.dumps(document).encode()


def torn_json(rng: random.Random, document: Json) -> bytes:
    """Return a document with an error in its content or its syntax."""
    match rng.randrange(6):
        case 0:
            return mutated_bytes(rng, written(document))
        case 1:
            return mutated_bytes(rng, written(mutated_json(rng, document)))
        case 2:
            return json.dumps(mutated_json(rng, document), ensure_ascii=False).encode(errors="surrogatepass")
        case _:
            return written(mutated_json(rng, document))


def mutated_bytes(rng: random.Random, data: bytes) -> bytes:
    """Return data with a few bytes, or a range of them, changed."""
    torn = bytearray(data)
    for _ in range(rng.choice([1, 1, 2, 5])):
        at = rng.randrange(len(torn) + 1)
        span = min(len(torn) - at, rng.choice([0, 1, 1, 2, 8, 64, 4_096]))
        match rng.randrange(7):
            case 0 | 1 if at < len(torn):
                torn[at] ^= 1 << rng.randrange(8)
            case 2:
                token = rng.choice(_TOKENS)
                torn[at:at] = token if len(token) < 10_000 or rng.random() < 0.1 else token[:5]
            case 3:
                del torn[at : at + span]
            case 4:
                torn[at:at] = torn[at : at + span]
            case 5:
                torn[at : at + span] = rng.randbytes(span)
            case _:
                del torn[at:]
    if rng.random() < 0.02:
        return bytes(torn).decode(errors="replace").encode(rng.choice(["utf-16", "utf-32-le", "utf-8-sig", "utf-7"]))
    return bytes(torn)


def mutated_text(rng: random.Random, text: str) -> str:
    """Return a text with an error in it; lone surrogates are possible."""
    match rng.randrange(5):
        case 0:
            return hostile_text(rng)
        case 1:
            at = rng.randrange(len(text) + 1)
            return text[:at] + hostile_text(rng) + text[at:]
        case 2:
            at, end = sorted((rng.randrange(len(text) + 1), rng.randrange(len(text) + 1)))
            return text[:at] + text[end:]
        case 3:
            return mutated_bytes(rng, text.encode(errors="surrogatepass")).decode(errors="surrogateescape")
        case _:
            at = rng.randrange(len(text) + 1)
            return text[:at] + chr(rng.choice([rng.randrange(0x300), rng.randrange(0x11_0000)])) + text[at:]
