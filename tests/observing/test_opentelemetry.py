"""OpenTelemetry: spans that form the tree of operations, metrics, and content on request only."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import anyio
import attrs
import pytest
from anyio import to_thread
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Histogram, HistogramDataPoint, InMemoryMetricReader, Metric, Sum
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, format_span_id

from factmem import BlockingMemory, FactDetails, InMemoryProvider, Memory, Message, MultipleFacts, Origin, SingleFact
from factmem.abc import Prompt
from factmem.abc.observer import Effect
from factmem.errors import ModelUnavailableError, RecordNotFoundError
from factmem.integrations.opentelemetry import OpenTelemetryObserver
from factmem.llm import InstructorModel
from factmem.testing import HashEmbedder, ScriptedModel
from factmem.testing.chat_answers import chat_answer
from factmem.testing.openai_server import LoopbackOpenAIServer
from tests.memory.telling import CITY, PETS, SEATS, SOON, USER, opened, over_the_wire, talk, well
from tests.narrowing import not_none

pytestmark = pytest.mark.slow


class Telemetry:
    """An SDK that keeps its spans and metrics in memory."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.tracing = TracerProvider()
        self.tracing.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.reader = InMemoryMetricReader()
        self.metering = MeterProvider([self.reader])

    def observer(self, **options: bool) -> OpenTelemetryObserver:
        """Return an observer that exports to this SDK."""
        return OpenTelemetryObserver(tracer_provider=self.tracing, meter_provider=self.metering, **options)

    def spans(self, name: str) -> list[ReadableSpan]:
        """Return the ended spans of an operation, by `gen_ai.operation.name`, in the order begun."""
        ended = [span for span in self.exporter.get_finished_spans() if _of(span)["gen_ai.operation.name"] == name]
        return sorted(ended, key=lambda span: span.start_time or 0)

    def parent(self, span: ReadableSpan) -> str | None:
        """Return the name of a span's parent."""
        if span.parent is None:
            return None
        spans = {item.context.span_id: item for item in self.exporter.get_finished_spans() if item.context}
        return spans[span.parent.span_id].name

    def points(self, metric: str) -> list[HistogramDataPoint]:
        """Return the points of one histogram."""
        data = not_none(self.reader.get_metrics_data())
        metrics: list[Metric] = [
            item for resource in data.resource_metrics for scope in resource.scope_metrics for item in scope.metrics
        ]
        return [
            point
            for item in metrics
            if item.name == metric
            for point in item.data.data_points
            if isinstance(point, HistogramDataPoint)
        ]


def _of(span: ReadableSpan) -> Mapping[str, Any]:
    return span.attributes or {}


@pytest.fixture
def telemetry(monkeypatch: pytest.MonkeyPatch) -> Telemetry:
    """An SDK without any spans."""
    monkeypatch.delenv("OTEL_SDK_DISABLED", raising=False)
    return Telemetry()


def watched(telemetry: Telemetry, **options: Any) -> Memory:
    """A memory with an observer that exports spans."""
    return opened(InMemoryProvider(), observers=[telemetry.observer()], **options)


async def test_operations_go_by_the_names_of_the_conventions(telemetry: Telemetry) -> None:
    """Spans have counts; operations without a conventional name keep their own."""
    async with watched(telemetry, organization="acme") as memory:
        (record,) = await memory.save(SingleFact(SEATS, 5), scope="/product/alpha")
        await memory.recall("seats")
        await memory.update(record.id, value=6)
        await memory.admin.tree()
        await memory.forget(record.id)
    (saved,) = telemetry.spans("upsert_memory")
    assert saved.kind is SpanKind.INTERNAL
    assert dict(_of(saved)) == {
        "gen_ai.operation.name": "upsert_memory",
        "gen_ai.provider.name": "factmem",
        "gen_ai.memory.store.id": "acme",
        "gen_ai.memory.record.count": 1,
        "factmem.operation": "save",
        "factmem.scope": "/product/alpha",
        "factmem.count.in": 1,
    }
    assert [_of(span)["factmem.operation"] for span in telemetry.spans("search_memory")] == ["recall"]
    assert [span.name for name in ("update_memory", "delete_memory", "tree") for span in telemetry.spans(name)] == [
        "update_memory",
        "delete_memory",
        "tree",
    ]


