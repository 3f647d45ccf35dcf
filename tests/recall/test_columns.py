"""Columns are read without a lock while they grow: readers see complete rows only."""

from __future__ import annotations

import datetime as dt
import sys
import threading
import tracemalloc
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from factmem import Concept, FactDetails, MemoryScope, MemorySubject, SingleFact
from factmem.fold import Moment
from factmem.recall import RecallFilter
from factmem.recall.index.columns import Finder, Growing, Numbered, Rows
from factmem.recall.index.corpus import Corpus
from factmem.recall.index.outline_codec import outlines_of
from factmem.recall.index.selection import selected
from factmem.recall.index.source import rows_in_outline
from factmem.recall.index.tenant_log import TenantLog
from factmem.records import Place, Recorded, assertions_of
from factmem.views import Sight

pytestmark = pytest.mark.slow

NOW = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
PRODUCT = MemoryScope.product("p")
OLD, NEW = 150, 500


@pytest.fixture
def often_interrupted() -> Iterator[None]:
    """Make threads switch as often as possible."""
    usual = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(usual)


def note(number: int) -> Recorded:
    """Return a record with a place, a concept and labels of its own."""
    concept = Concept.single(f"note{number}", "A note")
    own = FactDetails(categories=("all", f"c{number}"), topics=("all", f"t{number}"), source=f"s{number}")
    place = Place(MemorySubject.EVERYTHING, PRODUCT / f"s{number}")
    (said,) = assertions_of(SingleFact(concept, f"v{number}", timestamp=NOW), place, details=own)
    key = f"{number + 1:032x}"
    return Recorded(assertion=said, id=key, record_id=key, seq=number + 1, recorded_at=NOW)


@pytest.fixture(scope="module")
def new() -> list[Rows]:
    """Rows that are appended one by one while others read."""
    recorded = map(note, range(OLD, OLD + NEW))
    return [rows_in_outline([item], outlines_of([item.assertion])) for item in recorded]


def corpus_of(count: int) -> Corpus:
    log = TenantLog(None)
    log.take_in(map(note, range(count)))
    log.use_vectors(2, None, None)
    corpus = log.corpus(Moment(now=NOW), present=True)
    _, lacking = log.embedded(corpus, present=True)
    log.take_vectors(dict.fromkeys(lacking, np.array([1, 0], np.float32)))
    return log.embedded(corpus, present=True)[0]


def beside(write: Callable[[], None], reads: list[Callable[[], object]]) -> list[BaseException]:
    """Write while others read repeatedly, and return the readers' errors."""
    done, failures = threading.Event(), list[BaseException]()

    def read(one: Callable[[], object]) -> None:
        try:
            while not done.is_set():
                one()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=read, args=(one,)) for one in reads]
    for thread in threads:
        thread.start()
    try:
        write()
    finally:
        done.set()
        for thread in threads:
            thread.join()
    return failures


@pytest.mark.usefixtures("often_interrupted")
@pytest.mark.parametrize(
    ("wanted", "expected"),
    [
        (RecallFilter(scope=PRODUCT), OLD),
        (RecallFilter(scope=PRODUCT, subject=MemorySubject.EVERYTHING), OLD),
        (RecallFilter(scope=PRODUCT, keywords=["note1", "note2"]), 2),
        (RecallFilter(scope=PRODUCT, without_keywords=["note1", "note2", "unheard_of"]), OLD - 2),
        (
            RecallFilter(
                places=[Place(MemorySubject.EVERYTHING, PRODUCT / "s1").key], subjects=[MemorySubject.EVERYTHING]
            ),
            1,
        ),
        (RecallFilter(categories=["all"], topics=["all"]), OLD),
    ],
)
def test_a_corpus_is_narrowed_while_more_is_taken_in(wanted: RecallFilter, expected: int, new: list[Rows]) -> None:
    corpus = corpus_of(OLD)

    def narrowed() -> None:
        assert len(selected(corpus, Sight(), wanted)) == expected

    def write() -> None:
        for rows in new:
            corpus.columns.add(rows)

    assert not beside(write, [narrowed] * 3)


