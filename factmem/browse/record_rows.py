"""Records as people see them, in a terminal, on a page and on the command line.

Values, quotes and speakers are on one line, with hidden characters made visible. Names (keyword, subject, scope,
source, labels) are as the store has them, so that a page can link to them: a browser shows them through
`factmem.browse.texts.shown`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from factmem.browse.texts import moment, shown
from factmem.details import Evidence, Origin
from factmem.json_form import value_json
from factmem.records import AssertionState, FactRecord
from factmem.subjects import MemorySubject
from factmem.values import value_text

if TYPE_CHECKING:
    from factmem.memory.scope_tree import ScopeTree

_DERIVED: Final = re.compile(r"content:[0-9a-f]{32}|conversation-[0-9a-f]{24}|[0-9a-f]{24}-[0-9]+")
"""Ids that were made of the content, where the caller gave none: they tell a person nothing."""

_MOST_CHILDREN: Final = 100
"""Maximum number of scopes shown below one."""


@attrs.frozen(kw_only=True)
class Quote:
    """Words that a record comes from.

    Attributes:
        text: The words.
        speaker: Name and role of the speaker, as far as they are known.
        place: The conversation and the message, as far as they are known.
        repeats: Whether the words are the record's value itself, or none, so that a page need not show them.
    """

    text: str
    speaker: str
    place: str
    repeats: bool


def is_general(record: FactRecord[Any]) -> bool:
    """Return whether a record is about no subject of its own."""
    return record.subject.key == MemorySubject.EVERYTHING.key


def is_current(record: FactRecord[Any]) -> bool:
    """Return whether a record counts now."""
    return record.state in (AssertionState.ACTIVE, AssertionState.PENDING, AssertionState.FAILED)


def value_of(record: FactRecord[Any]) -> str:
    """Return a record's value as one line: strings as they are, anything else as JSON."""
    return shown(value_text(value_json(record)))


def shape_of(record: FactRecord[Any]) -> str:
    """Return the type of a record's value, as people write it."""
    return shown(value_text(record.concept.shape))


def details_of(record: FactRecord[Any]) -> dict[str, str]:
    """Return the details of a record as lines of text by their names, without those that it does not have."""
    details, fact = record.details, record.fact
    found = {
        "importance": f"{details.importance:g}",
        "origin": details.origin.value,
        "recorded": f"{moment(record.recorded_at)} UTC",
        "topics": ", ".join(details.topics),
        "metadata": _listed(details.metadata),
        "labels": _listed(details.labels),
        "valid from": moment(fact.valid_from),
        "valid to": moment(fact.valid_to),
        "expires": moment(details.expires_at),
        "id": record.id,
    }
    return {name: shown(text) for name, text in found.items() if text}


def _listed(items: Mapping[str, Any]) -> str:
    return ", ".join(f"{key}={value_text(value)}" for key, value in items.items())


def quotes_of(record: FactRecord[Any]) -> tuple[Quote, ...]:
    """Return the words that a record comes from."""
    value = value_json(record)
    quoted = ((item, *cited(item)) for item in record.evidence)
    return tuple(
        Quote(text=shown(item.quote), speaker=speaker, place=place, repeats=item.quote in ("", value))
        for item, speaker, place in quoted
    )


def cited(item: Evidence) -> tuple[str, str]:
    """Return the speaker of some words, and the conversation and message or the place in a document, as far as known.

    The place of a short answer or correction is also what it answers or corrects, and that of a value that was updated
    since says so. Ids that were derived from the content are left out, and so is the position in a conversation without
    a name.
    """
    named = [shown(name) for name in (item.speaker, item.role) if name]
    speaker = f"{named[0]} ({named[1]})" if len(named) == 2 else "".join(named)
    conversation, message = (
        id if id and not _DERIVED.fullmatch(id) else "" for id in (item.conversation_id, item.message_id)
    )
    if not conversation and message == str(item.position):
        message = ""
    talk, words = ("", "") if item.role == Origin.DOCUMENT.value else ("conversation ", "message ")
    where = [f"{what}{id}" for what, id in ((talk, conversation), (words, message)) if id]
    where += [] if item.quote else ["updated since"]
    where += [f"to “{item.answers}”"] if item.answers else []
    where += [f"after “{item.corrects}”"] if item.corrects else []
    return speaker, shown(", ".join(where))


def ranked(counts: Mapping[str, int]) -> list[tuple[str, int]]:
    """Return names and their numbers of records, most first."""
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def largest(node: ScopeTree) -> tuple[ScopeTree, ...]:
    """Return the nodes below one by their names; of many, those that hold the most records."""
    most = sorted(node.children, key=lambda child: -child.records)[:_MOST_CHILDREN]
    return tuple(sorted(most, key=lambda child: child.name))
