"""What a detector makes of words, by whose they are."""

from __future__ import annotations

import enum
from collections.abc import Iterable

import attrs

from factmem.details import Origin

__all__ = ["OriginPolicy", "Treatment"]


class Treatment(enum.Enum):
    """What a detector makes of the words of one origin."""

    FACTS = "the model reads them with the conversation and takes facts from them, which are believed"
    QUARANTINED_FACTS = "the model reads them in a question of their own; what it finds is quarantined"
    STATEMENTS = "they are kept as they were said"
    IGNORE = "they are neither kept nor shown to the model"


def _origins(origins: Iterable[Origin]) -> frozenset[Origin]:
    return frozenset(origins)


@attrs.frozen(kw_only=True)
class OriginPolicy:
    """What a detector makes of words, by whose they are.

    By default the user's words give facts, the assistant's are shown to the model so that it understands the
    user's, and are kept as statements; a tool's, a document's and those of unknown roles are kept as statements
    too and never reach the model, so that a poisoned one cannot sway what is read from the user's words.
    Whatever is found keeps its origin.

    Attributes:
        user: of what the user said.
        assistant: of what the assistant said.
        tool: of what a tool answered.
        document: of what stands in a document.
        unknown: of all else.
        context: whose words the model is shown besides those it takes facts from, unless they are ignored.
    """

    user: Treatment = Treatment.FACTS
    assistant: Treatment = Treatment.STATEMENTS
    tool: Treatment = Treatment.STATEMENTS
    document: Treatment = Treatment.STATEMENTS
    unknown: Treatment = Treatment.STATEMENTS
    context: frozenset[Origin] = attrs.field(default=frozenset({Origin.USER, Origin.ASSISTANT}), converter=_origins)

    def of(self, origin: Origin) -> Treatment:
        """Return the treatment of an origin's words."""
        match origin:
            case Origin.USER:
                return self.user
            case Origin.ASSISTANT:
                return self.assistant
            case Origin.TOOL:
                return self.tool
            case Origin.DOCUMENT:
                return self.document
            case Origin.UNKNOWN:
                return self.unknown

    def shows(self, origin: Origin) -> bool:
        """Whether the model is shown an origin's words when it reads the conversation."""
        treatment = self.of(origin)
        return treatment is Treatment.FACTS or (treatment is Treatment.STATEMENTS and origin in self.context)
