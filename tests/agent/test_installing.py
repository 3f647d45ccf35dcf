"""Installation of memory in a host's object, which is recognized by the module of its class."""

from __future__ import annotations

import sys
import types
from importlib.metadata import EntryPoint
from typing import Any

import pytest

from factmem.agent import install, plugin
from factmem.agent.config import AgentMemoryConfig
from factmem.agent.plugin import AgentMemory, HostIntegration
from factmem.errors import CapabilityError, InvalidDataError, MissingPackageError


class Robot:
    """An agent of an unknown framework."""

    memory: AgentMemory | None = None


class Android(Robot):
    """An agent derived from `Robot` in another module."""


Robot.__module__ = "robots.agents.core"
Android.__module__ = "my_program"


@pytest.fixture
def robots(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third party's integration, found by its entry point."""

    def put_in(memory: AgentMemory, robot: Any) -> Any:
        other = type(robot)()
        other.memory = memory
        return other

    module = types.ModuleType("factmem_robots")
    module.integration = HostIntegration(install=put_in)  # type: ignore[attr-defined]
    module.readers = HostIntegration()  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "factmem_robots", module)
    points = [
        EntryPoint("robots.agents", "factmem_robots:integration", plugin.ENTRY_POINT_GROUP),
        EntryPoint("robots.readers", "factmem_robots:readers", plugin.ENTRY_POINT_GROUP),
        EntryPoint("broken", "factmem.integrations.no_such:integration", plugin.ENTRY_POINT_GROUP),
    ]
    monkeypatch.setattr(plugin, "host_entry_points", lambda: {point.name: point for point in points})


@pytest.mark.usefixtures("robots")
@pytest.mark.parametrize("cls", [Robot, Android])
def test_a_host_is_recognized_by_its_class_and_bases(cls: type[Robot]) -> None:
    given = cls()
    robot = install(AgentMemory, into=given, agent_name="clerk", store="none:")
    assert type(robot) is cls
    assert robot.memory is not None
    assert (robot.memory.config.agent_name, given.memory) == ("clerk", None)


@pytest.mark.usefixtures("robots")
def test_a_memory_of_ones_own_is_put_in_as_it_is() -> None:
    memory = AgentMemory(AgentMemoryConfig(store="none:", agent_name="clerk"))
    assert install(memory, into=Robot()).memory is memory
    with pytest.raises(InvalidDataError):
        install(memory, into=Robot(), agent_name="other")


@pytest.mark.usefixtures("robots")
def test_a_setting_that_is_none_is_refused() -> None:
    with pytest.raises(InvalidDataError, match="agentname"):
        install(AgentMemory, into=Robot(), agentname="clerk")


@pytest.mark.usefixtures("robots")
def test_an_unknown_host_is_an_error_that_lists_the_known_ones() -> None:
    with pytest.raises(CapabilityError, match=r"robots\.agents.*entry point of the group factmem\.hosts"):
        install(AgentMemory, into=object())
    reader = type("Reader", (), {"__module__": "robots.readers"})()
    with pytest.raises(CapabilityError, match="Reader"):
        install(AgentMemory, into=reader)


@pytest.mark.usefixtures("robots")
def test_a_missing_package_is_an_error_with_the_command_to_install_it() -> None:
    thing = type("Thing", (), {"__module__": "broken.inside"})()
    with pytest.raises(MissingPackageError, match=r"pip install 'factmem\[no-such\]'"):
        install(AgentMemory, into=thing)


def test_a_host_is_imported_only_when_it_is_passed() -> None:
    """Listing the integrations imports none of the hosts."""
    assert {"langchain", "pydantic_ai", "agents", "google.adk", "openai"} <= plugin.host_entry_points().keys()
