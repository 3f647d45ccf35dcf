"""From answers to decisions: one about each newcomer, and at most one about each record."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import attrs

from factmem.abc import Action, Verdicts
from factmem.consolidation.newcomers import Newcomer, is_statement, rank_of
from factmem.consolidation.questions import Fellow, Question
from factmem.consolidation.revising import may_merge
from factmem.consolidation.survey import Standing, Survey

__all__ = ["Claims", "Decision", "compared", "wished"]


@attrs.frozen(kw_only=True, eq=False)
class Decision:
    """What comes of one newcomer.

    Attributes:
        insert: it becomes a record, or joins the one that says the same.
        taken_back: it is kept as something that was said and is no more.
        merged_into: the record that it lives on in.
        confirms: whether that record is said again by this.
        updates: records with the text that each says from now on.
        deletes: records that are no more, with the reason given.
        fellows: the newcomers that a wish to forget takes back.
    """

    insert: bool = False
    taken_back: bool = False
    merged_into: Standing | None = None
    confirms: bool = False
    updates: tuple[tuple[Standing, str], ...] = ()
    deletes: tuple[tuple[Standing, str | None], ...] = ()
    fellows: frozenset[int] = frozenset()


@attrs.define
class Claims:
    """Which records somebody has decided about already: the first one wins."""

    _changed: set[str] = attrs.field(factory=set, init=False)
    _relied_on: set[str] = attrs.field(factory=set, init=False)

    def change(self, record: Standing) -> bool:
        """Update or delete a record; return whether nobody was first."""
        if record.id in self._changed or record.id in self._relied_on:
            return False
        self._changed.add(record.id)
        return True

    def rely_on(self, record: Standing) -> bool:
        """Count on what a record says; return whether it goes on to say that."""
        if record.id in self._changed:
            return False
        self._relied_on.add(record.id)
        return True


def wished(
    newcomers: Sequence[Newcomer],
    questions: Mapping[int, Question],
    answers: Mapping[int, Verdicts],
    claims: Claims,
) -> dict[int, Decision]:
    """Decide about the wishes to forget. What says exactly the same is meant; about the rest the answers decide."""
    decisions = {}
    for number, question in questions.items():
        if newcomers[number].forgets:
            verdicts = answers.get(number, Verdicts())
            decisions[number] = _wish(question, verdicts, claims)
    return decisions


def _wish(question: Question, verdicts: Verdicts, claims: Claims) -> Decision:
    deleting = {number: verdict for number, verdict in verdicts.known.items() if verdict.action is Action.DELETE}
    reasons = {id(question.shown[number]): verdict.reason for number, verdict in deleting.items()}
    meant = [item for item in question.shown if id(item) in reasons]
    meant += [item for item in question.exact if id(item) not in reasons]
    records = [item for item in meant if isinstance(item, Standing) and claims.change(item)]
    return Decision(
        deletes=tuple((record, reasons.get(id(record))) for record in records),
        fellows=frozenset(item.number for item in meant if isinstance(item, Fellow)),
        updates=tuple(
            (item, verdict.text)
            for number, verdict in verdicts.known.items()
            if verdict.text
            and isinstance(item := question.shown[number], Standing)
            and is_statement(item.said)
            and claims.change(item)
        ),
    )


def compared(
    newcomers: Sequence[Newcomer],
    questions: Mapping[int, Question],
    answers: Mapping[int, Verdicts],
    survey: Survey,
    *,
    claims: Claims,
    taken_back: Collection[int],
) -> dict[int, Decision]:
    """Decide about everything that is no wish to forget, in the order of the batch.

    Args:
        newcomers: the batch.
        questions: what was asked, by newcomer.
        answers: what was answered; without an answer, a newcomer is inserted.
        survey: what is known.
        claims: what was decided before.
        taken_back: the newcomers that a wish takes back; what they brought about is not done.
    """
    decisions = {}
    for number, newcomer in enumerate(newcomers):
        if newcomer.forgets and newcomer.counts and is_statement(newcomer.assertion):
            continue
        if number in taken_back:
            decisions[number] = Decision(taken_back=True)
        elif number in questions and number in answers:
            decisions[number] = _comparison(newcomer, questions[number], answers[number], claims)
        else:
            decisions[number] = _unasked(newcomer, survey)
    return decisions


def _unasked(newcomer: Newcomer, survey: Survey) -> Decision:
    """Insert, but for a mere repetition by somebody whose words weigh less than the record's."""
    if newcomer.counts and is_statement(newcomer.assertion):
        record = survey.equal_to(newcomer)
        if record is not None and rank_of(record.said.details) > rank_of(newcomer.assertion.details):
            return Decision(merged_into=record)
    return Decision(insert=True)


def _comparison(newcomer: Newcomer, question: Question, verdicts: Verdicts, claims: Claims) -> Decision:
    updates: list[tuple[Standing, str]] = []
    deletes: list[tuple[Standing, str | None]] = []
    kept: list[Standing] = []
    for number, verdict in sorted(verdicts.known.items()):
        record = question.shown[number]
        if not isinstance(record, Standing):
            continue
        match verdict.action:
            case Action.DELETE if claims.change(record):
                deletes.append((record, verdict.reason))
            case Action.UPDATE if verdict.text and may_merge(record, newcomer) and claims.change(record):
                updates.append((record, verdict.text))
            case Action.KEEP if may_merge(record, newcomer):
                kept.append(record)
            case _:
                pass
    home, confirms = (updates[0][0] if updates else None), False
    updating = any(verdict.action is Action.UPDATE for verdict in verdicts.known.values())
    if not verdicts.insert and not updating:  # an update that cannot be made leaves what is new without a home
        home = next((record for record in kept if claims.rely_on(record)), None)
        confirms = home is not None
    merged = home if not verdicts.insert else None
    return Decision(
        insert=merged is None,
        merged_into=merged,
        confirms=confirms,
        updates=tuple(updates),
        deletes=tuple(deletes),
    )
