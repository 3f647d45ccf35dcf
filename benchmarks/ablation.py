"""The worth of each mechanism of recall: figures with one of them turned off at a time, and its lines of code.

    python benchmarks/ablation.py [--dated PATH ...] [--sets TITLE ...] [--only TITLE ...] [--json FILE]

The dated sets that are given, and the building halves of the sets of `blind_sets.py`, are asked everything by default
settings, then again with each mechanism of `MECHANISMS` off. A figure is the mean difference to everything on, over the
questions, with the half width of its paired 95 % interval; a mechanism that earns something has negative ones.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import datetime as dt
import importlib
import inspect
import json
import random
import tempfile
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Final
from unittest import mock

import anyio
import attrs
import blind_sets
import everyday
import numpy as np
import temporal
import typed_facts
from dated_sets import TITLES, DatedStore, read_dated
from hops import made, subject_of
from numpy.typing import NDArray
from retrieval_metrics import first_seen, fraction_found, ndcg
from rich.console import Console
from rich.progress import track
from short_facts import SETS, FactSet, fact_set

from factmem import Concept, Memory, MemorySubject, RecallMatch, SingleFact
from factmem.recall import scoring
from factmem.recall.index.corpus import Corpus
from factmem.recall.links import Linked
from factmem.recall.queries import Query, read_query
from factmem.recall.text.related_words import Term
from factmem.testing import FakeClock

_NAMED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)

FIGURES: Final = ("@1", "R@10", "nDCG@10")
DEPTH: Final = 10
PEOPLE: Final = (1, 10)
"""Numbers of people in the stores of typed facts."""


# Mechanisms


@attrs.frozen(kw_only=True)
class Mechanism:
    """A part of recall that can be turned off.

    Attributes:
        off: Returns a context in which it is off.
        code: What it is made of: modules and their members, as ``module:member``.
        written: Whether it acts when something is written, so that the stores are made anew.
    """

    off: Callable[[], contextlib.AbstractContextManager[object]]
    code: Sequence[str] = ()
    written: bool = False

    @property
    def lines(self) -> int:
        """Its lines of code; see `lines_of`."""
        return sum(map(lines_of, self.code))


def lines_of(name: str) -> int:
    """Return the lines of code of a module or of a member of it."""
    module, _, member = name.partition(":")
    text = inspect.getsource(importlib.import_module(module))
    found: ast.AST = ast.parse(text)
    for part in member.split(".") if member else ():
        named = {node.name: node for node in ast.iter_child_nodes(found) if isinstance(node, _NAMED)}
        found = named[part]
    documented: set[int] = set()
    for node in ast.walk(found):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            documented.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    numbered = list(enumerate(text.splitlines(), 1))
    if isinstance(found, _NAMED):
        first = min(node.lineno for node in (found, *found.decorator_list))
        numbered = numbered[first - 1 : found.end_lineno]
    return sum(bool(line.strip()) and not line.strip().startswith("#") and n not in documented for n, line in numbered)


def _set(**names: Any) -> Callable[[], contextlib.AbstractContextManager[object]]:
    """Return what replaces members of modules; ``__`` in a name stands for a dot."""

    @contextlib.contextmanager
    def off() -> Iterator[None]:
        with contextlib.ExitStack() as stack:
            for name, value in names.items():
                stack.enter_context(mock.patch(f"factmem.{name.replace('__', '.')}", value))
            yield

    return off


def _constant(**constants: float) -> Callable[[], contextlib.AbstractContextManager[object]]:
    """Return what sets constants of `scoring`; the weights and norms that a corpus has kept are not used."""

    @contextlib.contextmanager
    def off() -> Iterator[None]:
        weights = property(lambda corpus: corpus.weights(slice(None), np.float32))
        seen = mock.patch.object(Corpus, "seen", lambda of, sight: of._seen_by(of.columns.visible_heads(sight)))
        with (
            mock.patch.multiple(scoring, **dict[str, Any](constants)),
            mock.patch.object(Corpus, "short_weights", weights),
            seen,
        ):
            yield

    return off


def _evidence(**pieces: Any) -> Callable[[], contextlib.AbstractContextManager[object]]:
    """Return what replaces pieces of `scoring.Evidence`."""
    whole = scoring.similarity

    def similarity(given: scoring.Evidence[Any], lexical_weight: float) -> Any:
        changed = {name: value for name, value in pieces.items() if getattr(given, name) is not None}
        return whole(attrs.evolve(given, **changed), lexical_weight)

    return lambda: mock.patch.object(scoring, "similarity", similarity)


def _terms(change: Callable[[Term], Term]) -> Callable[[], contextlib.AbstractContextManager[object]]:
    """Return what changes the terms of each query."""
    before = Query.__init__

    def init(self: Query, *, terms: Sequence[Term], **rest: Any) -> None:
        before(self, terms=list(map(change, terms)), **rest)

    whole = Corpus.occurrences

    def occurrences(self: Corpus, *given: Any) -> Any:
        return whole(attrs.evolve(self), *given)  # which keeps no occurrences

    @contextlib.contextmanager
    def off() -> Iterator[None]:
        with mock.patch.object(Query, "__init__", init), mock.patch.object(Corpus, "occurrences", occurrences):
            yield

    return off


def _kept(term: Term, keep: NDArray[np.bool_]) -> Term:
    return Term(term.number, term.numbers[keep], term.weights[keep])


def _itself(term: Term) -> Term:
    return _kept(term, (term.numbers == term.number) | ((term.weights == 1) & (np.arange(len(term.numbers)) > 0)))


_TEXT: Final = "factmem.recall.text"
_QUERIES: Final = "factmem.recall.queries"
_RANKING: Final = "factmem.recall.ranking"
_SCORING: Final = "factmem.recall.scoring"
_NAMING: Final = "factmem.recall.index.names_in_query"

MECHANISMS: Final[Mapping[str, Mechanism]] = {
    "own words": Mechanism(off=_evidence(own=0)),
    "words of the exchange": Mechanism(off=_evidence(exchange=0)),
    "words of the conversation": Mechanism(off=_evidence(conversation=0)),
    "meaning of the exchange": Mechanism(off=_evidence(near=0), code=("factmem.recall.index.corpus:Corpus.near",)),
    "statement before": Mechanism(
        off=_evidence(answered=None, question=None, question_cosine=None),
        code=("factmem.recall.index.corpus:Corpus.answers",),
    ),
    "any context": Mechanism(off=_constant(CONTEXT_WORDS=1e-9)),
    "context by length": Mechanism(off=_constant(CONTEXT_WORDS=1e9), code=(f"{_SCORING}:context_weight",)),
    "saturation k1": Mechanism(off=_constant(BM25_K1=1e-9)),
    "length norm b": Mechanism(off=_constant(BM25_B=0), code=(f"{_SCORING}:length_norm",)),
    "words by their levels": Mechanism(off=_evidence(words=1.0), code=(f"{_SCORING}:words_weight",)),
    "words of a record alone": Mechanism(off=_constant(ALONE=1.0)),
    "speaker or subject named": Mechanism(off=_evidence(lead=None), code=(f"{_NAMING}:SubjectIndex.named",)),
    "names out of the meaning": Mechanism(
        off=_set(memory__recaller__less_named=lambda corpus, query, text, nameless: query),
        code=(f"{_QUERIES}:less_named", f"{_TEXT}.signs:capitalized", f"{_TEXT}.signs:nameless"),
    ),
    "times": Mechanism(
        off=_set(
            memory__recaller__times_and_rest=lambda text, now: ((), text), memory__recaller__events_in=lambda *_: ()
        ),
        code=(f"{_TEXT}.times", "factmem.recall.events", f"{_SCORING}:closeness"),
    ),
    "events": Mechanism(off=_set(memory__recaller__events_in=lambda *_: ()), code=("factmem.recall.events",)),
    "time as a term": Mechanism(off=_constant(TIMED=0.0)),
    "days later": Mechanism(off=_constant(LAG=1.0)),
    "kind of value": Mechanism(
        off=_evidence(kind=None),
        code=(
            f"{_TEXT}.signs:kinds_asked",
            f"{_TEXT}.signs:kinds_held",
            f"{_TEXT}.signs:kinds_of_concept",
            f"{_TEXT}.signs:_kinds_in",
            f"{_TEXT}.signs:_patterns",
            f"{_TEXT}.signs:_holds_number",
        ),
    ),
    "tells of a change": Mechanism(
        off=_evidence(change=None),
        code=("factmem.sentences:tells_of_change", f"{_TEXT}.signs:asks_for_present"),
    ),
    "role asked for": Mechanism(
        off=_evidence(misfit=None), code=(f"{_RANKING}:_misfit", f"{_TEXT}.signs:asks_for_assistant")
    ),
    "assistant asked for": Mechanism(
        off=_set(memory__recaller__read_query=lambda text: read_query(text) | {"asks_assistant": False}),
        code=(f"{_TEXT}.signs:asks_for_assistant",),
    ),
    "says hardly anything": Mechanism(off=_evidence(little=None), code=(f"{_SCORING}:says_little",)),
    "asking words": Mechanism(off=_constant(ASKING=1.0), code=(f"{_TEXT}.signs:asking_words",)),
    "related words": Mechanism(off=_terms(_itself), code=(f"{_TEXT}.related_words",)),
    "topics": Mechanism(
        off=_terms(lambda term: _kept(term, (term.numbers == term.number) | (term.weights < 1))),
        code=(f"{_TEXT}.related_words:topics_of", f"{_TEXT}.related_words:_topic_table"),
    ),
    "concept asked for": Mechanism(off=_evidence(concept=None), code=(f"{_NAMING}:ConceptIndex",)),
    "concept named": Mechanism(off=_evidence(named=None)),
    "facts about others": Mechanism(off=_evidence(other=None), code=(f"{_NAMING}:SubjectIndex",)),
    "links": Mechanism(
        off=_set(memory__recaller__followed=lambda corpus, asking: Linked()), code=("factmem.recall.links",)
    ),
    "recency": Mechanism(off=_set(recall__scoring__recency=lambda age, half: 0 * age)),
    "news follows": Mechanism(
        off=_set(recall__index__overtaking__UpdateFinder___find_followed=lambda self, columns, first: None),
        code=("factmem.sentences:tells_of_now", "factmem.recall.index.overtaking:UpdateFinder._find_followed"),
        written=True,
    ),
    "marks of updates": Mechanism(
        off=_set(recall__index__overtaking__UpdateFinder___find_overtaken=lambda self, columns, first: None),
        code=(f"{_TEXT}.updates", "factmem.recall.index.overtaking"),
        written=True,
    ),
    "irregular verbs": Mechanism(
        off=_set(stemming___base_forms=dict), code=("factmem.stemming:_base_forms",), written=True
    ),
}


# Stores


@attrs.frozen(kw_only=True)
class Asked:
    """A question, the moment it is asked, and the keys of the results that answer it."""

    text: str
    gold: Collection[str]
    at: dt.datetime | None = None


@attrs.frozen(kw_only=True)
class Store:
    """A memory to make, and questions about it.

    Attributes:
        set: The title of the set that it belongs to.
        opened: Makes the memory, with a clock for the moments of questions.
        questions: The questions.
        key: Returns the key of a match.
    """

    set: str
    opened: Callable[[], AbstractAsyncContextManager[tuple[Memory, FakeClock | None]]]
    questions: Sequence[Asked]
    key: Callable[[RecallMatch], str]


def _message(match: RecallMatch) -> str:
    return (match.record.evidence[0].message_id or "") if match.record.evidence else ""


def _fact(match: RecallMatch) -> str:
    return f"{match.record.subject}|{match.record.concept.keyword}"


def of_dated(store: DatedStore) -> Store:
    """Return a store of dated conversations."""

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Memory, FakeClock]]:
        said = [message.timestamp for talk in store.conversations for message in talk.messages if message.timestamp]
        clock = FakeClock(max(*said, *(question.asked_at for question in store.questions)))
        with tempfile.TemporaryDirectory() as folder:
            async with Memory(f"sqlite-vec:{folder}/facts.db", clock=clock) as memory:
                for talk in store.conversations:
                    await memory.remember(talk)
                yield memory, clock

    asked = [Asked(text=of.text, gold=of.gold, at=of.asked_at) for of in store.questions if of.gold]
    return Store(set=TITLES[store.set], opened=opened, questions=asked, key=_message)


def of_diary(diary: Any) -> Store:
    """Return a store of a diary."""

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Memory, FakeClock]]:
        clock = FakeClock(dt.datetime(2040, 1, 1, tzinfo=dt.UTC))
        async with Memory("memory:", clock=clock) as memory:
            await memory.remember_many(list(temporal._conversations(diary["sessions"])))
            await memory.inbox.flush()
            yield memory, clock

    asked = [
        Asked(
            text=question["text"],
            gold=[f"{session}/{turn}" for session, turn in question["gold"]],
            at=dt.datetime.fromisoformat(f"{question['asked']}T20:00+00:00"),
        )
        for question in diary["questions"]
    ]
    return Store(set="temporal", opened=opened, questions=asked, key=_message)


def of_story(story: dict[str, Any]) -> Store:
    """Return a store of an everyday story, asked about when all of it was said."""
    said = max(message["at"] for message in story["messages"])

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Memory, FakeClock]]:
        clock = FakeClock(dt.datetime.fromisoformat(said))
        async with Memory("memory:", clock=clock) as memory:
            for talk in everyday.conversations_of(story):
                await memory.remember(talk)
            yield memory, clock

    asked = [
        Asked(text=question["question"], gold=question["gold"], at=dt.datetime.fromisoformat(question["asked"]))
        for question in story["questions"]
        if question["gold"] and question["asked"] >= said
    ]
    return Store(set="everyday", opened=opened, questions=asked, key=_message)


def of_facts(name: str, given: FactSet) -> Store:
    """Return a store of short facts."""

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Memory, None]]:
        async with Memory("memory:") as memory:
            await given.fill(memory)
            await memory.inbox.flush()
            yield memory, None

    asked = [Asked(text=text, gold=gold) for text, gold in given.questions if gold]
    return Store(set=name, opened=opened, questions=asked, key=given.key)


def of_typed(count: int) -> Store:
    """Return a store of typed facts of so many people."""
    cases = blind_sets.read("typed", "building")
    people = typed_facts.people_of(count, random.Random(7))

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Memory, None]]:
        async with Memory("memory:", viewer=people[0].individual_name) as memory:
            await typed_facts.fill(memory, people, [case for case in cases if case["type"] == "fact"])
            yield memory, None

    questions = typed_facts.questions_of(
        people, [case for case in cases if case["type"] == "question"], random.Random(13)
    )
    asked = [Asked(text=of.text, gold=[f"{of.subject}|{of.keyword}"]) for of in questions]
    return Store(set="typed facts", opened=opened, questions=asked, key=_fact)


def of_links() -> Store:
    """Return a store of facts that link people."""
    given = made(200, 90, random.Random(7))
    facts = given.facts
    concepts = {
        fact["keyword"]: Concept.single(fact["keyword"], "", MemorySubject if fact["is_subject"] else str)
        for fact in facts.values()
    }

    @contextlib.asynccontextmanager
    async def opened() -> AsyncIterator[tuple[Memory, None]]:
        async with Memory("memory:", concepts=concepts.values()) as memory:
            for fact in facts.values():
                value = subject_of(fact["value"]) if fact["is_subject"] else fact["value"]
                await memory.save(SingleFact(concepts[fact["keyword"]], value), subject=subject_of(fact["subject"]))
            yield memory, None

    def key(fact: Mapping[str, Any]) -> str:
        return f"{subject_of(fact['subject'])}|{fact['keyword']}"

    asked = [Asked(text=question["text"], gold=[key(facts[question["gold"]])]) for question in given.questions]
    return Store(set="links", opened=opened, questions=asked, key=_fact)


def stores_of(paths: Sequence[Path], sets: Collection[str]) -> list[Store]:
    """Return the stores of some sets; all if none is named."""
    found = [of_dated(store) for path in paths for store in read_dated(path)]
    found += [of_facts(name, fact_set(name, "building")) for name in SETS if " " not in name]
    found += [of_diary(diary) for diary in blind_sets.read("temporal", "building")]
    found += [of_story(story) for story in blind_sets.read("everyday", "building")]
    found += [*map(of_typed, PEOPLE), of_links()]
    return [store for store in found if not sets or store.set in sets]


# Measuring

Found = dict[str, dict[str, list[float]]]
"""By mechanism that is off ("" for none) and by figure: the values of the questions."""


async def measure(store: Store, mechanisms: Mapping[str, Mechanism], found: Found) -> None:
    """Ask the questions of a store with everything on, and with each mechanism off."""

    async def ask(name: str, memory: Memory, clock: FakeClock | None) -> None:
        figures = found.setdefault(name, {})
        for question in store.questions:
            if clock is not None and question.at is not None:
                clock.set(question.at)
            keys = first_seen(map(store.key, await memory.recall(question.text, limit=DEPTH)))
            values = (float(keys[0] in question.gold) if keys else 0.0, fraction_found(keys, question.gold, DEPTH))
            for figure, value in zip(FIGURES, (*values, ndcg(keys, question.gold, DEPTH)), strict=True):
                figures.setdefault(figure, []).append(value)

    async with store.opened() as (memory, clock):
        await ask("", memory, clock)
        for name, mechanism in mechanisms.items():
            if not mechanism.written:
                with mechanism.off():
                    await ask(name, memory, clock)
    for name, mechanism in mechanisms.items():
        if mechanism.written:
            with mechanism.off():
                async with store.opened() as (memory, clock):
                    await ask(name, memory, clock)


def difference(found: Found, name: str, figure: str) -> tuple[float, float]:
    """Return the mean difference that a mechanism makes, off less on, and the half width of its 95 % interval."""
    lost = np.array(found[name][figure]) - np.array(found[""][figure])
    return float(lost.mean()), float(1.96 * lost.std() / np.sqrt(len(lost)))


def markdown(result: Mapping[str, Any]) -> str:
    """Return the table of the documentation: by set, R@10 / nDCG@10 and their differences in thousandths."""
    sets, shown = result["sets"], FIGURES[1:]
    lines = [["off", "lines", *sets], ["---", "---:", *["---:"] * len(sets)]]
    lines.append(["nothing", "", *(" / ".join(f"{of['on'][figure]:.3f}" for figure in shown) for of in sets.values())])
    for name, count in result["lines"].items():
        cells = (" / ".join(_cell(*of["off"][name][figure]) for figure in shown) for of in sets.values())
        lines.append([name, str(count or ""), *(cell.replace("0 / 0", "") for cell in cells)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def _cell(mean: float, width: float) -> str:
    """Return a difference in thousandths, bold beyond its interval."""
    thousandths = f"{1000 * mean:+.0f}" if abs(mean) >= 0.0005 else "0"
    return f"**{thousandths}**" if abs(mean) > width and thousandths != "0" else thousandths


def main() -> None:
    """Run the benchmark from the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dated", type=Path, nargs="+", default=[], metavar="PATH", help="files of dated stores")
    parser.add_argument("--sets", nargs="+", default=[], metavar="TITLE", help="only these sets")
    parser.add_argument("--only", nargs="+", default=list(MECHANISMS), metavar="TITLE", help="only these mechanisms")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to this file")
    options = parser.parse_args()
    mechanisms = {name: MECHANISMS[name] for name in options.only}
    found: dict[str, Found] = {}
    console = Console(stderr=True)
    for store in track(stores_of(options.dated, options.sets), description="ablation", transient=True, console=console):
        anyio.run(measure, store, mechanisms, found.setdefault(store.set, {}))
    result = {
        "lines": {name: mechanism.lines for name, mechanism in mechanisms.items()},
        "sets": {
            name: {
                "questions": len(of[""][FIGURES[0]]),
                "on": {figure: float(np.mean(of[""][figure])) for figure in FIGURES},
                "off": {off: {figure: difference(of, off, figure) for figure in FIGURES} for off in mechanisms},
            }
            for name, of in found.items()
        },
    }
    if options.json:
        options.json.write_text(json.dumps(result, indent=2) + "\n", encoding="utf-8")
    print(markdown(result))


if __name__ == "__main__":
    main()
