"""Language models behind OpenAI-compatible endpoints and the providers of instructor."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, Protocol, Self, TypeVar, cast
from urllib.parse import urlsplit

import anyio
import attrs
from anyio import to_thread
from anyio.lowlevel import RunVar

from factmem.abc import Prompt
from factmem.abc.model import LanguageModel
from factmem.errors import InvalidDataError, MissingPackageError, ModelUnavailableError
from factmem.llm.asking import usage_of
from factmem.llm.json_endpoint import host_of
from factmem.llm.messages import instructions_of, messages_of
from factmem.llm.request import (
    ExchangeLimits,
    ModelExchange,
    Reply,
    current_exchange,
    ending_of,
    failure_of,
    hush,
    reader_of,
    status_of_error_in,
    text_of,
)
from factmem.validators import check_text, check_whole

if TYPE_CHECKING:
    import instructor
    from pydantic import BaseModel
    from tenacity import RetryCallState

AnswerT = TypeVar("AnswerT", bound="BaseModel")

_WITHOUT_SCHEMA: Final = frozenset({"JSON", "MD_JSON"})
"""Modes whose requests hold no schema, so that the instructions have to."""
_OPENAI_HOSTS: Final = ("api.openai.com", ".openai.azure.com")
_NO_KEY: Final = "none"  # the client insists on a key, local servers do not look at it


class Endpoint(Protocol):
    """Source of clients for one model."""

    def modes(self) -> tuple[str | None, ...]:
        """Return the modes to try, in order, as names of `instructor.Mode`; None for instructor's own choice."""
        ...

    def open(self, mode: str | None) -> instructor.AsyncInstructor:
        """Return a client for a mode. This blocks: it imports heavy packages.

        Raises:
            InvalidDataError: there is no such mode, or no API key.
            ModelUnavailableError: the provider's own package is not installed, or does not start.
        """
        ...


@attrs.frozen
class OpenAIEndpoint:
    """An endpoint for OpenAI's chat completions. See `Endpoint`."""

    model: str
    base_url: str | None = attrs.field(kw_only=True)
    api_key: str | None = attrs.field(kw_only=True, repr=False)
    mode: str | None = attrs.field(kw_only=True)
    timeout: float = attrs.field(kw_only=True)

    def modes(self) -> tuple[str | None, ...]:
        """See `Endpoint.modes`. OpenAI shows a tool's schema to the model; others constrain the answer."""
        if self.mode is not None:
            return (self.mode,)
        host = urlsplit(self._address() or "").hostname or "api.openai.com"
        return ("TOOLS", "JSON_SCHEMA") if host.endswith(_OPENAI_HOSTS) else ("JSON_SCHEMA", "JSON", "MD_JSON")

    def open(self, mode: str | None) -> instructor.AsyncInstructor:
        """See `Endpoint.open`."""
        import instructor as package
        import openai

        try:
            client = openai.AsyncOpenAI(
                base_url=self.base_url,
                api_key=self._key(),
                timeout=self.timeout,
                max_retries=0,  # the exchange counts them, with the answers, within one time limit
                default_headers={"Connection": "close"},  # so that no connection must be closed
            )
        except openai.OpenAIError:
            raise InvalidDataError("there is no API key: set OPENAI_API_KEY or pass api_key=") from None
        return package.from_openai(client, mode=_mode(package, mode or "TOOLS"))

    def _address(self) -> str | None:
        return self.base_url or os.environ.get("OPENAI_BASE_URL")

    def _key(self) -> str | None:
        known = self.api_key or os.environ.get("OPENAI_API_KEY")
        return known or (_NO_KEY if self._address() else None)


@attrs.frozen
class ProviderEndpoint:
    """A model by its name for `instructor.from_provider`. See `Endpoint`."""

    name: str
    mode: str | None = attrs.field(kw_only=True)
    options: Mapping[str, Any] = attrs.field(factory=dict, kw_only=True, repr=False)

    def modes(self) -> tuple[str | None, ...]:
        """See `Endpoint.modes`. Instructor knows the mode of each provider."""
        return (self.mode,)

    def open(self, mode: str | None) -> instructor.AsyncInstructor:
        """See `Endpoint.open`."""
        import instructor as package

        provider = self.name.partition("/")[0]
        chosen: dict[str, Any] = {"mode": _mode(package, mode)} if mode else {}
        if provider == "azure_openai" and (version := os.environ.get("OPENAI_API_VERSION")):
            chosen["api_version"] = version  # which openai's client reads, unless instructor passes an old one
        try:
            client = package.from_provider(self.name, async_client=True, **{**chosen, **self.options})
        except Exception as error:  # whatever the packages of all these providers bring up
            kind = type(error).__name__
        else:
            return client
        raise ModelUnavailableError(
            f"{self.name} cannot be opened ({kind}): its package, its API key or the provider itself is missing; "
            f"run  pip install 'instructor[{provider}]'  and set the key's environment variable"
        )


