"""Reading the words that wait: from what was handed over to what is known."""

from __future__ import annotations

import abc
import logging
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, Final, Self

import anyio
import attrs
from anyio import to_thread

from factmem.abc import Analysis, AnalysisRequest, Append, Candidate, DropReason, Operation, Statement, StateRequest
from factmem.consolidation import Newcomer, Plan, changes, plan, without_duplicates
from factmem.details import Treatment
from factmem.errors import (
    ConceptConflictError,
    EmbedderError,
    FactMemError,
    InvalidDataError,
    ModelError,
    RecordNotFoundError,
    StateConflictError,
)
from factmem.facts import STATEMENT, Concept
from factmem.fold import Current, fold
from factmem.memory.errands import Errand, ErrandKind
from factmem.memory.expiry import TtlOperation, expires_at
from factmem.memory.journal import Unit, detailed, in_order, rebuilt, treatment_of
from factmem.memory.listing import ScopeInfo
from factmem.memory.observed import operation
from factmem.memory.outcomes import Remembered
from factmem.memory.screening import Screening
from factmem.memory.settling import (
    Finding,
    analysed_details,
    cited_message,
    forgotten_messages,
    kept_apart,
    known_at,
    log_of,
    manner_of,
    message_of,
    read_words,
    removals,
    told,
    transaction,
    words_taken_back,
)
from factmem.memory.writing import MemoryWriter
from factmem.observing import nested
from factmem.recall import LogPart, RecallFilter, hydrate, indexed_text
from factmem.records import (
    Assertion,
    AssertionState,
    FactDetails,
    LogEntry,
    Origin,
    Place,
    Recorded,
    assertions_of,
)
from factmem.scopes import MemoryScope

__all__ = ["MemoryProcessor"]

_log = logging.getLogger("factmem")

_DEEPEST_PROPOSAL: Final = 32
"""No model needs more levels of scopes; a tree without a bottom is of no use to anybody."""


