"""Histories of operations on one store over several lives, and their check against what was acknowledged."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

import attrs

from factmem.abc.capabilities import Append, EmbedderIdentity, Statement, StateRequest
from factmem.abc.clock import Clock
from factmem.errors import StoreUnavailableError
from factmem.facts import Concept
from factmem.records import AssertionState, LogEntry, Place, Recorded, StateChange, Tombstone, assertions_of
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.testing.fakes import FakeClock
from tests.simulation.disk import SimulatedDisk
from tests.simulation.intercepting import intercepted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


_WORDS: Final = Concept.multiple("words", "Words that were said")
_USER: Final = MemorySubject("user")
_TENANTS: Final = (None, "acme")
_PLACES: Final = tuple(
    Place(_USER, scope if tenant is None else scope.within(tenant))
    for tenant in _TENANTS
    for scope in (MemoryScope.agent("planner"), MemoryScope.product("alpha") / "decisions")
)
_EMBEDDER: Final = EmbedderIdentity(name="eight numbers", dimension=8)
_DECADE: Final = dt.timedelta(days=3653)


class BrokenPromiseError(AssertionError):
    """Raised when a store does not give what it acknowledged, or gives what it erased; the message has the history."""


@attrs.frozen(kw_only=True)
class SimulatedStore:
    """A kind of store to simulate. Its provider has history, the change feed, vectors and erasure.

    Attributes:
        open: Returns a provider over a path on the disk, with a clock, and with every key up to a generation.
        rotate: Changes the key of a store to that of a generation, if its kind has keys.
        lasts: Whether the store survives its process.
        in_clear: Whether the words can be found in its files.
        is_atomic_over_places: Whether a transaction over several places is written as a whole.
        calls: Number of calls of the disk within which a process dies, about those of a few operations.
    """

    open: Callable[[Path, Clock, int], Any]
    rotate: Callable[[Any, int], Awaitable[None]] | None = None
    lasts: bool = True
    in_clear: bool = True
    is_atomic_over_places: bool = True
    calls: int = 60


@attrs.frozen(kw_only=True)
class Lives:
    """Figures of a history.

    Attributes:
        deaths: Deaths of the process, by kill or power cut.
        acknowledged: Acknowledged operations.
        refused: Refused or interrupted operations.
        faults: Calls of the disk that failed.
        calls: Calls of the disk.
    """

    deaths: int = 0
    acknowledged: int = 0
    refused: int = 0
    faults: int = 0
    calls: int = 0

    def __add__(self, other: Lives) -> Lives:
        mine, others = attrs.astuple(self), attrs.astuple(other)
        return Lives(**dict(zip(attrs.fields_dict(Lives), map(sum, zip(mine, others, strict=True)), strict=True)))


@attrs.define(eq=False)
class _Said:
    """A word passed for saving; what is certain of it was acknowledged."""

    word: str
    place: Place
    vector: NDArray[np.float32] | None
    certain: bool = False
    recorded: Recorded | None = None
    retracting: bool = False
    retracted: bool = False
    erasing: bool = False
    erased: bool = False


@attrs.define
class _History:
    """All that was passed, by transaction, and the highest number that was acknowledged."""

    groups: list[list[_Said]] = attrs.field(factory=list)
    erasures: list[list[_Said]] = attrs.field(factory=list)
    last: dict[str | None, int] = attrs.field(factory=dict)
    generation: int = 0
    rotating: bool = False
    lines: list[str] = attrs.field(factory=list)

    def said(self) -> list[_Said]:
        return [said for group in self.groups for said in group]


async def play(seed: int, store: SimulatedStore, folder: Path) -> Lives:
    """Play a history: some lives of a process, each with operations, faults and a death, and a check after each.

    The same seed gives the same operations, faults and deaths, as far as the store asks the disk the same.

    Args:
        seed: Seed of everything that is left to chance.
        store: Kind of store.
        folder: Existing folder for the disks.

    Raises:
        BrokenPromiseError: The store broke a promise.
    """
    player = _Player(seed, store, folder)
    try:
        return await player.play()
    except Exception as error:
        history = "\n".join(player.history.lines)
        raise BrokenPromiseError(f"seed {seed}: {type(error).__name__}: {error}\n{history}") from error


class _Player:
    def __init__(self, seed: int, store: SimulatedStore, folder: Path) -> None:
        self.history = _History()
        self._store = store
        self._folder = folder
        self._chance = Random(seed)
        self._clock = FakeClock(step=dt.timedelta(microseconds=7))
        self._disk = self._new_disk(folder / "0")
        self._counts: Counter[str] = Counter()
        self._words = 0
        self._is_faulty = False

    async def play(self) -> Lives:
        for life in range(self._chance.randint(2, 4)):
            await self._live(life)
        with self._intercepting():
            provider = self._open()
            await self._check(provider)
            await self._finish(provider)
            await self._check(provider)
            await provider.aclose()
        return Lives(**self._counts)

    def _new_disk(self, root: Path) -> SimulatedDisk:
        root.mkdir(exist_ok=True)
        return SimulatedDisk(root, self._chance)

    def _intercepting(self) -> AbstractContextManager[None]:
        return intercepted(self._disk) if self._store.lasts else nullcontext()

    def _open(self) -> Any:
        return self._store.open(self._disk.root / "deep" / "store", self._clock, self.history.generation)

    def _note(self, line: str) -> None:
        self.history.lines.append(f"{len(self._disk.calls):>5}  {line}")

    async def _live(self, life: int) -> None:
        """Open the store, check it, work on it with faults, and die."""
        chance = self._chance
        with self._intercepting():
            provider = self._open()
            await self._check(provider)
            fault_rate = chance.choice((0.0, 0.0, 0.01, 0.05)) if self._store.lasts else 0.0
            dies_at = len(self._disk.calls) + chance.randrange(1, self._store.calls) if chance.random() < 0.8 else None
            self._disk.restart(fault_rate=fault_rate, dies_at=dies_at)
            self._is_faulty = bool(fault_rate)
            self._note(f"-- life {life}: faults {fault_rate}, dies at {dies_at}")
            for _ in range(chance.randrange(4, 10)):
                if self._disk.dead:
                    break
                if self._is_faulty and chance.random() < 0.2:
                    await self._attempt("close", provider.aclose)
                    provider = self._open()
                await self._work(provider)
            if self._store.lasts:
                if chance.random() < 0.3:
                    await self._attempt("close", provider.aclose)
                self._disk.kill()
                self._search([])
                await self._attempt("close", provider.aclose)  # a thread of the dead process, which changes nothing
        self._counts.update(deaths=1, faults=self._disk.faults, calls=len(self._disk.calls))
        if chance.random() < 0.3 or not self._store.lasts:
            self._note("-- killed")
            self._disk.restart()
        else:
            self._note("-- power cut")
            into = self._folder / f"{life + 1}"
            into.mkdir()
            self._disk.cut_power(into)
            self._disk = self._new_disk(into)
        self._is_faulty = False

    async def _work(self, provider: Any) -> None:
        chance = self._chance
        if chance.random() < 0.3:
            self._clock.advance(_DECADE * chance.uniform(-1, 1))
        works = [self._save, self._save, self._save, self._save_again, self._retract, self._erase, self._bind]
        if self._store.rotate is not None:
            works.append(self._rotate)
        await chance.choice(works)(provider)
        if chance.random() < 0.3 and not self._disk.dead:
            await self._attempt("check", lambda: self._check(provider))

    async def _attempt(self, name: str, work: Callable[[], Awaitable[Any]]) -> Any:
        """Do something that may be refused with the one error that a disk may cause; return None if it was."""
        try:
            found = await work()
        except StoreUnavailableError as error:
            if not (self._is_faulty or self._disk.dead):
                raise
            self._note(f"{name}: refused, {error}")
            self._counts.update(refused=name not in ("close", "check"))
            return None
        self._note(f"{name}: {'died' if self._disk.dead else 'done'}")
        if self._disk.dead:
            return None
        self._counts.update(acknowledged=name not in ("close", "check"))
        return found if found is not None else True

    async def _save(self, provider: Any) -> None:
        chance = self._chance
        places = [chance.choice(_PLACES)] if chance.random() < 0.7 else chance.sample(_PLACES, 2)
        group = [self._new_word(chance.choice(places)) for _ in range(chance.randrange(1, 4))]
        self.history.groups.append(group)
        await self._append(provider, group, "save")

    async def _save_again(self, provider: Any) -> None:
        """Save again what was refused: it is then acknowledged, whether it was written at first or not."""
        lost = [group for group in self.history.groups if not group[0].certain and not any(s.erasing for s in group)]
        if lost:
            await self._append(provider, self._chance.choice(lost), "save again")

    async def _append(self, provider: Any, group: Sequence[_Said], name: str) -> None:
        statements: list[Statement] = []
        bound = await self._attempt("check", provider.embedder)
        for said in group:
            fact = _WORDS.fact([said.word], timestamp=dt.datetime(2024, 1, 1, tzinfo=dt.UTC))
            vector = said.vector if bound == _EMBEDDER else None
            statements += [Append(assertion=item, vector=vector) for item in assertions_of(fact, said.place)]
        words = [f"{said.word} in {said.place.scope}" for said in group]
        receipts = await self._attempt(f"{name} {words}", lambda: provider.append(statements))
        if receipts is None:
            return
        for said, receipt in zip(group, receipts, strict=True):
            self._know(said, receipt.recorded)
            said.certain = True
            if receipt.new:
                self._numbered(receipt.recorded.seq, said.place.scope.tenant)

    def _new_word(self, place: Place) -> _Said:
        import numpy as np

        self._words += 1
        vector = np.roll(np.arange(1, 9, dtype=np.float32), self._words)
        unit = (vector / np.linalg.norm(vector)).astype(np.float32)
        return _Said(f"word-{self._words}-of-{self._chance.getrandbits(64):x}", place, unit)

    def _numbered(self, seq: int, tenant: str | None) -> None:
        last = self.history.last.get(tenant, 0)
        assert seq > last, f"number {seq} was given after {last}"
        self.history.last[tenant] = seq

    def _know(self, said: _Said, recorded: Recorded) -> None:
        assert recorded.assertion.data == said.word
        assert not said.certain or said.recorded == recorded, "an acknowledged assertion has changed"
        said.recorded = recorded

    def _standing(self) -> list[_Said]:
        return [said for said in self.history.said() if said.certain and not said.erasing]

    async def _retract(self, provider: Any) -> None:
        if not (standing := self._standing()):
            return
        said = self._chance.choice(standing)
        assert said.recorded is not None
        said.retracting = True
        request = StateRequest(
            assertion_id=said.recorded.id, state=AssertionState.RETRACTED, tenant=said.place.scope.tenant
        )
        if await self._attempt(f"retract {said.word}", lambda: provider.append([request])) is not None:
            said.retracted = True

    async def _erase(self, provider: Any) -> None:
        standing = self._standing()
        if not standing:
            return
        tenant = self._chance.choice(standing).place.scope.tenant
        own = [said for said in standing if said.place.scope.tenant == tenant]
        gone = self._chance.sample(own, self._chance.randrange(1, min(3, len(own)) + 1))
        self.history.erasures.append(gone)
        for said in gone:
            said.erasing = True
        await self._erase_all(provider, gone, tenant)

    async def _erase_all(self, provider: Any, gone: Sequence[_Said], tenant: str | None) -> None:
        ids = [said.recorded.record_id for said in gone if said.recorded is not None]
        words = [said.word for said in gone]
        receipt = await self._attempt(f"erase {words}", lambda: provider.erase(ids, tenant=tenant))
        if receipt is not None:
            for said in gone:
                said.erased = True
        if receipt is not None and not receipt.pending:
            self._search(words)

    def _search(self, words: Sequence[str]) -> None:
        """Look in the files for words that were erased; in those of an encrypted store, for any."""
        if not self._store.in_clear:
            words = [said.word for said in self.history.said()]
        for path in sorted(self._disk.root.rglob("*")):
            content = path.read_bytes() if path.is_file() else b""
            for word in words:
                assert word.encode() not in content, f"{word} was erased or is secret, and is in {path.name}"

    async def _bind(self, provider: Any) -> None:
        await self._attempt("use embedder", lambda: provider.use_embedder(_EMBEDDER))

    async def _rotate(self, provider: Any) -> None:
        assert self._store.rotate is not None
        rotate, self.history.generation = self._store.rotate, self.history.generation + 1
        self.history.rotating = True
        wanted = self.history.generation
        if await self._attempt(f"rotate to {wanted}", lambda: rotate(provider, wanted)) is not None:
            self.history.rotating = False

    async def _finish(self, provider: Any) -> None:
        """Finish what was interrupted, on a disk that is well: nothing may be left of what was erased."""
        self._disk.restart()
        self._note("-- finish")
        await self._save(provider)
        for group in self.history.erasures:
            await self._erase_all(provider, group, group[0].place.scope.tenant)
        if self._store.rotate is not None:
            await self._rotate(provider)
        self._search([said.word for said in self.history.said() if said.erased])

    async def _check(self, provider: Any) -> None:
        """Read everything and compare it with the history."""
        log: list[LogEntry] = []
        found: dict[str, Recorded] = {}
        for tenant in _TENANTS:
            entries = list(await provider.changes(tenant))
            assert [entry.seq for entry in entries] == sorted({entry.seq for entry in entries})
            times = [entry.recorded_at for entry in entries if not isinstance(entry, Tombstone)]
            assert times == sorted(times), "a time of recording lies before that of an earlier number"
            assert max((entry.seq for entry in entries), default=0) <= await provider.version(tenant)
            log += entries
            for entry in entries:
                if isinstance(entry, Recorded):
                    assert entry.assertion.place.scope.tenant == tenant
                    assert entry.assertion.data not in found, "one word is there twice"
                    found[entry.assertion.data] = entry
            await self._check_vectors(provider, tenant, entries)
        states = {entry.assertion_id: entry.state for entry in log if isinstance(entry, StateChange)}
        tombs = {entry.assertion_id for entry in log if isinstance(entry, Tombstone)}
        assert found.keys() <= {said.word for said in self.history.said()}, "a word is there that nobody said"
        for said in self.history.said():
            self._check_word(said, found.get(said.word), states, tombs)
        self._check_wholes(found)
        for place in _PLACES:
            active = [
                word
                for word, entry in sorted(found.items(), key=lambda item: item[1].seq)
                if entry.assertion.place == place and entry.id not in states
            ]
            fact = await provider.load(_WORDS, place.subject, place.scope)
            assert list(fact.values if fact else ()) == active, "the value of a place is not what its log says"

    def _check_word(
        self, said: _Said, entry: Recorded | None, states: Mapping[str, AssertionState], tombs: set[str]
    ) -> None:
        if said.erased:
            assert entry is None, f"{said.word} was erased, and came back"
            assert said.recorded is not None
            assert said.recorded.id in tombs, f"{said.word} has no tombstone"
        elif said.certain and not said.erasing:
            assert entry is not None, f"{said.word} was acknowledged, and is lost"
        if entry is not None:
            self._know(said, entry)
            assert said.retracting or entry.id not in states, f"{said.word} was never retracted"
            assert not said.retracted or entry.id in states, f"{said.word} was retracted, and came back"

    def _check_wholes(self, found: Mapping[str, Recorded]) -> None:
        for group in self.history.groups:
            wholes: dict[Place | None, set[bool]] = {}
            for said in group:
                if not said.erasing:
                    whole = None if self._store.is_atomic_over_places else said.place
                    wholes.setdefault(whole, set()).add(said.word in found)
            assert all(len(whole) == 1 for whole in wholes.values()), "a transaction is there in part"
        for group in self.history.erasures:
            assert len({said.word in found for said in group}) == 1, "an erasure is there in part"

    async def _check_vectors(self, provider: Any, tenant: str | None, entries: Sequence[LogEntry]) -> None:
        vectors = {said.word: said.vector for said in self.history.said()}
        recorded = {entry.seq: entry for entry in entries if isinstance(entry, Recorded)}
        seqs, rows = await provider.vectors(tenant)
        for seq, row in zip(seqs, rows, strict=True):
            expected = vectors[recorded[seq].assertion.data]
            assert abs(float((row * expected).sum()) - 1) < 1e-5, "a vector is that of another word"
