"""Embedders over HTTP: the wire forms of their endpoints, and the vendors that have a name.

A wire form is pure: it writes the body of a request and reads the vectors in an answer. `RemoteEmbedder` sends it,
through the client of the package ``openai``, which retries, waits and closes connections on asyncio and trio alike.
"""

from __future__ import annotations

import os
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import attrs

from factmem.abc.capabilities import EmbedderIdentity
from factmem.errors import EmbedderError, InvalidDataError
from factmem.llm.json_endpoint import Credentials, IbmTokens, JsonEndpoint, Key, failing_as
from factmem.observing import current_call
from factmem.patterns import lazy_pattern
from factmem.toml_tables import table
from factmem.vectors import PROBE

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@attrs.frozen
class _Words:
    """Words that tell an endpoint or a model documents from queries: values of a field, or prefixes."""

    document: str = ""
    query: str = ""

    def of(self, *, query: bool) -> str:
        return self.query if query else self.document


_MODELS: Final = table("recall/embedding_models")
"""The dimensions of OpenAI's models, and the prefixes that open models were trained with."""

_PREFIXES: Final = [(lazy_pattern(of["models"]), _Words(of["document"], of["query"])) for of in _MODELS["prefixes"]]


def trained_with(model: str) -> _Words:
    """Return the prefixes of a model's texts; empty ones if it is not known."""
    return next((words for pattern, words in _PREFIXES if pattern.search(model.lower())), _Words())


def _always(document: str, query: str) -> Callable[[str], _Words]:
    words = _Words(document, query)
    return lambda model: words


_NO_WORDS: Final = _always("", "")


@attrs.frozen(kw_only=True)
class _Request:
    """Vectors that are asked of an endpoint.

    Attributes:
        model: Name of the model.
        texts: Texts, with their prefixes, at most as many as the form takes.
        word: The word that tells whether they are documents or queries; empty if the endpoint does not ask.
        dimension: Dimension to ask for; None for the model's own.
        settings: Settings of the vendor, by the name of the environment variable.
    """

    model: str
    texts: Sequence[str]
    word: str
    dimension: int | None
    settings: Mapping[str, str]

    def asked(self, field: str, **others: object) -> dict[str, Any]:
        """Return a field that asks for the dimension, with others beside it; nothing if none is asked for."""
        return {} if self.dimension is None else {field: self.dimension, **others}


_Read: TypeAlias = "tuple[Sequence[Sequence[float]], int | None]"
"""Vectors, and the number of tokens that were charged, if the response reports it."""


@attrs.frozen(kw_only=True)
class WireForm:
    """Form of the requests and answers of an endpoint.

    Attributes:
        path: Returns the path of a request, below the base URL.
        body: Returns the body of a request.
        read: Returns the vectors in an answer, and the number of tokens. Raises `KeyError`, `TypeError` or the like if
            the answer has another form.
        most: Returns the maximum number of texts in a request, by model.
        field: Returns the values of the field by which a request tells documents from queries, by model.
        prefixes: Returns the prefixes of texts, by model.
        shortens: Whether a dimension can be asked for.
    """

    path: Callable[[_Request], str]
    body: Callable[[_Request], dict[str, Any]]
    read: Callable[[Any], _Read]
    most: Callable[[str], int]
    field: Callable[[str], _Words] = _NO_WORDS
    prefixes: Callable[[str], _Words] = _NO_WORDS
    shortens: bool = True

    def mark(self, model: str) -> str:
        """Return the field and the prefix of documents, as a part of the embedder's identity; empty without any."""
        return " ".join(filter(None, (self.field(model).document, self.prefixes(model).document.strip(" :"))))


