"""Graphs of workflows as text, and sentences about their steps."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pgcron_ha.errors import InvalidInput
from tests.product.model import DEEPEST, mermaid, step_sentence, text_lines
from tests.product.testing import statuses, with_outcomes


def step(number: int, name: str, *after: str, kind: str = "run", **more: Any) -> dict[str, Any]:
    row = {"number": number, "name": name, "kind": kind, "phase": 0, "after": list(after)}
    return {**row, "compensates": None, "is_optional": False, **more}


DEFINED = [
    step(1, "extract"),
    step(2, "transform", "extract"),
    step(3, "check", "extract", is_optional=True),
    step(4, "resize", "extract", kind="map"),
    step(5, "load", "transform", "check"),
    step(6, "approve", "load", kind="approval"),
    step(7, "unload", phase=1, compensates="load"),
    step(8, "clean", phase=2),
]
STATES = ["succeeded", "running", "dead", "running", *["waiting"] * 4]


def of_run() -> list[dict[str, Any]]:
    counted = {"items": 10, "items_ended": 3, "items_failed": 1}
    rows = [{**each, "state": state} for each, state in zip(DEFINED, STATES, strict=True)]
    return [{**row, **counted} if row["kind"] == "map" else row for row in rows]


def test_each_step_stands_once_to_the_right_of_what_it_comes_after() -> None:
    assert list(text_lines(DEFINED)) == [
        "extract",
        "  transform    after extract",
        "  check        optional; after extract",
        "  resize       for each item; after extract",
        "    load       after transform, check",
        "      approve  approval; after load",
        "unload         compensates load",
        "clean          finally",
    ]


def test_the_graph_of_a_run_has_the_states_of_its_steps() -> None:
    assert list(text_lines(of_run()))[:6] == [
        "extract        succeeded",
        "  transform    running    after extract",
        "  check        dead       optional; after extract",
        "  resize       running    items: 3 of 10, 1 failed; after extract",
        "    load       waiting    after transform, check",
        "      approve  waiting    approval; after load",
    ]


def test_a_chain_of_many_thousand_steps_stays_readable() -> None:
    chain = [step(1, "s1"), *(step(n, f"s{n}", f"s{n - 1}") for n in range(2, 100_001))]

    lines = list(text_lines(chain))

    assert len(lines) == 100_000
    assert lines[-1] == "  " * DEEPEST + "s100000  after s99999"


def test_mermaid_has_shapes_edges_and_the_state_of_each_step() -> None:
    lines = [line.strip() for line in mermaid(of_run())]

    assert lines[:9] == [
        "flowchart TD",
        's1["extract<br/>succeeded"]',
        's2["transform<br/>running"]',
        's3["check<br/>dead"]',
        's4[["resize<br/>running<br/>3 of 10, 1 failed"]]',
        's5["load<br/>waiting"]',
        's6{{"approve<br/>waiting"}}',
        's7["unload<br/>waiting"]',
        's8["clean<br/>waiting"]',
    ]
    assert {"s2 --> s5", "s3 --> s5", "s5 -. compensated by .-> s7"} <= set(lines)
    assert 's1["extract"]' in [line.strip() for line in mermaid(DEFINED)]


@pytest.mark.parametrize(
    ("row", "sentence"),
    [
        ({"state": "waiting", "waits_detail": "it waits for extract"}, "it waits for extract"),
        ({"state": "running", "step_run": 7}, "run 7 executes"),
        ({"state": "succeeded"}, "it has ended: succeeded"),
        (
            {"state": "upstream_failed", "reason": "load failed"},
            "it has ended: upstream failed (load failed)",
        ),
    ],
)
def test_a_step_has_one_sentence(row: dict[str, Any], sentence: str) -> None:
    assert (
        step_sentence({"step_run": None, "reason": None, "waits_detail": None, **row}) == sentence
    )


def test_steps_with_chosen_outcomes_wait_for_nobody_and_need_no_node_of_theirs() -> None:
    wait = {"name": "ok", "wait_for": "approval", "deadline": "1 h", "at_deadline": "skip"}
    load = {"name": "load", "handler": "shell:load", "after": "ok", "queue": "gpu", "weight": 2}
    other = {"name": "other", "handler": "py:other"}

    text, app = with_outcomes(
        {"steps": [wait, load, other]}, {"ok": True, "load": ValueError("no")}
    )

    assert json.loads(text)["steps"] == [
        {"name": "ok", "handler": "py:outcome_of.ok"},
        {"name": "load", "handler": "py:outcome_of.load", "after": "ok"},
        other,
    ]
    assert set(app.handlers) == {"py:outcome_of.ok", "py:outcome_of.load"}
    with pytest.raises(InvalidInput, match="has no step 'laod'; did you mean 'load'"):
        with_outcomes({"steps": [load]}, {"laod": 1})


def test_items_stand_below_their_step() -> None:
    def row(item: int, state: str) -> dict[str, Any]:
        return {"name": "resize", "item": item, "state": state, "result": item, "reason": None}

    found = statuses([row(-1, "dead"), row(0, "succeeded"), row(1, "dead")])

    assert [(each.state, each.result) for each in found["resize"].items] == [
        ("succeeded", 0),
        ("dead", 1),
    ]
