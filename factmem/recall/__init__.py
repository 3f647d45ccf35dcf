"""Recall: from a question to the best records of a store.

- `scoring` holds all formulas, `ranking` the two passes of a search, `filters` and `strength` what narrows it, and
  `results` the matches.
- `index` is the searchable copy of a tenant's log: codec, columns, fold, postings, corpus, mirror.
- `text` reads English: terms, times, signs, related words, updates.
- `deep` is recall with a model, `overtaken` the marks on results, `hops` what links lead to, `events` dates by events,
  `embedders` the vectors.
"""

from __future__ import annotations

from factmem.recall.deep import DeepSettings
from factmem.recall.embedders import CallableEmbedder
from factmem.recall.embedding_vendors import OpenAIEmbedder
from factmem.recall.filters import MetadataCondition, MetadataOperator, RecallFilter
from factmem.recall.scoring import Additive, Boost

__all__ = [
    "Additive",
    "Boost",
    "CallableEmbedder",
    "DeepSettings",
    "MetadataCondition",
    "MetadataOperator",
    "OpenAIEmbedder",
    "RecallFilter",
]
