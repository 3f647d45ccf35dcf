"""Screening what comes in: flagged where it reads like an instruction or hides something, and kept apart by policy."""

from __future__ import annotations

import enum
from collections.abc import Iterable, Iterator
from typing import Any

import attrs

from factmem.detection import flags_in
from factmem.records import Assertion, AssertionState, Origin

__all__ = ["FlaggedPolicy", "Screening"]


class FlaggedPolicy(enum.Enum):
    """What becomes of what is flagged; see `factmem.detection.flags_in`.

    QUARANTINE_OTHERS keeps the user's own words, with their flags, and quarantines what anybody else said.
    QUARANTINE_ALL quarantines the user's as well: for where others may write in the user's name. IGNORE looks at
    nothing; what comes of tools, documents and unknown origins is quarantined none the less.
    """

    IGNORE = "ignore"
    QUARANTINE_OTHERS = "quarantine others"
    QUARANTINE_ALL = "quarantine all"


class Screening:
    """Screens assertions that come in together: what many of them have in common is looked at once.

    Args:
        policy: what becomes of what is flagged.
    """

    def __init__(self, policy: FlaggedPolicy) -> None:
        self._policy = policy
        self._around: dict[str, tuple[str, ...]] = {}

    def screened(self, said: Assertion) -> Assertion:
        """Return an assertion with its flags, in the state that the policy wants it in.

        What was flagged before keeps its flags and its state: somebody may have let it in.
        """
        if self._policy is FlaggedPolicy.IGNORE:
            return said
        details, found = said.details, dict.fromkeys((*self._flags_around(said), *flags_in(_joined(_words_of(said)))))
        if not (new := [flag for flag in found if flag not in details.flags]):
            return said
        flagged = attrs.evolve(said, details=attrs.evolve(details, flags=(*details.flags, *new)))
        match said.state:
            case AssertionState.ACTIVE | AssertionState.PENDING if self._policy is FlaggedPolicy.QUARANTINE_ALL:
                return attrs.evolve(flagged, state=AssertionState.QUARANTINED, errand=None)
            case AssertionState.ACTIVE if said.details.origin is not Origin.USER:
                return attrs.evolve(flagged, state=AssertionState.QUARANTINED)
            case _:
                return flagged

    def _flags_around(self, said: Assertion) -> tuple[str, ...]:
        text = _joined(_names_of(said))
        if (known := self._around.get(text)) is None:
            known = self._around[text] = flags_in(text)
        return known


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(texts))  # one look at all of it is quicker than many


# Whatever of an assertion may come before a model is in one of these two.


def _names_of(said: Assertion) -> Iterator[str]:
    yield said.keyword
    yield said.description
    yield said.place.subject.name
    yield said.place.subject.prompt_description
    yield from said.place.scope.segments
    yield from said.details.categories
    yield from said.details.topics


def _words_of(said: Assertion) -> Iterator[str]:
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
