"""Parts of messages that hold no text: images, audio, files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

__all__ = ["count_not_text"]

_NO_CONTENT: Final = re.compile(r"tool|function|thinking|reasoning|refusal|text")
"""The types of parts that are no media: calls of tools and their results, what a model thought, and text."""


def count_not_text(parts: Iterable[object]) -> int:
    """Return the number of images, audio, files and the like among a message's parts.

    Args:
        parts: The content of a message as the APIs of models write it: texts, and mappings with a ``type``.
    """
    return sum(isinstance(part, Mapping) and _is_media(part) for part in parts)


def _is_media(part: Mapping[object, object]) -> bool:
    kind = part.get("type")
    if isinstance(part.get("text"), str):
        return False
    return not isinstance(kind, str) or _NO_CONTENT.search(kind) is None
