"""The one analyser of factmem: from text to terms, the same for every provider.

Lower case, words of letters and digits with inner apostrophes, English function words dropped (after
the Snowball project's list), English Snowball stems.
"""

from __future__ import annotations

import functools
import json
import re
import threading
from typing import TYPE_CHECKING, Any, Final

from factmem.facts import STATEMENT
from factmem.records import Assertion

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["STOP_WORDS", "analyse", "forget_words", "indexed_terms", "indexed_text"]

STOP_WORDS: Final = frozenset(
    """
    i me my myself we our ours ourselves you your yours yourself yourselves he him his himself she her hers herself
    it its itself they them their theirs themselves what which who whom this that these those am is are was were be
    been being have has had having do does did doing would should could ought i'm you're he's she's it's we're
    they're i've you've we've they've i'd you'd he'd she'd we'd they'd i'll you'll he'll she'll we'll they'll isn't
    aren't wasn't weren't hasn't haven't hadn't doesn't don't didn't won't wouldn't shan't shouldn't can't cannot
    couldn't mustn't let's that's who's what's here's there's when's where's why's how's a an the and but if or
    because as until while of at by for with about against between into through during before after above below to
    from up down in out on off over under again further then once here there when where why how all any both each
    few more most other some such no nor not only own same so than too very
    """.split()  # noqa: SIM905 - a page of quoted words is hard to read
)

_WORD: Final = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


@functools.cache
def _stem() -> Callable[[str], str]:
    import Stemmer

    local = threading.local()  # a stemmer keeps state while it works: one a thread

    @functools.lru_cache(maxsize=65_536)
    def stem(word: str) -> str:
        if not hasattr(local, "stemmer"):
            local.stemmer = Stemmer.Stemmer("english")
        stemmed: str = local.stemmer.stemWord(word)
        return stemmed

    return stem


def analyse(text: str) -> list[str]:
    """Return the terms of a text, in order, with repetitions."""
    stem = _stem()
    words = _WORD.findall(text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'"))
    return [stem(word) for word in words if word not in STOP_WORDS]


def forget_words() -> None:
    """Drop the stems kept for speed: a word that was erased must not live on in them."""
    _stem.cache_clear()


def indexed_text(said: Assertion) -> str:
    """Return what recall reads of an assertion: a statement with its speaker, a fact with its concept."""
    if said.keyword == STATEMENT.keyword and isinstance(said.data, str):
        return f"{_speaker(said)}: {said.data}"
    about = said.place.subject.individual_name or ""
    concept = said.description or said.keyword.replace("_", " ").replace("-", " ")
    return f"{about} {concept}: {_plain(said.data)}".strip()


def indexed_terms(said: Assertion) -> list[str]:
    """Return the terms that an assertion is found by: of a fact also those of its keyword and of its first quote."""
    terms = analyse(indexed_text(said))
    if said.keyword == STATEMENT.keyword:
        return terms
    quote = said.details.evidence[0].quote if said.details.evidence else None
    more = dict.fromkeys(analyse(said.keyword) + analyse(quote or ""))
    return terms + [term for term in more if term not in terms]


def _speaker(said: Assertion) -> str:
    evidence = said.details.evidence
    return (evidence[0].speaker or evidence[0].role if evidence else None) or said.details.origin.value


def _plain(data: Any) -> str:
    match data:
        case str():
            return data
        case dict():
            return ", ".join(f"{key.replace('_', ' ')} {_plain(item)}" for key, item in data.items())
        case list() | tuple():
            return ", ".join(map(_plain, data))
        case _:
            return json.dumps(data)