def _mode(package: Any, name: str) -> Any:
    try:
        return package.Mode[name]
    except KeyError:
        raise InvalidDataError("no such mode: use TOOLS, JSON_SCHEMA, JSON or MD_JSON") from None


def _check_installed() -> None:
    """Refuse to go on without the packages that ask models. Nothing is imported.

    Raises:
        MissingPackageError: instructor or openai is not installed.
    """
    for package in ("instructor", "openai"):
        if importlib.util.find_spec(package) is None:
            raise MissingPackageError(package, extra="llm")


class InstructorModel:
    """A language model behind any OpenAI-compatible endpoint. See `LanguageModel`.

    Nothing is imported or opened before the first question. It works on asyncio and on trio, in any number of event
    loops, and keeps no connection open between questions, so that there is nothing to close.

    An answer may come in a fence, in prose or as JSON within a JSON string. A truncated one, or two of them, count as
    none. A model that refuses, is filtered or reaches its length limit is not asked again.

    No error holds text of a question or an answer. Log records of ``instructor``, ``openai`` and ``anthropic`` during a
    question are dropped, since they may hold both; other providers' packages, reached through `from_provider`, log as
    they please.

    Args:
        model: the model's name at the endpoint.
        base_url: the endpoint; None for the environment variable ``OPENAI_BASE_URL``, or OpenAI itself.
        api_key: None for the environment variable ``OPENAI_API_KEY``. Endpoints other than OpenAI may need none.
        mode: name of an `instructor.Mode`: ``TOOLS``, ``JSON_SCHEMA``, ``JSON`` or ``MD_JSON``. None for ``TOOLS``
            at OpenAI and ``JSON_SCHEMA`` elsewhere, followed by ``JSON`` and ``MD_JSON`` if the endpoint refuses; the
            first mode that it accepts is kept.
        timeout: seconds for one question, with all its requests and pauses.
        tries: maximum number of answers to a question; each after the first is requested with the faults of the one
            before.
        retries: maximum number of requests repeated after a lost connection, HTTP 429 or 5xx.
        max_chars: see `LanguageModel.max_chars`.
        temperature: None for the endpoint's default. It is left out once the endpoint refuses it.
        max_tokens: maximum length of an answer; None for the endpoint's default. It is sent as
            ``max_completion_tokens`` once the endpoint asks for that.
        pause: seconds before the first retry; doubled each time, up to 8. ``Retry-After`` takes precedence.
        longest_wait: seconds; a question whose endpoint asks for a longer ``Retry-After`` fails at once.

    Raises:
        InvalidDataError: a number is out of its range; at the first question: there is no such mode, or no API key.
        MissingPackageError: the package ``instructor`` or ``openai`` is not installed.

    Example:
        >>> model = InstructorModel("qwen3:4b", base_url="http://127.0.0.1:11434/v1")
        >>> model = language_model("anthropic/claude-sonnet-4-5")
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        mode: str | None = None,
        timeout: float = 60.0,
        tries: int = 3,
        retries: int = 2,
        max_chars: int = 24_000,
        temperature: float | None = 0.0,
        max_tokens: int | None = None,
        pause: float = 0.5,
        longest_wait: float = 30.0,
    ) -> None:
        limits = ExchangeLimits(timeout=timeout, tries=tries, retries=retries, pause=pause, longest_wait=longest_wait)
        endpoint = OpenAIEndpoint(model, base_url=base_url, api_key=api_key, mode=mode, timeout=timeout)
        options = {"model": model, "temperature": temperature, "max_tokens": max_tokens}
        self._set_up(endpoint, limits, max_chars, options)

    def _set_up(self, endpoint: Endpoint, limits: ExchangeLimits, max_chars: int, options: Mapping[str, Any]) -> None:
        self._max_chars = check_whole(max_chars, "max_chars", least=1)
        _check_installed()
        self._endpoint, self._limits = endpoint, limits
        self._options: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
        self._settled: str | None = None
        self._clients: RunVar[dict[str | None, instructor.AsyncInstructor]] = RunVar("factmem_llm_clients")

    @classmethod
    def from_provider(
        cls,
        name: str,
        *,
        mode: str | None = None,
        timeout: float = 60.0,
        tries: int = 3,
        retries: int = 2,
        max_chars: int = 24_000,
        temperature: float | None = None,
        pause: float = 0.5,
        longest_wait: float = 30.0,
        **options: Any,
    ) -> Self:
        """Return a model of any provider of `instructor.from_provider`.

        Args:
            name: provider and model: ``anthropic/claude-sonnet-4-5``. The provider's package must be installed.
            mode: name of an `instructor.Mode`; None for instructor's choice for this provider.
            timeout: as in the constructor.
            tries: as in the constructor.
            retries: as in the constructor; the provider's package may repeat requests of its own.
            max_chars: as in the constructor.
            temperature: as in the constructor.
            pause: as in the constructor.
            longest_wait: as in the constructor.
            options: passed to `instructor.from_provider`: ``api_key`` and so on.

        Raises:
            InvalidDataError: the name is not of the form ``provider/model``, or a number is out of its range.
            MissingPackageError: the package ``instructor`` or ``openai`` is not installed.
        """
        provider, _, model = name.partition("/")
        if not provider or not model:
            raise InvalidDataError("a provider's model is named as in 'anthropic/claude-sonnet-4-5'")
        limits = ExchangeLimits(timeout=timeout, tries=tries, retries=retries, pause=pause, longest_wait=longest_wait)
        made = cls.__new__(cls)
        made._set_up(
            ProviderEndpoint(name, mode=mode, options=options), limits, max_chars, {"temperature": temperature}
        )
        return made

    def __repr__(self) -> str:
        return f"InstructorModel({self._endpoint!r})"

    @property
    def max_chars(self) -> int:
        """See `LanguageModel.max_chars`."""
        return self._max_chars

    async def ask(self, prompt: Prompt, answer: type[AnswerT]) -> AnswerT:
        """See `LanguageModel.ask`."""
        exchange = ModelExchange(answer, self._limits)
        modes = self._modes_left()
        await self._client(modes[0])  # imports do not count in the time limit
        with anyio.move_on_after(self._limits.timeout) as scope:
            for mode in modes:
                await self._ask_in(mode, prompt, exchange)
                if not exchange.is_misunderstood():
                    break
        exchange.too_slow = scope.cancelled_caught
        if exchange.found is None:
            raise failure_of(
                exchange, unanswered="the endpoint did not answer with a chat completion ({}): is its address right?"
            )
        return exchange.found

    def _modes_left(self) -> tuple[str | None, ...]:
        """Return the modes to try, from the one that the endpoint accepted before."""
        modes = self._endpoint.modes()
        return modes[modes.index(self._settled) :] if self._settled in modes else modes

    async def _ask_in(self, mode: str | None, prompt: Prompt, exchange: ModelExchange[AnswerT]) -> None:
        await self._request(mode, prompt, exchange)
        while self._gives_way(exchange):
            await self._request(mode, prompt, exchange)
        if exchange.answers and self._settled is None:
            self._settled = mode

    def _gives_way(self, exchange: ModelExchange[Any]) -> bool:
        """Change an option that the endpoint refused, as those of reasoning models do; return whether there was one."""
        options = self._options
        if "max_tokens" in options and exchange.is_refused_over("max_completion_tokens"):
            options["max_completion_tokens"] = options.pop("max_tokens")
            return True
        return exchange.is_refused_over("temperature") and options.pop("temperature", None) is not None

    async def _request(self, mode: str | None, prompt: Prompt, exchange: ModelExchange[AnswerT]) -> None:
        """Send the question through instructor. Errors are kept in the exchange and not raised."""
        from tenacity import AsyncRetrying

        client = await self._client(mode)

        def goes_on(state: RetryCallState) -> bool:
            error = state.outcome.exception() if state.outcome is not None else None
            return isinstance(error, Exception) and exchange.goes_on_after(error)  # else all is well, or cancelled

        retrying = AsyncRetrying(
            before=lambda state: exchange.begin_request(),
            retry=goes_on,
            wait=lambda state: exchange.pause,
            sleep=anyio.sleep,
            reraise=True,
        )
        # Engines that constrain an answer do not show its schema to the model, which worked examples do.
        unseen = mode in _WITHOUT_SCHEMA or (mode == "JSON_SCHEMA" and not prompt.examples)
        exchange.instructions = instructions_of(prompt, exchange.answer, show_schema=unseen)
        messages = messages_of(prompt, exchange.instructions)
        exchange.error = None
        hush()
        try:
            with exchange.running():
                await client.create(
                    response_model=reader_of(exchange.answer),
                    messages=cast("Any", messages),
                    max_retries=retrying,
                    **self._options,
                )
        except Exception as error:  # instructor's own, the client's, or one from a parser of theirs
            exchange.error = exchange.error or error

    async def _client(self, mode: str | None) -> instructor.AsyncInstructor:
        """Return this event loop's client for a mode."""
        clients = self._clients.get({})
        if mode not in clients:
            client = await to_thread.run_sync(self._endpoint.open, mode, abandon_on_cancel=True)  # imports take long
            client.on("completion:kwargs", cast("Any", _speak))
            client.on("completion:response", _hear)
            client.on("completion:response", _fill_usage)
            clients[mode] = client
            self._clients.set(clients)
        return clients[mode]