async def test_spans_nest_as_operations_do(telemetry: Telemetry) -> None:
    """This holds across awaits, for concurrent operations, and below the program's current span."""
    tracer = telemetry.tracing.get_tracer("program")

    async def turn(value: int) -> None:
        with tracer.start_as_current_span(f"turn {value}", attributes={"gen_ai.operation.name": "turn"}):
            await memory.save(SingleFact(SEATS, value))

    async with watched(telemetry) as memory, anyio.create_task_group() as tasks:
        for value in range(3):
            tasks.start_soon(turn, value)
    saves = telemetry.spans("upsert_memory")
    assert sorted(telemetry.parent(save) or "" for save in saves) == ["turn 0", "turn 1", "turn 2"]
    below = {
        format_span_id(span.parent.span_id)
        for name in ("embeddings", "commit")
        for span in telemetry.spans(name)
        if span.parent
    }
    assert below == {format_span_id(save.context.span_id) for save in saves if save.context}


async def test_a_span_is_current_within_worker_threads_too(telemetry: Telemetry) -> None:
    """Instrumented calls in the thread then find their parent."""
    tracer = telemetry.tracing.get_tracer("driver")

    def query() -> None:
        tracer.start_span("SELECT", attributes={"gen_ai.operation.name": "select"}).end()

    class Embedding(HashEmbedder):
        async def embed(self, texts: Any) -> Any:
            await to_thread.run_sync(query)
            return await super().embed(texts)

    async with watched(telemetry, embedder=Embedding()) as memory:
        await memory.recall("seats")
    (selected,) = telemetry.spans("select")
    assert (telemetry.parent(selected) or "").startswith("embeddings ")


def test_spans_of_the_blocking_twin_lie_below_the_caller_s(telemetry: Telemetry) -> None:
    """Its event loop runs in another thread."""
    tracer = telemetry.tracing.get_tracer("program")
    with BlockingMemory(watched(telemetry)) as memory:
        with tracer.start_as_current_span("turn", attributes={"gen_ai.operation.name": "turn"}):
            memory.save(SingleFact(SEATS, 5))
        memory.load(SEATS)
    (saved,), (loaded,) = telemetry.spans("upsert_memory"), telemetry.spans("search_memory")
    assert (telemetry.parent(saved), telemetry.parent(loaded)) == ("turn", None)


async def test_what_is_read_in_the_background_lies_below_what_handed_it_over(telemetry: Telemetry) -> None:
    """They share a trace, down to the questions to the model."""
    async with opened(InMemoryProvider(), ScriptedModel(well), observers=[telemetry.observer()]) as memory:
        await (await memory.remember_many([talk("I live in Lima")], subject=USER)).wait()
    (handed,) = telemetry.spans("upsert_memory")
    asked = telemetry.spans("chat")
    assert asked
    assert {span.context.trace_id for span in asked if span.context} == {
        handed.context.trace_id if handed.context else 0
    }
    assert telemetry.parent(telemetry.spans("read")[0]) == "upsert_memory"
    assert telemetry.parent(asked[0]) == "detect"


async def test_a_question_has_its_model_and_tokens(telemetry: Telemetry) -> None:
    """Both the span and the histogram have them."""
    with LoopbackOpenAIServer(lambda path, request: chat_answer(over_the_wire(request))) as server:
        model = InstructorModel("tiny", base_url=server.base_url)
        async with opened(InMemoryProvider(), model, observers=[telemetry.observer()]) as memory:
            await memory.remember(talk("I live in Lima"), subject=USER)
    asked = telemetry.spans("chat")[0]
    name = _of(asked)["gen_ai.request.model"]
    assert (asked.name, asked.kind) == (f"chat {name}", SpanKind.CLIENT)
    assert _of(asked)["gen_ai.usage.input_tokens"] > 0
    kinds = {(point.attributes or {})["gen_ai.token.type"] for point in telemetry.points("gen_ai.client.token.usage")}
    assert kinds == {"input", "output"}


async def test_models_can_be_left_to_instrumentation_of_their_clients(telemetry: Telemetry) -> None:
    """Otherwise their tokens would be counted twice."""
    async with opened(InMemoryProvider(), observers=[telemetry.observer(models=False)]) as memory:
        await memory.recall("seats")
    assert telemetry.spans("embeddings") == []
    assert len(telemetry.spans("search_memory")) == 1


async def test_a_failure_is_an_error_by_its_type(telemetry: Telemetry) -> None:
    """The span and the duration have the type, and nothing else."""
    async with watched(telemetry) as memory:
        with pytest.raises(RecordNotFoundError):
            await memory.get("nobody knows")
    (span,) = telemetry.spans("search_memory")
    assert (span.status.status_code, span.status.description) == (StatusCode.ERROR, None)
    assert _of(span)["error.type"] == "RecordNotFoundError"
    assert not span.events
    points = telemetry.points("gen_ai.client.operation.duration")
    assert [(point.attributes or {}).get("error.type") for point in points if point.attributes] == [
        "RecordNotFoundError",
        None,
    ]


