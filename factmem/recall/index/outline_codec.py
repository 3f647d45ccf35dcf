"""The codec of outlines: recall's summaries of assertions, opaque to providers.

An outline holds the place of an assertion, its part in the fold, the values that filters look at, and its terms,
without the words themselves. Terms are 64-bit digests of stems. It is a pure function of the assertion and of
`OUTLINE_VERSION`.

Its shared part is the JSON of a `Head`. Its own part is a packed `BODY`, the terms, and a tail: the conversation, and
after a zero byte the labels and the metadata as JSON, if there are any.
"""

from __future__ import annotations

import functools
import hashlib
import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import attrs

from factmem.abc.outlines import Outline
from factmem.details import Origin
from factmem.facts import STATEMENT, FactType, microseconds
from factmem.recall.text.analysis import analyse, indexed_terms, indexed_text, spaced, terms_of
from factmem.recall.text.related_words import Term, term_of, topics_of
from factmem.recall.text.signs import (
    ends_with_question,
    kinds_held,
    tells_of_chain,
    tells_of_whom,
    tells_something,
    terms_of_relation,
)
from factmem.recall.text.times import days_in
from factmem.recall.text.updates import MOST_TERMS, Matter, matter_of
from factmem.records import Assertion, AssertionState, Place, other_speaker
from factmem.sentences import asked_share, names_and_figures, points_back, tells_of_change, tells_of_now
from factmem.text_caches import forgettable

OUTLINE_VERSION: Final = 28
"""Version of outlines; it grows with each change of the analyser, of this codec, or of `Origin.trusted` and `rank`."""

NEVER: Final = 2**63 - 1
"""Expiry of an assertion that does not expire."""

MULTIPLE, REMOVED, REVISES, TRUSTED, JOB, UNREVIEWED = (1 << bit for bit in range(6))
"""Flags of a body. TRUSTED counts also while it waits for a model; for UNREVIEWED see `FactDetails.unreviewed`."""

TRUST_FROM: Final = 6
"""First of the two highest bits of the flags, which hold `Assertion.trust`."""

ASSISTANT, ASKS = (1 << bit for bit in range(2))
"""Signs of a body: said by the assistant, ends with a question. The kinds of values that it holds follow."""

TELLS, DENIES, CHANGES, POINTS_BACK = 1, 1 << 5, 1 << 6, 1 << 7
"""Bits of what a body tells: something at all (`factmem.recall.text.signs.tells_something`), that something is not so
(the value False), and, by `factmem.sentences`, of a change (`tells_of_change`) and of a time before its own
(`points_back`)."""

ASKED_FROM, ALL_ASKED = 1, 3
"""First of the two bits of what a body tells that hold the share of its words in questions, and the whole share."""

WHOM_FROM, ALL_WHOM = 3, 3
"""First of the two bits of what a body tells that hold a `factmem.recall.text.signs.Whom`, and both."""

KINDS_FROM: Final = 2
"""First of five bits of kinds among the signs; see `factmem.recall.text.signs.Kind`."""

LIMITED: Final = 1 << 7
"""Highest bit of the signs: the revision has an expiry of its own, `FactDetails.revision_expires_at`."""

STATES: Final = (
    AssertionState.ACTIVE,
    AssertionState.PENDING,
    AssertionState.FAILED,
    AssertionState.QUARANTINED,
    AssertionState.RETRACTED,
)
"""States by number."""

OF_CHAIN, TELLS_NEWS = 1 << 6, 1 << 7
BEGINS: Final = OF_CHAIN - 1
"""Highest bit of ``begins``: the statement tells of a change, or of what is so now; see `factmem.sentences`."""

MATTER_TERMS: Final = 32
"""Number of terms of a statement that its matter refers to, by one bit each."""

