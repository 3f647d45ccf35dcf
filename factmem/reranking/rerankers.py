"""Rerankers by their name, and those of other packages as they are."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, cast

from factmem.abc import Reranker
from factmem.abc.model import LanguageModel
from factmem.errors import InvalidDataError
from factmem.llm.json_endpoint import host_of
from factmem.llm.local_models import called, fastembed_model
from factmem.reranking.endpoints import RERANKER_VENDORS, EndpointReranker
from factmem.reranking.model_reranker import ModelReranker
from factmem.validators import check_text

if TYPE_CHECKING:
    from factmem.llm.host_models import ForeignModel

_Function: TypeAlias = "Callable[[str, list[str]], Any | Awaitable[Any]]"


class CallableReranker:
    """Any function from a question and texts to scores, plain or async; a plain one runs in a worker thread.

    Args:
        function: Takes a question and a list of texts, returns one score per text, a higher one for a better answer.

    Example:
        >>> reranker = CallableReranker(lambda query, texts: model.predict([(query, text) for text in texts]))
    """

    def __init__(self, function: _Function) -> None:
        self._function = function

    async def rerank(self, query: str, texts: Sequence[str]) -> Sequence[float]:
        """See `factmem.abc.Reranker.rerank`."""
        return cast("Sequence[float]", await called(self._function, query, list(texts)))


class _Compresses(Protocol):
    """A reranker of LangChain, such as ``CohereRerank``."""

    def compress_documents(self, documents: Sequence[Any], query: str) -> Sequence[Any]:
        """Return some of the documents in another order."""
        ...


class _ScoresPairs(Protocol):
    """A ``BaseCrossEncoder`` of LangChain."""

    def score(self, text_pairs: Any) -> Any:
        """Return the scores of pairs."""
        ...


ForeignReranker: TypeAlias = _Compresses | _ScoresPairs
"""A reranker of LangChain: a document compressor that orders, or a cross-encoder."""


def reranker_named(name: str) -> Reranker:
    """Return the reranker that a name stands for.

    Args:
        name: ``VENDOR:MODEL`` for an endpoint of one of `RERANKER_VENDORS`, whose key is in the environment;
            ``fastembed:MODEL`` for a cross-encoder of fastembed, by its name or as a folder; or
            ``http://HOST:PORT/PATH#MODEL`` for a server with an endpoint ``/rerank`` below this address.

    Raises:
        InvalidDataError: There is no such vendor, or the model or key is missing.
    """
    check_text(name, path="$.reranker")
    kind, _, model = name.partition(":")
    if kind in RERANKER_VENDORS:
        return EndpointReranker.of_vendor(kind, model)
    if kind == "fastembed" and model:
        return CallableReranker(functools.partial(_of_fastembed, model))
    if kind in ("http", "https"):
        address, _, model = name.partition("#")
        if not model or not host_of(address):
            raise InvalidDataError("write a server's address as http://HOST:PORT/PATH#MODEL", path="$.reranker")
        return EndpointReranker(model, base_url=address)
    raise InvalidDataError(
        f"no reranker is called {kind!r}; there are {', '.join(RERANKER_VENDORS)} and fastembed, each with :MODEL, "
        "http://HOST:PORT#MODEL, and model for the memory's language model. Or pass a Reranker, not a name",
        path="$.reranker",
    )


def as_reranker(
    given: Reranker | ForeignReranker | ForeignModel | LanguageModel | str | None, model: LanguageModel | None = None
) -> Reranker | None:
    """Return the reranker that an argument ``reranker=`` stands for; None and unknown objects as they are.

    Args:
        given: A reranker, the name of one (see `reranker_named`), ``"model"`` for the memory's language model, a
            reranker or cross-encoder of LangChain, or a language model of any kind that ``Memory(model=)`` takes.
        model: The memory's language model.

    Raises:
        InvalidDataError: See `reranker_named`; or it is ``"model"``, and there is none.
    """
    if given == "model":
        if model is None:
            raise InvalidDataError('reranker="model" asks the language model: give model= as well', path="$.reranker")
        return ModelReranker(model)
    if isinstance(given, str):
        return reranker_named(given)
    if given is None:
        return None
    homes = {cls.__module__.partition(".")[0] for cls in type(given).__mro__}
    if hasattr(given, "compress_documents"):
        return CallableReranker(functools.partial(_compressed, given))
    if hasattr(given, "score") and any(home.startswith("langchain") for home in homes):
        return CallableReranker(lambda query, texts: cast("Any", given).score([(query, text) for text in texts]))
    from factmem.llm.host_models import as_language_model

    found = as_language_model(cast("Any", given))
    return ModelReranker(found) if isinstance(found, LanguageModel) else cast("Reranker", given)  # the caller checks


async def _of_fastembed(address: str, query: str, texts: list[str]) -> list[float]:
    model = await fastembed_model("TextCrossEncoder", address).loaded()
    return cast("list[float]", await called(lambda: list(model.rerank(query, texts))))


async def _compressed(compressor: Any, query: str, texts: list[str]) -> list[float]:
    """Return scores by what a compressor keeps: its own where it gives them, else its order; the others come last."""
    from langchain_core.documents import Document

    given = [Document(page_content=text, metadata={"place": place}) for place, text in enumerate(texts)]
    kept = await called(compressor.compress_documents, given, query)
    scores = [document.metadata.get("relevance_score") for document in kept]
    if any(score is None for score in scores):
        scores = [-float(place) for place in range(len(kept))]
    last = min(map(float, scores), default=0.0) - 1
    by_place = {document.metadata["place"]: float(score) for document, score in zip(kept, scores, strict=True)}
    return [by_place.get(place, last) for place in range(len(texts))]
