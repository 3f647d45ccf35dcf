"""Conversion of what is stored: facts of one keyword as another concept's, and facts about one subject as another's."""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

import anyio
import attrs
from anyio import to_thread

from factmem.errors import FactMemError, InvalidDataError, StateConflictError
from factmem.facts import STATEMENT, Concept, FactType
from factmem.fold import Moment, deciding_order, fold, has_expired, states_of
from factmem.grouping import grouped
from factmem.legal_names import folded_keyword
from factmem.memory.backend import Part
from factmem.memory.exports import Exchange
from factmem.recall import RecallFilter
from factmem.recall.index.selection import LogPart
from factmem.records import Assertion, AssertionState, LogEntry, Place, Recorded
from factmem.shapes import shape_of, with_parts
from factmem.subjects import MemorySubject
from factmem.validators import check_instance
from factmem.values import Json, canonical_bytes, decode_value, encode_value

_log = logging.getLogger("factmem")

T = TypeVar("T")

_ASIDE: Final = " (in conversion)"
"""End of the keyword that holds the converted facts of a concept while its old ones are erased."""


@attrs.frozen(kw_only=True)
class Conversion:
    """Result of `Admin.convert` and of `Admin.merge`.

    Attributes:
        revisions: Number of revisions converted, past ones included, or to be converted; 0 if the keyword or the
            subject has no facts that the viewer sees, or all of them are of the concept's type.
        pending: Whether another process still holds bytes of the old ones (an open WAL); `Admin.expire` finishes that.
        dry_run: Whether nothing was written.
    """

    revisions: int
    pending: bool = False
    dry_run: bool = False


