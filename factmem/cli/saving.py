"""The command that keeps a typed fact: ``save``."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING, Annotated, Any, Final

import attrs
import typer

from factmem.cli.arguments import (
    PrivateOption,
    ScopeOption,
    SubjectOption,
    TtlOption,
    from_day,
    parsed_value,
    scalar,
)
from factmem.cli.command import command
from factmem.cli.session import Session, known_subject
from factmem.facts import Concept, FactType
from factmem.records import FactDetails, FactRecord
from factmem.scalars import JSON_SHAPE, Scalar, scalar_named, scalar_of, typed_names
from factmem.scopes import MemoryScope
from factmem.values import decode_value

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory import Memory

__all__ = ["add_to"]

_JSON: Final = scalar_named(JSON_SHAPE)


def add_to(app: typer.Typer) -> None:
    """Add this command to the app."""
    command(app, "save")(save)


@attrs.frozen(kw_only=True)
class _Wanted:
    """How a value is to be kept, as far as that was said; else as the concept is kept already."""

    keyword: str
    type: Scalar | None
    multiple: bool
    description: str | None


async def save(
    session: Session,
    keyword: Annotated[str, typer.Argument(help="The concept's keyword.", metavar="KEYWORD")],
    value: Annotated[
        str, typer.Argument(metavar="VALUE", help="The value; put -- before one that starts with a dash.")
    ],
    type: Annotated[
        Scalar | None,
        typer.Option(
            "--type", parser=scalar, metavar="TYPE", help=f"{', '.join(typed_names())}; else as kept already, else str."
        ),
    ] = None,
    multiple: Annotated[bool, typer.Option("--multiple", help="One of several values, not the only one.")] = False,
    description: Annotated[str | None, typer.Option(help="What the concept means; recall reads it.")] = None,
    subject: SubjectOption = None,
    scope: ScopeOption = None,
    timestamp: Annotated[
        dt.datetime | None, typer.Option(parser=from_day, metavar="DATE", help="When it was said; else now.")
    ] = None,
    importance: Annotated[float, typer.Option(min=0, max=1, help="Weighs in recall.")] = 0.5,
    category: Annotated[list[str] | None, typer.Option(metavar="NAME", help="A label; may be repeated.")] = None,
    source: Annotated[str | None, typer.Option(metavar="NAME", help="Where it comes from, to filter by.")] = None,
    ttl: TtlOption = None,
    private: PrivateOption = False,
) -> None:
    """Keep a typed fact. Of a single value the newest counts, and the older ones stay in its history."""
    session.check_private(private)
    details = FactDetails(importance=importance, categories=tuple(category or ()), source=source)
    wanted = _Wanted(keyword=keyword, type=type, multiple=multiple, description=description)
    async with session.memory(subject=subject, scope=scope, read_only=False) as memory:
        concept, typed = await _concept(memory, wanted, value)
        records = await memory.save(
            concept.fact([typed], timestamp=timestamp or dt.datetime.now(dt.UTC)),
            subject=await known_subject(memory, subject),
            scope=scope or MemoryScope.CROSS_PRODUCT,
            details=details,
            private=private,
            ttl=ttl,
        )
    from factmem.cli.output import record_json

    session.show([record_json(record) for record in records], lambda out: _print_saved(out, records))


async def _concept(memory: Memory, wanted: _Wanted, text: str) -> tuple[Concept[Any, Any], Any]:
    """Return the concept to save under, and the value read as its type."""
    known = [record.concept for record in await memory.list_records(concepts=[wanted.keyword], limit=1)]
    description = wanted.description or next((concept.description for concept in known), "")
    if known and wanted.type is None:
        value_type = known[0].value_type
        kept = scalar_of(value_type)
        value = decode_value(parsed_value(text, _JSON), value_type) if kept is None else parsed_value(text, kept)
    else:
        named = wanted.type or scalar_named("str")
        value_type, value = named.type, parsed_value(text, named)
    several = wanted.multiple or any(concept.fact_type is FactType.MULTIPLE for concept in known)
    make = Concept.multiple if several else Concept.single
    return make(wanted.keyword, description, value_type), value


def _print_saved(out: Console, records: tuple[FactRecord[Any], ...]) -> None:
    from factmem.cli.output import print_block, record_block

    for record in records:
        print_block(out, "saved", record_block(record))
