"""Classes that are named on the command line."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

from factmem.errors import InvalidDataError

__all__ = ["class_named"]


def class_named(reference: str) -> type[Any]:
    """Import a class.

    Args:
        reference: ``MODULE:CLASS``; a module in the working folder is found as well.

    Raises:
        InvalidDataError: there is no such module or class, or the module cannot be imported.
    """
    module, colon, name = reference.partition(":")
    if not colon or not module or not name:
        raise InvalidDataError(f"{reference!r} names no class: write MODULE:CLASS, such as profiles:UserProfile")
    if not all(part.isidentifier() for part in module.split(".")):
        stem = Path(module).stem
        raise InvalidDataError(
            f"{module!r} names no module: write {stem}:{name}, in the folder where {stem}.py lies or with that folder "
            "in PYTHONPATH"
        )
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        found = getattr(importlib.import_module(module), name, None)
    except ModuleNotFoundError as error:
        raise InvalidDataError(f"{module} cannot be imported: there is no module {error.name}") from None
    except Exception as error:  # whatever the import of somebody else's module brings up
        raise InvalidDataError(f"{module} cannot be imported: {type(error).__name__}") from None
    if not isinstance(found, type):
        raise InvalidDataError(f"{module} has no class {name}")
    return found
