"""Outlines: the codec of what recall keeps of an assertion, opaque to providers.

An outline holds the place of an assertion, its part in the fold, the values that filters look at, and its terms, in a
few texts and a packed body, without the words themselves. Terms are 64-bit digests of stems. It is a pure function of
the assertion and of `OUTLINE_VERSION`.
"""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import json
import struct
from collections.abc import Iterable
from typing import Final

import attrs

from factmem.abc import Outline
from factmem.details import Origin
from factmem.facts import STATEMENT, FactType
from factmem.recall.text.analysis import analyse, forget_words, indexed_terms, indexed_text, spaced
from factmem.recall.text.related_words import topics_of
from factmem.recall.text.signs import ends_with_question, kinds_held, words_outside_questions
from factmem.records import Assertion, AssertionState
from factmem.values import canonical_bytes

__all__ = [
    "ASKS",
    "ASSISTANT",
    "BODY",
    "BODY_FIELDS",
    "ERRAND",
    "KINDS_FROM",
    "MULTIPLE",
    "NEVER",
    "OUTLINE_VERSION",
    "REMOVED",
    "REVISES",
    "STATES",
    "TRUSTED",
    "UNREVIEWED",
    "About",
    "Head",
    "drop_known_words",
    "microseconds",
    "outline_of",
    "read_about",
    "read_head",
    "read_labels",
    "term_numbers",
]

OUTLINE_VERSION: Final = 4
"""Version of outlines; it grows with each change of the analyser or of this codec."""

NEVER: Final = 2**63 - 1
"""Expiry of an assertion that does not expire."""

MULTIPLE, REMOVED, REVISES, TRUSTED, ERRAND, UNREVIEWED = (1 << bit for bit in range(6))
"""Flags of a body. TRUSTED counts also while it waits for a model; for UNREVIEWED see `FactDetails.unreviewed`."""

ASSISTANT, ASKS = (1 << bit for bit in range(2))
"""Signs of a body: said by the assistant, ends with a question. The kinds of values that it holds follow."""

KINDS_FROM: Final = 2
"""First bit of the kinds among the signs; see `factmem.recall.text.signs.Kind`."""

STATES: Final = (
    AssertionState.ACTIVE,
    AssertionState.PENDING,
    AssertionState.FAILED,
    AssertionState.QUARANTINED,
    AssertionState.RETRACTED,
)
"""States by number."""

BODY_FIELDS: Final = (
    ("said_at", "<i8"),
    ("expires_at", "<i8"),
    ("importance", "<f8"),
    ("position", "<i8"),
    ("start", "<i8"),
    ("value", "<u8"),
    ("flags", "u1"),
    ("state", "u1"),
    ("says", "u1"),
    ("signs", "u1"),
)
"""Fields at the beginning of a body, as numpy types; the terms follow, as 64-bit numbers."""

BODY: Final = struct.Struct("<qqdqqQBBBB4x")
"""`BODY_FIELDS` as a struct, padded to whole words of eight bytes."""

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MICROSECOND: Final = dt.timedelta(microseconds=1)


@attrs.frozen(kw_only=True)
class About:
    """The content of `Outline.about`.

    Attributes:
        head: the `Head` as JSON.
        conversation: id of the conversation of the first evidence; empty for none.
        labels: categories, topics, source and the conversations of further evidence, as JSON; empty for none.
    """

    head: str
    conversation: str
    labels: str


@attrs.frozen(kw_only=True)
class Head:
    """The track of an assertion, with the priority of its subject."""

    scope: str
    subject: str
    individual: str | None
    priority: int
    keyword: str
    owner: str | None


def outline_of(said: Assertion) -> Outline:
    """Return the outline of an assertion."""
    place, details = said.place, said.details
    evidence = details.evidence[0] if details.evidence else None
    others = list(dict.fromkeys(item.conversation_id for item in details.evidence[1:] if item.conversation_id))
    labels = [details.categories, details.topics, details.source, others]
    subject = place.subject
    head = [
        str(place.scope.within(None)),
        subject.name,
        subject.individual_name,
        subject.priority_level,
        said.keyword,
        details.owner,
    ]
    text = indexed_text(said)
    body = BODY.pack(
        microseconds(said.timestamp),
        NEVER if details.expires_at is None else microseconds(details.expires_at),
        details.importance,
        _bounded(evidence.position if evidence else None),
        _bounded(evidence.start if evidence else None),
        _digest(canonical_bytes(said.data)),
        _flags(said),
        STATES.index(said.state),
        min(words_outside_questions(text), 255),
        _signs(said, text),
    )
    terms = term_numbers([*indexed_terms(said), *_topics(said)])
    return Outline(
        about=_written([head, (evidence.conversation_id or "") if evidence else "", labels if any(labels) else None]),
        metadata=_written(details.metadata) if details.metadata else "",
        body=body + struct.pack(f"<{len(terms)}Q", *terms),
        version=OUTLINE_VERSION,
    )


def read_about(text: str) -> About:
    """Decode `Outline.about`."""
    head, conversation, labels = json.loads(text)
    return About(head=_written(head), conversation=conversation, labels=_written(labels) if labels else "")


def read_head(text: str) -> Head:
    """Decode `About.head`."""
    scope, subject, individual, priority, keyword, owner = json.loads(text)
    return Head(scope=scope, subject=subject, individual=individual, priority=priority, keyword=keyword, owner=owner)


def read_labels(text: str) -> tuple[tuple[str, ...], tuple[str, ...], str | None, tuple[str, ...]]:
    """Decode `About.labels`: categories, topics, source and further conversations."""
    categories, topics, source, others = json.loads(text) if text else ((), (), None, ())
    return tuple(categories), tuple(topics), source, tuple(others)


def term_numbers(terms: Iterable[str]) -> list[int]:
    """Return the numbers of terms."""
    return list(map(_number, terms))


def microseconds(moment: dt.datetime) -> int:
    """Return a time as microseconds since 1970."""
    return (moment - _EPOCH) // _MICROSECOND


def drop_known_words() -> None:
    """Clear all caches of words, so that none outlives its erasure."""
    _number.cache_clear()
    forget_words()


@functools.lru_cache(maxsize=65_536)
def _number(term: str) -> int:
    return _digest(term.encode(errors="surrogatepass"))


def _digest(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


_written: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def _topics(said: Assertion) -> list[str]:
    """Return the topics of a fact's concept."""
    if said.keyword == STATEMENT.keyword:
        return []
    return topics_of(analyse(f"{spaced(said.keyword)} {said.description}"))


def _flags(said: Assertion) -> int:
    held = (
        (MULTIPLE, said.fact_type is FactType.MULTIPLE),
        (REMOVED, said.removed),
        (REVISES, said.revises is not None),
        (TRUSTED, said.counts(AssertionState.PENDING)),
        (ERRAND, said.errand is not None),
        (UNREVIEWED, said.details.unreviewed),
    )
    return sum(flag for flag, holds in held if holds)


def _signs(said: Assertion, text: str) -> int:
    shown = (
        (ASSISTANT, said.details.origin is Origin.ASSISTANT),
        (ASKS, ends_with_question(text)),
    )
    return sum(sign for sign, holds in shown if holds) | kinds_held(said) << KINDS_FROM


def _bounded(number: int | None) -> int:
    return min(max(number or 0, -NEVER), NEVER)
