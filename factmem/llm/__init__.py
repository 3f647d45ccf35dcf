"""Language models: every question to one goes through this package.

- `InstructorModel`: any OpenAI-compatible endpoint, and every provider that ``instructor`` knows.
- `HostModel`: a model of LangChain, pydantic-ai or the OpenAI Agents SDK; `as_language_model` recognizes them.
- `language_model`: a model by its address, as the command line takes it.
- `media_reader`: a model that reads images, sound, video and PDF, by its address.
- `ask`, `ask_all`: ask any model, with observers notified.
- `metered`: count questions and tokens.
- `CostReport`: an observer that adds up costs by operation; `Budget`: a limit to them.
- `document`, `element`, `section`: escaped data in prompts.

Failures are raised as a `ModelError`, which holds no text of question or answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from factmem.lazy_names import lazy_names
from factmem.llm.asking import Budget
from factmem.llm.costs import CostReport

if TYPE_CHECKING:
    from factmem.llm.instructor_model import InstructorModel

__all__ = ["Budget", "CostReport", "InstructorModel"]

_HOMES = {"instructor_model": ("InstructorModel",)}
if not TYPE_CHECKING:  # a type checker that sees it takes any name for one of the package
    __getattr__ = lazy_names(__name__, _HOMES)
