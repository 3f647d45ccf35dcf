"""Detection: from conversations to candidate facts, with or without a language model.

- `InstructorDetector`, `VerbatimDetector`: the detectors.
- `InstructorAnalyst`, `InstructorQuestionAnalyst`: analysis of texts and of questions.
- `OriginPolicy`: treatment of messages by their origin.
- `redact`, `flags_in`, `instructions_in`: secrets, suspicious wordings, standing instructions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from factmem.details import Treatment
from factmem.detection.origins import OriginPolicy
from factmem.detection.utterances import utterances
from factmem.lazy_names import lazy_names

if TYPE_CHECKING:
    from factmem.detection.model_detector import InstructorDetector

__all__ = ["InstructorDetector", "OriginPolicy", "Treatment", "utterances"]

_HOMES = {"model_detector": ("InstructorDetector",)}
if not TYPE_CHECKING:  # a type checker that sees it takes any name for one of the package
    __getattr__ = lazy_names(__name__, _HOMES)
