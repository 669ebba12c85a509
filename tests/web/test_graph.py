"""The drawing of a workflow: layers, order, places; steps in words; bars over time."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.product.web import (
    MOST_GROUPS,
    MOST_NODES,
    NODE_HEIGHT,
    NODE_WIDTH,
    PLOTS_WIDTH,
    Drawing,
    drawing_of,
    gantt,
    items_words,
    shape_of,
    step_mark,
)

START = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)


def ends(path: str) -> tuple[float, float, float, float]:
    """Where a path begins and where it ends."""
    numbers = [float(each) for each in re.findall(r"-?[\d.]+(?:e[+-]\d+)?", path)]
    if path.rpartition("H")[2].isdigit():  # a line straight ahead
        numbers.append(numbers[1] if "C" not in path else numbers[-2])
    return numbers[0], numbers[1], numbers[-2], numbers[-1]


def column(drawing: Drawing, *nodes: int) -> list[float]:
    return [drawing.places[node][0] for node in nodes]


@st.composite
def graphs(draw: st.DrawFn) -> tuple[list[int], list[tuple[int, int]]]:
    nodes = sorted(draw(st.sets(st.integers(1, 60), min_size=1, max_size=25)))
    pairs = list(combinations(nodes, 2))
    edges = draw(st.lists(st.sampled_from(pairs), unique=True, max_size=60)) if pairs else []
    return nodes, edges


@given(graphs())
@settings(max_examples=60, deadline=None)
def test_nodes_are_in_layers_and_never_over_each_other(
    graph: tuple[list[int], list[tuple[int, int]]],
) -> None:
    nodes, edges = graph
    drawing = shape_of(nodes, edges).drawing

    assert sorted(drawing.places) == nodes
    for parent, child in edges:
        assert drawing.places[parent][0] < drawing.places[child][0]
    for one, other in combinations(drawing.places.values(), 2):
        assert one[0] != other[0] or abs(one[1] - other[1]) >= NODE_HEIGHT
    assert all(0 <= x <= drawing.width - NODE_WIDTH for x, _ in drawing.places.values())
    assert all(-0.1 <= y <= drawing.height - NODE_HEIGHT + 0.1 for _, y in drawing.places.values())
    assert sorted(edge for edge, _ in drawing.edges) == sorted(edges)
    for (parent, child), path in drawing.edges:
        begin_x, begin_y, end_x, end_y = ends(path)
        (left, above), (right, below) = drawing.places[parent], drawing.places[child]
        assert (begin_x, end_x) == (left + NODE_WIDTH, right)
        assert begin_y == pytest.approx(above + NODE_HEIGHT / 2, abs=0.1)
        assert end_y == pytest.approx(below + NODE_HEIGHT / 2, abs=0.1)


def test_a_node_is_in_the_layer_of_the_longest_way_to_it() -> None:
    drawing = shape_of([1, 2, 3, 4], [(1, 4), (1, 2), (2, 3), (3, 4)]).drawing

    assert column(drawing, 1, 2, 3, 4) == sorted(set(column(drawing, 1, 2, 3, 4)))


def test_a_chain_is_a_straight_line() -> None:
    drawing = shape_of(range(1, 20), [(node, node + 1) for node in range(1, 19)]).drawing

    assert {y for _, y in drawing.places.values()} == {0}
    assert drawing.height == NODE_HEIGHT


def test_layers_are_ordered_so_that_edges_do_not_cross() -> None:
    # Two trees, written so that their leaves are mixed.
    edges = [(1, 4), (1, 6), (1, 8), (2, 3), (2, 5), (2, 7), (3, 10), (4, 9), (5, 12), (6, 11)]
    drawing = shape_of(range(1, 13), edges).drawing

    for (a, b), (c, d) in combinations(edges, 2):
        if drawing.places[a][0] == drawing.places[c][0] and len({a, b, c, d}) == 4:
            above = drawing.places[a][1] < drawing.places[c][1]
            assert above == (drawing.places[b][1] < drawing.places[d][1]), (a, b, c, d)


def test_a_wide_graph_is_drawn_by_its_layers() -> None:
    items = range(2, 10_002)
    shape = shape_of(range(1, 10_003), [(1, n) for n in items] + [(n, 10_002) for n in items])

    assert shape.groups == [0, *[1] * 10_000, 2]
    assert sorted(shape.drawing.places) == [0, 1, 2]
    assert [edge for edge, _ in shape.drawing.edges] == [(0, 1), (1, 2)]


def test_a_long_chain_is_drawn_by_some_layers_together() -> None:
    shape = shape_of(range(1, 10_001), [(n, n + 1) for n in range(1, 10_000)])

    assert shape.groups is not None
    assert len(shape.drawing.places) == MOST_GROUPS
    assert list(shape.groups) == sorted(shape.groups)


@pytest.mark.parametrize("steps", [MOST_NODES, MOST_NODES + 1])
def test_so_many_nodes_are_drawn_one_by_one(steps: int) -> None:
    shape = shape_of(range(steps), [])

    assert (shape.groups is None) == (steps == MOST_NODES)


def test_edges_that_nobody_could_follow_are_drawn_by_layers() -> None:
    between = [(a, b) for a in range(100) for b in range(100, 200)]

    assert shape_of(range(200), between).groups == [0] * 100 + [1] * 100


def step(number: int, state: str, **facts: Any) -> dict[str, Any]:
    known = {"name": f"s{number}", "kind": "run", "phase": 0, "is_optional": False}
    return {"number": number, "state": state, "items": None, **known, **facts}


def test_each_node_says_its_state_and_leads_to_its_step() -> None:
    found = drawing_of(
        shape_of([1, 2, 3, 4], [(1, 2), (2, 3), (3, 4)]),
        [
            step(1, "succeeded"),
            step(2, "running", kind="map", items=10_000, items_ended=9_412, items_failed=3),
            step(4, "waiting", phase=2),
        ],
        lambda row: f"/steps/{row['name']}",
    )

    assert [(node.name, node.mark.tone, node.href) for node in found.nodes] == [
        ("s1", "ok", "/steps/s1"),
        ("s2", "run", "/steps/s2"),
        ("s4", "idle", "/steps/s4"),
    ]
    assert found.nodes[1].words == "9\u202f412 of 10\u202f000, 3 failed"
    assert found.nodes[2].title == "s4: waiting, runs finally"
    assert len(found.joins) == 1  # a barrier is no step


def test_a_group_counts_its_steps_by_state() -> None:
    counts = [("succeeded", 9_400), ("running", 500), ("dead", 100)]
    rows = [
        {"part": 1, "state": state, "steps": steps, "name": "one", "first": 2}
        for state, steps in counts
    ]
    rows.append({"part": 0, "state": "succeeded", "steps": 1, "name": "head", "first": 1})
    shape = shape_of(range(1, 10_002), [(1, n) for n in range(2, 10_002)])

    head, wide = drawing_of(shape, rows, lambda row: str(row["first"])).nodes

    assert (head.name, head.words, head.href) == ("head", "succeeded", "1")
    assert (wide.name, wide.words) == ("10\u202f000 steps", "9\u202f500 ended, 100 failed")
    assert (wide.mark.tone, wide.href) == ("fail", "2")


def test_a_step_that_waits_for_a_person_says_so() -> None:
    assert step_mark(step(1, "running", kind="approval")).word == "waits for approval"
    assert step_mark(step(1, "succeeded", kind="approval")).word == "succeeded"
    assert items_words(step(1, "waiting", kind="map")) is None


def test_bars_are_over_the_time_since_the_beginning() -> None:
    def bar(name: str, began: float, ended: float | None, is_critical: bool) -> dict[str, Any]:
        end = None if ended is None else START + timedelta(seconds=ended)
        start = START + timedelta(seconds=began)
        state = "running" if end is None else "succeeded"
        times = {"started_at": start, "ended_at": end}
        return {"name": name, "state": state, "is_critical": is_critical, **times}

    steps = [bar("late", 50, None, True), bar("early", 0, 50, True), bar("short", 0, 0.001, False)]
    plot = gantt(steps, START, START + timedelta(seconds=100))

    assert [each.name for each in plot.bars] == ["early", "short", "late"]
    assert [(each.x, each.width) for each in plot.bars] == [(0, 500), (0, 3), (500, 500)]
    assert plot.bars[0].title == "early: succeeded, 50\u202fs, on the critical path"
    assert [label for _, label in plot.ticks][:2] == ["20\u202fs", "40\u202fs"]
    assert all(0 < x < PLOTS_WIDTH for x, _ in plot.ticks)
    assert gantt(steps[2:], START, START).bars[0].width > 0
