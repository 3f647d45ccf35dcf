"""An encrypted store: made with a passphrase, rotated to another key, and safe against changed files."""

import tempfile
from pathlib import Path

import anyio
from factmem_encrypted import EncryptedMemoryProvider

from factmem import Concept, Memory, MemorySubject, MultipleFacts
from factmem.crypto import Passphrase, SecretKey
from factmem.errors import CorruptStoreError, WrongKeyError

ALLERGY = Concept.multiple("allergy", "What the user must not eat")
ADA = MemorySubject("user", "Who talks to the agent").individual("ada")


def in_clear(store: Path) -> list[str]:
    """Return the secret words that are on the disk in plaintext, in files or in their names."""
    on_disk = b"".join(str(path).encode() + path.read_bytes() for path in store.rglob("*.*"))
    return [word for word in ("hazelnuts", "allergy", "user", "ada") if word.encode() in on_disk]


def change_a_bit(store: Path) -> None:
    for path in store.rglob("*.sealed"):
        data = bytearray(path.read_bytes())
        data[-30] ^= 1
        path.write_bytes(data)


async def main(store: Path) -> None:
    words = Passphrase("plum lantern orbit velvet cactus")
    async with Memory(EncryptedMemoryProvider(store, words)) as memory:
        await memory.save(MultipleFacts(ALLERGY, ("hazelnuts",)), subject=ADA)
    print("in clear on the disk:", *in_clear(store) or ["nothing"])

    try:
        async with Memory(EncryptedMemoryProvider(store, Passphrase("plum lantern"))) as memory:
            await memory.load(ALLERGY, subject=ADA)
    except WrongKeyError as error:
        print("another passphrase:", error)

    key = SecretKey.generate()
    async with EncryptedMemoryProvider(store, words) as provider:
        await provider.rotate(key)
    async with Memory(EncryptedMemoryProvider(store, key)) as memory:
        (match,) = await memory.recall("Is there food she can't have?", subject=ADA)
        print("under another key:", match.record.value)

    change_a_bit(store)
    try:
        async with Memory(EncryptedMemoryProvider(store, key)) as memory:
            await memory.load(ALLERGY, subject=ADA)
    except CorruptStoreError as error:
        print("changed files:", error)


with tempfile.TemporaryDirectory() as folder:
    anyio.run(main, Path(folder, "vault"))
