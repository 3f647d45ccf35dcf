"""The cache of mirrors: which contents it drops, and when."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor

import attrs

from factmem.recall.index.mirror_cache import MirrorCache


@attrs.define(eq=False)
class Contents:
    """Contents of some size that can be dropped."""

    nbytes: int = 0
    drops: int = 0

    def drop(self) -> None:
        self.nbytes = 0
        self.drops += 1


def read(cache: MirrorCache, contents: Contents, size: int, limit: int | None = 100) -> None:
    with cache.pinned(contents):
        contents.nbytes = size
    cache.was_read(contents, limit)


def sizes(*all: Contents) -> list[int]:
    return [contents.nbytes for contents in all]


def test_the_least_recently_read_are_dropped_first() -> None:
    cache, first, second, third = MirrorCache(), Contents(), Contents(), Contents()
    read(cache, first, 40)
    read(cache, second, 40)
    cache.was_read(first, 100)
    read(cache, third, 40)
    assert sizes(first, second, third) == [40, 0, 40]
    assert cache.size == 80


def test_the_most_recent_one_stays_whatever_its_size() -> None:
    cache, first, second = MirrorCache(), Contents(), Contents()
    read(cache, first, 40)
    read(cache, second, 400)
    cache.was_read(second, 100)
    assert sizes(first, second) == [0, 400]


def test_without_a_limit_nothing_is_dropped() -> None:
    cache, first, second = MirrorCache(), Contents(), Contents()
    read(cache, first, 10**12, limit=None)
    read(cache, second, 10**12, limit=None)
    assert cache.size == 2 * 10**12


def test_nothing_is_dropped_while_an_operation_is_under_way_in_it() -> None:
    cache, first, second = MirrorCache(), Contents(), Contents()
    read(cache, first, 80)
    with cache.pinned(first):
        read(cache, second, 80)
        assert sizes(first, second) == [80, 80]
    cache.was_read(second, 100)
    assert sizes(first, second) == [0, 80]


def test_what_grew_since_its_last_read_is_measured_when_another_is_read() -> None:
    cache, first, second = MirrorCache(), Contents(), Contents()
    read(cache, second, 10)
    read(cache, first, 10)
    first.nbytes = 95  # its caches
    cache.was_read(second, 100)
    assert sizes(first, second) == [0, 10]


def test_closed_contents_are_dropped_after_the_operations_under_way() -> None:
    cache, contents = MirrorCache(), Contents()
    with cache.pinned(contents), cache.pinned(contents):
        contents.nbytes = 10
        cache.close(contents)
        assert contents.drops == 0
    assert (contents.drops, cache.size) == (1, 0)
    read(cache, contents, 10)
    cache.close(contents)
    cache.close(contents)
    assert (contents.drops, cache.size) == (2, 0)


def test_the_cache_keeps_nothing_alive() -> None:
    cache, kept = MirrorCache(), Contents()
    read(cache, Contents(), 60)
    read(cache, kept, 60)
    gc.collect()
    assert (cache.size, kept.drops) == (60, 0)


def test_threads_agree_on_the_sum() -> None:
    cache, all = MirrorCache(), [Contents() for _ in range(8)]

    def work(number: int) -> None:
        for turn in range(500):
            contents = all[(number * 7 + turn * 3) % len(all)]
            with cache.pinned(contents):
                contents.nbytes = 10
            cache.was_read(contents, 40)
            if not turn % 50:
                cache.close(contents)

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(work, range(8)))
    read(cache, all[0], 10, 40)
    assert cache.size == sum(sizes(*all)) <= 40
