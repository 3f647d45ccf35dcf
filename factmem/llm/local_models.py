"""Models that run in this process: loaded once, in a worker thread, from packages that are imported on use."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import importlib
import inspect
import json
import logging
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import attrs
from anyio import CapacityLimiter, to_thread
from anyio.lowlevel import RunVar

from factmem.errors import FactMemError, MissingPackageError, ModelUnavailableError

_HOMES: Final = {"TextEmbedding": "fastembed", "TextCrossEncoder": "fastembed.rerank.cross_encoder"}
"""Packages of the classes of fastembed."""

_WEIGHTS: Final = (
    "onnx/model.onnx",
    "model.onnx",
    "model_optimized.onnx",
    "onnx/model_quantized.onnx",
    "model_quantized.onnx",
)
"""Files of a folder that may hold the weights, the first one that exists."""


_FOREIGN_THREADS: Final = 8
"""Number of worker threads of one event loop that third parties' functions may occupy, hung ones included."""

_threads: Final[RunVar[CapacityLimiter]] = RunVar("factmem_foreign_threads")


@attrs.define(eq=False)
class LocalModel:
    """A model that is loaded once a process, in a worker thread: a program may open a memory for each of many tenants.

    Attributes:
        load: Loads the model. It may block.
    """

    load: Callable[[], Any]
    _model: Any = attrs.field(default=None, init=False)
    _loading: threading.Lock = attrs.field(factory=threading.Lock, init=False)  # several event loops may load it

    async def loaded(self) -> Any:
        """Return the model."""
        if self._model is None:
            await to_thread.run_sync(self._load_once, abandon_on_cancel=True)
        return self._model

    def _load_once(self) -> None:
        with self._loading:
            if self._model is None:
                self._model = self.load()


async def called(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call a function of a third party: an async one here, a plain one in a worker thread that may hang."""
    if inspect.iscoroutinefunction(function):
        return await function(*arguments)
    limiter = _threads.get(None)
    if limiter is None:
        _threads.set(limiter := CapacityLimiter(_FOREIGN_THREADS))
    # A hung function must not block a cancelled caller.
    answer = await to_thread.run_sync(function, *arguments, abandon_on_cancel=True, limiter=limiter)
    return await answer if inspect.isawaitable(answer) else answer


def imported(package: str, *, extra: str) -> Any:
    """Return a package, imported without changing the root logger, which wordllama configures.

    Raises:
        MissingPackageError: It is not installed.
    """
    with MissingPackageError.if_missing(package, extra=extra), root_logger_kept():
        return importlib.import_module(package)


@contextlib.contextmanager
def root_logger_kept() -> Iterator[None]:
    """Undo changes of the root logger by a package: it belongs to the program."""
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    try:
        yield
    finally:
        root.handlers[:] = handlers
        root.setLevel(level)


def fastembed_name(address: str) -> str:
    """Return the name of a model of fastembed; of a folder, its name and a digest of its weights. This may block.

    Raises:
        ModelUnavailableError: The folder holds no weights.
    """
    folder = Path(address).expanduser()
    if not folder.is_dir():
        return address
    with (folder / _weights_in(folder)).open("rb") as weights:
        digest = hashlib.file_digest(weights, "sha256")
    digest.update(_pooling(folder).encode())
    return f"{folder.resolve().name}@{digest.hexdigest()[:12]}"


@functools.cache
def fastembed_model(kind: str, address: str) -> LocalModel:
    """Return a model of fastembed, which may download it when it is first loaded.

    Args:
        kind: Class of fastembed: ``TextEmbedding`` or ``TextCrossEncoder``.
        address: Name of one of its models, or path of a folder with ``tokenizer.json``, ``tokenizer_config.json`` and
            the weights in ONNX, as sentence-transformers writes them.
    """
    return LocalModel(lambda: _load(kind, address))


def _load(kind: str, address: str) -> Any:
    """Load a model of fastembed.

    Raises:
        MissingPackageError: The extra ``fastembed`` is not installed.
        ModelUnavailableError: fastembed knows no such model, cannot download it, or the folder lacks a file.
    """
    models = getattr(imported(_HOMES[kind], extra="fastembed"), kind)
    folder = Path(address).expanduser()
    try:
        if folder.is_dir():
            return _of_folder(models, folder)
        if _knows(models, address):
            return models(address)
    except FactMemError:
        raise
    except Exception as error:  # fastembed and what it stands on may raise anything
        raise ModelUnavailableError(
            f"fastembed cannot load {address} ({type(error).__name__}): it is downloaded at its first use; without a "
            "network, give the path of a folder with tokenizer.json, tokenizer_config.json and the weights in ONNX"
        ) from error
    raise ModelUnavailableError(
        f"fastembed has no model {address!r}, and there is no such folder: see {kind}.list_supported_models()"
    )


def _knows(models: Any, name: str) -> bool:
    return any(name.lower() == known["model"].lower() for known in models.list_supported_models())


def _of_folder(models: Any, folder: Path) -> Any:
    name = str(folder.resolve())
    if not _knows(models, name):
        terms = importlib.import_module("fastembed.common.model_description")
        given = {"sources": terms.ModelSource(url=folder.resolve().as_uri()), "model_file": _weights_in(folder)}
        if models.__name__ == "TextEmbedding":
            given |= {"pooling": terms.PoolingType[_pooling(folder)], "normalization": False, "dim": 0}
        models.add_custom_model(model=name, **given)
    return models(name, specific_model_path=name)


def _weights_in(folder: Path) -> str:
    found = [*(name for name in _WEIGHTS if (folder / name).is_file()), *sorted(p.name for p in folder.glob("*.onnx"))]
    if not found:
        raise ModelUnavailableError(f"{folder} holds no weights in ONNX: export the model as model.onnx")
    return found[0]


def _pooling(folder: Path) -> str:
    """Return how the vectors of tokens become one, as sentence-transformers notes it; by default their mean."""
    noted: dict[str, Any] = {}
    with contextlib.suppress(OSError, ValueError):
        noted = dict(json.loads((folder / "1_Pooling" / "config.json").read_text(encoding="utf-8")))
    if noted.get("pooling_mode_cls_token"):
        return "CLS"
    return "LAST_TOKEN" if noted.get("pooling_mode_lasttoken") else "MEAN"