def _openai_form(
    *,
    dimension: str = "dimensions",
    field: str = "input_type",
    document: str = "",
    query: str = "",
    models: str = "",
    prefixes: Callable[[str], _Words] = _NO_WORDS,
    most: int = 256,
) -> WireForm:
    """Return OpenAI's form, which most vendors take, with what differs.

    No ``encoding_format`` is sent: some servers refuse any, and floats are the default everywhere.

    Args:
        dimension: Name of the field for a dimension.
        field: Name of the field for the side of a text.
        document: Value of this field for documents.
        query: Value of this field for queries.
        models: Pattern of the models that take this field.
        prefixes: Returns the prefixes of texts, by model.
        most: Maximum number of texts in a request.
    """

    def words(model: str) -> _Words:
        return _Words(document, query) if lazy_pattern(models).search(model) else _Words()

    def body(request: _Request) -> dict[str, Any]:
        side = {field: request.word} if request.word else {}
        return {"model": request.model, "input": request.texts, **side, **request.asked(dimension)}

    def read(answer: Any) -> _Read:
        usage = answer.get("usage") or {}
        items = sorted(answer["data"], key=lambda item: item["index"])
        return [item["embedding"] for item in items], usage.get("prompt_tokens", usage.get("total_tokens"))

    return WireForm(
        path=lambda request: "/embeddings",
        body=body,
        read=read,
        most=lambda model: most,
        field=words,
        prefixes=prefixes,
    )


def _cohere_body(request: _Request) -> dict[str, Any]:
    asked = request.asked("output_dimension")
    return {"texts": request.texts, "input_type": request.word, "embedding_types": ["float"], **asked}


def _cohere_read(answer: Any) -> _Read:
    billed = (answer.get("meta") or {}).get("billed_units") or {}
    found = answer["embeddings"]
    return found["float"] if isinstance(found, dict) else found, billed.get("input_tokens")


_COHERE: Final = _always("search_document", "search_query")
_GOOGLE: Final = _always("RETRIEVAL_DOCUMENT", "RETRIEVAL_QUERY")


def _gemini_body(request: _Request) -> dict[str, Any]:
    asked = request.asked("outputDimensionality")
    common = {"model": f"models/{request.model}", "taskType": request.word, **asked}
    return {"requests": [{**common, "content": {"parts": [{"text": text}]}} for text in request.texts]}


def _vertex_body(request: _Request) -> dict[str, Any]:
    asked = request.asked("outputDimensionality")
    return {
        "instances": [{"content": text, "task_type": request.word} for text in request.texts],
        **({"parameters": asked} if asked else {}),
    }


def _vertex_read(answer: Any) -> _Read:
    found = [item["embeddings"] for item in answer["predictions"]]
    tokens = sum((item.get("statistics") or {}).get("token_count") or 0 for item in found)
    return [item["values"] for item in found], tokens or None


def _bedrock_body(request: _Request) -> dict[str, Any]:
    if "cohere." in request.model:
        return _cohere_body(request)
    (text,) = request.texts
    return {"inputText": text, **request.asked("dimensions", normalize=True)}


def _bedrock_read(answer: Any) -> _Read:
    if "embedding" in answer:
        return [answer["embedding"]], answer.get("inputTextTokenCount")
    return _cohere_read(answer)


def _watsonx_body(request: _Request) -> dict[str, Any]:
    project = request.settings["WATSONX_PROJECT_ID"]
    return {"model_id": request.model, "project_id": project, "inputs": request.texts}


def _roboflow_body(request: _Request) -> dict[str, Any]:
    key = request.settings["ROBOFLOW_API_KEY"]
    return {"clip_version_id": request.model, "text": request.texts, "api_key": key}


