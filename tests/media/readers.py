"""A media reader whose answers are scripted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import attrs

from factmem.abc.media import Passage
from factmem.details import MediumPart

_TYPES: Final = ("image/png", "image/jpeg", "audio/wav", "application/pdf")


@attrs.define
class ScriptedReader:
    """Answers every medium with the same passages; see `factmem.abc.media.MediaReader`.

    Attributes:
        texts: Texts of the passages.
        parts: Fields of the place of each passage.
        failure: Error that is raised instead, if any.
        types: MIME types that it takes.
        asked: Types of the media that it was asked for.
    """

    texts: Sequence[str] = ()
    parts: Sequence[dict[str, Any]] = attrs.field(kw_only=True, factory=list)
    failure: Exception | None = attrs.field(kw_only=True, default=None)
    types: Sequence[str] = attrs.field(kw_only=True, default=_TYPES)
    asked: list[str] = attrs.field(init=False, factory=list)

    def takes(self, mime: str) -> bool:
        return mime in self.types

    async def read_medium(self, data: bytes, part: MediumPart) -> Sequence[Passage]:
        self.asked.append(part.mime)
        if self.failure is not None:
            raise self.failure
        places = [*self.parts, *({} for _ in self.texts)]
        return [
            Passage(text, attrs.evolve(part, **place))
            for text, place in zip(self.texts, places[: len(self.texts)], strict=True)
        ]
