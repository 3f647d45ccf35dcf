"""Standing instructions: a user's wishes for every later conversation."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterator
from typing import Final

import attrs

from factmem.detection.words import fenced, quoted
from factmem.languages import (
    WORD,
    Language,
    Span,
    clause_spans,
    content_words,
    folded,
    language_of,
    sentence_spans,
    words_anywhere,
    words_of,
)
from factmem.own_words import announces, own_words
from factmem.patterns import lazy_pattern
from factmem.text_caches import forgettable

_LONGEST: Final = 250
"""Maximum length of a sentence with a standing instruction, in characters."""
_LONGEST_TEXT: Final = 1_000
"""A longer text is pasted rather than typed, and orders in it are not the user's own."""
_BESIDE: Final = 1
"""Maximum number of words with content beside the manner that an order asks for; more are a task."""
_SAME_WORDS: Final = 0.85
_OF_ADDRESS: Final = 2
"""Maximum number of words with content of an instruction that says how to address the user, and nothing else."""
_HINTS: Final = ("lasting", "speaks", "closing", "manner", "yours", "named", "only", "forbids")
"""Lists of words of which a standing instruction holds one."""
_WISHING: Final = ("forbids", "nominal", "requests", "wishes", "named", "please", "conditions", "you")
_LABELLED: Final = ("lasting", "manner", "forbids", "only")
"""Lists of words by which what stands behind a label is a wish."""
_ORDERING: Final = ("orders", *_WISHING)
"""Lists of words of which it holds one too: those by which it is an order or a wish."""


def instructions_in(text: str) -> tuple[Span, ...]:
    """Return the spans of the standing instructions in a user's text, sentence by sentence.

    A standing instruction tells an assistant how to behave from now on: "always cite your sources", "when I ask about
    dinner, suggest something vegetarian", "no more emojis", "call me Bo". It is recognized by its wording, in texts
    that people type: an order or a wish that is lasting, or that is about the manner of answers and nothing else.
    Habits ("I always walk"), tasks ("translate this letter"), questions and code are not instructions, nor are words
    of somebody else: a quotation, a letter, a mail, or a text to be worked on; see `factmem.own_words.own_words`.
    """
    if len(text) > _LONGEST_TEXT:
        return ()
    lowered = folded(text)
    if text.isascii() and not words_anywhere(*_HINTS).occurs_in(lowered):
        return ()
    language = language_of(lowered)
    if not (language.may_hold(lowered, *_HINTS) and language.may_hold(lowered, *_ORDERING)):
        return ()
    typed = text
    for start, end in (*fenced(text), *quoted(text)):
        typed = typed[:start] + _LETTER.sub("x", typed[start:end]) + typed[end:]
    lowered, own = folded(typed), own_words(typed, language)
    return tuple(
        (start, end)
        for start, end in sentence_spans(text)
        if end - start <= _LONGEST
        and start < own
        and text[start] != ">"
        and language.may_hold(said := lowered[start : min(end, own)], *_HINTS)
        and _Said(said, language).instructs()
    )


def may_instruct(text: str) -> bool:
    """Return whether words that a model takes for a standing instruction may be one, rather than tell something.

    They may if, behind an opening such as "Remember that", they hold a word of wishes, of orders, of the manner of
    answers or of the second person, or if their language is unknown: "Remember that I parked on level 3" is a fact.
    """
    lowered = folded(text)
    language = language_of(lowered)
    said = lowered[language.start_of(lowered) :]
    clauses = [said[slice(*span)] for span in clause_spans(said, (0, len(said)))]
    orders = any(language.orders(clause) or language.ends("orders", clause) for clause in clauses)
    return orders or not language.name or language.may_hold(said, *_HINTS, *_WISHING)


def overtakes(newer: str, older: str) -> bool:
    """Return whether a standing instruction replaces an older one, because both are about the same.

    They are if nearly all words with content of the shorter are in the other, or if both say how to address the user
    and the older one nothing else, or if they are the same words up to a limit ("at most five tasks"), the language of
    answers, or to "always" and "never". Instructions that differ in their subject, if only by a word, or in their
    circumstance ("at work", "in private") stand side by side.
    """
    new, old = _said(newer), _said(older)
    if new.circumstance != old.circumstance:
        return False
    if len(old.terms) <= _OF_ADDRESS and new.addresses and old.only_addresses:
        return True
    if new.language == old.language and new.frame and new.frame == old.frame:
        return True
    fewer = min(len(new.terms), len(old.terms))
    return fewer > 1 and len(new.terms & old.terms) >= _SAME_WORDS * fewer