_FORMS: Final[Mapping[str, WireForm]] = {
    "open": _openai_form(prefixes=trained_with, most=32),
    "cohere": WireForm(
        path=lambda request: "/v2/embed",
        body=lambda request: {"model": request.model, **_cohere_body(request)},
        read=_cohere_read,
        most=lambda model: 96,
        field=_COHERE,
    ),
    "gemini": WireForm(
        path=lambda request: f"/models/{request.model}:batchEmbedContents",
        body=_gemini_body,
        read=lambda answer: ([item["values"] for item in answer["embeddings"]], None),
        most=lambda model: 100,
        field=_GOOGLE,
    ),
    "vertex": WireForm(
        path=lambda request: f"/models/{request.model}:predict",
        body=_vertex_body,
        read=_vertex_read,
        most=lambda model: 1 if model.startswith("gemini") else 100,
        field=_GOOGLE,
    ),
    "bedrock": WireForm(
        path=lambda request: f"/model/{urllib.parse.quote(request.model, safe='')}/invoke",
        body=_bedrock_body,
        read=_bedrock_read,
        most=lambda model: 96 if "cohere." in model else 1,
        field=lambda model: _COHERE(model) if "cohere." in model else _Words(),
    ),
    "huggingface": WireForm(
        path=lambda request: f"/{request.model}/pipeline/feature-extraction",
        body=lambda request: {"inputs": request.texts},
        read=lambda answer: (answer, None),
        most=lambda model: 64,
        prefixes=trained_with,
        shortens=False,
    ),
    "watsonx": WireForm(
        path=lambda request: "/ml/v1/text/embeddings?version=2024-05-31",
        body=_watsonx_body,
        read=lambda answer: ([item["embedding"] for item in answer["results"]], answer.get("input_token_count")),
        most=lambda model: 256,
        prefixes=trained_with,
        shortens=False,
    ),
    "roboflow": WireForm(
        path=lambda request: "/clip/embed_text",
        body=_roboflow_body,
        read=lambda answer: (answer["embeddings"], None),
        most=lambda model: 32,
        shortens=False,
    ),
}
"""Forms of single vendors."""


