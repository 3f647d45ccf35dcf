"""The part of a text that is its author's own words: no forwarded mail, no letter, nothing that a line announces.

The words are those of `factmem.languages`.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from factmem.languages import COLON, Language, Span, folded, listed, sentence_spans, words_of
from factmem.patterns import lazy_pattern

_RULE: Final = "-----"
"""Beginning and end of a line that parts a mail from what is above it."""

_ITEMS: Final = lazy_pattern(r"(?:\n[ \t]*[-*•][^\n]*)+\n(?:[ \t]*\n)+")
"""Items of a list, and a blank line."""

_LONGEST_NAME: Final = 2
"""Maximum number of words of the last line of a letter, a name."""


def own_words(text: str, language: Language) -> int:
    """Return the length of the part of a text that is its author's own words.

    Somebody else's words follow the header of a mail, a line that announces them ("My boss wrote:"), an order about a
    thing at hand and a colon, a request about a text that ends with a colon or its line, or the greeting of a letter. A
    letter without words before it is somebody else's if it is signed.

    Args:
        text: The text.
        language: Its language.
    """
    if not COLON.search(text):
        return len(text)
    last, lowered = text.rstrip().rpartition("\n")[2], folded(text)
    signed = last[-1:].isalnum() and len(last.split()) <= _LONGEST_NAME
    mail = _mail_at(lowered, language)
    spans = sentence_spans(text)
    for (start, end), (following, _) in pairwise([*spans, (len(text), len(text))]):
        if start >= mail:
            break
        head, *behind = COLON.split(lowered[start:end], maxsplit=1)
        if (
            "\n" in text[end:following]
            and text[following : following + 1] != ">"
            and (announces(lowered[start:end], language) or _shows(lowered[start:end], language))
        ):
            return end
        orders = language.orders(lowered[start:end]) or language.ends("orders", head)
        cue = "once" if orders and behind else "texts" if behind or text.startswith("\n", end) else ""
        if cue and language.finds(cue, head) and (orders or language.asks(head)):
            return min(start + len(head) + 1, end)
        if head.endswith((",", "，", "、")) and (start or signed) and language.cues["greets"].match(head):
            return start
    return mail


def own_sentences(text: str, language: Language) -> Iterator[Span]:
    """Yield the spans of sentences, or their beginnings, in a text's own words; see `own_words`.

    Behind a list of what somebody said, the author speaks again where a paragraph begins in the first person.
    """
    own = own_words(text, language)
    told = _ITEMS.match(text, own)
    again = told.end() if told and language.cues["self"].match(folded(text), told.end()) else len(text)
    for start, end in sentence_spans(text):
        if start < own or start >= again:
            yield start, min(end, own) if start < own else end


def _mail_at(lowered: str, language: Language) -> int:
    """Return the offset of the header of a mail in a folded text; its length if there is none.

    It begins with a line such as "Begin forwarded message:" or "Fwd: …", with one between dashes that has a word of
    these, with a field of a mail that holds an address and states nothing of it, or with two fields: "From: …",
    "Subject: …". No line without a colon stands between these.
    """
    at, start, fields = 0, 0, set[str]()
    for line in lowered.splitlines(keepends=True):
        field, colon, value = line.replace("：", ":").partition(":")
        name = field.strip(" \t\n\r*")
        if name in _names_in_mails("prefixes") or (name in _names_in_mails("forwards") and not value.strip()):
            return at
        if not colon:
            fields.clear()
            if name.startswith(_RULE) and name.endswith(_RULE) and not _words_of_mails().isdisjoint(words_of(name)):
                return at
        elif name in _names_in_mails("headers"):
            start = start if fields else at
            fields.add(name)
            behind = value.partition("@")[2].partition(" ")[2]
            states = language.finds("copula", behind)  # "From: bob@x.com is my address", and not "jon@mbl.is"
            if len(fields) > 1 or ("@" in value and not (states and words_of(behind[states.end() :]))):
                return start
        at += len(line)
    return len(lowered)


@functools.cache
def _names_in_mails(cue: str) -> frozenset[str]:
    """Return the names of a list, of all languages."""
    return frozenset(listed(cue))


@functools.cache
def _words_of_mails() -> frozenset[str]:
    """Return the words of the lists that are named in a line before a mail, of all languages."""
    words = (word for name in listed("forwards", "headers", "quotes") for word in words_of(name))
    return frozenset(word for word in words if len(word) > 2)  # not "a", "de"


def _shows(line: str, language: Language) -> bool:
    """Return whether a folded line without a colon shows a text that came: "I received this message"."""
    return language.finds("received", line) is not None and language.finds("texts", line) is not None


def announces(line: str, language: Language) -> bool:
    """Return whether a folded line announces words of somebody else: "My boss wrote:", "I got this:"."""
    if not line.endswith((":", "：")):
        return False
    if (found := language.finds("quotes", line)) is None:
        return language.finds("received", line) is not None
    done = language.lists.get("done", ())
    before = [word for word in words_of(line[: found.start()]) if word not in done]
    return not before or before[-1] not in language.lists.get("self", ())  # not "I told you:"
