"""How a memory is looked at: by whom, through which view, with which concepts and weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

import attrs

from factmem.errors import InvalidDataError, OutOfViewError
from factmem.facts import Concept
from factmem.memory.accesses import AccessCounts
from factmem.observing import Observation
from factmem.recall import DeepSettings, RecallSettings
from factmem.records import Assertion
from factmem.scopes import MemoryScope

if TYPE_CHECKING:
    from factmem.abc import Clock, QuestionAnalyst

__all__ = ["Reading", "View"]

_DEEP: Final = DeepSettings()


@attrs.frozen(kw_only=True)
class View:
    """The scopes that a memory is confined to, anchored at its tenant.

    Attributes:
        roots: scopes with all that lies below them.
        exact: scopes without what lies below them.
    """

    roots: tuple[MemoryScope, ...] = ()
    exact: tuple[MemoryScope, ...] = ()

    @property
    def only(self) -> MemoryScope | None:
        """The view's scope, if it is a single one."""
        scopes = (*self.roots, *self.exact)
        return scopes[0] if len(scopes) == 1 else None

    def reaches(self, scope: MemoryScope) -> bool:
        """Whether a scope lies in the view."""
        return scope in self.exact or any(root.contains(scope) for root in self.roots)

    def narrowed(self, other: View) -> View:
        """Return another view, of this view: what is exact here stays exact.

        Raises:
            OutOfViewError: the other one leads out of this one.
        """
        whole = tuple(scope for scope in other.roots if any(root.contains(scope) for root in self.roots))
        rest = tuple(scope for scope in (*other.exact, *other.roots) if scope not in whole)
        if not all(map(self.reaches, rest)):
            raise OutOfViewError("the scope lies outside of this view: ask the memory that the view was made of")
        return View(roots=whole, exact=rest)


@attrs.frozen(kw_only=True)
class Reading:
    """How a reader sees the store.

    Attributes:
        tenant: whose tree it reads.
        viewer: who reads; sees what is public and what is their own.
        concepts: the declared concepts by keyword; other facts are read by their shape.
        settings: what weighs in recall.
        clock: the present.
        question_analyst: takes questions apart; None to ask nobody.
        deep: when it is asked.
        view: the scopes that it is confined to, if it is.
        reviewed: leave out what is `FactDetails.unreviewed`.
        observation: who is told of what it does; None if nobody is.
        accesses: counts what is recalled; None if nobody counts.
    """

    tenant: str | None
    viewer: str | None
    concepts: Mapping[str, Concept[Any, Any]]
    settings: RecallSettings
    clock: Clock
    question_analyst: QuestionAnalyst | None = None
    deep: DeepSettings = _DEEP
    view: View | None = None
    reviewed: bool = False
    observation: Observation | None = None
    accesses: AccessCounts | None = None

    def sees(self, said: Assertion) -> bool:
        """Whether an assertion may be shown: it is public or the viewer's own, and lies in the view."""
        if self.reviewed and said.details.unreviewed:
            return False
        return said.details.owner in (None, self.viewer) and self.reaches(said.place.scope)

    def reaches(self, scope: MemoryScope) -> bool:
        """Whether an anchored scope lies in the view."""
        return self.view is None or self.view.reaches(scope)

    def home(self) -> MemoryScope:
        """Return the scope of what nobody places: the view's own, or else what holds everywhere.

        Raises:
            OutOfViewError: the view has several scopes, and that which holds everywhere is none of them.
        """
        if self.view is not None and (scope := self.view.only) is not None:
            return scope
        scope = MemoryScope.CROSS_PRODUCT.within(self.tenant)
        if not self.reaches(scope):
            raise OutOfViewError("this view has several scopes: say which one with scope=")
        return scope

    def anchored(self, scope: MemoryScope | str | None) -> MemoryScope | None:
        """Anchor a scope at the tenant.

        Raises:
            InvalidNameError: the path is not legal.
            InvalidDataError: it is no scope, or belongs to another organisation.
            OutOfViewError: the scope lies outside of the view.
        """
        if scope is None:
            return None
        parsed = MemoryScope.parse(scope) if isinstance(scope, str) else scope
        if not isinstance(parsed, MemoryScope):
            raise InvalidDataError(
                f"a scope is a MemoryScope or a path such as '/product/alpha', not a {type(scope).__name__}",
                path="$.scope",
            )
        if parsed.tenant not in (None, self.tenant):
            raise InvalidDataError("the scope belongs to another organisation than this memory")
        anchored = parsed.within(self.tenant)
        if not self.reaches(anchored):
            raise OutOfViewError("the scope lies outside of this view: ask the memory that the view was made of")
        return anchored