@pytest.mark.usefixtures("often_interrupted")
def test_what_records_have_is_summed_up_while_more_is_taken_in(new: list[Rows]) -> None:
    corpus = corpus_of(OLD)
    columns, old = corpus.columns, np.arange(OLD)

    def summed_up() -> None:
        assert len(columns.tags_of("categories", columns["labels"][old])) == OLD + 1
        assert [len(columns.counted(name, old)[0]) for name in ("scope", "keyword")] == [OLD, OLD]
        assert len({len(items) for items in columns.all_of_heads().values()}) == 1

    def write() -> None:
        for rows in new:
            corpus.columns.add(rows)

    assert not beside(write, [summed_up] * 2)


@pytest.mark.usefixtures("often_interrupted")
def test_labels_are_found_by_their_tags_while_rows_are_appended(new: list[Rows]) -> None:
    columns = corpus_of(OLD).columns

    def found() -> None:
        assert columns.labels_with("categories", ["all"]).sum() >= OLD

    def write() -> None:
        for rows in new:
            columns.add(rows)

    assert not beside(write, [found] * 4)


@pytest.mark.usefixtures("often_interrupted")
def test_rows_are_found_while_others_sort_more_of_them() -> None:
    keys = np.random.default_rng(0).permutation(np.arange(1, 60_001, dtype=np.uint64))
    finder, known = Finder(), [2000]
    chance = np.random.default_rng(1)

    def found() -> None:
        count = known[0]
        row = int(chance.integers(0, count))
        assert finder.find(keys[:count], keys[row : row + 1]).tolist() == [row]

    def more() -> None:
        for count in range(2000, len(keys), 100):
            known[0] = count
            finder.find(keys[:count], keys[:1])

    assert not beside(more, [found] * 3)


def test_a_row_that_was_sorted_by_others_is_not_found_among_fewer() -> None:
    keys = np.arange(5000, dtype=np.uint64) % 2500
    finder = Finder()

    assert finder.find(keys, keys[7:8]).tolist() == [7, 2507]
    assert finder.find(keys[:2507], keys[7:8]).tolist() == [7]
    assert finder.find(keys[:2508], keys[7:8]).tolist() == [7, 2507]


def test_what_was_read_stays_as_it_was_when_more_is_appended() -> None:
    growing = Growing({"one": np.int64, "two": np.int32})
    growing.append(one=[1, 2], two=[3, 4])
    one, two = growing.together("one", "two")
    for number in range(3000):
        growing.append(one=[number], two=[number])

    assert (one.tolist(), two.tolist()) == ([1, 2], [3, 4])
    assert growing["one"].tolist() == [1, 2, *range(3000)]


def test_the_log_of_a_tenant_that_nobody_asks_takes_little_memory() -> None:
    TenantLog(None)  # what all share
    tracemalloc.start()
    try:
        logs = [TenantLog(str(number)) for number in range(100)]
        used, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert used / len(logs) < 10_000


def test_rows_that_are_left_are_found_by_their_new_numbers() -> None:
    random = np.random.default_rng(1)
    keys = random.integers(0, 500, 3_000).astype(np.uint64)
    finder = Finder()
    finder.find(keys[:2_500], keys[:1])  # sorts these; the rest stays in the tail
    left = np.flatnonzero(random.random(len(keys)) < 0.9)
    fewer = finder.without(len(keys), left)
    for wanted in range(0, 500, 50):
        found = fewer.find(keys[left], np.array([wanted], np.uint64))
        assert found.tolist() == np.flatnonzero(keys[left] == wanted).tolist()


def test_a_dropped_text_is_gone_and_its_number_is_not_given_again() -> None:
    texts = Numbered(["", "one", "two"])
    texts.drop([0, 1])
    assert (texts.texts, texts.find("one"), texts.find("two")) == (["", "", "two"], None, 2)
    assert (texts.number("three"), texts.number("one"), texts.number("")) == (3, 4, 0)
