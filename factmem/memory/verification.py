"""Verification: what is found, but not plainly said, is asked about before it is believed."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, assert_never

import attrs
from anyio import to_thread

from factmem.abc import Candidate, Verifier
from factmem.abc.detector import Conversation, DropReason, Message
from factmem.abc.observer import Operation
from factmem.abc.verifier import Claim, Confirmation
from factmem.details import Evidence, MessageKey, Origin
from factmem.detection.verifier import digest_of
from factmem.errors import BudgetSpentError, FactMemError
from factmem.facts import MultipleFacts, SingleFact
from factmem.fold import never_accepted, states_of
from factmem.memory.reader import ReadingPart, in_time
from factmem.observing import nested
from factmem.recall import RecallFilter
from factmem.recall.index.selection import LogPart
from factmem.records import Assertion, AssertionState, LogEntry, Recorded
from factmem.subjects import MemorySubject
from factmem.values import canonical_bytes, encode_value, value_text

_log = logging.getLogger("factmem")

_AROUND: Final = 300
"""Number of characters that a verifier is shown before and after a quote."""
_MOST_ANSWERS: Final = 4_096
"""Maximum number of a verifier's answers that a memory holds."""


class Verification(ReadingPart):
    """Asks a verifier about doubted values, unless somebody has decided about them before."""

    async def verified(
        self,
        doubted: Sequence[Candidate],
        asserted: Callable[[Candidate], Sequence[Assertion]],
        conversation: Conversation,
        current: Iterable[Assertion],
    ) -> tuple[list[Candidate], Counter[DropReason]]:
        """Return what is left of doubted values, without their doubt if they are believed, and counts of the others.

        A value that somebody refused in the inbox is not asked about again, nor is one that they accepted, as long as
        it is current. The others are asked together. Without a verifier, if it fails, or once the budget is spent, they
        wait.

        Args:
            doubted: Candidates with a doubt; see `is_doubted`.
            asserted: Returns the assertions of a candidate.
            conversation: The words that they were found in.
            current: The current assertions of their scope.
        """
        dropped: Counter[DropReason] = Counter()
        left: list[Candidate] = []
        asked: list[Candidate] = []
        single = [value for candidate in doubted for value in _one_by_one(candidate)]
        doubts = [(value, said) for value in single for said in asserted(value)]
        decided = await self._decisions([said for _, said in doubts])
        holding = await to_thread.run_sync(lambda: set(map(_value_of, current))) if decided else set()
        for item, said in doubts:
            match decided.get(_value_of(said)):
                case None:
                    asked.append(item)
                case AssertionState.QUARANTINED:
                    dropped[DropReason.WAITING_ALREADY] += 1
                case AssertionState.RETRACTED:
                    dropped[DropReason.REFUSED_BEFORE] += 1
                case _ if _value_of(said) in holding:
                    left.append(attrs.evolve(item, doubt=None))
                case _:
                    asked.append(item)
        askable = [item for item in asked if item.doubt is not None and item.doubt.askable]
        left += [item for item in asked if item not in askable]
        messages = _by_key(conversation)
        answers = await self._answers([_claim_of(item, messages) for item in askable])
        for candidate, answer in zip(askable, answers, strict=True):
            match answer:
                case Confirmation.YES:
                    left.append(attrs.evolve(candidate, doubt=None))
                case Confirmation.NO:
                    dropped[DropReason.NOT_CONFIRMED] += 1
                case Confirmation.UNCLEAR:
                    left.append(candidate)
                case _:
                    assert_never(answer)
        return left, dropped

    async def _decisions(self, doubted: Sequence[Assertion]) -> dict[tuple[object, ...], AssertionState]:
        """Return what was decided before about values of the concepts and places of some assertions."""
        if not doubted:
            return {}
        alike = RecallFilter(keywords={it.keyword for it in doubted}, places={it.place.key for it in doubted})
        log = await self._reader.everybody.log(LogPart(apart=True, kept=alike))
        return await in_time(lambda: _decisions_in(log), len(log))

    async def _answers(self, claims: Sequence[Claim]) -> list[Confirmation]:
        """Return the answers to claims: those known already, and those of one question about the others."""
        unclear, known, verifier = Confirmation.UNCLEAR, self._backend.confirmations, self._backend.verifier
        keys = [(self._context.viewer, digest_of(claim)) for claim in claims]
        new = {key: claim for key, claim in zip(keys, claims, strict=True) if key not in known}
        if new and verifier is not None:
            found = await self._asked(verifier, list(new.values()))
            known.update(zip(new, found, strict=False))
            while len(known) > _MOST_ANSWERS:
                known.pop(next(iter(known)))
        return [known.get(key, unclear) for key in keys]

    async def _asked(self, verifier: Verifier, claims: Sequence[Claim]) -> Sequence[Confirmation]:
        """Return a verifier's answers; none if it fails."""
        try:
            self._backend.worker.spent.check()
            with nested(Operation.VERIFY, records_in=len(claims)) as call:
                answers = await verifier.verify(claims)
                call.record_result(len(answers))
        except BudgetSpentError:
            return ()
        except Exception as error:  # a custom verifier may raise any error
            kind = error if isinstance(error, FactMemError) else type(error).__name__
            _log.warning("%d finding(s) could not be verified, and wait in quarantine: %s", len(claims), kind)
            return ()
        right = len(answers) == len(claims) and all(isinstance(item, Confirmation) for item in answers)
        return answers if right else ()


