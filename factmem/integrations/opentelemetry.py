"""Memory in OpenTelemetry: a span and a duration for every operation.

    memory = Memory("facts.db", observers=[OpenTelemetryObserver()])

Names are those of the GenAI semantic conventions (status: Development) of
https://github.com/open-telemetry/semantic-conventions-genai as of 2026, with its memory operations:

- Spans have the kind INTERNAL, or CLIENT for calls of language models. Their names are ``gen_ai.operation.name``:
  ``search_memory`` for operations that read records; ``upsert_memory``, ``create_memory``, ``update_memory`` and
  ``delete_memory`` for those that change them; ``embeddings`` and ``chat`` for models. Operations without a name in
  the conventions keep their own (`factmem.abc.observer.Operation`).
- Attributes: ``gen_ai.provider.name`` (``factmem``), ``gen_ai.memory.store.id`` (the organization, if there is one),
  ``gen_ai.memory.record.count``, ``gen_ai.request.model``, ``gen_ai.usage.input_tokens`` and ``.output_tokens``,
  ``gen_ai.usage.cache_read.input_tokens``, ``error.type``. Attributes outside of the conventions:
  ``factmem.operation``, ``factmem.scope``, ``factmem.requests``, ``factmem.count.in`` and ``factmem.count.out``.
- Content is off by default. With ``observed_content=True`` in `Memory`, spans also have ``gen_ai.memory.query.text``
  and ``gen_ai.memory.records`` (as JSON).
- Metrics: the histograms ``gen_ai.client.operation.duration`` and ``gen_ai.client.token.usage``. Outside of the
  conventions, the counters ``factmem.assertions``, by ``factmem.effect`` (`factmem.abc.observer.Effect`), and
  ``factmem.findings.dropped``, by ``factmem.reason`` (`factmem.abc.detector.DropReason`). A dashboard for Grafana shows
  all of them: ``docs/pages/how-to/grafana.json``.

Requires the extra ``otel``, which installs the API only. Without an SDK in the program, the observer has no effect.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final, assert_never

from factmem.abc import OperationCompleted, OperationEvent, OperationFailed, OperationStarted
from factmem.abc.observer import Operation
from factmem.changes import Change
from factmem.errors import MissingPackageError
from factmem.facts import MultipleFacts, SingleFact
from factmem.records import FactRecord

with MissingPackageError.if_missing("opentelemetry-api", extra="otel"):
    from opentelemetry import context, metrics, trace

if TYPE_CHECKING:
    from contextvars import Token

    from opentelemetry.context import Context
    from opentelemetry.metrics import Counter, Histogram, MeterProvider
    from opentelemetry.trace import Span, Tracer, TracerProvider

_READING: Final = {
    *(Operation.LOAD, Operation.PROFILE, Operation.RECALL, Operation.GET),
    *(Operation.HISTORY, Operation.LIST_RECORDS),
}
_UPSERTING: Final = {
    *(Operation.SAVE, Operation.SAVE_MANY, Operation.SAVE_PROFILE, Operation.REMEMBER, Operation.REMEMBER_MANY),
    *(Operation.GENERATE, Operation.INGEST_EVENTS),
}
_UPDATING: Final = {
    *(Operation.UPDATE, Operation.RESTORE, Operation.ROLLBACK, Operation.UNDO),
    *(Operation.QUARANTINE_ACCEPT, Operation.QUARANTINE_REJECT),
}
_DELETING: Final = {Operation.RETRACT, Operation.FORGET, Operation.RESET, Operation.EXPIRE}
_NAMES: Final[Mapping[Operation, str]] = {
    **dict.fromkeys(_READING, "search_memory"),
    **dict.fromkeys(_UPSERTING, "upsert_memory"),
    **dict.fromkeys(_UPDATING, "update_memory"),
    **dict.fromkeys(_DELETING, "delete_memory"),
    Operation.IMPORT: "create_memory",
    Operation.EMBED: "embeddings",
    Operation.RERANK: "rerank",
    Operation.ASK: "chat",
}
_OF_MODELS: Final = {Operation.EMBED, Operation.RERANK, Operation.ASK}
_OF_RECORDS: Final = _NAMES.keys() - _OF_MODELS
_SECONDS: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92)
_TOKENS: Final = tuple(4**power for power in range(14))


class OpenTelemetryObserver:
    """A `factmem.abc.MemoryObserver` that records the operations of a memory as spans and metrics.

    The parent of a span is the enclosing operation, or else the program's current span. The span is current during
    its operation, also in tasks and threads started within, so spans of instrumented clients and databases become its
    children. Background processing belongs to the operation that submitted it.

    Args:
        tracer_provider: Provider of the tracer (default: the program's).
        meter_provider: Provider of the meter (default: the program's).
        models: Whether calls of embedders and language models are recorded. Set it to False if the models' clients
            are instrumented themselves; otherwise tokens are counted twice.
    """

    def __init__(
        self,
        *,
        tracer_provider: TracerProvider | None = None,
        meter_provider: MeterProvider | None = None,
        models: bool = True,
    ) -> None:
        self._tracer: Tracer = trace.get_tracer("factmem", tracer_provider=tracer_provider)
        meter = metrics.get_meter("factmem", meter_provider=meter_provider)
        self._durations: Histogram = meter.create_histogram(
            "gen_ai.client.operation.duration",
            unit="s",
            description="GenAI operation duration.",
            explicit_bucket_boundaries_advisory=_SECONDS,
        )
        self._tokens: Histogram = meter.create_histogram(
            "gen_ai.client.token.usage",
            unit="{token}",
            description="Number of input and output tokens used.",
            explicit_bucket_boundaries_advisory=_TOKENS,
        )
        self._assertions: Counter = meter.create_counter(
            "factmem.assertions", unit="{assertion}", description="Number of assertions by the effect of a commit."
        )
        self._dropped: Counter = meter.create_counter(
            "factmem.findings.dropped", unit="{finding}", description="Number of findings of a model that were dropped."
        )
        self._left_out: frozenset[Operation] = frozenset() if models else frozenset(_OF_MODELS)
        self._under_way: dict[str, tuple[Span, Token[Context]]] = {}

    def __call__(self, event: OperationEvent, /) -> None:
        """See `factmem.abc.MemoryObserver`."""
        if event.operation in self._left_out:
            return
        match event:
            case OperationStarted():
                self._begin(event)
            case OperationCompleted() | OperationFailed():
                self._measure(event)
                self._end(event)
            case _:
                assert_never(event)

    def _begin(self, event: OperationStarted) -> None:
        known = {
            "gen_ai.operation.name": _name(event),
            "gen_ai.provider.name": "factmem",
            "gen_ai.memory.store.id": event.tenant,
            "factmem.operation": event.operation.value,
            "factmem.scope": event.scope,
            "factmem.count.in": event.records_in,
            "gen_ai.memory.query.text": _query(event.arguments or {}),
        }
        span = self._tracer.start_span(
            _name(event),
            kind=trace.SpanKind.CLIENT if event.operation is Operation.ASK else trace.SpanKind.INTERNAL,
            attributes={name: value for name, value in known.items() if value is not None},
        )
        self._under_way[event.id] = (span, context.attach(trace.set_span_in_context(span)))

    def _end(self, event: OperationCompleted | OperationFailed) -> None:
        span, token = self._under_way.pop(event.id)
        context.detach(token)
        known: dict[str, Any] = {
            "gen_ai.request.model": event.model,
            "gen_ai.usage.input_tokens": event.input_tokens,
            "gen_ai.usage.cache_read.input_tokens": event.cached_tokens,
            "factmem.requests": event.requests,
            "gen_ai.usage.output_tokens": event.output_tokens,
        }
        match event:
            case OperationCompleted(records_out=count, result=result):
                known["gen_ai.memory.record.count" if event.operation in _OF_RECORDS else "factmem.count.out"] = count
                if result is not None and event.operation in _OF_RECORDS and span.is_recording():
                    records = [*_records(result)]
                    known["gen_ai.memory.records"] = json.dumps(records, ensure_ascii=False, default=str)
            case OperationFailed(error=failure):
                known["error.type"] = failure
                span.set_status(trace.StatusCode.ERROR)
            case _:
                assert_never(event)
        span.set_attributes({name: value for name, value in known.items() if value is not None})
        if event.model is not None:
            span.update_name(f"{_name(event)} {event.model}")
        span.end()

    def _measure(self, event: OperationCompleted | OperationFailed) -> None:
        known = {
            "gen_ai.operation.name": _name(event),
            "gen_ai.provider.name": "factmem",
            "gen_ai.request.model": event.model,
            "factmem.operation": event.operation.value,
        }
        labels = {name: value for name, value in known.items() if value is not None}
        failed = {"error.type": event.error} if isinstance(event, OperationFailed) else {}
        self._durations.record(event.duration, {**labels, **failed})
        for kind, tokens in (("input", event.input_tokens), ("output", event.output_tokens)):
            if tokens is not None:
                self._tokens.record(tokens, {**labels, "gen_ai.token.type": kind})
        if isinstance(event, OperationCompleted):
            for effect, number in event.effects.items():
                self._assertions.add(number, {"factmem.effect": effect.value})
            for reason, number in event.dropped.items():
                self._dropped.add(number, {"factmem.reason": reason.name.lower()})


def _name(event: OperationEvent) -> str:
    return _NAMES.get(event.operation, event.operation.value)


def _query(arguments: Mapping[str, Any]) -> str | None:
    found = arguments.get("query", arguments.get("question"))
    return found if isinstance(found, str) else None


def _records(result: object) -> Iterator[dict[str, Any]]:
    """Yield the records of a result in the form of the semantic conventions."""
    match result:
        case FactRecord():
            about = {"concept": result.concept.keyword, "subject": str(result.subject), "scope": str(result.scope)}
            yield {"id": result.id, "content": result.value, "metadata": about}
        case SingleFact() | MultipleFacts():
            for value in result.values:
                yield {"content": value, "metadata": {"concept": result.concept.keyword}}
        case Change():
            yield from _records(result.record)
        case list() | tuple():
            for item in result:
                yield from _records(item)
        case _ if (record := getattr(result, "record", None)) is not None:
            for found in _records(record):
                yield {**found, "score": getattr(result, "score", None)}
        case _:
            yield from _records(getattr(result, "records", getattr(result, "matches", ())))
