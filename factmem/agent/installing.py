"""Putting memory into an agent, whatever it was built with."""

from __future__ import annotations

from typing import Any, TypeVar

from factmem.agent.agent_memory import AgentMemory
from factmem.agent.config import AgentMemoryConfig
from factmem.agent.hosts import host_of
from factmem.errors import CapabilityError, InvalidDataError

__all__ = ["install"]

HostT = TypeVar("HostT")


def install(memory: type[AgentMemory] | AgentMemory, *, into: HostT, **settings: Any) -> HostT:
    """Put memory into an agent.

    ::

        agent = install(AgentMemory, into=agent, store="sqlite-vec:facts.db", agent_name="planner")

    What is returned is of the same kind as what was given, and is to be used in its place; what was given
    is left as it was wherever the framework allows for that. Which things memory can be put into, and how
    a run says whom it works for, is told by each integration in `factmem.integrations`.

    Args:
        memory: the memory, or the class, of which one is made from the settings.
        into: an agent, an app, a client or a factory of a framework that factmem or a third party has an
            integration for.
        settings: the fields of `AgentMemoryConfig`, if the class is given.

    Raises:
        CapabilityError: no integration knows what to do with it.
        MissingPackageError: the integration needs a package that is not installed; the text says how.
        InvalidDataError: a setting is not legal, or settings were given beside a memory that has its own.
    """
    integration = host_of(into)
    if integration.install is None:
        raise CapabilityError(f"memory cannot be put into a {type(into).__name__}: see factmem.integrations")
    installed: HostT = integration.install(_made(memory, settings), into)
    return installed


def _made(memory: type[AgentMemory] | AgentMemory, settings: dict[str, Any]) -> AgentMemory:
    if isinstance(memory, AgentMemory):
        if settings:
            raise InvalidDataError("this memory has its settings already: give them to its AgentMemoryConfig")
        return memory
    try:
        config = AgentMemoryConfig(**settings)
    except TypeError as error:
        raise InvalidDataError(f"a setting is unknown: {error}") from None
    return memory(config)
