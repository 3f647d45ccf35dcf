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
from factmem.llm.asking import Budget, Spent, Usage, ask, ask_all, bounded_gather, in_turn, meter, metered, usage_of
from factmem.llm.costs import Cost, CostReport
from factmem.llm.messages import document, element, fitting, items, section

if TYPE_CHECKING:
    from factmem.llm.host_models import ForeignModel, HostModel, as_language_model
    from factmem.llm.instructor_model import InstructorModel, language_model
    from factmem.llm.media_models import MediaModel, media_reader

__all__ = [
    "Budget",
    "Cost",
    "CostReport",
    "ForeignModel",
    "HostModel",
    "InstructorModel",
    "MediaModel",
    "Spent",
    "Usage",
    "as_language_model",
    "ask",
    "ask_all",
    "bounded_gather",
    "document",
    "element",
    "fitting",
    "in_turn",
    "items",
    "language_model",
    "media_reader",
    "meter",
    "metered",
    "section",
    "usage_of",
]

_HOMES = {
    "host_models": ("ForeignModel", "HostModel", "as_language_model"),
    "instructor_model": ("InstructorModel", "language_model"),
    "media_models": ("MediaModel", "media_reader"),
}
if not TYPE_CHECKING:  # a type checker that sees it takes any name for one of the package
    __getattr__ = lazy_names(__name__, _HOMES)
