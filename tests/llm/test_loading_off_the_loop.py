"""Slow imports run in a worker thread, while the caller's event loop continues."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.tables import cases

pytestmark = pytest.mark.processes

PROGRAM = """
import sys, threading
import anyio, anyio.to_thread
import datetime as dt

loaded_on = {}

class Watching:
    def find_spec(self, name, path=None, target=None):
        loaded_on.setdefault(name.partition(".")[0], threading.current_thread())

sys.meta_path.insert(0, Watching())

from factmem import Conversation, Message
from factmem.abc import DetectionRequest
from factmem.abc.analyst import AnalysisRequest
from factmem.abc.consolidator import Known, Novelty
from factmem.consolidation.model_consolidator import InstructorConsolidator
from factmem.detection import InstructorDetector
from factmem.detection.model_analyst import InstructorAnalyst
from factmem.testing import ScriptedModel

NOW = dt.datetime(2024, 5, 8, tzinfo=dt.UTC)
EMPTY = {"Statements": {"statements": []}, "Analysis": {"categories": [], "importance": 0.5}, "Findings": {}}
model = ScriptedModel(lambda prompt, answer: EMPTY.get(answer.__name__, {"known": [], "insert": True}))

async def main():
    await %s

anyio.run(main)
assert "pydantic" in sys.modules and model.prompts
print(loaded_on["pydantic"] is threading.main_thread())
"""
CALLS = dict(cases(__file__)["calls"])


@pytest.mark.parametrize("call", CALLS)
def test_pydantic_is_not_loaded_on_the_event_loop(call: str) -> None:
    program = PROGRAM % CALLS[call]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("False\n", 0), done.stderr


FIRST_WRITE = """
import sys, threading
import datetime as dt
import anyio

loaded_on = {}

class Watching:
    def find_spec(self, name, path=None, target=None):
        loaded_on.setdefault(name.partition(".")[0], threading.current_thread())

from factmem import Memory
from factmem.facts import STATEMENT
from factmem import InMemoryProvider

async def main():
    async with Memory(InMemoryProvider(), embedder=None) as memory:
        sys.meta_path.insert(0, Watching())
        await memory.%s

anyio.run(main)
print("pydantic_core" in loaded_on, threading.main_thread() in loaded_on.values())
"""
WRITES = {
    "remember": "remember('Ana sails.')",
    "save": "save(STATEMENT.fact(['Ana sails.'], timestamp=dt.datetime(2024, 5, 8, tzinfo=dt.UTC)))",
}


@pytest.mark.parametrize("write", WRITES)
def test_the_first_write_loads_nothing_on_the_event_loop(write: str) -> None:
    program = FIRST_WRITE % WRITES[write]
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout, done.returncode) == ("True False\n", 0), done.stderr
