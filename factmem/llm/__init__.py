"""The one room through which every question to a language model goes.

- `InstructorModel`: any OpenAI-compatible endpoint, and every provider that ``instructor`` knows.
- `language_model`: a model by its address, as the terminal takes it.
- `ask`: how any model is asked, so that observers are told.

What goes wrong on the way comes out as a `ModelError`, which holds no text of question or answer.
"""

from __future__ import annotations

from factmem.llm.addresses import language_model
from factmem.llm.asking import ask
from factmem.llm.instructor_model import InstructorModel

__all__ = ["InstructorModel", "ask", "language_model"]
