"""factmem: a typed fact store for AI agents.

The names here are what most programs need; the contracts are in `factmem.abc`, the parts of recall in
`factmem.recall`, those that read words in `factmem.detection` and `factmem.consolidation`, the errors in
`factmem.errors`, what tests need in `factmem.testing`. Nothing heavy is imported before it is used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from factmem.lazy_names import lazy_names

if TYPE_CHECKING:
    from factmem.abc import (
        MANAGED_TOPICS,
        MEMORY_ROLE,
        AgentMemoryProvider,
        Conversation,
        DetectionExample,
        DetectionRequest,
        DropReason,
        Embedder,
        EraseReceipt,
        LanguageModel,
        MemoryObserver,
        Message,
        Operation,
        OperationCompleted,
        OperationEvent,
        OperationFailed,
        OperationStarted,
        Topic,
    )
    from factmem.consolidation import ConsolidationPolicy
    from factmem.detection import OriginPolicy, Treatment
    from factmem.errors import FactMemError
    from factmem.facts import (
        STATEMENT,
        Concept,
        Fact,
        FactType,
        MultipleConcept,
        MultipleFacts,
        SingleConcept,
        SingleFact,
    )
    from factmem.llm import InstructorModel, language_model
    from factmem.memory import (
        Background,
        BlockingMemory,
        FlaggedPolicy,
        FuturePolicy,
        Handover,
        HandoverFailed,
        HandoverFinished,
        Memory,
        MemoryEvent,
        RecallDepth,
        RecordOrder,
        Remembered,
        StoredSession,
        Trigger,
        TtlPolicy,
        Unrepresented,
    )
    from factmem.providers import InMemoryProvider, NoMemory, open_provider
    from factmem.recall import (
        Additive,
        Boost,
        DeepRecall,
        DeepSettings,
        MetadataCondition,
        MetadataOperator,
        RecallMatch,
        RecallSettings,
    )
    from factmem.records import (
        AssertionState,
        Change,
        ChangeKind,
        Evidence,
        FactDetails,
        FactRecord,
        MetadataMerge,
        Origin,
    )
    from factmem.scopes import MemoryScope, MemoryScopesProfile, ScopeKind
    from factmem.subjects import MemorySubject

    __version__: str

__all__ = [
    "MANAGED_TOPICS",
    "MEMORY_ROLE",
    "STATEMENT",
    "Additive",
    "AgentMemoryProvider",
    "AssertionState",
    "Background",
    "BlockingMemory",
    "Boost",
    "Change",
    "ChangeKind",
    "Concept",
    "ConsolidationPolicy",
    "Conversation",
    "DeepRecall",
    "DeepSettings",
    "DetectionExample",
    "DetectionRequest",
    "DropReason",
    "Embedder",
    "EraseReceipt",
    "Evidence",
    "Fact",
    "FactDetails",
    "FactMemError",
    "FactRecord",
    "FactType",
    "FlaggedPolicy",
    "FuturePolicy",
    "Handover",
    "HandoverFailed",
    "HandoverFinished",
    "InMemoryProvider",
    "InstructorModel",
    "LanguageModel",
    "Memory",
    "MemoryEvent",
    "MemoryObserver",
    "MemoryScope",
    "MemoryScopesProfile",
    "MemorySubject",
    "Message",
    "MetadataCondition",
    "MetadataMerge",
    "MetadataOperator",
    "MultipleConcept",
    "MultipleFacts",
    "NoMemory",
    "Operation",
    "OperationCompleted",
    "OperationEvent",
    "OperationFailed",
    "OperationStarted",
    "Origin",
    "OriginPolicy",
    "RecallDepth",
    "RecallMatch",
    "RecallSettings",
    "RecordOrder",
    "Remembered",
    "ScopeKind",
    "SingleConcept",
    "SingleFact",
    "StoredSession",
    "Topic",
    "Treatment",
    "Trigger",
    "TtlPolicy",
    "Unrepresented",
    "language_model",
    "open_provider",
]

_HOMES = {
    "abc": (
        "MANAGED_TOPICS",
        "MEMORY_ROLE",
        "AgentMemoryProvider",
        "Conversation",
        "DetectionExample",
        "DetectionRequest",
        "DropReason",
        "Embedder",
        "EraseReceipt",
        "LanguageModel",
        "MemoryObserver",
        "Message",
        "Operation",
        "OperationCompleted",
        "OperationEvent",
        "OperationFailed",
        "OperationStarted",
        "Topic",
    ),
    "consolidation": ("ConsolidationPolicy",),
    "detection": ("OriginPolicy", "Treatment"),
    "errors": ("FactMemError",),
    "facts": (
        "STATEMENT",
        "Concept",
        "Fact",
        "FactType",
        "MultipleConcept",
        "MultipleFacts",
        "SingleConcept",
        "SingleFact",
    ),
    "llm": ("InstructorModel", "language_model"),
    "memory": (
        "Background",
        "BlockingMemory",
        "FlaggedPolicy",
        "FuturePolicy",
        "Handover",
        "HandoverFailed",
        "HandoverFinished",
        "Memory",
        "MemoryEvent",
        "RecallDepth",
        "RecordOrder",
        "Remembered",
        "StoredSession",
        "Trigger",
        "TtlPolicy",
        "Unrepresented",
    ),
    "providers": ("InMemoryProvider", "NoMemory", "open_provider"),
    "recall": (
        "Additive",
        "Boost",
        "DeepRecall",
        "DeepSettings",
        "MetadataCondition",
        "MetadataOperator",
        "RecallMatch",
        "RecallSettings",
    ),
    "records": (
        "AssertionState",
        "Change",
        "ChangeKind",
        "Evidence",
        "FactDetails",
        "FactRecord",
        "MetadataMerge",
        "Origin",
    ),
    "scopes": ("MemoryScope", "MemoryScopesProfile", "ScopeKind"),
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