async def test_durations_are_measured_by_operation(telemetry: Telemetry) -> None:
    """Durations are in seconds, with one point for each operation."""
    async with watched(telemetry) as memory:
        for _ in range(3):
            await memory.load(SEATS)
    points = telemetry.points("gen_ai.client.operation.duration")
    (loads,) = [point for point in points if (point.attributes or {}).get("factmem.operation") == "load"]
    assert loads.count == 3
    assert 0 < loads.sum < 60


@pytest.mark.parametrize("content", [False, True])
async def test_content_is_exported_on_request_only(telemetry: Telemetry, content: bool) -> None:
    """The content is the query and the records with their scores, in the form of the conventions."""
    async with watched(telemetry, observed_content=content) as memory:
        (record,) = await memory.save(SingleFact(CITY, "Samarkand"))
        (match,) = await memory.recall("Samarkand")
        await memory.load(CITY)
        await memory.list_records(limit=100)
        await memory.retract(record.id)
    exported = repr([dict(_of(span)) for span in telemetry.exporter.get_finished_spans()])
    assert ("Samarkand" in exported) is content
    if content:
        recalled = _of(telemetry.spans("search_memory")[0])
        assert recalled["gen_ai.memory.query.text"] == "Samarkand"
        (found,) = json.loads(recalled["gen_ai.memory.records"])
        assert (found["id"], found["content"], found["score"]) == (record.id, "Samarkand", match.score)
        every = [span for name in ("search_memory", "upsert_memory", "delete_memory") for span in telemetry.spans(name)]
        assert [json.loads(_of(span)["gen_ai.memory.records"])[0]["content"] for span in every] == ["Samarkand"] * 5


# The dashboard for Grafana in the documentation asks only for metrics that `OpenTelemetryObserver` really emits.

DASHBOARD = Path(__file__).parents[2] / "docs" / "pages" / "how-to" / "grafana.json"

SELECTOR = re.compile(r"\b([a-z_]+_(?:bucket|sum|count|total))(?:\{([^}]*)\})?")
MATCHER = re.compile(r'(\w+)(=~|!=|=)"([^"]*)"')
GROUPING = re.compile(r"\bby \(([^)]*)\)")

Labels = dict[str, set[str]]


@attrs.frozen
class Query:
    """A query of the dashboard: its metrics with the labels and values asked for."""

    panel: str
    expression: str
    legend: str

    @property
    def selectors(self) -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
        for name, matchers in SELECTOR.findall(self.expression):
            yield name, MATCHER.findall(matchers)

    @property
    def shown(self) -> set[str]:
        """Labels that the results keep, or that the legend names."""
        grouped = {label.strip() for group in GROUPING.findall(self.expression) for label in group.split(",")}
        return grouped | set(re.findall(r"\{\{(\w+)\}\}", self.legend))


def queries(dashboard: Mapping[str, Any]) -> list[Query]:
    return [
        Query(panel["title"], target["expr"], target.get("legendFormat", ""))
        for panel in dashboard["panels"]
        for target in panel["targets"]
    ]


def flaws(dashboard: Mapping[str, Any], emitted: Mapping[str, Labels]) -> list[str]:
    """Return what a dashboard asks for and nobody emits."""
    found = []
    for query in queries(dashboard):
        metrics = [*query.selectors]
        if not metrics:
            found.append(f"{query.panel}: no metric")
        for name, matchers in metrics:
            labels = emitted.get(name)
            if labels is None:
                found.append(f"{query.panel}: no metric {name}")
                continue
            found += [f"{query.panel}: no label {label}" for label in query.shown - labels.keys()]
            for label, how, wanted in matchers:
                values = wanted.split("|") if how == "=~" else [wanted] if how == "=" else []
                found += [f"{query.panel}: no label {label}"] if label not in labels else []
                found += [
                    f"{query.panel}: no {label}={value}" for value in values if value not in labels.get(label, ())
                ]
    return found


