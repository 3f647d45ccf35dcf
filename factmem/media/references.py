"""Words by which a user points to what is in an attached medium: "this is my ticket", "remember what it says"."""

from __future__ import annotations

import re
from typing import Final

from factmem.patterns import lazy_pattern
from factmem.toml_tables import filled, table

_DATA: Final = table("media/references")
_POINTING: Final = lazy_pattern(rf"\b(?:{filled('|'.join(_DATA['pointing']), _DATA['parts'])})", re.IGNORECASE)
_WITHDRAWN: Final = lazy_pattern(_DATA["withdrawn"], re.IGNORECASE)
_SENTENCE: Final = lazy_pattern(r"[^.!?\n]+[.!?\n]?")


def points_to_media(text: str) -> bool:
    """Return whether a user's words vouch for what is in the media beside them.

    A question, a denial or a condition points to nothing: "What is this?", "This is not my ticket". Words in another
    language than English are not recognized; there, `Medium.vouched` says it.

    Args:
        text: The user's words in the message of the media.
    """
    sentences = (found.group() for found in _SENTENCE.finditer(text.replace("’", "'")))
    return any(_POINTING.search(sentence) and not _WITHDRAWN.search(sentence) for sentence in sentences)
