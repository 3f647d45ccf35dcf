"""The commands that read facts and what happened to them.

`recall`, `list`, `show`, `load`, `history`, `profile` and `audit`.
"""

from __future__ import annotations

import datetime as dt
import enum
import json
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, cast

import attrs
import typer
from rich.text import Text

from factmem.browse.past import Biography, biography_of
from factmem.browse.record_lines import detail_lines, record_block, trail_line
from factmem.browse.texts import shown
from factmem.cli.ids import full_ids
from factmem.cli.options import PAGE_SIZE, Scoring, Selection, SomeIdsArgument, schema_named
from factmem.cli.output import deep_block, match_block, match_line, print_block, print_more, print_records
from factmem.cli.session import Session
from factmem.details import Origin
from factmem.error_hints import similar_names
from factmem.errors import ConceptConflictError, RecordNotFoundError
from factmem.facts import Concept, Fact, FactType
from factmem.json_form import attributes, record_json
from factmem.records import AssertionState, FactRecord
from factmem.subjects import MemorySubject
from factmem.validators import check_text
from factmem.values import Json, encode_value, value_text

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory.audit import AuditEntry, AuditPage
    from factmem.memory.facade import Memory
    from factmem.memory.profiles import PartialProfile, ProfileField, ProfileSchema
    from factmem.recall.results import RecallMatches

_SHOWN: Final = 0.005
"""Minimum score of a result beside others: less is printed as 0.00."""
_PLACES: Final = 5


async def recall(
    session: Session,
    query: str,
    limit: int = 10,
    selection: Selection = Selection(),
    as_of: dt.datetime | None = None,
    depth: Literal["shallow", "deep"] = "shallow",
    scoring: Scoring = Scoring(),
    earlier: bool = False,
    explain: bool = False,
) -> None:
    """Find the facts that answer a query, best first, each with its source.

    Scores are from 0 to 1. If nothing answers, a note says so, and the nearest records are shown in short. Results with
    a score of 0 are shown with --json only, unless there are no others.

    With --json, the output also has the confidence in these results, from 0 to 1, and whether anything answers. With
    --depth deep, it shows the confidence, the other queries and the gaps.

    Options:
        query: Query, in words.
        limit: Maximum number of results.
        depth: deep: if the results are uncertain, let --model split the query.
        earlier: Show the earlier values of each fact.
        explain: Show the parts of each score.
    """
    check_text(query, path="$.query")  # an argument that is not UTF-8
    settings = scoring.settings()
    if deep := depth == "deep":
        session.check_model("deep recall")
    async with session.memory(subject=selection.subject, scope=selection.scope, asking=deep) as memory:
        reader = memory.view(as_of=as_of) if as_of else memory
        matches = await reader.recall(
            query,
            depth=depth,
            limit=limit,
            min_score=scoring.min_score,
            settings=settings,
            history=earlier,
            **selection.filters(),
        )
        if matches.failure is not None and session.as_json:  # without JSON, it is logged and printed as a warning
            print(json.dumps({"warning": matches.failure}), file=sys.stderr)
        if not matches:
            await session.note_if_empty(memory, scope=selection.scope)

    def render(out: Console) -> None:
        _print_matches(out, matches, explain=explain)
        for line in () if matches.deep is None else deep_block(matches.deep):
            out.print(line)

    found: dict[str, Json] = {
        "answers": matches.answers,
        "confidence": matches.confidence,
        **({} if matches.deep is None else attributes(matches.deep)),
        "matches": [attributes(match) for match in matches],
    }
    session.show(found, render)


def _print_matches(out: Console, matches: RecallMatches, *, explain: bool) -> None:
    if not matches:
        out.print("Nothing found.")
    elif not matches.answers:
        out.print("Nothing answers this. Nearest:", style="yellow")
    answering = [match for match in matches if match.score >= _SHOWN] or matches
    for rank, match in enumerate(answering, start=1):
        block = match_block(match, explain=explain) if explain or matches.answers else [match_line(match)]
        print_block(out, f"{rank:>2}  {match.score:.2f}", block)


async def load(
    session: Session,
    keyword: str,
    scope: str | None = None,
    subject: MemorySubject | None = None,
    as_of: dt.datetime | None = None,
) -> None:
    """Print the value of a concept, or its values one per line.

    With --scope, print the value in exactly this scope. Otherwise, print the value of the user of --user or else of the
    strongest subject, then of the narrowest scope, then the newest.

    Options:
        keyword: Keyword of the concept.
    """
    async with session.memory(subject=subject, scope=scope) as memory:
        reader = memory.view(as_of=as_of) if as_of else memory
        known = await reader.list_records(concepts=[keyword], scope=scope, subject=subject)
        for concept in _ways_to_read(known):
            try:
                fact = await reader.load(concept, subject=subject, scope=scope)
            except ConceptConflictError:
                continue
            if fact is not None:
                place, *_ = await reader.list_records(
                    concepts=[keyword], scope=scope, exact=scope is not None, subject=subject, strongest=True
                )
                _show_fact(session, fact, place)
                return
        await session.note_if_empty(memory, scope=scope)
        raise await _unknown(keyword, reader, session)


