"""Other spellings of a name: its initials, its words written as one, a letter more or less.

"NYC" is New York City, "boardgames" are board games, and "portugese" may be Portuguese.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from factmem.detection.passages import Word
from factmem.stemming import stemmer

__all__ = ["misspellings_of", "other_forms_of", "respellings_of"]

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
_FEWEST_INITIALS: Final = 2
_MOST_INITIALS: Final = 6
_SHORTEST_JOINED: Final = 5
_SHORTEST_MISSPELT: Final = 8


def respellings_of(words: Sequence[Word], passage: Sequence[Word]) -> Iterator[tuple[int, int]]:
    """Yield where a passage writes the words of a name together, apart or by their initials.

    Args:
        words: the words of the name.
        passage: the words of the passage.
    """
    name = [word for word in words if not word.is_mark]
    joined = "".join(word.text for word in name)
    initials = "".join(word.text[0] for word in name)
    stem = stemmer()
    for at, word in enumerate(passage):
        if len(name) > 1 and word.text == initials and word.is_name and len(initials) >= _FEWEST_INITIALS:
            yield at, at
        if len(name) > 1 and len(joined) >= _SHORTEST_JOINED and stem(word.text) == stem(joined):
            yield at, at
        following = passage[at + 1].text if at + 1 < len(passage) else ""
        if len(name) == 1 and following and word.text + following == joined and len(joined) >= _SHORTEST_JOINED:
            yield at, at + 1
        if len(name) == 1 and name[0].is_name and _FEWEST_INITIALS <= len(joined) <= _MOST_INITIALS:
            run = passage[at : at + len(joined)]
            if all(one.is_name for one in run) and "".join(one.text[0] for one in run) == joined:
                yield at, at + len(run) - 1


def other_forms_of(word: Word, passage: Sequence[Word]) -> Iterator[tuple[int, int]]:
    """Yield where a passage has an irregular form of a verb."""
    stem = stemmer()
    for at, said in enumerate(passage):
        if said.text in _IRREGULAR and stem(_IRREGULAR[said.text]) == word.stem:
            yield at, at


def misspellings_of(words: Sequence[Word], passage: Sequence[Word]) -> Iterator[tuple[int, int]]:
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
