"""Words by which a user points to what is in an attached medium: "this is my ticket", "remember what it says"."""

from __future__ import annotations

import re
from typing import Final

from factmem.patterns import lazy_pattern

__all__ = ["points_to_media"]

_MEDIUM: Final = (
    r"(?:pictures?|photos?|images?|screenshots?|scans?|attachments?|attached|files?|documents?|pdfs?|recordings?"
    r"|audio|voice (?:memo|note|message)s?|videos?|clips?|below|above)"
)
_POINTING: Final = lazy_pattern(
    rf"""\b(?:
        (?:this|that|these|those|here|it)\ ?(?:is|are|'s|\ was|\ were)
            \ (?:a\ (?:picture|photo|scan|copy)\ of\ )?(?:my|our|mine|ours)\b
      | here\ (?:is|are|'s|comes?)\ (?:the|a)\b
      | (?:remember|save|keep|store|note|record|memori[sz]e|learn|file)\ (?:down\ )?(?:this|that|these|those|it|them
            |(?:what|everything|all|the\ \w+(?:\ \w+)?)\ (?:that\ |which\ )?(?:is|are|it|on|in|from|of|they|stands?)\b)
      | (?:my|our|the)\ [\w' ]{{1,60}}\ (?:is|are)\ (?:shown\ |listed\ |written\ )?(?:in|on)
            \ (?:the|this|that)\ (?:\w+\ )?{_MEDIUM}
      | attached\ (?:is|are|you(?:'ll|\ will)?\ find)\b
      | i(?:'ve|\ have)?\ (?:attached|uploaded|scanned|photographed|recorded)\b
      | (?:take|use|read|see)\ [\w' ]{{0,40}}(?:from|in|on)\ (?:the|this|that|my)\ (?:\w+\ )?{_MEDIUM}
    )""",
    re.IGNORECASE | re.VERBOSE,
)
_WITHDRAWN: Final = lazy_pattern(
    r"\?|\b(?:not|never|don't|doesn't|isn't|aren't|no need|forget|ignore|except|unless|if|whether|supposedly)\b",
    re.IGNORECASE,
)
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
