"""The steps of workflows in marks and words, and the drawing of a graph from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from types import SimpleNamespace
from typing import Any, Final

from pgcron_ha.db.queries.rows import Row
from pgcron_ha.model.formats import Mark, mark_of, number, plural
from pgcron_ha.model.verdicts import OPEN_STEPS
from pgcron_ha.model.workflow_graph import items_words
from pgcron_ha.web.graph import NODE_HEIGHT, NODE_WIDTH, Shape

FAILED: Final = ("dead", "lost", "cancelled", "expired", "upstream_failed")
# In the order in which filters offer them.
STATES: Final = (*OPEN_STEPS, "succeeded", *FAILED, "skipped", "superseded")
# What a step waits for that executes nothing.
_WAITS: Final = {
    "signal": Mark("◷", "waits for a signal", "late"),
    "approval": Mark("◷", "waits for approval", "late"),
    "timer": Mark("◷", "waits for its time", "idle"),
}


def step_mark(step: Row) -> Mark:
    """Its state; of one that waits for somebody or for a time, that."""
    if step["state"] == "running" and step["kind"] in _WAITS:
        return _WAITS[step["kind"]]
    return mark_of(step["state"])


def drawing_of(
    shape: Shape, rows: Iterable[Row], link: Callable[[Row], str | None]
) -> SimpleNamespace:
    """What a template draws. `rows` are the steps, or with the groups of a `shape` the counts of
    each group by state; `link` gives the address of a step, or of the first of a group.
    """
    if shape.groups is None:
        nodes = {row["number"]: _node(row, link(row)) for row in rows}
    else:
        grouped: dict[int, list[Row]] = {}
        for row in rows:
            grouped.setdefault(row["part"], []).append(row)
        nodes = {part: _group(of_it, link(of_it[0])) for part, of_it in grouped.items()}
    drawing = shape.drawing
    return SimpleNamespace(
        width=drawing.width,
        height=drawing.height,
        node_width=NODE_WIDTH,
        node_height=NODE_HEIGHT,
        edges=[path for _, path in drawing.edges],
        nodes=[
            SimpleNamespace(x=x, y=y, **nodes[node])
            for node, (x, y) in drawing.places.items()
            if node in nodes
        ],
        # Where all before is over, and nothing else is said: barriers.
        joins=[place for node, place in drawing.places.items() if node not in nodes],
        is_grouped=shape.groups is not None,
    )


def _node(step: Row, href: str | None) -> dict[str, Any]:
    if step["state"] is not None:
        mark = step_mark(step)
        words = items_words(step) if step["state"] == "running" else None
        words = words or mark.word
    else:
        mark = Mark("", step["kind"], "idle")
        words = step["handler"] or f"waits for {step['kind']}"
    part = {1: "compensation", 2: "runs finally"}.get(step["phase"])
    more = [part, "optional" if step["is_optional"] else None]
    return {
        "href": href,
        "mark": mark,
        "name": step["name"],
        "words": words,
        "title": ", ".join(filter(None, [f"{step['name']}: {words}", *more])),
        "is_aside": part is not None,
    }


def _group(rows: Sequence[Row], href: str | None) -> dict[str, Any]:
    """Steps of one layer, or of some, as one node; `rows` are their counts by state."""
    counts = Counter({row["state"]: row["steps"] for row in rows if row["state"] is not None})
    steps = sum(row["steps"] for row in rows)
    failed = sum(counts[state] for state in FAILED)
    ended = counts.total() - sum(counts[state] for state in OPEN_STEPS)
    name = rows[0]["name"] if steps == 1 else plural(steps, "step")
    state = next((word for word in reversed(OPEN_STEPS) if counts[word]), "succeeded")
    mark = mark_of("failed" if failed else state) if counts else Mark("", "", "idle")
    words = f"{number(ended)} ended" if ended else mark.word
    if failed and steps > 1:
        words += f", {number(failed)} failed"
    said = ", ".join(f"{number(count)} {mark_of(state).word}" for state, count in counts.items())
    return {
        "href": href,
        "mark": mark,
        "name": name,
        "words": mark_of(next(iter(counts))).word if steps == 1 and counts else words,
        "title": f"{name}: {said}" if said else name,
        "is_aside": False,
    }
