"""Detection: from conversations to candidate facts, with or without a language model.

- `InstructorDetector`, `VerbatimDetector`: the detectors.
- `InstructorAnalyst`, `InstructorQuestionAnalyst`: analysis of texts and of questions.
- `OriginPolicy`: treatment of messages by their origin.
- `redact`, `flags_in`, `instructions_in`: secrets, suspicious wordings, standing instructions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from factmem.details import Treatment
from factmem.detection.flags import flags_in
from factmem.detection.origins import OriginPolicy
from factmem.detection.redaction import Redacted, RedactedSecret, redact, redact_conversation
from factmem.detection.standing_instructions import instructions_in, overtakes
from factmem.detection.utterances import Utterance, covers, utterances
from factmem.detection.verbatim import VerbatimDetector
from factmem.lazy_names import lazy_names

if TYPE_CHECKING:
    from factmem.detection.model_analyst import InstructorAnalyst
    from factmem.detection.model_detector import InstructorDetector
    from factmem.detection.question_analyst import InstructorQuestionAnalyst
    from factmem.detection.verifier import ModelVerifier

__all__ = [
    "InstructorAnalyst",
    "InstructorDetector",
    "InstructorQuestionAnalyst",
    "ModelVerifier",
    "OriginPolicy",
    "Redacted",
    "RedactedSecret",
    "Treatment",
    "Utterance",
    "VerbatimDetector",
    "covers",
    "flags_in",
    "instructions_in",
    "overtakes",
    "redact",
    "redact_conversation",
    "utterances",
]

_HOMES = {
    "model_analyst": ("InstructorAnalyst",),
    "model_detector": ("InstructorDetector",),
    "question_analyst": ("InstructorQuestionAnalyst",),
    "verifier": ("ModelVerifier",),
}
if not TYPE_CHECKING:  # a type checker that sees it takes any name for one of the package
    __getattr__ = lazy_names(__name__, _HOMES)
