"""What is known behind the walls of the newcomers, as a planner needs it."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence

import attrs

from factmem.consolidation.candidates import Newcomer, Vector, Walls, walls_of
from factmem.fold import Current, record_key, said_order, states_of
from factmem.records import Assertion, AssertionState, LogEntry, Recorded, StateChange

__all__ = ["Standing", "Survey"]


@attrs.frozen(kw_only=True, eq=False)
class Standing:
    """A record that is current, without the words in it that wait for a model.

    Attributes:
        current: the record.
        vector: its embedding, or None.
        unread: it is words that a model failed to read: no newcomer is compared with them.
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
    """What is known behind some walls.

    Attributes:
        standing: the records that are current, by walls.
        states: the state of every assertion.
        heard: the fingerprints of the newcomers that were recorded before, in whatever state they are now.
        words: words that were handed over and have the same fingerprint as a newcomer found in them.
        left_out: ids of the assertions that were looked away from.
    """

    standing: Mapping[Walls, Sequence[Standing]]
    states: Mapping[str, AssertionState]
    heard: frozenset[bytes]
    words: Mapping[bytes, Recorded]
    left_out: Collection[str]
    _counting: Mapping[tuple[object, ...], Sequence[Recorded]] = attrs.field(alias="counting", repr=False)
    _indexes: dict[tuple[object, ...], _Index] = attrs.field(factory=dict, init=False, repr=False)
    _saying: Mapping[tuple[object, ...], Standing] = attrs.field(alias="saying", repr=False)

    @classmethod
    def of(
        cls,
        newcomers: Sequence[Newcomer],
        known: Iterable[tuple[Current, Vector]],
        log: Sequence[LogEntry],
        leave_out: Collection[str],
    ) -> Survey:
        """Survey a store as its viewer sees it.

        Args:
            newcomers: whose walls to look behind; nothing else is taken in.
            known: what is current, with embeddings.
            log: the same store's log.
            leave_out: ids of assertions to look away from: the words that the newcomers were found in.
        """
        walls = {walls_of(newcomer.assertion) for newcomer in newcomers}
        states = states_of(log)
        here = [entry for entry in log if isinstance(entry, Recorded) and walls_of(entry.assertion) in walls]
        waiting = {id for id, state in states.items() if state is AssertionState.PENDING}.union(leave_out)
        standing: dict[Walls, list[Standing]] = defaultdict(list)
        for current, vector in known:
            behind = walls_of(current.recorded.assertion)
            if behind in walls and (record := _standing(current, vector, waiting, states)) is not None:
                standing[behind].append(record)
        counting: dict[tuple[object, ...], list[Recorded]] = defaultdict(list)
        for recorded in here:
            if recorded.id not in waiting and _counts(recorded, states):
                counting[recorded.assertion.track].append(recorded)
        heard, words = _heard(newcomers, here, states, log, leave_out)
        saying: dict[tuple[object, ...], Standing] = {}
        for record in itertools.chain.from_iterable(standing.values()):
            saying.setdefault(_what(record.said), record)
        return cls(
            standing=standing,
            states=states,
            heard=heard,
            words=words,
            left_out=leave_out,
            counting=counting,
            saying=saying,
        )

    def equal_to(self, newcomer: Newcomer) -> Standing | None:
        """Return the record that says exactly the same behind the same walls, if there is one."""
        return self._saying.get(_what(newcomer.assertion))

    def assertions_behind(self, record: Standing) -> list[Recorded]:
        """Return all that counts for a record, so that nothing of it comes back when all of these are retracted.

        That is also what it said before, and a second record that says the same.
        """
        track = record.said.track
        if track not in self._indexes:
            self._indexes[track] = _Index.of(self._counting.get(track, ()))
        of_record = {recorded.id: recorded for recorded in self._indexes[track].of_record(record)}
        return list((of_record | {recorded.id: recorded for recorded in record.current.said}).values())


@attrs.frozen(eq=False)
class _Index:
    """What counts in one track, by record and by what the records say now."""

    records: Mapping[object, Sequence[Recorded]]
    saying: Mapping[bytes, Sequence[object]]

    @classmethod
    def of(cls, track: Sequence[Recorded]) -> _Index:
        records: dict[object, list[Recorded]] = defaultdict(list)
        for recorded in sorted(track, key=said_order):
            records[record_key(recorded)[-1]].append(recorded)
        saying: dict[bytes, list[object]] = defaultdict(list)
        for id, said in records.items():
            saying[said[-1].assertion.slot].append(id)
        return cls(records, saying)

    def of_record(self, record: Standing) -> list[Recorded]:
        ids = {record.id, *self.saying.get(record.said.slot, ())}
        found = (recorded for id in ids for recorded in self.records.get(id, ()))
        return sorted(found, key=lambda recorded: recorded.seq)


def _what(said: Assertion) -> tuple[object, ...]:
    """What two assertions share that say exactly the same behind the same walls."""
    return (*walls_of(said), said.keyword, said.slot)


def _counts(recorded: Recorded, states: Mapping[str, AssertionState]) -> bool:
    return recorded.id in states and recorded.assertion.counts(states[recorded.id])


def _standing(
    current: Current, vector: Vector, waiting: Collection[str], states: Mapping[str, AssertionState]
) -> Standing | None:
    said = tuple(recorded for recorded in current.said if recorded.id not in waiting)
    if not said:
        return None
    unread = all(states.get(recorded.id) is AssertionState.FAILED for recorded in said)
    return Standing(current=Current(said[-1], said), vector=vector, unread=unread)


def _heard(
    newcomers: Sequence[Newcomer],
    here: Iterable[Recorded],
    states: Mapping[str, AssertionState],
    log: Iterable[LogEntry],
    leave_out: Collection[str],
) -> tuple[frozenset[bytes], Mapping[bytes, Recorded]]:
    """Find the newcomers that were recorded before: as they are, merged into a record, or as a wish that was met.

    Words that were handed over and read since are not what was found in them, even if it looks the same.
    """
    times = {(newcomer.assertion.track, newcomer.assertion.timestamp) for newcomer in newcomers}
    wanted = {newcomer.assertion.fingerprint for newcomer in newcomers}
    heard: set[bytes] = set()
    words: dict[bytes, Recorded] = {}
    for recorded in here:
        said = recorded.assertion
        if (said.track, said.timestamp) not in times:
            continue
        fingerprint = attrs.evolve(said, revises=None, revised=None).fingerprint
        stands = said.errand is None or states.get(recorded.id) is AssertionState.ACTIVE
        if stands and recorded.id not in leave_out:
            heard.add(fingerprint)
        elif fingerprint in wanted:
            words[fingerprint] = recorded
    met = {entry.reason for entry in log if isinstance(entry, StateChange) and entry.reason}
    wishes = {newcomer.assertion.fingerprint for newcomer in newcomers if newcomer.forgets}
    heard.update(wish for wish in wishes if any(wish.hex() in reason for reason in met))
    return frozenset(heard & wanted), words
