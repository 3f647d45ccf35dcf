"""The results of a `Memory`, as plain values that can be compared."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from typing import Any

from factmem.memory.scope_tree import ScopeTree
from factmem.records import FactRecord
from factmem.scopes import MemoryScope
from tests.models.plain_memory import Shown
from tests.models.plain_values import as_json, exact


def json_of(value: Any) -> Any:
    return value.isoformat() if isinstance(value, dt.date) else as_json(value)


def seen(record: FactRecord[Any]) -> Shown:
    return Shown(
        record.id,
        exact(json_of(record.value)),
        record.timestamp,
        record.revision,
        record.recorded_at,
        record.details.owner,
        record.importance,
        tuple(item.message_id for item in record.evidence),
        record.state,
    )


def in_order(records: Any) -> list[Shown]:
    return sorted(records, key=lambda record: (record.revision, record.id))


def below(scope: MemoryScope, top: MemoryScope) -> bool:
    same_branch = (scope.tenant, scope.kind) == (top.tenant, top.kind)
    return same_branch and scope.path[: len(top.path)] == top.path


def counts_in(tree: ScopeTree, path: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], int]]:
    return [(path, tree.records), *(pair for child in tree.children for pair in counts_in(child, (*path, child.name)))]


def sums_of(counts: Counter[tuple[str, ...]]) -> dict[tuple[str, ...], int]:
    sums: dict[tuple[str, ...], int] = {(): 0}
    for segments, count in counts.items():
        for depth in range(len(segments) + 1):
            sums[segments[:depth]] = sums.get(segments[:depth], 0) + count
    return sums
