"""Embedders of other packages, taken as they are: those of LangChain and pydantic-ai."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol, cast

from factmem.abc.embedder import Embedder
from factmem.observing import current_call
from factmem.recall.embedders import CallableEmbedder, embedder_named

_MODEL_FIELDS: Final = ("model", "model_name", "model_id", "repo_id", "deployment")
"""Attributes under which the classes of LangChain keep the name of their model."""


class ForeignEmbedder(Protocol):
    """An ``Embeddings`` object of LangChain, or an ``Embedder`` of pydantic-ai."""

    @property
    def embed_documents(self) -> Callable[..., Any]:
        """Method that embeds texts to be searched."""
        ...

    @property
    def embed_query(self) -> Callable[..., Any]:
        """Method that embeds a question."""
        ...


def as_embedder(given: Embedder | ForeignEmbedder | str | None) -> Embedder | None:
    """Return the embedder that an argument ``embedder=`` stands for; None and unknown objects as they are.

    Args:
        given: An embedder, the name of one (see `embedder_named`), an ``Embeddings`` of LangChain, an ``Embedder`` of
            pydantic-ai, or None.

    Raises:
        InvalidDataError: See `embedder_named`.
        MissingPackageError: See `embedder_named`.
    """
    if isinstance(given, str):
        return embedder_named(given)
    if given is None or isinstance(given, Embedder):
        return given
    homes = {cls.__module__.partition(".")[0] for cls in type(given).__mro__}
    if "langchain_core" in homes:
        return _of_langchain(given)
    if "pydantic_ai" in homes:
        return _of_pydantic_ai(given)
    return cast("Embedder", given)  # which the caller checks


def _of_langchain(embeddings: Any) -> Embedder:
    """Return an ``Embeddings`` as an embedder. Its blocking methods, which all have, work under trio too."""
    models = (getattr(embeddings, field, None) for field in _MODEL_FIELDS)
    model = next((found for found in models if isinstance(found, str) and found), "")
    return CallableEmbedder(
        embeddings.embed_documents,
        name=f"{type(embeddings).__name__}:{model}".rstrip(":"),
        query=lambda texts: [embeddings.embed_query(text) for text in texts],
    )


def _of_pydantic_ai(hosted: Any) -> Embedder:
    def embedding(method: Callable[..., Any]) -> Callable[[list[str]], Any]:
        async def embed(texts: list[str]) -> Any:
            result = await method(texts)
            current_call().record_usage(requests=1, input_tokens=result.usage.input_tokens or None)
            return result.embeddings

        return embed

    model = hosted.model
    name = model if isinstance(model, str) else f"{model.system}:{model.model_name}"
    documents, queries = map(embedding, (hosted.embed_documents, hosted.embed_query))
    return CallableEmbedder(documents, name=f"{name}+document", query=queries)
