"""`Memory`: the facade that people hold."""

from __future__ import annotations

import copy
import datetime as dt
import logging
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Final, Self

import attrs

from factmem.abc import (
    AgentMemoryProvider,
    Analyst,
    Clock,
    Consolidator,
    Detector,
    Embedder,
    Erases,
    FeedsChanges,
    LanguageModel,
    MemoryObserver,
    QuestionAnalyst,
    Receipt,
    system_clock,
)
from factmem.consolidation import ConsolidationPolicy, InstructorConsolidator
from factmem.detection import (
    InstructorAnalyst,
    InstructorDetector,
    InstructorQuestionAnalyst,
    OriginPolicy,
    VerbatimDetector,
    redact,
)
from factmem.errors import InvalidDataError, OutOfViewError
from factmem.facts import Concept
from factmem.fold import Moment, states_of
from factmem.memory.accesses import AccessCounts, keeper_of
from factmem.memory.arguments import check_parts, check_store, listed, observers_in
from factmem.memory.auditing import MemoryAuditing
from factmem.memory.erasing import MemoryErasing
from factmem.memory.exchange import ImportReceipt, doubted, export_log, import_log
from factmem.memory.expiry import TtlPolicy
from factmem.memory.filtering import check_range
from factmem.memory.handover import Background, MemoryEvent, Worker
from factmem.memory.lifecycle import MemoryLifecycle
from factmem.memory.observed import observed
from factmem.memory.reading import MemoryReader, MomentReader
from factmem.memory.screening import FlaggedPolicy
from factmem.memory.streams import MemoryStreaming
from factmem.memory.viewing import Reading, View
from factmem.memory.writing import FuturePolicy, Writing
from factmem.names import checked_name
from factmem.observing import Observation
from factmem.providers import open_provider
from factmem.recall import (
    BoundedEmbedder,
    Corpus,
    DeepSettings,
    Mirror,
    RecallFilter,
    RecallSettings,
    default_embedder,
    log_source,
)
from factmem.records import Assertion, AssertionState, Place, Recorded
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

__all__ = ["Memory"]

_log = logging.getLogger("factmem")
_BETWEEN_EXPIRIES: Final = dt.timedelta(days=1)
_FOR_EVER: Final = TtlPolicy()
_CONSOLIDATION: Final = ConsolidationPolicy()
_DEEP: Final = DeepSettings()
_BACKGROUND: Final = Background()


