"""`FactMemStore`: a LangGraph ``BaseStore`` over a memory."""

from __future__ import annotations

import contextlib
import datetime as dt
import operator
import threading
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Final, Self

import anyio
import attrs
from anyio.abc import AsyncResource

from factmem.abc import system_clock
from factmem.abc.clock import Clock
from factmem.agent.config import AgentMemoryConfig, Store
from factmem.agent.plugin import AgentMemory
from factmem.details import FactDetails, MetadataMerge, Origin
from factmem.errors import CapabilityError, InvalidDataError, InvalidNameError, MissingPackageError, RecordNotFoundError
from factmem.facts import Concept, SingleConcept, SingleFact
from factmem.memory.facade import Memory
from factmem.memory.filters import Filters
from factmem.memory.screening import FlaggedPolicy
from factmem.recall import Boost, MetadataCondition
from factmem.recall.scoring import RecallSettings
from factmem.records import FactRecord
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.validators import check_fraction

with MissingPackageError.if_missing("langgraph", extra="langgraph"):
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        InvalidNamespaceError,
        Item,
        ListNamespacesOp,
        MatchCondition,
        Op,
        PutOp,
        Result,
        SearchItem,
        SearchOp,
        TTLConfig,
    )

_SOURCE: Final = "langgraph"
_PREFIX: Final = "item:"
_SIMILARITY: Final = RecallSettings(composite=Boost(recency_weight=0.0, importance_weight=0.0))
_INDEXED: Final = ((MetadataCondition("indexed", True),),)
_WHOLE: Final = ["$"]
"""LangGraph's path of the whole item."""

_REFRESH_SHARE: Final = 0.05
"""Elapsed share of a time to live from which on a read renews it; a renewal is a revision of its own."""

_Namespace = tuple[str, ...]


class NamespaceError(InvalidNameError, InvalidNamespaceError):
    """Raised when a namespace has a label that LangGraph forbids: an empty one, one with a period, or no string."""


def _check_namespaces(op: Op) -> None:
    """Check the labels of an operation. LangGraph checks those of its methods, and none of ``batch``.

    Raises:
        NamespaceError: A label is not legal.
    """
    match op:
        case GetOp() | PutOp():
            named: Iterable[Sequence[Any]] = (op.namespace,)
        case SearchOp():
            named = (op.namespace_prefix,)
        case ListNamespacesOp():
            named = [condition.path for condition in op.match_conditions or ()]
        case _:
            named = ()
    for label in (label for labels in named for label in labels):
        if not isinstance(label, str) or not label or "." in label:
            raise NamespaceError("a label of a namespace is a text that is not empty and has no period")


@attrs.define(eq=False)
class _Submission:
    """The operations of one caller, and their outcome.

    Attributes:
        ops: The operations.
        results: The result of each operation.
        error: The first error, after which the submission wrote nothing more.
        done: Whether the outcome is final.
    """

    ops: Sequence[Op]
    results: list[Result] = attrs.field(factory=list)
    error: Exception | None = None
    done: bool = False

    @contextlib.contextmanager
    def catching(self) -> Iterator[None]:
        """Record an error instead of raising it, so that the other submissions of the batch go on."""
        try:
            yield
        except Exception as error:
            self.error = error

    def outcome(self) -> list[Result]:
        """Return the results, or raise the error."""
        if self.error is not None:
            raise self.error
        return self.results


class _Gathering(threading.local):
    """Submissions that wait in one thread, and so in one event loop."""

    def __init__(self) -> None:
        self.waiting: list[_Submission] = []
        self.lock = anyio.Lock()


@attrs.frozen
class _Layout:
    """The place of items in the memory.

    Attributes:
        root: The scope of the empty namespace.
        subject: The subject of all items.
    """

    root: MemoryScope
    subject: MemorySubject

    def scope(self, namespace: _Namespace) -> MemoryScope:
        """Return the scope of a namespace.

        Raises:
            InvalidNameError: A label is not legal.
        """
        scope = self.root
        for label in namespace:
            scope /= label
        return scope

    def namespace(self, record: FactRecord[Any]) -> _Namespace:
        return record.scope.path[len(self.root.path) :]

    def items_below(self, namespace: _Namespace) -> Filters:
        """Return the filters that keep the items in and below a namespace."""
        return {"scope": self.scope(namespace), "subject": self.subject, "sources": (_SOURCE,)}

    def item(self, record: FactRecord[Any]) -> dict[str, Any]:
        """Return the arguments of a record's `Item`."""
        return {
            "namespace": self.namespace(record),
            "key": _key(record),
            "value": record.value,
            "created_at": dt.datetime.fromisoformat(record.details.metadata["created_at"]),
            "updated_at": record.timestamp,
        }


