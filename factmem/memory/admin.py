"""Administration of a memory: what it holds, who did what, export and import, expiry and erasure of everything."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar, Unpack

import attrs

from factmem.abc import Access
from factmem.errors import OutOfViewError
from factmem.facts import Concept
from factmem.memory.audit import Audit, AuditAction, AuditPage
from factmem.memory.backend import Backend
from factmem.memory.calibrating import MOST_TEXTS, by_questions, measured
from factmem.memory.context import Context
from factmem.memory.converting import Conversion, Converter
from factmem.memory.eraser import Eraser, Erasure
from factmem.memory.exchange import Exchange, ImportReceipt, ImportSource
from factmem.memory.filters import Filters, RecordOrder
from factmem.memory.observed import observed
from factmem.memory.reader import Reader
from factmem.memory.recaller import RecallDepth, Recaller
from factmem.memory.scope_tree import ScopeInfo, ScopeTree
from factmem.memory.traces import Traces
from factmem.memory.ttl import ExpiryReceipt
from factmem.recall import Calibration, RecallFilter
from factmem.records import Origin
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.values import Json
from factmem.views import UNCONFINED

__all__ = ["Admin"]

T = TypeVar("T")


@observed()
class Admin:
    """Administration of a memory or of a view, and never of more than the view shows. See `Memory.admin`."""

    def __init__(self, context: Context, backend: Backend) -> None:
        self._context = context
        self._backend = backend
        self._reader = Reader(context, backend)
        self._audit = Audit(context, backend)
        self._eraser = Eraser(context, backend)
        self._exchange = Exchange(context, backend)
        self._converter = Converter(context, backend)
        self._recaller = Recaller(context, backend)

    async def info(
        self,
        scope: MemoryScope | str | None = None,
        *,
        exact: bool = False,
        subjects: Collection[MemorySubject | str] | None = None,
    ) -> ScopeInfo:
        """Return a summary of the records in a scope and its subtree, with counts.

            info = await memory.admin.info("/product/alpha")
            print(info.records, list(info.scopes), info.categories)

        Args:
            scope: The scope; everything if None.
            exact: Leave out the subtree.
            subjects: Only records about one of these subjects.
        """
        return await self._reader.info(scope, exact=exact, subjects=subjects)

    async def tree(
        self,
        scope: MemoryScope | str | None = None,
        depth: int | None = None,
        *,
        subjects: Collection[MemorySubject | str] | None = None,
    ) -> ScopeTree:
        """Return the tree of the scopes that hold records; printed, it is a tree.

            print(await memory.admin.tree("/product/alpha", depth=2))

        Args:
            scope: The root of the tree; all scopes if None.
            depth: Number of levels below the root; all if None.
            subjects: Only records about one of these subjects.
        """
        return await self._reader.tree(scope, depth, subjects)

    async def audit(
        self,
        *ids: str,
        actions: Collection[AuditAction] = (),
        actors: Collection[str] = (),
        origins: Collection[Origin] = (),
        flagged: bool | None = None,
        happened_since: dt.datetime | None = None,
        happened_until: dt.datetime | None = None,
        descending: bool = True,
        limit: int | None = 100,
        page: str | None = None,
        **filters: Unpack[Filters],
    ) -> AuditPage:
        """Return one page of the audit trail: actions on assertions, with actor and reason.

        Of an erased record only its erasure is left. It is listed unless the trail is narrowed to records or
        scopes: its owner and place are unknown.

        Args:
            ids: Only these records, with all their revisions; quarantined ones by their id in `Inbox.quarantine`.
            actions: Only these actions.
            actors: Only actions of these actors, by full name or by the part before a colon, such as ``mcp``.
            origins: Only words of one of these origins.
            flagged: Only flagged records, or only others.
            happened_since: Only actions at this time or later.
            happened_until: Only actions before this time.
            descending: Newest first.
            limit: Maximum number of entries of a page; None for all.
            page: `AuditPage.next_page` of the page before.
            filters: Conditions on the assertions; see `Filters`.

        Raises:
            RecordNotFoundError: An id names no visible assertion.
            InvalidDataError: A filter cannot be met, or there is no such page.
        """
        return await self._audit.page(
            ids,
            actions=actions,
            actors=actors,
            origins=origins,
            flagged=flagged,
            happened_since=happened_since,
            happened_until=happened_until,
            descending=descending,
            limit=limit,
            page=page,
            filters=filters,
        )

    async def accesses(self, *record_ids: str) -> dict[str, Access]:
        """Return how often records were recalled, and when last, by any viewer.

        Results of `Memory.recall` count, in memories that were opened with ``access_statistics=True``. Counts that
        another process has not written yet are missing.

        Args:
            record_ids: Ids of the records.

        Raises:
            RecordNotFoundError: An id names no record that is current and visible.
            CapabilityError: The provider keeps no such counts.
        """
        return await self._audit.accesses(record_ids)

    async def export(self, target: Path | str | IO[str]) -> int:
        """Write everything that the viewer may see, with its history, as JSON Lines; return the number of lines.

        Args:
            target: A file opened for writing, or a path.
        """
        return await self._exchange.export(target)

    async def import_(
        self, source: ImportSource, *, trust: bool = False, progress: Callable[[int], None] | None = None
    ) -> ImportReceipt:
        """Import what `export` wrote, or entries of another store; assertions that are there already stay as they are.

        Nothing but the file vouches for the assertions in it: all of them are quarantined until they are accepted,
        unless the caller trusts the file. A log line gives their number. The program vouches for entries that it
        passes: only those of untrusted origins are quarantined. An entry may revise another one of the same call, by
        its record id.

        Args:
            source: A file of JSON Lines, or its path; or entries, which are taken some at a time in a worker thread.
            trust: Keep the states of the source, for example of one's own backup. Assertions that an earlier
                import quarantined are accepted.
            progress: A function that is called with the number of lines or entries read so far.

        Returns:
            The numbers of new and of quarantined assertions.

        Raises:
            CodecError: A line is malformed; earlier lines are kept.
            InvalidDataError: The source is not trusted and holds another viewer's private facts, or is neither a file
                nor entries; earlier ones are kept.
        """
        return await self._exchange.import_(source, trust=trust, progress=progress)

    async def expire(self, *, revisions: dt.timedelta | None = None, dry_run: bool = False) -> ExpiryReceipt:
        """Erase expired records and superseded revisions that are older than the policy allows; finish erasures.

        Erasures of this organization that were killed, or whose result was ``pending``, are finished.

        Expired records are invisible before that, too; this removes their words from the store. Current records do not
        change. A memory that is open for writing does this by itself, for every viewer, at opening and then once a
        day. A call erases what this viewer may see.

        Args:
            revisions: Maximum age of superseded revisions, instead of the one of this memory's `TtlPolicy`.
            dry_run: Erase nothing, and report what would be erased.

        Raises:
            CapabilityError: The provider cannot erase.
        """
        return await self._eraser.expire(revisions=revisions, dry_run=dry_run)

    async def reset(self, scope: MemoryScope | str | None = None) -> Erasure:
        """Erase everything that the viewer may see in a scope and its subtree, or everywhere; see `Memory.forget`.

        Args:
            scope: The scope; everything in this memory's view if None.

        Raises:
            CapabilityError: The provider cannot erase.
        """
        return await self._eraser.reset(scope)

    async def traces(self, *record_ids: str, texts: Collection[str] = ()) -> Traces:
        """Gather the traces of records before they are erased, for `factmem.memory.verify_erased` to look for.

        Records that the viewer may not see are left out.

        Args:
            record_ids: The records that are to be erased.
            texts: Other texts to look for, wherever they were said.
        """
        return await self._eraser.traces(record_ids, texts)

    async def reembed(self, progress: Callable[[float], None] | None = None) -> int:
        """Bind the store to this memory's embedder and embed everything again; return the number of visible records.

        Args:
            progress: Called with the share that is done after each batch, in the event loop.

        Raises:
            EmbedderError: The embedder failed; if it failed at the first call, the store is unchanged.
            OutOfViewError: This is a view, and a store has one embedder only.
        """
        self._context.check_writable()
        if self._context.everybody.view != UNCONFINED:
            raise OutOfViewError("a view cannot embed the whole store again: ask the memory that it was made of")
        await self._backend.mirror.reembed(progress)
        return len(await self._reader.visible(RecallFilter()))

    async def convert(
        self,
        keyword: str,
        concept: Concept[T, Any],
        function: Callable[[Json], T] | None = None,
        *,
        dry_run: bool = False,
    ) -> Conversion:
        """Give the facts of a keyword another type, another keyword, or both: every revision, present and past.

        Use it for a concept that was renamed, whose class lost a field or a member, or whose values are to be of
        another type. The facts keep their times, states, evidence and owners, and have new ids. If the keyword of the
        concept holds facts already, they are united.

            await memory.admin.convert("seats", Concept.single("seats", "Seats wanted", int), lambda old: int(old))
            await memory.admin.convert("town", Concept.single("city", "Where they live"))

        Every value is converted before any is written. Readers may see a fact under neither keyword or under both until
        this returns. If the process is killed meanwhile, nothing is lost: the same call goes on.

        Args:
            keyword: Keyword of the stored facts.
            concept: The concept that they are to be facts of.
            function: Returns the new value for an old one, which is given as JSON, as `export` writes it. It must give
                the same result each time. None to keep the values.
            dry_run: Convert every value, and write nothing.

        Raises:
            InvalidDataError: A value is not of the concept's type, or the one concept is SINGLE and the other MULTIPLE.
            ConceptConflictError: The concept's keyword holds facts of another type; nothing was converted.
            StateConflictError: Some of the facts wait for a model.
            CapabilityError: The provider cannot erase.
        """
        return await self._converter.convert(keyword, concept, function, dry_run=dry_run)

    async def merge(
        self, subject: MemorySubject | str, into: MemorySubject | str, *, dry_run: bool = False
    ) -> Conversion:
        """Make the facts about one subject facts about another one: every revision, present and past.

        Of a SINGLE that both have, the newest value is current and the others are its history. See `convert` for what
        the facts keep, and for a process that is killed.

            await memory.admin.merge("user:annie", into="user:ann")

        Args:
            subject: The subject that the facts are about now.
            into: The subject that they are to be about.
            dry_run: Write nothing.

        Raises:
            InvalidDataError: It is the same subject.
            ConceptConflictError: Both have facts of one keyword, of different types; nothing was merged.
            StateConflictError: Some of the facts wait for a model.
            CapabilityError: The provider cannot erase.
        """
        return await self._converter.merge(subject, into, dry_run=dry_run)

    async def calibrate(self, questions: Mapping[str, str] | None = None) -> Calibration:
        """Measure how much words count beside this memory's embedder; nothing is changed.

        Give the result to recall: ``RecallSettings(lexical_weight=…, unrelated=…)``.

        Args:
            questions: Questions with the text of the record that answers each. None to measure without any, on the
                visible statements: their beginnings are asked, and their ends searched.

        Raises:
            InvalidDataError: There are too few statements, or no questions.
            EmbedderError: The embedder failed.
        """
        embedder = self._backend.embedder
        if questions is None:
            newest = await self._reader.list_records(
                limit=MOST_TEXTS,
                offset=0,
                page=None,
                order_by=RecordOrder.SAID,
                descending=True,
                strongest=False,
                filters={},
            )
            return await measured(embedder, [record.value for record in newest if isinstance(record.value, str)])

        async def find(question: str, calibration: Calibration) -> list[str]:
            settings = attrs.evolve(
                self._context.settings,
                lexical_weight=calibration.lexical_weight,
                unrelated=calibration.unrelated,
            )
            found = await self._recaller.recall(
                question,
                limit=10,
                min_score=0.0,
                depth=RecallDepth.SHALLOW,
                lexical=True,
                semantic=True,
                strongest=False,
                history=False,
                settings=settings,
                deep=None,
                strict=False,
                filters={},
            )
            return [str(match.record.value) for match in found]

        return await by_questions(embedder, questions, find)
