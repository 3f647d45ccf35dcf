"""`Memory`: every public method, its signature and its documentation. Other modules of this package do the work."""

from __future__ import annotations

import datetime as dt
import enum
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import NoneType, TracebackType
from typing import TYPE_CHECKING, Any, Final, Literal, Self, TypeAlias, TypeVar, Unpack, overload

import anyio
import attrs

from factmem.abc import Consolidator, Detector, MemoryObserver, Reranker, Verifier, system_clock
from factmem.abc.analyst import Analyst
from factmem.abc.clock import Clock
from factmem.abc.detector import Message
from factmem.abc.embedder import Embedder
from factmem.abc.media import MediaReader
from factmem.abc.model import LanguageModel
from factmem.abc.observer import Operation
from factmem.abc.provider import AgentMemoryProvider
from factmem.abc.question_analyst import QuestionAnalyst
from factmem.changes import Change
from factmem.details import FactDetails
from factmem.error_hints import hinted, kind_of, missing_attribute, taking_one_fact
from factmem.errors import FactMemError, IncompleteProfileError, InvalidDataError, OutOfViewError, ProviderClosedError
from factmem.facts import AnyFact, Concept, Fact, FactT, MultipleFacts, SingleFact
from factmem.legal_names import checked_name
from factmem.memory.admin import Admin
from factmem.memory.argument_checks import (
    ModelParts,
    as_media_reader,
    as_model,
    as_provider,
    as_verifier,
    check_parts,
    observers_in,
    policies_for,
)
from factmem.memory.backend import AccessCounts, Backend, log_of
from factmem.memory.background import Background, MemoryEvent, Remembered, Submission, Worker
from factmem.memory.context import Context, Policies, PolicyChanges
from factmem.memory.eraser import Eraser, Erasure
from factmem.memory.filters import Filters, Listing, RecordOrder, RecordPage
from factmem.memory.inbox import Inbox
from factmem.memory.moves import refuse_unfinished
from factmem.memory.operations import observed, operation
from factmem.memory.profiles import PartialProfile, ProfileSchema, ProfileSource, schemas_of, united
from factmem.memory.reader import Reader
from factmem.memory.recaller import RecallDepth, Recaller
from factmem.memory.remembering import Rememberer
from factmem.memory.submitted import About, ReadyFact, StoredSession, Words
from factmem.memory.writer import Updates, Writer
from factmem.observing import Observation
from factmem.recall import DeepSettings
from factmem.recall.adopted_embedders import ForeignEmbedder, as_embedder
from factmem.recall.embedders import BoundedEmbedder, default_embedder
from factmem.recall.index.mirror import Mirror
from factmem.recall.index.selection import LogPart
from factmem.recall.index.source import log_source
from factmem.recall.results import RecallMatches
from factmem.recall.scoring import RecallSettings
from factmem.records import AssertionState, FactRecord, LogEntry, Place, Recorded
from factmem.reranking import Reranking
from factmem.reranking.rerankers import ForeignReranker, as_reranker
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.validators import check_instance, check_seconds, check_whole, listed

if TYPE_CHECKING:
    from factmem.llm.host_models import ForeignModel

_log = logging.getLogger("factmem")

ProfileT = TypeVar("ProfileT")
T = TypeVar("T")


class _Unset(enum.Enum):
    UNSET = "unset"


Unset: TypeAlias = Literal[_Unset.UNSET]
"""Type of an argument that was not given, where None has a meaning."""

UNSET: Final = _Unset.UNSET

_BETWEEN_EXPIRIES: Final = dt.timedelta(days=1)
_BETWEEN_LOOKS: Final = dt.timedelta(minutes=1)
"""Longest time that an open memory holds words that another process has forgotten."""

_POLICIES: Final = Policies()
_DEEP: Final = DeepSettings()
_BACKGROUND: Final = Background()
_RERANKING: Final = Reranking()


