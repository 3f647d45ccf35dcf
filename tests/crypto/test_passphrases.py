"""Refusal of passphrases that are easy to guess, wherever a key is made."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pytest
from typer.testing import CliRunner

from factmem import Concept, Memory, SingleFact, open_provider
from factmem.cli.app import app
from factmem.crypto import Passphrase, SecretKey
from factmem.crypto.key_file import Roots, locked_roots, unlocked_roots
from factmem.crypto.keys import AS_IT_IS, Argon2id, EnvironmentPassphrase, Keyring, KeySource
from factmem.errors import WeakPassphraseError
from tests.tables import sections

CHEAP = Argon2id(memory_kib=19 * 1024, passes=2, lanes=1)
CITY = Concept.single("city", "Where the person lives")
_TEXTS = sections(Path(__file__).with_name("passphrases.txt"))
WEAK, STRONG = _TEXTS["weak"], _TEXTS["strong"]


@pytest.mark.parametrize("words", WEAK)
def test_a_weak_passphrase_makes_no_key(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTMEM_TEST_WORDS", words)
    for source in (Passphrase(words, cost=CHEAP), EnvironmentPassphrase("FACTMEM_TEST_WORDS", cost=CHEAP)):
        with pytest.raises(WeakPassphraseError, match="five random words") as caught:
            locked_roots(Roots.new(), Keyring.of(source))
        assert words not in str(caught.value).split() or len(words) == 1


@pytest.mark.parametrize("words", STRONG)
def test_a_passphrase_that_is_hard_to_guess_makes_one(words: str) -> None:
    Passphrase(words).recipe()


@pytest.mark.parametrize("words", WEAK[:3])
def test_a_weak_passphrase_is_taken_if_insisted_on_and_opens_what_was_made_with_it(words: str) -> None:
    document = locked_roots(Roots.new(), Keyring.of(Passphrase(words, cost=CHEAP, allow_weak=True)))
    assert unlocked_roots(document, Keyring.of(Passphrase(words, cost=CHEAP))).current.epoch == 1


def test_an_estimate_takes_no_longer_for_a_long_text() -> None:
    with pytest.raises(WeakPassphraseError):
        Passphrase("ab" * 500_000 + "c").recipe()


@pytest.fixture
def stretched_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the costs of stretching be nothing."""
    monkeypatch.setattr(Argon2id, "stretch", lambda cost, secret, salt: hashlib.sha256(secret + salt).digest())


@pytest.mark.usefixtures("stretched_at_once")
@pytest.mark.parametrize("store", ["encrypted", "encrypted-sqlite"])
async def test_a_new_store_refuses_a_weak_passphrase_and_nothing_is_made(
    store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FACTMEM_TEST_WORDS", "Summer2024!")
    address = f"{store}:{tmp_path / 'new' / 'facts'}?passphrase_env=FACTMEM_TEST_WORDS"
    with pytest.raises(WeakPassphraseError, match="weak_passphrase=yes"):
        await _save(address)
    assert not (tmp_path / "new").exists()
    await _save(f"{address}&weak_passphrase=yes")
    await _save(address)  # the store exists now


async def _save(address: str) -> None:
    async with Memory(open_provider(address)) as memory:
        await memory.save(SingleFact(CITY, "Bern"))


async def test_a_rotation_to_a_weak_passphrase_changes_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTMEM_TEST_KEY", "5a" * 32)
    for store in ("encrypted", "encrypted-sqlite"):
        address = f"{store}:{tmp_path / store / 'facts'}?key_env=FACTMEM_TEST_KEY"
        await _save(address)
        provider = open_provider(address)
        with pytest.raises(WeakPassphraseError):
            await provider.rotate(Passphrase("Summer2024!"))  # type: ignore[attr-defined]
        await provider.aclose()
        await _save(address)


@pytest.mark.usefixtures("stretched_at_once")
def test_the_command_line_names_the_option(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FACTMEM_TEST_KEY", "5a" * 32)
    monkeypatch.setenv("FACTMEM_TEST_WORDS", "Summer2024!")
    address = f"encrypted-sqlite:{tmp_path / 'facts.db'}?key_env=FACTMEM_TEST_KEY"
    rotation = ["--store", address, "rotate-key", "--passphrase-env", "FACTMEM_TEST_WORDS"]
    refused = CliRunner().invoke(app, rotation)
    assert (refused.exit_code, "--weak-passphrase" in refused.stderr) == (1, True)
    assert CliRunner().invoke(app, [*rotation, "--weak-passphrase"]).exit_code == 0


def test_sources_of_random_keys_are_never_weak() -> None:
    source: KeySource = SecretKey.generate()
    assert source.recipe() == AS_IT_IS
