"""A clock, an embedder and a language model that a test sets by hand, and the capabilities of a provider."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
import threading
import unicodedata
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import anyio.lowlevel
import attrs

from factmem.abc.capabilities import EmbedderIdentity, KeepsFiles, KeepsLog, ScansVectors, UpgradesFormat
from factmem.abc.model import Prompt
from factmem.abc.outlines import KeepsOutlines
from factmem.abc.provider import AgentMemoryProvider
from factmem.errors import InvalidDataError, ModelAnswerError
from factmem.validators import check_aware

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray
    from pydantic import BaseModel

AnswerT = TypeVar("AnswerT", bound="BaseModel")


class FakeClock:
    """A `factmem.abc.clock.Clock` that stands still, or advances by a fixed step at every reading.

    It may be read from several threads.

    Args:
        start: First reading, with a time zone; by default noon on 1 January 2024 UTC.
        step: Advance after each reading.

    Raises:
        InvalidDataError: The start has no time zone.
    """

    def __init__(
        self, start: dt.datetime = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC), *, step: dt.timedelta = dt.timedelta(0)
    ) -> None:
        self._now = check_aware(start, "start")
        self._step = step
        self._lock = threading.Lock()

    def __call__(self) -> dt.datetime:
        """Return the present, in the time zone in which it was set."""
        with self._lock:
            now = self._now
            self._now += self._step
        return now

    def set(self, moment: dt.datetime) -> None:
        """Set the next reading; it may lie in the past.

        Raises:
            InvalidDataError: The moment has no time zone.
        """
        with self._lock:
            self._now = check_aware(moment, "moment")

    def advance(self, by: dt.timedelta) -> None:
        """Advance the next reading."""
        with self._lock:
            self._now += by


_WORD: Final = re.compile(r"\w+")


class HashEmbedder:
    """A `factmem.Embedder` that counts words in hashed columns: texts that share words are close.

    The same text has the same vector in every process and on every machine. No number is negative, so no cosine is.

    Args:
        dimension: Dimension of the vectors; at least 1.

    Raises:
        InvalidDataError: The dimension is less than 1.
    """

    def __init__(self, dimension: int = 256) -> None:
        if dimension < 1:
            raise InvalidDataError("an embedder needs at least one dimension", path="$.dimension")
        self._identity = EmbedderIdentity(name="factmem-hash-1", dimension=dimension)

    async def identity(self) -> EmbedderIdentity:
        """See `factmem.Embedder.identity`."""
        return self._identity

    async def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """See `factmem.Embedder.embed`; each vector has length 1."""
        import numpy as np

        rows = np.zeros((len(texts), self._identity.dimension), dtype=np.float32)
        for row, text in enumerate(texts):
            normal = unicodedata.normalize("NFKC", text).casefold()
            for word in _WORD.findall(normal) or [normal]:
                rows[row, self._column(word)] += 1
        rows /= np.sqrt((rows * rows).sum(axis=1, keepdims=True))
        return rows

    def _column(self, word: str) -> int:
        digest = hashlib.blake2b(word.encode("utf-8", "surrogatepass"), digest_size=8).digest()
        return int.from_bytes(digest, "big") % self._identity.dimension


Script: TypeAlias = Callable[[Prompt, "type[BaseModel]"], "dict[str, Any] | Exception"]
"""Function from the prompt and the model of the answer to the answer as JSON, or to the error to raise."""


@attrs.define
class ScriptedModel:
    """Answers in process, without a network. See `LanguageModel`.

    An answer is validated by the requested pydantic model, as a real one would be; an invalid one raises
    `ModelAnswerError`. There is one attempt per question: faults of a server are simulated by `LoopbackOpenAIServer`.

    Attributes:
        script: Called with the prompt and the pydantic model of the answer; returns the answer as a dict, or an error
            to raise.
        max_chars: See `LanguageModel.max_chars`.
        prompts: Every prompt so far, in order.
    """

    script: Script
    max_chars: int = attrs.field(default=24_000, kw_only=True)
    prompts: list[Prompt] = attrs.field(factory=list, init=False, repr=False)

    async def ask(self, prompt: Prompt, answer: type[AnswerT]) -> AnswerT:
        """See `LanguageModel.ask`."""
        from pydantic import ValidationError

        self.prompts.append(prompt)
        await anyio.lowlevel.checkpoint()
        match self.script(prompt, answer):
            case Exception() as error:
                raise error
            case said:
                try:
                    return answer.model_validate(said)
                except ValidationError:
                    pass
        raise ModelAnswerError(f"the scripted answer is not of type {answer.__name__}")


_CAPABILITIES: Final[tuple[type, ...]] = (KeepsLog, KeepsOutlines, ScansVectors, KeepsFiles, UpgradesFormat)


def capabilities_of(provider: AgentMemoryProvider) -> list[str]:
    """Return the names of the protocols that a provider satisfies, such as ``["KeepsLog", "KeepsFiles"]``.

    They are those of `factmem.abc.capabilities`, and `KeepsOutlines`.
    """
    return [capability.__name__ for capability in _CAPABILITIES if isinstance(provider, capability)]
