"""Recall: from a question to the best records of a store.

- `scoring` holds all formulas, `queries` what is asked, `ranking` the two passes of a search, `conditions` and
  `strongest` what narrows it, and `results` the matches.
- `index` is the searchable copy of a tenant's log: codec, columns, fold, postings, corpus, mirror.
- `text` reads English: terms, times, signs, related words, updates.
- `deep` is recall with a model, `marks` the marks on results, `links` what links lead to, `events` dates by events,
  `embedders` the vectors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from factmem.lazy_names import lazy_names

if TYPE_CHECKING:
    from factmem.recall.conditions import MetadataCondition, MetadataOperator, RecallFilter
    from factmem.recall.deep import DeepSettings
    from factmem.recall.embedders import CallableEmbedder
    from factmem.recall.embedding_vendors import OpenAIEmbedder
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

_HOMES = {
    "deep": ("DeepSettings",),
    "embedders": ("CallableEmbedder",),
    "embedding_vendors": ("OpenAIEmbedder",),
    "conditions": ("MetadataCondition", "MetadataOperator", "RecallFilter"),
    "scoring": ("Additive", "Boost"),
}
if not TYPE_CHECKING:  # a type checker that sees it takes any name for one of the package
    __getattr__ = lazy_names(__name__, _HOMES)
