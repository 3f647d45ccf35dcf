"""Options and arguments that several commands share, and the parsers of their texts."""

from __future__ import annotations

import datetime as dt
import functools
import importlib
import io
import json
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar, cast

import attrs
import typer

from factmem.browse.texts import parsed_value
from factmem.errors import FactMemError, InvalidDataError, KeyUnavailableError
from factmem.subjects import MemorySubject
from factmem.value_types import JSON_SHAPE, UNITS, as_utc, scalar_named
from factmem.values import Json

if TYPE_CHECKING:
    from factmem.memory.filters import Filters
    from factmem.memory.profiles import ProfileSchema
    from factmem.recall import MetadataCondition
    from factmem.recall.scoring import RecallSettings

T = TypeVar("T")

PAGE_SIZE: Final = 20
"""Number of records of a page by default."""


def _usage(parse: Callable[[str], T]) -> Callable[[str], T]:
    """Return a parser whose errors are wrong usage of the command."""

    @functools.wraps(parse)
    def parsed(text: str) -> T:
        try:
            return parse(text)
        except FactMemError as error:
            raise typer.BadParameter(str(error)) from None

    return parsed


subject: Final = _usage(MemorySubject.parse)
scalar: Final = _usage(scalar_named)


def from_day(text: str) -> dt.datetime:
    """Parse an ISO date or time, UTC by default; a date is the first moment of the day."""
    return _moment(text)[0]


def through_day(text: str) -> dt.datetime:
    """Parse an ISO date or time, UTC by default; a date is the last moment of the day."""
    found, whole_day = _moment(text)
    return found + dt.timedelta(days=1, microseconds=-1) if whole_day else found


def _moment(text: str) -> tuple[dt.datetime, bool]:
    try:
        found = as_utc(dt.datetime.fromisoformat(text.strip()))
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is not an ISO date or time such as 2026-05-01 or 2026-05-01T09:30"
        ) from None
    return found, len(text.strip()) <= len("2026-05-01")


def duration(text: str) -> dt.timedelta:
    """Parse a time to live: a number and a unit, such as ``30d``, ``12h`` or ``90s``."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw])", text.strip().lower(), re.ASCII)
    if found is None:
        raise typer.BadParameter(f"{text!r} is not a duration such as 90s, 45m, 12h, 30d or 2w")
    try:
        length = dt.timedelta(seconds=float(found[1]) * UNITS[found[2]])
        ends = dt.datetime.now(dt.UTC) + length
    except OverflowError:
        raise typer.BadParameter(
            f"{text!r} ends after the year 9999: leave it out to keep the record for ever"
        ) from None
    if ends <= dt.datetime.now(dt.UTC):
        raise typer.BadParameter(f"{text!r} is over already")
    return length


def _metadata(text: str) -> tuple[str, Json]:
    """Parse ``KEY=VALUE``; the value is JSON if it parses as such, else a text."""
    key, sign, value = text.partition("=")
    if not sign or not key.strip():
        raise typer.BadParameter(f"{text!r} is not metadata such as tier=gold")
    return key.strip(), _json_or_text(value)


def _json_or_text(text: str) -> Json:
    try:
        value: Json = parsed_value(text, scalar_named(JSON_SHAPE))
    except InvalidDataError:
        return text.strip()
    return value


_CONDITION: Final = re.compile(r"(?P<key>[^=<>!]+)(?P<sign>!?=(?!=)|[<>](?![=<>]))(?P<value>.+)", re.DOTALL)


@_usage
def condition(text: str) -> MetadataCondition:
    """Parse ``KEY=VALUE``, ``KEY!=VALUE``, ``KEY>VALUE`` or ``KEY<VALUE``."""
    from factmem.recall import MetadataCondition, MetadataOperator

    found = _CONDITION.fullmatch(text)
    if found is None:
        raise typer.BadParameter(
            f"{text!r} is not a condition such as tier=gold, tier!=gold, score>5 or score<9 (no other sign)"
        )
    operators = {">": MetadataOperator.GREATER_THAN, "<": MetadataOperator.LESS_THAN}
    sign = found["sign"]
    return MetadataCondition(
        found["key"].strip(),
        _json_or_text(found["value"]),
        operator=operators.get(sign, MetadataOperator.EQUAL),
        negate=sign == "!=",
    )


def checked_address(text: str | None) -> str | None:
    """Refuse an empty address, which would otherwise mean the user's own store."""
    if text is not None and not text.strip():
        raise typer.BadParameter("it is empty: name a store, or leave the option out to use your own")
    return text


