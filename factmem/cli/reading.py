"""The commands that ask: ``recall``, ``load``, ``history``."""

from __future__ import annotations

import datetime as dt
import difflib
import enum
import json
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from factmem.cli.arguments import ExactOption, ScopeOption, SubjectOption, from_day, through_day
from factmem.cli.command import command
from factmem.cli.scoring import Scoring
from factmem.cli.session import Session
from factmem.errors import ConceptConflictError, RecordNotFoundError
from factmem.facts import Concept, Fact, FactType
from factmem.records import FactRecord
from factmem.subjects import MemorySubject
from factmem.values import encode_value

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory import Memory
    from factmem.recall import RecallMatch

__all__ = ["add_to"]

_PLACES: Final = 5
_SCORING: Final = Scoring()


class Depth(enum.StrEnum):
    """What ``--depth`` takes."""

    SHALLOW = "shallow"
    DEEP = "deep"


AsOfOption = Annotated[
    dt.datetime | None,
    typer.Option(parser=through_day, metavar="DATE", help="As things had been said by then (a date: by its end)."),
]


def add_to(app: typer.Typer) -> None:
    """Add these commands to the app."""
    command(app, "recall")(recall)
    command(app, "load")(load)
    command(app, "history")(history)


async def recall(
    session: Session,
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What to look for, in words.")],
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="How many results at the most.")] = 10,
    scope: ScopeOption = None,
    exact: ExactOption = False,
    subject: SubjectOption = None,
    concept: Annotated[list[str] | None, typer.Option(metavar="KEYWORD", help="Only of this concept.")] = None,
    category: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only with this category.")] = None,
    source: Annotated[list[str] | None, typer.Option(metavar="NAME", help="Only from this source.")] = None,
    since: Annotated[
        dt.datetime | None, typer.Option(parser=from_day, metavar="DATE", help="Only what was said since then.")
    ] = None,
    until: Annotated[
        dt.datetime | None,
        typer.Option(parser=through_day, metavar="DATE", help="Only what was said until then (a date: until its end)."),
    ] = None,
    as_of: AsOfOption = None,
    depth: Annotated[
        Depth,
        typer.Option(help="deep: if the results are not sure enough, ask --model to take the query apart."),
    ] = Depth.SHALLOW,
    scoring: Scoring = _SCORING,
    earlier: Annotated[bool, typer.Option("--earlier", help="Show what each fact was before.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show what each score is made of.")] = False,
) -> None:
    """Find the facts that answer a query, best first, each with its source.

    A score is from 0 to 1: what nothing answers scores low, and --min-score leaves it out.

    With --depth deep, the output also shows the confidence, the other queries, and what is still missing.
    """
    settings = scoring.settings()
    if deep := depth is Depth.DEEP:
        session.check_model("deep recall")
    async with session.memory(subject=subject, scope=scope, asking=deep) as memory:
        reader: Memory = memory.as_of(as_of) if as_of else memory
        matches = await reader.recall(
            query,
            depth=depth.value,
            limit=limit,
            min_score=scoring.min_score,
            settings=settings,
            history=earlier,
            scope=scope,
            exact=exact,
            subject=subject,
            concepts=concept or None,
            categories=category or None,
            sources=source or None,
            since=since,
            until=until,
        )
        if matches.failure is not None and session.as_json:  # else it is printed as the warning that it is
            print(json.dumps({"warning": matches.failure}), file=sys.stderr)
        if not matches:
            await session.note_if_empty(memory)
    from factmem.cli.output import deep_block, deep_json, match_json

    def render(out: Console) -> None:
        _print_matches(out, matches, explain=explain)
        for line in () if matches.deep is None else deep_block(matches.deep):
            out.print(line)

    told = [match_json(match) for match in matches]
    session.show(told if matches.deep is None else {"matches": told, **deep_json(matches.deep)}, render)


def _print_matches(out: Console, matches: list[RecallMatch], *, explain: bool) -> None:
    from factmem.cli.output import match_block, print_block

    if not matches:
        out.print("Nothing found.")
    for rank, match in enumerate(matches, start=1):
        print_block(out, f"{rank:>2}  {match.score:.2f}", match_block(match, explain=explain))


async def load(
    session: Session,
    keyword: Annotated[str, typer.Argument(metavar="KEYWORD", help="The concept's keyword.")],
    scope: ScopeOption = None,
    subject: SubjectOption = None,
    as_of: AsOfOption = None,
) -> None:
    """Print the value of a concept, or its values one a line, whatever its type.

    With --scope: of exactly this one. Without: of all places, the one of the strongest subject, then of the
    narrowest scope, then the newest.
    """
    async with session.memory(subject=subject, scope=scope) as memory:
        reader: Memory = memory.as_of(as_of) if as_of else memory
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
        await session.note_if_empty(memory)
        raise await _unknown(keyword, reader, session)


def _ways_to_read(records: Iterable[FactRecord[Any]]) -> Iterable[Concept[Any, Any]]:
    """The concepts that a keyword may be read as: its own, or JSON where places differ in type."""
    concepts = list(dict.fromkeys(record.concept for record in records))
    if len(concepts) == 1:
        yield concepts[0]
    for kind in dict.fromkeys(concept.fact_type for concept in concepts):
        make = Concept.single if kind is FactType.SINGLE else Concept.multiple
        yield make(concepts[0].keyword, concepts[0].description, object)


def _show_fact(session: Session, fact: Fact[Any], place: FactRecord[Any]) -> None:
    from factmem.cli.output import shown, value_text

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
    """Say where a keyword is known instead, or which ones are similar."""
    unknown = f"nothing is known of the concept {keyword!r} there"
    if elsewhere := await reader.list_records(concepts=[keyword]):
        places = list(dict.fromkeys(_place(record) for record in elsewhere))
        more = f" and {len(places) - _PLACES} more places" if len(places) > _PLACES else ""
        return RecordNotFoundError(f"{unknown}; it is known {', '.join(places[:_PLACES])}{more}")
    names = (await reader.info()).keywords
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
    keyword: Annotated[str, typer.Argument(metavar="KEYWORD", help="The concept's keyword, or the id of a record.")],
    scope: ScopeOption = None,
    subject: SubjectOption = None,
) -> None:
    """Show every revision of a concept or record, oldest first, with what became of it."""
    async with session.memory(subject=subject, scope=scope) as memory:
        records = await memory.history(keyword, subject=subject, scope=scope)
        if not records:
            await session.note_if_empty(memory)
            raise await _unknown(keyword, memory, session)
    from factmem.cli.output import record_json

    session.show([record_json(record) for record in records], lambda out: _print_history(out, records))


def _print_history(out: Console, records: list[FactRecord[Any]]) -> None:
    from factmem.cli.output import print_block, record_block

    for record in records:
        print_block(out, f"r{record.revision}", record_block(record))
