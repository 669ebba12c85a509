"""The graph of a workflow: where its steps are drawn (in layers from left to right, with few
crossings), and with which marks and words.

Pure, and bounded whatever it is given: a graph that nobody could read is drawn by groups of layers.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from statistics import fmean
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

from pgcron_ha.db.queries.rows import Row
from pgcron_ha.model.formats import Mark, mark_of, number, plural
from pgcron_ha.model.verdicts import OPEN_STEPS
from pgcron_ha.model.workflow_graph import items_words

Edge: TypeAlias = tuple[int, int]
"""A node and one that comes after it, which has a higher number."""

MOST_NODES: Final = 300
# Of all edges together, by the layers that they cross.
MOST_CROSSED: Final = 2_500
MOST_GROUPS: Final = 60
NODE_WIDTH: Final = 184
NODE_HEIGHT: Final = 44
# Between two layers, where edges turn; between two nodes, and beside an edge that passes a layer.
_GAP: Final = 52
_SPACE: Final = 14
_PASSING_HEIGHT: Final = 4
# Odd: the last one is from the left.
_SWEEPS: Final = 9


@dataclass(frozen=True, eq=False)
class Drawing:
    """The upper left corners of nodes, by their numbers, and edges as paths of SVG."""

    places: Mapping[int, tuple[float, float]]
    edges: Sequence[tuple[Edge, str]]
    width: float
    height: float


@dataclass(frozen=True, eq=False)
class Shape:
    """How a graph is drawn: node by node, or by groups.

    ``groups`` has the group of each node, if it is drawn so; the numbers of the drawing are then
    those of groups.
    """

    drawing: Drawing
    nodes: Sequence[int]
    groups: Sequence[int] | None = None


def shape_of(nodes: Sequence[int], edges: Iterable[Edge]) -> Shape:
    """The drawing of a graph; `nodes` are ascending."""
    ordered = sorted(edges)
    layers = layers_of(nodes, ordered)
    crossed = sum(layers[child] - layers[parent] for parent, child in ordered)
    if len(nodes) <= MOST_NODES and crossed <= MOST_CROSSED:
        return Shape(_draw(layers, ordered), nodes)
    # A node below the first layer has a parent in the layer above it, so groups form a chain.
    together = -(-(max(layers.values()) + 1) // MOST_GROUPS)
    groups = [layers[node] // together for node in nodes]
    chain = range(max(groups) + 1)
    drawing = _draw({group: group for group in chain}, list(pairwise(chain)))
    return Shape(drawing, nodes, groups)


def layers_of(nodes: Iterable[int], edges: Sequence[Edge]) -> dict[int, int]:
    """For each node the length of the longest way to it; `edges` are in ascending order."""
    layers = dict.fromkeys(nodes, 0)
    for parent, child in edges:  # all that lead to a parent come before those that lead from it
        layers[child] = max(layers[child], layers[parent] + 1)
    return layers


@dataclass
class _Layers:
    """Columns of nodes, and of points (negative numbers) where edges pass a column."""

    columns: list[list[int]]
    before: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    after: dict[int, list[int]] = field(default_factory=lambda: defaultdict(list))
    routes: list[list[int]] = field(default_factory=list)


def _draw(layers: Mapping[int, int], edges: Sequence[Edge]) -> Drawing:
    found = _layered(layers, edges)
    _order(found)
    middles = _middles(found)
    top = min(middle - _height(node) / 2 for node, middle in middles.items())
    across = {
        node: position * (NODE_WIDTH + _GAP)
        for position, column in enumerate(found.columns)
        for node in column
    }
    middles = {node: round(middle - top, 1) for node, middle in middles.items()}
    return Drawing(
        {node: (across[node], middles[node] - NODE_HEIGHT / 2) for node in layers},
        [((r[0], r[-1]), _path([(across[n], middles[n]) for n in r])) for r in found.routes],
        len(found.columns) * (NODE_WIDTH + _GAP) - _GAP,
        max(middle + _height(node) / 2 for node, middle in middles.items()),
    )


def _layered(layers: Mapping[int, int], edges: Sequence[Edge]) -> _Layers:
    found = _Layers([[] for _ in range(max(layers.values()) + 1)])
    for node, layer in layers.items():
        found.columns[layer].append(node)
    point = 0
    for parent, child in edges:
        route = [parent]
        for column in found.columns[layers[parent] + 1 : layers[child]]:
            point -= 1
            column.append(point)
            route.append(point)
        route.append(child)
        found.routes.append(route)
        for one, other in pairwise(route):
            found.after[one].append(other)
            found.before[other].append(one)
    return found


def _order(found: _Layers) -> None:
    """Orders each column by the mean place of what its nodes are tied to, from both sides in turn,
    so that few edges cross.
    """
    for sweep in range(_SWEEPS):
        forward = sweep % 2 == 0
        columns = found.columns if forward else found.columns[::-1]
        ties = found.before if forward else found.after
        for fixed, column in pairwise(columns):
            rank = {node: position for position, node in enumerate(fixed)}
            means = {node: _mean(rank, ties[node], at) for at, node in enumerate(column)}
            column.sort(key=means.__getitem__)


def _mean(places: Mapping[int, float], tied: Sequence[int], own: float) -> float:
    """Of the places of what a node is tied to; its own, if that is nothing."""
    return fmean(places[node] for node in tied) if tied else own


def _middles(found: _Layers) -> dict[int, float]:
    """How far down the middle of each node is: near to what it is tied to, over no other one."""
    middles = {node: 0.0 for column in found.columns for node in column}
    for ties in (found.before, found.after, found.before):
        for column in found.columns if ties is found.before else found.columns[::-1]:
            wanted = [_mean(middles, ties[node], middles[node]) for node in column]
            placed: list[float] = []
            for node, want in zip(column, wanted, strict=True):
                if placed:
                    room = (_height(column[len(placed) - 1]) + _height(node)) / 2 + _SPACE
                    want = max(want, placed[-1] + room)
                placed.append(want)
            # As many move up as were pushed down.
            shift = fmean(wanted) - fmean(placed)
            middles.update(zip(column, (place + shift for place in placed), strict=True))
    return middles


def _height(node: int) -> float:
    return NODE_HEIGHT if node >= 0 else _PASSING_HEIGHT


def _path(stops: Sequence[tuple[float, float]]) -> str:
    """From the right of the first stop to the left of the last, past those between."""
    parts: list[str] = []
    for (left, y), (right, end) in pairwise(stops):
        begin = left + NODE_WIDTH
        middle = (begin + right) / 2
        parts.append(f"{'L' if parts else 'M'}{begin:g} {y:g}")
        parts.append(
            f"H{right:g}" if y == end else f"C{middle:g} {y:g} {middle:g} {end:g} {right:g} {end:g}"
        )
    return "".join(parts)


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
