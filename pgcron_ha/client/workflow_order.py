"""What the steps of a workflow say of one another, and an order in which they can be executed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Any, TypeAlias

from pgcron_ha.client.workflow_paths import references
from pgcron_ha.config.values import did_you_mean
from pgcron_ha.errors import InvalidInput, Mistakes, PgcronError

Step: TypeAlias = dict[str, Any]
Place: TypeAlias = Callable[[int, object], str]
"""What a mistake of the step of this number (from 1) is about."""


def in_order(steps: Sequence[Step], place: Place) -> list[Step]:
    """Each after those that it depends on; as they are given, if that is so. Raises InvalidInput
    for what they say of one another.
    """
    mistakes = Mistakes()
    numbers: dict[str, int] = {}
    for number, step in enumerate(steps):
        if numbers.setdefault(step["name"], number) != number:
            fact, rule = "another step has this name", "Within a workflow a name is one step's."
            error = InvalidInput(fact, rule, "Give one of them another name.")
            mistakes.found.append(error.about(place(number + 1, step)))
    mistakes.raise_any()
    by_name = {step["name"]: step for step in steps}
    for number, step in enumerate(steps, 1):
        try:
            _complete(step, by_name)
        except PgcronError as error:
            mistakes.found += error.about(place(number, step)).parts
    mistakes.raise_any()
    if all(numbers[name] < number for number, step in enumerate(steps) for name in _after(step)):
        return list(steps)
    try:
        order = [*TopologicalSorter({each["name"]: _after(each) for each in steps}).static_order()]
    except CycleError as error:
        ring = error.args[1]
        first = numbers[ring[0]]
        raise InvalidInput(
            f"{place(first + 1, steps[first])}: it comes after itself: {' → '.join(ring)[:500]}",
            "A step begins when those that it comes after are over.",
            "Take one of these dependencies out; `repeat` executes a step again.",
        ) from None
    return [by_name[name] for name in order]


def _after(step: Step) -> Sequence[str]:
    names: list[str] = step.get("after", [])
    return names


def _phase(step: Step) -> int:
    return 1 if "compensates" in step else 2 if "finally" in step else 0


def _complete(step: Step, by_name: Mapping[str, Step]) -> None:
    """Adds to `after` what the step's paths read. Raises InvalidInput for what is no step, or one
    that it can't come after.
    """
    paths = [step.get("when", ""), step.get("for_each", ""), *step.get("args_from", {}).values()]
    read = [name for path in paths for name in references(path) if name not in ("args", "item")]
    undone = step.get("compensates")
    after = list(dict.fromkeys([*_after(step), *(name for name in read if name != undone)]))
    for name in filter(None, (*after, undone)):
        if name not in by_name:
            raise InvalidInput(
                f"'{name[:100]}' is no step{did_you_mean(name, by_name)}",
                "after, compensates and paths name steps of the workflow; paths also begin with"
                " $.args or, for each item, $.item.",
                "Correct its spelling, or define the step.",
            )
        if _phase(by_name[name]) != (0 if name == undone else _phase(step)) or (
            undone and name != undone
        ):
            raise InvalidInput(
                f"it can't come after '{name}', or read its result",
                "Compensations and what runs finally begin when all other steps are over; a"
                " compensation may read the result of what it undoes.",
                "Take it out.",
            )
    if after:
        step["after"] = after