class MemoryProcessor(MemoryWriter, abc.ABC):
    """Reads words that wait. Each batch is applied in one transaction; what fails is kept as it was said."""

    @abc.abstractmethod
    def as_viewer(self, viewer: str | None) -> Self:
        """Return this memory as another viewer sees it."""

    async def _process(self, units: Sequence[Unit]) -> list[Remembered | FactMemError]:
        """Read words that wait, all of one owner; return what became of each, or why it could not be read.

        They are read as their owner sees the store: neither a question nor an answer about public words knows of
        anything private. Nothing is written for a unit that could not be read: it waits on.
        """
        owner = units[0].given.owner
        if owner != self._reading.viewer:
            return await self.as_viewer(owner)._process(units)
        return await self._read_all(units)

    @operation(Operation.READ)
    async def _read_all(self, units: Sequence[Unit]) -> list[Remembered | FactMemError]:
        found = await self._found(units)
        readable = [item for item in found if isinstance(item, Finding)]
        results: dict[str, Remembered | FactMemError] = {}
        for manner in dict.fromkeys(manner_of(item) for item in readable):
            results |= await self._applied_or_single([item for item in readable if manner_of(item) == manner])
        return [
            item if isinstance(item, FactMemError) else results[unit.errand.id]
            for unit, item in zip(units, found, strict=True)
        ]

    async def _give_up(self, unit: Unit, error: FactMemError) -> Remembered:
        """Keep words as they were said, marked as unread."""
        failure = type(error).__name__
        left: Sequence[Recorded] = unit.words if unit.waiting else ()
        while left:
            requests = [
                StateRequest(
                    assertion_id=recorded.id,
                    state=AssertionState.FAILED,
                    reason=failure,
                    expected=AssertionState.PENDING,
                )
                for recorded in left
            ]
            try:
                await self._commit(requests)
                break
            except (StateConflictError, RecordNotFoundError):  # somebody has read or forgotten some of them meanwhile
                left = await self._left_of(unit)
        told = await self._standing(unit.words)
        return attrs.evolve(told, failure=failure) if left or not unit.waiting else told

    async def _standing(self, words: Sequence[Recorded]) -> Remembered:
        """Return what is known by now of words, whoever read them."""
        messages = {message_of(recorded.assertion.details) for recorded in words} - {None}
        conversations = [message[0] for message in messages if message is not None and message[0] is not None]
        named = len(conversations) == len(messages)
        log = await self._seen_log(LogPart(conversations=conversations, related=True) if named else None)
        visible = await to_thread.run_sync(fold, log, self._moment())
        rows = [row for row in visible if any(cited_message(item) in messages for item in row.details.evidence)]
        return Remembered(records=tuple(hydrate(row, self._reading.concepts) for row in rows))

    async def _found(self, units: Sequence[Unit]) -> list[Finding | FactMemError]:
        found: list[Finding | FactMemError] = [ModelError("not read yet")] * len(units)
        limit = anyio.Semaphore(self._writing.concurrency)
        in_use = await self.info() if any(unit.errand.infer for unit in units) else None

        async def read(number: int, unit: Unit) -> None:
            async with limit:
                try:
                    found[number] = await self._read(unit, in_use)
                except FactMemError as error:
                    found[number] = error
                except Exception as error:  # a detector of somebody's own may raise what it likes
                    found[number] = ModelError(f"the detector or analyst failed: {type(error).__name__}")

        async with anyio.create_task_group() as tasks:
            for number, unit in enumerate(units):
                tasks.start_soon(read, number, unit)
        return found

    async def _read(self, unit: Unit, in_use: ScopeInfo | None) -> Finding:
        match unit.errand.kind:
            case ErrandKind.DETECT:
                return await self._detected(unit)
            case ErrandKind.KEEP:
                return await self._analysed(unit, in_use)
            case ErrandKind.CONSOLIDATE:
                return Finding(unit=unit, newcomers=tuple((read_words(item), False) for item in unit.words))

    async def _detected(self, unit: Unit) -> Finding:
        conversation = await to_thread.run_sync(rebuilt, in_order((*unit.context, *unit.words)), self._treated(unit))
        here = await self._visible(RecallFilter(scope=unit.place.scope, exact=True, reviewed=True))
        request = attrs.evolve(unit.errand.request, in_use=self._in_use(unit, here))
        with nested(Operation.DETECT, records_in=len(conversation.messages)) as call:
            detection = await self._writing.detector.detect(conversation, request)
            call.gave(len(detection.candidates))
        positions = {
            message_of(item.assertion.details): item.assertion.details
            for item in unit.words
            if not item.assertion.only_shown
        }
        shown = {message_of(item.assertion.details) for item in (*unit.context, *unit.words)}
        newcomers: list[tuple[Assertion, bool]] = []
        dropped = Counter(detection.dropped)
        for candidate in detection.candidates:
            message = message_of(candidate.details)
            if message in positions:
                said = self._asserted(candidate, unit, positions[message], here)
                newcomers += [(assertion, candidate.removed) for assertion in said]
            elif message not in shown:
                dropped[DropReason.QUOTE_NOT_FOUND] += 1
        return Finding(unit=unit, newcomers=tuple(newcomers), dropped=dict(dropped))

    def _treated(self, unit: Unit) -> Callable[[Recorded], Treatment | None]:
        """Return the treatment of each of a unit's words; earlier ones are context, where a model may see them."""
        origins = self._writing.origins

        def treated(recorded: Recorded) -> Treatment | None:
            own, origin = treatment_of(recorded), recorded.assertion.details.origin
            if recorded.id in unit.ids:
                return own
            return Treatment.CONTEXT if origins.shows(own or origins.of(origin), origin) else Treatment.IGNORE

        return treated

    def _asserted(
        self, candidate: Candidate, unit: Unit, words: FactDetails, here: Sequence[Current]
    ) -> tuple[Assertion, ...]:
        place = Place(candidate.subject or unit.place.subject, unit.place.scope)
        position = words.evidence[0].position
        evidence = tuple(attrs.evolve(item, position=position) for item in candidate.details.evidence)
        details = detailed(unit.given, attrs.evolve(candidate.details, evidence=evidence))
        fact = self._dated(candidate.fact)
        if candidate.cleared is not None and (
            gone := removals(candidate.cleared, place, details, fact.timestamp, here)
        ):
            return gone
        # What a statement asks to be forgotten is not itself what is no more.
        removed = candidate.removed and fact.concept.keyword != STATEMENT.keyword
        state = AssertionState.QUARANTINED if candidate.quarantined else AssertionState.ACTIVE
        return tuple(
            attrs.evolve(said, state=state, actor=unit.words[0].assertion.actor)
            for said in assertions_of(fact, place, details, removed=removed)
        )

    async def _analysed(self, unit: Unit, in_use: ScopeInfo | None) -> Finding:
        analysis = await self._analysis(unit, in_use)
        place = Place(unit.place.subject, self._proposed(analysis.scope, unit.place.scope))
        return Finding(
            unit=unit,
            newcomers=tuple(
                (
                    attrs.evolve(
                        read_words(item), place=place, details=analysed_details(analysis, item.assertion.details)
                    ),
                    False,
                )
                for item in unit.words
            ),
        )

    async def _analysis(self, unit: Unit, in_use: ScopeInfo | None) -> Analysis:
        text = "\n\n".join(item.assertion.details.evidence[0].quote for item in unit.words)
        return Analysis() if in_use is None else await self._analysed_text(text, unit.errand.infer, in_use)

    async def _analysed_text(self, text: str, infer: Sequence[str], in_use: ScopeInfo) -> Analysis:
        analyst = self._writing.analyst
        if not infer or analyst is None:
            return Analysis()
        with nested(Operation.ANALYSE, records_in=1):
            analysis = await analyst.analyse(
                text,
                AnalysisRequest(
                    scope="scope" in infer,
                    categories="categories" in infer,
                    importance="importance" in infer,
                    scopes_in_use=tuple(map(str, in_use.scopes)),
                    categories_in_use=in_use.categories,
                ),
            )
        return attrs.evolve(
            analysis,
            scope=analysis.scope if "scope" in infer else None,
            categories=analysis.categories if "categories" in infer else (),
            importance=analysis.importance if "importance" in infer else None,
        )

    def _proposed(self, path: str | None, otherwise: MemoryScope) -> MemoryScope:
        """A model's proposal is a wish: a path that is not legal, or far too deep, leaves the words where they are."""
        if not path or ".." in path.split("/") or path.count("/") > _DEEPEST_PROPOSAL:
            return otherwise
        try:
            return self._scope(path)
        except InvalidDataError:
            return otherwise

    def _in_use(self, unit: Unit, here: Sequence[Current]) -> tuple[Concept[Any, Any], ...]:
        request = unit.errand.request
        subjects = {subject.key for subject in request.subjects} | {unit.place.subject.key}
        declared = self._reading.concepts
        found = {
            row.recorded.assertion.keyword: hydrate(row, declared).concept
            for row in here
            if row.recorded.assertion.place.subject.key in subjects
        }
        found.pop(STATEMENT.keyword, None)
        return tuple((dict(declared) | found).values())

    async def _applied_or_single(
        self, found: Sequence[Finding], *, tries: int = 5
    ) -> dict[str, Remembered | FactMemError]:
        """Apply findings in one transaction; where one of them stands in the way, by halves down to that one."""
        try:
            return dict(await self._applied(found))
        except (StateConflictError, RecordNotFoundError, ConceptConflictError, EmbedderError, ModelError) as error:
            if len(found) > 1:
                middle = len(found) // 2
                first = await self._applied_or_single(found[:middle])
                return first | await self._applied_or_single(found[middle:])
            (unit,) = (item.unit for item in found)
            if not isinstance(error, StateConflictError | RecordNotFoundError):
                return {unit.errand.id: error}
            left = await self._left_of(unit)
            if left != unit.words:
                return {unit.errand.id: await self._read_left(unit, left)}
            if tries > 1:  # what it was compared with has changed meanwhile
                return await self._applied_or_single(found, tries=tries - 1)
            return {unit.errand.id: error}

    async def _left_of(self, unit: Unit) -> tuple[Recorded, ...]:
        """Return the words of a unit that nobody has read or forgotten yet."""
        if not unit.waiting:
            return await self._not_forgotten(unit.words)
        waiting = {recorded.id for recorded in await self._entries_in((AssertionState.PENDING,))}
        return tuple(recorded for recorded in unit.words if recorded.id in waiting)

    async def _not_forgotten(self, words: Iterable[Recorded]) -> tuple[Recorded, ...]:
        wanted = {recorded.id: recorded for recorded in words}
        there = {entry.id for entry in await self._visible_log(LogPart(ids=wanted))}
        return tuple(recorded for id, recorded in wanted.items() if id in there)

    async def _read_left(self, unit: Unit, left: tuple[Recorded, ...]) -> Remembered | FactMemError:
        """Read the rest of a unit of which somebody else has read a part; that part is read along, if it is there."""
        if not left:
            return await self._standing(unit.words)
        read = [recorded for recorded in unit.words if recorded not in left]
        context = in_order(await self._not_forgotten((*unit.context, *read)))
        (result,) = await self._process([attrs.evolve(unit, words=left, context=context)])
        if isinstance(result, FactMemError):
            return result
        return attrs.evolve(result, records=(await self._standing(unit.words)).records)

    async def _applied(self, found: Sequence[Finding]) -> dict[str, Remembered]:
        words = {recorded.id: recorded for item in found if item.unit.waiting for recorded in item.unit.words}
        await self._check_not_forgotten(found)
        newcomers = await self._newcomers(found)
        places = {item.assertion.place.key for item in newcomers}
        planned = await self._planned(newcomers, places, words.keys(), found[0].unit.errand)
        before = await self._rows(places, without=words.keys())
        # Before it is settled which words stand: those that last for a time only need a revision that says so.
        lasting = attrs.evolve(planned, statements=tuple(map(self._lasting_as_generated, planned.statements)))
        statements = [
            *transaction(lasting, words, keep=self._kept_words(found, planned)),
            *await self._taken_back(found, planned, places, words.keys()),
        ]
        receipts = await self._commit(statements)
        after = await self._rows(places)
        changed = await to_thread.run_sync(changes, before, after, self._reading.concepts)
        apart = kept_apart(statements, receipts, words)
        return await to_thread.run_sync(told, found, after, apart, changed, self._reading.concepts)

    def _kept_words(self, found: Sequence[Finding], planned: Plan) -> frozenset[str]:
        """Return the ids of the words that stay as statements beside what was found in them.

        Those of the user that were read for facts; neither those that ask to forget something, nor what they mean.
        """
        if not self._writing.keep_words:
            return frozenset()
        forgotten, otherwise = forgotten_messages(found, planned), self._writing.origins.user
        return frozenset(
            recorded.id
            for item in found
            if item.unit.errand.kind is ErrandKind.DETECT
            for recorded in item.unit.words
            if recorded.assertion.details.origin is Origin.USER
            and (treatment_of(recorded) or otherwise) is Treatment.FACTS
            and message_of(recorded.assertion.details) not in forgotten
        )

    async def _taken_back(
        self, found: Sequence[Finding], planned: Plan, places: Iterable[tuple[Any, ...]], waiting: Collection[str]
    ) -> list[StateRequest]:
        """Return the requests that take back earlier words with the facts that were found in them."""
        if not any(isinstance(item, StateRequest) or item.assertion.removed for item in planned.statements):
            return []
        log = await self._log_of({*places, *(item.unit.place.key for item in found)})
        return await to_thread.run_sync(words_taken_back, planned.statements, log, self._moment(), waiting)

    async def _check_not_forgotten(self, found: Sequence[Finding]) -> None:
        """Keep what was found in words from outliving them; words that wait are looked after by the transaction."""
        read = [recorded for item in found if not item.unit.waiting for recorded in item.unit.words]
        if len(await self._not_forgotten(read)) < len(read):
            raise RecordNotFoundError("words were forgotten while they were read")

    async def _newcomers(self, found: Sequence[Finding]) -> list[Newcomer]:
        screening = Screening(self._writing.flagged)
        said = [(screening.screened(assertion), removal) for item in found for assertion, removal in item.newcomers]
        vectors = await self._vectors_beside([assertion for assertion, _ in said], found)
        lasts = self._writing.ttl.of(TtlOperation.GENERATE_CREATED) is None
        return [
            Newcomer(assertion=assertion, vector=vector, removal=removal, lasts=lasts)
            for (assertion, removal), vector in zip(said, vectors, strict=True)
        ]

    async def _vectors_beside(self, assertions: Sequence[Assertion], found: Sequence[Finding]) -> list[Any]:
        """Embed what does not read like words that were embedded when they were handed over."""
        await self._corpus(embedded=found[0].unit.errand.consolidate)
        words = [recorded for item in found for recorded in item.unit.words]
        vectors = {indexed_text(recorded.assertion): self._mirror.vector(recorded.id) for recorded in words}
        texts = [indexed_text(assertion) for assertion in assertions]
        new = {text: said for text, said in zip(texts, assertions, strict=True) if vectors.get(text) is None}
        vectors |= dict(zip(new, await self._vectors(list(new.values())), strict=True))
        return [vectors[text] for text in texts]

    async def _planned(
        self,
        newcomers: Sequence[Newcomer],
        places: Iterable[tuple[Any, ...]],
        words: Iterable[str],
        errand: Errand,
    ) -> Plan:
        corpus = await self._corpus(embedded=errand.consolidate)
        wanted = set(places)
        known = await to_thread.run_sync(known_at, corpus, self._reading.viewer, wanted)
        policy = attrs.evolve(self._writing.consolidation, metadata=errand.merge)
        if errand.consolidate:
            newcomers = await to_thread.run_sync(without_duplicates, newcomers, policy)
        consolidator = self._writing.consolidator if errand.consolidate else None
        log = await self._log_of(wanted)
        with nested(Operation.CONSOLIDATE, records_in=len(newcomers)) as call:
            planned = await plan(newcomers, known, consolidator, policy, log=log, leave_out=frozenset(words))
            call.gave(len(planned.statements))
        for error in planned.failures:
            _log.warning("similar statements were not compared (%s); they stand side by side", type(error).__name__)
        return planned

    async def _log_of(self, places: set[tuple[Any, ...]]) -> list[LogEntry]:
        """What the viewer may see of the log of some places."""
        if not places:
            return []
        log = await self._mirror.log(LogPart(kept=RecallFilter(places=places)))
        return await to_thread.run_sync(log_of, log, self._reading.viewer, places)

    def _lasting_as_generated(self, statement: Statement) -> Statement:
        """Let what a model's reading brought about last as long as the policy says."""
        if not isinstance(statement, Append) or statement.assertion.removed:
            return statement  # a removal that expired would bring back what it removed
        said, now, policy = statement.assertion, self._reading.clock(), self._writing.ttl
        inherited = said.details.expires_at
        if said.revises is None:
            expiry = expires_at(policy, TtlOperation.GENERATE_CREATED, now, inherited)
        else:
            expiry = expires_at(policy, TtlOperation.GENERATE_UPDATED, now) or inherited
        details = attrs.evolve(said.details, expires_at=expiry)
        return attrs.evolve(statement, assertion=attrs.evolve(said, details=details))

    async def _rows(self, places: Iterable[tuple[Any, ...]], *, without: Iterable[str] = ()) -> list[Current]:
        """What is current at some places, of what the viewer sees."""
        left_out = frozenset(without)
        log = await self._log_of(set(places))
        kept = [entry for entry in log if not isinstance(entry, Recorded) or entry.id not in left_out]
        return await to_thread.run_sync(fold, kept, self._moment())
