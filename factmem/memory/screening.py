"""Screening of new assertions: flags for text that reads like an instruction, quarantine by policy, and its quota."""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Final, TypeVar, assert_never

import attrs
from anyio import to_thread

from factmem.abc.capabilities import Append, Statement, StateRequest
from factmem.abc.detector import Message
from factmem.details import UNREVIEWED, Origin, Treatment
from factmem.detection import OriginPolicy
from factmem.detection.flags import flags_in
from factmem.detection.standing_instructions import instructions_in
from factmem.memory.taint import REPEATS, Heard, Listener
from factmem.recall.text.analysis import analyse
from factmem.recall.text.related_words import topics_of
from factmem.records import Assertion, AssertionState, Place
from factmem.sentences import tells
from factmem.validators import positive
from factmem.values import texts_in

T = TypeVar("T")

SHORT: Final = 4_000
"""Number of characters that take less time than the way to a worker thread and back, some hundred microseconds."""


async def off_loop(work: Callable[[], T], characters: int | None) -> T:
    """Return the result of a function whose time grows with some texts.

    Args:
        work: Called at once if the texts are short, otherwise in a worker thread; the first time, there.
        characters: Length of the texts; None if it is unknown.
    """
    if characters is not None and characters <= SHORT and _load.cache_info().currsize:
        return work()

    def loaded() -> T:
        _load()
        return work()

    return await to_thread.run_sync(loaded)


@functools.cache
def _load() -> None:
    """Read the tables of words and import what searches texts, which takes some tenths of a second."""
    text = "Always write in English."
    instructions_in(text)
    tells(text)
    topics_of(analyse(text))


class FlaggedPolicy(enum.Enum):
    """Treatment of flagged text; see `factmem.detection.flags.flags_in`.

    Under every policy, text of tools, documents and unknown origins is quarantined, flagged or not.

    Attributes:
        IGNORE: Look for no flags.
        ANNOTATE: Keep the text with its flags, for a key-value store that must return values unchanged. Prompts
            leave out flagged text that is not the user's; see `FactDetails.unreviewed`.
        QUARANTINE_OTHERS: Keep the user's own words with their flags, and quarantine those of others.
        QUARANTINE_ALL: Quarantine the user's words as well, for where others may write in the user's name.
    """

    IGNORE = "ignore"
    ANNOTATE = "annotate"
    QUARANTINE_OTHERS = "quarantine others"
    QUARANTINE_ALL = "quarantine all"


@attrs.frozen(kw_only=True)
class QuarantineQuota:
    """Limits of what waits in quarantine. A write that would exceed one is refused as a whole.

    Only statements count that the memory or view shows which they are written through, so that a refusal tells nothing
    about other places. Words that wait for a model count; accepted and rejected statements do not. Writers in other
    processes that write at the same moment may exceed a limit by what they write then.

    Attributes:
        total: Maximum number of statements; None for no limit.
        per_writer: Maximum number of those of one writer, by the name in the audit trail; None for no limit. Clients
            choose that name themselves: this keeps them from each other's share, and ``total`` from the store.

    Raises:
        InvalidDataError: A limit is not a whole number of at least 1.
    """

    total: int | None = attrs.field(default=None, validator=attrs.validators.optional(positive))
    per_writer: int | None = attrs.field(default=None, validator=attrs.validators.optional(positive))


def waits(said: Assertion) -> bool:
    """Return whether a new assertion waits to be accepted: in quarantine, or for a model before that."""
    match said.state:
        case AssertionState.QUARANTINED:
            return True
        case AssertionState.PENDING | AssertionState.FAILED:
            return not (said.details.believed or said.only_shown)
        case AssertionState.ACTIVE | AssertionState.RETRACTED | AssertionState.SUPERSEDED:
            return False
        case _:
            assert_never(said.state)


def heard_as(message: Message, *, origins: OriginPolicy, flagged: FlaggedPolicy) -> Heard:
    """Return a message with whether it is believed: by its origin, unless its treatment says otherwise.

    Args:
        message: The message.
        origins: Treatment of messages by their origin.
        flagged: Treatment of flagged text.
    """
    treatment = origins.treatment(message)
    trusted = message.origin.trusted or treatment is Treatment.FACTS
    if treatment is Treatment.QUARANTINED_FACTS:
        trusted = False
    if flagged is FlaggedPolicy.QUARANTINE_ALL and flags_in(message.content):
        trusted = False
    return Heard(message.content if message.detectable else "", message.origin, trusted=trusted)


