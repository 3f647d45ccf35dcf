"""The current state is a pure fold over a log, independent of the order of arrival."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from factmem import Evidence, FactDetails, MemoryScope, MemorySubject, Origin
from factmem.facts import Concept, FactType
from factmem.fold import Moment, fold, revisions, states_of
from factmem.providers import SteadyClock, TrackIndex
from factmem.records import Assertion, AssertionState, LogEntry, Place, Recorded, StateChange, Tombstone, assertions_of
from factmem.testing import FakeClock, strategies

CITY = Concept.single("city", "d")
TAGS = Concept.multiple("tags", "d")
HERE = Place(MemorySubject("user"), MemoryScope.agent("a"))


def at(minute: int) -> dt.datetime:
    return dt.datetime(2024, 1, 1, tzinfo=dt.UTC) + dt.timedelta(minutes=minute)


TRUSTED = (Origin.USER, Origin.ASSISTANT)
LATE = Moment(now=at(10_000))
OF_ASSISTANT = FactDetails(origin=Origin.ASSISTANT)


@attrs.frozen
class Say:
    """Assert or remove a value, recorded one minute after the previous step."""

    value: str
    minute: int
    concept: Concept[Any, Any] = CITY
    removed: bool = False
    details: FactDetails = attrs.field(factory=FactDetails)


@attrs.frozen
class Turn:
    """Change the state of, or erase, the assertion recorded a number of steps before the last."""

    back: int
    state: AssertionState | None


def log_of(steps: Iterable[Say | Turn]) -> list[LogEntry]:
    """Record the steps as a store does, one minute apart."""
    index, log, recorded = TrackIndex(), list[LogEntry](), list[Recorded]()
    for seq, step in enumerate(steps, start=1):
        match step:
            case Say():
                fact = step.concept.fact([step.value], timestamp=at(step.minute))
                (assertion,) = assertions_of(fact, HERE, step.details, removed=step.removed)
                if index.known(assertion) is None:
                    recorded.append(index.record(assertion, seq, SteadyClock(FakeClock(at(seq)))))
                    log.append(recorded[-1])
            case Turn(state=None) if recorded:
                gone = recorded.pop(-1 - step.back % len(recorded))
                log = [entry for entry in log if _id(entry) != gone.id]
                log.append(Tombstone(assertion_id=gone.id, seq=seq))
            case Turn(state=AssertionState() as state) if recorded:
                changed = recorded[-1 - step.back % len(recorded)]
                log.append(StateChange(assertion_id=changed.id, state=state, seq=seq, recorded_at=at(seq)))
            case _:
                pass
    return log


def _id(entry: LogEntry) -> str:
    return entry.id if isinstance(entry, Recorded) else entry.assertion_id


def values(log: Iterable[LogEntry], moment: Moment = LATE) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for current in fold(log, moment):
        found.setdefault(current.recorded.assertion.keyword, []).append(current.recorded.assertion.data)
    return found


def naive(log: Iterable[LogEntry], moment: Moment) -> dict[str, list[Any]]:
    """Compute the current values by the literal definition, over one place and one owner."""
    known = [
        entry
        for entry in log
        if isinstance(entry, Tombstone) or moment.known_at is None or entry.recorded_at <= moment.known_at
    ]
    counting = []
    for entry in known:
        if isinstance(entry, Recorded) and entry.assertion.timestamp <= (moment.as_of or entry.assertion.timestamp):
            changes = [
                change for change in known if isinstance(change, StateChange) and change.assertion_id == entry.id
            ]
            newest = max(changes, key=lambda change: change.seq, default=None)
            state = newest.state if newest else entry.assertion.state
            waits = state in (AssertionState.PENDING, AssertionState.FAILED)
            if state is AssertionState.ACTIVE or (waits and entry.assertion.details.origin in TRUSTED):
                counting.append(entry)
    counting.sort(key=lambda entry: (entry.assertion.timestamp, entry.seq))
    found: dict[str, list[tuple[Any, ...]]] = {}
    for keyword in {entry.assertion.keyword for entry in counting}:
        track = [entry.assertion for entry in counting if entry.assertion.keyword == keyword]
        single = track[0].fact_type is FactType.SINGLE
        for value in [_deciding(track).data] if single else dict.fromkeys(said.data for said in track):
            of_value = [said for said in track if said.data == value]
            if not _deciding(of_value).removed:
                first = next(place for place, said in enumerate(track) if said.data == value and not said.removed)
                found.setdefault(keyword, []).append((first, value))
    return {keyword: [value for _, value in sorted(pairs)] for keyword, pairs in found.items()}


def _deciding(said: list[Assertion]) -> Assertion:
    """Return the newest of the most trusted assertions; an untrusted one counts only after it was accepted."""
    of_assistant = [item for item in said if item.details.origin is Origin.ASSISTANT]
    return ([item for item in said if item not in of_assistant] or of_assistant)[-1]


says = st.builds(
    Say,
    st.sampled_from("abc"),
    st.integers(0, 4),
    st.sampled_from([CITY, TAGS]),
    st.booleans(),
    st.sampled_from([Origin.USER, Origin.ASSISTANT, Origin.TOOL]).map(lambda origin: FactDetails(origin=origin)),
)
states = st.none() | strategies.states()
turns = st.builds(Turn, st.integers(0, 5), states)
logs = st.lists(st.one_of(says, says, says, turns), max_size=14).map(log_of)
moments = st.builds(
    Moment,
    now=st.just(at(10_000)),
    as_of=st.none() | st.integers(0, 4).map(at),
    known_at=st.none() | st.integers(0, 15).map(at),
)


@given(logs, moments)
def test_the_fold_is_what_its_definition_says(log: list[LogEntry], moment: Moment) -> None:
    assert values(log, moment) == naive(log, moment)


@given(logs, moments)
def test_words_of_a_lower_origin_change_nothing_that_a_higher_one_says(log: list[LogEntry], moment: Moment) -> None:
    """This covers values, removals and updates of the assistant, of any time."""
    lower = {entry.id for entry in log if isinstance(entry, Recorded) and entry.assertion.trust < Origin.USER.rank}
    of_user = [entry for entry in log if _id(entry) not in lower]
    with_all = [item.recorded for item in fold(log, moment) if item.recorded.id not in lower]
    assert with_all == [item.recorded for item in fold(of_user, moment)]


@given(logs, moments, st.randoms(use_true_random=False))
def test_the_order_of_the_log_makes_no_difference(log: list[LogEntry], moment: Moment, chance: Any) -> None:
    shuffled = list(log)
    chance.shuffle(shuffled)
    assert fold(shuffled, moment) == fold(log, moment)
    assert revisions(shuffled, moment) == revisions(log, moment)


@given(logs, moments)
def test_the_revisions_are_everything_said_and_not_erased(log: list[LogEntry], moment: Moment) -> None:
    shown = revisions(log, moment)
    until = moment.as_of or LATE.now
    said = {entry.id for entry in log if isinstance(entry, Recorded) and entry.assertion.timestamp <= until}
    assert {recorded.id for recorded, _ in shown} == said & states_of(log, known_at=moment.known_at).keys()
    order = [(recorded.assertion.timestamp, recorded.seq) for recorded, _ in shown]
    assert order == sorted(order)
    standing = {item.recorded.id for item in fold(log, moment)}
    assert standing <= {recorded.id for recorded, state in shown if recorded.assertion.counts(state)}


@pytest.mark.parametrize("again", TRUSTED)
def test_equal_assertions_are_evidence_of_one_record_and_what_both_say_is_the_users(again: Origin) -> None:
    quotes = [Evidence(quote=f"quote {number}", message_id=f"{number}") for number in range(3)]
    steps = [
        Say("Oslo", 1, details=FactDetails(evidence=quotes[:1])),
        Say("Rome", 2, details=FactDetails(evidence=quotes[1:2], origin=again)),
        Say("Oslo", 3, details=FactDetails(evidence=quotes[2:], origin=again)),
    ]
    (current,) = fold(log_of(steps), LATE)
    assert (current.details.origin, current.details.evidence) == (Origin.USER, (quotes[0], quotes[2]))


def test_the_assistants_value_stands_beside_the_users_in_the_history() -> None:
    log = log_of([Say("Oslo", 1), Say("EVILTOWN", 2, details=OF_ASSISTANT)])
    assert values(log) == {"city": ["Oslo"]}
    beside = revisions(log, LATE)[-1]
    assert (beside[0].assertion.data, beside[0].assertion.details.origin) == ("EVILTOWN", Origin.ASSISTANT)
    assert beside[1] is AssertionState.SUPERSEDED


def test_the_assistants_value_stands_once_the_users_has_expired() -> None:
    steps = [Say("Oslo", 1, details=FactDetails(expires_at=at(10))), Say("Rome", 2, details=OF_ASSISTANT)]
    assert values(log_of(steps), Moment(now=at(9))) == {"city": ["Oslo"]}
    assert values(log_of(steps), Moment(now=at(10))) == {"city": ["Rome"]}


@pytest.mark.parametrize("origin", [Origin.TOOL, Origin.DOCUMENT, Origin.UNKNOWN])
def test_what_was_believed_unseen_is_of_the_lowest_trust(origin: Origin) -> None:
    """A policy treated it as a fact at once, without a review."""
    (said,) = assertions_of(CITY.fact(["Rome"], timestamp=at(9)), HERE, FactDetails(origin=origin))
    believed = TrackIndex().record(attrs.evolve(said, state=AssertionState.ACTIVE), 99, SteadyClock(FakeClock()))
    for other in (FactDetails(), OF_ASSISTANT):
        assert values([*log_of([Say("Oslo", 1, details=other)]), believed]) == {"city": ["Oslo"]}
    assert values([believed]) == {"city": ["Rome"]}


def test_an_equal_value_of_the_assistants_hides_no_record_of_the_user() -> None:
    """An update by id can make two records of one value: the user's stays, even if it is newer."""
    log = log_of([Say("red", 1, TAGS, details=OF_ASSISTANT), Say("blue", 2, TAGS)])
    of_assistant, of_user = (entry for entry in log if isinstance(entry, Recorded))
    update = attrs.evolve(of_assistant.assertion, data="blue", timestamp=at(3), revises=of_assistant.record_id)
    renamed = attrs.evolve(of_assistant, assertion=update, id="update", seq=9)
    for entries in ([*log, renamed], [attrs.evolve(renamed, assertion=attrs.evolve(update, timestamp=at(1))), *log]):
        assert [item.recorded.id for item in fold(entries, LATE) if item.recorded.assertion.data == "blue"] == [
            of_user.id
        ]
