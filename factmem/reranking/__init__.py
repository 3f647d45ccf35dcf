"""Rerankers: models that read a question with the best records of a search, and order these anew.

- `reranker_named`, `as_reranker`: a reranker by its name, or an object of another package.
- `EndpointReranker`: Cohere, Jina, Voyage, and any server with an endpoint ``/rerank``.
- `ModelReranker`: a language model that puts the texts in order.
- `CallableReranker`: a function.
- `Reranking`: number of records, time and cost; `rerank_checked` asks within these bounds, `reordered` puts in order.
"""

from __future__ import annotations

from factmem.reranking.bounds import Reranking
from factmem.reranking.rerankers import CallableReranker

__all__ = ["CallableReranker", "Reranking"]
