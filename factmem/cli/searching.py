"""What a conversation is searched for, as the command line says it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import attrs
import typer

from factmem.abc import MANAGED_TOPICS, DetectionRequest, Topic
from factmem.cli.classes import class_named
from factmem.errors import FactMemError, InvalidDataError
from factmem.facts import Concept
from factmem.scalars import scalar_named
from factmem.subjects import MemorySubject

__all__ = ["ConceptsOption", "OpenOption", "TopicsOption", "Wish", "concepts_from", "topics_from"]

ConceptsOption: TypeAlias = Annotated[
    str | None,
    typer.Option(
        metavar="FILE|MODULE:CLASS",
        help="Look for these: a JSON list of {keyword, description, type, multiple}, or the fields of a class.",
    ),
]
TopicsOption: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--topics",
        "--topic",
        metavar="LABEL[=DESCRIPTION]",
        help="Look for memories about this; `managed` for the usual topics. May be repeated.",
    ),
]
OpenOption: TypeAlias = Annotated[
    bool | None,
    typer.Option("--open/--targeted", help="Look for any other facts as well, or for nothing else."),
]


@attrs.frozen(kw_only=True)
class Wish:
    """What to look for, as far as that was said.

    Attributes:
        concepts: where the concepts stand.
        topics: labels, with or without descriptions.
        open: whether to look for anything else; if not said, only where nothing is named.
    """

    concepts: str | None = None
    topics: tuple[str, ...] = ()
    open: bool | None = None

    @property
    def said(self) -> bool:
        """Whether anything was said."""
        return self != Wish()

    def request(self, subject: MemorySubject) -> DetectionRequest | None:
        """Return the request, or None to look for whatever a memory looks for by itself.

        Raises:
            InvalidDataError: the concepts cannot be read, or two have the same name.
            typer.BadParameter: a topic has no legal label, or there is nothing to look for.
        """
        if not self.said:
            return None
        named = bool(self.concepts or self.topics)
        if self.open is False and not named:
            raise typer.BadParameter("--targeted looks for nothing: name --concepts or --topics")
        return DetectionRequest(
            subjects=(subject,),
            concepts=concepts_from(self.concepts) if self.concepts else (),
            topics=topics_from(self.topics),
            open=self.open if self.open is not None else not named,
        )


def topics_from(texts: Sequence[str]) -> tuple[Topic, ...]:
    """Read topics; a managed one goes by its label alone.

    Raises:
        typer.BadParameter: a label is not legal.
    """
    managed = {topic.label: topic for topic in MANAGED_TOPICS}
    found: dict[str, Topic] = {}
    for text in texts:
        label, _, description = (part.strip() for part in text.partition("="))
        if text == "managed":
            found |= managed
        else:
            found[label] = managed[label] if label in managed and not description else _topic(label, description)
    return tuple(found.values())


def _topic(label: str, description: str) -> Topic:
    try:
        return Topic(label, description)
    except FactMemError as error:
        raise typer.BadParameter(str(error)) from None


def concepts_from(source: str) -> tuple[Concept[Any, Any], ...]:
    """Read concepts from a file, or from the fields of a class.

    Args:
        source: a path, or ``MODULE:CLASS``.

    Raises:
        InvalidDataError: there is no such file or class, or it holds no concepts.
    """
    path = Path(source)
    if ":" in source and path.suffix != ".json" and not path.exists():
        from factmem.memory import concepts_of

        return concepts_of(class_named(source))
    try:
        listed = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidDataError(f"{source} cannot be read: {error.strerror}") from None
    except (ValueError, RecursionError):
        raise InvalidDataError(f"{source} holds no JSON: write a list of concepts into it") from None
    if not isinstance(listed, list) or not listed:
        raise InvalidDataError(f"{source} holds no list of concepts")
    return tuple(_concepts(listed))


def _concepts(listed: Iterable[object]) -> Iterable[Concept[Any, Any]]:
    for place, item in enumerate(listed):
        match item:
            case {"keyword": str() as keyword, **others} if not others.keys() - {"description", "type", "multiple"}:
                yield _concept(keyword, others, f"$[{place}]")
            case _:
                raise InvalidDataError(
                    "a concept is an object with keyword, and description, type and multiple if need be",
                    path=f"$[{place}]",
                )


def _concept(keyword: str, others: Mapping[Any, Any], path: str) -> Concept[Any, Any]:
    description, multiple = others.get("description", ""), others.get("multiple", False)
    if not isinstance(description, str) or not isinstance(multiple, bool):
        raise InvalidDataError("description is a text, and multiple is true or false", path=path)
    try:
        scalar = scalar_named(others.get("type", "str"))
    except InvalidDataError as error:
        raise InvalidDataError(str(error), path=f"{path}.type") from None
    make = Concept.multiple if multiple else Concept.single
    return make(keyword, description, scalar.type)
