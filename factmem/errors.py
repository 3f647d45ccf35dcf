"""Errors of factmem.

    FactMemError
    ├── InvalidDataError (ValueError)      a value, name, vector or argument is not legal; `.path` says where
    │   ├── InvalidNameError               a tenant, scope, subject, owner or keyword
    │   ├── InvalidVectorError             NaN, infinite, zero or of the wrong dimension
    │   ├── WeakPassphraseError            a new key would be too easy to guess
    │   ├── OutOfViewError                 a scope outside of the view that it was asked of
    │   ├── MediumError                    an image, sound or file: empty, too large, damaged, or of another type
    │   ├── MissingUserError               an agent's run names no user, and its memory keeps users apart
    │   └── FileFormatError                a file to take in is damaged, unsafe or in no known format
    │       └── ConversationFormatError    a conversation file
    ├── CodecError (ValueError)            a document is malformed; `.path` says where
    │   └── NewerVersionError              written by a newer factmem than this one
    ├── ConceptConflictError (TypeError)   a place holds another type under this keyword
    ├── RecordNotFoundError (LookupError)  no visible record has this id
    ├── IncompleteProfileError (LookupError)  nothing is known of a field that a profile needs
    ├── SeveralIndividualsError (LookupError)  a read without a subject would mix the facts of several people
    ├── ReadOnlyError (PermissionError)    a write through something opened for reading
    ├── CapabilityError                    the provider cannot represent what was asked
    ├── QuotaExceededError                 too much waits in quarantine already; nothing was written
    ├── StateConflictError                 another writer was first; nothing was written
    ├── WrongLoopError (RuntimeError)      used in a second event loop or thread while the first one is running
    ├── EmbedderError                      the embedder failed, or returned no vectors
    ├── ModelError                         a language model
    │   ├── ModelUnavailableError          unreachable, overloaded, out of quota or too slow; retry later
    │   ├── ModelRefusedError              it refused, or its answer was filtered
    │   ├── ModelAnswerError               its answer is invalid or cut off
    │   ├── BudgetSpentError               the budget of this run is spent; the rest waits
    │   └── ModelAwayError                 the loop that a host's model is asked in does not run; the rest waits
    ├── MemoryFileError                    a file for agents, such as an AGENTS.md, cannot be read or written
    ├── MissingPackageError (ImportError)  an optional package is not installed; the text says how
    └── ProviderError
        ├── UnknownProviderError           no provider has this name or address
        ├── ProviderClosedError            used after `aclose()`
        ├── StoreUnavailableError          I/O failed, disk full, store locked; nothing was written
        ├── KeyUnavailableError            the key is not available: no such variable, a failing service
        ├── WrongKeyError                  the key is sound and does not open this store
        ├── CorruptStoreError              the store is damaged; it is never written to in this state
        │   ├── TamperedStoreError         sealed bytes were changed, or sealed by someone without the key
        │   ├── MisplacedDataError         genuine bytes that belong to another place (swapped files)
        │   ├── RolledBackStoreError       something is missing, cut short or older than the store's manifest
        │   └── DowngradedStoreError       in a weaker form than requested: not encrypted, a cheap key
        └── EmbedderMismatchError          the store's vectors come from another embedder

No message here ever holds a fact's value or the text of a conversation.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final


class FactMemError(Exception):
    """The root of all errors of factmem. Each can be pickled, and so passed between processes."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.args, vars(self))


def _restored(error_type: type[FactMemError], args: tuple[Any, ...], attributes: Mapping[str, Any]) -> FactMemError:
    error = error_type.__new__(error_type)
    error.args = args
    vars(error).update(attributes)
    return error


_LONGEST_PATH: Final = 200
"""In characters: names in a path can be arbitrarily long."""