def is_doubted(candidate: Candidate) -> bool:
    """Return whether a candidate would be believed but for its doubt: no answer lifts another quarantine."""
    return candidate.doubt is not None and not candidate.quarantined and candidate.details.origin.trusted


def _one_by_one(candidate: Candidate) -> Iterator[Candidate]:
    """Yield a candidate for each of its values, which are doubted one by one."""
    match candidate.fact:
        case SingleFact():
            yield candidate
        case MultipleFacts() as fact:
            for value in fact.values:
                yield attrs.evolve(candidate, fact=attrs.evolve(fact, values=(value,)))


def _decisions_in(log: Sequence[LogEntry]) -> dict[tuple[object, ...], AssertionState]:
    """Return the state of the newest assertion of each value that waited in quarantine before."""
    states, apart = states_of(log), never_accepted(log)
    decided: dict[tuple[object, ...], AssertionState] = {}
    for entry in log:
        if not isinstance(entry, Recorded) or entry.id not in states:
            continue
        said, state = entry.assertion, states[entry.id]
        waited = said.state is AssertionState.QUARANTINED and said.details.origin is Origin.USER
        if waited and (state is not AssertionState.RETRACTED or entry.id in apart):
            decided[_value_of(said)] = state
    return decided


class _Heard(NamedTuple):
    """A message, and the text of the one before it, if that may be believed."""

    message: Message
    before: str


def _by_key(conversation: Conversation) -> Mapping[MessageKey, _Heard]:
    found: dict[MessageKey, _Heard] = {}
    before = ""
    for message in conversation.messages:
        found.setdefault((conversation.id, message.id), _Heard(message, before))
        before = message.content if message.origin.trusted else ""
    return found


def _claim_of(candidate: Candidate, messages: Mapping[MessageKey, _Heard]) -> Claim:
    """Return the claim of a candidate with one value."""
    concept, (value,) = candidate.fact.concept, candidate.fact.values
    evidence = candidate.details.evidence[0]
    heard = messages.get(evidence.message)
    return Claim(
        passage=_passage(heard.message.content, evidence) if heard else evidence.quote,
        answered=heard.before[-_AROUND:] if heard else "",
        speaker=evidence.speaker or evidence.role or "user",
        said_at=candidate.fact.timestamp,
        about=_name_of(candidate.subject),
        concept="" if concept.is_statement else concept.description or concept.keyword,
        value=value_text(encode_value(value, concept.value_type)),
        removal=candidate.removed,
        ended=candidate.ended,
    )


def _name_of(subject: MemorySubject | None) -> str:
    """Return the name of a subject with its description; individuals may share the description."""
    if subject in (None, MemorySubject.EVERYTHING):
        return ""
    return f"{subject}: {subject.prompt_description}" if subject.prompt_description else str(subject)


def _passage(text: str, evidence: Evidence) -> str:
    """Return the words around a quote, from one blank to another; a short text as a whole."""
    start = text.find(evidence.quote) if evidence.start is None else evidence.start
    end = max(start, 0) + len(evidence.quote) if evidence.end is None else evidence.end
    first, last = max(start - _AROUND, 0), end + _AROUND
    before = text[first:start] if first == 0 else text[first:start].partition(" ")[2]
    after = text[end:last] if last >= len(text) else text[end:last].rpartition(" ")[0]
    return f"{before}{text[max(start, 0) : end]}{after}"


def _value_of(said: Assertion) -> tuple[object, ...]:
    return (*said.track, canonical_bytes(said.data), said.removed)
