"""Detection: from conversations to candidate facts, with or without a language model.

- `InstructorDetector`, `VerbatimDetector`: the detectors.
- `InstructorAnalyst`, `InstructorQuestionAnalyst`: analysis of texts and of questions.
- `OriginPolicy`: treatment of messages by their origin.
- `read_conversations`: conversations from files.
- `redact`, `flags_in`, `instructions_in`: secrets, suspicious wordings, standing instructions.
- `media_in`, `points_to_media`, `pdf_pages`: media in messages, words that vouch for them, text of PDF files.
- `repetitions`: what the assistant repeats of words that nobody vouches for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from factmem.details import Treatment
from factmem.detection.conversations import (
    ConversationFile,
    conversations_in,
    conversations_of,
    read_conversations,
)
from factmem.detection.flags import flags_in
from factmem.detection.media_parts import MediaParts, media_in, media_of
from factmem.detection.origins import OriginPolicy
from factmem.detection.pdf_text import PdfError, pdf_pages, reads_pdf
from factmem.detection.pointing import points_to_media
from factmem.detection.redaction import Redacted, RedactedSecret, redact, redact_conversation
from factmem.detection.standing_instructions import instructions_in, overtakes
from factmem.detection.taint import REPEATS, Heard, Listener, repetitions
from factmem.detection.utterances import Utterance, covers, utterances
from factmem.detection.verbatim import VerbatimDetector
from factmem.lazy_names import lazy_names

if TYPE_CHECKING:
    from factmem.detection.model_analyst import InstructorAnalyst
    from factmem.detection.model_detector import InstructorDetector
    from factmem.detection.question_analyst import InstructorQuestionAnalyst
    from factmem.detection.verifier import ModelVerifier

__all__ = [
    "REPEATS",
    "ConversationFile",
    "Heard",
    "InstructorAnalyst",
    "InstructorDetector",
    "InstructorQuestionAnalyst",
    "Listener",
    "MediaParts",
    "ModelVerifier",
    "OriginPolicy",
    "PdfError",
    "Redacted",
    "RedactedSecret",
    "Treatment",
    "Utterance",
    "VerbatimDetector",
    "conversations_in",
    "conversations_of",
    "covers",
    "flags_in",
    "instructions_in",
    "media_in",
    "media_of",
    "overtakes",
    "pdf_pages",
    "points_to_media",
    "read_conversations",
    "reads_pdf",
    "redact",
    "redact_conversation",
    "repetitions",
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
