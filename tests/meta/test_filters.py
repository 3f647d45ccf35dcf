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

FILTERS = set(Filters.__annotations__)

RENAMED = {"keywords": "concepts", "without_keywords": "without_concepts"}
"""Fields of `RecallFilter` that `Filters` names otherwise: callers pass concepts as well as keywords."""

SET_BY_MEMORY = {
    "places": "the places of a fact that is loaded",
    "within": "the wall of a view",
    "strongest": "a parameter of recall and list_records of its own",
}
"""Fields of `RecallFilter` that no caller passes as a filter."""

OPTIONS = {
    "scope": "--scope",
    "exact": "--exact",
    "subject": "--subject",
    "concepts": "--concept",
    "categories": "--category",
    "sources": "--source",
    "speakers": "--speaker",
    "since": "--since",
    "until": "--until",
    "pattern": "--pattern",
}
"""The option of each filter that `factmem recall` and `factmem list` offer."""

NOT_ON_THE_COMMAND_LINE = {
    "subjects": "one subject a call is enough for people",
    "without_concepts": "people name what they look for",
    "topics": "people filter by categories",
    "recorded_since": "people remember when something was said",
    "recorded_until": "people remember when something was said",
    "min_importance": "list --order importance shows the most important first",
    "max_importance": "list --order importance --reverse shows the least important first; purge offers it",
    "telling": "people look at what there is; an agent's prompt needs what tells something",
    "assistant": "people filter by sources",
    "metadata": "metadata is for programs",
    "where": "metadata is for programs; purge offers it, for rules of retention",
    "record_ids": "commands about single records take ids as arguments",
}
"""Filters that `recall` and `list` leave out, with the reason."""

NOT_IN_TOOLS = {
    **NOT_ON_THE_COMMAND_LINE,
    "pattern": "models search by meaning, and every value would be read",
    "speakers": "models name people in the question",
    "min_importance": "models do not know what others were weighed by",
    "max_importance": "models do not know what others were weighed by",
    "record_ids": "the resource factmem://record/{id} returns a record",
}
"""Filters that the tools of the MCP server leave out, with the reason."""


def test_memory_takes_every_filter_of_recall() -> None:
    fields = {RENAMED.get(field.name, field.name) for field in attrs.fields(RecallFilter)}
    assert fields - {*SET_BY_MEMORY} == FILTERS


@pytest.mark.parametrize("command", ["recall", "list"])
def test_the_command_line_offers_each_filter_or_leaves_it_out_for_a_reason(command: str) -> None:
    group: Any = get_command(app)
    options = {option for parameter in group.get_command(None, command).params for option in parameter.opts}
    check_offered({name for name, option in OPTIONS.items() if option in options}, NOT_ON_THE_COMMAND_LINE)


@pytest.mark.parametrize("tool", [Tools.recall, Tools.list_facts])
def test_tools_offer_each_filter_or_leave_it_out_for_a_reason(tool: Callable[..., object]) -> None:
    check_offered({name for name in inspect.signature(tool).parameters if name in FILTERS}, NOT_IN_TOOLS)


def check_offered(offered: set[str], left_out: Mapping[str, str]) -> None:
    assert offered | {*left_out} == FILTERS, "offer the new filter, or say why it is left out"
    assert offered & {*left_out} == set()
