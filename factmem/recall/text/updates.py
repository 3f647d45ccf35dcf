"""The rule for statements that overtake others: the same matter with another value, said later by the same speaker.

A statement has a matter. Another of the same matter overtakes it:

- *held*: one sentence of what has one value at a time, the same up to the value: "My boss is Ann.", "My boss is Ben.",
  "My gate is B12.", "My gate is C7."; but not "I report to Ann for the shop.", "I report to Ben for the till.";
- *counted*: the same sentence but for numbers, units and days: "I weigh 82 kilos.", "I weigh 76 kilos.".

The newer one may say more, in up to three sentences of which one is of the matter: "Big news! I moved to Bergen.". So
may the earlier one, if the others hold no word with content: "My boss is Ann. It's fine.", but not "I live in Oslo.
I'm vegan.", which nothing may hide. When a value began makes no difference: "My rent is 950 euros from now on.", "As of
May my rent is 950 euros.". Nor do the marks, capitals and hesitations that tell text from speech: "um my boss is uh
ben". Where no letter is a capital, a word or two for a boss or the like are a name unless they are a quality: "my boss
is nice".

No grammar stands here: the words are lists by language, see ``languages.toml``. What may hold beside the earlier
statement ("I like capers.") has no matter; so have questions, long texts and what says hardly anything. In a language
without lists, numbers in figures count alone. Strictness comes first: a missed update costs less than a hidden fact.
What is said in other words ("We heat with oil.", "The oil tank is gone.") is left to a model: of pairs that share words
and a word of change, most hold together.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Hashable, Sequence
from typing import Final, Generic, TypeVar

import attrs

from factmem.languages import WORD, Language, blank, folded, language_of, sentence_spans, words_anywhere, words_of
from factmem.patterns import lazy_pattern
from factmem.recall.text.analysis import STOP_WORDS, analyse, terms_of
from factmem.recall.text.signs import REPLACED, names_one_of_several, relation
from factmem.sentences import fluent, telling
from factmem.stemming import stemmer
from factmem.toml_tables import table

MOST_TERMS: Final = 24
"""Maximum number of terms of a statement that has a matter."""

_LONGEST: Final = 320
"""Maximum number of characters of a statement that has a matter."""

_MOST_WORDS: Final = 16
"""Maximum number of words of a sentence that is compared word by word."""

_MOST_SENTENCES: Final = 3
"""Maximum number of sentences of a statement that overtakes another."""

_PREDICATES: Final = ("home", "single", "copula", "shared")
"""Lists of words before a value that replaces the one before."""

_BEFORE_AMOUNTS: Final = (*_PREDICATES, "amounts")
"""Lists of words of which one stands before an amount, in a language that has any of them."""

_FIGURE: Final = lazy_pattern(r"[\d#]")
_FIGURES: Final = lazy_pattern(r"(?<![^\W\d_])\d+(?:[.,:/-]\d+)*(?:st|nd|rd|th|er?)?(?![^\W\d_])")
_CODE: Final = lazy_pattern(r"(?<![^\W_])(?:[^\W_]++-)?(?=[^\W\d_]*+\d)[^\W_]++(?:[.,:/-][^\W_]++)*")
"""A figure or a code as it is written: "9:30", "plum42", "AB-1234"."""

_YEAR: Final = r"(?:19|20)\d\d"
_DAY: Final = r"\d{1,2}(?:st|nd|rd|th|er|[ºª])?"
_TITLE: Final = lazy_pattern(r"\A\W*(?:[^\W\d_]{1,4}\.\s+)+(?=\w)")
_PAUSE: Final = lazy_pattern(r"([,;:(–—]\s*)([^\W_]+(?:'[^\W_]+)*)")
_NUMBERS: Final = lazy_pattern(r"#(?: #)+")
_PIECE: Final = lazy_pattern(r"#|[^\W_]+(?:'[^\W_]+)*")

Term = TypeVar("Term", bound=Hashable)


@attrs.frozen(kw_only=True)
class Matter(Generic[Term]):
    """The matter of a statement, as words or as numbers of words.

    Attributes:
        held: Key of the sentence up to its value; None for none.
        counted: Key of the sentence without its numbers; None for none.
        circumstance: Key of what stands behind the value of a held sentence; None for none. Two values may hold at a
            time, each in its own circumstance.
        content: Words with content of the sentence, in order, without numbers; none if the statement also says
            something else than its value, which must not be hidden.
        mine: Whether the statement begins with the first person, or an ending of its words is of it.
        value: First word or figure of the value of a held sentence; None for none.
        more: Whether a sentence says something else as well, as long as its content is not known.
    """

    held: Term | None = None
    counted: Term | None = None
    circumstance: Term | None = None
    content: tuple[Term, ...] = ()
    mine: bool = False
    value: Term | None = None
    more: bool = False


def overtakes(newer: Matter[Term], older: Matter[Term]) -> bool:
    """Return whether a statement overtakes an earlier one of the same speaker."""
    if not older.content:
        return False
    if older.counted is not None and older.counted == newer.counted:
        return True
    apart = older.circumstance and newer.circumstance and older.circumstance != newer.circumstance
    if older.held is None or older.held != newer.held or apart:
        return False
    repeated = older.value in older.content and older.value == newer.value
    adds = not {*older.content, older.value} <= {*newer.content, newer.value, None}  # more than words
    return adds and not repeated


def matter_of(text: str) -> Matter[str] | None:
    """Return the matter of a statement; None if it neither overtakes nor is overtaken, nor is of the first person."""
    if len(text) > _LONGEST:
        return None
    text = fluent(text)
    sentences, lowered = sentence_spans(text), folded(text)
    replacing = words_anywhere("numbers", *_PREDICATES)
    if len(sentences) > 1 and text.isascii() and not (_FIGURE.search(text) or replacing.occurs_in(lowered)):
        return None
    language = language_of(lowered)
    mine = _begins_with_first_person(lowered, language) or language.finds("of_self", lowered) is not None
    if not (mine or _may_be_framed(lowered, language)):
        return None
    if len(sentences) > _MOST_SENTENCES or not 0 < len(terms_of(text)) <= MOST_TERMS or not telling(text).alone:
        return None
    stated = [span for span in sentences if not language.asks(lowered[slice(*span)])]
    if not stated or any(language.orders(lowered[slice(*span)]) for span in sentences[:-1]):
        return None  # "Translate this. I live in Rome."
    frames = [(_frame_of(text[slice(*span)], lowered[slice(*span)], language), span) for span in stated]
    frame, own = next(((frame, span) for frame, span in frames if frame.held or frame.counted), (None, None))
    if frame is None or own is None:
        return Matter(mine=True) if mine else None
    others = [lowered[slice(*span)] for span in stated if span != own]
    more = any(any(telling(it)) or language.orders(it) or language.finds("lasting", it) for it in others) or frame.more
    return attrs.evolve(frame, content=() if more else _content(text[slice(*own)], language), mine=mine)


def _frame_of(text: str, sentence: str, language: Language) -> Matter[str]:
    """Return the matter of a sentence, which is given as written and folded, without its content."""
    if len(words_of(sentence)) > _MOST_WORDS or not _may_be_framed(sentence, language):
        return Matter()
    start = language.start_of(sentence)  # behind "No," and "Sorry, I meant:"
    if sentence[:start].rstrip()[-1:].isalnum() and language.finds("forbids", sentence[:start]):
        start = 0  # "No me mudé a Oslo."
    lasting = _lasting(sentence[start:], language)
    frame = attrs.evolve(_held(text[start:], lasting, language), counted=_counted(lasting, language))
    if (frame.held or frame.counted) and (language.finds("several", lasting) or language.finds("beside", lasting)):
        return Matter(more=frame.more)
    return frame


def _may_be_framed(sentence: str, language: Language) -> bool:
    """Return whether a sentence may hold what has one value at a time, or an amount; if not, it does neither."""
    if language.may_hold(sentence, *_PREDICATES):
        return True
    if language.lists.keys() & _BEFORE_AMOUNTS and not language.may_hold(sentence, *_BEFORE_AMOUNTS):
        return False
    return language.may_hold(sentence, "numbers") or _FIGURE.search(sentence) is not None


def _content(text: str, language: Language) -> tuple[str, ...]:
    """Return the terms with content, in order, without numbers."""
    everyday, terms = _everyday(language), analyse(language.without("numbers", folded(text)))
    kept = [term for term in terms if term not in everyday and (term.isalpha() or not any(map(str.isdigit, term)))]
    return tuple(dict.fromkeys(kept))


@functools.cache
def _everyday(language: Language) -> frozenset[str]:
    return frozenset(map(stemmer(), language.everyday))


@functools.cache
def _first_person(language: Language) -> frozenset[str]:
    return frozenset(language.lists.get("self", ())) - frozenset(language.lists.get("definite", ()))


def _begins_with_first_person(sentence: str, language: Language) -> bool:
    found = WORD.search(sentence, language.start_of(sentence)) if language.may_hold(sentence, "self") else None
    own = _first_person(language)
    return found is not None and (found[0] in own or (language.unspaced and found[0].startswith((*own,))))


def _lasting(sentence: str, language: Language) -> str:
    """Return a sentence with spaces for the words of the present, and for when its state began."""
    if language.may_hold(sentence, "onwards", "since"):
        sentence = _beginning(language).sub(blank, sentence)
    return language.without("lately", sentence, blank)


@functools.cache
def _beginning(language: Language) -> re.Pattern[str]:
    """Return the pattern of the beginning of a state: "from now on", "as of 1 May", and no range of times."""
    words = table("time_words")[language.name]
    named = [name.strip(" -012") for name in words["relative"].split(",")]
    units = [words["units"][unit] for unit in ("week", "month", "year")]
    spelt = {*named, *WORD.findall(" ".join([words["months"], words["weekdays"], *units]))}
    time = rf"(?:{'|'.join(map(re.escape, sorted(map(folded, spelt), key=len, reverse=True)))}|{_YEAR})(?!\w)"
    onwards, since, coming = (language.cues[cue].pattern for cue in ("onwards", "since", "coming"))
    begun = rf"{since}(?:\W+(?:{coming}|{_DAY}))*\W+{time}(?:\W+(?:{coming}|{time}|{_DAY}(?=[,.]|\W+{_YEAR}|\Z)))*"
    return lazy_pattern(rf"(?:{onwards}|{begun})(?!\W+\w{{1,5}}\W+{time})")


def _counted(sentence: str, language: Language) -> str | None:
    """Return a sentence without its numbers; None if it states no amount."""
    if not (language.may_hold(sentence, "numbers") or _FIGURE.search(sentence)):
        return None
    masked = language.without("padding", language.without("numbers", _FIGURES.sub("#", sentence), "#"))
    before, number, _ = masked.partition("#")
    if not number:
        return None
    known = [kind for kind in _BEFORE_AMOUNTS if kind in language.lists]
    if known and not (language.may_hold(before, *known) and any(language.finds(kind, before) for kind in known)):
        return None  # "Ticket 12 is done."
    if not known and len(words_of(before)) < 2:
        return None
    return _NUMBERS.sub("#", " ".join(_PIECE.findall(masked))) if _content(sentence, language) else None


def _held(text: str, sentence: str, language: Language) -> Matter[str]:
    """Return the frame of a sentence of what has one value at a time: up to the value, and the form of the value."""
    nothing = Matter[str]()
    if not language.may_hold(sentence, *_PREDICATES):
        return nothing
    definite = language.lists.get("definite", ())
    found = ((language.finds(kind, sentence), kind) for kind in _PREDICATES)
    places = (
        (place.start(), -place.end(), kind)
        for place, kind in found
        if place and not set(words_of(sentence[: place.start()])[-1:]).intersection(definite)  # no noun: "my rent"
    )
    start, end, kind = min(places, default=(0, 0, ""))  # the first, and of several there the longest
    if not kind or (value := WORD.search(sentence, end := -end)) is None:
        return nothing
    rest, words = sentence[end:], words_of(language.without("padding", sentence[:end]))
    written, said = text[slice(*value.span())], analyse(rest) if kind == "shared" else []
    form, circumstance = _form(text, sentence, end, language), _circumstance(text, sentence, end, language)
    more = _says_more(language.without("numbers", rest, "0"), language)  # not "a hundred and fifty"
    matter = Matter(circumstance=circumstance, value=_first_of(rest, language), more=more)
    if kind == "home":  # living and moving to are said in different words
        who, own = words_of(sentence[:start]), _first_person(language)
        mine = not own.isdisjoint(who[:1] or words)
        if mine and not own.issuperset(words_of(language.without("done", sentence[:start]))):
            return nothing  # "I dream of living in Rome.", "I almost moved to Rome."
        if written[0].islower() and (form != "A" or language.finds("changes", sentence)):
            return nothing  # "We moved to a bigger office.", "we moved to slack"
        return attrs.evolve(matter, held=" ".join([kind, *(["self"] if mine else map(stemmer(), who))]))
    if language.finds("changes", sentence):
        return nothing
    copula = kind == "copula" and not language.unspaced
    if copula and language.everyday.issuperset(words[:-1]):
        return nothing  # "It is Ann."
    thing = words_of(sentence)[0] in definite and not any(map(relation, words))
    small = written[0].islower() or text.isupper()
    if copula and small and value[0] in definite and not (thing and form.endswith("A")):
        return nothing  # "She is my doctor.", but "My hotel is the Ritz."
    if kind == "shared" and (len(said) < 2 or _FIGURE.search(sentence, end)):
        return nothing  # "We use Slack.", "I take 5 mg of it in the evening."
    plain = form == "a" or (form == "A" and text.islower() and not _may_name(words, rest, language))
    if plain and (form == "A" if not copula else not language.finds("sole", sentence[:end])):
        return nothing  # "i work at home", "She is tall."
    if names_one_of_several([*words, value[0]], named=kind == "copula" and form == "A"):
        return nothing  # "My sister is Eva."
    return attrs.evolve(matter, held=" ".join([kind, *map(stemmer(), words), form, *said[-1:]]))


def _may_name(words: Sequence[str], value: str, language: Language) -> bool:
    """Return whether a value may be a name where none has a capital: a word or two for a boss or so, no quality."""
    known = "qualities" in language.lists and not language.finds("qualities", value)
    return known and len(words_of(value)) < 3 and any(relation(word) in REPLACED for word in words)


def _form(text: str, sentence: str, start: int, language: Language) -> str:
    """Return the words before a value that say nothing, and its kind: a figure ("#"), a name ("A"), another word ("a").

    What a figure is of belongs to it: "5 euros for the gym".
    """
    found, definite = list[str](), frozenset(language.lists.get("definite", ()))
    for word in WORD.finditer(sentence, start):
        written = text[slice(*word.span())]
        light = word[0] in STOP_WORDS or word[0] in language.everyday
        if any(map(str.isdigit, written)) or (len(written) == 1 and not (light or language.unspaced)):
            code = _CODE.match(sentence, word.start()) or word
            pause = _PAUSE.search(sentence, code.end())
            return " ".join([*found, "#", *_content(sentence[code.end() : pause and pause.start()], language)])
        capital = written[0].isupper() and not (light and text.isupper())
        if language.unspaced or capital or not light:
            named = capital or text.islower()
            if found and definite.issuperset(found):  # "is the Thon", and not "is the noise" or "IS THE NOISE"
                named = capital and not (language.capitals or text.isupper())
                found = [] if named else found
            return " ".join([*found, "A" if named else "a"])
        found.append(word[0])
    return " ".join(found)


def _circumstance(text: str, sentence: str, start: int, language: Language) -> str | None:
    """Return what stands in the clause of a value behind a light word that is within no name: "Ann for the shop"."""
    rest = sentence[start:]
    ends = [found.start() for found in (language.finds("joins", rest), _PAUSE.search(rest)) if found]
    end = start + min(ends, default=len(rest))
    words = [] if language.unspaced else list(WORD.finditer(sentence, start, end))
    heavy = [at for at, word in enumerate(words) if word[0] not in STOP_WORDS and word[0] not in language.everyday]
    for one, other in itertools.pairwise([*heavy, len(words)] if heavy else ()):
        in_name = other < len(words) and all(text[words[at].start()].isupper() for at in (one, other))
        behind = [word[0] for word in words[one + 1 :]]
        if other > one + 1 and not in_name and not STOP_WORDS.issuperset(behind):
            return " ".join(behind)
    return None


def _first_of(value: str, language: Language) -> str | None:
    """Return the term of the first word with content or figure."""
    value = language.without("titles", _TITLE.sub("", value))
    figure = _CODE.search(value)
    words = _content(value[: figure.start()] if figure else value, language)
    return next(iter(words or (analyse(figure[0])[::-1] if figure else analyse(value))), None)


def _says_more(rest: str, language: Language) -> bool:
    """Return whether a clause or a companion follows a value: "Oslo and I'm allergic", "Oslo, my wife is"."""
    joined = language.finds("joins", rest)
    pauses = [pause.end(1) for pause in _PAUSE.finditer(rest) if pause[2] in language.everyday]
    return any(words_of(rest[end:]) for end in ([joined.end(), *pauses] if joined else pauses))
