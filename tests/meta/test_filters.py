"""Each filter of recall is offered by `Memory`, the command line and the MCP server, or left out for a reason."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

import attrs
import pytest
from typer.main import get_command

from factmem.cli.app import app
from factmem.mcp.tools import Tools
from factmem.memory.filters import Filters
from factmem.recall import RecallFilter
from tests.tables import cases

FILTERS = set(Filters.__annotations__)

RENAMED = {"keywords": "concepts", "without_keywords": "without_concepts"}
"""Fields of `RecallFilter` that `Filters` names otherwise: callers pass concepts as well as keywords."""

CASES = {name: dict(pairs) for name, pairs in cases(__file__).items()}
NOT_ON_THE_COMMAND_LINE = CASES["not on the command line"]
NOT_IN_TOOLS = NOT_ON_THE_COMMAND_LINE | CASES["not in tools"]


def test_memory_takes_every_filter_of_recall() -> None:
    fields = {RENAMED.get(field.name, field.name) for field in attrs.fields(RecallFilter)}
    assert fields - {*CASES["set by memory"]} == FILTERS


@pytest.mark.parametrize("command", ["recall", "list"])
def test_the_command_line_offers_each_filter_or_leaves_it_out_for_a_reason(command: str) -> None:
    group: Any = get_command(app)
    options = {option for parameter in group.get_command(None, command).params for option in parameter.opts}
    check_offered({name for name, option in CASES["options"].items() if option in options}, NOT_ON_THE_COMMAND_LINE)


@pytest.mark.parametrize("tool", [Tools.recall, Tools.list_facts])
def test_tools_offer_each_filter_or_leave_it_out_for_a_reason(tool: Callable[..., object]) -> None:
    check_offered({name for name in inspect.signature(tool).parameters if name in FILTERS}, NOT_IN_TOOLS)


def check_offered(offered: set[str], left_out: Mapping[str, str]) -> None:
    assert offered | {*left_out} == FILTERS, "offer the new filter, or say why it is left out"
    assert offered & {*left_out} == set()
