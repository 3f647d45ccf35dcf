"""Views: what a caller may see of a tenant's facts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import attrs

from factmem.errors import OutOfViewError
from factmem.records import Assertion, Place
from factmem.scopes import MemoryScope
from factmem.subjects import MemorySubject


@attrs.frozen(kw_only=True, cache_hash=True)
class View:
    """The scopes, anchored at the tenant, and the subjects that a memory is confined to.

    Attributes:
        roots: Scopes with their subtrees.
        exact: Scopes without their subtrees. With neither these nor roots, all scopes are visible.
        subjects: Subjects (and individuals); empty for all.
        individuals: Keys of the individuals of whom reads show public facts without naming them, beside other kinds of
            subjects; None for all.
    """

    roots: tuple[MemoryScope, ...] = ()
    exact: tuple[MemoryScope, ...] = ()
    subjects: tuple[MemorySubject, ...] = ()
    individuals: frozenset[tuple[str, str | None]] | None = None

    @property
    def scopes(self) -> tuple[MemoryScope, ...]:
        """The scopes, with and without their subtrees; empty for all."""
        return (*self.roots, *self.exact)

    @property
    def only(self) -> MemoryScope | None:
        """The view's scope, if it is a single one."""
        return self.scopes[0] if len(self.scopes) == 1 else None

    def reaches(self, scope: MemoryScope) -> bool:
        """Return whether a scope lies in the view."""
        return not self.scopes or scope in self.exact or any(root.contains(scope) for root in self.roots)

    def is_about(self, key: tuple[str, str | None]) -> bool:
        """Return whether a subject is one of the view's, by its key."""
        return not self.subjects or any(subject.key == key for subject in self.subjects)

    def check_reaches(self, *scopes: MemoryScope) -> None:
        """Raise unless scopes lie in the view.

        Raises:
            OutOfViewError: One of them does not.
        """
        for scope in scopes:
            if not self.reaches(scope):
                within = ", ".join(str(own.within(None)) for own in self.scopes)
                outside = f"{scope.within(None)} lies outside of this view of {within}"
                raise OutOfViewError(f"{outside}: ask the memory that the view was made of")

    def check_about(self, *subjects: MemorySubject) -> None:
        """Raise unless subjects are the view's.

        Raises:
            OutOfViewError: One of them is not.
        """
        if not all(self.is_about(subject.key) for subject in subjects):
            raise OutOfViewError("the subject lies outside of this view: ask the memory that the view was made of")

    def holds(self, place: Place) -> bool:
        """Return whether a place lies in the view."""
        return self.reaches(place.scope) and self.is_about(place.subject.key)

    def shows(self, subject: MemorySubject) -> bool:
        """Return whether reads show a subject of the view without naming it."""
        return self.individuals is None or subject.individual_name is None or subject.key in self.individuals

    def owns(self, key: tuple[str, str | None]) -> bool:
        """Return whether a subject, by its key, is the individual whom the view is for, or one that a read names.

        Its facts come before those of other subjects, whatever their priorities.
        """
        return self.individuals is not None and key in self.individuals

    def naming(self, subjects: Iterable[MemorySubject]) -> View:
        """Return the view of a read that names some subjects."""
        if self.individuals is None:
            return self
        named = {subject.key for subject in subjects if subject.individual_name is not None}
        return self if named <= self.individuals else attrs.evolve(self, individuals=self.individuals | named)

    def narrowed(self, other: View) -> View:
        """Return the other view inside this one; exact scopes stay exact.

        Raises:
            OutOfViewError: The other view leads out of this one.
        """
        self.check_about(*other.subjects)
        view = attrs.evolve(self.naming(other.subjects), subjects=other.subjects or self.subjects)
        if not (self.scopes and other.scopes):
            scoped = other if other.scopes else self
            return attrs.evolve(view, roots=scoped.roots, exact=scoped.exact)
        whole = tuple(scope for scope in other.roots if any(root.contains(scope) for root in self.roots))
        rest = tuple(scope for scope in (*other.exact, *other.roots) if scope not in whole)
        self.check_reaches(*rest)
        return attrs.evolve(view, roots=whole, exact=rest)


UNCONFINED: Final = View()
"""The view that is not confined."""


@attrs.frozen(kw_only=True, cache_hash=True)
class Sight:
    """The assertions that a caller may see, of one tenant.

    Nothing that a caller is shown depends on other assertions: neither a result nor a score.

    Attributes:
        viewer: The reader, who sees public facts and their own; None sees public ones.
        view: The scopes and subjects that are visible.
        reviewed: Whether records that are `FactDetails.unreviewed` are invisible.
    """

    viewer: str | None = None
    view: View = UNCONFINED
    reviewed: bool = False

    @property
    def owners(self) -> tuple[str | None, str | None]:
        """Owners whose facts are visible: None (public) and the viewer."""
        return (None, self.viewer)

    def sees(self, said: Assertion) -> bool:
        """Return whether an assertion is visible."""
        if self.reviewed and said.details.unreviewed:
            return False
        place, owner = said.place, said.details.owner
        if owner not in self.owners or not self.view.holds(place):
            return False
        return owner is not None or self.view.shows(place.subject)
