"""Treatment of messages by their origin.

The policy chooses among the members of `factmem.details.Treatment`; a further treatment begins there.
"""

from __future__ import annotations

import attrs

from factmem.abc.detector import Message
from factmem.details import Origin, Treatment
from factmem.detection.utterances import Utterance
from factmem.validators import instance_of

_TREATMENT = instance_of(Treatment)


@attrs.frozen(kw_only=True)
class OriginPolicy:
    """Treatment of the words of each origin.

    By default a model reads the user's words for facts, and sees the assistant's as context. The words of tools,
    documents and unknown roles are kept as statements, in quarantine, and no model sees them, so that a poisoned one
    cannot influence how the user's words are read. Candidates keep their origin.

    The treatment of a message takes precedence over that of its origin. See `factmem.Message`.

    Attributes:
        user: treatment of the user's words.
        assistant: treatment of the assistant's words.
        tool: treatment of a tool's results.
        document: treatment of documents.
        unknown: treatment of words of any other role.
        context: origins whose statements are shown to the model as well.

    Raises:
        InvalidDataError: a treatment is not a `Treatment`.

    Example:
        >>> OriginPolicy(assistant=Treatment.STATEMENTS)
    """

    user: Treatment = attrs.field(default=Treatment.FACTS, validator=_TREATMENT)
    assistant: Treatment = attrs.field(default=Treatment.CONTEXT, validator=_TREATMENT)
    tool: Treatment = attrs.field(default=Treatment.STATEMENTS, validator=_TREATMENT)
    document: Treatment = attrs.field(default=Treatment.STATEMENTS, validator=_TREATMENT)
    unknown: Treatment = attrs.field(default=Treatment.STATEMENTS, validator=_TREATMENT)
    context: frozenset[Origin] = attrs.field(default=frozenset({Origin.USER, Origin.ASSISTANT}), converter=frozenset)

    def of(self, origin: Origin) -> Treatment:
        """Return the treatment of an origin's words."""
        treatment: Treatment = getattr(self, origin.value)
        return treatment

    def treatment(self, message: Message | Utterance) -> Treatment:
        """Return the treatment of a message: its own, or that of its origin."""
        return message.treatment or self.of(message.origin)

    def shows(self, treatment: Treatment, origin: Origin) -> bool:
        """Return whether a model is shown words of an origin in the conversation that it reads."""
        return treatment in (Treatment.FACTS, Treatment.CONTEXT) or (
            treatment is Treatment.STATEMENTS and origin in self.context
        )
