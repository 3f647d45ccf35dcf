"""Koog: the files of its ``LocalFileMemoryProvider``, plain or encrypted by ``Aes256GCMEncryptor``, and back.

A file holds the facts about one subject in one scope, and has the subject's name::

    {agent/NAME | feature/ID | product/NAME | organization}/subject/NAME

with ``{"keyword": [fact, ...]}``. An encrypted one is the base64 of nonce, ciphertext and tag.
"""

from __future__ import annotations

import base64
import binascii
import json
import secrets
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from factmem.errors import FileFormatError, InvalidDataError, KeyUnavailableError, WrongKeyError
from factmem.facts import STATEMENT, Concept, FactType, MultipleConcept, SingleConcept
from factmem.importers.contract import Found, ImportOptions, Problem, Skipped
from factmem.importers.rows import Fields, Row, converted, guarded, parsed
from factmem.importers.sources import Source
from factmem.private_files import make_folders, writing
from factmem.records import FactRecord
from factmem.scopes import MemoryScope, ScopeKind
from factmem.subjects import MemorySubject
from factmem.values import encode_value

_ORGANIZATION: Final = "organization"
_SUBJECT: Final = "subject"
_PACKAGE: Final = "ai.koog.agents.memory.model"
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_LONGEST_NAME: Final = 255

_FACT: Final = Fields.of("koog")


def read_koog(source: Source, options: ImportOptions) -> Iterator[Found]:
    """Yield every fact of every file. What Koog loads of a SINGLE concept is its oldest fact; here the newest counts.

    Raises:
        FileFormatError: It is not a folder.
        KeyUnavailableError: A file is encrypted, and no key is given.
        WrongKeyError: The key does not open a file.
        InvalidDataError: The key is malformed.
    """
    if not source.is_folder:
        raise FileFormatError(f"{source.path} is a file: name the folder of Koog's memory")
    key = None if options.key is None else _key(options.key)
    for path in source.walk():
        if isinstance(path, Problem):
            yield path
        elif (scope := _scope(path.relative_to(source.path).parts)) is None:
            yield Skipped("they lie in no folder of a subject")
        else:
            yield from guarded(source.place(path), _file, path, scope, key, source, options)


def _scope(parts: tuple[str, ...]) -> MemoryScope | None:
    """Return the scope of a file by its path; None for a file that is not Koog's."""
    match parts:
        case (*_, "agent" | "feature" | "product" as kind, name, "subject", _):
            return MemoryScope(ScopeKind(kind), (name,))
        case (*_, "organization", "subject", _):
            return MemoryScope.CROSS_PRODUCT
        case _:
            return None


def _file(path: Path, scope: MemoryScope, key: bytes | None, source: Source, options: ImportOptions) -> Iterator[Found]:
    where = source.place(path)
    text = source.whole(path)
    if not text.lstrip().startswith("{"):
        text = _opened(text, key, where)
    document = Row.of(where, parsed(text, where))
    subject = MemorySubject.parse(path.name)
    rows = (row for keyword in document.data for row in document.rows(keyword))
    yield from converted(rows, lambda row: _facts(row, subject, scope, options))


def _facts(row: Row, subject: MemorySubject, scope: MemoryScope, options: ImportOptions) -> Iterator[Found]:
    named = row.inner("concept")
    keyword, description = named.required("keyword"), named.text("description") or ""
    # The package before the name changed over the versions.
    match row.required("type").rpartition(".")[2]:
        case "SingleFact":
            concept: SingleConcept[str] | MultipleConcept[str] = Concept.single(keyword, description)
            values: Sequence[str] = (row.required("value"),)
        case "MultipleFacts":
            concept = STATEMENT if keyword == STATEMENT.keyword else Concept.multiple(keyword, description)
            values = row.texts("values")
        case _:
            raise row.fault("neither a SingleFact nor MultipleFacts", "type")
    yield from _FACT.found(row, options, concept=concept, values=values, subject=subject, scope=scope)


def _key(text: str) -> bytes:
    try:
        key = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if len(key) != _KEY_BYTES:
        raise InvalidDataError(f"a key of Koog is the base64 of {_KEY_BYTES} bytes")
    return key


