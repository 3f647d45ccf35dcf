"""Administration of a memory: summaries, audit trail, export and import, expiry and erasure of everything."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import IO, Any, TypeVar, Unpack

import attrs

from factmem.abc.capabilities import Access
from factmem.details import Origin
from factmem.errors import OutOfViewError
from factmem.facts import Concept
from factmem.memory.audit import AuditAction, AuditConditions, AuditPage, AuditTrail
from factmem.memory.backend import Backend
from factmem.memory.calibrating import MOST_TEXTS, calibrated_on_questions, calibrated_on_texts
from factmem.memory.context import Context
from factmem.memory.converting import Conversion, Converter
from factmem.memory.eraser import Eraser, Erasure
from factmem.memory.erasure_proof import Traces
from factmem.memory.exports import Exchange, ImportReceipt, ImportSource
from factmem.memory.filters import Filters, Listing
from factmem.memory.operations import observed
from factmem.memory.reader import ReadingPart
from factmem.memory.recaller import Recaller
from factmem.memory.scope_tree import ScopeInfo, ScopeTree, tree_of
from factmem.memory.ttl import ExpiryReceipt
from factmem.recall import RecallFilter
from factmem.recall.scoring import Calibration
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.validators import check_whole, listed
from factmem.views import UNCONFINED

T = TypeVar("T")


@observed()
class Admin(ReadingPart):
    """Administration of a memory or of the records that a view shows. See `Memory.admin`."""

    def _reaching(self, *, all_users: bool) -> tuple[Context, Backend]:
        return self._context.of_all_users() if all_users else self._context, self._backend

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
        if depth is not None:
            check_whole(depth, "depth")
        anchored = self._context.subtree(scope)
        root = anchored.within(None) if anchored else None
        wanted = RecallFilter(scope=anchored, subjects=self._reader.subjects(subjects))
        return await self._reader.of_visible(wanted, lambda corpus, found: tree_of(corpus.columns, found, root, depth))

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

        An erased record leaves only its erasure. Because its owner and place are unknown, the erasure is not listed if
        the trail is restricted to records or scopes.

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
            page: `AuditPage.next_page` of the previous page.
            filters: Conditions on the assertions; see `Filters`.

        Raises:
            RecordNotFoundError: An id names no visible assertion.
            InvalidDataError: A filter cannot be met, or there is no such page.
            CapabilityError: The provider keeps no log.
        """
        conditions = AuditConditions(
            ids=ids,
            actions=listed("actions", actions, AuditAction),
            actors=listed("actors", actors, str),
            origins=listed("origins", origins, Origin),
            flagged=flagged,
            happened_since=happened_since,
            happened_until=happened_until,
            assertions=self._reader.wanted(filters),
        )
        trail = AuditTrail(self._context, self._backend)
        return await trail.page(conditions, page, limit=limit, descending=descending)

    async def accesses(self, *record_ids: str) -> dict[str, Access]:
        """Return the number and the last time of the recalls of records, by any viewer.

        Only recalls by memories opened with ``access_statistics=True`` count. Counts that another process has not
        written yet are missing.

        Args:
            record_ids: Ids of the records.

        Raises:
            RecordNotFoundError: An id names no record that is current and visible.
            CapabilityError: The provider keeps no such counts.
        """
        self._context.check_present()
        keeper, counts = self._backend.log(), self._backend.accesses
        ids = [record.id for record in await self._reader.current(record_ids)]
        written = await keeper.accesses(self._context.tenant, ids)
        return {id: written.get(id, Access()) + (counts.counted(id) if counts else Access()) for id in ids}

    async def export(self, target: Path | str | IO[str], *, all_users: bool = False, replace: bool = False) -> int:
        """Write everything that the viewer may see, with its history, as JSON Lines; return the number of lines.

        Args:
            target: A file opened for writing, or a path.
            all_users: Also write the private facts of all users of the organization, with their owners. To restore
                them, `import_` the file with ``trust=True`` into a memory without a viewer.
            replace: Replace an existing file at the path.

        Raises:
            InvalidDataError: There is a file at the path already; all users are meant, and this memory has a viewer;
                or the target is not a file.
            OutOfViewError: All users are meant, and this memory is a view.
            StoreUnavailableError: The file cannot be written.
        """
        return await Exchange(*self._reaching(all_users=all_users)).export(target, replace=replace)

    async def import_(
        self,
        source: ImportSource,
        *,
        trust: bool = False,
        progress: Callable[[int], None] | None = None,
        records: Mapping[str, str] | None = None,
    ) -> ImportReceipt:
        """Import a file of `export`, or entries of another store; existing assertions stay unchanged.

        Nobody vouches for the assertions in a file: all of them are quarantined until accepted, unless the caller
        trusts the file. A log line gives their number. The program vouches for entries that it passes: only those of
        untrusted origins are quarantined. An entry may revise another entry of the same call, by its record id.

        Args:
            source: A file of JSON Lines, or its path; or entries, which are read in batches in a worker thread.
            trust: Keep the states of the source, for example of your own backup. Assertions quarantined by an earlier
                import are accepted.
            progress: Function called with the number of lines or entries read so far.
            records: Ids of records of this memory, by the ids under which entries revise them.

        Returns:
            The numbers of new and of quarantined assertions.

        Raises:
            CodecError: A line is malformed; earlier lines are kept.
            InvalidDataError: The source holds another viewer's private facts, and is not trusted or this memory has a
                viewer; or the source is neither a file nor entries. Earlier entries are kept.
        """
        exchange = Exchange(self._context, self._backend)
        return await exchange.import_(source, trust=trust, progress=progress, records=records)

    async def expire(
        self, *, revisions: dt.timedelta | None = None, all_users: bool = False, dry_run: bool = False
    ) -> ExpiryReceipt:
        """Erase expired records and superseded revisions that are older than the policy allows; finish erasures.

        Erasures of this organization that were killed, or whose result was ``pending``, are finished.

        Expired records are already invisible; this removes their words from the store. Current records do not change. A
        memory open for writing expires records automatically, for every viewer, at opening and then once a day, unless
        its clock is more than five years ahead of the newest time in the store. A call erases only records that this
        viewer may see.

        Args:
            revisions: Maximum age of superseded revisions (default: that of this memory's `TtlPolicy`).
            all_users: Also erase those of the private facts of all users.
            dry_run: Erase nothing, and report what would be erased.

        Raises:
            InvalidDataError: A viewer asks for all users.
            CapabilityError: The provider cannot erase.
            OutOfViewError: A view asks for all users.
        """
        return await Eraser(*self._reaching(all_users=all_users)).expire(revisions=revisions, dry_run=dry_run)

    async def reset(
        self, scope: MemoryScope | str | None = None, *, all_users: bool = False, dry_run: bool = False
    ) -> Erasure:
        """Erase everything that the viewer may see in a scope and its subtree, or everywhere; see `Memory.forget`.

        In a user's view, erase the user's private facts, and the public facts about the user. Other public facts stay,
        such as the user's words in a group conversation: see `Filters.speakers`.

            await memory.for_user("nora").admin.reset()
            await memory.admin.reset(all_users=True)  # an organization, with the private facts of everybody

        Args:
            scope: The scope; everything in this memory's view if None.
            all_users: Erase the private facts of all users as well.
            dry_run: Erase nothing; see `Memory.forget`.

        Raises:
            InvalidDataError: A viewer asks for all users.
            CapabilityError: The provider cannot erase.
            OutOfViewError: A view asks for all users.
        """
        return await Eraser(*self._reaching(all_users=all_users)).reset(scope, dry_run=dry_run)

    async def traces(
        self,
        *record_ids: str,
        texts: Collection[str] = (),
        speakers: Collection[str] | None = None,
        all_users: bool = False,
    ) -> Traces:
        """Gather the traces of records before they are erased, for `factmem.memory.verify_erased` to look for.

        Records that the viewer may not see are left out.

        Args:
            record_ids: The records to erase.
            texts: Other texts to look for, wherever they were said.
            speakers: Only of what these speakers said, as `Memory.forget` with ``speakers`` erases it; None for all.
            all_users: Also gather the traces of the private facts of all users.

        Raises:
            InvalidDataError: A viewer asks for all users.
            OutOfViewError: A view asks for all users.
        """
        return await Eraser(*self._reaching(all_users=all_users)).traces(record_ids, texts, speakers)

    async def reembed(self, progress: Callable[[float], None] | None = None) -> int:
        """Bind the store to this memory's embedder and embed everything again; return the number of visible records.

        Args:
            progress: Function called with the completed share after each batch, in the event loop.

        Raises:
            EmbedderError: The embedder failed; if it failed at the first call, the store is unchanged.
            OutOfViewError: This is a view, but a store has one embedder for all.
        """
        self._context.check_writable()
        if self._context.everybody.view != UNCONFINED:
            raise OutOfViewError("a view cannot embed the whole store again: ask the memory that it was made of")
        await self._backend.mirror.reembed(progress)
        return len(await self._reader.visible(RecallFilter()))

    async def convert(
        self,
        keyword: Concept[Any, Any] | str,
        concept: Concept[T, Any],
        function: Callable[[Any], T] | None = None,
        *,
        all_users: bool = False,
        dry_run: bool = False,
    ) -> Conversion:
        """Give the facts of a keyword another type, another keyword, or both: every revision, present and past.

        Use this after renaming a concept, adding or removing a field or a member of its class, changing its value type,
        or making it MULTIPLE instead of SINGLE. The facts keep their times, states, evidence and owners, and get new
        ids. If the new keyword already holds facts, both are united.

        A SINGLE becomes a MULTIPLE with one value and its history. A MULTIPLE with several current values at one place
        becomes a SINGLE with the value that the function chooses. For a MULTIPLE, the function takes a list of values:
        all current values of a place, and each revision alone. Values said after the chosen one are retracted.

            await memory.admin.convert("seats", Concept.single("seats", "Seats wanted", int), lambda old: int(old))
            await memory.admin.convert("town", Concept.single("city", "Where they live"))

        All values are converted before the first is written. Until this returns, readers may see a fact under neither
        keyword or under both. If the process is killed, nothing is lost: repeat the call to continue. Under the same
        keyword, values that are already stored as the concept's type stay unchanged, so a repeated call converts
        nothing more. For new values of the same type, such as a price in cents, convert to another keyword.

        Args:
            keyword: Keyword of the stored facts, or the concept that they were saved with.
            concept: The new concept of the facts.
            function: Function that returns the new value for an old value in the JSON of `export`; from a MULTIPLE to a
                SINGLE, for a list of them. It must return the same result each time. None keeps the values, as the
                concept's type writes them.
            all_users: Convert the private facts of all users as well, not only what the viewer sees.
            dry_run: Convert every value, and write nothing.

        Raises:
            InvalidDataError: A value is not of the concept's type, the function failed, there is no function to choose
                among several values, or a viewer asks for all users. The error names the record.
            ConceptConflictError: The concept's keyword holds facts of another type; nothing was converted.
            StateConflictError: Some of the facts wait for a model.
            CapabilityError: The provider cannot erase.
            OutOfViewError: A view asks for all users.
        """
        return await Converter(*self._reaching(all_users=all_users)).convert(
            keyword, concept, function, dry_run=dry_run
        )

    async def merge(
        self, subject: MemorySubject | str, into: MemorySubject | str, *, all_users: bool = False, dry_run: bool = False
    ) -> Conversion:
        """Make the facts about one subject facts about another one: every revision, present and past.

        Values that are the subject, such as a `boss`, change to the other subject, also inside lists, dicts and
        classes. The names of speakers stay: the words of a group keep theirs (`Message.name`).

        If both have a SINGLE, the newest value is current and the others are its history. See `convert` for the data
        that the facts keep, and for a killed process.

            await memory.admin.merge("user:annie", into="user:ann")

        Args:
            subject: The present subject of the facts.
            into: The new subject of the facts.
            all_users: Also merge the private facts of all users. The other individual becomes their owner, so this
                renames a user.
            dry_run: Write nothing.

        Raises:
            InvalidDataError: Both subjects are the same, or a viewer asks for all users.
            ConceptConflictError: Both have facts of one keyword, of different types; nothing was merged.
            StateConflictError: Some of the facts wait for a model.
            CapabilityError: The provider cannot erase.
            OutOfViewError: A view asks for all users.
        """
        return await Converter(*self._reaching(all_users=all_users)).merge(subject, into, dry_run=dry_run)

    async def calibrate(self, questions: Mapping[str, str] | None = None) -> Calibration:
        """Measure the weight of words beside this memory's embedder, without changing anything.

        Give the result to recall: ``RecallSettings(lexical_weight=…, unrelated=…)``.

        Args:
            questions: Questions, each with the text of the record that answers it. With None, the visible statements
                are used: their beginnings as questions, and their ends as answers.

        Raises:
            InvalidDataError: There are too few statements or no questions, an answer matches no visible record, or all
                weights find the answers equally well.
            EmbedderError: The embedder failed.
        """
        embedder = self._backend.embedder
        if questions is None:
            newest = await self._reader.list_records(Listing(limit=MOST_TEXTS))
            texts = [record.value for record in newest if isinstance(record.value, str)]
            return await calibrated_on_texts(embedder, texts)

        async def find(question: str, calibration: Calibration) -> list[str]:
            settings = attrs.evolve(
                self._context.settings, lexical_weight=calibration.lexical_weight, unrelated=calibration.unrelated
            )
            recaller = Recaller(self._context, self._backend)
            found = await recaller.recall(await recaller.search(question, settings=settings))
            return [str(match.record.value) for match in found]

        known = {str(record.value) for record in await self._reader.list_records()}
        return await calibrated_on_questions(embedder, questions, known, find)
