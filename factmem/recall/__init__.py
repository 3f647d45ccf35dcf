"""Recall: from a question to the best records of a store.

- `scoring` holds all formulas, `ranking` the two passes of a search, `filters` and `strength` what narrows it, and
  `results` the matches.
- `index` is the searchable copy of a tenant's log: codec, columns, fold, postings, corpus, mirror.
- `text` reads English: terms, times, signs, related words, updates.
- `deep` is recall with a model, `overtaken` the marks on results, `hops` what links lead to, `events` dates by events,
  `embedders` the vectors.
"""

from __future__ import annotations

from factmem.recall.adopted_embedders import ForeignEmbedder, as_embedder
from factmem.recall.deep import COMPARED, DeepSettings, Hint, Look, Results, explored
from factmem.recall.embedders import (
    BoundedEmbedder,
    CallableEmbedder,
    FastEmbedEmbedder,
    MiniLMEmbedder,
    MultilingualEmbedder,
    WordLlamaEmbedder,
    default_embedder,
    embedded,
    embedder_entry_points,
    embedder_named,
)
from factmem.recall.embedding_vendors import VENDORS, OpenAIEmbedder, RemoteEmbedder
from factmem.recall.events import TELLING, EventTime, events_in, sentence_of, timed
from factmem.recall.filters import MetadataCondition, MetadataOperator, RecallFilter
from factmem.recall.hops import Asking, followed
from factmem.recall.index.column_fold import CurrentRows
from factmem.recall.index.columns import Columns
from factmem.recall.index.corpus import Corpus
from factmem.recall.index.mirror import Glance, Mirror
from factmem.recall.index.outline_codec import value_number
from factmem.recall.index.selection import LogPart, selected
from factmem.recall.index.source import log_source
from factmem.recall.overtaken import marked, rows_of_marks, still_true
from factmem.recall.ranking import Query, less_named, ranked
from factmem.recall.results import DeepRecall, RecallMatch, RecallMatches, ScoreParts, hydrate
from factmem.recall.scoring import Additive, Boost, Calibration, RecallSettings, composite, recency
from factmem.recall.strength import chosen
from factmem.recall.text.analysis import analyse, indexed_text
from factmem.recall.text.signs import Kind, asks_for_assistant, kinds_asked, nameless
from factmem.recall.text.times import TimeSpan, times_and_rest, times_in

__all__ = [
    "COMPARED",
    "TELLING",
    "VENDORS",
    "Additive",
    "Asking",
    "Boost",
    "BoundedEmbedder",
    "Calibration",
    "CallableEmbedder",
    "Columns",
    "Corpus",
    "CurrentRows",
    "DeepRecall",
    "DeepSettings",
    "EventTime",
    "FastEmbedEmbedder",
    "ForeignEmbedder",
    "Glance",
    "Hint",
    "Kind",
    "LogPart",
    "Look",
    "MetadataCondition",
    "MetadataOperator",
    "MiniLMEmbedder",
    "Mirror",
    "MultilingualEmbedder",
    "OpenAIEmbedder",
    "Query",
    "RecallFilter",
    "RecallMatch",
    "RecallMatches",
    "RecallSettings",
    "RemoteEmbedder",
    "Results",
    "ScoreParts",
    "TimeSpan",
    "WordLlamaEmbedder",
    "analyse",
    "as_embedder",
    "asks_for_assistant",
    "chosen",
    "composite",
    "default_embedder",
    "embedded",
    "embedder_entry_points",
    "embedder_named",
    "events_in",
    "explored",
    "followed",
    "hydrate",
    "indexed_text",
    "kinds_asked",
    "less_named",
    "log_source",
    "marked",
    "nameless",
    "ranked",
    "recency",
    "rows_of_marks",
    "selected",
    "sentence_of",
    "still_true",
    "timed",
    "times_and_rest",
    "times_in",
    "value_number",
]