@hinted
@observed()
class Memory:
    """A tenant's memory: save, remember, recall, forget, explore. Opened with ``async with``.

        async with Memory("facts.db") as memory:
            await memory.save(SingleFact(SEATS, 5), subject="user", scope="/product/alpha")
            fact = await memory.load(SEATS, subject="user", scope="/product/alpha")

    A memory is a frozen context (tenant, viewer, view, policies, …) over a backend (store, mirror, models, worker).
    `view`, and for short `scope` and `for_user`, return views: the same backend under another context. A view lives as
    long as its memory is open. `inbox` and `admin` hold the methods for everything besides facts.

    At its end, ``async with`` waits until all submitted words are read, however long the model takes. After an
    exception, or a time limit around it (`anyio.move_on_after`, `asyncio.timeout`), the rest waits in the store for the
    next process that opens the store with a model. Any task of the event loop may close a memory.

    A memory serves one event loop at a time: another loop gets `WrongLoopError` until the first one has ended or the
    memory is closed. Open one in each loop over the same store; threads without a loop share a `BlockingMemory`.

    A scope may be a path such as ``"/product/alpha"``, and includes its subtree unless ``exact=True``. Reads, views and
    erasures also take a whole branch such as ``"/product"``, and ``"/"`` for everything. Every write raises
    `ReadOnlyError` on a read-only memory and on a view of the past.

    Args:
        store: An address for `factmem.open_provider`, a path, or a provider; the user's default store, as on the
            command line, if None. A provider passed as an object is not closed with the memory.
        organization: The tenant. Data of other organizations is never read or written.
        viewer: The reader and owner of private facts; sees public facts and their own.
        concepts: Declared concepts: their records are read with their types.
        profiles: Profiles that every detection also fills: attrs classes, pydantic models, JSON Schemas with a title,
            or a `ProfileSchema` of one. Their fields are declared concepts.
        subjects: Declared subjects: a text such as ``"user:alice"`` gets the priority and description of its declared
            subject. In a provider with the four verbs only, these subjects are searched.
        scopes: Scopes to search in a provider with the four verbs only.
        embedder: Embedder of texts: an embedder, a name such as ``"minilm"`` or ``"voyage:voyage-3"``, or an object of
            LangChain (``Embeddings``) or pydantic-ai (``Embedder``); the offline default if None.
        embedder_timeout: Seconds that one answer of the embedder may take, for at most 256 texts; unlimited if None.
            If it fails or takes longer, recall ranks by words alone and reports it, and saved facts are embedded later.
        model: Language model that reads remembered words: a model, its address for `factmem.language_model`, or an
            object of LangChain (a chat model), pydantic-ai or the OpenAI Agents SDK (a ``Model``), with its own
            settings (see `factmem.llm.host_models.HostModel`). It also serves as detector, analyst, verifier,
            consolidator and question analyst, unless these are passed. With None, everything works offline, without a
            model.
        detector: Finds facts in conversations; without a detector and a model, conversations are kept word for word.
        analyst: Infers scope, categories and importance of texts.
        verifier: Confirms findings of a model that are not plainly said, with one more question per reading: a
            verifier, or another model in any form of ``model``. With False, such findings wait in quarantine.
        consolidator: Decides whether a new statement updates or removes similar known ones.
        question_analyst: Splits questions for deep recall.
        reranker: Reorders the best records of each recall by reading them with the question: a reranker, a name such as
            ``"cohere:rerank-v3.5"`` or ``"fastembed:BAAI/bge-reranker-base"`` (see `factmem.reranking`), an object of
            LangChain, ``"model"`` for the memory's language model, or another one. If it fails, results stay in their
            order, and `RecallMatches.failure` gives the reason.
        reranking: Number of records that the reranker reads, its time, weight and budget.
        media_reader: Reads images, sound and video in messages: a reader, or the address of a model such as
            ``google/MODEL`` (see `factmem.llm.media_models.media_reader`). Captions and the text of PDF files need no
            reader.
        policies: Rules for everything that is written: times to live, treatment of origins, of flagged text and of
            timestamps from the future, comparison of statements. A detector made with its own `OriginPolicy` keeps this
            policy.
        background: Settings of background reading.
        on_event: Function called with every `MemoryEvent` about public words or this viewer's own.
        observers: Functions called with every operation of this memory and of its views; see `MemoryObserver`. They see
            the amount of work for every viewer, and never the content.
        observed_content: Pass arguments and results of the program's calls to observers.
        access_statistics: Count the recalls of each record, with the time of the last one; see `Admin.accesses`. Counts
            are written in the background, some hundreds at a time or after half a minute, and at the end. A killed
            process loses unwritten counts.
        settings: Weights of recall.
        deep: Settings of deep recall.
        read_only: Refuse every write.
        actor: The writer named in the audit trail; the viewer if None.
        memory_limit: Maximum number of bytes of embeddings in memory, unlimited if None. Above the limit, each recall
            reads them from the store: slower, with the same results.
        mirror_limit: Maximum number of bytes of all tenants' facts that this process holds in memory for searching,
            unlimited if None. Each open memory holds the facts of its tenant from its first read on. If a read of this
            memory exceeds the limit, the least recently read tenants are dropped, and read from the store again when
            needed, with the same results. The most recent tenant stays, whatever its size. Facts of a provider without
            vectors are then also embedded again.
        clock: Function that returns the present. A store that this memory opens records with this clock; a passed
            provider has its own clock. Open a store with the clock that it was written with: expired facts are erased.

    Raises:
        UnknownProviderError: The address names no installed provider.
        CapabilityError: The provider does not support ``access_statistics`` or ``memory_limit``.
        InvalidDataError: An argument is of another type or contradicts another one.
    """

    def __init__(
        self,
        store: str | Path | AgentMemoryProvider | None = None,
        *,
        organization: str | None = None,
        viewer: str | None = None,
        concepts: Iterable[Concept[Any, Any]] = (),
        profiles: Iterable[ProfileSource] = (),
        subjects: Sequence[MemorySubject | str] = (MemorySubject.EVERYTHING,),
        scopes: Sequence[MemoryScope | str] = (MemoryScope.CROSS_PRODUCT,),
        embedder: Embedder | ForeignEmbedder | str | None = None,
        embedder_timeout: float | None = 30.0,
        model: LanguageModel | ForeignModel | str | None = None,
        detector: Detector | None = None,
        analyst: Analyst | None = None,
        verifier: Verifier | LanguageModel | ForeignModel | str | Literal[False] | None = None,
        consolidator: Consolidator | None = None,
        question_analyst: QuestionAnalyst | None = None,
        reranker: Reranker | ForeignReranker | ForeignModel | LanguageModel | str | None = None,
        reranking: Reranking = _RERANKING,
        media_reader: MediaReader | str | None = None,
        policies: Policies = _POLICIES,
        background: Background = _BACKGROUND,
        on_event: Callable[[MemoryEvent], None] | None = None,
        observers: Iterable[MemoryObserver] = (),
        observed_content: bool = False,
        access_statistics: bool = False,
        settings: RecallSettings | None = None,
        deep: DeepSettings = _DEEP,
        read_only: bool = False,
        actor: str | None = None,
        memory_limit: int | None = None,
        mirror_limit: int | None = 1_000_000_000,
        clock: Clock = system_clock,
    ) -> None:
        for name, what in ((organization, "an organization"), (viewer, "a viewer"), (actor, "an actor")):
            if name is not None:
                checked_name(name, what=what)
        for limit, name in ((memory_limit, "memory_limit"), (mirror_limit, "mirror_limit")):
            if limit is not None:
                check_whole(limit, name)
        check_instance(background, "background", Background)
        check_instance(reranking, "reranking", Reranking)
        if embedder_timeout is not None:
            check_seconds(embedder_timeout, "embedder_timeout")
        if access_statistics and read_only:
            raise InvalidDataError("a read-only memory writes nothing: leave access_statistics out, or read_only")
        policies = policies_for(detector, policies)
        model, embedder = as_model(model), as_embedder(embedder)
        reranker, verifier = as_reranker(reranker, model), as_verifier(verifier)
        media_reader = as_media_reader(media_reader)
        check_parts(
            embedder=embedder,
            model=model,
            detector=detector,
            analyst=analyst,
            verifier=verifier or None,
            consolidator=consolidator,
            question_analyst=question_analyst,
            reranker=reranker,
            media_reader=media_reader,
        )
        observing = observers_in(observers)
        schemas = schemas_of(profiles)
        about = [
            MemorySubject.parse(subject) if isinstance(subject, str) else subject
            for subject in listed("subjects", subjects, MemorySubject, str)
        ]
        context = Context(
            tenant=organization,
            viewer=viewer,
            actor=actor,
            read_only=read_only,
            concepts=united(schemas, listed("concepts", concepts, Concept)),
            profiles=schemas,
            subjects={subject.name: attrs.evolve(subject, individual_name=None) for subject in about},
            settings=RecallSettings() if settings is None else settings,
            deep=deep,
            policies=policies,
            clock=clock,
            observation=Observation(observers=observing, tenant=organization, content=observed_content)
            if observing
            else None,
        )
        within = [context.target(scope) for scope in listed("scopes", scopes, MemoryScope, str)]
        provider = as_provider(store, clock)
        worker = Worker(background, on_event, viewer=viewer)
        bounded = BoundedEmbedder(embedder or default_embedder(), embedder_timeout)
        mirror = Mirror(
            log_source(provider, organization, [Place(subject, scope) for subject in about for scope in within]),
            provider,
            bounded,
            tenant=organization,
            clock=clock,
            memory_limit=memory_limit,
            mirror_limit=mirror_limit,
        )
        asking = ModelParts.of(model, policies.origins, clock)
        backend = Backend(
            provider=provider,
            mirror=mirror,
            embedder=bounded,
            detector=detector or asking.detector,
            analyst=analyst or asking.analyst,
            verifier=asking.verifier if verifier is None else verifier or None,
            consolidator=consolidator or asking.consolidator,
            question_analyst=question_analyst or asking.question_analyst,
            reranker=reranker,
            reranking=reranking,
            media_reader=media_reader,
            worker=worker,
            accesses=AccessCounts(log_of(provider), organization, clock, worker.start) if access_statistics else None,
            concurrency=background.concurrency,
        )
        self._compose(context, backend, owns_store=provider is not store)

    def _compose(self, context: Context, backend: Backend, *, owns_store: bool) -> None:
        self._context = context
        self._backend = backend
        self._owns_store = owns_store
        self._reader = Reader(context, backend)
        self._recaller = Recaller(context, backend)
        self._writer = Writer(context.everybody, backend)
        self._rememberer = Rememberer(context, backend)
        self._eraser = Eraser(context, backend)

    def __repr__(self) -> str:
        context = self._context
        shown = {
            "organization": context.tenant,
            "viewer": context.viewer,
            "scopes": [str(scope.within(None)) for scope in context.view.scopes],
            "read_only": context.read_only,
        }
        settings = "".join(f", {name}={value!r}" for name, value in shown.items() if value)
        return f"Memory({self._backend.provider!r}{settings})"

    def __getstate__(self) -> object:
        raise TypeError("a Memory cannot be pickled or copied: pass its address, and open it there")

    def _view(self, context: Context) -> Self:
        view = type(self).__new__(type(self))
        view._compose(context, self._backend, owns_store=False)
        return view

    if not TYPE_CHECKING:  # a type checker that sees these takes any name, and `with`

        def __getattr__(self, name: str) -> object:
            raise missing_attribute(type(self), name)

        def __enter__(self) -> None:
            raise TypeError(
                "Memory is asynchronous: open it with `async with Memory(…)`, or where there is no event loop with "
                "`with BlockingMemory(Memory(…))`"
            )

        def __exit__(self, *exception: object) -> None: ...

    # -- Life of the memory ---------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        worker = self._backend.worker
        self._backend.enter_loop()
        try:
            await refuse_unfinished(self._backend.provider, self._context.tenant)
        except FactMemError:
            await self.aclose()
            raise
        await worker.__aenter__()
        if not self._backend.four_verbs_only:
            if self._backend.reads_words and not self._context.read_only:
                worker.resume(self.inbox.resume)
            worker.start(self._keep_up)
        return self

    async def _keep_up(self) -> None:
        """Erase expired records now and once a day, and drop from memory what others have forgotten once a minute."""
        worker, due, failures = self._backend.worker, anyio.current_time(), 0
        while True:
            if not self._context.read_only and anyio.current_time() >= due:
                failures = 0 if await self._expire(again=failures > 0) else failures + 1
                if failures != 1:  # after a first failure, at the next look
                    due = anyio.current_time() + _BETWEEN_EXPIRIES.total_seconds()
            if not await worker.rest(min(_BETWEEN_LOOKS, _BETWEEN_EXPIRIES)):
                return
            try:
                await self._backend.mirror.let_go()
            except FactMemError as error:  # the next read reports it to its caller
                _log.debug("the store cannot be read for what others erased: %s", type(error).__name__)

    async def _expire(self, *, again: bool) -> bool:
        """Erase expired records; return whether it worked, or the memory is being closed.

        No caller waits for this, and expired records are invisible already. A first failure is not reported: a store
        that fails reports it to its callers, and a warning would stand above their error.
        """
        try:
            await self._eraser.expire_by_itself()
        except ProviderClosedError:
            return True
        except Exception as error:
            level = logging.WARNING if again and self._backend.worker.running else logging.DEBUG
            _log.log(level, "expired records could not be erased yet; this is tried again: %s", type(error).__name__)
            return False
        return True

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._backend.enter_loop()
        try:
            await self._backend.worker.__aexit__(exc_type, exc, traceback)
        finally:
            await self.aclose()

    async def aclose(self) -> None:
        """Write pending access counts, and close the store if this memory opened it."""
        try:
            if self._backend.accesses is not None:
                await self._backend.accesses.write()
        finally:
            if self._owns_store:
                await self._backend.provider.aclose()
            if not self._backend.worker.running:
                self._backend.mirror.close()
                self._backend.loop.release()

    # -- Views ----------------------------------------------------------------------------------------------------

    def view(
        self,
        *,
        viewer: str | Unset | None = UNSET,
        individual: MemorySubject | str | None = None,
        actor: str | None = None,
        scopes: Iterable[MemoryScope | str] | None = None,
        exact: Iterable[MemoryScope | str] = (),
        subjects: Iterable[MemorySubject | str] | None = None,
        as_of: dt.datetime | None = None,
        known_at: dt.datetime | None = None,
        reviewed: bool = False,
        conversation: Iterable[Message] | None = None,
        policies: PolicyChanges | None = None,
        read_only: bool = False,
    ) -> Self:
        """Return a view: this memory for another viewer, at another time, of fewer scopes or subjects.

        Nothing outside of a view is visible. In every method, a scope or a subject outside of the view raises
        `OutOfViewError`. A view of a view only narrows its scopes and subjects. Its viewer can be any: factmem
        authenticates nobody.

            ada = memory.view(viewer="ada", individual=MemorySubject("customer").individual("ada"))
            before = await memory.view(as_of=datetime(2026, 5, 1, tzinfo=UTC)).load(SEATS, subject="user")
            both = memory.view(scopes=["/product/alpha", "/feature/billing"], read_only=True)
            by_model = memory.view(conversation=history)
            await by_model.remember(Message(content=text, role="assistant"))

        Args:
            viewer: The name of the viewer; None for a viewer of public facts only.
            individual: The individual that the viewer is. Reads then show public facts about this individual and about
                subjects that are not individuals. To read public facts about another individual, name it, or pass the
                ids of its records. With None, reads show the public facts about everybody.
            actor: The writer named in the audit trail.
            scopes: The scopes, with their subtrees. In a view of one scope, a path without a leading slash is relative
                to that scope, unless it lies in it.
            exact: Scopes without their subtrees.
            subjects: The subjects (and individuals). Facts written without a subject are about this memory's subject,
                or else about the first of these.
            as_of: Only facts that had been *said* by then. A view of the past is read-only.
            known_at: Only facts that had been *recorded* by then.
            reviewed: For prompts: leave out flagged text of untrusted origin that was kept unchanged; see
                `FactDetails.unreviewed`.
            conversation: The conversation, with the results of tools, in which a model writes with its tools, in files,
                or as ready facts. Text that repeats untrusted words of this conversation is quarantined, whatever its
                origin, unless the user said it as well. This is not needed to remember the conversation itself.
            policies: Policies by name, for writes through the view; see `Policies`. Other policies stay.
            read_only: Refuse every write.

        Raises:
            OutOfViewError: A scope, a subject or the individual lies outside of this view.
            InvalidDataError: There is no scope or subject in a list, a time has no zone, a policy has another type or
                is out of range, or an individual is given without a viewer.
            CapabilityError: The view is of the past, and the provider keeps no history.
        """
        context = self._context
        if viewer is not UNSET:
            context = context.seen_by(viewer if viewer is None else checked_name(viewer, what="a viewer"), individual)
        elif individual is not None:
            raise InvalidDataError("an individual needs a viewer: give viewer= as well")
        if subjects is not None:
            context = context.confined_to_subjects(subjects)
        exact = listed("exact", exact, MemoryScope, str)
        if scopes is not None or exact:
            context = context.confined_to_scopes(() if scopes is None else scopes, exact)
        check_instance(policies, "policies", Mapping, NoneType)
        if as_of is not None or known_at is not None:
            self._backend.log()
            context = context.at(as_of=as_of, known_at=known_at)
        if conversation is not None:
            context = context.listening(conversation)
        return self._view(
            attrs.evolve(
                context,
                actor=context.actor if actor is None else checked_name(actor, what="an actor"),
                policies=attrs.evolve(context.policies, **policies) if policies else context.policies,
                reviewed=reviewed or context.reviewed,
                read_only=read_only or context.read_only,
            )
        )

    def scope(self, scope: MemoryScope | str, *, read_only: bool = False) -> Self:
        """Return a view of one scope and its subtree. Nothing outside of it is visible.

        Facts written without a scope go to this scope. In every method, a scope outside of the view raises
        `OutOfViewError`.

            alpha = memory.scope("/product/alpha")
            await alpha.save(SingleFact(SEATS, 5))
            decisions = alpha.scope("decisions")  # /product/alpha/decisions

        Args:
            scope: The view's scope. In a view of one scope, a path without a leading slash is relative to that scope,
                unless it lies in it.
            read_only: Refuse every write.
        """
        return self.view(scopes=[scope], read_only=read_only)

    def for_user(self, name: str) -> Self:
        """Return this memory for one user: the viewer, and by default the subject and owner of facts.

        Reads show all private facts of the user, also those about others, and public facts about the user and about
        subjects that are not individuals. To read public facts about another individual, name it:
        ``subject="user:bob"``. Each write still accepts another subject, and ``private=False``.

            alice = memory.for_user("alice")
            await alice.remember("I have moved to Lisbon.")
            matches = await alice.recall("Where do I live?")

        Args:
            name: The name of the user: the viewer, and the individual of the subject ``user``.

        Raises:
            OutOfViewError: This view has subjects, and the user is none of them.
        """
        checked_name(name, what="a viewer")
        return self._view(self._context.for_user(name))

    # -- Reading --------------------------------------------------------------------------------------------------

    async def load(
        self,
        concept: Concept[Any, FactT],
        *,
        subject: MemorySubject | str | None = None,
        scope: MemoryScope | str | None = None,
    ) -> FactT | None:
        """Return the current fact of a concept, or None.

        With a subject and a scope, exactly that place is read. Otherwise the fact is chosen from all matching places:
        by the strongest subject, then the narrowest scope, then the newest timestamp, whether it is private or public.
        In a view for a user (`for_user`), this user is stronger than every other subject; subjects that are neither
        declared nor have a priority, such as another person, are read only by name. A MULTIPLE unites the values of the
        chosen subject on that level. A place with a fact of another type is skipped if another place has one of the
        concept's type.

            seats = await memory.load(SEATS, subject="user", scope="/product/alpha")

        Args:
            concept: The concept.
            subject: The subject of the fact.
            scope: The exact scope of the fact.

        Raises:
            ConceptConflictError: The stored fact cannot be read as this concept's type.
            InvalidDataError: It is not a concept.
            SeveralIndividualsError: Several individuals have a fact on the strongest level: name one of them.
        """
        return await self._reader.load(concept, subject, scope)

    async def get(self, record_id: str) -> FactRecord[Any]:
        """Return the current record with an id.

        Raises:
            RecordNotFoundError: No record that is current and visible has this id.
        """
        return (await self._reader.current([record_id]))[0]

    async def recall(
        self,
        query: str,
        *,
        limit: int = 10,
        min_score: float = 0.0,
        depth: RecallDepth | Literal["shallow", "deep"] = RecallDepth.SHALLOW,
        lexical: bool = True,
        semantic: bool = True,
        strongest: bool = False,
        history: bool = False,
        settings: RecallSettings | None = None,
        deep: DeepSettings | None = None,
        strict: bool = False,
        **filters: Unpack[Filters],
    ) -> RecallMatches:
        """Return the best records for a query, best first: the exact top of all matching records.

        If the embedder fails, results are ranked by words alone, and `RecallMatches.failure` gives the reason.

        A reranker reorders the best records of all that this memory sees. Those that pass the filters come first; the
        other results follow in their exact order. Scores stay unchanged: the reranker's score is in
        `ScoreParts.reranked`. A filter never changes the order of two results.

        With ``depth="deep"``, a language model helps if the first results are not good enough. It splits the question
        into simpler ones, which are searched for as well, and then names missing facts; `RecallMatches.deep` reports
        both. The model neither sees nor finds records that the filters leave out, and its hints fill at most the last
        places. Without a model, or if it fails, the results are those of a shallow recall.

            matches = await memory.recall("How many seats?", scope="/product/alpha", limit=5)
            matches = await memory.recall("Who rents the barn, and since when?", depth="deep")

        Args:
            query: The query, in words. Lone surrogates become U+FFFD, as in `Message`.
            limit: Maximum number of results.
            min_score: Minimum score of a result, from 0 to 1. All scores are low for a query that nothing answers.
            depth: With or without the help of a language model.
            lexical: Rank by words.
            semantic: Rank by meaning.
            strongest: If several places have a typed fact of one concept, return only those that `load` chooses; of
                several individuals on the strongest level, return the facts of each.
            history: Add the earlier revisions of each record that the provider keeps; see `RecallMatch.earlier`.
            settings: Weights instead of this memory's.
            deep: Settings of deep recall instead of this memory's.
            strict: Raise if deep recall has no model, or the model or the reranker fails.
            filters: Conditions on the records, applied before ranking; see `Filters`.

        Raises:
            InvalidDataError: The query is blank, a number is out of range, there is no such depth, or both kinds of
                evidence are switched off.
            EmbedderError: The embedder failed, and only meaning counts.
            EmbedderMismatchError: The store's vectors come from another embedder, and meaning counts.
            CapabilityError: There is no model, and ``strict`` is set.
            ModelError: The model or the reranker failed, and ``strict`` is set.
        """
        search = await self._recaller.search(
            query,
            filters,
            limit=limit,
            min_score=min_score,
            lexical=lexical,
            semantic=semantic,
            strongest=strongest,
            settings=settings,
        )
        return await self._recaller.recall(search, depth=depth, history=history, deep=deep, strict=strict)

    @overload
    async def history(
        self,
        concept: Concept[T, Any],
        *,
        subject: MemorySubject | str | None = None,
        scope: MemoryScope | str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[FactRecord[T]]: ...

    @overload
    async def history(
        self,
        concept: str,
        *,
        subject: MemorySubject | str | None = None,
        scope: MemoryScope | str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[FactRecord[Any]]: ...

    async def history(
        self,
        concept: Concept[Any, Any] | str,
        *,
        subject: MemorySubject | str | None = None,
        scope: MemoryScope | str | None = None,
        labels: Mapping[str, str] | None = None,
    ) -> list[FactRecord[Any]]:
        """Return every revision of a concept or of a record, oldest first, with its state.

        `FactRecord.ended_at` and `FactRecord.end_reason` say when and why the value of a revision ended.

        With a subject and a scope, of exactly that place; otherwise of all matching places.

        Args:
            concept: The concept, its keyword, or the id of a record. A text is first read as a keyword.
            subject: The subject of the facts.
            scope: The exact scope of the facts.
            labels: Only revisions that carry all of these labels.

        Raises:
            RecordNotFoundError: The text has the form of an id, and no visible record there has it.
            CapabilityError: The provider keeps no history.
        """
        return await self._reader.history(concept, subject, scope, labels)

    @overload
    async def profile(
        self,
        schema: type[ProfileT] | ProfileSchema[ProfileT],
        *,
        subject: MemorySubject | str | None = None,
        scope: MemoryScope | str | None = None,
        partial: Literal[False] = False,
    ) -> ProfileT: ...

    @overload
    async def profile(
        self,
        schema: type[ProfileT] | ProfileSchema[ProfileT],
        *,
        subject: MemorySubject | str | None = None,
        scope: MemoryScope | str | None = None,
        partial: Literal[True],
    ) -> PartialProfile[ProfileT]: ...

    @overload
    async def profile(
        self,
        schema: None = None,
        *,
        subject: MemorySubject | str | None = None,
        scope: MemoryScope | str | None = None,
        partial: Literal[True] = True,
    ) -> dict[str, PartialProfile[Any]]: ...

    async def profile(
        self,
        schema: type[ProfileT] | ProfileSchema[ProfileT] | None = None,
        *,
        subject: MemorySubject | str | None = None,
        scope: MemoryScope | str | None = None,
        partial: bool = False,
    ) -> ProfileT | PartialProfile[ProfileT] | dict[str, PartialProfile[Any]]:
        """Return an instance of a class, its fields filled with the facts of the concepts that they name.

        Each field is loaded like a concept with `load`. An unknown field takes its default, or None or an empty
        collection if legal.

            guest = await memory.profile(Guest, subject="user")
            found = await memory.profile(Guest, subject="user", partial=True)
            print(found.known, found.missing)

        Args:
            schema: An attrs class, a dataclass or a pydantic model, or a `ProfileSchema`; if None, all profiles of this
                memory by name, with their known fields.
            subject: The subject of the facts.
            scope: The exact scope of the facts.
            partial: Return the known fields, and the names of those that are missing or refused, instead of raising.

        Raises:
            IncompleteProfileError: A required field is unknown, and ``partial`` is not set.
            ConceptConflictError: A stored fact cannot be read as a field's type.
            InvalidDataError: The class is not a profile, or does not accept the facts and ``partial`` is not set.
            SeveralIndividualsError: Several individuals have facts for the fields: name one of them.
        """
        schemas = self._context.profiles if schema is None else (ProfileSchema.of(schema),)
        every = await self._reader.profiles(schemas, subject, scope)
        if schema is None:
            return {each.name: filled for each, filled in zip(schemas, every, strict=True)}
        found: PartialProfile[ProfileT] = every[0]
        if partial:
            return found
        if found.refused:
            raise InvalidDataError(
                f"{ProfileSchema.of(schema).name} does not accept the value of {', '.join(found.refused)}: correct "
                "it with update() or retract(), or ask for a partial profile, which leaves it out"
            )
        if found.profile is None:
            raise IncompleteProfileError(schemas[0].name, found.missing)
        return found.profile

    async def list_records(
        self,
        *,
        limit: int | None = None,
        offset: int = 0,
        page: str | None = None,
        order_by: RecordOrder = RecordOrder.SAID,
        descending: bool = True,
        strongest: bool = False,
        **filters: Unpack[Filters],
    ) -> RecordPage:
        """Return the current records, newest first by default, all of them or page by page.

        Records that are saved or removed between two pages do not shift the pages.

            page = await memory.list_records(limit=100)
            while page.next_page:
                page = await memory.list_records(limit=100, page=page.next_page)

        Args:
            limit: Maximum number of records.
            offset: Number of records to skip; not together with a page.
            page: `RecordPage.next_page` of the page before; None for the first page.
            order_by: The key to sort by.
            descending: Newest or most important first.
            strongest: If several places have a typed fact of one concept, return only those that `load` chooses; of
                several individuals on the strongest level, return the facts of each.
            filters: Conditions on the records; see `Filters`. Use the same ones for every page.

        Raises:
            InvalidDataError: A filter is not legal, a number is out of range, or the page token is of another listing.
        """
        listing = Listing(limit=limit, offset=offset, page=page, order_by=order_by, descending=descending)
        return await self._reader.list_records(listing, strongest=strongest, filters=filters)

    # -- Writing --------------------------------------------------------------------------------------------------

    # Two signatures, since mypy infers the value type of a union from the parameter alone and takes any value.
    @overload
    async def save(
        self,
        fact: SingleFact[T],
        *,
        subject: MemorySubject | str | None = ...,
        scope: MemoryScope | str | None = ...,
        details: FactDetails | None = ...,
        private: bool | None = ...,
        ttl: dt.timedelta | None = ...,
    ) -> tuple[FactRecord[T], ...]: ...

    @overload
    async def save(
        self,
        fact: MultipleFacts[T],
        *,
        subject: MemorySubject | str | None = ...,
        scope: MemoryScope | str | None = ...,
        details: FactDetails | None = ...,
        private: bool | None = ...,
        ttl: dt.timedelta | None = ...,
    ) -> tuple[FactRecord[T], ...]: ...

    @taking_one_fact
    async def save(
        self,
        fact: Fact[Any],
        *,
        subject: MemorySubject | str | None = None,
        scope: MemoryScope | str | None = None,
        details: FactDetails | None = None,
        private: bool | None = None,
        ttl: dt.timedelta | None = None,
    ) -> tuple[FactRecord[Any], ...]:
        """Save a fact; it is on disk when this returns. The same fact with the same timestamp changes nothing.

            await memory.save(SingleFact(SEATS, 5), subject="user", scope="/product/alpha")

        Args:
            fact: The fact.
            subject: The subject of the fact.
            scope: The scope that the fact holds in; if None, the scope of a view of one scope, or else
                `MemoryScope.CROSS_PRODUCT`.
            details: Importance, categories, evidence, origin and so on.
            private: Keep the fact for this memory's viewer alone.
            ttl: Time to live; by the details or this memory's `TtlPolicy` if None. After its end, a superseded value
                becomes current again; see `update` for a record that ends instead.

        Returns:
            A record of each value, with its state. A fact that was saved before and then retracted has the state
            ``RETRACTED``: `restore` it, or save it with a later timestamp. One whose timestamp lies before that of a
            value that was said since has the state ``SUPERSEDED``. Reads decide from all facts of the place whether a
            later fact supersedes it.

        Raises:
            ConceptConflictError: The place holds another type under this keyword.
            InvalidDataError: The argument is not a fact, its timestamp is in the future, or both an expiry and a ttl
                are given.
            CapabilityError: The provider has the four verbs only and cannot keep these details.
        """
        return await self._writer.save([(fact, subject, scope)], details=details, private=private, ttl=ttl)

    async def save_many(
        self,
        facts: Iterable[AnyFact | tuple[AnyFact, MemorySubject | str | None, MemoryScope | str | None]],
        *,
        details: FactDetails | None = None,
        private: bool | None = None,
        ttl: dt.timedelta | None = None,
    ) -> tuple[FactRecord[Any], ...]:
        """Save many facts in one transaction: all of them or none; see `save`.

            await memory.save_many([(SingleFact(SEATS, 5), "user:alice", "/product/alpha"), SingleFact(CITY, "Oslo")])

        Args:
            facts: Facts, or tuples of a fact, its subject and its scope; subject and scope may be None.
            details: Importance, categories, evidence, origin and so on, of every fact.
            private: Keep the facts for this memory's viewer alone.
            ttl: Time to live.

        Returns:
            A record of each value, in the order of the facts.

        Raises:
            ConceptConflictError: A place holds another type under a keyword; nothing was saved.
            InvalidDataError: An item is not a fact, or its timestamp is in the future; nothing was saved.
            CapabilityError: The provider has the four verbs only and cannot keep these details.
        """
        return await self._writer.save(facts, details=details, private=private, ttl=ttl)

    async def save_profile(
        self,
        profile: object,
        *,
        subject: MemorySubject | str | None = None,
        scope: MemoryScope | str | None = None,
        details: FactDetails | None = None,
        private: bool | None = None,
        ttl: dt.timedelta | None = None,
    ) -> tuple[FactRecord[Any], ...]:
        """Save each field of a profile as a separate fact, said now.

        Fields that are None, an empty text or an empty collection are left out, and retract nothing; a collection adds
        its values to the known ones. Of a pydantic model, unset fields are left out as well. Defaults of other classes
        replace known values: if you do not know all fields, save single facts instead.

        Args:
            profile: An instance of an attrs class or of a pydantic model; see `ProfileSchema`.
            subject: The subject of the facts.
            scope: The scope that the facts hold in; see `save`.
            details: Importance, categories, evidence, origin and so on, of every field.
            private: Keep the facts for this memory's viewer alone.
            ttl: Time to live.

        Returns:
            A record of each value, as it is in the store.

        Raises:
            ConceptConflictError: The place holds another type under a field's name; nothing was saved.
            InvalidDataError: Its class is not a profile, or a value cannot be stored.
        """
        if isinstance(profile, type):
            raise InvalidDataError(f"save_profile takes an instance, not {kind_of(profile)}", path="$.profile")
        facts = ProfileSchema.of(type(profile)).facts(profile, self._context.said_now)
        return await self._writer.save(
            [(fact, subject, scope) for fact in facts], details=details, private=private, ttl=ttl
        )

    async def update(self, record_id: str, **new: Unpack[Updates]) -> Change:
        """Change a record by id. Its history keeps the earlier revision; fields that are not passed stay unchanged.

        This memory's `TtlPolicy` sets a new expiry, if it has a time for updates. When an update expires, its record
        expires: the earlier revision does not return.

            await memory.update(record.id, value="Bergen", importance=0.9)

        Args:
            record_id: The record.
            new: The changes; see `Updates`.

        Raises:
            RecordNotFoundError: No record that is current and visible has this id.
            InvalidDataError: The value is not of the concept's type, both an expiry and a ttl are given, or the update
                would move a record with quarantined words.
            OutOfViewError: The scope lies outside of this view.
            ConceptConflictError: The value's type cannot join its place.
            StateConflictError: The metadata differs, and ``merge`` requires an exact match; another record of the
                concept already has this value, or the scope already has a SINGLE of it; or the record still waits for a
                model.
            CapabilityError: The provider keeps no history.
        """
        return await self._writer.update(record_id, new)

    async def retract(self, *record_ids: str, reason: str | None = None) -> tuple[Change, ...]:
        """Retract records: they are no longer loaded or recalled, and `restore` brings them back.

        Records of every origin can be retracted, because the program decides, not the conversation.

        Args:
            record_ids: Ids of the records.
            reason: The reason, for the audit trail.

        Raises:
            RecordNotFoundError: An id names no record that is current and visible; none was retracted.
            CapabilityError: The provider keeps no history.
        """
        return await self._writer.retract(record_ids, reason)

    async def restore(self, *record_ids: str, reason: str | None = None) -> tuple[Change, ...]:
        """Bring back records that were retracted, or removed by a wish such as "forget that …".

        Only the last retraction or removal of each record is reverted.

        Args:
            record_ids: Ids of the records.
            reason: The reason, for the audit trail.

        Returns:
            The changes: CREATED, or UNCHANGED where a newer value stands.

        Raises:
            RecordNotFoundError: An id names no visible record that is retracted or removed, or the record has expired,
                or another record has its value by now. None was restored.
            CapabilityError: The provider keeps no history.
        """
        return await self._writer.restore(record_ids, reason)

    async def rollback(self, revision: int | FactRecord[Any], *, reason: str | None = None) -> Change:
        """Roll a record back to a revision. Nothing is lost: a rollback can be rolled back.

        Later revisions are retracted and the revision itself is restored, also of a retracted record. Like `retract`,
        `restore` and `undo`, a rollback is the program's decision and applies to words of every origin.

        Args:
            revision: The revision, as `history` returns it, or its number (`FactRecord.revision`).
            reason: The reason, for the audit trail.

        Returns:
            The change: UPDATED, or CREATED if the record was not current any more.

        Raises:
            InvalidDataError: The revision is neither a record nor a number.
            RecordNotFoundError: No visible revision has this number, or it was never accepted from quarantine, or has
                expired, or another record has its value by now.
            StateConflictError: The rollback would retract words that wait for a model, or another writer changed the
                record meanwhile.
            ConceptConflictError: Its place holds another type by now.
        """
        return await self._writer.rollback(revision, reason)

    async def undo(self, changes: Iterable[Change | str], *, reason: str | None = None) -> tuple[Change, ...]:
        """Revert changes in one transaction, for example those of a `Remembered` or of a rollback.

        By the ids of records, the last change of each is undone, as the log holds it: a new value gives way to the one
        before, a new record is retracted, a retracted one restored, and a moved one returns to its scope, by the id
        that it has there or the one that it had. Undone twice, it is made again. Two ids of one move are one change.

        Every revision returns to its state before the change (`Change.states_before`). A new revision is retracted,
        with the later revisions of its record at its place. Records that were accepted or rejected in the quarantine
        wait again.

        Args:
            changes: The changes, in the order made; or ids of records.
            reason: The reason, for the audit trail.

        Returns:
            The reverting changes, last change first; undoing these repeats the original changes. A change is UNCHANGED
            if only the history shows it.

        Raises:
            InvalidDataError: The argument is not a list of changes or of ids.
            RecordNotFoundError: A change is undone already, or its record was erased; of a move, one of the two places
                is not visible here, or erased. Or no visible record has an id, or it was never accepted from
                quarantine. None was reverted.
            StateConflictError: The undo would retract later words that wait for a model, or another writer changed a
                record meanwhile. Or a moved record has changed since under its other id, which the error names. None
                was reverted.
            CapabilityError: The provider keeps no history.
        """
        return await self._writer.undo(changes, reason)

    # -- Words ----------------------------------------------------------------------------------------------------

    async def remember(self, what: Words, **about: Unpack[About]) -> Remembered:
        """Keep words as they were said, secrets redacted, and read them with the model if there is one.

        A text becomes one memory; a text of more than 10,000 characters becomes several, and equal pieces of it are
        kept once. Without a model, the text is kept word for word. With a model, missing scope,
        categories and importance are inferred, and similar memories are updated or retracted. In a message or a
        conversation, the detector looks for facts; without a model, its words are kept unchanged. Words of a tool, a
        document or an unknown origin are quarantined.

        Words without a letter, a digit or an emoji, words that consist of secrets only, and images, audio and files in
        messages are not kept. `Remembered.dropped` counts secrets and media; a log line warns of media.

        The same words are kept once. When this returns, they are on disk. If the model failed, they are kept verbatim,
        and `Remembered.failure` gives the error. If this is cancelled, words that are already on disk are read when
        they are submitted again, or when the store is opened next.

        A provider with the four verbs only keeps typed facts and statements by `AgentMemoryProvider.save`;
        `Remembered.unrepresented` counts the rest.

            outcome = await memory.remember("The venue has 120 seats.", scope="/product/alpha")
            for record in outcome:
                print(record.value)

        Args:
            what: A text (said by the user, now), a message, a whole conversation, or messages as dicts with ``role``
                and ``content``, one or a list of them, or as contents and events of Google's APIs.
            about: Subject, scope and so on; see `About`.

        Raises:
            CapabilityError: The provider has the four verbs only, and a detail is given that it cannot keep.
            InvalidDataError: There is nothing to remember, or its time is in the future.
            TypeError: A keyword argument is not one of `About`.
        """
        return await self._rememberer.remember(what, about)

    async def remember_many(self, what: Iterable[Words], **about: Unpack[About]) -> Submission:
        """Submit many texts, messages or conversations; see `remember` for the treatment of each.

        When this returns, all words are on disk, in one transaction, and can be loaded and recalled verbatim. The model
        reads them in the background. If the process ends first, the next process that opens the store with a model
        reads the rest. In a provider with the four verbs only, everything is read before this returns.

        Texts of one call whose embeddings are at least as close as `ConsolidationPolicy.duplicate` are kept once;
        `Remembered.dropped` counts the others. Messages and conversations are evidence, and are all kept. With
        ``consolidate=False``, or without a working embedder, all texts are kept, too.

            submission = await memory.remember_many(["The venue has 120 seats.", "The bar opens at six."])
            outcomes = await submission.wait()

        Args:
            what: Texts, messages or conversations.
            about: Subject, scope and so on; see `About`.

        Raises:
            CapabilityError: The memory was not opened with ``async with``, or a detail is given that the provider
                cannot keep; see `remember`.
            InvalidDataError: The argument is not a list, or an item is empty or its time is in the future; nothing was
                kept.
            TypeError: A keyword argument is not one of `About`.
        """
        return await self._rememberer.remember_many(what, about)

    async def generate(
        self, source: Words | Sequence[str] | Sequence[Fact[Any] | ReadyFact] | StoredSession, /, **about: Unpack[About]
    ) -> Submission:
        """Generate memories from words, ready facts or a stored session, in the background.

        When this returns, the source is on disk. Each memory reports its change: CREATED, UPDATED (with the previous
        revision) or DELETED.

            submission = await memory.generate(StoredSession(id="session-7"), subject="user")
            outcomes = await submission.wait()

        Args:
            source: Words: a text of the user or several, messages, or dicts as in `remember`, such as the contents of
                Google's APIs and the events of Memory Bank; or ready facts, with topics as `ReadyFact`; or a session in
                the store.
            about: Subject, scope and so on; see `About`. Without ``looking_for``, messages are searched for memories
                about `MANAGED_TOPICS`. Metadata and labels apply to every created or updated memory.

        Raises:
            CapabilityError: The memory was not opened with ``async with``; or the provider has the four verbs only, and
                cannot keep the stored session or a detail.
            InvalidDataError: The source is empty, or of a kind that cannot be read.
            RecordNotFoundError: The store holds no such session that the viewer may see.
        """
        return await self._rememberer.generate(source, about)

    # -- Erasing --------------------------------------------------------------------------------------------------

    async def forget(self, *ids: str, dry_run: bool = False, **filters: Unpack[Filters]) -> Erasure:
        """Erase records with all their history, vectors and index entries. Irreversible; see `retract`.

        Ids and filters combine by AND; an id that names no visible record erases nothing. Filters test the current
        revision of a record, or the last one if it is not current (retracted, expired, quarantined). All of its
        revisions are erased, also those that it left in other scopes of this view when it was moved, together with the
        words that it was found in, even if these are separate statements. ``speakers`` tests each revision: those of
        others in the same record stay, and an update that names no speaker belongs to the words that it updates. If
        words are erased themselves, so is each revision of a fact that quotes them: an earlier value is current again.
        With words that end a value, the value goes as well, or it would be current again; of a `Concept.single`, all
        values until then.

        When this returns, no file of the store and no copy in this process holds the erased bytes. If the result is
        ``pending``, another process is still reading them, and any later erasure, or `Admin.expire`, finishes the work.
        Other processes drop their copies at their next access to the store. Other facts from the words of an erased
        fact keep their own quotes: `Admin.traces` names these records.

            preview = await memory.forget(subject="user", until=may, dry_run=True)
            if len(preview) < 100:
                await memory.forget(subject="user", until=may)

        Args:
            ids: Only these records, or entries of the quarantine; see `Quarantine.list`.
            dry_run: Erase nothing, and return the records that would be erased, with what goes along. A read-only
                memory accepts this, too.
            filters: Conditions on the records; see `Filters`.

        Raises:
            InvalidDataError: There is no filter, or a filter is empty: both would erase more than intended.
            TypeError: A keyword argument is not one of `Filters`.
            CapabilityError: The provider cannot erase.
        """
        return await self._eraser.forget(ids, filters, dry_run=dry_run)

    # -- Beside the facts -----------------------------------------------------------------------------------------

    @property
    def inbox(self) -> Inbox:
        """Streams of events, words that wait for a model, and findings that wait for a decision of people."""
        return Inbox(self._context, self._backend)

    @property
    def admin(self) -> Admin:
        """Overviews, audit trail, export and import, expiry, and the embedder of the store."""
        return Admin(self._context, self._backend)


def zone_of(memory: Memory) -> dt.tzinfo:
    """Return the time zone of a memory's clock, in which its days begin."""
    return memory._context.clock().tzinfo or dt.UTC


def homes_of(memory: Memory, scope: MemoryScope | str | None) -> Sequence[MemoryScope]:
    """Return the scopes that accept new facts: the scope of a write, or else those of a view of several.

    Args:
        memory: The memory, or a view of it.
        scope: The scope of the write; the default one if None.

    Raises:
        OutOfViewError: The scope lies outside of the view.
    """
    context = memory._context
    try:
        homes = [context.target(scope)]
    except OutOfViewError:
        if scope is not None:
            raise
        homes = [home for home in context.view.scopes if not home.is_branch]
    return [home.within(None) for home in homes]


def keeps_log(memory: Memory) -> bool:
    """Return whether a memory's provider keeps a log, beyond the four verbs."""
    return not memory._backend.four_verbs_only


async def revisions_of(memory: Memory, record_ids: Sequence[str]) -> Mapping[str, Sequence[FactRecord[Any]]]:
    """Return the visible revisions of records that have several, oldest first, as far as the provider keeps them.

    Args:
        memory: The memory, or a view of it.
        record_ids: The ids of the records.
    """
    memory._backend.enter_loop()
    return await memory._reader.revisions_of(record_ids)


async def entries_of(memory: Memory, part: LogPart) -> list[LogEntry]:
    """Return the visible entries of a part of a memory's log, about all individuals."""
    memory._backend.enter_loop()
    return await memory._reader.everybody.log(part)


async def withdraw(memory: Memory, entries: Sequence[Recorded], reason: str) -> None:
    """Retract assertions of a memory."""
    await memory._writer.change_states(entries, AssertionState.RETRACTED, reason)


@operation(Operation.RECALL)
async def recall_each(
    memory: Memory,
    query: str,
    several: Sequence[tuple[Filters, int]],
    *,
    min_score: float,
    settings: RecallSettings | None,
) -> list[RecallMatches]:
    """Recall the strongest facts for one query by several filters; it is embedded, weighed and reranked once.

    Args:
        memory: The memory, or a view of it.
        query: The query, in words.
        several: The filters, each with the maximum number of its results; at least one.
        min_score: See `Memory.recall`.
        settings: Weights; the memory's if None.
    """
    (filters, limit), *others = several
    recaller = memory._recaller
    search = await recaller.search(query, filters, limit=limit, min_score=min_score, strongest=True, settings=settings)
    searches = [search, *(recaller.with_filters(search, filters, limit) for filters, limit in others)]
    return await recaller.recall_each(searches)


async def subjects_named(memory: Memory, text: str, individuals_of: Iterable[str]) -> list[MemorySubject]:
    """Return the subjects of visible records that a text names, as recall reads a question, in the order of the text.

    Nothing is searched for: no embedder and no reranker is asked, and no access is counted.

    Args:
        memory: The memory, or a view of it.
        text: The text.
        individuals_of: Names of subjects whose individuals it may name, also where the view is for another individual.
    """
    memory._backend.enter_loop()
    return await memory._reader.subjects_named(text, frozenset(individuals_of))
