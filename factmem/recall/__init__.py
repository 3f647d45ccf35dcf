"""Recall: analysing, embedding, mirroring, scoring, ranking."""

from __future__ import annotations

from factmem.recall.deep import DeepRecall, DeepSettings, explored
from factmem.recall.embedders import (
    BoundedEmbedder,
    CallableEmbedder,
    MiniLMEmbedder,
    OpenAIEmbedder,
    WordLlamaEmbedder,
    default_embedder,
    embedded,
    embedder_entry_points,
    embedder_named,
)
from factmem.recall.filters import MetadataCondition, MetadataOperator, RecallFilter
from factmem.recall.index.column_fold import Standing
from factmem.recall.index.columns import Columns
from factmem.recall.index.corpus import Corpus
from factmem.recall.index.mirror import Mirror
from factmem.recall.index.selection import LogPart, selected
from factmem.recall.index.source import log_source
from factmem.recall.overtaken import marked, still_true
from factmem.recall.ranking import Query, RecallMatch, RecallMatches, ScoreParts, hydrate, ranked
from factmem.recall.scoring import Additive, Boost, RecallSettings, composite, recency
from factmem.recall.strength import chosen
from factmem.recall.text.analysis import analyse, indexed_text
from factmem.recall.text.times import TimeSpan, times_in

__all__ = [
    "Additive",
    "Boost",
    "BoundedEmbedder",
    "CallableEmbedder",
    "Columns",
    "Corpus",
    "DeepRecall",
    "DeepSettings",
    "LogPart",
    "MetadataCondition",
    "MetadataOperator",
    "MiniLMEmbedder",
    "Mirror",
    "OpenAIEmbedder",
    "Query",
    "RecallFilter",
    "RecallMatch",
    "RecallMatches",
    "RecallSettings",
    "ScoreParts",
    "Standing",
    "TimeSpan",
    "WordLlamaEmbedder",
    "analyse",
    "chosen",
    "composite",
    "default_embedder",
    "embedded",
    "embedder_entry_points",
    "embedder_named",
    "explored",
    "hydrate",
    "indexed_text",
    "log_source",
    "marked",
    "ranked",
    "recency",
    "selected",
    "still_true",
    "times_in",
]
