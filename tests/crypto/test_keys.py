"""Sources of keys: their results and refusals, and that no key is ever shown."""

from __future__ import annotations

import base64
import functools
import logging
import unicodedata
from collections.abc import Callable, Iterator

import attrs
import pytest

from factmem.crypto import Passphrase, SecretKey
from factmem.crypto.keys import (
    AS_IT_IS,
    Argon2id,
    CalledKey,
    EnvironmentKey,
    EnvironmentPassphrase,
    Keyring,
    KeySource,
    OsKeyringKey,
    Recipe,
    keyring_of,
)
from factmem.crypto.sealing import KEY_BYTES
from factmem.errors import FactMemError, InvalidDataError, KeyUnavailableError

SECRET = bytes(range(100, 132))
TEXT = base64.b64encode(SECRET).decode()
WORDS = "korrektes Pferd Batterie Heftklammer"
CHEAP = Argon2id(memory_kib=19 * 1024, passes=2, lanes=1)
TRACES = (TEXT, SECRET.hex(), repr(SECRET), str(list(SECRET)), WORDS, "Batterie")


def fetch(token: str) -> bytes:
    """Return a secret as the client of a key management service does."""
    if token == WORDS:
        raise RuntimeError(f"denied for {token}")
    return SECRET


def shows(thing: object) -> list[str]:
    """Return the secrets that a text contains."""
    return [trace for trace in TRACES if trace in str(thing) or trace in repr(thing)]


@pytest.mark.parametrize("text", [TEXT, SECRET.hex(), SECRET.hex().upper(), f"  {TEXT}\n", TEXT.replace("+", "-")])
def test_a_key_is_read_from_hex_and_from_base64(text: str) -> None:
    assert SecretKey.from_text(text).wrapping_key(AS_IT_IS) == SECRET
    assert SecretKey.from_text(SecretKey(SECRET).to_text()) == SecretKey(SECRET)


@pytest.mark.parametrize(
    "text", ["", "short", "0" * 63, "0" * 66, TEXT[:-4], "ключ" * 16, WORDS, TEXT + TEXT, "=" * 44, "\0" * 44]
)
def test_what_is_no_key_is_refused_without_being_shown(text: str) -> None:
    with pytest.raises(InvalidDataError) as caught:
        SecretKey.from_text(text)
    assert text == "" or text not in str(caught.value)
    assert caught.value.__cause__ is None


@pytest.mark.parametrize("secret", [b"", b"x" * 31, b"x" * 33, bytearray(32), "x" * 32, None, 32])
def test_a_secret_key_is_32_bytes(secret: object) -> None:
    with pytest.raises(InvalidDataError):
        SecretKey(secret)  # type: ignore[arg-type]


def test_new_keys_differ() -> None:
    assert len({SecretKey.generate().secret for _ in range(100)}) == 100


