"""Errors as sentences, and the line of a page that shows one."""

from __future__ import annotations

import traceback

from textual.widgets import Static

from factmem.browse.texts import shown
from factmem.errors import FactMemError

__all__ = ["ProblemLine", "sentence_of"]


def sentence_of(error: BaseException) -> str:
    """Return an error as a sentence: what factmem says of it, or where the browser itself went wrong.

    An error of the browser's own is named by its type and place alone, because its message may hold a fact.
    """
    if isinstance(error, FactMemError):
        text = shown(str(error))
    elif isinstance(error, OSError):
        text = f"that failed: {shown(error.strerror or type(error).__name__)}"
    else:
        last = traceback.extract_tb(error.__traceback__)[-1:]
        where = f" at {last[0].name}:{last[0].lineno}" if last else ""
        text = f"this is a fault of factmem itself ({type(error).__name__}{where}): please report it"
    text = text[:1].upper() + text[1:]
    return text if text.endswith((".", "?", "!")) else f"{text}."


class ProblemLine(Static):
    """A line for the error of a page or a dialog; hidden while there is none."""

    def __init__(self) -> None:
        super().__init__("", markup=False)
        self.display = False

    def present(self, error: BaseException | None) -> None:
        """Show an error; None hides the line."""
        self.update("" if error is None else sentence_of(error))
        self.display = error is not None
