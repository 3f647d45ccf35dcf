"""Recall: analysing, embedding, mirroring, scoring, ranking."""

from __future__ import annotations

from factmem.recall.analysis import analyse, indexed_text
from factmem.recall.choosing import chosen, selected
from factmem.recall.corpus import Corpus, Document
from factmem.recall.embedders import (
    CallableEmbedder,
    MiniLMEmbedder,
    OpenAIEmbedder,
    WordLlamaEmbedder,
    default_embedder,
    embedder_named,
)
from factmem.recall.engine import RecallMatch, ScoreParts, embed_query, hydrate, ranked
from factmem.recall.filters import MetadataCondition, MetadataOperator, RecallFilter
from factmem.recall.mirror import Mirror, embedded, log_source
from factmem.recall.scoring import RecallSettings, composite, decay

__all__ = [
    "CallableEmbedder",
    "Corpus",
    "Document",
    "MetadataCondition",
    "MetadataOperator",
    "MiniLMEmbedder",
    "Mirror",
    "OpenAIEmbedder",
    "RecallFilter",
    "RecallMatch",
    "RecallSettings",
    "ScoreParts",
    "WordLlamaEmbedder",
    "analyse",
    "chosen",
    "composite",
    "decay",
    "default_embedder",
    "embed_query",
    "embedded",
    "embedder_named",
    "hydrate",
    "indexed_text",
    "log_source",
    "ranked",
    "selected",
]
