"""Recall: analysing, embedding, mirroring, scoring, ranking."""

from __future__ import annotations

from factmem.recall.analysis import analyse, indexed_text
from factmem.recall.asking import Query
from factmem.recall.choosing import chosen
from factmem.recall.columns import Columns
from factmem.recall.corpus import Corpus
from factmem.recall.deep import DeepRecall, DeepSettings
from factmem.recall.embedders import (
    BoundedEmbedder,
    CallableEmbedder,
    MiniLMEmbedder,
    OpenAIEmbedder,
    WordLlamaEmbedder,
    default_embedder,
    embedded,
    embedder_named,
)
from factmem.recall.engine import RecallMatch, RecallMatches, ScoreParts, hydrate, ranked
from factmem.recall.exploring import explored
from factmem.recall.filters import MetadataCondition, MetadataOperator, RecallFilter
from factmem.recall.folding import Standing
from factmem.recall.log_parts import LogPart
from factmem.recall.mirror import Mirror
from factmem.recall.narrowing import selected
from factmem.recall.overtaken import marked, still_true
from factmem.recall.scoring import Additive, Boost, RecallSettings, composite, decay
from factmem.recall.sources import log_source
from factmem.recall.time_expressions import TimeSpan, times_in

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
    "decay",
    "default_embedder",
    "embedded",
    "embedder_named",
    "explored",
    "hydrate",
    "indexed_text",
    "log_source",
    "marked",
    "ranked",
    "selected",
    "still_true",
    "times_in",
]
