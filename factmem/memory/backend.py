"""The backend of a memory: the store, its mirror, the models and the worker, shared by all views."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, cast

import attrs

from factmem.abc import AgentMemoryProvider, Erases, FeedsChanges, KeepsHistory
from factmem.detection import VerbatimDetector
from factmem.errors import CapabilityError
from factmem.llm import Spent
from factmem.loops import OneLoop

if TYPE_CHECKING:
    from factmem.abc import (
        Analyst,
        Confirmation,
        Consolidator,
        Detector,
        Embedder,
        MediaReader,
        QuestionAnalyst,
        Reranker,
        Verifier,
    )
    from factmem.memory.accesses import AccessCounts
    from factmem.memory.background import Worker
    from factmem.recall import Mirror
    from factmem.reranking import Reranking

__all__ = ["Backend"]


@attrs.frozen(kw_only=True, eq=False)
class Backend:
    """State shared by all views of one memory.

    Attributes:
        provider: The store.
        mirror: The store's current records, ready to be searched.
        embedder: Makes the vectors.
        detector: Finds facts in conversations.
        analyst: Finds out scope, categories and importance of texts; None without a model.
        verifier: Confirms findings that are not plainly said; without one, they wait.
        consolidator: Decides about similar statements; None without a model.
        question_analyst: Splits questions for deep recall; None without a model.
        reranker: Orders the best records of a search anew; None without one.
        reranking: Bounds of the reranker.
        media_reader: Reads images, sound and video; None without one.
        worker: Reads submissions in the background.
        accesses: Counts recalled records; None if recalls are not counted.
        concurrency: Maximum number of questions to models at a time.
        reranking_cost: What the reranker has cost since the memory was opened.
        media_tried: Media that gave nothing to this process.
        confirmations: The verifier's answers so far, by viewer and digest of the claim. An erasure drops them.
        loop: The event loop that the memory is used in.
    """

    provider: AgentMemoryProvider
    mirror: Mirror
    embedder: Embedder
    detector: Detector
    analyst: Analyst | None
    verifier: Verifier | None
    consolidator: Consolidator | None
    question_analyst: QuestionAnalyst | None
    reranker: Reranker | None
    reranking: Reranking
    media_reader: MediaReader | None
    worker: Worker
    accesses: AccessCounts | None
    concurrency: int
    reranking_cost: Spent = attrs.field(factory=Spent, init=False)
    media_tried: dict[object, None] = attrs.field(factory=dict, init=False)
    confirmations: dict[tuple[str | None, bytes], Confirmation] = attrs.field(factory=dict, init=False)
    loop: OneLoop = attrs.field(factory=lambda: OneLoop("this Memory"), init=False)

    def enter_loop(self) -> None:
        """Bind the memory to the running event loop.

        Raises:
            WrongLoopError: Another loop uses it.
            ProviderClosedError: It was opened in a process that this one was forked from.
        """
        self.worker.check_process()
        if self.loop.check():
            self.mirror.enter_loop()

    @functools.cached_property
    def four_verbs_only(self) -> bool:
        """Whether the provider has the four verbs only."""
        return not isinstance(self.provider, KeepsHistory)  # slow to find out, and every write asks

    @property
    def reads_words(self) -> bool:
        """Whether a model reads submitted words."""
        return bool(self.analyst or self.consolidator or not isinstance(self.detector, VerbatimDetector))

    @property
    def erases_by_itself(self) -> bool:
        """Whether expired revisions are found and erased in the background."""
        return isinstance(self.provider, FeedsChanges) and isinstance(self.provider, Erases)

    def history(self) -> KeepsHistory:
        """Return the provider as one that keeps history.

        Raises:
            CapabilityError: It does not.
        """
        if self.four_verbs_only:
            name = type(self.provider).__name__
            raise CapabilityError(f"{name} has the four verbs only: it keeps no evidence, states or history")
        return cast("KeepsHistory", self.provider)

    def eraser(self) -> Erases:
        """Return the provider as one that erases.

        Raises:
            CapabilityError: It does not.
        """
        if not isinstance(self.provider, Erases):
            raise CapabilityError(f"{type(self.provider).__name__} cannot erase; it has the four verbs only")
        return self.provider
