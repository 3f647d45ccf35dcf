"""The backend of a memory, shared by all views: the store, its mirror, the models, the worker and the access counts."""

from __future__ import annotations

import contextlib
import functools
import logging
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, cast

import anyio
import attrs

from factmem.abc.capabilities import Access, EraseReceipt, KeepsLog
from factmem.abc.clock import Clock
from factmem.abc.provider import AgentMemoryProvider
from factmem.detection.verbatim import VerbatimDetector
from factmem.errors import CapabilityError, FactMemError
from factmem.event_loops import OneLoop
from factmem.llm.asking import Spent
from factmem.recall.embedders import BoundedEmbedder, embedded

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from factmem.abc import Consolidator, Detector, Reranker, Verifier
    from factmem.abc.analyst import Analyst
    from factmem.abc.media import MediaReader
    from factmem.abc.question_analyst import QuestionAnalyst
    from factmem.abc.verifier import Confirmation
    from factmem.memory.background import Worker
    from factmem.memory.context import Context
    from factmem.recall.index.mirror import Mirror
    from factmem.reranking import Reranking

_log = logging.getLogger("factmem")

_MOST: Final = 1_000
"""Number of counted records after which the counts are written."""

_LONGEST: Final = 30.0
"""Age in seconds after which the next read writes the counts."""

_MOST_QUERIES: Final = 32
"""Maximum number of queries whose embeddings are held."""


@attrs.define(eq=False)
class AccessCounts:
    """Counts that are not written yet. One instance serves a memory and all its views.

    A read never waits for a write: a read that finds a batch full or old starts a write in the background, and closing
    the memory writes the rest. A killed process loses the counts since the last write.

    Attributes:
        keeper: The store of the counts.
        tenant: The organization of the records.
        clock: Returns the present.
        begin: Starts work in the background; raises `CapabilityError` while the memory is not open.
    """

    keeper: KeepsLog
    tenant: str | None
    clock: Clock
    begin: Callable[[Callable[[], Awaitable[object]]], None]
    _counted: dict[str, Access] = attrs.field(factory=dict, init=False)
    _since: float = attrs.field(factory=time.monotonic, init=False)
    _writing: bool = attrs.field(default=False, init=False)

    def count(self, record_ids: Iterable[str]) -> None:
        """Count one recall of each record."""
        if not self._counted:
            self._since = time.monotonic()
        self._add(dict.fromkeys(record_ids, Access(count=1, last=self.clock())))
        full = len(self._counted) >= _MOST or (self._counted and time.monotonic() - self._since >= _LONGEST)
        if full and not self._writing:
            with contextlib.suppress(CapabilityError):
                self.begin(self.write)
                self._writing = True

    def counted(self, record_id: str) -> Access:
        """Return the counts of a record that are not written yet."""
        return self._counted.get(record_id, Access())

    async def write(self) -> None:
        """Write the counts. If that fails, they are kept and written with the next batch.

        A write that has begun is finished even if its task is cancelled.
        """
        self._writing = True
        batch, self._counted = self._counted, {}
        try:
            if batch:
                with anyio.CancelScope(shield=True):
                    await self.keeper.add_accesses(self.tenant, batch)
        except BaseException as error:
            self._add(batch)
            if not isinstance(error, FactMemError):
                raise
            _log.warning("access counts could not be written yet: %s", type(error).__name__)
        finally:
            self._writing = False
            self._since = time.monotonic()

    def _add(self, accesses: Mapping[str, Access]) -> None:
        for id, access in accesses.items():
            self._counted[id] = self._counted.get(id, Access()) + access


def log_of(provider: AgentMemoryProvider) -> KeepsLog:
    """Return a provider as one that keeps a log.

    Raises:
        CapabilityError: It has the four verbs only.
    """
    if not isinstance(provider, KeepsLog):
        raise CapabilityError(
            f"{type(provider).__name__} has the four verbs only: it keeps no evidence, states, history or access "
            "counts, and cannot erase"
        )
    return provider


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
        asked: Embeddings of the latest queries. An erasure drops them.
        spellings: The one spelling of each keyword that was saved, by `folded_keyword`; empty where there are several.
        loop: The event loop that the memory is used in.
    """

    provider: AgentMemoryProvider
    mirror: Mirror
    embedder: BoundedEmbedder
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
    asked: dict[str, NDArray[np.float32] | None] = attrs.field(factory=dict, init=False)
    spellings: dict[str, str] = attrs.field(factory=dict, init=False)
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
        return not isinstance(self.provider, KeepsLog)  # slow to find out, and every write asks

    @property
    def reads_words(self) -> bool:
        """Whether a model reads submitted words."""
        return bool(self.analyst or self.consolidator or not isinstance(self.detector, VerbatimDetector))

    def log(self) -> KeepsLog:
        """Return the provider as one that keeps a log.

        Raises:
            CapabilityError: It has the four verbs only.
        """
        return log_of(self.provider) if self.four_verbs_only else cast("KeepsLog", self.provider)

    async def embed_queries(self, texts: Sequence[str]) -> list[NDArray[np.float32] | None]:
        """Embed queries, each once while it is among the latest: a turn of an agent searches several times for one.

        Raises:
            EmbedderError: See `embedded`.
        """
        known = {text: self.asked[text] for text in texts if text in self.asked}
        new = [text for text in dict.fromkeys(texts) if text not in known]
        if new:
            known |= zip(new, await embedded(self.embedder, new, query=True), strict=True)
            self.asked.update(known)
            while len(self.asked) > _MOST_QUERIES:
                self.asked.pop(next(iter(self.asked)))
        return [known[text] for text in texts]

    async def erase(
        self, tenant: str | None, record_ids: Sequence[str] = (), *, assertion_ids: Sequence[str] = ()
    ) -> EraseReceipt:
        """Erase records and single assertions from the store, and from all that this process holds.

        Raises:
            CapabilityError: The provider has the four verbs only.
        """
        receipt = await self.log().erase(record_ids, tenant=tenant, assertion_ids=assertion_ids)
        self.confirmations.clear()
        self.asked.clear()
        await self.mirror.let_go()
        return receipt


class Part:
    """A part of a memory: it works on the memory's backend, in the context of one view.

    Args:
        context: Tenant, viewer, view, policies and clock.
        backend: The store, the models and the worker.
    """

    def __init__(self, context: Context, backend: Backend) -> None:
        self._context = context
        self._backend = backend

    def _check_changeable(self) -> None:
        """Raise unless records can be changed: writes are allowed, and the provider keeps a log.

        Raises:
            ReadOnlyError: The memory is read-only, or shows the past.
            CapabilityError: The provider has the four verbs only.
        """
        self._context.check_writable()
        self._backend.log()
