"""One run of an agent: loading, saving, and the tools of its model."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, Final, TypeVar, assert_never

import attrs

from factmem.abc import DetectionRequest
from factmem.abc.detector import Message
from factmem.agent.chat_history import Hearing, conversation_id
from factmem.agent.config import AgentMemoryConfig, FailurePolicy, RunIdentity, UserPolicy
from factmem.agent.holders import MemoryHolder, OpenMemoryHolder, SavedHistory
from factmem.agent.rendering import Found, MemoryBlock, is_instruction, rendered, rendered_block
from factmem.agent.search import SAVE_MEMORY, BlockSearch, query_of
from factmem.details import Origin, Treatment
from factmem.errors import (
    CapabilityError,
    EmbedderMismatchError,
    FactMemError,
    InvalidDataError,
    MissingUserError,
    ReadOnlyError,
    RecordNotFoundError,
)
from factmem.facts import Concept
from factmem.legal_names import folded_keyword
from factmem.llm.local_models import called
from factmem.memory.background import Remembered, Submission
from factmem.memory.facade import Memory, keeps_log, subjects_named, zone_of
from factmem.recall.marks import still_true
from factmem.recall.results import RecallMatches
from factmem.records import AssertionState, FactRecord
from factmem.scopes import MemoryScope, ScopeKind
from factmem.subjects import MemorySubject
from factmem.validators import one_or_more

T = TypeVar("T")

_log = logging.getLogger("factmem")

_TO_GO: Final = 'Ask the user to say so if it is to go: "forget that …"'
_ONLY_THERE: Final = "Here it can be removed in the application alone: tell the user so."
_MOST_NAMED: Final = 8
"""Maximum number of further subjects that a request names."""


@attrs.frozen(kw_only=True)
class MemoryRun:
    """One run of an agent, for one user. Made by `AgentMemory.for_run`.

    Attributes:
        config: The settings of the agent's memory.
        identity: The identity of the run.
        held: The memory.
        hearing: The conversations of the agent's runs.
    """

    config: AgentMemoryConfig
    identity: RunIdentity
    held: MemoryHolder = attrs.field(repr=False)
    hearing: Hearing = attrs.field(factory=Hearing, repr=False)

    @property
    def user(self) -> MemorySubject:
        """The subject of the facts of this run."""
        name = self.identity.user_id
        return self.config.user if name is None else self.config.user.individual(name)

    def check_user(self, *, private: bool = False) -> None:
        """Check that the user of this run is known, if the memory separates users.

        Args:
            private: Whether a private record is about to be saved.

        Raises:
            MissingUserError: The run names no user, and the memory separates users.
        """
        if self.identity.user_id is not None:
            return
        where = self.config.user_id
        if isinstance(where, str):
            found = f"the host's run has no {where}, where AgentMemoryConfig looks for it: give it there"
        elif where is not None:
            found = "the function user_id of AgentMemoryConfig found none: return one"
        else:
            found = (
                "give user_id to the host's own context of the run, say where else the host keeps it (such as "
                'AgentMemoryConfig(user="deps.user.id"), a path or a function)'
            )
        found += ", or give user_id to AgentMemory.run()"
        if private:
            raise MissingUserError(f"this run names no user, and privately saved facts need one: {found}")
        if self.config.users is UserPolicy.REQUIRED and self.config.user.individual_name is None:
            raise MissingUserError(
                f"this run names no user, and its memory keeps users apart: {found}; or set "
                'users="shared", if all users may share one memory'
            )

    @property
    def tools(self) -> MemoryTools:
        """The tools of this run for a model."""
        return MemoryTools(self)

    async def load(
        self,
        history: Sequence[Message] = (),
        *,
        concepts: Concept[Any, Any] | Iterable[Concept[Any, Any] | str] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope | str] | None = None,
        known: MemoryBlock | None = None,
    ) -> MemoryBlock:
        """Return the best facts for the current conversation, rendered for a prompt.

        Order and shares are those of `Loading`. Standing instructions of the user are always included, unless a newer
        one overtakes them. If the user's messages ask for nothing, such as "Hi!", only the typed facts of the agent's
        concepts (of all concepts, if the agent has none) are added. If several places have a typed fact of one concept,
        the stronger subject wins, then the narrower scope, then the newer fact. Statements of the current conversation
        and quarantined records are never included.

        Args:
            history: The conversation so far.
            concepts: Only facts of this concept, or of these (default: `Loading.concepts`).
            subjects: Only facts about these (default: the user, the agent's subjects, and those that the request names;
                see `AgentMemoryConfig.subjects`). A fact of a named subject does not replace those of the others.
            scopes: Only facts in these (default: all scopes of the agent).
            known: The block of an earlier request of this run, which is returned again: a host loads once per run, but
                passes its history at each request, so that this run hears every message.

        Raises:
            MissingUserError: The user is unknown.
            InvalidDataError: An argument is invalid, such as a scope that is not one of the agent's.
            CapabilityError: The provider cannot be read in this way.
            FactMemError: Nothing could be loaded, and the policy is `FailurePolicy.RAISE`.
        """
        hooks, loading = self.config.hooks, self.config.loading
        history = self.hear(history)
        if known is not None:
            return known
        if not self.identity.load or self.config.keeps_nothing:
            return MemoryBlock()
        self.check_user()
        if hooks.before_load and not await called(hooks.before_load, self.identity, history):
            return MemoryBlock()
        wanted = loading.concepts if concepts is None else one_or_more("concepts", concepts, Concept, str)
        about = None if subjects is None else tuple(map(self._narrowed, subjects))
        places = None if scopes is None else tuple(scopes)
        found = await self.attempt(
            lambda memory: self._best(memory, history, wanted, about, places),
            "nothing could be loaded",
            loading.on_failure,
            Found(),
        )
        if hooks.after_load:
            loaded = {record.id for record in found.records}
            records = tuple(await called(hooks.after_load, self.identity, found.records))
            added = {record.id for record in records if record.id not in loaded and is_instruction(record)}
            found = attrs.evolve(found, records=records, instructions=found.instructions | added)
        return rendered_block(found, loading, query_of(history, loading.messages))

    def hear(self, history: Sequence[Message]) -> Sequence[Message]:
        """Keep the conversation so far in mind, including results of tools, before the model continues.

        Text that the model then writes with its tools or in files, and that only repeats untrusted messages, is
        quarantined. `load` and `save` also hear the conversation.

        Args:
            history: The conversation so far.

        Returns:
            The same messages; generated ids also count repetitions of messages that the host has dropped.
        """
        return history if self.config.keeps_nothing else self.hearing.hear(self.identity, history)

    async def save(
        self,
        history: Sequence[Message],
        *,
        looking_for: DetectionRequest | None = None,
        scope: MemoryScope | ScopeKind | str | None = None,
    ) -> SavedHistory | None:
        """Submit the history for detection. It is on disk when this returns, and processed in the background.

        Messages that were submitted before are skipped, so you can pass the whole history after each run. They are read
        again only for other subjects, concepts or topics.

        Args:
            history: The conversation so far, each message with an id.
            looking_for: Concepts or topics to look for (default: `Saving.looking_for`).
            scope: Scope of the facts (default: `Saving.scope`).

        Returns:
            The submission; None if there was nothing to submit, or this run is not saved.

        Raises:
            MissingUserError: The user is unknown.
            InvalidDataError: The scope is not one of the agent's.
            CapabilityError: The provider does not support a setting.
            FactMemError: The submission failed, and the policy is `FailurePolicy.RAISE`.
        """
        hooks, saving = self.config.hooks, self.config.saving
        if not self.identity.save:
            return None
        if self.config.keeps_nothing:
            _log.info("nothing is kept of this run: its memory was given no store")
            return None
        self.check_user(private=saving.private)
        history = self.hear(history)
        place = self.config.home if scope is None else self.config.scope_of(scope)
        if hooks.before_save:
            history = await called(hooks.before_save, self.identity, history)
        events = [self._as_submitted(message) for message in history if message.detectable]
        events = [*self.hearing.left_out(self.identity, history), *events]
        if all(message.treatment is Treatment.IGNORE for message in events):
            return None
        stream, request = conversation_id(self.identity, history), self._request(looking_for or saving.looking_for)

        async def submitted(memory: Memory) -> Submission:
            return await self.view(memory).inbox.ingest_events(
                stream,
                events,
                trigger=saving.trigger,
                history=True,
                subject=self.user,
                scope=place,
                looking_for=request if memory.inbox.reads_words else None,
                private=saving.private,
                origins=saving.origins,
            )

        try:
            submission = await self.held.use(submitted)
        except (CapabilityError, EmbedderMismatchError):  # permanent: nothing would ever be saved
            raise
        except FactMemError as error:
            self.failed("the history could not be submitted", error, saving.on_failure)
            return None
        saved = SavedHistory(submission, self.held)
        if hooks.after_save:
            await called(hooks.after_save, self.identity, saved)
        return saved

    async def finish(self, history: Sequence[Message]) -> None:
        """Save the history of a successful run, unless the program saves it; see `save`."""
        if self.config.saving.after_run:
            await self.save(history)

    def finish_blocking(self, history: Sequence[Message]) -> None:
        """Save like `finish`, without an event loop."""
        if self.config.saving.after_run:
            self.save_blocking(history)

    def load_blocking(self, history: Sequence[Message] = (), *, known: MemoryBlock | None = None) -> MemoryBlock:
        """Load like `load`, without an event loop; hooks run in the memory's loop.

        Raises:
            CapabilityError: The program opened the memory, in an event loop.
        """
        if known is not None:
            self.hear(history)
            return known
        loading = self.config.loading
        return self.use_blocking(
            lambda run: run.load(history), "nothing could be loaded", loading.on_failure, MemoryBlock()
        )

    def save_blocking(self, history: Sequence[Message]) -> SavedHistory | None:
        """Save like `save`, without an event loop; hooks run in the memory's loop.

        Raises:
            CapabilityError: The program opened the memory, in an event loop.
        """
        saving = self.config.saving
        saved = self.use_blocking(
            lambda run: run.save(history), "the history could not be submitted", saving.on_failure, None
        )
        return None if saved is None else saved.held_by(self.held)

    def use_blocking(
        self, work: Callable[[MemoryRun], Awaitable[T]], what: str, policy: FailurePolicy, otherwise: T
    ) -> T:
        """Call an async function of this run from a thread without an event loop, in the memory's loop.

        Args:
            work: The function; takes this run, for use in that event loop.
            what: See `failed`.
            policy: Treatment of a memory that cannot be opened; the function handles other errors.
            otherwise: The result if the memory cannot be opened, and the error was logged.

        Raises:
            CapabilityError: The program opened the memory, in an event loop.
            FactMemError: The memory cannot be opened, and the policy is `FailurePolicy.RAISE`.
        """
        try:
            self.held.open_blocking()
        except CapabilityError:
            raise
        except FactMemError as error:
            self.failed(what, error, policy)
            return otherwise
        return self.held.use_blocking(lambda memory: work(attrs.evolve(self, held=OpenMemoryHolder(memory))))

    async def attempt(
        self, work: Callable[[Memory], Awaitable[T]], what: str, policy: FailurePolicy, otherwise: T
    ) -> T:
        """Run a function on the memory, and return its result.

        Args:
            work: The function.
            what: See `failed`.
            policy: Treatment of temporary errors; mistakes in settings and arguments are always raised.
            otherwise: The result after an error that was logged.
        """
        try:
            return await self.held.use(work)
        except (CapabilityError, EmbedderMismatchError, InvalidDataError):  # permanent: it would never work
            raise
        except FactMemError as error:
            self.failed(what, error, policy)
            return otherwise

    def failed(self, what: str, error: FactMemError, policy: FailurePolicy) -> None:
        """Raise or log an error of the memory, by a policy.

        Args:
            what: Description of the failed work, without any content of the conversation.
            error: The error.
            policy: The policy.
        """
        match policy:
            case FailurePolicy.RAISE:
                raise error
            case FailurePolicy.LOG:
                _log.warning("%s: %s: %s", what, type(error).__name__, error)
            case _:
                assert_never(policy)

    def view(self, memory: Memory, scopes: Iterable[MemoryScope | str] | None = None) -> Memory:
        """Return the view of this run, in the agent's scopes: the user's private records and public ones.

        To read facts about other individuals, name them; see `Memory.view`.
        """
        name = self.identity.user_id
        user: dict[str, Any] = {} if name is None else {"viewer": name, "individual": self.user}
        named = [scope for scope in self.config.scopes if scope != MemoryScope.CROSS_PRODUCT]
        shared = [MemoryScope.CROSS_PRODUCT] if self.config.cross_product else []
        view = memory.view(scopes=named, exact=shared, **user)
        return view if scopes is None else view.view(scopes=scopes)

    def written_by_model(self, memory: Memory, scopes: Iterable[MemoryScope | str] | None = None) -> Memory:
        """Return the view of this run for text that its model writes; see `Memory.view`."""
        return self.view(memory, scopes).view(conversation=self.hearing.heard(self.identity))

    async def _best(
        self,
        memory: Memory,
        history: Sequence[Message],
        concepts: Collection[Concept[Any, Any] | str] | None,
        subjects: tuple[MemorySubject, ...] | None,
        scopes: tuple[MemoryScope | str, ...] | None,
    ) -> Found:
        if concepts is not None and not concepts:
            return Found()
        view = self.view(memory, scopes).view(reviewed=True)
        query = query_of(history, self.config.loading.messages)
        named: tuple[MemorySubject, ...] = ()
        if subjects is None:
            named = await _named_in(self, view, query)
            keys = {subject.key for subject in named}
            subjects = tuple(it for it in (self.user, *self.config.subjects) if it.key not in keys)
        search = BlockSearch(view=view, config=self.config, query=query, subjects=subjects, named=named)
        current = {(conversation_id(self.identity, history), message.id) for message in history}
        told = {message.content.strip() for message in history}
        found = await search.found(concepts, spare=len(current))
        unsaid = tuple(record for record in found.records if not _is_stated_in(current, told, record))
        return attrs.evolve(found, records=unsaid, zone=zone_of(memory))

    def _as_submitted(self, message: Message) -> Message:
        """Return a message as it is submitted. Tool results that are not kept tell what the model only repeats."""
        if self.config.saving.tool_results or message.origin is not Origin.TOOL:
            return message
        return attrs.evolve(message, treatment=Treatment.IGNORE, media=(), not_text=0)

    def _request(self, request: DetectionRequest | None) -> DetectionRequest:
        request = DetectionRequest(open=True) if request is None else request
        if request.open:
            asked = {folded_keyword(concept.keyword) for concept in request.concepts}
            own = [item for item in self.config.concepts if folded_keyword(item.keyword) not in asked]
            request = attrs.evolve(request, concepts=(*request.concepts, *own))
        if request.subjects == (MemorySubject.EVERYTHING,):
            return attrs.evolve(request, subjects=(self.user,))
        return attrs.evolve(request, subjects=map(self._narrowed, request.subjects))

    def _narrowed(self, subject: MemorySubject) -> MemorySubject:
        return self.user if subject.key == self.config.user.key else subject


async def _named_in(run: MemoryRun, view: Memory, query: str) -> tuple[MemorySubject, ...]:
    """Return the subjects that a query names, other than the user; of individuals, those of the agent's subjects."""
    kinds = {it.name for it in run.config.subjects if it.individual_name is None} - {run.user.name}
    named = await subjects_named(view, query, kinds) if query else []
    own = (run.user.key, run.config.user.key)
    about = (it for it in named if (it.individual_name is None or it.name in kinds) and it.key not in own)
    return tuple(about)[:_MOST_NAMED]