class RemoteEmbedder:
    """Embeddings of an HTTP endpoint in its wire form.

    Args:
        model: Name of the model.
        form: Form of requests and answers.
        base_url: The endpoint; None for the ``openai`` package's own default.
        credentials: Source of the headers that carry the key.
        dimension: Dimension to ask for; None for the model's own.
        known: The model's own dimension, where it need not be learned from a first answer.
        settings: Settings of the vendor that requests hold.
        batch: Maximum number of texts in one request; None for the form's.
        timeout: Timeout of one request, in seconds.
        max_retries: Maximum number of retries of a failed request, with growing pauses.

    Raises:
        InvalidDataError: A dimension is asked of an endpoint that takes none.
    """

    def __init__(
        self,
        model: str,
        form: WireForm,
        *,
        base_url: str | None,
        credentials: Credentials,
        dimension: int | None = None,
        known: int | None = None,
        settings: Mapping[str, str] | None = None,
        batch: int | None = None,
        timeout: float = 30.0,
        max_retries: int = 2,
    ) -> None:
        if dimension is not None and not form.shortens:
            raise InvalidDataError("this endpoint accepts no dimension: leave the dimension out", path="$.embedder")
        self._model, self._form, self._asked, self._settings = model, form, dimension, settings or {}
        self._dimension = dimension or known
        self._batch = batch or form.most(model)
        self._endpoint = JsonEndpoint(base_url, credentials, timeout=timeout, max_retries=max_retries)

    async def identity(self) -> EmbedderIdentity:
        """See `factmem.Embedder.identity`. An unknown dimension is learned from the vector of one word."""
        if self._dimension is None:
            self._dimension = len((await self._vectors([PROBE], query=False))[0])
        mark = self._form.mark(self._model)
        return EmbedderIdentity(name=f"{self._model}+{mark}" if mark else self._model, dimension=self._dimension)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.Embedder.embed`."""
        return await self._embedded(texts, query=False)

    async def embed_query(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.abc.embedder.EmbedsQueries.embed_query`."""
        return await self._embedded(texts, query=True)

    async def aclose(self) -> None:
        """Close the connections; another call of `embed` opens new ones."""
        await self._endpoint.aclose()

    async def _embedded(self, texts: Sequence[str], *, query: bool) -> NDArray[np.float32]:
        import numpy as np

        rows = await self._vectors(texts, query=query)
        dimension = self._dimension or len(rows[0])
        if any(len(row) != dimension for row in rows):
            raise EmbedderError(
                f"the embedding endpoint did not return vectors of {dimension} dimensions; "
                "is `dimension` right for this model?"
            )
        return np.array(rows, dtype=np.float32)

    async def _vectors(self, texts: Sequence[str], *, query: bool) -> list[Sequence[float]]:
        before, word = (of(self._model).of(query=query) for of in (self._form.prefixes, self._form.field))
        rows: list[Sequence[float]] = []
        for start in range(0, len(texts), self._batch):
            some = [before + text for text in texts[start : start + self._batch]]
            rows += await self._answered(some, word)
        return rows

    async def _answered(self, texts: list[str], word: str) -> Sequence[Sequence[float]]:
        form = self._form
        request = _Request(model=self._model, texts=texts, word=word, dimension=self._asked, settings=self._settings)
        current_call().record_usage(requests=1)
        with failing_as("embedding", EmbedderError, EmbedderError):
            answer = await self._endpoint.post(form.path(request), form.body(request))
            rows, tokens = form.read(answer)
            sizes = {len(row) for row in rows}
            current_call().record_usage(input_tokens=tokens)
        if len(rows) != len(texts) or 0 in sizes:
            raise EmbedderError(f"the embedding endpoint returned a wrong number of vectors for {len(texts)} texts")
        return rows


class OpenAIEmbedder(RemoteEmbedder):
    """Embeddings of OpenAI, or of any server that takes its form of requests.

    Args:
        model: Name of the model.
        dimension: Dimension to ask for, of a model that can shorten its vectors; None to ask for none, and learn the
            model's own.
        base_url: The endpoint; None for the address in ``OPENAI_BASE_URL``, or OpenAI's own.
        api_key: The key; None for the environment variable ``OPENAI_API_KEY``.
        document_prefix: Text before each document, for a model that was trained so.
        query_prefix: Text before each query.
        batch: Maximum number of texts in one request.
        timeout: Timeout of one request, in seconds.
        max_retries: Maximum number of retries of a failed request, with growing pauses.

    Example:
        >>> embedder = OpenAIEmbedder("bge-m3", base_url="http://localhost:11434/v1", api_key="none")
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        dimension: int | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        document_prefix: str = "",
        query_prefix: str = "",
        batch: int = 256,
        timeout: float = 30.0,
        max_retries: int = 2,
    ) -> None:
        super().__init__(
            model,
            _openai_form(prefixes=_always(document_prefix, query_prefix)),
            base_url=base_url,
            credentials=_OpenAIKey(api_key),
            dimension=dimension,
            known=_MODELS["dimensions"].get(model),
            batch=batch,
            timeout=timeout,
            max_retries=max_retries,
        )


@attrs.frozen
class _OpenAIKey:
    """The key that was given, or the one in the environment when it is needed. See `Credentials`."""

    given: str | None = attrs.field(repr=False)

    async def headers(self) -> Mapping[str, str]:
        key = self.given or os.environ.get("OPENAI_API_KEY")
        if not key:
            raise EmbedderError("no API key: set OPENAI_API_KEY or pass api_key=")
        return {"Authorization": f"Bearer {key}"}


