"""Definitions of workflows, of every interface: completed, and each value checked where it stands.

A definition is a mapping in the form of ``pgcron.put_workflow``, which judges it as a whole. Here
durations are timedelta, seconds or texts, steps may be in any order, and a step comes after those
whose results it reads, also if it does not say so.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from functools import partial
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, TypeAlias

from pgcron_ha.client import checks
from pgcron_ha.client.options import OF_HANDLERS, Option, check_attempts, check_each, given
from pgcron_ha.client.workflow_paths import references
from pgcron_ha.config.values import did_you_mean
from pgcron_ha.errors import InvalidInput, Mistakes
from pgcron_ha.spec.text import duration_text

Step: TypeAlias = dict[str, Any]
Place: TypeAlias = Callable[[int, object], str]
"""What a mistake of the step of this number (from 1) is about."""

MOST_STEPS: Final = 100_000
MOST_ITEMS: Final = 10_000
NAME: Final = re.compile(r"(?!(?:args|item)$)[A-Za-z_][A-Za-z0-9_-]{0,99}")

_YEAR: Final = timedelta(days=366)
_STEPS_HINT: Final = (
    'Write for example {"steps": [{"name": "load", "handler": "py:load"}]}, in Python'
    ' flow.step("load").'
)
# As PostgreSQL writes durations.
_UNIT: Final = re.compile(
    r" *(?:(milliseconds?|ms)|([smhdw]|sec(?:ond)?s?|min(?:ute)?s?|hours?|days?|weeks?))(?![a-z]) *"
)
_DURATION: Final = re.compile(rf"(?:[-+]?[\d.]+{_UNIT.pattern})+")


def _checked(values: Mapping[str, Any], table: Mapping[str, Option]) -> dict[str, Any]:
    """Those of the table, as `check_each` checks them; durations may be written as PostgreSQL
    writes them.
    """
    read = {name: values[name] for name in table if name in values}
    for name, value in read.items():
        # What is no duration is left as it was written, for the refusal to quote.
        if isinstance(value, str) and table[name].kind is timedelta and _DURATION.fullmatch(value):
            read[name] = _UNIT.sub(lambda unit: "ms" if unit[1] else unit[2][0], value)
    return check_each(read, table)


def step_name(value: object) -> str:
    """Raises InvalidInput for what is no name that a step may have."""
    if not isinstance(value, str) or not NAME.fullmatch(value):
        raise InvalidInput(
            f"'{str(value)[:100]}' is no name that a step may have",
            'A name has 1 to 100 letters, digits, "_" and "-", begins with a letter or "_", and is'
            ' neither "args" nor "item".',
            "Write for example load.",
        )
    return value


def _names(value: object) -> list[str]:
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list | tuple) or not all(isinstance(name, str) for name in names):
        raise InvalidInput(
            "after is no list of names",
            "It names the steps that must be over first.",
            "Write for example [extract].",
        )
    return list(dict.fromkeys(names))


def _path(what: str, value: object) -> str:
    if not isinstance(value, str) or "$" not in value:
        raise InvalidInput(
            f"{what} '{str(value)[:200]}' is no path",
            "It is a path of PostgreSQL (jsonpath) in the document of the workflow: its args, and"
            " the results of the steps that this one comes after, by their names.",
            "Write for example $.args.day or $.extract.rows.",
        )
    return value


def _paths(value: object) -> dict[str, str]:
    hint = "Write for example {day: $.args.day}."
    paths = checks.mapping("args_from", value, "It has a path for each arg.", hint)
    return {str(name): _path(f"args_from {name}", path) for name, path in paths.items()}


def _repeat(value: object) -> dict[str, Any]:
    parts = value if isinstance(value, Mapping) else {}
    if not {"while", "at_most"} <= parts.keys() <= _OF_REPEAT.keys():
        raise InvalidInput(
            f"repeat '{str(value)[:200]}' can't be read",
            "The handler is executed again while a path in its own result is true.",
            'Write for example {while: $.status == "busy", at_most: 100, every: 30s}.',
        )
    return _written(_checked(parts, _OF_REPEAT))


OF_WORKFLOWS: Final[Mapping[str, Option]] = {
    "description": Option(str, check=checks.description_text),
    "on_failure": Option(str, words=("continue", "stop", "kill")),
    "parallelism": Option(int, least=1, most=MOST_STEPS),
    "timeout": Option(timedelta, most=_YEAR),
}
"""What a workflow has beside its steps."""

_OF_REPEAT: Final[Mapping[str, Option]] = {
    "while": Option(str, check=partial(_path, "while")),
    "at_most": Option(int, least=1, most=100_000),
    "every": Option(timedelta, most=_YEAR),
}
OF_STEPS: Final[Mapping[str, Option]] = {
    "name": Option(str, check=step_name),
    "wait_for": Option(str, words=("signal", "approval", "timer")),
    "deadline": Option(timedelta, most=_YEAR),
    "at_deadline": Option(str, words=("fail", "succeed", "skip")),
    "handler": Option(str, check=checks.handler_name),
    "args": Option(str, check=checks.args_text),
    "args_from": Option(dict, check=_paths),
    "after": Option(list, check=_names),
    "rule": Option(
        str, words=("all_succeeded", "all_ended", "one_succeeded", "one_failed", "none_failed")
    ),
    "when": Option(str, check=partial(_path, "when")),
    "optional": Option(bool),
    "finally": Option(bool),
    "compensates": Option(str, check=step_name),
    "for_each": Option(str, check=partial(_path, "for_each")),
    "max_parallel": Option(int, least=1, most=MOST_ITEMS),
    "tolerate": Option(int, most=MOST_ITEMS),
    "repeat": Option(dict, check=_repeat),
    **OF_HANDLERS,
}
"""What a step has. The database judges what goes together."""


def step_place(number: int, step: object) -> str:
    """``step 3 ('load')``."""
    name = step.get("name") if isinstance(step, Mapping) else None
    return f"step {number} ('{name!s:.100}')" if name else f"step {number}"


def judged_workflow(definition: object, place: Place = step_place) -> dict[str, Any]:
    """The definition as SQL takes it: complete, its steps in an order in which none is before one
    that it comes after. Raises InvalidInput, TooLarge; of several mistakes the error names all.
    """
    rule = "A workflow has steps, and how they go together."
    definition = checks.mapping("it", definition, rule, _STEPS_HINT)
    mistakes = Mistakes()
    keys = (*OF_WORKFLOWS, "steps")
    mistakes.tried(checks.refuse_others, definition, keys, "a workflow has no key", "Its keys")
    checked = mistakes.tried(_checked, definition, OF_WORKFLOWS)
    given_steps = definition.get("steps")
    if not isinstance(given_steps, list | tuple) or not 1 <= len(given_steps) <= MOST_STEPS:
        found = f"{len(given_steps)} steps" if isinstance(given_steps, list | tuple) else "no list"
        fact = "it has no steps" if not given_steps else f"steps is {found}"
        rule = f"steps is a list of 1 to {MOST_STEPS} steps."
        mistakes.found.append(InvalidInput(fact, rule, _STEPS_HINT))
        given_steps = []
    steps = []
    for number, step in enumerate(given_steps, 1):
        with mistakes.kept(place(number, step)):
            steps.append(_judged_step(step))
    mistakes.raise_any()
    return _written(checked) | {"steps": _in_order(steps, place)}


def _judged_step(step: object) -> Step:
    """All that needs no other step."""
    mistakes = Mistakes()
    values = given(checks.mapping("it", step, "A step has a name and a handler.", _STEPS_HINT))
    mistakes.tried(checks.refuse_others, values, OF_STEPS, "a step has no key", "Its keys")
    if "name" not in values:
        rule, hint = "Steps are known by their names.", "Write its name."
        mistakes.found.append(InvalidInput("name is missing", rule, hint))
    with mistakes.kept():
        checked = _checked(values, OF_STEPS)
        check_attempts(checked)
    mistakes.raise_any()
    paths = checked.get("args_from")
    if "for_each" in checked and paths and "item" not in references(" ".join(paths.values())):
        paths["item"] = "$.item"  # which it has by itself only if none of its args is a path
    return _written(checked)


def _written(values: Mapping[str, Any]) -> dict[str, Any]:
    """Checked values as JSON has them."""
    return {name: _json(name, each) for name, each in given(values).items() if each is not False}


def _json(name: str, value: Any) -> Any:
    if isinstance(value, timedelta):
        # In hours, which no time zone makes longer or shorter.
        hours, rest = divmod(value, timedelta(hours=1))
        return f"{hours}h" * bool(hours) + duration_text(rest) * (bool(rest) or not hours)
    if name in ("args", "retry") and isinstance(value, str):
        return json.loads(value)
    return list(value) if isinstance(value, tuple) else value


def _in_order(steps: Sequence[Step], place: Place) -> list[Step]:
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
        with mistakes.kept(place(number, step)):
            _complete(step, by_name)
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