def _is_stated_in(
    current: Collection[tuple[str | None, str | None]], told: Collection[str], record: FactRecord[Any]
) -> bool:
    """Return whether a record is a statement from the current conversation: by its messages, or by their words."""
    return record.is_statement and (record.value in told or any(item.message in current for item in record.evidence))


TOOL_NAMES: Final = ("recall_memory", SAVE_MEMORY, "forget_memory")
"""Names of the tools."""

_MOST: Final = 50
_NEAREST: Final = "Nothing in memory answers this. Nearest:"
_LESS_WELL: Final = "Found less well than usual, because a model failed: other words may find more."


@attrs.frozen
class MemoryTools:
    """The tools of one run for a model, which reads their docstrings and gets text as a result.

    The tools see the same facts as the run: its user's private facts and public facts, in the agent's scopes. After a
    mistake of the model, a tool returns a text that describes the correction.
    """

    run: MemoryRun

    async def recall_memory(self, query: str, limit: int = 5) -> str:
        """Look up what is known from earlier conversations.

        Args:
            query: The query, in words.
            limit: Maximum number of memories, from 1 to 50.
        """
        self.run.check_user()
        loading = self.run.config.loading
        try:
            matches, zone = await self.run.held.use(lambda memory: self._recalled(memory, query, limit))
        except InvalidDataError as error:
            return f"Nothing was looked up: {error}"
        except FactMemError as error:
            self.run.failed("nothing could be looked up", error, loading.on_failure)
            return "Nothing was looked up: the memory cannot be read now."
        records = [match.record for match in matches] if loading.overtaken else still_true(matches)
        block = rendered(records, loading.budget, loading.count_tokens, ids=True, zone=zone)
        notes = [_LESS_WELL] if matches.failure else []
        if block.text and not matches.answers:
            notes.append(_NEAREST)
        return "\n".join([*notes, block.text or "Nothing is known about that."])

    async def save_memory(self, text: str) -> str:
        """Remember something for later conversations.

        Args:
            text: One statement that can be understood by itself.
        """
        if self.run.config.keeps_nothing:
            return "Nothing was saved: this agent has no memory."
        self.run.check_user(private=self.run.config.saving.private)
        try:
            outcome = await self.run.held.use(lambda memory: self._saved(memory, text))
        except (CapabilityError, InvalidDataError, ReadOnlyError) as error:
            return f"Nothing was saved: {error}"
        except FactMemError as error:
            self.run.failed("nothing could be saved", error, self.run.config.saving.on_failure)
            return "Nothing was saved: the memory cannot be written now."
        if outcome.unrepresented and not outcome.records:
            return "Nothing was saved: the store cannot keep who said it."
        if any(record.state is AssertionState.QUARANTINED for record in outcome.records):
            return "Saved, and kept apart until somebody confirms it."
        return "Saved."

    async def forget_memory(self, memory_ids: list[str], reason: str = "") -> str:
        """Retract memories of your own that are wrong, or that the user wants to be forgotten.

        What the user said is taken back by the user's own words only, such as "forget that I like tea".

        Args:
            memory_ids: The ids of the memories, from recall_memory.
            reason: The reason for the retraction.
        """
        self.run.check_user()
        try:
            retracted = await self.run.held.use(lambda memory: self._retracted(memory, memory_ids, reason))
        except RecordNotFoundError:
            return "Nothing was taken back: one of the ids names no memory. Look them up with recall_memory."
        except (CapabilityError, InvalidDataError, ReadOnlyError) as error:
            return f"Nothing was taken back: {error}"
        except FactMemError as error:
            self.run.failed("nothing could be taken back", error, self.run.config.saving.on_failure)
            return "Nothing was taken back: the memory cannot be written now."
        return f"Taken back: {retracted}."

    async def _recalled(self, memory: Memory, query: str, limit: int) -> tuple[RecallMatches, dt.tzinfo]:
        run = self.run
        view = run.view(memory).view(reviewed=True)
        named = await _named_in(run, view, query)
        matches = await view.recall(
            query,
            limit=max(1, min(limit, _MOST)),
            min_score=run.config.loading.min_score,
            settings=run.config.recall,
            strongest=not named,  # a fact of a named subject stands beside that of the user
            subjects=(run.user, *run.config.subjects, *named),
        )
        return matches, zone_of(memory)

    async def _saved(self, memory: Memory, text: str) -> Remembered:
        run, saving = self.run, self.run.config.saving
        if not text.strip():
            raise InvalidDataError("the text is blank: say what to remember")
        return await run.written_by_model(memory).remember(
            # A statement that a model saves is kept, even if the policy does not detect facts in its messages.
            Message(
                content=text,
                role=saving.tool_origin.value,
                name=run.config.agent_name,
                treatment=None if saving.tool_origin is Origin.USER else Treatment.STATEMENTS,
            ),
            subject=run.user,
            scope=run.config.home,
            private=saving.private,
            source=SAVE_MEMORY if keeps_log(memory) else None,
        )

    async def _retracted(self, memory: Memory, ids: list[str], reason: str) -> int:
        run = self.run
        view = run.view(memory)
        if not keeps_log(memory):
            raise InvalidDataError(f"the store keeps all that was saved. {_ONLY_THERE}")
        keys = {subject.key for subject in (run.user, *run.config.subjects)}
        for id in ids:
            record = await view.get(id)
            if record.subject.key not in keys:
                raise RecordNotFoundError("no memory of this run has this id: take an id from recall_memory")
            if record.trust > run.config.saving.tool_origin.rank:
                raise InvalidDataError(f"the user said it. {_TO_GO if memory.inbox.reads_words else _ONLY_THERE}")
        return len(await view.retract(*ids, reason=f"forget_memory: {reason}" if reason else "forget_memory"))
