"""Parting a conversation into windows that fit a model, on the borders of its messages."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from typing import Final

import attrs

from factmem.abc import Message
from factmem.detection.statements import statement_spans
from factmem.detection.utterances import QuotableText, Utterance
from factmem.hidden import escaped, escaped_words
from factmem.records import Evidence

__all__ = ["Excerpt", "Window", "rendered", "windows_of"]

_SHORTEST_PIECE: Final = 50
_WEEKDAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


@attrs.frozen(kw_only=True)
class Excerpt:
    """A message, or a piece of one that is longer than a window.

    Attributes:
        utterance: the message.
        start: where in its text the piece starts, in characters.
        end: where it ends.
        giving: whether facts are taken from it; else it is shown so that the others are understood.
        carried: it belongs to the window before, which asks for its facts.
    """

    utterance: Utterance
    start: int
    end: int
    giving: bool
    carried: bool = False

    @functools.cached_property
    def words(self) -> QuotableText:
        """The text."""
        return QuotableText(self.utterance.text[self.start : self.end])

    def cite(self, quote: str) -> Evidence | None:
        """Return the words that a quote means, as evidence, or None if they are not in it."""
        if (found := self.words.find(quote)) is None:
            return None
        return self.utterance.cite(self.start + found[0], self.start + found[1])


@attrs.frozen
class Window:
    """Neighbouring messages that are shown to a model in one question.

    Attributes:
        excerpts: the messages; a model refers to the first one as number 1.
    """

    excerpts: tuple[Excerpt, ...]

    def rendered(self) -> str:
        """Return the messages as a model is shown them."""
        return "\n".join(rendered(excerpt, number) for number, excerpt in enumerate(self.excerpts, 1))


def rendered(excerpt: Excerpt, number: int) -> str:
    """Return a message as escaped XML: its number, whether to take facts from it, who said it and when."""
    utterance = excerpt.utterance
    told = {
        "number": str(number),
        "take_facts": "yes" if excerpt.giving and not excerpt.carried else "no",
        # A made-up role must not pass for another one.
        "role": Message(content="", role=utterance.role).origin.value,
        "speaker": utterance.speaker,
        "said": f"{utterance.timestamp:%Y-%m-%d %H:%M} UTC, {_WEEKDAYS[utterance.timestamp.weekday()]}",
    }
    attributes = " ".join(f'{name}="{escaped(value)}"' for name, value in told.items() if value is not None)
    return f"<message {attributes}>{escaped_words(excerpt.words.text)}</message>"


def windows_of(spoken: Iterable[tuple[Utterance, bool]], max_chars: int) -> list[Window]:
    """Part messages into windows of about ``max_chars`` characters, as rendered.

    A message that is longer than a window is cut at its paragraphs and sentences. A window starts with the last
    message before it, where that takes little room: an answer is nothing without its question. Windows without
    a message that gives facts are left out.

    Args:
        spoken: the messages, each with whether it gives facts.
        max_chars: how long a window may be.
    """
    groups: list[list[Excerpt]] = []
    size = 0
    for piece in (piece for utterance, giving in spoken for piece in _pieces(utterance, giving, max_chars)):
        cost = _cost(piece)
        if not groups or size + cost > max_chars:
            carried = _carried(groups[-1][-1], min(max_chars - cost, max_chars // 4)) if groups else []
            groups.append(carried)
            size = sum(map(_cost, carried))
        groups[-1].append(piece)
        size += cost
    return [Window(tuple(group)) for group in groups if any(item.giving and not item.carried for item in group)]


def _carried(last: Excerpt, room: int) -> list[Excerpt]:
    again = attrs.evolve(last, carried=True)
    return [again] if _cost(again) <= room else []


def _cost(piece: Excerpt) -> int:
    return len(rendered(piece, 999)) + 1


def _pieces(utterance: Utterance, giving: bool, max_chars: int) -> list[Excerpt]:
    """Cut a message so that its pieces fit as rendered: escaped text is longer than it counts."""
    whole = Excerpt(utterance=utterance, start=0, end=len(utterance.text), giving=giving)
    pieces, length = [whole], max_chars
    while any(_cost(piece) > max_chars for piece in pieces) and length > _SHORTEST_PIECE:
        spans = statement_spans(utterance.text, length)
        pieces = [attrs.evolve(whole, start=start, end=end) for start, end in spans]
        length = length * 3 // 4
    return pieces
