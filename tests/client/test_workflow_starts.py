"""What starts a workflow: parts that become steps, and what is refused before anything is sent."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest

from pgcron_ha import App, Throttle, chain, chord, group, map_each
from pgcron_ha.errors import ConfigError, InvalidInput, TooLarge
from tests.product.client import NewRun, Registry, StartRequest, request_start


def started(workflow: Any, args: Any = None, **options: Any) -> StartRequest:
    return request_start(Registry(), workflow, args, options)


def steps_of(workflow: Any) -> tuple[dict[str, Any], Any]:
    """What each comes after, by name; and the workflow's args."""
    request = started(workflow)
    steps = json.loads(request.definition or "")["steps"]
    return {step["name"]: step.get("after", []) for step in steps}, json.loads(request.request.args)


def test_parts_become_steps() -> None:
    dependencies, args = steps_of(
        chain("a", group("b", chain("c", "d")), chord(["e", "a"], "f"), map_each("g", [1, 2]))
    )
    assert dependencies == {
        "a": [],
        "b": ["a"],
        "c": ["a"],
        "d": ["c"],
        "e": ["b", "d"],
        "a-2": ["b", "d"],
        "f": ["e", "a-2"],
        "g": ["f"],
    }
    assert args == {"g": {"item": [1, 2]}}


def test_each_part_has_a_name_that_a_step_may_have() -> None:
    dependencies, args = steps_of(
        chain(
            *("load", "load", "load-2", "load"),
            *("2fa", "item", {"handler": "args", "args": {"x": 1}}),
            {"handler": "load", "name": "first", "args": {"x": 2}},
            map_each({"handler": "load", "name": "each"}, [1]),
        )
    )
    assert list(dependencies) == [
        *("load", "load-2", "load-2-2", "load-3"),
        *("_2fa", "_item", "_args"),
        *("first", "each"),
    ]
    assert args == {"_args": {"x": 1}, "first": {"x": 2}, "each": {"item": [1]}}


def test_values_are_args_so_that_the_definition_is_the_same() -> None:
    def order(number: int) -> StartRequest:
        charge: NewRun = {"handler": "shell:charge", "args": {"order id": number}, "queue": "slow"}
        return started(chain(charge, map_each({"handler": "a.b", "args": {"x": 1}}, [number])))

    first, second = order(1), order(2)
    assert first.definition == second.definition
    assert json.loads(first.definition or "")["steps"] == [
        {
            "name": "charge",
            "handler": "shell:charge",
            "args_from": {"order id": '$.args.charge."order id"'},
            "queue": "slow",
        },
        {
            "name": "a_b",
            "handler": "py:a.b",
            "args_from": {"x": "$.args.a_b.x", "item": "$.item"},
            "after": ["charge"],
            "for_each": "$.args.a_b.item",
        },
    ]
    assert json.loads(second.request.args) == {
        "charge": {"order id": 2},
        "a_b": {"x": 1, "item": [2]},
    }


def test_a_name_is_started_with_the_options_of_a_run() -> None:
    minute = timedelta(minutes=1)
    request = started("etl", {"day": 1}, queue="slow", unique=Throttle("k", minute), tags=None)
    assert request.definition is None
    assert request.request.handler == "workflow:etl"
    assert dict(request.request.options) == {
        "queue": "slow",
        "unique_key": "k",
        "unique_for": minute,
    }


@pytest.mark.parametrize(
    ("workflow", "args", "options", "message"),
    [
        ("py:report", None, {}, "'py:report' is no workflow"),
        ("a b", None, {}, "handler 'workflow:a b' is not a handler name"),
        ("etl", {"x": {1: object()}}, {}, "args can't be written as JSON"),
        ("etl", None, {"max_attempts": 5}, "without the option 'max_attempts'"),
        ("etl", None, {"weight": 2}, "without the option 'weight'"),
        ("etl", None, {"quue": "slow"}, "enqueue has no argument 'quue'"),
        ("etl", None, {"priority": 10}, "priority 10 is out of range"),
        (chain("a"), {"x": 1}, {}, "args are given to a workflow without a name"),
        (chain(), None, {}, "it has no steps"),
        (chain({"handler": "a", "quue": 1}), None, {}, r"step 1 \('a'\): a step has no key 'quue'"),
        (chain({"handler": "a", "name": "2"}), None, {}, "'2' is no name that a step may have"),
        (chain({"handler": "a", "name": ["x"]}), None, {}, "is no name that a step may have"),
        (
            chain("a", {"handler": "b", "name": "a"}),
            None,
            {},
            "step 2 .*another step has this name",
        ),
        (chain({"handler": "b", "args": [1]}), None, {}, "args is a JSON array"),
    ],
)
async def test_what_can_t_be_started_is_refused_before_anything_is_sent(
    workflow: Any, args: Any, options: dict[str, Any], message: str
) -> None:
    app = App("postgresql://127.0.0.1:1/nobody")
    with pytest.raises(InvalidInput, match=message):
        await app.start(workflow, args, **options)


async def test_handlers_of_the_app_are_known_to_parts() -> None:
    app = App("postgresql://127.0.0.1:1/nobody")

    @app.handler()
    def load(rows: int) -> None: ...

    with pytest.raises(InvalidInput, match="the args don't fit py:load"):
        await app.start(chain({"handler": load, "args": {"rows": "x"}}))
    with pytest.raises(InvalidInput, match="'py:load' is no workflow"):
        await app.start(load)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="is not a handler of this App"):
        await app.start(chain(lambda: None))
    with pytest.raises(TooLarge, match="10001 items are given"):
        map_each(load, range(10_001))
    with pytest.raises(InvalidInput, match="the payload can't be written as JSON"):
        await app.signal(1, "go", object())
