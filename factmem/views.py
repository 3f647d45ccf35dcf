"""Views: what a caller may see of a tenant's facts."""

from __future__ import annotations

import attrs

from factmem.errors import OutOfViewError
from factmem.records import Assertion
from factmem.scopes import MemoryScope

__all__ = ["Sight", "View"]


@attrs.frozen(kw_only=True)
class View:
    """The scopes that a memory is confined to, anchored at its tenant.

    Attributes:
        roots: Scopes with their subtrees.
        exact: Scopes without their subtrees.
    """

    roots: tuple[MemoryScope, ...] = ()
    exact: tuple[MemoryScope, ...] = ()

    @property
    def only(self) -> MemoryScope | None:
        """The view's scope, if it is a single one."""
        scopes = (*self.roots, *self.exact)
        return scopes[0] if len(scopes) == 1 else None

    def reaches(self, scope: MemoryScope) -> bool:
        """Return whether a scope lies in the view."""
        return scope in self.exact or any(root.contains(scope) for root in self.roots)

    def narrowed(self, other: View) -> View:
        """Return the other view inside this one; exact scopes stay exact.

        Raises:
            OutOfViewError: The other view leads out of this one.
        """
        whole = tuple(scope for scope in other.roots if any(root.contains(scope) for root in self.roots))
        rest = tuple(scope for scope in (*other.exact, *other.roots) if scope not in whole)
        if not all(map(self.reaches, rest)):
            raise OutOfViewError("the scope lies outside of this view: ask the memory that the view was made of")
        return View(roots=whole, exact=rest)


@attrs.frozen(kw_only=True)
class Sight:
    """The assertions that a caller may see, of one tenant.

    Nothing that a caller is shown depends on other assertions: neither a result nor a score.

    Attributes:
        viewer: The reader, who sees public facts and their own; None sees public ones.
        view: The scopes that are visible; None for all.
        reviewed: Whether records that are `FactDetails.unreviewed` are invisible.
    """

    viewer: str | None = None
    view: View | None = None
    reviewed: bool = False

    @property
    def owners(self) -> tuple[str | None, str | None]:
        """Owners whose facts are visible: None (public) and the viewer."""
        return (None, self.viewer)

    def reaches(self, scope: MemoryScope) -> bool:
        """Return whether an anchored scope lies in the view."""
        return self.view is None or self.view.reaches(scope)

    def sees(self, said: Assertion) -> bool:
        """Return whether an assertion is visible."""
        if self.reviewed and said.details.unreviewed:
            return False
        return said.details.owner in self.owners and self.reaches(said.place.scope)