class _LocatedError(FactMemError, ValueError):
    """An error with the location of its cause.

    Attributes:
        path: the location, from the root of the data: ``$.values[2].age``; ``$`` for the whole. A long one is cut.
    """

    def __init__(self, message: str, *, path: str = "$") -> None:
        path = path if len(path) <= _LONGEST_PATH else f"{path[:_LONGEST_PATH]}…"
        super().__init__(message if path == "$" else f"{message} (at {path})")
        self.path = path


class InvalidDataError(_LocatedError):
    """Raised when a value, a name, a vector or an argument is not legal."""


class InvalidNameError(InvalidDataError):
    """Raised when the name of a tenant, scope, subject, owner or keyword is not legal."""


class InvalidVectorError(InvalidDataError):
    """Raised when a vector is NaN, infinite, zero, or not of the store's dimension."""


class WeakPassphraseError(InvalidDataError):
    """Raised when a store would get a passphrase that is easy to guess. Nothing was written."""


class OutOfViewError(InvalidDataError):
    """Raised when a view of a memory is asked for a scope that lies outside of it."""


class MediumError(InvalidDataError):
    """Raised when an image, sound, video or PDF is empty, too large, damaged or of another type. Nothing is written."""


class MissingUserError(InvalidDataError):
    """Raised when an agent's run names no user although its memory keeps users apart."""


class FileFormatError(InvalidDataError):
    """Raised when a file to take in is damaged, unsafe to read, or in no format that factmem reads."""


class ConversationFormatError(FileFormatError):
    """Raised when a conversation file is in no format that factmem reads."""


class CodecError(_LocatedError):
    """Raised when a document is malformed."""


class NewerVersionError(CodecError):
    """Raised when a document or a store was written by a newer version of factmem."""


class ConceptConflictError(FactMemError, TypeError):
    """Raised when a place already holds another fact type or value type under a keyword.

    Attributes:
        keyword: the keyword.
        entry: the id of the entry in quarantine that cannot be accepted; empty for a save.
    """

    def __init__(self, message: str, *, keyword: str = "", entry: str = "") -> None:
        super().__init__(message)
        self.keyword = keyword
        self.entry = entry


class RecordNotFoundError(FactMemError, LookupError):
    """Raised when no record with this id is visible to the viewer."""


class IncompleteProfileError(FactMemError, LookupError):
    """Raised when nothing is known of a required field of a profile.

    Attributes:
        missing: the names of these fields.
    """

    def __init__(self, profile: str, missing: Sequence[str]) -> None:
        super().__init__(
            f"nothing is known of {', '.join(missing)}, which {profile} needs: give these fields a default, "
            "or ask for a partial profile"
        )
        self.missing: tuple[str, ...] = tuple(missing)


_MOST_NAMED: Final = 10


class SeveralIndividualsError(FactMemError, LookupError):
    """Raised when a read without a subject would mix the facts of several individuals.

    Attributes:
        individuals: the individuals, as texts such as ``user:alice``.
    """

    def __init__(self, individuals: Sequence[str]) -> None:
        named, more = individuals[:_MOST_NAMED], len(individuals) - _MOST_NAMED
        rest = f" and {more} more" if more > 0 else ""
        super().__init__(
            f"several individuals are known here: {', '.join(named)}{rest}. Name one with subject=, or read as one of "
            "them with for_user(name)"
        )
        self.individuals: tuple[str, ...] = tuple(individuals)


class ReadOnlyError(FactMemError, PermissionError):
    """Raised on a write through something that was opened for reading only."""


class CapabilityError(FactMemError):
    """Raised when a provider cannot represent a request, which would otherwise be lost silently."""


class QuotaExceededError(FactMemError):
    """Raised when a write would quarantine more statements than may wait there. Nothing was written.

    Attributes:
        limit: the number of statements that may wait.
    """

    def __init__(self, limit: int, *, per_writer: bool) -> None:
        super().__init__(
            f"no more than {limit} statements {'of one writer ' if per_writer else ''}may wait in quarantine: accept "
            "or reject some first (`factmem quarantine list`, `accept`, `reject`), or raise the QuarantineQuota"
        )
        self.limit = limit


