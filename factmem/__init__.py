"""factmem: a typed fact store for AI agents.

These are the names that most programs need first. The contracts are in `factmem.abc`, the agent's plugin in
`factmem.agent`, settings and results of `Memory` in `factmem.memory`, the parts of recall in `factmem.recall`, the
readers of words in `factmem.detection` and `factmem.consolidation`, the errors in `factmem.errors`, helpers for tests
in `factmem.testing`. Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from factmem.lazy_names import lazy_names

if TYPE_CHECKING:
    from factmem.abc import AgentMemoryProvider, Conversation, Embedder, LanguageModel, Message, Topic
    from factmem.agent import AgentMemory, AgentMemoryConfig
    from factmem.changes import Change, ChangeKind
    from factmem.errors import FactMemError
    from factmem.facts import STATEMENT, Concept, Fact, MultipleConcept, MultipleFacts, SingleConcept, SingleFact
    from factmem.llm import language_model
    from factmem.memory import Background, BlockingMemory, Memory, Policies, Remembered, Submission, TtlPolicy
    from factmem.providers import InMemoryProvider, NoMemory, open_provider
    from factmem.recall import RecallMatch, RecallSettings
    from factmem.records import Evidence, FactDetails, FactRecord, Origin
    from factmem.scopes import MemoryScope, MemoryScopesProfile
    from factmem.subjects import MemorySubject

    __version__: str

__all__ = [
    "STATEMENT",
    "AgentMemory",
    "AgentMemoryConfig",
    "AgentMemoryProvider",
    "Background",
    "BlockingMemory",
    "Change",
    "ChangeKind",
    "Concept",
    "Conversation",
    "Embedder",
    "Evidence",
    "Fact",
    "FactDetails",
    "FactMemError",
    "FactRecord",
    "InMemoryProvider",
    "LanguageModel",
    "Memory",
    "MemoryScope",
    "MemoryScopesProfile",
    "MemorySubject",
    "Message",
    "MultipleConcept",
    "MultipleFacts",
    "NoMemory",
    "Origin",
    "Policies",
    "RecallMatch",
    "RecallSettings",
    "Remembered",
    "SingleConcept",
    "SingleFact",
    "Submission",
    "Topic",
    "TtlPolicy",
    "language_model",
    "open_provider",
]

_HOMES = {
    "abc": (
        "AgentMemoryProvider",
        "Conversation",
        "Embedder",
        "LanguageModel",
        "Message",
        "Topic",
    ),
    "agent": (
        "AgentMemory",
        "AgentMemoryConfig",
    ),
    "changes": (
        "Change",
        "ChangeKind",
    ),
    "errors": ("FactMemError",),
    "facts": (
        "STATEMENT",
        "Concept",
        "Fact",
        "MultipleConcept",
        "MultipleFacts",
        "SingleConcept",
        "SingleFact",
    ),
    "llm": ("language_model",),
    "memory": (
        "Background",
        "BlockingMemory",
        "Submission",
        "Memory",
        "Policies",
        "Remembered",
        "TtlPolicy",
    ),
    "providers": (
        "InMemoryProvider",
        "NoMemory",
        "open_provider",
    ),
    "recall": (
        "RecallMatch",
        "RecallSettings",
    ),
    "records": (
        "Evidence",
        "FactDetails",
        "FactRecord",
        "Origin",
    ),
    "scopes": (
        "MemoryScope",
        "MemoryScopesProfile",
    ),
    "subjects": ("MemorySubject",),
}
_lazy = lazy_names(__name__, _HOMES)


if not TYPE_CHECKING:  # a type checker that sees it takes any name for one of the package

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used."""
        if name == "__version__":
            from importlib.metadata import version

            return version("factmem")
        return _lazy(name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
