"""One run of an agent: what it is told, and what is learnt from it."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from factmem.abc import DetectionRequest, Message
from factmem.agent.config import AgentMemoryConfig
from factmem.agent.history import conversation_id
from factmem.agent.holding import Held, HeldOpen
from factmem.agent.identity import RunIdentity
from factmem.agent.policies import FailurePolicy
from factmem.agent.rendering import MemoryBlock, rendered
from factmem.agent.saving import SavedHistory
from factmem.errors import FactMemError
from factmem.facts import STATEMENT, Concept
from factmem.memory import Handover, Memory
from factmem.records import FactRecord, Origin
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject

if TYPE_CHECKING:
    from factmem.agent.tools import MemoryTools

__all__ = ["MemoryRun"]

_log = logging.getLogger("factmem")

_LONGEST_QUERY: Final = 4_000
"""In characters; what the user said last is at the end."""


@attrs.frozen(kw_only=True)
class MemoryRun:
    """One run of an agent, for one user. Made by `AgentMemory.for_run`.

    Attributes:
        config: what the agent's memory is made of.
        identity: whom it runs for.
        held: the memory.
    """

    config: AgentMemoryConfig
    identity: RunIdentity
    held: Held = attrs.field(repr=False)

    @property
    def user(self) -> MemorySubject:
        """Whom facts are about that are learnt from this run."""
        name = self.identity.user_id
        return self.config.user if name is None else self.config.user.individual(name)

    @property
    def tools(self) -> MemoryTools:
        """The tools that a model may be given in this run."""
        from factmem.agent.tools import MemoryTools

        return MemoryTools(self)

    async def load(
        self,
        history: Sequence[Message] = (),
        *,
        concepts: Iterable[Concept[Any, Any] | str] | None = None,
        subjects: Iterable[MemorySubject] | None = None,
        scopes: Iterable[MemoryScope | str] | None = None,
    ) -> MemoryBlock:
        """Return what the agent is told: the facts that are best for the conversation at hand, as a prompt shows them.

        Of typed facts that several subjects or scopes have of one concept, the one that holds is told:
        the stronger subject's, then the narrower scope's, then the newer one. What the history says
        word for word is not told again, and nothing from quarantine ever is.

        Args:
            history: the conversation so far.
            concepts: only facts of these, other than `Loading.concepts` says.
            subjects: about these, other than the user and `AgentMemoryConfig.subjects`.
            scopes: in these, other than all that the agent takes part in.

        Raises:
            FactMemError: nothing could be loaded, and the policy is `FailurePolicy.RAISE`.
        """
        hooks, loading = self.config.hooks, self.config.loading
        if not self.identity.load or self.config.keeps_nothing:
            return MemoryBlock()
        if hooks.before_load and not await hooks.before_load(self.identity, history):
            return MemoryBlock()
        wanted = loading.concepts if concepts is None else tuple(concepts)
        ask = partial(
            self._best,
            history=history,
            concepts=wanted,
            subjects=(self.user, *self.config.subjects) if subjects is None else tuple(map(self._narrowed, subjects)),
            scopes=self.config.scopes if scopes is None else tuple(scopes),
        )
        try:
            records = await self.held.use(ask)
        except FactMemError as error:
            self._failed("nothing could be loaded", error, loading.on_failure)
            return MemoryBlock()
        if hooks.after_load:
            records = list(await hooks.after_load(self.identity, records))
        return rendered(records, loading.budget, loading.count_tokens)

    async def save(
        self,
        history: Sequence[Message],
        *,
        looking_for: DetectionRequest | None = None,
        scope: MemoryScope | str | None = None,
    ) -> SavedHistory | None:
        """Hand the history over to be learnt from. It is on disk when this returns, and read in the background.

        What was handed over before is passed over, so the whole history may be handed in after each run.

        Args:
            history: the conversation so far, each message with an id.
            looking_for: what to look for, other than `Saving.looking_for` says.
            scope: where to keep it, other than `Saving.scope` says.

        Returns:
            What was handed over; None if there was nothing, or this run is not to be learnt from.

        Raises:
            FactMemError: it could not be handed over, and the policy is `FailurePolicy.RAISE`.
        """
        hooks, saving = self.config.hooks, self.config.saving
        if not self.identity.save:
            return None
        if self.config.keeps_nothing:
            _log.info("nothing is kept of this run: its memory was given no store")
            return None
        if hooks.before_save:
            history = await hooks.before_save(self.identity, history)
        events = [message for message in history if message.detectable and self._is_learnt_from(message)]
        if not events:
            return None
        try:
            handover = await self.held.use(
                partial(
                    self._handed_over,
                    stream=conversation_id(self.identity, history),
                    events=events,
                    looking_for=self._request(looking_for or saving.looking_for),
                    scope=self.config.home if scope is None else scope,
                )
            )
        except FactMemError as error:
            self._failed("the history could not be handed over", error, saving.on_failure)
            return None
        saved = SavedHistory(handover, self.held)
        if hooks.after_save:
            await hooks.after_save(self.identity, saved)
        return saved

    def load_blocking(self, history: Sequence[Message] = ()) -> MemoryBlock:
        """The same as `load`, where there is no event loop; hooks are called in the memory's own.

        Raises:
            CapabilityError: the memory is one that the program opened, which lives in an event loop.
        """
        return self.held.use_blocking(lambda memory: self._beside(memory).load(history))

    def save_blocking(self, history: Sequence[Message]) -> SavedHistory | None:
        """The same as `save`, where there is no event loop; hooks are called in the memory's own.

        Raises:
            CapabilityError: the memory is one that the program opened, which lives in an event loop.
        """
        saved = self.held.use_blocking(lambda memory: self._beside(memory).save(history))
        return None if saved is None else saved.held_by(self.held)

    def _beside(self, memory: Memory) -> MemoryRun:
        """This run, in the event loop that its memory lives in."""
        return attrs.evolve(self, held=HeldOpen(memory))

    def view(self, memory: Memory, scopes: Iterable[MemoryScope | str] | None = None) -> Memory:
        """Return a memory as this run sees it: the user's own and what is public, in the agent's scopes."""
        seen = memory if self.identity.user_id is None else memory.as_viewer(self.identity.user_id)
        named = [scope for scope in self.config.scopes if scope != MemoryScope.CROSS_PRODUCT]
        shared = [MemoryScope.CROSS_PRODUCT] if self.config.cross_product else []
        view = seen.slice(named, exact=shared, read_only=False)
        return view if scopes is None else view.slice(scopes, read_only=False)

    async def _best(
        self,
        memory: Memory,
        *,
        history: Sequence[Message],
        concepts: Collection[Concept[Any, Any] | str] | None,
        subjects: tuple[MemorySubject, ...],
        scopes: tuple[MemoryScope | str, ...],
    ) -> list[FactRecord[Any]]:
        loading = self.config.loading
        view = self.view(memory, scopes)
        said = {(conversation_id(self.identity, history), message.id) for message in history}
        limit = loading.limit + len(said)
        query = _query(history, loading.messages)
        if concepts is not None and not concepts:
            return []
        wanted = tuple(concepts or ()) or None
        if query:
            found = await view.recall(query, limit=limit, strongest=True, subjects=subjects, concepts=wanted)
            records = [match.record for match in found]
        else:
            records = await view.list_records(limit=limit, strongest=True, subjects=subjects, concepts=wanted)
        return [record for record in records if not _stands_in(said, record)][: loading.limit]

    async def _handed_over(
        self,
        memory: Memory,
        *,
        stream: str,
        events: Sequence[Message],
        looking_for: DetectionRequest,
        scope: MemoryScope | str,
    ) -> Handover:
        saving = self.config.saving
        return await self.view(memory).ingest_events(
            stream,
            events,
            trigger=saving.trigger,
            subject=self.user,
            scope=scope,
            looking_for=looking_for,
            private=saving.private,
        )

    def _is_learnt_from(self, message: Message) -> bool:
        return self.config.saving.tool_results or message.origin is not Origin.TOOL

    def _request(self, request: DetectionRequest | None) -> DetectionRequest:
        if request is None:
            return DetectionRequest(subjects=(self.user,), concepts=self.config.concepts, open=True)
        if request.subjects == (MemorySubject.EVERYTHING,):
            return attrs.evolve(request, subjects=(self.user,))
        return attrs.evolve(request, subjects=map(self._narrowed, request.subjects))

    def _narrowed(self, subject: MemorySubject) -> MemorySubject:
        return self.user if subject.key == self.config.user.key else subject

    def _failed(self, what: str, error: FactMemError, policy: FailurePolicy) -> None:
        match policy:
            case FailurePolicy.RAISE:
                raise error
            case FailurePolicy.LOG:
                _log.warning("%s: %s", what, type(error).__name__)


def _query(history: Sequence[Message], count: int) -> str:
    """What the user's latest messages say, the last one last; what is very long is cut at its beginning."""
    said = [message.content for message in history if message.role == "user" and message.content.strip()]
    return "\n".join(said[-count:])[-_LONGEST_QUERY:].strip()


def _stands_in(said: Collection[tuple[str | None, str | None]], record: FactRecord[Any]) -> bool:
    """Whether a record is a statement that the conversation at hand holds anyway."""
    return record.concept.keyword == STATEMENT.keyword and any(
        (item.conversation_id, item.message_id) in said for item in record.evidence
    )
