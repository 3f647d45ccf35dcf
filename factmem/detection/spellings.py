"""Other spellings and forms of words, which no stem joins.

"NYC" is New York City, "boardgames" are board games, "portugese" may be Portuguese, who swam swims, and a teacher
teaches.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Final

from factmem.detection.passages import Passage, Word, words_of
from factmem.detection.times_said import Found
from factmem.stemming import stemmer

__all__ = ["derived_from", "misspellings_of", "other_forms_of", "respellings_of", "with_other_ending"]

_FORMS: Final = (
    "breed: bred; build: built; buy: bought; catch: caught; dive: dove; draw: drew drawn; drink: drank; drive:"
    " drove driven; eat: ate; fight: fought; fly: flew flown; grow: grew grown; hang: hung; keep: kept; knit:"
    " knitted; lead: led; make: made; ride: rode ridden; row: rowed; run: ran; sell: sold; sew: sewn; sing: sang"
    " sung; ski: skied; sleep: slept; speak: spoke; swim: swam swum; take: took; teach: taught; wear: wore worn;"
    " weave: wove woven; win: won; write: wrote written"
)
"""Forms of verbs that no ending makes, behind the verb."""
_IRREGULAR: Final = {
    form: verb for verb, _, forms in (row.partition(":") for row in _FORMS.split("; ")) for form in forms.split()
}
_SHORTEST_OF_FAMILY: Final = 5
_ENDINGS: Final = (
    *("", "s", "e", "er", "ers", "or", "ist", "ists", "ing", "ed", "es", "ian", "ment", "ion", "ation", "al", "ly"),
    *("y", "ies", "ic", "ical", "ity", "ive", "ant", "ance", "ness", "en", "ee", "eer", "ship"),
)
_FEWEST_INITIALS: Final = 2
_MOST_INITIALS: Final = 6
_SHORTEST_JOINED: Final = 5
_SHORTEST_MISSPELT: Final = 8


def respellings_of(name: str, passage: Passage) -> Iterator[Found]:
    """Yield where a passage writes a name in one word or in several, or has its initials, or the name of initials."""
    words = [word for word in words_of(name) if not word.is_mark]
    joined = "".join(word.text for word in words)
    if len(words) > 1:
        yield from _in_one_word(joined, passage)
        yield from _by_initials("".join(word.text[0] for word in words), passage)
    elif name.isupper() and _FEWEST_INITIALS < len(joined) <= _MOST_INITIALS:
        yield from _spelled_out(joined, passage)
    elif len(joined) >= _SHORTEST_JOINED:
        pairs = itertools.pairwise(word.text for word in passage.words)
        yield from ((at, at + 1) for at, (one, two) in enumerate(pairs) if one + two == joined)


def _in_one_word(joined: str, passage: Passage) -> Iterator[Found]:
    if len(joined) >= _SHORTEST_JOINED:
        yield from ((at, at) for at in passage.stems.get(stemmer()(joined), ()))


def _by_initials(initials: str, passage: Passage) -> Iterator[Found]:
    """Yield the words in capital letters that are initials; "He" does not stand for Helen Evans."""
    for at, word in enumerate(passage.words):
        written = word.text == initials and passage.text[word.start : word.end].isupper()
        if written and _FEWEST_INITIALS <= len(initials) <= _MOST_INITIALS:
            yield at, at


def _spelled_out(initials: str, passage: Passage) -> Iterator[Found]:
    """Yield the runs of capitalized words that have some initials."""
    for at in range(len(passage.words) - len(initials) + 1):
        run = passage.words[at : at + len(initials)]
        if all(word.is_name and word.text[0] == letter for word, letter in zip(run, initials, strict=True)):
            yield at, at + len(run) - 1


def other_forms_of(word: Word, passage: Sequence[Word]) -> Iterator[Found]:
    """Yield where a passage has an irregular form of a verb."""
    stem = stemmer()
    for at, said in enumerate(passage):
        if said.text in _IRREGULAR and stem(_IRREGULAR[said.text]) == word.stem:
            yield at, at


def misspellings_of(words: Sequence[Word], passage: Sequence[Word]) -> Iterator[Found]:
    """Yield the long words of a passage that differ from a name of one word by a single letter."""
    if len(words) == 1 and len(words[0].text) >= _SHORTEST_MISSPELT:
        yield from ((at, at) for at, word in enumerate(passage) if _is_near(word.text, words[0].text))


def _is_near(one: str, two: str) -> bool:
    """Return whether two words differ by one letter: another one, one too many or one too few."""
    if abs(len(one) - len(two)) > 1 or one == two:
        return False
    same = next((at for at, (left, right) in enumerate(zip(one, two, strict=False)) if left != right), None)
    if same is None:
        return True
    shorter = len(one) < len(two), len(two) < len(one)
    return one[same + (not shorter[0]) :] == two[same + (not shorter[1]) :]


def derived_from(text: str, words: Sequence[Word]) -> list[Found]:
    """Return the words of one family with a word: "teach" for "teacher"."""
    if len(text) < _SHORTEST_OF_FAMILY:
        return []
    roots = {text.removesuffix(ending) for ending in _ENDINGS}
    return [
        (at, at)
        for at, word in enumerate(words)
        if word.text[:4] == text[:4] and roots & {word.text.removesuffix(ending) for ending in _ENDINGS}
    ]


def with_other_ending(text: str, words: Sequence[Word]) -> list[Found]:
    """Return the words that begin as a text does, for languages that decline names."""
    length = max(3, (2 * len(text) + 2) // 3)
    return [(at, at) for at, word in enumerate(words) if len(text) >= 3 and word.text[:length] == text[:length]]
