"""Updates of one person, in chronological order, and small talk."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.tables import rows, sections

__all__ = ["CHAT", "PAIRS", "UNSEEN"]

_FILE: Final = Path(__file__).with_suffix(".txt")
PAIRS: Final = rows(_FILE)
UNSEEN: Final = PAIRS["unseen"]
CHAT: Final = sections(_FILE)["chat"]
