"""What turns conversations into candidate facts: reading, redacting, and the detectors with and without a model."""

from __future__ import annotations

from factmem.details import Treatment
from factmem.detection.conversations import ConversationFile, conversations_in, count_not_text, read_conversations
from factmem.detection.flags import flags_in
from factmem.detection.model_analyst import InstructorAnalyst
from factmem.detection.model_detector import InstructorDetector
from factmem.detection.origins import OriginPolicy
from factmem.detection.question_analyst import InstructorQuestionAnalyst
from factmem.detection.redaction import Finding, Redacted, redact, redact_conversation
from factmem.detection.topics import instructions_in, overtakes
from factmem.detection.utterances import Utterance, covers, utterances
from factmem.detection.verbatim import VerbatimDetector

__all__ = [
    "ConversationFile",
    "Finding",
    "InstructorAnalyst",
    "InstructorDetector",
    "InstructorQuestionAnalyst",
    "OriginPolicy",
    "Redacted",
    "Treatment",
    "Utterance",
    "VerbatimDetector",
    "conversations_in",
    "count_not_text",
    "covers",
    "flags_in",
    "instructions_in",
    "overtakes",
    "read_conversations",
    "redact",
    "redact_conversation",
    "utterances",
]