class Converter(Part):
    """Writes facts anew under another keyword, type or subject, and erases them where they were.

    The new ones are written before the old ones are erased, so that a process that dies in between loses nothing. The
    next conversion of the same facts goes on: a revision that is there already is not written twice.
    """

    async def convert(
        self,
        keyword: Concept[Any, Any] | str,
        concept: Concept[T, Any],
        function: Callable[[Json], T] | None,
        *,
        dry_run: bool,
    ) -> Conversion:
        """See `Admin.convert`."""
        check_instance(keyword, "keyword", str, Concept)
        check_instance(concept, "concept", Concept)
        keyword = keyword if isinstance(keyword, str) else keyword.keyword
        aside = concept.keyword + _ASIDE
        old, left = await self._of_keyword(keyword), await self._of_keyword(aside)
        words, old = old, [entry for entry in old if not _is_statement(entry)]
        if folded_keyword(concept.keyword) == STATEMENT.keyword or (words and not old):
            raise InvalidDataError("statements are words as they were said, and are not converted")
        if not (old or left):
            _log.warning("nothing is converted: no fact that is visible here has the keyword %r", keyword)
        same = folded_keyword(keyword) == folded_keyword(concept.keyword)
        if same and left and set(map(_said, old)) <= set(map(_said, left)):
            old = []  # erased by a conversion that was killed: what lies aside is all there is
        if same:
            by_type = function is not None
            other = {entry.assertion.track for entry in old if _differs(entry.assertion, concept, by_type=by_type)}
            old = [entry for entry in old if entry.assertion.track in other]
        log = await self._backend.mirror.log(LogPart(record_ids={entry.record_id for entry in old}, related=True))

        def converted() -> tuple[list[Assertion], set[str]]:
            new = [_converted(entry, concept, function, same=same) for entry in old]
            return _of_fact_type(concept, old, new, log, function, self._context.moment)

        new, over = await to_thread.run_sync(converted)
        if dry_run:
            return Conversion(revisions=len(old or left), dry_run=True)
        if not same:
            return await self._moved(old, new, over)
        if old:
            await self._moved(old, [attrs.evolve(said, keyword=aside) for said in new], over)
        old = await self._of_keyword(aside)
        return await self._moved(old, [attrs.evolve(entry.assertion, keyword=concept.keyword) for entry in old])

    async def merge(self, subject: MemorySubject | str, into: MemorySubject | str, *, dry_run: bool) -> Conversion:
        """See `Admin.merge`."""
        one, other = self._context.about(subject), self._context.about(into)
        if one.key == other.key:
            raise InvalidDataError("a subject cannot be merged into itself: name another one")
        log = await self._reached()

        def merged() -> list[tuple[Recorded, Assertion]]:
            about = [(entry, self._about(entry.assertion, one, other)) for entry in log]
            return [(entry, said) for entry, said in about if said is not entry.assertion]

        found = await to_thread.run_sync(merged)
        if not found:
            _log.warning("nothing is merged: no fact that is visible here is about %s", one)
        if dry_run:
            return Conversion(revisions=len(found), dry_run=True)
        return await self._moved([entry for entry, _ in found], [said for _, said in found])

    def _about(self, said: Assertion, one: MemorySubject, other: MemorySubject) -> Assertion:
        """Return an assertion about another subject, or with that one in its value; itself if it has neither.

        For all users, its owner is that individual as well.
        """
        if (data := _linked(said, one, other)) != said.data:
            said = attrs.evolve(said, data=data)
        if said.place.subject.key != one.key:
            return said
        details, owner = said.details, said.details.owner
        if self._context.all_users and owner is not None and owner == one.individual_name:
            details = attrs.evolve(details, owner=other.individual_name or owner)
        return attrs.evolve(said, place=Place(other, said.place.scope), details=details)

    async def _of_keyword(self, keyword: str) -> list[Recorded]:
        return await self._reached(LogPart(kept=RecallFilter(keywords=(keyword,))))

    async def _reached(self, part: LogPart | None = None) -> list[Recorded]:
        log, reaches = await self._backend.mirror.log(part), self._context.administers
        return [entry for entry in log if isinstance(entry, Recorded) and reaches(entry.assertion)]

    async def _moved(self, old: Sequence[Recorded], new: Sequence[Assertion], over: Collection[str] = ()) -> Conversion:
        """Write revisions anew, with their states, and erase the old ones.

        Args:
            old: The revisions.
            new: What they become.
            over: Ids of those that are retracted then.
        """
        self._check_changeable()
        states = states_of(
            await self._backend.mirror.log(LogPart(record_ids={entry.record_id for entry in old}, related=True))
        )
        if any(states[entry.id] is AssertionState.PENDING for entry in old):
            raise StateConflictError("some of the facts wait for a model: convert them once the model has read them")
        written = [
            attrs.evolve(
                entry,
                assertion=attrs.evolve(said, state=AssertionState.RETRACTED if entry.id in over else states[entry.id]),
            )
            for entry, said in zip(old, new, strict=True)
        ]
        there = LogPart(kept=RecallFilter(keywords={said.keyword for said in new}))
        before, ours = {entry.id for entry in await self._reached(there)}, set(map(_said, written))
        try:
            await Exchange(self._context, self._backend).import_(written, trust=True, progress=None, keep_actors=True)
        except BaseException:
            with anyio.CancelScope(shield=True):
                found = await self._reached(there)  # others may have written meanwhile
                partly = [entry.id for entry in found if entry.id not in before and _said(entry) in ours]
                await self._backend.erase(self._context.tenant, assertion_ids=partly)
            raise
        receipt = await self._backend.erase(self._context.tenant, assertion_ids=[entry.id for entry in old])
        return Conversion(revisions=len(old), pending=receipt.pending)


def _differs(said: Assertion, concept: Concept[Any, Any], *, by_type: bool) -> bool:
    """Return whether an assertion is of another type than a concept or, unless that alone counts, else described."""
    own, wanted = (said.keyword, said.description), (concept.keyword, concept.description)
    of_type = said.shape == concept.shape and said.fact_type is concept.fact_type
    return not of_type or (not by_type and own != wanted)


def _is_statement(entry: Recorded) -> bool:
    """Return whether an entry is of words, not of a concept of a program that was called so."""
    said = entry.assertion
    kept_as = (folded_keyword(said.keyword), said.fact_type, said.shape)
    return kept_as == (STATEMENT.keyword, STATEMENT.fact_type, STATEMENT.shape)


_SUBJECT: Final = shape_of(MemorySubject)


def _linked(said: Assertion, one: MemorySubject, other: MemorySubject) -> Json:
    """Return the data of a value, with another subject wherever it has one of them."""
    if isinstance(said.shape, str) and said.shape != _SUBJECT:  # nearly all values
        return said.data  # type: ignore[no-any-return]
    old, new = (encode_value(subject, MemorySubject) for subject in (one, other))
    changed: Json = with_parts(said.data, said.shape, _SUBJECT, lambda data: new if data == old else data)
    return changed


def _said(entry: Recorded) -> tuple[object, ...]:
    """Return what a copy of a revision under another keyword shares with it."""
    said = entry.assertion
    return said.place.key, said.details.owner, said.timestamp, said.removed, said.slot, repr(said.data)


