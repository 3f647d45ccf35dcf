"""Tools that a model may be given: it recalls, saves and forgets within what its run may see."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from factmem.abc import Message
from factmem.agent.rendering import rendered
from factmem.details import Origin, Treatment
from factmem.errors import CapabilityError, InvalidDataError, ReadOnlyError, RecordNotFoundError
from factmem.memory import Memory, Remembered
from factmem.recall import still_true
from factmem.records import AssertionState, FactRecord

if TYPE_CHECKING:
    from factmem.agent.run import MemoryRun

__all__ = ["TOOL_NAMES", "MemoryTools"]

TOOL_NAMES: Final = ("recall_memory", "save_memory", "forget_memory")
"""The names of the tools."""

_MOST: Final = 50


@attrs.frozen
class MemoryTools:
    """The tools of one run. Their docstrings are what a model reads; what they return is text for it.

    They see what the run sees and nothing else: its user's own facts and what is public, in the agent's
    scopes. What a model gets wrong it is told, so that it can do better.
    """

    run: MemoryRun

    async def recall_memory(self, query: str, limit: int = 5) -> str:
        """Look up what is known from earlier conversations.

        Args:
            query: What to look for, in words.
            limit: How many memories to return at the most, from 1 to 50.
        """
        self.run.check_user()
        try:
            records = await self.run.held.use(partial(self._recalled, query=query, limit=max(1, min(limit, _MOST))))
        except InvalidDataError as error:
            return f"Nothing was looked up: {error}"
        loading = self.run.config.loading
        block = rendered(records, loading.budget, loading.count_tokens, ids=True)
        return block.text or "Nothing is known about that."

    async def save_memory(self, text: str) -> str:
        """Remember something for later conversations.

        Args:
            text: What to remember, as one statement that can be understood by itself.
        """
        if self.run.config.keeps_nothing:
            return "Nothing was saved: this agent has no memory."
        self.run.check_user(private=self.run.config.saving.private)
        try:
            outcome = await self.run.held.use(partial(self._saved, text=text))
        except (CapabilityError, InvalidDataError, ReadOnlyError) as error:
            return f"Nothing was saved: {error}"
        if outcome.unrepresented and not outcome.records:
            return "Nothing was saved: the store cannot keep who said it."
        if any(record.state is AssertionState.QUARANTINED for record in outcome.records):
            return "Saved, and kept apart until somebody confirms it."
        return "Saved."

    async def forget_memory(self, memory_ids: list[str], reason: str = "") -> str:
        """Take memories back that are wrong, or that the user wants to be forgotten.

        Args:
            memory_ids: The ids of the memories, as recall_memory shows them.
            reason: Why they are taken back.
        """
        self.run.check_user()
        try:
            taken_back = await self.run.held.use(partial(self._taken_back, ids=memory_ids, reason=reason))
        except RecordNotFoundError:
            return "Nothing was taken back: one of the ids names no memory. Look them up with recall_memory."
        except (CapabilityError, ReadOnlyError) as error:
            return f"Nothing was taken back: {error}"
        return f"Taken back: {taken_back}."

    async def _recalled(self, memory: Memory, *, query: str, limit: int) -> list[FactRecord[Any]]:
        run = self.run
        subjects = (run.user, *run.config.subjects)
        loading = run.config.loading
        matches = await (
            run.view(memory)
            .reviewed()
            .recall(
                query,
                limit=limit,
                min_score=loading.min_score,
                settings=run.config.recall,
                strongest=True,
                subjects=subjects,
            )
        )
        return [match.record for match in matches] if loading.overtaken else still_true(matches)

    async def _saved(self, memory: Memory, *, text: str) -> Remembered:
        run, saving = self.run, self.run.config.saving
        if not text.strip():
            raise InvalidDataError("the text is blank: say what to remember")
        return await run.view(memory).remember(
            # What a model asks to keep is kept, also where its messages are only shown to the one that reads.
            Message(
                content=text,
                role=saving.tool_origin.value,
                name=run.config.agent_name,
                treatment=None if saving.tool_origin is Origin.USER else Treatment.STATEMENTS,
            ),
            subject=run.user,
            scope=run.config.home,
            private=saving.private,
            source="save_memory",
        )

    async def _taken_back(self, memory: Memory, *, ids: list[str], reason: str) -> int:
        run = self.run
        view = run.view(memory)
        keys = {subject.key for subject in (run.user, *run.config.subjects)}
        for id in ids:
            if (await view.get(id)).subject.key not in keys:
                raise RecordNotFoundError("no memory of this run has this id")
        return len(await view.retract(*ids, reason=f"forget_memory: {reason}" if reason else "forget_memory"))
