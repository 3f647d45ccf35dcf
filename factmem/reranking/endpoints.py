"""Rerankers over HTTP: Cohere, Jina, Voyage, and servers with an endpoint ``/rerank``."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import attrs

from factmem.errors import InvalidDataError, ModelAnswerError, ModelUnavailableError
from factmem.llm.asking import Usage, meter
from factmem.llm.json_endpoint import JsonEndpoint, Key, failing_as


def _documents(model: str, query: str, texts: Sequence[str]) -> dict[str, Any]:
    return {"model": model, "query": query, "documents": list(texts)}


def _texts(model: str, query: str, texts: Sequence[str]) -> dict[str, Any]:
    return {"query": query, "texts": list(texts), "truncate": True}


@attrs.frozen(kw_only=True)
class RerankerVendor:
    """A vendor of rerankers, or a server that many run.

    Attributes:
        base_url: The endpoint; ``NAME_BASE_URL`` in the environment stands before it.
        keys: Environment variables of the key, the first of which that is set counts; empty for a server without one.
        path: Path of requests, below the base URL.
        body: Returns the body of a request.
        batch: Maximum number of texts in a request.
    """

    base_url: str
    keys: tuple[str, ...] = ()
    path: str = "/rerank"
    body: Callable[[str, str, Sequence[str]], dict[str, Any]] = _documents
    batch: int = 1_000


RERANKER_VENDORS: Final[Mapping[str, RerankerVendor]] = {
    "cohere": RerankerVendor(
        base_url="https://api.cohere.com", keys=("CO_API_KEY", "COHERE_API_KEY"), path="/v2/rerank"
    ),
    "jina": RerankerVendor(base_url="https://api.jina.ai/v1", keys=("JINA_API_KEY",)),
    "voyage": RerankerVendor(base_url="https://api.voyageai.com/v1", keys=("VOYAGE_API_KEY",)),
    "together": RerankerVendor(base_url="https://api.together.xyz/v1", keys=("TOGETHER_API_KEY",)),
    "infinity": RerankerVendor(base_url="http://localhost:7997"),
    "llamacpp": RerankerVendor(base_url="http://localhost:8080/v1"),
    "tei": RerankerVendor(base_url="http://localhost:8080", body=_texts, batch=32),
    "vllm": RerankerVendor(base_url="http://localhost:8000/v1"),
}
"""Vendors by name."""


class EndpointReranker:
    """A reranker at an HTTP endpoint, in the form of Cohere, Jina and Voyage, which most servers take.

    Args:
        model: Name of the model.
        base_url: The endpoint; requests go to ``/rerank`` below it, or to the vendor's path.
        api_key: The key; None for none.
        vendor: Form of the requests (default: that of most servers).
        timeout: Timeout of one request, in seconds.
        max_retries: Maximum number of retries of a failed request, with growing pauses.

    Example:
        >>> reranker = EndpointReranker("bge-reranker-v2-m3", base_url="http://localhost:7997")
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str,
        api_key: str | None = None,
        vendor: RerankerVendor | None = None,
        timeout: float = 10.0,
        max_retries: int = 1,
    ) -> None:
        self._model, self._vendor = model, vendor or RerankerVendor(base_url=base_url)
        key = Key("Authorization", api_key or "")
        self._endpoint = JsonEndpoint(base_url, key, timeout=timeout, max_retries=max_retries)

    @classmethod
    def of_vendor(cls, name: str, model: str) -> EndpointReranker:
        """Return the reranker of a vendor, configured by environment variables.

        Raises:
            InvalidDataError: The model or the key is missing.
        """
        vendor = RERANKER_VENDORS[name]
        if not model:
            raise InvalidDataError(f"a reranker of {name} is written as {name}:MODEL", path="$.reranker")
        other_url = os.environ.get(f"{name.upper()}_BASE_URL")
        key = next(filter(None, map(os.environ.get, vendor.keys)), "")
        if vendor.keys and not key and not other_url:
            raise InvalidDataError(
                f"{name} needs a key: set the environment variable {' or '.join(vendor.keys)}", path="$.reranker"
            )
        return cls(model, base_url=other_url or vendor.base_url, api_key=key, vendor=vendor)

    async def rerank(self, query: str, texts: Sequence[str]) -> list[float]:
        """See `factmem.abc.Reranker.rerank`."""
        size = self._vendor.batch
        batches = [texts[start : start + size] for start in range(0, len(texts), size)]
        return [score for batch in batches for score in await self._scores(query, batch)]

    async def aclose(self) -> None:
        """Close the connections; another call of `rerank` opens new ones."""
        await self._endpoint.aclose()

    async def _scores(self, query: str, texts: Sequence[str]) -> list[float]:
        meter(requests=1)
        with failing_as("reranking", ModelUnavailableError, ModelAnswerError):
            answer = await self._endpoint.post(self._vendor.path, self._vendor.body(self._model, query, texts))
            found, tokens = _read(answer)
            scores = [found[number] for number in range(len(texts))]
        meter(usage=Usage(model=self._model, input_tokens=tokens))
        return scores


def _read(answer: Any) -> tuple[dict[int, float], int | None]:
    """Return the scores by the number of the text, and the number of tokens, if the response reports it."""
    items = answer if isinstance(answer, list) else answer.get("results") or answer["data"]
    usage: Mapping[str, int] = {} if isinstance(answer, list) else answer.get("usage") or {}
    scores = {item["index"]: float(item["relevance_score" if "relevance_score" in item else "score"]) for item in items}
    return scores, usage.get("total_tokens", usage.get("prompt_tokens"))