def stdin_or_text(text: str) -> str:
    """Return a text, from stdin if it is a dash.

    Raises:
        typer.BadParameter: The text is not in the encoding of the terminal.
    """
    try:
        if text == "-":
            if isinstance(sys.stdin, io.TextIOWrapper):
                sys.stdin.reconfigure(errors="strict")
            text = sys.stdin.read()
        text.encode()
    except UnicodeError:
        encoding = (getattr(sys.stdin, "encoding", None) or "utf-8").upper()
        raise typer.BadParameter(f"it is not valid {encoding}: convert it first") from None
    return text


def key_in(variable: str | None) -> str | None:
    """Return the key in an environment variable; None for no variable.

    Raises:
        KeyUnavailableError: It is not set.
    """
    if variable is None:
        return None
    if not (key := os.environ.get(variable)):
        raise KeyUnavailableError(f"the environment variable {variable} is not set: set it to the key of the files")
    return key


OPTIONS: Final[Mapping[str, Any]] = {
    "budget": typer.Option(
        metavar="TOKENS", min=1, help="Stop after about this many model tokens; unread text waits for `factmem resume`."
    ),
    "category": typer.Option(metavar="NAME", help="Category of the record."),
    "concept": typer.Option(metavar="KEYWORD"),
    "exact": typer.Option("--exact", help="Exclude the scopes below."),
    "as_of": typer.Option(parser=through_day, metavar="DATE", help="Facts as of this time (a date: its end)."),
    "importance": typer.Option(min=0, max=1, help="Importance, from 0 to 1; recall weighs it."),
    "key_env": typer.Option(metavar="NAME"),
    "limit": typer.Option("--limit", "-n", min=1),
    "metadata": typer.Option(metavar="KEY=VALUE", help="Metadata; the value may be JSON."),
    "page": typer.Option(metavar="PAGE", help="Page token printed at the end of the previous page."),
    "private": typer.Option("--private", help="Visible to the viewer only (needs --viewer)."),
    "reason": typer.Option(metavar="TEXT", help="Reason, for the audit trail."),
    "scope": typer.Option(metavar="PATH", help="Scope of the facts, for example /product/alpha."),
    "since": typer.Option(parser=from_day, metavar="DATE"),
    "source": typer.Option(metavar="NAME", help="Name of the source, to filter by."),
    "subject": typer.Option(parser=subject, metavar="NAME[:INDIVIDUAL]", help="Subject of the facts."),
    "timestamp": typer.Option(parser=from_day, metavar="DATE"),
    "speaker": typer.Option(metavar="NAME"),
    "topic": typer.Option(metavar="NAME"),
    "ttl": typer.Option("--ttl", parser=duration, metavar="DURATION", help="Time to live, such as 12h or 30d."),
    "until": typer.Option(parser=through_day, metavar="DATE"),
}
"""Options that are the same in several commands, by the name of the parameter, unless a command declares its own."""

TextArgument: TypeAlias = Annotated[
    str, typer.Argument(parser=stdin_or_text, metavar="TEXT", help="Text; - reads stdin.")
]
IdsArgument: TypeAlias = Annotated[
    list[str], typer.Argument(metavar="ID", help="Ids of the records, in full or shortened.")
]
SomeIdsArgument: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="[ID]", help="Ids of the records, in full or shortened.")
]


