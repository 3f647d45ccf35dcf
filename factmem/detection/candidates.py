"""Candidates from a model's extractions: each with evidence, of its exact type, once."""

from __future__ import annotations

import collections
import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias, assert_never

import attrs

from factmem.abc import Candidate, Detection
from factmem.abc.detector import Doubt, DropReason
from factmem.abc.topics import EXPLICIT_INSTRUCTIONS
from factmem.details import Evidence, FactDetails, Origin
from factmem.detection.evidence import doubt_of, doubt_of_request, is_said, speaks_of_forgetting
from factmem.detection.extractions import Described, Extraction, Forgotten, Sentence, Targeted, says_nothing
from factmem.detection.plain_statements import Citation
from factmem.detection.quotes import QuotedWords
from factmem.detection.redaction import redact
from factmem.detection.tasks import DetectionTask, Vocabulary
from factmem.detection.utterances import Utterance
from factmem.detection.windows import Excerpt, Window
from factmem.detection.words import is_same_name, words_of
from factmem.errors import InvalidDataError
from factmem.facts import STATEMENT, Concept
from factmem.shapes import bare_type
from factmem.subjects import MemorySubject
from factmem.values import Json, canonical_bytes, check_value, decode_value, encode_value, texts_in


class _DroppedError(Exception):
    """Raised to drop an extraction, with the reason."""

    def __init__(self, reason: DropReason) -> None:
        super().__init__(reason.value)
        self.reason = reason


_Drops: TypeAlias = collections.Counter[DropReason]


def checked(
    task: DetectionTask, answered: Iterable[tuple[Window, Iterable[Extraction]]], *, quarantined: bool
) -> Detection:
    """Return the candidates among extractions, and counts of the dropped ones.

    Args:
        task: the task of the model.
        answered: pairs of a window and its extractions, in the order of the conversation.
        quarantined: whether the candidates are not to be believed.
    """
    vocabulary, dropped = Vocabulary.of(task.known), _Drops()
    candidates: list[Candidate] = []
    for window, findings in answered:
        check, room = _Check(task, vocabulary, window, dropped, quarantined), _Room.of(window)
        for finding in findings:
            try:
                room.take(finding)
                candidates += check.candidates(finding)
            except _DroppedError as drop:
                dropped[drop.reason] += 1
    return Detection(candidates=candidates, dropped=dict(+dropped))


_FINDINGS: Final = 32
_BYTES_PER_FINDING: Final = 4
_CHARS: Final = 4_000
_CHARS_PER_BYTE: Final = 8
_SHARE_AGAIN: Final = 16
"""A quote that was read before takes this part of its length."""


