"""The search for the records that a request of an agent needs."""

from __future__ import annotations

import functools
import itertools
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final

import attrs

from factmem.abc.detector import Message
from factmem.abc.topics import EXPLICIT_INSTRUCTIONS
from factmem.agent.config import AgentMemoryConfig
from factmem.agent.rendering import Found, in_force, instruction_in, is_instruction
from factmem.detection.words import is_same_name
from factmem.facts import STATEMENT, Concept, FactType
from factmem.languages import content_of, folded, language_of, sentence_spans
from factmem.memory.facade import Memory, recall_each, revisions_of
from factmem.memory.filters import Filters
from factmem.recall.results import RecallMatch
from factmem.recall.text.signs import asks_for_assistant
from factmem.records import FactRecord
from factmem.subjects import MemorySubject

SAVE_MEMORY: Final = "save_memory"
"""Name of the tool by which a model saves, and source of the saved records."""

_MOST_INSTRUCTIONS: Final = 200
"""Maximum number of standing instructions considered, newest first; each is compared with all others."""

_LONGEST_QUERY: Final = 4_000
"""Maximum length of a query, in characters; its end is kept."""

_MOST_OF_ASSISTANT: Final = 10
"""Maximum number of the assistant's statements considered, best first."""


@attrs.frozen(kw_only=True)
class BlockSearch:
    """A search for the best records of a block.

    Attributes:
        view: The view of the run, without quarantined records.
        config: The settings of the agent's memory.
        query: The query; the newest records are the best for an empty one.
        subjects: Subjects of the records.
        named: Further subjects that the request names. Each is searched separately, so its facts do not replace those
            of the others.
    """

    view: Memory
    config: AgentMemoryConfig
    query: str
    subjects: tuple[MemorySubject, ...]
    named: tuple[MemorySubject, ...] = ()

    async def found(self, concepts: Collection[Concept[Any, Any] | str] | None, spare: int) -> Found:
        """Return the best records: standing instructions in force, typed facts and statements.

        Args:
            concepts: Only records of these concepts; None for all.
            spare: Number of additional statements to find, because as many may be left out.
        """
        loading = self.config.loading
        typed, statements = _kinds(concepts)
        asks = concepts is not None or not self.query or _asks(self.query)
        if not asks and self.config.concepts:
            typed = Filters(concepts=self.config.concepts)
        said = Filters(concepts=[STATEMENT], telling=True, assistant=False)
        wanted: dict[str, tuple[Filters, int]] = {}
        if typed is not None:
            wanted["facts"] = typed, loading.limit
        if statements and asks:
            wanted["own"] = said, loading.limit + spare
            if loading.assistant_share:  # advice is given as an order: "Try the stretch"
                advice = Filters(concepts=[STATEMENT], assistant=True, telling=not self._asks_assistant)
                wanted["replies"] = advice, _MOST_OF_ASSISTANT
        best = dict(zip(wanted, await self._best(list(wanted.values())), strict=True))
        facts, own, replies = (best.get(name, Found()) for name in ("facts", "own", "replies"))
        facts = attrs.evolve(facts, earlier=await self._earlier(facts.records))
        if not statements:
            return facts
        instructions = await self._instructions()
        if not loading.overtaken:
            facts = await self._settled(facts, own.replacing)
        kept = in_force(instructions, instruction_in)
        overtaken = {record.id for record in instructions} - {record.id for record in kept}
        about = [*own.records, *(record for record in replies.records if self._is_answered_by(record))]
        shown = [*kept, *facts.records, *(record for record in about if record.id not in overtaken)]
        records = tuple({record.id: record for record in shown}.values())
        return attrs.evolve(facts, records=records, instructions={record.id for record in kept}, newer=own.newer)

    async def _instructions(self) -> list[FactRecord[Any]]:
        """Return the standing instructions of the user's own, newest first.

        Those under another name than the user's are, if nobody else spoke under a name in that talk.
        """
        # A listing by topic is fast in a large store: it reads one column and computes no scores.
        standing = await self.view.list_records(
            limit=None, topics=[EXPLICIT_INSTRUCTIONS.label], concepts=[STATEMENT], subjects=self.subjects
        )
        wishes = [*filter(is_instruction, standing)]
        if all(map(_is_under_own_name, wishes)):
            return wishes[:_MOST_INSTRUCTIONS]
        listed = await self.view.list_records(limit=None, concepts=[STATEMENT], subjects=self.subjects, assistant=False)
        names = defaultdict[str | None, set[str | None]](set)
        for said in (it.evidence[0] for it in listed if it.evidence):
            names[said.conversation_id].add(said.speaker)
        own = (
            it
            for it in wishes
            if _is_under_own_name(it) or names[it.evidence[0].conversation_id] <= {it.evidence[0].speaker, None}
        )
        return [*itertools.islice(own, _MOST_INSTRUCTIONS)]

    async def _best(self, several: Sequence[tuple[Filters, int]]) -> list[Found]:
        """Return the best records by each of some filters, up to a number."""
        loading = self.config.loading
        if not self.query:
            given = [(_about(self.subjects, wanted), limit) for wanted, limit in several]
            listed = [await self.view.list_records(limit=limit, strongest=True, **wanted) for wanted, limit in given]
            return [Found(records=tuple(newest)) for newest in listed]
        subjects = [self.subjects, *((subject,) for subject in self.named)]
        given = [(_about(those, wanted), limit) for wanted, limit in several for those in subjects]
        matches = iter(
            await recall_each(self.view, self.query, given, min_score=loading.min_score, settings=self.config.recall)
        )
        found: list[Found] = []
        for _, limit in several:
            best: Sequence[RecallMatch] = next(matches)
            if self.named:
                of_named = itertools.chain.from_iterable(itertools.islice(matches, len(self.named)))
                best = sorted([*best, *of_named], key=lambda match: -match.score)[:limit]
            found.append(_found(best, overtaken=loading.overtaken))
        return found

    async def _earlier(self, records: Sequence[FactRecord[Any]]) -> Mapping[str, Sequence[FactRecord[Any]]]:
        """Return the revisions of records before those that are shown, newest first, by record id.

        They include late revisions, which are older than the shown one by time alone.
        """
        past = await revisions_of(self.view, [record.id for record in records]) if records else {}
        shown = {record.id: record.revision for record in records}
        return {id: _before(shown[id], said) for id, said in past.items()}

    async def _settled(self, facts: Found, replacing: Iterable[FactRecord[Any]]) -> Found:
        """Return the best facts with those that replaced what statements tell, and with the values that do not hold.

        The strongest fact of a concept alone holds: the others of its subject do not, whenever they were said.

        Args:
            facts: The best facts.
            replacing: See `Found.replacing`.
        """
        shown = {record.id: record for record in facts.records}
        several = {record.id: record for record in replacing if record.id not in shown}
        concepts = [it.concept for it in shown.values() if it.concept.fact_type is FactType.SINGLE]
        concepts += [it.concept for it in several.values()]
        if not concepts:
            return facts
        listed = partial(self.view.list_records, limit=None, concepts=concepts, subjects=(*self.subjects, *self.named))
        there = [it for it in await listed() if it.id not in shown]
        if not there:
            return facts
        shown |= {it.id: it for it in await listed(strongest=True) if it.id in several}
        held = {(it.subject.key, it.concept.keyword): it.value for it in shown.values()}
        earlier, former = dict(facts.earlier), list[FactRecord[Any]]()
        revisions = await revisions_of(self.view, [record.id for record in there])
        for record in there:
            said, place = revisions.get(record.id, [record]), (record.subject.key, record.concept.keyword)
            if record.id in shown:
                earlier[record.id] = said
            elif record.concept.fact_type is FactType.SINGLE and place in held:
                former += [it for it in said if it.value != held[place]]
            elif record.id in several:
                former += [it for it in said if it.value != record.value]
        return attrs.evolve(facts, records=tuple(shown.values()), earlier=earlier, former=tuple(former))

    @functools.cached_property
    def _asks_assistant(self) -> bool:
        return asks_for_assistant(self.query)

    def _is_answered_by(self, record: FactRecord[Any]) -> bool:
        """Return whether a statement of the assistant may answer the query.

        It does if the query asks for the assistant's words, if both share a word, or if it was saved by its tool.
        """
        if not self.query or record.details.source == SAVE_MEMORY or self._asks_assistant:
            return True
        return bool(content_of(self.query) & content_of(str(record.value)))


