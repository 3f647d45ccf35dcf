"""The commands that read facts: `recall`, `load`, `history` and `profile`."""

from __future__ import annotations

import datetime as dt
import difflib
import json
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import typer

from factmem.cli.ids import full_ids
from factmem.cli.options import (
    ScopeOption,
    Scoring,
    Selection,
    SubjectOption,
    schema_named,
    through_day,
)
from factmem.cli.session import Session
from factmem.errors import ConceptConflictError, RecordNotFoundError
from factmem.facts import Concept, Fact, FactType
from factmem.records import FactRecord
from factmem.subjects import MemorySubject
from factmem.values import Json, encode_value

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory.facade import Memory
    from factmem.memory.profiles import ProfileField, ProfileSchema
    from factmem.recall.results import RecallMatches

__all__ = ["history", "load", "profile", "recall"]

_SHOWN: Final = 0.005
"""Minimum score of a result beside others: less is printed as 0.00."""
_PLACES: Final = 5


AsOfOption = Annotated[
    dt.datetime | None,
    typer.Option(parser=through_day, metavar="DATE", help="Facts as of this time (a date: its end)."),
]


async def recall(
    session: Session,
    query: str,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1)] = 10,
    selection: Selection = Selection(),
    as_of: AsOfOption = None,
    depth: Literal["shallow", "deep"] = "shallow",
    scoring: Scoring = Scoring(),
    earlier: bool = False,
    explain: bool = False,
) -> None:
    """Find the facts that answer a query, best first, each with its source.

    Scores are from 0 to 1. If nothing answers, this is said, and the nearest records are shown in short. Results
    that score 0 are shown with --json only, unless there are no others.

    With --json, the output also has the confidence in these results, from 0 to 1, and whether anything answers. With
    --depth deep, it shows the confidence, the other queries and the gaps.

    Options:
        query: Query, in words.
        limit: Maximum number of results.
        depth: deep: if the results are uncertain, let --model split the query.
        earlier: Show the earlier values of each fact.
        explain: Show the parts of each score.
    """
    settings = scoring.settings()
    if deep := depth == "deep":
        session.check_model("deep recall")
    async with session.memory(subject=selection.subject, scope=selection.scope, asking=deep) as memory:
        reader: Memory = memory.view(as_of=as_of) if as_of else memory
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
    from factmem.cli.output import deep_block
    from factmem.json_form import attributes

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
    from factmem.cli.output import match_block, match_line, print_block

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
    scope: ScopeOption = None,
    subject: SubjectOption = None,
    as_of: AsOfOption = None,
) -> None:
    """Print the value of a concept, or its values one per line.

    With --scope, the value in exactly this scope. Without it, the value of the user of --user, else of the strongest
    subject, then of the narrowest scope, then the newest one.

    Options:
        keyword: Keyword of the concept.
    """
    async with session.memory(subject=subject, scope=scope) as memory:
        reader: Memory = memory.view(as_of=as_of) if as_of else memory
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
    from factmem.browse.texts import shown, value_text

    concept = fact.concept
    values = [encode_value(value, concept.value_type) for value in fact.values]
    single = concept.fact_type is FactType.SINGLE

    def render(out: Console) -> None:
        for value in values:
            out.print(shown(value_text(value)) if out.is_terminal else value_text(value))

    session.show(
        {
            "keyword": concept.keyword,
            "description": concept.description,
            "fact_type": concept.fact_type.value,
            "type": concept.shape,
            **({"value": values[0]} if single else {"values": values}),
            "subject": str(place.subject),
            "scope": str(place.scope),
            "timestamp": fact.timestamp.isoformat(),
            "valid_from": fact.valid_from.isoformat() if fact.valid_from else None,
            "valid_to": fact.valid_to.isoformat() if fact.valid_to else None,
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
    similar = difflib.get_close_matches(keyword, names, n=3, cutoff=0.5)
    similar += [name for name in names if keyword.casefold() in name.casefold() and name not in similar]
    if similar:
        return RecordNotFoundError(f"{unknown}; similar ones are {', '.join(similar[:5])}")
    return RecordNotFoundError(f"{unknown}; the concepts in use are listed by  {session.command_line('info')}")


def _place(record: FactRecord[Any]) -> str:
    about = "" if record.subject == MemorySubject.EVERYTHING else f" about {record.subject}"
    return f"in {record.scope}{about}"


async def history(
    session: Session,
    keyword: str,
    scope: ScopeOption = None,
    subject: SubjectOption = None,
) -> None:
    """Show every revision of a concept or record, oldest first, with its state.

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
    from factmem.cli.output import print_records
    from factmem.json_form import record_json

    session.show(
        [record_json(record) for record in records],
        lambda out: print_records(out, records, lambda record: f"r{record.revision}"),
    )


async def profile(
    session: Session,
    reference: Annotated[str, typer.Argument(metavar="FILE|MODULE:CLASS")],
    subject: SubjectOption = None,
    scope: ScopeOption = None,
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
    }
    session.show(data, lambda out: _print_profile(out, schema, known, found.missing))


def _field_json(field: ProfileField, known: Mapping[str, Any]) -> Json:
    value = known[field.attribute]
    if field.gather is None:
        return encode_value(value, field.concept.value_type)
    return [encode_value(item, field.concept.value_type) for item in value]


def _print_profile(
    out: Console, schema: ProfileSchema[Any], known: Mapping[str, Json], missing: tuple[str, ...]
) -> None:
    from rich.text import Text

    from factmem.browse.texts import shown, value_text

    width = max((len(field.attribute) for field in schema.fields), default=0) + 2
    for field in schema.fields:
        name = (f"{field.attribute:<{width}}", "dim")
        if field.attribute in known:
            out.print(Text.assemble(name, shown(value_text(known[field.attribute]))))
        else:
            text = "missing: the profile requires it" if field.attribute in missing else "unknown"
            out.print(Text.assemble(name, (text, "yellow" if field.attribute in missing else "dim")))
