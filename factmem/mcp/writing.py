"""The tools that write."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from typing import Any, Final

import attrs
from mcp.server.mcpserver import Context

from factmem.abc.detector import Message
from factmem.changes import Change
from factmem.errors import InvalidDataError, RecordNotFoundError
from factmem.mcp.access import Access, changed_addresses
from factmem.mcp.answers import (
    Answer,
    CategoriesArgument,
    DescriptionArgument,
    IdArgument,
    IdsArgument,
    ImportanceArgument,
    KeywordArgument,
    MultipleArgument,
    PrivateArgument,
    ReasonArgument,
    ScopeArgument,
    SubjectArgument,
    TextArgument,
    TimeArgument,
    ValueArgument,
    ValueTypeArgument,
    awaited,
    concept_and_values,
    fact_answers,
    value_of,
)
from factmem.memory.background import Remembered
from factmem.memory.eraser import Erasure
from factmem.memory.facade import Memory
from factmem.records import AssertionState, FactDetails, FactRecord, Origin

__all__ = ["SOURCE", "WritingTools"]

SOURCE: Final = "mcp"
"""Source of the facts that clients write."""
_LONGEST_NAME: Final = 100


class WritingTools:
    """The tools that write. Their docstrings are shown to models.

    Args:
        access: The writable part of the memory.
        trusted: Whether facts written by clients have the user as their origin. If False, they are quarantined, and
            clients can retract only facts written by clients alone.
    """

    def __init__(self, access: Access, *, trusted: bool) -> None:
        self._access = access
        self._trusted = trusted
        self._origin = Origin.USER if trusted else Origin.UNKNOWN

    async def remember(
        self,
        text: TextArgument,
        ctx: Context,
        scope: ScopeArgument = None,
        subject: SubjectArgument = None,
        importance: ImportanceArgument = None,
        categories: CategoriesArgument = (),
        private: PrivateArgument = False,
    ) -> Answer:
        """Save a statement for later conversations. For a value of a known concept, prefer save_fact."""

        async def work(view: Memory) -> Remembered:
            about = await self._access.subject_to_write(view, subject)
            what = text if self._origin.trusted else Message(content=text, role=self._origin.value)
            return await view.remember(
                what,
                subject=about,
                scope=self._access.scope_to_write(scope),
                importance=importance,
                categories=categories or None,
                source=SOURCE,
                private=private or self._access.private or None,
            )

        outcome = await self._access.use(work, actor=_client(ctx))
        note = "There is nothing to remember in it." if not outcome.records else "Kept."
        if outcome.failure is not None:
            note = f"Kept as it was said: the model that reads for this memory failed ({outcome.failure})."
        return await self._written(ctx, outcome.records, note)

    async def save_fact(
        self,
        keyword: KeywordArgument,
        value: ValueArgument,
        ctx: Context,
        type: ValueTypeArgument = None,
        multiple: MultipleArgument = False,
        description: DescriptionArgument = "",
        scope: ScopeArgument = None,
        subject: SubjectArgument = None,
        said: TimeArgument = None,
        importance: ImportanceArgument = None,
        categories: CategoriesArgument = (),
        private: PrivateArgument = False,
    ) -> Answer:
        """Save a typed fact: the value of a concept. A newer value supersedes the previous one; the history has both.

        `said` is the time at which it was said (default: now).
        """
        details = FactDetails(categories=tuple(categories), source=SOURCE, origin=self._origin)
        if importance is not None:
            details = attrs.evolve(details, importance=importance)

        async def work(view: Memory) -> tuple[FactRecord[Any], ...]:
            about = await self._access.subject_to_write(view, subject)
            known = await view.list_records(concepts=[keyword], limit=1)
            concept, values = concept_and_values(
                keyword, value, next(iter(known), None), type_name=type, multiple=multiple, description=description
            )
            return await view.save(
                concept.fact(values, timestamp=said or dt.datetime.now(dt.UTC)),
                subject=about,
                scope=self._access.scope_to_write(scope),
                details=details,
                private=private or self._access.private or None,
            )

        return await self._written(ctx, await self._access.use(work, actor=_client(ctx)), "Kept.")

    async def update(
        self,
        id: IdArgument,
        ctx: Context,
        value: ValueArgument = "",
        scope: ScopeArgument = None,
        importance: ImportanceArgument = None,
        categories: CategoriesArgument = (),
        reason: ReasonArgument = "",
    ) -> Answer:
        """Change a record by its id: its value, importance, categories, or the scope that it is moved to.

        Earlier revisions stay in its history. A moved record has a new id.
        """
        if not value and scope is None and importance is None and not categories:
            raise InvalidDataError("say what to change: a value, a scope, an importance or categories")
        given: dict[str, Any] = {"scope": scope, "importance": importance, "categories": categories or None}

        async def work(view: Memory) -> Change:
            record = await view.get(id)
            if value:
                given.update(value=value_of(value, record.concept.value_type), source=SOURCE)
            labels = {"reason": reason} if reason.strip() else None
            return await view.update(id, **given, labels=labels, origin=None if self._origin.trusted else self._origin)

        change = await self._access.use(work, actor=_client(ctx))
        if change.previous is not None and change.previous.id != change.record.id:
            await self._announce(ctx, [change.previous])
        return await self._written(ctx, [change.record], "Updated; what it was is in the history.")

    async def retract(self, ids: IdsArgument, ctx: Context, reason: ReasonArgument = "") -> Answer:
        """Retract facts that are wrong, or that the user wants to be forgotten. They are not erased."""

        async def work(view: Memory) -> tuple[Change, ...]:
            if not self._trusted:
                await self._check_own(view, [await view.get(id) for id in ids])
            return await view.retract(*ids, reason=f"{SOURCE}: {reason}" if reason.strip() else SOURCE)

        changes = await self._access.use(work, actor=_client(ctx))
        note = "Taken back; a person can bring it back with `factmem undo ID`."
        gone = [attrs.evolve(change.record, state=AssertionState.RETRACTED) for change in changes]
        return await self._written(ctx, gone, note)

    async def forget(self, ids: IdsArgument, ctx: Context) -> Answer:
        """Erase records permanently, with all their history. This cannot be undone: almost always prefer retract."""

        async def work(view: Memory) -> tuple[Sequence[FactRecord[Any]], Erasure]:
            doomed = (await view.forget(*ids, dry_run=True)).records
            if {record.id for record in doomed} != set(ids):
                raise RecordNotFoundError("one of the ids names no visible record: nothing was erased")
            return doomed, await view.forget(*ids)

        doomed, receipt = await self._access.use(work, actor=_client(ctx))
        await self._announce(ctx, doomed)
        pending = " Old bytes go when other processes close the store." if receipt.pending else ""
        return {"records": len(doomed), "revisions": receipt.erased, "note": f"Erased for good.{pending}"}

    async def _check_own(self, view: Memory, records: Sequence[FactRecord[Any]]) -> None:
        """Check that clients that were not trusted wrote every revision: an accepted update is not the whole record."""
        revisions = [revision for record in records for revision in await view.history(record.id)]
        if any(revision.details.source != SOURCE or revision.details.origin.trusted for revision in revisions):
            raise InvalidDataError(
                "clients of this server are not trusted, and take back only what they wrote themselves; nothing was "
                "changed: a person can do it with `factmem retract ID`"
            )

    async def _written(self, ctx: Context, records: Sequence[FactRecord[Any]], note: str) -> Answer:
        quarantined = any(record.state is AssertionState.QUARANTINED for record in records)
        if quarantined:
            waiting = awaited(await self._access.use(lambda view: view.inbox.quarantine.count()), trusted=self._trusted)
            note = f"Quarantined. Do not save it again. {waiting}"
        await self._announce(ctx, [record for record in records if record.state is not AssertionState.QUARANTINED])
        return {"facts": fact_answers(records), "kept_apart": quarantined, "note": note}

    async def _announce(self, ctx: Context, records: Sequence[FactRecord[Any]]) -> None:
        """Notify subscribed clients of the changed resources."""
        for address in changed_addresses(records):
            await ctx.notify_resource_updated(address)
        if records:
            await ctx.notify_resources_changed()


def _client(ctx: Context) -> str:
    """Return the actor of the audit trail, from the name that the client gives itself."""
    try:
        params = ctx.session.client_params
    except ValueError:  # the program calls the tool itself, without a client
        params = None
    title = "" if params is None else f"{params.client_info.name} {params.client_info.version}"
    name = " ".join(shown for part in title.split() if (shown := "".join(filter(str.isprintable, part))))
    return f"{SOURCE}:{name[:_LONGEST_NAME]}" if name else SOURCE