MATTER_FIELDS: Final = (
    ("held", "<u8"),
    ("counted", "<u8"),
    ("speaker", "<u4"),
    ("content", "<u4"),
    ("circumstance", "<u4"),
    ("held_value", "u1"),
    ("mine", "u1"),
    ("begins", "u1"),
    ("names", "<u4"),
)
"""Fields of a statement's matter; see `factmem.recall.text.updates.Matter`.

``speaker`` is the number of `factmem.records.other_speaker`, the same for words that were said, saved or updated.
``begins`` is the place of its first own word among its terms, behind those of its speaker, with OF_CHAIN if it begins
with a relative of a relative, and TELLS_NEWS; 0 for what neither follows a statement nor is followed by one. ``names``
has a bit for each of its own words, from the first one on, that may be a name or holds a digit; see
`factmem.sentences.names_and_figures`.
"""

_NO_WORD, _OTHER_WORD = 255, 254
"""Values of ``held_value`` for no word, and for one that is not among the terms."""

BODY_FIELDS: Final = (
    ("said_at", "<i8"),
    ("expires_at", "<i8"),
    ("importance", "<f8"),
    ("position", "<i8"),
    ("start", "<i8"),
    ("value", "<u8"),
    ("flags", "u1"),
    ("state", "u1"),
    ("tells", "u1"),
    ("signs", "u1"),
    *MATTER_FIELDS,
    ("tail", "<u4"),
)
"""Fields of a body, as numpy types; ``tail`` is the length of the tail in bytes."""

BODY: Final = struct.Struct("<qqdqqQBBBBQQIIIBBBII")

_AT_ONCE: Final = 256
"""Number of assertions that a step takes, fewer than texts are kept as they were read."""

_LONE: Final = "surrogatepass"


@attrs.frozen
class Head:
    """The track of an assertion, with the priority of its subject, the description of its concept, and its speaker.

    ``speaker`` is the name of the speaker of a statement; None for none, and for facts.
    """

    scope: str
    subject: str
    individual: str | None
    priority: int
    keyword: str
    owner: str | None
    description: str
    speaker: str | None


def outlines_of(said: Sequence[Assertion]) -> list[Outline]:
    """Return the outlines of assertions. One step after the other takes many of them, which halves its time."""
    return [
        outline for start in range(0, len(said), _AT_ONCE) for outline in _outlines_of(said[start : start + _AT_ONCE])
    ]


def _outlines_of(said: Sequence[Assertion]) -> Iterator[Outline]:
    texts, terms = list(map(indexed_text, said)), list(map(indexed_terms, said))
    tails, tells, signs = list(map(_tail, said)), list(map(_tells, said, texts)), list(map(_signs, said, texts))
    bodies = map(_body, said, tells, signs, map(_matter, said, texts, terms, tells), tails)
    for it, text, own, body, tail in zip(said, texts, terms, bodies, tails, strict=True):
        numbers = term_numbers([*own, *_topics(it.keyword, it.description), *_days(it, text)])
        yield Outline(
            shared=_written_head(it.place, it.keyword, it.details.owner, *_described(it)),
            own=body + struct.pack(f"<{len(numbers)}Q", *numbers) + tail,
            version=OUTLINE_VERSION,
        )


def _body(said: Assertion, tells: int, signs: int, matter: Sequence[int], tail: bytes) -> bytes:
    details = said.details
    evidence = details.evidence[0] if details.evidence else None
    return BODY.pack(
        microseconds(said.timestamp),
        NEVER if details.expires_at is None else microseconds(details.expires_at),
        details.importance,
        _bounded(evidence.position) if evidence else 0,
        _bounded(evidence.start) if evidence else 0,
        value_number(said),
        _flags(said),
        STATES.index(said.state),
        tells,
        signs,
        *matter,
        len(tail),
    )


@forgettable
@functools.lru_cache(maxsize=1024)
def _written_head(place: Place, keyword: str, owner: str | None, description: str, speaker: str | None) -> bytes:
    """Return the JSON of a `Head`."""
    subject = place.subject
    about = [str(place.scope.within(None)), subject.name, subject.individual_name, subject.priority_level]
    return _written([*about, keyword, owner, description, speaker]).encode(errors=_LONE)