_FILTERS: Final = {
    "concept": "concepts", "category": "categories", "source": "sources", "topic": "topics", "speaker": "speakers"
}  # fmt: skip
"""The filters of `Memory` that options which may be repeated stand for."""


@attrs.frozen(kw_only=True)
class Selection:
    """The filter options of the commands that search, list or erase records; all of them must hold.

    Attributes:
        scope: Scope of the facts, for example /product/alpha.
        exact: Exclude the scopes below.
        subject: Subject of the facts.
        concept: Only records of this concept.
        category: Only records with this category.
        source: Only records from this source.
        topic: Only records with this topic.
        speaker: Only statements of the speaker with this name.
        metadata: KEY=VALUE, KEY!=VALUE, KEY>VALUE or KEY<VALUE in the metadata; a value in "quotes" is a text.
        pattern: Only records whose value matches this regular expression.
        since: Only words said at this date or later.
        until: Only words said up to this date, inclusive.
    """

    scope: str | None = None
    exact: bool = False
    subject: MemorySubject | None = None
    concept: list[str] | None = None
    category: list[str] | None = None
    source: list[str] | None = None
    topic: list[str] | None = None
    speaker: list[str] | None = None
    metadata: Annotated[list[Any] | None, typer.Option(parser=condition, metavar="CONDITION")] = None
    pattern: Annotated[str | None, typer.Option(metavar="REGEX")] = None
    since: dt.datetime | None = None
    until: dt.datetime | None = None

    @property
    def given(self) -> bool:
        """Whether any of the options was given."""
        return self != Selection()

    def filters(self) -> Filters:
        """Return the filters that the options name."""
        options = attrs.asdict(self, recurse=False).items()
        given = {_FILTERS.get(name, name): value for name, value in options if value not in (None, False, [])}
        if conditions := given.pop("metadata", None):
            given["where"] = [conditions]
        if self.scope is None:
            given.pop("exact", None)
        return cast("Filters", given)


@attrs.frozen(kw_only=True)
class Details:
    """The options of the details of a record that is written."""

    importance: float | None = None
    category: list[str] | None = None
    source: str | None = None
    metadata: list[str] | None = None
    ttl: dt.timedelta | None = None

    def arguments(self) -> dict[str, Any]:
        """Return arguments of `Memory.remember` and `Memory.update`."""
        return {
            "importance": self.importance,
            "categories": self.category,
            "source": self.source,
            "metadata": dict(map(_metadata, self.metadata or ())) or None,
            "ttl": self.ttl,
        }


@attrs.frozen(kw_only=True)
class Walls:
    """The options that confine a server or a browser.

    Attributes:
        scope: Show this scope and below only.
        subjects: Show facts about this subject only; a server's clients write about the first one.
        read_only: Disable all writes.
    """

    scope: list[str] | None = None
    subjects: Annotated[
        list[MemorySubject] | None, typer.Option("--subject", parser=subject, metavar="NAME[:INDIVIDUAL]")
    ] = None
    read_only: bool = False

    def opening(self) -> dict[str, Any]:
        """Return arguments of `Session.memory`: the store is opened with the model unless it is read-only."""
        return {
            "subject": next(iter(self.subjects or ()), None),
            "scope": next(iter(self.scope or ()), None),
            "read_only": self.read_only,
            "asking": not self.read_only,
        }


def _option(name: str, **bounds: Any) -> Any:
    return typer.Option(
        f"--{name}", envvar=f"FACTMEM_{name.upper().replace('-', '_')}", rich_help_panel="Scores", **bounds
    )