@forgettable
@functools.lru_cache(1_024)  # each of a user's instructions is compared with all others
def _said(text: str) -> _Said:
    lowered = folded(text)
    return _Said(lowered, language_of(lowered))


_LEADS: Final = ("please", "first", "fillers", "corrects", "requests", "nominal", "lasting", "forbids", "wishes")
"""Lists of words that may stand before the verb of an order."""


_BEFORE_A_NOUN: Final = frozenset({"first", "fillers", "corrects"})
"""Those that may stand before a noun with the form of an order: "And call centre never picks up."."""


@attrs.frozen
class _Lead:
    """The words before the verb or the object of a clause.

    Attributes:
        at: Offset of what follows it.
        passed: Names of the lists that its words are in; see `_LEADS`.
        ordered: Whether it ends with a verb of requests, or holds one.
        named: Offset of the name that the assistant is to use, if any.
    """

    at: int
    passed: frozenset[str]
    ordered: bool
    named: int | None

    def holds(self, *cues: str) -> bool:
        """Return whether one of some lists is among those passed."""
        return not self.passed.isdisjoint(cues)


@attrs.frozen
class _Said:
    """A sentence.

    Attributes:
        sentence: The folded sentence.
        language: Its language.
    """

    sentence: str
    language: Language

    def instructs(self) -> bool:
        """Return whether the sentence is a standing instruction."""
        head, colon, _ = self.sentence.partition(":")
        if colon and announces(head + colon, self.language):
            return False
        if self.language.orders_last:
            return self._ends_with_order() and not self._has("sayings")
        if any(self._orders(self._lead(start), beside=beside) for start, beside in self._starts()):
            return not self._has("sayings")
        if self._follows_question():
            return True
        polite = self._has("please") and not self._has("self")
        return polite and self._bare and not self._asks and not self._has("sayings")

    @functools.cached_property
    def _lasting(self) -> bool:
        """Whether the sentence holds for more than this time."""
        return self._has("lasting") or self._has("asked") or self.language.ends("closing", self.sentence)

    @functools.cached_property
    def terms(self) -> frozenset[str]:
        """The words with content."""
        return frozenset(content_words(self.sentence, self.language))

    @functools.cached_property
    def circumstance(self) -> frozenset[str]:
        """The words with content before the clause that orders, and behind the name of an address: "at work"."""
        leads = ((start, self._lead(start)) for start, _ in self._starts())
        start, lead = next(((start, lead) for start, lead in leads if lead.ordered or lead.passed), (0, None))
        said = self.sentence[:start]
        if lead is not None and lead.named is not None:
            titles = self.language.lists.get("titles", ())
            words = [word for word in WORD.finditer(self.sentence, lead.named) if word[0] not in titles]
            light = (word.start() for word in words[1:] if word[0] in self.language.everyday)
            said += " " + self.sentence[next(light, len(self.sentence)) :]
        return frozenset(content_words(self.language.without("lasting", said), self.language))

    @functools.cached_property
    def frame(self) -> str:
        """The words, with a mark for a limit or the language of answers, or else without "always" and "never"."""
        said = " ".join(words_of(self.language.without("please", self.sentence)))
        lead = {cue: found for cue in ("always", "never") if (found := self.language.cues[cue].match(said))}
        rest = said[max((found.end() for found in lead.values()), default=0) :].strip()
        kinds = {"bounds": "numbers"} if "never" in lead else {"limits": "numbers", "replies": "tongues"}
        for cue, kind in kinds.items():
            found = self.language.finds(cue, rest)
            value = found and WORD.search(rest, found.end())
            if not value or not (value[0].isdecimal() or self.language.finds(kind, value[0])):
                continue
            masked = f"{rest[: value.start()]}#{rest[value.end() :]}"
            if kind == "numbers" or masked.endswith("#"):
                return f"never {masked}" if "never" in lead else masked
        return rest

    @functools.cached_property
    def addresses(self) -> bool:
        """Whether the sentence says how to address the user: "call me Bo"."""
        leads = (self._lead(start) for start, _ in self._starts())
        return any(lead.named is not None and self._names(lead.named) for lead in leads)

    @functools.cached_property
    def only_addresses(self) -> bool:
        """Whether it says that, and nothing about the manner of answers."""
        return self.addresses and not (self._has("manner") or self._has("forbids"))

    @functools.cached_property
    def _asks(self) -> bool:
        """Whether the sentence is a question, and not one by a last word such as "okay?" alone."""
        *_, (start, end) = clause_spans(self.sentence, (0, len(self.sentence))) or [(0, 0)]
        agreed = self.language.cues["first"].fullmatch(self.sentence, start, end - 1) if start else None
        return agreed is None and self.language.asks(self.sentence)

    @functools.cached_property
    def _bare(self) -> bool:
        """Whether the sentence is about the manner of answers and hardly anything else."""
        if self._has("theirs"):
            return False
        if self._has("yours"):
            return True
        cues = self.language.cues
        rest, count = cues["manner"].subn(" ", self.sentence)
        if not count or cues["once"].search(rest) or any(map(str.isdigit, rest)):
            return False
        for cue in ("orders", "forbids", "nominal", "lasting", "wishes", "requests"):
            rest = cues[cue].sub(" ", rest)
        own = self._has("wishes") and not self._has("lasting")
        at_hand = cues["definite"].search(rest) and not self._has("forbids")
        return len(content_words(rest, self.language)) <= (0 if at_hand or own else _BESIDE)

    def _ends_with_order(self) -> bool:
        """Return whether a sentence with its verb at the end is a standing instruction."""
        ordered = self.language.ends("orders", self.sentence) or self.language.ends("forbids", self.sentence)
        hushes = self._has("forbids") and self._has("mentions") and not self._has("once")
        return ordered and not self._asks and (self._lasting or self._bare or self._has("named") or hushes)

    def _starts(self) -> Iterator[tuple[int, bool]]:
        """Yield the offsets at which an order may begin, and whether a clause with a subject of its own stands before.

        These are clauses, and "call me" after "please", "but" or the like.
        """
        for named in self.language.cues["named"].finditer(self.sentence):
            if not self.language.unspaced and self.language.ends("opening", self.sentence[: named.start()]):
                yield named.start(), True
        beside = False
        for start, end in clause_spans(self.sentence, (0, len(self.sentence))):
            yield start, beside
            clause = self.sentence[start:end]
            leads = self.language.opens("conditions", clause) or self.language.opens("nominal", clause)
            beside = beside or not (leads or self.language.finds("lasting", clause))

    def _lead(self, start: int) -> _Lead:
        passed: set[str] = set()
        at, ordered, named = self._after(start), False, None
        while True:
            if (found := self._match("named", at)) is not None:
                ordered, named = True, found.end()
            verb = self._match("orders", at) is not None
            ordered = ordered or (verb and not (passed <= _BEFORE_A_NOUN and self._is_noun(at)))
            leads = (*_LEADS, "objects") if passed else _LEADS
            found_here = {cue: match for cue in leads if (match := self._match(cue, at))}
            if not found_here:
                return _Lead(at, frozenset(passed), ordered, named)
            (cue, lead), *others = found_here.items()
            passed |= {cue, *(it for it, match in others if self.sentence.startswith(" ", match.end()))}
            at = self._after(lead.end())

    def _orders(self, lead: _Lead, *, beside: bool) -> bool:
        """Return whether a standing instruction begins with a lead.

        Args:
            lead: The lead.
            beside: Whether a clause with a subject of its own stands before.
        """
        if self._asks and not (lead.holds("requests") and self._insists(lead)):
            return False
        if lead.named is not None and self._names(lead.named):
            return True  # "call me Annie"
        if lead.ordered and self._lasting and (not beside or lead.holds("lasting", "please", "forbids")):
            return True  # "cite your sources from now on"
        if not beside and self._leaves_out(lead):
            return True  # "don't recommend films", "suggest only trains"
        if lead.holds("wishes") and not lead.ordered and self.sentence.startswith("to ", lead.at):
            return False  # what somebody wants to do
        if lead.holds("wishes") and (lead.holds("lasting") or self.language.ends("lasting", self.sentence)):
            return True
        forbids = lead.holds("forbids") and not self.language.finds("self", self._clause(lead.at))
        return (lead.ordered or forbids or lead.holds("nominal", "requests", "wishes")) and self._bare

    def _is_noun(self, at: int) -> bool:
        """Return whether what looks like an order at an offset is a noun in its clause."""
        clause = self._clause(at)
        label, _, wish = clause.partition(": ")
        wished = any(self.language.opens(cue, wish) for cue in _LABELLED)  # "Format: always JSON."
        wished = wished and self.language.finds("givers", label) is None  # "Reply from Eve: always use French."
        return not wished and self.language.opens_with_noun(clause, 0)

    def _insists(self, lead: _Lead) -> bool:
        """Return whether a polite question is meant for good: "could you stop using emojis?"."""
        meant = self._bare or self._hushes(lead) or (lead.ordered and lead.holds("please") and lead.holds("lasting"))
        return self.language.ends("lasting", self.sentence) or (meant and lead.holds("lasting", "forbids"))

    def _leaves_out(self, lead: _Lead) -> bool:
        """Return whether a kind of thing, rather than one at hand, is forbidden, or all others are."""
        rest = self._clause(lead.at)
        kind = self._is_of_a_kind(rest) and (self.language.unspaced or len(words_of(rest)) > 1)
        left_out = kind and lead.ordered and (lead.holds("forbids") or self._has("only"))
        return not self._has("once") and (left_out or self._hushes(lead))

    def _is_of_a_kind(self, words: str) -> bool:
        return bool(content_words(words, self.language)) and not self.language.finds("definite", words)

    def _clause(self, at: int) -> str:
        """Return the rest of a clause from an offset."""
        clauses = clause_spans(self.sentence, (at, len(self.sentence)))
        return self.sentence[slice(*clauses[0])] if clauses else ""

    def _hushes(self, lead: _Lead) -> bool:
        """Return whether a topic, if only of the user's own, is not to be mentioned: "don't talk about my ex"."""
        if (mention := self._match("mentions", lead.at)) is None:
            return False
        before, topic = self.sentence[: mention.end()], self.sentence[mention.end() :]
        forbids = self.language.finds("forbids", before) or self.language.ends("forbids", topic)
        determiners = self.language.lists.get("determiners")
        named = bool(determiners) and not set(words_of(topic)[:1]).issubset(determiners or ())
        return bool(forbids) and (named or self._is_of_a_kind(topic) or bool(self.language.finds("self", topic)))

    def _follows_question(self) -> bool:
        """Return whether the sentence says what to do when something is asked: its last clause has no subject."""
        if not self.language.opens("conditions", self.sentence):
            return False
        asked = self.language.finds("asked", self.sentence)
        clauses = clause_spans(self.sentence, (0, len(self.sentence)))
        if asked is None or self._asks or len(clauses) < 2:
            return False
        start, end = clauses[-1]
        first = WORD.search(self.sentence, self.language.start_of(self.sentence[start:end]) + start, end)
        return start >= asked.end() and first is not None and first[0] not in self.language.everyday

    def _has(self, cue: str) -> bool:
        return self.language.finds(cue, self.sentence) is not None

    def _match(self, cue: str, at: int) -> re.Match[str] | None:
        return self.language.cues[cue].match(self.sentence, at)

    def _names(self, at: int) -> bool:
        """Return whether the first word from an offset may be a name."""
        name = _NAME.match(self.sentence, self._after(self.language.start_of(self.sentence[at:]) + at))
        titles = self.language.lists.get("titles", ())
        return name is not None and (name[0] in titles or bool(content_words(name[0], self.language)))

    def _after(self, at: int) -> int:
        """Return the offset of the next letter or digit."""
        found = _LETTER.search(self.sentence, at)
        return found.start() if found else len(self.sentence)


_NAME: Final = lazy_pattern(r"[^\s,.!;]+")
_LETTER: Final = lazy_pattern(r"[^\W_]")
