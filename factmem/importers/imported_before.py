"""Rows that were imported before: what has changed or ended in the source since, and the records that follow it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

import attrs

from factmem.fold import by_record, deciding_order, states_of
from factmem.importers.contract import SOURCE_ID, Entry
from factmem.memory.facade import Memory, entries_of, withdraw
from factmem.recall import RecallFilter
from factmem.recall.conditions import MetadataCondition, MetadataOperator
from factmem.recall.index.selection import LogPart
from factmem.records import AssertionState, Recorded, StateChange

__all__ = ["Rows", "following", "rows_before"]

Rows: TypeAlias = Mapping[str, set[str]]
"""The ids of the records that earlier imports made, by the ids of their rows in the source."""

_OF_ROWS: Final = RecallFilter(where=[[MetadataCondition(SOURCE_ID, "", operator=MetadataOperator.GREATER_THAN)]])
_GONE: Final = "it counts no more where it was imported from"
_NEEDS_TRUST: Final = "they count no more there, which nobody is known to have said (--trust retracts them)"
_CHANGED_HERE: Final = "their records were changed here after an earlier import"


async def rows_before(memory: Memory, owner: str | None) -> Rows:
    """Return the rows of earlier imports whose records are of one owner."""
    rows: dict[str, set[str]] = {}
    for entry in await entries_of(memory, LogPart(kept=_OF_ROWS)):
        if isinstance(entry, Recorded) and _imported(entry) and entry.assertion.details.owner == owner:
            rows.setdefault(_source_id(entry), set()).add(entry.record_id)
    return rows


def _source_id(entry: Recorded) -> str:
    return str(entry.assertion.details.metadata.get(SOURCE_ID))


def _imported(entry: Recorded) -> bool:
    return (entry.assertion.actor or "").partition(":")[0] == "import"


async def following(
    memory: Memory,
    histories: list[list[Entry]],
    rows: Rows,
    *,
    trust: bool,
    counts: Counter[str],
    skipped: Counter[str],
) -> tuple[list[list[Entry]], dict[str, str]]:
    """Return histories as what follows their records of earlier imports, and those by the ids in the source.

    Records whose rows count no more, or have moved, are retracted, but not believed ones by rows of a lower origin that
    nobody trusts.

    Args:
        memory: The memory, as the owner of all these records sees it.
        histories: The entries of each record, oldest first.
        rows: The rows of earlier imports.
        trust: See `factmem.importers.move_in`.
        counts: Takes the numbers of records that are ``updated`` and ``retracted``.
        skipped: Takes the numbers of rows that are left out, by reason.
    """
    ids = Counter(_source_id(history[0].recorded) for history in histories)
    candidates = {id: rows[id] for id, times in ids.items() if times == 1 and id in rows}
    if not candidates:
        return histories, {}
    logs = by_record(await entries_of(memory, LogPart(record_ids=set().union(*candidates.values()))))
    kept: list[list[Entry]] = []
    records: dict[str, str] = {}
    gone: list[Recorded] = []
    for history in histories:
        pasts = [_Past.of(logs[id]) for id in candidates.get(_source_id(history[0].recorded), ()) if id in logs]
        pasts = [past for past in pasts if not past.gone] or pasts
        if len(pasts) != 1:
            kept.append(history)
            continue
        (past,), last = pasts, history[-1].recorded.assertion
        ends = bool(past.standing) and last.state is AssertionState.RETRACTED
        moved = bool(past.standing) and all(_where(entry) != _where(history[-1].recorded) for entry in past.said)
        new = sum(_as_said(entry.recorded) not in past.known for entry in history)
        ending = (ends or moved) and (trust or last.details.origin.rank >= past.trust)
        if ends and not ending and not past.changed:
            skipped[_NEEDS_TRUST] += 1
            continue
        if past.changed:
            skipped[_CHANGED_HERE] += bool(new or ends)
            history = [entry for entry in history if _as_said(entry.recorded) in past.known]
        elif new or ends:
            counts["retracted" if ends else "updated"] += 1
            gone += past.standing if ending else ()
        if past.changed or not moved:
            history = [past.followed_by(entry) for entry in history]
            records |= {entry.recorded.record_id: past.said[0].record_id for entry in history}
        kept += [history] if history else []
    if gone:
        await withdraw(memory, gone, _GONE)
    skipped += Counter()  # without zeros
    return kept, records


def _where(entry: Recorded) -> tuple[object, ...]:
    """Return the track of an entry, whose tenant a source does not know."""
    return entry.assertion.track[1:]


def _as_said(entry: Recorded) -> tuple[object, ...]:
    return (*_where(entry), entry.assertion.slot or repr(entry.assertion.data), entry.assertion.timestamp)


@attrs.frozen(kw_only=True)
class _Past:
    """A record of earlier imports.

    Attributes:
        said: Its assertions.
        standing: Those that are not retracted.
        trust: The highest `Assertion.trust` of those that count.
        known: The imported ones, as the source tells them, with what they revise.
        gone: Whether an import retracted it.
        changed: Whether its value was changed or retracted here.
    """

    said: Sequence[Recorded]
    standing: Sequence[Recorded]
    trust: int
    known: Mapping[tuple[object, ...], str | None]
    gone: bool
    changed: bool

    @classmethod
    def of(cls, log: Sequence[Recorded | StateChange]) -> _Past:
        said = [entry for entry in log if isinstance(entry, Recorded)]
        states = states_of(log)
        reasons = {entry.assertion_id: entry.reason for entry in log if isinstance(entry, StateChange)}
        standing = [entry for entry in said if states[entry.id] is not AssertionState.RETRACTED]
        ended = {reasons[entry.id] for entry in said if entry not in standing and entry.id in reasons}
        return cls(
            said=said,
            standing=standing,
            trust=max(
                (entry.assertion.trust for entry in said if states[entry.id] is AssertionState.ACTIVE), default=0
            ),
            known={_as_said(entry): entry.assertion.revises for entry in said if _imported(entry)},
            gone=not standing and _GONE in ended,
            changed=bool(ended - {_GONE}) or (bool(standing) and not _imported(max(standing, key=deciding_order))),
        )

    def followed_by(self, entry: Entry) -> Entry:
        """Return an entry as it was imported before, or else as a revision of this record."""
        recorded = entry.recorded
        revises = self.known.get(_as_said(recorded), recorded.record_id) and recorded.record_id
        said = attrs.evolve(recorded.assertion, revises=revises)
        return attrs.evolve(entry, recorded=attrs.evolve(recorded, assertion=said))
