"""Workflows in the tests of an application: executed at once, steps with chosen outcomes."""

from __future__ import annotations

from tests.plugin.test_plugin import Suite, passed
from tests.plugin.test_plugin import suite as suite  # a fixture

JOBS = """
from pgcron_ha import App

app = App()
charged = []

@app.handler("extract")
def extract(context, day: str):
    return {"rows": 2, "day": day}

@app.handler("charge")
def charge(context, rows: int):
    charged.append(rows)
    return rows * 10

@app.handler("refund")
def refund(context):
    charged.clear()

@app.handler("resize")
def resize(context, item: int):
    if item == 3:
        raise ValueError("three")
    return item * 2

@app.workflow()
def daily(flow):
    rows = flow.step(extract, args={"day": flow.args["day"]})
    flow.step(charge, args={"rows": rows.result["rows"]}, after=rows)
"""
TESTS = """
import json
import psycopg
import pytest
import jobs
from pgcron_ha import chain
from pgcron_ha.errors import InvalidInput, NotFound, WaitTimedOut

ORDER = {"steps": [
    {"name": "extract", "handler": "py:extract", "args_from": {"day": "$.args.day"}},
    {"name": "charge", "handler": "py:charge", "after": "extract",
     "args_from": {"rows": "$.extract.rows"}},
    {"name": "pause", "wait_for": "timer", "deadline": "3 days", "after": "charge"},
    {"name": "ok", "wait_for": "approval", "deadline": "5 days", "at_deadline": "skip",
     "after": "pause"},
    {"name": "ship", "handler": "shell:ship", "after": "ok", "requires": ["gpu"]},
    {"name": "refund", "handler": "py:refund", "compensates": "charge"},
    {"name": "clean", "handler": "py:refund", "finally": True},
]}
MANY = {"steps": [{"name": "resize", "handler": "py:resize", "for_each": "$.args.sizes",
                   "tolerate": 1, "max_attempts": 2}]}

@pytest.fixture(autouse=True)
def defined(pgcron):
    jobs.charged.clear()
    with psycopg.connect(pgcron.dsn) as connection:
        for name, definition in (("order", ORDER), ("many", MANY)):
            connection.execute("SELECT pgcron.put_workflow(%s, %s)", (name, json.dumps(definition)))

async def test_steps_come_to_what_is_chosen_and_others_run(pgcron):
    done = await pgcron.run_workflow("order", {"day": "monday"}, {"ok": True, "ship": {"sent": 1}})
    assert done.state == "succeeded"
    assert done.steps["extract"].result == {"rows": 2, "day": "monday"}
    assert (done.steps["charge"].result, jobs.charged) == (20, [])  # clean emptied it
    assert done.steps["pause"].state == "succeeded"
    assert done.steps["ship"].result == {"sent": 1}
    assert done.steps["refund"].state == "skipped"

async def test_a_failure_is_undone(pgcron):
    done = await pgcron.run_workflow(
        "order", {"day": "x"}, {"ok": True, "ship": ValueError("no truck")})
    assert (done.state, done.steps["ship"].state) == ("dead", "dead")
    assert "no truck" in done.steps["ship"].reason
    assert done.steps["refund"].state == "succeeded"
    assert "ship" in done.run.error

async def test_deadlines_are_not_waited_for(pgcron):
    done = await pgcron.run_workflow("order", {"day": "x"}, {"extract": {"rows": 7}})
    assert done.steps["ok"].state == "skipped"
    assert done.steps["charge"].result == 70
    assert done.steps["ship"].state == "skipped"

async def test_a_function_stands_in_for_each_item(pgcron):
    done = await pgcron.run_workflow("many", {"sizes": [1, 3]})
    assert [(each.state, each.result) for each in done.steps["resize"].items] == [
        ("succeeded", 2), ("dead", None)]
    assert done.state == "succeeded"
    done = await pgcron.run_workflow(
        "many", {"sizes": [1, 3]}, {"resize": lambda item: item + 1})
    assert done.steps["resize"].result == [2, 4]

async def test_workflows_of_the_app_run_too(pgcron):
    for workflow in (jobs.daily, "daily"):
        done = await pgcron.run_workflow(workflow, {"day": "x"}, {"extract": {"rows": 4}})
        assert (done.state, done.run.result) == ("succeeded", 40)
    parts = chain({"handler": "resize", "args": {"item": 1}}, "refund")
    done = await pgcron.run_workflow(parts)
    assert [each.result for each in done.steps.values()] == [2, None]

async def test_what_can_not_go_on_is_said(pgcron):
    with pytest.raises(WaitTimedOut, match="shell:ship did not end: .* no live node"):
        await pgcron.run_workflow("order", {"day": "x"}, {"ok": 1})
    with pytest.raises(InvalidInput, match="has no step 'shipp'; did you mean 'ship'"):
        await pgcron.run_workflow("order", {}, {"shipp": 1})
    with pytest.raises(NotFound, match="workflow 'nothing' does not exist"):
        await pgcron.run_workflow("nothing")

async def test_an_arg_that_finds_nothing_ends_its_step(pgcron):
    done = await pgcron.run_workflow("order", {}, {"ok": 1, "ship": 2})
    assert done.steps["extract"].state == "dead"
    assert "finds nothing" in done.steps["extract"].reason
"""


def test_workflows_run_at_once_with_chosen_outcomes(suite: Suite) -> None:
    assert passed(suite(TESTS, jobs=JOBS), 7)
