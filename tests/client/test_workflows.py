"""Workflows in Python: what a builder's steps become, and what is refused where it is written."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from pgcron_ha import App, Workflow
from pgcron_ha.errors import ConfigError, InvalidInput, PgcronError
from tests.product.client import Condition, Path, judged_workflow, references

ETL: Any = {
    "description": "Nightly",
    "on_failure": "continue",
    "parallelism": 3,
    "timeout": "24h1s500ms",
    "steps": [
        {
            "name": "extract",
            "handler": "py:extract",
            "args_from": {"day": "$.args.day"},
            "queue": "slow",
            "timeout": "5m",
            "max_attempts": 3,
            "tags": ["nightly"],
        },
        {
            "name": "load",
            "handler": "shell:load",
            "args": {"mode": "full"},
            "args_from": {"rows": "$.extract.rows"},
            "after": ["extract"],
            "when": '($.extract.rows > 0) && (!($.extract."my kind" == "x"))',
            "optional": True,
        },
        {
            "name": "resize",
            "handler": "shell:resize",
            "args_from": {"in": "$.item.p"},
            "after": ["extract"],
            "for_each": "$.extract.files",
            "max_parallel": 9,
        },
        {
            "name": "ok",
            "wait_for": "approval",
            "deadline": "24h",
            "at_deadline": "skip",
            "after": ["load"],
        },
        {"name": "go", "wait_for": "signal", "after": ["ok"]},
        {
            "name": "cool_down",
            "wait_for": "timer",
            "deadline": "10m",
            "after": ["ok", "load"],
            "rule": "all_ended",
        },
        {
            "name": "a_poll",
            "handler": "http:a.poll",
            "repeat": {"while": '$.state == "busy"', "at_most": 9, "every": "30s"},
        },
        {
            "name": "refund",
            "handler": "shell:refund",
            "args_from": {"of": "$.load.id"},
            "compensates": "load",
        },
        {"name": "tidy-up", "handler": "shell:tidy", "finally": True, "queue": "x"},
    ],
}


@pytest.fixture
def app() -> App:
    app = App("postgresql://127.0.0.1:1/nobody")

    @app.handler(queue="slow", timeout="5m", max_attempts=3, tags=["nightly"])
    def extract(day: str) -> None: ...

    @app.handler()
    def load(rows: int) -> None: ...

    return app


def steps_of(app: App, build: Callable[[Workflow], object], **settings: Any) -> list[Any]:
    app.workflow("built", **settings)(build)
    steps: list[Any] = app.workflows["built"]["steps"]
    return steps


def refusal_of(app: App, build: Callable[[Workflow], object], **settings: Any) -> str:
    with pytest.raises(PgcronError) as refusal:
        app.workflow("refused", **settings)(build)
    assert refusal.value.detail
    assert refusal.value.hint
    assert "refused" not in app.workflows
    return "\n".join(part.message for part in refusal.value.parts)


def test_a_builder_s_steps_become_a_definition(app: App) -> None:
    @app.workflow(parallelism=3, timeout=timedelta(days=1, seconds=1.5), description="Nightly")
    def etl(flow: Workflow) -> None:
        extract = flow.step("extract", args={"day": flow.args["day"]})
        load = flow.step(
            "shell:load",
            args={"rows": extract.result["rows"], "mode": "full"},
            when=(extract.result["rows"] > 0) & ~(extract.result["my kind"] == "x"),
            optional=True,
        )
        flow.map(
            "shell:resize", extract.result["files"], max_parallel=9, args={"in": flow.item["p"]}
        )
        ok = flow.approval("ok", after=load, deadline="24h", at_deadline="skip")
        flow.signal("go", after=["ok"])
        flow.timer("cool_down", "10m", after=[ok, load], rule="all_ended")
        flow.step(
            "http:a.poll",
            repeat={"while": flow.own_result["state"] == "busy", "at_most": 9, "every": 30},
        )
        flow.step("shell:refund", compensates=load, args={"of": load.result["id"]})
        flow.step("shell:tidy", name="tidy-up", finally_=True, queue="x")

    assert app.workflows["etl"] == ETL


def test_functions_stand_for_handlers_and_workflows() -> None:
    app = App()

    @app.handler("read.all", queue="slow")
    def read() -> None: ...

    @app.schedule("@daily")
    @app.workflow("inner")
    def nested(flow: Workflow) -> None:
        flow.step(read)

    steps = steps_of(app, lambda flow: flow.step(read, after=flow.step(nested), queue="fast"))

    assert steps == [
        {"name": "inner", "handler": "workflow:inner"},
        {"name": "read_all", "handler": "py:read.all", "after": ["inner"], "queue": "fast"},
    ]
    assert app.schedules["inner"].handler == "workflow:inner"


def test_steps_are_put_in_an_order_in_which_they_can_be_executed(app: App) -> None:
    def build(flow: Workflow) -> None:
        flow.step("c", after=["b", "a"])
        flow.step("d")
        flow.step("b", when="$.a.x == 1")
        flow.step("a")

    assert [step["name"] for step in steps_of(app, build)] == ["a", "d", "b", "c"]


def test_a_workflow_has_100000_steps_at_most() -> None:
    step = {"name": "a", "handler": "py:a"}
    with pytest.raises(InvalidInput, match=r"^steps is 100001 steps") as refusal:
        judged_workflow({"steps": [step] * 100_001})
    assert refusal.value.detail == "steps is a list of 1 to 100000 steps."
    assert refusal.value.hint


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda flow: None, "it has no steps"),
        (
            lambda flow: [flow.step("a"), flow.step("b", after="aa")],
            "step 2 ('b'): 'aa' is no step; did you mean 'a'?",
        ),
        (
            lambda flow: [flow.step("abc"), flow.step("b", when="$.abd.rows > 1")],
            "step 2 ('b'): 'abd' is no step; did you mean 'abc'?",
        ),
        (lambda flow: [flow.step("a"), flow.step("a")], "step 2 ('a'): another step has this name"),
        (
            lambda flow: [
                flow.step("x"),
                flow.step("a", after="c"),
                flow.step("b", after="a"),
                flow.step("c", after=["x", "b"]),
            ],
            "step 4 ('c'): it comes after itself: c → a → b → c",
        ),
        (
            lambda flow: flow.step("a", when="$.a.rows > 1"),
            "step 1 ('a'): it comes after itself: a → a",
        ),
        (
            lambda flow: flow.step("b", after=flow.step("a"), rule="always"),
            "step 2 ('b'): rule 'always' is not known",
        ),
        (
            lambda flow: flow.step("a", queue="a b", priority=12, retrys=3),
            "step 1 ('a'): a step has no key 'retrys'; did you mean 'retry'?\n"
            "step 1 ('a'): queue 'a b' is not a queue name\n"
            "step 1 ('a'): priority 12 is out of range",
        ),
        (
            lambda flow: flow.step("a", delivery="at_most_once", max_attempts=2),
            "step 1 ('a'): max_attempts 2 with at_most_once",
        ),
        (
            lambda flow: flow.step("a", name="args"),
            "step 1 ('args'): 'args' is no name that a step may have",
        ),
        (
            lambda flow: flow.step("load", args={"rows": "many"}),
            "step 1 ('load'): the args don't fit py:load: 'rows' is \"many\": "
            "Input should be a valid integer",
        ),
        (lambda flow: flow.step("a", args=[1]), "step 1 ('a'): args is a JSON array"),
        (lambda flow: flow.map("a", "files"), "step 1 ('a'): for_each 'files' is no path"),
        (
            lambda flow: flow.map("a", flow.args["x"], max_parallel=0, repeat={"while": "$"}),
            "step 1 ('a'): max_parallel 0 is out of range\n"
            "step 1 ('a'): repeat '{'while': '$'}' can't be read",
        ),
        (
            lambda flow: flow.timer("a", "half an hour"),
            "step 1 ('a'): deadline 'half an hour' is not a duration",
        ),
        (
            lambda flow: flow.step("a", silence_timeout=0.5),
            "step 1 ('a'): silence_timeout 0.5 s is out of range",
        ),
        (
            lambda flow: flow.step("b", finally_=True, after=flow.step("a")),
            "step 2 ('b'): it can't come after 'a', or read its result",
        ),
        (
            lambda flow: flow.step("a") and flow.step("b", when=flow.args["x"] and True),
            "the value of $.args.x is asked for before the workflow runs",
        ),
        (
            lambda flow: 1 < flow.args["x"] < 9,
            "the value of $.args.x > 1 is asked for before the workflow runs",
        ),
        (
            lambda flow: flow.step("a", args={"day": [{"is": flow.args["x"]}]}),
            "step 1 ('a'): the value of $.args.x is asked for before the workflow runs",
        ),
        (lambda flow: flow.map("a", [1, 2]), "over is a list, and no path"),
        (lambda flow: flow.args["x"] > [1], "$.args.x > a list"),
    ],
)
def test_a_mistake_is_refused_with_its_place(app: App, build: Any, message: str) -> None:
    assert refusal_of(app, build) == message


@pytest.mark.parametrize(
    "use",
    [
        lambda path: f"rows: {path['rows']}",
        lambda path: f"{path:>9}",
        lambda path: f"{path > 1}",
        str,
        lambda path: "rows: " + path,
        lambda path: path + 1,
        lambda path: 1 - path,
        list,
        int,
        lambda path: "x" in path,
        lambda path: path > 1 & path,
        lambda path: (path > 1) & True,
    ],
)
def test_a_value_is_not_known_while_the_workflow_is_built(
    app: App, use: Callable[[Any], object]
) -> None:
    """A text of it would be the path, and its step would not wait for what it reads."""
    found = refusal_of(app, lambda flow: use(flow.step("a").result))
    assert re.fullmatch(r"the value of .* is asked for before the workflow runs", found)


def test_settings_are_checked_as_steps_are(app: App) -> None:
    found = refusal_of(app, lambda flow: flow.step("a"), parallelism=0, timeout="1y")
    assert found == "parallelism 0 is out of range\ntimeout '1y' is not a duration"
    with pytest.raises(InvalidInput, match="on_failure 'wait' is not known"):
        judged_workflow({"on_failure": "wait", "steps": [{"name": "a", "handler": "py:a"}]})


def test_a_chain_of_many_steps_is_put_in_order() -> None:
    steps = [{"name": f"s{n}", "handler": "py:a", "after": f"s{n - 1}"} for n in range(1, 5000)]
    found = judged_workflow({"steps": [*reversed(steps), {"name": "s0", "handler": "py:a"}]})
    assert [step["name"] for step in found["steps"]] == [f"s{n}" for n in range(5000)]
    with pytest.raises(InvalidInput, match=r"step 1 \('s1'\): it comes after itself: s1 → s2"):
        judged_workflow({"steps": [{**steps[0], "after": "s4999"}, *steps[1:]]})


def test_a_name_is_one_workflow_s(app: App) -> None:
    app.workflow("etl")(lambda flow: flow.step("a"))
    with pytest.raises(ConfigError, match="workflow 'etl' is defined twice"):
        app.workflow("etl")(lambda flow: flow.step("a"))
    for name in ("ad_hoc", "a b"):
        with pytest.raises(InvalidInput):
            app.workflow(name)(lambda flow: flow.step("a"))
    bare: Any = app.workflow
    with pytest.raises(ConfigError, match=r"@app\.workflow is used without parentheses"):
        bare(lambda flow: None)


def test_paths_are_written_as_jsonpath() -> None:
    root = Path("$.a")
    assert root["x"]["two words"][0][-1][-2].text == '$.a.x."two words"[0][last][last-1]'
    conditions: dict[object, str] = {
        root == 'it\'s "ä"': r'$.a == "it\'s \"\u00e4\""'.replace(r"\'", "'"),
        root != None: "$.a != null",  # noqa: E711
        root <= 1.5: "$.a <= 1.5",
        root >= Path("$.b"): "$.a >= $.b",
        (root < 1) | (root == True): "($.a < 1) || ($.a == true)",  # noqa: E712
    }
    assert [condition.text for condition in conditions if isinstance(condition, Condition)] == list(
        conditions.values()
    )


@pytest.mark.parametrize(
    ("path", "names"),
    [
        ("$.a.b > $.c.d && $.a.x == 1", ["a", "c"]),
        ('$."my-step".x == "$.no"', ["my-step"]),
        ("exists($.a ? (@.x > $ . b))", ["a", "b"]),
        ("$.size() > 1", []),
        ("$[0].a", []),
        (r'$."a\x62"', []),
    ],
)
def test_a_path_says_what_it_reads(path: str, names: list[str]) -> None:
    assert references(path) == names


def test_definitions_are_the_same_when_they_are_checked_again(app: App) -> None:
    steps_of(app, lambda flow: flow.step("b", after=flow.step("extract", args={"day": "x"})))
    definition = app.workflows["built"]
    assert judged_workflow(json.loads(json.dumps(definition))) == definition