@attrs.frozen
class _Write:
    """A put or a deletion, with the present record of its key."""

    submission: _Submission
    op: PutOp
    fact: SingleFact[dict[str, Any]] | None
    present: FactRecord[Any] | None


@attrs.define
class _Reader:
    """The reads of one batch: keys are looked up by namespace, and each listing is made once.

    Attributes:
        memory: The memory.
        layout: The place of items in it.
        settings: Weights of a search with a query.
        min_score: Minimum score of a search with a query.
        keys: The keys that the batch reads or writes, by namespace.
        read: The records whose times to live restart, by namespace and key.
    """

    memory: Memory
    layout: _Layout
    settings: RecallSettings
    min_score: float
    keys: Mapping[_Namespace, Collection[str]]
    read: dict[tuple[_Namespace, str], FactRecord[Any]] = attrs.field(factory=dict, init=False)
    _records: dict[_Namespace, Mapping[str, FactRecord[Any]]] = attrs.field(factory=dict, init=False)
    _listings: dict[_Namespace, list[FactRecord[Any]]] = attrs.field(factory=dict, init=False)

    async def answer(self, op: Op) -> Result:
        """Return the result of an operation; None for a put."""
        match op:
            case GetOp():
                return await self._get(op)
            case SearchOp():
                return await self._search(op)
            case ListNamespacesOp():
                return await self._namespaces(op)
            case PutOp():
                return None
            case _:
                raise InvalidDataError(f"a store knows no operation {type(op).__name__}")

    async def record(self, namespace: _Namespace, key: str) -> FactRecord[Any] | None:
        if namespace not in self._records:
            here: Filters = {
                **self.layout.items_below(namespace),
                "exact": True,
                "concepts": [_keyword(key) for key in self.keys[namespace]],
            }
            self._records[namespace] = {_key(record): record for record in await self.memory.list_records(**here)}
        return self._records[namespace].get(key)

    async def _get(self, op: GetOp) -> Item | None:
        record = await self.record(op.namespace, op.key)
        if record is None:
            return None
        if op.refresh_ttl:
            self.read[op.namespace, op.key] = record
        return Item(**self.layout.item(record))

    async def _search(self, op: SearchOp) -> list[SearchItem]:
        query, prefix = (op.query or "").strip(), tuple(op.namespace_prefix)
        stop = op.offset + op.limit
        kept = None
        if op.filter:
            kept = [record for record in await self._listing(prefix) if _holds(record.value, op.filter)]
            if not kept:
                return []
        ranked: list[tuple[FactRecord[Any], float | None]] = []
        if query and stop > 0:
            within: Filters = {**self.layout.items_below(prefix), "where": _INDEXED}
            if kept is not None:
                within["record_ids"] = {record.id for record in kept}
            found = await self.memory.recall(
                query, limit=stop, min_score=self.min_score, settings=self.settings, **within
            )
            ranked = [(match.record, match.score) for match in found]
        if len(ranked) < stop and not (query and self.min_score):
            known = {record.id for record, _ in ranked}
            others = await self._listing(prefix) if kept is None else kept
            ranked += [(record, None) for record in others if record.id not in known]
        page = ranked[op.offset : stop]
        if op.refresh_ttl:
            self.read |= {(self.layout.namespace(record), _key(record)): record for record, _ in page}
        return [SearchItem(**self.layout.item(record), score=score) for record, score in page]

    async def _namespaces(self, op: ListNamespacesOp) -> list[_Namespace]:
        found = {self.layout.namespace(record) for record in await self._listing(())}
        matching = {name for name in found if all(_matches(name, condition) for condition in op.match_conditions or ())}
        return sorted({name[: op.max_depth] for name in matching})[op.offset : op.offset + op.limit]

    async def _listing(self, prefix: _Namespace) -> list[FactRecord[Any]]:
        """Return the items in and below a namespace, newest first."""
        if prefix not in self._listings:
            self._listings[prefix] = await self.memory.list_records(**self.layout.items_below(prefix))
        return self._listings[prefix]


