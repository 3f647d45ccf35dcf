"""The known records in the partitions of some candidates, indexed for planning."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Final

import attrs

from factmem.consolidation.candidates import CandidateAssertion, Partition, Vector, partition_of
from factmem.fold import Current, deciding_order, record_key, states_of
from factmem.grouping import grouped
from factmem.patterns import lazy_pattern
from factmem.records import Assertion, AssertionState, LogEntry, Recorded, StateChange

ASKED_TO_BE_FORGOTTEN: Final = "asked to be forgotten"
"""Start of the reason of a retraction that a user's wish caused."""

_MET: Final = lazy_pattern(rf"{ASKED_TO_BE_FORGOTTEN} \(([0-9a-f]+)\)")


def reason_of_wish(wish: Assertion, reason: str | None) -> str:
    """Return the reason of a retraction that a wish to forget caused; see `wish_met`."""
    met = f"{ASKED_TO_BE_FORGOTTEN} ({wish.fingerprint.hex()})"
    return f"{met}: {reason}" if reason else met


def wish_met(reason: str | None) -> bytes | None:
    """Return the fingerprint of the wish that caused a retraction, by its reason, so that a wish is met once."""
    found = _MET.search(reason or "")
    return bytes.fromhex(found[1]) if found else None


@attrs.frozen(kw_only=True, eq=False)
class CurrentRecord:
    """A current record, without its pending words.

    Attributes:
        current: the record.
        vector: its embedding, or None.
        unread: it consists of words that a model failed to read: no candidate is compared with them.
    """

    current: Current
    vector: Vector = attrs.field(default=None, repr=False)
    unread: bool = False

    @property
    def said(self) -> Assertion:
        """The assertion that it shows."""
        return self.current.recorded.assertion

    @property
    def id(self) -> str:
        """The record's id."""
        return self.current.recorded.record_id


@attrs.frozen(kw_only=True, eq=False)
class Survey:
    """The known records of some partitions.

    Attributes:
        records: the current records, by partition.
        states: the state of every assertion.
        heard: fingerprints of the candidates that were recorded before, in whatever state they are now.
        words: submitted words with the same fingerprint as a candidate found in them.
        left_out: ids of the ignored assertions.
    """

    records: Mapping[Partition, Sequence[CurrentRecord]]
    states: Mapping[str, AssertionState]
    heard: frozenset[bytes]
    words: Mapping[bytes, Recorded]
    left_out: Collection[str]
    _counting: Mapping[tuple[object, ...], Sequence[Recorded]] = attrs.field(alias="counting", repr=False)
    _indexes: dict[tuple[object, ...], _Index] = attrs.field(factory=dict, init=False, repr=False)
    _saying: Mapping[tuple[object, ...], CurrentRecord] = attrs.field(alias="saying", repr=False)

    @classmethod
    def of(
        cls,
        candidates: Sequence[CandidateAssertion],
        known: Iterable[tuple[Current, Vector]],
        log: Sequence[LogEntry],
        leave_out: Collection[str],
    ) -> Survey:
        """Survey a store as its viewer sees it.

        Args:
            candidates: the candidates, whose partitions are surveyed.
            known: the current records, with embeddings.
            log: the log of the same store.
            leave_out: ids of assertions to ignore: the words that the candidates were found in.
        """
        partitions = {partition_of(candidate.assertion) for candidate in candidates}
        states = states_of(log)
        here = [entry for entry in log if isinstance(entry, Recorded) and partition_of(entry.assertion) in partitions]
        waiting = {id for id, state in states.items() if state is AssertionState.PENDING}.union(leave_out)
        standing = (
            _current_record(current, vector, waiting, states)
            for current, vector in known
            if partition_of(current.recorded.assertion) in partitions
        )
        records = grouped(filter(None, standing), lambda record: partition_of(record.said))
        stored = (recorded for recorded in here if recorded.id in states and recorded.id not in waiting)
        counting = (recorded for recorded in stored if recorded.assertion.counts(states[recorded.id]))
        heard, words = _heard(candidates, here, states, log, leave_out)
        saying: dict[tuple[object, ...], CurrentRecord] = {}
        for record in itertools.chain.from_iterable(records.values()):
            saying.setdefault(_what(record.said), record)
        return cls(
            records=records,
            states=states,
            heard=heard,
            words=words,
            left_out=leave_out,
            counting=grouped(counting, lambda recorded: recorded.assertion.track),
            saying=saying,
        )

    def equal_to(self, candidate: CandidateAssertion) -> CurrentRecord | None:
        """Return the record of the same partition that says exactly the same, if there is one."""
        return self._saying.get(_what(candidate.assertion))

    def assertions_of(self, record: CurrentRecord) -> list[Recorded]:
        """Return all assertions that count for a record, so that nothing of it returns when they are retracted.

        These include its earlier values, and a second record that says the same.
        """
        track = record.said.track
        if track not in self._indexes:
            self._indexes[track] = _Index.of(self._counting.get(track, ()))
        of_record = {recorded.id: recorded for recorded in self._indexes[track].of_record(record)}
        return list((of_record | {recorded.id: recorded for recorded in record.current.said}).values())


