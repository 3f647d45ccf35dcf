"""Answers of a store, question by question, and the answers allowed after its files were damaged."""

from __future__ import annotations

import datetime as dt
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from factmem.abc.capabilities import Append, EmbedderIdentity, Receipt, Statement, StateRequest
from factmem.errors import CodecError, ProviderError
from factmem.facts import Concept
from factmem.providers.log_verbs import HistoryProvider
from factmem.records import AssertionState, LogEntry, Place, Recorded, assertions_of
from factmem.scopes import MemoryScope
from tests.reliability.stores import CITY, NOON, PLANNER, USER

Answers: TypeAlias = Mapping[str, Any]
ERRORS: Final = (ProviderError, CodecError)
WAS_REFUSED: Final = "a typed error"
LANGUAGES: Final = Concept.multiple("languages", "Which languages the person speaks")
SEATS: Final = Concept.single("seats", "How many seats the plan has", int)
CRITIC: Final = MemoryScope.agent("critic")
EMBEDDER: Final = EmbedderIdentity(name="eight numbers", dimension=8)
PLACES: Final = (Place(USER, PLANNER), Place(USER, CRITIC))
MORE: Final = "Lugano"


async def fill(provider: Any) -> None:
    """Save every kind of content: successive values, sets, vectors, a retraction, an erasure."""
    import numpy as np

    await provider.use_embedder(EMBEDDER)
    for number, city in enumerate(["Bern", "Basel", "Genf"]):
        fact = CITY.fact([city], timestamp=NOON + dt.timedelta(minutes=number))
        assertions = assertions_of(fact, PLACES[number % 2])
        vector = np.roll(np.arange(1.0, 9.0, dtype=np.float32), number)
        await provider.append([Append(assertion=said, vector=vector) for said in assertions])
    for place in PLACES:
        languages = LANGUAGES.fact(["German", "French", "Italian", "Romansh"], timestamp=NOON)
        receipts = await provider.append([Append(assertion=said) for said in assertions_of(languages, place)])
        retracted = receipts[1].recorded.id
        await provider.append([StateRequest(assertion_id=retracted, tenant=None, state=AssertionState.RETRACTED)])
        await provider.erase([receipts[2].recorded.record_id], tenant=None)
    await provider.save(SEATS.fact([4], timestamp=NOON), USER, CRITIC)


async def save_more(provider: Any) -> str:
    """Save one more city at each place, and return the success of each save as digits."""
    taken = ""
    for number, place in enumerate(PLACES):
        try:
            await provider.save(CITY.fact([MORE], timestamp=NOON + dt.timedelta(hours=1)), place.subject, place.scope)
        except ERRORS:
            continue
        taken += str(number)
    return taken


async def answers(provider: Any) -> Answers:
    """Ask every question; a question refused with a typed error is answered by `WAS_REFUSED`."""
    asked: dict[str, Callable[[], Awaitable[Any]]] = {
        "changes": lambda: _listed(provider.changes(None)),
        "version": lambda: provider.version(None),
        "vectors": lambda: _rows(provider),
    }
    for number, place in enumerate(PLACES):
        asked |= _asked_of(provider, number, place)
    return {question: await _answer(ask) for question, ask in asked.items()}


def _asked_of(provider: Any, number: int, place: Place) -> dict[str, Callable[[], Awaitable[Any]]]:
    where = (place.subject, place.scope)
    return {
        f"entries {number}": lambda: _listed(provider.entries(place)),
        f"city {number}": lambda: provider.load(CITY, *where),
        f"languages {number}": lambda: provider.load(LANGUAGES, *where),
        f"all {number}": lambda: _listed(provider.load_all(*where)),
        f"found {number}": lambda: _listed(provider.load_by_description("speaks", *where)),
    }


class Replayed(HistoryProvider):
    """A read-only provider that answers from a log alone, without a store."""

    def __init__(self, log: Sequence[LogEntry]) -> None:
        super().__init__()
        self._log = log

    async def append(self, statements: Sequence[Statement]) -> Sequence[Receipt]:
        """Do nothing: the log is fixed."""
        raise NotImplementedError

    async def entries(self, place: Place, keyword: str | None = None) -> Sequence[LogEntry]:
        """Return the log, or its entries of one concept."""
        tracks = {entry.id: entry.assertion.keyword for entry in self._log if isinstance(entry, Recorded)}
        ids = [entry.id if isinstance(entry, Recorded) else entry.assertion_id for entry in self._log]
        return [entry for entry, id in zip(self._log, ids, strict=True) if keyword in (None, tracks.get(id))]

    async def aclose(self) -> None:
        """Do nothing: no store is open."""


async def wrong(found: Answers, truth: Answers, *, early: bool = False) -> list[str]:
    """Return the questions answered wrongly: neither correctly nor with an error.

    Args:
        found: the answers.
        truth: the right answers.
        early: allow the log of a place to end early; all answers must then agree with that log.
    """
    expected = dict(truth)
    for number, place in enumerate(PLACES):
        log = found[f"entries {number}"]
        if early and log != WAS_REFUSED and log == truth[f"entries {number}"][: len(log)]:
            asked = _asked_of(Replayed(log), number, place)
            expected |= {question: await _answer(ask) for question, ask in asked.items()}
    return [
        question
        for question, answer in found.items()
        if answer not in (expected[question], WAS_REFUSED) and not _lacks_some(question, answer, truth[question], early)
    ]


def _lacks_some(question: str, answer: Any, truth: Any, early: bool) -> bool:
    """Return whether an answer may be incomplete: vectors are derived, and early ends of logs omit entries."""
    match question:
        case "vectors":
            return bool(answer.items() <= truth.items())
        case "changes":
            return early and answer == [entry for entry in truth if entry in answer]
        case "version":
            return bool(early and answer <= truth)
        case _:
            return False


async def _answer(ask: Callable[[], Awaitable[Any]]) -> Any:
    try:
        return await ask()
    except ERRORS:
        return WAS_REFUSED


async def _listed(answer: Awaitable[Any]) -> list[Any]:
    return list(await answer)


async def _rows(provider: Any) -> dict[int, bytes]:
    seqs, rows = await provider.vectors(None)
    return {seq: row.tobytes() for seq, row in zip(seqs, rows, strict=True)}