class EmbedderError(FactMemError):
    """Raised when an embedder fails or returns anything but a batch of vectors."""


class StateConflictError(FactMemError):
    """Raised when another writer changed the data first. Nothing was written: read again."""


class WrongLoopError(FactMemError, RuntimeError):
    """Raised when a memory or a provider is used in an event loop while another one uses it. Nothing was done."""


class ModelError(FactMemError):
    """The root of the errors of language models. No message holds a question or an answer."""


class ModelUnavailableError(ModelError):
    """Raised when a language model cannot be reached, is overloaded, out of quota or too slow."""


class ModelRefusedError(ModelError):
    """Raised when a language model refuses to answer, or its answer is filtered."""


class ModelAnswerError(ModelError):
    """Raised when a language model's answer is invalid after all tries, or cut off."""


class BudgetSpentError(ModelError):
    """Raised when a memory's `Budget` is spent. What is not read yet waits for the next process, or `Inbox.resume`."""


class ModelAwayError(ModelError):
    """Raised when no event loop runs in which a host's model can be asked. What is not read waits for the next run."""


class MemoryFileError(FactMemError):
    """Raised when a file for agents, such as an AGENTS.md, cannot be read or written as it should.

    Attributes:
        file: its path.
    """

    def __init__(self, message: str, *, file: str) -> None:
        super().__init__(f"{file}: {message}")
        self.file = file


class MissingPackageError(FactMemError, ImportError):
    """Raised when a package that is needed is not installed.

    Args:
        package: the missing distribution.
        extra: the extra of factmem that installs it; None if it is a dependency of factmem itself.
    """

    def __init__(self, package: str, *, extra: str | None) -> None:
        super().__init__(
            f"{package} is not installed: run  pip install 'factmem[{extra}]'"
            if extra
            else f"{package} is not installed, or another package lies over it: "
            f"run  pip install --force-reinstall --no-deps {package}"
        )
        self.package = package
        self.extra = extra

    @classmethod
    @contextlib.contextmanager
    def if_missing(cls, package: str | None = None, *, extra: str | None) -> Iterator[None]:
        """Raise this error for a module that is not found meanwhile.

        Args:
            package: the distribution that it belongs to; None if that is called like the module.
            extra: the extra of factmem that installs it; None if it is a dependency of factmem itself.
        """
        try:
            yield
        except ModuleNotFoundError as error:
            raise cls(package or str(error.name).partition(".")[0], extra=extra) from error


class ProviderError(FactMemError):
    """The root of the errors of stores."""


class UnknownProviderError(ProviderError):
    """Raised when no installed provider has the name in an address."""


class ProviderClosedError(ProviderError):
    """Raised when a provider is used after it was closed."""


class StoreUnavailableError(ProviderError):
    """Raised when the store cannot be reached or written: I/O error, full disk, lock time-out.

    Nothing of the call that raised it was written.
    """


class CorruptStoreError(ProviderError):
    """Raised when a store is damaged. A damaged store is never overwritten by a later save."""


class TamperedStoreError(CorruptStoreError):
    """Raised when sealed bytes were changed, or were sealed without the key."""


class MisplacedDataError(CorruptStoreError):
    """Raised when sound data belongs to another place, as when two files were swapped."""


class RolledBackStoreError(CorruptStoreError):
    """Raised when a part of a store is missing, cut short, or older than the store's own manifest says."""


class DowngradedStoreError(CorruptStoreError):
    """Raised when a store is in a weaker form than requested: not encrypted, or with a cheaply derived key."""


class KeyUnavailableError(ProviderError):
    """Raised when the key of a store is not available. Nothing was read or written."""


class WrongKeyError(ProviderError):
    """Raised when a key does not open a store. Nothing was changed."""


class EmbedderMismatchError(ProviderError):
    """Raised when the vectors in a store come from another embedder than the one in use."""