class FactMemStore(BaseStore, AsyncResource):
    """A LangGraph store whose items are facts, with history, recall and access control.

    - A namespace is a scope below ``root``: ``("memories", "alice")`` is ``/langgraph/memories/alice``. Prefixes
      are compared label by label. Labels are factmem names, in any script.
    - A key is a SINGLE concept with the keyword ``item:<key>``; its value is the fact, a JSON object. Replaced
      values stay in `Memory.history`. Deleted items are retracted.
    - ``search`` with a query is factmem's exact recall over whole items. An item put with ``index=False`` comes
      last, without a score; ``index=[…]`` with fields raises `CapabilityError`, since parts of an item cannot be
      searched by themselves. Filters apply before ranking; a name with dots is a path if the item has no such key:
      ``{"home.city": "Oslo"}``. Without a query, the newest item comes first. ``min_score`` is the threshold.
    - A value is returned as it was put, or ``put`` raises. Values that read like instructions or hide text are
      flagged (`FactDetails.flags`), and agents never see them.
    - A time to live is in minutes since the last read or write, exact to five percent of it. Expired items are
      invisible; `sweep_ttl` erases their bytes.

    Operations that are awaited at the same time in one event loop are executed as one batch. As in LangGraph's own
    stores, a batch reads before it writes, and of several puts of one key the last one counts. Unlike there, an
    error reaches only the caller whose operation caused it. ``batch`` and ``abatch`` write nothing if a value is
    not legal.

    The synchronous methods need a memory with a thread of its own, which every address and provider gets. For an
    open `Memory`, only the async methods work.

    Example:
        >>> async with FactMemStore("facts.db") as store:
        ...     await store.aput(("memories", "alice"), "drink", {"likes": "green tea"}, ttl=60 * 24)
        ...     await store.asearch(("memories",), query="what to drink?")

    Args:
        store: The store, as in `AgentMemoryConfig.store`, or the memory of an agent.
        root: The scope that namespaces lie below. Below a scope of an agent, such as ``/agent/planner``, the agent
            recalls the items as well, except flagged ones.
        subject: The subject of all items.
        ttl: Default times to live. Expired items are swept by `sweep_ttl` alone, and by an open `Memory` once a day.
        settings: Weights of a search with a query (default: similarity alone).
        min_score: Minimum score of a search with a query, from 0 to 1; see `RecallMatch.score`. Above 0, items
            without a score are left out as well.
        erase: Erase a deleted item with all its history instead of retracting it.
        clock: Source of the current time.

    Raises:
        InvalidDataError: ``min_score`` is out of range.
    """

    supports_ttl = True

    def __init__(
        self,
        store: AgentMemory | Store,
        *,
        root: MemoryScope | str = "/langgraph",
        subject: MemorySubject = MemorySubject.EVERYTHING,
        ttl: TTLConfig | None = None,
        settings: RecallSettings = _SIMILARITY,
        min_score: float = 0.0,
        erase: bool = False,
        clock: Clock = system_clock,
    ) -> None:
        self._owned = not isinstance(store, AgentMemory)
        self._memory = store if isinstance(store, AgentMemory) else AgentMemory(AgentMemoryConfig(store=store))
        self._layout = _Layout(MemoryScope.parse(root) if isinstance(root, str) else root, subject)
        self._settings = settings
        check_fraction(min_score, "min_score")
        self._min_score = min_score
        self._erase = erase
        self._clock = clock
        self._gathering = _Gathering()
        self._writing = anyio.Lock()
        self._last = dt.datetime.min.replace(tzinfo=dt.UTC)
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations; see `BaseStore.batch`.

        Raises:
            NamespaceError: A label is not legal.
            InvalidNameError: A key is not legal.
            InvalidDataError: A value cannot be stored, or a filter has an unknown operator.
            CapabilityError: The store is an open `Memory`, or single fields of an item are to be indexed.
        """
        submission = _Submission(list(ops))
        self._memory.for_run().held.use_blocking(lambda memory: self._execute(memory, [submission]))
        return submission.outcome()

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Execute operations, together with those of other tasks that wait at the same time; see `batch`."""
        gathering, submission = self._gathering, _Submission(list(ops))
        gathering.waiting.append(submission)
        try:
            async with gathering.lock:
                if not submission.done:
                    await self._execute_waiting(gathering)
        finally:
            if submission in gathering.waiting:
                gathering.waiting.remove(submission)
        return submission.outcome()

    async def _execute_waiting(self, gathering: _Gathering) -> None:
        submissions, gathering.waiting = gathering.waiting, []
        try:
            await self._memory.for_run().held.use(lambda memory: self._execute(memory, submissions))
        except Exception as error:
            for submission in submissions:
                submission.error = submission.error or error
                submission.done = True
        finally:
            # After a cancellation, the next task that gets the lock executes the others again: puts are idempotent.
            gathering.waiting[:0] = [submission for submission in submissions if not submission.done]

    def sweep_ttl(self) -> int:
        """Erase the bytes of expired items, and of all else that has expired; return the number of records.

        Raises:
            CapabilityError: The store is an open `Memory`, or the provider cannot erase.
        """
        return self._memory.for_run().held.use_blocking(_swept)

    async def asweep_ttl(self) -> int:
        """Erase like `sweep_ttl`.

        Raises:
            CapabilityError: The provider cannot erase.
        """
        return await self._memory.for_run().held.use(_swept)

    def close(self) -> None:
        """Close the memory, unless it belongs to an agent."""
        if self._owned:
            self._memory.close()

    async def aclose(self) -> None:
        """Close the memory, unless it belongs to an agent."""
        if self._owned:
            await self._memory.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def _execute(self, memory: Memory, submissions: Sequence[_Submission]) -> None:
        """Execute submissions as one batch: all reads, then all writes."""
        memory = memory.view(policies={"flagged": FlaggedPolicy.ANNOTATE})
        facts: dict[int, SingleFact[dict[str, Any]] | None] = {}
        for submission in submissions:
            with submission.catching():
                for op in submission.ops:
                    _check_namespaces(op)
                facts |= {id(op): self._fact(op) for op in submission.ops if isinstance(op, PutOp)}
        valid = [submission for submission in submissions if submission.error is None]
        keys: dict[_Namespace, set[str]] = {}
        for op in (op for submission in valid for op in submission.ops):
            if isinstance(op, GetOp | PutOp):
                keys.setdefault(op.namespace, set()).add(op.key)
        reader = _Reader(memory, self._layout, self._settings, self._min_score, keys)
        writes: dict[tuple[_Namespace, str], _Write] = {}
        async with self._writing if facts else contextlib.nullcontext():
            for submission in valid:
                with submission.catching():
                    submission.results = [await reader.answer(op) for op in submission.ops]
                    for op in submission.ops:
                        if isinstance(op, PutOp):
                            present = await reader.record(op.namespace, op.key)
                            writes[op.namespace, op.key] = _Write(submission, op, facts[id(op)], present)
            await self._write(memory, list(writes.values()))
        await self._renew(memory, [record for place, record in reader.read.items() if place not in writes])
        for submission in submissions:
            submission.done = True

    async def _write(self, memory: Memory, writes: Collection[_Write]) -> None:
        deleted = [write for write in writes if write.fact is None and write.present is not None]
        async with anyio.create_task_group() as tasks:
            for write in writes:
                if write.fact is not None:
                    tasks.start_soon(self._put, memory, write)
            if deleted:
                tasks.start_soon(self._delete, memory, deleted)

    async def _put(self, memory: Memory, write: _Write) -> None:
        op, present = write.op, write.present
        assert write.fact is not None
        with write.submission.catching():
            created = write.fact.timestamp.isoformat() if present is None else present.details.metadata["created_at"]
            metadata = {"created_at": created, "ttl": op.ttl, "indexed": op.index is not False}
            ttl = None if op.ttl is None else _minutes(op.ttl)
            if present is None:
                details = FactDetails(source=_SOURCE, origin=Origin.ASSISTANT, metadata=metadata)
            elif ttl is None and present.timestamp < write.fact.timestamp:
                details = attrs.evolve(
                    present.details,
                    metadata=metadata,
                    labels={},
                    evidence=(),
                    flags=(),
                    expires_at=None,
                    revision_expires_at=None,
                )
            else:
                # An update: the replaced value must not come back when the new one expires.
                lasting: dict[str, Any] = {"expires_at": None} if ttl is None else {"ttl": ttl}
                await memory.update(
                    present.id, value=write.fact.value, metadata=metadata, merge=MetadataMerge.OVERWRITE, **lasting
                )
                return
            await memory.save(
                write.fact,
                subject=self._layout.subject,
                scope=self._layout.scope(op.namespace),
                details=details,
                ttl=ttl,
            )

    async def _delete(self, memory: Memory, writes: Sequence[_Write]) -> None:
        remove = memory.forget if self._erase else memory.retract
        ids = [write.present.id for write in writes if write.present is not None]
        try:
            try:
                await remove(*ids)
            except RecordNotFoundError:  # another process deleted one of them, so that none was removed
                for id in ids:
                    with contextlib.suppress(RecordNotFoundError):
                        await remove(id)
        except Exception as error:
            for write in writes:
                write.submission.error = error

    async def _renew(self, memory: Memory, records: Collection[FactRecord[Any]]) -> None:
        """Restart the times to live of records that were read."""
        for record in records:
            minutes, end = record.details.metadata["ttl"], record.details.expires_at
            if minutes is None or end is None:
                continue
            ttl = _minutes(minutes)
            if end - self._clock() > ttl * (1 - _REFRESH_SHARE):
                continue
            async with self._writing:
                with contextlib.suppress(RecordNotFoundError):  # deleted or expired since it was read
                    await memory.update(record.id, ttl=ttl)

    def _fact(self, op: PutOp) -> SingleFact[dict[str, Any]] | None:
        """Return the fact of an item; None for a deletion."""
        self._layout.scope(op.namespace)
        if isinstance(op.index, list) and op.index != _WHOLE:
            raise CapabilityError(
                "single fields of an item cannot be searched: leave index out, so that the whole item is, or give "
                "index=False"
            )
        concept = _concept(op.namespace, op.key)
        if op.value is None:
            return None
        try:
            return SingleFact(concept, _json(op.value), timestamp=self._now())
        except RecursionError:
            raise InvalidDataError("the value is nested too deeply: store a flatter one") from None

    def _now(self) -> dt.datetime:
        """Return the current time, later than any before, so that a value put again is a new statement."""
        self._last = max(self._clock(), self._last + dt.timedelta(microseconds=1))
        return self._last


