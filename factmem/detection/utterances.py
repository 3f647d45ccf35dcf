"""Messages as a detector reads them, and the quotes that cite them."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import html
import itertools
import json
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Final

import attrs

from factmem.abc.detector import Conversation
from factmem.details import Evidence, MediumPart, Origin, Treatment
from factmem.detection.redaction import redact_conversation
from factmem.detection.statements import says_something
from factmem.detection.words import ReadableText
from factmem.hidden_characters import CONTROL, HIDDEN
from factmem.sentences import Span, sentence_spans
from factmem.toml_tables import table

_SAME: Final = str.maketrans(
    {char: mark for mark, chars in table("detection/plain_statements")["same"].items() for char in chars}
)
"""Characters that models exchange for each other."""
_AROUND: Final = "\"'“”„‘’«»`…. \t\n"
"""Characters that models put around a quote."""
_APART: Final = re.compile(r"(?<=\d)[^\w\s](?=\d)")
"""A mark between digits, without which they are another number."""


def covers(quotes: Iterable[Evidence], words: Evidence) -> bool:
    """Return whether quotes hold at least half of the letters and digits of each sentence of a text.

    Args:
        quotes: quotes of the same message.
        words: the text, a message or a piece of one.
    """
    text, start = words.quote, words.start or 0
    spans = [_within(text, start, quote) for quote in quotes]
    quoted = {at for span in spans for at in range(*span)}
    sentences = ([at for at in range(*span) if text[at].isalnum()] for span in sentence_spans(text))
    return bool(spans) and all(2 * len(quoted.intersection(letters)) >= len(letters) for letters in sentences)


def _within(text: str, start: int, quote: Evidence) -> Span:
    """Return the span of a quote in a text that starts at an offset of the message; (0, 0) if there is none."""
    if quote.start is not None and quote.end is not None:
        return max(0, quote.start - start), max(0, quote.end - start)
    return QuotableText(text).find(quote.quote) or (0, 0)


MOST_PLACES: Final = 3
"""Maximum number of places of a quote that are given."""
_SEARCHES: Final = 8


@attrs.frozen
class QuotedWords:
    """A quote, ready to be searched in any number of texts.

    Attributes:
        quote: the quote.
    """

    quote: str = attrs.field(repr=False)

    @functools.cached_property
    def variants(self) -> tuple[tuple[str, str], ...]:
        """The forms in which the quote may occur, the likeliest first, each as it is and folded."""
        forms = (self.quote, html.unescape(self.quote), self.quote.strip(_AROUND))
        telling = (words.strip() for words in dict.fromkeys(forms) if says_something(words))
        return tuple((words, _folded(words).text.strip()) for words in telling)

    @functools.cached_property
    def bare(self) -> str:
        """The letters and digits of the quote, folded; blank if it says nothing."""
        return _folded(self.variants[0][0]).bare.text if self.variants else ""


def _occurrences(text: str, words: str) -> Iterator[int]:
    """Yield the offsets of words in a text, overlapping ones included.

    Long words occur many times only in a text that repeats itself. Their number is limited, so that the searches
    together take time linear in the text.
    """
    at = text.find(words) if words else -1
    for _ in range(_SEARCHES + len(text) // max(1, len(words))):
        if at < 0:
            return
        yield at
        at = text.find(words, at + 1)


@attrs.frozen
class _Folded:
    """A text folded for comparison.

    Attributes:
        text: the folded text.
        offsets: the offset in the original text of each of its characters.
    """

    text: str = attrs.field(repr=False)
    offsets: list[int] = attrs.field(repr=False)

    @functools.cached_property
    def bare(self) -> _Folded:
        """The letters and digits alone, with the marks between digits."""
        apart = {found.start() for found in _APART.finditer(self.text)}
        kept = [at for at, char in enumerate(self.text) if char.isalnum() or unicodedata.combining(char) or at in apart]
        return _Folded("".join(self.text[at] for at in kept), [self.offsets[at] for at in kept])

    def places(self, words: str) -> Iterator[Span]:
        """Yield the spans in the original text at which folded words occur, as whole characters."""
        for at in _occurrences(self.text, words):
            end = at + len(words)
            if self._whole_characters(at, end):
                yield self.offsets[at], self.offsets[end - 1] + 1

    def _whole_characters(self, start: int, end: int) -> bool:
        """Return whether a span of the folded text begins and ends with whole characters, accents included."""
        text, offsets = self.text, self.offsets
        starts = start == 0 or offsets[start - 1] != offsets[start]
        ends = end == len(text) or (offsets[end] != offsets[end - 1] and not unicodedata.combining(text[end]))
        return starts and ends


@attrs.frozen
class QuotableText:
    """A text in which quotes are found despite differences in spacing, case, punctuation and hidden characters.

    Attributes:
        text: the text.
    """

    text: str = attrs.field(repr=False)

    def find(self, quote: str) -> Span | None:
        """Return the first of the `places` of a quote, or None."""
        return next(iter(self.places(QuotedWords(quote))), None)

    def places(self, quote: QuotedWords) -> list[Span]:
        """Return the spans of a quote in the text, at most `MOST_PLACES`.

        A span has the quote's own letters and digits in their order. Places between words come before one inside a
        word, which is given alone, and places with other punctuation come last. A quote without a letter or a digit is
        never found. The search takes time linear in the text.
        """
        for exact, folded in quote.variants:
            if found := self._found(exact, folded):
                return found
        others = self._folded.bare.places(quote.bare)
        return list(itertools.islice((place for place in others if self._between_words(*place)), MOST_PLACES))

    def _found(self, exact: str, folded: str) -> list[Span]:
        inside: list[Span] = []
        for places in (((at, at + len(exact)) for at in _occurrences(self.text, exact)), self._folded.places(folded)):
            whole: list[Span] = []
            for place in places:
                (whole if self._between_words(*place) else inside).append(place)
                if len(whole) == MOST_PLACES:
                    break
            if whole:
                return whole
        return inside[:1]

    def _between_words(self, start: int, end: int) -> bool:
        before, after = self.text[start - 1 : start], self.text[end : end + 1]
        inside = (before.isalnum() and self.text[start].isalnum()) or (after.isalnum() and self.text[end - 1].isalnum())
        return not inside

    @functools.cached_property
    def _folded(self) -> _Folded:
        return _folded(self.text)


def _folded(text: str) -> _Folded:
    """Return a text folded for comparison."""
    parts: list[str] = []
    offsets: list[int] = []
    spaced = False
    for place, char in enumerate(text.translate(_SAME)):
        if char.isspace() or CONTROL.match(char):
            folded = "" if spaced else " "
            spaced = True
        elif HIDDEN.match(char):
            folded = ""
        else:
            folded = char.casefold() if char.isascii() else unicodedata.normalize("NFKD", char).casefold().strip()
            spaced = False
        parts.append(folded)
        offsets.extend([place] * len(folded))
    return _Folded("".join(parts), offsets)


_MESSAGE_STEP = dt.timedelta(milliseconds=1)
CLOCK_STEP: Final = dt.timedelta(microseconds=1)
"""Time between two messages without a time that are submitted together."""


@attrs.frozen(kw_only=True)
class Utterance:
    """One message as a detector reads it.

    Attributes:
        text: the text, its secrets redacted.
        origin: the source of the words.
        role: the speaker's role.
        speaker: the speaker's name, if known.
        timestamp: time of the message, in UTC.
        conversation_id: the conversation's id, or one derived from its content.
        message_id: the message's id, or its position.
        position: index of the message in the conversation, from 0.
        treatment: the message's own treatment, if it has one.
        medium: the part of a medium that the text was read from; None for words said.
    """

    text: str = attrs.field(repr=False)
    origin: Origin
    role: str
    speaker: str | None
    timestamp: dt.datetime
    conversation_id: str
    message_id: str
    position: int
    treatment: Treatment | None = None
    medium: MediumPart | None = None

    @functools.cached_property
    def readable(self) -> ReadableText:
        """The text, ready to read the passages of quotes in."""
        return ReadableText(self.text)

    def cite(self, start: int, end: int) -> Evidence:
        """Return a span of the text, in characters, as evidence."""
        return Evidence(
            quote=self.text[start:end],
            message_id=self.message_id,
            role=self.role,
            speaker=self.speaker,
            conversation_id=self.conversation_id,
            position=self.position,
            start=start,
            end=end,
            medium=self.medium,
        )


def utterances(conversation: Conversation, now: dt.datetime) -> tuple[Utterance, ...]:
    """Return the utterances of a conversation, in order. Messages that are not detectable or say nothing are left out.

    A message without a time takes the conversation's start plus a millisecond for each message before it; without a
    start, ``now`` minus a microsecond for each message that follows, so that nothing lies in the future. A conversation
    without an id takes one derived from its redacted content, so that reading it again gives the same id, and no secret
    can be guessed from it.

    Args:
        conversation: the conversation.
        now: the current time, for conversations without times.
    """
    clean = redact_conversation(conversation)
    conversation_id = clean.id or _id_of_content(clean)
    return tuple(
        Utterance(
            text=message.content,
            origin=message.origin,
            role=message.role,
            speaker=message.name,
            timestamp=message.timestamp or _time_at(clean, position, now),
            conversation_id=conversation_id,
            message_id=message.id or str(position),
            position=position,
            treatment=message.treatment,
            medium=message.medium,
        )
        for position, message in enumerate(clean.messages)
        if message.detectable and says_something(message.content)
    )


def _time_at(conversation: Conversation, position: int, now: dt.datetime) -> dt.datetime:
    if conversation.started_at is not None:
        return conversation.started_at + position * _MESSAGE_STEP
    return now - (len(conversation.messages) - position) * CLOCK_STEP


def _id_of_content(conversation: Conversation) -> str:
    said = [[it.id, it.role, it.name, it.content, it.timestamp] for it in conversation.messages]
    content = json.dumps([conversation.started_at, said], ensure_ascii=False, default=dt.datetime.isoformat)
    return f"content:{hashlib.blake2b(content.encode(), digest_size=16).hexdigest()}"
