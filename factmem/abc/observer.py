"""The contract of observers: what is told of every operation, and to whom."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import attrs

__all__ = [
    "MemoryObserver",
    "Operation",
    "OperationCompleted",
    "OperationEvent",
    "OperationFailed",
    "OperationStarted",
]


class Operation(enum.StrEnum):
    """What a memory does: each method that waits goes by its own name; the last ones happen within others.

    Attributes:
        READ: words that were handed over are read, in the background or at once.
        DETECT: a detector looks for facts in words.
        ANALYSE: an analyst says what a text is about.
        CONSOLIDATE: what was found is compared with what is known.
        EMBED: texts become vectors.
        ASK: a language model is asked one question.
        COMMIT: statements are written to the store, in one transaction.
    """

    LOAD = "load"
    PROFILE = "profile"
    RECALL = "recall"
    GET = "get"
    HISTORY = "history"
    LIST_RECORDS = "list_records"
    INFO = "info"
    TREE = "tree"
    ACCESSES = "accesses"
    AUDIT = "audit"
    SAVE = "save"
    SAVE_PROFILE = "save_profile"
    UPDATE = "update"
    RETRACT = "retract"
    RESTORE = "restore"
    ROLLBACK = "rollback"
    UNDO = "undo"
    REMEMBER = "remember"
    REMEMBER_MANY = "remember_many"
    GENERATE = "generate"
    INGEST_EVENTS = "ingest_events"
    FLUSH = "flush"
    RESUME = "resume"
    EXTRACT = "extract"
    FORGET = "forget"
    TRACES = "traces"
    EXPIRE = "expire"
    EXPORT = "export"
    IMPORT = "import"
    REEMBED = "reembed"
    CLOSE = "aclose"
    QUARANTINE_LIST = "quarantine.list"
    QUARANTINE_ACCEPT = "quarantine.accept"
    QUARANTINE_REJECT = "quarantine.reject"
    DEAD_LETTERS_LIST = "dead_letters.list"
    DEAD_LETTERS_RETRY = "dead_letters.retry"
    DEAD_LETTERS_DISMISS = "dead_letters.dismiss"
    READ = "read"
    DETECT = "detect"
    ANALYSE = "analyse"
    CONSOLIDATE = "consolidate"
    EMBED = "embed"
    ASK = "ask"
    COMMIT = "commit"


@attrs.frozen(kw_only=True)
class _Run:
    """One run of an operation.

    Attributes:
        operation: which.
        id: of this run of it, unlike any other's.
        parent_id: the id of the run that it happens within, or that handed over what is done now; None if nobody did.
        tenant: the memory's organization.
        scope: the path of the scope that it was asked about, or of the view; None for all there is, or several.
        records_in: how many things were handed in (facts, words, ids, texts, statements), where that can be told.
    """

    operation: Operation
    id: str
    parent_id: str | None = None
    tenant: str | None = None
    scope: str | None = None
    records_in: int | None = None


@attrs.frozen(kw_only=True)
class _Ended(_Run):
    """One run of an operation that is over.

    Attributes:
        duration: in seconds, by a clock that nobody sets.
        model: the name of the embedder or language model that was asked, where it is known.
        input_tokens: how many were sent to a model, where it says so.
        output_tokens: how many the model answered, where it says so.
    """

    duration: float
    model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None


@attrs.frozen(kw_only=True)
class OperationStarted(_Run):
    """An operation has begun.

    Attributes:
        arguments: what it was called with, by name; None unless the memory was opened with ``observed_content=True``,
            and always of what happens within another operation, which may be done for another viewer.
    """

    arguments: Mapping[str, Any] | None = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class OperationCompleted(_Ended):
    """An operation has ended well.

    Attributes:
        records_out: how many things it gave (records, changes, vectors), where that can be told.
        result: what it returned; None where the arguments are.
    """

    records_out: int | None = None
    result: object = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class OperationFailed(_Ended):
    """An operation has raised.

    Attributes:
        error: the name of the error's type and nothing that it says; ``Cancelled`` for one that was cancelled.
    """

    error: str


OperationEvent: TypeAlias = OperationStarted | OperationCompleted | OperationFailed
"""What is told of an operation: that it has begun, and later that it has ended well or failed.

It is of the work that a memory does, reads included, and of how long that took. What became of *facts* is told
elsewhere: by the `Change` that an operation returns, by a memory's ``on_event`` for words that were read in the
background, by `FeedsChanges` between a store and its mirrors, and by `Memory.audit` for good.
"""


@runtime_checkable
class MemoryObserver(Protocol):
    """Is told of every operation of the memories that it is given to. Any function of one argument will do."""

    def __call__(self, event: OperationEvent, /) -> None:
        """Take an event. It is called where the operation runs and nothing goes on meanwhile: it must be quick.

        The operation's task, and with it its context variables, are those of the call. Of an operation, the start
        comes first; what happens within it comes in between. What is read in the background comes after the end of
        the operation that handed it over, and names it as its parent. Calls may come from several event loops,
        each in a thread of its own.

        What it raises is logged once by the name of its type, and does not reach the operation.
        """
        ...
