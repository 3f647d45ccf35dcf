"""Screening what comes in: flagged where it reads like an instruction or hides something, and kept apart by policy."""

from __future__ import annotations

import enum
from collections.abc import Iterator
from typing import Any

import attrs

from factmem.detection import flags_in
from factmem.records import Assertion, AssertionState, Origin

__all__ = ["FlaggedPolicy", "screened"]


class FlaggedPolicy(enum.Enum):
    """What becomes of what is flagged; see `factmem.detection.flags_in`.

    QUARANTINE_OTHERS keeps the user's own words, with their flags, and quarantines what anybody else said.
    QUARANTINE_ALL quarantines the user's as well: for where others may write in the user's name. IGNORE looks at
    nothing; what comes of tools, documents and unknown origins is quarantined none the less.
    """

    IGNORE = "ignore"
    QUARANTINE_OTHERS = "quarantine others"
    QUARANTINE_ALL = "quarantine all"


def screened(said: Assertion, policy: FlaggedPolicy) -> Assertion:
    """Return an assertion with its flags, in the state that the policy wants it in.

    What was flagged before keeps its flags and its state: somebody may have let it in.
    """
    if policy is FlaggedPolicy.IGNORE:
        return said
    details = said.details
    found = flags_in("\n".join(dict.fromkeys(_texts_of(said))))  # one look at all of it is quicker than many
    if not (new := [flag for flag in found if flag not in details.flags]):
        return said
    flagged = attrs.evolve(said, details=attrs.evolve(details, flags=(*details.flags, *new)))
    match said.state:
        case AssertionState.ACTIVE | AssertionState.PENDING if policy is FlaggedPolicy.QUARANTINE_ALL:
            return attrs.evolve(flagged, state=AssertionState.QUARANTINED, errand=None)
        case AssertionState.ACTIVE if said.details.origin is not Origin.USER:
            return attrs.evolve(flagged, state=AssertionState.QUARANTINED)
        case _:
            return flagged


def _texts_of(said: Assertion) -> Iterator[str]:
    """Whatever of it may come before a model."""
    yield said.keyword
    yield said.description
    yield said.place.subject.name
    yield said.place.subject.prompt_description
    yield from said.place.scope.segments
    yield from said.details.categories
    yield from said.details.topics
    yield from _texts_in(said.data)
    yield from _texts_in(said.details.metadata)
    for item in said.details.evidence:
        yield item.quote
        yield item.speaker or ""


def _texts_in(data: Any) -> Iterator[str]:
    match data:
        case str():
            yield data
        case dict():
            for name, item in data.items():
                yield name
                yield from _texts_in(item)
        case list() | tuple():
            for item in data:
                yield from _texts_in(item)
