"""Short answers and corrections of a user, whose meaning lies in the words before them.

"Yes, I am." tells something after "Are you vegetarian?", and "No, Braga." after "I moved to Porto.". Their own words do
not show that. So every reply to a question tells something, unless it is a question itself, or the assistant only asks
whether to go on. "No, it's a Mazda." corrects the assistant if that just spoke of the user's Toyota, else what the user
said before. A correction that opens a conversation tells something too: the words that it corrects are of an earlier
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import attrs

from factmem.details import Evidence, Origin
from factmem.detection.flags import flags_in
from factmem.detection.redaction import redact
from factmem.detection.standing_instructions import instructions_in
from factmem.languages import content_of, folded, language_of, last_sentence
from factmem.sentences import asking, contradicts, is_about_listener, stated_spans, telling, tells

BEFORE: Final = 10
"""Number of messages before a short one that may say what it means."""

_FEW: Final = 3
"""Maximum number of different words with content of a text that may need what was said before it to be understood."""

_LONGEST: Final = 200
"""Maximum length of such a text, and of what is kept of the words before it, in characters."""


class Turn(NamedTuple):
    """A message before a short one: its origin, the name of its speaker, and its text, empty if it is not believed."""

    origin: Origin
    speaker: str | None
    text: str


def is_short(text: str) -> bool:
    """Return whether a text may need what was said before it to be understood."""
    return len(text) <= _LONGEST and (not tells(text) or len(content_of(text)) <= _FEW)


def meant(words: Evidence, before: Sequence[Turn]) -> Evidence:
    """Return the evidence of a short text of a user with the question that it answers, or the words that it corrects.

    Args:
        words: The text.
        before: The messages before it, in order, at most `BEFORE`; those of tools and the like do not count.
    """
    text, talk = words.quote, [turn for turn in before if turn.origin.trusted]
    if not is_short(text):
        return words
    if talk and talk[-1].origin is Origin.ASSISTANT:
        if _answers(text, talk[-1].text):
            return attrs.evolve(words, answers=_kept(talk[-1].text, whole=False))
        if _corrects(text, talk):
            return attrs.evolve(words, corrects=_kept(talk[-1].text, whole=True))
        talk = talk[:-1]
    if instructions_in(text) or not telling(text).corrects:
        return words
    if all(turn.origin is Origin.ASSISTANT for turn in talk):
        return attrs.evolve(words, corrects="")
    own = talk[-1].origin is Origin.USER and talk[-1].speaker == words.speaker
    return attrs.evolve(words, corrects=_kept(talk[-1].text, whole=True)) if own and _tells(talk) else words


def _corrects(text: str, talk: Sequence[Turn]) -> bool:
    """Return whether a text corrects the last of some messages, the assistant's: "No, it's a Mazda.".

    That must tell the user more of them than they just said. "No emojis please." corrects nothing.
    """
    *before, said = [turn.text for turn in talk[-2:]]
    if not telling(text).at_all or not contradicts(text, said) or instructions_in(text):
        return False
    return is_about_listener(said, text) and bool(content_of(said).difference(*map(content_of, before)))


def _tells(talk: Sequence[Turn]) -> bool:
    """Return whether the last of some messages tells something, by itself or by those before it."""
    *before, (_, speaker, text) = talk
    return tells(text) or meant(Evidence(quote=text, speaker=speaker), before).before is not None


def _answers(text: str, asked: str) -> bool:
    """Return whether a text answers a question.

    An offer of the assistant's work with a matter of its own ("Shall I translate the article?") is answered by a
    fragment such as "The first part.". Any other question is answered by what tells something; by "Yes." if it has a
    word with content.
    """
    question, told = asking(asked), telling(text)
    if question is None:
        return False
    if question.offers:
        return question.about and told.at_all and not told.alone
    return told.at_all or (question.about and any(True for _ in stated_spans(text, language_of(folded(text)))))


def _kept(text: str, *, whole: bool) -> str | None:
    """Return a message without secrets, or its last sentence, cut if it is long; None if the message is flagged."""
    if flags_in(text):
        return None
    said = redact(text).text.strip()
    if not whole or len(said) > _LONGEST:
        said = last_sentence(said)
    return said if len(said) <= _LONGEST else f"{said[:_LONGEST].rpartition(' ')[0]}…"
