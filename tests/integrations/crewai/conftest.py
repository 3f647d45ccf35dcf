"""Fixtures of the tests of CrewAI, which runs in an environment of its own. Elsewhere its tests are skipped."""

# pyright: reportMissingImports=false

from __future__ import annotations

import contextlib
import os
import warnings
from collections.abc import Iterator
from typing import Any

import pytest

from factmem import AgentMemory, InMemoryProvider
from factmem.agent.config import AgentMemoryConfig, RunIdentity
from factmem.testing import HashEmbedder
from tests.memory.telling import CITY
from tests.packages import QUIET

os.environ.update(QUIET)
with warnings.catch_warnings(), contextlib.suppress(ModuleNotFoundError):
    warnings.simplefilter("ignore")  # its own imports emit warnings
    import crewai  # noqa: F401

AGENT: dict[str, Any] = {"agent_name": "clerk", "product_name": "fair", "concepts": (CITY,)}


@pytest.fixture(autouse=True)
def _nobody() -> Iterator[None]:
    """Reset the context: a failing kickoff emits no end event, so later work in its context would be its user's."""
    from factmem.integrations.crewai.storage import working_for

    token = working_for.set(RunIdentity())
    yield
    working_for.reset(token)


@pytest.fixture
def memory() -> Iterator[AgentMemory]:
    """An agent's memory, empty."""
    config = AgentMemoryConfig(store=InMemoryProvider(), embedder=HashEmbedder(), users="shared", **AGENT)
    made = AgentMemory(config)
    yield made
    made.close()
