"""A workflow in a test: what its steps come to is chosen, and what they came to is shown."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pgcron_ha.client.app import App
from pgcron_ha.client.checks import refuse_others
from pgcron_ha.client.run_status import RunStatus
from pgcron_ha.db.queries.rows import Row

Outcome = Any
"""A result, an exception that is raised, or a function that is executed in place of the handler."""

# What says where a step is executed, or what it waits for.
_REPLACED: Final = frozenset(
    {"handler", "wait_for", "deadline", "at_deadline", "queue", "requires", "weight"}
)


@dataclass(frozen=True, slots=True)
class StepStatus:
    """One step of a workflow, or one item of it: `state` is an outcome once it is over."""

    name: str
    state: str
    result: Any
    reason: str | None
    items: Sequence[StepStatus] = ()


@dataclass(frozen=True, slots=True)
class WorkflowStatus:
    """A workflow that has ended: its run, and its steps by their names."""

    run: RunStatus
    steps: Mapping[str, StepStatus]

    @property
    def state(self) -> str:
        """How it ended: ``succeeded``, ``dead`` or ``cancelled``."""
        return self.run.state


def with_outcomes(
    definition: Mapping[str, Any], outcomes: Mapping[str, Outcome]
) -> tuple[str, App]:
    """The definition (JSON) whose steps of these names come to these outcomes, and the App that has
    their handlers. Raises InvalidInput for a name that is no step.
    """
    app = App()
    names = [step["name"] for step in definition["steps"]]
    refuse_others(outcomes, names, "outcomes: the workflow has no step", "Its steps")
    for name, outcome in outcomes.items():
        app.handler(_handler_of(name))(_function_of(outcome))
    steps = [_replaced(step) if step["name"] in outcomes else step for step in definition["steps"]]
    return json.dumps({**definition, "steps": steps}), app


def statuses(rows: Sequence[Row]) -> dict[str, StepStatus]:
    """The steps by name, from rows with items after their step."""
    items: dict[str, list[StepStatus]] = {row["name"]: [] for row in rows}
    found: dict[str, StepStatus] = {}
    for row in rows:
        shown = (row["name"], row["state"], row["result"], row["reason"])
        if row["item"] < 0:
            found[row["name"]] = StepStatus(*shown, items[row["name"]])
        else:
            items[row["name"]].append(StepStatus(*shown))
    return found


def _replaced(step: Mapping[str, Any]) -> dict[str, Any]:
    kept = {key: value for key, value in step.items() if key not in _REPLACED}
    return {**kept, "handler": f"py:{_handler_of(step['name'])}"}


def _handler_of(step: str) -> str:
    return f"outcome_of.{step}"


def _function_of(outcome: Outcome) -> Any:
    def come_to(**args: object) -> Any:
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    return outcome if callable(outcome) else come_to
