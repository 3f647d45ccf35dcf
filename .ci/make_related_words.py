"""Make `factmem/recall/text/related_words.npz`: which stems mean much the same.

    pip install . --group related-words
    python .ci/make_related_words.py

The words are the most frequent ones of the English frequency list that comes with symspellpy (Google Books
Ngrams, CC BY 3.0, met with SCOWL); their vectors are those of all-MiniLM-L6-v2 (Apache 2.0), each word by itself.
"""

from __future__ import annotations

from importlib import resources
from pathlib import Path

import anyio
import numpy as np

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


async def main() -> None:
    words = frequent_words()
    embedder, texts = embedder_named("minilm"), list(words.values())
    vectors = np.concatenate([await embedder.embed(texts[start : start + 512]) for start in range(0, len(texts), 512)])
    order = np.argsort(np.array(numbers := term_numbers(words), np.uint64))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True))[order]
    related, weights, counts = [], [], []
    for row, vector in enumerate(vectors):
        cosines = vectors @ vector
        weight = np.round(STEP * WEIGHT * (cosines - ALIKE) / (1 - ALIKE)).astype(int)
        weight[row] = 0
        best = np.argsort(-weight, kind="stable")[:MOST]
        best = np.sort(best[weight[best] > 0])
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
