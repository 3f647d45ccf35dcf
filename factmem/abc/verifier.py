"""Contract of verifiers: check that a speaker states the findings of a detector."""

from __future__ import annotations

import datetime as dt
import enum
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

import attrs


class Confirmation(enum.Enum):
    """Answer of a verifier to one claim."""

    YES = "yes"
    NO = "no"
    UNCLEAR = "unclear"


@attrs.frozen(kw_only=True)
class Claim:
    """A finding as a statement, with the words around it.

    A claim is independent of the detector's reasons: it holds neither the quote nor the doubt.

    Attributes:
        passage: Words of one speaker around the finding.
        answered: End of the message that the words answer; empty if there is none.
        speaker: Name or role of the speaker.
        said_at: Time when the words were said, in UTC.
        about: Name of the subject, and its description if it has one; empty if the finding names none.
        concept: Description of the concept; empty for a free statement.
        value: Value as text; for a removal, the value to forget.
        removal: Whether the speaker is found to ask for the value to be forgotten.
        ended: Whether the speaker is found to say that the value was true and is no longer.
    """

    passage: str = attrs.field(repr=False)
    answered: str = attrs.field(default="", repr=False)
    speaker: str = "user"
    said_at: dt.datetime
    about: str = ""
    concept: str = ""
    value: str = attrs.field(repr=False)
    removal: bool = False
    ended: bool = False


@runtime_checkable
class Verifier(Protocol):
    """Answers whether the speaker states each claim, seriously, in their own name and as true now."""

    async def verify(self, claims: Sequence[Claim]) -> Sequence[Confirmation]:
        """Return an answer to each claim, in order; may be called concurrently.

        Only findings of a trusted origin are verified, so an answer never makes an untrusted finding believed. A denied
        finding is dropped. An unclear finding waits in quarantine; if this raises, all findings wait.

        Raises:
            ModelError: The model failed.
        """
        ...