@attrs.frozen(kw_only=True)
class Scoring:
    """The options of recall scores; each may be set in the environment as well.

    Attributes:
        min_score: Minimum score, from 0 to 1.
        composite: Score formula: boost (the default) or additive, a weighted sum.
        similarity_weight: Weight of similarity (additive only).
        recency_weight: Weight of recency (boost: at most 1).
        importance_weight: Weight of importance (boost: at most 1).
        half_life_days: Days after which recency is halved.
        lexical_weight: Weight of words, from 0 (meaning only) to 1 (words only).
        unrelated: Mean cosine of unrelated texts, from 0 to 1.
        diversity: Penalty for repeating an earlier result, from 0 to 1.
    """

    min_score: Annotated[float, _option("min-score", min=0, max=1)] = 0.0
    composite: Annotated[Literal["boost", "additive"] | None, _option("composite")] = None
    similarity_weight: Annotated[float | None, _option("similarity-weight", min=0)] = None
    recency_weight: Annotated[float | None, _option("recency-weight", min=0)] = None
    importance_weight: Annotated[float | None, _option("importance-weight", min=0)] = None
    half_life_days: Annotated[float | None, _option("half-life")] = None
    lexical_weight: Annotated[float | None, _option("lexical-weight", min=0, max=1)] = None
    unrelated: Annotated[float | None, _option("unrelated", min=0, max=1)] = None
    diversity: Annotated[float | None, _option("diversity", min=0, max=1)] = None

    def settings(self) -> RecallSettings | None:
        """Return the settings; None if no option sets one.

        Raises:
            typer.BadParameter: A weight does not belong to the formula, or is out of range.
        """
        from factmem.recall import Additive, Boost
        from factmem.recall.scoring import RecallSettings

        given = {name: value for name, value in attrs.asdict(self).items() if value is not None}
        del given["min_score"]  # of the request
        if not given:
            return None
        formula = Additive if given.pop("composite", "boost") == "additive" else Boost
        weights = {name: given.pop(name) for name in attrs.fields_dict(Additive) if name in given}
        if formula is Boost and "similarity_weight" in weights:
            raise typer.BadParameter("--similarity-weight needs --composite additive: add it, or leave the weight out")
        try:
            return RecallSettings(composite=formula(**weights), **given)
        except InvalidDataError as error:
            raise typer.BadParameter(_in_options(error)) from None


def _in_options(error: InvalidDataError) -> str:
    """Return an error's message with the option's name instead of the setting's."""
    name = (error.path or "").removeprefix("$.")
    text = str(error).replace(f" (at {error.path})", "")
    return text.replace(name, f"--{name.removesuffix('_days').replace('_', '-')}") if name else text


def schema_named(reference: str) -> ProfileSchema[Any]:
    """Return the profile that a JSON Schema in a file or a class stands for.

    Args:
        reference: A path, or ``MODULE:CLASS``.

    Raises:
        InvalidDataError: There is no such file or class, or it cannot be a profile.
    """
    from factmem.memory.profiles import ProfileSchema

    path = Path(reference)
    if ":" in reference and path.suffix != ".json" and not path.exists():
        return ProfileSchema.of(_class_named(reference))
    try:
        schema = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidDataError(f"{reference} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        schema = None
    if not isinstance(schema, dict):
        raise InvalidDataError(f"{reference} is not a JSON Schema: write one into it, an object with properties")
    return ProfileSchema.of(schema, name=schema.get("title") or path.stem)


def _class_named(reference: str) -> type[Any]:
    """Import a class.

    Args:
        reference: ``MODULE:CLASS``; modules in the working folder are found as well.

    Raises:
        InvalidDataError: There is no such module or class, or the module cannot be imported.
    """
    module, colon, name = reference.partition(":")
    if not colon or not module or not name:
        raise InvalidDataError(f"{reference!r} is not a class: write MODULE:CLASS, such as profiles:UserProfile")
    if not all(part.isidentifier() for part in module.split(".")):
        stem = Path(module).stem
        raise InvalidDataError(
            f"{module!r} is not a module: write {stem}:{name}, in the folder of {stem}.py or with that folder "
            "in PYTHONPATH"
        )
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        raise InvalidDataError(f"{module} cannot be imported: there is no module {error.name}") from None
    except Exception as error:  # the module of a user may raise anything
        raise InvalidDataError(f"{module} cannot be imported: {type(error).__name__}") from None
    if not isinstance(found, type):
        raise InvalidDataError(f"{module} has no class {name}")
    return found