def _described(said: Assertion) -> tuple[str, str | None]:
    """Return the description of a fact's concept, or the name of the speaker of a statement."""
    return ("", said.speaker) if said.is_statement else (said.description, None)


def read_tail(tail: bytes) -> tuple[str, str, str]:
    """Return the conversation, the labels as JSON and the metadata as JSON of a tail, each empty for none."""
    conversation, mark, more = tail.rpartition(b"\0")
    if not mark:
        return tail.decode(errors=_LONE), "", ""
    labels, metadata = json.loads(more)
    return (
        conversation.decode(errors=_LONE),
        _written(labels) if labels else "",
        _written(metadata) if metadata else "",
    )


def _tail(said: Assertion) -> bytes:
    details = said.details
    conversation, *others = [item.conversation_id for item in details.evidence] or [None]
    written = (conversation or "").encode(errors=_LONE)
    labels = [details.categories, details.topics, details.source, list(dict.fromkeys(filter(None, others)))]
    if not (any(labels) or details.metadata or b"\0" in written):
        return written
    more = [labels if any(labels) else None, dict(details.metadata) or None]
    return written + b"\0" + _written(more).encode(errors=_LONE)


def read_head(text: str) -> Head:
    """Read the JSON of a `Head`."""
    return Head(*json.loads(text))


def read_labels(text: str) -> tuple[Sequence[str], Sequence[str], Sequence[str], Sequence[str]]:
    """Read the JSON of labels: categories, topics, source and further conversations."""
    categories, topics, source, others = json.loads(text) if text else ((), (), None, ())
    return categories, topics, () if source is None else (source,), others


def term_numbers(terms: Iterable[str]) -> list[int]:
    """Return the numbers of terms."""
    return list(map(_number, terms))


@forgettable
@functools.lru_cache(maxsize=4096)
def query_term(term: str) -> Term:
    """Return a term of a query, with its related terms, its topics, and names for the same relation."""
    return term_of(_number(term), term_numbers([*topics_of([term]), *terms_of_relation(term)]))


@forgettable
@functools.lru_cache(maxsize=65_536)
def _number(term: str) -> int:
    return _digest(term.encode(errors=_LONE))


def value_number(said: Assertion) -> int:
    """Return the 64-bit number that stands for an assertion's value in arrays; see `Assertion.canonical_value`."""
    return _digest(said.canonical_value)


def _digest(data: bytes) -> int:
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")


_written: Final = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


@forgettable
@functools.lru_cache(maxsize=1024)
def _topics(keyword: str, description: str) -> tuple[str, ...]:
    """Return the topics of a fact's concept."""
    if keyword == STATEMENT.keyword:
        return ()
    return tuple(topics_of(analyse(f"{spaced(keyword)} {description}")))


def _days(said: Assertion, text: str) -> Iterable[str]:
    """Return the days that an assertion names; that of a birthday also without its year, as it comes again."""
    days = days_in(text)
    if said.is_statement or not _YEARLY.intersection(_topics(said.keyword, said.description)):
        return days
    return dict.fromkeys([*days, *[f"#{day[-5:]}" for day in days]])  # "#1990-05-14" and "#05-14"


_YEARLY: Final = {"#birth", "#anniversary"}
"""Topics of what comes again each year."""


def _flags(said: Assertion) -> int:
    return (
        (MULTIPLE if said.fact_type is FactType.MULTIPLE else 0)
        | (REMOVED if said.removed else 0)
        | (REVISES if said.revises is not None else 0)
        | (TRUSTED if said.counts(AssertionState.PENDING) else 0)
        | (JOB if said.job is not None else 0)
        | (UNREVIEWED if said.details.unreviewed else 0)
        | said.trust << TRUST_FROM
    )


_TOLD: Final = {CHANGES: tells_of_change, POINTS_BACK: points_back}


