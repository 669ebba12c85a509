"""What a run requires of its node, as Python says it."""

from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

import asyncpg
import pytest

from pgcron_ha import App
from pgcron_ha.errors import InvalidInput
from tests.product.client import Registry, request_run, requirement_words


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, None),
        ([], None),
        ({"gpu": "a100", "ssd": True}, ("gpu=a100", "ssd")),
        (["zone=eu", "gpu"], ("gpu", "zone=eu")),
        (("image=ghcr.io/a:1+b",), ("image=ghcr.io/a:1+b",)),
    ],
)
def test_labels_are_said_as_a_mapping_or_a_list(given: Any, words: Any) -> None:
    assert requirement_words(given) == words


@pytest.mark.parametrize(
    "given",
    [
        "gpu=a100",
        7,
        {"gpu": False},
        {"gpu": 1},
        {1: "gpu"},
        ["gpu=a100", "gpu=h100"],
        ["gpu", "gpu=h100"],
        ["gpu="],
        [1],
        ["a b"],
        [f"k{n}" for n in range(17)],
    ],
)
def test_what_is_no_list_of_labels_is_refused_with_the_rule(given: Any) -> None:
    with pytest.raises(InvalidInput, match="is not a list of labels") as refusal:
        requirement_words(given)

    assert "key=value" in (refusal.value.detail or "")
    assert refusal.value.hint


def test_a_request_says_what_it_requires_and_only_then() -> None:
    given = {"requires": {"gpu": "a100"}}
    assert '"requires":["gpu=a100"]' in request_run("py:a", None, given).as_json()
    assert "requires" not in request_run("py:a").as_json()


def test_what_a_handler_requires_is_the_default_of_its_schedules_and_runs() -> None:
    app = App("postgresql://nobody@localhost/none", "pgcron")

    @app.schedule("0 3 * * *")
    @app.handler(requires={"gpu": "a100"})
    def train() -> None: ...

    app.add_schedule("anywhere", "0 4 * * *", "train", requires={})
    assert app.schedules["train"].requires == ("gpu=a100",)
    assert app.schedules["anywhere"].requires == ()
    requested: list[dict[str, Any]] = [{"handler": "py:train"}]
    requested.append({"handler": "py:train", "requires": []})
    first, second = app._registry.requests(requested, check_args=True)
    assert '"requires":["gpu=a100"]' in first
    assert "requires" not in second
    with pytest.raises(InvalidInput, match="is not a list of labels"):
        app.handler("wrong", requires={"gpu": 1})(lambda: None)


async def test_a_run_of_a_handler_gets_what_the_handler_requires(database: str) -> None:
    connection = await asyncpg.connect(database)
    async with App(database) as app:
        app.handler("train", requires=["gpu"])(lambda: None)
        made = [
            await app.enqueue("train"),
            await app.enqueue("train", requires=["gpu=a100"]),
            await app.enqueue("train", requires=[]),
            *await app.enqueue_many([{"handler": "train"}]),
        ]

    rows = await connection.fetch("SELECT id, requires FROM pgcron.run")
    found = {row["id"]: row["requires"] for row in rows}
    assert [found[run] for run in made] == [["gpu"], ["gpu=a100"], None, ["gpu"]]
    await connection.close()


def test_requests_that_are_not_alike_but_for_their_args_are_judged_each_by_itself() -> None:
    requested = [
        MappingProxyType({"handler": "py:a", "args": {}}),
        MappingProxyType({"handler": "py:b", "args": {}}),
        {"handler": "py:c", "args": {"n": 1}, "requires": {"gpu": "a"}},
        {"handler": "py:c", "args": {"n": 2}, "requires": {"gpu": "b"}},
        {"handler": "py:c", "args": {"n": 3}, "requires": {"gpu": "b"}},
    ]
    made = [json.loads(request) for request in Registry().requests(requested, True)]
    assert [one["handler"] for one in made] == ["py:a", "py:b", "py:c", "py:c", "py:c"]
    assert [one.get("requires") for one in made[2:]] == [["gpu=a"], ["gpu=b"], ["gpu=b"]]
    assert [one["args"] for one in made[2:]] == [{"n": 1}, {"n": 2}, {"n": 3}]
    runs: list[Any] = [{"handler": "py:a", "args": {}, "priority": each} for each in (1, True)]
    with pytest.raises(InvalidInput, match="run 2 of 2: priority True"):
        list(Registry().requests(runs, True))
