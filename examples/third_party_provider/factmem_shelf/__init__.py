"""A third party's provider: the four verbs, and the standard library."""

from factmem_shelf.provider import ShelfProvider

__all__ = ["ShelfProvider"]