def _tells(said: Assertion, text: str) -> int:
    if not said.is_statement:
        return TELLS | (DENIES if said.data is False else 0)
    asked = round(asked_share(text) * ALL_ASKED) << ASKED_FROM
    asked |= tells_of_whom(text) << WHOM_FROM
    return (TELLS if tells_something(said) else 0) | asked | sum([bit for bit, tells in _TOLD.items() if tells(text)])


def _signs(said: Assertion, text: str) -> int:
    return (
        (ASSISTANT if said.details.origin is Origin.ASSISTANT else 0)
        | (ASKS if ends_with_question(text) else 0)
        | (LIMITED if said.details.revision_expires_at is not None else 0)
        | kinds_held(said) << KINDS_FROM
    )


def _matter(said: Assertion, text: str, terms: Sequence[str], tells: int) -> tuple[int, ...]:
    """Return the `MATTER_FIELDS` of an assertion; only what a user says has a matter.

    Args:
        said: The assertion.
        text: Its text.
        terms: Its terms, with those of its speaker.
        tells: What it tells; see `_tells`.
    """
    own = said.is_statement and isinstance(said.data, str) and said.details.origin is Origin.USER
    matter = matter_of(said.data) if own else None
    news = _news(text, terms, tells) if own else (0, 0)
    speaker = other_speaker(said.details.evidence, said.place.subject) if own else None
    if matter is None:
        return 0, 0, _speaker_number(speaker), 0, 0, _NO_WORD, 0, *news
    places: dict[str, int] = {}
    for place, term in enumerate(terms[:MATTER_TERMS]):
        places.setdefault(term, place)
    return (
        0 if matter.held is None else _digest(f"held {matter.held}".encode(errors=_LONE)),
        0 if matter.counted is None else _digest(f"counted {matter.counted}".encode(errors=_LONE)),
        _speaker_number(speaker),
        sum([1 << places[term] for term in matter.content if term in places]),
        0 if matter.circumstance is None else _digest(matter.circumstance.encode(errors=_LONE)) & 0xFFFFFFFF,
        _NO_WORD if matter.value is None else places.get(matter.value, _OTHER_WORD),
        matter.mine,
        *news,
    )


def _news(text: str, terms: Sequence[str], tells: int) -> tuple[int, int]:
    """Return the fields ``begins`` and ``names`` of what a user says."""
    own = terms_of(text)
    begins = len(terms) - len(own)
    if not (0 < len(own) <= MOST_TERMS and begins <= BEGINS and tells & TELLS):
        return 0, 0
    begins |= OF_CHAIN if tells_of_chain(text) else 0
    if not (tells & CHANGES or tells_of_now(text)):
        return begins, 0
    named = {term for word in names_and_figures(text) for term in terms_of(word)}
    return begins | TELLS_NEWS, sum([1 << place for place, term in enumerate(own) if term in named])


@forgettable
@functools.lru_cache(maxsize=1024)
def _speaker_number(name: str | None) -> int:
    """Return the number that stands for the name of a speaker; 0 for none."""
    return 0 if name is None else _digest(name.encode(errors=_LONE)) & 0xFFFFFFFF


def read_matter(fields: Mapping[str, int], terms: Sequence[int]) -> Matter[int]:
    """Return the matter of a statement.

    Args:
        fields: Its `MATTER_FIELDS`.
        terms: The numbers of its terms.
    """
    at = fields["held_value"]
    return Matter(
        held=fields["held"] or None,
        counted=fields["counted"] or None,
        content=tuple(term for place, term in enumerate(terms[:MATTER_TERMS]) if fields["content"] >> place & 1),
        circumstance=fields["circumstance"] or None,
        mine=bool(fields["mine"]),
        value=None if at == _NO_WORD else terms[at] if at < len(terms) else -1,
    )


def _bounded(number: int | None) -> int:
    return min(max(number or 0, -NEVER), NEVER)
