"""The dashboard for Grafana in the documentation asks only for metrics that `OpenTelemetryObserver` really emits."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import attrs
import pytest
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import Histogram, InMemoryMetricReader, Metric, Sum

from factmem import InMemoryProvider, Message, SingleFact
from factmem.abc import Effect, Prompt
from factmem.errors import ModelUnavailableError, RecordNotFoundError
from factmem.facts import MultipleFacts
from factmem.integrations.opentelemetry import OpenTelemetryObserver
from factmem.llm import InstructorModel
from factmem.records import FactDetails, Origin
from factmem.testing import ScriptedModel
from factmem.testing.chat_answers import chat_answer
from factmem.testing.openai_server import LoopbackOpenAIServer
from tests.memory.telling import PETS, SEATS, SOON, USER, opened, over_the_wire, talk

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
    data = reader.get_metrics_data()
    assert data is not None
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
            accepted, rejected = await memory.quarantine.list()
            await memory.quarantine.accept(accepted.id)
            await memory.quarantine.reject(rejected.id)
            await memory.recall("seats")
            await memory.remember([Message(content="Forget that I have a dog", id="m9")], subject=USER)
            with pytest.raises(RecordNotFoundError):
                await memory.get("nobody knows")
    async with opened(InMemoryProvider(), ScriptedModel(failing), observers=[observer], background=SOON) as memory:
        for text in ("I live in Lima", "I live in Rome"):
            await (await memory.remember_many([talk(text)], subject=USER)).wait()
        first, second = await memory.dead_letters.list()
        await memory.dead_letters.retry(first.id)
        await memory.dead_letters.dismiss(second.id)


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


@pytest.mark.parametrize(
    ("there", "instead"),
    [
        ("factmem_assertions_total", "factmem_facts_total"),
        ('factmem_effect=\\"failed\\"', 'factmem_effect=\\"lost\\"'),
        ("sum by (factmem_reason)", "sum by (why)"),
        ("{{gen_ai_request_model}}", "{{model}}"),
        ('factmem_operation=\\"recall\\"', 'factmem_operation=\\"search\\"'),
    ],
)
async def test_a_name_that_is_not_emitted_is_found(
    there: str, instead: str, dashboard: dict[str, Any], emitted: Mapping[str, Labels]
) -> None:
    text = json.dumps(dashboard)
    assert there in text
    assert flaws(json.loads(text.replace(there, instead)), emitted) != []


def test_its_panels_have_places_of_their_own(dashboard: dict[str, Any]) -> None:
    """Grafana imports anything, and shows panels without a title, a description or a place as it likes."""
    assert all(panel["title"] and panel["description"] for panel in dashboard["panels"])
    taken: set[tuple[int, int]] = set()
    for panel in dashboard["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken
        assert max(x for x, _ in cells) < 24
        taken |= cells
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"])