def _ways_to_read(records: Iterable[FactRecord[Any]]) -> Iterable[Concept[Any, Any]]:
    """Yield the concepts to read a keyword as: its own one, or JSON if its type differs between places."""
    concepts = list(dict.fromkeys(record.concept for record in records))
    if len(concepts) == 1:
        yield concepts[0]
    for kind in dict.fromkeys(concept.fact_type for concept in concepts):
        make = Concept.single if kind is FactType.SINGLE else Concept.multiple
        yield make(concepts[0].keyword, concepts[0].description, object)


def _show_fact(session: Session, fact: Fact[Any], place: FactRecord[Any]) -> None:
    concept = fact.concept
    values = [encode_value(value, concept.value_type) for value in fact.values]
    single = concept.fact_type is FactType.SINGLE

    def render(out: Console) -> None:
        for value in values:
            out.print(shown(value_text(value)) if out.is_terminal else value_text(value))

    session.show(
        {
            **attributes(concept, "keyword", "description", "fact_type"),
            "type": concept.shape,
            **({"value": values[0]} if single else {"values": values}),
            **attributes(place, "subject", "scope"),
            **attributes(fact, "timestamp", "valid_from", "valid_to"),
        },
        render,
    )


async def _unknown(keyword: str, reader: Memory, session: Session) -> RecordNotFoundError:
    """Return an error that names the places of a keyword, or similar keywords."""
    unknown = f"nothing is known of the concept {keyword!r} there"
    if elsewhere := await reader.list_records(concepts=[keyword]):
        places = list(dict.fromkeys(_place(record) for record in elsewhere))
        more = f" and {len(places) - _PLACES} more places" if len(places) > _PLACES else ""
        return RecordNotFoundError(f"{unknown}; it is known {', '.join(places[:_PLACES])}{more}")
    names = (await reader.admin.info()).keywords
    if similar := similar_names(keyword, names):
        return RecordNotFoundError(f"{unknown}; similar ones are {', '.join(similar)}")
    return RecordNotFoundError(f"{unknown}; the concepts in use are listed by  {session.command_line('info')}")


def _place(record: FactRecord[Any]) -> str:
    about = "" if record.subject == MemorySubject.EVERYTHING else f" about {record.subject}"
    return f"in {record.scope}{about}"


async def history(
    session: Session, keyword: str, scope: str | None = None, subject: MemorySubject | None = None
) -> None:
    """Show every revision of a concept or record, oldest first, with its state, and when and why its value ended.

    Options:
        keyword: Keyword of the concept, or id of a record.
    """
    async with session.memory(subject=subject, scope=scope) as memory:
        records = await memory.history(keyword, subject=subject, scope=scope)
        if not records:
            (id,) = await full_ids(memory, [keyword])
            records = [] if id == keyword else await memory.history(id, subject=subject, scope=scope)
        if not records:
            await session.note_if_empty(memory, scope=scope)
            raise await _unknown(keyword, memory, session)

    session.show(
        [record_json(record) for record in records],
        lambda out: print_records(out, records, lambda record: f"r{record.revision}"),
    )


async def profile(
    session: Session,
    reference: Annotated[str, typer.Argument(metavar="FILE|MODULE:CLASS")],
    subject: MemorySubject | None = None,
    scope: str | None = None,
) -> None:
    """Show the known fields of a class, and the missing ones.

    Options:
        reference: A JSON Schema in a file, or an attrs class or pydantic model; its fields are concepts.
    """
    schema: ProfileSchema[Any] = schema_named(reference)
    async with session.memory(subject=subject, scope=scope) as memory:
        found = await memory.profile(schema, subject=subject, scope=scope, partial=True)
        if not found.known:
            await session.note_if_empty(memory)
    known = {
        field.attribute: _field_json(field, found.known) for field in schema.fields if field.attribute in found.known
    }
    data: dict[str, Json] = {
        "profile": reference,
        "complete": found.profile is not None,
        "known": known,
        "unknown": [field.attribute for field in schema.fields if field.attribute not in known],
        "missing": list(found.missing),
        "refused": list(found.refused),
    }
    session.show(data, lambda out: _print_profile(out, schema, known, found))


def _field_json(field: ProfileField, known: Mapping[str, Any]) -> Json:
    value: Any = known[field.attribute]
    if field.as_json:
        return cast("Json", value)
    if field.gather is None:
        return encode_value(value, field.concept.value_type)
    return [encode_value(item, field.concept.value_type) for item in value]


def _print_profile(
    out: Console, schema: ProfileSchema[Any], known: Mapping[str, Json], found: PartialProfile[Any]
) -> None:
    width = max((len(field.attribute) for field in schema.fields), default=0) + 2
    for field in schema.fields:
        name = (f"{field.attribute:<{width}}", "dim")
        missing, refused = field.attribute in found.missing, field.attribute in found.refused
        if field.attribute in known:
            out.print(Text.assemble(name, shown(value_text(known[field.attribute]))))
        if refused:
            out.print(Text.assemble(name, ("stored, but the profile does not accept it", "yellow")))
        elif field.attribute not in known:
            text = "missing: the profile requires it" if missing else "unknown"
            out.print(Text.assemble(name, (text, "yellow" if missing else "dim")))