@observed()
class Memory(MemoryStreaming, MemoryAuditing, MemoryLifecycle, MemoryErasing):
    """A tenant's memory: save, remember, recall, forget, explore. Opened with ``async with``.

    ::

        async with Memory("sqlite-vec:facts.db") as memory:
            await memory.save(SingleFact(SEATS, 5), subject=USER, scope="/product/alpha")
            fact = await memory.load(SEATS, subject=USER, scope="/product/alpha")

    Args:
        store: an address for `factmem.providers.open_provider`, or a provider; a provider that was
            handed in is not closed with the memory.
        organization: the tenant; nothing of any other organisation is ever seen or touched.
        viewer: who reads and owns private facts; sees what is public and what is their own.
        concepts: concepts in use, so that records of them are read with their types.
        subjects: where to look in a provider that has the four verbs only: these subjects …
        scopes: … in each of these scopes.
        embedder: makes the vectors; the offline default if None.
        embedder_timeout: seconds that one answer of the embedder may take, of at most 256 texts; any number if None.
            Where it fails or takes longer, recall goes by words alone and says so, and what is saved is embedded
            when it is back.
        model: reads what is remembered: a detector, an analyst, a consolidator and a question analyst that ask it
            are made for whichever of these is not given. None to work without any model, offline.
        detector: finds facts in conversations; without it and a model, they are kept word for word.
        analyst: says what texts are about.
        consolidator: says what new statements do to similar ones that are known.
        question_analyst: takes questions apart for deep recall, and says what is missing.
        consolidation: how those are compared.
        keep_words: keep the user's words as statements beside the facts that a model finds in them. Otherwise they are
            retracted once they were read, and only facts and statements about the topics asked for are recalled.
        origins: treatment of messages by their origin; that of an `InstructorDetector` that is given if None, else
            the default of `OriginPolicy`.
        background: how `remember_many` and its kin are read.
        on_event: is called with every `MemoryEvent` about words that are public or this viewer's own.
        observers: are told of every operation of this memory and of its views; see `MemoryObserver`. They are the
            program's: they hear how much was done for every viewer, and never what was said.
        observed_content: give observers the arguments and results of what the program calls as well.
        access_statistics: count how often records are recalled, and when last; see `accesses`. They are counted in
            memory and written in the background, some hundreds at a time or after half a minute, and at the end; a
            process that is killed loses what it has not written.
        settings: what weighs in recall.
        deep: when deep recall asks the model.
        read_only: refuse every write.
        future: what to do with timestamps from the future.
        clock_skew: how far into the future a timestamp may lie.
        ttl: how long memories last; for ever, if it says nothing.
        flagged: treatment of text that reads like an instruction or hides something; see `with_flagged`.
        actor: who writes, for the audit trail; the viewer, if nobody is named.
        memory_limit: how many bytes embeddings may take in memory, any number if None; where they would take more,
            each recall reads them from the store: slower, with the same results.
        clock: the present.

    Raises:
        UnknownProviderError: the address names no installed provider.
        CapabilityError: accesses are to be counted, or memory is limited, and the provider is not made for it.
        InvalidDataError: something is not what it says here, such as a name in place of a model; accesses are to
            be counted by a memory that is read-only; or the detector has another policy of origins than this memory.
    """

    def __init__(
        self,
        store: str | AgentMemoryProvider,
        *,
        organization: str | None = None,
        viewer: str | None = None,
        concepts: Iterable[Concept[Any, Any]] = (),
        subjects: Sequence[MemorySubject] = (MemorySubject.EVERYTHING,),
        scopes: Sequence[MemoryScope | str] = (MemoryScope.CROSS_PRODUCT,),
        embedder: Embedder | None = None,
        embedder_timeout: float | None = 30.0,
        model: LanguageModel | None = None,
        detector: Detector | None = None,
        analyst: Analyst | None = None,
        consolidator: Consolidator | None = None,
        question_analyst: QuestionAnalyst | None = None,
        consolidation: ConsolidationPolicy = _CONSOLIDATION,
        keep_words: bool = True,
        origins: OriginPolicy | None = None,
        background: Background = _BACKGROUND,
        on_event: Callable[[MemoryEvent], None] | None = None,
        observers: Iterable[MemoryObserver] = (),
        observed_content: bool = False,
        access_statistics: bool = False,
        settings: RecallSettings | None = None,
        deep: DeepSettings = _DEEP,
        read_only: bool = False,
        future: FuturePolicy = FuturePolicy.REFUSE,
        clock_skew: dt.timedelta = dt.timedelta(minutes=5),
        ttl: TtlPolicy = _FOR_EVER,
        flagged: FlaggedPolicy = FlaggedPolicy.QUARANTINE_OTHERS,
        actor: str | None = None,
        memory_limit: int | None = None,
        clock: Clock = system_clock,
    ) -> None:
        if organization is not None:
            checked_name(organization, what="an organization")
        if viewer is not None:
            checked_name(viewer, what="a viewer")
        if actor is not None:
            checked_name(actor, what="an actor")
        check_range(memory_limit=memory_limit)
        check_store(store)
        check_parts(embedder=embedder, model=model, detector=detector, analyst=analyst)
        check_parts(consolidator=consolidator, question_analyst=question_analyst)
        observing = observers_in(observers)
        declared = listed("concepts", concepts, Concept)
        self._owned = isinstance(store, str)
        self._provider = open_provider(store) if isinstance(store, str) else store
        if access_statistics and read_only:
            raise InvalidDataError("a read-only memory writes nothing: leave access_statistics out, or read_only")
        reading = Reading(
            tenant=organization,
            viewer=viewer,
            concepts={concept.keyword: concept for concept in declared},
            settings=settings or RecallSettings(),
            question_analyst=question_analyst or (InstructorQuestionAnalyst(model) if model else None),
            deep=deep,
            clock=clock,
            observation=Observation(observers=observing, tenant=organization, content=observed_content)
            if observing
            else None,
            accesses=AccessCounts(keeper_of(self._provider), organization, clock) if access_statistics else None,
        )
        within = [reading.anchored(scope) for scope in listed("scopes", scopes, MemoryScope, str)]
        about = listed("subjects", subjects, MemorySubject)
        places = [Place(subject, scope) for subject in about for scope in within if scope is not None]
        if embedder_timeout is not None and not embedder_timeout > 0:
            raise InvalidDataError(
                "embedder_timeout is a number of seconds above 0, or None", path="$.embedder_timeout"
            )
        embedder = BoundedEmbedder(embedder or default_embedder(), embedder_timeout)
        mirror = Mirror(
            log_source(self._provider, organization, places),
            self._provider,
            embedder,
            tenant=organization,
            clock=clock,
            memory_limit=memory_limit,
        )
        policy = _origins(origins, detector)
        writing = Writing(
            provider=self._provider,
            detector=detector or _detector(model, policy, clock),
            analyst=analyst or (InstructorAnalyst(model) if model else None),
            consolidator=consolidator or (InstructorConsolidator(model, redact=_redacted) if model else None),
            consolidation=consolidation,
            keep_words=keep_words,
            origins=policy,
            concurrency=background.concurrency,
            read_only=read_only,
            future=future,
            clock_skew=clock_skew,
            ttl=ttl,
            flagged=flagged,
            actor=actor,
        )
        super().__init__(reading, writing, mirror, embedder)
        self._worker = Worker(background, on_event, viewer=viewer)
        if reading.accesses is not None:
            reading.accesses.begin = self._worker.start

    async def __aenter__(self) -> Self:
        await self._worker.__aenter__()
        if self._reads_words and isinstance(self._provider, FeedsChanges):
            self._worker.start(self.resume)
        erases = isinstance(self._provider, FeedsChanges) and isinstance(self._provider, Erases)
        if erases and not self._writing.read_only:
            self._worker.start(self._keep_expiring)
        return self

    async def _keep_expiring(self) -> None:
        """Erase what has expired, now and once a day while this memory is open."""
        while True:
            try:
                await self._expire_by_itself()
            except Exception as error:  # it is out of sight already, and nobody waits for this
                if self._worker.running:
                    _log.warning("what has expired could not be erased, and will be later: %s", type(error).__name__)
            if not await self._worker.rest(_BETWEEN_EXPIRIES):
                return

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            await self._worker.__aexit__(exc_type, exc, traceback)
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Write what is counted, and close the store, if this memory opened it."""
        try:
            if self._reading.accesses is not None:
                await self._reading.accesses.write()
        finally:
            if self._owned:
                await self._provider.aclose()

    def as_viewer(self, viewer: str | None) -> Self:
        """Return this memory as another viewer sees it, over the same store and the same mirror."""
        if viewer is not None:
            checked_name(viewer, what="a viewer")
        other = copy.copy(self)
        other._reading = attrs.evolve(self._reading, viewer=viewer)
        other._owned = False
        return other

    def acting_as(self, actor: str) -> Self:
        """Return this memory as somebody else uses it, who is named in the audit trail of what they write."""
        other = copy.copy(self)
        other._writing = attrs.evolve(self._writing, actor=checked_name(actor, what="an actor"))
        other._owned = False
        return other

    def with_flagged(self, policy: FlaggedPolicy) -> Self:
        """Return this memory with another treatment of flagged text, over the same store and the same mirror.

        Args:
            policy: The treatment of what is saved through the returned memory.
        """
        if not isinstance(policy, FlaggedPolicy):
            raise InvalidDataError(f"the policy is a FlaggedPolicy, not a {type(policy).__name__}", path="$.policy")
        other = copy.copy(self)
        other._writing = attrs.evolve(self._writing, flagged=policy)
        other._owned = False
        return other

    def reviewed(self) -> Self:
        """Return a view of this memory for prompts: without flagged text that was kept as it was given.

        See `FactDetails.unreviewed`. Views of the view leave it out as well.
        """
        other = copy.copy(self)
        other._reading = attrs.evolve(self._reading, reviewed=True)
        other._owned = False
        return other

    def scope(self, scope: MemoryScope | str, *, read_only: bool = False) -> Self:
        """Return a view of one scope and its subtree: this memory, as if there were nothing else.

        What is handed in without a scope is kept in that one. Paths mean what they mean everywhere:
        they are not relative to the view, and one that leads out of it raises `OutOfViewError`.

        Args:
            scope: the view's scope.
            read_only: refuse every write.
        """
        return self.slice([scope], read_only=read_only)

    def slice(
        self,
        scopes: Iterable[MemoryScope | str],
        *,
        exact: Iterable[MemoryScope | str] = (),
        read_only: bool = True,
    ) -> Self:
        """Return a view of several scopes; see `scope`. A view of a view only narrows it.

        Args:
            scopes: scopes of the view, with their subtrees.
            exact: more of them, without what lies below.
            read_only: refuse every write; it does, unless something else is said.

        Raises:
            InvalidDataError: there is no scope.
            OutOfViewError: a scope lies outside of this view.
        """
        if isinstance(scopes, str):
            raise InvalidDataError("a slice takes several scopes: [scope, ...]; for a single one there is scope()")
        view = View(
            roots=tuple(dict.fromkeys(map(self._scope, scopes))), exact=tuple(dict.fromkeys(map(self._scope, exact)))
        )
        if not (view.roots or view.exact):
            raise InvalidDataError("a view needs a scope: one of nothing shows nothing")
        if self._reading.view is not None:
            view = self._reading.view.narrowed(view)
        other = copy.copy(self)
        other._reading = attrs.evolve(self._reading, view=view)
        other._writing = attrs.evolve(self._writing, read_only=read_only or self._writing.read_only)
        other._owned = False
        return other

    async def reembed(self) -> int:
        """Bind the store to this memory's embedder and embed everything anew; return how many records are visible.

        Raises:
            EmbedderError: the embedder failed; if it was away from the start, the store is as it was.
            OutOfViewError: this is a view, and a store has one embedder only.
        """
        self._check_writable()
        if self._reading.view is not None:
            raise OutOfViewError("a view cannot embed the whole store anew: ask the memory that it was made of")
        await self._mirror.reembed()
        return len(await self._visible(RecallFilter()))

    async def import_(
        self, source: Path | str | IO[str], *, trust: bool = False, progress: Callable[[int], None] | None = None
    ) -> ImportReceipt:
        """Take in what `export` wrote; what is there already stays as it is.

        A file says of itself what is believed in it. All of it is quarantined until somebody lets it in, unless the
        caller trusts the file. A log line warns of what waits.

        Args:
            source: A file of JSON Lines, or its path.
            trust: Believe what the file says is believed, such as a backup of one's own. What an earlier import of
                the same put into quarantine is let in.
            progress: A function that is called with the number of lines taken in so far.

        Returns:
            The number of assertions that are new, and of those that wait in quarantine.

        Raises:
            CodecError: A line is malformed; what came before it is kept.
            InvalidDataError: It is not trusted and holds what somebody else keeps private; the same.
        """
        self._check_writable()
        seen: set[str] = set()
        imported = let_in = 0

        def admit(said: Assertion) -> Assertion:
            actor = ":".join(filter(None, ("import", self._actor)))
            said = attrs.evolve(said, actor=actor)
            if trust:
                return said
            self._owned_details(said.details, private=False)
            return doubted(said)

        async def append(assertions: Sequence[Assertion]) -> list[Recorded]:
            nonlocal imported, let_in
            receipts = await self._receipts(assertions)
            visible = [receipt for receipt in receipts if self._reading.sees(receipt.recorded.assertion)]
            imported += sum(receipt.new for receipt in visible)
            seen.update(receipt.recorded.id for receipt in visible)
            if trust:
                let_in += await self._let_in(assertions, receipts)
            return [receipt.recorded for receipt in receipts]

        await import_log(source, append, tenant=self._reading.tenant, admit=admit, trust=trust, progress=progress)
        apart = await self._kept_apart() if seen else ()
        quarantined = sum(entry.id in seen and state is AssertionState.QUARANTINED for entry, state in apart)
        if quarantined:
            _log.warning(
                "%d imported assertions wait in quarantine and are not recalled: let them in%s",
                quarantined,
                "" if trust else ", or import the file again with trust if it is your own",
            )
        return ImportReceipt(imported=imported, quarantined=quarantined, let_in=let_in)

    async def _let_in(self, assertions: Sequence[Assertion], receipts: Sequence[Receipt]) -> int:
        """Let in what is trusted and waits in quarantine since an earlier import; return the number."""
        known = {
            receipt.recorded.id
            for receipt, said in zip(receipts, assertions, strict=True)
            if not receipt.new and said.state is AssertionState.ACTIVE
        }
        if not known:
            return 0
        waiting = AssertionState.QUARANTINED
        apart = [entry for entry, state in await self._kept_apart() if state is waiting and entry.id in known]
        await self._change_states(apart, AssertionState.ACTIVE, "imported from a trusted file")
        return len(apart)

    async def export(self, target: Path | str | IO[str]) -> int:
        """Write everything that the viewer may see, with its history, as JSON Lines; return how many lines.

        Args:
            target: a file opened for writing, or a path.
        """
        log = await self._mirror.log()
        return await export_log(target, await self._visible_log(), states_of(log))

    def as_of(self, when: dt.datetime) -> MemoryReader:
        """Return this memory as of a time: only what had been *said* by then."""
        return self._at(Moment(now=self._reading.clock(), as_of=_aware(when)))

    def known_at(self, when: dt.datetime) -> MemoryReader:
        """Return this memory as it was at a time: only what had been *recorded* by then."""
        return self._at(Moment(now=self._reading.clock(), known_at=_aware(when)))

    def _at(self, moment: Moment) -> MemoryReader:
        return MomentReader(self._reading, self._mirror, self._embedder, moment)

    async def _corpus(self, *, embedded: bool = False) -> Corpus:
        return await self._mirror.corpus(embedded=embedded)

    def _at_once(self, *, embedded: bool) -> Corpus | None:
        return self._mirror.up_to_date(embedded=embedded)

    def _moment(self) -> Moment:
        return Moment(now=self._reading.clock())


def _origins(origins: OriginPolicy | None, detector: Detector | None) -> OriginPolicy:
    """Return the treatment of messages by their origin; a detector of ours may have been given one of its own."""
    if origins is not None and not isinstance(origins, OriginPolicy):
        raise InvalidDataError(
            f"origins is an OriginPolicy(assistant=Treatment.…), not a {type(origins).__name__}", path="$.origins"
        )
    own = detector.origins if isinstance(detector, InstructorDetector) else None
    if origins is not None and own not in (None, origins):
        raise InvalidDataError(
            "the detector has an OriginPolicy of its own: give origins to it, or to the memory, not to both",
            path="$.origins",
        )
    return origins or own or OriginPolicy()


def _detector(model: LanguageModel | None, origins: OriginPolicy, clock: Clock) -> Detector:
    return VerbatimDetector(clock=clock) if model is None else InstructorDetector(model, clock=clock, origins=origins)


def _redacted(text: str) -> str:
    return redact(text).text


def _aware(when: dt.datetime) -> dt.datetime:
    if not isinstance(when, dt.datetime) or when.tzinfo is None:
        raise InvalidDataError("the time needs a time zone, for example datetime(2026, 5, 1, tzinfo=UTC)")
    return when
