"""Random definitions of workflows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Final

from hypothesis import strategies as st

from tests.simulation.workflow_model import WAITS, Flow, Step

NAMES: Final = "abcde"
RULES: Final = ("all_succeeded", "all_ended", "one_succeeded", "one_failed", "none_failed")
KINDS: Final = ("run", "run", "run", "run", "map", "map", "signal", "approval", "timer")


@st.composite
def flows(draw: Any, nested: bool) -> Flow:
    """Up to eight steps; an inner one has three."""
    steps: list[Step] = []
    for name in NAMES[: draw(st.integers(1, 5 if nested else 2))]:
        steps.append(draw(step(name, [each.name for each in steps], 0, nested)))
    undone = draw(st.lists(st.sampled_from(steps), unique=True, max_size=2 if nested else 1))
    for each in undone:
        steps.append(Step(f"undo_{each.name}", phase=1, undoes=each.name))
    final: list[str] = []
    for name in ("last", "latest")[: draw(st.integers(0, 1 + nested) if nested else st.just(0))]:
        steps.append(draw(step(name, final, 2, False)))
        final.append(name)
    limit = draw(st.sampled_from([None, None, 1, 2]))
    optional = {each.name for each in steps if each.is_optional}
    for number, each in enumerate(steps):
        if each.rule == "one_failed" and optional.issuperset(each.after):  # it can never hold
            steps[number] = replace(each, rule="all_ended")
    return Flow(
        tuple(steps), draw(st.sampled_from(["continue", "continue", "stop", "kill"])), limit
    )


@st.composite
def step(draw: Any, name: str, above: list[str], phase: int, nested: bool) -> Step:
    kind = draw(st.sampled_from([*KINDS, *(["workflow"] * 2 * nested)]))
    names = st.lists(st.sampled_from(above), unique=True, max_size=3) if above else st.just([])
    after = tuple(sorted(draw(names)))
    keys: dict[str, Any] = {"rule": "all_ended" if phase == 2 else "all_succeeded"}
    if after:
        keys["rule"] = draw(st.sampled_from(["all_succeeded", *RULES]))
    if kind == "map":
        keys["items"] = draw(st.integers(0, 4))
        keys["at_once"] = draw(st.sampled_from([None, 1, 2]))
        keys["tolerate"] = draw(st.sampled_from([0, 0, 1, 2]))
    elif kind == "run":
        keys["at_most"] = draw(st.sampled_from([None, None, None, 2, 3]))
        keys["is_once"] = draw(st.sampled_from([False, False, True]))
    elif kind in WAITS:
        keys["at_deadline"] = draw(st.sampled_from([None, "fail", "succeed", "skip"]))
    return Step(
        name,
        kind,
        after,
        phase=phase,
        is_optional=draw(st.sampled_from([False, False, True])),
        condition=draw(st.sampled_from([None, None, None, True, False])),
        **keys,
    )
