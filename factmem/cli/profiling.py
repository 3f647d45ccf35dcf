"""The command that fills a class with what is known: ``profile``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from factmem.cli.arguments import ScopeOption, SubjectOption
from factmem.cli.classes import class_named
from factmem.cli.command import command
from factmem.cli.session import Session
from factmem.values import Json, encode_value

if TYPE_CHECKING:
    from rich.console import Console

    from factmem.memory import ProfileField, ProfileSchema

__all__ = ["add_to"]


def add_to(app: typer.Typer) -> None:
    """Add this command to the app."""
    command(app, "profile")(profile)


async def profile(
    session: Session,
    reference: Annotated[
        str, typer.Argument(metavar="MODULE:CLASS", help="An attrs class or a pydantic model; its fields are concepts.")
    ],
    subject: SubjectOption = None,
    scope: ScopeOption = None,
) -> None:
    """Show what is known of the fields of a class, and which are missing."""
    from factmem.memory import ProfileSchema

    schema: ProfileSchema[Any] = ProfileSchema.of(class_named(reference))
    async with session.memory(subject=subject, scope=scope) as memory:
        found = await memory.profile(schema, subject=subject, scope=scope, partial=True)
        if not found.known:
            await session.note_if_empty(memory)
    known = {field.attribute: _json(field, found.known) for field in schema.fields if field.attribute in found.known}
    data: dict[str, Json] = {
        "profile": reference,
        "complete": found.profile is not None,
        "known": known,
        "unknown": [field.attribute for field in schema.fields if field.attribute not in known],
        "missing": list(found.missing),
    }
    session.show(data, lambda out: _print(out, schema, known, found.missing))


def _json(field: ProfileField, known: Mapping[str, Any]) -> Json:
    value = known[field.attribute]
    if field.gather is None:
        return encode_value(value, field.concept.value_type)
    return [encode_value(item, field.concept.value_type) for item in value]


def _print(out: Console, schema: ProfileSchema[Any], known: Mapping[str, Json], missing: tuple[str, ...]) -> None:
    from rich.text import Text

    from factmem.cli.output import shown, value_text

    width = max((len(field.attribute) for field in schema.fields), default=0) + 2
    for field in schema.fields:
        name = (f"{field.attribute:<{width}}", "dim")
        if field.attribute in known:
            out.print(Text.assemble(name, shown(value_text(known[field.attribute]))))
        else:
            text = "missing: the profile needs it" if field.attribute in missing else "unknown"
            out.print(Text.assemble(name, (text, "yellow" if field.attribute in missing else "dim")))