@attrs.frozen(eq=False)
class _Index:
    """The assertions of one track that count, by record and by present value."""

    records: Mapping[object, Sequence[Recorded]]
    saying: Mapping[bytes, Sequence[object]]

    @classmethod
    def of(cls, track: Sequence[Recorded]) -> _Index:
        records = grouped(sorted(track, key=deciding_order), lambda recorded: record_key(recorded)[-1])
        return cls(records, grouped(records, lambda record: records[record][-1].assertion.slot))

    def of_record(self, record: CurrentRecord) -> list[Recorded]:
        ids = {record.id, *self.saying.get(record.said.slot, ())}
        found = (recorded for id in ids for recorded in self.records.get(id, ()))
        return sorted(found, key=lambda recorded: recorded.seq)


def _what(said: Assertion) -> tuple[object, ...]:
    """Return the key shared by assertions of one partition that say exactly the same."""
    return (*partition_of(said), said.keyword, said.slot)


def _current_record(
    current: Current, vector: Vector, waiting: Collection[str], states: Mapping[str, AssertionState]
) -> CurrentRecord | None:
    said = tuple(recorded for recorded in current.said if recorded.id not in waiting)
    if not said:
        return None
    unread = all(states.get(recorded.id) is AssertionState.FAILED for recorded in said)
    return CurrentRecord(current=Current(max(said, key=deciding_order), said), vector=vector, unread=unread)


def _heard(
    candidates: Sequence[CandidateAssertion],
    here: Iterable[Recorded],
    states: Mapping[str, AssertionState],
    log: Iterable[LogEntry],
    leave_out: Collection[str],
) -> tuple[frozenset[bytes], Mapping[bytes, Recorded]]:
    """Find the candidates that were recorded before: as they are, merged into a record, or as a wish that was met.

    Submitted words that were read since are distinct from what was found in them, even if both look the same.
    """
    times = {(candidate.assertion.track, candidate.assertion.timestamp) for candidate in candidates}
    wanted = {candidate.assertion.fingerprint for candidate in candidates}
    heard: set[bytes] = set()
    words: dict[bytes, Recorded] = {}
    for recorded in here:
        said = recorded.assertion
        if (said.track, said.timestamp) not in times:
            continue
        fingerprint = attrs.evolve(said, revises=None, revised=None).fingerprint
        stands = said.job is None or states.get(recorded.id) is AssertionState.ACTIVE
        if stands and recorded.id not in leave_out:
            heard.add(fingerprint)
        elif fingerprint in wanted:
            words[fingerprint] = recorded
    wishes = {candidate.assertion.fingerprint for candidate in candidates if candidate.removal}
    heard |= wishes.intersection(wish_met(entry.reason) for entry in log if isinstance(entry, StateChange))
    return frozenset(heard & wanted), words
