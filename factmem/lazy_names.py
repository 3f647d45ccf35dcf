"""Names of a package that are imported when they are first used (PEP 562)."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence


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
            raise _unknown(package, name, module_of)
        value: object = getattr(importlib.import_module(module_of[name]), name)
        setattr(sys.modules[package], name, value)
        return value

    return named


def _unknown(package: str, name: str, known: Iterable[str]) -> AttributeError | ImportError:
    """Return the error about a name that a package does not have, with the module that has it or a similar name.

    What lies elsewhere is an `ImportError`: Python replaces an `AttributeError` by one of its own in ``from … import``.
    """
    if name.startswith("_"):
        return AttributeError(f"module {package!r} has no attribute {name!r}")
    from factmem.error_hints import did_you_mean, home_of

    if (home := home_of(name)) is not None:
        return ImportError(f"{package} has no {name}: write  from {home} import {name}", name=package)
    return AttributeError(f"module {package!r} has no attribute {name!r}{did_you_mean(name, known)}")