def _speak(**request: Any) -> None:
    """Replace the system message of a request that instructor has prepared.

    For answers in JSON, ``instructor`` adds the schema in its long form and words of its own.
    """
    exchange = current_exchange()
    if exchange is None:
        return
    match request.get("messages"):
        case [{"role": "system", "content": str()} as first, *_]:
            first["content"] = exchange.instructions


def _hear(response: Any) -> None:
    exchange, status = current_exchange(), status_of_error_in(response)
    if exchange is None or (status is None and not getattr(response, "choices", True)):
        return  # a chat completion without choices is the JSON of another address
    exchange.hear(Reply(said=text_of(response), ending=ending_of(response), usage=usage_of(response), status=status))


def _fill_usage(response: Any) -> None:
    """Give a chat completion without a usage one of zero tokens.

    To see whether it is one of Anthropic's, instructor would import that package in the event loop, for seconds.
    """
    from openai.types import CompletionUsage
    from openai.types.chat import ChatCompletion

    if isinstance(response, ChatCompletion) and response.usage is None:
        response.usage = CompletionUsage(completion_tokens=0, prompt_tokens=0, total_tokens=0)


_KEY_VARIABLE: Final = "FACTMEM_MODEL_API_KEY"
_PROVIDER: Final = r"[A-Za-z0-9]+(?:[-_][A-Za-z0-9]+)*"


