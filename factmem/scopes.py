"""Scopes: paths in a tenant's tree, compared segment by segment."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import ClassVar, Final, Self
from urllib.parse import unquote

import attrs

from factmem.errors import InvalidNameError
from factmem.legal_names import checked_name
from factmem.validators import instance_of, named


class ScopeKind(enum.Enum):
    """The four branches of a tenant's tree, narrowest first."""

    AGENT = "agent"
    FEATURE = "feature"
    PRODUCT = "product"
    CROSS_PRODUCT = "cross-product"


_BREADTH = {kind: breadth for breadth, kind in enumerate(ScopeKind)}


def _checked_path(path: tuple[str, ...]) -> tuple[str, ...]:
    if isinstance(path, str):
        raise InvalidNameError("the path of a scope is a tuple of segments, not one string; use MemoryScope.parse")
    return tuple(checked_name(segment, what="a scope's segment") for segment in path)


def _written(segment: str) -> str:
    """Return a segment as a path shows it. ``.`` and ``..`` are names like any other, and are escaped."""
    if segment in (".", ".."):
        return segment.replace(".", "%2E")
    return segment.replace("%", "%25").replace("/", "%2F")


def _segments(path: str) -> list[str]:
    """Return the segments of a path, as they are written."""
    if not isinstance(path, str) or not path.strip("/ "):
        raise InvalidNameError("an empty path names no scope; leave the scope out to mean all of them")
    written = path.removeprefix("/").removesuffix("/").split("/")
    if any(segment in (".", "..") for segment in written):
        raise InvalidNameError("a scope's path cannot climb: it holds a '.' or '..' segment")
    if not all(segment.strip() for segment in written):
        raise InvalidNameError("a scope's path holds an empty segment")
    return written


def _unquoted(written: Sequence[str]) -> tuple[str, ...]:
    try:
        return tuple(unquote(segment, errors="strict") for segment in written)
    except UnicodeDecodeError:
        raise InvalidNameError("a scope's path holds a %-escape that is not UTF-8") from None


_TENANT_MARKS: Final = ("//%40", "//@")
"""Marks of a tenant: as written, and as read too.

No segment of a path is ever written with ``%40``, so that the mark remains where slashes are stripped or folded.
"""


