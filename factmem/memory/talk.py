"""Talk: what statements mean beside other messages, and which of the assistant's only repeat others."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial

import attrs

from factmem.abc.detector import Conversation
from factmem.details import FactDetails, Origin, Treatment
from factmem.detection import OriginPolicy
from factmem.detection.short_answers import BEFORE, Turn, is_short, meant
from factmem.detection.verbatim import Quoted
from factmem.memory.journal import in_order
from factmem.memory.screening import FlaggedPolicy, heard_as, off_loop
from factmem.memory.taint import REPEATS, Heard, repetitions
from factmem.records import AssertionState, Recorded


async def in_talk(
    words: Sequence[Quoted],
    conversation: Conversation,
    before: Iterable[Recorded],
    *,
    origins: OriginPolicy,
    flagged: FlaggedPolicy,
) -> list[Quoted]:
    """Return statements with the parts that depend on other messages.

    Words that the assistant only repeats get a flag, which quarantines them. Short answers and corrections of the user
    get the words that they answer or correct.

    Args:
        words: The statements.
        conversation: All of their conversation that is at hand.
        before: The stored words of the conversation.
        origins: Treatment of messages by their origin.
        flagged: Treatment of flagged text.
    """
    messages = {message.id or str(place): message for place, message in enumerate(conversation.messages)}
    earlier = [item for item in in_order(before) if item.assertion.details.evidence[0].message_id not in messages]
    listened = partial(heard_as, origins=origins, flagged=flagged)
    talk = [*map(_heard_before, earlier), *map(listened, messages.values())]
    repeated = await off_loop(partial(repetitions, talk), sum(len(said.text) for said in talk))
    cited = [item.assertion.details.evidence[0] for item in earlier]
    ids = [*(words.message_id or "" for words in cited), *messages]
    speakers = [*(words.speaker for words in cited), *(message.name for message in messages.values())]
    doubted = {id for id, message in messages.items() if origins.treatment(message) is Treatment.IGNORE}
    doubted |= {ids[at] for at, said in enumerate(talk) if at in repeated or not said.trusted}
    turns = [
        Turn(said.origin, speaker, "" if id in doubted else said.text)
        for id, speaker, said in zip(ids, speakers, talk, strict=True)
    ]
    places, flags = {id: at for at, id in enumerate(ids)}, {ids[at]: REPEATS[of] for at, of in repeated.items()}
    return [it._replace(details=_flagged(_with_meaning(it.details, turns, places), flags)) for it in words]


def depends_on_others(details: FactDetails) -> bool:
    """Return whether a statement depends on what was said before: one of the assistant, and a short one of the user."""
    return details.origin is Origin.ASSISTANT or _may_mean_more(details)


def _may_mean_more(details: FactDetails) -> bool:
    """Return whether a statement is a message of the user that may need what was said before it to be understood."""
    words = details.evidence[0]
    return details.origin is Origin.USER and not words.start and words.medium is None and is_short(words.quote)


def _with_meaning(details: FactDetails, turns: Sequence[Turn], places: Mapping[str, int]) -> FactDetails:
    """Return the details of a statement with the words that it answers or corrects, if there are any before it.

    Args:
        details: The details.
        turns: The messages of its conversation.
        places: Their places by message id.
    """
    if not _may_mean_more(details):
        return details
    words, *others = details.evidence
    at = places[words.message_id or ""]
    return attrs.evolve(details, evidence=(meant(words, turns[max(at - BEFORE, 0) : at]), *others))


def _flagged(details: FactDetails, flags: Mapping[str, str]) -> FactDetails:
    """Return the details of a statement with the flag of its message, if that has one and is the assistant's."""
    flag = flags.get(details.evidence[0].message_id or "")
    if flag is None or details.origin is not Origin.ASSISTANT:
        return details
    return attrs.evolve(details, flags=(*details.flags, flag))


def _heard_before(entry: Recorded) -> Heard:
    """Return stored words of a conversation. Those in quarantine are not believed."""
    said = entry.assertion
    trusted = said.details.believed and said.state is not AssertionState.QUARANTINED
    return Heard(said.details.evidence[0].quote, said.details.origin, trusted=trusted)