@attrs.define
class _Room:
    """Room for the findings of a window: no more than its text can give, so that no answer takes long to check.

    Attributes:
        findings: number of values that are still read.
        chars: length of quotes and values that are still read.
    """

    findings: int
    chars: int
    _quotes: set[str] = attrs.field(factory=set, init=False)

    @classmethod
    def of(cls, window: Window) -> _Room:
        """Return the room of a window: for a value in four bytes, and eight times its text."""
        size = sum(len(excerpt.words.text.encode()) for excerpt in window.excerpts)
        return cls(_FINDINGS + size // _BYTES_PER_FINDING, _CHARS + _CHARS_PER_BYTE * size)

    def take(self, finding: Extraction) -> None:
        """Take the room of a finding, which is dropped if there is not enough."""
        said = finding.said
        found = said.values if isinstance(said, Targeted) else attrs.astuple(said, recurse=False)
        count = len(found) if isinstance(said, Targeted) else 1
        size = len(repr(found)) + len(finding.quote) // (_SHARE_AGAIN if finding.quote in self._quotes else 1)
        if count > self.findings or size > self.chars:
            raise _DroppedError(DropReason.TOO_MANY)
        self.findings -= max(1, count)
        self.chars -= size
        self._quotes.add(finding.quote)


@attrs.frozen
class _Meaning:
    """Meaning of an extraction: values of a concept, whether they stand, and the concept that is cleared.

    Attributes:
        concept: the concept.
        values: the values, by the doubt about them.
        removed: whether the values are to be forgotten.
        ended: whether the values are true no longer.
        cleared: the concept whose every value is meant, or every one that the words name.
    """

    concept: Concept[Any, Any]
    values: Mapping[Doubt | None, Sequence[Any]]
    removed: bool = False
    ended: bool = False
    cleared: Concept[Any, Any] | None = None


@attrs.frozen
class _Check:
    """Checks of the extractions of one window."""

    task: DetectionTask
    vocabulary: Vocabulary
    window: Window
    dropped: _Drops
    quarantined: bool
    _cited: dict[tuple[int, int, int, str], Citation] = attrs.field(factory=dict, init=False)
    _found: dict[tuple[str, int | None], list[tuple[Excerpt, list[Evidence]]]] = attrs.field(factory=dict, init=False)

    def candidates(self, finding: Extraction) -> list[Candidate]:
        """Return the candidates of an extraction: what its quote says plainly, and, with a doubt, what it does not.

        There is none if it belongs to the window before, or has no value left.
        """
        excerpt, places = self._located(finding)
        if excerpt.carried:
            return []
        said = excerpt.utterance
        instructs = isinstance(finding.said, Forgotten) or getattr(finding.said, "instruction", False)
        if said.origin is not Origin.USER and instructs:
            raise _DroppedError(DropReason.NOT_THE_USERS_WORDS)
        labels = self._labels(finding, said)
        topics = self._topics(finding.said) if isinstance(finding.said, Sentence) else ()
        label, meaning, evidence = self._best_meaning(finding, labels, excerpt, places)
        return [
            Candidate(
                fact=meaning.concept.fact(values, timestamp=said.timestamp),
                details=FactDetails(evidence=(evidence,), origin=said.origin, topics=topics),
                subject=self.task.subjects[label],
                removed=meaning.removed,
                ended=meaning.ended,
                cleared=meaning.cleared,
                quarantined=self.quarantined,
                doubt=doubt,
            )
            for doubt, values in meaning.values.items()
        ]

    def _located(self, finding: Extraction) -> tuple[Excerpt, list[Evidence]]:
        """Return the words that an extraction quotes: in the message that it cites, or in the only one that holds them.

        Findings with one quote share them.
        """
        key = finding.quote, finding.message
        if (quoted := self._found.get(key)) is None:
            quoted = self._found[key] = _quoted(self.window, *key)
        if len(quoted) != 1:
            raise _DroppedError(DropReason.QUOTE_NOT_FOUND)
        if not quoted[0][0].giving:
            raise _DroppedError(DropReason.NOT_THE_USERS_WORDS)
        return quoted[0]

    def _best_meaning(
        self, finding: Extraction, labels: Sequence[str], excerpt: Excerpt, places: Sequence[Evidence]
    ) -> tuple[str, _Meaning, Evidence]:
        """Return the subject and the meaning by which a quote says a value plainly, or else the first ones."""
        read: list[tuple[str, _Meaning, Evidence, _Drops]] = []
        for label, evidence in itertools.product(labels, places):
            dropped = _Drops()
            meaning = self._meaning(finding, self._citation(excerpt, evidence, label), dropped)
            read.append((label, meaning, evidence, dropped))
            if None in meaning.values:
                break
        label, meaning, evidence, dropped = next((it for it in read if None in it[1].values), read[0])
        self.dropped.update(dropped)
        return label, meaning, evidence

    def _citation(self, excerpt: Excerpt, evidence: Evidence, label: str) -> Citation:
        """Return a quote with what is needed to judge it. Findings with one quote and one subject share it."""
        said = excerpt.utterance
        start, end = evidence.start or 0, evidence.end or 0
        if (known := self._cited.get((said.position, start, end, label))) is not None:
            return known
        talk = [item.utterance for item in self.window.excerpts]
        before = [other for other in talk[::-1] if other.position < said.position]
        after = (other for other in talk if other.position > said.position)
        same = (other.text for other in after if (other.origin, other.speaker) == (said.origin, said.speaker))
        self._cited[said.position, start, end, label] = made = Citation(
            text=said.readable,
            quote=(start, end),
            asked=before[0].text if before and before[0].origin.trusted else "",
            earlier=tuple(other.text for other in before),
            later=next(same, ""),
            names=frozenset(word.text for word in words_of(label.replace("_", " "))),
            own=said.origin is Origin.USER,
            of_another=self._is_of_another(said, self.task.subjects[label]),
            said_on=said.timestamp.date(),
        )
        return made

    def _meaning(self, finding: Extraction, citation: Citation, dropped: _Drops) -> _Meaning:
        match finding.said:
            case Targeted(concept, values):
                return self._supported(values, concept, citation, dropped)
            case Described() as found:
                described = redact(found.description[:_LONGEST_DESCRIPTION]).text
                named = self.vocabulary.take_up(found.keyword, described, multiple=found.multiple)
                if named is None:
                    raise _DroppedError(DropReason.UNKNOWN_CONCEPT)
                return self._supported([found.value], named, citation, dropped)
            case Sentence(text=text):
                return self._supported([text], STATEMENT, citation, dropped)
            case Forgotten() as forgotten:
                return self._forgotten(forgotten, citation, dropped)
            case _:
                assert_never(finding.said)

    def _supported(
        self, data: Sequence[Json], concept: Concept[Any, Any], citation: Citation, dropped: _Drops
    ) -> _Meaning:
        """Return the values of a quote, by the doubt about them; count those that are dropped."""
        values: dict[Doubt | None, list[Any]] = {}
        for value, given in _values(data, concept, citation.quoted, dropped):
            kept = redact(value).text if concept == STATEMENT else value
            values.setdefault(doubt_of(value, concept, citation, given=given), []).append(kept)
        return _Meaning(concept, values)

    def _forgotten(self, forgotten: Forgotten, citation: Citation, dropped: _Drops) -> _Meaning:
        """Return the value, the concept or, in words, the memory to be forgotten, or what ended: the words tell."""
        keyword = forgotten.keyword or STATEMENT.keyword
        concept = self.task.fields.get(keyword) or self.vocabulary.find(keyword)
        concept = None if concept == STATEMENT else concept
        if concept is not None and not speaks_of_forgetting(citation):
            return self._ended(forgotten.value, concept, citation, dropped)
        if concept is None and not self.task.instructions:
            raise _DroppedError(DropReason.UNKNOWN_TOPIC)
        if concept is not None and forgotten.value is not None:
            read_by, whole = _read_by(forgotten.value, concept, citation.quoted)
            for value, given in _valid([forgotten.value], read_by, citation.quoted):
                if is_said(value, read_by, citation, given):
                    doubts = {doubt_of_request(citation, read_by, value, given): [value]}
                    return _Meaning(read_by, doubts, removed=True, cleared=whole)
            concept = None  # to clear all values because one could not be read would be too much
        words = redact(forgotten.text).text
        told = None if says_nothing(words) or not is_said(words, STATEMENT, citation) else words
        values = [value for value, _ in _values([told or citation.quoted], STATEMENT, "", dropped)]
        doubt = doubt_of_request(citation, concept) if concept else doubt_of_request(citation, STATEMENT, told)
        return _Meaning(STATEMENT, {doubt: values} if values else {}, removed=True, cleared=concept)

    def _ended(self, value: Json, concept: Concept[Any, Any], citation: Citation, dropped: _Drops) -> _Meaning:
        """Return the value that ended; with a doubt, every value of the concept if none is named."""
        if value is None:
            unnamed = Doubt("not named", askable=True)
            return _Meaning(STATEMENT, {unnamed: [citation.quoted]}, ended=True, cleared=concept)
        read_by, whole = _read_by(value, concept, citation.quoted)
        values = _values([value], read_by, citation.quoted, dropped)
        doubts = {doubt_of(it, read_by, citation, given=given, ended=True): [it] for it, given in values}
        return _Meaning(read_by, doubts, ended=True, cleared=whole)

    def _is_of_another(self, said: Utterance, subject: MemorySubject) -> bool:
        """Return whether a subject is another person than who said a message, where several people have names."""
        if said.origin is not Origin.USER or said.speaker is None or _is_called(subject, said.speaker):
            return False
        talk = (item.utterance for item in self.window.excerpts)
        others = {other.speaker for other in talk if other.origin is Origin.USER} - {None, said.speaker}
        known = any(_is_called(it, said.speaker) for it in self.task.subjects.values())
        named = subject.individual_name is not None and (known or bool(others))
        return named or any(_is_called(subject, other) for other in others if other)

    def _labels(self, finding: Extraction, said: Utterance) -> list[str]:
        """Return the label of a finding's subject; if it names none, that of the speaker, and the first one."""
        labels = list(self.task.subjects)
        wanted = (finding.about or "").strip().casefold()
        if not wanted or not self.task.several_subjects:
            speakers = (label for label in labels if _is_called(self.task.subjects[label], said.speaker or ""))
            return [*dict.fromkeys([next(speakers, labels[0]), labels[0]])]
        exact = [it for it in labels if it == finding.about] or [it for it in labels if it.casefold() == wanted]
        meant = exact or [label for label in labels if self.task.subjects[label].name.casefold() == wanted]
        if len(meant) != 1:  # "user" stands for user:ann where there is no other one
            raise _DroppedError(DropReason.UNKNOWN_SUBJECT)
        return meant

    def _topics(self, sentence: Sentence) -> tuple[str, ...]:
        """Return the requested labels. If there is only one topic, a memory without a label belongs to it."""
        if sentence.instruction:
            return (EXPLICIT_INSTRUCTIONS.label,)
        asked = {topic.label.casefold(): topic.label for topic in self.task.topics}
        named = [label.strip().casefold() for label in sentence.topics]
        if not any(named) and len(asked) == 1:
            return tuple(asked.values())
        if not (labels := [asked[label] for label in named if label in asked]):
            raise _DroppedError(DropReason.UNKNOWN_TOPIC)
        return tuple(labels)


def _is_called(subject: MemorySubject, name: str) -> bool:
    return is_same_name(subject.individual_name or subject.name, name)


def _read_by(value: Json, concept: Concept[Any, Any], quote: str) -> tuple[Concept[Any, Any], Concept[Any, Any] | None]:
    """Return the concept by which a value that is over, or to be forgotten, is read, and the one of which it is a part.

    Words that are not a value of the concept (a field of a class, an item of a list) are read as a text. The reader of
    the known values decides which of them the words mean.
    """
    part = isinstance(value, str) and not _valid([value], concept, quote)
    return (attrs.evolve(concept, value_type=str), concept) if part else (concept, None)


def _values(found: Sequence[Json], concept: Concept[Any, Any], quote: str, dropped: _Drops) -> list[tuple[Any, Json]]:
    """Return the values of the concept's type, without secrets, each with its JSON; count the others."""
    clean = [data for data in found if not _is_secret(data, concept)]
    dropped[DropReason.ONLY_SECRETS] += len(found) - len(clean)
    values = _valid(clean, concept, quote)
    dropped[DropReason.INVALID_VALUE] += len(clean) - len(values)
    return values


_LONGEST_DESCRIPTION: Final = 1_000


def _is_secret(data: Json, concept: Concept[Any, Any]) -> bool:
    """Return whether a value has a secret; the secrets of a statement are redacted once it is found true.

    A word that only its concept makes a secret (``wifi_password``) is one.
    """
    if concept == STATEMENT:
        return False
    if isinstance(data, str):
        announced = f"{concept.keyword.replace('_', ' ')} is {data}"
        if any(found.end > len(announced) - len(data) for found in redact(announced).findings):
            return True
    return any(redact(text).findings for text in texts_in(data, numbers=False))


def _valid(found: Iterable[Json], concept: Concept[Any, Any], quote: str) -> list[tuple[Any, Json]]:
    """Return the values that are of the concept's type and say something, each with its JSON."""
    from factmem.detection.response_models import read_json

    values: list[tuple[Any, Json]] = []
    for data in found:
        try:
            given = read_json(data, concept.value_type)
            value = check_value(decode_value(given, concept.value_type), concept.value_type)
        except InvalidDataError:
            continue
        if bare_type(concept.value_type) is str:
            # Small models write only brackets and the like in place of a value.
            debris = not any(char.isalnum() for char in value) and value.strip() not in quote
            if debris or says_nothing(value, quote):
                continue
        values.append((value, given))
    return values


def _quoted(window: Window, words: str, message: int | None) -> list[tuple[Excerpt, list[Evidence]]]:
    """Return the excerpts that hold a quote, with its places: the one that is cited alone if it does."""
    number, excerpts, quote = message or 0, window.excerpts, QuotedWords(words)
    cited = excerpts[number - 1] if 0 < number <= len(excerpts) else None
    if cited is not None and (places := cited.cite(quote)):
        return [(cited, places)]
    return [(item, places) for item in excerpts if (places := item.cite(quote))]


def merged(candidates: Iterable[Candidate]) -> list[Candidate]:
    """Return candidates in the order of the conversation, each value once for a message and a concept."""
    kept: list[Candidate] = []
    holders: dict[tuple[object, ...], int] = {}
    for candidate in sorted(candidates, key=place_of):
        new = [value for value in candidate.fact.values if _identity(candidate, value) not in holders]
        if not new:
            at = holders[_identity(candidate, candidate.fact.values[0])]
            details = kept[at].details
            details = attrs.evolve(details, topics=(*details.topics, *candidate.details.topics))
            kept[at] = attrs.evolve(kept[at], details=details)
            continue
        holders.update(dict.fromkeys((_identity(candidate, value) for value in new), len(kept)))
        fact = candidate.fact.concept.fact(new, timestamp=candidate.fact.timestamp)
        kept.append(attrs.evolve(candidate, fact=fact))
    return kept


def place_of(candidate: Candidate) -> tuple[int, int]:
    """Return the place of a candidate in the conversation: its message, and its offset there."""
    evidence = candidate.details.evidence[0]
    return (evidence.position or 0, evidence.start or 0)


def _identity(candidate: Candidate, value: Any) -> tuple[object, ...]:
    concept = candidate.fact.concept
    return (
        concept.keyword,
        candidate.subject.key if candidate.subject else None,
        candidate.removed,
        candidate.ended,
        candidate.cleared.keyword if candidate.cleared else None,
        candidate.details.evidence[0].position,
        canonical_bytes(encode_value(value, concept.value_type)),
    )
