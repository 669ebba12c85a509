"""The graph of a workflow as text: indented lines, and a chart of Mermaid. Pure.

A step is a mapping with ``number``, ``name``, ``kind``, ``phase``, ``compensates`` (the name of
what it undoes, or None), ``is_optional``, and ``after``: the names of the steps above it that it
comes after. A step of a run has a ``state``, too, and a map ``items``, ``items_ended`` and
``items_failed``. Steps are in the order of their numbers, so that a step's parents are above it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from pgcron_ha.model.formats import number

Step: TypeAlias = Mapping[str, Any]

MAIN, COMPENSATION, FINALLY = range(3)
"""Phases of a workflow."""

DEEPEST: Final = 20
"""Levels that are indented; those of a long chain are not indented further."""

_SHAPES: Final = {
    "map": ("[[", "]]"),
    "signal": ("{{", "}}"),
    "approval": ("{{", "}}"),
    "timer": ("([", "])"),
}


def text_lines(steps: Sequence[Step]) -> Iterator[str]:
    """A line for each step, further to the right than what it comes after: its name, its state if
    it has one, and what else is to be known of its place.
    """
    levels: dict[str, int] = {}
    for step in steps:
        levels[step["name"]] = 1 + max((levels[name] for name in step["after"]), default=-1)
    names = ["  " * min(level, DEEPEST) + name for name, level in levels.items()]
    width = max(map(len, names), default=0)
    states = max((len(step.get("state") or "") for step in steps), default=0)
    for name, step in zip(names, steps, strict=True):
        remarks = remarks_on(step)
        if step["after"]:
            remarks.append(f"after {', '.join(step['after'])}")
        cells = [f"{name:<{width}}", f"{step.get('state') or '':<{states}}", "; ".join(remarks)]
        yield "  ".join(filter(None, cells)).rstrip()


def remarks_on(step: Step) -> list[str]:
    """What a step is, beside one that executes a handler once: ``approval``, ``items: 3 of 10``."""
    remarks = []
    if step["kind"] == "map":
        words = items_words(step)
        remarks.append(f"items: {words}" if words else "for each item")
    elif step["kind"] != "run":
        remarks.append(step["kind"])
    if step["phase"] == COMPENSATION:
        remarks.append(f"compensates {step['compensates']}")
    elif step["phase"] == FINALLY:
        remarks.append("finally")
    if step["is_optional"]:
        remarks.append("optional")
    return remarks


def items_words(step: Step) -> str | None:
    """How many items of a list are over: ``9 412 of 10 000, 3 failed``; None: not known yet."""
    if step.get("items") is None:
        return None
    failed = f", {number(step['items_failed'])} failed" if step["items_failed"] else ""
    return f"{number(step['items_ended'])} of {number(step['items'])}{failed}"


def mermaid(steps: Sequence[Step]) -> Iterator[str]:
    """The lines of a flowchart; of steps with a state that is in their box."""
    names = {step["name"]: f"s{step['number']}" for step in steps}
    yield "flowchart TD"
    for step in steps:
        begin, end = _SHAPES.get(step["kind"], ("[", "]"))
        words = (step["name"], step.get("state"), items_words(step))
        yield f'  {names[step["name"]]}{begin}"{"<br/>".join(filter(None, words))}"{end}'
    for step in steps:
        for parent in step["after"]:
            yield f"  {names[parent]} --> {names[step['name']]}"
        if step["compensates"] is not None:
            yield f"  {names[step['compensates']]} -. compensated by .-> {names[step['name']]}"
