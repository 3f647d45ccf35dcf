"""How a memory is looked at: by whom, through which view, with which concepts and weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import attrs

from factmem.errors import InvalidDataError, OutOfViewError
from factmem.facts import Concept
from factmem.recall import RecallSettings
from factmem.records import Assertion
from factmem.scopes import MemoryScope

if TYPE_CHECKING:
    from factmem.abc import Clock

__all__ = ["Reading"]


@attrs.frozen(kw_only=True)
class Reading:
    """How a reader sees the store.

    Attributes:
        tenant: whose tree it reads.
        viewer: who reads; sees what is public and what is their own.
        concepts: the declared concepts by keyword; other facts are read by their shape.
        settings: what weighs in recall.
        clock: the present.
        roots: the scopes that it is confined to, with their subtrees; the whole tree if there are none.
    """

    tenant: str | None
    viewer: str | None
    concepts: Mapping[str, Concept[Any, Any]]
    settings: RecallSettings
    clock: Clock
    roots: tuple[MemoryScope, ...] = ()

    def sees(self, said: Assertion) -> bool:
        """Whether an assertion may be shown: it is public or the viewer's own, and lies in the view."""
        return said.details.owner in (None, self.viewer) and self.reaches(said.place.scope)

    def reaches(self, scope: MemoryScope) -> bool:
        """Whether an anchored scope lies in the view."""
        return not self.roots or any(root.contains(scope) for root in self.roots)

    def home(self) -> MemoryScope:
        """Return the scope of what nobody places: the view's own, or else what holds everywhere.

        Raises:
            OutOfViewError: the view has several scopes, and that which holds everywhere is none of them.
        """
        if len(self.roots) == 1:
            return self.roots[0]
        scope = MemoryScope.CROSS_PRODUCT.within(self.tenant)
        if not self.reaches(scope):
            raise OutOfViewError("this view has several scopes: say which one with scope=")
        return scope

    def anchored(self, scope: MemoryScope | str | None) -> MemoryScope | None:
        """Anchor a scope at the tenant.

        Raises:
            InvalidNameError: the path is not legal.
            InvalidDataError: the scope belongs to another organisation.
            OutOfViewError: the scope lies outside of the view.
        """
        if scope is None:
            return None
        parsed = MemoryScope.parse(scope) if isinstance(scope, str) else scope
        if parsed.tenant not in (None, self.tenant):
            raise InvalidDataError("the scope belongs to another organisation than this memory")
        anchored = parsed.within(self.tenant)
        if not self.reaches(anchored):
            raise OutOfViewError("the scope lies outside of this view: ask the memory that the view was made of")
        return anchored
