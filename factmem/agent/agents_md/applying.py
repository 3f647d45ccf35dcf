"""Bringing about what somebody who edited a page of facts wants."""

from __future__ import annotations

import attrs

from factmem.abc import Clock, system_clock
from factmem.agent.agents_md.reconciling import Edits
from factmem.errors import InvalidDataError
from factmem.memory import Memory
from factmem.records import Change, ChangeKind, FactDetails, Origin

__all__ = ["Hand", "applied"]


@attrs.frozen(kw_only=True)
class Hand:
    """The editor of a page.

    Attributes:
        origin: whose words the edits are. What one that is not trusted writes goes into quarantine.
        source: where the edits come from.
        private: whether what is added is for the memory's viewer alone.
        clock: when.
    """

    origin: Origin = Origin.USER
    source: str | None = None
    private: bool = False
    clock: Clock = system_clock


async def applied(memory: Memory, edits: Edits, hand: Hand) -> tuple[Change, ...]:
    """Change what is known, said now.

    Args:
        memory: the memory, or the view of it that was shown.
        edits: what is to change.
        hand: who wants it.

    Returns:
        What was changed. A record whose state is QUARANTINED is kept apart and changes nothing yet.

    Raises:
        InvalidDataError: somebody who is not trusted wants facts to be taken back.
        FactMemError: as `Memory.update`, `Memory.retract` and `Memory.save` say; what came before it is done.
    """
    if edits.retracted and not hand.origin.trusted:
        raise InvalidDataError("what is known cannot be taken out here: leave the bullet, and add what is right")
    changes = [
        await memory.update(item.record.id, value=item.value, source=hand.source, origin=hand.origin)
        for item in edits.revised
    ]
    if edits.retracted:
        reason = "taken out" if hand.source is None else f"taken out of {hand.source}"
        changes += await memory.retract(*(record.id for record in edits.retracted), reason=reason)
    for addition in edits.added:
        concept, value = addition.said.concept, addition.said.value
        fact = concept.fact([value], timestamp=hand.clock())
        details = FactDetails(origin=hand.origin, source=hand.source)
        records = await memory.save(
            fact, subject=addition.place.subject, scope=addition.place.scope, details=details, private=hand.private
        )
        changes += [Change(kind=ChangeKind.CREATED, record=record) for record in records]
    return tuple(changes)
