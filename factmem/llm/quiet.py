"""Keeps other packages' logs from holding what was asked and answered."""

from __future__ import annotations

import logging
from typing import Final

from factmem.llm.exchange import current_exchange

__all__ = ["hush"]

_TALKATIVE: Final = frozenset({"anthropic", "instructor", "openai"})


class _WithinQuestions(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        return current_exchange() is None


_FILTER: Final = _WithinQuestions()


def hush() -> None:
    """Drop what the clients' loggers say during a question of ours, at any level, and nothing else.

    instructor logs rejected answers, whole, as errors; openai logs requests at DEBUG. Their loggers appear one by
    one as their modules are imported, so this is called before each question.
    """
    for name, logger in list(logging.root.manager.loggerDict.items()):
        if isinstance(logger, logging.Logger) and name.partition(".")[0] in _TALKATIVE:
            logger.addFilter(_FILTER)
