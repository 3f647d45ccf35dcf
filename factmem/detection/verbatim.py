"""The detector without a model: it keeps what was said."""

from __future__ import annotations

import datetime as dt
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

import anyio.to_thread
import attrs

from factmem.abc import Candidate, Detection, DetectionRequest, system_clock
from factmem.abc.clock import Clock
from factmem.abc.detector import Conversation, DropReason
from factmem.abc.topics import EXPLICIT_INSTRUCTIONS
from factmem.details import FactDetails, Origin, Treatment
from factmem.detection.redaction import redact_conversation
from factmem.detection.standing_instructions import instructions_in
from factmem.detection.statements import statement_spans
from factmem.detection.utterances import CLOCK_STEP, Utterance, utterances
from factmem.facts import STATEMENT
from factmem.validators import changed, whole

LONGEST_STATEMENT: Final = 100_000
"""Maximum length of a statement, in characters. As JSON it stays below `factmem.values.MAX_VALUE_BYTES`."""

_NOTHING_GIVEN: Final = FactDetails()


class Quoted(NamedTuple):
    """A statement in its own words: the quote of its only evidence.

    Attributes:
        details: Its details.
        timestamp: Time when it was said, in UTC.
    """

    details: FactDetails
    timestamp: dt.datetime

    def candidate(self) -> Candidate:
        """Return it as a candidate for consolidation."""
        fact = STATEMENT.fact([self.details.evidence[0].quote], timestamp=self.timestamp)
        return Candidate(fact=fact, details=self.details)


@attrs.frozen(kw_only=True)
class VerbatimDetector:
    """A `Detector` that keeps what was said, statement by statement, each with its speaker.

    A message is one `STATEMENT`; one longer than ``max_chars`` is several, split at its paragraphs and sentences.
    Secrets are redacted; a message of secrets alone is dropped, and counted.

    Words of tools, documents and unknown roles become candidates of an untrusted origin. System messages, texts that
    memory itself put into the prompt, and messages with the treatment CONTEXT or IGNORE give no candidates. A standing
    instruction of the user gets the topic `EXPLICIT_INSTRUCTIONS`.

    Attributes:
        max_chars: approximate maximum length of a statement, from 1 to `LONGEST_STATEMENT`. Whole messages are
            recalled better than their pieces.
        clock: gives the time of conversations without times.

    Raises:
        InvalidDataError: ``max_chars`` is out of range.

    Example:
        >>> detector = VerbatimDetector()
        >>> found = await detector.detect(conversation, DetectionRequest())
    """

    max_chars: int = attrs.field(default=10_000, validator=whole(1, LONGEST_STATEMENT))
    clock: Clock = attrs.field(default=system_clock, repr=False)

    async def detect(self, conversation: Conversation, request: DetectionRequest) -> Detection:
        """See `Detector.detect`. The same conversation gives the same candidates, if it has times."""
        # A long conversation would block the event loop.
        ((found, dropped),) = await anyio.to_thread.run_sync(self.read, [conversation])
        return Detection(candidates=[quoted.candidate() for quoted in found], dropped=dropped)

    def read(
        self, conversations: Sequence[Conversation], given: FactDetails = _NOTHING_GIVEN
    ) -> list[tuple[list[Quoted], Mapping[DropReason, int]]]:
        """Return the statements of each conversation, and the number of messages that were dropped, by reason.

        What a conversation without times says is later than what those before it do.
        A long conversation takes time: call it in a worker thread.

        Args:
            conversations: The conversations.
            given: Details that the statements get besides their evidence, origin and topics.
        """
        now, upto = self.clock(), list(itertools.accumulate(len(it.messages) for it in conversations))
        ends = [now - (upto[-1] - count) * CLOCK_STEP for count in upto]
        spoken = map(utterances, conversations, ends)
        kept = ([it for it in said if it.treatment not in _DROPPED] for said in spoken)
        found = [[quoted for it in said for quoted in quoted_in(it, self.max_chars, given)] for said in kept]
        return list(zip(found, map(_secrets_in, conversations, found), strict=True))


def _secrets_in(conversation: Conversation, found: Sequence[Quoted]) -> Mapping[DropReason, int]:
    """Return the number of messages without a statement that are nothing but secrets."""
    kept, messages = {quoted.details.evidence[0].position for quoted in found}, conversation.messages
    lost = [at for at, it in enumerate(messages) if at not in kept and it.detectable and it.treatment not in _DROPPED]
    clean = redact_conversation(conversation).messages if lost else ()
    secrets = sum([messages[at].content != clean[at].content for at in lost])
    return {DropReason.ONLY_SECRETS: secrets} if secrets else {}


_DROPPED: Final = (Treatment.CONTEXT, Treatment.IGNORE)


def quoted_in(utterance: Utterance, max_chars: int, given: FactDetails = _NOTHING_GIVEN) -> Iterator[Quoted]:
    """Yield the statements of one message, each of about ``max_chars`` characters at most."""
    of_user = utterance.origin is Origin.USER  # a piece of a message does not show whose words it holds
    instructions = instructions_in(utterance.text) if of_user else ()
    for start, end in statement_spans(utterance.text, max_chars):
        evidence = utterance.cite(start, end)
        instructs = any(start < last and first < end for first, last in instructions)
        topics = (EXPLICIT_INSTRUCTIONS.label,) if instructs else given.topics
        details = changed(given, evidence=(evidence,), origin=utterance.origin, topics=topics)
        yield Quoted(details, utterance.timestamp)
