"""The document with a store's keys: it opens with its own key only, and every change to it is detected."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
from collections.abc import Callable
from typing import Any

import attrs
import pytest

from factmem import errors
from factmem.crypto import Passphrase, SecretKey
from factmem.crypto.key_file import Roots, locked_roots, unlocked_roots
from factmem.crypto.keys import Argon2id, CalledKey, EnvironmentKey, EnvironmentPassphrase, Keyring
from factmem.errors import (
    CorruptStoreError,
    InvalidDataError,
    KeyUnavailableError,
    NewerVersionError,
    TamperedStoreError,
    WrongKeyError,
)
from tests.tables import each_case

KEY = SecretKey(bytes(range(32)))
RING = Keyring.of(KEY)
CHEAP = Argon2id(memory_kib=19 * 1024, passes=2, lanes=1)
WORDS = Keyring.of(Passphrase("plum lantern orbit velvet", cost=CHEAP))


def changed(document: bytes, change: Callable[[dict[str, Any]], Any]) -> bytes:
    """Return the document, changed as by an attacker with write access."""
    content = json.loads(document)
    change(content)
    return json.dumps(content).encode()


def put(name: str, value: object) -> Callable[[dict[str, Any]], Any]:
    return lambda content: content.__setitem__(name, value)


def put_in_slot(name: str, value: object) -> Callable[[dict[str, Any]], Any]:
    return lambda content: content["slots"][0].__setitem__(name, value)


@pytest.fixture
def stretched(monkeypatch: pytest.MonkeyPatch) -> list[Argon2id]:
    """Record the costs of stretching passphrases, without stretching them."""
    costs: list[Argon2id] = []

    def stretch(self: Argon2id, secret: bytes, salt: bytes) -> bytes:
        costs.append(self)
        return bytes(32)

    monkeypatch.setattr(Argon2id, "stretch", stretch)
    return costs


def test_roots_come_back_with_the_key_and_with_no_other() -> None:
    roots = Roots.new().begin_epoch()
    for ring in (RING, WORDS):
        document = locked_roots(roots, ring)
        assert unlocked_roots(document, ring) == roots
        for root in roots.of_epochs:
            assert base64.b64encode(root.key) not in document
            assert root.key.hex() not in repr(roots)
    with pytest.raises(WrongKeyError, match="the key given does not open this store"):
        unlocked_roots(locked_roots(roots, RING), Keyring.of(SecretKey.generate()))
    with pytest.raises(WrongKeyError):
        unlocked_roots(locked_roots(roots, RING), WORDS)
    with pytest.raises(WrongKeyError):
        unlocked_roots(locked_roots(roots, WORDS), Keyring.of(Passphrase("plum lantern orbit velvet ", cost=CHEAP)))


def not_asked() -> bytes:
    pytest.fail("another key fits")


def test_the_key_that_fits_opens_whatever_its_id() -> None:
    """The key of the document's id is tried first."""
    roots, other = Roots.new(), SecretKey.generate()
    document = locked_roots(roots, Keyring.of(KEY, "2026"))
    assert unlocked_roots(document, RING) == roots
    assert unlocked_roots(document, Keyring({"2025": KEY, "2026": other}, "2025")) == roots
    assert unlocked_roots(document, Keyring({"2025": CalledKey(not_asked), "2026": KEY}, "2025")) == roots


def test_a_key_that_is_not_available_matters_only_if_no_other_opens() -> None:
    roots = Roots.new()
    for id in ("2025", "2026"):
        document = locked_roots(roots, Keyring.of(KEY, id))
        missing = EnvironmentKey("FACTMEM_NO_SUCH_KEY")
        assert unlocked_roots(document, Keyring({"2025": missing, "2026": KEY}, "2025")) == roots
        with pytest.raises(KeyUnavailableError, match="FACTMEM_NO_SUCH_KEY"):
            unlocked_roots(document, Keyring({"2025": missing, "2026": SecretKey.generate()}, "2025"))


def test_a_wrong_key_is_named_by_where_it_is_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTHER", SecretKey.generate().to_text())
    ring = Keyring({"default": EnvironmentKey("OTHER"), "former": EnvironmentPassphrase("OTHER")}, "default")
    for tried, words in (
        (Keyring.of(EnvironmentKey("OTHER")), "the key in OTHER does not open"),
        (ring, "the key in OTHER and the passphrase in OTHER do not open"),
    ):
        with pytest.raises(WrongKeyError, match=words):
            unlocked_roots(locked_roots(Roots.new(), RING), tried)


