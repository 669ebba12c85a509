"""How state machines are played on the real SQL."""

from __future__ import annotations

from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import RuleBasedStateMachine, run_state_machine_as_test


def play(
    machine: type[RuleBasedStateMachine],
    real: object,
    sequences: int,
    steps: int,
    *,
    finds: bool = True,
    same: bool = False,
) -> None:
    """Random sequences of so many steps, the same each time if wanted, the first violation raised;
    without looking for a shorter one when it is not for people. The machine finds the database as
    its `real`.
    """
    made: Any = type(machine.__name__, (machine,), {"real": real})
    run_state_machine_as_test(
        made,
        settings=settings(
            max_examples=sequences,
            stateful_step_count=steps,
            deadline=None,
            derandomize=same,
            database=None,
            print_blob=finds,
            report_multiple_bugs=False,
            phases=[Phase.generate, Phase.shrink] if finds else [Phase.generate],
            suppress_health_check=list(HealthCheck),
        ),
    )