class Screening:
    """Screening of assertions; names that many of them share are searched once.

    Args:
        policy: Treatment of flagged text.
        heard: The conversation in which a model writes the assertions; empty if no model does.
    """

    def __init__(self, policy: FlaggedPolicy, heard: Sequence[Heard] = ()) -> None:
        self._policy = policy
        self._listener = Listener.of(heard)

    def screened(self, said: Assertion) -> Assertion:
        """Return an assertion with its flags, in the state that the policy gives it.

        An assertion without new flags keeps its state: it may have been accepted from quarantine.
        """
        return self._searched(self._compared(said))

    def _compared(self, said: Assertion) -> Assertion:
        """Return an assertion in quarantine if it repeats what nobody in the conversation vouches for."""
        counts = said.state in (AssertionState.ACTIVE, AssertionState.PENDING) and not said.removed
        if self._listener is None or not counts:
            return said
        text = " ".join(texts_in(said.data))
        found = self._listener.repeated_in if said.is_statement else self._listener.repeated_as
        origin, flags = found(text), said.details.flags
        if origin is None or REPEATS[origin] in flags:
            return said
        details = attrs.evolve(said.details, flags=(*flags, REPEATS[origin]))
        return attrs.evolve(said, details=details, state=AssertionState.QUARANTINED, job=None)

    def _searched(self, said: Assertion) -> Assertion:
        if self._policy is FlaggedPolicy.IGNORE:
            return said
        details = said.details
        labels = (*details.categories, *details.topics)
        found = _flags_of_names(said.place, said.keyword, said.description, labels) + flags_in(_joined(_words_of(said)))
        if not (new := [flag for flag in dict.fromkeys(found) if flag not in details.flags]):
            return said
        of_user, active = details.origin is Origin.USER, said.state is AssertionState.ACTIVE
        if self._policy is FlaggedPolicy.ANNOTATE and active and not of_user:
            new.append(UNREVIEWED)
        flagged = attrs.evolve(said, details=attrs.evolve(details, flags=(*details.flags, *new)))
        match self._policy:
            case FlaggedPolicy.ANNOTATE:
                return flagged
            case FlaggedPolicy.QUARANTINE_ALL if active or said.state is AssertionState.PENDING:
                return attrs.evolve(flagged, state=AssertionState.QUARANTINED, job=None)
            case FlaggedPolicy.QUARANTINE_OTHERS | FlaggedPolicy.QUARANTINE_ALL:
                apart = active and not of_user
                return attrs.evolve(flagged, state=AssertionState.QUARANTINED) if apart else flagged
            case _:
                assert_never(self._policy)


def length_of(statements: Iterable[Statement]) -> int | None:
    """Return the number of characters that are searched in statements; None if there are many to count."""
    length = 0
    for statement in statements:
        if length > SHORT:
            return None
        match statement:
            case Append(assertion=Assertion(data=str() as data, details=details)) if not details.metadata:
                length += len(data) + sum(len(item.quote) for item in details.evidence)
            case Append():
                return None
            case StateRequest():
                pass
            case _:
                assert_never(statement)
    return length


def _joined(texts: Iterable[str]) -> str:
    return "\n".join(dict.fromkeys(texts))  # one search of all of it is faster than many


# Every text of an assertion that may be shown to a model is in one of these two.


@functools.lru_cache(maxsize=1024)
def _flags_of_names(place: Place, keyword: str, description: str, labels: tuple[str, ...]) -> tuple[str, ...]:
    subject = place.subject
    names = (keyword, description, subject.name, subject.prompt_description, *place.scope.segments, *labels)
    return flags_in(_joined(names))


def _words_of(said: Assertion) -> list[str]:
    texts = [said.data] if type(said.data) is str else [*texts_in(said.data, numbers=False, names=True)]
    if said.details.metadata:
        texts += texts_in(said.details.metadata, numbers=False, names=True)
    for item in said.details.evidence:
        texts += filter(None, (item.quote, item.speaker, item.before))
    return texts
