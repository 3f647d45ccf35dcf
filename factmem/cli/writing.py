"""The commands that write records.

`remember`, `extract`, `save`, `update`, `undo`, `retract` and `rollback`.
"""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factmem.browse.record_lines import record_block
from factmem.browse.texts import parsed_value, shown, typed_value
from factmem.cli.ids import full_ids
from factmem.cli.options import Details, IdsArgument, TextArgument, scalar
from factmem.cli.output import print_block, print_changes, print_records
from factmem.cli.progress import Tally, Watch
from factmem.cli.session import Session
from factmem.details import FactDetails
from factmem.facts import Concept, FactType
from factmem.json_form import attributes, record_json
from factmem.providers.memory import NoMemory
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject
from factmem.value_types import Scalar, scalar_named, typed_names
from factmem.values import Json

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory.background import Remembered


async def remember(
    session: Session,
    text: TextArgument,
    subject: MemorySubject | None = None,
    scope: str | None = None,
    details: Details = Details(),
    private: bool = False,
    consolidate: Annotated[bool, typer.Option("--consolidate/--no-consolidate")] = True,
) -> None:
    """Keep a text as a memory, with secrets redacted.

    With --model, scope, categories and importance are determined if no option sets them, and similar memories are
    updated or retracted.

    Options:
        consolidate: Compare the text with known records.
    """
    owned = session.private(private)
    watch = Watch(session)
    async with session.memory(
        subject=subject, scope=scope, read_only=False, asking=True, on_event=watch.hear
    ) as memory:
        submitting = memory.remember_many(
            [text],
            subject=await session.subject_in(memory, subject),
            scope=scope,
            **details.arguments(),
            private=owned,
            consolidate=consolidate,
        )
        submission = await watch.seen_through(submitting)
        (result,) = submission.outcomes
    session.show(_remembered_json(result), lambda out: _print_remembered(out, result))
    session.note_quarantined(len(result.waiting))
    if (unread := watch.failure(Tally.of([result]), "text")) is not None:
        raise unread


def _remembered_json(result: Remembered) -> dict[str, Json]:
    return {
        "records": [record_json(record) for record in result.records],
        "changes": [attributes(change) for change in result.changes],
        "dropped": Tally.of([result]).to_json()["dropped"],
        "waiting": len(result.waiting),
        "failure": result.failure,
    }


def _print_remembered(out: Console, result: Remembered) -> None:
    print_changes(out, result.changes)
    changed = {change.record.id for change in result.changes}
    for record in result.records:
        if record.id not in changed:
            label = "waits" if record in result.waiting else "kept" if result.failure else "known"
            print_block(out, label, record_block(record))
    for line in Tally.of([result]).lines:
        out.print(line, style="yellow")


async def extract(session: Session, text: TextArgument = "-") -> None:
    """Print the statements of a text, one per line, without storing them; needs --model."""
    session.check_model("extracting statements")
    async with session.memory(provider=NoMemory(), asking=True) as memory:
        statements = await memory.inbox.extract(text)

    def render(out: Console) -> None:
        for statement in statements:
            out.print(shown(statement))

    session.show(list(statements), render)


async def save(
    session: Session,
    keyword: str,
    value: str,
    type: Annotated[
        Scalar | None,
        typer.Option(
            "--type",
            parser=scalar,
            metavar="TYPE",
            help=f"Type: {', '.join(typed_names())} (default: the concept's type in the store, else str).",
        ),
    ] = None,
    multiple: bool = False,
    description: str | None = None,
    subject: MemorySubject | None = None,
    scope: str | None = None,
    timestamp: dt.datetime | None = None,
    details: Details = Details(),
    private: bool = False,
) -> None:
    """Save a typed fact; a newer single value replaces the older one, which stays in the history.

    Options:
        keyword: Keyword of the concept.
        value: Value; put -- before a value that starts with a dash.
        multiple: Add to several values instead of replacing the only one.
        description: Description of the concept; recall searches it.
        timestamp: Time it was said (default: now).
    """
    owned = session.private(private)
    given = {name: value for name, value in details.arguments().items() if value is not None}
    ttl = given.pop("ttl", None)
    async with session.memory(subject=subject, scope=scope, read_only=False) as memory:
        known = [record.concept for record in await memory.list_records(concepts=[keyword], limit=1)]
        if known and type is None:
            value_type = known[0].value_type
            typed = typed_value(value, value_type)
        else:
            named = type or scalar_named("str")
            value_type, typed = named.type, parsed_value(value, named)
        several = multiple or any(concept.fact_type is FactType.MULTIPLE for concept in known)
        make = Concept.multiple if several else Concept.single
        about = description or next((concept.description for concept in known), "")
        records = await memory.save(
            make(keyword, about, value_type).fact([typed], timestamp=timestamp or dt.datetime.now(dt.UTC)),
            subject=await session.subject_in(memory, subject),
            scope=scope or MemoryScope.CROSS_PRODUCT,
            details=FactDetails(**given),
            private=owned,
            ttl=ttl,
        )
    session.show(
        [record_json(record) for record in records], lambda out: print_records(out, records, lambda record: "saved")
    )


async def update(
    session: Session,
    id: str,
    value: Annotated[str | None, typer.Option(metavar="VALUE")] = None,
    scope: str | None = None,
    details: Details = Details(),
) -> None:
    """Change a record; `history` keeps the earlier revision, and `undo` returns to it.

    Fields without an option stay unchanged. Categories replace the present ones, and metadata is added.

    Options:
        id: Id of the record, in full or shortened.
        value: New value, said now.
        scope: Scope to move the record to; it has another id there.
    """
    async with session.memory(read_only=False) as memory:
        (full,) = await full_ids(memory, [id])
        concept = (await memory.get(full)).concept
        said: dict[str, Any] = {} if value is None else {"value": typed_value(value, concept.value_type)}
        change = await memory.update(full, **said, scope=scope, **details.arguments())
    session.show(attributes(change), lambda out: print_changes(out, (change,)))


async def undo(session: Session, ids: IdsArgument, reason: str | None = None) -> None:
    """Undo the last change of records; a second undo makes the change again.

    A new value is replaced by the earlier one, a new record is retracted, and a retracted record is restored. A moved
    record returns to its scope, by the id that `update` printed or by the one before.
    """
    async with session.memory(read_only=False) as memory:
        changes = await memory.undo(await full_ids(memory, ids), reason=reason)
    session.show_changes(changes, "undone")


async def retract(session: Session, ids: IdsArgument, reason: str | None = None) -> None:
    """Retract records: they are no longer loaded or recalled, and `undo` brings them back."""
    async with session.memory(read_only=False) as memory:
        changes = await memory.retract(*await full_ids(memory, ids), reason=reason)
    session.show_changes(changes, "retracted")


def _revision(text: str) -> int:
    digits = text.removeprefix("r")
    if not (digits.isascii() and digits.isdigit()):
        raise typer.BadParameter(f"{text!r} is not a revision such as r12: see `factmem history`")
    return int(digits)


async def rollback(
    session: Session,
    revision: Annotated[int, typer.Argument(parser=_revision, metavar="REVISION")],
    reason: str | None = None,
) -> None:
    """Return a record to a revision; a rollback can be rolled back.

    Options:
        revision: Revision, as `history` shows it.
    """
    async with session.memory(read_only=False) as memory:
        change = await memory.rollback(revision, reason=reason)
    session.show(attributes(change), lambda out: print_changes(out, (change,), "rolled back"))