_TRAIL_SIZE: Final = 50


class _Action(enum.StrEnum):
    """The choices of ``--action``; see `factmem.memory.audit.AuditAction`."""

    RECORDED = "recorded"
    SET_ASIDE = "set-aside"
    SUBMITTED = "submitted"
    READ = "read"
    FAILED = "failed"
    QUARANTINED = "quarantined"
    ACCEPTED = "accepted"
    REJECTED = "rejected"
    RETRACTED = "retracted"
    RESTORED = "restored"
    ERASED = "erased"


async def list_(
    session: Session,
    selection: Selection = Selection(),
    order: Literal["said", "recorded", "importance"] = "said",
    reverse: Annotated[bool, typer.Option("--reverse", "-r")] = False,
    limit: int = PAGE_SIZE,
    page: str | None = None,
) -> None:
    """List the current records, newest first; all given filters must hold.

    Options:
        order: Key to sort by.
        reverse: Oldest or least important first.
        limit: Records per page.
    """
    from factmem.memory.filters import RecordOrder

    async with session.memory(subject=selection.subject, scope=selection.scope) as memory:
        found = await memory.list_records(
            limit=limit, page=page, order_by=RecordOrder(order), descending=not reverse, **selection.filters()
        )
        if not found:
            await session.note_if_empty(memory, scope=selection.scope)

    session.show_page(found, empty="No record matches.")


async def show(session: Session, id: str) -> None:
    """Show one record: its value, details and evidence, its revisions, and the author and time of each change.

    Options:
        id: Id of the record, in full or shortened.
    """
    async with session.memory() as memory:
        (full,) = await full_ids(memory, [id])
        found = await biography_of(memory, full)

    session.show(
        {
            "record": record_json(found.record),
            "description": found.record.concept.description,
            "revisions": [record_json(record) for record in found.revisions],
            "trail": [attributes(entry) for entry in found.trail],
        },
        lambda out: _print_biography(out, found),
    )


def _print_biography(out: Console, found: Biography) -> None:
    print_block(out, "record", record_block(found.record, with_id=False, all_evidence=True))
    for line in detail_lines(found.record):
        out.print(line)
    if len(found.revisions) > 1:
        out.print("\nrevisions")
        for record in found.revisions:
            print_block(out, f"  r{record.revision}", record_block(record, with_id=False))
    out.print("\nhistory")
    for entry in found.trail:
        out.print(Text("  ") + trail_line(entry))


async def audit(
    session: Session,
    ids: SomeIdsArgument = None,
    selection: Selection = Selection(),
    origin: list[Origin] | None = None,
    action: list[_Action] | None = None,
    actor: Annotated[list[str] | None, typer.Option(metavar="NAME")] = None,
    flagged: bool = False,
    oldest_first: bool = False,
    limit: Annotated[int, typer.Option(min=1, metavar="NUMBER")] = _TRAIL_SIZE,
    page: str | None = None,
) -> None:
    """Show when records were made, changed or erased, by whom and from which source, newest first.

    --since and --until select by the time of the action, not by the time when the words were said.

    Options:
        origin: Only words of this origin.
        action: Only this action.
        actor: Only actions of this actor: cli, mcp, import, cli:ada, …
        flagged: Only records that read like instructions.
        oldest_first: Oldest first.
        limit: Entries per page.
    """
    from factmem.memory.audit import AuditAction

    filters = selection.filters()
    happened_since, until = filters.pop("since", None), filters.pop("until", None)
    async with session.memory(subject=selection.subject, scope=selection.scope) as memory:
        found = await memory.admin.audit(
            *await full_ids(memory, ids),
            actions=[AuditAction[item.name] for item in action or ()],
            actors=actor or (),
            origins=origin or (),
            flagged=True if flagged else None,
            happened_since=happened_since,
            happened_until=None if until is None else until + dt.timedelta(microseconds=1),
            descending=not oldest_first,
            limit=limit,
            page=page,
            **filters,
        )
        if not found.entries:
            await session.note_if_empty(memory, scope=selection.scope)
    data: dict[str, Json] = {"entries": [attributes(entry) for entry in found.entries], "next_page": found.next_page}
    session.show(data, lambda out: _print_trail(out, found))


def _print_trail(out: Console, found: AuditPage) -> None:
    if not found.entries:
        out.print("Nothing matches.")
    for entry in found.entries:
        print_block(out, f"#{entry.seq}", _entry_block(entry))
    print_more(out, found.next_page)


def _entry_block(entry: AuditEntry) -> list[Text]:
    if entry.record is None:
        return [trail_line(entry), Text(shown(f"assertion {entry.assertion_id}"), style="dim")]
    block = record_block(attrs.evolve(entry.record, state=AssertionState.ACTIVE))
    origin = Text(f"origin {entry.record.details.origin.value}", style="dim")
    said = Text("no longer: ", style="italic") + block[0] if entry.removed else block[0]
    return [trail_line(entry), said, origin, *block[1:]]
