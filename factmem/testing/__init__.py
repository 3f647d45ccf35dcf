"""Test tools for programs built on factmem, and for providers of third parties.

- `ProviderConformance`: one spec per guarantee of a provider; subclass it and run it with pytest. `WaistConformance`
  has those of the four verbs alone.
- `capabilities_of`: the capabilities of a provider beyond the four verbs.
- `FakeClock`, `HashEmbedder`, `ScriptedModel`: a clock that is set by hand, an embedder without a model, a language
  model whose answers are written by the test.
- `factmem.testing.openai_server` and `.chat_answers`: an OpenAI-compatible server on a real socket, and its answers,
  right or wrong, whole or streamed.
- `factmem.testing.strategies`: Hypothesis strategies for everything in the vocabulary.

This package imports pytest and Hypothesis only when the kit or the strategies are used;
``pip install 'factmem[testing]'`` installs both.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from factmem.errors import MissingPackageError
from factmem.testing.fakes import FakeClock, HashEmbedder, ScriptedModel, capabilities_of

if TYPE_CHECKING:
    from factmem.testing.conformance.suites import ProviderConformance, WaistConformance

__all__ = ["FakeClock", "HashEmbedder", "ProviderConformance", "ScriptedModel", "WaistConformance", "capabilities_of"]

_KIT = "factmem.testing.conformance"
if (_pytest := sys.modules.get("pytest")) is not None and _KIT not in sys.modules:
    _pytest.register_assert_rewrite(_KIT)  # so that failing specs show their values


def __getattr__(name: str) -> object:
    if name not in ("ProviderConformance", "WaistConformance"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    with MissingPackageError.if_missing("pytest", extra="testing"):
        import pytest
    if _KIT not in sys.modules:
        pytest.register_assert_rewrite(_KIT)
    from factmem.testing.conformance import suites

    return getattr(suites, name)
