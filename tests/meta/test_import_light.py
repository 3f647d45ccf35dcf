"""Importing factmem is cheap; heavy packages are imported on first use."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ["apsw", "cattrs", "httpx", "instructor", "numpy", "onnxruntime", "openai", "pydantic", "rich", "sqlite3"]
HEAVY += ["sqlite_vec", "textual", "typer", "wordllama"]
# A store and a memory may be made in a module's body, which must not load their models and clients.
HEAVY_FOR_A_MEMORY = ["instructor", "onnxruntime", "openai", "pydantic", "rich", "textual", "typer", "wordllama"]


def _loaded(statement: str) -> set[str]:
    program = f"import sys\n{statement}\nprint(*{{name.partition('.')[0] for name in sys.modules}})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    return set(done.stdout.split())


@pytest.mark.parametrize("statement", ["import factmem", "from factmem import Concept, MemorySubject, SingleFact"])
def test_importing_the_package_and_its_words_loads_nothing_heavy(statement: str) -> None:
    """A module that only declares its concepts is as quick to import as attrs."""
    assert _loaded(statement) & set(HEAVY) == set()


def test_a_memory_without_a_model_does_not_even_load_what_would_ask_one() -> None:
    """The prompts, answers and checks of a model are imported with the first model."""
    program = "import sys\nfrom factmem import Memory\nMemory('memory:')\nprint(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=120)
    asking = {"consolidation.model_consolidator", "detection.model_detector", "detection.prompts", "llm.exchange"}
    assert {f"factmem.{name}" for name in asking} & set(done.stdout.split()) == set()


def test_opening_a_memory_loads_no_model_and_no_client() -> None:
    """The embedder is loaded by the first fact or the first question, not by the import or the constructor."""
    assert _loaded("from factmem import Memory; Memory('memory:')") & set(HEAVY_FOR_A_MEMORY) == set()