def _converted(
    entry: Recorded, concept: Concept[T, Any], function: Callable[[Json], T] | None, *, same: bool
) -> Assertion:
    """Return a revision as an assertion of another concept.

    Args:
        entry: The revision.
        concept: The concept.
        function: See `Admin.convert`.
        same: Whether the keyword stays the same: then a value of the concept's type stays as it is.

    Raises:
        InvalidDataError: A value is not of the concept's type, or the function failed.
    """
    said = entry.assertion
    now = attrs.evolve(
        said, keyword=concept.keyword, description=concept.description, fact_type=concept.fact_type, shape=concept.shape
    )
    if said.data is None and said.removed:
        return now
    of_type = said.shape == concept.shape and said.fact_type is concept.fact_type
    with _named(entry):
        if function is None or (same and of_type):
            value = decode_value(said.data, concept.value_type)
            return now if of_type else attrs.evolve(now, data=encode_value(value, concept.value_type))
        chooses = said.fact_type is FactType.MULTIPLE and concept.fact_type is FactType.SINGLE
        old = [said.data] if chooses else said.data  # see `_chosen`
        return attrs.evolve(now, data=_data_of(function(old), concept, said.timestamp))


def _data_of(value: T, concept: Concept[T, Any], timestamp: dt.datetime) -> Json:
    (checked,) = concept.fact([value], timestamp=timestamp).values
    return encode_value(checked, concept.value_type)


@contextlib.contextmanager
def _named(entry: Recorded) -> Iterator[None]:
    """Raise what a function raises, which may be anything, as an error that names the record."""
    try:
        yield
    except Exception as error:
        reason = str(error) if isinstance(error, FactMemError) else f"the function raised {type(error).__name__}"
        raise InvalidDataError(f"a value of the record {entry.record_id} cannot be converted: {reason}") from error


def _of_fact_type(
    concept: Concept[Any, Any],
    old: Sequence[Recorded],
    new: Sequence[Assertion],
    log: Sequence[LogEntry],
    function: Callable[[Json], Any] | None,
    moment: Moment,
) -> tuple[list[Assertion], set[str]]:
    """Return converted revisions such that what was current is so under a concept of the other fact type.

    The revisions of a SINGLE become those of one record of a MULTIPLE. Of a MULTIPLE, the newest value becomes that of
    the SINGLE, or the one that the function chooses. The ids of revisions that would count now, and did not before, are
    returned as well.
    """
    made = {entry.id: said for entry, said in zip(old, new, strict=True)}
    states, over = states_of(log), set[str]()
    others = (entry for entry in old if entry.assertion.fact_type is not concept.fact_type)
    for entries in grouped(others, lambda entry: entry.assertion.track).values():
        if concept.fact_type is FactType.MULTIPLE:
            for entry in entries[1:]:
                made[entry.id] = attrs.evolve(made[entry.id], revises=entry.record_id)
                if entry.assertion.revises is None and has_expired(entry.assertion, moment):
                    over.add(entry.id)  # as an update it would end the record
            continue
        changes = [entry for entry in log if not isinstance(entry, Recorded)]
        current = [row.recorded for row in fold([*entries, *changes], moment)]
        kept = current[0] if len(current) == 1 else _chosen(current, made, concept, function) if current else None
        over |= {
            entry.id
            for entry in entries
            if entry.assertion.counts(states[entry.id])
            and (kept is None or deciding_order(entry) > deciding_order(kept))
        }
    return [made[entry.id] for entry in old], over


def _chosen(
    current: Sequence[Recorded],
    made: Mapping[str, Assertion],
    concept: Concept[T, Any],
    function: Callable[[Json], T] | None,
) -> Recorded:
    """Return the one of several current values that a function chooses.

    Raises:
        InvalidDataError: There is no function, it failed, or it returned another value.
    """
    first = current[0]
    if function is None:
        raise InvalidDataError(
            f"the record {first.record_id} is one of {len(current)} current values at {first.assertion.place}, and a "
            "SINGLE has one: give a function that chooses one of their list, or retract the others"
        )
    with _named(first):
        data = _data_of(function([entry.assertion.data for entry in current]), concept, first.assertion.timestamp)
        chosen = [entry for entry in current if canonical_bytes(made[entry.id].data) == canonical_bytes(data)]
        if not chosen:
            raise InvalidDataError(
                "for a list of values, the function must return its result for one of them, such as "
                "lambda values: values[-1]"
            )
    return max(chosen, key=deciding_order)