@attrs.frozen(kw_only=True)
class Vendor:
    """A vendor of embeddings, or a server that many run, by its names.

    The address of an embedder is ``NAME:MODEL`` or ``NAME:MODEL@DIMENSION``. ``NAME_BASE_URL`` in the environment
    stands before the base URL.

    Attributes:
        names: Names in addresses; the first one names the environment variable of another base URL.
        base_url: The endpoint, in which ``{VARIABLE}`` stands for an environment variable; empty for models without
            an endpoint of their own.
        form: Form of requests and answers.
        keys: Environment variables of the key, the first of which that is set counts; empty for a server that wants
            none.
        header: Header of the key; empty if it stands elsewhere.
        settings: Environment variables that are needed besides, with their defaults; None for those without.
    """

    names: tuple[str, ...]
    base_url: str
    form: WireForm
    keys: tuple[str, ...] = ()
    header: str = "Authorization"
    settings: Mapping[str, str | None] = attrs.field(factory=dict)

    @property
    def url_variable(self) -> str:
        """Environment variable of another base URL."""
        return self.names[0].upper().replace("-", "_") + "_BASE_URL"


def _vendor(name: str, given: Mapping[str, Any]) -> Vendor:
    """Return a vendor of the table."""
    return Vendor(
        names=tuple(given.get("names", [name])),
        base_url=given.get("base_url", ""),
        form=_openai_form(**given["wire"]) if "wire" in given else _FORMS[given.get("form", "open")],
        keys=tuple(given.get("keys", ())),
        header=given.get("header", "Authorization"),
        settings=dict.fromkeys(given.get("needs", ())) | given.get("defaults", {}),
    )


VENDORS: Final[Mapping[str, Vendor]] = {
    name: vendor
    for vendor in (_vendor(*of) for of in table("recall/embedding_vendors").items())
    for name in vendor.names
}
"""Vendors by name."""


def vendor_embedder(vendor: Vendor, address: str) -> RemoteEmbedder:
    """Return the embedder of a vendor, configured by environment variables.

    Args:
        vendor: The vendor.
        address: ``MODEL`` or ``MODEL@DIMENSION``.

    Raises:
        InvalidDataError: The text has another form, or an environment variable is missing.
    """
    name = vendor.names[0]
    model, at, dimension = address.rpartition("@") if "@" in address else (address, "", "")
    if not model or (at and not lazy_pattern(r"[1-9][0-9]{0,5}").fullmatch(dimension)):
        raise InvalidDataError(
            f"an embedder of {name} is written as {name}:MODEL, or {name}:MODEL@DIMENSION to ask for a dimension",
            path="$.embedder",
        )
    other_url = os.environ.get(vendor.url_variable)
    if not (other_url or vendor.base_url):
        raise InvalidDataError(
            f"{name} has no endpoint of its own: set {vendor.url_variable} to a server of its models with OpenAI's "
            "form of requests (Text Embeddings Inference, Infinity, vLLM), or pass an object of langchain-huggingface "
            "or pydantic-ai, which run them in the program, as embedder=",
            path="$.embedder",
        )
    settings = {variable: _setting(name, variable, default) for variable, default in vendor.settings.items()}
    return RemoteEmbedder(
        model,
        vendor.form,
        base_url=other_url or vendor.base_url.format(**settings),
        credentials=_credentials(vendor, settings, optional=bool(other_url)),
        dimension=int(dimension) if dimension else None,
        known=_MODELS["dimensions"].get(model) if name in ("openai", "azure") else None,
        settings=settings,
    )


def _credentials(vendor: Vendor, settings: Mapping[str, str], *, optional: bool) -> Credentials:
    if "WATSONX_API_KEY" in settings:
        return IbmTokens(settings["WATSONX_API_KEY"], settings["WATSONX_IAM_URL"])
    found = next(filter(None, map(os.environ.get, vendor.keys)), "")
    if vendor.keys and not found and not optional:
        raise InvalidDataError(
            f"{vendor.names[0]} needs a key: set the environment variable {' or '.join(vendor.keys)}", path="$.embedder"
        )
    return Key(vendor.header, found)


def _setting(vendor: str, variable: str, default: str | None) -> str:
    if (found := os.environ.get(variable) or default) is None:
        raise InvalidDataError(f"{vendor} needs the environment variable {variable}", path="$.embedder")
    return found.rstrip("/")
