"""Contract of verifiers: whether a speaker states what a detector has found in their words."""

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
    """A finding as a statement, beside the words that it was found in.

    A claim is independent of the detector's own reasons: it holds neither its quote nor what it was doubted for.

    Attributes:
        passage: Words of one speaker around the finding.
        answered: End of the message that they answer; empty if there is none.
        speaker: Name or role of the speaker.
        said_at: Time when the words were said, in UTC.
        about: Name of the subject, and its description if it has one; empty if the finding names none.
        concept: Description of the concept; empty for a free statement.
        value: Value as text; of a removal, what is to be forgotten.
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

        Only findings of a trusted origin are asked about, so that no answer makes an untrusted one believed. A finding
        that is not confirmed is dropped; one that is unclear waits in quarantine, as do all if this raises.

        Raises:
            ModelError: The model failed.
        """
        ...