def _keyword(key: str) -> str:
    return f"{_PREFIX}{key}"


def _key(record: FactRecord[Any]) -> str:
    return record.concept.keyword.removeprefix(_PREFIX)


def _concept(namespace: _Namespace, key: str) -> SingleConcept[dict[str, Any]]:
    """Return the concept of an item; searches find its description: all labels that are not ids."""
    called = " ".join(label for label in (*namespace, key) if not _is_id(label))
    return Concept.single(_keyword(key), called, dict[str, Any])


def _is_id(label: str) -> bool:
    try:
        uuid.UUID(label)
    except ValueError:
        return False
    return True


async def _swept(memory: Memory) -> int:
    receipt = await memory.admin.expire()
    return receipt.expired


def _minutes(ttl: float) -> dt.timedelta:
    return dt.timedelta(minutes=ttl)


def _json(value: Any) -> Any:
    """Return the value as JSON would read it back: tuples become lists."""
    match value:
        case Mapping():
            return {name: _json(item) for name, item in value.items()}
        case list() | tuple():
            return [_json(item) for item in value]
        case _:
            return value


def _holds(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_passes(_at(value, name), condition) for name, condition in wanted.items())


def _at(value: Any, name: str) -> Any:
    """Return the value of a key, or of a path of keys with dots between them; None if there is none."""
    if not isinstance(value, Mapping):
        return None
    if name in value:
        return value[name]
    key, dot, rest = name.partition(".")
    return _at(value.get(key), rest) if dot else None


