"""A store of LangGraph over a memory; see `factmem.integrations.langgraph`."""

from __future__ import annotations

import datetime as dt
import operator
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Final, Self

import anyio

from factmem.abc import Clock, system_clock
from factmem.agent import AgentMemory, AgentMemoryConfig, Store
from factmem.errors import InvalidDataError, MissingPackageError, RecordNotFoundError
from factmem.facts import Concept, SingleConcept, SingleFact
from factmem.memory import Filters, FlaggedPolicy, Memory
from factmem.memory.filters import check_min_score
from factmem.recall import Boost, MetadataCondition, RecallSettings
from factmem.records import FactDetails, FactRecord, MetadataMerge, Origin
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
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
except ModuleNotFoundError as _missing:
    raise MissingPackageError("langgraph", extra="langgraph") from _missing

__all__ = ["FactMemStore"]

_SOURCE: Final = "langgraph"
_PREFIX: Final = "item:"
_SIMILARITY: Final = RecallSettings(composite=Boost(recency_weight=0.0, importance_weight=0.0))
_INDEXED: Final = ((MetadataCondition("indexed", True),),)
_FRESH: Final = 0.05
"""A time to live is started anew by a read only if more than this share of it is over, to spare a revision."""


class FactMemStore(BaseStore):
    """A LangGraph store whose items are facts, with their history, recall and walls.

    - A namespace is a scope below ``root``: ``("memories", "alice")`` is ``/langgraph/memories/alice``, and a
      prefix is compared label by label. Labels are names as factmem has them, in any script.
    - A key is a SINGLE concept there, of the keyword ``item:<key>``, and its value the fact: a dict of JSON. An
      item that is put again keeps what it was in `Memory.history`; one that is deleted is retracted.
    - ``search`` with a query is factmem's exact recall over whole items: ``index=False`` leaves an item to the
      end, without a score; a list of fields narrows nothing. Filters apply before ranking. Without a query,
      what was put last comes first.
    - A value comes back as it was put, whatever it says, or ``put`` raises. What reads like an instruction or hides
      something has flags (`FactDetails.flags`), and no agent is told of it.
    - A time to live is in minutes, and counted from the last read or write, to within a twentieth of itself.
      What has expired is never seen; `Memory.expire` erases its bytes.

    ``batch`` reads before it writes, as LangGraph's own stores do, and writes nothing if a value is not legal. The
    methods without ``a`` wait for a memory that has a thread of its own, which every address and provider gets; an
    open `Memory` has the others only.

    Args:
        store: where facts are kept, see `AgentMemoryConfig.store`; or the memory of an agent.
        root: the scope that namespaces lie below. Under a scope of an agent, such as ``/agent/planner``, the
            agent is told of the items as well, but of none that has flags.
        subject: whom or what items are about.
        ttl: times to live that hold if a call says nothing; nothing is swept by itself.
        settings: the weights of a search with a query; similarity alone by default.
        min_score: leave out of a search with a query what scores less, from 0 to 1, and items without a score; see
            `RecallMatch.score`. With 0 each search returns as many items as it may.
        erase: whether deleting erases an item with all its history, instead of retracting it.
        clock: the present.

    Raises:
        InvalidDataError: the least score is out of range.
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
        self._root = MemoryScope.parse(root) if isinstance(root, str) else root
        self._subject = subject
        self._settings = settings
        check_min_score(min_score)
        self._min_score = min_score
        self._erase = erase
        self._clock = clock
        self._writing = anyio.Lock()
        self._last = dt.datetime.min.replace(tzinfo=dt.UTC)
        self.ttl_config = ttl

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several things at once; see `BaseStore.batch`.

        Raises:
            InvalidNameError: a label or a key is not legal.
            InvalidDataError: a value cannot be stored, or a filter has an unknown operator.
            CapabilityError: the store is an open `Memory`.
        """
        return self._memory.for_run().held.use_blocking(partial(self._done, ops=list(ops)))

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do several things at once; see `batch`."""
        return await self._memory.for_run().held.use(partial(self._done, ops=list(ops)))

    def close(self) -> None:
        """Close the memory, unless it is an agent's."""
        if self._owned:
            self._memory.close()

    async def aclose(self) -> None:
        """Close the memory, unless it is an agent's."""
        if self._owned:
            await self._memory.aclose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.aclose()

    async def _done(self, memory: Memory, ops: Sequence[Op]) -> list[Result]:
        memory = memory.with_flagged(FlaggedPolicy.ANNOTATE)
        results: list[Result] = []
        puts: dict[tuple[tuple[str, ...], str], PutOp] = {}
        for op in ops:
            match op:
                case GetOp():
                    results.append(await self._got(memory, op))
                case SearchOp():
                    results.append(await self._searched(memory, op))
                case ListNamespacesOp():
                    results.append(await self._namespaces(memory, op))
                case PutOp():
                    puts[(op.namespace, op.key)] = op
                    results.append(None)
                case _:
                    raise InvalidDataError(f"a store knows no operation {type(op).__name__}")
        checked = [(op, self._fact(op)) for op in puts.values()]  # before anything is written
        for op, fact in checked:
            async with self._writing:
                await self._put(memory, op, fact)
        return results

    def _fact(self, op: PutOp) -> SingleFact[dict[str, Any]] | None:
        """Return the fact that an item becomes; None for a deletion."""
        self._scope(op.namespace)
        concept = _concept(op.namespace, op.key)
        if op.value is None:
            return None
        try:
            return SingleFact(concept, _json(op.value), timestamp=self._now())
        except RecursionError:
            raise InvalidDataError("the value is nested too deeply: store a flatter one") from None

    async def _got(self, memory: Memory, op: GetOp) -> Item | None:
        record = await self._record(memory, op.namespace, op.key)
        if record is None:
            return None
        if op.refresh_ttl:
            await self._refresh(memory, [record])
        return Item(**self._shown(record))

    async def _put(self, memory: Memory, op: PutOp, fact: SingleFact[dict[str, Any]] | None) -> None:
        present = await self._record(memory, op.namespace, op.key)
        if fact is None:
            if present is not None:
                await (memory.forget(present.id) if self._erase else memory.retract(present.id))
            return
        created = fact.timestamp.isoformat() if present is None else present.details.metadata["created_at"]
        metadata = {"created_at": created, "ttl": op.ttl, "indexed": op.index is not False}
        ttl = None if op.ttl is None else _minutes(op.ttl)
        if present is None:
            details = FactDetails(source=_SOURCE, origin=Origin.ASSISTANT, metadata=metadata)
            await memory.save(fact, subject=self._subject, scope=self._scope(op.namespace), details=details, ttl=ttl)
            return
        # An update, so that what it replaces does not come back when it expires.
        lasting: dict[str, Any] = {"expires_at": None} if ttl is None else {"ttl": ttl}
        await memory.update(present.id, value=fact.value, metadata=metadata, merge=MetadataMerge.OVERWRITE, **lasting)

    async def _searched(self, memory: Memory, op: SearchOp) -> list[SearchItem]:
        within: Filters = {**self._items(op.namespace_prefix)}
        stop = op.offset + op.limit
        ranked: list[tuple[FactRecord[Any], float | None]] = []
        query = (op.query or "").strip()
        if op.filter:
            records = [item for item in await memory.list_records(**within) if _holds(item.value, op.filter)]
            within["record_ids"] = {record.id for record in records}
            if not records:
                return []
        if stop > 0 and query:
            within["where"] = _INDEXED
            found = await memory.recall(query, limit=stop, min_score=self._min_score, settings=self._settings, **within)
            ranked = [(match.record, match.score) for match in found]
            del within["where"]
        if len(ranked) < stop and not (query and self._min_score):
            known = {record.id for record, _ in ranked}
            ranked += [(item, None) for item in await memory.list_records(**within) if item.id not in known]
        page = ranked[op.offset : stop]
        if op.refresh_ttl:
            await self._refresh(memory, [record for record, _ in page])
        return [SearchItem(**self._shown(record), score=score) for record, score in page]

    async def _namespaces(self, memory: Memory, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        found = {self._namespace(record) for record in await memory.list_records(**self._items(()))}
        matching = {name for name in found if all(_matches(name, condition) for condition in op.match_conditions or ())}
        return sorted({name[: op.max_depth] for name in matching})[op.offset : op.offset + op.limit]

    async def _refresh(self, memory: Memory, records: Iterable[FactRecord[Any]]) -> None:
        """Start the times to live anew of what was read."""
        for record in records:
            minutes, end = record.details.metadata["ttl"], record.details.expires_at
            if minutes is None or end is None:
                continue
            ttl = _minutes(minutes)
            if end - self._clock() > ttl * (1 - _FRESH):
                continue
            async with self._writing:
                try:
                    await memory.update(record.id, ttl=ttl)
                except RecordNotFoundError:  # it was deleted, or has expired, since it was read
                    continue

    async def _record(self, memory: Memory, namespace: tuple[str, ...], key: str) -> FactRecord[Any] | None:
        here: Filters = {**self._items(namespace), "exact": True, "concepts": (_keyword(key),)}
        return next(iter(await memory.list_records(**here)), None)

    def _items(self, namespace: tuple[str, ...]) -> Filters:
        return {"scope": self._scope(namespace), "subject": self._subject, "sources": (_SOURCE,)}

    def _scope(self, namespace: tuple[str, ...]) -> MemoryScope:
        scope = self._root
        for label in namespace:
            scope /= label
        return scope

    def _namespace(self, record: FactRecord[Any]) -> tuple[str, ...]:
        return record.scope.path[len(self._root.path) :]

    def _shown(self, record: FactRecord[Any]) -> dict[str, Any]:
        return {
            "namespace": self._namespace(record),
            "key": record.concept.keyword.removeprefix(_PREFIX),
            "value": record.value,
            "created_at": dt.datetime.fromisoformat(record.details.metadata["created_at"]),
            "updated_at": record.timestamp,
        }

    def _now(self) -> dt.datetime:
        """The present, later than ever before: the same value put anew is said anew."""
        self._last = max(self._clock(), self._last + dt.timedelta(microseconds=1))
        return self._last


def _keyword(key: str) -> str:
    return f"{_PREFIX}{key}"


def _concept(namespace: tuple[str, ...], key: str) -> SingleConcept[dict[str, Any]]:
    """The concept of an item; what it is called, ids apart, is found by a search as well."""
    called = " ".join(label for label in (*namespace, key) if not _is_id(label))
    return Concept.single(_keyword(key), called, dict[str, Any])


def _is_id(label: str) -> bool:
    try:
        uuid.UUID(label)
    except ValueError:
        return False
    return True


def _minutes(ttl: float) -> dt.timedelta:
    return dt.timedelta(minutes=ttl)


def _json(value: Any) -> Any:
    """The same as JSON reads it back."""
    match value:
        case Mapping():
            return {name: _json(item) for name, item in value.items()}
        case list() | tuple():
            return [_json(item) for item in value]
        case _:
            return value


def _holds(value: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    return all(_passes(value.get(name), condition) for name, condition in wanted.items())


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


_EQUAL: Final[Mapping[str, Callable[[Any, Any], bool]]] = {"$eq": operator.eq, "$ne": operator.ne}
_ORDERED: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "$gt": operator.gt,
    "$gte": operator.ge,
    "$lt": operator.lt,
    "$lte": operator.le,
}


def _compares(found: Any, name: str, operand: Any) -> bool:
    """Compare as numbers what can be read as numbers, texts as texts, and nothing else."""
    if name in _EQUAL:
        return _EQUAL[name](found, operand)
    if name not in _ORDERED:
        raise InvalidDataError(f"a filter knows {', '.join((*_EQUAL, *_ORDERED))}; not {name}")
    try:
        return _ORDERED[name](float(found), float(operand))
    except (TypeError, ValueError):
        return isinstance(found, str) and isinstance(operand, str) and _ORDERED[name](found, operand)


def _matches(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    path = tuple(condition.path)
    if len(namespace) < len(path):
        return False
    part = namespace[: len(path)] if condition.match_type == "prefix" else namespace[len(namespace) - len(path) :]
    return all(wanted in ("*", label) for label, wanted in zip(part, path, strict=True))
