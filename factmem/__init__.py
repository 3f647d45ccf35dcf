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
    from factmem.abc.detector import Conversation, Message
    from factmem.abc.embedder import Embedder
    from factmem.abc.model import LanguageModel
    from factmem.abc.provider import AgentMemoryProvider
    from factmem.abc.topics import Topic
    from factmem.agent.config import AgentMemoryConfig
    from factmem.agent.plugin import AgentMemory
    from factmem.changes import Change, ChangeKind
    from factmem.details import Evidence, FactDetails, Origin
    from factmem.errors import FactMemError
    from factmem.facts import STATEMENT, Concept, Fact, MultipleConcept, MultipleFacts, SingleConcept, SingleFact
    from factmem.llm.instructor_model import language_model
    from factmem.memory.background import Background, Remembered, Submission
    from factmem.memory.blocking import BlockingMemory
    from factmem.memory.context import Policies
    from factmem.memory.facade import Memory
    from factmem.memory.ttl import TtlPolicy
    from factmem.providers.memory import InMemoryProvider, NoMemory
    from factmem.providers.registry import open_provider
    from factmem.recall.results import RecallMatch
    from factmem.recall.scoring import RecallSettings
    from factmem.records import FactRecord
    from factmem.scopes import MemoryScope
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
    "abc.detector": ("Conversation", "Message"),
    "abc.embedder": ("Embedder",),
    "abc.model": ("LanguageModel",),
    "abc.provider": ("AgentMemoryProvider",),
    "abc.topics": ("Topic",),
    "agent.config": ("AgentMemoryConfig",),
    "agent.plugin": ("AgentMemory",),
    "changes": ("Change", "ChangeKind"),
    "errors": ("FactMemError",),
    "facts": ("STATEMENT", "Concept", "Fact", "MultipleConcept", "MultipleFacts", "SingleConcept", "SingleFact"),
    "llm.instructor_model": ("language_model",),
    "memory.background": ("Background", "Remembered", "Submission"),
    "memory.blocking": ("BlockingMemory",),
    "memory.context": ("Policies",),
    "memory.facade": ("Memory",),
    "memory.ttl": ("TtlPolicy",),
    "providers.memory": ("InMemoryProvider", "NoMemory"),
    "providers.registry": ("open_provider",),
    "recall.results": ("RecallMatch",),
    "recall.scoring": ("RecallSettings",),
    "records": ("Evidence", "FactDetails", "FactRecord", "Origin"),
    "scopes": ("MemoryScope",),
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