def test_nothing_shows_a_key(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """No key is printed, logged or raised by any source."""
    caplog.set_level(logging.DEBUG)
    monkeypatch.setenv("FACTMEM_TEST_KEY", TEXT)
    monkeypatch.setenv("FACTMEM_TEST_WORDS", WORDS)
    sources: list[KeySource] = [
        SecretKey(SECRET),
        Passphrase(WORDS, cost=CHEAP),
        EnvironmentKey("FACTMEM_TEST_KEY"),
        EnvironmentPassphrase("FACTMEM_TEST_WORDS", cost=CHEAP),
        CalledKey(functools.partial(fetch, TEXT)),
    ]
    for source in sources:
        keyring = Keyring.of(source, former={"old": SecretKey(SECRET)})
        logging.getLogger("a.host").info("opened with %s and %r of %s", source, keyring, keyring.sources)
        assert not shows(source)
        assert not shows(keyring)
        assert len(source.wrapping_key(source.recipe()) or b"") == KEY_BYTES
    assert not shows(caplog.text)


@pytest.mark.parametrize("words", ["", "   ", "\n"])
def test_a_blank_passphrase_is_refused(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidDataError):
        Passphrase(words)
    monkeypatch.setenv("FACTMEM_TEST_WORDS", words)
    with pytest.raises(KeyUnavailableError, match="FACTMEM_TEST_WORDS"):
        EnvironmentPassphrase("FACTMEM_TEST_WORDS").wrapping_key(Recipe(cost=CHEAP, salt=bytes(16)))


def test_a_passphrase_is_the_same_however_its_letters_are_composed() -> None:
    recipe = Recipe(cost=CHEAP, salt=bytes(range(16)))
    composed, decomposed = (unicodedata.normalize(form, "Łódź ist schön, 각") for form in ("NFC", "NFD"))
    assert composed != decomposed
    assert Passphrase(composed).wrapping_key(recipe) == Passphrase(decomposed).wrapping_key(recipe)
    assert Passphrase(composed).wrapping_key(recipe) != Passphrase(composed.upper()).wrapping_key(recipe)
    assert Passphrase("\udcff broken").wrapping_key(recipe)


def test_each_slot_of_a_passphrase_has_a_salt_of_its_own() -> None:
    source = Passphrase(WORDS, cost=CHEAP)
    one, other = source.recipe(), source.recipe()
    assert one.salt != other.salt
    assert len(one.salt) == 16
    assert source.wrapping_key(one) != source.wrapping_key(other)


def test_a_source_makes_no_key_of_another_kind() -> None:
    stretched = Recipe(cost=CHEAP, salt=bytes(16))
    assert SecretKey(SECRET).wrapping_key(stretched) is None
    assert CalledKey(lambda: SECRET).wrapping_key(stretched) is None
    assert Passphrase(WORDS).wrapping_key(AS_IT_IS) is None
    assert EnvironmentPassphrase("FACTMEM_NO_SUCH").wrapping_key(AS_IT_IS) is None


def test_a_variable_that_is_missing_or_holds_no_key_is_named_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    source = EnvironmentKey("FACTMEM_TEST_KEY")
    monkeypatch.delenv("FACTMEM_TEST_KEY", raising=False)
    with pytest.raises(KeyUnavailableError, match="FACTMEM_TEST_KEY"):
        source.wrapping_key(AS_IT_IS)
    monkeypatch.setenv("FACTMEM_TEST_KEY", WORDS)
    with pytest.raises(KeyUnavailableError, match="FACTMEM_TEST_KEY") as caught:
        source.wrapping_key(AS_IT_IS)
    assert not shows(caught.value)


def _raising() -> bytes:
    raise KeyError(TEXT)


@pytest.mark.parametrize(
    "function", [_raising, functools.partial(fetch, WORDS), lambda: 32, lambda: TEXT, lambda: None, lambda: b"short"]
)
def test_a_function_that_gives_no_key_is_an_error_that_shows_nothing(function: Callable[[], bytes]) -> None:
    """A number is refused above all: `bytes(32)` would be a key of zeros."""
    with pytest.raises(KeyUnavailableError) as caught:
        CalledKey(function).wrapping_key(AS_IT_IS)
    assert not shows(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


@pytest.mark.parametrize("found", [SECRET, bytearray(SECRET), memoryview(SECRET)])
def test_a_function_may_give_its_key_as_any_bytes(found: bytes) -> None:
    assert CalledKey(lambda: found).wrapping_key(AS_IT_IS) == SECRET


def test_a_keyring_says_what_it_takes() -> None:
    key = SecretKey(SECRET)
    assert keyring_of(key).current == "default"
    ring = Keyring.of(key, "2026", former={"2025": key})
    assert keyring_of(ring) is ring
    with pytest.raises(InvalidDataError):
        Keyring({"a": key}, "b")
    for sources in ({"": key}, {"a": SECRET}, {1: key}):
        with pytest.raises(InvalidDataError) as caught:
            Keyring(sources, next(iter(sources)))  # type: ignore[arg-type]
        assert not shows(caught.value)
    with pytest.raises(InvalidDataError):
        keyring_of(TEXT)  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        ring.sources["x"] = key  # type: ignore[index]


@attrs.define
class Kept:
    """Contents of the keyring of an operating system."""

    passwords: dict[tuple[str, str], str] = attrs.field(factory=dict)
    fault: Exception | None = None


@pytest.fixture
def kept() -> Iterator[Kept]:
    """The keyring of the operating system, replaced by one in memory through keyring's interface for backends."""
    keyring = pytest.importorskip("keyring", reason="keyring is not installed: OsKeyringKey was NOT tested")
    backend = pytest.importorskip("keyring.backend")
    found = Kept()

    class InMemory(backend.KeyringBackend):  # type: ignore[name-defined, misc]
        priority = 1

        def get_password(self, service: str, username: str) -> str | None:
            if found.fault is not None:
                raise found.fault
            return found.passwords.get((service, username))

        def set_password(self, service: str, username: str, password: str) -> None:
            found.passwords[service, username] = password

        def delete_password(self, service: str, username: str) -> None:
            del found.passwords[service, username]

    before = keyring.get_keyring()
    keyring.set_keyring(InMemory())
    yield found
    keyring.set_keyring(before)


def test_a_key_from_the_systems_keyring(kept: Kept) -> None:
    kept.passwords["notes", "factmem"] = TEXT
    assert OsKeyringKey("notes").wrapping_key(AS_IT_IS) == SECRET
    kept.passwords["notes", "anna"] = SECRET.hex()
    assert OsKeyringKey("notes", "anna").wrapping_key(AS_IT_IS) == SECRET
    assert not shows(OsKeyringKey("notes"))


def test_a_key_is_made_in_the_systems_keyring_only_when_asked(kept: Kept) -> None:
    with pytest.raises(KeyUnavailableError, match="keyring set notes factmem"):
        OsKeyringKey("notes").wrapping_key(AS_IT_IS)
    assert not kept.passwords
    source = OsKeyringKey("notes", create=True)
    assert source.wrapping_key(AS_IT_IS) == source.wrapping_key(AS_IT_IS)
    assert list(kept.passwords) == [("notes", "factmem")]


def test_an_error_of_the_systems_keyring_is_a_typed_error_that_shows_nothing(kept: Kept) -> None:
    """Any error of a backend is covered: errors of the system's own libraries are not a `KeyringError`."""
    errors = pytest.importorskip("keyring.errors")
    kept.passwords["notes", "factmem"] = WORDS
    for fault in (None, errors.KeyringLocked(WORDS), errors.NoKeyringError(WORDS), RuntimeError(WORDS), OSError(5)):
        kept.fault = fault
        with pytest.raises(KeyUnavailableError) as caught:
            OsKeyringKey("notes").wrapping_key(AS_IT_IS)
        assert not shows(caught.value)
        assert isinstance(caught.value, FactMemError)