def in_prometheus(metrics: list[Metric]) -> dict[str, Labels]:
    """Return the series of metrics, as Prometheus names them, with their labels and values.

    The rules are those of OpenTelemetry's specification "Prometheus and OpenMetrics Compatibility": characters other
    than letters and digits become ``_``, a unit is appended unless it is an annotation in braces, and so is ``total``
    to a counter.
    """
    series: dict[str, Labels] = defaultdict(lambda: defaultdict(set))
    for metric in metrics:
        name = re.sub(r"[^a-zA-Z0-9]", "_", metric.name) + {"s": "_seconds"}.get(metric.unit or "", "")
        assert metric.unit == "s" or (metric.unit or "").startswith("{")
        match metric.data:
            case Histogram():
                names = [f"{name}_{part}" for part in ("bucket", "sum", "count")]
            case Sum(is_monotonic=True):
                names = [f"{name}_total"]
            case other:
                raise AssertionError(f"{metric.name} is a {type(other).__name__}")
        for point in metric.data.data_points:
            for label, value in (point.attributes or {}).items():
                for each in names:
                    series[each][re.sub(r"[^a-zA-Z0-9]", "_", label)].add(str(value))
    for each, labels in series.items():
        if each.endswith("_bucket"):
            labels["le"] = set()
    return series


def read_of(reader: InMemoryMetricReader) -> list[Metric]:
    data = not_none(reader.get_metrics_data())
    return [item for resource in data.resource_metrics for scope in resource.scope_metrics for item in scope.metrics]


def failing(prompt: Prompt, answer: Any) -> Exception:
    return ModelUnavailableError("away")


async def _lived(observer: OpenTelemetryObserver) -> None:
    """Have a memory do everything that the dashboard shows."""
    quoteless = {"city": [{"quote": "nobody said so", "message": 1, "value": "Rome"}]}

    def answer(path: str, request: dict[str, Any]) -> Any:
        found = over_the_wire(request)
        return chat_answer({**found, **quoteless} if "city" in found else found)

    with LoopbackOpenAIServer(answer) as server:
        model = InstructorModel("tiny", base_url=server.base_url)
        async with opened(InMemoryProvider(), model, observers=[observer]) as memory:
            await memory.remember(talk("I have a dog"), subject=USER)
            (record,) = await memory.save(SingleFact(SEATS, 5))
            await memory.retract(record.id)
            await memory.restore(record.id)
            for number in range(2):
                said = MultipleFacts(PETS, (f"a page's pet {number}",))
                await memory.save(said, details=FactDetails(origin=Origin.DOCUMENT))
            accepted, rejected = await memory.inbox.quarantine.list()
            await memory.inbox.quarantine.accept(accepted.id)
            await memory.inbox.quarantine.reject(rejected.id)
            await memory.recall("seats")
            await memory.remember([Message(content="Forget that I have a dog", id="m9")], subject=USER)
            with pytest.raises(RecordNotFoundError):
                await memory.get("nobody knows")
    async with opened(InMemoryProvider(), ScriptedModel(failing), observers=[observer], background=SOON) as memory:
        for text in ("I live in Lima", "I live in Rome"):
            await (await memory.remember_many([talk(text)], subject=USER)).wait()
        first, second = await memory.inbox.dead_letters.list()
        await memory.inbox.dead_letters.retry(first.id)
        await memory.inbox.dead_letters.dismiss(second.id)


@pytest.fixture
async def emitted(monkeypatch: pytest.MonkeyPatch) -> Mapping[str, Labels]:
    """The series that a real SDK exports of a memory that did everything."""
    monkeypatch.delenv("OTEL_SDK_DISABLED", raising=False)
    reader = InMemoryMetricReader()
    await _lived(OpenTelemetryObserver(meter_provider=MeterProvider([reader])))
    return in_prometheus(read_of(reader))


@pytest.fixture
def dashboard() -> dict[str, Any]:
    read: dict[str, Any] = json.loads(DASHBOARD.read_text(encoding="utf-8"))
    return read


async def test_the_dashboard_asks_only_for_what_is_emitted(
    dashboard: dict[str, Any], emitted: Mapping[str, Labels]
) -> None:
    assert flaws(dashboard, emitted) == []


async def test_every_metric_and_every_effect_is_shown(dashboard: dict[str, Any], emitted: Mapping[str, Labels]) -> None:
    asked = {name.rpartition("_")[0] for query in queries(dashboard) for name, _ in query.selectors}
    assert asked == {name.rpartition("_")[0] for name in emitted}
    effects = {
        effect
        for query in queries(dashboard)
        for _, matchers in query.selectors
        for label, _, wanted in matchers
        if label == "factmem_effect"
        for effect in wanted.split("|")
    }
    assert effects == {effect.value for effect in Effect} == emitted["factmem_assertions_total"]["factmem_effect"]