def _before(revision: int, said: Sequence[FactRecord[Any]]) -> Sequence[FactRecord[Any]]:
    return [*itertools.takewhile(lambda it: it.revision != revision, said)][::-1]


def _is_under_own_name(record: FactRecord[Any]) -> bool:
    """Return whether a statement has no speaker with a name, or one with the user's."""
    speaker = record.evidence[0].speaker if record.evidence else None
    return not speaker or is_same_name(record.subject.individual_name or "", speaker)


def query_of(history: Sequence[Message], count: int) -> str:
    """Return the user's latest messages as a query, truncated at its start."""
    contents = [message.content for message in history if message.role == "user" and message.content.strip()]
    return "\n".join(contents[-count:])[-_LONGEST_QUERY:].strip()


def _about(subjects: tuple[MemorySubject, ...], wanted: Filters) -> Filters:
    return {**wanted, "subjects": subjects}


def _found(matches: Sequence[RecallMatch], *, overtaken: bool) -> Found:
    """Return the records of matches.

    A statement that another one overtakes stays, as does one whose fact was replaced: parts of them may still hold.

    Args:
        matches: The matches.
        overtaken: See `Loading.overtaken`.
    """
    if overtaken:
        return Found(records=tuple(match.record for match in matches))
    held = [match for match in matches if not match.retracted]
    later = {match.record.id: match.newer for match in held if match.newer is not None}
    newer = {id: record for id, record in later.items() if record.is_statement}
    pairs = ((newer.get(match.record.id, match.record), match.record) for match in held)
    records = {record.id: record for pair in pairs for record in pair}
    replacing = tuple(record for id, record in later.items() if id not in newer)
    return Found(records=tuple(records.values()), newer=newer, replacing=replacing)


def _kinds(concepts: Collection[Concept[Any, Any] | str] | None) -> tuple[Filters | None, bool]:
    """Return the filter of the wanted typed facts (None if there are none), and whether statements are wanted."""
    if concepts is None:
        return Filters(without_concepts=[STATEMENT]), True
    typed = [it for it in concepts if (it if isinstance(it, str) else it.keyword) != STATEMENT.keyword]
    return Filters(concepts=typed) if typed else None, len(typed) < len(concepts)


def _asks(query: str) -> bool:
    """Return whether a query may ask for something: it has a word with content, a question or an order."""
    lowered = folded(query)
    language = language_of(lowered)
    said = [lowered[slice(*span)] for span in sentence_spans(query)]
    return bool(content_of(query)) or any(
        language.asks(it) or language.opens("orders", it) or language.ends("orders", it) for it in said
    )
