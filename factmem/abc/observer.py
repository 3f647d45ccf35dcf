"""Contract of observers, which are notified of every operation."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, runtime_checkable

import attrs

from factmem.abc.detector import DropReason


class Operation(enum.StrEnum):
    """The operations of a memory: one for each public async method, then the inner ones.

    Attributes:
        READ: Submitted words are read, in the background or at once.
        DETECT: A detector looks for facts in words.
        VERIFY: A verifier is asked about findings that are not plainly said.
        ANALYSE: An analyst analyses a text.
        CONSOLIDATE: Candidates are compared with known records.
        EMBED: Texts become vectors.
        RERANK: A reranker reads the best records of a search.
        ASK: A language model is asked one question.
        COMMIT: Statements are written to the store, in one transaction.
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
    SAVE_MANY = "save_many"
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
    RESET = "reset"
    TRACES = "traces"
    EXPIRE = "expire"
    EXPORT = "export"
    IMPORT = "import"
    CONVERT = "convert"
    MERGE = "merge"
    REEMBED = "reembed"
    CALIBRATE = "calibrate"
    CLOSE = "aclose"
    QUARANTINE_LIST = "quarantine.list"
    QUARANTINE_COUNT = "quarantine.count"
    QUARANTINE_ACCEPT = "quarantine.accept"
    QUARANTINE_REJECT = "quarantine.reject"
    DEAD_LETTERS_LIST = "dead_letters.list"
    DEAD_LETTERS_RETRY = "dead_letters.retry"
    DEAD_LETTERS_DISMISS = "dead_letters.dismiss"
    READ = "read"
    DETECT = "detect"
    VERIFY = "verify"
    ANALYSE = "analyse"
    CONSOLIDATE = "consolidate"
    EMBED = "embed"
    RERANK = "rerank"
    ASK = "ask"
    COMMIT = "commit"


class Effect(enum.StrEnum):
    """Effect of a commit on one assertion.

    Attributes:
        LEARNT: The assertion is new, and counts.
        REMOVED: The assertion is new, and removes a value.
        QUARANTINED: The assertion is new, and waits in quarantine.
        WAITING: The assertion holds new words that wait for a model.
        READ: A model has read the words.
        FAILED: A model could not read the words, which are now a dead letter.
        RETRIED: A dead letter waits for a model again.
        DISMISSED: A dead letter will not be read again.
        ACCEPTED: The assertion was accepted from quarantine.
        REJECTED: The assertion was rejected in quarantine.
        RETRACTED: The assertion no longer counts.
        RESTORED: The assertion counts again.
    """

    LEARNT = "learnt"
    REMOVED = "removed"
    QUARANTINED = "quarantined"
    WAITING = "waiting"
    READ = "read"
    FAILED = "failed"
    RETRIED = "retried"
    DISMISSED = "dismissed"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    RETRACTED = "retracted"
    RESTORED = "restored"


@attrs.frozen(kw_only=True)
class _Run:
    """One run of an operation.

    Attributes:
        operation: The operation.
        id: The unique id of this run.
        parent_id: The id of the run that it happens within, or that submitted its work; None if there is none.
        tenant: The memory's tenant.
        scope: Path of the operation's scope, or of the view; None for all or several.
        records_in: The number of facts, words, ids, texts or statements passed in, where it is known.
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
        duration: The duration in seconds, by a monotonic clock.
        model: The name of the embedder or language model in use, where it is known.
        requests: The number of requests sent to a model; None for none.
        input_tokens: The number of tokens sent to a model, where it is known.
        cached_tokens: The number of these that the model's provider had in its cache, where it is known.
        output_tokens: The number of tokens that the model returned, where it is known.
    """

    duration: float
    model: str | None = None
    requests: int | None = None
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None


@attrs.frozen(kw_only=True)
class OperationStarted(_Run):
    """An operation has begun.

    Attributes:
        arguments: The arguments of the call, by name; None unless the memory was opened with
            ``observed_content=True``, and always None for an inner operation, which may serve another viewer.
    """

    arguments: Mapping[str, Any] | None = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class OperationCompleted(_Ended):
    """An operation has ended well.

    Attributes:
        records_out: The number of returned records, changes or vectors, if known.
        effects: The numbers of assertions that a COMMIT changed, by effect; empty for other operations.
        dropped: The numbers of findings that a READ dropped, by reason; empty for other operations.
        result: The result; None where the arguments are.
    """

    records_out: int | None = None
    effects: Mapping[Effect, int] = attrs.field(factory=dict)
    dropped: Mapping[DropReason, int] = attrs.field(factory=dict)
    result: object = attrs.field(default=None, repr=False)


@attrs.frozen(kw_only=True)
class OperationFailed(_Ended):
    """An operation has raised.

    Attributes:
        error: The name of the error's type, without its text; ``Cancelled`` for a cancelled operation.
    """

    error: str


OperationEvent: TypeAlias = OperationStarted | OperationCompleted | OperationFailed
"""An event of an operation: its start, and later its completion or failure.

Events are about the work of a memory, reads included, and its duration. Changes of *facts* are reported elsewhere: by
the `Change` that an operation returns, by a memory's ``on_event`` for words that were read in the background, by
`KeepsLog` between a store and its mirrors, and by `Admin.audit` permanently.
"""


@runtime_checkable
class MemoryObserver(Protocol):
    """A function of one argument that is called with every event of its memories."""

    def __call__(self, event: OperationEvent, /) -> None:
        """Handle an event quickly: the operation's task waits for this call.

        The context variables are those of the operation. The start of an operation comes first, then its inner
        operations, then its end. Background reading of words follows the end of the operation that submitted them, and
        names that operation as its parent. Calls may come from several event loops, each in a thread of its own.

        An error of an observer is logged once by the name of its type, and does not reach the operation.
        """
        ...
