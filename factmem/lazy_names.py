"""Names of a package that are imported when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Mapping, Sequence

__all__ = ["lazy_names"]


def lazy_names(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], object]:
    """Return the ``__getattr__`` of a package, which imports the module of a name when the name is first used.

    The package imports the same names under ``TYPE_CHECKING``, for type checkers.

    Args:
        package: Name of the package.
        homes: The lazy names, by the modules of the package that they are in.

    Example:
        >>> __getattr__ = lazy_names(__name__, {"instructor_model": ("InstructorModel",)})
    """
    module_of = {name: f"{package}.{module}" for module, names in homes.items() for name in names}

    def named(name: str) -> object:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value: object = getattr(importlib.import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return named
