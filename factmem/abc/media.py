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
        part: Where it stands.
    """

    text: str = attrs.field(validator=instance_of(str), repr=False)
    part: MediumPart = attrs.field(validator=instance_of(MediumPart))


@runtime_checkable
class MediaReader(Protocol):
    """Describes images, transcribes sound, and reads files.

    What it returns is data from outside: nobody in the conversation said it.
    """

    def takes(self, mime: str) -> bool:
        """Return whether media of a type can be read."""
        ...

    async def read_medium(self, data: bytes, part: MediumPart) -> Sequence[Passage]:
        """Return the text of a medium in its order, in passages with their places; none if it holds no text.

        Args:
            data: The bytes, whose type is checked.
            part: The whole medium: its hash and MIME type. Passages complete it by their place.

        Raises:
            CapabilityError: The model takes no media of this type.
            ModelError: The model failed.
        """
        ...
