"""English stems of words, by the Snowball project's rules; of irregular forms, those of their base forms."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING

from factmem.text_caches import forgettable
from factmem.toml_tables import table

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


@functools.cache
def _base_forms() -> Mapping[str, str]:
    entries = map(str.split, table("stemming")["irregular"].split(","))
    return {form: base for base, *forms in entries for form in forms}


@forgettable
@functools.cache
def stemmer() -> Callable[[str], str]:
    """Return the function that gives the stem of a word in lower case. It may be called from any thread."""
    import Stemmer

    bases = _base_forms()
    local = threading.local()  # a stemmer keeps state while it works: one a thread

    @functools.lru_cache(maxsize=65_536)
    def stem(word: str) -> str:
        if not hasattr(local, "stemmer"):
            local.stemmer = Stemmer.Stemmer("english")
        stemmed: str = local.stemmer.stemWord(bases.get(word, word))
        return stemmed

    return stem
