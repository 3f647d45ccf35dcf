"""Contracts of providers, embedders, detectors, verifiers, consolidators, models, observers, clocks and the like."""

from __future__ import annotations

from factmem.abc.clock import system_clock
from factmem.abc.consolidator import Consolidator
from factmem.abc.detector import Candidate, Detection, DetectionExample, DetectionRequest, Detector
from factmem.abc.model import Prompt
from factmem.abc.observer import MemoryObserver, OperationCompleted, OperationEvent, OperationFailed, OperationStarted
from factmem.abc.reranker import Reranker
from factmem.abc.verifier import Claim, Confirmation, Verifier

__all__ = [
    "Candidate",
    "Claim",
    "Confirmation",
    "Consolidator",
    "Detection",
    "DetectionExample",
    "DetectionRequest",
    "Detector",
    "MemoryObserver",
    "OperationCompleted",
    "OperationEvent",
    "OperationFailed",
    "OperationStarted",
    "Prompt",
    "Reranker",
    "Verifier",
    "system_clock",
]
