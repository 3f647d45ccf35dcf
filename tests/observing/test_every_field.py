"""Every field of an event is filled by some operation, exported by OpenTelemetry and named by the docs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import attrs
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader, NumberDataPoint
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from factmem import InMemoryProvider, MemoryScope
from factmem.abc import OperationCompleted, OperationEvent, OperationFailed, OperationStarted
from factmem.abc.observer import Operation
from factmem.errors import RecordNotFoundError
from factmem.integrations.opentelemetry import OpenTelemetryObserver
from factmem.llm import InstructorModel
from factmem.testing.chat_answers import chat_answer
from factmem.testing.openai_server import Answer, LoopbackOpenAIServer
from tests.memory.telling import USER, opened, over_the_wire, talk
from tests.narrowing import not_none
from tests.observing.watching import Watcher

PAGE: Final = Path(__file__).parents[2] / "docs/pages/how-to/observe.md"
EVENTS: Final = (OperationStarted, OperationCompleted, OperationFailed)
FIELDS: Final = {field.name: field for event in EVENTS for field in attrs.fields(event)}
BY_THE_TREE_OF_SPANS: Final = {"id", "parent_id"}
"""Fields that spans show by their place."""
OTHERWISE: Final[Mapping[str, Any]] = {"operation": Operation.TREE, "duration": 81.0, "error": "AnotherError"}
"""Another value of each field that has no default."""


def answer(path: str, request: dict[str, Any]) -> Answer:
    """Answer a question, with a finding that is dropped and a report of all kinds of tokens."""
    found = over_the_wire(request)
    if "city" in found:
        found["city"].append({"quote": "nobody said so", "message": 1, "value": "Rome"})
    said = chat_answer(found)
    assert isinstance(said.body, dict)
    usage = {**said.body["usage"], "prompt_tokens_details": {"cached_tokens": 1}}
    return attrs.evolve(said, body={**said.body, "usage": usage})


@pytest.fixture(autouse=True)
def _sdk_is_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing CrewAI in the same process switches the SDK off."""
    monkeypatch.delenv("OTEL_SDK_DISABLED", raising=False)


@pytest.fixture
async def events() -> Sequence[OperationEvent]:
    """The events of a memory that has a tenant, a model and observers of content, and fails once."""
    watcher = Watcher()
    with LoopbackOpenAIServer(answer) as server:
        model = InstructorModel("tiny", base_url=server.base_url)
        memory = opened(InMemoryProvider(), model, organization="acme", observers=[watcher], observed_content=True)
        async with memory:
            await memory.remember(talk("I live in Lima"), subject=USER, scope=MemoryScope.product("fair"))
            await memory.recall("Lima")
            with pytest.raises(RecordNotFoundError):
                await memory.get("nobody knows")
    return watcher.events


async def test_some_operation_fills_every_field(events: Sequence[OperationEvent]) -> None:
    """A field that no operation fills shows its default for ever."""
    filled = {name for event in events for name, value in _fields(event).items() if value != _default(name)}
    assert sorted(FIELDS.keys() - filled) == []


async def test_opentelemetry_exports_every_field(events: Sequence[OperationEvent]) -> None:
    """Another value of the field in each event changes the export of the same events."""
    whole, left_out = exported(events), []
    for name in sorted(FIELDS.keys() - BY_THE_TREE_OF_SPANS):
        value = OTHERWISE[name] if _default(name) is attrs.NOTHING else _default(name)
        others = [attrs.evolve(event, **{name: value}) if name in _fields(event) else event for event in events]
        left_out += [name] if exported(others) == whole else []
    assert left_out == []


def test_the_page_about_observers_names_every_field() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert [name for name in FIELDS if f"| `{name}` |" not in page] == []


async def test_the_page_about_observers_names_all_attributes_and_metrics(events: Sequence[OperationEvent]) -> None:
    spans, metrics = exported(events)
    names = {name for _, attributes in spans for name in attributes} | {name for name, *_ in metrics}
    page = PAGE.read_text(encoding="utf-8")
    assert sorted(name for name in names if f"`{name}`" not in page) == []


def _fields(event: OperationEvent) -> dict[str, Any]:
    return attrs.asdict(event, recurse=False)


def _default(name: str) -> Any:
    default = FIELDS[name].default
    return default.factory() if hasattr(default, "factory") else default


def exported(
    events: Iterable[OperationEvent],
) -> tuple[list[tuple[str, dict[str, Any]]], list[tuple[str, dict[str, Any], float]]]:
    """Return what a real SDK exports of events: spans with their attributes, and metrics with theirs and their sums."""
    exporter, reader = InMemorySpanExporter(), InMemoryMetricReader()
    tracing = TracerProvider()
    tracing.add_span_processor(SimpleSpanProcessor(exporter))
    observer = OpenTelemetryObserver(tracer_provider=tracing, meter_provider=MeterProvider([reader]))
    for event in events:
        observer(event)
    data = not_none(reader.get_metrics_data())
    metrics = [
        (metric.name, dict(point.attributes or {}), point.value if isinstance(point, NumberDataPoint) else point.sum)
        for resource in data.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        for point in metric.data.data_points
    ]
    return [(span.name, dict(span.attributes or {})) for span in exporter.get_finished_spans()], metrics