@attrs.frozen
class MemoryScope:
    """A branch of a tenant's tree, written as a path: ``/agent/planner``, ``/product/alpha/decisions``.

    `CROSS_PRODUCT` is a branch beside the others and not their root. Names are compared exactly, segment by segment:
    ``/project/a`` never contains ``/project/ab``.

    The text of an anchored scope begins with its tenant: ``//%40acme/product/alpha``. No other scope has the same text,
    with or without its leading slashes, so that keys and file names made of it keep tenants apart.
    ``str(scope.within(None))`` is the path alone, for people.

    Attributes:
        kind: the branch.
        path: the name in that branch and its children; empty in `CROSS_PRODUCT` itself, and in a whole branch such as
            ``/agent``, which can be read, and holds no facts itself. A key needs the kind and the tenant as well.
        tenant: the organization whose tree this is; None for the unnamed default tenant. A `Memory` sets it.

    Raises:
        InvalidNameError: a segment is not legal.

    Example:
        >>> scope = MemoryScope.product("alpha") / "decisions"
        >>> str(scope)
        '/product/alpha/decisions'
        >>> MemoryScope.parse("/product/alpha").contains(scope)
        True
    """

    CROSS_PRODUCT: ClassVar[MemoryScope]
    """Facts that hold for every product of the organization."""

    kind: ScopeKind = attrs.field(validator=instance_of(ScopeKind))
    path: tuple[str, ...] = attrs.field(default=(), converter=_checked_path)
    tenant: str | None = attrs.field(default=None, kw_only=True, validator=named("a tenant"))

    @classmethod
    def agent(cls, name: str) -> Self:
        """Return the scope of one agent."""
        return cls(ScopeKind.AGENT, (name,))

    @classmethod
    def feature(cls, feature_id: str) -> Self:
        """Return the scope of one feature, shared by the agents that serve it."""
        return cls(ScopeKind.FEATURE, (feature_id,))

    @classmethod
    def product(cls, name: str) -> Self:
        """Return the scope of one product."""
        return cls(ScopeKind.PRODUCT, (name,))

    @classmethod
    def parse(cls, path: str) -> Self:
        """Return the scope of a path, as `str` writes it.

        ``/agent/x``, ``/feature/x`` and ``/product/x`` are of those kinds; ``/cross-product`` is `CROSS_PRODUCT`, and
        any other path, such as ``/customer/acme``, lies under it. A ``/`` or ``%`` inside a name is written ``%2F`` or
        ``%25``. A path that begins with a tenant (``//%40acme/product/x``, or ``//@acme/product/x``) is anchored there.

        Raises:
            InvalidNameError: the path is empty, has empty segments, tries to climb with ``..``, or names a whole
                branch; see `subtree`.
        """
        if isinstance(path, str) and path.startswith(_TENANT_MARKS):
            tenant, _, below = path[2:].partition("/")
            if below.startswith("/"):
                raise InvalidNameError("a scope's path holds an empty segment")
            return cls.parse("/" + below).within(_unquoted([tenant])[0].removeprefix("@"))
        written = _segments(path)
        segments = _unquoted(written)
        match written[0]:
            case "agent" | "feature" | "product" | "cross-product" as kind:
                return cls(ScopeKind(kind), segments[1:]).checked()
            case _:
                return cls(ScopeKind.CROSS_PRODUCT, segments)

    @classmethod
    def subtree(cls, path: str) -> Self | None:
        """Return the root of a subtree to read: of a path, see `parse`, or of a whole branch such as ``/agent``.

        ``/`` is the whole tree: None.

        Raises:
            InvalidNameError: see `parse`.
        """
        if path == "/":
            return None
        name = path.removeprefix("/").removesuffix("/")
        return cls(ScopeKind(name)) if name in _RESERVED else cls.parse(path)

    def checked(self) -> Self:
        """Return this scope if it can hold facts.

        Raises:
            InvalidNameError: it is a whole branch.
        """
        if self.is_branch:
            raise InvalidNameError(f"a scope of kind {self.kind.value} needs a name: /{self.kind.value}/<name>")
        return self

    @property
    def is_branch(self) -> bool:
        """Whether this is a whole branch such as ``/agent``, which can be read, and holds no facts itself."""
        return not self.path and self.kind is not ScopeKind.CROSS_PRODUCT

    def below(self, path: str) -> Self:
        """Return the scope of a path that is relative to this one, such as ``decisions/2026``.

        Raises:
            InvalidNameError: see `parse`.
        """
        return attrs.evolve(self, path=(*self.path, *_unquoted(_segments(path))))

    def __truediv__(self, child: str) -> Self:
        return attrs.evolve(self, path=(*self.path, child))

    def within(self, tenant: str | None) -> Self:
        """Return this scope anchored at a tenant."""
        return self if tenant == self.tenant else attrs.evolve(self, tenant=tenant)

    @property
    def parent(self) -> Self | None:
        """The scope one level up, or None at the top of a branch."""
        shortest = 0 if self.kind is ScopeKind.CROSS_PRODUCT else 1
        return attrs.evolve(self, path=self.path[:-1]) if len(self.path) > shortest else None

    @property
    def lineage(self) -> tuple[Self, ...]:
        """This scope and those above it, narrowest first."""
        return (self,) if self.parent is None else (self, *self.parent.lineage)

    @property
    def segments(self) -> tuple[str, ...]:
        """The path below the tenant, with the kind first. It is a key only together with the tenant."""
        return (self.kind.value, *self.path)

    @property
    def narrowness(self) -> tuple[int, int]:
        """Sort key from narrow to broad: agent, feature, product, cross-product; a child before its parent."""
        return (_BREADTH[self.kind], -len(self.path))

    def contains(self, other: MemoryScope) -> bool:
        """Return whether another scope is this one or lies in its subtree, in the same tenant."""
        return self.tenant == other.tenant and self.kind is other.kind and other.path[: len(self.path)] == self.path

    def __str__(self) -> str:
        hidden = self.kind is ScopeKind.CROSS_PRODUCT and self.path and self.path[0] not in _RESERVED
        shown = self.path if hidden else self.segments
        below = "/" + "/".join(map(_written, shown))
        return below if self.tenant is None else f"{_TENANT_MARKS[0]}{_written(self.tenant)}{below}"


_RESERVED = frozenset(kind.value for kind in ScopeKind)
MemoryScope.CROSS_PRODUCT = MemoryScope(ScopeKind.CROSS_PRODUCT)