def _passes(found: Any, wanted: Any) -> bool:
    match wanted:
        case Mapping() if any(name.startswith("$") for name in wanted):
            return all(_compares(found, name, operand) for name, operand in wanted.items())
        case Mapping():
            return isinstance(found, Mapping) and _holds(found, wanted)
        case list() | tuple():
            return isinstance(found, list) and len(found) == len(wanted) and all(map(_passes, found, wanted))
        case _:
            return bool(found == wanted)


_EQUAL: Final = {"$eq": operator.eq, "$ne": operator.ne}
_ORDERED: Final = {"$gt": operator.gt, "$gte": operator.ge, "$lt": operator.lt, "$lte": operator.le}


def _compares(found: Any, name: str, operand: Any) -> bool:
    """Compare as numbers if both are numeric, else as texts if both are texts; anything else is False."""
    if name in _EQUAL:
        return bool(_EQUAL[name](found, operand))
    if name not in _ORDERED:
        raise InvalidDataError(f"a filter takes {', '.join((*_EQUAL, *_ORDERED))}; not {name}")
    try:
        return bool(_ORDERED[name](float(found), float(operand)))
    except (TypeError, ValueError):
        return isinstance(found, str) and isinstance(operand, str) and bool(_ORDERED[name](found, operand))


def _matches(namespace: _Namespace, condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