def language_model(address: str) -> LanguageModel:
    """Return the language model at an address. Nothing is opened before its first question.

    Keys come from the environment, never from the address: ``OPENAI_API_KEY`` for OpenAI itself and for the address in
    ``OPENAI_BASE_URL``, ``FACTMEM_MODEL_API_KEY`` for any other URL, and the provider's own variable
    (``ANTHROPIC_API_KEY`` and so on) for the rest. Azure's endpoint is in ``AZURE_OPENAI_ENDPOINT``, its key in
    ``AZURE_OPENAI_API_KEY``, and the version of its API, if it is another than instructor's, in ``OPENAI_API_VERSION``.

    Args:
        address: ``http://127.0.0.1:8080/v1#MODEL`` for an OpenAI-compatible server, ``openai/MODEL`` for OpenAI (or
            the address in ``OPENAI_BASE_URL``), ``PROVIDER/MODEL`` for any other provider of instructor, such as
            ``azure_openai/DEPLOYMENT``.

    Raises:
        InvalidDataError: the address has none of these forms.
        MissingPackageError: the package ``instructor`` or ``openai`` is not installed.
    """
    check_text(address, path="$.model")
    kind, _, model = address.partition("/")
    if kind in {"http:", "https:"}:
        return _at_url(address)
    if not re.fullmatch(_PROVIDER, kind) or not model:
        raise InvalidDataError("a language model is named openai/MODEL, PROVIDER/MODEL or http://HOST:PORT/v1#MODEL")
    return InstructorModel(model) if kind == "openai" else InstructorModel.from_provider(address)


def _at_url(address: str) -> LanguageModel:
    base_url, _, model = address.partition("#")
    host = host_of(base_url)
    if not model or not host:
        raise InvalidDataError(f"write a server's address as http://HOST:PORT/v1#MODEL, its key into {_KEY_VARIABLE}")
    key = os.environ.get(_KEY_VARIABLE) or _openai_key(host)
    return InstructorModel(model, base_url=base_url, api_key=key)


def _openai_key(host: str) -> str:
    """Return OpenAI's key for OpenAI's hosts only, so that no other server receives it."""
    meant_for = {"api.openai.com", urlsplit(os.environ.get("OPENAI_BASE_URL", "")).hostname}
    return os.environ.get("OPENAI_API_KEY", _NO_KEY) if host in meant_for else _NO_KEY