def test_every_flipped_bit_and_every_truncation_of_the_document_is_a_typed_error() -> None:
    """A damaged document that still opens gives the same keys."""
    roots = Roots.new()
    document = locked_roots(roots, RING)
    for at, bit in itertools.product(range(len(document)), range(8)):
        damaged = document[:at] + bytes([document[at] ^ 1 << bit]) + document[at + 1 :]
        with contextlib.suppress(CorruptStoreError, WrongKeyError, NewerVersionError):
            assert unlocked_roots(damaged, RING) == roots
    for at in range(len(document)):
        with pytest.raises(CorruptStoreError):
            unlocked_roots(document[:at], RING)


def test_a_slot_of_another_store_does_not_open_here() -> None:
    one, other = (json.loads(locked_roots(Roots.new(), RING)) for _ in range(2))
    moved = json.dumps(one | {"slots": other["slots"]}).encode()
    with pytest.raises(WrongKeyError):
        unlocked_roots(moved, RING)
    mixed = [one["slots"][0] | {"roots": other["slots"][0]["roots"]}]
    with pytest.raises(TamperedStoreError):
        unlocked_roots(json.dumps(one | {"slots": mixed}).encode(), RING)


@each_case("place", "name", "value", "error")
def test_a_changed_document_is_a_typed_error(place: str, name: str, value: object, error: str) -> None:
    document = locked_roots(Roots.new(), RING)
    with pytest.raises(getattr(errors, error)):
        unlocked_roots(changed(document, (put_in_slot if place == "slot" else put)(name, value)), RING)


@pytest.mark.parametrize("document", [b"", b"{", b"null", b"[]", b"\xff\xfe", b"[" * 100_000, b"{}", b'{"factmem": 1}'])
def test_what_is_no_such_document_is_a_typed_error(document: bytes) -> None:
    with pytest.raises(CorruptStoreError):
        unlocked_roots(document, RING)


@each_case("costs", "error")
def test_a_cost_out_of_bounds_is_refused_before_it_is_spent(
    costs: dict[str, object], error: str, stretched: list[Argon2id]
) -> None:
    document = locked_roots(Roots.new(), WORDS)
    stretched.clear()
    recipe = json.loads(document)["slots"][0]["recipe"] | costs
    with pytest.raises(getattr(errors, error)):
        unlocked_roots(changed(document, put_in_slot("recipe", recipe)), WORDS)
    assert not stretched


def test_a_cost_changed_within_the_bounds_is_no_key(stretched: list[Argon2id]) -> None:
    """A different cost derives a different key, for weaker and for higher costs."""
    document = locked_roots(Roots.new(), Keyring.of(Passphrase("plum lantern orbit velvet")))
    recipe = json.loads(document)["slots"][0]["recipe"] | attrs.asdict(CHEAP)
    with pytest.raises(WrongKeyError):
        unlocked_roots(changed(document, put_in_slot("recipe", recipe)), WORDS)


def test_a_document_cannot_have_a_passphrase_stretched_without_end(stretched: list[Argon2id]) -> None:
    document = locked_roots(Roots.new(), WORDS)
    stretched.clear()
    with pytest.raises(CorruptStoreError):
        unlocked_roots(changed(document, lambda content: content["slots"].extend(content["slots"] * 1000)), WORDS)
    assert len(stretched) <= 1


def test_a_raw_key_is_never_taken_where_a_passphrase_was_asked_for() -> None:
    document = locked_roots(Roots.new(), WORDS)
    with pytest.raises(WrongKeyError):
        unlocked_roots(changed(document, put_in_slot("recipe", {"kdf": "none"})), WORDS)


@pytest.mark.parametrize("costs", [(19 * 1024 - 1, 2, 1), (65536, 1, 1), (2**21, 2, 1), (65536, 65, 1), (65536, 3, 17)])
def test_costs_out_of_bounds_cannot_be_asked_for(costs: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidDataError):
        Argon2id(memory_kib=costs[0], passes=costs[1], lanes=costs[2])


def test_an_error_names_the_id_of_the_store_and_no_key() -> None:
    document = locked_roots(Roots.new(), Keyring.of(KEY, "2026"))
    with pytest.raises(WrongKeyError) as caught:
        unlocked_roots(document, Keyring.of(SecretKey.generate(), "2027"))
    assert "2026" in str(caught.value)
    assert KEY.to_text() not in str(caught.value)
