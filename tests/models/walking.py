"""Running a state machine for a minimum number of steps."""

from __future__ import annotations

from typing import Any, Final

from anyio.from_thread import start_blocking_portal
from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test

from tests.models.stores import Store

_STEPS_A_RUN: Final = 40
_RUNS_AT_A_TIME: Final = 100


def walked(machine: type[RuleBasedStateMachine], store: Store, *, steps: int) -> int:
    """Run a machine for at least a number of steps, and return their number; a difference is shrunk and raised.

    The steps are the same in each run of the same Hypothesis version.
    """
    with start_blocking_portal() as portal:
        here: Any = type("Machine", (machine,), {"store": store, "portal": portal, "steps": 0})
        number = 0
        while here.steps < steps:
            runs = min(_RUNS_AT_A_TIME, (steps - here.steps) // _STEPS_A_RUN + 1)
            run_state_machine_as_test(seed(number)(here), settings=_settings(runs))
            number += 1
        return int(here.steps)


def _settings(runs: int) -> settings:
    return settings(
        max_examples=runs,
        stateful_step_count=_STEPS_A_RUN,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        report_multiple_bugs=False,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much],
    )
