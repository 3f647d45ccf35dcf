"""The commands for unread and quarantined words: `resume`, `dead-letters` and `quarantine`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from factmem.browse.record_lines import record_block
from factmem.browse.texts import APART, counted, short_id
from factmem.cli.ids import full_ids, lengthened
from factmem.cli.options import PAGE_SIZE, IdsArgument, Selection, SomeIdsArgument
from factmem.cli.output import print_block, print_changes
from factmem.cli.progress import Tally, Watch, progress, tallied
from factmem.cli.session import FAILED, Session, in_words, report
from factmem.errors import ConceptConflictError, InvalidDataError, ModelError
from factmem.json_form import attributes
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.changes import Change
    from factmem.memory.background import Remembered
    from factmem.memory.dead_letters import DeadLetter
    from factmem.memory.quarantine import Quarantine

SomeLettersArgument = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]", help="Ids of the dead letters (default: all).")
]
AllOption = Annotated[bool, typer.Option("--all", help="All quarantined records that pass the filters.")]


async def resume(session: Session, budget: int | None = None) -> None:
    """Read texts that an earlier process left unread, with the language model."""
    session.check_model("resuming")
    watch = Watch(session)
    async with session.memory(read_only=False, asking=True, on_event=watch.hear, budget=budget) as memory:
        submission = await watch.seen_through(memory.inbox.resume())
    tally = tallied([submission])

    def render(out: Console) -> None:
        read = counted(len(submission.ids) - submission.pending, "submission")
        out.print(f"{read} read: {tally}" if submission.ids else "Nothing waits.")
        if submission.pending:
            out.print(f"the budget is spent: {counted(submission.pending, 'submission')} not read yet")
        for line in tally.lines:
            out.print(line)

    session.show({"resumed": len(submission.ids), "unread": submission.pending, **tally.to_json()}, render)
    session.note_quarantined(tally.quarantined)
    if (unread := watch.failure(tally, "submission")) is not None:
        raise unread


async def list_letters(session: Session, all_users: bool = False) -> None:
    """Show the texts that could not be read, and the reasons.

    Options:
        all_users: Also show the private dead letters of all users.
    """
    async with session.memory() as memory:
        letters = await memory.inbox.dead_letters.list(all_users=all_users)
    listed = [{**attributes(letter), "reason": in_words(letter.reason)} for letter in letters]
    others = "" if all_users or session.reader else " that are public: --all-users shows those of all users"
    session.show(listed, lambda out: _print_letters(out, letters, f"There are no dead letters{others}."))


def _print_letters(out: Console, letters: Sequence[DeadLetter], empty: str) -> None:
    from rich.text import Text

    if not letters:
        out.print(empty)
    for letter in letters:
        why = Text(
            f"{letter.failure} · {letter.failed_at:%Y-%m-%d %H:%M} UTC · id {short_id(letter.id)}", style="yellow"
        )
        lines = [line for record in letter.records for line in record_block(record, with_id=False)]
        print_block(out, "unread", [why, *([Text(in_words(letter.reason))] if letter.reason else []), *lines])


async def retry(session: Session, ids: SomeLettersArgument = None, all_users: bool = False) -> None:
    """Read dead letters again; texts that fail again remain.

    Options:
        all_users: Also read the private dead letters of all users.
    """
    session.check_model("retrying dead letters")
    results: list[Remembered] = []
    async with session.memory(read_only=False, asking=True) as memory:
        letters = [letter.id for letter in await memory.inbox.dead_letters.list(all_users=all_users)]
        chosen = list(dict.fromkeys(lengthened(ids, letters) if ids else letters))
        with progress("reading", quiet=session.as_json) as advance:
            for id in chosen:
                results += await memory.inbox.dead_letters.retry(id, all_users=all_users)
                advance(len(results) / len(chosen))
    tally = Tally.of(results)

    def render(out: Console) -> None:
        out.print(f"{counted(len(results), 'dead letter')} tried: {tally}" if results else "There are no dead letters.")
        for result in read:
            print_changes(out, result.changes)

    read = [result for result in results if result.failure is None]  # the others are the letters, as they were
    changes: list[Json] = [attributes(change) for result in read for change in result.changes]
    session.show({"retried": len(results), **tally.to_json(), "changes": changes}, render)
    if failures := [result.failure for result in results if result.failure is not None]:
        names = ", ".join(dict.fromkeys(failures))
        raise ModelError(f"{counted(len(failures), 'dead letter')} could not be read again ({names}): try later")


async def dismiss(session: Session, ids: IdsArgument, all_users: bool = False) -> None:
    """Keep the words of dead letters verbatim, and stop trying to read them.

    Options:
        all_users: Also find the ids among the private dead letters of all users.
    """
    async with session.memory(read_only=False) as memory:
        letters = await memory.inbox.dead_letters.list(all_users=all_users)
        chosen = set(lengthened(ids, [letter.id for letter in letters]))
        await memory.inbox.dead_letters.dismiss(*chosen, all_users=all_users)
    count = len(chosen)
    session.show({"dismissed": count}, lambda out: out.print(f"{counted(count, 'dead letter')} dismissed"))


async def list_quarantined(
    session: Session, selection: Selection = Selection(), limit: int = PAGE_SIZE, page: str | None = None
) -> None:
    """Show the quarantined records, which are neither loaded nor recalled, with their reasons, oldest first.

    Options:
        limit: Records per page.
    """
    async with session.memory(subject=selection.subject, scope=selection.scope) as memory:
        found = await memory.inbox.quarantine.list(limit=limit, page=page, **selection.filters())

    session.show_page(found, lambda record: record.details.origin.value, empty="Nothing is quarantined.")


async def accept(
    session: Session,
    ids: SomeIdsArgument = None,
    everything: AllOption = False,
    selection: Selection = Selection(),
    reason: str | None = None,
) -> None:
    """Accept quarantined records as facts: the named ones, or with --all those that pass the filters.

    A wish to forget is carried out: what it takes back is shown as deleted. One that still means nothing waits on.
    """
    await _decide(session, "accept", ids or (), selection, everything=everything, reason=reason)


async def reject(
    session: Session,
    ids: SomeIdsArgument = None,
    everything: AllOption = False,
    selection: Selection = Selection(),
    reason: str | None = None,
) -> None:
    """Reject quarantined records: the named ones, or with --all those that pass the filters; `forget` erases them."""
    await _decide(session, "reject", ids or (), selection, everything=everything, reason=reason)


async def _decide(
    session: Session,
    decision: Literal["accept", "reject"],
    named: Sequence[str],
    selection: Selection,
    *,
    everything: bool,
    reason: str | None,
) -> None:
    """Accept or reject the records that are named, or all that the filters leave.

    Raises:
        InvalidDataError: Neither or both are given.
    """
    filters = selection.filters()
    if named and (everything or filters):
        raise InvalidDataError("name ids, or give --all with filters: not both")
    if not named and not everything:
        raise InvalidDataError("name the ids that `factmem quarantine list` shows, or add --all")
    async with session.memory(
        subject=selection.subject, scope=selection.scope, read_only=False, asking=decision == "accept"
    ) as memory:
        quarantine = memory.inbox.quarantine
        chosen = await full_ids(memory, named) if named else [it.id for it in await quarantine.list(**filters)]
        decide = quarantine.accept if decision == "accept" else quarantine.reject
        if named or decision == "reject":
            changes, refused = await decide(*chosen, reason=reason), list[ConceptConflictError]()
        else:
            changes, refused = await _accepted(quarantine, chosen, reason)

    def render(out: Console) -> None:
        for change in changes:
            waits = decision == "accept" and change.record.state in APART
            print_changes(out, [change], None if waits or change.previous is None else f"{decision}ed")

    session.show([attributes(change) for change in changes], render)
    for error in refused:
        report(error, as_json=session.as_json)
    if refused:
        raise typer.Exit(FAILED)


async def _accepted(
    quarantine: Quarantine, ids: Sequence[str], reason: str | None
) -> tuple[tuple[Change, ...], list[ConceptConflictError]]:
    """Accept records in one transaction, without those whose place holds another type, which give an error each."""
    left, refused = list(ids), list[ConceptConflictError]()
    while left:
        try:
            return await quarantine.accept(*left, reason=reason), refused
        except ConceptConflictError as error:
            left.remove(error.entry)
            refused.append(error)
    return (), refused