def _opened(text: str, key: bytes | None, where: str) -> str:
    """Decrypt a file.

    Raises:
        FileFormatError: It is not encrypted as Koog does it.
        KeyUnavailableError: No key is given.
        WrongKeyError: The key does not open it.
    """
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    try:
        sealed = base64.b64decode("".join(text.split()), validate=True)
    except (binascii.Error, ValueError):
        raise FileFormatError("neither JSON nor base64: it is not a file of Koog", path=where) from None
    if key is None:
        raise KeyUnavailableError(f"{where} is encrypted: name the variable with its key by --key-env")
    try:
        return AESGCM(key).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], None).decode()
    except (InvalidTag, ValueError):
        raise WrongKeyError(
            f"the key does not open {where}: give its own key, or restore a file that was changed"
        ) from None


def write_koog(
    records: Iterable[FactRecord[Any]], folder: Path, key: str | None = None, *, replace: bool = False
) -> tuple[int, Mapping[str, int]]:
    """Write records as files that Koog reads.

    Values become texts and times whole milliseconds. Koog has no place for owners, evidence, history, child scopes and
    other details: private records and those of other scopes are left out.

    Args:
        records: The records.
        folder: The folder.
        key: Key as base64 of 32 bytes; plain files if None.
        replace: Replace files of the same subjects and scopes in the folder, which must be empty otherwise.

    Returns:
        The number of records written, and of those left out or changed, by reason.

    Raises:
        InvalidDataError: The key is malformed, or the folder is not empty.
        OSError: A file cannot be written.
    """
    if not replace and folder.exists() and any(folder.iterdir()):
        raise InvalidDataError(f"{folder} is not empty: name another folder, or add --force to replace its files")
    sealing = None if key is None else _key(key)
    files: dict[Path, dict[str, list[dict[str, Any]]]] = {}
    lost: Counter[str] = Counter()
    written = 0
    for record in records:
        if (place := _path(record)) is None:
            lost["private records, child scopes and names that are not file names"] += 1
            continue
        if not isinstance(record.value, str):
            lost["types of values (they are written as texts)"] += 1
        _add(files.setdefault(folder / place, {}), record)
        written += 1
    for path, facts in files.items():
        make_folders(path.parent)
        text = json.dumps(facts, indent=4, ensure_ascii=False)
        with writing(path) as file:
            file.write(text if sealing is None else _sealed(text, sealing))
    return written, lost


def _add(facts: dict[str, list[dict[str, Any]]], record: FactRecord[Any]) -> None:
    concept = record.concept
    value = (
        record.value if isinstance(record.value, str) else json.dumps(encode_value(record.value, concept.value_type))
    )
    single = concept.fact_type is FactType.SINGLE
    facts.setdefault(concept.keyword, []).append(
        {
            "type": f"{_PACKAGE}.{'SingleFact' if single else 'MultipleFacts'}",
            "concept": {
                "keyword": concept.keyword,
                "description": concept.description,
                "factType": concept.fact_type.name,
            },
            "timestamp": int(record.timestamp.timestamp() * 1000),
            **({"value": value} if single else {"values": [value]}),
        }
    )


def _path(record: FactRecord[Any]) -> Path | None:
    """Return the path of a record's file below Koog's folder, or None if Koog has no place for it."""
    scope = record.scope
    names = [*scope.path, str(record.subject)]
    if record.private or not all(map(_is_file_name, names)):
        return None
    match scope.kind, scope.path:
        case ScopeKind.CROSS_PRODUCT, ():
            return Path(_ORGANIZATION, _SUBJECT, str(record.subject))
        case (ScopeKind.AGENT | ScopeKind.FEATURE | ScopeKind.PRODUCT) as kind, (name,):
            return Path(kind.value, name, _SUBJECT, str(record.subject))
        case _:
            return None


def _is_file_name(name: str) -> bool:
    return name not in (".", "..") and not set(name) & set("/\\\0") and len(name.encode()) <= _LONGEST_NAME


def _sealed(text: str, key: bytes) -> str:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM

    nonce = secrets.token_bytes(_NONCE_BYTES)
    return base64.b64encode(nonce + AESGCM(key).encrypt(nonce, text.encode(), None)).decode()
