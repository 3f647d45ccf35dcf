"""Contract of media readers: images, sound, video and files in, located text out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import attrs

from factmem.details import MediumPart
from factmem.validators import instance_of


@attrs.frozen
class Passage:
    """Text in a medium, or words for what it shows, with its place.

    Attributes:
        text: The text.
        part: Place of the text.
    """

    text: str = attrs.field(validator=instance_of(str), repr=False)
    part: MediumPart = attrs.field(validator=instance_of(MediumPart))


@runtime_checkable
class MediaReader(Protocol):
    """Describes images, transcribes sound, and reads files.

    The returned text is data from outside: nobody in the conversation said it.
    """

    def takes(self, mime: str) -> bool:
        """Return whether media of a type can be read."""
        ...

    async def read_medium(self, data: bytes, part: MediumPart) -> Sequence[Passage]:
        """Return the text of a medium in order, in passages with their places; no passages if there is no text.

        Args:
            data: The bytes, of a checked type.
            part: The whole medium: its hash and MIME type. Each passage adds its place.

        Raises:
            CapabilityError: The model takes no media of this type.
            ModelError: The model failed.
        """
        ...
