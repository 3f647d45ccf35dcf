"""Windows: parts of a conversation that fit into one question, split between messages."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

import attrs

from factmem.abc.detector import Message
from factmem.details import Evidence
from factmem.detection.quotes import QuotableText, QuotedWords
from factmem.detection.statements import statement_spans
from factmem.detection.utterances import Utterance
from factmem.llm.messages import element

_SHORTEST_PIECE: Final = 50
_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@attrs.frozen(kw_only=True)
class Excerpt:
    """A message, or a piece of one that is longer than a window.

    Attributes:
        utterance: the message.
        start: offset of the piece in its text, in characters.
        end: offset of the piece's end.
        giving: whether facts are taken from it; otherwise it is context.
        carried: whether it belongs to the window before, which asks for its facts.
    """

    utterance: Utterance
    start: int
    end: int
    giving: bool
    carried: bool = False

    @functools.cached_property
    def words(self) -> QuotableText:
        """The text, ready to find quotes in."""
        return QuotableText(self.utterance.text[self.start : self.end])

    def cite(self, quote: QuotedWords) -> list[Evidence]:
        """Return a quote as evidence, once for each place that holds it, the likeliest first."""
        return [self.utterance.cite(self.start + start, self.start + end) for start, end in self.words.places(quote)]


@attrs.frozen
class Window:
    """Neighbouring messages that a model reads in one question.

    Attributes:
        excerpts: the messages; the model refers to the first as number 1.
    """

    excerpts: tuple[Excerpt, ...]

    @classmethod
    def of(cls, spoken: Iterable[tuple[Utterance, bool]]) -> Window:
        """Return a window of whole messages, each given with whether facts are taken from it."""
        wholes = (Excerpt(utterance=said, start=0, end=len(said.text), giving=giving) for said, giving in spoken)
        return cls(tuple(wholes))

    @property
    def place(self) -> tuple[int, int]:
        """The place of its last message, or piece of one, which is in no other window."""
        return self.excerpts[-1].utterance.position, self.excerpts[-1].start

    def rendered(self) -> str:
        """Return the messages as the model sees them, each with its time if that of the one before is another."""
        times = [None, *(_said(excerpt) for excerpt in self.excerpts)]
        return "\n".join(
            rendered(excerpt, number, timed=times[number] != times[number - 1])
            for number, excerpt in enumerate(self.excerpts, 1)
        )

    def split(self, max_chars: int) -> list[Window]:
        """Return this window in parts of about ``max_chars`` characters, as rendered.

        A message that is longer than a part is split at its paragraphs and sentences. A part starts with the last
        message of the one before, if that takes little room: an answer means nothing without its question. Parts
        without a message that gives facts are left out.
        """
        return _grouped((piece for excerpt in self.excerpts for piece in _pieces(excerpt, max_chars)), max_chars)


def _said(excerpt: Excerpt) -> str:
    moment = excerpt.utterance.timestamp
    return f"{moment:%Y-%m-%d %H:%M} UTC, {_WEEKDAYS[moment.weekday()]}"


def rendered(excerpt: Excerpt, number: int, *, timed: bool = True) -> str:
    """Return a message as escaped XML: number, permission to take facts, speaker, time and text."""
    utterance = excerpt.utterance
    # An invented role must not pass for a known one.
    role = Message(content="", role=utterance.role).origin.value
    return element(
        "message",
        excerpt.words.text,
        number=str(number),
        take_facts="yes" if excerpt.giving and not excerpt.carried else "no",
        role=role,
        speaker=utterance.speaker,
        said=_said(excerpt) if timed else None,
    )


def _grouped(pieces: Iterable[Excerpt], max_chars: int) -> list[Window]:
    groups: list[list[Excerpt]] = []
    size = 0
    for piece in pieces:
        cost = _cost(piece)
        if not groups or size + cost > max_chars:
            room = min(max_chars - cost, max_chars // 4)
            carried = [attrs.evolve(groups[-1][-1], carried=True)] if groups else []
            groups.append([again for again in carried if _cost(again) <= room])
            size = sum(map(_cost, groups[-1]))
        groups[-1].append(piece)
        size += cost
    return [Window(tuple(group)) for group in groups if any(item.giving and not item.carried for item in group)]


def _cost(piece: Excerpt) -> int:
    return len(rendered(piece, 999)) + 1


def _pieces(whole: Excerpt, max_chars: int) -> list[Excerpt]:
    """Split an excerpt so that its pieces fit as rendered: escaping makes a text longer."""
    pieces, length = [whole], max_chars
    while any(_cost(piece) > max_chars for piece in pieces) and length > _SHORTEST_PIECE:
        spans = statement_spans(whole.words.text, length)
        pieces = [attrs.evolve(whole, start=whole.start + start, end=whole.start + end) for start, end in spans]
        length = length * 3 // 4
    return pieces
