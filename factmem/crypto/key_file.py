"""Document with the root keys of a store, wrapped with a key of a person or a service.

Everything else is sealed with the roots or with keys that these wrap. Each rotation begins an *epoch* with
a root of its own; while it lasts, the store has two.

    {"factmem": "keys", "version": 1, "suite": "cobblestone-256", "store": "<id>",
     "slots": [{"id": "default", "recipe": {"kdf": "none"}, "check": "<base64>", "roots": "<base64>"}]}

A slot's ``check`` is derived from the wrapping key by HKDF-SHA-512 and distinguishes a wrong key from a damaged slot.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import hmac
import json
import secrets
from typing import Any, Final, Protocol, runtime_checkable

import attrs

from factmem.crypto.keys import Keyring, KeySource, Recipe, recipe_from, recipe_to, words_for_key
from factmem.crypto.sealing import KEY_BYTES, Context, SealBrokenError, seal, unseal
from factmem.errors import (
    CorruptStoreError,
    DowngradedStoreError,
    KeyUnavailableError,
    NewerVersionError,
    TamperedStoreError,
    WrongKeyError,
)
from factmem.progress import Progress
from factmem.store_findings import Finding, FindingKind

KEY_FILE_VERSION: Final = 1
_SUITE: Final = "cobblestone-256"
_CHECK_BYTES: Final = 16
_MOST_SLOTS: Final = 16


@attrs.frozen(repr=False)
class Root:
    """The root key of one epoch.

    Attributes:
        epoch: Number of the epoch, from 1.
        key: `KEY_BYTES` random bytes.
    """

    epoch: int
    key: bytes

    def __repr__(self) -> str:
        return f"Root({self.epoch}, ...)"


@attrs.frozen
class Roots:
    """The roots of a store; never empty.

    Attributes:
        store: Id of the store: random, and part of every context.
        of_epochs: Roots, the newest last; more than one during a rotation.
    """

    store: str
    of_epochs: tuple[Root, ...]

    @classmethod
    def new(cls) -> Roots:
        """Make the roots of a new store."""
        return cls(secrets.token_hex(16), (Root(1, secrets.token_bytes(KEY_BYTES)),))

    @property
    def current(self) -> Root:
        """The root that new data is sealed with."""
        return self.of_epochs[-1]

    def of(self, epoch: int) -> bytes | None:
        """Return the key of an epoch, or None."""
        return next((root.key for root in self.of_epochs if root.epoch == epoch), None)

    def begin_epoch(self) -> Roots:
        """Return these roots and a new one."""
        fresh = Root(self.current.epoch + 1, secrets.token_bytes(KEY_BYTES))
        return attrs.evolve(self, of_epochs=(*self.of_epochs, fresh))

    def end_epochs(self) -> Roots:
        """Return the newest root alone."""
        return attrs.evolve(self, of_epochs=(self.current,))

    def sealed_note(self, data: bytes, kind: str, *context: str) -> bytes:
        """Seal a note with the newest root; the result is ASCII text.

        Args:
            data: Content of the note.
            kind: Kind of the note, the first part of its context; the store's id is the second.
            context: Rest of the context.
        """
        return base64.b64encode(seal(self.current.key, data, (kind, self.store, *context)))

    def opened_note(self, text: bytes, kind: str, *context: str) -> bytes | None:
        """Return the content of a note that any of the roots sealed, or None if none opens it."""
        for root in reversed(self.of_epochs):
            with contextlib.suppress(ValueError):
                return unseal(root.key, base64.b64decode(text, validate=True), (kind, self.store, *context))
        return None

    def sealed_frame(self, data: bytes, epoch: int, kind: str, *context: str) -> bytes:
        """Seal a frame with the root of an epoch, whose number precedes it; the result is ASCII text.

        Args:
            data: Content of the frame.
            epoch: Number of the epoch.
            kind: Kind of the frame, the first part of its context; the store's id and the epoch follow.
            context: Rest of the context.

        Raises:
            CorruptStoreError: The epoch is over.
        """
        key = self.of(epoch)
        if key is None:
            raise CorruptStoreError("a key of this store is of an epoch that is over")
        return b"%d %b" % (epoch, base64.b64encode(seal(key, data, (kind, self.store, epoch, *context))))

    def opened_frame(self, text: bytes, kind: str, *context: str) -> tuple[int, bytes]:
        """Return the epoch and the content of a frame from `sealed_frame`.

        Raises:
            ValueError: It does not open, or its epoch is over.
        """
        number, _, sealed = text.partition(b" ")
        epoch = int(number)
        key = self.of(epoch)
        if key is None:
            raise SealBrokenError("no such epoch")
        return epoch, unseal(key, base64.b64decode(sealed, validate=True), (kind, self.store, epoch, *context))


@attrs.frozen
class _Slot:
    """The roots, wrapped with one key.

    Attributes:
        id: Id of the key.
        recipe: Derivation of the wrapping key.
        check: Digest that only the right wrapping key gives.
        sealed: The wrapped roots.
    """

    id: str
    recipe: Recipe
    check: bytes
    sealed: bytes


def locked_roots(roots: Roots, keyring: Keyring) -> bytes:
    """Return the document with roots that the keyring's current key opens, and no other key.

    Raises:
        KeyUnavailableError: The key is not available.
    """
    source = keyring.sources[keyring.current]
    recipe = source.recipe()
    key = source.wrapping_key(recipe)
    if key is None:
        raise TypeError("a key source does not make keys by its own recipe")
    content = [[root.epoch, base64.b64encode(root.key).decode()] for root in roots.of_epochs]
    context = _context(roots.store, keyring.current, recipe)
    slot = {
        "id": keyring.current,
        "recipe": recipe_to(recipe),
        "check": base64.b64encode(_check(key, context)).decode(),
        "roots": base64.b64encode(seal(key, json.dumps(content).encode(), context)).decode(),
    }
    document = {"factmem": "keys", "version": KEY_FILE_VERSION, "suite": _SUITE, "store": roots.store, "slots": [slot]}
    return json.dumps(document, ensure_ascii=False, separators=(",", ":")).encode()


def unlocked_roots(document: bytes, keyring: Keyring) -> Roots:
    """Open a store's roots with the key of a keyring that fits: first the one of the same id, then any other.

    Raises:
        WrongKeyError: No key fits.
        KeyUnavailableError: No key fits, and one is not available.
        NewerVersionError: A newer factmem wrote the document.
        DowngradedStoreError: The document names a construction or a cost that factmem never uses.
        TamperedStoreError: The key fits, but the wrapped roots were changed.
        CorruptStoreError: The document cannot be read.
    """
    return _opened_by(document, keyring)[1]


def opening(document: bytes, keyring: Keyring) -> Keyring:
    """Return a keyring with the key that opens a document as its current one; see `unlocked_roots`."""
    return attrs.evolve(keyring, current=_opened_by(document, keyring)[0])


def _opened_by(document: bytes, keyring: Keyring) -> tuple[str, Roots]:
    """Return the id in the keyring of the key that opens a document, and the roots."""
    store, slots = _read(document)
    unavailable: KeyUnavailableError | None = None
    for slot in slots:
        context = _context(store, slot.id, slot.recipe)
        for name in sorted(keyring.sources, key=lambda name: name != slot.id):
            try:
                key = keyring.sources[name].wrapping_key(slot.recipe)
            except KeyUnavailableError as error:
                unavailable = unavailable or error
                continue
            if key is not None and hmac.compare_digest(_check(key, context), slot.check):
                return name, Roots(store, _opened(key, slot.sealed, context))
    if unavailable is not None:
        raise unavailable
    tried = list(dict.fromkeys(map(words_for_key, keyring.sources.values())))
    verb = "does" if len(tried) == 1 else "do"
    ids = ", ".join(repr(slot.id) for slot in slots if slot.id not in keyring.sources)
    whose = f", whose key has the id {ids}" if ids else ""
    raise WrongKeyError(f"{' and '.join(tried)} {verb} not open this store{whose}: nothing was changed")


def _opened(key: bytes, sealed: bytes, context: Context) -> tuple[Root, ...]:
    try:
        content = json.loads(unseal(key, sealed, context))
    except SealBrokenError:
        raise TamperedStoreError("the keys of this store were changed: restore its key file from a backup") from None
    return tuple(Root(epoch, base64.b64decode(text)) for epoch, text in content)


def _read(document: bytes) -> tuple[str, list[_Slot]]:
    """Return the id of the store, and the slots."""
    try:
        match json.loads(document):
            case {"factmem": "keys", "version": int() as version} if version > KEY_FILE_VERSION:
                raise NewerVersionError("the keys of this store were written by a newer factmem: upgrade factmem")
            case {
                "factmem": "keys",
                "version": 1,
                "suite": "cobblestone-256",
                "store": str() as store,
                "slots": [*all],
            } if len(all) <= _MOST_SLOTS:  # each may cost a passphrase's stretching
                return store, list(map(_slot, all))
            case {"factmem": "keys", "version": int() as version, "suite": str() as suite} if (version, suite) != (
                KEY_FILE_VERSION,
                _SUITE,
            ):
                raise DowngradedStoreError(
                    "the keys of this store name a construction that factmem never uses: its header was changed"
                )
    except (NewerVersionError, CorruptStoreError):
        raise
    except (ValueError, RecursionError):
        pass
    raise _unreadable()


def _slot(document: Any) -> _Slot:
    match document:
        case {"id": str() as id, "recipe": dict() as recipe, "check": str() as check, "roots": str() as roots}:
            try:
                return _Slot(id, recipe_from(recipe), base64.b64decode(check, validate=True), base64.b64decode(roots))
            except binascii.Error:
                pass
    raise _unreadable()


def _check(key: bytes, context: Context) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA512
    from cryptography.hazmat.primitives.kdf.hkdf import HKDFExpand

    info = json.dumps(["factmem", "check", *context]).encode()
    return HKDFExpand(algorithm=SHA512(), length=_CHECK_BYTES, info=info).derive(key)


def _context(store: str, slot: str, recipe: Recipe) -> Context:
    return ("roots", KEY_FILE_VERSION, _SUITE, store, slot, json.dumps(recipe_to(recipe), sort_keys=True))


def _unreadable() -> CorruptStoreError:
    return CorruptStoreError("the keys of this store cannot be read: restore its key file from a backup")


@runtime_checkable
class RotatesKeys(Protocol):
    """Keeps its store under a key that can be changed."""

    async def rotate(self, key: Keyring | KeySource | None = None, *, progress: Progress | None = None) -> bool:
        """Change the key of the store, and seal everything again with fresh keys.

        Return whether a rotation was done or finished: False if there was none to continue.

        From the first moment on, the new key opens the whole store and the old one nothing. A rotation may be
        interrupted at any point, even by a kill: the store then works as before, and calling this without a key, with
        the store opened by the new one, continues it. Other processes need the new key at once; if their keyring has it
        already, under any id, they are not affected.

        Args:
            key: New key; None continues an interrupted rotation, if there is one.
            progress: Called with the number of pieces done, and the total.

        Raises:
            WrongKeyError: The store was not opened with its key.
            KeyUnavailableError: The new key is not available.
        """
        ...


def pending_rotation() -> Finding:
    """Return the finding of a store whose rotation was interrupted."""
    return Finding(
        kind=FindingKind.PENDING_ROTATION,
        part="keys",
        problem="a rotation was interrupted: parts are still sealed with the key before",
        advice="run `factmem rotate-key --resume`",
    )
