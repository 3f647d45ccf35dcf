"""Topics of memories: the managed ones, with their descriptions and examples, and the form of others."""

from __future__ import annotations

from typing import Final

import attrs

from factmem.validators import named


@attrs.frozen
class Topic:
    """A topic of memories.

    Attributes:
        label: Name, unique in a request; becomes the topic of the facts found.
        description: Description of the topic, for the model.
        examples: Pairs of a user's words on Friday, 31 May 2024, and the resulting memory, for the model.

    Raises:
        InvalidNameError: The label is not a legal name.
    """

    label: str = attrs.field(validator=named("a topic's label"))
    description: str = ""
    examples: tuple[tuple[str, str], ...] = attrs.field(default=(), kw_only=True, repr=False)


PERSONAL_INFORMATION: Final = Topic(
    "personal information",
    "who the user is: name, family, home, work, health, birthdays, relationships",
    examples=(("My sister Ana is a nurse in Faro.", "The user's sister Ana is a nurse in Faro."),),
)
PREFERENCES: Final = Topic(
    "preferences",
    "what the user likes, dislikes, prefers, and how they want things done",
    examples=(("I prefer trains to planes.", "The user prefers trains to planes."),),
)
KEY_CONVERSATION_DETAILS: Final = Topic(
    "key conversation details",
    "decisions, plans, results and dates that later conversations build on",
    examples=(("We open the shop on Monday.", "The user opens the shop on 3 June 2024."),),
)
EXPLICIT_INSTRUCTIONS: Final = Topic(
    "explicit instructions",
    "requests of the user to remember or to forget something, and wishes for every later conversation"
    " (always, never, from now on, when I ask about ...)",
)
MANAGED_TOPICS: Final = (PERSONAL_INFORMATION, PREFERENCES, KEY_CONVERSATION_DETAILS, EXPLICIT_INSTRUCTIONS)
"""`PERSONAL_INFORMATION`, `PREFERENCES`, `KEY_CONVERSATION_DETAILS` and `EXPLICIT_INSTRUCTIONS`.

Each topic has a description and examples. The examples of `EXPLICIT_INSTRUCTIONS` are in `factmem.detection.prompts`,
because its answers have another form.
"""
